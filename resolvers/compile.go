package resolvers

import (
	"bytes"
	"strconv"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"

	"tidings/graph"
)

// A selection of plain fields of a value that is already there needs none of what execution has for fields that fail,
// wait or run side by side. It is compiled once for each document into a function that appends JSON.

// writer appends the JSON of a value.
type writer[T any] func(to []byte, value *T) []byte

// member makes the writer of one field for what is selected below it; nil when that cannot be compiled.
type member[T any] func(selected ast.SelectionSet) writer[T]

// object is how a type of the schema is written, by its fields.
type object[T any] struct {
	name    string
	members map[string]member[T]
}

// compile makes the writer of a selection, nil for one that has directives, repeats an answer's key, which may need a
// merge, or names a field that is not compiled: then execution does it.
func (o object[T]) compile(selected ast.SelectionSet) writer[T] {
	type part struct {
		key   []byte
		write writer[T]
	}
	var parts []part
	known := map[string]bool{}
	var add func(selected ast.SelectionSet) bool
	add = func(selected ast.SelectionSet) bool {
		for _, selection := range selected {
			switch s := selection.(type) {
			case *ast.Field:
				write := o.field(s)
				if write == nil || known[s.Alias] {
					return false
				}
				known[s.Alias] = true
				parts = append(parts, part{key: append(strconv.AppendQuote(nil, s.Alias), ':'), write: write})
			case *ast.InlineFragment:
				if len(s.Directives) > 0 || s.TypeCondition != "" && s.TypeCondition != o.name || !add(s.SelectionSet) {
					return false
				}
			case *ast.FragmentSpread:
				if len(s.Directives) > 0 || s.Definition == nil || s.Definition.TypeCondition != o.name || !add(s.Definition.SelectionSet) {
					return false
				}
			}
		}
		return true
	}
	if !add(selected) || len(parts) == 0 {
		return nil
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

func (o object[T]) field(field *ast.Field) writer[T] {
	switch {
	case len(field.Directives) > 0 || len(field.Arguments) > 0:
		return nil
	case field.Name == "__typename":
		name := strconv.AppendQuote(nil, o.name)
		return func(to []byte, _ *T) []byte { return append(to, name...) }
	}
	make, known := o.members[field.Name]
	if !known {
		return nil
	}
	return make(field.SelectionSet)
}

// leaf is a field without fields of its own.
func leaf[T any](write writer[T]) member[T] {
	return func(ast.SelectionSet) writer[T] { return write }
}

// within is a field with fields of its own.
func within[T, U any](get func(*T) *U, of object[U]) member[T] {
	return func(selected ast.SelectionSet) writer[T] {
		write := of.compile(selected)
		if write == nil {
			return nil
		}
		return func(to []byte, value *T) []byte { return write(to, get(value)) }
	}
}

// listed is a field with a list of values that have fields of their own.
func listed[T, U any](get func(*T) []U, of object[U]) member[T] {
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

// appendText writes a string as execution does.
func appendText(to []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c == '"' || c == '\\' {
			buffer := bytes.NewBuffer(to)
			graphql.MarshalString(text).MarshalGQL(buffer)
			return buffer.Bytes()
		}
	}
	to = append(to, '"')
	to = append(to, text...)
	return append(to, '"')
}

func appendTime(to []byte, t time.Time) []byte {
	buffer := bytes.NewBuffer(to)
	graph.MarshalTime(t).MarshalGQL(buffer)
	return buffer.Bytes()
}
