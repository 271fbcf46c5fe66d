package resolvers

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/executor"
	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/validator/rules"
	"pgregory.net/rapid"

	"tidings/graph"
	"tidings/services"
)

// fixedResolver has the resolvers of a schema whose viewer has the badges, the page and the board of a test.
type fixedResolver struct {
	*Resolver
	hotPartValue
}

func (s *fixedResolver) Query() graph.QueryResolver { return fixedQueryResolver{s.Resolver.Query()} }
func (s *fixedResolver) Viewer() graph.ViewerResolver {
	return fixedViewerResolver{s.Resolver.Viewer(), s.hotPartValue}
}

// fixedQueryResolver answers queries with one fixed viewer. The resolvers below answer with the content of a test.
type fixedQueryResolver struct{ graph.QueryResolver }

func (fixedQueryResolver) Viewer(context.Context) (*graph.Viewer, error) {
	return graph.NewViewer(1, fixedViewerKey), nil
}

// fixedViewerKey is the key of the viewer of fixedQueryResolver.
const fixedViewerKey = "al.ice"

// fixedViewerResolver answers the badges, the home feed and the live board of a test.
type fixedViewerResolver struct {
	graph.ViewerResolver
	hotPartValue
}

func (v fixedViewerResolver) Badges(context.Context, *graph.Viewer) (*services.Badges, error) {
	return v.badges.Badges, nil
}

func (v fixedViewerResolver) HomeFeed(context.Context, *graph.Viewer, *int, *string, *string, *string, *int, *string) (*graph.PostConnection, error) {
	return postConnection(&graph.Viewer{UserID: v.feed.viewer}, v.feed.Page), nil
}

func (v fixedViewerResolver) LiveBoard(context.Context, *graph.Viewer, *int, *string, *string, *string) (*graph.LiveBoardConnection, error) {
	return (&Resolver{Clock: fixedClock(v.board.readAt)}).boardConnection(v.board.Board), nil
}

func (s *fixedResolver) Post() graph.PostResolver {
	return fixedPostResolver{s.Resolver.Post(), s.hotPartValue}
}

// fixedPostResolver answers the counts and the labels of a post.
type fixedPostResolver struct {
	graph.PostResolver
	hotPartValue
}

func (p fixedPostResolver) ViewerCanEdit(_ context.Context, post *graph.Post) (bool, error) {
	return post.AuthorID == p.feed.viewer, nil
}

func (p fixedPostResolver) ViewerHasLiked(_ context.Context, post *graph.Post) (*bool, error) {
	of := p.feed.engagements[post.Number]
	return &of.LikedByViewer, nil
}

func (p fixedPostResolver) LikeCount(_ context.Context, post *graph.Post) (*int, error) {
	of := p.feed.engagements[post.Number]
	return &of.Likes, nil
}

func (p fixedPostResolver) CommentCount(_ context.Context, post *graph.Post) (*int, error) {
	of := p.feed.engagements[post.Number]
	return &of.Comments, nil
}

func (p fixedPostResolver) Ref(_ context.Context, post *graph.Post) (*string, error) {
	return orNull(p.feed.labels[postObject(post.Number)].Ref), nil
}

func (p fixedPostResolver) URL(_ context.Context, post *graph.Post) (*string, error) {
	return orNull(p.feed.labels[postObject(post.Number)].URL), nil
}

func (p fixedPostResolver) Data(_ context.Context, post *graph.Post) (*string, error) {
	return orNull(p.feed.labels[postObject(post.Number)].Data), nil
}

func (s *fixedResolver) Show() graph.ShowResolver {
	return fixedShowResolver{s.Resolver.Show(), s.hotPartValue}
}

// fixedShowResolver answers the labels and the reminders of a show.
type fixedShowResolver struct {
	graph.ShowResolver
	hotPartValue
}

func (p fixedShowResolver) Ref(_ context.Context, show *graph.Show) (*string, error) {
	return orNull(p.board.labels[showObjectOf(show.Number)].Ref), nil
}

func (p fixedShowResolver) URL(_ context.Context, show *graph.Show) (*string, error) {
	return orNull(p.board.labels[showObjectOf(show.Number)].URL), nil
}

func (p fixedShowResolver) Data(_ context.Context, show *graph.Show) (*string, error) {
	return orNull(p.board.labels[showObjectOf(show.Number)].Data), nil
}

func (p fixedShowResolver) ViewerHasReminder(_ context.Context, show *graph.Show) (*bool, error) {
	reminds := p.board.hasReminder[show.Number]
	return &reminds, nil
}

