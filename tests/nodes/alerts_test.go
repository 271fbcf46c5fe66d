package nodes

import (
	"fmt"
	"testing"
	"time"

	"tidings/services/people"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// changeStreamNode is a node whose change stream is on. The tests follow the changes of the user ann in the stream.
type changeStreamNode struct {
	*world.Node
	t       *testing.T
	changes *world.ChangesReader // what was read of the stream so far
}

// startChangeStreamNode starts a node whose change stream is on, and creates four users.
func startChangeStreamNode(t *testing.T) changeStreamNode {
	t.Helper()
	n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: "embedded", ChangeConfig: withChangeStream(24 * time.Hour)})
	world.Eventually(t, 30*time.Second, "the first lap is over", func() bool { return n.Metric("tidings_changes_laps_total") > 0 })
	n.CreateUsers("ann", "bob", "cat", "dan")
	return changeStreamNode{n, t, &world.ChangesReader{}}
}

// askAndWaitTotalOfAnn sends an operation as a user, and waits until ann's last change in the stream has this total of badges.
func (s changeStreamNode) askAndWaitTotalOfAnn(as, operation string, total int) {
	s.t.Helper()
	s.MustAsk(as, operation, nil, nil)
	world.Eventually(s.t, 20*time.Second, fmt.Sprintf("a total of %d after %s", total, operation), func() bool {
		if err := s.changes.ReadToEnd(s.URL); err != nil {
			s.t.Fatal(err)
		}
		return s.changes.LastByKey["ann"].Total == total
	})
}

// wantNextChangeOfAnn checks the change of ann that a reader who has read the stream up to the position after finds next. source names
// the source and the part of the change's cause; it is "" for a silent change, which does not alert. wantNextChangeOfAnn returns the
// position after this change.
func (s changeStreamNode) wantNextChangeOfAnn(what, after, source string) (position string) {
	s.t.Helper()
	list, position, _ := readChangesPage(s.Node, 100, after)
	for _, change := range list {
		if change.Key != "ann" {
			continue
		}
		got := ""
		if !change.Silent {
			got = change.Cause.Source + " " + change.Cause.Part
		}
		if got != source {
			s.t.Errorf("%s: %q, want %q: %+v", what, got, source, change)
		}
		return position
	}
	s.t.Errorf("%s: there is no change", what)
	return position
}

// createConversation creates a conversation of bob and ann.
func (s changeStreamNode) createConversation() (id string) {
	s.t.Helper()
	var made struct {
		CreateConversation struct{ Conversation struct{ ID string } }
	}
	s.MustAsk("bob", `mutation{createConversation(input:{kind:DIRECT,memberIds:["user:ann"]}){conversation{id}}}`, nil, &made)
	return made.CreateConversation.Conversation.ID
}

// A change that alerts, which a reader of the change stream has not read yet, still alerts after the user has seen other items. Those
// items had raised the total in silence.
func TestAnAlertOutlivesSilentItems(t *testing.T) {
	s := startChangeStreamNode(t)
	_, start, _ := readChangesPage(s.Node, 100, "")
	first, second, talk := s.Publish("ann", "a post"), s.Publish("ann", "another"), s.createConversation()
	s.MustAsk("ann", `mutation{setCategoryPreference(input:{category:"LIKE",push:false}){changed}}`, nil, nil)
	s.askAndWaitTotalOfAnn("bob", `mutation{likePost(input:{postId:"`+first+`"}){post{id}}}`, 1)
	s.askAndWaitTotalOfAnn("bob", `mutation{likePost(input:{postId:"`+second+`"}){post{id}}}`, 2)
	s.wantNextChangeOfAnn("likes that do not alert", start, "")
	s.askAndWaitTotalOfAnn("bob", `mutation{sendMessage(input:{conversationId:"`+talk+`",body:"hello"}){message{id}}}`, 3)
	s.askAndWaitTotalOfAnn("ann", `mutation{markNotificationsSeen(input:{}){badges{version}}}`, 1)
	end := s.wantNextChangeOfAnn("a message, after the likes were seen", start, "CONVERSATIONS ")
	s.askAndWaitTotalOfAnn("ann", `mutation{markConversationRead(input:{conversationId:"`+talk+`"}){changed}}`, 0)
	s.wantNextChangeOfAnn("the message was read", start, "")
	s.wantNextChangeOfAnn("the message was read, after it was heard", end, "")
}

