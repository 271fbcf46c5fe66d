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

// acceptedContent is the content of Redis that a client accepts: "missing", or the count of the reader's feed.
func (v view) acceptedContent() string {
	v.Helper()
	documents, err := v.c.Documents(v.Context(), []services.UserID{reader, reader})
	if err != nil {
		return err.Error()
	}
	one, err := v.c.Documents(v.Context(), []services.UserID{reader})
	if err != nil {
		return err.Error()
	}
	versions, err := v.c.Versions(v.Context(), []services.UserID{reader})
	if err != nil {
		return err.Error()
	}
	page, err := v.c.Inbox(v.Context(), reader, services.MaxPostID, 300)
	if err != nil {
		return err.Error()
	}
	there := documents[0].Ready
	if documents[1].Ready != there || one[0].Ready != there || versions[0] != documents[0].N || page.Ready != there {
		return fmt.Sprintf("documents %v and %v, version %d, page %v: they differ", documents[0].Ready, one[0].Ready, versions[0], page.Ready)
	}
	if !there {
		return "missing"
	}
	return fmt.Sprint(documents[0].FeedCount)
}

// losingStore is a Redis that can lose its last writes. settle makes the present data survive, and lose makes Redis forget everything that
// was written after settle.
type losingStore struct {
	url          string
	settle, lose func()
}

