package resolvers

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/vektah/gqlparser/v2/ast"

	"tidings/graph"
	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/rdb"
	"tidings/services/sql/sqltest"
	"tidings/tests/histories"
)

// A response takes at most two round trips to Redis, and runs each SQL statement at most once, whatever a list contains and however
// often an operation names it. The exceptions are in readings, mostRuns and rebuildTrips. The lists and the types are those of the schema: a
// new list or type is tested, or must be listed below with the reason why it is not.

const mostTrips = 2 // round trips to Redis

// statements counts the statements that SQL has run, by name.
type statements struct {
	mu    sync.Mutex
	asked map[string]int // name -> how often
}

// note counts a statement.
func (s *statements) note(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[name]++
}

// take returns the counts, and begins to count anew.
func (s *statements) take() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.asked
	s.asked = map[string]int{}
	return taken
}

// forgetful is a Redis that always answers as if it had no copies of posts and people.
type forgetful struct{ *rdb.Projections }

// Copies takes the round trip of a real read, and returns nothing.
func (f forgetful) Copies(ctx context.Context, posts []services.PostID, users []services.UserID) (map[services.PostID]services.Post, map[services.UserID]services.User, error) {
	if _, _, err := f.Projections.Copies(ctx, posts, users); err != nil {
		return nil, nil, err
	}
	return map[services.PostID]services.Post{}, map[services.UserID]services.User{}, nil
}

// filledWorld is a world whose reader has something in every list.
type filledWorld struct {
	*api
	made            *fanouttest.World // the first node, from which the others are made
	sql             *statements       // counts the statements of all nodes
	selector        *selector         // notes which lists were selected
	remembersReader bool              // after a restart, the node reads the row of the user reader before any operation
}

// TestReadsAreBatched tries everything that reads several objects, on both engine pairs. It takes seconds to fill a world, so the tests
// of an engine pair share one. Tests that change the world come last.
func TestReadsAreBatched(t *testing.T) {
	for name, options := range map[string]func(t *testing.T) fanouttest.Options{
		"embedded":   func(*testing.T) fanouttest.Options { return fanouttest.Options{Redis: "embedded"} },
		"production": func(t *testing.T) fanouttest.Options { return fanouttest.Options{SQL: sqltest.Postgres(t)} },
	} {
		t.Run(name, func(t *testing.T) {
			sql := &statements{asked: map[string]int{}}
			engines := options(t)
			engines.Trace = sql.note
			world := fanouttest.New(t, engines)
			filled := &filledWorld{made: world, sql: sql, selector: newSelector(t)}
			filled.api = newAPIOn(t, world, 0, 0)
			filled.fill()
			for _, test := range []struct {
				name string
				run  func(t *testing.T, c *filledWorld)
			}{
				{"lists", everyListIsReadInBatches},
				{"aliases", aliasesOfAListAreReadInBatches},
				{"nodes", nodesOfEveryTypeAreReadInBatches},
				{"misses", missesAreReadInBatches},
				{"listsOfUsers", listsOfTheUsersOfAListAreReadInBatches},
				{"posts", aScreenOfPostsIsReadInBatches},
				{"badgeItems", itemsOfTheBadgesAreReadInBatches},
				{"usersOfTheHost", usersOfTheHostAreReadInBatches},
				{"compiled", compiledAnswersAreTheExecutors},
				{"badgesAfterALoss", badgesAfterALossAreReadInThreeRoundTrips},
				{"events", anEventOfASubscriptionIsReadInBatches},
			} {
				t.Run(test.name, func(t *testing.T) {
					c := *filled
					c.selector = newSelector(t)
					test.run(t, &c)
				})
			}
		})
	}
}

// restart starts a node with empty caches, on a Redis with or without copies of posts and people.
func (c *filledWorld) restart(copies bool) {
	world := c.made.AnotherNode()
	if !copies {
		world = c.made.AnotherNodeWith(forgetful{c.made.Redis}, nil)
	}
	c.api = newAPIOn(c.t, world, 0, 0) // it registers the node caches of features
	_, err := world.Caches.Changelog.RunOnce(c.t.Context())
	c.Must(err)
	if c.remembersReader {
		c.must("reader", "{ viewer { __typename } }", nil)
	}
}

// askInBatches sends a query as the reader, and fails if the query takes more round trips or statements than are allowed.
func (c *filledWorld) askInBatches(t *testing.T, when, query string, variables map[string]any) answer {
	t.Helper()
	c.sql.take()
	got := c.ask("reader", []services.Scope{services.ScopeViewer, services.ScopeAdmin, services.ScopeIngest}, query, variables)
	if len(got.Errors) > 0 {
		t.Fatalf("%s answered %+v", query, got.Errors)
	}
	if trips, most := c.trips.Load(), int64(mostTrips*readings(query)); trips > most {
		t.Errorf("%s: %d round trips to Redis, at most %d are allowed", when, trips, most)
	}
	asked := c.sql.take()
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		if asked[name] > mostRuns(query, name) {
			t.Errorf("%s: the statement %q ran %d times", when, name, asked[name])
		}
	}
	return got
}

