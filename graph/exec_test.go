package graph

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/99designs/gqlgen/graphql"
)

// expectedExecBody is the expected body of the generated Exec, which compilingSchema replaces. The names of the inputs are left out.
// If gqlgen generates another body, adapt compilingSchema before you change this text.
const expectedExecBody = `	opCtx := graphql.GetOperationContext(ctx)
	ec := newExecutionContext(opCtx, e, make(chan graphql.DeferredResult))
	inputUnmarshalMap := graphql.BuildUnmarshalerMap()
	first := true

	switch opCtx.Operation.Operation {
	case ast.Query:
		return func(ctx context.Context) *graphql.Response {
			var response graphql.Response
			var data graphql.Marshaler
			if first {
				first = false
				ctx = graphql.WithUnmarshalerMap(ctx, inputUnmarshalMap)
				data = ec._Query(ctx, opCtx.Operation.SelectionSet)
			} else {
				if atomic.LoadInt32(&ec.PendingDeferred) > 0 {
					result := <-ec.DeferredResults
					atomic.AddInt32(&ec.PendingDeferred, -1)
					data = result.Result
					response.Path = result.Path
					response.Label = result.Label
					response.Errors = result.Errors
				} else {
					return nil
				}
			}
			var buf bytes.Buffer
			data.MarshalGQL(&buf)
			response.Data = buf.Bytes()
			if atomic.LoadInt32(&ec.Deferred) > 0 {
				hasNext := atomic.LoadInt32(&ec.PendingDeferred) > 0
				response.HasNext = &hasNext
			}

			return &response
		}
	case ast.Mutation:
		return func(ctx context.Context) *graphql.Response {
			if !first {
				return nil
			}
			first = false
			ctx = graphql.WithUnmarshalerMap(ctx, inputUnmarshalMap)
			data := ec._Mutation(ctx, opCtx.Operation.SelectionSet)
			var buf bytes.Buffer
			data.MarshalGQL(&buf)

			return &graphql.Response{
				Data: buf.Bytes(),
			}
		}
	case ast.Subscription:
		next := ec._Subscription(ctx, opCtx.Operation.SelectionSet)

		var buf bytes.Buffer
		return func(ctx context.Context) *graphql.Response {
			buf.Reset()
			data := next(ctx)

			if data == nil {
				return nil
			}
			data.MarshalGQL(&buf)

			return &graphql.Response{
				Data: buf.Bytes(),
			}
		}

	default:
		return graphql.OneShot(graphql.ErrorResponse(ctx, "unsupported GraphQL operation"))
	}
}
`

// The generated Exec is still the one that compilingSchema.Exec copies, without the table of the functions that read inputs.
func TestExecEqualsTheGeneratedOneWithoutTheInputTable(t *testing.T) {
	text, err := os.ReadFile("root_.generated.go")
	if err != nil {
		t.Fatal(err)
	}
	_, body, found := strings.Cut(string(text), "func (e *executableSchema) Exec(ctx context.Context) graphql.ResponseHandler {\n")
	body, _, ended := strings.Cut(body, "\ntype executionContext struct")
	body = regexp.MustCompile(`(?s)BuildUnmarshalerMap\(.*?\n\t\)`).ReplaceAllString(body, "BuildUnmarshalerMap()")
	if !found || !ended || strings.TrimSpace(body) != strings.TrimSpace(expectedExecBody) {
		t.Errorf("gqlgen generates another Exec now: take its changes over into compilingSchema, then here:\n%s", body)
	}
}

// No code reads the table of the functions that read inputs. None needs a middleware or a context of fields, which compiled operations
// do not have.
func TestNoCodeUsesWhatExecLeavesOut(t *testing.T) {
	looked := 0
	for _, folder := range []string{".", "../resolvers", "../transport", "../services"} {
		err := filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || path == "exec.go" || path == "exec_test.go" {
				return err
			}
			text, err := os.ReadFile(path)
			if looked++; strings.Contains(string(text), "UnmarshalInputFromContext") {
				t.Errorf("%s reads the table of inputs, which compilingSchema leaves out", path)
			}
			if regexp.MustCompile(`\.Around(Root)?Fields\(|RootFieldContext\(`).Match(text) && !strings.HasSuffix(path, ".generated.go") {
				t.Errorf("%s needs a middleware or a context of fields, which compiled operations do not have", path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if looked < 100 {
		t.Errorf("only %d files were read", looked)
	}
	var _ graphql.ExecutableSchema = NewSchema(Config{})
}
