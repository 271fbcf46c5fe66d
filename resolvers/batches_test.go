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
// often an operation names it. The exceptions are in roundTripLimitFactor, maxStatementRuns and rebuildRoundTrips. The lists and
// the types are those of the schema: a new list or type is tested, or must be listed below with the reason why it is not.

const maxRoundTrips = 2 // round trips to Redis

// statementCounter counts the statements that SQL has run, by name.
type statementCounter struct {
	mu         sync.Mutex     // guards runsByName
	runsByName map[string]int // name -> how often
}

// countRun counts a statement.
func (s *statementCounter) countRun(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runsByName[name]++
}

// takeCounts returns the counts, and begins to count anew.
func (s *statementCounter) takeCounts() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.runsByName
	s.runsByName = map[string]int{}
	return taken
}

// redisWithoutPostsAndUsers is a Redis that always answers as if it had no copies of posts and people.
type redisWithoutPostsAndUsers struct{ *rdb.Projections }

// Copies takes the round trip of a real read, and returns nothing.
func (f redisWithoutPostsAndUsers) Copies(ctx context.Context, posts []services.PostID, users []services.UserID) (map[services.PostID]services.Post, map[services.UserID]services.User, error) {
	if _, _, err := f.Projections.Copies(ctx, posts, users); err != nil {
		return nil, nil, err
	}
	return map[services.PostID]services.Post{}, map[services.UserID]services.User{}, nil
}

// filledWorld is a world whose reader has something in every list.
type filledWorld struct {
	*testAPI
	firstNode            *fanouttest.World // the first node, from which the others are made
	statements           *statementCounter // counts the statements of all nodes
	selections           *selectionBuilder // notes which lists were selected
	loadsReaderOnRestart bool              // after a restart, the node reads the row of the user reader before any operation
}

// TestReadsAreBatched tries everything that reads several objects, on both engine pairs. It takes seconds to fill a world, so the
// tests of an engine pair share one. Tests that change the world come last.
func TestReadsAreBatched(t *testing.T) {
	for name, options := range map[string]func(t *testing.T) fanouttest.Options{
		"embedded":   func(*testing.T) fanouttest.Options { return fanouttest.Options{RedisURL: "embedded"} },
		"production": func(t *testing.T) fanouttest.Options { return fanouttest.Options{SQLURL: sqltest.Postgres(t)} },
	} {
		t.Run(name, func(t *testing.T) {
			sql := &statementCounter{runsByName: map[string]int{}}
			engines := options(t)
			engines.Trace = sql.countRun
			world := fanouttest.New(t, engines)
			filled := &filledWorld{firstNode: world, statements: sql, selections: newSelectionBuilder(t)}
			filled.testAPI = newAPIOn(t, world, 0, 0)
			filled.fillReaderLists()
			for _, test := range []struct {
				name string
				run  func(t *testing.T, c *filledWorld)
			}{
				{"lists", everyListIsReadInBatches},
				{"aliases", aliasesOfAListAreReadInBatches},
				{"nodes", nodesOfEveryTypeAreReadInBatches},
				{"misses", missingIDsAreReadInBatches},
				{"listsOfUsers", listsOfTheUsersOfAListAreReadInBatches},
				{"posts", aScreenOfPostsIsReadInBatches},
				{"badgeItems", itemsOfTheBadgesAreReadInBatches},
				{"usersOfTheHost", usersOfTheHostAreReadInBatches},
				{"compiled", compiledAnswersEqualExecuted},
				{"badgesAfterALoss", badgesOfEmptyRedisTakeThreeRoundTrips},
				{"events", anEventOfASubscriptionIsReadInBatches},
			} {
				t.Run(test.name, func(t *testing.T) {
					c := *filled
					c.selections = newSelectionBuilder(t)
					test.run(t, &c)
				})
			}
		})
	}
}

// restart starts a node with empty caches, on a Redis with or without copies of posts and people.
func (c *filledWorld) restart(copies bool) {
	world := c.firstNode.AnotherNode()
	if !copies {
		world = c.firstNode.AnotherNodeWith(redisWithoutPostsAndUsers{c.firstNode.Redis}, nil)
	}
	c.testAPI = newAPIOn(c.t, world, 0, 0) // newAPIOn also registers the node caches of the features
	_, err := world.Caches.Changelog.RunOnce(c.t.Context())
	c.Must(err)
	if c.loadsReaderOnRestart {
		c.must("reader", "{ viewer { __typename } }", nil)
	}
}

