package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// startHTTPServer starts a server and returns its host and port.
func startHTTPServer(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

func TestLoad(t *testing.T) {
	var asked atomic.Int64
	seen := make(chan string, 1)
	address := startHTTPServer(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		body, _ := io.ReadAll(r.Body)
		select {
		case seen <- r.Method + " " + r.URL.Path + " " + r.Header.Get("Authorization") + " " + string(body):
		default:
		}
		fmt.Fprint(w, `{"data":{"a":"é"}}`)
	})
	const length = 100 * time.Millisecond
	got, err := newLoadTarget(address, os.Getpid(), `{ a(b: "c") }`, []string{"dev:x"}).load(t.Context(), 3, length)
	if err != nil {
		t.Fatal(err)
	}
	if request, want := <-seen, `POST /graphql Bearer dev:x {"query":"{ a(b: \"c\") }"}`; request != want {
		t.Errorf("the server got %q, want %q", request, want)
	}
	if got.clientCPUPerAnswer <= 0 && got.serverCPUPerAnswer > 0 { // in this test the client and the server are one process
		t.Errorf("the client's own time is not known: %+v", got)
	}
	// The load took the requested time, or longer if the last requests took longer. So the rate times the requested time is at most
	// the number of requests.
	if counted := got.ratePerSecond * length.Seconds(); counted > float64(asked.Load()) || got.ratePerSecond <= 0 || got.latencyP50 <= 0 || got.latencyP99 < got.latencyP50 {
		t.Errorf("%+v after %d requests", got, asked.Load())
	}
}

func TestLoadTakesTheTokensInTurn(t *testing.T) {
	var counts [2]atomic.Int64
	address := startHTTPServer(t, func(w http.ResponseWriter, r *http.Request) {
		counts[int(r.Header.Get("Authorization")[len("Bearer dev:")]-'0')].Add(1)
		fmt.Fprint(w, `{"data":{}}`)
	})
	if _, err := newLoadTarget(address, os.Getpid(), "{ a }", []string{"dev:0", "dev:1"}).load(t.Context(), 1, 50*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if a, b := counts[0].Load(), counts[1].Load(); a == 0 || a-b < 0 || a-b > 1 {
		t.Errorf("the users were asked for %d and %d times", a, b)
	}
}

func TestLoadOfAnUnknownProcessHasNoProcessorTime(t *testing.T) {
	address := startHTTPServer(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"data":{}}`) })
	got, err := newLoadTarget(address, 0, "{ a }", []string{"x"}).load(t.Context(), 1, 20*time.Millisecond)
	if err != nil || got.serverCPUPerAnswer >= 0 || got.ratePerSecond <= 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestLoadCountsNoBadAnswer(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"errors":      func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"errors":[{"message":"no"}]}`) },
		"null":        func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"data":null}`) },
		"status":      func(w http.ResponseWriter, _ *http.Request) { http.Error(w, `{"data":{}}`, http.StatusBadGateway) },
		"empty":       func(http.ResponseWriter, *http.Request) {},
		"broken off":  func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"bad, chunks": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"errors":[]}`); w.(http.Flusher).Flush() },
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := newLoadTarget(startHTTPServer(t, handler), os.Getpid(), "{ a }", []string{"x"}).load(t.Context(), 2, time.Minute); err == nil {
				t.Errorf("counted as %+v", got)
			}
		})
	}
}

func TestLoadEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	started := make(chan struct{}, 100)
	address := startHTTPServer(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then does the server notice a disconnected client
		started <- struct{}{}
		<-r.Context().Done() // never answers
	})
	go func() {
		<-started
		cancel()
	}()
	if _, err := newLoadTarget(address, os.Getpid(), "{ a }", []string{"x"}).load(ctx, 2, time.Minute); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestReadAnswer(t *testing.T) {
	const data = `{"data":{"a":1}}`
	for name, test := range map[string]struct {
		answer string
		good   bool
	}{
		"length":             {"HTTP/1.1 200 OK\r\ncontent-LENGTH: 16\r\nX: y\r\n\r\n" + data, true},
		"one chunk":          {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n" + data + "\r\n0\r\n\r\n", true},
		"two chunks":         {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\n" + data[:10] + "\r\n6\r\n" + data[10:] + "\r\n0\r\n\r\n", true},
		"no length":          {"HTTP/1.1 200 OK\r\nX: y\r\n\r\n" + data, false},
		"bad length":         {"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n" + data, false},
		"bad chunk":          {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n" + data, false},
		"short":              {"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n" + data, false},
		"status":             {"HTTP/1.1 500 No\r\nContent-Length: 16\r\n\r\n" + data, false},
		"headers broken off": {"HTTP/1.1 200 OK\r\nContent-Le", false},
	} {
		t.Run(name, func(t *testing.T) {
			reader := bufio.NewReader(strings.NewReader(test.answer))
			err := readAnswer(reader)
			if (err == nil) != test.good {
				t.Errorf("got %v", err)
			}
			if test.good && reader.Buffered() != 0 {
				t.Errorf("%d bytes are left for the next answer", reader.Buffered())
			}
		})
	}
}
