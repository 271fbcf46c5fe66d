package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// dial makes a client of go-redis that tries once and waits for an answer for 250 ms.
func dial(t *testing.T, url string) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: strings.TrimPrefix(url, "redis://"), Protocol: 2, MaxRetries: -1, DialerRetries: 1,
		ReadTimeout: 250 * time.Millisecond, ContextTimeoutEnabled: true, DisableIdentity: true})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func TestServersShareNoData(t *testing.T) {
	a, b := dial(t, Redis(t)), dial(t, Redis(t))
	if err := a.Set(t.Context(), "key", 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	if n, err := b.Exists(t.Context(), "key").Result(); n != 0 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

func TestAServerEndsWithItsTest(t *testing.T) {
	var server *Server
	var pid int
	t.Run("test", func(t *testing.T) {
		server = NewServer(t)
		pid = server.command.Process.Pid
	})
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d: %v, want no such process", pid, err)
	}
	if _, err := os.Stat(server.folder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its folder: %v", err)
	}
}

func TestFoldersOfEndedBinariesAreRemoved(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	var folders []string
	for _, pid := range []int{ended.Process.Pid, os.Getpid()} {
		folder := filepath.Join(os.TempDir(), fmt.Sprintf("%s%d-1", folderPrefix, pid))
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		folders = append(folders, folder)
	}
	removeStaleFolders()
	if _, err := os.Stat(folders[0]); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the ended binary's: %v", err)
	}
	if _, err := os.Stat(folders[1]); err != nil {
		t.Errorf("our own: %v", err)
	}
}

func TestKillAndStartKeepThePortAndLoseTheData(t *testing.T) {
	server := NewServer(t)
	server.Do("SET", "key", 1)
	addr := server.Addr()
	server.Kill()
	server.Kill() // a dead server stays dead
	if connection, err := net.Dial("tcp", addr); err == nil {
		_ = connection.Close()
		t.Error("a killed server takes connections")
	}
	server.Start()
	if server.Addr() != addr {
		t.Errorf("started on %s, was on %s", server.Addr(), addr)
	}
	if value := server.Do("GET", "key"); value != nil {
		t.Errorf("it still has %v", value)
	}
}

func TestPauseKeepsConnectionsAndAnswersNothing(t *testing.T) {
	server := NewServer(t)
	client := dial(t, server.URL())
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	server.Pause()
	var timeout net.Error
	if err := client.Ping(t.Context()).Err(); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("a paused server: %v, want a time-out", err)
	}
	server.Resume()
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Errorf("a resumed server: %v", err)
	}
}

func TestFlushTakesDataAndScripts(t *testing.T) {
	server := NewServer(t)
	server.Do("SET", "key", 1)
	sha := server.Do("SCRIPT", "LOAD", "return 1")
	server.Flush()
	if n := server.Do("DBSIZE"); n != int64(0) {
		t.Errorf("%v keys", n)
	}
	if there := fmt.Sprint(server.Do("SCRIPT", "EXISTS", sha)); there != "[0]" {
		t.Errorf("scripts: %s", there)
	}
}

func TestAClusterServesEverySlotAndComesBackEmpty(t *testing.T) {
	var first, second string
	t.Run("first", func(t *testing.T) {
		first = Cluster(t)
		client := clusterClient(t, first)
		for i := range 100 {
			if err := client.Set(t.Context(), fmt.Sprint(i), i, 0).Err(); err != nil {
				t.Fatal(err)
			}
		}
	})
	t.Run("second", func(t *testing.T) {
		second = Cluster(t)
		client := clusterClient(t, second)
		for i := range 100 {
			if n, err := client.Exists(t.Context(), fmt.Sprint(i)).Result(); n != 0 || err != nil {
				t.Fatalf("key %d: %d, %v", i, n, err)
			}
		}
	})
	if serversDieWithTestBinary && first != second {
		t.Errorf("a cluster given back whole is not used again: %s, then %s", first, second)
	}
}

// clusterClient makes a client of a cluster.
func clusterClient(t *testing.T, url string) *redis.ClusterClient {
	t.Helper()
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: strings.Split(strings.TrimPrefix(url, "redis+cluster://"), ","), Protocol: 2})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func TestTwoClustersAtOnceAreTwo(t *testing.T) {
	if a, b := Cluster(t), Cluster(t); a == b {
		t.Errorf("both are %s", a)
	}
}

func TestABrokenClusterIsNotUsedAgain(t *testing.T) {
	var broken string
	t.Run("break", func(t *testing.T) {
		url, servers := ClusterServers(t)
		broken = url
		servers[1].Kill()
	})
	for range len(idleClusters.clusters) + 1 {
		if url := Cluster(t); url == broken {
			t.Fatalf("%s has a dead master and is used again", url)
		}
	}
}

