package nodes

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/node"
	"tidings/services/people"
	"tidings/services/redis/redistest"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// inactiveFollowers are three followers of a huge author: one was never seen, one was last seen nine days ago, and one a year ago.
// Redis holds nothing about the follower of a year ago.
type inactiveFollowers struct {
	nodeA, nodeB      *world.Node
	t                 *testing.T
	userKeys          []string                      // of the three followers, in the order above
	lastVisitsAtStart map[services.UserID]time.Time // the last visits, at the start of the test
	changesReader     world.ChangesReader           // what was read of the change stream so far
}

// newInactiveFollowers makes the huge author star and the three followers. a and b are two nodes on one database.
func newInactiveFollowers(t *testing.T, a, b *world.Node) *inactiveFollowers {
	t.Helper()
	w := &inactiveFollowers{nodeA: a, nodeB: b, t: t, userKeys: []string{"never", "idle", "dormant"}}
	a.CreateUsers("star")
	a.MakeAuthorsHuge("star")
	var events []any
	for _, key := range w.userKeys {
		events = append(events, map[string]any{"as": "user:" + key, "do": map[string]any{"follow": map[string]any{"userId": "user:star"}}})
	}
	a.MustAsk("host:ingest", `mutation($e:[IngestEvent!]!){ingest(events:$e){results{id}}}`, map[string]any{"e": events}, nil)
	a.Badges("idle")
	for key, days := range map[string]int{"idle": 9, "dormant": 365} {
		user := a.EnsureUserIDs(key)
		sqltest.Equal(t, a.DB.Write(t.Context(), func(tx *sql.Tx) error {
			_, err := tx.Run(t.Context(), sql.AdHoc("test", "UPDATE users SET seen_at = $1 WHERE number = $2"), tx.Now.AddDate(0, 0, -days), user[0])
			return err
		}), nil)
	}
	w.lastVisitsAtStart = w.readLastVisits()
	return w
}

// readLastVisits reads when each follower visited last.
func (w *inactiveFollowers) readLastVisits() map[services.UserID]time.Time {
	return sqltest.Must(people.LastVisits(w.t.Context(), w.nodeA.DB, w.nodeA.EnsureUserIDs(w.userKeys...)))(w.t)
}

// waitNewestChanges waits until has is true for the newest change of each user in keys, or of every follower if there are no keys.
func (w *inactiveFollowers) waitNewestChanges(what string, has func(world.Change) bool, keys ...string) {
	w.t.Helper()
	if len(keys) == 0 {
		keys = w.userKeys
	}
	world.EventuallySucceeds(w.t, 30*time.Second, func() error {
		if err := w.changesReader.ReadToEnd(w.nodeB.URL); err != nil {
			w.t.Fatal(err)
		}
		for _, key := range keys {
			if last := w.changesReader.LastByKey[key]; !has(last) {
				return fmt.Errorf("%s did not reach %s: %+v", what, key, last)
			}
		}
		return nil
	})
}

// hasSourceCount returns a function that reports whether a change has this count of a source.
func hasSourceCount(source string, count int) func(world.Change) bool {
	return func(change world.Change) bool {
		for _, one := range change.Sources {
			if one.Source == source && one.Count == count {
				return true
			}
		}
		return false
	}
}

// Slow laps, over the users who are not active, find changes that are not written for each user, and make no user active. The badges
// of dormant users do not include announcements and dots: a dormant user who returns is treated as new, and finds none of them unread.
func TestChangesOfAwayFollowers(t *testing.T) {
	p := world.StartNodePair(t, redistest.Redis(t), func(cfg *node.Config) {
		withChangeStream(200 * time.Millisecond)(cfg)
		cfg.Chat.MaxMembersCountedOnWrite = 2
	})
	w := newInactiveFollowers(t, p.A, p.B)
	key := w.nodeA.Announce(map[string]any{"title": "news", "content": "for all"})
	w.waitNewestChanges("an announcement", hasSourceCount("ANNOUNCEMENTS", 1), "idle")
	if cause := w.changesReader.LastAlertingByKey["idle"].Cause; cause == nil || cause.Source != "ANNOUNCEMENTS" {
		t.Errorf("the announcement was silent: %+v", w.changesReader.LastByKey["idle"])
	}
	w.nodeB.RaiseDot(map[string]any{"name": "shop"})
	w.waitNewestChanges("a dot", func(change world.Change) bool { return len(change.Dots) == 1 }, "idle")
	w.nodeA.Publish("star", "hello")
	w.waitNewestChanges("a post of a huge author", hasSourceCount("HOME_FEED", 1))
	w.nodeB.GoLive("star")
	w.waitNewestChanges("a show", hasSourceCount("LIVE_BOARD", 1))

	var made struct {
		CreateConversation struct{ Conversation struct{ ID string } }
	}
	w.nodeA.MustAsk("star", `mutation{createConversation(input:{kind:GROUP,memberIds:["user:never","user:idle","user:dormant"]}){conversation{id}}}`, nil, &made)
	w.nodeA.MustAsk("star", `mutation{sendMessage(input:{conversationId:"`+made.CreateConversation.Conversation.ID+`",body:"hello all"}){message{id}}}`, nil, nil)
	w.waitNewestChanges("a message in a large room", hasSourceCount("CONVERSATIONS", 1))

	w.nodeA.MustAsk("boss:admin", `mutation{defineCategory(input:{name:"orders"}){changed}}`, nil, nil)
	w.nodeA.MustAsk("host:ingest", `mutation{notify(input:{to:["user:never","user:idle","user:dormant"],category:"orders",title:"sent"}){created}}`, nil, nil)
	total := func(idle, others int) func(world.Change) bool {
		return func(change world.Change) bool {
			return change.Total == idle || change.Key != "idle" && change.Total == others
		}
	}
	w.waitNewestChanges("an order", total(5, 4))
	w.nodeA.MustAsk("boss:admin", `mutation{defineCategory(input:{name:"orders",inTotal:false}){changed}}`, nil, nil)
	w.waitNewestChanges("the category's new definition", total(4, 3))
	w.nodeA.MustAsk("boss:admin", `mutation{withdrawAnnouncement(input:{announcementId:"`+key+`"}){changed}}`, nil, nil)
	w.waitNewestChanges("the announcement's end", total(3, 3))
	if _, errs := w.nodeA.Badge.Peek(t.Context(), []services.UserID{0}); errs[0] != nil {
		t.Errorf("the badges of nobody, by which the writer learns whether any can be read: %v", errs[0])
	}
	if now := w.readLastVisits(); !maps.Equal(now, w.lastVisitsAtStart) {
		t.Errorf("they were seen at %v, now at %v", w.lastVisitsAtStart, now)
	}
}
