package transport

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/parser"
	"pgregory.net/rapid"

	"tidings/graph"
	"tidings/services"
)

// newRealSchemaHandler makes a handler with the schema of the server and no resolvers.
func newRealSchemaHandler(t *testing.T, introspection bool) http.Handler {
	t.Helper()
	return newDevelopmentHandler(t, func(cfg *Config) {
		cfg.Schema, cfg.Introspection = graph.NewExecutableSchema(graph.Config{}), introspection
	})
}

// joinedNumberedCopies returns n copies of a part, each with its number in place of %d, joined into one text.
func joinedNumberedCopies(n int, part string) string {
	return strings.Join(numberedCopies(n, part), "")
}

// numberedCopies returns n copies of a part, each with its number in place of %d.
func numberedCopies(n int, part string) []string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = strings.ReplaceAll(part, "%d", strconv.Itoa(i))
	}
	return parts
}

// doublingFragments returns n fragments, each of which spreads the next one twice.
func doublingFragments(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, " fragment F%d on Query{...F%d ...F%d}", i, i+1, i+1)
	}
	return text.String() + fmt.Sprintf(" fragment F%d on Query{__typename}", n)
}

// For each bound, a document at the limit is accepted, and one beyond it gets an error with the count and the limit.
func TestDocumentsBeyondTheirShapeAreRefused(t *testing.T) {
	handler := newRealSchemaHandler(t, false)
	for name, bound := range map[string]struct {
		document func(n int) string
		limit    int
	}{
		"depth": {func(n int) string { return strings.Repeat("{a", n) + strings.Repeat("}", n) }, 12},
		"depth through fragments": {func(n int) string {
			return "{...A} fragment A on Query{a{...B}} fragment B on Query" + strings.Repeat("{a", n-1) + strings.Repeat("}", n-1)
		}, 12},
		"fields":            {func(n int) string { return "{a{" + joinedNumberedCopies(9, "b ") + "} " + wideSelection(n-10) + "}" }, 300},
		"fields of a whole": {func(n int) string { return "query A{a} query B{" + wideSelection(n-1) + "}" }, 300},
		"fields in a fragment spread twice": {func(n int) string {
			return "{a{...F} b{...F}} fragment F on Query{" + wideSelection((n-2)/2) + "}" + joinedNumberedCopies(n%2, " query C{c}")
		}, 300},
		"aliases":    {func(n int) string { return "{a{" + joinedNumberedCopies(n, "a%d:b ") + "}}" }, 30},
		"directives": {func(n int) string { return "query @a{a{" + joinedNumberedCopies(n-1, "b%d @c ") + "}}" }, 30},
		"roots":      {func(n int) string { return "{" + joinedNumberedCopies(n, "a%d ") + "}" }, 10},
		"mutations": {func(n int) string {
			return "mutation{...F " + joinedNumberedCopies(n-5, "a%d ") + "} fragment F on Mutation{" + joinedNumberedCopies(5, "b%d ") + "}"
		}, 10},
		"repeats": {func(n int) string { return "{a{" + joinedNumberedCopies(n, "b ") + "}}" }, 30},
		"repeats in fragments": {func(n int) string {
			return "{a{...F ...{" + joinedNumberedCopies(n-5, "b ") + "}}} fragment F on Query{" + joinedNumberedCopies(5, "b ") + "}"
		}, 30},
		"fragments": {func(n int) string { return "{a" + strings.Repeat("{...", n) + "{b}" + strings.Repeat("}", n) + "}" }, 12},
		"names":     {func(n int) string { return "{a(b:{" + strings.Repeat("c", n) + ":D})}" }, 100},
		"asked":     {func(n int) string { return "{" + joinedNumberedCopies(n, "__schema ") + "}" }, 2},
		"asked deep": {func(n int) string {
			return "{__schema" + strings.Repeat("{a", n-1) + strings.Repeat("}", n-1) + "}"
		}, 20},
		"asked wide": {func(n int) string { return "{__schema{" + wideSelection(n-1) + "}}" }, 500},
	} {
		t.Run(name, func(t *testing.T) {
			doc, err := parser.ParseQuery(&ast.Source{Input: bound.document(bound.limit)})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := services.WithDefaults(DocumentLimits{}).check(doc); err != nil {
				t.Errorf("at the limit: %v", err)
			}
			got := postQuery(t, handler, bound.document(bound.limit+1))
			if len(got.parsed.Errors) != 1 || got.errorCode() != services.Invalid {
				t.Fatalf("beyond the limit: %.300s", got.body)
			}
			words := strings.FieldsFunc(got.parsed.Errors[0].Message, func(r rune) bool { return r < '0' || r > '9' })
			if want := []string{strconv.Itoa(bound.limit + 1), strconv.Itoa(bound.limit)}; fmt.Sprint(words) != fmt.Sprint(want) {
				t.Errorf("%q names %v, want count and limit %v", got.parsed.Errors[0].Message, words, want)
			}
		})
	}
}

