package web

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/lexer"
	"github.com/vektah/gqlparser/v2/validator"
)

// maxQueryTokens is the most tokens that the server accepts in one query by default.
const maxQueryTokens = 1000

// loadSchema reads the schema of the server.
func loadSchema(t *testing.T) *ast.Schema {
	t.Helper()
	names, err := filepath.Glob("../graph/*.graphqls")
	if err != nil || len(names) == 0 {
		t.Fatalf("no schema in ../graph: %v", err)
	}
	var sources []*ast.Source
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, &ast.Source{Name: name, Input: string(text)})
	}
	schema, err := gqlparser.LoadSchema(sources...)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// checkedOperationName returns an operation's name, and an error if the operation would not run unchanged in a tab of its own.
func checkedOperationName(schema *ast.Schema, op menuOperation) (string, error) {
	document, errs := gqlparser.LoadQueryWithRules(schema, op.Query, nil)
	if len(errs) > 0 {
		return "", fmt.Errorf("it is not valid: %w", errs)
	}
	if len(document.Operations) != 1 || document.Operations[0].Name == "" {
		return "", fmt.Errorf("it holds %d operations: a tab is titled by the name of its one", len(document.Operations))
	}
	if len(document.Fragments) > 0 {
		return "", fmt.Errorf("it holds a fragment, where a reader wants to see each field")
	}
	only := document.Operations[0]
	variables := map[string]any{}
	if op.Variables != "" {
		if err := json.Unmarshal([]byte(op.Variables), &variables); err != nil {
			return "", fmt.Errorf("its variables are no object: %w", err)
		}
	}
	for name := range variables {
		if only.VariableDefinitions.ForName(name) == nil {
			return "", fmt.Errorf("it does not declare the variable %q", name)
		}
	}
	if _, err := validator.VariableValues(schema, only, variables); err != nil {
		return "", fmt.Errorf("its variables do not fit: %w", err)
	}
	if err := checkIDsAreSelected(schema, only.SelectionSet); err != nil {
		return "", err
	}
	if tokens := countTokens(op.Query); tokens > maxQueryTokens {
		return "", fmt.Errorf("it has %d tokens, and the server takes %d", tokens, maxQueryTokens)
	}
	return only.Name, nil
}

// checkIDsAreSelected returns an error for an object that is selected without its id: a normalizing cache could not merge it with
// the fields that it already has of the object.
func checkIDsAreSelected(schema *ast.Schema, selections ast.SelectionSet) error {
	for _, selection := range selections {
		field, ok := selection.(*ast.Field)
		if !ok || len(field.SelectionSet) == 0 {
			continue
		}
		object := schema.Types[field.Definition.Type.Name()]
		if object.Fields.ForName("id") != nil && !slices.ContainsFunc(field.SelectionSet, isIDField) {
			return fmt.Errorf("%s selects a %s without its id", field.Name, object.Name)
		}
		if err := checkIDsAreSelected(schema, field.SelectionSet); err != nil {
			return err
		}
	}
	return nil
}

// isIDField reports whether a selection is the field id under its own name.
func isIDField(selection ast.Selection) bool {
	field, ok := selection.(*ast.Field)
	return ok && field.Name == "id" && field.Alias == "id"
}

// countTokens returns the number of tokens of a query, as the server counts them.
func countTokens(query string) int {
	tokens := lexer.New(&ast.Source{Input: query})
	for count := 0; ; count++ {
		token, err := tokens.ReadToken()
		if err != nil || token.Kind == lexer.EOF {
			return count
		}
	}
}

// Every ready-made operation of GraphiQL's menu is valid, says what it is for, and has a name of its own.
func TestReadyMadeOperations(t *testing.T) {
	schema := loadSchema(t)
	operations, err := readOperations(files)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, op := range operations {
		name, err := checkedOperationName(schema, op)
		if err != nil {
			t.Errorf("%v\n%s", err, op.Query)
		}
		if !strings.HasPrefix(op.Query, "# ") {
			t.Errorf("%s does not begin with a line that says what it is for", name)
		}
		names = append(names, name)
	}
	// The first operations are for a first tour of the badges; each later one shows one part of the API.
	tour := []string{"MyBadges", "WatchMyBadges", "FollowSomebody", "Publish", "MyHomeFeed", "Like", "MarkSeen", "Ingest"}
	// Every operation that groups.json names exists.
	groups, err := readOperationGroups(files)
	if err != nil || len(groups) != len(operations) {
		t.Errorf("groups.json has %d operations, and %d are there: %v", len(groups), len(operations), err)
	}
	if diff := cmp.Diff(tour, names[:min(len(tour), len(names))]); diff != "" {
		t.Errorf("the first tabs differ (-want +got):\n%s", diff)
	}
	// A fixed date would one day be in the past. Operations have words instead, which the page replaces by a time.
	for _, op := range operations {
		if date := regexp.MustCompile(`\d{4}-\d\d-\d\d`).FindString(op.Query + op.Variables); date != "" {
			t.Errorf("%s has the date %s", op.Slug, date)
		}
	}
	slices.Sort(names)
	if once := slices.Compact(slices.Clone(names)); len(once) < len(names) {
		t.Errorf("two tabs are called the same: %v", names)
	}
}