// askWithinReadLimits sends a query as the reader, and fails if the query takes more round trips or statements than are allowed.
func (c *filledWorld) askWithinReadLimits(t *testing.T, when, query string, variables map[string]any) apiAnswer {
	t.Helper()
	c.statements.takeCounts()
	got := c.ask("reader", []services.Scope{services.ScopeViewer, services.ScopeAdmin, services.ScopeIngest}, query, variables)
	if len(got.Errors) > 0 {
		t.Fatalf("%s answered %+v", query, got.Errors)
	}
	if trips, most := c.lastRoundTrips.Load(), int64(maxRoundTrips*roundTripLimitFactor(query)); trips > most {
		t.Errorf("%s: %d round trips to Redis, at most %d are allowed", when, trips, most)
	}
	asked := c.statements.takeCounts()
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		if asked[name] > maxStatementRuns(query, name) {
			t.Errorf("%s: the statement %q ran %d times", when, name, asked[name])
		}
	}
	return got
}

// askColdAndWarm sends a query to a node with empty caches, to another one that finds copies in Redis, and to the latter again,
// which then has everything in its caches.
func (c *filledWorld) askColdAndWarm(t *testing.T, query string, variables map[string]any) (got apiAnswer) {
	t.Helper()
	c.restart(false)
	c.askWithinReadLimits(t, "cold", query, variables)
	c.restart(true)
	c.askWithinReadLimits(t, "with copies in Redis", query, variables)
	return c.askWithinReadLimits(t, "warm", query, variables)
}

// selectionBuilder writes operations that select every field.
type selectionBuilder struct {
	t             *testing.T
	schema        *ast.Schema
	selectedLists map[string]bool // TYPE.FIELD of the lists that were selected
}

// requiredArguments are the arguments, by TYPE.FIELD, that a field requires or that keep an answer small.
var requiredArguments = map[string]string{
	"User.followers": "first: 3", "User.followees": "first: 3", "User.posts": "first: 3", "User.shows": "first: 3",
	"Viewer.views":      `codes: ["news", "topic"]`,
	"Viewer.awayDigest": `since: "2026-01-31T00:00:00Z"`,
}

func newSelectionBuilder(t *testing.T) *selectionBuilder {
	schema := graph.NewExecutableSchema(graph.Config{}).Schema()
	return &selectionBuilder{t: t, schema: schema, selectedLists: map[string]bool{}}
}

// isList reports whether a field is a list of objects or a connection.
func (s *selectionBuilder) isList(field *ast.FieldDefinition) bool {
	kind := s.schema.Types[field.Type.Name()]
	return kind.IsCompositeType() && (field.Type.Elem != nil || strings.HasSuffix(kind.Name, "Connection"))
}

// selectField returns the text that selects a field of the type of, and everything below it. more are further arguments, and above
// the types that contain the field.
func (s *selectionBuilder) selectField(of *ast.Definition, field *ast.FieldDefinition, more string, above ...string) string {
	arguments := requiredArguments[of.Name+"."+field.Name]
	for _, argument := range field.Arguments {
		if argument.Type.NonNull && argument.DefaultValue == nil && arguments == "" {
			s.t.Fatalf("%s.%s needs %s: give it in the table of this test", of.Name, field.Name, argument.Name)
		}
	}
	if s.isList(field) {
		s.selectedLists[of.Name+"."+field.Name] = true
	}
	text := field.Name
	if arguments += " " + more; arguments != " " {
		text += "(" + arguments + ")"
	}
	return text + s.selectAllFields(s.schema.Types[field.Type.Name()], above...)
}

// selectAllFields returns the selection of all fields of a type. above are the types that contain it: a field of one of these types
// is left out, because it would never end.
func (s *selectionBuilder) selectAllFields(kind *ast.Definition, above ...string) string {
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
		if !strings.HasPrefix(field.Name, "__") && !slices.Contains(above, field.Type.Name()) && !s.isNestedUserList(kind, field, above) {
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
	for name, isFilled := range filled {
		if !isFilled {
			names = append(names, name)
		}
	}
	return names
}

// compareNodesWithEdges compares the nodes of each page in an answer with the nodes of its edges, and returns how many it has
// compared.
func compareNodesWithEdges(t *testing.T, value any) (compared int) {
	switch value := value.(type) {
	case map[string]any:
		for _, field := range value {
			compared += compareNodesWithEdges(t, field)
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
			compared += compareNodesWithEdges(t, one)
		}
	}
	return compared
}

// markPayloadSkipReason is the reason, in unselectedLists, why no query of these tests selects the lists in the payloads of marks.
const markPayloadSkipReason = "of a mutation, read as the list of the viewer is"

// unselectedLists are the lists that everyListIsReadInBatches need not select, with the reason or the test that reads them.
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

	"MarkNotificationsSeenPayload.notifications": markPayloadSkipReason, "MarkNotificationsReadPayload.notifications": markPayloadSkipReason,
	"MarkAllReadPayload.notifications": markPayloadSkipReason, "UndoMarkAllReadPayload.notifications": markPayloadSkipReason,
	"MarkSiteMessagesReadPayload.siteMessages": markPayloadSkipReason, "MarkSiteMessagesUnreadPayload.siteMessages": markPayloadSkipReason,
	"MarkAnnouncementsReadPayload.announcements": markPayloadSkipReason,
}