// askEverywhere sends a query to a node with empty caches, to another one that finds copies in Redis, and to the latter again, which then
// has everything in its caches.
func (c *filledWorld) askEverywhere(t *testing.T, query string, variables map[string]any) (got answer) {
	t.Helper()
	c.restart(false)
	c.askInBatches(t, "cold", query, variables)
	c.restart(true)
	c.askInBatches(t, "with copies in Redis", query, variables)
	return c.askInBatches(t, "warm", query, variables)
}

// selector writes operations that select every field.
type selector struct {
	t      *testing.T
	schema *ast.Schema
	lists  map[string]bool // TYPE.FIELD of the lists that were selected
}

// required are the arguments that a field requires, or that keep an answer small.
var required = map[string]string{
	"User.followers": "first: 3", "User.followees": "first: 3", "User.posts": "first: 3", "User.shows": "first: 3",
	"Viewer.views":      `codes: ["news", "topic"]`,
	"Viewer.awayDigest": `since: "2026-01-31T00:00:00Z"`,
}

func newSelector(t *testing.T) *selector {
	schema := graph.NewExecutableSchema(graph.Config{}).Schema()
	return &selector{t: t, schema: schema, lists: map[string]bool{}}
}

// isList reports whether a field is a list of objects or a connection.
func (s *selector) isList(field *ast.FieldDefinition) bool {
	kind := s.schema.Types[field.Type.Name()]
	return kind.IsCompositeType() && (field.Type.Elem != nil || strings.HasSuffix(kind.Name, "Connection"))
}

// selectField returns the text that selects a field of the type of, and everything below it. more are further arguments, and above the types
// that contain the field.
func (s *selector) selectField(of *ast.Definition, field *ast.FieldDefinition, more string, above ...string) string {
	arguments := required[of.Name+"."+field.Name]
	for _, argument := range field.Arguments {
		if argument.Type.NonNull && argument.DefaultValue == nil && arguments == "" {
			s.t.Fatalf("%s.%s needs %s: give it in the table of this test", of.Name, field.Name, argument.Name)
		}
	}
	if s.isList(field) {
		s.lists[of.Name+"."+field.Name] = true
	}
	text := field.Name
	if arguments += " " + more; arguments != " " {
		text += "(" + arguments + ")"
	}
	return text + s.selectAllFields(s.schema.Types[field.Type.Name()], above...)
}

// selectAllFields returns the selection of all fields of a type. above are the types that contain it: a field of one of these types is left out,
// because it would never end.
func (s *selector) selectAllFields(kind *ast.Definition, above ...string) string {
	if !kind.IsCompositeType() {
		return ""
	}
	above = append(slices.Clone(above), kind.Name)
	fields := []string{"__typename"}
	for _, one := range s.schema.GetPossibleTypes(kind) {
		if kind.Kind == ast.Union && !slices.Contains(above, one.Name) {
			fields = append(fields, "... on "+one.Name+s.selectAllFields(one, above...))
		}
	}
	for _, field := range kind.Fields {
		if !strings.HasPrefix(field.Name, "__") && !slices.Contains(above, field.Type.Name()) && !s.tooMany(kind, field, above) {
			fields = append(fields, s.selectField(kind, field, "", above...))
		}
	}
	return " { " + strings.Join(fields, " ") + " }"
}

// emptyLists returns the paths of the lists of an answer that are empty wherever they occur. filled keeps, by path, whether a list had
// items.
func emptyLists(value any, path string, filled map[string]bool) (names []string) {
	var walk func(value any, path string)
	walk = func(value any, path string) {
		switch value := value.(type) {
		case map[string]any:
			for name, field := range value {
				walk(field, path+"."+name)
			}
		case []any:
			filled[path] = filled[path] || len(value) > 0
			for _, one := range value {
				walk(one, path)
			}
		}
	}
	walk(value, path)
	for name, any := range filled {
		if !any {
			names = append(names, name)
		}
	}
	return names
}

// compareNodes compares the nodes of each page in an answer with the nodes of its edges, and returns how many it has compared.
func compareNodes(t *testing.T, value any) (compared int) {
	switch value := value.(type) {
	case map[string]any:
		for _, field := range value {
			compared += compareNodes(t, field)
		}
		edges, isPage := value["edges"].([]any)
		nodes, asked := value["nodes"].([]any)
		if !isPage || !asked { // a type is not selected within itself
			return compared
		}
		if len(nodes) != len(edges) {
			t.Errorf("%v has %d nodes and %d edges", value["__typename"], len(nodes), len(edges))
			return compared
		}
		for i, edge := range edges {
			if node := edge.(map[string]any)["node"]; !reflect.DeepEqual(nodes[i], node) {
				t.Errorf("node %d of %v is\n%v, on its edge it is\n%v", i, value["__typename"], nodes[i], node)
			}
		}
		compared += len(nodes)
	case []any:
		for _, one := range value {
			compared += compareNodes(t, one)
		}
	}
	return compared
}

// markedReason says, in unselectedLists, why no query here selects the lists in the payloads of marks.
const markedReason = "of a mutation, read as the list of the viewer is"