// wideSelection is the field w with n-1 different fields in it: n fields in all.
func wideSelection(n int) string { return "w{" + joinedNumberedCopies(n-1, "x%d ") + "}" }

// Each fragment is measured once, however often it is spread: the work grows with the text only.
func TestFragmentsAreMeasuredOnce(t *testing.T) {
	text := "{...F0}" + doublingFragments(60)
	doc, err := parser.ParseQuery(&ast.Source{Input: text})
	if err != nil {
		t.Fatal(err)
	}
	g := newDocumentMeasurer(doc)
	if got := g.measureOperation(doc.Operations[0]); got.fields != countCeiling || got.mostSameNameFields != countCeiling {
		t.Errorf("2^60 fields are %+v", got)
	}
	if g.nameAndValueCount > len(text) {
		t.Errorf("%d names were looked at in %d bytes", g.nameAndValueCount, len(text))
	}
	handler := newRealSchemaHandler(t, false)
	for name, text := range map[string]string{
		"used": text, "unused": "{__typename}" + doublingFragments(60), "missing": "{...F}",
		"circle": "{...A} fragment A on Query{...B ...B} fragment B on Query{...A ...A}",
	} {
		if got := postQuery(t, handler, text); got.errorCode() != services.Invalid || len(got.parsed.Errors) > 2 {
			t.Errorf("%s: %.300s", name, got.body)
		}
	}
}

func TestValidationStopsAtTheTenthError(t *testing.T) {
	for _, introspection := range []bool{false, true} {
		handler := newRealSchemaHandler(t, introspection)
		for name, text := range map[string]string{
			"unknown fields":    "{viewer{" + joinedNumberedCopies(290, "f%d ") + "}}",
			"unknown arguments": "{viewer{" + joinedNumberedCopies(25, "homeFeed(a%d:1,b:2){lastId} ") + "}}",
			"conflicts":         "{viewer{" + joinedNumberedCopies(30, "homeFeed(first:%d){lastId} ") + "}}",
			"variables":         "query(" + joinedNumberedCopies(240, "$a%d:Int ") + "){__typename}",
		} {
			if got := postQuery(t, handler, text); len(got.parsed.Errors) != maxDocumentErrors || got.errorCode() != services.Invalid {
				t.Errorf("%s: %d errors in %d bytes", name, len(got.parsed.Errors), len(got.body))
			}
		}
	}
}

// drawDocument draws the text of a random document. It follows the grammar of GraphQL, but is often not valid.
func drawDocument(t *rapid.T) string {
	names := rapid.SampledFrom([]string{
		"viewer", "badges", "total", "value", "homeFeed", "edges", "node", "id", "conversations", "messages", "body", "nodes", "user",
		"__typename", "__schema", "types", "fields", "a", "b", strings.Repeat("long", 400),
	})
	values := rapid.SampledFrom([]string{
		"1", `"x"`, "$v", "null", "E", `[1 2 "x y"]`, `{a:"b c" d:[1]}`, strings.Repeat("9", 3000), `"` + strings.Repeat("text ", 900) + `"`,
		`{a:` + strings.Repeat(`"x y",b:`, 300) + `1}`,
	})
	var selection func(depth int) string
	selection = func(depth int) string {
		part := "..."
		switch kind := rapid.IntRange(0, 9).Draw(t, "kind"); {
		case kind == 0:
			return fmt.Sprintf("...F%d ", rapid.IntRange(0, 4).Draw(t, "spread"))
		case kind > 1:
			part = names.Draw(t, "name")
			if rapid.IntRange(0, 4).Draw(t, "aliased") == 0 {
				part = names.Draw(t, "alias") + ":" + part
			}
			if rapid.IntRange(0, 4).Draw(t, "argued") == 0 {
				part += "(" + rapid.SampledFrom([]string{"first", "ids", "x"}).Draw(t, "argument") + ":" + values.Draw(t, "value") + ")"
			}
		}
		if rapid.IntRange(0, 19).Draw(t, "directed") == 0 {
			part += "@" + names.Draw(t, "directive")
		}
		if depth == 0 || isLeafField(part) {
			return part + " "
		}
		return part + "{" + strings.Repeat(selection(depth-1), rapid.SampledFrom([]int{1, 1, 1, 2, 40}).Draw(t, "times")) + "} "
	}
	text := "{" + selection(4) + selection(3) + "}"
	for i := range rapid.IntRange(0, 4).Draw(t, "fragments") {
		text += fmt.Sprintf(" fragment F%d on %s{%s}", i, rapid.SampledFrom([]string{"Query", "Viewer", "Nothing"}).Draw(t, "on"), selection(3))
	}
	return text
}

// isLeafField reports whether a drawn field is one that has no selection in the schema.
func isLeafField(part string) bool {
	return strings.HasSuffix(part, "value") || strings.HasSuffix(part, "id")
}

