package transport

import (
	"encoding/json"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/validator/core"
)

// readableNumbersRule refuses numbers in a document with which the executor would panic, because they are too large. The rules of the
// specification check the values of built-in scalars, such as Int, and leave those of the schema's own scalars to the server.
var readableNumbersRule = core.Rule{Name: "ReadableNumbers", RuleFunc: func(observers *core.Events, addError core.AddErrFunc) {
	check := func(walker *core.Walker, list ast.ArgumentList) {
		if walker.CurrentOperation == nil {
			return // the fragment is walked by itself here, and also with each operation that uses it
		}
		for _, one := range list {
			checkNumbers(one.Name, one.Value, addError)
		}
	}
	observers.OnField(func(walker *core.Walker, field *ast.Field) { check(walker, field.Arguments) })
	observers.OnDirective(func(walker *core.Walker, directive *ast.Directive) { check(walker, directive.Arguments) })
	observers.OnOperation(func(_ *core.Walker, operation *ast.OperationDefinition) {
		for _, variable := range operation.VariableDefinitions {
			if variable.DefaultValue != nil {
				checkNumbers("$"+variable.Variable, variable.DefaultValue, addError)
			}
		}
	})
}}

// checkNumbers reports the numbers within a value that cannot be read. place names the value in the error: the argument, and the
// members of inputs in it. The client chooses the names within a value of the scalar JSON, so these names are not repeated.
func checkNumbers(place string, value *ast.Value, addError core.AddErrFunc) {
	for _, child := range value.Children {
		at := place
		if child.Name != "" && value.Definition != nil && value.Definition.Kind == ast.InputObject {
			at += "." + child.Name
		}
		checkNumbers(at, child.Value, addError)
	}
	if value.Kind != ast.IntValue && value.Kind != ast.FloatValue {
		return
	}
	if value.Definition != nil && (value.Definition.Kind != ast.Scalar || value.Definition.OneOf("Int", "Float", "String", "Boolean", "ID")) {
		return // another rule of validation reports such a number
	}
	if _, err := value.Value(nil); err == nil {
		return
	}
	need := "a number within it is too large"
	if value.Definition != nil {
		if text := describeNeededValue(value.Definition, json.Number(value.Raw)); text != "" {
			need = text
		}
	}
	addError(core.Message("%s: %s, got %s", place, need, describeValue(json.Number(value.Raw))), core.At(value.Position))
}
