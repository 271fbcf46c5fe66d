package contract

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tidings/services"
	"tidings/services/devices/devicestest"
	"tidings/services/node"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

var (
	// idPattern matches the IDs in answers.
	idPattern   = regexp.MustCompile(`\b(user|post|show|notification|notificationUpTo|siteMessage|conversation|message|announcement|device):[A-Za-z0-9._-]+`)
	timePattern = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z`) // times in answers
)

// listPositionArguments are the arguments that name a position in the viewer's own list. The item at the position may have been
// deleted or hidden since, so these arguments accept the ID of an item that the viewer could see before, without revealing anything
// of it. The ID of an item that was hidden from the start gets the answer for a missing item, as everywhere.
var listPositionArguments = []string{
	"Query.viewer.homeFeed.lastId", "Query.viewer.homeFeed.newerThan", "Query.viewer.liveBoard.lastId", "Mutation.markHomeFeedSeen.input.upTo",
	"Mutation.ingest.events.do.markHomeFeedSeen.upTo",
}

// hiddenItemsNode is a node where dave hides all items from hank and blocks blair, who both saw them before; sam has no relation to
// dave and sees public items. Every hidden text contains a word that the test searches for.
type hiddenItemsNode struct {
	*world.Node
	userSockets        *userSockets // the users' sockets
	sendsOverSockets   bool         // sendID sends all operations over sockets, and not only subscriptions
	schema             introspectedSchema
	hiddenAfterSeenIDs []string       // items that hank and blair saw before and may not see now
	hiddenFromStartIDs []string       // items that hank and blair may not see and never saw
	privateItemIDs     []string       // items that nobody except dave and alice may see
	inputFieldValues   map[string]any // the values of other fields that a request needs, by name
}

const (
	publishedCanary = "canary-published" // in texts of the published items
	privateCanary   = "canary-private"   // in texts of the private items
)

// raiseQueryLimits raises the limits so that a request can select everything around an ID. The usual limits would refuse it before
// the ID is read. It also sets a push key, without which no device can be registered.
func raiseQueryLimits(cfg *node.Config) {
	cfg.Requests.MaxQueryTokens, cfg.Requests.DocumentLimits.Fields, cfg.Requests.DocumentLimits.Aliases, cfg.Requests.MaxQueryCost = 100_000, 10_000, 10_000, 100_000_000
	cfg.Devices.VAPIDPrivateKey, cfg.Devices.VAPIDSubject = strings.Repeat("A", 42)+"E", "mailto:ops@example.com"
}

func startHiddenItemsNode(t *testing.T, database string) *hiddenItemsNode {
	t.Helper()
	s := &hiddenItemsNode{Node: world.StartNode(t, world.NodeOptions{Database: database, Redis: "embedded", ManualStepping: true, ChangeConfig: raiseQueryLimits})}
	s.schema, s.userSockets = introspectSchema(s.Node), newUserSockets(s.Node)
	s.CreateUsers("alice", "dave", "hank", "blair", "sam")
	for _, reader := range []string{"hank", "blair", "alice"} {
		s.Follow(reader, "dave")
	}
	post := s.Publish("dave", publishedCanary+" for @hank and @blair")
	comment := s.publishComment("dave", s.Publish("alice", "open"), publishedCanary)
	under := s.publishComment("dave", s.Publish("hank", "mine"), publishedCanary)
	shows := []string{s.scheduleShow("dave", publishedCanary, 1), s.scheduleShow("dave", publishedCanary, 2), s.scheduleShow("dave", publishedCanary, 3), s.scheduleShow("dave", publishedCanary, 4)}
	for _, fan := range []string{"hank", "blair"} {
		s.MustAsk(fan, mutLike, map[string]any{"v": post}, nil)
		s.MustAsk(fan, `mutation($v:ID!){remindMe(input:{showId:$v}){show{id}}}`, map[string]any{"v": shows[0]}, nil)
		s.MustAsk(fan, `mutation($v:ID!){remindMe(input:{showId:$v}){show{id}}}`, map[string]any{"v": shows[1]}, nil)
	}
	s.MustAsk("dave", `mutation($a:ID!,$b:ID!,$c:ID!){a:startShow(input:{showId:$a}){show{id}} b:startShow(input:{showId:$b}){show{id}}
		c:endShow(input:{showId:$b}){show{id}} d:cancelShow(input:{showId:$c}){show{id}}}`, map[string]any{"a": shows[1], "b": shows[2], "c": shows[3]}, nil)
	s.MustAsk("boss:admin", `mutation{defineCategory(input:{name:"orders"}){created}}`, nil, nil)
	s.MustAsk("host:ingest", `mutation($p:ID!,$t:String!,$u:URL!){
		notify(input:{category:"orders",to:["user:hank","user:blair"],actorId:"user:dave",subjectId:$p,title:$t,body:$t,url:$u,data:{t:$t}}){created}}`,
		map[string]any{"p": post, "t": publishedCanary, "u": "https://example.com/" + publishedCanary}, nil)
	s.hiddenAfterSeenIDs = append(shows, post, comment, under)
	s.createPrivateItems()
	s.SettleJobsAndCaches()
	s.MustAsk("dave", `mutation{hideFrom(input:{userId:"user:hank"}){user{id}} block(input:{userId:"user:blair"}){user{id}}}`, nil, nil)
	s.Clock.Advance(time.Second)
	s.publishHiddenItems()
	s.SettleJobsAndCaches()
	return s
}

// publishHiddenItems publishes while dave hides from hank and blocks blair.
func (s *hiddenItemsNode) publishHiddenItems() {
	s.TB.Helper()
	deleted, show := s.Publish("dave", publishedCanary), s.scheduleShow("dave", publishedCanary, 1)
	s.MustAsk("dave", `mutation($p:ID!,$s:ID!){deletePost(input:{postId:$p}){changed} startShow(input:{showId:$s}){changed}}`, map[string]any{"p": deleted, "s": show}, nil)
	s.hiddenFromStartIDs = []string{s.Publish("dave", publishedCanary), deleted, show}
	s.Clock.Advance(time.Second)
}

// createPrivateItems creates items that nobody except dave and alice may see.
func (s *hiddenItemsNode) createPrivateItems() {
	s.TB.Helper()
	var data struct {
		CreateConversation struct{ Conversation struct{ ID string } }
		SendMessage        struct{ Message struct{ ID string } }
		SendSiteMessage    struct{ Message struct{ ID string } }
		Viewer             struct {
			Notifications struct {
				Edges []struct{ Node struct{ ID, UpTo string } }
			}
		}
	}
	for _, kind := range []string{"DIRECT", "GROUP"} {
		s.MustAsk("dave", `mutation($k:ConversationKind!){createConversation(input:{kind:$k,memberIds:["user:alice"]}){conversation{id}}}`, map[string]any{"k": kind}, &data)
		id := data.CreateConversation.Conversation.ID
		s.MustAsk("dave", `mutation($c:ID!,$b:String!){sendMessage(input:{conversationId:$c,body:$b}){message{id}}}`, map[string]any{"c": id, "b": privateCanary}, &data)
		s.privateItemIDs = append(s.privateItemIDs, id, data.SendMessage.Message.ID)
	}
	s.MustAsk("host:ingest", `mutation($t:String!,$u:URL!){notify(input:{category:"orders",to:["user:dave"],title:$t,body:$t,url:$u,data:{t:$t}}){created}}`,
		map[string]any{"t": privateCanary, "u": "https://example.com/" + privateCanary}, nil)
	s.MustAsk("host:ingest", `mutation($t:String!){sendSiteMessage(input:{to:["user:dave"],title:$t,content:$t}){message{id:siteMessageId}}}`, map[string]any{"t": privateCanary}, &data)
	s.SettleJobsAndCaches()
	var announced struct {
		PublishAnnouncement, Future, Gone struct{ Announcement struct{ ID string } }
	}
	s.MustAsk("host:ingest", `mutation($t:String!,$at:Time!){setSegments(input:{userId:"user:dave",segments:["vip"]}){user{id}}
		publishAnnouncement(input:{title:$t,content:"c",segments:["vip"]}){announcement{id}}
		future:publishAnnouncement(input:{title:$t,content:"c",startsAt:$at}){announcement{id}}
		gone:publishAnnouncement(input:{title:$t,content:"c"}){announcement{id}}}`,
		map[string]any{"t": privateCanary, "at": s.Clock.Now().Add(time.Hour).UTC().Format(time.RFC3339)}, &announced)
	s.MustAsk("host:ingest", `mutation($v:ID!){withdrawAnnouncement(input:{announcementId:$v}){announcementId}}`, map[string]any{"v": announced.Gone.Announcement.ID}, nil)
	s.SettleJobsAndCaches()
	for _, one := range []struct{ Announcement struct{ ID string } }{announced.PublishAnnouncement, announced.Future, announced.Gone} {
		s.privateItemIDs = append(s.privateItemIDs, one.Announcement.ID)
	}
	s.MustAsk("dave", `{viewer{notifications{edges{node{id upTo}}}}}`, nil, &data)
	shown := data.Viewer.Notifications.Edges[0].Node
	s.privateItemIDs = append(s.privateItemIDs, data.SendSiteMessage.Message.ID, shown.ID, shown.UpTo)

	browser := devicestest.NewBrowser("https://push.example.com/" + privateCanary)
	var registered struct {
		RegisterDevice struct{ Device struct{ ID string } }
	}
	s.MustAsk("dave", `mutation($e:URL!,$p:String!,$a:String!,$n:String!){registerDevice(input:{endpoint:$e,p256dh:$p,auth:$a,name:$n}){device{id}}}`,
		map[string]any{"e": browser.Endpoint, "p": browser.P256dh, "a": browser.Auth, "n": privateCanary}, &registered)
	s.privateItemIDs = append(s.privateItemIDs, registered.RegisterDevice.Device.ID)
}

// publishComment publishes an answer to a post.
func (s *hiddenItemsNode) publishComment(as, parent, body string) string {
	s.TB.Helper()
	var data struct {
		PublishPost struct{ Post struct{ ID string } }
	}
	s.MustAsk(as, `mutation($p:ID!,$b:String!){publishPost(input:{body:$b,parentId:$p}){post{id}}}`, map[string]any{"p": parent, "b": body}, &data)
	return data.PublishPost.Post.ID
}

// scheduleShow announces a show that starts in this number of hours.
func (s *hiddenItemsNode) scheduleShow(as, title string, hours int) string {
	s.TB.Helper()
	var data struct {
		ScheduleShow struct{ Show struct{ ID string } }
	}
	at := s.Clock.Now().Add(time.Duration(hours) * time.Hour).UTC().Format(time.RFC3339)
	s.MustAsk(as, `mutation($t:String!,$at:Time!){scheduleShow(input:{title:$t,plannedAt:$at}){show{id}}}`, map[string]any{"t": title, "at": at}, &data)
	return data.ScheduleShow.Show.ID
}

// sendID sends an ID in an argument as a user; the host application sends an event for the user. raw is the text of the response.
// answer is the response after normalizeAnswer has replaced the values that may differ.
func (s *hiddenItemsNode) sendID(t *testing.T, w idArgument, as, id string, words ...string) (answer any, raw string) {
	t.Helper()
	value, err := s.schema.argumentValue(w.inputPath, id, s.inputFieldValues)
	if err != nil {
		t.Fatalf("%s: %v", w.name(), err)
	}
	variables := map[string]any{"v": value}
	var got world.Answer
	if w.fieldPath[0].Name == "ingest" {
		as = "host:ingest"
	}
	if w.root == "Subscription" || s.sendsOverSockets {
		got = s.userSockets.ask(t, as, s.schema.graphqlOperationFor(w, s.inputFieldValues), variables)
	} else {
		got = s.Ask(as, s.schema.graphqlOperationFor(w, s.inputFieldValues), variables)
	}
	text, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	var decoded any
	world.DecodeJSON(t, text, &decoded)
	return normalizeAnswer(decoded, append(words, id)...), string(text)
}

// nonexistentIDLike returns an ID of the same form that no object has.
func nonexistentIDLike(id string) string {
	if kind, key, _ := strings.Cut(id, ":"); kind == services.DeviceType {
		return kind + ":" + map[bool]string{true: "B", false: "A"}[key[0] == 'A'] + key[1:]
	}
	last := strings.IndexByte("0123456789ABCDEFGHJKMNPQRSTVWXYZ", id[len(id)-1])
	return id[:len(id)-1] + string("0123456789ABCDEFGHJKMNPQRSTVWXYZ"[(last+16)%32])
}

// For every argument of the schema, the ID of an item hidden from the viewer gets exactly the answer of an ID that does not
// exist. The arguments are found by introspection, so new arguments are tested without a change here.
func TestHiddenItemsAnswerLikeMissingOnes(t *testing.T) {
	s := startHiddenItemsNode(t, sqltest.SQLite(t))
	for _, s.sendsOverSockets = range []bool{false, true} {
		t.Run(map[bool]string{false: "HTTP", true: "WebSocket"}[s.sendsOverSockets], func(t *testing.T) { wantHiddenEverywhere(t, s) })
	}
}

// wantHiddenEverywhere sends the ID of each hidden item in every argument, and compares the answer with the answer for a missing
// ID.
func wantHiddenEverywhere(t *testing.T, s *hiddenItemsNode) {
	ways := s.testedIDArguments()
	if len(ways) < 80 {
		t.Fatalf("introspection shows %d arguments that take an id", len(ways))
	}
	for _, as := range []string{"sam", "hank", "blair"} {
		secret := s.privateItemIDs
		if as != "sam" {
			secret = slices.Concat(s.privateItemIDs, s.hiddenAfterSeenIDs, s.hiddenFromStartIDs)
		}
		s.createOwnObjects(as)
		for _, w := range ways {
			for _, id := range secret {
				want, _ := s.sendID(t, w, as, nonexistentIDLike(id))
				got, raw := s.sendID(t, w, as, id)
				if strings.Contains(raw, privateCanary) || as != "sam" && strings.Contains(raw, publishedCanary) {
					t.Errorf("%s, as %s, shows %s: %s", w.name(), as, id, raw)
				}
				position := slices.Contains(listPositionArguments, w.name()) && slices.Contains(s.hiddenAfterSeenIDs, id)
				if diff := cmp.Diff(want, got); diff != "" && !position {
					t.Errorf("%s, as %s, tells %s from what never was:\n%s", w.name(), as, id, diff)
				}
			}
		}
	}
}

// refusalDespiteRightIDKind matches the messages that refuse an ID as INVALID although its kind is right.
var refusalDespiteRightIDKind = regexp.MustCompile("beyond the newest|is not of conversation:|was never in the session")

// Every argument accepts an ID of some kind. If the request were refused for another reason, the other tests would prove nothing.
func TestEveryArgumentTakesAnID(t *testing.T) {
	s := startHiddenItemsNode(t, sqltest.SQLite(t))
	s.createOwnObjects("sam")
	kinds := append(slices.Concat(s.privateItemIDs, s.hiddenAfterSeenIDs), "user:nobody0", "announcement:"+strings.Repeat("0", services.SortableIDLetters))
	for _, w := range s.testedIDArguments() {
		answers := map[string]any{}
		takes := slices.ContainsFunc(kinds, func(id string) bool {
			_, raw := s.sendID(t, w, "sam", nonexistentIDLike(id))
			answers[id] = raw
			return !strings.Contains(raw, "INVALID") || refusalDespiteRightIDKind.MatchString(raw)
		})
		if !takes {
			t.Errorf("%s takes nothing: %v\n%s", w.name(), answers, s.schema.graphqlOperationFor(w, s.inputFieldValues))
		}
	}
}

// testedIDArguments returns the ID arguments of the schema, except the events of the host application itself and the argument for
// an event's user.
func (s *hiddenItemsNode) testedIDArguments() []idArgument {
	return slices.DeleteFunc(s.schema.idArguments(), func(w idArgument) bool {
		if w.fieldPath[0].Name != "ingest" {
			return false
		}
		if w.inputPath[1].Name == "as" {
			return true
		}
		switch w.inputPath[2].Name {
		case "sendSiteMessage", "editSiteMessage", "publishAnnouncement", "editAnnouncement", "withdrawAnnouncement", "raiseDot", "setSegments",
			"addViewItem", "removeViewItem", "notify", "withdrawNotification":
			return true
		}
		return false
	})
}

// createOwnObjects creates a user's own objects, which requests need beside the tested ID.
func (s *hiddenItemsNode) createOwnObjects(as string) {
	s.TB.Helper()
	var data struct {
		CreateConversation struct{ Conversation struct{ ID string } }
	}
	var board struct {
		Viewer struct{ LiveBoard struct{ SessionID string } }
	}
	s.MustAsk(as, `{viewer{liveBoard{sessionId}}}`, nil, &board)
	s.MustAsk(as, `mutation{createConversation(input:{kind:GROUP,memberIds:["user:alice"]}){conversation{id}}}`, nil, &data)
	s.inputFieldValues = map[string]any{
		"as": "user:" + as, "userId": "user:alice", "messageId": "message:0000002000001", "fromMessageId": "message:0000002000001", "conversationId": data.CreateConversation.Conversation.ID, "userIds": []string{"user:alice"}, "memberIds": []string{"user:alice"},
		"kind": "GROUP", "plannedAt": s.Clock.Now().Add(time.Hour).UTC().Format(time.RFC3339), "replayUrl": "https://example.org/replay",
		"postId": s.Publish(as, "own"), "showId": s.scheduleShow(as, "own", 1), "to": []string{"user:alice"}, "code": "news",
		"sessionId": board.Viewer.LiveBoard.SessionID,
	}
}

// After an unhide or unblock, items are listed again, and notifications are as if the items had never been hidden.
func TestItemsShownAgainAreListed(t *testing.T) {
	s := startHiddenItemsNode(t, sqltest.SQLite(t))
	s.MustAsk("dave", `mutation{unhideFrom(input:{userId:"user:hank"}){user{id}} unblock(input:{userId:"user:blair"}){user{id}}}`, nil, nil)
	s.SettleJobsAndCaches()
	for as, want := range map[string]string{"hank": "COMMENT HOST MENTION REMINDER", "blair": "HOST MENTION REMINDER"} {
		var data struct {
			Nodes  []struct{ Body, Title string }
			Viewer struct {
				Notifications struct {
					Edges []struct{ Node struct{ Category string } }
				}
			}
		}
		s.MustAsk(as, `query($v:[ID!]!){nodes(ids:$v){... on Post{body} ... on Show{title}} viewer{notifications{edges{node{category}}}}}`, map[string]any{"v": s.hiddenAfterSeenIDs}, &data)
		var categories []string
		for _, edge := range data.Viewer.Notifications.Edges {
			categories = append(categories, edge.Node.Category)
		}
		slices.Sort(categories)
		if got := strings.Join(slices.Compact(categories), " "); got != want {
			t.Errorf("%s is notified of %s, want %s", as, got, want)
		}
		for i, node := range data.Nodes {
			if !strings.Contains(node.Body+node.Title, publishedCanary) {
				t.Errorf("%s is shown %+v for %s", as, node, s.hiddenAfterSeenIDs[i])
			}
		}
	}
}

// Lists do not show hidden items, and badges do not count them; notifications that hank and blair got before are withdrawn.
func TestListsShowNothingHidden(t *testing.T) {
	s := startHiddenItemsNode(t, sqltest.SQLite(t))
	for as, words := range map[string][]string{"sam": {privateCanary}, "hank": {privateCanary, publishedCanary}, "blair": {privateCanary, publishedCanary}} {
		for _, field := range s.schema.types["Viewer"].Fields {
			required := slices.ContainsFunc(field.Args, func(a introspectedInput) bool { return a.Type.isNonNull() && a.DefaultValue == nil })
			if required {
				continue
			}
			size := ""
			if slices.ContainsFunc(field.Args, func(a introspectedInput) bool { return a.Name == "first" }) {
				size = "(first:10)" // is the whole list, and not too expensive
			}
			got := s.Ask(as, fmt.Sprintf("{viewer{%s%s%s}}", field.Name, size, s.schema.selectionOfType(field.Type.namedType(), 4)), nil)
			if len(got.Errors) > 0 {
				t.Errorf("%s as %s: %v", field.Name, as, got.Errors)
			}
			for _, word := range words {
				if strings.Contains(string(got.Data), word) {
					t.Errorf("viewer.%s as %s shows %s", field.Name, as, got.Data)
				}
			}
		}
		var data struct {
			Viewer struct{ Notifications struct{ Edges []any } }
		}
		if s.MustAsk(as, `{viewer{notifications{edges{cursor}}}}`, nil, &data); len(data.Viewer.Notifications.Edges) > 0 {
			t.Errorf("%s is notified: %+v", as, data)
		}
		if got := s.Badges(as); got.Notifications.Total.Value != 0 || got.HomeFeed.Value != 0 {
			t.Errorf("the badges of %s count %+v and %+v", as, got.Notifications, got.HomeFeed)
		}
	}
}
