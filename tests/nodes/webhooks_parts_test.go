package nodes

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"tidings/services/node"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// alertReceiver is a node with a webhook for alerts of certain parts. It is also the receiver of that webhook.
type alertReceiver struct {
	*world.Node
	t               *testing.T
	alerts          chan alertBody // what the receiver got, without silent events
	refusesRequests atomic.Bool    // the receiver answers 500, and notes no alert
}

// alertBody has the fields that the tests read of the body of a webhook's request.
type alertBody struct {
	Data struct {
		Key    string
		Silent bool                                   // the event must not alert the user
		Cause  *struct{ Source, Part, ItemID string } // the newest item that the user can be alerted of; nil if Silent
	}
}

// newAlertReceiver starts a node with a webhook for these sources; "SOURCE:PART" is one part of a source.
func newAlertReceiver(t *testing.T, sources ...string) *alertReceiver {
	t.Helper()
	l := &alertReceiver{t: t, alerts: make(chan alertBody, 100)}
	receiver := httptest.NewServer(l)
	t.Cleanup(receiver.Close)
	l.Node = world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: "embedded", ChangeConfig: func(cfg *node.Config) {
		withChangeStream(24 * time.Hour)(cfg)
		cfg.Webhooks.Allow = []string{"127.0.0.1"}
	}})
	l.MustAsk("boss:admin", `mutation($u:URL!,$s:[String!]!){addWebhook(input:{name:"parts",url:$u,sources:$s}){secret}}`, map[string]any{"u": receiver.URL, "s": sources}, nil)
	waitChangeStreamBegun(l.Node)
	return l
}

// ServeHTTP receives a request of the webhook.
func (l *alertReceiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var one alertBody
	if err := json.NewDecoder(r.Body).Decode(&one); err != nil || l.refusesRequests.Load() {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	if !one.Data.Silent {
		l.alerts <- one
	}
}

// waitAlert waits for the next alert, which must be ann's and have this source and part, and this item unless item is "".
func (l *alertReceiver) waitAlert(what, source, part, item string) {
	l.t.Helper()
	select {
	case one := <-l.alerts:
		if got := one.Data.Cause; got == nil || one.Data.Key != "ann" || got.Source != source || got.Part != part || item != "" && got.ItemID != item {
			l.t.Errorf("%s: %+v, cause %+v", what, one, got)
		}
	case <-time.After(30 * time.Second):
		l.t.Fatalf("%s: nothing was heard", what)
	}
}

// newGroup makes a GROUP of bob and ann, and returns its ID. If muted, ann mutes it.
func (l *alertReceiver) newGroup(muted bool) (id string) {
	l.t.Helper()
	var made struct {
		CreateConversation struct{ Conversation struct{ ID string } }
	}
	l.MustAsk("bob", `mutation{createConversation(input:{kind:GROUP,memberIds:["user:ann"]}){conversation{id}}}`, nil, &made)
	id = made.CreateConversation.Conversation.ID
	if muted {
		l.MustAsk("ann", `mutation($c:ID!){muteConversation(input:{conversationId:$c}){changed}}`, map[string]any{"c": id}, nil)
	}
	return id
}

// sendMessage sends a message of bob into the conversation with the ID in. mentions are the IDs of the users that it mentions.
func (l *alertReceiver) sendMessage(in string, mentions ...string) {
	l.t.Helper()
	l.MustAsk("bob", `mutation($c:ID!,$m:[ID!]){sendMessage(input:{conversationId:$c,body:"hello",mentionIds:$m}){message{id}}}`, map[string]any{"c": in, "m": mentions}, nil)
}

// A webhook for mentions gets the mentions among other messages, even in a muted conversation.
func TestAWebhookOfMentionsGetsThemAmongOtherMessages(t *testing.T) {
	l := newAlertReceiver(t, "CONVERSATIONS:MENTIONS")
	l.Badges("ann")
	group, muted := l.newGroup(false), l.newGroup(true)
	l.sendMessage(group)
	l.sendMessage(group, "user:ann")
	l.waitAlert("a mention", "CONVERSATIONS", "MENTIONS", group)
	l.sendMessage(group)
	l.sendMessage(muted)
	l.sendMessage(muted, "user:ann")
	l.waitAlert("a mention in a muted conversation", "CONVERSATIONS", "MENTIONS", muted)
	l.sendMessage(group)
	l.sendMessage(group, "user:ann")
	l.waitAlert("a mention after messages", "CONVERSATIONS", "MENTIONS", group)
}

// A webhook for comments alone gets the alert of a comment, although a newer like came while the receiver failed.
func TestAWebhookOfAPartGetsItsAlertDespiteNewerItems(t *testing.T) {
	l := newAlertReceiver(t, "NOTIFICATIONS:COMMENT")
	l.Badges("ann")
	post := map[string]any{"p": l.Publish("ann", "a post")}
	l.refusesRequests.Store(true)
	l.MustAsk("bob", `mutation($p:ID!){publishPost(input:{parentId:$p,body:"nice"}){post{id}}}`, post, nil)
	world.Eventually(t, 20*time.Second, "the comment waits", func() bool {
		var found struct {
			Admin struct{ Webhooks []struct{ Waiting int } }
		}
		l.MustAsk("boss:admin", `{admin{webhooks{waiting}}}`, nil, &found)
		return found.Admin.Webhooks[0].Waiting == 1
	})
	l.MustAsk("cat", `mutation($p:ID!){likePost(input:{postId:$p}){post{id}}}`, post, nil)
	changes := &world.ChangesReader{}
	world.Eventually(t, 20*time.Second, "the like is in the stream", func() bool {
		if err := changes.ReadToEnd(l.URL); err != nil {
			t.Fatal(err)
		}
		return changes.LastByKey["ann"].Total == 2
	})
	l.refusesRequests.Store(false)
	l.MustAsk("boss:admin", `mutation{replayWebhook(input:{name:"parts"}){replayed}}`, nil, nil)
	l.waitAlert("a comment below a like", "NOTIFICATIONS", "COMMENT", "")
}
