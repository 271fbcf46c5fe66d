package main

import (
	"net/http"
	"strings"
	"testing"
)

func TestWebhookEndpointCountsEvents(t *testing.T) {
	var endpoint hookEndpoint
	closeEndpoint, err := endpoint.listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, endpoint.url, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if answer.StatusCode != http.StatusNoContent {
			t.Errorf("event %d got the answer %s", i, answer.Status)
		}
		if err := answer.Body.Close(); err != nil {
			t.Error(err)
		}
	}
	if got := endpoint.receivedEvents.Load(); got != 3 {
		t.Errorf("%d events were counted, want 3", got)
	}
	if err := closeEndpoint(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	if _, err := http.Get(endpoint.url); err == nil {
		t.Error("it answers after its end")
	}
}