// eachLosing runs a test on each kind of Redis that can lose writes, by a restart or by the failover to an older replica.
func eachLosing(t *testing.T, run func(t *testing.T, store losingStore)) {
	restarted := func(servers ...*redistest.Server) losingStore {
		return losingStore{settle: func() {
			for _, s := range servers {
				s.Do("SAVE")
			}
		}, lose: func() {
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
		run(t, losingStore{url: url, settle: func() {
			master.Do("WAIT", 1, 5000)
			replica.Pause() // it takes over without the later writes
			master.Do("CLIENT", "KILL", "TYPE", "replica")
		}, lose: func() {
			master.Kill()
			replica.Resume()
		}})
	})
}

// After Redis comes back with older data, no node accepts that data, and every node accepts what is built from then on.
func TestDataFromBeforeLostWritesIsRejected(t *testing.T) {
	eachLosing(t, func(t *testing.T, store losingStore) {
		v := view{t, connect(t, redis.Options{URL: store.url, Node: "one"})}
		second := view{t, connect(t, redis.Options{URL: store.url, Node: "two"})}
		v.build(FeedFacts{Entries: makeEntries(1, 3, counted)})
		v.must(v.c.PutCopies(v.Context(), []services.Post{{ID: 1, Author: 2, Body: "old", UpdatedAt: time.UnixMicro(1)}}, []services.User{{Number: reader, Key: "old"}}))
		store.settle()
		v.must(v.c.PutCopies(v.Context(), []services.Post{{ID: 1, Author: 2, Deleted: true, UpdatedAt: time.UnixMicro(2)}}, nil))
		if result := v.add(v.stamp(), counted(4)); result.Status != redis.Applied || v.acceptedContent() != "4" || second.acceptedContent() != "4" {
			t.Fatalf("%+v, then %s and %s", result, v.acceptedContent(), second.acceptedContent())
		}
		store.lose()

		for name, node := range map[string]view{"one": v, "two": second} {
			eventually.Succeeds(t, 20*time.Second, "Redis answers node "+name, func() error {
				if _, err := node.c.Documents(t.Context(), []services.UserID{reader}); err != nil {
					return err
				}
				_, _, err := node.c.Copies(t.Context(), []services.PostID{1}, nil) // in a cluster another master may hold them
				return err
			})
			if got := node.acceptedContent(); got != "missing" {
				t.Errorf("node %s: %s of a Redis that has lost writes, want it missing", name, got)
			}
			if found, users, err := node.c.Copies(t.Context(), []services.PostID{1}, []services.UserID{reader}); err != nil || len(found)+len(users) > 0 {
				t.Errorf("node %s: copies %v and %v, %v", name, found, users, err)
			}
		}
		if v.field("fc") != "3" {
			t.Fatalf("the old document is not there: fc is %q", v.field("fc"))
		}
		v.build(FeedFacts{Entries: makeEntries(1, 4, counted)})
		v.must(second.c.CheckEpoch(t.Context())) // as Watch does, which finds new masters
		if v.acceptedContent() != "4" || second.acceptedContent() != "4" {
			t.Errorf("rebuilt, %s and %s, want 4", v.acceptedContent(), second.acceptedContent())
		}
		n := v.document().N
		second.begin(false)
		if second.document().N != n || v.acceptedContent() != "4" {
			t.Error("the second node begins anew what the first has built")
		}
	})
}

// A rebuild in a new epoch keeps nothing of the old one, and its version is greater.
func TestARebuildInANewEpochKeepsNothing(t *testing.T) {
	eachView(t, func(v view) {
		v.build(FeedFacts{Entries: makeEntries(1, 9, counted), Seen: 5})
		_, err := v.c.PutRegisters(v.Context(), []Registers{{User: reader, Fields: []Register{SegmentRegister(services.SegmentState{Version: 7, Bits: 3})}}})
		v.must(err)
		v.must(v.c.Commands().HSet(v.Context(), conversationsKey(reader), "17", "1;2").Err())
		v.set("Cu", "4")
		v.set("n", uint64(9_000_000_000_000_000))
		v.set("e", "4711")
		if got := v.acceptedContent(); got != "missing" {
			v.Errorf("of another epoch: %s", got)
		}
		v.build(FeedFacts{Entries: makeEntries(20, 21, counted)})
		d := v.document()
		if d.N <= 9_000_000_000_000_000 || d.FeedCount != 2 || d.Seen != 0 || d.Segments.Version != 0 || d.Conversations.Unread != 0 {
			v.Errorf("taken over: %+v", d)
		}
		if n, err := v.c.Commands().Exists(v.Context(), conversationsKey(reader)).Result(); n != 0 || err != nil {
			v.Errorf("the conversations are still there: %v", err)
		}
		v.want("the feed", v.build(FeedFacts{}), redis.Applied, "2", counted(20), counted(21))
	})
}

func TestADocumentOlderThanWhatWasShownIsLost(t *testing.T) {
	eachView(t, func(v view) {
		v.build(FeedFacts{Entries: makeEntries(1, 3, counted)})
		n := v.document().N
		lost := func(shown uint64) {
			v.must(v.c.MarkLost(v.Context(), []services.UserID{reader, other}, []uint64{shown, shown}))
		}
		lost(n)
		lost(n - 1)
		if v.document().N != n {
			v.Errorf("a document that is new enough is lost: %+v", v.document())
		}
		const shown = 9_000_000_000_000_000
		lost(shown)
		if got := v.acceptedContent(); got != "missing" {
			v.Errorf("an old document is accepted: %s", got)
		}
		if v.build(FeedFacts{Entries: makeEntries(1, 3, counted)}); v.document().N <= shown {
			v.Errorf("made again with version %d, not above %d", v.document().N, uint64(shown))
		}
	})
}

// Two nodes on a cluster: the node that has not noticed a failover does not discard what the other has built.
func TestANodeUnawareOfAFailoverKeepsNewDocuments(t *testing.T) {
	url, servers := redistest.ClusterServers(t)
	v, late := view{t, connect(t, redis.Options{URL: url})}, view{t, connect(t, redis.Options{URL: url})}
	for _, master := range servers {
		master.Do("DEBUG", "CHANGE-REPL-ID")
	}
	v.must(v.c.CheckEpoch(t.Context()))
	v.build(FeedFacts{Entries: makeEntries(1, 3, counted)})
	if got := late.acceptedContent(); got != "missing" {
		t.Fatalf("the late node believes %s", got)
	}
	<-time.After(300 * time.Millisecond) // the last answer is valid for this long: no master is asked again
	late.begin(false)
	if late.acceptedContent() != "3" || v.acceptedContent() != "3" {
		t.Errorf("begun again by the late node: %s and %s, want 3", late.acceptedContent(), v.acceptedContent())
	}
}

// The watch finds the promotion of a replica while all connections stay open.
func TestTheWatchFindsAPromotionBehindOpenConnections(t *testing.T) {
	server := redistest.NewServer(t)
	v := view{t, connect(t, redis.Options{URL: server.URL()})}
	v.build(FeedFacts{Entries: makeEntries(1, 3, counted)})
	ctx, stop := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() { _ = v.c.Watch(ctx) })
	defer watching.Wait()
	defer stop()
	server.Do("REPLICAOF", "127.0.0.1", "1")
	server.Do("REPLICAOF", "NO", "ONE")
	eventually.Succeeds(t, 5*time.Second, "the new lineage is known", func() error {
		if got := v.acceptedContent(); got != "missing" {
			return fmt.Errorf("%s", got)
		}
		return nil
	})
}
