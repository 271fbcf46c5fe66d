package contract

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/websocket"

	"tidings/services/jobs"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// userSockets are sockets to a node, one for each user, on which the users send one operation after the other.
type userSockets struct {
	node   *world.Node
	byUser map[string]*userSocket // by the user's key
}

// userSocket is one user's socket.
type userSocket struct {
	conn           *websocket.Conn
	sentOperations int       // operations that were sent on this socket
	lastUsedAt     time.Time // when the last operation was sent
}

// maxOperationsPerSocket is how many operations fit into the messages that a socket may send at once.
const maxOperationsPerSocket = 15

// maxSocketIdleTime is the longest time after which a socket is used again. While nobody reads a socket it answers no pings, so the
// server closes it in the end.
const maxSocketIdleTime = 10 * time.Second

func newUserSockets(n *world.Node) *userSockets {
	return &userSockets{node: n, byUser: map[string]*userSocket{}}
}

// ask sends an operation of any kind as a user and returns the first message.
func (l *userSockets) ask(t *testing.T, as, query string, variables map[string]any) (got world.Answer) {
	t.Helper()
	id := l.startOperation(t, as, query, variables)
	message := l.nextMessage(t, as, id)
	if message.Type == "error" {
		world.DecodeJSON(t, message.Payload, &got.Errors)
		return got
	}
	world.DecodeJSON(t, message.Payload, &got)
	if strings.HasPrefix(query, "subscription") {
		l.send(t, as, `{"id":"`+id+`","type":"complete"}`)
	}
	return got
}

// startOperation starts an operation on a user's socket, which it opens if needed, and returns the ID of the operation.
func (l *userSockets) startOperation(t *testing.T, as, query string, variables map[string]any) (id string) {
	t.Helper()
	at := l.byUser[as]
	if at != nil && (at.sentOperations == maxOperationsPerSocket || time.Since(at.lastUsedAt) > maxSocketIdleTime) {
		_ = at.conn.Close()
		at = nil
	}
	if at == nil {
		at = l.dial(t, as)
	}
	at.sentOperations++
	at.lastUsedAt = time.Now()
	id = strconv.Itoa(at.sentOperations)
	payload, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	if err != nil {
		t.Fatal(err)
	}
	l.send(t, as, `{"id":"`+id+`","type":"subscribe","payload":`+string(payload)+`}`)
	return id
}

// dial opens a socket for a user, in place of the user's former one, and sends their token.
func (l *userSockets) dial(t *testing.T, as string) *userSocket {
	t.Helper()
	dialer := websocket.Dialer{Subprotocols: []string{"graphql-transport-ws"}, HandshakeTimeout: 10 * time.Second}
	conn, _, err := dialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(l.node.URL, "http")+"/graphql", http.Header{})
	if err != nil {
		t.Fatal(err)
	}
	l.node.TB.Cleanup(func() { _ = conn.Close() })
	l.byUser[as] = &userSocket{conn: conn}
	l.send(t, as, `{"type":"connection_init","payload":{"authorization":"Bearer dev:`+as+`"}}`)
	return l.byUser[as]
}

func (l *userSockets) send(t *testing.T, as, message string) {
	t.Helper()
	if err := l.byUser[as].conn.WriteMessage(websocket.TextMessage, []byte(message)); err != nil {
		t.Fatal(err)
	}
}

// serverMessage is a message of the server.
type serverMessage struct {
	ID, Type string
	Payload  json.RawMessage
}

// nextMessage reads the next message about an operation, or about any operation if id is "".
func (l *userSockets) nextMessage(t *testing.T, as, id string) (message serverMessage) {
	t.Helper()
	if err := l.byUser[as].conn.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	for {
		_, text, err := l.byUser[as].conn.ReadMessage()
		if err != nil {
			t.Fatalf("the socket of %s: %v", as, err)
		}
		message = serverMessage{}
		world.DecodeJSON(t, text, &message)
		if message.ID != "" && (id == "" || message.ID == id) {
			return message
		}
	}
}

