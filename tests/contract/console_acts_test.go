package contract

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/graph"
	"tidings/services/node"
	"tidings/services/redis/redistest"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// recordedAct is an act as an operator sees it.
type recordedAct struct {
	At                     time.Time
	Action, Outcome        string
	Actor, Target, Details *string
	Code                   *string // of the error of an act that failed
}

// readAllActs lists all acts, the newest first, page by page.
func readAllActs(n *world.Node, size int) (list []recordedAct) {
	n.TB.Helper()
	var after *string
	for {
		var data struct {
			Admin struct {
				Acts struct {
					List    []recordedAct
					Cursor  *string
					HasMore bool
				}
			}
		}
		n.MustAsk("reader:admin", `query($n:Int,$a:String){admin{acts(first:$n,after:$a){list{at actor action target details outcome code} cursor hasMore}}}`, map[string]any{"n": size, "a": after}, &data)
		list = append(list, data.Admin.Acts.List...)
		if after = data.Admin.Acts.Cursor; !data.Admin.Acts.HasMore {
			return list
		}
	}
}

// text returns an act in one line, without its time.
func (a recordedAct) text() string {
	line := a.Action + " " + a.Outcome
	for _, part := range []*string{a.Code, a.Actor, a.Target, a.Details} {
		if line += "|"; part != nil {
			line += *part
		}
	}
	return line
}

// adminMutations are the mutations that operators can send, each with a valid input and the act that is recorded. The host application
// can also send the mutations after the blank line; then no act is recorded.
var adminMutations = map[string]struct{ input, want string }{
	"cleanNow":              {"", "|boss||"},
	"recountBadges":         {`{userId:"user:ann"}`, "|boss|user:ann|"},
	"setFanoutThresholds":   {`{bigFollowers:10,hugeFollowers:100}`, "|boss||big 10, huge 100"},
	"setActivityThresholds": {`{idleAfterHours:48,dormantAfterHours:96}`, "|boss||idle 48 h, dormant 96 h"},
	"pinAuthorMode":         {`{userId:"user:ann",mode:BIG}`, "|boss|user:ann|BIG"},
	"addWebhook":            {`{name:"app",url:"RECEIVER?token=hush"}`, "|boss|app|"},
	"rotateWebhookSecret":   {`{name:"app",overlapHours:3}`, "|boss|app|overlap 3 h"},
	"testWebhook":           {`{name:"app"}`, "|boss|app|"},
	"replayWebhook":         {`{name:"app",userId:"user:ann"}`, "|boss|app|of one user"},
	"removeWebhook":         {`{name:"app"}`, "|boss|app|"},
	"defineCategory":        {`{name:"orders"}`, "|boss|orders|grouped true, style NUMBER"},
	"removeCategory":        {`{name:"orders"}`, "|boss|orders|"},
	"eraseUser":             {`{userId:"user:bob"}`, "|boss||"}, // the erasure removes the user from acts too

	"sendSiteMessage":      {`{to:["user:ann"],title:"hush"}`, "|boss|siteMessage:KEY|"},
	"editSiteMessage":      {`{siteMessageId:"siteMessage:KEY",title:"hush"}`, "|boss|siteMessage:KEY|"},
	"publishAnnouncement":  {`{title:"hush"}`, "|boss|announcement:KEY|"},
	"editAnnouncement":     {`{announcementId:"announcement:KEY",title:"hush"}`, "|boss|announcement:KEY|"},
	"withdrawAnnouncement": {`{announcementId:"announcement:KEY"}`, "|boss|announcement:KEY|"},
	"raiseDot":             {`{name:"shop"}`, "|boss||"},
	"setSegments":          {`{userId:"user:ann",segments:["vip"]}`, "|boss|user:ann|"},
	"addViewItem":          {`{code:"topic",key:"1",item:"2",at:"2026-01-02T03:04:05Z"}`, "|boss||"},
	"notify":               {`{category:"orders",to:["user:ann"],title:"hush"}`, "|boss|hostNotification:KEY|"},
	"withdrawNotification": {`{hostNotificationId:"hostNotification:KEY"}`, "|boss|hostNotification:KEY|"},
	"removeViewItem":       {`{code:"topic",key:"1",item:"2"}`, "|boss||"},
}

// startNodeWithWebhookReceiver starts a node with the users ann and bob, and a receiver of webhooks, whose address it returns.
func startNodeWithWebhookReceiver(t *testing.T) (n *world.Node, receiver string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	n = world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: redistest.Redis(t), ChangeConfig: func(cfg *node.Config) {
		cfg.Stream.AlwaysOn, cfg.Webhooks.Allow = true, []string{"127.0.0.1"}
	}})
	n.Badges("ann")
	n.Badges("bob")
	return n, server.URL
}

