package transport

import (
	"context"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"tidings/services"
)

// rootFieldsExtension refuses, before execution, root fields that the executor would report as an error of the server:
// introspection while it is switched off, and a subscription with several fields. It is an extension of the executor, because the
// variables of directives are known only there: @skip decides which fields are left.
type rootFieldsExtension struct{ introspection bool }

var _ graphql.OperationContextMutator = rootFieldsExtension{}

// ExtensionName names the extension in gqlgen's messages.
func (rootFieldsExtension) ExtensionName() string { return "Roots" }

// Validate accepts every schema.
func (rootFieldsExtension) Validate(graphql.ExecutableSchema) error { return nil }

// MutateOperationContext checks the root fields, including those of fragments.
func (r rootFieldsExtension) MutateOperationContext(_ context.Context, operation *graphql.OperationContext) *gqlerror.Error {
	kind := operation.Operation.Operation
	if kind != ast.Subscription && (r.introspection || hasOnlyPlainRootFields(operation.Operation.SelectionSet)) {
		return nil
	}
	satisfies := map[ast.Operation]string{ast.Query: "Query", ast.Mutation: "Mutation", ast.Subscription: "Subscription"}[kind]
	// The fields are collected in the executor's way, so that a field that @skip leaves out is not refused.
	fields := graphql.CollectFields(operation, operation.Operation.SelectionSet, []string{satisfies})
	for _, field := range fields {
		if !r.introspection && (field.Name == "__schema" || field.Name == "__type") {
			return graphQLError(services.Errorf(services.Forbidden, "%s: introspection is switched off (--introspection)", field.Name))
		}
	}
	if kind == ast.Subscription && len(fields) != 1 {
		return graphQLError(services.Errorf(services.Invalid, "operation: a subscription has exactly 1 root field, got %d", len(fields)))
	}
	return nil
}

// hasOnlyPlainRootFields reports whether a selection has no fragments and asks for no introspection. A fragment may have any field.
func hasOnlyPlainRootFields(selected ast.SelectionSet) bool {
	for _, selection := range selected {
		field, ok := selection.(*ast.Field)
		if !ok || field.Name == "__schema" || field.Name == "__type" {
			return false
		}
	}
	return true
}
