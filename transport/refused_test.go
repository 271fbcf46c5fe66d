package transport

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"tidings/services"
)

// secretWord is a word in the refused requests. No answer may repeat it.
const secretWord = "s3cret"

// refusedRequest is a request that must be refused before execution.
type refusedRequest struct {
	name       string
	send       func() httpAnswer
	wantStatus int
	wantCode   services.Code
}

// refusedRequests returns requests, each with a fault that is found before execution.
func refusedRequests(t *testing.T, handler http.Handler) []refusedRequest {
	body := func(text string) func() httpAnswer {
		return func() httpAnswer { return askHandler(t, handler, http.MethodPost, "/graphql", text) }
	}
	hello := func(header ...string) func() httpAnswer {
		return func() httpAnswer { return postQuery(t, handler, "{ hello }", header...) }
	}
	long := strings.Repeat("a", maxMediaHeaderBytes)
	return []refusedRequest{
		{"NoJSON", body(secretWord), 400, services.Invalid},
		{"HalfJSON", body(`{"query":"` + secretWord), 400, services.Invalid},
		{"TwoObjects", body(`{"query":"{hello}"} {"query":"{hello}"}`), 400, services.Invalid},
		{"Empty", body(``), 400, services.Invalid},
		{"Null", body(`null`), 400, services.Invalid},
		{"Batch", body(`[{"query":"{hello}"}]`), 400, services.Invalid},
		{"NoQuery", body(`{"id":"` + secretWord + `"}`), 400, services.Invalid},
		{"EmptyQuery", body(`{"query":""}`), 400, services.Invalid},
		{"QueryNoText", body(`{"query":{"a":"` + secretWord + `"}}`), 400, services.Invalid},
		{"OperationNameNoText", body(`{"query":"{hello}","operationName":["` + secretWord + `"]}`), 400, services.Invalid},
		{"VariablesNoObject", body(`{"query":"{hello}","variables":"` + secretWord + `"}`), 400, services.Invalid},
		{"ExtensionsNoObject", body(`{"query":"{hello}","extensions":["` + secretWord + `"]}`), 400, services.Invalid},
		{"NoUTF8", body("{\"query\":\"{hello}\",\"variables\":{\"a\":\"\xff" + secretWord + "\"}}"), 400, services.Invalid},
		{"TooLong", body(`{"query":"{hello}` + strings.Repeat(" ", 64<<10) + `"}`), 413, services.Invalid},
		{"Form", hello("Content-Type", "application/x-www-form-urlencoded"), 415, services.Invalid},
		{"Multipart", hello("Content-Type", "multipart/form-data; boundary=a"), 415, services.Invalid},
		{"Text", hello("Content-Type", "text/plain"), 415, services.Invalid},
		{"GraphQL", hello("Content-Type", "application/graphql"), 415, services.Invalid},
		{"NoContentType", hello("Content-Type", ""), 415, services.Invalid},
		{"Charset", hello("Content-Type", "application/json; charset=utf-16"), 415, services.Invalid},
		{"LongContentType", hello("Content-Type", "application/json; a="+long), 415, services.Invalid},
		{"Accept", hello("Accept", "text/html"), 406, services.Invalid},
		{"LongAccept", hello("Accept", "application/json, a/"+long), 406, services.Invalid},
		{"BadToken", hello("Authorization", "Bearer "+secretWord), 401, services.Unauthenticated},
		{"NoBearer", hello("Authorization", "Basic "+secretWord), 401, services.Unauthenticated},
		{"ActAs", hello("Authorization", "Bearer dev:alice", "Tidings-Act-As", secretWord), 403, services.Forbidden},
		{"ActAsBadKey", hello("Authorization", "Bearer dev:a:ingest", "Tidings-Act-As", "b b"), 400, services.Invalid},
		{"Device", hello("Authorization", "Bearer dev:alice", "Tidings-Device", secretWord+" "+secretWord), 400, services.Invalid},
		{"Origin", hello("Origin", "https://evil.test"), 403, services.Forbidden},
		{"OriginNull", hello("Origin", "null"), 403, services.Forbidden},
		{"GetFromAnotherSite", func() httpAnswer { return getQuery(t, handler, "{ hello }", "Sec-Fetch-Site", "cross-site") }, 403, services.Forbidden},
		{"GetFromASiblingSite", func() httpAnswer { return getQuery(t, handler, "{ hello }", "Sec-Fetch-Site", "same-site") }, 403, services.Forbidden},
		{"Upgrade", hello("Upgrade", "websocket"), 400, services.Invalid},
		{"Subscription", func() httpAnswer { return postQuery(t, handler, "subscription { ticks }") }, 400, services.Invalid},
		{"MutationByGet", func() httpAnswer { return getQuery(t, handler, `mutation { set(text: "it") }`) }, 405, services.Invalid},
		{"GetNoQuery", func() httpAnswer { return askHandler(t, handler, http.MethodGet, "/graphql", "") }, 400, services.Invalid},
		{"GetVariables", func() httpAnswer {
			return askHandler(t, handler, http.MethodGet, "/graphql?query=%7Bhello%7D&variables=5", "")
		}, 400, services.Invalid},
		{"GetVariablesAndMore", func() httpAnswer {
			return askHandler(t, handler, http.MethodGet, "/graphql?query=%7Bhello%7D&variables=%7B%7D%5D", "")
		}, 400, services.Invalid},
		{"GetNoUTF8", func() httpAnswer { return askHandler(t, handler, http.MethodGet, "/graphql?query=%ff", "") }, 400, services.Invalid},
		{"GetBadEscape", func() httpAnswer { return askHandler(t, handler, http.MethodGet, "/graphql?query=%zz", "") }, 400, services.Invalid},
		{"GetTooLong", func() httpAnswer {
			return askHandler(t, handler, http.MethodGet, "/graphql?query="+strings.Repeat("a", 64<<10), "")
		}, 414, services.Invalid},
		{"Put", func() httpAnswer { return askHandler(t, handler, http.MethodPut, "/graphql", "") }, 405, services.Invalid},
		{"Head", func() httpAnswer { return askHandler(t, handler, http.MethodHead, "/graphql", "") }, 405, services.Invalid},
	}
}