// Every mutation that needs the scope admin is recorded as an act, with actor, action, target and outcome. The mutations are
// taken from the schema. A refusal to a caller who is not an operator is not recorded.
func TestEveryMutationOfOperatorsIsRecorded(t *testing.T) {
	n, receiver := startNodeWithWebhookReceiver(t)
	ids := map[string]string{}
	var order []string
	for _, field := range graph.NewSchema(graph.Config{}).Schema().Mutation.Fields {
		if strings.Contains(field.Description, "Needs the scope admin") {
			order = append(order, field.Name)
		}
	}
	slices.SortStableFunc(order, func(a, b string) int { return mutationTestOrder(a) - mutationTestOrder(b) })
	for _, name := range order {
		act, known := adminMutations[name]
		if !known {
			t.Errorf("%s needs the scope admin: this test is to do it, and it is to be kept", name)
			continue
		}
		input := strings.ReplaceAll(act.input, "RECEIVER", receiver)
		for kind, id := range ids {
			input = strings.ReplaceAll(input, kind+":KEY", id)
		}
		query := "mutation{" + name + "{__typename}}"
		if input != "" {
			query = "mutation{" + name + "(input:" + input + "){__typename}}"
		}
		before := len(readAllActs(n, 100))
		if got := n.Ask("ann", query, nil); got.ErrorCode() != "FORBIDDEN" {
			t.Errorf("%s by a user: %+v", name, got.Errors)
		}
		if got := n.Ask("", query, nil); got.ErrorCode() != "UNAUTHENTICATED" {
			t.Errorf("%s by a stranger: %+v", name, got.Errors)
		}
		n.MustAsk("boss:admin", query, nil, nil)
		list := readAllActs(n, 100)
		if len(list) != before+1 {
			t.Errorf("%s: %d acts, want 1", name, len(list)-before)
			continue
		}
		text := strings.ReplaceAll(list[0].text(), "user:bob", "")
		if list[0].Target != nil {
			if kind, _, some := strings.Cut(*list[0].Target, ":"); some && kind != "user" {
				ids[kind], text = *list[0].Target, strings.ReplaceAll(text, *list[0].Target, kind+":KEY")
			}
		}
		if want := name + " DONE|" + act.want; text != want {
			t.Errorf("kept %q, want %q", text, want)
		}
		if strings.Contains(text, "hush") || strings.Contains(text, "whsec") || time.Since(list[0].At).Abs() > time.Minute {
			t.Errorf("%s: %s at %v", name, text, list[0].At)
		}
	}
	if len(order) != len(adminMutations) {
		t.Errorf("%d mutations need the scope, the test knows %d", len(order), len(adminMutations))
	}
	if pages := readAllActs(n, 3); len(pages) != len(order) || pages[0].Action != order[len(order)-1] {
		t.Errorf("%d acts in pages of 3, want %d", len(pages), len(order))
	}
}

// mutationTestOrder is the position of a mutation in the order of the test: first the mutations that create an object, then those that
// use it, and last those that withdraw or remove it.
func mutationTestOrder(name string) int {
	for i, form := range []string{"^(add|publish|send|define)", ".", "^(test|replay)", "^withdraw", "^remove"} {
		if form != "." && regexp.MustCompile(form).MatchString(name) {
			return i
		}
	}
	return 1
}

