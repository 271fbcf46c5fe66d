package redis

import (
	"log/slog"
	"testing"

	"github.com/redis/go-redis/v9"

	"tidings/services"
	"tidings/services/redis/redistest"
)

func TestAProbeTouchesEveryMaster(t *testing.T) {
	url, servers := redistest.ClusterServers(t)
	if keys := connect(t, Options{URL: url}).probeKeys(t.Context()); len(keys) != len(servers) {
		t.Errorf("probes %v for %d masters", keys, len(servers))
	}
}

// An examination leaves no key on any master that stays.
func TestAnExaminationLeavesNothing(t *testing.T) {
	cluster, masters := redistest.ClusterServers(t)
	server := redistest.NewServer(t)
	for url, servers := range map[string][]*redistest.Server{cluster: masters, server.URL(): {server}} {
		for _, finding := range Examine(t.Context(), Options{URL: url, Log: slog.New(slog.DiscardHandler)}) {
			if finding.Severity == services.Failure {
				t.Errorf("%s: %s", url, finding.Text)
			}
		}
		for _, server := range servers {
			client := redis.NewClient(&redis.Options{Addr: server.Addr()})
			keys, err := client.Keys(t.Context(), "*").Result()
			if err != nil || len(keys) != 1 {
				t.Errorf("%s: the keys are %v, %v, want the probe", url, keys, err)
			}
			for _, key := range keys {
				if left, err := client.TTL(t.Context(), key).Result(); err != nil || left <= 0 || left > probeLifetime {
					t.Errorf("%s: %s stays for %v, %v", url, key, left, err)
				}
			}
			_ = client.Close()
		}
	}
}
