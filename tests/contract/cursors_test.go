package contract

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// pagedList is a field of an object that returns a page of a list.
type pagedList struct {
	objectType string
	field      introspectedField
}

func (l pagedList) name() string { return l.objectType + "." + l.field.Name }

// pagedLists returns all paginated lists of the schema: fields that take `after` and return a pageInfo. A field must have both of
// these or neither.
func (s introspectedSchema) pagedLists(t *testing.T) (found []pagedList) {
	t.Helper()
	for name, object := range s.types {
		if strings.HasSuffix(name, "Change") { // an event shows the first page of a list, which is found in another object
			continue
		}
		if name == "Admin" { // its change stream belongs to no user, and has no last page
			continue
		}
		for _, field := range object.Fields {
			takes := slices.ContainsFunc(field.Args, func(a introspectedInput) bool { return a.Name == "after" })
			pages := slices.ContainsFunc(s.types[field.Type.namedType()].Fields, func(f introspectedField) bool { return f.Name == "pageInfo" })
			if takes != pages {
				t.Errorf("%s.%s takes after: %t, answers a pageInfo: %t", name, field.Name, takes, pages)
			}
			if takes || pages {
				found = append(found, pagedList{name, field})
			}
		}
	}
	slices.SortFunc(found, func(a, b pagedList) int { return strings.Compare(a.name(), b.name()) })
	return found
}

// nodeWithLists is a node on which alice and bob each have lists of several entries, with texts that occur only in that user's
// lists.
type nodeWithLists struct {
	*world.Node
	schema              introspectedSchema
	conversationsByUser map[string][]string // each user's conversations; both users are in the last one
	postByUser          map[string]string   // each user's post with answers and likes, hidden from the other user
}

// canaryWord returns a word that is in every text and key that concerns only this user.
func canaryWord(user string) string { return "canary-" + user }

func startNodeWithLists(t *testing.T) *nodeWithLists {
	t.Helper()
	p := &nodeWithLists{Node: world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: "embedded", ManualStepping: true}), conversationsByUser: map[string][]string{}, postByUser: map[string]string{}}
	p.schema = introspectSchema(p.Node)
	p.CreateUsers("alice", "bob")
	for _, user := range []string{"alice", "bob"} {
		p.fillLists(t, user)
	}
	for user, other := range map[string]string{"alice": "bob", "bob": "alice"} {
		p.MustAsk(user, `mutation($v:ID!){hideFrom(input:{userId:$v}){user{id}}}`, map[string]any{"v": "user:" + other}, nil)
	}
	shared := p.createGroup("alice", "", "user:bob", "user:"+canaryWord("alice")+"-0", "user:"+canaryWord("bob")+"-0")
	for _, user := range []string{"alice", "bob"} {
		p.conversationsByUser[user] = append(p.conversationsByUser[user], shared)
		p.sendMessage(user, shared, "for both")
		p.sendMessage(user, shared, "again for both")
	}
	p.SettleJobsAndCaches()
	return p
}

