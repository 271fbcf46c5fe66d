package graph

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/executor"
	"pgregory.net/rapid"

	"tidings/services"
)

// faultyResolvers has resolvers of a small world. Some of them fail: whether and how follows from the seed, the field and the
// object, so that two executors meet the same faults.
type faultyResolvers struct {
	ResolverRoot
	seed           uint64 // decides, with the field and the object, which calls fail
	failurePercent uint64 // of a hundred calls, how many fail

	onLikeCount func() // is called by each LikeCount; nil for nothing

	mu            sync.Mutex // guards recordedCalls
	recordedCalls []string   // the calls of likePost and viewerCanEdit, with their objects, in their order
}

// failureOf is what becomes of one call: nil, an error or a panic.
func (f *faultyResolvers) failureOf(field, object string) error {
	hash := fnv.New64a()
	fmt.Fprint(hash, f.seed, field, object)
	switch draw := hash.Sum64() % 100; {
	case draw >= f.failurePercent:
		return nil
	case draw%2 == 0:
		return errors.New(field + " of " + object)
	}
	panic(field + " of " + object)
}

func (f *faultyResolvers) recordCall(event string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.recordedCalls = append(f.recordedCalls, event)
}

func (f *faultyResolvers) Query() QueryResolver       { return faultyQuery{faultyResolvers: f} }
func (f *faultyResolvers) Mutation() MutationResolver { return faultyMutation{faultyResolvers: f} }
func (f *faultyResolvers) Viewer() ViewerResolver     { return faultyViewer{faultyResolvers: f} }
func (f *faultyResolvers) Post() PostResolver         { return faultyPost{faultyResolvers: f} }
func (f *faultyResolvers) User() UserResolver         { return faultyUser{faultyResolvers: f} }
func (f *faultyResolvers) PostConnection() PostConnectionResolver {
	return faultyConnection{faultyResolvers: f}
}

// faultyQuery has the resolver of the viewer, which may fail.
type faultyQuery struct {
	QueryResolver
	*faultyResolvers
}

func (f faultyQuery) Viewer(context.Context) (*Viewer, error) {
	return NewViewer(1, "ann"), f.failureOf("viewer", "")
}

// faultyViewer has the resolvers of user and homeFeed, which may fail.
type faultyViewer struct {
	ViewerResolver
	*faultyResolvers
}

func (f faultyViewer) User(context.Context, *Viewer) (*User, error) {
	if f.seed%3 == 0 {
		return nil, f.failureOf("user", "")
	}
	return &User{ID: "user:ann", Key: "ann"}, f.failureOf("user", "")
}

// HomeFeed has three posts; some have a name with characters that JSON escapes.
func (f faultyViewer) HomeFeed(_ context.Context, _ *Viewer, first *int, _ *string, _ *string, _ *string, _ *int, _ *string) (*PostConnection, error) {
	page := &PostConnection{PageInfo: PageInfo{HasNextPage: true}}
	for i := range 3 {
		name := fmt.Sprint("\"<ä>\n", i)
		page.Edges = append(page.Edges, PostEdge{Cursor: fmt.Sprint("c", i), Node: Post{
			ID: fmt.Sprint("post:", i), Kind: services.PostKinds[0], Author: User{ID: fmt.Sprint("user:", i), Key: "k", Name: &name}, Body: name, PublishedAt: time.Unix(int64(i)+1, 0),
		}})
	}
	if first != nil {
		page.Edges = page.Edges[:min(max(*first, 0), len(page.Edges))]
		page.LastID = &page.Edges[0].Node.ID // panics for a page without posts
	}
	return page, f.failureOf("homeFeed", "")
}

// faultyPost has the resolvers of viewerCanEdit, likeCount and parent, which may fail.
type faultyPost struct {
	PostResolver
	*faultyResolvers
}

func (f faultyPost) ViewerCanEdit(_ context.Context, post *Post) (bool, error) {
	f.recordCall("viewerCanEdit " + post.ID)
	return true, f.failureOf("viewerCanEdit", post.ID)
}

func (f faultyPost) LikeCount(_ context.Context, post *Post) (*int, error) {
	if f.onLikeCount != nil {
		f.onLikeCount()
	}
	count := len(post.ID)
	if post.ID == "post:1" {
		return nil, f.failureOf("likeCount", post.ID)
	}
	return &count, f.failureOf("likeCount", post.ID)
}

// Parent returns a post whose ID has one p more. A post whose ID has three has no parent.
func (f faultyPost) Parent(_ context.Context, post *Post) (*Post, error) {
	if strings.Count(post.ID, "p") > 2 {
		return nil, f.failureOf("parent", post.ID)
	}
	return &Post{ID: "p" + post.ID, PublishedAt: time.Unix(1, 0)}, f.failureOf("parent", post.ID)
}

