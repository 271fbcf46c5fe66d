package contract

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"tidings/tests/world"
)

// introspectedSchema is the schema as introspection returns it.
type introspectedSchema struct {
	types map[string]introspectedType // by name
}

// introspectedType is a type of the schema.
type introspectedType struct {
	Kind, Name    string
	Fields        []introspectedField
	InputFields   []introspectedInput
	EnumValues    []struct{ Name string }
	PossibleTypes []struct{ Name string }
}

// introspectedField is a field of a type, with its arguments.
type introspectedField struct {
	Name string
	Args []introspectedInput
	Type introspectedTypeRef
}

// introspectedInput is an argument, or a field of an input.
type introspectedInput struct {
	Name         string
	Type         introspectedTypeRef
	DefaultValue *string
}

// introspectedTypeRef is the type of a field or of an input, with its lists and non-null marks.
type introspectedTypeRef struct {
	Kind   string
	Name   *string
	OfType *introspectedTypeRef // the type within a list or a non-null type
}

// namedType returns the type without its lists and non-null marks.
func (r introspectedTypeRef) namedType() string {
	for r.OfType != nil {
		r = *r.OfType
	}
	return *r.Name
}

func (r introspectedTypeRef) isNonNull() bool { return r.Kind == "NON_NULL" }

// isList reports whether the type is a list, or a list that is not null.
func (r introspectedTypeRef) isList() bool {
	return r.Kind == "LIST" || r.OfType != nil && r.OfType.isList()
}

// graphqlText prints the type as a variable declares it.
func (r introspectedTypeRef) graphqlText() string {
	switch r.Kind {
	case "NON_NULL":
		return r.OfType.graphqlText() + "!"
	case "LIST":
		return "[" + r.OfType.graphqlText() + "]"
	}
	return *r.Name
}

// introspectionQuery is the query for the whole schema.
const introspectionQuery = `{__schema{types{kind name possibleTypes{name} enumValues{name}
	fields{name type{...ref} args{name defaultValue type{...ref}}} inputFields{name defaultValue type{...ref}}}}}
	fragment ref on __Type{kind name ofType{kind name ofType{kind name ofType{kind name}}}}`

// introspectSchema reads the schema of a node by introspection.
func introspectSchema(n *world.Node) introspectedSchema {
	n.TB.Helper()
	var data struct {
		Schema struct{ Types []introspectedType } `json:"__schema"`
	}
	n.MustAsk("alice", introspectionQuery, nil, &data)
	s := introspectedSchema{types: map[string]introspectedType{}}
	for _, t := range data.Schema.Types {
		s.types[t.Name] = t
	}
	return s
}

// idArgument is an argument, or a field of an input, that takes an ID. fieldPath leads to the field with the argument. inputPath is
// the argument and the fields of inputs from there to the ID.
type idArgument struct {
	root      string // Query, Mutation or Subscription
	fieldPath []introspectedField
	inputPath []introspectedInput
}

// name returns the argument with dots between its parts: Mutation.follow.input.userId.
func (w idArgument) name() string {
	parts := []string{w.root}
	for _, field := range w.fieldPath {
		parts = append(parts, field.Name)
	}
	for _, input := range w.inputPath {
		parts = append(parts, input.Name)
	}
	return strings.Join(parts, ".")
}

// idArguments lists every argument of type ID that can be reached from a root, with one shortest path to each.
func (s introspectedSchema) idArguments() (found []idArgument) {
	type place struct { // an object type, and the fields that lead to it from a root
		root, object string
		path         []introspectedField
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
			for _, object := range s.possibleObjectTypes(field.Type.namedType()) {
				*next = append(*next, place{at.root, object, path})
			}
		}
	}
	return found
}

