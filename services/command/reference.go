package command

import (
	"cmp"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/vektah/gqlparser/v2/ast"
)

// referenceChapters make up the reference: the files of the schema, in the order in which a new reader needs them. A
// test finds a file that is missing here. A title is also the anchor of its chapter, so a title that changes breaks links
// from outside.
var referenceChapters = []struct{ file, title string }{
	{"schema", "Basics and errors"},
	{"badges", "Badges"},
	{"policy", "Display policy"},
	{"preferences", "Preferences"},
	{"explain", "Why a badge"},
	{"feed", "Home feed"},
	{"posts", "Likes and comments"},
	{"people", "People"},
	{"notifications", "Notifications"},
	{"chat", "Conversations"},
	{"messages", "Site messages"},
	{"categories", "Categories of the application"},
	{"announcements", "Announcements and dots"},
	{"views", "General views"},
	{"live", "Shows"},
	{"board", "Live board"},
	{"ingest", "Events of the application"},
	{"hosts", "Users for the application"},
	{"changes", "Change stream"},
	{"webhooks", "Webhooks"},
	{"devices", "Web Push"},
	{"admin", "Operators"},
}

// aboutReference is the beginning of the page. A raw string cannot contain backquotes, so they are appended as interpreted strings.
const aboutReference = `# The schema

What a client can ask, by capability. Made from the schema of the server by ` + "`tidings schema --markdown`" + `; ` + "`tidings schema`" + `
prints the schema itself, for tools. A type with ` + "`!`" + ` is never null; one in brackets is a list.

`

// schemaReference writes the schema as a page of Markdown. It writes into memory, so that only the last write can fail.
// docs/schema.md is its output, and make verify compares them. The same schema gives the same text, byte for byte, so everything
// that comes from a map is sorted.
type schemaReference struct {
	schema *ast.Schema
	out    strings.Builder
}

// writeReference writes the whole page: a list of the chapters, then each. The chapters follow a reader's needs and not the
// alphabet.
func writeReference(schema *ast.Schema, out io.Writer) error {
	r := schemaReference{schema: schema}
	r.out.WriteString(aboutReference)
	for _, chapter := range referenceChapters {
		fmt.Fprintf(&r.out, "- %s\n", chapterLink(chapter.file, chapter.title))
	}
	for _, chapter := range referenceChapters {
		r.writeChapter(chapter.file, chapter.title)
	}
	_, err := io.WriteString(out, r.out.String())
	return err
}

// chapterLink is a link to a chapter, by the anchor that Markdown gives to its heading.
func chapterLink(file, title string) string {
	return fmt.Sprintf("[%s](#%s)", title, strings.ReplaceAll(strings.ToLower(title), " ", "-"))
}

// chapterOverrides are the chapters of definitions that stand in schema.graphqls and belong in another chapter, by Type or Type.field.
// They stand there because the root types are declared there.
var chapterOverrides = map[string]string{
	"Query.admin": "admin", "Admin": "admin", "JobQueue": "admin", "Mutation.ingest": "ingest", "Subscription.badgesChanged": "badges",
	"Viewer.badges": "badges", "Viewer.homeFeed": "feed",
}

// chapterOfType is the chapter of a type. The fields that other files add to it are in the chapters of those files: see fieldsIn.
func chapterOfType(definition *ast.Definition) string {
	return chapterOf(definition.Name, definition.Position)
}

// chapterOf is the chapter of a type, or of a field by Type.field: the chapter in chapterOverrides, or else the chapter of its
// file. It is "" for a definition that the parser adds, which is in no file.
func chapterOf(name string, at *ast.Position) string {
	if to := chapterOverrides[name]; to != "" {
		return to
	}
	if at == nil || at.Src == nil {
		return ""
	}
	return strings.TrimSuffix(path.Base(at.Src.Name), ".graphqls")
}

