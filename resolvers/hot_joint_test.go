package resolvers

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vektah/gqlparser/v2/validator"

	"tidings/graph"
	"tidings/services"
)

func TestWhichOperationsAreAnsweredJointly(t *testing.T) {
	h := WithHotOperations(graph.NewExecutableSchema(graph.Config{}), &Resolver{}).(*hotOperationSchema)
	for query, joint := range map[string]bool{
		`{ viewer { badges { version } } }`:                         true,
		`{ me: viewer { __typename mine: badges { version } id } }`: true,
		`{ __typename }`:                     false,
		`{ viewer { id } }`:                  false,
		`{ viewer { homeFeed { lastId } } }`: true,
		`{ viewer { badges { version } homeFeed(first: 50, after: null) { lastId } liveBoard(first: 1) { end } } }`: true,
		`{ viewer { homeFeed(first: 51) { lastId } } }`:                                                             false,
		`{ viewer { homeFeed(first: 0) { lastId } } }`:                                                              false,
		`{ viewer { homeFeed(after: "x") { lastId } } }`:                                                            false,
		`query($n: Int) { viewer { homeFeed(first: $n) { lastId } } }`:                                              true,
		`{ viewer { homeFeed(last: 3) { lastId } } }`:                                                               false,
		`{ viewer { homeFeed { nodes { likeCount } } } }`:                                                           false,
		`{ viewer { homeFeed { nodes { ref } } } }`:                                                                 false,
		`{ viewer { homeFeed { nodes { author { viewerFollows } } } } }`:                                            false,
		`{ viewer { liveBoard(sessionId: "x") { end } } }`:                                                          false,
		`{ viewer { liveBoard { nodes { viewerHasReminder } } } }`:                                                  false,
		`{ viewer { liveBoard { nodes { url } } } }`:                                                                false,
		`{ viewer { liveBoard { nodes { host { viewerFollows } } } } }`:                                             false,
		`{ viewer { badges { version } liveBoard(lastId: "x") { end } } }`:                                          false,
		`{ viewer { user { key } } }`:                                                                               false,
		`subscription { badgesChanged { version } }`:                                                                false,
		`mutation { markHomeFeedSeen(input: {}) { badges { version } } }`:                                           false,
	} {
		if got := h.Joint(parseQuery(t, query), nil) != nil; got != joint {
			t.Errorf("%s: jointly %v", query, got)
		}
	}
}

// The values of the variables decide whether a page begins at the top, and how large it is.
func TestWhichVariablesAreAnsweredJointly(t *testing.T) {
	h := WithHotOperations(graph.NewExecutableSchema(graph.Config{}), &Resolver{}).(*hotOperationSchema)
	query := parseQuery(t, `query($n: Int = 7, $after: String) { viewer { badges { version } homeFeed(first: $n, after: $after) { lastId } liveBoard(after: $after) { end } } }`)
	for _, one := range []struct {
		variables map[string]any
		sizes     []int // the wanted sizes of the pages of the parts; nil if the query is not answered jointly
	}{
		{map[string]any{"n": json.Number("20")}, []int{0, 20, defaultFirst}},
		{map[string]any{"n": json.Number("50"), "after": nil}, []int{0, 50, defaultFirst}},
		{map[string]any{"n": nil}, []int{0, defaultFirst, defaultFirst}},
		{map[string]any{}, []int{0, 7, defaultFirst}},
		{map[string]any{"n": json.Number("51")}, nil},
		{map[string]any{"n": json.Number("0")}, nil},
		{map[string]any{"n": json.Number("3"), "after": "x"}, nil},
	} {
		variables, err := validator.VariableValues(newFullSchema(), query, one.variables)
		if err != nil {
			t.Fatal(err)
		}
		joint, _ := h.Joint(query, variables).(*jointPlan)
		switch {
		case (joint != nil) != (one.sizes != nil):
			t.Errorf("%v: jointly %v", one.variables, joint != nil)
		case joint != nil && !slices.Equal(joint.pageSizes, one.sizes):
			t.Errorf("%v: pages of %v, want %v", one.variables, joint.pageSizes, one.sizes)
		}
	}
}

// When several requests are answered jointly, each gets the answer that HotAnswer gives to its viewer. Requests for which not
// everything is ready are left to HotAnswer.
func TestJointAnswersAreThoseOfHotAnswer(t *testing.T) {
	a := newAPI(t)
	a.World.RunAllJobs(a.World.Fanout)
	h := WithHotOperations(graph.NewSchema(graph.Config{Resolvers: a.resolver}), a.resolver).(*hotOperationSchema)
	operations := []string{`{ me: viewer { id badges { id version total { value } } } }`, `{ viewer { badges { homeFeed { display precision } dots { name } } __typename } }`}
	bearer := func(key string, scopes ...services.Scope) context.Context {
		return services.WithViewer(t.Context(), services.Viewer{Key: key, Scopes: scopes})
	}
	alice, bob, carol := bearer("alice", services.ScopeViewer), bearer("bob", services.ScopeViewer), bearer("carol", services.ScopeViewer)
	for name, ctx := range map[string]context.Context{"alice": alice, "bob": bob} { // carol has no document
		if _, ok := h.HotAnswer(parseQuery(t, operations[0]), nil)(ctx, nil); !ok {
			t.Fatalf("%s is not answered", name)
		}
	}
	var requests []jointRequest
	var hotAnswers []func(context.Context, []byte) ([]byte, bool)
	add := func(ctx context.Context, text string) {
		operation := parseQuery(t, text)
		requests = append(requests, jointRequest{Context: ctx, Operation: h.Joint(operation, nil), Text: []byte("before ")})
		hotAnswers = append(hotAnswers, h.HotAnswer(operation, nil))
	}
	for _, text := range operations {
		for _, ctx := range []context.Context{alice, carol, bob, alice} {
			add(ctx, text)
		}
	}
	answered := len(requests)
	for _, ctx := range []context.Context{
		t.Context(), bearer("alice"), bearer("", services.ScopeViewer), bearer("nobody", services.ScopeViewer), services.Observe(alice),
	} {
		add(ctx, operations[0])
	}
	h.AnswerJointly(t.Context(), requests)
	for i, one := range requests {
		if one.Context == carol || i >= answered {
			if one.OK || string(one.Text) != "before " {
				t.Errorf("request %d: %v, %s", i, one.OK, one.Text)
			}
			continue
		}
		want, _ := hotAnswers[i](one.Context, []byte("before "))
		if !one.OK || string(one.Text) != string(want) {
			t.Errorf("request %d: %v, %s; want %s", i, one.OK, one.Text, want)
		}
	}
	h.AnswerJointly(t.Context(), nil)
}

