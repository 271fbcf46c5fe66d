package resolvers

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/executor"
	"pgregory.net/rapid"

	"tidings/dataloader"
	"tidings/graph"
	"tidings/services"
	"tidings/services/posts"
	"tidings/services/sql"
)

// countingSchema is a schema that counts the operations that WithHotOperations leaves to it.
type countingSchema struct {
	graphql.ExecutableSchema
	execCount int // how many operations were left to it
}

func (c *countingSchema) Exec(ctx context.Context) graphql.ResponseHandler {
	c.execCount++
	return c.ExecutableSchema.Exec(ctx)
}

// executorPair has two executors over the same data: one without compiled selections, and one with them.
type executorPair struct {
	*testAPI
	uncompiled, compiled *executor.Executor
	fallback             *countingSchema // the schema behind compiled; nil if WithHotOperations did not make that schema
	varyingText          *regexp.Regexp  // what differs from answer to answer; nil for nothing
	visited              map[string]bool // the viewers who have asked before
}

// newExecutorPair makes a new testAPI, and two executors over its data: one with hot operations, and one without.
func newExecutorPair(t *testing.T) *executorPair {
	t.Helper()
	a := newAPI(t)
	fallback := &countingSchema{ExecutableSchema: graph.NewExecutableSchema(graph.Config{Resolvers: a.resolver})}
	s := newPairOf(a, WithHotOperations(fallback, a.resolver))
	s.fallback = fallback
	return s
}

// newPairOf makes two executors over the data of a: one without compiled selections, and one of the given schema.
func newPairOf(a *testAPI, schema graphql.ExecutableSchema) *executorPair {
	s := &executorPair{testAPI: a, visited: map[string]bool{}, uncompiled: executor.New(graph.NewExecutableSchema(graph.Config{Resolvers: a.resolver})), compiled: executor.New(schema)}
	for _, exec := range []*executor.Executor{s.uncompiled, s.compiled} {
		exec.SetErrorPresenter(ErrorPresenter(slog.New(slog.DiscardHandler)))
		exec.SetRecoverFunc(Recover)
		exec.AroundResponses(func(ctx context.Context, next graphql.ResponseHandler) *graphql.Response {
			return next(dataloader.With(ctx, a.resolver.Readers))
		})
	}
	return s
}

// executorReply is a whole response: its data as text, and its errors. The errors are sorted, because fields fail in parallel.
type executorReply struct {
	data       string
	errors     []string
	isCompiled bool // whether the operation has a hotPlan
}

// ask sends an operation to an executor.
func ask(ctx context.Context, t interface{ Fatalf(string, ...any) }, exec *executor.Executor, query string, variables map[string]any) executorReply {
	ctx = graphql.StartOperationTrace(ctx)
	now := graphql.TraceTiming{Start: time.Now(), End: time.Now()}
	operation, faults := exec.CreateOperationContext(ctx, &graphql.RawParams{Query: query, Variables: variables, ReadTime: now})
	got := executorReply{}
	if faults == nil {
		got.isCompiled = hotPlanOf(operation.Operation) != nil
		next, ctx := exec.DispatchOperation(ctx, operation)
		response := next(ctx)
		got.data, faults = string(response.Data), response.Errors
		if next(ctx) != nil {
			t.Fatalf("%s: a query was answered twice", query)
		}
	}
	for _, fault := range faults {
		text, err := json.Marshal(fault)
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		got.errors = append(got.errors, string(text))
	}
	slices.Sort(got.errors)
	return got
}

// fixedRequest is the request for both executors, so that errors have the same ID.
type fixedRequest struct{}

func (fixedRequest) RequestID() string { return "one" }

