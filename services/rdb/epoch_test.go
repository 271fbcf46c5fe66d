package rdb

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/redis"
	"tidings/services/redis/redistest"
	"tidings/tests/eventually"
)

// feedCountOrMissing is the content of Redis that a client accepts: "missing", or the count of the reader's feed.
func (v feedTest) feedCountOrMissing() string {
	v.Helper()
	documents, err := v.projections.Documents(v.Context(), []services.UserID{reader, reader})
	if err != nil {
		return err.Error()
	}
	one, err := v.projections.Documents(v.Context(), []services.UserID{reader})
	if err != nil {
		return err.Error()
	}
	versions, err := v.projections.DocumentVersions(v.Context(), []services.UserID{reader})
	if err != nil {
		return err.Error()
	}
	page, err := v.projections.Inbox(v.Context(), reader, services.MaxPostID, 300)
	if err != nil {
		return err.Error()
	}
	there := documents[0].Ready
	if documents[1].Ready != there || one[0].Ready != there || versions[0] != documents[0].Version || page.Ready != there {
		return fmt.Sprintf("documents %v and %v, version %d, page %v: they differ", documents[0].Ready, one[0].Ready, versions[0], page.Ready)
	}
	if !there {
		return "missing"
	}
	return fmt.Sprint(documents[0].FeedCount)
}

// lossyRedis is a Redis that can lose its last writes. saveData makes the present data survive, and loseUnsaved makes Redis forget
// everything that was written after saveData.
type lossyRedis struct {
	url                   string
	saveData, loseUnsaved func()
}

// eachLossyRedis runs a test on each kind of Redis that can lose writes, by a restart or by the failover to an older replica.
func eachLossyRedis(t *testing.T, run func(t *testing.T, store lossyRedis)) {
	restarted := func(servers ...*redistest.Server) lossyRedis {
		return lossyRedis{saveData: func() {
			for _, s := range servers {
				s.Do("SAVE")
			}
		}, loseUnsaved: func() {
			for _, s := range servers {
				s.Kill()
				s.Start()
			}
		}}
	}
	t.Run("single", func(t *testing.T) {
		server := redistest.NewServer(t)
		lossy := restarted(server)
		lossy.url = server.URL()
		run(t, lossy)
	})
	t.Run("cluster", func(t *testing.T) {
		url, servers := redistest.ClusterServers(t)
		lossy := restarted(servers...)
		lossy.url = url
		run(t, lossy)
	})
	t.Run("sentinel", func(t *testing.T) {
		url, master, replica := redistest.SentinelServers(t)
		run(t, lossyRedis{url: url, saveData: func() {
			master.Do("WAIT", 1, 5000)
			replica.Pause() // it takes over without the later writes
			master.Do("CLIENT", "KILL", "TYPE", "replica")
		}, loseUnsaved: func() {
			master.Kill()
			replica.Resume()
		}})
	})
}

// After Redis comes back with older data, no node accepts that data, and every node accepts what is built from then on.
func TestDataFromBeforeLostWritesIsRejected(t *testing.T) {
	eachLossyRedis(t, func(t *testing.T, store lossyRedis) {
		v := feedTest{t, openProjections(t, redis.Options{URL: store.url, NodeID: "one"})}
		second := feedTest{t, openProjections(t, redis.Options{URL: store.url, NodeID: "two"})}
		v.buildFromFacts(FeedFacts{Entries: makeEntries(1, 3, countedEntry)})
		v.must(v.projections.PutCopies(v.Context(), []services.Post{{ID: 1, Author: 2, Body: "old", UpdatedAt: time.UnixMicro(1)}}, []services.User{{ID: reader, Key: "old"}}))
		store.saveData()
		v.must(v.projections.PutCopies(v.Context(), []services.Post{{ID: 1, Author: 2, Deleted: true, UpdatedAt: time.UnixMicro(2)}}, nil))
		if result := v.addEntry(v.takeStamp(), countedEntry(4)); result.Status != redis.Applied || v.feedCountOrMissing() != "4" || second.feedCountOrMissing() != "4" {
			t.Fatalf("%+v, then %s and %s", result, v.feedCountOrMissing(), second.feedCountOrMissing())
		}
		store.loseUnsaved()

		for name, node := range map[string]feedTest{"one": v, "two": second} {
			eventually.Succeeds(t, 20*time.Second, "Redis answers node "+name, func() error {
				if _, err := node.projections.Documents(t.Context(), []services.UserID{reader}); err != nil {
					return err
				}
				_, _, err := node.projections.Copies(t.Context(), []services.PostID{1}, nil) // in a cluster another master may hold them
				return err
			})
			if got := node.feedCountOrMissing(); got != "missing" {
				t.Errorf("node %s: %s of a Redis that has lost writes, want it missing", name, got)
			}
			if found, users, err := node.projections.Copies(t.Context(), []services.PostID{1}, []services.UserID{reader}); err != nil || len(found)+len(users) > 0 {
				t.Errorf("node %s: copies %v and %v, %v", name, found, users, err)
			}
		}
		if v.readField("fc") != "3" {
			t.Fatalf("the old document is not there: fc is %q", v.readField("fc"))
		}
		v.buildFromFacts(FeedFacts{Entries: makeEntries(1, 4, countedEntry)})
		v.must(second.projections.Client.CheckEpoch(t.Context())) // as WatchMasters does, which finds new masters
		if v.feedCountOrMissing() != "4" || second.feedCountOrMissing() != "4" {
			t.Errorf("rebuilt, %s and %s, want 4", v.feedCountOrMissing(), second.feedCountOrMissing())
		}
		n := v.readDocument().Version
		second.beginRebuild(false)
		if second.readDocument().Version != n || v.feedCountOrMissing() != "4" {
			t.Error("the second node begins anew what the first has built")
		}
	})
}

