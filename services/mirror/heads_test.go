package mirror

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/store"
)

func (e *engines) Heads(_ context.Context, ids []services.ConversationID) (heads []store.Head, err error) {
	e.sqlHeads += len(ids)
	for _, id := range ids {
		if head, ok := e.heads[id]; ok {
			heads = append(heads, head)
		}
	}
	return heads, e.sqlDown
}

// room is a mirror whose clock the test moves, and what it was told to tell.
type room struct {
	*Mirror
	t    *testing.T
	e    *engines
	now  time.Time
	told int
}

func (r *room) Now() time.Time { return r.now }

func newRoom(t *testing.T) *room {
	r := &room{t: t, e: newEngines(), now: at(1000)}
	r.e.heads = map[services.ConversationID]store.Head{}
	r.Mirror = New(Config{Facts: r.e, Copies: r.e, Log: slog.New(slog.DiscardHandler), Clock: r})
	r.OnShared(func() { r.told++ })
	r.look()
	r.told = 0
	return r
}

func (r *room) head(id services.ConversationID, number int64) store.Head {
	head := store.Head{Conversation: id, Number: number, At: r.now}
	r.e.heads[id] = head
	return head
}

func (r *room) look() {
	r.t.Helper()
	if _, err := r.RunOnce(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

func (r *room) wants(unread int, known bool, places ...services.ReadSidePlace) ReadSide {
	r.t.Helper()
	got := r.ReadSide(places, r.now)
	if got.Unread != unread || got.Known != known {
		r.t.Errorf("%+v, want %d, known %t", got, unread, known)
	}
	return got
}

func TestHeadsAreReadOnceAndFollowed(t *testing.T) {
	r := newRoom(t)
	r.head(1, 10)
	r.head(2, 5)
	places := []services.ReadSidePlace{{Conversation: 1, Base: 7}, {Conversation: 2, Base: 8}}
	r.wants(0, false, places...)
	r.LearnHeads(t.Context(), places, places)
	first := r.wants(3, true, places...) // 2 is behind the reader: it counts nothing
	if r.LearnHeads(t.Context(), places); r.e.sqlHeads != 2 {
		t.Errorf("SQL was asked for %d heads", r.e.sqlHeads)
	}
	r.now = r.now.Add(time.Second)
	r.head(2, 9)
	r.look()
	second := r.wants(4, true, places...)
	if second.Stamp <= first.Stamp || r.told != 1 {
		t.Errorf("the stamp went from %d to %d, the watchers were told %d times", first.Stamp, second.Stamp, r.told)
	}
	if r.look(); r.told != 1 {
		t.Error("the watchers were told of nothing")
	}
}

// Two changes are two versions, even when the later one is of an earlier moment.
func TestEveryChangeHasAStampOfItsOwn(t *testing.T) {
	r := newRoom(t)
	places := []services.ReadSidePlace{{Conversation: 1}, {Conversation: 2}}
	r.head(1, 1)
	r.head(2, 1)
	r.LearnHeads(t.Context(), places)
	last := r.wants(2, true, places...).Stamp
	for i := range int64(4) {
		r.HeadMoved(store.Head{Conversation: services.ConversationID(1 + i%2), Number: 2 + i/2, At: r.now.Add(-time.Duration(i) * time.Second)})
		stamp := r.wants(int(3+i), true, places...).Stamp
		if stamp <= last {
			t.Errorf("change %d has the stamp %d, the one before %d", i, stamp, last)
		}
		last = stamp
	}
	r.HeadMoved(store.Head{Conversation: 1, Number: 1, At: r.now.Add(time.Hour)}) // late
	r.HeadMoved(store.Head{Conversation: 9, Number: 1, At: r.now})                // nobody's
	if got := r.wants(6, true, places...); got.Stamp != last {
		t.Errorf("nothing moved, and the stamp is %d after %d", got.Stamp, last)
	}
}

// The first message is told at once, and a stream of them twice a second; the last is never left out.
func TestWatchersAreToldOfAStreamNowAndThen(t *testing.T) {
	r := newRoom(t)
	r.head(1, 0)
	r.LearnHeads(t.Context(), []services.ReadSidePlace{{Conversation: 1}})
	for i := range int64(100) {
		r.now = r.now.Add(10 * time.Millisecond)
		r.HeadMoved(r.head(1, i+1))
	}
	if r.told != 2 {
		t.Errorf("100 messages within a second: told %d times", r.told)
	}
	r.now = r.now.Add(time.Second)
	if r.look(); r.told != 3 {
		t.Errorf("the last messages were not told: %d", r.told)
	}
}

func TestHeadsThatNobodyAsksForAreForgotten(t *testing.T) {
	r := newRoom(t)
	r.head(1, 4)
	r.head(2, 4)
	both := []services.ReadSidePlace{{Conversation: 1}, {Conversation: 2}}
	r.LearnHeads(t.Context(), both)
	for range 5 {
		r.now = r.now.Add(time.Minute)
		r.look()
		r.wants(4, true, both[0])
	}
	asked := r.e.sqlHeads
	if r.look(); r.e.sqlHeads != asked+1 {
		t.Errorf("SQL was asked for %d heads, want the one that somebody reads", r.e.sqlHeads-asked)
	}
	r.wants(4, false, both...)
}

func TestWithoutSQLWhatIsKnownOfHeadsStays(t *testing.T) {
	r := newRoom(t)
	r.head(1, 4)
	r.LearnHeads(t.Context(), []services.ReadSidePlace{{Conversation: 1}})
	r.e.sqlDown = errors.New("away")
	r.LearnHeads(t.Context(), []services.ReadSidePlace{{Conversation: 2}})
	if _, err := r.RunOnce(t.Context()); err == nil {
		t.Error("nobody says that SQL is away")
	}
	r.wants(4, false, services.ReadSidePlace{Conversation: 1}, services.ReadSidePlace{Conversation: 2})
}
