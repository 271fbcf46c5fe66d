package redistest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// A set is a master, a replica and three sentinels, of which two must agree that the master is dead.
const (
	sentinels        = 3
	sentinelDeadline = 15 * time.Second // how long a test waits for them
	masterName       = "tidings"
)

// idleSentinels are sets that tests have given back: the sentinels take seconds to find one another.
var idleSentinels struct {
	mu   sync.Mutex
	sets [][]*Server
}

// Sentinel gives this test an empty master with a replica and three sentinels, and returns the URL. A later test reuses the
// servers. A dead master is replaced within a few seconds.
func Sentinel(tb testing.TB) (url string) {
	tb.Helper()
	set := takeIdleSentinels(tb)
	if set == nil {
		set = newSentinels(tb)
	}
	tb.Cleanup(func() { giveBackSentinels(set) })
	return sentinelURL(set)
}

// SentinelServers starts a set for this test alone, and also returns its two data servers: for tests that kill or pause one.
func SentinelServers(tb testing.TB) (url string, master, replica *Server) {
	tb.Helper()
	set := newSentinels(tb)
	tb.Cleanup(func() { removeAll(set) })
	return sentinelURL(set), set[0], set[1]
}

// sentinelURL is the URL of a set: master and replica come first in it, and the sentinels after them.
func sentinelURL(set []*Server) string {
	return "redis+sentinel://" + addresses(set[2:]) + "/" + masterName
}

// newSentinels starts a master, its replica and the sentinels, in this order.
func newSentinels(tb testing.TB) (set []*Server) {
	tb.Helper()
	made := false
	defer func() {
		if !made {
			removeAll(set)
		}
	}()
	// Without a delay the replica gets its first copy at once.
	master := newServer(tb, "repl-diskless-sync-delay 0\n")
	set = append(set, master)
	replica := newServer(tb, fmt.Sprintf("replicaof 127.0.0.1 %d\n", master.port))
	set = append(set, replica)
	await(tb, "the replica has no copy", replica, func(ctx context.Context, client *redis.Client) error {
		return checkInfo(client.Info(ctx, "replication"), "master_link_status:up")
	})
	for range sentinels {
		set = append(set, newSentinel(tb, master))
	}
	for _, s := range set[2:] {
		await(tb, "the sentinels do not know one another", s, checkKnowsAll)
	}
	made = true
	return set
}

// checkKnowsAll checks that a sentinel knows the replica and the other sentinels: only then can it lead a failover.
func checkKnowsAll(ctx context.Context, client *redis.Client) error {
	return checkInfo(client.Info(ctx, "sentinel"), fmt.Sprintf("slaves=1,sentinels=%d", sentinels))
}

// takeIdleSentinels takes an unchanged set that another test has given back; nil if there is none.
func takeIdleSentinels(tb testing.TB) []*Server {
	tb.Helper()
	idleSentinels.mu.Lock()
	defer idleSentinels.mu.Unlock()
	for last := len(idleSentinels.sets) - 1; last >= 0; last-- {
		set := idleSentinels.sets[last]
		idleSentinels.sets = idleSentinels.sets[:last]
		if !isUnchanged(set) { // the machine stalled for so long while the set was idle that the sentinels chose another master
			removeAll(set)
			continue
		}
		for _, s := range set {
			s.tb = tb
		}
		set[0].Flush()
		return set
	}
	return nil
}

// giveBackSentinels keeps an unchanged set for a later test and removes any other.
func giveBackSentinels(set []*Server) {
	if !diesWithUs || !isUnchanged(set) {
		removeAll(set)
		return
	}
	idleSentinels.mu.Lock()
	defer idleSentinels.mu.Unlock()
	idleSentinels.sets = append(idleSentinels.sets, set)
}

// isUnchanged reports whether a set is unchanged: its master is still the first one, and all servers run.
func isUnchanged(set []*Server) bool {
	err := set[0].do(func(ctx context.Context, client *redis.Client) error {
		return errors.Join(checkInfo(client.Info(ctx, "replication"), "role:master"), checkInfo(client.Info(ctx, "replication"), "connected_slaves:1"))
	})
	for _, s := range set[2:] {
		err = errors.Join(err, s.do(checkKnowsAll))
	}
	return err == nil
}

// removeAll ends the servers of a set.
func removeAll(servers []*Server) {
	for _, s := range servers {
		s.remove()
	}
}

// newSentinel starts a sentinel that takes a silent master for dead after a second.
func newSentinel(tb testing.TB, master *Server) *Server {
	tb.Helper()
	settings := fmt.Sprintf("sentinel monitor %[1]s 127.0.0.1 %[2]d 2\nsentinel down-after-milliseconds %[1]s 1000\n"+
		"sentinel failover-timeout %[1]s 5000\n", masterName, master.port)
	return newServerAs(tb, settings, true)
}

// checkInfo checks the answer to INFO for a text.
func checkInfo(info *redis.StringCmd, want string) error {
	text, err := info.Result()
	if err == nil && !strings.Contains(text, want) {
		err = fmt.Errorf("not %s: %s", want, text)
	}
	return err
}

// await repeats a check until it succeeds; what names the condition in the failure.
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
