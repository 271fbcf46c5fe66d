package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// receivedRequest is a request as a GraphQL server gets it.
type receivedRequest struct {
	Query     string
	Variables struct { // those that the tests look at
		Events []ingestEvent // of ingest
		IDs    []string      // of a query that names objects
	}
	token string // from the header Authorization
}

// startStubAPI starts a server whose answers are the results of the function answer.
func startStubAPI(t *testing.T, answer func(receivedRequest) string) *apiClient {
	t.Helper()
	return newAPIClient(startHTTPServer(t, func(w http.ResponseWriter, r *http.Request) {
		var q receivedRequest
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			t.Error(err)
		}
		q.token = strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		fmt.Fprint(w, answer(q))
	}))
}

// ingestAnswer returns an answer to ingest with an ID for each event.
func ingestAnswer(q receivedRequest) string {
	var parts []string
	for i := range q.Variables.Events {
		parts = append(parts, fmt.Sprintf(`{"id":"id-%d"}`, i))
	}
	return `{"data":{"ingest":{"results":[` + strings.Join(parts, ",") + `]}}}`
}

func TestDoGraphQL(t *testing.T) {
	a := startStubAPI(t, func(q receivedRequest) string {
		if q.Query != "{ a }" || q.token != "dev:x" {
			t.Errorf("asked %+v", q)
		}
		return `{"data":{"a":7}}`
	})
	var data struct{ A int }
	if err := a.doGraphQL(t.Context(), "dev:x", "{ a }", nil, &data); err != nil || data.A != 7 {
		t.Errorf("%+v, %v", data, err)
	}
	for answer, want := range map[string]string{
		`{"errors":[{"message":"not you"}],"data":{"a":1}}`: "not you", `<html>`: "status 200", ``: "status 200",
	} {
		a := startStubAPI(t, func(receivedRequest) string { return answer })
		if err := a.doGraphQL(t.Context(), "", "{ a }", nil, &data); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", answer, err)
		}
	}
}

func TestIngestSendsBatches(t *testing.T) {
	var sizes []int
	a := startStubAPI(t, func(q receivedRequest) string {
		sizes = append(sizes, len(q.Variables.Events))
		if q.token != hostToken {
			t.Errorf("token %q", q.token)
		}
		return ingestAnswer(q)
	})
	events := make([]ingestEvent, 2*ingestBatchSize+1)
	for i := range events {
		events[i] = followEvent("a", "b")
	}
	ids, err := a.ingest(t.Context(), events)
	if err != nil || len(ids) != len(events) || ids[1] != "id-1" {
		t.Errorf("%d ids, %v", len(ids), err)
	}
	if fmt.Sprint(sizes) != "[500 500 1]" {
		t.Errorf("batches of %v", sizes)
	}
}

func TestIngestFailsWithItsFirstBadEvent(t *testing.T) {
	for answer, want := range map[string]string{
		`{"data":{"ingest":{"results":[{"id":"x"},{"error":{"code":"CONFLICT","message":"already"}}]}}}`: "CONFLICT already",
		`{"data":{"ingest":{"results":[{"id":"x"}]}}}`:                                                   "1 results for 2 events",
		`{"errors":[{"message":"no scope"}]}`:                                                            "no scope",
	} {
		a := startStubAPI(t, func(receivedRequest) string { return answer })
		if _, err := a.ingest(t.Context(), []ingestEvent{followEvent("a", "b"), followEvent("c", "d")}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", answer, err)
		}
	}
}

func TestEventsAreInputsOfIngest(t *testing.T) {
	for want, e := range map[string]ingestEvent{
		`{"as":"user:a","do":{"follow":{"userId":"user:b"}}}`:                                            followEvent("a", "b"),
		`{"as":"user:a","do":{"publishPost":{"body":"text"}}}`:                                           publishEvent("a", "text"),
		`{"as":"user:a","do":{"likePost":{"postId":"post:1"}}}`:                                          likeEvent("a", "post:1"),
		`{"as":"user:a","do":{"setProfile":{"avatarUrl":"https://images.example/a.jpg","name":"Anna"}}}`: profileEvent("a", "Anna"),
	} {
		if got, err := json.Marshal(e); err != nil || string(got) != want {
			t.Errorf("got %s, want %s (%v)", got, want, err)
		}
	}
}

func TestWaitForJobs(t *testing.T) {
	waiting := 3
	a := startStubAPI(t, func(receivedRequest) string {
		waiting--
		return fmt.Sprintf(`{"data":{"admin":{"jobs":{"waiting":%d,"dead":0}}}}`, waiting)
	})
	if err := a.waitForJobs(t.Context()); err != nil || waiting != 0 {
		t.Errorf("with %d jobs left: %v", waiting, err)
	}
	dead := startStubAPI(t, func(receivedRequest) string { return `{"data":{"admin":{"jobs":{"waiting":0,"dead":1}}}}` })
	if err := dead.waitForJobs(t.Context()); err == nil {
		t.Error("a job that failed is taken for done")
	}
	ctx, cancel := context.WithCancel(t.Context())
	never := startStubAPI(t, func(receivedRequest) string { cancel(); return `{"data":{"admin":{"jobs":{"waiting":1}}}}` })
	if err := never.waitForJobs(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("after the context: %v", err)
	}
}

func TestCompareAnswersRefusesADifference(t *testing.T) {
	fixed := func(answer string) *apiClient { return startStubAPI(t, func(receivedRequest) string { return answer }) }
	ours := fixed(`{"data":{"a":1,"b":[{"c":"x"}]}}`)
	if err := compareAnswers(t.Context(), ours, fixed(`{"data":{"b":[{"c":"x"}],"a":1}}`), "{ a }", []string{"x", "y"}); err != nil {
		t.Errorf("the order of fields is no difference: %v", err)
	}
	for _, other := range []string{`{"data":{"a":1,"b":[{"c":"y"}]}}`, `{"data":{"a":1,"b":[]}}`, `{"data":{"a":1}}`, `{"data":{"a":null,"b":[{"c":"x"}]}}`, `{"errors":[{"message":"no"}]}`} {
		if err := compareAnswers(t.Context(), ours, fixed(other), "{ a }", []string{"x"}); err == nil {
			t.Errorf("%s is taken for the same", other)
		}
	}
}
