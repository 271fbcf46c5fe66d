package world

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"
)

const RequestTimeout = 20 * time.Second // the longest time for one request, including all its retries

// Ask sends a request once, and returns an error if the answer has one.
func Ask(url, as, query string, variables map[string]any, into any) error {
	ctx, cancel := context.WithTimeout(context.Background(), RequestTimeout)
	defer cancel()
	got, err := SendRequest(ctx, url, as, query, variables)
	if err != nil {
		return err
	}
	if len(got.Errors) > 0 {
		return fmt.Errorf("%s (%s)", got.Errors[0].Message, got.ErrorCode())
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(got.Data, into)
}

// SendRequest sends a request once. An error means that no answer came: the mutation may have happened or not.
func SendRequest(ctx context.Context, url, as, query string, variables map[string]any) (result Answer, err error) {
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	if err != nil {
		return result, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/graphql", bytes.NewReader(body))
	if err != nil {
		return result, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer dev:"+as)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return result, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return result, err
	}
	if err := json.Unmarshal(text, &result); err != nil {
		return result, fmt.Errorf("%s is no GraphQL answer: %w", text, err)
	}
	return result, nil
}

// Answer is the answer to a GraphQL request.
type Answer struct {
	Data   json.RawMessage
	Errors []AnswerError
	Status int // the HTTP status
}

// AnswerError is an error of an answer.
type AnswerError struct {
	Message    string
	Extensions struct{ Code, Reason string }
}

// ErrorCode returns the code of the first error, "" when there is none.
func (a Answer) ErrorCode() string {
	if len(a.Errors) == 0 {
		return ""
	}
	return a.Errors[0].Extensions.Code
}

// Changed reports whether the data of the answer has `changed: true`, as the payload of a mutation that had an effect does.
func (a Answer) Changed() bool { return bytes.Contains(a.Data, []byte(`"changed":true`)) }

// QuoteJSON returns a text as a JSON string.
func QuoteJSON(text string) string {
	quoted, _ := json.Marshal(text) // a string is always JSON
	return string(quoted)
}

// DecodeJSON reads JSON into a value.
func DecodeJSON(tb testing.TB, text []byte, into any) {
	tb.Helper()
	if err := json.Unmarshal(text, into); err != nil {
		tb.Fatalf("%s: %v", text, err)
	}
}

// TestSecret signs the tokens of tests in production mode.
const TestSecret = "0123456789-0123456789-0123456789"
