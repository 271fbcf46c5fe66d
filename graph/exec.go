package graph

import (
	"bytes"
	"context"
	"sync/atomic"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
)

// NewSchema returns the schema of NewExecutableSchema, which gqlgen has generated, with an Exec of our own. Our Exec runs compiled
// operations. The generated Exec builds, for each operation and by reflection, a table of the functions that read inputs. Only
// graphql.UnmarshalInputFromContext uses this table, and no code here calls that function, so our Exec does not build it. Building it
// takes 12 us for each operation that is not compiled: more than parsing, validating and executing `{ __typename }` take together.
func NewSchema(cfg Config) graphql.ExecutableSchema {
	return compilingSchema{NewExecutableSchema(cfg).(*executableSchema), NewPlanCache(compileOperation)}
}

// compileOperation compiles a query or a mutation; nil for one that is not compiled, and for a subscription.
func compileOperation(operation *ast.OperationDefinition) *selection[root] {
	switch {
	case len(operation.Directives) > 0:
		return nil
	case operation.Operation == ast.Query:
		return compileQuery(nil, operation.SelectionSet)
	case operation.Operation == ast.Mutation:
		return compileMutation(nil, operation.SelectionSet)
	}
	return nil
}

// compilingSchema is the generated schema with another Exec. A new version of gqlgen may change Exec:
// TestExecEqualsTheGeneratedOneWithoutTheInputTable then fails.
type compilingSchema struct {
	*executableSchema
	compiledOperations *PlanCache[*selection[root]] // the plan of an operation that is not compiled is nil
}

// Exec executes the operation of the context. It answers a compiled operation by its selection. Any other operation goes to the
// generated functions, as in the generated Exec, but without the table of the functions that read inputs.
func (l compilingSchema) Exec(ctx context.Context) graphql.ResponseHandler {
	opCtx := graphql.GetOperationContext(ctx)
	// The channel is for parts that are deferred, which no schema here permits: see graph.go.
	ec := newExecutionContext(opCtx, l.executableSchema, make(chan graphql.DeferredResult))
	if compiled := l.compiledOperations.Of(opCtx.Operation); compiled != nil {
		return once(func(ctx context.Context) *graphql.Response {
			return &graphql.Response{Data: ec.runCompiled(ctx, compiled)}
		})
	}
	switch opCtx.Operation.Operation {
	case ast.Query:
		return ec.query(opCtx.Operation.SelectionSet)
	case ast.Mutation:
		return once(func(ctx context.Context) *graphql.Response {
			return marshalResponse(ec._Mutation(ctx, opCtx.Operation.SelectionSet))
		})
	case ast.Subscription:
		next := ec._Subscription(ctx, opCtx.Operation.SelectionSet)
		var buffer bytes.Buffer
		return func(ctx context.Context) *graphql.Response {
			buffer.Reset()
			data := next(ctx)
			if data == nil {
				return nil
			}
			data.MarshalGQL(&buffer)
			return &graphql.Response{Data: buffer.Bytes()}
		}
	default:
		return graphql.OneShot(graphql.ErrorResponse(ctx, "unsupported GraphQL operation"))
	}
}

// once returns a handler that answers once. The executor calls a handler, from one goroutine, until it returns nil.
func once(answer graphql.ResponseHandler) graphql.ResponseHandler {
	answered := false
	return func(ctx context.Context) *graphql.Response {
		if answered {
			return nil
		}
		answered = true
		return answer(ctx)
	}
}

// query returns a handler that first answers with the data, and then with each part that was deferred.
func (ec *executionContext) query(selected ast.SelectionSet) graphql.ResponseHandler {
	first := true
	return func(ctx context.Context) *graphql.Response {
		var response *graphql.Response
		switch {
		case first:
			first = false
			response = marshalResponse(ec._Query(ctx, selected))
		case atomic.LoadInt32(&ec.PendingDeferred) > 0:
			result := <-ec.DeferredResults
			atomic.AddInt32(&ec.PendingDeferred, -1)
			response = marshalResponse(result.Result)
			response.Path, response.Label, response.Errors = result.Path, result.Label, result.Errors
		default:
			return nil
		}
		if atomic.LoadInt32(&ec.Deferred) > 0 {
			more := atomic.LoadInt32(&ec.PendingDeferred) > 0
			response.HasNext = &more
		}
		return response
	}
}

// marshalResponse renders data and returns a response with it. The executor adds the errors.
func marshalResponse(data graphql.Marshaler) *graphql.Response {
	var buffer bytes.Buffer
	data.MarshalGQL(&buffer)
	return &graphql.Response{Data: buffer.Bytes()}
}