// askBoth returns the answer of both executors, which must be equal. A compiled operation without errors must not reach fallback.
func (s *executorPair) askBoth(t interface{ Fatalf(string, ...any) }, viewer, query string, variables map[string]any) executorReply {
	ctx := services.WithRequest(s.t.Context(), fixedRequest{})
	ctx = services.WithViewer(ctx, services.Viewer{Key: viewer, Scopes: []services.Scope{services.ScopeViewer, services.ScopeAdmin, services.ScopeIngest}})
	// The first query of a viewer makes their document. Several fields of it may do so, one after the other, and the version rises
	// after badges have read it: only later answers are equal.
	if !s.visited[viewer] {
		s.visited[viewer] = true
		ask(ctx, t, s.uncompiled, "{ viewer { badges { version } } }", nil)
	}
	want := ask(ctx, t, s.uncompiled, query, variables)
	before := 0
	if s.fallback != nil {
		before = s.fallback.execCount
	}
	got := ask(ctx, t, s.compiled, query, variables)
	if s.varyingText != nil {
		want.data, got.data = s.varyingText.ReplaceAllString(want.data, ""), s.varyingText.ReplaceAllString(got.data, "")
	}
	if got.data != want.data || !slices.Equal(got.errors, want.errors) {
		same := 0
		for same < min(len(got.data), len(want.data)) && got.data[same] == want.data[same] {
			same++
		}
		from := max(0, same-200)
		t.Fatalf("%s asked %s with %v: from %d on\nhot      %s %s\nexecuted %s %s", viewer, query, variables, from, got.data[from:], got.errors, want.data[from:], want.errors)
	}
	if left := s.fallback != nil && s.fallback.execCount > before; got.isCompiled && len(got.errors) == 0 && left {
		t.Fatalf("%s: was compiled and yet left to the schema", query)
	}
	return got
}

// ensureUserID returns the ID of a user, who is created if necessary.
func (s *executorPair) ensureUserID(key string) services.UserID {
	id, err := s.resolver.Social.EnsureUser(s.t.Context(), key)
	s.Must(err)
	return id
}

// createReadersAndPosts makes readers of every kind: one whose feed has gaps, one whose authors have more posts than a feed keeps,
// and one whose feed is empty. It returns positions of posts.
func (s *executorPair) createReadersAndPosts() (postIDs []services.PostID) {
	s.must("named", `mutation { setProfile(input: {name: "N\"\\<ä>", avatarUrl: "https://example.com/n"}) { user { id } } }`, nil)
	published := map[string][]services.PostID{}
	for key, count := range map[string]int{"named": 12, "plain": 9, "busy": services.FeedRetention + 5} {
		published[key] = s.InsertPosts(s.ensureUserID(key), count)
	}
	for reader, authors := range map[string][]string{"reader": {"named", "plain"}, "full": {"busy"}, "empty": nil} {
		s.ensureUserID(reader)
		for _, author := range authors {
			s.must(reader, `mutation($id: ID!) { follow(input: {userId: $id}) { user { id } } }`, map[string]any{"id": "user:" + author})
		}
	}
	for i, id := range published["named"][:3] {
		in := map[string]any{"id": services.GlobalID(services.PostType, id.String())}
		s.must("reader", `mutation($id: ID!) { likePost(input: {postId: $id}) { changed } }`, in)
		if i > 0 {
			s.must("plain", `mutation($id: ID!) { publishPost(input: {body: "an answer", parentId: $id}) { post { id } } }`, in)
			s.must("named", `mutation($id: ID!) { editPost(input: {postId: $id, body: "edited"}) { post { id } } }`, in)
		}
	}
	s.runUserMutation("named", "follow", "user:reader")
	s.runUserMutation("reader", "hideFrom", "user:named")
	s.RunAllJobs(s.Fanout)
	s.Clock.Advance(time.Second)
	s.Write(func(ctx context.Context, tx *sql.Tx) error { // deleted without a job, so that feeds still list it
		for _, id := range slices.Concat(published["named"][3:8], published["plain"][:1], published["busy"][100:104]) {
			if _, _, err := posts.Delete(ctx, tx, id); err != nil {
				return err
			}
		}
		return nil
	})
	return slices.Concat(published["named"], published["plain"], published["busy"][:20], published["busy"][services.FeedRetention-5:])
}

