package command

import (
	"bytes"
	"io"

	"github.com/vektah/gqlparser/v2/formatter"

	"tidings/graph"
)

// schemaOptions are the options of "tidings schema".
type schemaOptions struct {
	Markdown bool `group:"Schema:" for:"schema" help:"print a reference to read, in Markdown"`
}

// runSchema does "tidings schema": the schema that the server serves, in the schema definition language. Its order is always
// the same. Tools that generate clients compare the text, so a difference is a change of the contract.
func runSchema(options schemaOptions, out io.Writer) error {
	// The schema has no resolvers here, because nothing is executed.
	schema := graph.NewExecutableSchema(graph.Config{}).Schema()
	if options.Markdown {
		return writeReference(schema, out)
	}
	var text bytes.Buffer
	formatter.NewFormatter(&text, formatter.WithIndent("  ")).FormatSchema(schema)
	_, err := out.Write(text.Bytes())
	return err
}
