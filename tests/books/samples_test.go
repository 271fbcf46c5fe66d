package books

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/parser"
	"github.com/vektah/gqlparser/v2/validator/rules"

	"tidings/tests/world"
)

// variablesOf returns the text of the block of JSON directly after the operation b; "" if there is none. all are the page's blocks.
func variablesOf(b codeBlock, all []codeBlock) string {
	for i := range all[:len(all)-1] {
		if all[i] == b && all[i+1].language == "json" && all[i+1].previousLanguage == "graphql" {
			return all[i+1].text
		}
	}
	return ""
}

var (
	actorPattern          = regexp.MustCompile(`^# as (\S+?)(?: for (\S+))?\s*\n`) // the first line of a block: who asks, and the user they act for
	fragmentSpreadPattern = regexp.MustCompile(`\.\.\.\s*([A-Z]\w*)`)              // a use of a fragment
)

// runOperation checks a block of GraphQL against the schema, and runs its operation.
func (r *pageRunner) runOperation(b codeBlock, variables string) error {
	document, err := parser.ParseQuery(&ast.Source{Input: b.text})
	if err != nil {
		return err
	}
	checks := rules.NewDefaultRules()
	if len(document.Operations) == 0 {
		checks.RemoveRule("NoUnusedFragments")
	}
	text := b.text
	for again := true; again; { // adds the fragments of earlier blocks
		again = false
		for _, match := range fragmentSpreadPattern.FindAllStringSubmatch(text, -1) {
			if fragment := r.graphqlFragments[match[1]]; fragment != "" && !strings.Contains(text, fragment) && document.Fragments.ForName(match[1]) == nil {
				text, again = text+"\n"+fragment, true
			}
		}
	}
	if _, faults := gqlparser.LoadQueryWithRules(r.schema, text, checks); len(faults) > 0 {
		return faults
	}
	if len(document.Operations) == 0 {
		for _, fragment := range document.Fragments {
			r.graphqlFragments[fragment.Name] = b.text
		}
		return nil
	}
	who := actorPattern.FindStringSubmatch(b.text)
	if who == nil || len(document.Operations) != 1 {
		return errors.New("it needs a first line such as # as alice, and one operation")
	}
	if variables == "" {
		variables = "{}"
	}
	body, err := json.Marshal(map[string]any{"query": r.withRealValues(text), "variables": json.RawMessage(r.withRealValues(variables))})
	if err != nil {
		return fmt.Errorf("the variables: %w", err)
	}
	request, err := http.NewRequestWithContext(r.tb.Context(), http.MethodPost, "http://"+r.withRealValues("127.0.0.1:8080")+"/graphql", bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer dev:"+who[1])
	if who[2] != "" {
		request.Header.Set("Tidings-Act-As", who[2])
	}
	r.lastOutput, err = fetchAnswer(request, document.Operations[0].Operation == ast.Subscription)
	return err
}

// fetchAnswer returns the answer to a request, or the first event of a subscription. An answer with errors is an error.
func fetchAnswer(request *http.Request, subscription bool) (string, error) {
	client := http.Client{Timeout: commandTimeout}
	if subscription {
		request.Header.Set("Accept", "text/event-stream")
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	var text []byte
	if subscription {
		lines := bufio.NewScanner(response.Body)
		lines.Buffer(nil, 1<<22)
		for len(text) == 0 && lines.Scan() {
			if data, found := strings.CutPrefix(lines.Text(), "data: "); found {
				text = []byte(data)
			}
		}
		err = lines.Err()
	} else {
		text, err = io.ReadAll(response.Body)
	}
	if err != nil {
		return "", err
	}
	var got world.Answer
	if err := json.Unmarshal(text, &got); err != nil {
		return "", fmt.Errorf("%s is no answer: %w", text, err)
	}
	if len(got.Errors) > 0 {
		return "", fmt.Errorf("the answer has errors: %s", text)
	}
	var results struct {
		Ingest struct {
			Results []struct{ Error json.RawMessage }
		}
	}
	if err := json.Unmarshal(got.Data, &results); err == nil {
		for _, result := range results.Ingest.Results {
			if len(result.Error) > 0 && string(result.Error) != "null" {
				return "", fmt.Errorf("an event has an error: %s", text)
			}
		}
	}
	return string(text), nil
}

// checkDataBlock checks that a block of yaml, json or ini can be parsed, and that any other has a name. A block with a name is
// written to a file for the commands that follow.
func (r *pageRunner) checkDataBlock(b codeBlock) error {
	switch b.language {
	case "yaml":
		var content any
		if err := yaml.Unmarshal([]byte(b.text), &content); err != nil || content == nil {
			return fmt.Errorf("it is no YAML: %v", err)
		}
	case "json":
		if !json.Valid([]byte(b.text)) {
			return errors.New("it is no JSON")
		}
	case "ini":
		for line := range strings.Lines(b.text) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "[") && !strings.Contains(line, "=") {
				return fmt.Errorf("%q is no setting", line)
			}
		}
	case "html", "csv", "jsonl":
		if b.fileName == "" {
			return errors.New("it needs the name of a file after its language, and a command that uses it")
		}
	}
	if b.fileName == "" {
		return nil
	}
	return r.writeBlockFile(b)
}

// checkLinesInFile checks that the lines of a block are in a file of the repository, in the same order. A line "..." of the block
// stands for any lines; all other lines must be adjacent.
func checkLinesInFile(text, file string) error {
	content, err := os.ReadFile(filepath.Join(world.RepositoryRoot(), file))
	if err != nil {
		return err
	}
	trimmed := func(text string) (lines []string) {
		for line := range strings.Lines(text) {
			lines = append(lines, strings.TrimSpace(line))
		}
		return lines
	}
	rest := strings.Join(trimmed(string(content)), "\n")
	for part := range strings.SplitSeq("\n"+strings.Join(trimmed(text), "\n")+"\n", "\n...\n") {
		_, after, found := strings.Cut("\n"+rest+"\n", "\n"+strings.Trim(part, "\n")+"\n")
		if !found {
			return fmt.Errorf("%s does not have:\n%s", file, part)
		}
		rest = after
	}
	return nil
}