// drawFeedArguments draws the arguments of a page, some of them as variables. It returns the declarations of the variables, the
// arguments, and the values of the variables.
func drawFeedArguments(t *rapid.T, s *executorPair, postIDs []services.PostID) (declared, given string, variables map[string]any) {
	id := func() string {
		return services.GlobalID(services.PostType, rapid.SampledFrom(postIDs).Draw(t, "position").String())
	}
	values := map[string]func() any{
		"first": func() any { return rapid.SampledFrom([]int{0, -1, 1, 2, 5, 7, 20, 99, 100, 101}).Draw(t, "size") },
		"after": func() any {
			whose := s.ensureUserID(rapid.SampledFrom([]string{"reader", "full", "empty"}).Draw(t, "whose"))
			own := feedCursorText(whose, rapid.SampledFrom(postIDs).Draw(t, "position"))
			return rapid.SampledFrom([]string{own, own, own, announcementCursor.text(whose, 5), "no\"cursor", ""}).Draw(t, "cursor")
		},
		"lastId":    func() any { return rapid.SampledFrom([]any{id(), id(), "user:named", "post:short", 7}).Draw(t, "id") },
		"newerThan": func() any { return rapid.SampledFrom([]any{id(), id(), "user:named", "", 7}).Draw(t, "id") },
	}
	values["last"], values["before"] = values["first"], values["after"]
	kinds := map[string]string{"first": "Int", "after": "String", "lastId": "ID", "newerThan": "ID", "last": "Int", "before": "String"}
	variables = map[string]any{}
	var declarations, arguments []string
	chosen := rapid.SampledFrom([]string{"", "first", "after", "lastId", "newerThan", "first after", "first lastId", "first newerThan", "after lastId", "first after newerThan", "last", "before", "last before", "first last before", "last before after"}).Draw(t, "arguments")
	for _, name := range strings.Fields(chosen) {
		value := values[name]()
		literal, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		if number, ok := value.(int); ok {
			value = json.Number(fmt.Sprint(number))
		}
		how := rapid.SampledFrom([]string{"literal", "literal", "null", "variable", "variable", "default", "not given", "variable null"}).Draw(t, "how")
		declaration := fmt.Sprintf("$%s: %s", name, kinds[name])
		switch how {
		case "literal":
			arguments = append(arguments, fmt.Sprintf("%s: %s", name, literal))
			continue
		case "null":
			arguments = append(arguments, name+": null")
			continue
		case "variable":
			variables[name] = value
		case "variable null":
			variables[name] = nil
		case "default":
			declaration += fmt.Sprintf(" = %s", literal)
		}
		declarations, arguments = append(declarations, declaration), append(arguments, fmt.Sprintf("%s: $%s", name, name))
	}
	if len(declarations) > 0 {
		declared = "(" + strings.Join(declarations, ", ") + ")"
	}
	if len(arguments) > 0 {
		given = "(" + strings.Join(arguments, ", ") + ")"
	}
	return declared, given, variables
}

