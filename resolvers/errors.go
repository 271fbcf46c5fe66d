package resolvers

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/handler"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"tidings/dataloader"
	"tidings/services"
)

// UseLoader puts a fresh loader around every response. Each event of a subscription is a response of its own, so its data is read
// anew. A loader that outlived its response would show a long subscription the names of its first event for hours.
func UseLoader(readers dataloader.Readers) func(*handler.Server) {
	return func(server *handler.Server) {
		server.AroundResponses(func(ctx context.Context, next graphql.ResponseHandler) *graphql.Response {
			return next(dataloader.With(ctx, readers))
		})
	}
}

// ErrorPresenter maps each error to its code: a services.Error keeps its message and code, an error of the language (syntax,
// validation, input) is INVALID, an operation that ran out of time or was cancelled is UNAVAILABLE, and any other error is INTERNAL.
// Each has the ID of its request, which the log has too. The errors of documents and of resolvers pass through it, whatever the
// transport; refusals that package transport makes by itself, such as those of limits, do not. The executor knows only the path of an
// error: ErrorPresenter adds the name of the wrong argument, so that a form can mark the field, whether the executor or a service has
// refused it.
func ErrorPresenter(log *slog.Logger) graphql.ErrorPresenterFunc {
	return func(ctx context.Context, err error) *gqlerror.Error {
		field := graphql.GetPath(ctx)
		if argument := unreadableArgument(field, err); argument != "" {
			err = services.WithArgument(argument, err)
		}
		// The error of a resolver has no path of its own yet. An error of the language may have one.
		shown := clientError(ctx, log, err)
		if shown.Path == nil {
			shown.Path = field
		}
		return shown
	}
}

// unreadableArgument is the argument that the executor could not read, named as in other errors (at, events[0].at); "" for any
// other error, such as one before the execution. The path of such an error goes on from the field into its argument. All other
// paths end at a field. The name input is left out if a field of the input follows, because the errors of services name the field
// alone.
func unreadableArgument(field ast.Path, err error) string {
	fault, is := errors.AsType[*gqlerror.Error](err)
	if !is || len(field) == 0 || len(fault.Path) <= len(field) || !slices.Equal(fault.Path[:len(field)], field) {
		return ""
	}
	argument := fault.Path[len(field):]
	if len(argument) > 1 && argument[0] == ast.PathName("input") {
		argument = argument[1:]
	}
	return argument.String()
}

// clientError makes the error that a client sees. An unknown error is INTERNAL: its text stays in the log, because it may name
// tables, addresses or users. ingest calls it too, for the errors in its results.
func clientError(ctx context.Context, log *slog.Logger, err error) *gqlerror.Error {
	id := services.RequestID(ctx)
	shown := &gqlerror.Error{}
	language, isLanguage := errors.AsType[*gqlerror.Error](err)
	if isLanguage {
		shown.Locations, shown.Path = language.Locations, language.Path
	}
	known, isKnown := errors.AsType[*services.Error](err)
	switch {
	// A service has made this error for people. It may be wrapped, so the whole chain is searched for it. Its cause, such as an engine
	// that did not answer, is for the log only.
	case isKnown:
		if known.Cause != nil {
			level := slog.LevelWarn
			// If the client has left, the read was cancelled because of that, and nobody has to look at it.
			if errors.Is(ctx.Err(), context.Canceled) {
				level = slog.LevelDebug
			}
			log.Log(ctx, level, "answered with an error", "requestId", id, "code", known.Code, "error", err)
		}
	// The operation ran out of time or was cancelled, at whatever step. The client may repeat the request: under an idempotency key, a
	// mutation that was committed in spite of this error has no second effect.
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		known = &services.Error{Code: services.Unavailable, Message: "no answer in time: try again"}
	// This is an error of the parser, a validation or a scalar. If an error wraps another, the wrapped error decides.
	case isLanguage && language.Unwrap() == nil:
		known = &services.Error{Code: services.Invalid, Message: language.Message, Reason: language.Rule}
		if had, _ := language.Extensions["code"].(string); isServiceCode(had) {
			known.Code = services.Code(had)
		}
	// This is a fault of this program or of an engine. The client does not get the text. The ID in the client's report leads to
	// the log.
	default:
		known = &services.Error{Code: services.Internal, Message: "internal error " + id}
		log.Error("internal error", "requestId", id, "error", err)
	}
	shown.Message, shown.Extensions = known.Message, known.Extensions()
	shown.Extensions["requestId"] = id
	return shown
}

// isServiceCode reports whether a code is in services.Codes, the list of all codes, and not one of gqlgen's own.
func isServiceCode(code string) bool { return slices.Contains(services.Codes, services.Code(code)) }

// Recover turns a panic into an internal error, so that only one answer is lost, and the process goes on. The stack is for the log.
func Recover(_ context.Context, panicked any) error {
	return services.NewPanicError(panicked)
}
