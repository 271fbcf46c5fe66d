package badge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidings/services"
	"tidings/services/announcements"
	"tidings/services/changelog"
	"tidings/services/chat"
	"tidings/services/jobs"
	"tidings/services/live"
	"tidings/services/live/livetest"
	"tidings/services/nodecache"
	"tidings/tests/histories"
)

// The streams that a badge shows beside its own document.
const (
	announcementStream = "announcements and dots"
	pullStream         = "pulled posts"
	showStream         = "shows"
	roomStream         = "rooms"
)

var streams = []string{announcementStream, pullStream, showStream, roomStream}

// gate restricts a node to reading one stream of the facts.
type gate struct {
	nodecache.SQL
	mu         sync.Mutex
	openStream string // the readable stream; "": all
}

var errGate = errors.New("the gate is closed")

// checkOpen returns an error for a stream that cannot be read now.
func (g *gate) checkOpen(stream string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.openStream == "" || g.openStream == stream {
		return nil
	}
	return errGate
}

func (g *gate) LogAfter(ctx context.Context, kind string, version uint64, limit int) ([]changelog.Entry, error) {
	stream := map[string]string{announcements.LogKind: announcementStream, nodecache.LogPull: pullStream, live.LogKind: showStream}[kind]
	if err := g.checkOpen(stream); err != nil {
		return nil, err
	}
	return changelog.LogAfter(ctx, g.DB, kind, version, limit)
}

func (g *gate) Heads(ctx context.Context, ids []services.ConversationID) ([]chat.Head, error) {
	if err := g.checkOpen(roomStream); err != nil {
		return nil, err
	}
	return chat.Heads(ctx, g.DB, ids)
}

// learner is one node: a cache that learns the streams in any order, and a device that subscribes to the node.
type learner struct {
	node
	gate   *gate
	device *services.Badges // what the device shows
}

// newLearner makes a learner on a further node, which has learned all streams.
func (n node) newLearner() *learner {
	n.TB.Helper()
	g := &gate{SQL: nodecache.SQL{DB: n.Store}}
	w := n.World.AnotherNode()
	w.Caches = nodecache.New(nodecache.Config{Facts: g, Redis: w.Redis, Clock: w.Clock, Log: w.Log})
	l := &learner{node: newNodeWith(w, g, live.ShowLimits{}), gate: g}
	l.learn("")
	return l
}

// learn updates the cache with one stream, or with all.
func (l *learner) learn(stream string) {
	l.TB.Helper()
	l.gate.mu.Lock()
	l.gate.openStream = stream
	l.gate.mu.Unlock()
	if _, err := l.Caches.Changelog.RunOnce(l.TB.Context()); err != nil && stream == "" {
		l.TB.Fatal(err)
	}
}

// push pushes the node's present badges to the device.
func (l *learner) push(user services.UserID) {
	if badges := l.read(user); l.device == nil || badges.Version > l.device.Version {
		l.device = badges
	}
}

// visibleText prints the visible part of badges.
func visibleText(badges *services.Badges) string {
	return fmt.Sprintf("%d posts, %d announcements, %d messages, %d live, dots %v, quiet %t", badges.HomeFeed.Value,
		badges.Announcements.Value, badges.Conversations.Total.Value, badges.LiveBoard.Value, badges.Dots, badges.Quiet)
}

// audience is a reader with unread items of every stream.
type audience struct {
	reader, huge, speaker services.UserID
	host                  services.UserID
	room                  services.ConversationID
	posts                 []services.PostID // of the author huge
	applyOwn              func(l *learner)  // applies the last change to l, as if l had made it: before l reads the log
	show                  services.PostID   // of the host
	announcement          services.PostID   // the last one; 0: none yet
}

// newAudience makes a reader who follows an author, a host and a room.
func (n node) newAudience() *audience {
	n.TB.Helper()
	reader, huge, _ := n.newFollower()
	users := n.MakeUsers(2)
	a := &audience{reader: reader, huge: huge, host: users[0], speaker: users[1]}
	n.Follow(a.host, reader)
	a.show = livetest.Schedule(n.World, a.host, time.Hour)
	a.room = n.makeRoom(a.speaker, reader, a.host)
	n.settle()
	n.read(reader)
	return a
}

