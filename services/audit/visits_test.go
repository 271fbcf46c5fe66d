package audit_test

import (
	"fmt"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/people"
	"tidings/services/rdb"
)

const oneDay = 24 * time.Hour

// visitTimesAndTTL returns the times of a user's last visit and of the one before it, and the remaining life of their document.
func visitTimesAndTTL(w node, user services.UserID) (seen, before time.Time, left time.Duration) {
	w.TB.Helper()
	visits, err := people.LastVisits(w.TB.Context(), w.DB, []services.UserID{user})
	w.Must(err)
	before, err = people.PreviousVisit(w.TB.Context(), w.DB, user)
	w.Must(err)
	left, err = w.Redis.Client.Commands().TTL(w.TB.Context(), rdb.DocumentKey(user)).Result()
	w.Must(err)
	return visits[user], before, left
}

// A repair of a wrong document, and a rebuild of one that has lost something or is of another epoch, are no visits: the day of the
// last visit stays, and the document lives no longer.
func TestRepairsDoNotCountAsVisits(t *testing.T) {
	for what, corrupt := range map[string][]any{
		"a wrong count": {"fc", "77"}, "a day ahead": {"d", "99999"}, "another epoch": {"e", "7"}, "a broken field": {"P", "broken"},
	} {
		t.Run(what, func(t *testing.T) {
			w := redisServerNode(t, nil)
			user, _ := newUserWithFullDocument(w)
			day := w.Document(user).LastActiveDay
			seen, before, left := visitTimesAndTTL(w, user)
			w.Clock.Advance(2 * oneDay)
			w.RedisServer.Do(append([]any{"HSET", fmt.Sprintf("{u%d}:b", user)}, corrupt...)...)
			a := newAudit(w, auditLapTime)
			runLap(w, a)
			if got := a.Stats(); got.DriftedUsers+got.RestoredUsers != 1 {
				t.Fatalf("%+v", got)
			}
			runLap(w, a)
			if got := a.Stats(); got.DriftedUsers+got.RestoredUsers != 1 {
				t.Errorf("in the next lap: %+v", got)
			}
			seenNow, beforeNow, leftNow := visitTimesAndTTL(w, user)
			if !seenNow.Equal(seen) || !beforeNow.Equal(before) || w.Document(user).LastActiveDay != day {
				t.Errorf("seen at %s, before at %s, on day %d; want %s, %s, day %d", seenNow, beforeNow, w.Document(user).LastActiveDay, seen, before, day)
			}
			// A document that the audit emptied and rebuilt lives as long as the user's last visit allows. Any other document keeps
			// its remaining life.
			emptied := a.Stats().DriftedUsers == 1
			if longest := w.Projector.RedisKeyLifetime() - 2*oneDay; emptied && (leftNow > longest || leftNow < longest*9/10) || !emptied && (leftNow-left).Abs() > time.Minute {
				t.Errorf("the document lives for %s, and had %s left", leftNow, left)
			}
		})
	}
}

// Posts of big authors are not pushed to idle users. Their documents lack the posts until they return, and that is no drift.
func TestTheAuditLeavesIdleUsersAlone(t *testing.T) {
	w := redisServerNode(t, nil)
	users := w.MakeUsers(3)
	big, idle, lost := users[0], users[1], users[2]
	w.Follow(big, idle, lost)
	w.SetMode(big, services.AuthorBig)
	w.RunAllJobs(w.Fanout)
	seen, _, _ := visitTimesAndTTL(w, idle)
	w.Clock.Advance(10 * oneDay)
	w.Post(big)
	w.RunAllJobs(w.Fanout)
	w.RedisServer.Do("HSET", fmt.Sprintf("{u%d}:b", lost), "e", "7")
	a := newAudit(w, auditLapTime)
	for range 2 {
		runLap(w, a)
	}
	if got := a.Stats(); got.DriftedUsers != 0 || got.RestoredUsers != 0 || got.VisitedUsers < 6 {
		t.Errorf("%+v", got)
	}
	for _, user := range []services.UserID{idle, lost} {
		if now, _, _ := visitTimesAndTTL(w, user); !now.Equal(seen) {
			t.Errorf("user %d, who has not come since %s, was seen at %s", user, seen, now)
		}
		w.Must(w.Projector.Rebuild(t.Context(), user))
		w.CheckAgainstFacts(user)
	}
}
