package nodes

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tidings/services/redis/redistest"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// categoriesView is what a user is shown of the host application's categories of notifications: counts, their explanation, the away
// digest and the list.
type categoriesView struct {
	Viewer struct {
		Badges struct {
			Total         struct{ Value int }
			Notifications struct {
				Total      struct{ Value int }
				Categories []struct {
					Category, Name string
					Older          int
					Count          struct {
						Value   int
						Display string
						InTotal bool
					}
				}
			}
		}
		BadgeExplained []struct {
			Part  string
			Items []struct{ NodeID, ClearedBy string }
		}
		AwayDigest struct {
			Parts []struct {
				Part  string
				Count struct{ Value int }
			}
		}
		Notifications struct {
			Nodes []struct {
				ID, Category, HostCategory, Title, URL, GroupKey string
				Data                                             map[string]any
				ActorCount                                       int
				Seen, Read, Older                                bool
			}
		}
	}
}

// countsText returns the counts as text: the total of notifications, the sum of the categories in it, and for each category of the host
// application name=value, the display if it differs from the value, "out" if it is out of the total, and the number of older ones.
func (v categoriesView) countsText() string {
	var shown []string
	sum := 0
	for _, one := range v.Viewer.Badges.Notifications.Categories {
		if one.Count.InTotal {
			sum += one.Count.Value
		}
		if one.Category != "HOST" {
			continue
		}
		text := fmt.Sprintf("%s=%d", one.Name, one.Count.Value)
		if one.Count.Display != fmt.Sprint(one.Count.Value) {
			text += " " + one.Count.Display
		}
		if !one.Count.InTotal {
			text += " out"
		}
		if one.Older > 0 {
			text += fmt.Sprintf(" older=%d", one.Older)
		}
		shown = append(shown, text)
	}
	return fmt.Sprintf("total %d of %d: %s", v.Viewer.Badges.Notifications.Total.Value, sum, strings.Join(shown, ", "))
}

// categoriesNode is a node to which the tests send requests as the host application, as an operator and as users.
type categoriesNode struct{ *world.Node }

// wantCategoryCounts reads what a user is shown and checks the counts; want is a text as of categoriesView.countsText.
func (n categoriesNode) wantCategoryCounts(user, want string) (v categoriesView) {
	n.TB.Helper()
	n.MustAsk(user, `{viewer{badges{total{value} notifications{total{value} categories{category name older count{value display inTotal}}}}
		badgeExplained{part items{nodeId clearedBy}} awayDigest(since:"2020-01-01T00:00:00Z"){parts{part count{value}}}
		notifications(categories:[HOST]){nodes{id category hostCategory title url groupKey data actorCount seen read older}}}}`, nil, &v)
	if got := v.countsText(); got != want {
		n.TB.Errorf("%s sees %q, want %q", user, got, want)
	}
	if b := v.Viewer.Badges; b.Total.Value != b.Notifications.Total.Value {
		n.TB.Errorf("%s: the total is %d, its parts %d", user, b.Total.Value, b.Notifications.Total.Value)
	}
	return v
}

// notifyAsHost sends a notification of the host application, and returns its ID once all jobs are done.
func (n categoriesNode) notifyAsHost(input map[string]any) string {
	n.TB.Helper()
	var data struct {
		Notify struct{ HostNotificationID string }
	}
	n.MustAsk("host:ingest", `mutation($i:NotifyInput!){notify(input:$i){hostNotificationId created recipients}}`, map[string]any{"i": input}, &data)
	n.SettleJobsAndCaches()
	return data.Notify.HostNotificationID
}

// The host application defines categories of notifications and notifies 10,000 users at once. Users read counts and lists, mark
// notifications as seen and undo that, until a category is removed and its name is free again.
func TestCategoriesOfTheHost(t *testing.T) {
	for _, engine := range []struct {
		name string
		url  func(testing.TB) string
	}{{"sqlite", func(tb testing.TB) string { return sqltest.SQLite(tb) }}, {"postgres", func(tb testing.TB) string { return sqltest.Postgres(tb) }}} {
		t.Run(engine.name, func(t *testing.T) {
			checkHostCategories(t, categoriesNode{world.StartNode(t, world.NodeOptions{Database: engine.url(t), Redis: redistest.Redis(t), ManualStepping: true})})
		})
	}
}

