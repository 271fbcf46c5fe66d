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

// The streams of facts that badges show beside the user's own document. A node reads each stream in its order, into its cache.
const (
	announcementFactStream = "announcements and dots" // in the changelog
	pulledPostFactStream   = "pulled posts"           // huge authors' posts, in the changelog
	showFactStream         = "shows"                  // in the changelog
	roomFactStream         = "rooms"                  // the numbers of rooms' newest messages
)

// factStreams are the names of all streams of facts that a node reads into its cache.
var factStreams = []string{announcementFactStream, pulledPostFactStream, showFactStream, roomFactStream}

// streamFilteredSQL restricts a node to reading one stream of the facts.
type streamFilteredSQL struct {
	nodecache.SQL
	mu             sync.Mutex // guards readableStream
	readableStream string     // the readable stream; "": all
}

// errStreamNotReadable is the error of a read of any stream but the readable one.
var errStreamNotReadable = errors.New("this stream cannot be read now")

// checkStreamReadable returns an error for a stream that cannot be read now.
func (g *streamFilteredSQL) checkStreamReadable(stream string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.readableStream == "" || g.readableStream == stream {
		return nil
	}
	return errStreamNotReadable
}

// LogAfter reads the changelog, if the stream to which the kind belongs is readable.
func (g *streamFilteredSQL) LogAfter(ctx context.Context, kind string, version uint64, limit int) ([]changelog.Entry, error) {
	stream := map[string]string{announcements.ChangelogKind: announcementFactStream, nodecache.PullChangelogKind: pulledPostFactStream, live.ChangelogKind: showFactStream}[kind]
	if err := g.checkStreamReadable(stream); err != nil {
		return nil, err
	}
	return changelog.LogAfter(ctx, g.DB, kind, version, limit)
}

// SequencesOf reads the last sequences of conversations. It returns errStreamNotReadable if another stream alone is readable.
func (g *streamFilteredSQL) SequencesOf(ctx context.Context, ids []services.ConversationID) ([]chat.LastSequence, error) {
	if err := g.checkStreamReadable(roomFactStream); err != nil {
		return nil, err
	}
	return chat.SequencesOf(ctx, g.DB, ids)
}

// streamUpdatedNode is a node whose cache the test updates stream by stream, in any order, and a device that subscribes to the node.
type streamUpdatedNode struct {
	node
	filteredSQL  *streamFilteredSQL // lets the node read one stream, or all
	deviceBadges *services.Badges   // what the device shows
}

// newStreamUpdatedNode makes a further node, whose cache has all streams.
func (n node) newStreamUpdatedNode() *streamUpdatedNode {
	n.TB.Helper()
	g := &streamFilteredSQL{SQL: nodecache.SQL{DB: n.DB}}
	w := n.World.AnotherNode()
	w.Caches = nodecache.New(nodecache.Config{Facts: g, Redis: w.Redis, Clock: w.Clock, Log: w.Log})
	l := &streamUpdatedNode{node: newNodeWith(w, g, live.ShowLimits{}), filteredSQL: g}
	l.updateCacheFromStream("")
	return l
}

// updateCacheFromStream updates the node cache with one of the test's streams of shared changes, such as shows; "" stands for all.
func (l *streamUpdatedNode) updateCacheFromStream(stream string) {
	l.TB.Helper()
	l.filteredSQL.mu.Lock()
	l.filteredSQL.readableStream = stream
	l.filteredSQL.mu.Unlock()
	if _, err := l.Caches.Changelog.RunOnce(l.TB.Context()); err != nil && stream == "" {
		l.TB.Fatal(err)
	}
}

// pushBadgesToDevice pushes the node's present badges to the device, which takes them only if they are newer than its own.
func (l *streamUpdatedNode) pushBadgesToDevice(user services.UserID) {
	if badges := l.read(user); l.deviceBadges == nil || badges.Version > l.deviceBadges.Version {
		l.deviceBadges = badges
	}
}

// visibleText prints the visible part of badges.
func visibleText(badges *services.Badges) string {
	return fmt.Sprintf("%d posts, %d announcements, %d messages, %d live, dots %v, quiet %t", badges.HomeFeed.Value,
		badges.Announcements.Value, badges.Conversations.Total.Value, badges.LiveBoard.Value, badges.Dots, badges.Quiet)
}

// readerScenario is a reader with unread items of every stream.
type readerScenario struct {
	reader, hugeAuthor, messageSender services.UserID
	host                              services.UserID
	room                              services.ConversationID    // of messageSender, the reader and the host
	hugeAuthorPosts                   []services.PostID          // without the deleted ones
	applyLastChangeAsOwn              func(l *streamUpdatedNode) // applies the last change to l as its own, before l reads the log
	show                              services.ShowID            // of the host
	lastAnnouncement                  services.AnnouncementID    // the one that was published last; 0: none yet
}

// newReaderScenario makes a reader who follows an author, a host and a room.
func (n node) newReaderScenario() *readerScenario {
	n.TB.Helper()
	reader, huge, _ := n.MakeReader()
	users := n.MakeUsers(2)
	a := &readerScenario{reader: reader, hugeAuthor: huge, host: users[0], messageSender: users[1]}
	n.Follow(a.host, reader)
	a.show = livetest.ScheduleShow(n.World, a.host, time.Hour)
	a.room = n.makeRoom(a.messageSender, reader, a.host)
	n.RunJobsAndReadLog()
	n.read(reader)
	return a
}

