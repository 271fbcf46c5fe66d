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

// Tidings is a client of the Tidings server.
type Tidings struct {
	url    string // where the server takes GraphQL requests
	secret []byte // signs the tokens
	client *http.Client
}

// NewTidings makes the client of a server.
func NewTidings(url, secret string) *Tidings {
	// The timeout is longer than a slow answer takes, and short enough for the relay to notice a dead connection.
	return &Tidings{url: url + "/graphql", secret: []byte(secret), client: &http.Client{Timeout: 10 * time.Second}}
}

// Error is an error of Tidings, for a request or for one event in it.
type Error struct {
	// Code is for programs; Message is for the log, and for the developer of this application.
	Code         string
	Message      string
	RetryAfterMs *int // how long Tidings asks to wait; nil if it does not say
}

// Error returns the code and the message.
func (e *Error) Error() string { return e.Code + ": " + e.Message }

// temporary reports whether the same request can succeed later: see "Retries" in docs/embed.md.
func (e *Error) temporary() bool {
	switch e.Code {
	case "RATE_LIMITED", "UNAVAILABLE", "INTERNAL", "UNAUTHENTICATED": // the last one: a wrong secret or clock, which somebody corrects
		return true
	}
	return false
}

// bearer is the identity of a request. With the scope `ingest`, the request acts as the user `actAs` if it is set, and otherwise
// as the application itself. The scope `admin` is for operators' requests, such as an erasure. Each request has a token of its
// own, which is valid for a minute.
type bearer struct{ scope, actAs string }

// ask sends a GraphQL request and reads the data of the answer into a value. An *Error comes from Tidings. After any other error
// it is unknown whether the request took effect.
func (t *Tidings) ask(ctx context.Context, as bearer, query string, variables, into any) error {
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	if err != nil {
		return err
	}
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
		// A minute is longer than a request takes, even if the clocks differ.
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
		// Acting for a user needs the scope `ingest`. A user's own token cannot act for others.
		request.Header.Set("Tidings-Act-As", escape(as.actAs))
	}
	response, err := t.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	// The limit keeps a faulty proxy from filling the memory.
	text, err := io.ReadAll(io.LimitReader(response.Body, 8<<20))
	if err != nil {
		return err
	}
	return readAnswer(text, response.Status, into)
}

// readAnswer reads a GraphQL answer.
func readAnswer(text []byte, status string, into any) error {
	var answer struct {
		Data   json.RawMessage
		Errors []struct {
			Message    string
			Extensions Error
		}
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return fmt.Errorf("%s is no answer of Tidings: %w", status, err) // but of a proxy
	}
	// If there are errors, the data is not used: each of these requests needs all of its answer.
	if len(answer.Errors) > 0 {
		// The first error has the reason. There is rarely a second error.
		first := answer.Errors[0]
		first.Extensions.Message = first.Message
		return &first.Extensions
	}
	return json.Unmarshal(answer.Data, into)
}

// Event is one entry of the mutation ingest.
type Event struct {
	ActorID string `json:"as"` // the user who acts: user:KEY
	// IdempotencyKey is the same at each try. Tidings keeps it for a day, and answers as it did the first time.
	IdempotencyKey string          `json:"key"`
	HappenedAt     string          `json:"at,omitempty"` // when it happened, as timeText writes it; "" for now
	Action         json.RawMessage `json:"do"`           // what the user does: the name and the input of a mutation
}

// Result is the result of an event. The event took effect if Error is nil.
type Result struct{ Error *Error }

// Ingest sends up to 500 events, and returns as many results. After an error that is not an *Error, it is unknown whether the
// events took effect: send the same events again.
func (t *Tidings) Ingest(ctx context.Context, events []Event) ([]Result, error) {
	var answer struct{ Ingest struct{ Results []Result } }
	err := t.ask(ctx, bearer{scope: "ingest"}, `mutation Ingest($events: [IngestEvent!]!) {
		ingest(events: $events) { results { error { code message retryAfterMs } } }
	}`, map[string]any{"events": events}, &answer)
	// Results are matched by their positions, so their number must be right.
	if err == nil && len(answer.Ingest.Results) != len(events) {
		err = fmt.Errorf("%d results of %d events", len(answer.Ingest.Results), len(events))
	}
	return answer.Ingest.Results, err
}
