package transport

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestLoopbackOnly(t *testing.T) {
	handler := LoopbackOnly(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	for host, served := range map[string]bool{
		"localhost": true, "localhost:8080": true, "LocalHost.:8080": true, "app.localhost:1": true, "127.0.0.1:8080": true, "127.9.8.7": true,
		"[::1]:8080": true, "[::1]": true, "[::ffff:127.0.0.1]:80": true,
		"": false, "evil.test": false, "evil.test:8080": false, "localhost.evil.test": false, "notlocalhost": false, "127.0.0.1.evil.test": false,
		"0.0.0.0:8080": false, "10.0.0.1": false, "[::]:8080": false, "[fe80::1]:80": false, "128.0.0.1": false, ".localhost.test": false,
		"localhost:80:80": false, "2130706433": false,
	} {
		for _, path := range []string{"/graphql", "/graphiql", "/metrics", "/"} {
			request := httptest.NewRequest(http.MethodGet, path, nil)
			request.Host = host
			recorder := httptest.NewRecorder()
			handler.ServeHTTP(recorder, request)
			if got := recorder.Code == http.StatusNoContent; got != served {
				t.Errorf("Host %q, %s: status %d, served %v is wanted", host, path, recorder.Code, served)
			}
			if body := recorder.Body.String(); !served && (recorder.Code != http.StatusForbidden || !strings.Contains(body, "FORBIDDEN") || !strings.Contains(body, "development mode")) {
				t.Errorf("Host %q: %d %s", host, recorder.Code, body)
			}
		}
	}
}

// Behind a proxy on the same machine the Host proves nothing: a request with a header of a proxy is refused.
func TestForwardedRequestsAreRefusedInDevelopmentMode(t *testing.T) {
	handler := LoopbackOnly(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "x-forwarded-host", "X-Forwarded-Proto", "X-Forwarded-Port", "X-Forwarded-Server", "X-Real-IP", "Via"} {
		for _, value := range []string{"203.0.113.9", "127.0.0.1", ""} {
			request := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:8080/graphql", nil)
			request.Header.Set(name, value)
			recorder := httptest.NewRecorder()
			handler.ServeHTTP(recorder, request)
			if body := recorder.Body.String(); recorder.Code != http.StatusForbidden || !strings.Contains(body, "forwarded") || !strings.Contains(body, "FORBIDDEN") {
				t.Errorf("%s: %q: %d %s", name, value, recorder.Code, body)
			}
		}
	}
}
