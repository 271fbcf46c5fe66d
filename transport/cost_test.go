package transport

import (
	"encoding/json"
	"testing"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
)

// costSDL is the schema of these tests.
const costSDL = `
type Query {
  viewer: Viewer!
  nodes(ids: [ID!]!): [Item]!
  plain: [Item!]!
  dear: Int!
}
type Mutation { mark(input: Mark!): Marked! }
input Mark { ids: [ID!] all: Boolean }
type Marked { marked: [Item!]! viewer: Viewer! }
type Subscription { changed(first: Int = 20): Change! }
type Change { things: ItemConnection! viewer: Viewer! }
type ItemConnection { edges: [Edge!]! nodes: [Item!]! }
type Viewer { items(first: Int = 20, after: String, last: Int): Items! pages(first: Int!): Items! long(first: Int): Items! name: String! }
type Items { edges: [Edge!]! pageInfo: Info! total: Int! }
type Edge { node: Item! cursor: String! }
type Info { more: Boolean! }
type Item { id: ID! tags: [String!]! parts: [Item!]! few: [Item!]! many: [Item!]! items(first: Int = 5): Items! }
`

// queryCost returns the cost of a query with its variables.
func queryCost(t *testing.T, query string, variables map[string]any) int {
	t.Helper()
	schema := gqlparser.MustLoadSchema(&ast.Source{Input: costSDL})
	doc, faults := gqlparser.LoadQueryWithRules(schema, query, nil)
	if faults != nil {
		t.Fatal(faults)
	}
	return costModel{
		weights: map[string]int{"Query.dear": 500, "Item.parts": 10}, maxPageSizes: map[string]int{"Viewer.long": 1000},
		maxListLengths: map[string]int{"Item.few": 3, "Item.many": 1000, "Marked.marked": 100},
	}.operation(doc.Operations[0]).forVariables(variables)
}