// userRelationsNode is a running node on which dave hides from hank, has blocked blair and muted mel, and has removed gary from the
// group with alice; sam has no relation to dave. All of them follow alice; hank, blair and mel followed dave before that, and
// dave follows mel.
type userRelationsNode struct {
	*world.Node
	*userSockets
	schema                           introspectedSchema
	groupConversationID, hanksPostID string                         // the group, and hank's post
	directConversationIDs            map[string]string              // alice's conversations, by the other person
	subscribedFieldByOperationID     map[string]string              // ID of an operation -> the field that it subscribes to
	firstEventsByUser                map[string]eventsByOperationID // each person's first events after subscribeToAllFields
}

func startUserRelationsNode(t *testing.T) *userRelationsNode {
	t.Helper()
	s := &userRelationsNode{Node: world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: "embedded", ChangeConfig: raiseQueryLimits})}
	s.userSockets, s.schema = newUserSockets(s.Node), introspectSchema(s.Node)
	s.CreateUsers("alice", "dave", "hank", "blair", "mel", "gary", "sam")
	for _, reader := range []string{"hank", "blair", "mel", "dave"} {
		s.Follow(reader, "alice")
		if reader != "dave" {
			s.Follow(reader, "dave")
		}
	}
	s.Follow("gary", "alice")
	s.Follow("sam", "alice")
	s.Follow("dave", "mel")
	var made struct {
		CreateConversation struct{ Conversation struct{ ID string } }
	}
	s.MustAsk("dave", `mutation{createConversation(input:{kind:GROUP,memberIds:["user:alice","user:gary"]}){conversation{id}}}`, nil, &made)
	s.groupConversationID = made.CreateConversation.Conversation.ID
	s.directConversationIDs = map[string]string{}
	for _, with := range []string{"hank", "blair", "gary", "sam", "dave"} {
		s.MustAsk("alice", `mutation($u:ID!){createConversation(input:{kind:DIRECT,memberIds:[$u]}){conversation{id}}}`, map[string]any{"u": "user:" + with}, &made)
		s.directConversationIDs[with] = made.CreateConversation.Conversation.ID
	}
	s.hanksPostID = s.Node.Publish("hank", "mine")
	s.MustAsk("dave", `mutation($c:ID!){hideFrom(input:{userId:"user:hank"}){user{id}} block(input:{userId:"user:blair"}){user{id}}
		mute(input:{userId:"user:mel"}){user{id}} removeMembers(input:{conversationId:$c,userIds:["user:gary"]}){conversation{id}}}`, map[string]any{"c": s.groupConversationID}, nil)
	s.MustAsk("host:ingest", `mutation{setSegments(input:{userId:"user:dave",segments:["vip"]}){user{id}}}`, nil, nil)
	s.waitJobsDone()
	return s
}

// waitJobsDone waits until no job is left except jobs planned for later.
func (s *userRelationsNode) waitJobsDone() {
	s.TB.Helper()
	world.Eventually(s.TB, 30*time.Second, "all jobs are done", func() bool {
		soon := s.Clock.Now().Add(10 * time.Minute)
		waits, err := jobs.AnyJobWaits(s.TB.Context(), s.DB, math.MaxInt64, soon, soon)
		if err != nil {
			s.TB.Fatal(err)
		}
		return !waits
	})
}

