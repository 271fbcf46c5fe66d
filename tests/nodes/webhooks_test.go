package nodes

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tidings/services/node"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// Operators add, test, rotate, replay and remove webhooks over the API of a running node, and changes reach the receiver. Nobody
// else may do so.
func TestWebhooksOverTheAPI(t *testing.T) {
	var events, fails atomic.Int64
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if fails.Load() > 0 {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		events.Add(1)
	}))
	defer receiver.Close()
	n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: "embedded", ChangeConfig: func(cfg *node.Config) {
		withChangeStream(24 * time.Hour)(cfg)
		cfg.Webhooks.Allow = []string{"127.0.0.1"}
	}})
	const add = `mutation($u:URL!){addWebhook(input:{name:"app",url:$u,sources:["NOTIFICATIONS:LIKE"]}){secret webhook{name url sources state secrets}}}`
	var added struct {
		AddWebhook struct {
			Secret  string
			Webhook struct {
				Name    string
				Secrets int
			}
		}
	}
	n.MustAsk("boss:admin", add, map[string]any{"u": receiver.URL}, &added)
	if !strings.HasPrefix(added.AddWebhook.Secret, "whsec_") || added.AddWebhook.Webhook.Name != "app" || added.AddWebhook.Webhook.Secrets != 1 {
		t.Errorf("%+v", added)
	}
	checkWebhookErrorCodes(t, n, add, receiver.URL)
	var tested struct {
		TestWebhook struct {
			Accepted bool
			Status   int
		}
	}
	n.MustAsk("boss:admin", `mutation{testWebhook(input:{name:"app"}){accepted status error tookMs}}`, nil, &tested)
	if !tested.TestWebhook.Accepted || tested.TestWebhook.Status != 200 || events.Load() != 1 {
		t.Errorf("%+v, %d events", tested, events.Load())
	}
	n.Badges("ann")
	n.Badges("bob")
	post := n.Publish("ann", "a post")
	like := `mutation($p:ID!){likePost(input:{postId:$p}){post{id}}}`
	n.MustAsk("bob", like, map[string]any{"p": post}, nil)
	world.Eventually(t, 20*time.Second, "the like is sent", func() bool { return events.Load() == 2 })
	fails.Store(1)
	n.MustAsk("bob", `mutation($p:ID!){unlikePost(input:{postId:$p}){post{id}}}`, map[string]any{"p": post}, nil)
	type hooks struct { // the answer to the query below
		Admin struct {
			Webhooks []struct {
				State            string
				Waiting, Secrets int
				LastError        string
				LastSuccessAt    time.Time
			}
		}
	}
	var found hooks
	world.Eventually(t, 20*time.Second, "the failure is shown", func() bool {
		found = hooks{}
		n.MustAsk("boss:admin", `{admin{webhooks{name state waiting dead secrets lastError lastSuccessAt lastFailureAt retryAt oldestUnsentAt createdAt away totals} webhookDeadLetters(name:"app"){key userId version attempts status error firstAt deadAt}}}`, nil, &found)
		return len(found.Admin.Webhooks) == 1 && found.Admin.Webhooks[0].Waiting == 1
	})
	if got := found.Admin.Webhooks[0]; got.State != "OK" || got.Secrets != 2 || got.LastError != "the receiver answered 500" || got.LastSuccessAt.IsZero() {
		t.Errorf("%+v", got)
	}
	fails.Store(0)
	n.MustAsk("boss:admin", `mutation{replayWebhook(input:{name:"app"}){replayed webhook{state}}}`, nil, nil)
	world.Eventually(t, 20*time.Second, "the fall is sent", func() bool { return events.Load() == 3 })
}

// checkWebhookErrorCodes sends valid and invalid requests as operators and as other callers, and checks the error codes.
func checkWebhookErrorCodes(t *testing.T, n *world.Node, add, url string) {
	t.Helper()
	for _, c := range []struct{ as, query, code string }{
		{"boss:admin", add, "CONFLICT"},
		{"boss:admin", strings.Replace(add, `"app"`, `"App"`, 1), "INVALID"},
		{"boss:admin", strings.Replace(add, `"app"`, `"other"`, 1), ""},
		{"boss:admin", `mutation{addWebhook(input:{name:"x",url:"http://10.0.0.1"}){secret}}`, "INVALID"},
		{"boss:admin", `mutation{removeWebhook(input:{name:"other"}){name}}`, ""},
		{"boss:admin", `mutation{removeWebhook(input:{name:"other"}){name}}`, "NOT_FOUND"},
		{"boss:admin", `mutation{rotateWebhookSecret(input:{name:"app",overlapHours:721}){secret}}`, "INVALID"},
		{"boss:admin", `mutation{rotateWebhookSecret(input:{name:"app"}){secret webhook{secrets}}}`, ""},
		{"boss:admin", `mutation{replayWebhook(input:{name:"app",userId:"user:nobody"}){replayed}}`, "NOT_FOUND"},
		{"boss:admin", `mutation{replayWebhook(input:{name:"app",userId:"x"}){replayed}}`, "INVALID"},
		{"boss:admin", `{admin{webhookDeadLetters(name:"none"){key}}}`, "NOT_FOUND"},
		{"boss:admin", `{admin{webhookDeadLetters(name:"app",first:0){key}}}`, "INVALID"},
		{"ann", `{admin{webhooks{name}}}`, "FORBIDDEN"},
		{"host:ingest", add, "FORBIDDEN"},
		{"ann", `mutation{testWebhook(input:{name:"app"}){accepted}}`, "FORBIDDEN"},
		{"ann", `mutation{removeWebhook(input:{name:"app"}){name}}`, "FORBIDDEN"},
		{"ann", `mutation{rotateWebhookSecret(input:{name:"app"}){secret}}`, "FORBIDDEN"},
		{"ann", `mutation{replayWebhook(input:{name:"app"}){replayed}}`, "FORBIDDEN"},
	} {
		variables := map[string]any{}
		if strings.Contains(c.query, "$u") {
			variables["u"] = url
		}
		if got := n.Ask(c.as, c.query, variables); got.ErrorCode() != c.code {
			t.Errorf("%s as %q: %q, want %q", c.query, c.as, got.ErrorCode(), c.code)
		}
	}
}