// faultyUser has the resolver of viewerFollows, which may fail.
type faultyUser struct {
	UserResolver
	*faultyResolvers
}

func (f faultyUser) ViewerFollows(_ context.Context, user *User) (*bool, error) {
	follows := user.ID == "user:1"
	return &follows, f.failureOf("viewerFollows", user.ID)
}

// faultyConnection has the resolver of the nodes of a page.
type faultyConnection struct {
	PostConnectionResolver
	*faultyResolvers
}

// Nodes never fails: the nodes of a compiled page are those of its edges, without a call.
func (f faultyConnection) Nodes(_ context.Context, page *PostConnection) (nodes []Post, err error) {
	for _, edge := range page.Edges {
		nodes = append(nodes, edge.Node)
	}
	return nodes, nil
}

// faultyMutation has the resolver of likePost, which may fail.
type faultyMutation struct {
	MutationResolver
	*faultyResolvers
}

// LikePost returns null without an error for post:null. Its result for any other post may be an error.
func (f faultyMutation) LikePost(_ context.Context, input LikePostInput) (*LikePostPayload, error) {
	f.recordCall("likePost " + input.PostID)
	if input.PostID == "post:null" {
		return nil, nil
	}
	return &LikePostPayload{Changed: true, Post: &Post{ID: input.PostID, PublishedAt: time.Unix(1, 0)}}, f.failureOf("likePost", input.PostID)
}

// executeAsText executes an operation with the schema that newSchema returns, and returns the data and the sorted errors as text.
func executeAsText(t interface{ Fatalf(string, ...any) }, newSchema func(Config) graphql.ExecutableSchema, f *faultyResolvers, text string, variables map[string]any) string {
	exec := executor.New(newSchema(Config{Resolvers: f}))
	exec.SetRecoverFunc(func(_ context.Context, fault any) error { return fmt.Errorf("panic: %v", fault) })
	ctx := graphql.StartOperationTrace(context.Background())
	operation, faults := exec.CreateOperationContext(ctx, &graphql.RawParams{Query: text, Variables: variables})
	if faults != nil {
		t.Fatalf("%s: %v", text, faults)
	}
	handler, ctx := exec.DispatchOperation(ctx, operation)
	response := handler(ctx)
	if handler(ctx) != nil {
		t.Fatalf("%s was answered twice", text)
	}
	lines := []string{}
	for _, fault := range response.Errors {
		line, err := json.Marshal(fault)
		if err != nil {
			t.Fatalf("%v", err)
		}
		lines = append(lines, string(line))
	}
	slices.Sort(lines)
	return string(response.Data) + "\n" + strings.Join(lines, "\n")
}

// postSelections are selections of a post. Most of them have fields that can fail, of different kinds.
var postSelections = []string{
	"id body", "id likeCount viewerCanEdit", "viewerCanEdit", "likeCount c: likeCount", "author { id viewerFollows }", "parent { id parent { id viewerCanEdit parent { id } } }",
	"... on Post { kind publishedAt author { ...U } } ... on Node { __typename }", "... on NotificationCause { ... on User { key } ... on Post { editedAt } ...O }",
}

// Whatever fails, and however, a compiled operation has the data and the errors of the executor, with their paths.
func TestCompiledOperationsFailAsTheExecutorDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		post := func() string {
			var fields []string
			for i, one := range rapid.SliceOfNDistinct(rapid.IntRange(0, len(postSelections)-1), 1, 4, rapid.ID[int]).Draw(t, "post") {
				fields = append(fields, fmt.Sprintf("f%d: parent { %s }", i, postSelections[one]))
			}
			return strings.Join(append(fields, postSelections[rapid.IntRange(0, len(postSelections)-1).Draw(t, "own")]), " ")
		}
		page := func() string {
			return fmt.Sprintf("homeFeed(first: $n) { edges { cursor node { %s } } pageInfo { hasNextPage startCursor } nodes { %s } lastId end building }", post(), post())
		}
		text := fmt.Sprintf("query($n: Int) { viewer { id user { id viewerFollows } %s other: %s } __typename }", page(), page())
		if rapid.Bool().Draw(t, "mutation") {
			text = fmt.Sprintf(`mutation($n: Int) { a: likePost(input: {postId: "post:a"}) { changed post { %s } badges { version } viewer { user { id } } } b: likePost(input: {postId: "post:null"}) { changed }
				c: likePost(input: {postId: "post:c"}) { post { %s } viewer { %s } } }`, post(), post(), page())
		}
		for spread, fragment := range map[string]string{"...U": "fragment U on User { name avatarUrl viewerFollows }", "...O": "fragment O on User { name }"} {
			if strings.Contains(text, spread) {
				text += " " + fragment
			}
		}
		f := &faultyResolvers{seed: rapid.Uint64().Draw(t, "seed"), failurePercent: rapid.SampledFrom([]uint64{0, 5, 20, 60, 100}).Draw(t, "share")}
		variables := rapid.SampledFrom([]map[string]any{nil, {"n": nil}, {"n": json.Number("0")}, {"n": json.Number("2")}}).Draw(t, "variables")
		got := executeAsText(t, NewSchema, f, text, variables)
		if want := executeAsText(t, NewExecutableSchema, f, text, variables); got != want {
			t.Fatalf("%s\ncompiled %s\nexecuted %s", text, got, want)
		}
	})
}