// A normalizing cache holds one object of badges: a push with fewer fields than the query would remove the missing fields from
// the screen.
func TestPushedBadgesHaveTheFieldsOfTheQuery(t *testing.T) {
	operations, err := readOperations(files)
	if err != nil {
		t.Fatal(err)
	}
	selected := map[string]string{}
	for _, op := range operations {
		for name, field := range map[string]string{"query MyBadges {": " badges {", "subscription WatchMyBadges {": " badgesChanged {"} {
			if _, selection, found := strings.Cut(op.Query, field); found && strings.Contains(op.Query, name) {
				selected[name] = strings.Join(strings.Fields(strings.TrimRight(selection, "} \n")), " ")
			}
		}
	}
	if diff := cmp.Diff(selected["query MyBadges {"], selected["subscription WatchMyBadges {"]); diff != "" || len(selected) != 2 {
		t.Errorf("WatchMyBadges selects other fields than MyBadges (-query +push):\n%s", diff)
	}
}

// checkedOperationName returns an error for an operation with any of these faults.
func TestCheckOperationFindsFaults(t *testing.T) {
	schema := loadSchema(t)
	for name, test := range map[string]struct {
		op   menuOperation
		want string
	}{
		"a syntax error":         {menuOperation{Query: "query A {"}, "not valid"},
		"no id":                  {menuOperation{Query: "query A { viewer { id user { name } } }"}, "user selects a User without its id"},
		"an id by another name":  {menuOperation{Query: "query A { viewer { id user { it: id } } }"}, "user selects a User without its id"},
		"an unknown field":       {menuOperation{Query: "query A { nobody }"}, "not valid"},
		"a field without fields": {menuOperation{Query: "query A { viewer }"}, "not valid"},
		"an unused variable":     {menuOperation{Query: "query A($a: ID) { __typename }"}, "not valid"},
		"no name":                {menuOperation{Query: "{ __typename }"}, "holds 1 operations"},
		"two operations":         {menuOperation{Query: "query A { __typename } query B { __typename }"}, "holds 2 operations"},
		"a fragment":             {menuOperation{Query: "query A { ...B } fragment B on Query { __typename }"}, "holds a fragment"},
		"a missing variable":     {menuOperation{Query: "query A($id: ID!) { node(id: $id) { id } }"}, "do not fit"},
		"a wrong variable":       {menuOperation{Query: "query A($id: ID!) { node(id: $id) { id } }", Variables: `{"id": {}}`}, "do not fit"},
		"a variable too many":    {menuOperation{Query: "query A { __typename }", Variables: `{"id": "user:a"}`}, "does not declare"},
		"variables in a list":    {menuOperation{Query: "query A { __typename }", Variables: `[]`}, "no object"},
		"too long":               {menuOperation{Query: "query A { " + strings.Repeat("__typename ", maxQueryTokens) + "}"}, "tokens"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := checkedOperationName(schema, test.op); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("name %q, error %v; want an error with %q", got, err, test.want)
			}
		})
	}
}

func TestReadOperations(t *testing.T) {
	t.Run("in the order of their files, with their variables", func(t *testing.T) {
		got, err := readOperations(fstest.MapFS{
			"operations/02-b.graphql": {Data: []byte("query B { b }\n")},
			"operations/01-a.graphql": {Data: []byte("query A { a }\n")},
			"operations/02-b.json":    {Data: []byte("{\"b\": 1}\n")},
			"operations/README.md":    {Data: []byte("no operation")},
			"operations/groups.json":  {Data: []byte(`{"Letters": ["a", "b"]}`)},
		})
		if err != nil {
			t.Fatal(err)
		}
		want := []menuOperation{
			{Slug: "a", Group: "Letters", Query: "query A { a }"},
			{Slug: "b", Group: "Letters", Query: "query B { b }", Variables: `{"b": 1}`},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the operations differ (-want +got):\n%s", diff)
		}
	})
	t.Run("none is an empty list", func(t *testing.T) {
		got, err := operationsJSON(fstest.MapFS{})
		if err != nil || string(got) != "[]" {
			t.Errorf("got %s and error %v", got, err)
		}
	})
	t.Run("variables that are no JSON name the file", func(t *testing.T) {
		_, err := operationsJSON(fstest.MapFS{
			"operations/01-a.graphql": {Data: []byte("query A { a }")},
			"operations/01-a.json":    {Data: []byte("{")},
			"operations/groups.json":  {Data: []byte(`{"Letters": ["a"]}`)},
		})
		if err == nil || !strings.Contains(err.Error(), "operations/01-a.graphql") {
			t.Errorf("the error is %v", err)
		}
	})
	for name, groups := range map[string]string{
		"no group":    `{"Letters": []}`,
		"two groups":  `{"Letters": ["a"], "Vowels": ["a"]}`,
		"no groups":   `{`,
		"other shape": `["a"]`,
	} {
		t.Run(name+" is an error", func(t *testing.T) {
			_, err := operationsJSON(fstest.MapFS{
				"operations/01-a.graphql": {Data: []byte("query A { a }")},
				"operations/groups.json":  {Data: []byte(groups)},
			})
			if err == nil || !strings.Contains(err.Error(), "groups.json") {
				t.Errorf("the error is %v", err)
			}
		})
	}
}