// fillLists gives a user at least three entries in each list.
func (p *nodeWithLists) fillLists(t *testing.T, user string) {
	t.Helper()
	const restricts = `mutation($v:ID!){%s(input:{userId:$v}){user{id}}}`
	word, id := canaryWord(user), "user:"+user
	p.CreateUsers(word, word+"-0", word+"-1", word+"-2")
	p.Follow(user, word)
	p.postByUser[user] = p.Publish(user, word)
	for i := range 3 {
		fan := fmt.Sprint(word, "-", i)
		p.Follow(fan, user)
		p.Follow(user, fan)
		p.MustAsk(user, `mutation($v:ID!){setFollowMode(input:{userId:$v,mode:LIVE_ONLY}){changed}}`, map[string]any{"v": "user:" + fan}, nil)
		p.MustAsk(fan, mutLike, map[string]any{"v": p.postByUser[user]}, nil)
		p.MustAsk(fan, `mutation($v:ID!,$b:String!){publishPost(input:{body:$b,parentId:$v}){post{id}}}`, map[string]any{"v": p.postByUser[user], "b": word}, nil)
	}
	p.MustAsk("host:ingest", `mutation($u:ID!,$s:[String!]!){setSegments(input:{userId:$u,segments:$s}){user{id}}}`, map[string]any{"u": id, "s": []string{user}}, nil)
	for i := range 3 {
		parted := fmt.Sprint(word, "-parted-", i)
		p.CreateUsers(parted)
		p.Publish(word, word)
		p.MustAsk(word, mutLike, map[string]any{"v": p.Publish(user, word)}, nil)
		at := p.Clock.Now().Add(time.Duration(i+1) * time.Hour).UTC().Format(time.RFC3339)
		for _, host := range []string{word, user} {
			p.MustAsk(host, `mutation($t:String!,$at:Time!){scheduleShow(input:{title:$t,plannedAt:$at}){show{id}}}`, map[string]any{"t": word, "at": at}, nil)
		}
		p.MustAsk("host:ingest", `mutation($v:ID!,$t:String!,$s:[String!],$c:String!,$i:String!,$at:Time!){
			sendSiteMessage(input:{to:[$v],title:$t,content:$t}){message{id:siteMessageId}} publishAnnouncement(input:{title:$t,content:$t,segments:$s}){announcement{id}}
			addViewItem(input:{code:$c,key:$i,item:"1",at:$at}){__typename}}`,
			map[string]any{"v": id, "t": word, "s": []string{user}, "c": "news", "i": fmt.Sprint(word, i), "at": p.Clock.Now().UTC().Format(time.RFC3339)}, nil)
		p.MustAsk(user, `mutation($i:String!){touchView(input:{code:"news",key:$i}){__typename}}`, map[string]any{"i": fmt.Sprint(word, i)}, nil)
		conversation := p.createGroup(user, word, "user:"+word+"-0", "user:"+word+"-1", "user:"+word+"-2")
		p.conversationsByUser[user] = append(p.conversationsByUser[user], conversation)
		for range 3 {
			p.sendMessage(user, conversation, word)
		}
		for _, verb := range []string{"mute", "block", "hideFrom"} {
			p.MustAsk(user, fmt.Sprintf(restricts, verb), map[string]any{"v": "user:" + parted}, nil)
		}
		p.SettleJobsAndCaches()
	}
}

func (p *nodeWithLists) createGroup(user, title string, members ...string) string {
	p.TB.Helper()
	var data struct {
		CreateConversation struct{ Conversation struct{ ID string } }
	}
	p.MustAsk(user, `mutation($t:String,$m:[ID!]!){createConversation(input:{kind:GROUP,title:$t,memberIds:$m}){conversation{id}}}`, map[string]any{"t": title, "m": members}, &data)
	return data.CreateConversation.Conversation.ID
}

func (p *nodeWithLists) sendMessage(user, conversation, body string) {
	p.TB.Helper()
	p.MustAsk(user, `mutation($c:ID!,$b:String!){sendMessage(input:{conversationId:$c,body:$b}){message{id}}}`, map[string]any{"c": conversation, "b": body}, nil)
}

// objectsWithList returns the IDs of a user's objects that have a list: "" stands for the viewer. An unknown type fails the test.
func (p *nodeWithLists) objectsWithList(t *testing.T, l pagedList, user string) []string {
	t.Helper()
	switch l.objectType {
	case "Viewer", "Preferences":
		return []string{""}
	case "Conversation":
		return p.conversationsByUser[user]
	case "Post":
		return []string{p.postByUser[user]}
	case "User":
		return []string{"user:" + user}
	}
	t.Fatalf("%s is paginated: say how a user gets to a %s", l.name(), l.objectType)
	return nil
}

// readPage reads a page of a list of an object, after a cursor unless after is "".
func (p *nodeWithLists) readPage(t *testing.T, l pagedList, user, object, after string) (got world.Answer, shown listPage) {
	t.Helper()
	arguments, variables := "first:2", map[string]any{}
	declared := ""
	if after != "" {
		arguments, declared, variables["a"] = arguments+",after:$a", "$a:String", after
	}
	for _, argument := range l.field.Args {
		switch {
		case argument.Name == "codes":
			arguments += `,codes:["news"]`
		case argument.Type.isNonNull() && argument.DefaultValue == nil:
			t.Fatalf("%s: say which %s to send", l.name(), argument.Name)
		}
	}
	text := fmt.Sprintf("list:%s(%s)%s", l.field.Name, arguments, p.schema.selectionOfType(l.field.Type.namedType(), 2))
	switch {
	case l.objectType == "Preferences":
		text = "viewer{object:preferences{" + text + "}}"
	case object == "":
		text = "object:viewer{" + text + "}"
	default:
		declared, variables["id"] = declared+" $id:ID!", object
		text = fmt.Sprintf("object:node(id:$id){... on %s{%s}}", l.objectType, text)
	}
	if declared != "" {
		text = "query(" + declared + "){" + text + "}"
	} else {
		text = "{" + text + "}"
	}
	got = p.Ask(user, text, variables)
	type listed struct{ List listPage }
	var data struct {
		Object listed
		Viewer struct{ Object listed }
	}
	if len(got.Data) > 0 && string(got.Data) != "null" {
		world.DecodeJSON(t, got.Data, &data)
	}
	if l.objectType == "Preferences" {
		return got, data.Viewer.Object.List
	}
	return got, data.Object.List
}