func TestRequestsThatAreRefused(t *testing.T) {
	for _, test := range refusedRequests(t, newDevelopmentHandler(t, nil)) {
		t.Run(test.name, func(t *testing.T) {
			got := test.send()
			if got.status != test.wantStatus || got.errorCode() != test.wantCode {
				t.Errorf("%d %s, want %d with the code %s", got.status, got.body, test.wantStatus, test.wantCode)
			}
			if strings.Contains(got.body, secretWord) {
				t.Errorf("repeats what was sent: %s", got.body)
			}
			if strings.Contains(got.body, `"data"`) {
				t.Errorf("has data: %s", got.body)
			}
			if got.status == http.StatusMethodNotAllowed && got.header.Get("Allow") == "" {
				t.Error("405 without Allow")
			}
			if got.status == http.StatusUnauthorized && got.header.Get("WWW-Authenticate") != "Bearer" {
				t.Error("401 without WWW-Authenticate")
			}
		})
	}
}

func TestBodyLimitDependsOnTheScope(t *testing.T) {
	handler := newDevelopmentHandler(t, nil)
	body := func(size int) string {
		const frame = `{"query":"query($t:String!){hello echo(text:$t)}","variables":{"t":""}}`
		return strings.Replace(frame, `"t":""`, `"t":"`+strings.Repeat("a", size-len(frame))+`"`, 1)
	}
	for _, test := range []struct {
		token  string
		size   int
		status int
	}{
		{"dev:alice", 64 << 10, 200}, {"dev:alice", 64<<10 + 1, 413}, {"dev:alice:admin", 64<<10 + 1, 413},
		{"dev:host:ingest", 1 << 20, 200}, {"dev:host:ingest", 1<<20 + 1, 413},
	} {
		got := askHandler(t, handler, http.MethodPost, "/graphql", body(test.size), "Authorization", "Bearer "+test.token)
		if got.status != test.status {
			t.Errorf("%s with %d bytes: %d, want %d", test.token, test.size, got.status, test.status)
		}
		if test.status == http.StatusRequestEntityTooLarge && len(got.body) > 200 {
			t.Errorf("a long answer: %d bytes", len(got.body))
		}
	}
}

func TestATruncatedBody(t *testing.T) {
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/graphql", io.MultiReader(strings.NewReader(`{"query":`), brokenReader{}))
	request.Header.Set("Content-Type", "application/json")
	recorder := httptest.NewRecorder()
	newDevelopmentHandler(t, nil).ServeHTTP(recorder, request)
	if recorder.Code != http.StatusBadRequest || strings.Contains(recorder.Body.String(), io.ErrUnexpectedEOF.Error()) {
		t.Errorf("%d %s", recorder.Code, recorder.Body)
	}
}

// brokenReader is a body that breaks off at once.
type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
