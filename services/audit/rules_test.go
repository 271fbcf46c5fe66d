package audit_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tidings/services"
	"tidings/services/people"
	"tidings/services/rdb"
)

// Every versioned field is compared. The rebuild and the audit each have their own reader of the facts: a value that only the rebuild's
// reader returns is drift.
func TestAuditComparesEveryVersionedField(t *testing.T) {
	for name, wrong := range map[string]rdb.VersionedField{
		"notifications":          rdb.CategoryVersionedFields(services.CategoryCounts{Category: services.CategoryLike, Version: 1 << 51, CountByDay: [8]int{9}})[0],
		"site messages":          rdb.MessagesVersionedField(services.MessageTypeState{Type: services.DefaultMessageType, Version: 1 << 51, Unread: 9}),
		"display policy":         rdb.PolicyVersionedField(services.DisplayPolicy{Version: 1 << 51, QuietToMinute: 9}),
		"announcements and dots": rdb.AnnouncementVersionedField(services.AnnouncementState{Version: 1 << 51, Position: 9}),
		"segments":               rdb.SegmentVersionedField(services.SegmentState{Version: 1 << 51, Bits: 9}),
		"a dot":                  rdb.DotVersionedField("shop", 1<<51),
		"modes of categories":    rdb.ModesVersionedField(services.CategoryModes{Version: 1 << 51, ByCategory: map[services.Category]services.CategoryMode{"LIKE": services.CategoryOff}}),
		"live board":             rdb.LiveSeenVersionedField(1 << 51),
		"views":                  rdb.ViewsVersionedField(services.ViewsState{Version: 1 << 51, Unread: 9}),
	} {
		t.Run(name, func(t *testing.T) {
			w := newFastNode(t, nil)
			newUserWithFullDocument(w)
			a := newAudit(w, auditLapTime)
			runLap(w, a)
			if got := a.Stats(); got.DriftedUsers != 0 {
				t.Fatalf("with right readers: %+v", got)
			}
			type fields = []rdb.VersionedField
			w.Projector.AddVersionedFields("wrong", func(context.Context, services.UserID) (fields, error) { return fields{wrong}, nil },
				func(context.Context, services.UserID) (fields, error) { return nil, nil })
			everyone, err := people.ActiveUsers(t.Context(), w.DB, 0, 10_000, time.Time{})
			w.Must(err)
			for _, user := range everyone {
				w.Must(w.Projector.Rebuild(t.Context(), user))
			}
			runLap(w, a)
			if got := a.Stats(); got.DriftedUsers == 0 {
				t.Errorf("the audit agrees with %+v: %+v", wrong, got)
			}
		})
	}
}

// A setting can change how a state counts, and the audit allows for it: a muted conversation whose mentions do not count is
// right.
func TestAuditAllowsForMutedMentions(t *testing.T) {
	for _, mute := range []bool{false, true} {
		w := redisServerNode(t, nil)
		w.chat.MuteMentions = mute
		user, _ := newUserWithFullDocument(w)
		w.commit(w.chat.Mute(user, 2, true), nil)
		w.RunAllJobs(w.Fanout)
		a := newAudit(w, auditLapTime)
		runLap(w, a)
		if got := a.Stats(); got.DriftedUsers != 0 || w.Document(user).Conversations.Mentions != map[bool]int{true: 1, false: 2}[mute] {
			t.Errorf("mentions muted %v: %+v, %+v", mute, got, w.Document(user).Conversations)
		}
	}
}

// Recount rebuilds one user's projection, and returns the differences.
func TestRecountRebuildsAndReturnsDifferences(t *testing.T) {
	w := redisServerNode(t, nil)
	user, _ := newUserWithFullDocument(w)
	recount := func(want ...string) {
		t.Helper()
		differed, err := w.Projector.Recount(t.Context(), user)
		w.Must(err)
		if !cmp.Equal(differed, want) {
			t.Errorf("%q differed, want %q", differed, want)
		}
		w.CheckAgainstFacts(user)
	}
	recount()
	w.RedisServer.Do("HSET", fmt.Sprintf("{u%d}:b", user), "NL", "999;0;20484;5,0,0,0,0,0,0,0", "T", "0000000000000")
	recount("home feed: position", "home feed: count", "versioned field NL")
	recount()
	w.RedisServer.Do("SET", fmt.Sprintf("{u%d}:i", user), "text")
	recount("a key that cannot be read")
	w.RedisServer.Flush()
	recount()
}