// Joint answers with pages are those of HotAnswer: with one page, with several, and with pages and badges, for readers of every
// kind of feed.
func TestJointPagesAreThoseOfHotAnswer(t *testing.T) {
	s := newExecutorPair(t)
	s.createReadersAndPosts()
	for _, host := range []string{"named", "plain", "busy"} {
		s.scheduleShow(host, time.Hour)
	}
	s.Clock.Advance(2 * time.Hour) // the shows are late
	s.RunAllJobs(s.Fanout)
	_, err := s.Caches.Changelog.RunOnce(t.Context())
	s.Must(err)
	const feed = `homeFeed(first: 3) { edges { cursor node { id body publishedAt author { id key name avatarUrl } } } pageInfo { hasNextPage endCursor } lastId end building }`
	const board = `liveBoard(first: 1) { edges { status plannedAt node { id title host { key } late } } pageInfo { hasNextPage } newSession end }` // without sessionId: each answer has a new session
	h := WithHotOperations(graph.NewSchema(graph.Config{Resolvers: s.resolver}), s.resolver).(*hotOperationSchema)
	var requests []jointRequest
	var want []string
	for _, text := range []string{`{ viewer { ` + feed + ` } }`, `{ viewer { ` + board + ` } }`, `{ viewer { id mine: ` + feed + ` badges { version total { value } } ` + board + ` } }`, `{ viewer { badges { version } } }`} {
		for _, key := range []string{"reader", "full", "empty"} {
			ctx := services.WithViewer(t.Context(), services.Viewer{Key: key, Scopes: []services.Scope{services.ScopeViewer}})
			operation := parseQuery(t, text)
			answer, ok := h.HotAnswer(operation, nil)(ctx, nil) // it also prepares the data that a joint read needs
			if !ok {
				t.Fatalf("%s is not answered: %s", key, text)
			}
			requests, want = append(requests, jointRequest{Context: ctx, Operation: h.Joint(operation, nil)}), append(want, string(answer))
		}
	}
	if !strings.Contains(want[3], `"late":true`) {
		t.Errorf("no show is late: %s", want[3])
	}
	h.AnswerJointly(t.Context(), requests)
	for i, one := range requests {
		left := i == 4 || i == 7 // this reader's board has one show, and only live.Service.Board finds out whether replays follow
		if one.OK == left || one.OK && string(one.Text) != want[i] || left && (len(one.Text) > 0 || one.Else != nil) {
			t.Errorf("request %d: %v, %s\nwant %s", i, one.OK, one.Text, want[i])
		}
	}
}

// badgesWithoutRedis stands for the Badges of a node whose Redis does not answer.
type badgesWithoutRedis struct{ BadgeService }

// ReadWithoutSQL fails for every user.
func (badgesWithoutRedis) ReadWithoutSQL(_ context.Context, users []services.UserID) ([]*services.Badges, error) {
	return make([]*services.Badges, len(users)), services.Errorf(services.Unavailable, "Redis is away")
}

// If Redis does not answer, a request for badges alone gets them from SQL, so that it does not wait for Redis a second time. A request
// with a page is left to HotAnswer.
func TestJointAnswersWithoutRedis(t *testing.T) {
	a := newAPI(t)
	a.World.RunAllJobs(a.World.Fanout)
	a.resolver.Badge = badgesWithoutRedis{a.resolver.Badge}
	h := WithHotOperations(graph.NewSchema(graph.Config{Resolvers: a.resolver}), a.resolver).(*hotOperationSchema)
	ctx := services.WithViewer(t.Context(), services.Viewer{Key: "alice", Scopes: []services.Scope{services.ScopeViewer}})
	alone, beside := parseQuery(t, `{ viewer { id badges { total { value } } } }`), parseQuery(t, `{ viewer { badges { total { value } } homeFeed { lastId } } }`)
	want, ok := h.HotAnswer(alone, nil)(ctx, nil)
	if !ok {
		t.Fatal("alice is not answered")
	}
	requests := []jointRequest{{Context: ctx, Operation: h.Joint(alone, nil)}, {Context: ctx, Operation: h.Joint(beside, nil)}}
	h.AnswerJointly(t.Context(), requests)
	if requests[0].OK || requests[0].Else == nil || requests[1].OK || requests[1].Else != nil {
		t.Fatalf("%+v", requests)
	}
	if got, ok := requests[0].Else(ctx, []byte("before ")); !ok || string(got) != "before "+string(want) {
		t.Errorf("%s, %v; want %s", got, ok, want)
	}
}
