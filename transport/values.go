package transport

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"github.com/vektah/gqlparser/v2/validator"

	"tidings/services"
)

// createOperation prepares the document and reads the variables. It checks variables strictly by the specification, where the
// executor would accept a string for a number or a number for a string. It replaces the executor's message if that names another
// value than the client's. It refuses an operation that is too expensive, and returns the cost of any other. HTTP, sockets and
// event streams all begin an operation by it. With faults, the operation has only what the presentation of the error needs.
func createOperation(
	ctx context.Context, exec graphql.GraphExecutor, documents *documentPreparer, request *requestParams,
) (operation *graphql.OperationContext, cost int, faults gqlerror.List) {
	keep, err := documents.persisted.resolveText(request)
	if err != nil {
		return &graphql.OperationContext{OperationName: request.OperationName}, 0, asList(err)
	}
	doc, faults := documents.prepare(request.Query)
	if len(faults) > 0 {
		return &graphql.OperationContext{RawQuery: request.Query, OperationName: request.OperationName}, 0, faults
	}
	// The text is valid, so it is stored under its hash.
	if keep != nil {
		keep()
	}
	// CreateOperationContext itself evaluates the conditions of directives, so nulls are refused before it is called.
	if fault := doc.nullVariableError(request); fault != nil {
		return &graphql.OperationContext{RawQuery: request.Query, OperationName: request.OperationName}, 0, gqlerror.List{fault}
	}
	operation, faults = exec.CreateOperationContext(context.WithValue(ctx, preparedDocumentKey{}, doc.QueryDocument), &request.RawParams)
	// The executor's own message would not say which operations there are to choose from.
	if operation.Operation == nil {
		return operation, 0, gqlerror.List{operationNameError(doc.QueryDocument, request.OperationName)}
	}
	// The client's own values are checked even if the executor has found a fault, because the executor's message may show a
	// converted value.
	if fault := documents.wrongVariableError(operation.Operation, request); fault != nil {
		return operation, 0, gqlerror.List{fault}
	}
	if len(faults) > 0 {
		return operation, 0, faults
	}
	// The executor's variables include the defaults, which count too.
	if cost = doc.costOf(operation.Operation, operation.Variables); cost > documents.maxCost {
		return operation, cost, asList(services.Errorf(services.Invalid,
			"query: costs %d, up to %d are allowed: ask for fewer items (first) or fewer fields", cost, documents.maxCost))
	}
	return operation, cost, nil
}

// readVariables returns the variables of a request as the executor reads them, with the defaults. ok is false if anything is wrong
// with them: the executor reports what.
func (d *documentPreparer) readVariables(doc *queryDocument, operation *ast.OperationDefinition, request *requestParams) (variables map[string]any, ok bool) {
	// The executor would panic for a value that no check has foreseen, and the HTTP server would recover.
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	if doc.nullVariableError(request) != nil || d.wrongVariableError(operation, request) != nil {
		return nil, false
	}
	variables, err := validator.VariableValues(d.schema, operation, request.Variables)
	return variables, err == nil
}

// wrongVariableError returns the error for the first variable of an operation with a value of the wrong kind; nil if there is none.
func (d *documentPreparer) wrongVariableError(operation *ast.OperationDefinition, request *requestParams) *gqlerror.Error {
	for _, variable := range operation.VariableDefinitions {
		value, given := request.Variables[variable.Variable]
		if fault := wrongValueError(d.schema, variable.Type, value, variablePath(variable.Variable)); given && fault != nil {
			return fault
		}
	}
	return nil
}

// operationNameError is the error for a document from which the operation to run cannot be chosen.
func operationNameError(doc *ast.QueryDocument, name string) *gqlerror.Error {
	err := services.Errorf(services.Invalid, "operationName: the document has no operation of this name")
	if n := len(doc.Operations); name == "" {
		err = services.Errorf(services.Invalid, "operationName: the document has %d operations; name one of them", n)
	}
	return graphQLError(err)
}

// wrongValueError returns an error for a variable with a value of the wrong kind. It leaves to the executor what the executor reports
// correctly, and then returns nil: a null that is not allowed, an unknown member of an input, or a value that a scalar's own function
// refuses. place is the value's path, for the error.
func wrongValueError(schema *ast.Schema, kind *ast.Type, value any, place ast.Path) *gqlerror.Error {
	if value == nil {
		return nil
	}
	if kind.Elem != nil {
		list, ok := value.([]any)
		if !ok { // a single value counts as a list of one
			return wrongValueError(schema, kind.Elem, value, place)
		}
		for i, element := range list {
			if fault := wrongValueError(schema, kind.Elem, element, append(place[:len(place):len(place)], ast.PathIndex(i))); fault != nil {
				return fault
			}
		}
		return nil
	}
	definition := schema.Types[kind.NamedType]
	switch {
	// The schema has no such type, so validation has refused it.
	case definition == nil:
		return nil
	// A value that is no object has no members here, and the executor refuses it.
	case definition.Kind == ast.InputObject:
		object, _ := value.(map[string]any)
		for _, field := range definition.Fields {
			value := object[field.Name]
			if value == nil { // building paths for many absent fields would be most of the work
				continue
			}
			if fault := wrongValueError(schema, field.Type, value, append(place[:len(place):len(place)], ast.PathName(field.Name))); fault != nil {
				return fault
			}
		}
		return nil
	}
	if need := describeNeededValue(definition, value); need != "" {
		got := describeValue(value)
		if text, is := value.(string); is && definition.Name == "Time" {
			got = services.Quote(text) // the kind is right, so the text itself is wrong
		}
		return gqlerror.ErrorPathf(place, "%s, got %s", need, got)
	}
	return nil
}

// describeNeededValue describes the value that a scalar or an enum needs; "" if the given value may be right. It lists the scalars
// of the schema; any other scalar is left to its own function.
func describeNeededValue(definition *ast.Definition, value any) string {
	number, isNumber := value.(json.Number)
	text, isText := value.(string)
	switch {
	// For a text, number is "", which is no number, so a text is refused here too.
	case definition.Name == "Int":
		if _, err := strconv.ParseInt(string(number), 10, 32); err != nil {
			return "an Int is a whole number from -2147483648 to 2147483647"
		}
	case definition.Name == "String" && !isText:
		return "a String is a text"
	case (definition.Name == "URL" || definition.Name == "Version") && !isText:
		return "a " + definition.Name + " is a text"
	// The specification takes whole numbers for IDs; they become texts.
	case definition.Name == "ID" && !isText && !isNumber:
		return "an ID is a text"
	// If the value is of another kind, text is "", which is no time.
	case definition.Name == "Time":
		if _, is := services.ParseTime(text); !is {
			return "a Time is a text in RFC 3339, such as 2026-01-31T09:30:00Z"
		}
	case definition.Name == "JSON":
		if _, is := value.(map[string]any); !is {
			return "a JSON is an object"
		}
	case definition.Name == "Boolean":
		if _, ok := value.(bool); !ok {
			return "a Boolean is true or false"
		}
	case definition.Kind == ast.Enum && (!isText || definition.EnumValues.ForName(text) == nil):
		return "a " + definition.Name + " is one of its names"
	}
	return ""
}

// describeValue describes a value in an error: its kind, or a number itself. A text is never repeated, because it may be private.
func describeValue(value any) string {
	const longest = 40
	switch value := value.(type) {
	case json.Number:
		if len(value) > longest {
			return "a number of " + strconv.Itoa(len(value)) + " characters"
		}
		return string(value)
	case string:
		return "a text"
	case bool:
		return strconv.FormatBool(value)
	case []any:
		return "a list"
	}
	return "an object"
}