// An act that fails is recorded with the code of its error. Mutations of the host application are not recorded. If a token acts
// for a user, the actor is still the subject of the token.
func TestFailedActsAreRecordedWithTheirCode(t *testing.T) {
	n, _ := startNodeWithWebhookReceiver(t)
	for query, want := range map[string]string{
		`mutation{recountBadges(input:{userId:"user:nobody"}){differed}}`:                        "recountBadges FAILED|NOT_FOUND|boss||",
		`mutation{recountBadges(input:{userId:"rubbish"}){differed}}`:                            "recountBadges FAILED|INVALID|boss||",
		`mutation{removeWebhook(input:{name:"none\u0000"}){name}}`:                               "removeWebhook FAILED|NOT_FOUND|boss|none\uFFFD|",
		`mutation{setFanoutThresholds(input:{bigFollowers:0,hugeFollowers:1}){fanout{waiting}}}`: "setFanoutThresholds FAILED|INVALID|boss||big 0, huge 1",
	} {
		if got := n.Ask("boss:admin", query, nil); got.ErrorCode() == "" || got.ErrorCode() == "INTERNAL" {
			t.Errorf("%s: %+v", query, got)
		}
		if got := readAllActs(n, 1)[0].text(); got != want {
			t.Errorf("kept %q, want %q", got, want)
		}
	}
	before := len(readAllActs(n, 100))
	n.MustAsk("host:ingest", `mutation{setSegments(input:{userId:"user:ann",segments:["vip"]}){user{key}}}`, nil, nil)
	n.MustAsk("ann", `mutation{publishPost(input:{body:"b"}){post{id}}}`, nil, nil)
	if got := len(readAllActs(n, 100)); got != before {
		t.Errorf("%d acts of the host application", got-before)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, n.URL+"/graphql", strings.NewReader(`{"query":"mutation{cleanNow{__typename}}"}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"Content-Type": "application/json", "Authorization": "Bearer dev:host:ingest,admin", "Tidings-Act-As": "ann"} {
		request.Header.Set(name, value)
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if got := readAllActs(n, 1)[0].text(); got != "cleanNow DONE||host||" {
		t.Errorf("kept %q", got)
	}
	for _, query := range []string{`{admin{acts(first:0){hasMore}}}`, `{admin{acts(after:"rubbish"){hasMore}}}`} {
		if got := n.Ask("boss:admin", query, nil); got.ErrorCode() != "INVALID" {
			t.Errorf("%s: %+v", query, got)
		}
	}
	if got := n.Ask("ann", `{admin{acts{hasMore}}}`, nil); got.ErrorCode() != "FORBIDDEN" {
		t.Errorf("a user reads the acts: %+v", got)
	}
}

// The page of webhooks lists each webhook with its state, and with buttons that act. It never shows a secret or the part of an
// address that may contain one.
func TestTheConsoleActsOnWebhooks(t *testing.T) {
	n, receiver := startNodeWithWebhookReceiver(t)
	o := &consoleBrowser{t: t, serverURL: n.URL}
	o.wantAnswer("none", o.get("/admin/webhooks"), 200, "There are no webhooks.")
	var added struct{ AddWebhook struct{ Secret string } }
	n.MustAsk("boss:admin", `mutation($u:URL!){addWebhook(input:{name:"app",url:$u,away:true,sources:["CONVERSATIONS"]}){secret}}`, map[string]any{"u": receiver + "/hooks/hush?token=hush"}, &added)
	o.wantAnswer("one", o.get("/admin/webhooks"), 200, ">app ", receiver+"/…", "to users who are away: conversations", "Send a test to app", "Replay all of app")
	o.wantAnswer("a test", o.post("/admin/webhooks/test", url.Values{"name": {"app"}}), 200, "The receiver of app accepted the test after")
	o.wantAnswer("a replay", o.post("/admin/webhooks/replay", url.Values{"name": {"app"}}), 200, "0 dead letters of app are sent again.")
	o.wantAnswer("a replay for a user", o.post("/admin/webhooks/replay", url.Values{"name": {"app"}, "user": {"user:ann"}}), 200, "0 dead letters of app")
	o.wantAnswer("a replay for nobody", o.post("/admin/webhooks/replay", url.Values{"name": {"app"}, "user": {"user:nobody"}}), 404, "there is no user")
	o.wantAnswer("a test of none", o.post("/admin/webhooks/test", url.Values{"name": {"none"}}), 404, "there is no webhook")
	if got := readAllActs(n, 100); len(got) != 6 || got[4].text() != "testWebhook DONE||operator|app|" || got[0].text() != "testWebhook FAILED|NOT_FOUND|operator|none|" {
		t.Errorf("%d acts: %+v", len(got), got)
	}
	for _, page := range consolePages {
		if body := o.send(page.method, page.path, nil).body; strings.Contains(body, "hush") || strings.Contains(body, "whsec") || strings.Contains(body, added.AddWebhook.Secret) {
			t.Errorf("%s shows a secret: %s", page.path, body)
		}
	}
}

// The overview has the state of the engines, the jobs by kind and all metrics of its list. Each metric's name occurs in /metrics.
func TestTheOverviewOfTheConsole(t *testing.T) {
	n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: redistest.Redis(t), ManualStepping: true})
	o := &consoleBrowser{t: t, serverURL: n.URL}
	o.wantAnswer("at rest", o.get("/admin"), 200, "takes none", "not ready", ">Database<", "sqlite, ", ">Redis<", "This node alone", "No job waits and none is dead.", "operator")
	n.Badges("ann")
	n.Publish("ann", "a post")
	n.Publish("ann", "another")
	n.Ready.Set(true)
	got := o.get("/admin")
	o.wantAnswer("with jobs", got, 200, "<th scope=\"row\">post.fanout</th><td class=\"n\">2</td>", "Audit, on this node", "Pushes, on this node", "Fan-out, on this node")
	metrics := n.Get(t, "/metrics")
	shown := regexp.MustCompile(`<code>(\w+)</code></dt><dd>([^<]+)</dd>`).FindAllStringSubmatch(got.body, -1)
	if len(shown) < 25 {
		t.Errorf("the page has %d metrics: %v", len(shown), shown)
	}
	for _, one := range shown {
		if !regexp.MustCompile(`(?m)^tidings_` + one[1] + ` `).MatchString(metrics) {
			t.Errorf("%s is not in /metrics", one[1])
		}
	}
}