// commit changes one stream in SQL, and changes nothing of the reader's own.
func (n node) commit(t *rapid.T, a *audience, stream string) {
	n.TB.Helper()
	switch stream {
	case announcementStream:
		n.announceAny(t, a)
	case pullStream:
		change := nodecache.PullChange{Author: a.huge}
		if change.Deleted = len(a.posts) > 0 && rapid.Bool().Draw(t, "delete"); change.Deleted {
			change.Post = a.posts[0]
			n.World.Delete(change.Post)
			a.posts = a.posts[1:]
		} else {
			change.Post = n.Post(a.huge)
			a.posts = append(a.posts, change.Post)
		}
		version, _, err := changelog.LogHead(n.TB.Context(), n.Store, nodecache.LogPull)
		n.Must(err)
		a.applyOwn = func(l *learner) { l.Caches.Pulled.ApplyOwnChange(change, version) }
	case showStream:
		if a.show == 0 {
			a.show = livetest.Schedule(n.World, a.host, time.Hour)
			n.RunAllJobs(n.World.Fanout)
		}
		if rapid.Bool().Draw(t, "end") {
			livetest.End(n.World, n.Clock.Now(), a.show)
			a.show = 0
		} else {
			livetest.Start(n.World, a.show)
		}
		a.applyOwn = func(l *learner) { l.learn(showStream) }
	case roomStream:
		message, err := services.ParseMessageID("id", n.do(n.chat.Send(a.speaker, a.room, "hello", nil))[0])
		n.Must(err)
		a.applyOwn = func(l *learner) {
			l.chat.Sequences.Raise(chat.Head{Conversation: a.room, Number: message.Number(), At: n.Clock.Now()})
		}
	}
}

// announceAny raises a dot, publishes an announcement that ends soon, or moves the end of the last one.
func (n node) announceAny(t *rapid.T, a *audience) {
	n.TB.Helper()
	do := func(cmd *jobs.Command, err error) {
		n.Must(err)
		n.Must(n.World.Fanout.Commit(n.TB.Context(), cmd)[0])
	}
	switch what := rapid.IntRange(0, 2).Draw(t, "announcement"); {
	case what == 0:
		do(n.announcements.RaiseDot("shop", nil))
	case what == 1 && a.announcement != 0:
		end := n.Clock.Now().Add(time.Second)
		do(n.announcements.Edit(a.announcement, announcements.Edit{EndsAt: &end}))
	default:
		a.announcement = n.announce(time.Duration(rapid.IntRange(1, 3).Draw(t, "s")) * time.Second)
	}
	a.applyOwn = func(l *learner) { _ = l.announcements.Memory.Refresh(l.TB.Context()) }
}

// Several nodes learn several streams: each stream in its own order, the streams in any order relative to each other, and a
// node's own changes first. Some nodes restart. When nothing changes any more, every device shows the right state, whether it
// stayed at one node or changed nodes. All nodes agree, also one that has just started.
func TestEveryDeviceConverges(t *testing.T) {
	n := served(t)
	histories.Reduce(t, 2)
	rapid.Check(t, func(t *rapid.T) {
		a := n.newAudience()
		nodes := []*learner{n.newLearner(), n.newLearner(), n.newLearner()}
		for _, l := range nodes {
			l.push(a.reader)
		}
		roaming := nodes[0].read(a.reader)
		roam := func(l *learner) {
			if badges := l.read(a.reader); badges.Version > roaming.Version {
				roaming = badges
			}
		}
		for range rapid.IntRange(4, 24).Draw(t, "steps") {
			l := rapid.SampledFrom(nodes).Draw(t, "node")
			switch stream := rapid.SampledFrom(streams).Draw(t, "stream"); rapid.IntRange(0, 9).Draw(t, "what") {
			case 0, 1, 2:
				n.commit(t, a, stream)
				if rapid.Bool().Draw(t, "own") {
					a.applyOwn(l)
				}
			case 3:
				n.Clock.Advance(time.Second)
			case 4:
				at := slices.Index(nodes, l)
				device, held := l.device, roaming.Version
				nodes[at] = n.newLearner()
				nodes[at].device = device
				if got := nodes[at].read(a.reader); got.Version < held {
					t.Fatalf("a node that starts says %s after %s", got.Version, held)
				}
			default:
				l.learn(stream)
			}
			l.push(a.reader)
			roam(rapid.SampledFrom(nodes).Draw(t, "roams"))
		}
		fresh := n.newLearner()
		truth := fresh.read(a.reader)
		for i, l := range nodes {
			for _, stream := range rapid.Permutation(streams).Draw(t, "order") {
				l.learn(stream)
				l.push(a.reader)
			}
			roam(l)
			if visibleText(l.device) != visibleText(truth) || l.device.Version != truth.Version {
				t.Fatalf("device %d shows %s at %s, the truth is %s at %s", i, visibleText(l.device), l.device.Version, visibleText(truth), truth.Version)
			}
		}
		if visibleText(roaming) != visibleText(truth) {
			t.Fatalf("a client that changes nodes holds %s at %s, the truth is %s at %s", visibleText(roaming), roaming.Version, visibleText(truth), truth.Version)
		}
	})
}
