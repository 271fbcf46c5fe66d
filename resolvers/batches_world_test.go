package resolvers

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/vektah/gqlparser/v2/ast"

	"tidings/services/devices"
	"tidings/services/devices/devicestest"
)

const (
	peopleCount             = 40 // users of the filledWorld beside the reader
	entriesPerList          = 30 // each list of the reader has at least so many entries
	conversationCount       = 34 // conversations of the reader
	messagesPerConversation = 5  // messages in each conversation
	membersPerConversation  = 6  // members of each conversation, beside the reader
)

// isNestedUserList reports whether a field is a list of users within a list of users: such a selection would be too large. See
// listsOfTheUsersOfAListAreReadInBatches.
func (s *selectionBuilder) isNestedUserList(kind *ast.Definition, field *ast.FieldDefinition, above []string) bool {
	return kind.Name == "User" && s.isList(field) && len(above) > 1
}

// userFieldStatements are the names of the statements that read fields of users.
var userFieldStatements = map[string]bool{"relations of a user": true}

// maxStatementRuns returns how often a query may run a statement. It is 1, but for userFieldStatements 2 if the query reads likes:
// the users who liked are known only when the likes have been read.
func maxStatementRuns(query, statement string) int {
	if userFieldStatements[statement] && strings.Contains(query, "likes") {
		return 2
	}
	return 1
}

// mustIngest sends events to ingest, all of which have to succeed, and returns the IDs of the objects that they made.
func (c *filledWorld) mustIngest(events ...event) (ids []string) {
	c.t.Helper()
	for part := range slices.Chunk(events, 200) {
		got := c.ingest(part...)
		for i := range part {
			if fault := got.valueAt("ingest", "results", i, "error"); fault != nil || len(got.Errors) > 0 {
				c.t.Fatalf("%v: %v %v", part[i], fault, got.Errors)
			}
			id, _ := got.valueAt("ingest", "results", i, "id").(string)
			ids = append(ids, id)
		}
	}
	return ids
}

// personID returns the ID of the i-th of the people beside the reader.
func personID(i int) string { return fmt.Sprintf("user:p%02d", i%peopleCount) }

// fillReaderLists gives the reader something in every list.
func (c *filledWorld) fillReaderLists() {
	const reader = "user:reader"
	c.must("reader", `{ viewer { badges { version } } }`, nil) // later items are new to the reader
	c.Clock.Advance(time.Minute)
	var events []event
	for i := range peopleCount {
		events = append(events, event{"setProfile": event{"as": personID(i), "name": fmt.Sprint("Person ", i)}})
	}
	events = append(events, event{"setProfile": event{"as": reader, "name": "The reader"}})
	for i := range entriesPerList {
		events = append(events, event{"follow": event{"as": reader, "userId": personID(i)}}, event{"follow": event{"as": personID(i), "userId": reader}})
	}
	for i := range entriesPerList / 3 {
		events = append(events, event{"setFollowMode": event{"as": reader, "userId": personID(i), "mode": "LIVE_ONLY"}})
	}
	c.mustIngest(events...)
	c.fillPosts(reader)
	c.fillConversations(reader)
	c.fillShows(reader)
	events = nil
	for i := range entriesPerList {
		id := fmt.Sprint("v", i)
		events = append(events,
			event{"mute": event{"as": reader, "userId": fmt.Sprint("user:muted", i)}},
			event{"block": event{"as": reader, "userId": fmt.Sprint("user:blocked", i)}},
			event{"hideFrom": event{"as": reader, "userId": fmt.Sprint("user:hidden", i)}},
			event{"sendSiteMessage": event{"title": "a message", "to": []string{reader}}},
			event{"publishAnnouncement": event{"title": "an announcement"}},
			event{"touchView": event{"as": reader, "code": "news", "view": id}},
			event{"addViewItem": event{"code": "news", "view": id, "item": "one", "at": c.Clock.Now().Add(time.Second)}},
		)
	}
	for i := range entriesPerList {
		browser := devicestest.NewBrowser(fmt.Sprint("https://push.example/", i))
		c.must("reader", `mutation($e: URL!, $p: String!, $a: String!) { registerDevice(input: {endpoint: $e, p256dh: $p, auth: $a, name: "phone"}) { changed } }`,
			map[string]any{"e": browser.Endpoint, "p": browser.P256dh, "a": browser.Auth})
	}
	events = append(events, event{"raiseDot": event{"name": "shop"}})
	c.mustIngest(events...)
	c.RunAllJobs(c.Fanout)
	// While the reader's document lacks the last command, a board is read from SQL, and its list of replays is not built in Redis. So
	// wait until the documents are up to date.
	for left := 1; left > 0; {
		if left = c.Fanout.UpdateStaleProjections(c.t.Context()); c.t.Context().Err() != nil {
			c.t.Fatalf("the projections of %d users are stale", left)
		}
	}
	c.must("reader", "{ viewer { "+c.selections.selectField(c.selections.schema.Types["Viewer"], c.selections.schema.Types["Viewer"].Fields.ForName("views"), "")+" liveBoard(first: 100) { sessionId } } }", nil)
}

