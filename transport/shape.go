package transport

import (
	"github.com/vektah/gqlparser/v2/ast"

	"tidings/services"
)

// Shape bounds the form of a document. All counts are taken after fragments are expanded, so that a fragment spread twice counts
// twice: forty fragments that each spread the next one twice are a short text with a trillion fields. A zero field means its
// default.
type Shape struct {
	Depth      int // levels of fields of one operation; default 12
	Fields     int // fields of a document; default 300
	Aliases    int // fields of a document with an alias; default 30
	Directives int // directives of a document; default 30
	RootFields int // fields at the root of one operation; default 10
}

// Introspection has bounds of its own: the queries of tools have 15 levels and about 250 fields.
const (
	introspectionDepth  = 20  // levels
	introspectionFields = 500 // fields of a document
	introspectionRoots  = 2   // __schema and __type together

	// Validation compares each pair of fields that share a name in one selection set. It repeats that for each fragment around them.
	// Without these bounds a document of 4 KB would take a second.
	maxRepeats   = 30 // fields of one name in one selection set
	maxFragments = 12 // levels of fragments, inline or spread

	maxName = 100 // bytes of a name in a document
	// maxCount keeps sums and products far below the largest int, and is far above every limit.
	maxCount = 1e12 // counts stop here
)

// withDefaults sets the bounds that are zero to their defaults.
func (s Shape) withDefaults() Shape {
	for _, limit := range []struct {
		of    *int
		value int
	}{{&s.Depth, 12}, {&s.Fields, 300}, {&s.Aliases, 30}, {&s.Directives, 30}, {&s.RootFields, 10}} {
		if *limit.of == 0 {
			*limit.of = limit.value
		}
	}
	return s
}

// extent is the size of a selection set with its fragments expanded. The zero value is an empty one.
type extent struct {
	depth, fields, aliases, directives, roots int

	fragments int            // levels
	names     map[string]int // the number of fields for each key of the answer on the first level
	repeats   int            // the largest such number on any level

	// These count introspection: the levels and the fields of __schema and __type, with everything below them, and how often __schema
	// and __type themselves appear.
	introspectedDepth, introspectedFields, introspectedRoots int
}

// add adds the extent of a sibling to e: of two numbers of levels, or of repeats, the larger one stays, and the other numbers are
// summed. Fields of both with one name on the first level are in one selection set, so they repeat each other.
func (e *extent) add(other extent) {
	// Levels first, then the names of the first level, then the sums.
	e.depth, e.introspectedDepth = max(e.depth, other.depth), max(e.introspectedDepth, other.introspectedDepth)
	e.fragments, e.repeats = max(e.fragments, other.fragments), max(e.repeats, other.repeats)
	if e.names == nil && len(other.names) > 0 {
		e.names = make(map[string]int, len(other.names))
	}
	for name, times := range other.names {
		times = min(e.names[name]+times, maxCount)
		e.names[name], e.repeats = times, max(e.repeats, times)
	}
	for _, sum := range []struct {
		to *int
		by int
	}{
		{&e.fields, other.fields},
		{&e.aliases, other.aliases},
		{&e.directives, other.directives},
		{&e.roots, other.roots},
		{&e.introspectedFields, other.introspectedFields},
		{&e.introspectedRoots, other.introspectedRoots},
	} {
		*sum.to = min(*sum.to+sum.by, maxCount)
	}
}

// shapeMeasurer measures a parsed document that is not validated: names may be unknown, and fragments may be missing or spread
// themselves. It visits each selection once, so that its time is proportional to the length of the text. It serves one document.
type shapeMeasurer struct {
	fragments map[string]*ast.FragmentDefinition // by name
	measured  map[string]extent                  // by name; a fragment that spreads itself counts as empty: validation refuses it
	longest   int                                // bytes of the longest name
	parts     int                                // names and values, about as many as the document has parts in memory
}

// newShapeMeasurer makes the measurer of a document. Of two fragments with one name the first counts; validation refuses the second.
func newShapeMeasurer(doc *ast.QueryDocument) *shapeMeasurer {
	g := &shapeMeasurer{fragments: make(map[string]*ast.FragmentDefinition, len(doc.Fragments)), measured: make(map[string]extent, len(doc.Fragments))}
	for _, fragment := range doc.Fragments {
		if _, twice := g.fragments[fragment.Name]; !twice {
			g.fragments[fragment.Name] = fragment
		}
	}
	return g
}

// check returns an error if a document exceeds the bounds: INVALID, with the count and the limit. It also counts the names and values
// of the text, which is about the number of the document's parts in memory. Depth and roots are bounded for each operation, because
// only one operation is executed. The other numbers are bounded for the whole document, because all of it is validated.
func (s Shape) check(doc *ast.QueryDocument) (parts int, err error) {
	g := newShapeMeasurer(doc)
	var whole extent
	deepest, roots := 0, 0
	// Each operation is a tree of its own; only one of them will run, but all are validated.
	for _, operation := range doc.Operations {
		one := g.measureOperation(operation)
		deepest, roots = max(deepest, one.depth), max(roots, one.roots)
		one.names = nil // the roots of two operations are separate selection sets
		whole.add(one)
	}
	for _, fragment := range doc.Fragments {
		if _, spread := g.measured[fragment.Name]; !spread { // validation would visit it, and all fragments that it spreads
			return 0, services.Errorf(services.Invalid, "query: the fragment %s is never used", services.Quote(fragment.Name))
		}
	}
	for _, bound := range []struct {
		count, limit int
		of           string
	}{
		{deepest, s.Depth, "levels of fields"},
		{whole.fields, s.Fields, "fields"},
		{whole.aliases, s.Aliases, "aliases"},
		{whole.directives, s.Directives, "directives"},
		{roots, s.RootFields, "fields at the root"},
		{whole.repeats, maxRepeats, "fields with the same response name"},
		{whole.fragments, maxFragments, "levels of fragments"},
		{whole.introspectedRoots, introspectionRoots, "introspection fields at the root"},
		{whole.introspectedDepth, introspectionDepth, "levels of introspection fields"},
		{whole.introspectedFields, introspectionFields, "introspection fields"},
	} {
		if bound.count > bound.limit {
			return 0, services.Errorf(services.Invalid, "query: %d %s with its fragments expanded, up to %d are allowed", bound.count, bound.of, bound.limit)
		}
	}
	if g.longest > maxName {
		return 0, services.Errorf(services.Invalid, "query: a name of %d bytes, up to %d are allowed", g.longest, maxName)
	}
	return g.parts, nil
}