// An item that was read, withdrawn or recalled before a reader of the change stream has read its change alerts nobody, even if other
// items are unread.
func TestItemsThatAreGoneDoNotAlert(t *testing.T) {
	s := startChangeStreamNode(t)
	_, start, _ := readChangesPage(s.Node, 100, "")
	post, talk := s.Publish("ann", "a post"), s.createConversation()
	s.askAndWaitTotalOfAnn("bob", `mutation{likePost(input:{postId:"`+post+`"}){post{id}}}`, 1)
	heard := s.wantNextChangeOfAnn("a like", start, "NOTIFICATIONS LIKE")
	s.askAndWaitTotalOfAnn("cat", `mutation{follow(input:{userId:"user:ann"}){changed}}`, 2)
	s.askAndWaitTotalOfAnn("ann", `mutation{markNotificationsSeen(input:{categories:[FOLLOW]}){badges{version}}}`, 1)
	s.wantNextChangeOfAnn("a follow that was seen", heard, "")
	s.wantNextChangeOfAnn("a follow that was seen, and a like that was not heard", start, "NOTIFICATIONS LIKE")
	s.askAndWaitTotalOfAnn("bob", `mutation{sendMessage(input:{conversationId:"`+talk+`",body:"hello"}){message{id}}}`, 2)
	s.askAndWaitTotalOfAnn("ann", `mutation{markConversationRead(input:{conversationId:"`+talk+`"}){changed}}`, 1)
	s.wantNextChangeOfAnn("a message that was read", heard, "")

	other := s.Publish("ann", "another post") // within one category the newest item decides
	s.askAndWaitTotalOfAnn("dan", `mutation{likePost(input:{postId:"`+other+`"}){post{id}}}`, 2)
	s.wantNextChangeOfAnn("a second like", heard, "NOTIFICATIONS LIKE")
	s.askAndWaitTotalOfAnn("dan", `mutation{unlikePost(input:{postId:"`+other+`"}){post{id}}}`, 1)
	s.wantNextChangeOfAnn("a second like that was taken back", heard, "")
	s.wantNextChangeOfAnn("the first one, unheard", start, "NOTIFICATIONS LIKE")
	s.askAndWaitTotalOfAnn("cat", `mutation{likePost(input:{postId:"`+other+`"}){post{id}}}`, 2)
	s.askAndWaitTotalOfAnn("bob", `mutation{unlikePost(input:{postId:"`+post+`"}){post{id}}}`, 1)
	s.wantNextChangeOfAnn("a third one, after the first was taken back", heard, "NOTIFICATIONS LIKE")
}

