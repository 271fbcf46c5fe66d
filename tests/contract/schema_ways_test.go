package contract

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"tidings/tests/world"
)

// schemaShape is the schema as introspection returns it.
type schemaShape struct {
	types map[string]shapeType
}

// shapeType is a type of the schema.
type shapeType struct {
	Kind, Name    string
	Fields        []shapeField
	InputFields   []shapeInput
	EnumValues    []struct{ Name string }
	PossibleTypes []struct{ Name string }
}

// shapeField is a field of a type, with its arguments.
type shapeField struct {
	Name string
	Args []shapeInput
	Type shapeRef
}

// shapeInput is an argument, or a field of an input.
type shapeInput struct {
	Name         string
	Type         shapeRef
	DefaultValue *string
}

// shapeRef is the type of a field or of an input, with its lists and non-null marks.
type shapeRef struct {
	Kind   string
	Name   *string
	OfType *shapeRef // the type within a list or a non-null type
}

// namedType returns the type without its lists and non-null marks.
func (r shapeRef) namedType() string {
	for r.OfType != nil {
		r = *r.OfType
	}
	return *r.Name
}

func (r shapeRef) required() bool { return r.Kind == "NON_NULL" }

// isList reports whether the type is a list, or a list that is not null.
func (r shapeRef) isList() bool {
	return r.Kind == "LIST" || r.OfType != nil && r.OfType.isList()
}

// text prints the type as a variable declares it.
func (r shapeRef) text() string {
	switch r.Kind {
	case "NON_NULL":
		return r.OfType.text() + "!"
	case "LIST":
		return "[" + r.OfType.text() + "]"
	}
	return *r.Name
}

// introspection is the query for the whole schema.
const introspection = `{__schema{types{kind name possibleTypes{name} enumValues{name}
	fields{name type{...ref} args{name defaultValue type{...ref}}} inputFields{name defaultValue type{...ref}}}}}
	fragment ref on __Type{kind name ofType{kind name ofType{kind name ofType{kind name}}}}`

// readShape reads the schema of a node by introspection.
func readShape(n *world.Node) schemaShape {
	n.TB.Helper()
	var data struct {
		Schema struct{ Types []shapeType } `json:"__schema"`
	}
	n.Must("alice", introspection, nil, &data)
	s := schemaShape{types: map[string]shapeType{}}
	for _, t := range data.Schema.Types {
		s.types[t.Name] = t
	}
	return s
}

// idArgument is an argument, or a field of an input, that takes an ID. path leads to the field with the argument. in is the argument and
// the fields of inputs from there to the ID.
type idArgument struct {
	root string // Query, Mutation or Subscription
	path []shapeField
	in   []shapeInput
}

// name returns the argument with dots between its parts: Mutation.follow.input.userId.
func (w idArgument) name() string {
	parts := []string{w.root}
	for _, field := range w.path {
		parts = append(parts, field.Name)
	}
	for _, input := range w.in {
		parts = append(parts, input.Name)
	}
	return strings.Join(parts, ".")
}

// idArguments lists every argument of type ID that can be reached from a root, with one shortest path to each.
func (s schemaShape) idArguments() (found []idArgument) {
	type place struct {
		root, object string
		path         []shapeField
	}
	seen := map[string]bool{}
	queue := []place{{root: "Query", object: "Query"}, {root: "Mutation", object: "Mutation"}, {root: "Subscription", object: "Subscription"}}
	var abstract []place // a path through an interface is used only for types that no other path reaches
	for len(queue)+len(abstract) > 0 {
		if len(queue) == 0 {
			queue, abstract = abstract, nil
		}
		at := queue[0]
		queue = queue[1:]
		if seen[at.object] {
			continue
		}
		seen[at.object] = true
		for _, field := range s.types[at.object].Fields {
			path := append(slices.Clone(at.path), field)
			for _, argument := range field.Args {
				for _, in := range s.idPaths(argument, nil) {
					found = append(found, idArgument{at.root, path, in})
				}
			}
			next := &queue
			if s.types[field.Type.namedType()].Kind != "OBJECT" {
				next = &abstract
			}
			for _, object := range s.objects(field.Type.namedType()) {
				*next = append(*next, place{at.root, object, path})
			}
		}
	}
	return found
}

