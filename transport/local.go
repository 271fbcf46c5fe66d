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

// Local executes operations of this program itself, for the viewer of a context: there is no request, so there are no limits of
// clients and no trusted documents. Every check of the resolvers holds. It is safe for concurrent use. The console works by it, so
// that it can do what the schema offers and nothing else.
//
// It has no memory of documents: the console's are few, and asked for by hand.
type Local struct {
	executor *executor.Executor
	begin    func(ctx context.Context) context.Context
	timeout  time.Duration
}

// LocalConfig configures a Local; every field is required.
type LocalConfig struct {
	Schema           graphql.ExecutableSchema
	Begin            func(ctx context.Context) context.Context // gives a context what resolvers need in it
	ErrorPresenter   graphql.ErrorPresenterFunc
	Recover          graphql.RecoverFunc
	OperationTimeout time.Duration
}

// NewLocal makes a Local.
func NewLocal(cfg LocalConfig) *Local {
	l := &Local{executor: executor.New(cfg.Schema), begin: cfg.Begin, timeout: cfg.OperationTimeout}
	l.executor.SetErrorPresenter(cfg.ErrorPresenter)
	l.executor.SetRecoverFunc(cfg.Recover)
	return l
}

// Do executes a document with one query or mutation, and reads the data into a value. The errors have their codes; what could be read
// is read also with errors. The document is the program's own: it is parsed each time, and its cost is not bounded.
func (l *Local) Do(ctx context.Context, document string, variables map[string]any, into any) (errs []error) {
	// A request ID, so that an error in the log and on the page have the same.
	ctx, cancel := context.WithTimeout(services.WithRequest(ctx, &requestID{}), l.timeout)
	defer cancel()
	ctx = graphql.StartOperationTrace(l.begin(ctx))
	operation, faults := l.executor.CreateOperationContext(ctx, &graphql.RawParams{Query: document, Variables: variables})
	if faults != nil {
		return coded(withCodes(faults))
	}
	next, ctx := l.executor.DispatchOperation(ctx, operation)
	response := next(ctx)
	if response == nil { // the context ended before execution began
		return []error{services.Errorf(services.Unavailable, "not answered within %v, try again later", l.timeout)}
	}
	// Before the data: a part of the data may be there beside them.
	errs = coded(response.Errors)
	if len(response.Data) > 0 && !bytes.Equal(response.Data, []byte("null")) {
		if err := json.Unmarshal(response.Data, into); err != nil {
			return append(errs, fmt.Errorf("the answer of GraphQL: %w", err))
		}
	}
	return errs
}

// coded are the errors of a response as errors of services.
func coded(list gqlerror.List) (errs []error) {
	for _, fault := range list {
		code, _ := fault.Extensions["code"].(string)
		if code == "" {
			code = string(services.Internal)
		}
		errs = append(errs, &services.Error{Code: services.Code(code), Message: fault.Message})
	}
	return errs
}
