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
	sentinelCount        = 3
	sentinelStartTimeout = 15 * time.Second // how long a test waits for the servers of a set
	masterName           = "tidings"        // the name by which the sentinels know the master
)

// idleSentinelSets are sets that tests have given back: the sentinels take seconds to find one another.
var idleSentinelSets struct {
	mu   sync.Mutex
	sets [][]*Server // each has the master, the replica and the sentinels, in this order
}

// Sentinel gives this test an empty master with a replica and three sentinels, and returns the URL. A later test reuses the
// servers. A dead master is replaced within a few seconds.
func Sentinel(tb testing.TB) (url string) {
	tb.Helper()
	set := takeIdleSentinelSet(tb)
	if set == nil {
		set = newSentinelSet(tb)
	}
	tb.Cleanup(func() { giveBackSentinelSet(set) })
	return sentinelURL(set)
}

// SentinelServers starts a set for this test alone, and also returns its two data servers: for tests that kill or pause one.
func SentinelServers(tb testing.TB) (url string, master, replica *Server) {
	tb.Helper()
	set := newSentinelSet(tb)
	tb.Cleanup(func() { removeServers(set) })
	return sentinelURL(set), set[0], set[1]
}

// sentinelURL is the URL of a set, with the addresses of its sentinels: in the set they come after the master and the replica.
func sentinelURL(set []*Server) string {
	return "redis+sentinel://" + addresses(set[2:]) + "/" + masterName
}

// newSentinelSet starts a master, its replica and the sentinels, in this order.
func newSentinelSet(tb testing.TB) (set []*Server) {
	tb.Helper()
	made := false
	defer func() {
		if !made {
			removeServers(set)
		}
	}()
	// Without a delay the replica gets its first copy at once.
	master := newServer(tb, "repl-diskless-sync-delay 0\n")
	set = append(set, master)
	replica := newServer(tb, fmt.Sprintf("replicaof 127.0.0.1 %d\n", master.port))
	set = append(set, replica)
	awaitCheck(tb, "the replica has no copy", replica, func(ctx context.Context, client *redis.Client) error {
		return checkInfoContains(client.Info(ctx, "replication"), "master_link_status:up")
	})
	for range sentinelCount {
		set = append(set, newSentinel(tb, master))
	}
	for _, s := range set[2:] {
		awaitCheck(tb, "the sentinels do not know one another", s, checkSentinelKnowsAll)
	}
	made = true
	return set
}

// checkSentinelKnowsAll checks that a sentinel knows the replica and the other sentinels: only then can it lead a failover.
func checkSentinelKnowsAll(ctx context.Context, client *redis.Client) error {
	return checkInfoContains(client.Info(ctx, "sentinel"), fmt.Sprintf("slaves=1,sentinels=%d", sentinelCount))
}

// takeIdleSentinelSet takes an unchanged set that another test has given back; nil if there is none.
func takeIdleSentinelSet(tb testing.TB) []*Server {
	tb.Helper()
	idleSentinelSets.mu.Lock()
	defer idleSentinelSets.mu.Unlock()
	for last := len(idleSentinelSets.sets) - 1; last >= 0; last-- {
		set := idleSentinelSets.sets[last]
		idleSentinelSets.sets = idleSentinelSets.sets[:last]
		if !isSentinelSetUnchanged(set) { // the machine stalled for so long while the set was idle that the sentinels chose another master
			removeServers(set)
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

// giveBackSentinelSet keeps an unchanged set for a later test and removes any other.
func giveBackSentinelSet(set []*Server) {
	if !serversDieWithTestBinary || !isSentinelSetUnchanged(set) {
		removeServers(set)
		return
	}
	idleSentinelSets.mu.Lock()
	defer idleSentinelSets.mu.Unlock()
	idleSentinelSets.sets = append(idleSentinelSets.sets, set)
}

// isSentinelSetUnchanged reports whether a set is unchanged: its master is still the first one, and all servers run.
func isSentinelSetUnchanged(set []*Server) bool {
	err := set[0].runCommands(func(ctx context.Context, client *redis.Client) error {
		return errors.Join(checkInfoContains(client.Info(ctx, "replication"), "role:master"), checkInfoContains(client.Info(ctx, "replication"), "connected_slaves:1"))
	})
	for _, s := range set[2:] {
		err = errors.Join(err, s.runCommands(checkSentinelKnowsAll))
	}
	return err == nil
}

// removeServers ends the servers of a set.
func removeServers(servers []*Server) {
	for _, s := range servers {
		s.remove()
	}
}

// newSentinel starts a sentinel that takes a silent master for dead after a second.
func newSentinel(tb testing.TB, master *Server) *Server {
	tb.Helper()
	settings := fmt.Sprintf("sentinel monitor %[1]s 127.0.0.1 %[2]d 2\nsentinel down-after-milliseconds %[1]s 1000\n"+
		"sentinel failover-timeout %[1]s 5000\n", masterName, master.port)
	return newServerOrSentinel(tb, settings, true)
}

// checkInfoContains checks the answer to INFO for a text.
func checkInfoContains(info *redis.StringCmd, want string) error {
	text, err := info.Result()
	if err == nil && !strings.Contains(text, want) {
		err = fmt.Errorf("not %s: %s", want, text)
	}
	return err
}

// awaitCheck repeats a check until it succeeds; what names the condition in the failure.
func awaitCheck(tb testing.TB, what string, s *Server, check func(context.Context, *redis.Client) error) {
	tb.Helper()
	deadline := time.Now().Add(sentinelStartTimeout)
	for err := s.runCommands(check); err != nil; err = s.runCommands(check) {
		if time.Now().After(deadline) {
			tb.Fatalf("%s after %s: %v", what, sentinelStartTimeout, err)
		}
		time.Sleep(pollInterval)
	}
}