// The changes of a user who has never opened the application still alert: icons and alerts are for users who are not there.
func TestAUserWhoNeverVisitedGetsAlerts(t *testing.T) {
	s := startChangeStreamNode(t)
	_, heard, _ := readChangesPage(s.Node, 100, "")
	var answer struct {
		Ingest struct{ Results []struct{ ID string } }
	}
	s.MustAsk("host:ingest", `mutation($e:[IngestEvent!]!){ingest(events:$e){results{id}}}`,
		map[string]any{"e": []any{map[string]any{"as": "user:ann", "do": map[string]any{"publishPost": map[string]any{"body": "a post"}}}}}, &answer)
	talk, post := s.createConversation(), answer.Ingest.Results[0].ID
	s.MustAsk("boss:admin", `mutation{defineCategory(input:{name:"orders"}){changed}}`, nil, nil)
	for i, c := range []struct{ as, operation, source string }{
		{"bob", `mutation{sendMessage(input:{conversationId:"` + talk + `",body:"hello"}){message{id}}}`, "CONVERSATIONS "},
		{"bob", `mutation{likePost(input:{postId:"` + post + `"}){post{id}}}`, "NOTIFICATIONS LIKE"},
		{"cat", `mutation{follow(input:{userId:"user:ann"}){changed}}`, "NOTIFICATIONS FOLLOW"},
		{"dan", `mutation{publishPost(input:{parentId:"` + post + `",body:"well"}){post{id}}}`, "NOTIFICATIONS COMMENT"},
		{"host:ingest", `mutation{notify(input:{to:["user:ann"],category:"orders",title:"sent"}){created}}`, "NOTIFICATIONS orders"},
		{"host:ingest", `mutation{sendSiteMessage(input:{to:["user:ann"],type:"general",title:"hello"}){created}}`, "SITE_MESSAGES general"},
	} {
		s.askAndWaitTotalOfAnn(c.as, c.operation, i+1)
		heard = s.wantNextChangeOfAnn(c.operation, heard, c.source)
	}
	var made struct {
		CreateConversation struct{ Conversation struct{ ID string } }
	}
	s.MustAsk("bob", `mutation{createConversation(input:{kind:GROUP,memberIds:["user:ann"]}){conversation{id}}}`, nil, &made)
	group := made.CreateConversation.Conversation.ID
	s.askAndWaitTotalOfAnn("bob", `mutation{sendMessage(input:{conversationId:"`+group+`",body:"hello all"}){message{id}}}`, 7)
	heard = s.wantNextChangeOfAnn("a message in a group", heard, "CONVERSATIONS ")
	s.askAndWaitTotalOfAnn("bob", `mutation{removeMembers(input:{conversationId:"`+group+`",userIds:["user:ann"]}){changed}}`, 6)
	heard = s.wantNextChangeOfAnn("the removal from the group", heard, "")
	s.askAndWaitTotalOfAnn("boss:admin", `mutation{removeCategory(input:{name:"orders"}){name}}`, 5)
	s.wantNextChangeOfAnn("the removal of a category", heard, "")
	visits, err := people.LastVisits(t.Context(), s.DB, s.EnsureUserIDs("ann"))
	if at := visits[s.EnsureUserIDs("ann")[0]]; err != nil || !at.IsZero() {
		t.Errorf("ann was seen at %v, %v", at, err)
	}
}

// When a user ends their mute of a conversation, the messages that were sent during the mute count but do not alert. Later messages do.
func TestTheEndOfAMuteAlertsNobody(t *testing.T) {
	s := startChangeStreamNode(t)
	_, start, _ := readChangesPage(s.Node, 100, "")
	talk := s.createConversation()
	say := func(in, mentions string, total int) {
		t.Helper()
		s.askAndWaitTotalOfAnn("bob", `mutation{sendMessage(input:{conversationId:"`+in+`",body:"hello"`+mentions+`}){message{id}}}`, total)
	}
	say(talk, "", 1)
	heard := s.wantNextChangeOfAnn("a message", start, "CONVERSATIONS ")
	var made struct {
		CreateConversation struct{ Conversation struct{ ID string } }
	}
	s.MustAsk("bob", `mutation{createConversation(input:{kind:GROUP,memberIds:["user:ann"]}){conversation{id}}}`, nil, &made)
	other := made.CreateConversation.Conversation.ID
	s.MustAsk("ann", `mutation{muteConversation(input:{conversationId:"`+other+`"}){changed}}`, nil, nil)
	say(other, "", 1)
	say(other, `,mentionIds:["user:ann"]`, 2)
	heard = s.wantNextChangeOfAnn("a mention while muted", heard, "CONVERSATIONS ")
	say(other, "", 2)
	s.askAndWaitTotalOfAnn("ann", `mutation{unmuteConversation(input:{conversationId:"`+other+`"}){changed}}`, 4)
	heard = s.wantNextChangeOfAnn("the end of the mute", heard, "")
	say(other, "", 5)
	heard = s.wantNextChangeOfAnn("a message after it", heard, "CONVERSATIONS ")
	say(talk, "", 6)
	s.wantNextChangeOfAnn("a message elsewhere", heard, "CONVERSATIONS ")
}

