package nodes

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// newSilentNodeHandler returns a handler that accepts every request and socket, and reports it on arrived. It sends no answer until
// speak is closed, except to health checks.
func newSilentNodeHandler(t *testing.T, arrived chan<- string, speak <-chan struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case r.URL.Path == "/healthz":
			return
		case r.Header.Get("Upgrade") == "websocket":
			conn, buffered, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = buffered.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
			arrived <- "socket" // reported before the client gets its answer, so that arrived has the client's order
			_ = buffered.Flush()
			<-speak
			_, _ = buffered.WriteString("spoken\n")
			_, _ = buffered.Flush(), conn.Close()
		case strings.HasPrefix(r.Header.Get("Accept"), "text/event-stream"):
			w.Header().Set("Content-Type", "text/event-stream")
			arrived <- "stream " + string(body)
			_ = http.NewResponseController(w).Flush()
			<-speak
			_, _ = io.WriteString(w, "spoken\n")
		default:
			arrived <- "request " + string(body) + " to " + r.Host
			select {
			case <-r.Context().Done():
			case <-speak:
			}
		}
	}
}

// A node whose machine has vanished takes requests on kept connections and answers nothing. The proxy soon gives such a request up.
// Sockets and event streams, which may be silent for long, stay open. A query is given up just as soon if its client would also accept
// an event stream, as urql does.
func TestTheProxyGivesUpOnSilentAnswersAlone(t *testing.T) {
	c := &composedDeployment{t: t, addressPrefix: testAddressPrefix()}
	arrived, speak := make(chan string, 10), make(chan struct{})
	node := &http.Server{Handler: newSilentNodeHandler(t, arrived, speak)}
	for _, name := range []string{"node-1", "node-2"} {
		listener, err := net.Listen("tcp", c.serviceAddress(name)+":8080")
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = node.Serve(listener) }()
	}
	t.Cleanup(func() { _ = node.Close() })
	text := c.readFile("deploy/compose/nginx.conf")
	const answers = "proxy_read_timeout 15s;" // the line for requests that are not streams
	if !strings.Contains(text, answers) || !strings.Contains(text, "proxy_read_timeout 60s;") {
		t.Fatal("answers and streams have one read timeout")
	}
	c.startProxy(strings.Replace(text, answers, "proxy_read_timeout 1s;", 1))

	ask := func(accept, body string) *http.Response {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.ProxyURL+"/graphql", strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return &http.Response{Body: http.NoBody}
		}
		request.Header.Set("Accept", accept)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Error(err)
			return &http.Response{Body: http.NoBody}
		}
		t.Cleanup(func() { _ = response.Body.Close() })
		return response
	}
	socket, err := net.Dial("tcp", c.serviceAddress("proxy")+":8080")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = socket.Close() }()
	_, _ = io.WriteString(socket, "GET /graphql HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
	switched := bufio.NewReader(socket)
	if answer, err := http.ReadResponse(switched, nil); err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("the upgrade: %v, %v", answer, err)
	}
	// The host that reaches a node has the port, because a node compares the host with the origin of a page.
	host := strings.TrimPrefix(c.ProxyURL, "http://")
	stream := ask("text/event-stream, multipart/mixed", "watch")
	query := make(chan *http.Response, 1)
	go func() {
		query <- ask("application/graphql-response+json, application/graphql+json, application/json, text/event-stream, multipart/mixed", "a query")
	}()
	for _, want := range []string{"socket", "stream watch", "request a query to " + host} {
		if got := <-arrived; got != want {
			t.Errorf("a node got %q, want %q", got, want)
		}
	}
	// The proxy gives the mutation up. The query, which it got earlier, is given up too: see below.
	if plain := ask("application/json", "a mutation"); plain.StatusCode != http.StatusGatewayTimeout {
		t.Errorf("the plain request: %s", plain.Status)
	}
	if got := <-arrived; got != "request a mutation to "+host {
		t.Errorf("a node got %q", got)
	}
	// The stream and the socket were silent for longer than the mutation, and are still open.
	close(speak)
	if query := <-query; query.StatusCode != http.StatusGatewayTimeout {
		t.Errorf("the query: %s", query.Status)
	}
	for name, reader := range map[string]*bufio.Reader{"stream": bufio.NewReader(stream.Body), "socket": switched} {
		if got, err := reader.ReadString('\n'); got != "spoken\n" {
			t.Errorf("the %s: %q, %v", name, got, err)
		}
	}
	if len(arrived) > 0 {
		t.Errorf("a node got %q too: a mutation is not sent again", <-arrived)
	}
}
