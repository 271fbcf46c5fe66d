package nodes

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"tidings/services/node"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// A webhook with the setting away gets an event that alerts, without delay, for an item that arrives after the user's last socket is
// closed. An item that arrives while a socket is open is shown over the socket; the webhook gets no event for it while the socket is
// open.
func TestAwayAlertsOnceTheSocketIsClosed(t *testing.T) {
	events := make(chan alertBody, 100)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var one alertBody
		if err := json.NewDecoder(r.Body).Decode(&one); err != nil {
			t.Errorf("%v", err)
		}
		if one.Data.Key == "ann" {
			events <- one
		}
	}))
	t.Cleanup(receiver.Close)
	n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: "embedded", ChangeConfig: func(cfg *node.Config) {
		withChangeStream(24 * time.Hour)(cfg)
		cfg.Webhooks.Allow = []string{"127.0.0.1"}
	}})
	waitChangeStreamBegun(n)
	n.Badges("ann")
	n.Badges("bob")
	posts := []string{n.Publish("ann", "the first"), n.Publish("ann", "the second")}
	n.MustAsk("boss:admin", `mutation($u:URL!){addWebhook(input:{name:"away",url:$u,away:true}){secret}}`, map[string]any{"u": receiver.URL}, nil)
	like := func(post string) {
		n.MustAsk("bob", `mutation($p:ID!){likePost(input:{postId:$p}){post{id}}}`, map[string]any{"p": post}, nil)
	}
	leave := openSocketAsAnn(t, n)
	like(posts[0])
	world.Eventually(t, 20*time.Second, "the like waits", func() bool {
		var found struct {
			Admin struct{ Webhooks []struct{ Waiting int } }
		}
		n.MustAsk("boss:admin", `{admin{webhooks{waiting}}}`, nil, &found)
		return len(found.Admin.Webhooks) == 1 && found.Admin.Webhooks[0].Waiting == 1
	})
	closed := time.Now()
	leave()
	like(posts[1])
	select {
	case one := <-events:
		if one.Data.Silent || one.Data.Cause == nil {
			t.Errorf("%s after the close: %+v", time.Since(closed), one)
		}
	case <-time.After(25 * time.Second):
		t.Error("no event came: it waits as if the socket were open")
	}
	if len(events) > 0 {
		t.Errorf("one more: %+v", <-events)
	}
}

// With the setting away for Web Push, a user's registered browser alerts for an item that arrives after the user's last socket is closed.
// In this test the socket has shown no item before.
func TestBrowsersAlertOnceTheSocketIsClosed(t *testing.T) {
	n, push := startPushNode(t, func(cfg *node.Config) { cfg.Devices.OnlyAway = true })
	userBrowser{push.Subscribe("phone"), n}.register("ann")
	n.Badges("bob")
	post := n.Publish("ann", "a post")
	openSocketAsAnn(t, n)()
	n.MustAsk("bob", `mutation($p:ID!){likePost(input:{postId:$p}){post{id}}}`, map[string]any{"p": post}, nil)
	world.Eventually(t, 25*time.Second, "the phone rings", func() bool {
		m, some := push.LastMessage("phone")
		return some && m.Total == 1 && !m.Silent
	})
}

// openSocketAsAnn opens a socket of the user ann with a subscription, and waits until Redis has ann as watched. leave closes the socket,
// and waits until ann is no longer watched.
func openSocketAsAnn(t *testing.T, n *world.Node) (leave func()) {
	t.Helper()
	ann := n.EnsureUserIDs("ann")
	watched := func() bool {
		of, err := n.Redis.Presence.UsersWithOpenSubscription(t.Context(), ann)
		return err == nil && of[ann[0]]
	}
	conn := n.Dial(t)
	world.Send(t, conn, `{"type":"connection_init","payload":{"authorization":"Bearer dev:ann"}}`)
	world.Send(t, conn, `{"id":"1","type":"subscribe","payload":{"query":"subscription{badgesChanged{version}}"}}`)
	world.Eventually(t, 20*time.Second, "ann is watched", watched)
	return func() {
		_ = conn.Close()
		world.Eventually(t, 20*time.Second, "ann is away", func() bool { return !watched() })
	}
}