// For any page and any user, both executors give the same answer, also with errors and with selections that are not compiled.
func TestHotPagesEqualTheExecutedOnes(t *testing.T) {
	s := newExecutorPair(t)
	postIDs, schema, seen := s.createReadersAndPosts(), hotSchema(), map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		declared, given, variables := drawFeedArguments(t, s, postIDs)
		page := func() string {
			return "homeFeed" + given + " " + drawSelection(t, schema, schema.Types["PostConnection"], 0)
		}
		query := page()
		shape := rapid.SampledFrom([]string{"alone", "alone", "alone", "badges", "alias", "merged", "directive", "repeated", "interface"}).Draw(t, "shape")
		switch shape {
		case "badges":
			query = "__typename badges { version homeFeed { value } } " + query
		case "alias":
			query = "... on Viewer { " + query + " } b: " + page() + " c: badges { version }"
		case "merged":
			query += " homeFeed" + given + " { end edges { cursor } edges { node { author { key } id } } }"
		case "directive":
			query += " p: homeFeed" + given + " { end @skip(if: true) edges @include(if: true) { cursor } }"
		case "repeated":
			query += " p: homeFeed" + given + " { end end edges { cursor node { id } cursor } }"
		case "interface":
			query += " p: homeFeed" + given + " { edges { node { ... on Node { id } } } }"
		}
		viewer := rapid.SampledFrom([]string{"reader", "full", "empty", "named", "nobody yet"}).Draw(t, "viewer")
		got := s.askBoth(t, viewer, "query Q"+declared+" { viewer { "+query+" } }", variables)
		switch {
		case len(got.errors) > 0:
			seen["errors"]++
		case got.isCompiled:
			seen["hot"]++
		default:
			seen["left"]++
		}
	})
	const enough = 50 // fewer pages may all be of one kind
	if seen["errors"]+seen["hot"]+seen["left"] > enough && (seen["errors"] == 0 || seen["hot"] == 0 || seen["left"] == 0) {
		t.Errorf("not everything was tried: %v", seen)
	}
}

// Both executors give the same answer for every end of a feed, for authors with and without a profile, and for wrong arguments.
func TestHotPagesEqualExecutedOnesAtEveryEndAndError(t *testing.T) {
	s := newExecutorPair(t)
	s.createReadersAndPosts()
	page := func(arguments string) string {
		return "{ viewer { homeFeed" + arguments + " { edges { cursor node { id author { id name } } } pageInfo { hasNextPage startCursor endCursor } lastId end } } }"
	}
	foreign := feedCursorText(s.ensureUserID("full"), services.MaxPostID)
	for _, one := range []struct {
		viewer, arguments string
		want              []string // texts that the answer or its errors must have
	}{
		{"reader", "", []string{`"end":"END"`, `"name":null`, `"name":"N\"\\<ä>"`}},
		{"reader", "(first: 3)", []string{`"end":null`, `"hasNextPage":true`}},
		{"full", "(first: 100, lastId: \"" + s.lastIDOfSecondPage("full") + "\")", []string{`"end":"RETENTION"`}},
		{"empty", "", []string{`"edges":[]`, `"endCursor":null`, `"startCursor":null`, `"lastId":null`, `"end":"END"`}},
		{"reader", "(first: 0)", []string{"first: 1 to 100 are allowed, got 0", `"code":"INVALID"`}},
		{"reader", "(first: 101)", []string{"first: 1 to 100 are allowed, got 101"}},
		{"reader", `(after: "a", lastId: "post:a")`, []string{"only one of them can be given"}},
		{"reader", `(after: "a", newerThan: "post:a")`, []string{"newerThan: it cannot be given together"}},
		{"reader", `(after: "` + foreign + `")`, []string{"the cursor is another user's"}},
		{"reader", `(after: "x")`, []string{"is not a cursor of a home feed"}},
		{"reader", `(lastId: 7)`, []string{"is not the id of a post"}},
		{"reader", `(before: "a")`, []string{"before: it needs last"}},
		{"reader", `(last: 2)`, []string{"last: it needs before"}},
		{"reader", `(first: 2, last: 2, before: "a")`, []string{"last: it cannot be given together with first"}},
		{"reader", `(last: 2, before: "a", after: "b")`, []string{"before: it cannot be given together with after"}},
		{"reader", `(last: 101, before: "a")`, []string{"last: 1 to 100 are allowed, got 101"}},
	} {
		got := s.askBoth(t, one.viewer, page(one.arguments), nil)
		text := got.data + strings.Join(got.errors, "")
		for _, want := range one.want {
			if !got.isCompiled || !strings.Contains(text, want) {
				t.Errorf("%s asked for %s: no %s in %s", one.viewer, one.arguments, want, text)
			}
		}
	}
}

