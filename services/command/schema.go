package command

import (
	"bytes"
	"io"

	"github.com/vektah/gqlparser/v2/formatter"

	"tidings/graph"
)

// runSchema does "tidings schema": the schema that the server serves, in the schema definition language. Its order is always
// the same.
func runSchema(out io.Writer) error {
	var text bytes.Buffer
	formatter.NewFormatter(&text, formatter.WithIndent("  ")).FormatSchema(graph.NewExecutableSchema(graph.Config{}).Schema())
	_, err := out.Write(text.Bytes())
	return err
}
