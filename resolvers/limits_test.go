package resolvers

import (
	"context"
	"testing"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2"

	"tidings/graph"
	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/ratelimit"
)

// parseOperation returns an operation on the real schema, as the package transport hands it to Limits.
func parseOperation(t *testing.T, text string, variables map[string]any) *graphql.OperationContext {
	t.Helper()
	schema := graph.NewExecutableSchema(graph.Config{}).Schema()
	document, faults := gqlparser.LoadQueryWithRules(schema, text, nil)
	if faults != nil {
		t.Fatal(faults)
	}
	return &graphql.OperationContext{Doc: document, Operation: document.Operations[0], Variables: variables}
}

// viewerContext returns a context with a viewer who has the scope viewer and these scopes. Without a key and scopes it has no token.
func viewerContext(key string, scopes ...services.Scope) context.Context {
	if key == "" && len(scopes) == 0 {
		return context.Background()
	}
	return services.WithViewer(context.Background(), services.Viewer{Key: key, Scopes: append(scopes, services.ScopeViewer)})
}

// countGrantedOperations returns how often an operation of a cost is let through until it is refused, at most 100.
func countGrantedOperations(l Limits, ctx context.Context, operation *graphql.OperationContext, cost int) int {
	for n := range 100 {
		if l.ChargeOperation(ctx, "192.0.2.1", operation, cost) != nil {
			return n
		}
	}
	return 100
}

func TestOperationsAreChargedToTheirBudgets(t *testing.T) {
	limits := ratelimit.Limits{
		ratelimit.Reads: 100, ratelimit.Writes: 20, ratelimit.Follows: 6, ratelimit.Conversations: 4,
		ratelimit.HostReads: 300, ratelimit.HostWrites: 40, ratelimit.Admin: 3,
	}
	const like = `likePost(input: {postId: "post:01"}) { post { id } }`
	const follow = `follow(input: {userId: "user:bob"}) { user { id } }`
	events := map[string]any{"events": []any{map[string]any{}, map[string]any{}, map[string]any{}, map[string]any{}}}
	for name, test := range map[string]struct {
		ctx       context.Context
		text      string
		variables map[string]any
		cost      int
		want      int // how many operations are let through
	}{
		"a query by its cost":                {viewerContext("alice"), `{ viewer { badges { version } } }`, nil, 10, 10},
		"a subscription by its cost":         {viewerContext("alice"), `subscription { badgesChanged { version } }`, nil, 20, 5},
		"a query without a token":            {viewerContext(""), `{ __typename }`, nil, 50, 2},
		"a mutation by its fields":           {viewerContext("alice"), `mutation { a: ` + like + ` b: ` + like + ` }`, nil, 1000, 10},
		"a field of a fragment":              {viewerContext("alice"), `mutation { ...F } fragment F on Mutation { ` + like + ` }`, nil, 1, 20},
		"a follow":                           {viewerContext("alice"), `mutation { ` + follow + ` }`, nil, 1, 6},
		"two follows":                        {viewerContext("alice"), `mutation { a: ` + follow + ` b: ` + follow + ` }`, nil, 1, 3},
		"follow and unfollow share":          {viewerContext("alice"), `mutation { ` + follow + ` unfollow(input: {userId: "user:bob"}) { user { id } } }`, nil, 1, 3},
		"a new conversation":                 {viewerContext("alice"), `mutation { createConversation(input: {kind: GROUP, memberIds: []}) { conversation { id } } }`, nil, 1, 4},
		"the host's follows are writes":      {viewerContext("", services.ScopeIngest), `mutation { ` + follow + ` }`, nil, 1, 40},
		"the host acts for somebody":         {viewerContext("alice", services.ScopeIngest), `mutation { ` + follow + ` }`, nil, 1, 40},
		"events of an ingest":                {viewerContext("", services.ScopeIngest), `mutation($events: [IngestEvent!]!) { ingest(events: $events) { results { id } } }`, events, 1, 10},
		"a query of the host":                {viewerContext("", services.ScopeIngest), `{ __typename }`, nil, 30, 10},
		"what an admin asks":                 {viewerContext("root", services.ScopeAdmin), `{ __typename }`, nil, 1, 3},
		"what two admins ask is one account": {viewerContext("other", services.ScopeAdmin), `{ __typename }`, nil, 1, 3},
	} {
		l := Limits{ratelimit.New(ratelimit.Config{Limits: limits})}
		if got := countGrantedOperations(l, test.ctx, parseOperation(t, test.text, test.variables), test.cost); got != test.want {
			t.Errorf("%s: %d are let through: want %d", name, got, test.want)
		}
	}
}

