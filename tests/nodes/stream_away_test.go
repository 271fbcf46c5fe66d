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

// awayFollowers are three followers of a huge author: one was never seen, one was last seen nine days ago, and one a year ago.
// Redis holds nothing about the follower of a year ago.
type awayFollowers struct {
	a, b   *world.Node
	t      *testing.T
	keys   []string
	visits map[services.UserID]time.Time // the last visits, at the start of the test
	reader world.Changes                 // what was read of the stream so far
}

// newAwayFollowers makes the followers. a and b are two nodes on one database.
func newAwayFollowers(t *testing.T, a, b *world.Node) *awayFollowers {
	t.Helper()
	w := &awayFollowers{a: a, b: b, t: t, keys: []string{"never", "idle", "dormant"}}
	a.CreateUsers("star")
	a.MakeHuge("star")
	var events []any
	for _, key := range w.keys {
		events = append(events, map[string]any{"as": "user:" + key, "do": map[string]any{"follow": map[string]any{"userId": "user:star"}}})
	}
	a.Must("host:ingest", `mutation($e:[IngestEvent!]!){ingest(events:$e){results{id}}}`, map[string]any{"e": events}, nil)
	a.Badges("idle")
	for key, days := range map[string]int{"idle": 9, "dormant": 365} {
		user := a.IDsOf(key)
		sqltest.Equal(t, a.Store.Write(t.Context(), func(tx *sql.Tx) error {
			_, err := tx.Run(t.Context(), sql.AdHoc("test", "UPDATE users SET seen_at = $1 WHERE number = $2"), tx.Now.AddDate(0, 0, -days), user[0])
			return err
		}), nil)
	}
	w.visits = w.lastVisits()
	return w
}

// lastVisits reads when each follower visited last.
func (w *awayFollowers) lastVisits() map[services.UserID]time.Time {
	return sqltest.Must(people.LastVisits(w.t.Context(), w.a.Store, w.a.IDsOf(w.keys...)))(w.t)
}

// waitNewestChanges waits until has is true for the newest change of each user in keys, or of every follower if there are no keys.
func (w *awayFollowers) waitNewestChanges(what string, has func(world.Change) bool, keys ...string) {
	w.t.Helper()
	if len(keys) == 0 {
		keys = w.keys
	}
	world.EventuallySucceeds(w.t, 30*time.Second, func() error {
		if err := w.reader.Read(w.b.URL); err != nil {
			w.t.Fatal(err)
		}
		for _, key := range keys {
			if last := w.reader.Last[key]; !has(last) {
				return fmt.Errorf("%s did not reach %s: %+v", what, key, last)
			}
		}
		return nil
	})
}

// hasCount returns a function that reports whether a change has this count of a source.
func hasCount(source string, count int) func(world.Change) bool {
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
	p := world.StartPair(t, redistest.Redis(t), func(cfg *node.Config) {
		withStream(200 * time.Millisecond)(cfg)
		cfg.MaxWriteMembers = 2
	})
	w := newAwayFollowers(t, p.A, p.B)
	key := w.a.Announce(map[string]any{"title": "news", "content": "for all"})
	w.waitNewestChanges("an announcement", hasCount("ANNOUNCEMENTS", 1), "idle")
	if cause := w.reader.LastAlerting["idle"].Cause; cause == nil || cause.Source != "ANNOUNCEMENTS" {
		t.Errorf("the announcement was silent: %+v", w.reader.Last["idle"])
	}
	w.b.RaiseDot(map[string]any{"name": "shop"})
	w.waitNewestChanges("a dot", func(change world.Change) bool { return len(change.Dots) == 1 }, "idle")
	w.a.Publish("star", "hello")
	w.waitNewestChanges("a post of a huge author", hasCount("HOME_FEED", 1))
	w.b.GoLive("star")
	w.waitNewestChanges("a show", hasCount("LIVE_BOARD", 1))

	var made struct {
		CreateConversation struct{ Conversation struct{ ID string } }
	}
	w.a.Must("star", `mutation{createConversation(input:{kind:GROUP,memberIds:["user:never","user:idle","user:dormant"]}){conversation{id}}}`, nil, &made)
	w.a.Must("star", `mutation{sendMessage(input:{conversationId:"`+made.CreateConversation.Conversation.ID+`",body:"hello all"}){message{id}}}`, nil, nil)
	w.waitNewestChanges("a message in a large room", hasCount("CONVERSATIONS", 1))

	w.a.Must("boss:admin", `mutation{defineCategory(input:{name:"orders"}){changed}}`, nil, nil)
	w.a.Must("host:ingest", `mutation{notify(input:{to:["user:never","user:idle","user:dormant"],category:"orders",title:"sent"}){created}}`, nil, nil)
	total := func(idle, others int) func(world.Change) bool {
		return func(change world.Change) bool {
			return change.Total == idle || change.Key != "idle" && change.Total == others
		}
	}
	w.waitNewestChanges("an order", total(5, 4))
	w.a.Must("boss:admin", `mutation{defineCategory(input:{name:"orders",inTotal:false}){changed}}`, nil, nil)
	w.waitNewestChanges("the category's new definition", total(4, 3))
	w.a.Must("boss:admin", `mutation{withdrawAnnouncement(input:{announcementId:"`+key+`"}){changed}}`, nil, nil)
	w.waitNewestChanges("the announcement's end", total(3, 3))
	if _, errs := w.a.Badge.Peek(t.Context(), []services.UserID{0}); errs[0] != nil {
		t.Errorf("the badges of nobody, by which the writer learns whether any can be read: %v", errs[0])
	}
	if now := w.lastVisits(); !maps.Equal(now, w.visits) {
		t.Errorf("they were seen at %v, now at %v", w.visits, now)
	}
}
