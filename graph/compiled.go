package graph

import (
	"context"
	"slices"
	"strconv"
	"sync"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"

	"tidings/services"
)

// The executor of gqlgen gives each field a context, and a goroutine if a resolver answers it. Most fields of a list need neither:
// they are in the value that one resolver has returned for the whole page. So a query or a mutation is compiled once for its
// document, into functions that append JSON and that call resolvers only for the fields that have one. compiled.generated.go has a
// compiler for each type, which graph/generate makes of the schema.
//
// A compiled operation begins all calls of an object and of a list before it waits for any, as the executor does, so that loaders
// read for all of them at once. Errors have the executor's texts and paths, and a value that fails is null as it is there. A
// selection that ExpandFragments cannot expand is not compiled.

// Appenders are functions that append fields which otherwise need a resolver, or a text that is made for each item. The key is the
// name of the field, TYPE.FIELD, and the function is a func(to []byte, v *T) []byte for the Go type T of the type. What a function
// needs, such as Post.Read, must be in v. A field without an appender is written from v, or by a call of its resolver.
type Appenders map[string]any

// Badges compiles a selection of badges; nil if it cannot be compiled or needs a resolver.
func (a Appenders) Badges(selected ast.SelectionSet) func(to []byte, v *services.Badges) []byte {
	return plainWriter(compileBadges(a, selected))
}

// PostConnection compiles a selection of a page of posts; nil if it cannot be compiled or needs a resolver.
func (a Appenders) PostConnection(selected ast.SelectionSet) func(to []byte, v *PostConnection) []byte {
	return plainWriter(compilePostConnection(a, selected))
}

// LiveBoardConnection compiles a selection of a page of a live board; nil if it cannot be compiled or needs a resolver.
func (a Appenders) LiveBoardConnection(selected ast.SelectionSet) func(to []byte, v *LiveBoardConnection) []byte {
	return plainWriter(compileLiveBoardConnection(a, selected))
}

// plainWriter is the function that writes a selection; nil for one that has calls, or is not compiled.
func plainWriter[T any](s *selection[T]) func(to []byte, v *T) []byte {
	if s == nil || s.calls > 0 {
		return nil
	}
	return s.write
}

// root is the value of the types Query and Mutation, which have no Go type.
type root struct{}

// selection is the compiled selection of a type. It is shared by all requests with the same document, and does not change.
type selection[T any] struct {
	fields []*compiledField[T]
	calls  int // how many of the fields have a call
}

// compiledField is a field of a selection. A plain field has write, and any other has start.
type compiledField[T any] struct {
	key []byte // the field's key in the answer, with the quotes and the colon
	// write appends the value. It must not keep v.
	write func(to []byte, v *T) []byte
	// start begins the calls of the field, with the context of the object.
	start   func(ctx context.Context, r operationRun, v *T) pendingResult
	nonNull bool // of a field with start: it must not be null
}

// pendingResult is a value whose calls have begun. append must not be called before they have ended. If ok is false, the value
// failed and nothing was appended.
type pendingResult interface {
	append(to []byte) (out []byte, ok bool)
}

// operationRun is the execution of one compiled operation, as the calls of one object see it.
type operationRun struct {
	ec    *executionContext // the executor, which makes contexts, calls resolvers and collects errors
	calls *sync.WaitGroup   // the calls of the whole operation that have not ended
	// isOnlyCall says that no other call has begun or is about to begin: a call needs no goroutine then. Most operations have one
	// call below another, and goroutines would take a tenth of their time for growing stacks alone.
	isOnlyCall bool
}

// null is the JSON of a value that is absent.
const null = "null"

// compile compiles a selection of the type whose name is the first of implementors; nil if ExpandFragments cannot expand it, or if it
// has a field that compileField does not know. The other implementors are the interfaces and unions that the type belongs to.
func compile[T any](known Appenders, selected ast.SelectionSet, implementors []string, compileField func(field *ast.Field) *compiledField[T]) *selection[T] {
	fields, expanded := ExpandFragments(implementors, selected)
	if !expanded {
		return nil
	}
	made := &selection[T]{fields: make([]*compiledField[T], len(fields))}
	for i, field := range fields {
		var one *compiledField[T]
		if field.Name == "__typename" {
			name := strconv.AppendQuote(nil, implementors[0])
			one = leaf(func(to []byte, _ *T) []byte { return append(to, name...) })
		} else if write, some := known[implementors[0]+"."+field.Name].(func(to []byte, v *T) []byte); some {
			one = leaf(write)
		} else if one = compileField(field); one == nil {
			return nil
		}
		one.key = AppendKey(nil, field)
		made.fields[i] = one
		if one.start != nil {
			made.calls++
		}
	}
	return made
}

