package transport

import (
	"github.com/vektah/gqlparser/v2/ast"

	"tidings/services"
)

// DocumentLimits bounds the form of a document. All counts are taken after fragments are expanded, so that a fragment spread twice
// counts twice: forty fragments that each spread the next one twice are a short text with a trillion fields. A zero field means its
// default.
type DocumentLimits struct {
	Depth      int `name:"query-depth" default:"12" placeholder:"LEVELS" min:"1" max:"100" help:"the most levels of fields in a query; introspection has bounds of its own"`
	Fields     int `name:"query-fields" default:"300" placeholder:"FIELDS" min:"1" max:"10000" help:"the most fields in a query; a fragment counts wherever it is spread"`
	Aliases    int `name:"query-aliases" default:"30" placeholder:"COUNT" min:"1" max:"10000" help:"the most aliases in a query"`
	Directives int `name:"query-directives" default:"30" placeholder:"COUNT" min:"1" max:"10000" help:"the most directives in a query"`
	RootFields int `name:"query-root-fields" default:"10" placeholder:"FIELDS" min:"1" max:"1000" help:"the most fields at the root of a query, and so the most mutations in a document"`
}

// Introspection has bounds of its own: the queries of tools have 15 levels and about 250 fields.
const (
	maxIntrospectionDepth      = 20  // levels of introspection fields in an operation
	maxIntrospectionFields     = 500 // introspection fields of a document
	maxIntrospectionRootFields = 2   // __schema and __type together

	// Validation compares each pair of fields that share a name in one selection set. It repeats that for each fragment around them.
	// Without these bounds a document of 4 KB would take a second.
	maxSameNameFields = 30 // fields of one name in one selection set
	maxFragmentDepth  = 12 // levels of fragments, inline or spread

	maxNameBytes = 100 // bytes of a name in a document
	// countCeiling keeps sums and products far below the largest int, and is far above every limit.
	countCeiling = 1e12 // counts stop here
)

// selectionSize is the size of a selection set with its fragments expanded. The zero value is an empty one.
type selectionSize struct {
	depth, fields, aliases, directives, rootFields int // the numbers that DocumentLimits bounds

	fragmentDepth        int            // levels of fragments within each other
	fieldsByResponseName map[string]int // the number of fields for each key of the answer on the first level
	mostSameNameFields   int            // the most fields with one key of the answer, on any level

	// These count introspection: the levels and the fields of __schema and __type, with everything below them, and how often __schema
	// and __type themselves appear.
	introspectedDepth, introspectedFields, introspectedRootFields int
}

// add adds the size of a sibling selection to e. Of two numbers of levels, or of mostSameNameFields, the larger one stays; the other
// numbers are summed. Fields of both with one name on the first level are in one selection set, so their numbers are summed too.
func (e *selectionSize) add(other selectionSize) {
	// Levels first, then the names of the first level, then the sums.
	e.depth, e.introspectedDepth = max(e.depth, other.depth), max(e.introspectedDepth, other.introspectedDepth)
	e.fragmentDepth, e.mostSameNameFields = max(e.fragmentDepth, other.fragmentDepth), max(e.mostSameNameFields, other.mostSameNameFields)
	if e.fieldsByResponseName == nil && len(other.fieldsByResponseName) > 0 {
		e.fieldsByResponseName = make(map[string]int, len(other.fieldsByResponseName))
	}
	for name, times := range other.fieldsByResponseName {
		times = min(e.fieldsByResponseName[name]+times, countCeiling)
		e.fieldsByResponseName[name], e.mostSameNameFields = times, max(e.mostSameNameFields, times)
	}
	for _, sum := range []struct {
		to *int
		by int
	}{
		{&e.fields, other.fields},
		{&e.aliases, other.aliases},
		{&e.directives, other.directives},
		{&e.rootFields, other.rootFields},
		{&e.introspectedFields, other.introspectedFields},
		{&e.introspectedRootFields, other.introspectedRootFields},
	} {
		*sum.to = min(*sum.to+sum.by, countCeiling)
	}
}

// documentMeasurer measures a parsed document that is not validated: names may be unknown, and fragments may be missing or spread
// themselves. It visits each selection once, so that its time is proportional to the length of the text. It serves one document.
type documentMeasurer struct {
	fragments         map[string]*ast.FragmentDefinition // by name
	fragmentSizes     map[string]selectionSize           // by name; a fragment that spreads itself counts as empty: validation refuses it
	longestNameBytes  int                                // bytes of the longest name
	nameAndValueCount int                                // names and values, about as many as the document has parts in memory
}

// newDocumentMeasurer makes the measurer of a document. Of two fragments with one name the first counts; validation refuses the
// second.
func newDocumentMeasurer(doc *ast.QueryDocument) *documentMeasurer {
	g := &documentMeasurer{fragments: make(map[string]*ast.FragmentDefinition, len(doc.Fragments)), fragmentSizes: make(map[string]selectionSize, len(doc.Fragments))}
	for _, fragment := range doc.Fragments {
		if _, twice := g.fragments[fragment.Name]; !twice {
			g.fragments[fragment.Name] = fragment
		}
	}
	return g
}

