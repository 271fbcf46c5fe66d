package transport

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"tidings/services"
)

// Any value of a variable is checked without a panic, and no message repeats a text of it.
func FuzzWrongValue(f *testing.F) {
	schema := gqlparser.MustLoadSchema(&ast.Source{Input: `
		enum Colour { RED GREEN } scalar Any
		input In { n: Int! s: String id: ID b: Boolean f: Float c: Colour any: Any in: In list: [[In!]!] }
		type Query { q(in: In): Int }`})
	for _, text := range []string{
		`{}`, `null`, `{"n":1.5}`, `{"n":"s3cret"}`, `{"list":[[{"n":1}],{"n":true}]}`, `{"in":{"in":{"n":[]}}}`, `{"c":"s3cret"}`,
		`{"any":{"s3cret":1}}`, `{"f":1}`, `[{"n":1}]`, `{"list":[[null]]}`, `{"s":null,"b":null}`, `"s3cret"`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.UseNumber()
		var value any
		if decoder.Decode(&value) != nil {
			return
		}
		for _, kind := range []*ast.Type{ast.NamedType("In", nil), ast.NonNullListType(ast.NamedType("In", nil), nil), ast.NamedType("Unknown", nil)} {
			fault := wrongValueError(schema, kind, value, ast.Path{ast.PathName("variable"), ast.PathName("v")})
			if fault == nil {
				continue
			}
			fault = withCodes(gqlerror.List{fault})[0]
			if strings.Contains(fault.Message, "s3cret") || fault.Extensions["code"] != string(services.Invalid) || len(fault.Path) < 3 {
				t.Errorf("%s: %+v", text, fault)
			}
		}
	})
}

// A value of the wrong kind is found within an input object, a list and a list of lists, and the error has its place.
func TestWrongValue(t *testing.T) {
	schema := gqlparser.MustLoadSchema(&ast.Source{Input: `
		enum Colour { RED GREEN }
		input In { n: Int s: String id: ID c: Colour in: In list: [[Int!]!] }
		type Query { q(in: In): Int }`})
	for text, want := range map[string]string{
		`{"n":-2147483648,"s":"1","id":"a","c":"RED","in":{"n":2147483647},"list":[[1],[]]}`: "",
		`{"id":7,"list":3,"unknown":{}}`: "",
		`{"n":-2147483649}`:              "variable.v.n",
		`{"s":1}`:                        "variable.v.s",
		`{"in":{"in":{"c":"red"}}}`:      "variable.v.in.in.c",
		`{"list":[[1],[2,"3"]]}`:         "variable.v.list[1][1]",
		`{"list":[1,"3"]}`:               "variable.v.list[1]",
	} {
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.UseNumber()
		var value any
		if err := decoder.Decode(&value); err != nil {
			t.Fatal(err)
		}
		place := ""
		if fault := wrongValueError(schema, ast.NamedType("In", nil), value, ast.Path{ast.PathName("variable"), ast.PathName("v")}); fault != nil {
			place = fault.Path.String()
		}
		if place != want {
			t.Errorf("%s: at %q, want %q", text, place, want)
		}
	}
}
