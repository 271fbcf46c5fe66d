package resolvers

import (
	"context"
	"fmt"
	"slices"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"

	"tidings/dataloader"
	"tidings/graph"
)

// A field that reads a list looks ahead: together with the list it reads the objects selected below it, and the other pages of
// the same list that fields of the operation request. So a list is read once, whatever the number of aliases, and the objects
// in its items take one read for each kind.

// selectedFields are the fields of an operation with its fragments, by TYPE.FIELD. Fields that @skip or @include leaves out are not in
// it. A field may be there several times, under aliases and in several parents: the code that looks ahead decides which of these
// fields belong to its list.
type selectedFields map[string][]*ast.Field

// selectedFieldsKey is the key under which a response shares the result of selectedFieldsOf.
type selectedFieldsKey struct{}

// selectedFieldsOf are the fields of the operation of a context, found once for a response. Looking ahead costs one walk of the
// document, whatever the number of lists that do it.
func selectedFieldsOf(ctx context.Context) selectedFields {
	all, _ := dataloader.ReadShared(ctx, selectedFieldsKey{}, func(ctx context.Context) (selectedFields, error) {
		operation := graphql.GetOperationContext(ctx)
		return selectedFieldsBelow(operation.Operation.SelectionSet, operation.Variables), nil
	})
	return all
}

// selectedFieldsBelow are the fields of a selection. Each fragment is visited once: its fields are the same wherever it is spread.
// Without variables, a selection with a condition on a variable counts as included; a compiled selection has no conditions.
func selectedFieldsBelow(selected ast.SelectionSet, variables map[string]any) selectedFields {
	all := selectedFields{}
	known := map[*ast.FragmentDefinition]bool{}
	var add func(selected ast.SelectionSet)
	add = func(selected ast.SelectionSet) {
		for _, selection := range selected {
			switch s := selection.(type) {
			// A field that validation could not place has no definition, and is not executed either.
			case *ast.Field:
				if s.ObjectDefinition != nil && included(s.Directives, variables) {
					name := s.ObjectDefinition.Name + "." + s.Name
					all[name] = append(all[name], s)
					add(s.SelectionSet)
				}
			case *ast.InlineFragment:
				if included(s.Directives, variables) {
					add(s.SelectionSet)
				}
			case *ast.FragmentSpread:
				if s.Definition != nil && !known[s.Definition] && included(s.Directives, variables) {
					known[s.Definition] = true
					add(s.Definition.SelectionSet)
				}
			}
		}
	}
	add(selected)
	return all
}

// included reports whether directives leave a selection in the operation. Only @skip and @include have an argument named if:
// package graph removes @defer.
func included(directives ast.DirectiveList, variables map[string]any) bool {
	for _, directive := range directives {
		if condition, ok := directive.ArgumentMap(variables)["if"].(bool); ok && condition == (directive.Name == "skip") {
			return false
		}
	}
	return true
}

// pageKey is the key of a page of the viewer's list: the field, and its arguments without the size. Two fields with one key
// differ at most in how many items they show, so the larger page serves both.
type pageKey struct{ field, arguments string }

// pageKeyOf is the key of the page that a field requests. A page with the argument newerThan also has posts from before its position,
// and cannot be cut. A page with the argument before has its size in last. So each of these is a page of its own. Arguments that are
// left out have their defaults here, so an explicit default is the same page.
func pageKeyOf(field *ast.Field, variables map[string]any) pageKey {
	arguments := field.ArgumentMap(variables)
	if arguments["newerThan"] == nil && arguments["last"] == nil && arguments["before"] == nil {
		delete(arguments, "first")
	}
	return pageKey{field.ObjectDefinition.Name + "." + field.Name, fmt.Sprintf("%#v", arguments)} // ["a", "b"] is not ["a b"]
}

// pageRequest is a field that requests a page, and the size that it requests.
type pageRequest struct {
	field *ast.Field
	size  int
}

// sharedPage reads a page of the viewer's list once for all fields of the operation that request it, with the largest of their
// sizes. size is the number of items that the field of the context shows: see trimPage. The page is a copy, so that each field may
// cut its own. With aliases a client can ask for one list several times: without sharedPage each alias would be a statement. A
// field whose own size is wrong takes no part, and reports its error when it is resolved.
func sharedPage[C any](ctx context.Context, first *int, read func(ctx context.Context, askers []pageRequest, size int) (*C, error)) (page C, size int, err error) {
	if size, err = pageSize(first); err != nil {
		return page, 0, err
	}
	field, variables := fieldOf(ctx), graphql.GetOperationContext(ctx).Variables
	key := pageKeyOf(field, variables)
	// The first field to run reads for the others, which wait for it. That field is the first of the askers.
	whole, err := dataloader.ReadShared(ctx, key, func(ctx context.Context) (*C, error) {
		askers, largest := []pageRequest{{field, size}}, size
		for _, other := range selectedFieldsOf(ctx)[key.field] {
			if other == field || pageKeyOf(other, variables) != key {
				continue
			}
			if size, err := requestedSize(other, variables); err == nil {
				askers, largest = append(askers, pageRequest{other, size}), max(largest, size)
			}
		}
		return read(ctx, askers, largest)
	})
	if err == nil {
		page = *whole
	}
	return page, size, err
}

// payloadSelects reports whether one of these fields is selected in the payload of the mutation that a context resolves.
func payloadSelects(ctx context.Context, fields ...string) bool {
	payload, all := fieldOf(ctx).Definition.Type.Name(), selectedFieldsOf(ctx)
	return slices.ContainsFunc(fields, func(name string) bool { return len(all[payload+"."+name]) > 0 })
}

// fieldOf is the field that is resolved in a context.
func fieldOf(ctx context.Context) *ast.Field { return graphql.GetFieldContext(ctx).Field.Field }

// requestedSize is the size of the page that a field requests. It is for looking ahead: a field that the executor has not reached
// yet has its arguments only in the document.
func requestedSize(field *ast.Field, variables map[string]any) (int, error) {
	var err error
	first := argument(field.ArgumentMap(variables), "first", graph.UnmarshalInt, &err)
	if err != nil {
		return 0, err
	}
	return pageSize(first)
}

// trimPage shortens a page that was read with a larger size to its first edges, and moves its end cursor to the last edge that is
// left. The edges that are cut off exist, so there is a next page, even if the larger page was the last one.
func trimPage[E any](edges []E, size int, info *graph.PageInfo, cursor func(*E) *string) []E {
	if len(edges) <= size {
		return edges
	}
	info.HasNextPage, info.EndCursor = true, cursor(&edges[size-1])
	return edges[:size]
}

// nodesOf lists the nodes of a page's edges. A connection has nodes beside edges for clients that need no cursors.
func nodesOf[E, N any](edges []E, node func(*E) *N) []N {
	nodes := make([]N, len(edges))
	for i := range edges {
		nodes[i] = *node(&edges[i])
	}
	return nodes
}