// possibleObjectTypes returns the object types that a value of a type can have.
func (s introspectedSchema) possibleObjectTypes(name string) (names []string) {
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
func (s introspectedSchema) idPaths(input introspectedInput, before []introspectedInput) (found [][]introspectedInput) {
	if len(before) > 6 {
		panic("an input holds itself")
	}
	at := append(slices.Clone(before), input)
	switch t := s.types[input.Type.namedType()]; {
	case t.Name == "ID":
		return [][]introspectedInput{at}
	case t.Kind == "INPUT_OBJECT":
		for _, field := range t.InputFields {
			found = append(found, s.idPaths(field, at)...)
		}
	}
	return found
}

// graphqlOperationFor returns the operation that sends an ID in an argument. Its variable v is the value of the argument. given has
// values for other arguments, by name.
func (s introspectedSchema) graphqlOperationFor(w idArgument, given map[string]any) string {
	target := w.fieldPath[len(w.fieldPath)-1]
	text := fmt.Sprintf("%s(%s:$v%s)%s", target.Name, w.inputPath[0].Name, s.requiredArgumentsExcept(target, w.inputPath[0].Name, given), s.selectionOfType(target.Type.namedType(), 4))
	for _, field := range slices.Backward(w.fieldPath[:len(w.fieldPath)-1]) {
		if s.types[field.Type.namedType()].Kind != "OBJECT" {
			panic(w.name() + ": the path leads through an abstract type")
		}
		text = field.Name + "{" + text + "}"
	}
	return fmt.Sprintf("%s($v:%s){%s}", strings.ToLower(w.root), w.inputPath[0].Type.graphqlText(), text)
}

// requiredArgumentsExcept returns the text of the arguments that a request needs for a field besides the one named but: a session ID from
// given. It panics if the field requires any other argument.
func (s introspectedSchema) requiredArgumentsExcept(field introspectedField, but string, given map[string]any) (text string) {
	for _, argument := range field.Args {
		switch value := given[argument.Name]; {
		case argument.Name == but:
		case argument.Name == "sessionId" && value != nil: // because a position belongs to a session
			text += fmt.Sprintf(",%s:%q", argument.Name, value)
		case argument.Type.isNonNull() && argument.DefaultValue == nil:
			panic(fmt.Sprintf("say which %s to send where %s is required", argument.Type.graphqlText(), argument.Name))
		}
	}
	return text
}

// argumentValue returns the value of a request's variable, with id in its place. in leads from the argument to the ID: see
// idArgument. Other required fields get the value that given has for the field's name.
func (s introspectedSchema) argumentValue(in []introspectedInput, id string, given map[string]any) (any, error) {
	first, rest := in[0], in[1:]
	var value any = id
	if len(rest) > 0 {
		fields := map[string]any{}
		for _, field := range s.types[first.Type.namedType()].InputFields {
			var err error
			switch {
			case field.Name == rest[0].Name:
				fields[field.Name], err = s.argumentValue(rest, id, given)
			case field.Type.isNonNull() && field.DefaultValue == nil, field.Name == "title", // a change requires one field to change
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
func (s introspectedSchema) validValue(input introspectedInput, given map[string]any) (value any, err error) {
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
		return nil, fmt.Errorf("say which %s to send where %s is required", input.Type.graphqlText(), input.Name)
	}
	if input.Type.isList() {
		value = []any{value}
	}
	return value, nil
}

// selectionOfType selects all fields of a type, to a depth, with the first two entries of lists. It omits badges, because they change;
// the viewer, because it contains everything; and a type within itself, such as a post within a post.
func (s introspectedSchema) selectionOfType(name string, depth int, above ...string) string {
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
		for _, object := range slices.Sorted(slices.Values(s.possibleObjectTypes(name))) {
			if object != "Viewer" && object != "Badges" && !slices.Contains(above, object) {
				text += " ... on " + object + s.selectionOfObject(object, depth, s.possibleObjectTypes(name), append(above, object))
			}
		}
		return text + "}"
	}
	return s.selectionOfObject(name, depth, nil, above)
}

// selectionOfEvent selects all fields of an event of a subscription, including its counts.
func (s introspectedSchema) selectionOfEvent(field introspectedField) string {
	kind := field.Type.namedType()
	if kind == "Badges" {
		return "{" + world.BadgeFields + "}"
	}
	text := strings.TrimSuffix(s.selectionOfType(kind, 4), "}")
	for _, field := range s.types[kind].Fields {
		if field.Type.namedType() == "BadgeCount" {
			text += " " + field.Name + "{value}"
		}
	}
	return text + "}"
}

// selectionOfObject selects the fields of an object. If one of the other objects in the same selection has a field of the same name
// and another type, the field gets an alias.
func (s introspectedSchema) selectionOfObject(object string, depth int, others, above []string) string {
	text := "{__typename"
	for _, field := range s.types[object].Fields {
		kind := field.Type.namedType()
		needs := slices.ContainsFunc(field.Args, func(a introspectedInput) bool { return a.Type.isNonNull() && a.DefaultValue == nil })
		leaf := s.types[kind].Kind == "SCALAR" || s.types[kind].Kind == "ENUM"
		if needs || kind == "Badges" || kind == "BadgeCount" || kind == "Viewer" || !leaf && depth == 0 || slices.Contains(above, kind) {
			continue
		}
		text += " "
		if slices.ContainsFunc(others, func(other string) bool { return s.hasFieldWithConflictingType(other, field) }) {
			text += object + "_" + field.Name + ":"
		}
		text += field.Name
		if slices.ContainsFunc(field.Args, func(a introspectedInput) bool { return a.Name == "first" }) {
			text += "(first:2)"
		}
		text += s.selectionOfType(kind, depth-1, above...)
	}
	return text + "}"
}

// hasFieldWithConflictingType reports whether an object has a field of the same name and another type.
func (s introspectedSchema) hasFieldWithConflictingType(object string, field introspectedField) bool {
	return slices.ContainsFunc(s.types[object].Fields, func(other introspectedField) bool {
		return other.Name == field.Name && other.Type.graphqlText() != field.Type.graphqlText()
	})
}

// volatileFields are the fields whose values may differ between two equivalent answers.
var volatileFields = []string{"version", "cursor", "startCursor", "endCursor", "readToken", "sessionId", "lastId", "requestId"}

// normalizeAnswer replaces all values that may differ between two equivalent answers: IDs, times, cursors, and the given words.
func normalizeAnswer(value any, words ...string) any {
	switch value := value.(type) {
	case map[string]any:
		same := maps.Clone(value)
		for key := range same {
			if same[key] = normalizeAnswer(value[key], words...); slices.Contains(volatileFields, key) && value[key] != nil {
				same[key] = "*"
			}
		}
		return same
	case []any:
		same := make([]any, len(value))
		for i := range value {
			same[i] = normalizeAnswer(value[i], words...)
		}
		return same
	case string:
		for _, word := range words {
			value = strings.ReplaceAll(value, word, "*")
		}
		return idPattern.ReplaceAllString(timePattern.ReplaceAllString(value, "<time>"), "<id>")
	}
	return value
}