// runHiddenActions runs actions of dave, and of the host application for dave, that hank, blair, gary and sam may not see.
func (s *userRelationsNode) runHiddenActions() {
	s.TB.Helper()
	s.Publish("dave", publishedCanary+" for @hank and @blair")
	var shows struct {
		A, B, C struct{ Show struct{ ID string } }
	}
	at := s.Clock.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	s.MustAsk("dave", `mutation($t:String!,$at:Time!){a:scheduleShow(input:{title:$t,plannedAt:$at}){show{id}}
		b:scheduleShow(input:{title:$t,plannedAt:$at}){show{id}} c:scheduleShow(input:{title:$t,plannedAt:$at}){show{id}}}`,
		map[string]any{"t": publishedCanary, "at": at}, &shows)
	s.MustAsk("dave", `mutation($a:ID!,$b:ID!,$c:ID!,$m:ID!,$g:ID!,$t:String!){startShow(input:{showId:$a}){show{id}} b:startShow(input:{showId:$b}){show{id}}
		endShow(input:{showId:$b}){show{id}} cancelShow(input:{showId:$c}){show{id}} sendMessage(input:{conversationId:$g,body:$t}){message{id}}
		publishPost(input:{body:$t,parentId:$m}){post{id}}}`,
		map[string]any{"a": shows.A.Show.ID, "b": shows.B.Show.ID, "c": shows.C.Show.ID, "m": s.hanksPostID, "g": s.groupConversationID, "t": privateCanary + " for @hank"}, nil)
	s.MustAsk("dave", `mutation($g:ID!,$t:String!){sendMessage(input:{conversationId:$g,body:$t,mentionIds:["user:alice"]}){message{id}}}`, map[string]any{"g": s.groupConversationID, "t": privateCanary}, nil)
	s.MustAsk("host:ingest", `mutation($t:String!){sendSiteMessage(input:{to:["user:dave"],title:$t,content:$t}){message{id:siteMessageId}}
		publishAnnouncement(input:{title:$t,content:"c",segments:["vip"]}){announcement{id}} raiseDot(input:{name:"vips",segments:["vip"]}){name}}`,
		map[string]any{"t": privateCanary}, nil)
	s.waitJobsDone()
}

// subscribeToAllFields subscribes people to every subscription without a required argument. It keeps the fields by the IDs of their
// operations, and each person's first events.
func (s *userRelationsNode) subscribeToAllFields(t *testing.T, people ...string) {
	t.Helper()
	s.subscribedFieldByOperationID, s.firstEventsByUser = map[string]string{}, map[string]eventsByOperationID{}
	for _, as := range people {
		for _, field := range s.schema.types["Subscription"].Fields {
			if field.Name != "conversationChanged" {
				s.subscribedFieldByOperationID[s.startOperation(t, as, "subscription{"+field.Name+s.schema.selectionOfEvent(field)+"}", nil)] = field.Name
			}
		}
		s.firstEventsByUser[as] = s.readEventsOfAllSubscriptions(t, as)
	}
	if len(s.subscribedFieldByOperationID) < 3 {
		t.Fatalf("introspection shows the subscriptions %v", s.subscribedFieldByOperationID)
	}
}

// eventsByOperationID are events, in order, by the IDs of their operations.
type eventsByOperationID map[string][]string

// readEventsOfAllSubscriptions reads a person's subscriptions until each has delivered an event.
func (s *userRelationsNode) readEventsOfAllSubscriptions(t *testing.T, as string) eventsByOperationID {
	t.Helper()
	events := eventsByOperationID{}
	for len(events) < len(s.subscribedFieldByOperationID) {
		message := s.nextMessage(t, as, "")
		if message.Type != "next" {
			t.Fatalf("the subscription %s of %s ended with %s", s.subscribedFieldByOperationID[message.ID], as, message.Payload)
		}
		events[message.ID] = append(events[message.ID], string(message.Payload))
	}
	return events
}

// wantEventsOfAliceAlone lets alice act, after the hidden actions, and checks that every event for each person is about alice alone.
func (s *userRelationsNode) wantEventsOfAliceAlone(t *testing.T, people ...string) {
	t.Helper()
	s.Publish("alice", "for all: @"+strings.Join(people, " @"))
	s.MutateShow("alice", "startShow", s.ScheduleShow("alice", "for all", s.Clock.Now().Add(time.Hour)))
	for _, as := range people {
		s.MustAsk("alice", `mutation($c:ID!){sendMessage(input:{conversationId:$c,body:"for all"}){message{id}}}`, map[string]any{"c": s.directConversationIDs[as]}, nil)
	}
	for _, as := range people {
		for id, payloads := range s.readEventsOfAllSubscriptions(t, as) {
			for _, payload := range payloads {
				if strings.Contains(payload, "canary") || !s.isAboutAliceAlone(t, s.subscribedFieldByOperationID[id], payload, s.firstEventsByUser[as][id][0]) {
					t.Errorf("%s of %s shows %s; at first it showed %s", s.subscribedFieldByOperationID[id], as, payload, s.firstEventsByUser[as][id][0])
				}
			}
		}
	}
}

