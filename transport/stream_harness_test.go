package transport

import (
	"bufio"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// streamClient is a client of an event stream that reads all the time.
type streamClient struct {
	*testing.T
	response *http.Response
	received chan string   // events and fields, each without the empty line after it
	ended    chan struct{} // closed when the stream has ended
}

// sendHTTP sends one request over the network of the fixture. Headers are pairs of a name and a value.
func (w *socketFixture) sendHTTP(method, target, body string, header ...string) *http.Response {
	w.Helper()
	request, err := http.NewRequestWithContext(w.Context(), method, "http://tidings.test/graphql"+target, strings.NewReader(body))
	if err != nil {
		w.Fatal(err)
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	client := &http.Transport{DialContext: w.listener.dial, DisableKeepAlives: true}
	response, err := client.RoundTrip(request)
	if err != nil {
		w.Fatal(err)
	}
	return response
}

// statusAndBody sends one request and reads its whole answer.
func (w *socketFixture) statusAndBody(method, target, body string, header ...string) (int, string) {
	w.Helper()
	response := w.sendHTTP(method, target, body, header...)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		w.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// readEventStream reads a response as an event stream.
func (w *socketFixture) readEventStream(response *http.Response) *streamClient {
	w.Helper()
	if kind := response.Header.Get("Content-Type"); response.StatusCode != http.StatusOK || kind != "text/event-stream; charset=utf-8" {
		text, _ := io.ReadAll(response.Body)
		w.Fatalf("%d %s: %s", response.StatusCode, kind, text)
	}
	e := &streamClient{T: w.T, response: response, received: make(chan string, 1000), ended: make(chan struct{})}
	go func() {
		defer close(e.ended)
		defer response.Body.Close()
		lines := bufio.NewScanner(response.Body)
		var event []string
		for lines.Scan() {
			if line := lines.Text(); line != "" {
				event = append(event, line)
				continue
			}
			e.received <- strings.Join(event, "\n")
			event = nil
		}
	}()
	e.expectEvent(":")
	return e
}

// openOperationStream opens an event stream for one operation.
func (w *socketFixture) openOperationStream(key, query string) *streamClient {
	w.Helper()
	return w.readEventStream(w.sendHTTP(http.MethodPost, "", `{"query":"`+query+`"}`, "Accept", typeEvents, "Authorization", "Bearer dev:"+key))
}

// reserveStream reserves an event stream for a user and returns its token.
func (w *socketFixture) reserveStream(key string) string {
	w.Helper()
	status, token := w.statusAndBody(http.MethodPut, "", "", "Authorization", "Bearer dev:"+key)
	if status != http.StatusCreated || len(token) < 20 {
		w.Fatalf("%d %s", status, token)
	}
	return token
}

// openReservedStream opens the stream of a reservation as a browser's EventSource does, without a header of its own.
func (w *socketFixture) openReservedStream(token string) *streamClient {
	w.Helper()
	return w.readEventStream(w.sendHTTP(http.MethodGet, "?token="+url.QueryEscape(token), "", "Accept", typeEvents))
}

// postOperation sends an operation to be executed on the reserved stream with a token.
func (w *socketFixture) postOperation(key, token, id, query string) (int, string) {
	w.Helper()
	return w.statusAndBody(http.MethodPost, "", `{"query":"`+query+`","extensions":{"operationId":"`+id+`"}}`,
		"Authorization", "Bearer dev:"+key, streamTokenHeader, token)
}

// expectEvent fails the test unless the next event is want.
func (e *streamClient) expectEvent(want string) {
	e.Helper()
	select {
	case got := <-e.received:
		if got != want {
			e.Fatalf("got  %s\nwant %s", got, want)
		}
	case <-e.ended: // everything before its end has arrived
		if len(e.received) == 0 {
			e.Fatalf("the stream has ended, want %s", want)
		}
		e.expectEvent(want)
	case <-time.After(time.Minute):
		e.Fatalf("no event within a minute, want %s", want)
	}
}

// expectNothing fails the test if an event has come or is on its way, or if the stream has ended.
func (e *streamClient) expectNothing() {
	e.Helper()
	synctest.Wait()
	select {
	case got := <-e.received:
		e.Fatalf("unexpected: %s", got)
	case <-e.ended:
		e.Fatal("the stream has ended")
	default:
	}
}

// waitEnd waits for the end of the stream, and returns what came before it.
func (e *streamClient) waitEnd() (last []string) {
	e.Helper()
	select {
	case <-e.ended:
	case <-time.After(time.Minute):
		e.Fatal("the stream goes on")
	}
	for len(e.received) > 0 {
		last = append(last, <-e.received)
	}
	return last
}

// nextEventText returns the text of an event of the type next, whose data is a response.
func nextEventText(data string) string { return "event: next\ndata: " + data }

// completeEventText is the text of the event that ends an operation.
const completeEventText = "event: complete\ndata: "