// A message of a burst is in SQL up to a tenth of a second before the badges have it; here it is longer. A message of another conversation
// that alerts meanwhile has a total without it. The first one alerts once it is counted, although it is older: a device that takes only
// alerts shows the total of the last one.
func TestTheLastAlertOfABurstHasAllMessages(t *testing.T) {
	s := startChangeStreamNode(t)
	var made struct {
		CreateConversation struct{ Conversation struct{ ID string } }
	}
	s.MustAsk("cat", `mutation{createConversation(input:{kind:GROUP,memberIds:["user:ann"]}){conversation{id}}}`, nil, &made)
	s.Badges("ann") // a visit: badges of a user who was never there are counted in SQL
	busy, other, sent := s.createConversation(), made.CreateConversation.Conversation.ID, 0
	send := func(as, in string) {
		t.Helper()
		s.MustAsk(as, `mutation{sendMessage(input:{conversationId:"`+in+`",body:"hello"}){message{id}}}`, nil, nil)
		sent++
	}
	delay := func(by time.Duration) (delayed int) {
		t.Helper()
		err := s.DB.Write(t.Context(), func(tx *sql.Tx) (err error) {
			delayed, err = tx.Run(t.Context(), sql.AdHoc("test", "UPDATE jobs SET due_at = $1 WHERE kind = 'chat.carry' AND token = ''"), tx.Now.Add(by))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return delayed
	}
	alerts := func(what string, is func(last world.Change) bool) {
		t.Helper()
		world.Eventually(t, 20*time.Second, what, func() bool {
			if err := s.changes.ReadToEnd(s.URL); err != nil {
				t.Fatal(err)
			}
			last, some := s.changes.LastAlertingByKey["ann"]
			return some && is(last)
		})
	}
	world.Eventually(t, 20*time.Second, "the projection of a message is delayed", func() bool {
		send("bob", busy)
		send("bob", busy) // its projection waits for a tenth of a second after that of the first
		return delay(time.Hour) > 0
	})
	send("cat", other)
	alerts("an alert of the other conversation", func(last world.Change) bool { return last.Cause.ItemID == other && last.Total < sent })
	delay(0)
	alerts("an alert with all messages", func(last world.Change) bool { return last.Total == sent })
}

// A user who marks a read message as unread gets no alert for it. This holds even if the change stream had no change for the last message
// of the conversation, because the user sent it.
func TestAMarkAsUnreadAlertsNobody(t *testing.T) {
	s := startChangeStreamNode(t)
	_, heard, _ := readChangesPage(s.Node, 100, "")
	talk := s.createConversation()
	var sent struct {
		SendMessage struct{ Message struct{ ID string } }
	}
	s.MustAsk("bob", `mutation{sendMessage(input:{conversationId:"`+talk+`",body:"hello",mentionIds:["user:ann"]}){message{id}}}`, nil, &sent)
	s.askAndWaitTotalOfAnn("ann", `mutation{sendMessage(input:{conversationId:"`+talk+`",body:"hi"}){message{id}}}`, 0)
	_, heard, _ = readChangesPage(s.Node, 100, heard)
	s.askAndWaitTotalOfAnn("ann", `mutation{markConversationUnread(input:{fromMessageId:"`+sent.SendMessage.Message.ID+`"}){changed}}`, 1)
	heard = s.wantNextChangeOfAnn("the mark as unread", heard, "")
	s.askAndWaitTotalOfAnn("bob", `mutation{sendMessage(input:{conversationId:"`+talk+`",body:"well"}){message{id}}}`, 2)
	s.wantNextChangeOfAnn("a message after it", heard, "CONVERSATIONS ")
}