// objects returns the object types that a value of a type can have.
func (s schemaShape) objects(name string) (names []string) {
	switch t := s.types[name]; t.Kind {
	case "OBJECT":
		return []string{name}
	case "INTERFACE", "UNION":
		for _, possible := range t.PossibleTypes {
			names = append(names, possible.Name)
		}
	}
	return names
}

// idPaths lists the paths from an argument, or a field of an input, to every ID in it.
func (s schemaShape) idPaths(input shapeInput, before []shapeInput) (found [][]shapeInput) {
	if len(before) > 6 {
		panic("an input holds itself")
	}
	at := append(slices.Clone(before), input)
	switch t := s.types[input.Type.namedType()]; {
	case t.Name == "ID":
		return [][]shapeInput{at}
	case t.Kind == "INPUT_OBJECT":
		for _, field := range t.InputFields {
			found = append(found, s.idPaths(field, at)...)
		}
	}
	return found
}

// request returns the operation that sends an ID in an argument. Its variable v is the value of the argument.
func (s schemaShape) request(w idArgument, given map[string]any) string {
	target := w.path[len(w.path)-1]
	text := fmt.Sprintf("%s(%s:$v%s)%s", target.Name, w.in[0].Name, s.otherArguments(target, w.in[0].Name, given), s.selectType(target.Type.namedType(), 4))
	for _, field := range slices.Backward(w.path[:len(w.path)-1]) {
		if s.types[field.Type.namedType()].Kind != "OBJECT" {
			panic(w.name() + ": the path leads through an abstract type")
		}
		text = field.Name + "{" + text + "}"
	}
	return fmt.Sprintf("%s($v:%s){%s}", strings.ToLower(w.root), w.in[0].Type.text(), text)
}

// otherArguments returns the arguments of a field, other than but, that the request needs.
func (s schemaShape) otherArguments(field shapeField, but string, given map[string]any) (text string) {
	for _, argument := range field.Args {
		switch value := given[argument.Name]; {
		case argument.Name == but:
		case argument.Name == "sessionId" && value != nil: // because a position belongs to a session
			text += fmt.Sprintf(",%s:%q", argument.Name, value)
		case argument.Type.required() && argument.DefaultValue == nil:
			panic(fmt.Sprintf("say which %s to send where %s is required", argument.Type.text(), argument.Name))
		}
	}
	return text
}

// value returns the value of a request's variable, with id in its place. in leads from the argument to the ID: see idArgument. Other
// required fields get the value that given has for the field's name.
func (s schemaShape) value(in []shapeInput, id string, given map[string]any) (any, error) {
	first, rest := in[0], in[1:]
	var value any = id
	if len(rest) > 0 {
		fields := map[string]any{}
		for _, field := range s.types[first.Type.namedType()].InputFields {
			var err error
			switch {
			case field.Name == rest[0].Name:
				fields[field.Name], err = s.value(rest, id, given)
			case field.Type.required() && field.DefaultValue == nil, field.Name == "title", // a change requires one field to change
				field.Name == "as",        // a user's event requires the user
				field.Name == "replayUrl": // null, which removes it, is not the same as absence
				fields[field.Name], err = s.validValue(field, given)
			}
			if err != nil {
				return nil, err
			}
		}
		value = fields
	}
	if first.Type.isList() {
		value = []any{value}
	}
	return value, nil
}

// validValue returns a valid value for a required input.
func (s schemaShape) validValue(input shapeInput, given map[string]any) (value any, err error) {
	if value, ok := given[input.Name]; ok {
		return value, nil
	}
	switch t := s.types[input.Type.namedType()]; {
	case t.Name == "String":
		value = "x"
	case t.Name == "Int":
		value = 1
	case t.Name == "Boolean":
		value = true
	case t.Kind == "ENUM":
		value = t.EnumValues[0].Name
	default:
		return nil, fmt.Errorf("say which %s to send where %s is required", input.Type.text(), input.Name)
	}
	if input.Type.isList() {
		value = []any{value}
	}
	return value, nil
}