func TestCost(t *testing.T) {
	list := func(n int) []any { return make([]any, n) }
	for _, test := range []struct {
		name, query string
		variables   map[string]any
		want        int
	}{
		{"a leaf", `{ __typename }`, nil, 1},
		{"an object and a leaf", `{ viewer { name } }`, nil, 2 + 1},
		{"a field with a weight of its own", `{ dear }`, nil, 500},
		{"each alias", `{ a: dear b: dear c: dear }`, nil, 1500},
		{"a page of the default length", `{ viewer { items { edges { cursor } } } }`, nil, 2 + 2 + 20*(2+1)},
		{"a page of another", `{ viewer { items(first: 100) { edges { cursor } } } }`, nil, 2 + 2 + 100*(2+1)},
		{"what stands beside the list is there once, and each item of the page is read", `{ viewer { items(first: 100) { total pageInfo { more } } } }`, nil, 2 + 2 + 1 + 3 + 100},
		{"the same for a variable", `query($n: Int) { viewer { items(first: $n) { __typename } } }`, map[string]any{"n": 50}, 2 + 2 + 1 + 50},
		{"the same in a page", `{ viewer { items(first: 10) { edges { node { items(first: 7) { total } } } } } }`, nil, 2 + 2 + 10*(2+2+2+1+7)},
		{"a page of a subscription that it does not show", `subscription { changed(first: 100) { viewer { name } } }`, nil, 2 + 2 + 1 + 100},
		{"a page in a page", `{ viewer { items(first: 10) { edges { node { items(first: 7) { edges { cursor } } } } } } }`, nil, 2 + 2 + 10*(2+2+2+7*3)},
		{"a page as long as a variable says", `query($n: Int!) { viewer { pages(first: $n) { edges { cursor } } } }`, map[string]any{"n": json.Number("50")}, 2 + 2 + 50*3},
		{"the same in Go's words", `query($n: Int!) { viewer { pages(first: $n) { edges { cursor } } } }`, map[string]any{"n": int64(50)}, 2 + 2 + 50*3},
		{"a variable in a variable", `query($n: Int!, $m: Int!) { viewer { pages(first: $n) { edges { node { items(first: $m) { edges { cursor } } } } } } }`,
			map[string]any{"n": 3, "m": 4}, 2 + 2 + 3*(2+2+2+4*3)},
		{"no value for a variable", `query($n: Int) { viewer { items(first: $n) { edges { cursor } } } }`, nil, 2 + 2 + 20*3},
		{"null", `{ viewer { items(first: null) { edges { cursor } } } }`, nil, 2 + 2 + 20*3},
		{"more than a page can have", `{ viewer { items(first: 1000000) { edges { cursor } } } }`, nil, 2 + 2 + 100*3},
		{"a page that can be longer", `{ viewer { long(first: 700) { edges { cursor } } } }`, nil, 2 + 2 + 700*3},
		{"a page that can be longer, as a variable says", `query($n: Int!) { viewer { long(first: $n) { edges { cursor } } } }`, map[string]any{"n": json.Number("700")}, 2 + 2 + 700*3},
		{"more than such a page can have", `{ viewer { long(first: 1000000) { edges { cursor } } } }`, nil, 2 + 2 + 1000*3},
		{"less than nothing", `{ viewer { items(first: -5) { edges { cursor } } } }`, nil, 2 + 2},
		{"a page from the end", `{ viewer { items(last: 5) { edges { cursor } } } }`, nil, 2 + 2 + 5*3},
		{"a page from the end, as long as a variable says", `query($n: Int) { viewer { items(last: $n) { edges { cursor } } } }`, map[string]any{"n": 100}, 2 + 2 + 100*3},
		{"no value for last", `query($n: Int) { viewer { items(last: $n) { edges { cursor } } } }`, nil, 2 + 2 + 20*3},
		{"the larger of first and last", `{ viewer { items(first: 1, last: 100) { edges { cursor } } } }`, nil, 2 + 2 + 100*3},
		{"a page of a subscription", `subscription { changed(first: 100) { things { edges { cursor } nodes { id } } viewer { name } } }`, nil, 2 + 2 + 100*(2+1) + 100*(2+1) + 2 + 1},
		{"ids", `{ nodes(ids: ["a", "b", "c"]) { id } }`, nil, 3 * (2 + 1)},
		{"one id for a list", `{ nodes(ids: "a") { id } }`, nil, 2 + 1},
		{"ids of a variable", `query($i: [ID!]!) { nodes(ids: $i) { id } }`, map[string]any{"i": list(100)}, 100 * 3},
		{"ids below ids", `query($i: [ID!]!) { nodes(ids: $i) { parts { id } } }`, map[string]any{"i": list(4)}, 4 * (2 + 10*(10+1))},
		{"the schema", `{ __schema { types { fields { name } } } }`, nil, 2 + 2 + 2 + 1},
		{"a list of unknown length", `{ plain { id tags } }`, nil, 10 * (2 + 1 + 1)},
		{"a short list", `{ plain { few { id } } }`, nil, 10 * (2 + 3*(2+1))},
		{"a long list", `{ plain { many { id tags } } }`, nil, 10 * (2 + 10*(2+1+1))},
		{"a long list with a page for each item", `{ nodes(ids: "a") { many { items(first: 7) { total } } } }`, nil, 2 + 1000*(2+2+1+7)},
		{"a page far below a long list", `{ nodes(ids: "a") { many { few { ... on Item { ...P } } } } } fragment P on Item { items { total } }`, nil, 2 + 1000*(2+3*(2+2+1+5))},
		{"a long list beside a page", `{ viewer { items(first: 5) { edges { node { id many { id } items(first: 1) { total } } } } } }`, nil, 2 + 2 + 5*(2+2+1+10*(2+1)+2+1+1)},
		{"marks", `mutation { mark(input: {all: true}) { marked { id } viewer { name } } }`, nil, 2 + 10*(2+1) + 2 + 1},
		{"marks with pages", `mutation { mark(input: {all: true}) { marked { items { total } } viewer { name } } }`, nil, 2 + 100*(2+2+1+5) + 2 + 1},
		{"marks of some", `mutation($i: [ID!]) { mark(input: {ids: $i}) { marked { id } } }`, map[string]any{"i": list(2)}, 2 + 2*(2+1)},
		{"marks of many", `mutation($m: Mark!) { mark(input: $m) { marked { id } } }`, map[string]any{"m": map[string]any{"ids": list(500)}}, 2 + 10*(2+1)},
		{"marks of many with pages", `mutation($m: Mark!) { mark(input: $m) { marked { items { total } } } }`, map[string]any{"m": map[string]any{"ids": list(500)}}, 2 + 500*(2+2+1+5)},
		{"marks of one with pages", `mutation($m: Mark!) { mark(input: $m) { marked { items { total } } } }`, map[string]any{"m": map[string]any{"ids": "a"}}, 2 + 1*(2+2+1+5)},
		{"marks of those named in the text", `mutation { mark(input: {ids: ["a", "b"]}) { marked { items { total } } } }`, nil, 2 + 2*(2+2+1+5)},
		{"marks without ids", `mutation($m: Mark!) { mark(input: $m) { marked { items { total } } } }`, map[string]any{"m": map[string]any{"ids": nil}}, 2 + 100*(2+2+1+5)},
		{"marks of an empty list", `mutation($m: Mark!) { mark(input: $m) { marked { items { total } } } }`, map[string]any{"m": map[string]any{"ids": list(0)}}, 2 + 100*(2+2+1+5)},
		{"marks of an empty list of a variable", `mutation($i: [ID!]) { mark(input: {ids: $i, all: true}) { marked { id } } }`, map[string]any{"i": list(0)}, 2 + 10*(2+1)},
		{"marks of an empty list in the text", `mutation { mark(input: {ids: [], all: true}) { marked { items { total } } } }`, nil, 2 + 100*(2+2+1+5)},
		{"no ids", `{ nodes(ids: []) { id } }`, nil, 0},
		{"a fragment, each time", `{ a: viewer { ...V } b: viewer { ...V } } fragment V on Viewer { name items(first: 2) { edges { cursor } } }`, nil, 2 * (2 + 1 + 2 + 2*3)},
		{"an inline fragment in a page", `{ viewer { items(first: 3) { ... on Items { edges { cursor } } } } }`, nil, 2 + 2 + 3*3},
	} {
		if got := queryCost(t, test.query, test.variables); got != test.want {
			t.Errorf("%s: costs %d, want %d", test.name, got, test.want)
		}
	}
}

// A product of many pages stops at a bound and does not overflow.
func TestCostDoesNotOverflow(t *testing.T) {
	query := `{ viewer { items(first: 100) { edges { node {`
	end := `}}}}}`
	for range 8 {
		query += ` items(first: 100) { edges { node {`
		end += `}}}`
	}
	if got := queryCost(t, query+" id "+end, nil); got != countCeiling {
		t.Errorf("nine pages in each other cost %d: want %d", got, int(countCeiling))
	}
}

func BenchmarkCost(b *testing.B) {
	schema := gqlparser.MustLoadSchema(&ast.Source{Input: costSDL})
	doc, faults := gqlparser.LoadQueryWithRules(schema, `query($n: Int!) { viewer { name pages(first: $n) { edges { node { id items { edges { cursor } } } } } } }`, nil)
	if faults != nil {
		b.Fatal(faults)
	}
	cost, variables := costModel{}.operation(doc.Operations[0]), map[string]any{"n": 20}
	b.ReportAllocs()
	for b.Loop() {
		_ = cost.forVariables(variables)
	}
}