// unselectedLists are the lists that these queries do not select, with the reason or the test that reads them.
var unselectedLists = map[string]string{
	"CommentConnection.nodes": "a type is not asked for within itself; its edges are",
	"UserConnection.nodes":    "listsOfTheUsersOfAListAreReadInBatches",
	"Query.users":             "usersOfTheHostAreReadInBatches", "UserBadges.unread": "the same",
	"BadgeChanges.list": "one read, and no field has one of its own", "BadgeChange.sources": "the same",
	"Admin.webhooks": "one read, and no field has one of its own", "Admin.hostCategories": "the same", "Admin.webhookDeadLetters": "the same", "Webhook.sources": "the same", "AdminActs.list": "the same", "UserExport.list": "the same", "Erasure.removed": "the same",
	"IngestPayload.results":       "what the host application sent, event by event",
	"HomeFeedChange.authors":      "anEventOfASubscriptionIsReadInBatches",
	"LiveBoardChange.wentLive":    "anEventOfASubscriptionIsReadInBatches",
	"LiveBoardChange.ended":       "anEventOfASubscriptionIsReadInBatches",
	"LiveBoardChange.rescheduled": "anEventOfASubscriptionIsReadInBatches", "LiveBoardChange.scheduled": "of an event",
	"LiveBoardChange.cancelled": "anEventOfASubscriptionIsReadInBatches",

	"NotificationsChange.notifications": "anEventOfASubscriptionIsReadInBatches",
	"ConversationsChange.conversations": "anEventOfASubscriptionIsReadInBatches",

	"MarkNotificationsSeenPayload.notifications": markedReason, "MarkNotificationsReadPayload.notifications": markedReason,
	"MarkAllReadPayload.notifications": markedReason, "UndoMarkAllReadPayload.notifications": markedReason,
	"MarkSiteMessagesReadPayload.siteMessages": markedReason, "MarkSiteMessagesUnreadPayload.siteMessages": markedReason,
	"MarkAnnouncementsReadPayload.announcements": markedReason,
}

// Each list of the viewer, with everything below it, is read in batches.
func everyListIsReadInBatches(t *testing.T, c *filledWorld) {
	viewer := c.selector.schema.Types["Viewer"]
	for _, field := range viewer.Fields {
		t.Run(field.Name, func(t *testing.T) {
			query := "{ viewer { " + c.selector.selectField(viewer, field, "") + " } }"
			got := c.askEverywhere(t, query, nil)
			if compared := compareNodes(t, got.Data); compared == 0 && strings.HasSuffix(field.Type.Name(), "Connection") {
				t.Error("no nodes were compared with those of edges")
			}
			if names := emptyLists(got.Data, "", map[string]bool{}); len(names) > 0 {
				t.Errorf("nothing was in %v: the test proves nothing of it", names)
			}
		})
	}
	query := c.selector.schema.Query
	for _, field := range query.Fields {
		if field.Name == "nodes" {
			c.selector.lists["Query.nodes"] = true // nodesOfEveryTypeAreReadInBatches selects it
		}
	}
	for _, kind := range c.selector.schema.Types {
		for _, field := range kind.Fields {
			name := kind.Name + "." + field.Name
			if kind.BuiltIn || kind.Kind != ast.Object || strings.HasPrefix(field.Name, "__") || !c.selector.isList(field) {
				continue
			}
			if _, known := unselectedLists[name]; !known && !c.selector.lists[name] {
				t.Errorf("the list %s was not asked for", name)
			}
		}
	}
}

// A list that an operation names several times, with different selections and sizes, is read once.
func aliasesOfAListAreReadInBatches(t *testing.T, c *filledWorld) {
	fewest := histories.Number(t, 3, 10)
	viewer := c.selector.schema.Types["Viewer"]
	for _, field := range viewer.Fields {
		t.Run(field.Name, func(t *testing.T) {
			var fields []string
			for i := range 5 {
				more := ""
				if field.Arguments.ForName("first") != nil {
					more = fmt.Sprint("first: ", fewest+i)
				}
				fields = append(fields, fmt.Sprintf("a%d: %s", i, c.selector.selectField(viewer, field, more)))
			}
			got := c.askEverywhere(t, "{ viewer { "+strings.Join(fields, " ")+" } }", nil)
			for i, alone := range fields {
				if field.Name == "liveBoard" { // each operation has a session of its own
					if edges, _ := got.at("viewer", fmt.Sprint("a", i), "edges").([]any); len(edges) != fewest+i {
						t.Errorf("a%d has %d shows", i, len(edges))
					}
					continue
				}
				want := c.must("reader", "{ viewer { "+alone+" } }", nil)
				if !reflect.DeepEqual(got.at("viewer", fmt.Sprint("a", i)), want.at("viewer", fmt.Sprint("a", i))) {
					t.Errorf("a%d is\n%v, alone it is\n%v", i, got.at("viewer", fmt.Sprint("a", i)), want.at("viewer", fmt.Sprint("a", i)))
				}
			}
			c.askEverywhere(t, "{ a: viewer { "+fields[0]+" } b: viewer { "+fields[0]+" "+fields[1]+" } }", nil)
		})
	}
}