// AppendKey appends the key of a field in the answer, with the colon. The key is a name in GraphQL's syntax, so nothing in it is
// escaped.
func AppendKey(to []byte, field *ast.Field) []byte {
	return append(strconv.AppendQuote(to, field.Alias), ':')
}

// ExpandFragments returns the fields of a selection of a type, those of its fragments among them. expanded is false if the selection
// has a directive, which may depend on a variable, or two fields of one key, which may need a merge. implementors are the type and
// the interfaces and unions that it belongs to. Fragments on other types are left out.
func ExpandFragments(implementors []string, selected ast.SelectionSet) (fields []*ast.Field, expanded bool) {
	known := map[string]bool{}
	var add func(selected ast.SelectionSet) bool
	add = func(selected ast.SelectionSet) bool {
		for _, one := range selected {
			switch s := one.(type) {
			case *ast.Field:
				if len(s.Directives) > 0 || known[s.Alias] {
					return false
				}
				known[s.Alias] = true
				fields = append(fields, s)
			case *ast.InlineFragment:
				if len(s.Directives) > 0 {
					return false
				}
				if (s.TypeCondition == "" || slices.Contains(implementors, s.TypeCondition)) && !add(s.SelectionSet) {
					return false
				}
			// A fragment that is spread a second time repeats its keys, so add stops there: fragments within fragments cannot make it
			// run for long.
			case *ast.FragmentSpread:
				if len(s.Directives) > 0 || s.Definition == nil {
					return false
				}
				if slices.Contains(implementors, s.Definition.TypeCondition) && !add(s.Definition.SelectionSet) {
					return false
				}
			}
		}
		return true
	}
	expanded = add(selected) && len(fields) > 0
	return fields, expanded
}

// write appends an object all of whose fields are plain.
func (s *selection[T]) write(to []byte, v *T) []byte {
	to = append(to, '{')
	for i, field := range s.fields {
		if i > 0 {
			to = append(to, ',')
		}
		to = field.write(append(to, field.key...), v)
	}
	return append(to, '}')
}

// start begins the calls of an object.
func (s *selection[T]) start(ctx context.Context, r operationRun, v *T) pendingResult {
	o := &objectResult[T]{selection: s, value: v, below: make([]pendingResult, 0, s.calls)}
	r.isOnlyCall = r.isOnlyCall && s.calls == 1
	for _, field := range s.fields {
		if field.start != nil {
			o.below = append(o.below, field.start(ctx, r, v))
		}
	}
	return o
}

// objectResult is an object whose calls have begun.
type objectResult[T any] struct {
	selection *selection[T]
	value     *T
	below     []pendingResult // the results of the fields that are not plain, in their order
}

// append appends the object. A field that failed is null if it may be; otherwise the object has failed.
func (o *objectResult[T]) append(to []byte) (out []byte, ok bool) {
	begin, next := len(to), 0
	to = append(to, '{')
	for i, field := range o.selection.fields {
		if i > 0 {
			to = append(to, ',')
		}
		to = append(to, field.key...)
		if field.start == nil {
			to = field.write(to, o.value)
			continue
		}
		if to, ok = o.below[next].append(to); !ok {
			if field.nonNull {
				return to[:begin], false
			}
			to = append(to, null...)
		}
		next++
	}
	return append(to, '}'), true
}

// listResult is a list whose calls have begun.
type listResult struct {
	items       []pendingResult
	itemNonNull bool // an item must not be null
}

// append appends the list. An item that failed is null if it may be; otherwise the list has failed.
func (l listResult) append(to []byte) (out []byte, ok bool) {
	begin := len(to)
	to = append(to, '[')
	for i, item := range l.items {
		if i > 0 {
			to = append(to, ',')
		}
		if to, ok = item.append(to); !ok {
			if l.itemNonNull {
				return to[:begin], false
			}
			to = append(to, null...)
		}
	}
	return append(to, ']'), true
}

// nullResult is the result of a field whose value is absent.
type nullResult struct{}

func (nullResult) append(to []byte) (out []byte, ok bool) { return append(to, null...), true }

// plainObject is an object all of whose fields are plain.
type plainObject[T any] struct {
	selection *selection[T]
	value     *T
}

func (o plainObject[T]) append(to []byte) (out []byte, ok bool) {
	return o.selection.write(to, o.value), true
}

// plainList is a list of objects all of whose fields are plain.
type plainList[T any] struct {
	selection *selection[T]
	items     []T
}

func (l plainList[T]) append(to []byte) (out []byte, ok bool) {
	return l.selection.writeList(to, l.items), true
}

// writeList appends a list of objects all of whose fields are plain.
func (s *selection[T]) writeList(to []byte, items []T) []byte {
	to = append(to, '[')
	for i := range items {
		if i > 0 {
			to = append(to, ',')
		}
		to = s.write(to, &items[i])
	}
	return append(to, ']')
}