// measureOperation measures one operation. Its variables have names, types, defaults and directives, all of which validation visits.
func (g *shapeMeasurer) measureOperation(operation *ast.OperationDefinition) extent {
	g.noteName(operation.Name)
	for _, variable := range operation.VariableDefinitions {
		g.noteName(variable.Variable)
		g.noteName(variable.Type.Name())
		g.noteValue(variable.DefaultValue)
	}
	whole := g.measureSelections(operation.SelectionSet)
	whole.add(g.measureDirectives(operation.Directives))
	for _, variable := range operation.VariableDefinitions {
		whole.add(g.measureDirectives(variable.Directives))
	}
	return whole
}

// measureSelections measures a selection set; its roots are the fields of its first level.
func (g *shapeMeasurer) measureSelections(set ast.SelectionSet) (whole extent) {
	for _, selection := range set {
		switch one := selection.(type) {
		case *ast.Field:
			whole.add(g.measureField(one))
		case *ast.InlineFragment:
			g.noteName(one.TypeCondition)
			whole.add(g.measureDirectives(one.Directives))
			whole.add(addFragmentLevel(g.measureSelections(one.SelectionSet)))
		case *ast.FragmentSpread:
			whole.add(g.measureDirectives(one.Directives))
			// A fragment is measured once and added at each spread: the counts grow with the expansion, the work does not.
			whole.add(addFragmentLevel(g.measureFragment(one.Name)))
		}
	}
	return whole
}

// addFragmentLevel returns the extent that a fragment has where it is spread: one level of fragments more.
func addFragmentLevel(inner extent) extent {
	inner.fragments = min(inner.fragments+1, maxCount)
	return inner
}

// measureField measures a field with the fields below it. An introspection field counts as one plain field, and its own depth and fields
// count against bounds of their own.
func (g *shapeMeasurer) measureField(field *ast.Field) extent {
	g.noteName(field.Name)
	g.noteName(field.Alias)
	g.noteArguments(field.Arguments)
	whole := g.measureSelections(field.SelectionSet)
	// The field itself adds one level and one field to those below it, and is the only root.
	whole.depth, whole.fields, whole.roots = min(whole.depth+1, maxCount), min(whole.fields+1, maxCount), 1
	whole.names = map[string]int{field.Alias: 1}
	// The fields below __schema and __type do not count against the bounds of ordinary fields.
	if field.Name == "__schema" || field.Name == "__type" {
		whole.introspectedDepth, whole.introspectedFields, whole.introspectedRoots = max(whole.introspectedDepth, whole.depth), whole.introspectedFields+whole.fields, whole.introspectedRoots+1
		whole.depth, whole.fields = 1, 1
	}
	if field.Alias != field.Name {
		whole.aliases = min(whole.aliases+1, maxCount)
	}
	whole.add(g.measureDirectives(field.Directives))
	return whole
}

// measureFragment measures a fragment at its first spread, and remembers the result. It is entered as empty before it is measured, so
// that measuring a fragment that spreads itself ends.
func (g *shapeMeasurer) measureFragment(name string) extent {
	g.noteName(name)
	known, done := g.measured[name]
	if done {
		return known
	}
	definition := g.fragments[name]
	// Validation reports the missing fragment.
	if definition == nil {
		return extent{}
	}
	g.measured[name] = extent{}
	g.noteName(definition.TypeCondition)
	whole := g.measureSelections(definition.SelectionSet)
	whole.add(g.measureDirectives(definition.Directives))
	g.measured[name] = whole
	return whole
}

// measureDirectives measures the directives of one place.
func (g *shapeMeasurer) measureDirectives(list ast.DirectiveList) extent {
	for _, directive := range list {
		g.noteName(directive.Name)
		g.noteArguments(directive.Arguments)
	}
	return extent{directives: len(list)}
}

// noteArguments notes the names in arguments, and counts their parts.
func (g *shapeMeasurer) noteArguments(list ast.ArgumentList) {
	for _, argument := range list {
		g.noteName(argument.Name)
		g.noteValue(argument.Value)
	}
}

// noteValue notes the names in a value: the names of variables, enums and fields of objects.
func (g *shapeMeasurer) noteValue(value *ast.Value) {
	if value == nil {
		return
	}
	g.parts++
	if value.Kind == ast.Variable || value.Kind == ast.EnumValue {
		g.noteName(value.Raw)
	}
	for _, child := range value.Children {
		g.noteName(child.Name)
		g.noteValue(child.Value)
	}
}

// noteName notes one name of the document, even an empty one.
func (g *shapeMeasurer) noteName(name string) {
	g.longest = max(g.longest, len(name))
	g.parts++
}
