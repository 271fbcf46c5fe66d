package transport

import (
	"context"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/handler"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"tidings/services/trace"
)

// TraceOperations records a span for each operation: its name and kind, and neither its text nor its variables. The span of a
// subscription ends when the subscription has started; its events belong to the traces of their causes. A response with errors
// fails the span, with the code of its first error, as the client sees it.
func TraceOperations(server *handler.Server) {
	server.AroundOperations(func(ctx context.Context, next graphql.OperationHandler) graphql.ResponseHandler {
		running := graphql.GetOperationContext(ctx).Operation
		ctx, span := trace.StartOperation(ctx, string(running.Operation), running.Name)
		// A subscription's response function is called for each event, for hours. A span around these calls would say nothing.
		if running.Operation == ast.Subscription {
			defer span.End(nil)
			return next(ctx)
		}
		// The response is made when it is asked for, so the span ends then.
		respond := next(ctx)
		return func(ctx context.Context) *graphql.Response {
			response := respond(ctx)
			if response != nil && len(response.Errors) > 0 {
				span.Fail(codeOf(response.Errors[0]))
			}
			span.End(nil)
			return response
		}
	})
}

// codeOf is the code of an error as clients see it; "" for one without.
func codeOf(shown *gqlerror.Error) string {
	code, _ := shown.Extensions["code"].(string)
	return code
}
