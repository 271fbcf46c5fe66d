package node_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"

	"tidings/graph"
	"tidings/resolvers"
	"tidings/services"
	"tidings/transport"
)

// priceRecorder records the cost of an operation, and refuses it.
type priceRecorder struct {
	transport.Limits
	price int // the cost of the last operation
}

func (*priceRecorder) ChargeAddress(string) error { return nil }

func (*priceRecorder) ChargeSocket(services.Viewer) error { return nil }

func (r *priceRecorder) ChargeOperation(_ context.Context, _ string, _ *graphql.OperationContext, cost int) error {
	r.price = cost
	return services.Errorf(services.RateLimited, "only the cost is of interest")
}

// newPriceFunc returns a function that returns the cost of an operation on the real schema.
func newPriceFunc(t *testing.T) func(query string, variables map[string]any) int {
	t.Helper()
	identity, err := transport.NewIdentity(t.Context(), transport.IdentityConfig{Development: true})
	if err != nil {
		t.Fatal(err)
	}
	recorder := &priceRecorder{}
	handler := transport.Handler(transport.Config{
		Schema: graph.NewExecutableSchema(graph.Config{}), Identity: identity, Limits: recorder,
		Sockets:         transport.NewSockets(transport.SocketConfig{Identity: identity, Limits: recorder}),
		RequestSettings: transport.RequestSettings{MaxQueryCost: 1 << 30}, FieldWeights: resolvers.CostWeights, MaxPageSizes: resolvers.MaxPageSizes, MaxListLengths: resolvers.ListLengths,
	})
	return func(query string, variables map[string]any) int {
		t.Helper()
		body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
		if err != nil {
			t.Fatal(err)
		}
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/graphql", strings.NewReader(string(body)))
		request.Header.Set("Content-Type", "application/json")
		if strings.Contains(query, "subscription ") {
			request.Header.Set("Accept", "text/event-stream")
		}
		request.Header.Set("Authorization", "Bearer dev:alice")
		recorder.price = 0
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request)
		if recorder.price == 0 {
			t.Fatalf("%s: %s", query, answer.Body)
		}
		return recorder.price
	}
}

// defaultMaxQueryCost is the most that one operation may cost by default.
const defaultMaxQueryCost = 30_000

// Operations with many reads cost more than the limit, and the same operation with few reads costs little.
func TestManyReadsAreRefused(t *testing.T) {
	price := newPriceFunc(t)
	ids := make([]string, 500)
	for i := range ids {
		ids[i] = fmt.Sprint("notification:", i)
	}
	digests := "{ viewer {"
	for i := range 30 {
		digests += fmt.Sprintf(` d%d: awayDigest(since: "2026-01-01T00:00:%02dZ") { since }`, i, i)
	}
	const causes = `mutation($ids: [ID!]) { markNotificationsRead(input: {ids: $ids}) { notifications { causes(first: 100) { __typename } } } }`
	for name, test := range map[string]struct {
		query     string
		variables map[string]any
	}{
		"causes of explained items":      {`{ viewer { badgeExplained { items { node { ... on Notification { causes(first: 40) { __typename } } } } } } }`, nil},
		"causes of marked notifications": {causes, map[string]any{"ids": ids}},
		"digests of many periods":        {digests + " } }", nil},
	} {
		if got := price(test.query, test.variables); got <= defaultMaxQueryCost {
			t.Errorf("%s: %d", name, got)
		}
	}
	if got := price(causes, map[string]any{"ids": ids[:1]}); got > 1000 {
		t.Errorf("the causes of one notification cost %d", got)
	}
}

// The operations that the program ships stay far below the limit.
func TestReadyMadeOperationsAreCheap(t *testing.T) {
	price := newPriceFunc(t)
	names, err := filepath.Glob("../../web/operations/*.graphql")
	if err != nil || len(names) < 50 {
		t.Fatalf("%d operations: %v", len(names), err)
	}
	times := regexp.MustCompile(`"(IN A|AN?) [A-Z ]+"`) // as "A MINUTE AGO", which the page replaces by a time
	for _, name := range names {
		query, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(query), "\nsubscription ") {
			continue // TestSubscriptionsOfAScreenAreCoveredByTheBudget prices them
		}
		var variables map[string]any
		if text, err := os.ReadFile(strings.TrimSuffix(name, "graphql") + "json"); err == nil {
			if err := json.Unmarshal(times.ReplaceAll(text, []byte(`"2026-01-31T09:30:00Z"`)), &variables); err != nil {
				t.Fatal(err)
			}
		}
		got := price(string(query), variables)
		t.Logf("%d: %s", got, filepath.Base(name))
		if got > defaultMaxQueryCost/4 {
			t.Errorf("%s costs %d", name, got)
		}
	}
}

// If no argument gives the length of a list of objects, the list has a greatest length. Other lists have none.
func TestEveryListWithoutASizeHasABound(t *testing.T) {
	schema := graph.NewExecutableSchema(graph.Config{}).Schema()
	// The types that are pages: the fields that return them have the argument first, which gives the lists in them their length.
	pages := map[string]bool{}
	for _, kind := range schema.Types {
		for _, field := range kind.Fields {
			if field.Arguments.ForName("first") != nil && field.Type.Elem == nil {
				pages[field.Type.Name()] = true
			}
		}
	}
	// These two are no pages: their subscriptions pass the argument first to the lists in them.
	for _, kind := range []string{"NotificationsChange", "ConversationsChange"} {
		delete(pages, kind)
	}
	want := map[string]bool{}
	for _, kind := range schema.Types {
		if kind.Kind != ast.Object && kind.Kind != ast.Interface || strings.HasPrefix(kind.Name, "__") || pages[kind.Name] || strings.HasSuffix(kind.Name, "Connection") {
			continue
		}
		for _, field := range kind.Fields {
			of := schema.Types[field.Type.Name()]
			sized := field.Arguments.ForName("first") != nil
			for _, argument := range field.Arguments {
				sized = sized || argument.Type.Elem != nil
			}
			if field.Type.Elem == nil || of == nil || !of.IsCompositeType() || sized {
				continue
			}
			name := kind.Name + "." + field.Name
			if want[name] = true; resolvers.ListLengths[name] == 0 {
				t.Errorf("%s has no bound", name)
			}
		}
	}
	for name := range resolvers.ListLengths {
		if !want[name] {
			t.Errorf("%s is not a list without a size", name)
		}
	}
	if len(want) < 25 {
		t.Errorf("only %d lists", len(want))
	}
}