// A rebuild in a new epoch keeps nothing of the old one, and its version is greater.
func TestARebuildInANewEpochKeepsNothing(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		v.buildFromFacts(FeedFacts{Entries: makeEntries(1, 9, countedEntry), SeenUpTo: 5})
		_, err := v.projections.PutVersionedFields(v.Context(), []VersionedFields{{User: reader, Fields: []VersionedField{SegmentVersionedField(services.SegmentState{Version: 7, Bits: 3})}}})
		v.must(err)
		v.must(v.projections.Client.Commands().HSet(v.Context(), conversationsKey(reader), "17", "1;2").Err())
		v.writeField("Cu", "4")
		v.writeField("n", uint64(9_000_000_000_000_000))
		v.writeField("e", "4711")
		if got := v.feedCountOrMissing(); got != "missing" {
			v.Errorf("of another epoch: %s", got)
		}
		v.buildFromFacts(FeedFacts{Entries: makeEntries(20, 21, countedEntry)})
		d := v.readDocument()
		if d.Version <= 9_000_000_000_000_000 || d.FeedCount != 2 || d.FeedSeenUpTo != 0 || d.Segments.Version != 0 || d.Conversations.Unread != 0 {
			v.Errorf("taken over: %+v", d)
		}
		if n, err := v.projections.Client.Commands().Exists(v.Context(), conversationsKey(reader)).Result(); n != 0 || err != nil {
			v.Errorf("the conversations are still there: %v", err)
		}
		v.wantFeed("the feed", v.buildFromFacts(FeedFacts{}), redis.Applied, "2", countedEntry(20), countedEntry(21))
	})
}

func TestADocumentOlderThanAShownVersionIsLost(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		v.buildFromFacts(FeedFacts{Entries: makeEntries(1, 3, countedEntry)})
		n := v.readDocument().Version
		lost := func(shown uint64) {
			v.must(v.projections.MarkDocumentsLost(v.Context(), []services.UserID{reader, otherUser}, []uint64{shown, shown}))
		}
		lost(n)
		lost(n - 1)
		if v.readDocument().Version != n {
			v.Errorf("a document that is new enough is lost: %+v", v.readDocument())
		}
		const shown = 9_000_000_000_000_000
		lost(shown)
		if got := v.feedCountOrMissing(); got != "missing" {
			v.Errorf("an old document is accepted: %s", got)
		}
		if v.buildFromFacts(FeedFacts{Entries: makeEntries(1, 3, countedEntry)}); v.readDocument().Version <= shown {
			v.Errorf("made again with version %d, not above %d", v.readDocument().Version, uint64(shown))
		}
	})
}

// Two nodes on a cluster: the node that has not noticed a failover does not discard what the other has built.
func TestANodeUnawareOfAFailoverKeepsNewDocuments(t *testing.T) {
	url, servers := redistest.ClusterServers(t)
	v, late := feedTest{t, openProjections(t, redis.Options{URL: url})}, feedTest{t, openProjections(t, redis.Options{URL: url})}
	for _, master := range servers {
		master.Do("DEBUG", "CHANGE-REPL-ID")
	}
	v.must(v.projections.Client.CheckEpoch(t.Context()))
	v.buildFromFacts(FeedFacts{Entries: makeEntries(1, 3, countedEntry)})
	if got := late.feedCountOrMissing(); got != "missing" {
		t.Fatalf("the late node believes %s", got)
	}
	<-time.After(300 * time.Millisecond) // the last answer is valid for this long: no master is asked again
	late.beginRebuild(false)
	if late.feedCountOrMissing() != "3" || v.feedCountOrMissing() != "3" {
		t.Errorf("begun again by the late node: %s and %s, want 3", late.feedCountOrMissing(), v.feedCountOrMissing())
	}
}

// WatchMasters finds the promotion of a replica, and so the new lineage, while all connections stay open.
func TestTheWatchFindsAPromotionBehindOpenConnections(t *testing.T) {
	server := redistest.NewServer(t)
	v := feedTest{t, openProjections(t, redis.Options{URL: server.URL()})}
	v.buildFromFacts(FeedFacts{Entries: makeEntries(1, 3, countedEntry)})
	ctx, stop := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() { _ = v.projections.Client.WatchMasters(ctx) })
	defer watching.Wait()
	defer stop()
	server.Do("REPLICAOF", "127.0.0.1", "1")
	server.Do("REPLICAOF", "NO", "ONE")
	eventually.Succeeds(t, 5*time.Second, "the new lineage is known", func() error {
		if got := v.feedCountOrMissing(); got != "missing" {
			return fmt.Errorf("%s", got)
		}
		return nil
	})
}