// writeChapter writes the definitions of a file of the schema: operations first, then types. A type that another file declares is
// there too, before those of this file, with the fields that this file adds. A reader comes for one capability, and finds first the
// operations, then the types of the answers.
func (r *schemaReference) writeChapter(file, title string) {
	fmt.Fprintf(&r.out, "\n## %s\n", title)
	operations := []*ast.Definition{r.schema.Query, r.schema.Mutation, r.schema.Subscription}
	// Queries, mutations and subscriptions get a heading each, and only where the file adds some.
	for _, root := range operations {
		if fields := fieldsIn(root, file); len(fields) > 0 {
			name := map[*ast.Definition]string{r.schema.Query: "Queries", r.schema.Mutation: "Mutations", r.schema.Subscription: "Subscriptions"}[root]
			fmt.Fprintf(&r.out, "\n### %s: %s\n\n", title, strings.ToLower(name))
			r.writeFields(fields)
		}
	}
	var types []*ast.Definition
	for _, definition := range r.schema.Types {
		// A type is in the chapter of its file, and again where another file gives it fields.
		own := chapterOfType(definition) == file || len(fieldsIn(definition, file)) > 0
		if own && !definition.BuiltIn && !slices.Contains(operations, definition) {
			types = append(types, definition)
		}
	}
	position := func(definition *ast.Definition) int { // types of other files, to which this file adds fields, come first
		if chapterOfType(definition) != file {
			return 0
		}
		return definition.Position.Line
	}
	// The types are in the order of the file, which its author chose for reading. Lines of different files are not compared: types
	// of other files have the position 0.
	slices.SortFunc(types, func(a, b *ast.Definition) int { return cmp.Or(position(a)-position(b), cmp.Compare(a.Name, b.Name)) })
	for _, definition := range types {
		r.writeDefinition(definition, file, title)
	}
}

// fieldsIn returns the fields of a type that belong in the chapter of a file. A field from schema.graphqls belongs in its type's
// chapter, unless chapterOverrides says otherwise.
func fieldsIn(definition *ast.Definition, file string) (fields ast.FieldList) {
	for _, field := range definition.Fields {
		chapter := chapterOf(definition.Name+"."+field.Name, field.Position)
		if chapter == "schema" {
			chapter = chapterOfType(definition)
		}
		// Fields of introspection are everywhere, and nobody looks for them here.
		if chapter == file && !strings.HasPrefix(field.Name, "__") {
			fields = append(fields, field)
		}
	}
	return fields
}

// writeDefinition writes a type, or the fields that a file adds to it. Only the file that declares a type describes it; elsewhere
// a heading with the chapter's title keeps the anchors apart.
func (r *schemaReference) writeDefinition(definition *ast.Definition, file, title string) {
	kind := kindOf(definition)
	if chapterOfType(definition) != file {
		fmt.Fprintf(&r.out, "\n### `%s %s`: %s\n\n", kind, definition.Name, strings.ToLower(title))
		r.writeFields(fieldsIn(definition, file))
		return
	}
	fmt.Fprintf(&r.out, "\n### `%s %s`\n\n%s\n", kind, definition.Name, escapeDescription(definition.Description))
	if len(definition.Interfaces) > 0 {
		fmt.Fprintf(&r.out, "\nImplements %s.\n", r.typeLinks(definition.Interfaces))
	}
	// For an interface or a union, the types in it are listed. They are sorted, because the schema has its types in a map.
	if definition.IsAbstractType() {
		var names []string
		for _, possible := range r.schema.GetPossibleTypes(definition) {
			names = append(names, possible.Name)
		}
		slices.Sort(names)
		fmt.Fprintf(&r.out, "\nOne of %s.\n", r.typeLinks(names))
	}
	// All fields of such an input are optional in the schema, which alone would mislead.
	if definition.Directives.ForName("oneOf") != nil {
		r.out.WriteString("\nExactly one of its fields is given.\n")
	}
	r.out.WriteString("\n")
	for _, value := range definition.EnumValues {
		fmt.Fprintf(&r.out, "- `%s`: %s\n", value.Name, escapeDescription(value.Description))
	}
	r.writeFields(fieldsIn(definition, file))
	// These are links from the type to its fields in other chapters.
	var further []string
	for _, chapter := range referenceChapters {
		if chapter.file != file && len(fieldsIn(definition, chapter.file)) > 0 {
			// This is the anchor that Markdown makes of the heading at the top of this method.
			anchor := fmt.Sprintf("%s-%s-%s", kind, strings.ToLower(definition.Name), strings.ReplaceAll(strings.ToLower(chapter.title), " ", "-"))
			further = append(further, fmt.Sprintf("[%s](#%s)", strings.ToLower(chapter.title), anchor))
		}
	}
	if len(further) > 0 {
		fmt.Fprintf(&r.out, "\nFurther fields: %s.\n", strings.Join(further, ", "))
	}
}

