// Command generate makes Go of the schema: it runs gqlgen, as gqlgen.yml says, with a plugin that writes graph/compiled.generated.go.
// That file has a compiler for each type of the schema: see graph/compiled.go. Run it in the folder of gqlgen.yml.
package main

import (
	_ "embed"
	"fmt"
	"go/types"
	"os"
	"path/filepath"
	"strings"

	"github.com/99designs/gqlgen/api"
	"github.com/99designs/gqlgen/codegen"
	"github.com/99designs/gqlgen/codegen/config"
	"github.com/99designs/gqlgen/codegen/templates"
	"github.com/vektah/gqlparser/v2/ast"
)

func main() {
	cfg, err := config.LoadConfigFromDefaultLocations()
	if err == nil {
		err = api.Generate(cfg, api.AddPlugin(compilersPlugin{}))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

// compilersPlugin is the plugin of gqlgen that writes the compilers of the types.
type compilersPlugin struct{}

// Name returns the name of the plugin for errors.
func (compilersPlugin) Name() string { return "compilers" }

// compiledTemplate is the template of compiled.generated.go.
//
//go:embed compiled.gotpl
var compiledTemplate string

// GenerateCode writes the compilers of all types that an answer can have, but not those of introspection. Queries and mutations
// have no Go type: their fields get a value of type root. Subscriptions are not compiled.
func (compilersPlugin) GenerateCode(data *codegen.Data) error {
	var objects []object
	for _, one := range data.Objects {
		if !one.Stream && !strings.HasPrefix(one.Name, "__") {
			objects = append(objects, object{one})
		}
	}
	return templates.Render(templates.Options{
		PackageName: data.Config.Exec.Package, Filename: filepath.Join(data.Config.Exec.DirName, "compiled.generated.go"),
		Template: compiledTemplate, Data: objects, GeneratedHeader: true, Packages: data.Config.Packages,
	})
}

// object is a type of the schema.
type object struct{ *codegen.Object }

// GoType is the Go type of the object's values, as the generated file names it.
func (o object) GoType() string {
	if o.Root {
		return "root"
	}
	return templates.CurrentImports.LookupType(o.Type)
}

// Compilable lists the object's fields: all but those of introspection, which the executor answers.
func (o object) Compilable() (fields []field) {
	for _, one := range o.Object.Fields {
		if !one.IsReserved() {
			fields = append(fields, field{one, o})
		}
	}
	return fields
}

// field is a field of an object.
type field struct {
	*codegen.Field
	owner object // the type that has the field
}

// Compiler is the Go expression that compiles the field. A field that is plain Go is read and appended, and nodes are read from the
// edges of their connection. The result of a resolver is compiled if it is an object or a list of objects. All other fields are
// called: the executor's own method answers them.
func (f field) Compiler() string {
	if f.IsResolver && !f.HasDirectives() && !f.IsBatch() {
		if code := f.nodesExpr(); code != "" {
			return code
		}
		if code := f.resolvedExpr(); code != "" {
			return code
		}
	}
	if f.isPlain() {
		if code := f.plainExpr(); code != "" {
			return code
		}
	}
	return f.calledExpr()
}

// isPlain reports whether the field is a field of the Go struct, or a method that cannot fail.
func (f field) isPlain() bool {
	switch {
	case f.owner.Root || f.IsResolver || f.HasDirectives() || f.HasHaser || len(f.Args) > 0:
		return false
	case f.IsVariable():
		return true
	}
	return f.IsMethod() && f.NoErr && !f.VOkFunc && !f.MethodHasContext
}

// valueExpr is the Go expression that reads a plain field of v.
func (f field) valueExpr() string {
	if f.IsMethod() {
		return "v." + f.GoFieldName + "()"
	}
	return "v." + f.GoFieldName
}

// calledExpr is the compiler of a field that the executor's method answers.
func (f field) calledExpr() string {
	method := fmt.Sprintf("(*executionContext)._%s_%s", f.owner.Name, f.Name)
	if f.owner.Root { // the methods of queries and mutations take no value
		method = "ofRoot(" + method + ")"
	}
	return fmt.Sprintf("called(field, %t, %s)", f.TypeReference.GQL.NonNull, method)
}

// nodesExpr is the compiler of the field nodes of a connection, which has the nodes of the edges; "" for any other field.
func (f field) nodesExpr() string {
	edges := f.owner.Object.Definition.Fields.ForName("edges")
	if f.Name != "nodes" || edges == nil || !strings.HasSuffix(f.owner.Name, "Connection") {
		return ""
	}
	node := templates.CurrentImports.LookupType(f.TypeReference.Elem().GO)
	for _, one := range f.owner.Object.Fields {
		if one.Name == "edges" && one.IsVariable() && one.TypeReference.IsSlice() {
			edge := templates.CurrentImports.LookupType(one.TypeReference.Elem().GO)
			return fmt.Sprintf("nodesField(field, compile%s(known, field.SelectionSet), func(v *%s) []%s { return v.%s }, func(edge *%s) *%s { return &edge.Node })",
				f.TypeReference.Definition.Name, f.owner.GoType(), edge, one.GoFieldName, edge, node)
		}
	}
	return ""
}

// resolvedExpr is the compiler of a field whose resolver returns an object or a list of objects; "" for any other.
func (f field) resolvedExpr() string {
	ref, kind := f.TypeReference, ""
	var of *config.TypeReference
	switch {
	case ref.Definition.Kind != ast.Object:
		return ""
	case ref.IsPtr() && ref.Elem().IsStruct():
		kind, of = "resolvedObject", ref.Elem()
	case ref.IsSlice() && ref.Elem().IsStruct():
		kind, of = "resolvedList", ref.Elem()
	default:
		return ""
	}
	// ShortInvocation names the object obj, and takes the arguments from the context fc of the field.
	object, arguments := "obj", ""
	if f.owner.Root {
		object = "_"
	}
	if len(f.Args) > 0 {
		arguments = "fc := graphql.GetFieldContext(ctx)\n"
	}
	return fmt.Sprintf("%s(field, %s, compile%s(known, field.SelectionSet), %s, func(ctx context.Context, ec *executionContext, %s *%s) (%s, error) {\n%sreturn %s\n})",
		kind, nonNullExpr(ref), of.Definition.Name, "(*executionContext)."+f.FieldContextFunc(), object, f.owner.GoType(), templates.CurrentImports.LookupType(ref.GO), arguments, "ec.Resolvers."+f.ShortInvocation())
}

// nonNullExpr is the Go expression that says whether a value must not be null; of a list, whether the list and its items must not.
func nonNullExpr(ref *config.TypeReference) string {
	if ref.IsSlice() {
		return fmt.Sprintf("listNulls{%t, %t}", ref.GQL.NonNull, ref.GQL.Elem.NonNull)
	}
	return fmt.Sprint(ref.GQL.NonNull)
}

// plainExpr is the compiler of a plain field; "" if the generated code cannot append values of its Go type.
func (f field) plainExpr() string {
	ref, goType := f.TypeReference, f.owner.GoType()
	leaf := func(body string) string {
		return fmt.Sprintf("leaf(func(to []byte, v *%s) []byte { %s })", goType, body)
	}
	if ref.Definition.Kind == ast.Object {
		return f.plainObjectExpr()
	}
	switch {
	case ref.IsPtr():
		// A null in place of a value that cannot be null is an error, which the executor makes.
		if text := appendExpr(ref.Elem(), "*p"); text != "" && !ref.GQL.NonNull {
			return leaf(fmt.Sprintf("if p := %s; p != nil { return %s }\nreturn append(to, null...)", f.valueExpr(), text))
		}
	case ref.IsSlice():
		if text := appendExpr(ref.Elem(), "item"); text != "" {
			return leaf(fmt.Sprintf("return appendList(to, %s, %t, func(to []byte, item %s) []byte { return %s })",
				f.valueExpr(), ref.GQL.NonNull, templates.CurrentImports.LookupType(ref.Elem().GO), text))
		}
	default:
		if text := appendExpr(ref, f.valueExpr()); text != "" {
			return leaf("return " + text)
		}
	}
	return ""
}

// plainObjectExpr is the compiler of a plain field whose type has fields of its own; "" if the Go type is neither a struct, a
// pointer to one, nor a slice of structs.
func (f field) plainObjectExpr() string {
	ref, goType := f.TypeReference, f.owner.GoType()
	compiled := fmt.Sprintf("compile%s(known, field.SelectionSet)", ref.Definition.Name)
	look := func(t *config.TypeReference) string { return templates.CurrentImports.LookupType(t.GO) }
	switch {
	case ref.IsPtr() && ref.Elem().IsStruct() && !ref.GQL.NonNull:
		return fmt.Sprintf("objectField(field, false, %s, func(v *%s) *%s { return %s })", compiled, goType, look(ref.Elem()), f.valueExpr())
	case ref.IsSlice() && ref.Elem().IsStruct():
		return fmt.Sprintf("listField(field, %s, %s, func(v *%s) []%s { return %s })", nonNullExpr(ref), compiled, goType, look(ref.Elem()), f.valueExpr())
	case ref.IsStruct() && f.IsVariable():
		return fmt.Sprintf("objectField(field, %s, %s, func(v *%s) *%s { return &%s })", nonNullExpr(ref), compiled, goType, look(ref), f.valueExpr())
	}
	return ""
}

// hasStringMethod reports whether a type has the method String of fmt.Stringer.
func hasStringMethod(t types.Type) bool {
	method, _, _ := types.LookupFieldOrMethod(t, false, nil, "String")
	_, ok := method.(*types.Func)
	return ok
}

// appendExpr is the Go expression that appends a value of a type without fields; "" for a type that it cannot append.
func appendExpr(ref *config.TypeReference, value string) string {
	if ref.Definition.Kind == ast.Enum {
		// The Go types of enums are texts that are printed as they are, or small numbers whose method String has the name.
		switch basic := ref.GO.Underlying().String(); {
		case ref.HasEnumValues() || ref.IsPtr():
			return ""
		case basic == "string":
			return "AppendText(to, string(" + value + "))"
		case basic == "uint8" && ref.IsMarshaler && hasStringMethod(ref.GO):
			return "AppendText(to, " + value + ".String())"
		}
		return ""
	}
	if ref.Marshaler == nil || ref.IsContext || ref.CastType != nil {
		return ""
	}
	switch ref.Marshaler.FullName() {
	case "github.com/99designs/gqlgen/graphql.MarshalString", "github.com/99designs/gqlgen/graphql.MarshalID", "tidings/graph.MarshalURL", "tidings/graph.MarshalVersion":
		return "AppendText(to, " + value + ")"
	case "github.com/99designs/gqlgen/graphql.MarshalBoolean":
		return "strconv.AppendBool(to, " + value + ")"
	case "tidings/graph.MarshalInt":
		return "strconv.AppendInt(to, int64(" + value + "), 10)"
	case "tidings/graph.MarshalTime":
		return "AppendTime(to, " + value + ")"
	case "tidings/graph.MarshalJSON":
		return "append(to, " + value + "...)"
	}
	return ""
}