func (p fixedShowResolver) RemindsMe(_ context.Context, show *graph.Show) (bool, error) {
	return p.board.hasReminder[show.Number], nil
}

// fixedClock stands still.
type fixedClock time.Time

func (c fixedClock) Now() time.Time { return time.Time(c) }

// executedAnswer returns the answer of gqlgen's generated code to a query. what is the content that the resolvers show.
func executedAnswer(t interface{ Fatalf(string, ...any) }, what hotPartValue, query string) string {
	exec := executor.New(graph.NewExecutableSchema(graph.Config{Resolvers: &fixedResolver{Resolver: &Resolver{}, hotPartValue: what}}))
	ctx := graphql.StartOperationTrace(services.WithViewer(context.Background(), services.Viewer{Key: fixedViewerKey}))
	operation, faults := exec.CreateOperationContext(ctx, &graphql.RawParams{Query: query, ReadTime: graphql.TraceTiming{Start: time.Now(), End: time.Now()}})
	if faults != nil {
		t.Fatalf("%s: %v", query, faults)
	}
	handler, ctx := exec.DispatchOperation(ctx, operation)
	response := handler(ctx)
	if len(response.Errors) > 0 {
		t.Fatalf("%s: %v", query, response.Errors)
	}
	return string(response.Data)
}

// newFullSchema returns the whole schema.
func newFullSchema() *ast.Schema { return graph.NewExecutableSchema(graph.Config{}).Schema() }

// hotSchema is the schema without the fields that are left to the executor: the lists of posts and users, and the parent of a
// post.
func hotSchema() *ast.Schema {
	schema := *newFullSchema()
	schema.Types = maps.Clone(schema.Types)
	for kind, left := range map[string][]string{"Post": {"parent", "comments", "likes"}, "User": {"followers", "followees", "posts", "shows"}} {
		changed := *schema.Types[kind]
		changed.Fields = slices.DeleteFunc(slices.Clone(changed.Fields), func(field *ast.FieldDefinition) bool { return slices.Contains(left, field.Name) })
		schema.Types[kind] = &changed
	}
	return &schema
}

// drawSelection draws a selection of a type's fields: some with aliases, some in fragments.
func drawSelection(t *rapid.T, schema *ast.Schema, kind *ast.Definition, depth int) string {
	var text strings.Builder
	text.WriteString("{ ")
	fields := append([]*ast.FieldDefinition{{Name: "__typename", Type: ast.NonNullNamedType("String", nil)}}, kind.Fields...)
	picked := rapid.SliceOfNDistinct(rapid.IntRange(0, len(fields)-1), 1, len(fields), rapid.ID[int]).Draw(t, kind.Name)
	for i, index := range picked {
		field := fields[index]
		if strings.HasPrefix(field.Name, "__") && field.Name != "__typename" {
			continue
		}
		one := field.Name
		switch rapid.IntRange(0, 3).Draw(t, "how") {
		case 1:
			one = fmt.Sprintf("a%d: %s", i, one)
		case 2:
			one = fmt.Sprintf("b%d_%d: %s", depth, i, one)
		}
		if below := schema.Types[field.Type.Name()]; below.Kind == ast.Object {
			one += " " + drawSelection(t, schema, below, depth+1)
		}
		if field.Name == "id" && slices.Contains(kind.Interfaces, "Node") && rapid.Bool().Draw(t, "of the node") {
			one = "... on Node { " + one + " }"
		}
		if rapid.IntRange(0, 4).Draw(t, "fragment") == 0 {
			one = "... on " + kind.Name + " { " + one + " }"
		}
		text.WriteString(one + " ")
	}
	return text.String() + "__typename2: __typename }"
}

func drawCount(t *rapid.T) services.Count {
	precision := rapid.SampledFrom([]services.Precision{services.Exact, services.AtLeast, services.Stale, services.Unknown}).Draw(t, "precision")
	count := services.NewCount(rapid.IntRange(0, 1000).Draw(t, "value"), precision, time.Time{})
	if precision == services.Stale {
		count.RightAt = services.InstantOf(time.UnixMicro(rapid.Int64Range(0, 1<<51).Draw(t, "asOf")))
	}
	count.InTotal, count.Display = rapid.Bool().Draw(t, "inTotal"), rapid.SampledFrom([]string{"", "7", "99+", services.DisplayDot, "\"\\\n\x01ä"}).Draw(t, "display")
	return count
}

