package contract

import (
	"cmp"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// deadlineRecorder is an httptest.ResponseRecorder that accepts deadlines, as a connection's writer does.
type deadlineRecorder struct{ *httptest.ResponseRecorder }

func (deadlineRecorder) SetReadDeadline(time.Time) error  { return nil }
func (deadlineRecorder) SetWriteDeadline(time.Time) error { return nil }

// ingestEventsJSON makes events of ingest. Each has a key of its own unless key is "".
func ingestEventsJSON(count int, key string) string {
	list := make([]string, count)
	for i := range list {
		said := fmt.Sprintf(`"as": "user:u%d"`, i%20)
		if key != "" {
			said += fmt.Sprintf(`, "key": "%s %d"`, key, i)
		}
		list[i] = fmt.Sprintf(`{%s, "do": {"touchView": {"code": "c", "key": "v%d"}}}`, said, i)
	}
	return strings.Join(list, ", ")
}

// BenchmarkRequest measures one request through the whole handler, without a network. So it includes everything that the
// transport adds to an answer.
func BenchmarkRequest(b *testing.B) {
	n := world.StartNode(b, world.NodeOptions{Database: sqltest.SQLite(b), Redis: "embedded"})
	n.Follow("alice", "bob")
	n.Publish("bob", "hello")
	n.SettleJobsAndCaches()
	for _, c := range []struct{ name, body, token string }{
		{"typename", `{"query":"{ __typename }"}`, ""},
		{"badges", `{"query":"{ viewer { badges { version total { value display precision } homeFeed { value } notifications { total { value } } siteMessages { total { value } } announcements { value } conversations { total { value } } liveBoard { value } dots { name lit } } } }"}`, ""},
		{"page", `{"query":"query($n: Int) { viewer { homeFeed(first: $n) { edges { node { id body author { key name } } } pageInfo { endCursor } } } }","variables":{"n":20}}`, ""},
		{"mutation", `{"query":"mutation { markHomeFeedSeen(input: {}) { badges { version } } }"}`, ""},
		{"mutation with a key", `{"query":"mutation { markHomeFeedSeen(input: {idempotencyKey: \"KEY\"}) { badges { version } } }"}`, ""},
		{"ingest", `{"query":"mutation($e: [IngestEvent!]!) { ingest(events: $e) { results { id error { code } } } }","variables":{"e":[` + ingestEventsJSON(200, "") + `]}}`, "host:ingest"},
		{"ingest with keys", `{"query":"mutation($e: [IngestEvent!]!) { ingest(events: $e) { results { id error { code } } } }","variables":{"e":[` + ingestEventsJSON(200, "KEY") + `]}}`, "host:ingest"},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				body := strings.ReplaceAll(c.body, "KEY", fmt.Sprint(i))
				request := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/graphql", strings.NewReader(body))
				request.Header.Set("Content-Type", "application/json")
				request.Header.Set("Authorization", "Bearer dev:"+cmp.Or(c.token, "alice"))
				answer := deadlineRecorder{httptest.NewRecorder()}
				n.HTTP.Handler.ServeHTTP(answer, request)
				if answer.Code != http.StatusOK || strings.Contains(answer.Body.String(), "errors") {
					b.Fatalf("%d %s", answer.Code, answer.Body)
				}
			}
		})
	}
}
