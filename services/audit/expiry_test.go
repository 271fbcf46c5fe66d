package audit_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/projector"
)

// If items expire from the counts, a projection may have the counts of an earlier day until it is next read. That is no
// difference. An item that expires too early, too late or never is a difference.
func TestAuditAllowsForExpiredItems(t *testing.T) {
	w := newNode(fanouttest.New(t, fanouttest.Options{Projector: func(cfg *projector.Config) {
		cfg.Expiry = services.SourceExpiry{services.SourceHomeFeed: 2, services.SourceSiteMessages: 2, services.SourceConversations: 2}
	}}))
	user, _ := newUserWithFullDocument(w)
	a := newAudit(w, auditLapTime)
	runLap(w, a)
	drifted := uint64(0)
	find := func(values map[string]string, key string) {
		t.Helper()
		for field, value := range values {
			w.RedisServer.Do("HSET", fmt.Sprintf("{u%d}:%s", user, key), field, value)
			runLap(w, a)
			drifted++
			if got := a.Stats(); got.DriftedUsers != drifted {
				t.Fatalf("%s = %q: %+v, want %d", field, value, got, drifted)
			}
		}
	}
	for range 2 {
		shown := snapshotOf(w, user)
		today := services.DayOf(w.Clock.Now())
		find(map[string]string{"Cx": "0", "fx": services.SortableIDAt(w.Clock.Now()).String()}, "b")
		find(map[string]string{"Cx": strconv.FormatInt(shown.Document.Conversations.NextExpiryDay+1, 10)}, "b")
		for id, state := range shown.Conversations {
			if state.CountedOnRead {
				continue
			}
			text := fmt.Sprintf("%d,%d,%d,%d,%d,%d,", state.NewestMessageNumber, state.ReadUpTo, state.UnreadAdjustment, state.Version, state.Mentions, state.CountedOnReadVersion)
			field := strconv.Itoa(int(id))
			find(map[string]string{field: fmt.Sprintf("%s,%d,%d", text, today+1, state.NextExpiryDay)}, "c")
			find(map[string]string{field: fmt.Sprintf("%s,%d,%d", text, state.ExpiredAsOfDay, state.NextExpiryDay+1)}, "c")
			find(map[string]string{field: fmt.Sprintf("%s,%d,0", text, state.ExpiredAsOfDay)}, "c")
		}
		w.Clock.Advance(24 * time.Hour)
	}
	for day := range 10 {
		w.Clock.Advance(24 * time.Hour)
		if day%2 == 0 {
			w.Must(w.Projector.ExpireFeedPosts(t.Context(), []services.UserID{user}, services.DayOf(w.Clock.Now())))
			w.Must(w.chat.Source().RemoveExpired(t.Context(), []services.UserID{user}, services.DayOf(w.Clock.Now())))
		}
		runLap(w, a)
		if got := a.Stats(); got.DriftedUsers != drifted {
			t.Fatalf("after %d days %+v, want %d", day, got, drifted)
		}
	}
	if got := w.Document(user); got.FeedCount != 0 || got.Conversations.Unread != 0 || got.Conversations.Mentions != 0 {
		t.Errorf("in the end %+v", got)
	}
}