func TestAPausedClusterIsResumedForTheNextTest(t *testing.T) {
	var paused string
	t.Run("pause", func(t *testing.T) {
		url, servers := ClusterServers(t)
		paused = url
		servers[2].Pause()
	})
	client := clusterClient(t, Cluster(t))
	if err := client.ForEachMaster(t.Context(), func(ctx context.Context, master *redis.Client) error { return master.Ping(ctx).Err() }); err != nil {
		t.Errorf("after %s was paused: %v", paused, err)
	}
}

func TestSentinelsNameTheMasterAndReplaceIt(t *testing.T) {
	url, master, replica := SentinelServers(t)
	hosts, name, _ := strings.Cut(strings.TrimPrefix(url, "redis+sentinel://"), "/")
	sentinel := redis.NewSentinelClient(&redis.Options{Addr: strings.Split(hosts, ",")[0], Protocol: 2})
	t.Cleanup(func() { _ = sentinel.Close() })
	masterIs := func(want string) error {
		got, err := sentinel.GetMasterAddrByName(t.Context(), name).Result()
		if err == nil && strings.Join(got, ":") != want {
			err = fmt.Errorf("the master is %v, want %s", got, want)
		}
		return err
	}
	if err := masterIs(master.Addr()); err != nil {
		t.Fatal(err)
	}
	master.Kill()
	awaitCheck(t, "the replica does not take over", replica, func(ctx context.Context, client *redis.Client) error {
		if err := checkInfoContains(client.Info(ctx, "replication"), "role:master"); err != nil {
			return err
		}
		return masterIs(replica.Addr())
	})
}

// The next test gets the set of sentinels that a test gives back, emptied. A set whose master has died is not reused.
func TestSentinelsAreUsedAgain(t *testing.T) {
	if !serversDieWithTestBinary {
		return // none is kept
	}
	urls := map[string]string{}
	use := func(name string) {
		t.Run(name, func(t *testing.T) {
			urls[name] = Sentinel(t)
			options, err := redis.ParseURL("redis://" + masterAddress(t, urls[name]))
			if err != nil {
				t.Fatal(err)
			}
			client := redis.NewClient(options)
			defer client.Close()
			if n, err := client.DBSize(t.Context()).Result(); err != nil || n != 0 {
				t.Errorf("%s has %d keys, %v", name, n, err)
			}
			if err := client.Set(t.Context(), "left", "behind", 0).Err(); err != nil {
				t.Error(err)
			}
		})
	}
	use("first")
	use("second")
	idleSentinelSets.sets[len(idleSentinelSets.sets)-1][0].Kill()
	use("third")
	if urls["first"] != urls["second"] || urls["second"] == urls["third"] {
		t.Errorf("the URLs are %v", urls)
	}
}

// masterAddress asks the first sentinel of a URL for the master.
func masterAddress(t *testing.T, url string) string {
	t.Helper()
	hosts, name, _ := strings.Cut(strings.TrimPrefix(url, "redis+sentinel://"), "/")
	sentinel := redis.NewSentinelClient(&redis.Options{Addr: strings.Split(hosts, ",")[0], Protocol: 2})
	defer sentinel.Close()
	master, err := sentinel.GetMasterAddrByName(t.Context(), name).Result()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(master, ":")
}

func TestEachRedisRunsEveryKindOfServer(t *testing.T) {
	kinds := map[string]string{}
	EachRedis(t, func(t *testing.T, url string) {
		_, name, _ := strings.Cut(t.Name(), "/")
		scheme, _, _ := strings.Cut(url, "://")
		kinds[name] = scheme
	})
	if want := map[string]string{"embedded": "embedded", "redis": "redis", "cluster": "redis+cluster"}; fmt.Sprint(kinds) != fmt.Sprint(want) {
		t.Errorf("kinds %v, want %v", kinds, want)
	}
}

// failureRecorder is a test that records its failure instead of failing.
type failureRecorder struct {
	testing.TB
	message string // of Fatalf
}

// Fatalf keeps the message and ends the code under test with a panic.
func (f *failureRecorder) Fatalf(format string, args ...any) {
	f.message = fmt.Sprintf(format, args...)
	panic(f)
}

func TestAMissingServerFailsTheTestAndSaysHowToInstallIt(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	f := &failureRecorder{TB: t}
	func() {
		defer func() { _ = recover() }()
		Redis(f)
	}()
	if !strings.Contains(f.message, "apt-get install redis-server") {
		t.Errorf("failed with %q", f.message)
	}
}