// Actions that are hidden from a user cause no event on any of the user's subscriptions, and later events about other actions
// show nothing of them. Only badges may be sent again unchanged, because their version also counts announcements to other users.
// The subscriptions are found by introspection.
func TestNoEventShowsHiddenItems(t *testing.T) {
	s := startUserRelationsNode(t)
	people := []string{"hank", "blair", "gary", "sam"}
	query := fmt.Sprintf("subscription{conversationChanged(conversationId:%q){conversation{title}}}", s.groupConversationID)
	for _, as := range append(people, "mel") {
		if got := s.ask(t, as, query, nil); got.ErrorCode() != "NOT_FOUND" {
			t.Errorf("%s is notified of the conversation: %s %v", as, got.Data, got.Errors)
		}
	}
	s.subscribeToAllFields(t, people...)
	s.runHiddenActions()
	s.wantEventsOfAliceAlone(t, people...)
}

// A user who has muted an author gets no event about the author's posts and shows either.
func TestNoEventShowsMutedAuthors(t *testing.T) {
	s := startUserRelationsNode(t)
	s.subscribeToAllFields(t, "dave")
	s.Publish("mel", publishedCanary)
	s.MutateShow("mel", "startShow", s.ScheduleShow("mel", publishedCanary, s.Clock.Now().Add(time.Hour)))
	s.waitJobsDone()
	s.wantEventsOfAliceAlone(t, "dave")
}

// subscriptionEvent is an event of badgesChanged, homeFeedChanged or liveBoardChanged.
type subscriptionEvent struct {
	Data struct {
		BadgesChanged   world.Badges
		HomeFeedChanged struct {
			NewPosts world.Count
			Authors  []struct{ Key string }
		}
		LiveBoardChanged struct {
			Scheduled, WentLive, Ended, Rescheduled, Cancelled []struct{ Host struct{ Key string } }
			NewAbove                                           int
		}
	}
}

// isAboutAliceAlone reports whether an event is about alice alone: their post, show or message. first is the subscription's
// first event.
func (s *userRelationsNode) isAboutAliceAlone(t *testing.T, field, payload, first string) bool {
	t.Helper()
	var now, before subscriptionEvent
	world.DecodeJSON(t, []byte(payload), &now)
	world.DecodeJSON(t, []byte(first), &before)
	switch field {
	case "badgesChanged":
		badges, same := now.Data.BadgesChanged, before.Data.BadgesChanged
		for _, dot := range badges.Dots {
			if dot.Lit {
				return false
			}
		}
		mentioned := badges.Notifications.Total.Value - same.Notifications.Total.Value
		live := badges.Total.Value - badges.Notifications.Total.Value - badges.HomeFeed.Value - badges.Conversations.Total.Value // no other source counts
		return badges.HomeFeed.Value <= 1 && live <= 1 && badges.Conversations.Total.Value <= 1 && mentioned <= 1 &&
			badges.Notifications.Mention.Value == same.Notifications.Mention.Value+mentioned &&
			(mentioned == 1 || cmp.Equal(badges.Notifications.Newest, same.Notifications.Newest))
	case "conversationsChanged", "notificationsChanged": // their events contain a text of alice
		return strings.Contains(payload, "for all")
	case "homeFeedChanged":
		authors := now.Data.HomeFeedChanged.Authors
		return now.Data.HomeFeedChanged.NewPosts.Value == 1 && len(authors) == 1 && authors[0].Key == "alice"
	case "liveBoardChanged":
		change := now.Data.LiveBoardChanged
		for _, show := range append(change.WentLive, change.Scheduled...) {
			if show.Host.Key != "alice" {
				return false
			}
		}
		return len(change.WentLive)+len(change.Scheduled) == 1 && change.NewAbove <= 1 &&
			len(change.Ended)+len(change.Rescheduled)+len(change.Cancelled) == 0
	}
	t.Fatalf("say what an event of %s is to show", field)
	return false
}
