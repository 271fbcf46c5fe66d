package contract

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/redis/redistest"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// hostileMarkup is a text that would run as a script if a page did not escape it.
const hostileMarkup = `<script>alert(1)</script>"'><img src=x onerror=alert(2)>`

// escapedKey returns a key as it is written in IDs and in tokens of development mode.
func escapedKey(key string) string {
	return strings.TrimPrefix(services.GlobalID(services.UserType, key), "user:")
}

// startNodeWithMarkup starts a node with a user who has an entry in every part of their page, and with markup in every text that
// people choose.
func startNodeWithMarkup(t *testing.T) (n *world.Node, o *consoleBrowser, user string) {
	t.Helper()
	n = world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: redistest.Redis(t), ManualStepping: true})
	user = "ann<b>" + hostileMarkup
	userID := services.GlobalID(services.UserType, user)
	as := escapedKey(user)
	n.Badges(as)
	n.Badges("bob")
	n.MustAsk("bob", `mutation($u:ID!){setProfile(input:{name:"`+strings.ReplaceAll(hostileMarkup, `"`, `\"`)+`"}){user{id}} follow(input:{userId:$u}){user{id}}}`, map[string]any{"u": userID}, nil)
	n.MustAsk(as, `mutation($m:String!){setProfile(input:{name:$m}){user{id}} follow(input:{userId:"user:bob"}){user{id}}}`, map[string]any{"m": hostileMarkup}, nil)
	post := n.Publish(as, "mine "+hostileMarkup)
	n.Publish("bob", "theirs "+hostileMarkup)
	n.MustAsk("bob", `mutation($p:ID!){likePost(input:{postId:$p}){post{id}}}`, map[string]any{"p": post}, nil)
	var made struct {
		CreateConversation struct{ Conversation struct{ ID string } }
	}
	n.MustAsk("bob", `mutation($u:ID!,$m:String!){createConversation(input:{kind:GROUP,memberIds:[$u],title:$m}){conversation{id}}}`, map[string]any{"u": userID, "m": hostileMarkup[:40]}, &made)
	n.MustAsk("bob", `mutation($c:ID!){sendMessage(input:{conversationId:$c,body:"private words"}){message{id}}}`, map[string]any{"c": made.CreateConversation.Conversation.ID}, nil)
	n.MustAsk(as, `mutation{mute(input:{userId:"user:carol"}){user{id}} block(input:{userId:"user:alice"}){user{id}}}`, nil, nil)
	n.MustAsk("boss:admin", `mutation($u:ID!){sendSiteMessage(input:{to:[$u],title:"t"}){message{id}}}`, map[string]any{"u": userID}, nil)
	n.Announce(map[string]any{"title": hostileMarkup})
	n.RaiseDot(map[string]any{"name": "shop"})
	n.SettleJobsAndCaches()
	return n, &consoleBrowser{t: t, serverURL: n.URL}, user
}

// The page of a user shows what they would see, each count with the items behind it, and no text of a message. Names and texts that
// people chose appear as text.
func TestTheConsoleShowsAUser(t *testing.T) {
	n, o, user := startNodeWithMarkup(t)
	path := "/admin/users?user=" + url.QueryEscape(user)
	got := o.get(path)
	o.wantAnswer("the page", got, 200, "home feed", "notifications", "site messages", "announcements", "conversations", "exact", "markHomeFeedSeen", "theirs", "mine",
		"carol", "alice", "shop", "like")
	badges := n.Badges(escapedKey(user))
	if want := fmt.Sprintf(`<p class="total">%d `, badges.Total.Value); badges.Total.Value < 4 || !strings.Contains(got.body, want) {
		t.Errorf("the total of %d is not on the page: %s", badges.Total.Value, got.body)
	}
	for _, private := range []string{"private words"} {
		if strings.Contains(got.body, private) {
			t.Errorf("the page has %q", private)
		}
	}
	o.wantAnswer("by ID", o.get("/admin/users?user=user:"+url.QueryEscape(escapedKey(user))), 200, "theirs")
	o.wantAnswer("nobody", o.get("/admin/users?user=nobody"), 404, "There is no user &#34;nobody&#34;.")
	if n.UserExists("nobody") {
		t.Error("to look somebody up makes them")
	}
	o.wantAnswer("no key", o.get("/admin/users?user="+strings.Repeat("x", 129)), 400, "128")
	o.wantAnswer("the form", o.get("/admin/users"), 200, `name="user"`)
	o.wantMarkupEscaped(user)
}