func drawBadges(t *rapid.T) *services.Badges {
	badges := &services.Badges{Version: services.BadgesVersion(rapid.Uint64Max(1<<53).Draw(t, "n"), 5), Quiet: rapid.Bool().Draw(t, "quiet")}
	for _, count := range []*services.Count{
		&badges.Total, &badges.Notifications.Total, &badges.SiteMessages.Total, &badges.Conversations.Total, &badges.Conversations.Mentions,
	} {
		*count = drawCount(t)
	}
	for _, field := range services.CountFields {
		*field.CountIn(badges) = drawCount(t)
	}
	for _, category := range services.Categories {
		*badges.Notifications.Of(category) = drawCount(t)
		*badges.Notifications.Older.Of(category) = rapid.IntRange(0, 1000).Draw(t, "older")
	}
	for range rapid.IntRange(0, 2).Draw(t, "host categories") {
		badges.Notifications.HostCounts = append(badges.Notifications.HostCounts, services.CategoryCount{
			Category: services.CategoryHost, Name: rapid.StringMatching(`[a-z][a-z0-9._-]{0,31}`).Draw(t, "category"), Count: drawCount(t), Older: rapid.IntRange(0, 1000).Draw(t, "older"),
		})
	}
	badges.Notifications.Newest = services.NotificationID(rapid.Uint64Max(2).Draw(t, "newest")) << 40
	name := rapid.SampledFrom([]string{"shop", "a\"b", "ü", ""})
	for range rapid.IntRange(0, 2).Draw(t, "types") {
		badges.SiteMessages.Types = append(badges.SiteMessages.Types, services.MessageTypeCount{Type: name.Draw(t, "type"), Count: drawCount(t)})
	}
	for range rapid.IntRange(0, 2).Draw(t, "dots") {
		badges.Dots = append(badges.Dots, services.Dot{Name: name.Draw(t, "dot"), Lit: rapid.Bool().Draw(t, "lit")})
	}
	return badges
}

// parseQuery returns the operation of a query.
func parseQuery(t interface{ Fatalf(string, ...any) }, query string) *ast.OperationDefinition {
	document, faults := gqlparser.LoadQueryWithRules(newFullSchema(), query, rules.NewDefaultRules())
	if faults != nil {
		t.Fatalf("%s: %v", query, faults)
	}
	return document.Operations[0]
}

// For any selection and any badges the compiled selection gives the same answer as gqlgen's generated code, byte for byte.
func TestACompiledAnswerEqualsTheExecutedOne(t *testing.T) {
	schema := newFullSchema()
	rapid.Check(t, func(t *rapid.T) {
		query := "{ viewer { badges " + drawSelection(t, schema, schema.Types["Badges"], 0) + " } }"
		shown := hotPartValue{badges: shownBadges{drawBadges(t), fixedViewerKey}}
		plan := hotPlanOf(parseQuery(t, query))
		if plan == nil {
			t.Fatalf("not compiled: %s", query)
		}
		if got, want := string(plan.response([]hotPartValue{shown}).Data), executedAnswer(t, shown, query); got != want {
			t.Fatalf("%s\ncompiled %s\nexecuted %s", query, got, want)
		}
	})
}

// A new field of the schema must be compiled too. Otherwise every query that selects it becomes slow, and nobody notices.
func TestEveryFieldOfAHotTypeIsCompiled(t *testing.T) {
	schema := hotSchema()
	seen := map[string]bool{}
	var all func(name string) string
	all = func(name string) string {
		seen[name] = true
		text := "{ __typename"
		for _, field := range schema.Types[name].Fields {
			if strings.HasPrefix(field.Name, "__") {
				continue
			}
			text += " " + field.Name
			if below := schema.Types[field.Type.Name()]; below.Kind == ast.Object {
				text += " " + all(below.Name)
			}
		}
		return text + " }"
	}
	badges, page, board := all("Badges"), all("PostConnection"), all("LiveBoardConnection")
	for _, query := range []string{
		"{ viewer { badges " + badges + " } }", "subscription { badgesChanged " + badges + " }", "{ viewer { homeFeed " + page + " } }",
		"{ viewer { liveBoard " + board + " } }",
	} {
		if hotPlanOf(parseQuery(t, query)) == nil {
			t.Errorf("not compiled: %s", query)
		}
	}
	if len(seen) < 12 {
		t.Errorf("only %v were looked at", seen)
	}
}

