package chat

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/changelog"
)

// sqlStub stands in for SQL, and counts the last sequences that it is asked for. Its changelog is empty.
type sqlStub struct {
	sequences              map[services.ConversationID]LastSequence // the conversations that SQL has
	readError              error                                    // the error of every read; nil: SQL answers
	requestedSequenceCount int                                      // how many sequences were asked for, in all calls
}

func newSQLStub() *sqlStub { return &sqlStub{} }

// LogAfter reads the changelog, which is empty.
func (e *sqlStub) LogAfter(context.Context, string, uint64, int) ([]changelog.Entry, error) {
	return nil, e.readError
}

// LastSequence reads the end of the changelog, which is empty.
func (e *sqlStub) LastSequence(context.Context, string) (last, oldest uint64, err error) {
	return 0, 0, e.readError
}

// LastSequences reads the end of the changelog for each kind of entry; it is empty.
func (e *sqlStub) LastSequences(context.Context) (map[string]uint64, error) { return nil, e.readError }

// SequencesOf returns the last sequences of those conversations that are in sequences, and counts how many it was asked for.
func (e *sqlStub) SequencesOf(_ context.Context, ids []services.ConversationID) (sequences []LastSequence, err error) {
	e.requestedSequenceCount += len(ids)
	for _, id := range ids {
		if last, ok := e.sequences[id]; ok {
			sequences = append(sequences, last)
		}
	}
	return sequences, e.readError
}

// cachingNode is a node's cache of the last sequences of conversations, on a stub of SQL and a clock that the test sets. It counts how often
// the watched reader was notified of a change.
type cachingNode struct {
	*SequenceCache
	Log         *changelog.Follower // runs the cache's refresh
	t           *testing.T
	stub        *sqlStub
	mu          sync.Mutex // guards now: the cache's own timer reads it too
	now         time.Time
	notifyCount atomic.Int64 // how often watchedUser was notified
}

// watchedUser is the user who is watched on the node.
const watchedUser = services.UserID(7)

func (r *cachingNode) Now() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

// advance lets time pass on the node's clock.
func (r *cachingNode) advance(time time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = r.now.Add(time)
}

// newCachingNode makes a caching node on a stub without conversations.
func newCachingNode(t *testing.T) *cachingNode {
	r := &cachingNode{t: t, stub: newSQLStub(), now: time.Unix(1000, 0)}
	r.stub.sequences = map[services.ConversationID]LastSequence{}
	r.Log = changelog.New(changelog.Config{Log: r.stub, Logger: slog.New(slog.DiscardHandler), Clock: r})
	r.SequenceCache = newSequences(r.Log, r.stub)
	r.Log.OnReadersNotified(func(readers []services.UserID) {
		if slices.Contains(readers, watchedUser) {
			r.notifyCount.Add(1)
		}
	})
	r.runRefresh()
	return r
}

// setSequenceInSQL sets in SQL the number of a conversation's last message, and returns it.
func (r *cachingNode) setSequenceInSQL(id services.ConversationID, number int64) LastSequence {
	last := LastSequence{Conversation: id, NewestNumber: number, SentAt: r.Now()}
	r.stub.sequences[id] = last
	return last
}

