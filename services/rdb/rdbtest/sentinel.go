package rdbtest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	sentinels        = 3
	sentinelDeadline = 15 * time.Second
	masterName       = "tidings"
)

// Sentinel starts a master, a replica and three sentinels for this test and returns the URL. A dead master is replaced
// within a few seconds.
func Sentinel(tb testing.TB) (url string) {
	tb.Helper()
	url, _, _ = SentinelServers(tb)
	return url
}

// SentinelServers is Sentinel, with the two that hold data: for tests that kill or pause one.
func SentinelServers(tb testing.TB) (url string, master, replica *Server) {
	tb.Helper()
	master = newServer(tb, "repl-diskless-sync-delay 0\n")
	tb.Cleanup(master.remove)
	replica = newServer(tb, fmt.Sprintf("replicaof 127.0.0.1 %d\n", master.port))
	tb.Cleanup(replica.remove)
	await(tb, "the replica has no copy", replica, func(ctx context.Context, client *redis.Client) error {
		return contains(client.Info(ctx, "replication"), "master_link_status:up")
	})
	var watchers []*Server
	for range sentinels {
		s := newSentinel(tb, master)
		tb.Cleanup(s.remove)
		watchers = append(watchers, s)
	}
	for _, s := range watchers {
		await(tb, "the sentinels do not know one another", s, func(ctx context.Context, client *redis.Client) error {
			return contains(client.Info(ctx, "sentinel"), fmt.Sprintf("slaves=1,sentinels=%d", sentinels))
		})
	}
	return "redis+sentinel://" + addresses(watchers) + "/" + masterName, master, replica
}

func newSentinel(tb testing.TB, master *Server) *Server {
	tb.Helper()
	settings := fmt.Sprintf("sentinel monitor %[1]s 127.0.0.1 %[2]d 2\nsentinel down-after-milliseconds %[1]s 1000\n"+
		"sentinel failover-timeout %[1]s 5000\n", masterName, master.port)
	return newServerAs(tb, settings, true)
}

func contains(info *redis.StringCmd, want string) error {
	text, err := info.Result()
	if err == nil && !strings.Contains(text, want) {
		err = fmt.Errorf("not %s: %s", want, text)
	}
	return err
}

func await(tb testing.TB, what string, s *Server, check func(context.Context, *redis.Client) error) {
	tb.Helper()
	deadline := time.Now().Add(sentinelDeadline)
	for err := s.do(check); err != nil; err = s.do(check) {
		if time.Now().After(deadline) {
			tb.Fatalf("%s after %s: %v", what, sentinelDeadline, err)
		}
		time.Sleep(poll)
	}
}