// Each list of the viewer, with everything below it, is read in batches.
func everyListIsReadInBatches(t *testing.T, c *filledWorld) {
	viewer := c.selections.schema.Types["Viewer"]
	for _, field := range viewer.Fields {
		t.Run(field.Name, func(t *testing.T) {
			query := "{ viewer { " + c.selections.selectField(viewer, field, "") + " } }"
			got := c.askColdAndWarm(t, query, nil)
			if compared := compareNodesWithEdges(t, got.Data); compared == 0 && strings.HasSuffix(field.Type.Name(), "Connection") {
				t.Error("no nodes were compared with those of edges")
			}
			if names := emptyLists(got.Data, "", map[string]bool{}); len(names) > 0 {
				t.Errorf("nothing was in %v: the test proves nothing of it", names)
			}
		})
	}
	query := c.selections.schema.Query
	for _, field := range query.Fields {
		if field.Name == "nodes" {
			c.selections.selectedLists["Query.nodes"] = true // nodesOfEveryTypeAreReadInBatches selects it
		}
	}
	for _, kind := range c.selections.schema.Types {
		for _, field := range kind.Fields {
			name := kind.Name + "." + field.Name
			if kind.BuiltIn || kind.Kind != ast.Object || strings.HasPrefix(field.Name, "__") || !c.selections.isList(field) {
				continue
			}
			if _, known := unselectedLists[name]; !known && !c.selections.selectedLists[name] {
				t.Errorf("the list %s was not asked for", name)
			}
		}
	}
}

// A list that an operation names several times, with different selections and sizes, is read once.
func aliasesOfAListAreReadInBatches(t *testing.T, c *filledWorld) {
	fewest := histories.ShortOrFull(t, 3, 10)
	viewer := c.selections.schema.Types["Viewer"]
	for _, field := range viewer.Fields {
		t.Run(field.Name, func(t *testing.T) {
			var fields []string
			for i := range 5 {
				more := ""
				if field.Arguments.ForName("first") != nil {
					more = fmt.Sprint("first: ", fewest+i)
				}
				fields = append(fields, fmt.Sprintf("a%d: %s", i, c.selections.selectField(viewer, field, more)))
			}
			got := c.askColdAndWarm(t, "{ viewer { "+strings.Join(fields, " ")+" } }", nil)
			for i, alone := range fields {
				if field.Name == "liveBoard" { // each operation has a session of its own
					if edges, _ := got.valueAt("viewer", fmt.Sprint("a", i), "edges").([]any); len(edges) != fewest+i {
						t.Errorf("a%d has %d shows", i, len(edges))
					}
					continue
				}
				want := c.must("reader", "{ viewer { "+alone+" } }", nil)
				if !reflect.DeepEqual(got.valueAt("viewer", fmt.Sprint("a", i)), want.valueAt("viewer", fmt.Sprint("a", i))) {
					t.Errorf("a%d is\n%v, alone it is\n%v", i, got.valueAt("viewer", fmt.Sprint("a", i)), want.valueAt("viewer", fmt.Sprint("a", i)))
				}
			}
			c.askColdAndWarm(t, "{ a: viewer { "+fields[0]+" } b: viewer { "+fields[0]+" "+fields[1]+" } }", nil)
		})
	}
}

// dropVaryingFields deletes from an answer the fields whose values come from IDs and clocks.
func dropVaryingFields(value any) {
	switch value := value.(type) {
	case map[string]any:
		for _, name := range []string{"version", "cursor", "startCursor", "endCursor", "sessionId"} {
			delete(value, name)
		}
		for _, field := range value {
			dropVaryingFields(field)
		}
	case []any:
		for _, one := range value {
			dropVaryingFields(one)
		}
	}
}