// fillPosts makes posts, likes and answers, which fill the feed and the notifications.
func (c *filledWorld) fillPosts(reader string) {
	var events []event
	for i := range entriesPerList {
		events = append(events, event{"publishPost": event{"as": reader, "body": "mine"}}, event{"publishPost": event{"as": personID(i), "body": "theirs", "mentions": []string{reader}}})
	}
	posts := c.mustIngest(events...)
	events = nil
	for i := 0; i < len(posts); i += 2 {
		for k := range 3 {
			events = append(events,
				event{"likePost": event{"as": personID(i + k), "postId": posts[i]}},
				event{"publishPost": event{"as": personID(i + k), "body": "so it is", "parentId": posts[i]}})
		}
	}
	c.mustIngest(events...)
}

// fillConversations makes conversations with messages.
func (c *filledWorld) fillConversations(reader string) {
	var events []event
	for i := range conversationCount {
		var members []string
		for k := range membersPerConversation {
			members = append(members, personID(i*3+k))
		}
		events = append(events, event{"createConversation": event{"as": reader, "kind": "GROUP", "title": fmt.Sprint("talk ", i), "memberIds": members}})
	}
	conversations := c.mustIngest(events...)
	events = nil
	for i, conversation := range conversations {
		for k := range messagesPerConversation {
			events = append(events, event{"sendMessage": event{
				"as": personID(i*3 + k), "conversationId": conversation, "body": "hello", "mentionIds": []string{reader, personID(i*3 + k + 1)},
			}})
		}
	}
	c.mustIngest(events...)
}

// fillShows makes shows for the live board.
func (c *filledWorld) fillShows(reader string) {
	var events []event
	for i := range entriesPerList {
		events = append(events, event{"scheduleShow": event{"as": personID(i), "title": fmt.Sprint("show ", i), "plannedAt": c.Clock.Now().Add(time.Hour)}})
	}
	shows := c.mustIngest(events...)
	events = []event{{"scheduleShow": event{"as": reader, "title": "mine", "plannedAt": c.Clock.Now().Add(time.Hour)}}}
	for _, show := range shows {
		events = append(events, event{"remindMe": event{"as": reader, "showId": show}})
	}
	c.mustIngest(events...)
	c.Clock.Advance(time.Minute)
	events = nil
	for i, show := range shows {
		if i%3 > 0 {
			events = append(events, event{"startShow": event{"as": personID(i), "showId": show}})
		}
		if i%3 > 1 {
			events = append(events, event{"endShow": event{"as": personID(i), "showId": show}})
		}
	}
	c.mustIngest(events...)
	_, err := c.Caches.Changelog.RunOnce(c.t.Context())
	c.Must(err)
}

// idsInReaderLists returns the IDs of the objects of a type in the reader's lists.
func (c *filledWorld) idsInReaderLists(kind string) (ids []string) {
	c.t.Helper()
	const page = "edges { node { id } }"
	lists := map[string]struct{ query, prefix string }{
		"User":         {"mutes(first: 100) { " + page + " } conversations(first: 100) { edges { node { members { edges { node { id } } } } } }", "user:"},
		"Post":         {"homeFeed(first: 100) { " + page + " }", "post:"},
		"Show":         {"liveBoard(first: 100) { " + page + " }", "show:"},
		"Notification": {"notifications(first: 100) { " + page + " }", "notification:"},
		"SiteMessage":  {"siteMessages(first: 100) { " + page + " }", "siteMessage:"},
		"Announcement": {"announcements(first: 100) { " + page + " }", "announcement:"},
		"Conversation": {"conversations(first: 100) { " + page + " }", "conversation:"},
		"View":         {`views(codes: ["news"], first: 100) { ` + page + " }", "view:"},
		"Device":       {"devices { id }", "device:"},
		"Message":      {"conversations(first: 100) { edges { node { messages { edges { node { id } } } } } }", "message:"},
	}
	if kind == "SiteMessageReport" { // reports are in no list: their IDs are made from those of site messages
		for _, id := range c.idsInReaderLists("SiteMessage") {
			ids = append(ids, strings.Replace(id, "siteMessage:", "siteMessageReport:", 1))
		}
		return ids
	}
	list, known := lists[kind]
	if !known {
		c.t.Fatalf("where are objects of the type %s? Say so in this test", kind)
	}
	var walk func(value any)
	walk = func(value any) {
		switch value := value.(type) {
		case map[string]any:
			for _, field := range value {
				walk(field)
			}
		case []any:
			for _, one := range value {
				walk(one)
			}
		case string:
			if strings.HasPrefix(value, list.prefix) && len(ids) < 100 && !slices.Contains(ids, value) {
				ids = append(ids, value)
			}
		}
	}
	walk(c.must("reader", "{ viewer { "+list.query+" } }", nil).Data)
	least := entriesPerList
	if kind == "Device" {
		least = devices.MaxDevices // a user cannot have more
	}
	if len(ids) < least {
		c.t.Fatalf("%d objects of the type %s, at least %d are needed", len(ids), kind, least)
	}
	return ids
}