// checkHostCategories runs TestCategoriesOfTheHost on one node.
func checkHostCategories(t *testing.T, n categoriesNode) {
	for _, one := range []string{`name:"orders"`, `name:"promo",style:DOT,grouped:false,expiryDays:null`, `name:"quiet",inTotal:false`} {
		n.MustAsk("boss:admin", `mutation{defineCategory(input:{`+one+`}){created category{name}}}`, nil, nil)
	}
	var listed any
	n.MustAsk("boss:admin", `{admin{hostCategories{name expiryDays grouped style inTotal}}}`, nil, &listed)
	if got, want := fmt.Sprint(listed), "map[admin:map[hostCategories:["+
		"map[expiryDays:7 grouped:true inTotal:true name:orders style:NUMBER] map[expiryDays:<nil> grouped:false inTotal:false name:promo style:DOT] "+
		"map[expiryDays:7 grouped:true inTotal:false name:quiet style:NUMBER]]]]"; got != want {
		t.Errorf("the list is %s, want %s", got, want)
	}
	n.wantCategoryCounts("u9999", "total 0 of 0: orders=0, promo=0  out, quiet=0 out")
	users := make([]string, 10_000)
	for i := range users {
		users[i] = fmt.Sprintf("user:u%04d", i)
	}
	event := map[string]any{"key": "k1", "do": map[string]any{"notify": map[string]any{"category": "orders", "to": users, "title": "sent", "ref": "o/1",
		"groupKey": "o1", "actorId": "user:u0003", "url": "https://example.com/o1", "data": map[string]any{"n": 1}}}}
	var ids [2]string
	for i := range ids { // the event is sent twice, and the second answer is that of the first
		var data struct {
			Ingest struct {
				Results []struct {
					ID    string
					Error *struct{ Message string }
				}
			}
		}
		n.MustAsk("host:ingest", `mutation($e:[IngestEvent!]!){ingest(events:$e){results{id error{message}}}}`, map[string]any{"e": []any{event}}, &data)
		if ids[i] = data.Ingest.Results[0].ID; data.Ingest.Results[0].Error != nil || ids[i] != ids[0] {
			t.Fatalf("%+v", data)
		}
		n.SettleJobsAndCaches()
	}
	for _, user := range []string{"u0000", "u4999", "u9999"} {
		v := n.wantCategoryCounts(user, "total 1 of 1: orders=1, promo=0  out, quiet=0 out")
		nodes := v.Viewer.Notifications.Nodes
		if len(nodes) != 1 || nodes[0].Title != "sent" || nodes[0].HostCategory != "orders" || nodes[0].Category != "HOST" || nodes[0].URL != "https://example.com/o1" ||
			nodes[0].Data["n"] != 1.0 || nodes[0].GroupKey != "o1" || nodes[0].ActorCount != 1 || nodes[0].Seen {
			t.Errorf("listed: %+v", nodes)
		}
		if why := v.Viewer.BadgeExplained; len(why) != 1 || why[0].Part != "orders" || len(why[0].Items) != 1 || why[0].Items[0].NodeID != nodes[0].ID {
			t.Errorf("explained: %+v", why)
		}
		brought := 0
		for _, part := range v.Viewer.AwayDigest.Parts {
			if part.Part == "orders" {
				brought += part.Count.Value
			}
		}
		if brought != 1 {
			t.Errorf("the digest has %+v", v.Viewer.AwayDigest.Parts)
		}
	}
	n.wantCategoryCounts("u0003", "total 0 of 0: orders=0, promo=0  out, quiet=0 out") // the actor
	checkMarkingCategoriesSeen(t, n)
	n.MustAsk("host:ingest", `mutation($i:ID!){withdrawNotification(input:{hostNotificationId:$i}){changed}}`, map[string]any{"i": "hostNotification:ref:o%2F1"}, nil)
	n.SettleJobsAndCaches()
	n.wantCategoryCounts("u4999", "total 0 of 0: orders=0, promo=0  out, quiet=0 out")
	checkCategoryRemoval(t, n)
}

