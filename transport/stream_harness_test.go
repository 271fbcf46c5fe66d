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

// sendHTTP sends one request over the network of the world. A header is given by name and value.
func (w *world) sendHTTP(method, target, body string, header ...string) *http.Response {
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

// status sends one request and reads its whole answer.
func (w *world) status(method, target, body string, header ...string) (int, string) {
	w.Helper()
	response := w.sendHTTP(method, target, body, header...)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		w.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// listen reads a response as an event stream.
func (w *world) listen(response *http.Response) *streamClient {
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
	e.expect(":")
	return e
}

// openDistinct opens an event stream for one operation.
func (w *world) openDistinct(key, query string) *streamClient {
	w.Helper()
	return w.listen(w.sendHTTP(http.MethodPost, "", `{"query":"`+query+`"}`, "Accept", typeEvents, "Authorization", "Bearer dev:"+key))
}

// reserve reserves a stream and returns its token.
func (w *world) reserve(key string) string {
	w.Helper()
	status, token := w.status(http.MethodPut, "", "", "Authorization", "Bearer dev:"+key)
	if status != http.StatusCreated || len(token) < 20 {
		w.Fatalf("%d %s", status, token)
	}
	return token
}

// openReserved opens the stream of a reservation as a browser's EventSource does, without a header of its own.
func (w *world) openReserved(token string) *streamClient {
	w.Helper()
	return w.listen(w.sendHTTP(http.MethodGet, "?token="+url.QueryEscape(token), "", "Accept", typeEvents))
}

// postOperation asks for an operation on a stream.
func (w *world) postOperation(key, token, id, query string) (int, string) {
	w.Helper()
	return w.status(http.MethodPost, "", `{"query":"`+query+`","extensions":{"operationId":"`+id+`"}}`,
		"Authorization", "Bearer dev:"+key, streamTokenHeader, token)
}

// expect fails the test unless the next event is want.
func (e *streamClient) expect(want string) {
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
		e.expect(want)
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

// nextEvent returns the text of an event with a response.
func nextEvent(data string) string { return "event: next\ndata: " + data }

// completeEvent is the text of the event that ends an operation.
const completeEvent = "event: complete\ndata: "
