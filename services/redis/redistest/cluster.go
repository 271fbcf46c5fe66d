package redistest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// The constants are the shape of a cluster. With three masters one can be lost, and the other two still agree. A silent node
// counts as dead after two seconds, so that tests of a lost master are short.
const (
	masterCount         = 3
	slotCount           = 16384            // of every cluster, by Redis' own rule
	clusterStartTimeout = 10 * time.Second // for starting a cluster
	clusterSettings     = "cluster-enabled yes\ncluster-config-file nodes.conf\ncluster-node-timeout 2000\n"
)

// idleClusters are clusters that tests have given back: making one takes seconds, emptying one nearly nothing.
var idleClusters struct {
	mu       sync.Mutex
	clusters [][]*Server
}

// Cluster gives this test an empty cluster of three masters and returns its URL. A later test reuses it.
func Cluster(tb testing.TB) (url string) {
	tb.Helper()
	url, _ = ClusterServers(tb)
	return url
}

// ClusterServers gives this test an empty cluster of three masters, as Cluster does, and returns its URL and the masters, for tests
// that kill, pause or flush one. Leave the cluster whole: it is not reused if a master is not running.
func ClusterServers(tb testing.TB) (url string, servers []*Server) {
	tb.Helper()
	servers = takeIdleCluster(tb)
	if servers == nil {
		servers = newCluster(tb)
	}
	tb.Cleanup(func() { giveBackCluster(servers) })
	return "redis+cluster://" + addresses(servers), servers
}

// addresses lists the servers' addresses, with commas as in a URL.
func addresses(servers []*Server) string {
	list := make([]string, len(servers))
	for i, s := range servers {
		list[i] = s.Addr()
	}
	return strings.Join(list, ",")
}

// takeIdleCluster takes a cluster that another test has given back, and empties it; nil if there is none.
func takeIdleCluster(tb testing.TB) []*Server {
	tb.Helper()
	idleClusters.mu.Lock()
	var servers []*Server
	if last := len(idleClusters.clusters) - 1; last >= 0 {
		servers, idleClusters.clusters = idleClusters.clusters[last], idleClusters.clusters[:last]
	}
	idleClusters.mu.Unlock()
	// All servers get the new test first, because Flush reports failures to it.
	for _, s := range servers {
		s.tb = tb
	}
	for _, s := range servers {
		s.Flush()
	}
	return servers
}

// giveBackCluster keeps a whole cluster for a later test and removes any other. The test may have left a server paused: it is
// resumed first.
func giveBackCluster(servers []*Server) {
	// Where serversDieWithTestBinary is false, a server that is kept would outlive the test binary.
	whole := serversDieWithTestBinary
	for _, s := range servers {
		if whole && s.command != nil {
			_ = s.command.Process.Signal(resumeSignal)
		}
		whole = whole && s.command != nil && s.runCommands(checkClusterReady) == nil
	}
	if !whole {
		for _, s := range servers {
			s.remove()
		}
		return
	}
	idleClusters.mu.Lock()
	idleClusters.clusters = append(idleClusters.clusters, servers)
	idleClusters.mu.Unlock()
}

// newCluster starts the masters, gives each a third of the slots, and waits until each master knows the others.
func newCluster(tb testing.TB) []*Server {
	tb.Helper()
	var servers []*Server
	made := false
	defer func() {
		if !made {
			for _, s := range servers {
				s.remove()
			}
		}
	}()
	for range masterCount {
		servers = append(servers, newServer(tb, clusterSettings))
	}
	for i, s := range servers {
		s.mustRunCommands("join the cluster", func(ctx context.Context, client *redis.Client) error {
			if err := client.ClusterAddSlotsRange(ctx, i*slotCount/masterCount, (i+1)*slotCount/masterCount-1).Err(); err != nil {
				return err
			}
			// Each master needs a configuration epoch of its own (a number of Redis Cluster): otherwise the masters disagree about slots for some
			// seconds.
			if err := client.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(); err != nil {
				return err
			}
			return client.ClusterMeet(ctx, "127.0.0.1", fmt.Sprint(servers[0].port)).Err()
		})
	}
	deadline := time.Now().Add(clusterStartTimeout)
	for _, s := range servers {
		for err := s.runCommands(checkClusterReady); err != nil; err = s.runCommands(checkClusterReady) {
			if time.Now().After(deadline) {
				tb.Fatalf("the cluster is not ready after %s: %v", clusterStartTimeout, err)
			}
			time.Sleep(pollInterval)
		}
	}
	made = true
	return servers
}

// checkClusterReady checks that a node knows all other nodes and all slots.
func checkClusterReady(ctx context.Context, client *redis.Client) error {
	info, err := client.ClusterInfo(ctx).Result()
	if err != nil {
		return err
	}
	for _, want := range []string{"cluster_state:ok", fmt.Sprintf("cluster_slots_assigned:%d", slotCount), fmt.Sprintf("cluster_known_nodes:%d", masterCount)} {
		if !strings.Contains(info, want+"\r\n") {
			return fmt.Errorf("not %s: %s", want, info)
		}
	}
	return nil
}
