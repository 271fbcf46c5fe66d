package node

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"tidings/transport"
)

// A head has room for a GET with the longest query, and for usual headers beside it. A longer one is refused.
func TestRequestHeadersAreBounded(t *testing.T) {
	s := &Server{Config: Config{Requests: transport.RequestSettings{BodyLimit: 64 << 10, RequestDeadline: 10 * time.Second}}, Log: slog.New(slog.DiscardHandler)}
	server := s.httpServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	defer func() {
		_ = server.Close()
		<-ended
	}()
	for name, test := range map[string]struct {
		query, header int // bytes
		status        int
	}{
		"the longest query": {64 << 10, 24 << 10, http.StatusOK},
		"a long header":     {0, 200 << 10, http.StatusRequestHeaderFieldsTooLarge},
		"a long URL":        {200 << 10, 0, http.StatusRequestHeaderFieldsTooLarge},
	} {
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		go func() {
			_, _ = io.WriteString(conn, "GET /graphql?"+strings.Repeat("a", test.query)+" HTTP/1.1\r\nHost: h\r\nA: "+strings.Repeat("a", test.header)+"\r\n\r\n")
		}()
		got, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if got.StatusCode != test.status {
			t.Errorf("%s: the status is %d, want %d", name, got.StatusCode, test.status)
		}
	}
}