// Any document gets at most ten errors, each short, and none with more than 100 bytes of the request.
func TestRefusalsAreShort(t *testing.T) {
	handlers := []http.Handler{newRealSchemaHandler(t, false), newRealSchemaHandler(t, true)}
	check := func(t interface{ Fatalf(string, ...any) }, text string, got httpAnswer) {
		if got.errorCode() == "" || len(got.parsed.Errors) > maxDocumentErrors || len(got.body) > maxDocumentErrors*1000 {
			t.Fatalf("%.200s: %d errors in %d bytes: %.500s", text, len(got.parsed.Errors), len(got.body), got.body)
		}
		for _, fault := range got.parsed.Errors {
			for from := 0; from+maxErrorWordBytes < len(fault.Message); from++ {
				if strings.Contains(text, fault.Message[from:from+maxErrorWordBytes+1]) {
					t.Fatalf("%.200s: repeated in %s", text, fault.Message)
				}
			}
		}
	}
	long := strings.Repeat("a", 60_000)
	for _, text := range []string{
		"{" + long + "}", "{" + long, long, "{viewer{homeFeed(first:" + strings.Repeat("1", 60_000) + "){lastId}}}", `{node(id:{a:"` + long + `"}){id}}`,
		`{viewer{homeFeed(first:"` + strings.Repeat("a b ", 15_000) + `"){lastId}}}`, "query " + long + "{a}", "query($" + long + ":Int){a}",
		"{node(id:[" + strings.Repeat(`"a b" `, 300) + "]){id}}", "{...{" + long + ":viewer}}", "{viewer{" + strings.Repeat("badges{", 9) + "a" + strings.Repeat("}", 9) + "}}",
	} {
		for _, handler := range handlers {
			check(t, text, postQuery(t, handler, text))
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		text := drawDocument(rt)
		for _, handler := range handlers {
			if got := postQuery(t, handler, text); strings.HasPrefix(got.body, `{"errors"`) && !strings.Contains(got.body, `"data"`) {
				check(rt, text, got)
			}
		}
	})
}

// Errors of variables and of execution repeat only short parts of the request.
func TestErrorsOfVariablesAreShort(t *testing.T) {
	handler := newRealSchemaHandler(t, false)
	for name, variables := range map[string]any{
		"a number": map[string]any{"n": json.Number(strings.Repeat("7", 60_000))}, "a text": map[string]any{"n": strings.Repeat("7", 60_000)},
		"another name": map[string]any{"n": map[string]any{strings.Repeat("b", 60_000): 1}},
	} {
		body := must(json.Marshal(map[string]any{"query": "query($n:Int){viewer{homeFeed(first:$n){lastId}}}", "variables": variables}))
		if got := askHandler(t, handler, http.MethodPost, "/graphql", string(body)); got.errorCode() != services.Invalid || len(got.body) > 600 {
			t.Errorf("%s: %.700s", name, got.body)
		}
	}
}

// GraphiQL and code generators can introspect the schema, although their query is deeper than other queries may be.
func TestToolsCanAskForTheSchema(t *testing.T) {
	text := string(must(os.ReadFile("testdata/introspection.graphql")))
	got := postQuery(t, newRealSchemaHandler(t, true), text)
	if got.errorCode() != "" || !strings.Contains(got.body, `"name":"BadgeCount"`) {
		t.Errorf("in development mode: %.500s", got.body)
	}
	if got := postQuery(t, newRealSchemaHandler(t, false), text); got.errorCode() != services.Forbidden {
		t.Errorf("in production: %.500s", got.body)
	}
}

// The default limits permit every ready-made operation in the menu of GraphiQL.
func TestReadyMadeOperationsHaveAnAllowedShape(t *testing.T) {
	names := must(filepath.Glob("../web/operations/*.graphql"))
	if len(names) < 30 {
		t.Fatalf("%d operations", len(names))
	}
	documents := newDocumentPreparer(Config{Schema: graph.NewExecutableSchema(graph.Config{})}.withDefaults())
	for _, name := range names {
		text := string(must(os.ReadFile(name)))
		if doc, faults := documents.prepare(text); doc == nil {
			t.Errorf("%s: %v", name, faults)
		}
	}
}

// @defer needs a transport that answers in parts. There is none, but the executor would still obey the directive, so it is not
// defined.
func TestDeferIsUnknown(t *testing.T) {
	for _, text := range []string{
		"{viewer{...@defer{badges{version}}}}", "{viewer{...F@defer(if:false)}} fragment F on Viewer{user{id}}",
		"subscription{badgesChanged{version ...@defer(label:\"l\"){total{value}}}}",
	} {
		if got := postQuery(t, newRealSchemaHandler(t, false), text); got.errorCode() != services.Invalid || !strings.Contains(got.body, `Unknown directive \"@defer\"`) {
			t.Errorf("%s: %.300s", text, got.body)
		}
	}
	got := postQuery(t, newRealSchemaHandler(t, true), "{__schema{directives{name}}}")
	if want := `{"data":{"__schema":{"directives":[{"name":"deprecated"},{"name":"include"},{"name":"oneOf"},{"name":"skip"},{"name":"specifiedBy"}]}}}`; got.body != want {
		t.Errorf("the directives are %s", got.body)
	}
}
