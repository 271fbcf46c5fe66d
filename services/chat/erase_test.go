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
		n := newNode(fanouttest.New(t, fanouttest.Options{SQLURL: url, RedisURL: "embedded", Trace: func(statement string) {
			if statement == "lower members" {
				lowered.Add(counting.Load())
			}
		}}), nil)
		users := n.MakeUsers(4)
		ann, bob, cyd, leaver := users[0], users[1], users[2], users[3]
		id := n.createConversation(Room, ann, bob, cyd, leaver)
		n.send(ann, id)
		var middle services.MessageID
		for i := range texts {
			sent := n.send(leaver, id, bob)
			if i == texts/2 {
				middle = sent
			}
			if i%20 == 7 {
				n.mustCommit(n.Recall(leaver, sent), nil)
			}
		}
		n.send(ann, id, bob)
		n.markRead(bob, id, middle)
		counting.Store(1)
		for more, at := true, (erase.StepPosition{User: leaver}); more; {
			n.Write(func(ctx context.Context, tx *sql.Tx) error {
				done, err := n.eraseConversation(ctx, tx, at)
				at.ResumeAfter, more = done.ResumeAfter, done.More
				return err
			})
		}
		counting.Store(0)
		if lowered.Load() != 1 {
			t.Errorf("%s: %d statements changed the members", engine, lowered.Load())
		}
		states, err := membershipsIn(t.Context(), n.DB, id, users)
		n.Must(err)
		want := map[services.UserID][2]int64{ann: {0, 0}, bob: {1, 1}, cyd: {2, 0}}
		for _, m := range states {
			if got := [2]int64{int64(m.NewestMessageNumber) - int64(m.ReadUpTo) + int64(m.UnreadAdjustment), int64(m.Mentions)}; got != want[m.User] {
				t.Errorf("%s: user %d has %v unread and mentions, want %v", engine, m.User, got, want[m.User])
			}
		}
		if len(states) != len(want) {
			t.Errorf("%s: %d members", engine, len(states))
		}
	}
	if few, many := eraseBatchSize(2), eraseBatchSize(100_000); few != erase.RowsPerRun || many != 10 {
		t.Errorf("%d messages at once of a small conversation, %d of a large one", few, many)
	}
}