// The fields of a mutation run one after the other, each with all that is below it.
func TestCompiledMutationsRunInTheirOrder(t *testing.T) {
	f := &faultyResolvers{}
	var text strings.Builder
	var want []string
	for i := range 20 {
		fmt.Fprintf(&text, ` m%d: likePost(input: {postId: "post:%d"}) { post { viewerCanEdit } }`, i, i)
		want = append(want, fmt.Sprint("likePost post:", i), fmt.Sprint("viewerCanEdit post:", i))
	}
	if executeAsText(t, NewSchema, f, "mutation {"+text.String()+" }", nil); !slices.Equal(f.recordedCalls, want) {
		t.Errorf("the calls were %v", f.recordedCalls)
	}
}

// All calls of a list, of an object and of the objects beside it begin before any of them is waited for: a loader reads for all of
// them at once.
func TestCompiledCallsBeginTogether(t *testing.T) {
	for text, calls := range map[string]int{
		`{ viewer { homeFeed { edges { node { likeCount } } } } }`:                                                              3,
		`{ viewer { homeFeed { nodes { likeCount } } } }`:                                                                       3,
		`{ viewer { homeFeed { nodes { parent { likeCount } likeCount } edges { node { likeCount } } } } }`:                     9,
		`{ viewer { a: homeFeed { nodes { likeCount } } b: homeFeed { nodes { likeCount } } } }`:                                6,
		`{ a: viewer { homeFeed(first: 1) { nodes { likeCount } } } b: viewer { homeFeed(first: 1) { nodes { likeCount } } } }`: 2,
		`mutation { likePost(input: {postId: "post:a"}) { post { a: likeCount b: likeCount parent { likeCount } } } }`:          3,
	} {
		met := make(chan struct{})
		late, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		var here sync.Mutex
		left := calls
		f := &faultyResolvers{onLikeCount: func() {
			here.Lock()
			if left--; left == 0 {
				close(met)
			}
			here.Unlock()
			select {
			case <-met:
			case <-late.Done():
				t.Errorf("%s: a call was waited for before the others had begun", text)
			}
		}}
		executeAsText(t, NewSchema, f, text, nil)
		cancel()
		if left != 0 {
			t.Errorf("%s: %d calls are missing", text, left)
		}
	}
}

// A selection that has a directive, or one key twice, is left to the executor, and the answer is the same.
func TestSelectionsThatAreNotCompiled(t *testing.T) {
	for text, compiled := range map[string]bool{
		`query($yes: Boolean = true) { viewer { id user @skip(if: $yes) { id } } }`:                      false,
		`query($yes: Boolean = true) { viewer { ... @include(if: $yes) { id } } }`:                       false,
		`query($yes: Boolean = true) { viewer { ...V @skip(if: $yes) id } } fragment V on Viewer { id }`: false,
		`{ viewer { id id } }`:                                         false,
		`{ viewer { user { id } user { key } } }`:                      false,
		`{ viewer { id } viewer { user { id } } }`:                     false,
		`{ __schema { queryType { name } } }`:                          false,
		`{ viewer { i: id id user { id } } }`:                          true,
		`mutation { likePost(input: {postId: "post:a"}) { changed } }`: true,
	} {
		f := &faultyResolvers{}
		exec := executor.New(NewSchema(Config{Resolvers: f}))
		operation, faults := exec.CreateOperationContext(graphql.StartOperationTrace(t.Context()), &graphql.RawParams{Query: text})
		if faults != nil {
			t.Fatal(faults)
		}
		if got := compileOperation(operation.Operation) != nil; got != compiled {
			t.Errorf("%s: compiled is %v", text, got)
		}
		if got, want := executeAsText(t, NewSchema, f, text, nil), executeAsText(t, NewExecutableSchema, f, text, nil); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", text, got, want)
		}
	}
}