// selectType selects all fields of a type, to a depth, with the first two entries of lists. It omits badges, because they change;
// the viewer, because it contains everything; and a type within itself, such as a post within a post.
func (s schemaShape) selectType(name string, depth int, above ...string) string {
	t := s.types[name]
	above = append(slices.Clone(above), name)
	switch t.Kind {
	case "SCALAR", "ENUM":
		return ""
	case "INTERFACE", "UNION":
		if t.Kind == "INTERFACE" { // it has too many types for one operation of full depth
			depth, above = max(depth-1, 0), append(above, "PageInfo")
		}
		text := "{__typename"
		for _, object := range slices.Sorted(slices.Values(s.objects(name))) {
			if object != "Viewer" && object != "Badges" && !slices.Contains(above, object) {
				text += " ... on " + object + s.selectFields(object, depth, s.objects(name), append(above, object))
			}
		}
		return text + "}"
	}
	return s.selectFields(name, depth, nil, above)
}

// selectEvent selects all fields of an event of a subscription, including its counts.
func (s schemaShape) selectEvent(field shapeField) string {
	kind := field.Type.namedType()
	if kind == "Badges" {
		return "{" + world.BadgeFields + "}"
	}
	text := strings.TrimSuffix(s.selectType(kind, 4), "}")
	for _, field := range s.types[kind].Fields {
		if field.Type.namedType() == "BadgeCount" {
			text += " " + field.Name + "{value}"
		}
	}
	return text + "}"
}

// selectFields selects the fields of an object. If one of the other objects in the same selection has a field of the same name and
// another type, the field gets an alias.
func (s schemaShape) selectFields(object string, depth int, others, above []string) string {
	text := "{__typename"
	for _, field := range s.types[object].Fields {
		kind := field.Type.namedType()
		needs := slices.ContainsFunc(field.Args, func(a shapeInput) bool { return a.Type.required() && a.DefaultValue == nil })
		leaf := s.types[kind].Kind == "SCALAR" || s.types[kind].Kind == "ENUM"
		if needs || kind == "Badges" || kind == "BadgeCount" || kind == "Viewer" || !leaf && depth == 0 || slices.Contains(above, kind) {
			continue
		}
		text += " "
		if slices.ContainsFunc(others, func(other string) bool { return s.differs(other, field) }) {
			text += object + "_" + field.Name + ":"
		}
		text += field.Name
		if slices.ContainsFunc(field.Args, func(a shapeInput) bool { return a.Name == "first" }) {
			text += "(first:2)"
		}
		text += s.selectType(kind, depth-1, above...)
	}
	return text + "}"
}

// differs reports whether an object has a field of the same name and another type.
func (s schemaShape) differs(object string, field shapeField) bool {
	return slices.ContainsFunc(s.types[object].Fields, func(other shapeField) bool {
		return other.Name == field.Name && other.Type.text() != field.Type.text()
	})
}

// volatile are the fields whose values differ between two equal answers.
var volatile = []string{"version", "cursor", "startCursor", "endCursor", "readToken", "sessionId", "lastId", "requestId"}

// normalize replaces all values that may differ between two equivalent answers: IDs, times, cursors, and the given words.
func normalize(value any, words ...string) any {
	switch value := value.(type) {
	case map[string]any:
		same := maps.Clone(value)
		for key := range same {
			if same[key] = normalize(value[key], words...); slices.Contains(volatile, key) && value[key] != nil {
				same[key] = "*"
			}
		}
		return same
	case []any:
		same := make([]any, len(value))
		for i := range value {
			same[i] = normalize(value[i], words...)
		}
		return same
	case string:
		for _, word := range words {
			value = strings.ReplaceAll(value, word, "*")
		}
		return ids.ReplaceAllString(moments.ReplaceAllString(value, "<time>"), "<id>")
	}
	return value
}
