package redis

import (
	"testing"

	"tidings/services/redis/redistest"
)

func TestAProbeTouchesEveryMaster(t *testing.T) {
	url, servers := redistest.ClusterServers(t)
	if keys := connect(t, Options{URL: url}).probeKeys(t.Context()); len(keys) != len(servers) {
		t.Errorf("probes %v for %d masters", keys, len(servers))
	}
}
