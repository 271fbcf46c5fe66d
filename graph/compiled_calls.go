package graph

import (
	"bytes"
	"context"
	"sync"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
)

// runCompiled runs a compiled query or mutation. The data is null if a field failed that must not be null. Errors are in the
// response of ctx.
func (ec *executionContext) runCompiled(ctx context.Context, operation *selection[root]) (data []byte) {
	ctx = graphql.WithFieldContext(ctx, &graphql.FieldContext{})
	// Each call recovers from its own panics. A panic while values are appended belongs to no call any more.
	defer func() {
		if fault := recover(); fault != nil {
			ec.Error(ctx, ec.Recover(ctx, fault))
			data = []byte(null)
		}
	}()
	serial := ec.OperationContext.Operation.Operation == ast.Mutation
	r := operationRun{ec: ec, calls: new(sync.WaitGroup), isOnlyCall: serial || operation.calls == 1}
	begun := &objectResult[root]{selection: operation, value: &root{}}
	for _, field := range operation.fields {
		if field.start == nil {
			continue
		}
		begun.below = append(begun.below, field.start(ctx, r, begun.value))
		if serial {
			r.calls.Wait() // the fields of a mutation run one after the other
		}
	}
	r.calls.Wait()
	data, ok := begun.append(make([]byte, 0, 1024))
	if !ok {
		return []byte(null)
	}
	return data
}

// callResult is the result of a field that a resolver answers. The call sets below; nil means that the field failed.
type callResult struct{ below pendingResult }

func (c *callResult) append(to []byte) (out []byte, ok bool) {
	if c.below == nil {
		return to, false
	}
	return c.below.append(to)
}

// start runs a call, in a goroutine of its own unless it is alone. do returns what the call found; nil if it failed.
func (r operationRun) start(ctx context.Context, do func() pendingResult) pendingResult {
	c := &callResult{}
	if r.isOnlyCall {
		c.below = r.callRecovering(ctx, do)
	} else {
		r.calls.Go(func() { c.below = r.callRecovering(ctx, do) })
	}
	return c
}

// callRecovering calls do, and reports a panic as an error of the object. The panic of a resolver does not come here: resolve and the
// executor's methods recover from it.
func (r operationRun) callRecovering(ctx context.Context, do func() pendingResult) (found pendingResult) {
	defer func() {
		if fault := recover(); fault != nil {
			r.ec.Error(ctx, r.ec.Recover(ctx, fault))
		}
	}()
	return do()
}

// marshaled is the value that a method of the executor has returned.
type marshaled struct{ graphql.Marshaler }

func (m marshaled) append(to []byte) (out []byte, ok bool) {
	text := bytes.NewBuffer(to)
	m.MarshalGQL(text)
	return text.Bytes(), true
}

// toCollectedField returns a field in the form that the executor's methods take.
func toCollectedField(field *ast.Field) graphql.CollectedField {
	return graphql.CollectedField{Field: field, Selections: field.SelectionSet}
}

// executorMethod is a method of the executor that answers a field of v, with all that is below it. It reports errors, and returns
// null then.
type executorMethod[T any] func(ec *executionContext, ctx context.Context, field graphql.CollectedField, v *T) graphql.Marshaler

// called makes the compiled form of a field that a method of the executor answers.
func called[T any](field *ast.Field, nonNull bool, answer executorMethod[T]) *compiledField[T] {
	collected := toCollectedField(field)
	return &compiledField[T]{nonNull: nonNull, start: func(ctx context.Context, r operationRun, v *T) pendingResult {
		return r.start(ctx, func() pendingResult {
			value := answer(r.ec, ctx, collected, v)
			if value == graphql.Null {
				return nil // it is null or has failed: objectResult writes null where it may be
			}
			return marshaled{value}
		})
	}}
}

// ofRoot adapts the method of a field of Query or Mutation, which takes no value, to an executorMethod.
func ofRoot(answer func(ec *executionContext, ctx context.Context, field graphql.CollectedField) graphql.Marshaler) executorMethod[root] {
	return func(ec *executionContext, ctx context.Context, field graphql.CollectedField, _ *root) graphql.Marshaler {
		return answer(ec, ctx, field)
	}
}

// fieldContextFunc is a method of the executor that makes the context of a field with its arguments. It reports errors.
type fieldContextFunc func(ec *executionContext, ctx context.Context, field graphql.CollectedField) (*graphql.FieldContext, error)

// resolver calls a resolver with the arguments of the field's context.
type resolver[T, V any] func(ctx context.Context, ec *executionContext, v *T) (V, error)

// resolve calls a resolver as the executor does, and reports its error. ok is false if it failed. inner is the context for the
// fields below.
func resolve[T, V any](ctx context.Context, r operationRun, v *T, field graphql.CollectedField, makeContext fieldContextFunc, call resolver[T, V]) (inner context.Context, value V, ok bool) {
	made, err := makeContext(r.ec, ctx, field)
	if err != nil {
		return ctx, value, false
	}
	inner = graphql.WithFieldContext(ctx, made)
	defer func() {
		if fault := recover(); fault != nil {
			r.ec.Error(inner, r.ec.Recover(inner, fault))
			ok = false
		}
	}()
	found, err := r.ec.ResolverMiddleware(inner, func(ctx context.Context) (any, error) {
		inner = ctx
		return call(ctx, r.ec, v)
	})
	if err != nil {
		r.ec.Error(inner, graphql.AddFieldLocationToError(inner, err))
		return inner, value, false
	}
	value, ok = found.(V)
	if made.Result = found; !ok {
		graphql.AddErrorf(inner, "unexpected type %T from a resolver, should be %T", found, value)
	}
	return inner, value, ok
}

// resolvedObject compiles a field whose resolver returns an object; nil if its selection is not compiled.
func resolvedObject[T, U any](field *ast.Field, nonNull bool, of *selection[U], makeContext fieldContextFunc, call resolver[T, *U]) *compiledField[T] {
	if of == nil {
		return nil
	}
	collected := toCollectedField(field)
	return &compiledField[T]{nonNull: nonNull, start: func(ctx context.Context, r operationRun, v *T) pendingResult {
		return r.start(ctx, func() pendingResult {
			inner, value, ok := resolve(ctx, r, v, collected, makeContext, call)
			switch {
			case !ok:
				return nil
			case value != nil:
				return of.startObject(inner, r, value)
			case nonNull:
				graphql.AddErrorf(inner, "the requested element is null which the schema does not allow")
				return nil
			}
			return nullResult{}
		})
	}}
}

// resolvedList compiles a field whose resolver returns a list of objects; nil if their selection is not compiled.
func resolvedList[T, U any](field *ast.Field, nonNull listNulls, of *selection[U], makeContext fieldContextFunc, call resolver[T, []U]) *compiledField[T] {
	if of == nil {
		return nil
	}
	collected := toCollectedField(field)
	return &compiledField[T]{nonNull: nonNull.list, start: func(ctx context.Context, r operationRun, v *T) pendingResult {
		return r.start(ctx, func() pendingResult {
			inner, items, ok := resolve(ctx, r, v, collected, makeContext, call)
			if !ok {
				return nil
			}
			return of.startList(inner, r, items, nonNull)
		})
	}}
}