// A compiled page shows the likes and answers of posts as they are.
func TestHotPagesShowTheEngagementOfPosts(t *testing.T) {
	s := newExecutorPair(t)
	s.createReadersAndPosts()
	got := s.askBoth(t, "reader", `{ viewer { homeFeed(first: 100) { edges { node { viewerHasLiked likeCount commentCount } } } } }`, nil)
	for _, want := range []string{`"viewerHasLiked":true,"likeCount":1,"commentCount":1`, `"viewerHasLiked":true,"likeCount":1,"commentCount":0`, `"viewerHasLiked":false,"likeCount":0,"commentCount":0`} {
		if !got.isCompiled || !strings.Contains(got.data, want) {
			t.Errorf("no %s in %s", want, got.data)
		}
	}
}

// One document can page both ways: a variable that is not given counts as a missing argument.
func TestAMissingVariableCountsAsAMissingArgument(t *testing.T) {
	s := newExecutorPair(t)
	postIDs := s.createReadersAndPosts()
	query := `query($first: Int, $last: Int, $before: String) { viewer { homeFeed(first: $first, last: $last, before: $before) { edges { cursor } } } }`
	for _, variables := range []map[string]any{
		{"last": json.Number("2"), "before": feedCursorText(s.ensureUserID("reader"), postIDs[0])},
		{"first": nil, "last": json.Number("2"), "before": feedCursorText(s.ensureUserID("reader"), postIDs[0])},
		{"first": json.Number("2")},
		{},
	} {
		got := s.askBoth(t, "reader", query, variables)
		if !got.isCompiled || len(got.errors) > 0 || !strings.Contains(got.data, `"cursor"`) {
			t.Errorf("with %v: %s %s", variables, got.data, got.errors)
		}
	}
}

// lastIDOfSecondPage returns the last position of a reader's second page of 100. The page after it is the last one of the feed.
func (s *executorPair) lastIDOfSecondPage(reader string) string {
	s.t.Helper()
	var id any
	for range 2 {
		got := s.must(reader, `query($last: ID) { viewer { homeFeed(first: 100, lastId: $last) { lastId } } }`, map[string]any{"last": id})
		id = got.valueAt("viewer", "homeFeed", "lastId")
	}
	text, _ := id.(string)
	return text
}

// Without Redis a page comes from the facts. Without any engine, the error is the same as without compiled selections.
func TestHotPagesWithoutEnginesAreTheSchemasErrors(t *testing.T) {
	s := newExecutorPair(t)
	s.createReadersAndPosts()
	s.ensureUserID("reader")
	s.RedisServer.Kill()
	query := `{ me: viewer { feed: homeFeed(first: 5) { edges { cursor node { body } } end building } } }`
	if got := s.askBoth(t, "reader", query, nil); len(got.errors) > 0 || !strings.Contains(got.data, `"body":"body"`) {
		t.Errorf("from the facts: %s %s", got.data, got.errors)
	}
	s.Must(s.DB.Close())
	if got := s.askBoth(t, "reader", query, nil); len(got.errors) != 1 || !strings.Contains(got.errors[0], `"UNAVAILABLE"`) {
		t.Errorf("without engines: %s %s", got.data, got.errors)
	}
}

// If the read of a part panics, read returns an error, and so the schema answers. A panic in a goroutine of its own would end the
// process.
func TestAPanicOfAPartIsAnError(t *testing.T) {
	faulty := &hotPlanPart{read: func(context.Context, *Resolver, *graph.Viewer, map[string]any, *hotPartValue) error {
		panic("injected")
	}}
	calm := &hotPlanPart{}
	for _, parts := range [][]*hotPlanPart{{faulty}, {calm, faulty}, {faulty, faulty, calm}} {
		if _, err := (&hotPlan{parts: parts}).read(t.Context(), &Resolver{}, &graph.Viewer{}, nil); err == nil || !strings.Contains(err.Error(), "injected") {
			t.Errorf("%d parts: %v", len(parts), err)
		}
	}
}