// listPage is a page of any list.
type listPage struct {
	Edges []struct {
		Cursor string
		Node   json.RawMessage
	}
	PageInfo struct {
		HasNextPage bool
		EndCursor   *string
	}
}

// readWholeList reads a whole list: its nodes, and the cursors of its entries. It must have several pages.
func (p *nodeWithLists) readWholeList(t *testing.T, l pagedList, user, object string) (nodes, cursors []string) {
	t.Helper()
	for after, pages := "", 1; ; pages++ {
		got, shown := p.readPage(t, l, user, object, after)
		if len(got.Errors) > 0 || len(shown.Edges) == 0 {
			t.Fatalf("%s of %s %s: %+v", l.name(), user, object, got)
		}
		for _, edge := range shown.Edges {
			nodes, cursors = append(nodes, string(edge.Node)), append(cursors, edge.Cursor)
		}
		if !shown.PageInfo.HasNextPage {
			if pages < 2 {
				t.Fatalf("%s of %s %s has one page: there is no place to go on from", l.name(), user, object)
			}
			return nodes, cursors
		}
		after = *shown.PageInfo.EndCursor
	}
}

// listCursor is a cursor with the list and the object that it comes from.
type listCursor struct{ list, object, cursor string }

// A cursor belongs to one user's list. If another user sends it, for any paginated list of the schema, it is refused. It may
// be accepted only for the same list, if both users share that list; then it shows no more than the other user sees anyway.
// The lists are found by introspection.
func TestAnotherUsersCursorShowsNothing(t *testing.T) {
	p := startNodeWithLists(t)
	lists := p.schema.pagedLists(t)
	if len(lists) < 12 {
		t.Fatalf("introspection shows %d paginated lists", len(lists))
	}
	var alices []listCursor
	for _, l := range lists {
		for _, object := range p.objectsWithList(t, l, "alice") {
			_, cursors := p.readWholeList(t, l, "alice", object)
			alices = append(alices, listCursor{l.name(), object, cursors[0]}, listCursor{l.name(), object, cursors[len(cursors)-2]})
		}
	}
	for _, l := range lists {
		for _, object := range p.objectsWithList(t, l, "bob") {
			own, cursors := p.readWholeList(t, l, "bob", object)
			if got, shown := p.readPage(t, l, "bob", object, cursors[0]); len(got.Errors) > 0 || len(shown.Edges) == 0 || string(shown.Edges[0].Node) != own[1] {
				t.Errorf("%s after bob's own cursor: %+v", l.name(), got)
			}
			for _, at := range alices {
				p.wantAlicesCursorShowsNothing(t, l, object, at, own)
			}
		}
		for _, object := range p.objectsWithList(t, l, "alice") {
			if object == "" || slices.Contains(p.conversationsByUser["bob"], object) {
				continue
			}
			for _, at := range alices {
				p.wantAlicesCursorShowsNothing(t, l, object, at, nil)
			}
		}
	}
}

// wantAlicesCursorShowsNothing requests, as bob, a page after a cursor of alice, and fails if it shows bob anything of alice's. own
// are the entries of the list that bob sees without the cursor; nil if it is not bob's list.
func (p *nodeWithLists) wantAlicesCursorShowsNothing(t *testing.T, l pagedList, object string, at listCursor, own []string) {
	t.Helper()
	got, shown := p.readPage(t, l, "bob", object, at.cursor)
	what := fmt.Sprintf("%s %s after %s of alice's %s %s", l.name(), object, at.cursor, at.list, at.object)
	refused := got.ErrorCode() == "INVALID" && strings.HasPrefix(got.Errors[0].Message, "after: ")
	shared := own != nil && object != "" && at.list == l.name() && at.object == object
	switch {
	case len(got.Errors) > 0 && !refused:
		t.Errorf("%s: %+v, want INVALID about after", what, got.Errors)
	case own != nil && !shared && !refused:
		t.Errorf("%s is taken from bob: %s", what, got.Data)
	case (refused || own == nil) && len(shown.Edges) > 0:
		t.Errorf("%s is shown to bob: %s", what, got.Data)
	case !shared && strings.Contains(string(got.Data), canaryWord("alice")):
		t.Errorf("%s tells bob %s", what, got.Data)
	}
	for _, edge := range shown.Edges {
		if !slices.Contains(own, string(edge.Node)) {
			t.Errorf("%s shows bob what is not in the list: %s", what, edge.Node)
		}
	}
}