// For each field of a mutation, a part of the cost is free. The rest of the cost of its payload is charged like a query, so that no
// client reads by mutations.
func TestAMutationIsChargedForItsPayload(t *testing.T) {
	const seen = `markLiveBoardSeen(input: {}) { viewer { homeFeed { edges { node { id } } } } }`
	for name, test := range map[string]struct {
		ctx  context.Context
		text string
		cost int
		want int // how many operations are let through
	}{
		"a payload":                        {viewerContext("alice"), `mutation { ` + seen + ` }`, 1000 + 2500, 4},
		"a small one":                      {viewerContext("alice"), `mutation { ` + seen + ` }`, 1000, 50},
		"the payloads of two fields":       {viewerContext("alice"), `mutation { a: ` + seen + ` b: ` + seen + ` }`, 2000 + 5000, 2},
		"more than the budget of the user": {viewerContext("alice"), `mutation { ` + seen + ` }`, 30_000, 1},
		"without a token":                  {viewerContext(""), `mutation { ` + seen + ` }`, 1000 + 5000, 2},
		"an operator":                      {viewerContext("root", services.ScopeAdmin), `mutation { ` + seen + ` }`, 1000 + 5000, 2},
		"the host":                         {viewerContext("alice", services.ScopeIngest), `mutation { ` + seen + ` }`, 1000 + 5000, 6},
	} {
		l := Limits{ratelimit.New(ratelimit.Config{Clock: &fanouttest.Clock{}, Limits: ratelimit.Limits{
			ratelimit.Reads: 10_000, ratelimit.Writes: 50, ratelimit.HostReads: 30_000, ratelimit.HostWrites: 60,
		}})}
		mutation := parseOperation(t, test.text, nil)
		if got := countGrantedOperations(l, test.ctx, mutation, test.cost); got != test.want {
			t.Errorf("%s: %d are let through: want %d", name, got, test.want)
		}
	}
	// A mutation that is refused because of its payload takes nothing from the budget of writes.
	l := Limits{ratelimit.New(ratelimit.Config{Clock: &fanouttest.Clock{}, Limits: ratelimit.Limits{ratelimit.Reads: 10_000, ratelimit.Writes: 50}})}
	mutation := parseOperation(t, `mutation { `+seen+` }`, nil)
	if got := countGrantedOperations(l, viewerContext("alice"), mutation, 11_000); got != 1 {
		t.Errorf("%d dear payloads are let through: want 1", got)
	}
	if got := countGrantedOperations(l, viewerContext("alice"), mutation, 1000); got != 49 {
		t.Errorf("%d cheap payloads are let through after a dear one: want 49", got)
	}
}

// An event is charged to the budget of events. Whatever it costs, the budget for queries stays as it is. An operator is charged for
// events only as a user.
func TestAnEventTakesNothingFromTheQueries(t *testing.T) {
	query := parseOperation(t, `{ __typename }`, nil)
	for name, test := range map[string]struct {
		ctx  context.Context
		cost int
		want int // how many events are let through
	}{
		"a large event":   {viewerContext("alice"), 250, 4},
		"a small one":     {viewerContext("alice"), 20, 50},
		"without a token": {viewerContext(""), 500, 2},
		"an operator":     {viewerContext("root", services.ScopeAdmin), 250, 4},
		"the host":        {viewerContext("", services.ScopeIngest), 250, 8},
	} {
		l := Limits{ratelimit.New(ratelimit.Config{Clock: &fanouttest.Clock{}, Limits: ratelimit.Limits{
			ratelimit.Events: 1000, ratelimit.HostEvents: 2000, ratelimit.Admin: 1, ratelimit.Reads: 300, ratelimit.HostReads: 300,
		}})}
		got := 0
		for got < 100 && l.ChargeEvent(test.ctx, "192.0.2.1", test.cost) == nil {
			got++
		}
		if got != test.want {
			t.Errorf("%s: %d are let through: want %d", name, got, test.want)
		}
		if err := l.ChargeOperation(test.ctx, "192.0.2.1", query, 300); err != nil {
			t.Errorf("%s: the events left nothing for a query: %v", name, err)
		}
	}
}

func TestRefusedMutationSpendsNothing(t *testing.T) {
	const like, follow = `likePost(input: {postId: "post:01"}) { post { id } }`, `follow(input: {userId: "user:bob"}) { user { id } }`
	l := Limits{ratelimit.New(ratelimit.Config{
		Limits: ratelimit.Limits{ratelimit.Writes: 20, ratelimit.Follows: 6}, Clock: &fanouttest.Clock{},
	})}
	alice, one := viewerContext("alice"), parseOperation(t, `mutation { `+follow+` }`, nil)
	for range 4 {
		if err := l.ChargeOperation(alice, "192.0.2.1", one, 1); err != nil {
			t.Fatal(err)
		}
	}
	three := parseOperation(t, `mutation { a: `+follow+` b: `+follow+` c: `+follow+` }`, nil)
	if got := countGrantedOperations(l, alice, three, 1); got != 0 {
		t.Fatalf("3 follows where 2 are left: %d are let through", got)
	}
	if got := countGrantedOperations(l, alice, one, 1); got != 2 {
		t.Errorf("%d follows are left after a document of 3 was refused: want 2", got)
	}
	if got := countGrantedOperations(l, alice, parseOperation(t, `mutation { `+like+` }`, nil), 1); got != 14 {
		t.Errorf("%d likes are left after 6 follows and refused ones: want 14", got)
	}
}

func TestOneViewerDoesNotSpendAnothersBudget(t *testing.T) {
	l := Limits{ratelimit.New(ratelimit.Config{Limits: ratelimit.Limits{ratelimit.Reads: 10, ratelimit.Sockets: 1}})}
	query := parseOperation(t, `{ __typename }`, nil)
	countGrantedOperations(l, viewerContext("alice"), query, 5)
	countGrantedOperations(l, viewerContext(""), query, 5)
	if got := countGrantedOperations(l, viewerContext("bob"), query, 5); got != 2 {
		t.Errorf("bob is let through %d times after alice: want 2", got)
	}
	// A user's key may look like an address. Such a user does not pay for the address.
	if got := countGrantedOperations(l, viewerContext("192.0.2.1"), query, 5); got != 2 {
		t.Errorf("a user called 192.0.2.1 is let through %d times: want 2", got)
	}
	alice, host := services.Viewer{Key: "alice"}, services.Viewer{Key: "alice", Scopes: []services.Scope{services.ScopeIngest}}
	if l.ChargeSocket(alice) != nil || l.ChargeSocket(alice) == nil || l.ChargeSocket(host) != nil || l.ChargeSocket(host) != nil {
		t.Error("want 1 socket of alice, and any number of the host's")
	}
}