// typeLinks returns links to the types of these names, in one line.
func (r *schemaReference) typeLinks(names []string) string {
	linked := make([]string, len(names))
	for i, name := range names {
		linked[i] = r.link(name)
	}
	return strings.Join(linked, ", ")
}

// writeFields writes a list of fields: the signature in one line, the description below it, then the arguments that have one. It
// writes Markdown lists and no tables: a description may be long, and a table would squeeze it.
func (r *schemaReference) writeFields(fields ast.FieldList) {
	for _, field := range fields {
		var arguments []string
		for _, argument := range field.Arguments {
			arguments = append(arguments, argument.Name+": "+r.typeText(argument.Type)+defaultText(argument.DefaultValue))
		}
		// A field without arguments has no parentheses, as in GraphQL.
		signature := ""
		if len(arguments) > 0 {
			signature = "(" + strings.Join(arguments, ", ") + ")"
		}
		fmt.Fprintf(&r.out, "- **%s**%s: %s%s", field.Name, signature, r.typeText(field.Type), defaultText(field.DefaultValue))
		// The backslash breaks the line within the item.
		if field.Description != "" {
			fmt.Fprintf(&r.out, "\\\n  %s", escapeDescription(field.Description))
		}
		r.out.WriteString("\n")
		for _, argument := range field.Arguments {
			if argument.Description != "" {
				fmt.Fprintf(&r.out, "  - `%s`: %s\n", argument.Name, escapeDescription(argument.Description))
			}
		}
	}
}

// defaultText is the text of a default; "" without one. It is printed as GraphQL writes it, so text has its quotes.
func defaultText(value *ast.Value) string {
	if value == nil {
		return ""
	}
	return " = `" + value.String() + "`"
}

// typeText is a type as a field has it, with a link to its description. Brackets are escaped, because a link follows them.
func (r *schemaReference) typeText(t *ast.Type) string {
	text := ""
	if t.Elem != nil {
		text = `\[` + r.typeText(t.Elem) + `\]`
	} else {
		text = r.link(t.NamedType)
	}
	if t.NonNull {
		text += "!"
	}
	return text
}

// link is the name of a type, with a link to its heading unless it is a scalar of GraphQL itself. A name that the schema does
// not have would be a nil here: validation has refused it.
func (r *schemaReference) link(name string) string {
	definition := r.schema.Types[name]
	if definition.BuiltIn {
		return name
	}
	return fmt.Sprintf("[%s](#%s-%s)", name, kindOf(definition), strings.ToLower(name))
}

// kindOf is the keyword of a type. For enum, interface, union and scalar it is gqlparser's name in lower case.
func kindOf(definition *ast.Definition) string {
	switch definition.Kind {
	case ast.Object:
		return "type"
	case ast.InputObject:
		return "input"
	default:
		return strings.ToLower(string(definition.Kind))
	}
}

// escapeDescription is a description on one line, without what Markdown would take for markup. Line breaks in a description only
// keep the lines of the file short.
func escapeDescription(description string) string {
	return strings.NewReplacer("<", `\<`, "*", `\*`).Replace(strings.Join(strings.Fields(description), " "))
}
