package badge

import (
	"context"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/jobs"
	"tidings/services/projector"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// recordVisit lets a user read their badges, and writes the visit.
func (n node) recordVisit(user services.UserID) {
	n.TB.Helper()
	n.read(user)
	_, err := n.WriteVisits(n.TB.Context())
	n.Must(err)
}

// refillInbox refills a user's inbox by a job.
func (n node) refillInbox(user services.UserID) {
	n.TB.Helper()
	n.Write(func(ctx context.Context, tx *sql.Tx) error {
		return jobs.Enqueue(ctx, tx, projector.RefillInboxJob(user))
	})
	n.RunAllJobs(n.World.Fanout)
}

// A job refills the inbox between two visits. The digest begins at the first of the two.
func TestTheDigestIgnoresRefills(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		n := newNode(w)
		author, reader := n.newLikedAuthor(0)
		n.recordVisit(reader)
		monday := n.Clock.Now()
		n.Clock.Advance(day)
		n.Post(author)
		n.RunAllJobs(n.World.Fanout)
		n.Clock.Advance(day)
		n.refillInbox(reader)
		n.Clock.Advance(2 * day)
		n.recordVisit(reader)
		digest, err := n.Digest(t.Context(), reader, time.Time{})
		n.Must(err)
		if digest.Since.After(monday) || digestCounts(digest)["HOME_FEED"] != 1 {
			t.Errorf("since %s, the last visit having been at %s: %+v", digest.Since, monday, digest.Parts)
		}
	})
}

// A user who does not return becomes dormant in time, whatever jobs do meanwhile, and loses their position in the announcements.
func TestARefillKeepsNobodyFromBecomingDormant(t *testing.T) {
	n := redisServerNode(t)
	_, user := n.newLikedAuthor(0)
	n.recordVisit(user)
	n.Clock.Advance(5 * day)
	n.refillInbox(user)
	n.Clock.Advance(26 * day)
	_, err := projector.NewJanitor(n.World.Projector).RunOnce(t.Context())
	n.Must(err)
	positions, err := sqltest.QueryLines(t.Context(), n.DB, "SELECT ver, position FROM user_notices WHERE user_number = $1", user)
	if n.Must(err); len(positions) > 0 {
		t.Errorf("after 31 days away: %v", positions)
	}
}