// checkMarkingCategoriesSeen marks notifications of single users as seen, and checks that the counts of other users and categories
// stay.
func checkMarkingCategoriesSeen(t *testing.T, n categoriesNode) {
	n.notifyAsHost(map[string]any{"category": "orders", "to": []string{"user:u0000"}, "title": "arrived", "groupKey": "o1"})
	v := n.wantCategoryCounts("u0000", "total 1 of 1: orders=1, promo=0  out, quiet=0 out")
	if nodes := v.Viewer.Notifications.Nodes; len(nodes) != 1 || nodes[0].Title != "arrived" {
		t.Errorf("grouped: %+v", nodes)
	}
	for range 2 {
		n.notifyAsHost(map[string]any{"category": "promo", "to": []string{"user:u0000"}, "title": "p", "groupKey": "same"})
		n.notifyAsHost(map[string]any{"category": "quiet", "to": []string{"user:u0000"}, "title": "q"})
	}
	n.wantCategoryCounts("u0000", "total 1 of 1: orders=1, promo=2 • out, quiet=2 out")
	for _, one := range [][2]string{{`name:"promo",style:NUMBER`, "total 3 of 3: orders=1, promo=2, quiet=2 out"}, {`name:"promo",style:DOT`, "total 1 of 1: orders=1, promo=2 • out, quiet=2 out"},
		{`name:"quiet"`, "total 3 of 3: orders=1, promo=2 • out, quiet=2"}, {`name:"quiet",inTotal:false`, "total 1 of 1: orders=1, promo=2 • out, quiet=2 out"}} {
		n.MustAsk("boss:admin", `mutation{defineCategory(input:{`+one[0]+`,expiryDays:null}){changed category{style inTotal}}}`, nil, nil)
		n.wantCategoryCounts("u0000", one[1])
	}
	n.MustAsk("u0000", `mutation{markNotificationsSeen(input:{hostCategories:["orders","quiet"]}){badges{version}}}`, nil, nil)
	n.wantCategoryCounts("u0000", "total 0 of 0: orders=0, promo=2 • out, quiet=0 out")
	n.MustAsk("u4999", `mutation{markAllRead(input:{}){badges{version}}}`, nil, nil)
	n.wantCategoryCounts("u4999", "total 0 of 0: orders=0, promo=0  out, quiet=0 out")
	n.MustAsk("u4999", `mutation{undoMarkAllRead(input:{}){badges{version}}}`, nil, nil)
	n.wantCategoryCounts("u4999", "total 1 of 1: orders=1, promo=0  out, quiet=0 out")
	n.Clock.Advance(9 * 24 * time.Hour)
	n.wantCategoryCounts("u4999", "total 0 of 0: orders=0 older=1, promo=0  out, quiet=0 out")
	n.wantCategoryCounts("u0000", "total 0 of 0: orders=0, promo=2 • out, quiet=0 out")
	n.MustAsk("boss:admin", `mutation{defineCategory(input:{name:"orders",expiryDays:null}){changed}}`, nil, nil)
	n.wantCategoryCounts("u4999", "total 1 of 1: orders=1, promo=0  out, quiet=0 out")
}

// checkCategoryRemoval removes categories. Their names are free afterwards.
func checkCategoryRemoval(t *testing.T, n categoriesNode) {
	n.MustAsk("boss:admin", `mutation{a:removeCategory(input:{name:"promo"}){name} b:removeCategory(input:{name:"orders"}){name}}`, nil, nil)
	if v := n.wantCategoryCounts("u0000", "total 0 of 0: quiet=0 out"); len(v.Viewer.Notifications.Nodes) != 2 {
		t.Errorf("listed after the removal: %+v", v.Viewer.Notifications.Nodes)
	}
	if got := n.Ask("host:ingest", `mutation{notify(input:{category:"promo",to:["user:u0000"],title:"x"}){created}}`, nil); got.ErrorCode() != "NOT_FOUND" {
		t.Errorf("notified in a removed category: %+v", got)
	}
	if got := n.Ask("boss:admin", `mutation{defineCategory(input:{name:"promo"}){created}}`, nil); got.ErrorCode() != "CONFLICT" {
		t.Errorf("defined while it is removed: %+v", got)
	}
	n.SettleJobsAndCaches()
	for _, table := range []string{"notification_causes", "notification_groups", "notification_state", "host_notifications"} {
		if left, err := sqltest.QueryLines(t.Context(), n.DB, "SELECT count(*) FROM "+table+" WHERE category IN ('orders', 'promo')"); err != nil || left[0] != "0" {
			t.Errorf("%s: %v are left, %v", table, left, err)
		}
	}
	n.MustAsk("boss:admin", `mutation{defineCategory(input:{name:"promo"}){created}}`, nil, nil)
	n.wantCategoryCounts("u0000", "total 0 of 0: quiet=0 out, promo=0")
	n.notifyAsHost(map[string]any{"category": "promo", "to": []string{"user:u0000"}, "title": "again"})
	n.wantCategoryCounts("u0000", "total 1 of 1: quiet=0 out, promo=1")
}