// wantMarkupEscaped checks that no page contains, as markup, a text of a user or of a request.
func (o *consoleBrowser) wantMarkupEscaped(user string) {
	o.t.Helper()
	escaped := escapedKey(user)
	o.cookie = nil
	o.wantAnswer("an operator with markup", o.signIn("dev:"+escaped+":admin"), 303)
	o.wantAnswer("a recount", o.post("/admin/users/recount", url.Values{"user": {"user:" + escaped}}), 200, "rebuilt from the facts")
	for _, page := range []consoleAnswer{
		o.get("/admin"), o.get("/admin/acts"), o.get("/admin/acts?after=" + url.QueryEscape(hostileMarkup)), o.get("/admin/webhooks"), o.get("/admin/users?user=" + url.QueryEscape(user)),
		o.get("/admin/users?user=" + url.QueryEscape(hostileMarkup)), o.get("/admin/users?user=" + url.QueryEscape(strings.Repeat(hostileMarkup, 5))), o.get("/admin/" + url.PathEscape(hostileMarkup)),
		o.post("/admin/users/recount", url.Values{"user": {hostileMarkup}}), o.post("/admin/users/recount", url.Values{"user": {"user:" + hostileMarkup}}),
		o.post("/admin/webhooks/test", url.Values{"name": {hostileMarkup}}), o.post("/admin/webhooks/replay", url.Values{"name": {hostileMarkup}, "user": {hostileMarkup}}), o.signIn(hostileMarkup), o.signIn("dev:" + hostileMarkup),
	} {
		if found := regexp.MustCompile(`(?i)<(script|img|b>)[^<]{0,60}`).FindString(page.body); found != "" {
			o.t.Errorf("a page has %q", found)
		}
	}
	o.cookie = nil
	o.wantAnswer("the acts", o.get("/admin/acts"), 200, "recountBadges", "lookUpUser", "ann&lt;b&gt;&lt;script&gt;")
}

// readStoredData reads everything in SQL and Redis, except the acts.
func readStoredData(t *testing.T, n *world.Node) (all []string) {
	t.Helper()
	ctx := t.Context()
	column := func(text string) []string {
		t.Helper()
		list, err := sql.ReadColumn[string](ctx, n.DB, sql.AdHoc("state of the test", text))
		if err != nil {
			t.Fatal(text, err)
		}
		return list
	}
	for _, table := range column(`SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT IN ('acts', 'sqlite_sequence')`) {
		columns := column(`SELECT 'quote("' || name || '")' FROM pragma_table_info('` + table + `') ORDER BY cid`)
		for _, row := range column("SELECT " + strings.Join(columns, " || ',' || ") + " FROM " + table) {
			all = append(all, table+": "+row)
		}
	}
	keys, err := n.Redis.Client.Commands().Keys(ctx, "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		value, err := n.Redis.Client.Commands().Dump(ctx, key).Result()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%s: %q, until %v", key, value, n.Redis.Client.Commands().PExpireTime(ctx, key).Val()))
	}
	slices.Sort(all)
	return all
}

// Looking a user up changes nothing: it is not a visit, moves none of their positions, and writes nothing to SQL or Redis. This
// holds for an active user, for a dormant user without data in Redis, and for a user that Redis has lost.
func TestTheConsoleRecordsNoVisit(t *testing.T) {
	n, o, user := startNodeWithMarkup(t)
	look := func(when string) {
		t.Helper()
		before := readStoredData(t, n)
		o.wantAnswer(when, o.get("/admin/users?user="+url.QueryEscape(user)), 200, "theirs", "carol")
		if _, err := n.Badge.WriteVisits(t.Context()); err != nil {
			t.Fatal(err)
		}
		after := readStoredData(t, n)
		for _, line := range after {
			if _, had := slices.BinarySearch(before, line); !had {
				t.Errorf("%s: now there is %.300s", when, line)
			}
		}
		if len(before) < 30 || len(after) != len(before) {
			t.Errorf("%s: %d things before, %d after", when, len(before), len(after))
		}
	}
	look("a user who is here")
	n.Clock.Advance(25 * time.Hour)
	look("on the next day")
	if _, err := n.Redis.Client.Commands().FlushAll(t.Context()).Result(); err != nil {
		t.Fatal(err)
	}
	look("Redis has lost them")
	n.Clock.Advance(60 * 24 * time.Hour)
	look("a dormant user")
}
