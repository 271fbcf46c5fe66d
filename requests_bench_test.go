package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tidings/services/store/storetest"
)

// recorder is a writer with deadlines, as that of a connection is.
type recorder struct{ *httptest.ResponseRecorder }

func (recorder) SetReadDeadline(time.Time) error  { return nil }
func (recorder) SetWriteDeadline(time.Time) error { return nil }

// BenchmarkRequest is one request through the whole handler, without a network: all that the edge adds to an answer is in it.
func BenchmarkRequest(b *testing.B) {
	n := startNode(b, nodeOptions{database: storetest.SQLite(b), redis: "embedded"})
	n.follow("alice", "bob")
	n.publish("bob", "hello")
	n.settle()
	for _, c := range []struct{ name, body string }{
		{"typename", `{"query":"{ __typename }"}`},
		{"badges", `{"query":"{ viewer { badges { version total { value display precision } homeFeed { value } notifications { total { value } } siteMessages { total { value } } announcements { value } conversations { total { value } } liveBoard { value } dots { name lit } } } }"}`},
		{"page", `{"query":"query($n: Int) { viewer { homeFeed(first: $n) { edges { node { id body author { key name } } } pageInfo { endCursor } } } }","variables":{"n":20}}`},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				request := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/graphql", strings.NewReader(c.body))
				request.Header.Set("Content-Type", "application/json")
				request.Header.Set("Authorization", "Bearer dev:alice")
				answer := recorder{httptest.NewRecorder()}
				n.http.Handler.ServeHTTP(answer, request)
				if answer.Code != http.StatusOK || strings.Contains(answer.Body.String(), "errors") {
					b.Fatalf("%d %s", answer.Code, answer.Body)
				}
			}
		})
	}
}