// commitStreamChange changes one stream in SQL, and changes nothing of the reader's own.
func (n node) commitStreamChange(t *rapid.T, a *readerScenario, stream string) {
	n.TB.Helper()
	switch stream {
	case announcementFactStream:
		n.commitAnnouncementChange(t, a)
	case pulledPostFactStream:
		change := nodecache.PullChange{Author: a.hugeAuthor}
		if change.Deleted = len(a.hugeAuthorPosts) > 0 && rapid.Bool().Draw(t, "delete"); change.Deleted {
			change.Post = a.hugeAuthorPosts[0]
			n.World.Delete(change.Post)
			a.hugeAuthorPosts = a.hugeAuthorPosts[1:]
		} else {
			change.Post = n.Post(a.hugeAuthor)
			a.hugeAuthorPosts = append(a.hugeAuthorPosts, change.Post)
		}
		version, _, err := changelog.LastSequence(n.TB.Context(), n.DB, nodecache.PullChangelogKind)
		n.Must(err)
		a.applyLastChangeAsOwn = func(l *streamUpdatedNode) { l.Caches.Pulled.ApplyOwnChange(change, version) }
	case showFactStream:
		if a.show == 0 {
			a.show = livetest.ScheduleShow(n.World, a.host, time.Hour)
			n.RunAllJobs(n.World.Fanout)
		}
		if rapid.Bool().Draw(t, "end") {
			livetest.EndShows(n.World, n.Clock.Now(), a.show)
			a.show = 0
		} else {
			livetest.StartShows(n.World, a.show)
		}
		a.applyLastChangeAsOwn = func(l *streamUpdatedNode) { l.updateCacheFromStream(showFactStream) }
	case roomFactStream:
		message, err := services.ParseMessageID("id", n.commitForIDs(n.chat.Send(a.messageSender, a.room, "hello", nil))[0])
		n.Must(err)
		a.applyLastChangeAsOwn = func(l *streamUpdatedNode) {
			l.chat.Sequences.Advance(chat.LastSequence{Conversation: a.room, NewestNumber: message.Number(), SentAt: n.Clock.Now()})
		}
	}
}

// commitAnnouncementChange raises a dot, publishes an announcement that ends soon, or moves the end of the last one.
func (n node) commitAnnouncementChange(t *rapid.T, a *readerScenario) {
	n.TB.Helper()
	do := func(cmd *jobs.Command, err error) {
		n.Must(err)
		n.Must(n.World.Fanout.Commit(n.TB.Context(), cmd)[0])
	}
	switch what := rapid.IntRange(0, 2).Draw(t, "announcement"); {
	case what == 0:
		do(n.announcements.RaiseDot("shop", nil))
	case what == 1 && a.lastAnnouncement != 0:
		end := n.Clock.Now().Add(time.Second)
		do(n.announcements.Edit(a.lastAnnouncement, announcements.Edit{EndsAt: &end}))
	default:
		a.lastAnnouncement = n.announce(time.Duration(rapid.IntRange(1, 3).Draw(t, "s")) * time.Second)
	}
	a.applyLastChangeAsOwn = func(l *streamUpdatedNode) { _ = l.announcements.Memory.Refresh(l.TB.Context()) }
}

// Several nodes read several streams of facts: each stream in its own order, the streams in any order relative to each other, and a
// node's own changes first. Some nodes restart. When nothing changes any more, every device shows the right state, whether it stayed at
// one node or changed nodes. All nodes agree, also one that has just started.
func TestDevicesOfAllNodesConverge(t *testing.T) {
	n := redisServerNode(t)
	histories.ReduceRapidChecks(t, 2)
	rapid.Check(t, func(t *rapid.T) {
		a := n.newReaderScenario()
		nodes := []*streamUpdatedNode{n.newStreamUpdatedNode(), n.newStreamUpdatedNode(), n.newStreamUpdatedNode()}
		for _, l := range nodes {
			l.pushBadgesToDevice(a.reader)
		}
		roaming := nodes[0].read(a.reader)
		roam := func(l *streamUpdatedNode) {
			if badges := l.read(a.reader); badges.Version > roaming.Version {
				roaming = badges
			}
		}
		for range rapid.IntRange(4, 24).Draw(t, "steps") {
			l := rapid.SampledFrom(nodes).Draw(t, "node")
			switch stream := rapid.SampledFrom(factStreams).Draw(t, "stream"); rapid.IntRange(0, 9).Draw(t, "what") {
			case 0, 1, 2:
				n.commitStreamChange(t, a, stream)
				if rapid.Bool().Draw(t, "own") {
					a.applyLastChangeAsOwn(l)
				}
			case 3:
				n.Clock.Advance(time.Second)
			case 4:
				at := slices.Index(nodes, l)
				device, held := l.deviceBadges, roaming.Version
				nodes[at] = n.newStreamUpdatedNode()
				nodes[at].deviceBadges = device
				if got := nodes[at].read(a.reader); got.Version < held {
					t.Fatalf("a node that starts says %s after %s", got.Version, held)
				}
			default:
				l.updateCacheFromStream(stream)
			}
			l.pushBadgesToDevice(a.reader)
			roam(rapid.SampledFrom(nodes).Draw(t, "roams"))
		}
		fresh := n.newStreamUpdatedNode()
		truth := fresh.read(a.reader)
		for i, l := range nodes {
			for _, stream := range rapid.Permutation(factStreams).Draw(t, "order") {
				l.updateCacheFromStream(stream)
				l.pushBadgesToDevice(a.reader)
			}
			roam(l)
			if visibleText(l.deviceBadges) != visibleText(truth) || l.deviceBadges.Version != truth.Version {
				t.Fatalf("device %d shows %s at %s, the truth is %s at %s", i, visibleText(l.deviceBadges), l.deviceBadges.Version, visibleText(truth), truth.Version)
			}
		}
		if visibleText(roaming) != visibleText(truth) {
			t.Fatalf("a client that changes nodes holds %s at %s, the truth is %s at %s", visibleText(roaming), roaming.Version, visibleText(truth), truth.Version)
		}
	})
}
