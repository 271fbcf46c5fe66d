package resolvers

import (
	"strconv"

	"github.com/vektah/gqlparser/v2/ast"

	"tidings/graph"
	"tidings/services"
)

// gqlgen's executor supports fields that fail, wait or run in parallel. A selection of plain fields of a value that is already read
// needs none of that. It is compiled once for each document, into a function that appends JSON. A selection that is not plain is not
// compiled, and the executor answers it. So this code need not support all of GraphQL, as long as it compiles nothing that it does not
// support.

// writer appends the JSON of a value. It reads only, cannot fail, and may be used by many goroutines. It must not keep value
// or anything in it: the caller writes the next item into the same memory.
type writer[T any] func(to []byte, value *T) []byte

// fieldCompiler makes the writer of one field, given its selection; nil if it cannot be compiled. It runs once for a document, so that no
// request has to look at the selection.
type fieldCompiler[T any] func(selected ast.SelectionSet) writer[T]

// objectCompiler is the compiler of a type of the schema: a fieldCompiler for each field. The executor answers a selection that has a field
// without one. A test compares both answers for every field. A type that contains itself, as a post contains its parent,
// cannot be a field of itself: Go refuses the cycle of initialisation.
type objectCompiler[T any] struct {
	name   string
	fields map[string]fieldCompiler[T]
}

// plainFields is the selection of a type with its fragments expanded. It returns false if the selection has directives, repeats a key
// of the answer (which may need a merge), or has a fragment on another type: the executor then does the work. It does not look at
// variables, because a document is compiled once for all of their values. A fragment on the type itself is plain, because every value
// of the selection has that type.
func plainFields(kind string, selected ast.SelectionSet) (fields []*ast.Field, plain bool) {
	known := map[string]bool{}
	var add func(selected ast.SelectionSet) bool
	add = func(selected ast.SelectionSet) bool {
		for _, selection := range selected {
			switch s := selection.(type) {
			// Two fields under one key are legal if they are equal, and the executor then merges their selections.
			case *ast.Field:
				if len(s.Directives) > 0 || known[s.Alias] {
					return false
				}
				known[s.Alias] = true
				fields = append(fields, s)
			case *ast.InlineFragment:
				if len(s.Directives) > 0 || s.TypeCondition != "" && s.TypeCondition != kind || !add(s.SelectionSet) {
					return false
				}
			// If a fragment is used a second time, its keys are repeated, so add stops there. So fragments within fragments cannot make
			// it run for long.
			case *ast.FragmentSpread:
				if len(s.Directives) > 0 || s.Definition == nil || s.Definition.TypeCondition != kind || !add(s.Definition.SelectionSet) {
					return false
				}
			}
		}
		return true
	}
	plain = add(selected) && len(fields) > 0
	return fields, plain
}

// compile makes the writer of a selection; nil if the selection is not plain or has a field that cannot be compiled. One such field
// anywhere below is enough to leave the whole selection to the executor. The writer writes the fields in the order of the document, as
// an answer must have them.
func (o objectCompiler[T]) compile(selected ast.SelectionSet) writer[T] {
	type part struct {
		key   []byte
		write writer[T]
	}
	fields, plain := plainFields(o.name, selected)
	if !plain {
		return nil
	}
	var parts []part
	for _, field := range fields {
		write := o.compileField(field)
		if write == nil {
			return nil
		}
		parts = append(parts, part{key: appendKey(nil, field), write: write})
	}
	return func(to []byte, value *T) []byte {
		to = append(to, '{')
		for i, part := range parts {
			if i > 0 {
				to = append(to, ',')
			}
			to = part.write(append(to, part.key...), value)
		}
		return append(to, '}')
	}
}

// appendKey writes the key of a field in the answer. The key is a name in GraphQL's syntax, so it has no character that must be
// escaped.
func appendKey(to []byte, field *ast.Field) []byte {
	return append(strconv.AppendQuote(to, field.Alias), ':')
}

// compileField makes the writer of one field; nil if the field has arguments or no compiler. A field with arguments is refused, because
// a writer does not get the variables.
func (o objectCompiler[T]) compileField(field *ast.Field) writer[T] {
	switch {
	case len(field.Arguments) > 0:
		return nil
	case field.Name == "__typename":
		// The type is known, because no interface or union is compiled.
		name := strconv.AppendQuote(nil, o.name)
		return func(to []byte, _ *T) []byte { return append(to, name...) }
	}
	make, known := o.fields[field.Name]
	if !known {
		return nil
	}
	return make(field.SelectionSet)
}

// leaf returns the compiler for a field without fields of its own. It ignores the selection: the document has been validated, so a leaf
// has none.
func leaf[T any](write writer[T]) fieldCompiler[T] {
	return func(ast.SelectionSet) writer[T] { return write }
}

// objectField returns the compiler for a field with fields of its own. get must not return nil: a field that can be null is a leaf, or is not
// compiled. get returns a pointer into the value, so that nothing is copied and nothing is allocated for each item.
func objectField[T, U any](get func(*T) *U, of objectCompiler[U]) fieldCompiler[T] {
	return func(selected ast.SelectionSet) writer[T] {
		write := of.compile(selected)
		if write == nil {
			return nil
		}
		return func(to []byte, value *T) []byte { return write(to, get(value)) }
	}
}

// listField returns the compiler for a field with a list of values that have fields of their own. A nil list is written as [], because no
// list in a compiled type can be null.
func listField[T, U any](get func(*T) []U, of objectCompiler[U]) fieldCompiler[T] {
	return func(selected ast.SelectionSet) writer[T] {
		write := of.compile(selected)
		if write == nil {
			return nil
		}
		return func(to []byte, value *T) []byte {
			to = append(to, '[')
			for i, items := 0, get(value); i < len(items); i++ {
				if i > 0 {
					to = append(to, ',')
				}
				to = write(to, &items[i])
			}
			return append(to, ']')
		}
	}
}

// appendTextOrNull writes "" as null.
func appendTextOrNull(to []byte, text string) []byte {
	if text == "" {
		return append(to, "null"...)
	}
	return graph.AppendText(to, text)
}

// appendID writes a global ID in the form of services.GlobalID. A key that needs no escapes is written as it is, and an escaped
// key needs no further escapes for JSON.
func appendID(to []byte, kind, key string) []byte {
	to = append(append(append(to, '"'), kind...), ':')
	return append(services.AppendEscapedKey(to, key), '"')
}
