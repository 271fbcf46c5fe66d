package chat

import (
	"context"
	"sync/atomic"
	"testing"

	"tidings/services"
	"tidings/services/erase"
	"tidings/services/fanout/fanouttest"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// The messages of a user who is erased leave everybody's counts together: whatever their number, one statement changes the
// members, since a ROOM has many.
func TestMessagesOfAnErasedUserLeaveTheCountsTogether(t *testing.T) {
	const texts = 60
	for engine, url := range map[string]string{"sqlite": sqltest.SQLite(t), "postgres": sqltest.Postgres(t)} {
		var lowered, counting atomic.Int64
		n := newNode(fanouttest.New(t, fanouttest.Options{SQL: url, Redis: "embedded", Trace: func(statement string) {
			if statement == "lower members" {
				lowered.Add(counting.Load())
			}
		}}), nil)
		users := n.MakeUsers(4)
		ann, bob, cyd, leaver := users[0], users[1], users[2], users[3]
		id := n.create(Room, ann, bob, cyd, leaver)
		n.send(ann, id)
		var middle services.MessageID
		for i := range texts {
			sent := n.send(leaver, id, bob)
			if i == texts/2 {
				middle = sent
			}
			if i%20 == 7 {
				n.mustDo(n.Recall(leaver, sent), nil)
			}
		}
		n.send(ann, id, bob)
		n.markRead(bob, id, middle)
		counting.Store(1)
		for more, at := true, (erase.Position{User: leaver}); more; {
			n.Write(func(ctx context.Context, tx *sql.Tx) error {
				done, err := n.eraseConversation(ctx, tx, at)
				at.After, more = done.After, done.More
				return err
			})
		}
		counting.Store(0)
		if lowered.Load() != 1 {
			t.Errorf("%s: %d statements changed the members", engine, lowered.Load())
		}
		states, err := membershipsIn(t.Context(), n.Store, id, users)
		n.Must(err)
		want := map[services.UserID][2]int64{ann: {0, 0}, bob: {1, 1}, cyd: {2, 0}}
		for _, m := range states {
			if got := [2]int64{int64(m.Head) - int64(m.Base) + int64(m.K), int64(m.Mentions)}; got != want[m.User] {
				t.Errorf("%s: user %d has %v unread and mentions, want %v", engine, m.User, got, want[m.User])
			}
		}
		if len(states) != len(want) {
			t.Errorf("%s: %d members", engine, len(states))
		}
	}
	if few, many := eraseBatchSize(2), eraseBatchSize(100_000); few != erase.Batch || many != 10 {
		t.Errorf("%d messages at once of a small conversation, %d of a large one", few, many)
	}
}