// startObject begins the calls of an object, if it has any.
func (s *selection[T]) startObject(ctx context.Context, r operationRun, v *T) pendingResult {
	if s.calls == 0 {
		return plainObject[T]{s, v}
	}
	return s.start(ctx, r, v)
}

// listNulls says whether a list, and whether its items, must not be null.
type listNulls struct{ list, item bool }

// startList begins the calls of a list, if it has any. ctx is the context of the field.
func (s *selection[T]) startList(ctx context.Context, r operationRun, items []T, nonNull listNulls) pendingResult {
	switch {
	case items == nil && !nonNull.list:
		return nullResult{}
	case s.calls == 0:
		return plainList[T]{s, items}
	}
	list := listResult{make([]pendingResult, len(items)), nonNull.item}
	r.isOnlyCall = r.isOnlyCall && len(items) == 1
	for i := range items {
		// The index is a part of the paths of errors.
		list.items[i] = s.start(graphql.WithFieldContext(ctx, &graphql.FieldContext{Index: &i, Result: &items[i]}), r, &items[i])
	}
	return list
}

// leaf makes the compiled form of a plain field, whose value write appends.
func leaf[T any](write func(to []byte, v *T) []byte) *compiledField[T] {
	return &compiledField[T]{write: write}
}

// objectField compiles a field whose object is a part of v; nil if its selection is not compiled. If get returns nil, the field is null.
func objectField[T, U any](field *ast.Field, nonNull bool, of *selection[U], get func(v *T) *U) *compiledField[T] {
	switch {
	case of == nil:
		return nil
	case of.calls == 0:
		return leaf(func(to []byte, v *T) []byte {
			if part := get(v); part != nil {
				return of.write(to, part)
			}
			return append(to, null...)
		})
	}
	collected := toCollectedField(field)
	return &compiledField[T]{nonNull: nonNull, start: func(ctx context.Context, r operationRun, v *T) pendingResult {
		part := get(v)
		if part == nil {
			return nullResult{}
		}
		return of.start(graphql.WithFieldContext(ctx, &graphql.FieldContext{Field: collected, Result: part}), r, part)
	}}
}

// listField compiles a field with a list of objects that are parts of v; nil if their selection is not compiled.
func listField[T, U any](field *ast.Field, nonNull listNulls, of *selection[U], get func(v *T) []U) *compiledField[T] {
	switch {
	case of == nil:
		return nil
	case of.calls == 0:
		return leaf(func(to []byte, v *T) []byte {
			items := get(v)
			if items == nil && !nonNull.list {
				return append(to, null...)
			}
			return of.writeList(to, items)
		})
	}
	collected := toCollectedField(field)
	return &compiledField[T]{nonNull: nonNull.list, start: func(ctx context.Context, r operationRun, v *T) pendingResult {
		items := get(v)
		return of.startList(graphql.WithFieldContext(ctx, &graphql.FieldContext{Field: collected, Result: items}), r, items, nonNull)
	}}
}

// nodesField compiles the field nodes of a connection, which has the nodes of the edges; nil if their selection is not compiled.
func nodesField[T, E, N any](field *ast.Field, of *selection[N], edges func(v *T) []E, node func(edge *E) *N) *compiledField[T] {
	switch {
	case of == nil:
		return nil
	case of.calls == 0:
		return leaf(func(to []byte, v *T) []byte {
			to = append(to, '[')
			for i, list := 0, edges(v); i < len(list); i++ {
				if i > 0 {
					to = append(to, ',')
				}
				to = of.write(to, node(&list[i]))
			}
			return append(to, ']')
		})
	}
	collected := toCollectedField(field)
	return &compiledField[T]{nonNull: true, start: func(ctx context.Context, r operationRun, v *T) pendingResult {
		list := edges(v)
		ctx = graphql.WithFieldContext(ctx, &graphql.FieldContext{Field: collected})
		nodes := listResult{make([]pendingResult, len(list)), true}
		r.isOnlyCall = r.isOnlyCall && len(list) == 1
		for i := range list {
			nodes.items[i] = of.start(graphql.WithFieldContext(ctx, &graphql.FieldContext{Index: &i}), r, node(&list[i]))
		}
		return nodes
	}}
}

// appendList appends a list of values without fields. A nil list is null unless that is not allowed.
func appendList[U any](to []byte, items []U, nonNull bool, write func(to []byte, item U) []byte) []byte {
	if items == nil && !nonNull {
		return append(to, null...)
	}
	to = append(to, '[')
	for i, item := range items {
		if i > 0 {
			to = append(to, ',')
		}
		to = write(to, item)
	}
	return append(to, ']')
}
