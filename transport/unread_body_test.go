package transport

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A body that was announced and does not come holds its connection for the server's read timeout and no longer, whether a request
// of its kind has a body or not. No shutdown waits for it.
func TestAnUnreadBodyEndsAtTheReadTimeout(t *testing.T) {
	identity := newIdentity(t, IdentityConfig{Development: true})
	sockets := NewSockets(SocketConfig{Identity: identity, WithWakeConsumer: withWakeConsumer, WakingFields: testWakingFields, Log: discardLog})
	schema := &hotTestSchema{testSchema: newTestSchema()}
	handler := newDevelopmentHandler(t, func(cfg *Config) { cfg.Schema, cfg.Identity, cfg.Sockets = schema, identity, sockets })
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 200 * time.Millisecond, ReadTimeout: 200 * time.Millisecond, WriteTimeout: time.Minute,
		ErrorLog: slog.NewLogLogger(discardLog.Handler(), slog.LevelError),
	}
	front := NewFront(handler, server, false)
	at := serveUntilTestEnds(t, front.Serve, front.Close)

	reserve := func() string {
		request := must(http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+at+frontPath, http.NoBody))
		request.Header.Set("Authorization", "Bearer dev:alice")
		response := must((&http.Transport{DisableKeepAlives: true}).RoundTrip(request))
		defer response.Body.Close()
		return string(must(io.ReadAll(response.Body)))
	}
	const (
		hello      = "?query=%7Bhello%7D"
		subscribe  = "?query=subscription%7Bticks%7D"
		one        = "Content-Length: 1"                         // announces a body that does not come
		chunked    = "Transfer-Encoding: chunked"                // announces a body too
		reserved   = "RESERVED"                                  // stands for the token of a new reservation
		halfChunk  = "Transfer-Encoding: chunked\r\n\r\n5\r\nab" // the head ends here
		events     = "Accept: text/event-stream"
		operations = "&query=%7Bhello%7D&extensions=%7B%22operationId%22%3A%221%22%7D"
	)
	for _, test := range []struct {
		name, start, status string
		lines               []string
	}{
		{"Get", "GET /graphql" + hello, "400", []string{one}},
		{"GetInChunks", "GET /graphql" + hello, "400", []string{chunked}},
		{"GetAfterAPartOfAChunk", "GET /graphql" + hello, "400", []string{halfChunk}},
		{"GetOfAStream", "GET /graphql" + subscribe, "400", []string{events, one}},
		{"GetOfAReservedStream", "GET /graphql?token=" + reserved, "400", []string{events, one}},
		{"PostToAReservedStream", "POST /graphql?token=" + reserved, "400", []string{events, chunked}},
		{"DeleteOnAReservedStream", "DELETE /graphql?token=" + reserved, "400", []string{events, one}},
		{"GetOfAnOperation", "GET /graphql?token=" + reserved + operations, "400", []string{one}},
		{"Put", "PUT /graphql", "201", []string{one}},
		{"Delete", "DELETE /graphql?operationId=1&token=" + reserved, "200", []string{one}},
		{"Options", "OPTIONS /graphql", "204", []string{one}},
		{"Post", "POST /graphql", "408", []string{"Content-Type: application/json", one}},
		{"PostOfAnotherType", "POST /graphql", "415", []string{one}},
		{"PostWithABadToken", "POST /graphql", "401", []string{"Authorization: Bearer x", chunked}},
		{"PostThatIsTooLong", "POST /graphql", "413", []string{
			"Content-Type: application/json", chunked + "\r\n\r\n10001\r\n" + strings.Repeat("a", 64<<10+1), // one byte more than BodyLimit
		}},
		{"Head", "HEAD /graphql", "405", []string{one}},
	} {
		t.Run(test.name, func(t *testing.T) {
			text := unfinishedRequest(test.start, test.lines)
			if before, after, found := strings.Cut(text, reserved); found {
				text = before + reserve() + after
			}
			status, err := sendAndReadStatus(at, text)
			if !strings.HasPrefix(status, test.status) || err != nil {
				t.Errorf("the answer is %q and ends with %v, want %s and the end of the connection", status, err, test.status)
			}
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	sockets.Drain(ctx, 0)
	if err := front.Shutdown(ctx); err != nil {
		t.Errorf("the shutdown: %v", err)
	}
}

// unfinishedRequest returns the text of a request that begins with start and these header lines. It adds a token if the lines have no
// Authorization. If the last line has no blank line, which ends the head, it adds one. A body that the lines announce does not follow,
// or only in part.
func unfinishedRequest(start string, lines []string) string {
	text := start + " HTTP/1.1\r\nHost: 127.0.0.1\r\n" + strings.Join(lines, "\r\n")
	if !strings.Contains(text, "Authorization") {
		text = strings.Replace(text, "Host:", "Authorization: Bearer dev:alice\r\nHost:", 1)
	}
	if !strings.Contains(text, "\r\n\r\n") {
		text += "\r\n\r\n"
	}
	return text
}

// sendAndReadStatus sends a text and returns the status of the answer, and an error if the connection has not ended 10 s later.
func sendAndReadStatus(at, text string) (status string, err error) {
	conn, err := net.Dial("tcp", at)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(conn, text); err != nil {
		return "", err
	}
	reader := bufio.NewReader(conn)
	got, err := http.ReadResponse(reader, nil)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(io.Discard, reader)
	return got.Status, err
}