// runRefresh lets the node read SQL once, as it does every half second.
func (r *cachingNode) runRefresh() {
	r.t.Helper()
	if _, err := r.Log.RunOnce(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

// wantUnread counts the unread messages at positions, and checks the number and whether it is known.
func (r *cachingNode) wantUnread(unread int, known bool, positions ...services.CountedOnReadPosition) onReadCount {
	r.t.Helper()
	got := r.SequenceCache.countOnRead(positions, r.now)
	if got.Unread != unread || got.Complete != known {
		r.t.Errorf("%+v, want %d, known %t", got, unread, known)
	}
	return got
}

// The last sequences of conversations are read from SQL once, and each refresh keeps them current.
func TestLastSequencesAreReadOnceAndFollowed(t *testing.T) {
	r := newCachingNode(t)
	r.setSequenceInSQL(1, 10)
	r.setSequenceInSQL(2, 5)
	positions := []services.CountedOnReadPosition{{Conversation: 1, ReadUpTo: 7}, {Conversation: 2, ReadUpTo: 8}}
	r.wantUnread(0, false, positions...)
	r.SequenceCache.follow(watchedUser, positions)
	r.SequenceCache.cacheMissing(t.Context(), positions, positions)
	first := r.wantUnread(3, true, positions...) // conversation 2 is below the reader's position: it counts nothing
	if r.SequenceCache.cacheMissing(t.Context(), positions); r.stub.requestedSequenceCount != 2 {
		t.Errorf("SQL was asked for %d last sequences", r.stub.requestedSequenceCount)
	}
	r.advance(time.Second)
	r.setSequenceInSQL(2, 9)
	r.runRefresh()
	second := r.wantUnread(4, true, positions...)
	if second.SequenceSum <= first.SequenceSum || r.notifyCount.Load() != 1 {
		t.Errorf("the sequence went from %d to %d, the reader was notified %d times", first.SequenceSum, second.SequenceSum, r.notifyCount.Load())
	}
	if r.runRefresh(); r.notifyCount.Load() != 1 {
		t.Error("the reader was notified without a change")
	}
}

// Each new message raises the sum of the sequences, even if its time is earlier than that of the message before.
func TestEveryMessageRaisesTheSequence(t *testing.T) {
	r := newCachingNode(t)
	positions := []services.CountedOnReadPosition{{Conversation: 1}, {Conversation: 2}}
	r.setSequenceInSQL(1, 1)
	r.setSequenceInSQL(2, 1)
	r.SequenceCache.cacheMissing(t.Context(), positions)
	last := r.wantUnread(2, true, positions...).SequenceSum
	for i := range int64(4) {
		r.SequenceCache.Advance(LastSequence{Conversation: services.ConversationID(1 + i%2), NewestNumber: 2 + i/2, SentAt: r.now.Add(-time.Duration(i) * time.Second)})
		stamp := r.wantUnread(int(3+i), true, positions...).SequenceSum
		if stamp <= last {
			t.Errorf("change %d has the stamp %d, the one before %d", i, stamp, last)
		}
		last = stamp
	}
	r.SequenceCache.Advance(LastSequence{Conversation: 1, NewestNumber: 1, SentAt: r.now.Add(time.Hour)}) // late
	r.SequenceCache.Advance(LastSequence{Conversation: 9, NewestNumber: 1, SentAt: r.Now()})              // in no reader's badges
	if got := r.wantUnread(6, true, positions...); got.SequenceSum != last {
		t.Errorf("nothing moved, and the stamp is %d after %d", got.SequenceSum, last)
	}
}

// The first message is notified at once, the next messages of a stream at most ten times a second, and the last one always.
func TestNotificationsOfAStreamAreThrottled(t *testing.T) {
	r := newCachingNode(t)
	r.setSequenceInSQL(1, 0)
	positions := []services.CountedOnReadPosition{{Conversation: 1}}
	r.SequenceCache.follow(watchedUser, positions)
	r.SequenceCache.cacheMissing(t.Context(), positions)
	for i := range int64(100) {
		r.advance(10 * time.Millisecond)
		r.SequenceCache.Advance(r.setSequenceInSQL(1, i+1))
		if i == 0 && r.notifyCount.Load() != 1 {
			t.Error("the first message was not notified at once")
		}
	}
	if notified := r.notifyCount.Load(); notified < 9 || notified > 11 {
		t.Errorf("100 messages within a second: notified %d times", notified)
	}
	before := r.notifyCount.Load()
	r.SequenceCache.Advance(r.setSequenceInSQL(1, 101)) // too soon after the one before
	if r.notifyCount.Load() != before {
		t.Error("it was notified sooner than a tenth of a second later")
	}
	r.advance(time.Second)
	if r.runRefresh(); r.notifyCount.Load() != before+1 {
		t.Errorf("the last message was notified %d times", r.notifyCount.Load()-before)
	}
}

// The last message of a stream is notified without any further event.
func TestTheLastMessageOfAStreamIsNotified(t *testing.T) {
	e := newSQLStub()
	e.sequences = map[services.ConversationID]LastSequence{1: {Conversation: 1}}
	log := changelog.New(changelog.Config{Log: e, Logger: slog.New(slog.DiscardHandler)})
	m := newSequences(log, e)
	notified := make(chan int64, 10)
	last := atomic.Int64{}
	log.OnReadersNotified(func([]services.UserID) { notified <- last.Load() })
	positions := []services.CountedOnReadPosition{{Conversation: 1}}
	m.follow(watchedUser, positions)
	m.cacheMissing(t.Context(), positions)
	for number := range int64(3) {
		last.Store(number + 1)
		m.Advance(LastSequence{Conversation: 1, NewestNumber: number + 1, SentAt: time.Now()})
	}
	for number := range notified {
		if number == 3 {
			return
		}
	}
}

// A watched user is notified of a message in a conversation that is in their badges, however long ago the badges were read. They
// are not notified of other conversations, nor once this node does not watch them any more.
func TestWatchersOfAQuietConversationAreNotified(t *testing.T) {
	r := newCachingNode(t)
	r.setSequenceInSQL(1, 4)
	r.setSequenceInSQL(2, 4)
	both := []services.CountedOnReadPosition{{Conversation: 1}, {Conversation: 2}}
	r.SequenceCache.follow(watchedUser, both)
	r.SequenceCache.follow(watchedUser+1, both[1:])
	r.SequenceCache.cacheMissing(t.Context(), both)
	for range 10 {
		r.advance(time.Minute)
		r.runRefresh()
	}
	moved := func(id services.ConversationID, number int64, want int64) {
		t.Helper()
		r.advance(time.Second)
		before := r.notifyCount.Load()
		r.SequenceCache.Advance(r.setSequenceInSQL(id, number))
		if got := r.notifyCount.Load() - before; got != want {
			t.Errorf("conversation %d moved: notified %d times, want %d", id, got, want)
		}
	}
	moved(1, 5, 1)
	moved(2, 5, 1)
	r.SequenceCache.follow(watchedUser, both[:1]) // the reader left the other
	moved(2, 6, 0)
	moved(1, 6, 1)
	r.Log.Unfollow([]services.UserID{watchedUser, 99})
	moved(1, 7, 0)
	if left := r.SequenceCache.readers.Keys(); !slices.Equal(left, []services.ConversationID{2}) {
		t.Errorf("the readers left are shown %v, want the second alone", left)
	}
}

// A last sequence that nobody reads for two minutes leaves the cache.
func TestUnusedSequencesAreDropped(t *testing.T) {
	r := newCachingNode(t)
	r.setSequenceInSQL(1, 4)
	r.setSequenceInSQL(2, 4)
	both := []services.CountedOnReadPosition{{Conversation: 1}, {Conversation: 2}}
	r.SequenceCache.cacheMissing(t.Context(), both)
	for range 5 {
		r.advance(time.Minute)
		r.runRefresh()
		r.wantUnread(4, true, both[0])
	}
	asked := r.stub.requestedSequenceCount
	if r.runRefresh(); r.stub.requestedSequenceCount != asked+1 {
		t.Errorf("SQL was asked for %d last sequences, want the one that somebody reads", r.stub.requestedSequenceCount-asked)
	}
	r.wantUnread(4, false, both...)
}

func TestWithoutSQLCachedSequencesStay(t *testing.T) {
	r := newCachingNode(t)
	r.setSequenceInSQL(1, 4)
	r.SequenceCache.cacheMissing(t.Context(), []services.CountedOnReadPosition{{Conversation: 1}})
	r.stub.readError = errors.New("away")
	r.SequenceCache.cacheMissing(t.Context(), []services.CountedOnReadPosition{{Conversation: 2}})
	if _, err := r.Log.RunOnce(t.Context()); err == nil {
		t.Error("nobody says that SQL is away")
	}
	r.wantUnread(4, false, services.CountedOnReadPosition{Conversation: 1}, services.CountedOnReadPosition{Conversation: 2})
}

// A last sequence that could not be read when it was asked for is read as soon as SQL answers, and its reader is notified.
func TestFailedNotificationsAreRepeated(t *testing.T) {
	r := newCachingNode(t)
	r.setSequenceInSQL(1, 4)
	positions := []services.CountedOnReadPosition{{Conversation: 1}}
	r.stub.readError = errors.New("down")
	r.stub.sequences = nil
	r.SequenceCache.follow(watchedUser, positions)
	r.SequenceCache.cacheMissing(t.Context(), positions)
	if r.SequenceCache.countOnRead(positions, r.Now()).Complete || r.notifyCount.Load() != 0 {
		t.Fatal("SQL did not answer, but the sequence is known")
	}
	r.stub.readError, r.stub.sequences = nil, map[services.ConversationID]LastSequence{}
	r.setSequenceInSQL(1, 4)
	r.runRefresh()
	if got := r.SequenceCache.countOnRead(positions, r.Now()); !got.Complete || got.Unread != 4 || r.notifyCount.Load() != 1 {
		t.Errorf("%+v, and the reader was notified %d times", got, r.notifyCount.Load())
	}
}

// A conversation that could not be read when its watch began is read as soon as SQL answers, and its watcher is woken.
func TestAWatcherWithoutSQLIsWokenLater(t *testing.T) {
	r := newCachingNode(t)
	r.stub.readError, r.stub.sequences = errors.New("down"), nil
	moved, forget := r.SequenceCache.watchConversation(1)
	defer forget()
	r.SequenceCache.cacheMissing(t.Context(), []services.CountedOnReadPosition{{Conversation: 1}})
	r.stub.readError, r.stub.sequences = nil, map[services.ConversationID]LastSequence{}
	r.setSequenceInSQL(1, 4)
	r.runRefresh()
	select {
	case <-moved:
	default:
		t.Error("the watcher was not woken")
	}
}

// A watched user's sum of versions (changelog.Follower.VersionSums) rises with each message in a conversation of theirs, and with
// no other message. If it did not, a message whose hint was lost would never be pushed.
func TestTheVersionSumRisesWithEachMessage(t *testing.T) {
	r := newCachingNode(t)
	r.setSequenceInSQL(1, 3)
	positions := []services.CountedOnReadPosition{{Conversation: 1}}
	r.follow(watchedUser, positions)
	r.cacheMissing(t.Context(), positions)
	both := []services.UserID{watchedUser, watchedUser + 1}
	before := r.Log.VersionSums(both)
	r.Advance(r.setSequenceInSQL(1, 4))
	after := r.Log.VersionSums(both)
	if after[0] <= before[0] || after[1] != before[1] {
		t.Errorf("the sums went from %v to %v", before, after)
	}
	r.Log.Unfollow([]services.UserID{watchedUser})
	if left := r.Log.VersionSums(both); left[0] != left[1] {
		t.Errorf("a user who left has the sum %v of conversations that nobody on this node sees", left)
	}
}
