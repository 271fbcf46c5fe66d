package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Tidings is the server, as this application asks it.
type Tidings struct {
	url    string
	secret []byte
	client *http.Client
}

// NewTidings makes the client of a server.
func NewTidings(url, secret string) *Tidings {
	// More than a slow answer takes, and short enough that the relay notices a dead connection.
	return &Tidings{url: url + "/graphql", secret: []byte(secret), client: &http.Client{Timeout: 10 * time.Second}}
}

// Error is what Tidings refused, of a request or of one event in it.
type Error struct {
	// Code is for programs; Message is for the log, and for the developer of this application.
	Code         string
	Message      string
	RetryAfterMs *int
}

// Error is the code and the message.
func (e *Error) Error() string { return e.Code + ": " + e.Message }

// temporary reports whether the same request can succeed later: see "Retries" in docs/embed.md.
func (e *Error) temporary() bool {
	switch e.Code {
	case "RATE_LIMITED", "UNAVAILABLE", "INTERNAL", "UNAUTHENTICATED": // the last one: a wrong secret or clock, which a person mends
		return true
	}
	return false
}

// bearer is who asks: with the scope `ingest` the application itself, and for the user of `actAs` if there is one. The scope `admin` is
// for what cannot be undone. Each request has a token of its own, which nobody can use for long.
type bearer struct{ scope, actAs string }

// ask sends a GraphQL request and reads the data of the answer into a value. An *Error is Tidings' own; any other error means
// that nobody knows whether the request took effect.
func (t *Tidings) ask(ctx context.Context, as bearer, query string, variables, into any) error {
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	if err != nil {
		return err
	}
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
		// A minute is more than a request takes, with clocks that differ.
		"sub": "host", "scope": as.scope, "exp": time.Now().Add(time.Minute).Unix(),
	}).SignedString(t.secret)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+token)
	if as.actAs != "" {
		// Tidings asks for the scope `ingest` then: a user's own token could not act for others.
		request.Header.Set("Tidings-Act-As", escape(as.actAs))
	}
	response, err := t.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	// A bound, so that a proxy that has gone wrong cannot fill the memory.
	text, err := io.ReadAll(io.LimitReader(response.Body, 8<<20))
	if err != nil {
		return err
	}
	return read(text, response.Status, into)
}

// read reads a GraphQL answer.
func read(text []byte, status string, into any) error {
	var answer struct {
		Data   json.RawMessage
		Errors []struct {
			Message    string
			Extensions Error
		}
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return fmt.Errorf("%s is no answer of Tidings: %w", status, err) // a proxy's
	}
	// Data beside errors is not used: each of these requests has one field, which is there or not.
	if len(answer.Errors) > 0 {
		// The first one says why; a request of one field has rarely a second.
		first := answer.Errors[0]
		first.Extensions.Message = first.Message
		return &first.Extensions
	}
	return json.Unmarshal(answer.Data, into)
}

// Event is one entry of ingest.
type Event struct {
	As string `json:"as"`
	// The same key at each try: Tidings remembers it for a day, and answers as it did the first time.
	Key string          `json:"key"`
	At  string          `json:"at,omitempty"`
	Do  json.RawMessage `json:"do"`
}

// Result is what became of an event. It took effect if Error is nil.
type Result struct{ Error *Error }

// Ingest sends up to 500 events, and returns as many results. Of an error nothing is known: send the same events again.
func (t *Tidings) Ingest(ctx context.Context, events []Event) ([]Result, error) {
	var answer struct{ Ingest struct{ Results []Result } }
	err := t.ask(ctx, bearer{scope: "ingest"}, `mutation Ingest($events: [IngestEvent!]!) {
		ingest(events: $events) { results { error { code message retryAfterMs } } }
	}`, map[string]any{"events": events}, &answer)
	// Results are matched by their position, so a wrong number matches nothing.
	if err == nil && len(answer.Ingest.Results) != len(events) {
		err = fmt.Errorf("%d results of %d events", len(answer.Ingest.Results), len(events))
	}
	return answer.Ingest.Results, err
}
