package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/executor"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"tidings/services"
)

// LocalExecutor executes the program's own operations for the viewer of a context. There is no request, so the limits of clients
// and the restriction to trusted documents do not apply; every check of the resolvers does. The console uses LocalExecutor, so the
// console can do only what the schema offers. LocalExecutor is safe for concurrent use.
//
// It caches no parsed documents: the console has few, and executes one only when an operator opens a page or sends a form.
type LocalExecutor struct {
	executor       *executor.Executor
	prepareContext func(ctx context.Context) context.Context // adds to a context what resolvers need
	timeout        time.Duration                             // bounds one operation
}

// LocalExecutorConfig configures a LocalExecutor; every field is required.
type LocalExecutorConfig struct {
	Schema           graphql.ExecutableSchema
	PrepareContext   func(ctx context.Context) context.Context // adds to a context what resolvers need
	ErrorPresenter   graphql.ErrorPresenterFunc                // turns a resolver's error into the error of the answer
	Recover          graphql.RecoverFunc                       // turns a resolver's panic into an error
	OperationTimeout time.Duration                             // bounds one operation
}

// NewLocalExecutor makes a LocalExecutor.
func NewLocalExecutor(cfg LocalExecutorConfig) *LocalExecutor {
	l := &LocalExecutor{executor: executor.New(cfg.Schema), prepareContext: cfg.PrepareContext, timeout: cfg.OperationTimeout}
	l.executor.SetErrorPresenter(cfg.ErrorPresenter)
	l.executor.SetRecoverFunc(cfg.Recover)
	return l
}

// Do executes a document with one query or mutation, and decodes the data into the value that into points to. Each error has a
// code. Partial data is decoded even if there are errors. The document is the program's own: it is parsed each time, and its cost
// is not bounded.
func (l *LocalExecutor) Do(ctx context.Context, document string, variables map[string]any, into any) (errs []error) {
	// The request ID gives an error the same ID in the log and on the page.
	ctx, cancel := context.WithTimeout(services.WithRequest(ctx, &requestID{}), l.timeout)
	defer cancel()
	ctx = graphql.StartOperationTrace(l.prepareContext(ctx))
	operation, faults := l.executor.CreateOperationContext(ctx, &graphql.RawParams{Query: document, Variables: variables})
	if faults != nil {
		return serviceErrors(withCodes(faults))
	}
	next, ctx := l.executor.DispatchOperation(ctx, operation)
	response := next(ctx)
	if response == nil { // the context ended before execution began
		return []error{services.Errorf(services.Unavailable, "not answered within %v, try again later", l.timeout)}
	}
	// The errors are kept before the data is decoded: a response may have both.
	errs = serviceErrors(response.Errors)
	if len(response.Data) > 0 && !bytes.Equal(response.Data, []byte("null")) {
		if err := json.Unmarshal(response.Data, into); err != nil {
			return append(errs, fmt.Errorf("the answer of GraphQL: %w", err))
		}
	}
	return errs
}

// serviceErrors converts the errors of a response to errors of services.
func serviceErrors(list gqlerror.List) (errs []error) {
	for _, fault := range list {
		code, _ := fault.Extensions["code"].(string)
		if code == "" {
			code = string(services.Internal)
		}
		errs = append(errs, &services.Error{Code: services.Code(code), Message: fault.Message})
	}
	return errs
}