// check returns an error if a document exceeds the bounds: INVALID, with the count and the limit. It also counts the names and values
// of the text, which is about the number of the document's parts in memory. Depth and root fields are bounded for each operation, because
// only one operation is executed. The other numbers are bounded for the whole document, because all of it is validated.
func (s DocumentLimits) check(doc *ast.QueryDocument) (parts int, err error) {
	g := newDocumentMeasurer(doc)
	var whole selectionSize
	deepest, roots := 0, 0
	// Each operation is a tree of its own; only one of them will run, but all are validated.
	for _, operation := range doc.Operations {
		one := g.measureOperation(operation)
		deepest, roots = max(deepest, one.depth), max(roots, one.rootFields)
		one.fieldsByResponseName = nil // the roots of two operations are separate selection sets
		whole.add(one)
	}
	for _, fragment := range doc.Fragments {
		if _, spread := g.fragmentSizes[fragment.Name]; !spread { // validation would visit it, and all fragments that it spreads
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
		{whole.mostSameNameFields, maxSameNameFields, "fields with the same response name"},
		{whole.fragmentDepth, maxFragmentDepth, "levels of fragments"},
		{whole.introspectedRootFields, maxIntrospectionRootFields, "introspection fields at the root"},
		{whole.introspectedDepth, maxIntrospectionDepth, "levels of introspection fields"},
		{whole.introspectedFields, maxIntrospectionFields, "introspection fields"},
	} {
		if bound.count > bound.limit {
			return 0, services.Errorf(services.Invalid, "query: %d %s with its fragments expanded, up to %d are allowed", bound.count, bound.of, bound.limit)
		}
	}
	if g.longestNameBytes > maxNameBytes {
		return 0, services.Errorf(services.Invalid, "query: a name of %d bytes, up to %d are allowed", g.longestNameBytes, maxNameBytes)
	}
	return g.nameAndValueCount, nil
}

// measureOperation measures one operation. Its variables have names, types, defaults and directives, all of which validation visits.
func (g *documentMeasurer) measureOperation(operation *ast.OperationDefinition) selectionSize {
	g.countName(operation.Name)
	for _, variable := range operation.VariableDefinitions {
		g.countName(variable.Variable)
		g.countName(variable.Type.Name())
		g.countValue(variable.DefaultValue)
	}
	whole := g.measureSelections(operation.SelectionSet)
	whole.add(g.measureDirectives(operation.Directives))
	for _, variable := range operation.VariableDefinitions {
		whole.add(g.measureDirectives(variable.Directives))
	}
	return whole
}

// measureSelections measures a selection set; its root fields are those of its first level.
func (g *documentMeasurer) measureSelections(set ast.SelectionSet) (whole selectionSize) {
	for _, selection := range set {
		switch one := selection.(type) {
		case *ast.Field:
			whole.add(g.measureField(one))
		case *ast.InlineFragment:
			g.countName(one.TypeCondition)
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

// addFragmentLevel returns the size that a fragment has where it is spread: one level of fragments more.
func addFragmentLevel(inner selectionSize) selectionSize {
	inner.fragmentDepth = min(inner.fragmentDepth+1, countCeiling)
	return inner
}

// measureField measures a field with the fields below it. An introspection field counts as one ordinary field. Its levels and
// its fields, itself included, count against bounds of their own.
func (g *documentMeasurer) measureField(field *ast.Field) selectionSize {
	g.countName(field.Name)
	g.countName(field.Alias)
	g.countArguments(field.Arguments)
	whole := g.measureSelections(field.SelectionSet)
	// The field itself adds one level and one field to those below it, and is the only root field.
	whole.depth, whole.fields, whole.rootFields = min(whole.depth+1, countCeiling), min(whole.fields+1, countCeiling), 1
	whole.fieldsByResponseName = map[string]int{field.Alias: 1}
	// The fields below __schema and __type do not count against the bounds of ordinary fields.
	if field.Name == "__schema" || field.Name == "__type" {
		whole.introspectedDepth, whole.introspectedFields, whole.introspectedRootFields = max(whole.introspectedDepth, whole.depth), whole.introspectedFields+whole.fields, whole.introspectedRootFields+1
		whole.depth, whole.fields = 1, 1
	}
	if field.Alias != field.Name {
		whole.aliases = min(whole.aliases+1, countCeiling)
	}
	whole.add(g.measureDirectives(field.Directives))
	return whole
}

// measureFragment measures a fragment at its first spread, and remembers the result. It is entered as empty before it is measured, so
// that measuring a fragment that spreads itself ends.
func (g *documentMeasurer) measureFragment(name string) selectionSize {
	g.countName(name)
	known, done := g.fragmentSizes[name]
	if done {
		return known
	}
	definition := g.fragments[name]
	// Validation reports the missing fragment.
	if definition == nil {
		return selectionSize{}
	}
	g.fragmentSizes[name] = selectionSize{}
	g.countName(definition.TypeCondition)
	whole := g.measureSelections(definition.SelectionSet)
	whole.add(g.measureDirectives(definition.Directives))
	g.fragmentSizes[name] = whole
	return whole
}

// measureDirectives measures the directives of one place.
func (g *documentMeasurer) measureDirectives(list ast.DirectiveList) selectionSize {
	for _, directive := range list {
		g.countName(directive.Name)
		g.countArguments(directive.Arguments)
	}
	return selectionSize{directives: len(list)}
}

// countArguments counts the names and values in arguments.
func (g *documentMeasurer) countArguments(list ast.ArgumentList) {
	for _, argument := range list {
		g.countName(argument.Name)
		g.countValue(argument.Value)
	}
}

// countValue counts a value with the values in it, and their names: of variables, enums and fields of objects.
func (g *documentMeasurer) countValue(value *ast.Value) {
	if value == nil {
		return
	}
	g.nameAndValueCount++
	if value.Kind == ast.Variable || value.Kind == ast.EnumValue {
		g.countName(value.Raw)
	}
	for _, child := range value.Children {
		g.countName(child.Name)
		g.countValue(child.Value)
	}
}

// countName counts one name of the document, even an empty one, and keeps the length of the longest.
func (g *documentMeasurer) countName(name string) {
	g.longestNameBytes = max(g.longestNameBytes, len(name))
	g.nameAndValueCount++
}
