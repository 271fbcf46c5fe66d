package transport

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"

	"tidings/services"
)

// variablesUsedAsNonNull finds each variable whose null would reach a place that takes none.
func TestVariablesUsedAsNonNullAreFound(t *testing.T) {
	schema := gqlparser.MustLoadSchema(&ast.Source{Input: `
		scalar JSON
		directive @at(n: Int! = 1, in: In) repeatable on QUERY | FIELD | FRAGMENT_SPREAD | INLINE_FRAGMENT
		input In { n: Int! = 1 m: Int in: In list: [Int!] lists: [[In!]!] }
		type Query { q(n: Int! = 1, m: Int = 1, in: In, list: [Int!], ins: [In!], json: JSON): Query a: Int b: Int }`})
	for text, want := range map[string]string{
		`query($x: Int = 1) { q(n: $x) { a } }`:                                                                      "x",
		`query($x: Int) { q(n: $x) { a } }`:                                                                          "x", // the argument n has a default
		`query($x: Int! = 1) { q(n: $x) { a } }`:                                                                     "",  // the executor refuses null
		`query($x: Int = 1) { q(m: $x) { a } }`:                                                                      "",
		`query($x: Boolean = true) { a @skip(if: $x) b @include(if: $x) }`:                                           "x",
		`query($x: Int = 1) @at(n: $x) { a }`:                                                                        "x",
		`query($x: Int = 1) { ... @at(n: $x) { a } }`:                                                                "x",
		`query($x: Int = 1) { ...F @at(in: {n: $x}) } fragment F on Query { a }`:                                     "x",
		`query($x: Int = 1) { q(in: {m: $x}) { a } }`:                                                                "",
		`query($x: Int = 1, $y: Int = 1) { q(in: {in: {n: $x}, list: [1, $y]}) { a } }`:                              "x y",
		`query($x: Int = 1, $y: Int = 1) { q(ins: {n: $x}, in: {lists: [[{n: $y}]]}) { a } }`:                        "x y",
		`query($x: Int = 1) { q(list: [$x], json: {n: $x, list: [$x]}) { a } }`:                                      "x",
		`query($x: Int = 1) { q(json: {n: $x, list: [$x]}) { a } }`:                                                  "",
		`query($x: Int = 1) { ...F ...F } fragment F on Query { q { ...G } } fragment G on Query { q(n: $x) { a } }`: "x",
		`query($x: [Int!] = [1]) { q(list: $x) { a } }`:                                                              "",
	} {
		doc, faults := gqlparser.LoadQueryWithRules(schema, text, nil)
		if faults != nil {
			t.Fatalf("%s: %v", text, faults)
		}
		if got := strings.Join(variablesUsedAsNonNull(doc.Operations[0]), " "); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	doc := gqlparser.MustLoadQueryWithRules(schema, `query A($x: Int = 1) { ...F } query B($x: Int! = 1) { ...F } fragment F on Query { q(n: $x) { a } }`, nil)
	if a, b := variablesUsedAsNonNull(doc.Operations[0]), variablesUsedAsNonNull(doc.Operations[1]); !slices.Equal(a, []string{"x"}) || len(b) > 0 {
		t.Errorf("two operations with one fragment: %q and %q", a, b)
	}
}

// nullVariableError refuses the null of a variable that is used where null is not allowed, and accepts other values.
func TestWrongNull(t *testing.T) {
	schema := gqlparser.MustLoadSchema(&ast.Source{Input: `type Query { q(n: Int! = 1): Int }`})
	operation := gqlparser.MustLoadQueryWithRules(schema, `query($x: Int = null, $y: Int = 1, $z: Int) { a: q(n: $x) b: q(n: $y) c: q(n: $z) }`, nil).Operations[0]
	for _, test := range []struct {
		variables map[string]any
		wrong     string
	}{
		{map[string]any{"x": 1}, ""}, {map[string]any{"x": 1, "y": 2, "z": 3}, ""}, {nil, "variable.x"}, {map[string]any{"x": nil}, "variable.x"},
		{map[string]any{"x": 1, "y": nil}, "variable.y"}, {map[string]any{"x": 1, "z": nil}, "variable.z"},
	} {
		wrong := ""
		if fault := nullVariableError(operation, variablesUsedAsNonNull(operation), test.variables); fault != nil {
			wrong = fault.Path.String()
		}
		if wrong != test.wrong {
			t.Errorf("%v: %q is wrong, want %q", test.variables, wrong, test.wrong)
		}
	}
}

// nullVariableRequest has a null for a variable that is used where no null is allowed.
const nullVariableRequest = `{"query":"query($x: Boolean = true) { hello @skip(if: $x) }","variables":{"x":null}}`

// Before anything is executed, a null is refused where none is allowed, by every protocol.
func TestANullWhereNoneIsAllowed(t *testing.T) {
	const message = "cannot be null, because it is used where null is not allowed"
	handler := newDevelopmentHandler(t, nil)
	inAFragment := `{"query":"query($x: Boolean = true) { ...F } fragment F on Query { hello @include(if: $x) }","variables":{"x":null}}`
	for _, text := range []string{nullVariableRequest, inAFragment} {
		got := askHandler(t, handler, http.MethodPost, "/graphql", text)
		if got.errorCode() != services.Invalid || got.parsed.Errors[0].Message != message || !strings.Contains(got.body, `"argument":"$x"`) || strings.Contains(got.body, `"data"`) {
			t.Errorf("%d %s", got.status, got.body)
		}
	}
	absent, given := strings.Replace(nullVariableRequest, `"x":null`, "", 1), strings.Replace(nullVariableRequest, "null", "false", 1)
	if got := askHandler(t, handler, http.MethodPost, "/graphql", absent); got.body != `{"data":{}}` {
		t.Errorf("left out: %s", got.body)
	}
	if got := askHandler(t, handler, http.MethodPost, "/graphql", given); got.body != `{"data":{"hello":"world"}}` {
		t.Errorf("given: %s", got.body)
	}

	f := newFrontFixture(t, false, nil)
	want := f.sendAndReadAnswers(f.directAddress, 2, rawRequest(nullVariableRequest), rawRequest(nullVariableRequest))
	if got := f.sendAndReadAnswers(f.frontAddress, 2, rawRequest(nullVariableRequest), rawRequest(nullVariableRequest)); !slices.Equal(got, want) || !strings.Contains(got[1], message) {
		t.Errorf("through the front: got\n%s\nwant\n%s", got, want)
	}

	runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
		c := w.openSocket("alice")
		c.send(`{"type":"subscribe","id":"1","payload":` + nullVariableRequest + `}`)
		if got := c.nextMessage(); !strings.HasPrefix(got, `{"type":"error","id":"1"`) || !strings.Contains(got, message) || !strings.Contains(got, "INVALID") {
			t.Errorf("on a socket: %s", got)
		}
		text := strings.Replace(nullVariableRequest, "query(", "subscription(", 1)
		text = strings.Replace(text, "hello", "ticks", 1)
		if _, got := w.statusAndBody(http.MethodPost, "", text, "Accept", typeEvents, "Authorization", "Bearer dev:alice"); !strings.Contains(got, message) {
			t.Errorf("on an event stream: %s", got)
		}
		token := w.reserveStream("alice")
		text = strings.Replace(nullVariableRequest, "{", `{"extensions":{"operationId":"1"},`, 1)
		status, got := w.statusAndBody(http.MethodPost, "", text, "Authorization", "Bearer dev:alice", streamTokenHeader, token)
		if status != http.StatusBadRequest || !strings.Contains(got, message) {
			t.Errorf("on a reserved event stream: %d %s", status, got)
		}
	})
}
