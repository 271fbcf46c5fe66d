package resolvers

import (
	"encoding/json"
	"regexp"
	"strings"
	"sync"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"

	"tidings/graph"
)

// testedSchema returns the schema.
var testedSchema = sync.OnceValue(func() *ast.Schema { return graph.NewExecutableSchema(graph.Config{}).Schema() })

// positionInList matches the part of an argument's name that says which element of a list is wrong, such as [0].
var positionInList = regexp.MustCompile(`\[\d+\]`)

// checkErrorArguments checks the errors of an answer; testAPI.ask calls it for every answer. If an error names an argument, it must be an
// argument of the field that failed, or a field of its input, so that a front end can find the field of its form.
func (a *testAPI) checkErrorArguments(query string, variables map[string]any, got apiAnswer) {
	a.t.Helper()
	document, faults := gqlparser.LoadQueryWithRules(testedSchema(), query, nil)
	if len(faults) > 0 || len(document.Operations) != 1 {
		return // refused as a whole: the error names a part of the request, such as query, and no argument of a field
	}
	for _, failed := range got.Errors {
		argument, _ := failed.Extensions["argument"].(string)
		field := fieldAt(document.Operations[0].SelectionSet, failed.Path)
		if argument == "" || field == nil {
			continue
		}
		if name := positionInList.ReplaceAllString(argument, ""); !hasArgument(field.Definition.Arguments, name) {
			a.t.Errorf("%s has no argument %q, which the error %q names", field.Name, argument, failed.Message)
		}
	}
	results, _ := got.valueAt("ingest", "results").([]any)
	events, _ := roundTripJSON(variables["events"]).([]any)
	for i, result := range results {
		of, _ := result.(map[string]any)
		failed, _ := of["error"].(map[string]any)
		argument, _ := failed["argument"].(string)
		if argument == "" || i >= len(events) {
			continue
		}
		if name := positionInList.ReplaceAllString(argument, ""); !eventHasField(events[i], name) {
			a.t.Errorf("the event %v has no argument %q, which the error %q names", events[i], argument, failed["message"])
		}
	}
}

// fieldAt returns the last field on the path of an error. It is nil if the path begins elsewhere, such as in the variables.
func fieldAt(selections ast.SelectionSet, path []any) (found *ast.Field) {
	for _, part := range path {
		name, named := part.(string)
		if !named {
			continue // a position in a list
		}
		field := fieldByAlias(selections, name)
		if field == nil {
			return found
		}
		found, selections = field, field.SelectionSet
	}
	return found
}

// fieldByAlias returns the selected field with an alias; nil if there is none.
func fieldByAlias(selections ast.SelectionSet, alias string) *ast.Field {
	for _, selection := range selections {
		switch of := selection.(type) {
		case *ast.Field:
			if of.Alias == alias {
				return of
			}
		case *ast.InlineFragment:
			if field := fieldByAlias(of.SelectionSet, alias); field != nil {
				return field
			}
		case *ast.FragmentSpread:
			if field := fieldByAlias(of.Definition.SelectionSet, alias); field != nil {
				return field
			}
		}
	}
	return nil
}

// hasArgument reports whether an argument, or a field below an argument, has the name. Names of fields below the argument input do not
// begin with input.
func hasArgument(arguments ast.ArgumentDefinitionList, name string) bool {
	if input := arguments.ForName("input"); input != nil && hasInputField(input.Type, name) {
		return true
	}
	first, rest, nested := strings.Cut(name, ".")
	argument := arguments.ForName(first)
	return argument != nil && (!nested || hasInputField(argument.Type, rest))
}

// hasInputField reports whether an input type has a field with the name. The name of a field of a nested input has a dot.
func hasInputField(of *ast.Type, name string) bool {
	first, rest, nested := strings.Cut(name, ".")
	field := testedSchema().Types[of.Name()].Fields.ForName(first)
	return field != nil && (!nested || hasInputField(field.Type, rest))
}

// eventHasField reports whether an event, or the input of its action, has a field with the name.
func eventHasField(sent any, name string) bool {
	if hasInputField(ast.NamedType("IngestEvent", nil), name) {
		return true
	}
	of, _ := sent.(map[string]any)
	do, _ := of["do"].(map[string]any)
	for action := range do {
		if field := testedSchema().Types["IngestAction"].Fields.ForName(action); field != nil && hasInputField(field.Type, name) {
			return true
		}
	}
	return false
}

// roundTripJSON returns a value as it is after it was encoded to JSON and decoded.
func roundTripJSON(value any) (decoded any) {
	text, _ := json.Marshal(value)
	_ = json.Unmarshal(text, &decoded)
	return decoded
}