func TestOnlySupportedSelectionsAreCompiled(t *testing.T) {
	for query, compiled := range map[string]bool{
		`{ viewer { badges { version } } }`:                                               true,
		`query Q($x: Boolean = true) { viewer { badges { version @include(if: $x) } } }`:  false,
		`{ viewer { badges { version total { value @skip(if: true) } } } }`:               false,
		`{ viewer { badges { ...F } } } fragment F on Badges { version total { value } }`: true,
		`{ viewer { badges { ... { version } } } }`:                                       true,
		`{ viewer { badges { ... @include(if: true) { version } } } }`:                    false,
		`{ viewer { badges { version version } } }`:                                       false,
		`{ viewer { badges { total { value } total { display } } } }`:                     false,
		`{ viewer { badges { version } user { key } } }`:                                  false,
		`{ viewer { badges { version } } other: viewer { badges { version } } }`:          false,
		`{ viewer { user { key } } }`:                                                     false,
		`{ ... on Query { viewer { badges { version } } } }`:                              false,
		`{ me: viewer { mine: badges { version } } }`:                                     true,
		`subscription { badgesChanged { version } }`:                                      true,
		`subscription($s: Version) { badgesChanged(since: $s) { version } }`:              true,
		`mutation { markHomeFeedSeen(input: {}) { badges { version } } }`:                 false,
		`{ viewer @include(if: true) { badges { version } } }`:                            false,
		`{ __typename }`: true,
		`{ viewer { badges { version } homeFeed { lastId } __typename } }`:                                                         true,
		`{ viewer { badges { version } homeFeed { lastId } b: homeFeed(first: 3) { end } } }`:                                      false,
		`query Q($n: Int = 3, $a: String) { viewer { homeFeed(first: $n, after: $a) { edges { cursor } } } }`:                      true,
		`{ viewer { ...F } } fragment F on Viewer { homeFeed(lastId: 7, newerThan: null) { edges { node { author { name } } } } }`: true,
		`{ viewer { homeFeed { lastId } homeFeed { end } } }`:                                                                      false,
		`{ viewer { homeFeed @skip(if: false) { lastId } } }`:                                                                      false,
		`{ viewer { homeFeed { edges @include(if: true) { cursor } } } }`:                                                          false,
		`{ viewer { homeFeed { edges { node { ... on Node { id ... on Show { title } } } } } } }`:                                  true,
		`{ viewer { homeFeed { edges { node { ... on Post { id } } } } } }`:                                                        true,
		`{ viewer { homeFeed { edges { cursor } edges { node { id } } } } }`:                                                       false,
		`{ viewer { homeFeed { lastId } mutes { edges { cursor } } } }`:                                                            false,
	} {
		if got := hotPlanOf(parseQuery(t, query)) != nil; got != compiled {
			t.Errorf("%s: compiled %v", query, got)
		}
	}
}

// A query that fails is answered by the schema: its errors are the same, with their paths.
func TestErrorsOfHotQueriesAreTheSchemas(t *testing.T) {
	a := newAPI(t)
	for what, got := range map[string]apiAnswer{
		"no token": a.ask("", nil, `{ me: viewer { badges { version } } }`, nil),
		"no user":  a.ask("", []services.Scope{services.ScopeViewer}, `{ me: viewer { badges { version } } }`, nil),
	} {
		if got.code() == "" || len(got.Errors) != 1 || len(got.Errors[0].Path) != 1 || got.Errors[0].Path[0] != "me" {
			t.Errorf("%s: %+v", what, got)
		}
	}
}

// A plan does not keep its document in memory. graph.PlanCache forgets it with the document.
func TestPlansDoNotKeepTheirDocuments(t *testing.T) {
	h := WithHotOperations(graph.NewExecutableSchema(graph.Config{}), &Resolver{}).(*hotOperationSchema)
	parse := func(text string) *ast.OperationDefinition {
		doc, faults := gqlparser.LoadQueryWithRules(h.Schema(), text, nil)
		if faults != nil {
			t.Fatal(faults)
		}
		return doc.Operations[0]
	}
	var operations []weak.Pointer[ast.OperationDefinition]
	for i := range 50 {
		for _, text := range []string{"{viewer{badges{v%d:version}}}", "subscription{badgesChanged{v%d:version}}", "{v%d:__typename}"} {
			operation := parse(fmt.Sprintf(text, i))
			if h.plans.Of(operation) == nil {
				t.Fatalf("%s has no plan", text)
			}
			operations = append(operations, weak.Make(operation))
		}
	}
	kept := parse("{viewer{badges{version}}}")
	plan := h.plans.Of(kept)
	held := func(one weak.Pointer[ast.OperationDefinition]) bool { return one.Value() != nil }
	for deadline := time.Now().Add(30 * time.Second); slices.ContainsFunc(operations, held); runtime.GC() {
		if time.Now().After(deadline) {
			t.Fatal("a document is still in memory")
		}
	}
	if h.plans.Of(kept) != plan || plan == nil {
		t.Error("a plan in use was forgotten")
	}
}
