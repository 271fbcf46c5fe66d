package command

import (
	"bytes"
	"testing"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
)

// The schema is printed with its descriptions, can be loaded again, and has the same text each time.
func TestSchemaIsPrinted(t *testing.T) {
	var first string
	for range 3 {
		var out, errs bytes.Buffer
		if code := Run(t.Context(), []string{"schema"}, environmentOf(nil), &out, &errs); code != 0 || errs.Len() > 0 {
			t.Fatalf("exit code %d: %s", code, &errs)
		}
		schema, err := gqlparser.LoadSchema(&ast.Source{Input: out.String()})
		if err != nil {
			t.Fatalf("what is printed is no schema: %v", err)
		}
		if badges := schema.Types["Badges"]; badges == nil || badges.Description == "" || schema.Subscription == nil {
			t.Error("types or descriptions are missing")
		}
		if first != "" && first != out.String() {
			t.Error("printed twice it differs")
		}
		first = out.String()
	}
}
