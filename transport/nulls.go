package transport

import (
	"slices"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

// variablesUsedAsNonNull returns the names of the variables that an operation of a valid document uses in a place that takes no
// null, although their own types take it. The specification permits that if the variable or the place has a default, so that the
// variable may be left out. An explicit null is refused for each request: gqlgen would panic, or take the null for a value.
func variablesUsedAsNonNull(operation *ast.OperationDefinition) []string {
	u := nonNullUseFinder{operation: operation, walkedFragments: map[string]bool{}}
	u.walkDirectives(operation.Directives)
	u.walkSelections(operation.SelectionSet)
	return u.variableNames
}

// nonNullUseFinder collects the names that variablesUsedAsNonNull returns.
type nonNullUseFinder struct {
	operation       *ast.OperationDefinition
	walkedFragments map[string]bool // the names of the fragments that were walked already
	variableNames   []string        // the names that were found so far
}

// walkSelections walks a selection set, and each fragment once.
func (u *nonNullUseFinder) walkSelections(set ast.SelectionSet) {
	for _, selection := range set {
		switch one := selection.(type) {
		case *ast.Field:
			u.walkArguments(one.Arguments)
			u.walkDirectives(one.Directives)
			u.walkSelections(one.SelectionSet)
		case *ast.InlineFragment:
			u.walkDirectives(one.Directives)
			u.walkSelections(one.SelectionSet)
		case *ast.FragmentSpread:
			u.walkDirectives(one.Directives)
			if one.Definition != nil && !u.walkedFragments[one.Name] {
				u.walkedFragments[one.Name] = true
				u.walkSelections(one.Definition.SelectionSet)
			}
		}
	}
}

// walkDirectives walks the arguments of directives.
func (u *nonNullUseFinder) walkDirectives(list ast.DirectiveList) {
	for _, one := range list {
		u.walkArguments(one.Arguments)
	}
}

// walkArguments walks the values of arguments.
func (u *nonNullUseFinder) walkArguments(list ast.ArgumentList) {
	for _, one := range list {
		u.walkValue(one.Value)
	}
}

// walkValue walks a value with the members of objects and the elements of lists. Validation has set the expected type of each, except
// within a value of the scalar JSON, which takes null everywhere.
func (u *nonNullUseFinder) walkValue(value *ast.Value) {
	for _, child := range value.Children {
		u.walkValue(child.Value)
	}
	if value.Kind != ast.Variable || value.ExpectedType == nil || !value.ExpectedType.NonNull || slices.Contains(u.variableNames, value.Raw) {
		return
	}
	// The executor refuses a null for a type that takes none.
	if variable := u.operation.VariableDefinitions.ForName(value.Raw); variable != nil && !variable.Type.NonNull {
		u.variableNames = append(u.variableNames, value.Raw)
	}
}

// nullVariableError returns an error if one of the named variables, which variablesUsedAsNonNull has found, is null: the client's
// value, or a default where the client has sent none.
func nullVariableError(operation *ast.OperationDefinition, names []string, variables map[string]any) *gqlerror.Error {
	for _, name := range names {
		value, given := variables[name]
		if !given {
			standard := operation.VariableDefinitions.ForName(name).DefaultValue
			given = standard != nil && standard.Kind == ast.NullValue
		}
		if given && value == nil {
			return gqlerror.ErrorPathf(variablePath(name), "cannot be null, because it is used where null is not allowed")
		}
	}
	return nil
}

// variablePath is the path of a variable in errors. It has the form that the executor's errors have, so that clients see one form.
func variablePath(name string) ast.Path {
	return ast.Path{ast.PathName("variable"), ast.PathName(name)}
}
