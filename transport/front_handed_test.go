package transport

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tidings/tests/eventually"
)

// After a request that the HTTP server answered, the front answers the next one on the same connection.
func TestHandedOnConnectionsReturnToTheFront(t *testing.T) {
	f := newFrontFixture(t, false, nil)
	returned := 0
	for _, one := range frontCases {
		if one.hot {
			continue
		}
		conn := must(net.Dial("tcp", f.frontAddress))
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		reader := bufio.NewReader(conn)
		for range 3 { // the connection returns each time
			_, _ = io.WriteString(conn, one.text) // an error shows in the answer
			if answer := f.readAnswers(reader, 1)[0]; answer == "no answer" || strings.Contains(strings.SplitN(answer, "\n", 2)[0], " true") {
				break // the HTTP server ended the connection
			}
			before := f.schema.hotAnswerCount.Load()
			_, _ = io.WriteString(conn, rawRequest(queryBody("{ who }")))
			if answer := f.readAnswers(reader, 1)[0]; !strings.HasSuffix(answer, `{"data":{"who":"alice@"}}`) || f.schema.hotAnswerCount.Load() != before+1 {
				t.Errorf("after %s the front answered %d plain requests: %s", one.name, f.schema.hotAnswerCount.Load()-before, answer)
			}
			returned++
		}
		_ = conn.Close()
	}
	if returned < 60 {
		t.Errorf("only %d connections returned", returned)
	}
}

// A connection without plain requests stays with the HTTP server for twice as many answers each time that it is handed on. After a
// plain request it returns to the front after one answer again.
func TestConnectionsWithoutPlainRequestsReturnLater(t *testing.T) {
	f := newFrontFixture(t, false, nil)
	k := f.openKeepAliveConn()
	returned := func() bool {
		f.front.mu.Lock()
		defer f.front.mu.Unlock()
		return len(f.front.conns) == 1 && f.front.httpServerConns == 0
	}
	ask := func(text string) {
		t.Helper()
		if last, err := k.ask(text); last || err != nil {
			t.Fatalf("the last answer: %t, %v", last, err)
		}
	}
	rest := func(handedAnswers int) {
		t.Helper()
		for range handedAnswers {
			ask(rawRequest("", "GET /graphql?query={hello} HTTP/1.1", "-Content-Length"))
		}
		eventually.Holds(t, fmt.Sprintf("the connection returns after %d answers", handedAnswers), returned)
	}
	for range 2 {
		for _, handedAnswers := range []int{1, 2, 4, 8, 16, 32, maxAnswersPerHandOn, maxAnswersPerHandOn} {
			rest(handedAnswers)
		}
		ask(rawRequest(queryBody("{ who }")))
	}
}

// fakeHandedConn is a handed connection. Its methods use it as the HTTP server does, and its client sends one byte for each read.
type fakeHandedConn struct {
	*handedConn
	client         net.Conn // the client's end of the connection
	takenBackBytes *string  // the bytes with which it was taken back; nil: it was not
}

// newFakeHandedConn makes a connection that returns to the front after handedAnswers answers.
func newFakeHandedConn(t *testing.T, handedAnswers int) *fakeHandedConn {
	ours, client := net.Pipe()
	t.Cleanup(func() { _, _ = ours.Close(), client.Close() })
	f := &fakeHandedConn{client: client}
	f.handedConn = newHandedConn(ours, nil, handedAnswers, func(before []byte) bool {
		text := string(before)
		f.takenBackBytes = &text
		return true
	})
	return f
}

// readAsServer makes one Read as the HTTP server does, with a buffer of room bytes, while the client sends one byte.
func (f *fakeHandedConn) readAsServer(room int) error {
	go func() { _, _ = f.client.Write([]byte("x")) }() // it may stay unread
	_, err := f.Read(make([]byte, room))
	return err
}

// answerAsServer makes the calls that the HTTP server makes when it answers a request that it has read.
func (f *fakeHandedConn) answerAsServer() {
	f.setServerState(http.StateActive)
	f.setServerState(http.StateIdle)
	_ = f.SetReadDeadline(inAnHour)
}

// A handed connection returns when the HTTP server, after the given number of answers, waits for a request and has read nothing
// of it.
func TestAHandedOnConnectionReturnsBetweenRequests(t *testing.T) {
	const room = 64 // the size of the HTTP server's buffer
	c := newFakeHandedConn(t, 2)
	if err := c.readAsServer(room); err != nil {
		t.Fatal(err)
	}
	if err := c.readAsServer(1); err != nil { // the end of a head that fills the buffer: no look for the client's end
		t.Fatal(err)
	}
	c.answerAsServer()
	if err := c.readAsServer(room); err != nil {
		t.Fatalf("it returns after its first answer: %v", err)
	}
	_ = c.SetReadDeadline(inAnHour)
	c.answerAsServer()
	if err := c.readAsServer(room - 1); err != nil {
		t.Errorf("it returns although a part of a request was read: %v", err)
	}
	if err := c.readAsServer(room); err != io.EOF {
		t.Errorf("it does not return after its second answer: %v", err)
	}
	if err := c.Close(); err != nil || c.takenBackBytes == nil {
		t.Errorf("it was not taken back: %v", err)
	}
	// If a next request was there already, the HTTP server keeps it: it sets another deadline, and then reads on.
	c = newFakeHandedConn(t, 1)
	_ = c.readAsServer(room)
	c.answerAsServer()
	_ = c.SetReadDeadline(inAnHour)
	if err := c.readAsServer(room); err != nil {
		t.Errorf("it returns in the middle of a request: %v", err)
	}
	// A connection that is closed while the HTTP server waits is not taken back.
	c = newFakeHandedConn(t, 1)
	_ = c.readAsServer(room)
	c.answerAsServer()
	if err := c.Close(); err != nil || c.takenBackBytes != nil {
		t.Errorf("it was taken back: %v", err)
	}
}

// The HTTP server reads a byte to see whether the client is still there; in these tests that is a look. A byte that it finds
// belongs to the next request, and goes to the front.
func TestAByteReadBetweenRequestsGoesToTheFront(t *testing.T) {
	past := time.Unix(1, 0)
	for name, early := range map[string]bool{"a look that is ended": false, "a look that was ended before it began": true} {
		c := newFakeHandedConn(t, 1)
		_ = c.readAsServer(64)
		c.setServerState(http.StateActive)
		_ = c.SetReadDeadline(time.Time{})
		if early {
			c.alreadyRead = []byte("x")
			_ = c.SetReadDeadline(past)
		}
		looked := make(chan error, 1)
		go func() {
			_, err := c.Read(make([]byte, 1))
			looked <- err
		}()
		if !early {
			_, _ = c.client.Write([]byte("x")) // until it is read
			_ = c.SetReadDeadline(past)
		}
		if err := <-looked; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: it ends with %v", name, err)
		}
		_ = c.SetReadDeadline(time.Time{})
		c.setServerState(http.StateIdle)
		_ = c.SetReadDeadline(inAnHour)
		if _, err := c.Read(make([]byte, 64)); err != io.EOF {
			t.Errorf("%s: the connection does not return: %v", name, err)
		}
		if err := c.Close(); err != nil || c.takenBackBytes == nil || *c.takenBackBytes != "x" {
			t.Errorf("%s: taken back with %v, %v", name, c.takenBackBytes, err)
		}
	}
	// While a body is read there is a deadline. A read of one byte of the body does not look whether the client is there.
	body := newFakeHandedConn(t, 1)
	_ = body.readAsServer(64)
	body.setServerState(http.StateActive)
	_ = body.SetReadDeadline(inAnHour)
	if err := body.readAsServer(1); err != nil {
		t.Errorf("a body's byte is not read: %v", err)
	}
	// A read of one byte by a WebSocket does not look whether the client is there either.
	socket := newFakeHandedConn(t, 1)
	socket.setServerState(http.StateActive)
	socket.setServerState(http.StateHijacked)
	if err := socket.readAsServer(1); err != nil {
		t.Errorf("a socket reads nothing: %v", err)
	}
	// A read that looks whether the client is there ends when the client or the HTTP server closes the connection. It ends at once, and
	// not with the error of a deadline.
	for name, end := range map[string]func(*fakeHandedConn){"the client's end": func(c *fakeHandedConn) { _ = c.client.Close() }, "its own": func(c *fakeHandedConn) { _ = c.Close() }} {
		c := newFakeHandedConn(t, 1)
		_ = c.readAsServer(64)
		c.setServerState(http.StateActive)
		looked := make(chan error, 1)
		go func() {
			_, err := c.Read(make([]byte, 1))
			looked <- err
		}()
		end(c)
		if err := <-looked; err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the look ends with %v", name, err)
		}
	}
	c := newFakeHandedConn(t, 1)
	_ = c.readAsServer(64)
	c.setServerState(http.StateActive)
	looked := make(chan error, 1)
	go func() {
		_, err := c.Read(make([]byte, 1))
		looked <- err
	}()
	_, _ = c.client.Write([]byte("x"))
	_ = c.Close()
	if err := <-looked; err == nil {
		t.Error("a look that has read a byte does not end with the connection")
	}
}

// inAnHour is a deadline that does not pass during a test.
var inAnHour = time.Now().Add(time.Hour)

// Requests behind a handed one, sent at once or in pieces, are neither lost nor answered twice, wherever the pieces end.
func TestRequestsBehindAHandedOnOneAreAnsweredOnce(t *testing.T) {
	f := newFrontFixture(t, false, nil)
	mutation, plain, get := rawRequest(queryBody(`mutation { set(text: "a") }`)), rawRequest(queryBody("{ who }")), rawRequest("", "GET /graphql?query={hello} HTTP/1.1", "-Content-Length")
	for name, requests := range map[string][]string{
		"plain": {mutation, plain}, "handed": {mutation, mutation, plain}, "handed by another way": {get, mutation, get, plain, get},
		"a long one": {mutation, rawRequest(queryBody("{ hello }" + strings.Repeat(" ", 9<<10))), plain},
	} {
		text := strings.Join(requests, "")
		want := f.sendAndReadAnswers(f.directAddress, len(requests), text)
		first := len(requests[0])
		for _, pieces := range [][]int{{}, {first}, {first + 1}, {first + 2}, {first + 3}, {first + 4}, {first - 1, first + 1}, {first + 5, len(text) - 1}, {1, 2, 3}} {
			if got := f.sendInPieces(requests, pieces); !slices.Equal(got, want) {
				t.Errorf("%s, cut at %v:\n%s\nwant\n%s", name, pieces, got, want)
			}
		}
	}
}

// sendInPieces sends requests as one text that is cut at places. Before the next piece it reads the answers to all requests that were
// sent completely.
func (f *frontFixture) sendInPieces(requests []string, offsets []int) (answers []string) {
	f.Helper()
	conn := must(net.Dial("tcp", f.frontAddress))
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	text, reader, from := strings.Join(requests, ""), bufio.NewReader(conn), 0
	for _, offset := range append(offsets, len(text)) {
		_, _ = io.WriteString(conn, text[from:offset]) // an error shows in the answers
		from = offset
		whole, end := 0, 0
		for _, request := range requests {
			if end += len(request); end <= offset {
				whole++
			}
		}
		answers = append(answers, f.readAnswers(reader, whole-len(answers))...)
	}
	return answers
}

// Connections that go back and forth between front and HTTP server are all closed when the server ends.
func TestHandedOnConnectionsCloseWithTheServer(t *testing.T) {
	for _, end := range []func(f *frontFixture) error{
		func(f *frontFixture) error { return f.front.Close() },
		func(f *frontFixture) error { f.front.Drain(0); return f.front.Shutdown(f.Context()) },
	} {
		f := newFrontFixture(t, false, nil)
		var clients sync.WaitGroup
		begun := make(chan struct{}, 16)
		for i := range 16 {
			requests := []string{rawRequest(queryBody(`mutation { set(text: "a") }`)), rawRequest(queryBody("{ who }"))}
			clients.Go(func() {
				conn := must(net.Dial("tcp", f.frontAddress))
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
				k := &keepAliveConn{conn, bufio.NewReader(conn)}
				for n := i; ; n++ {
					last, err := k.ask(requests[n%2])
					if n == i+10 {
						begun <- struct{}{}
					}
					if last || err != nil {
						if n < i+10 {
							t.Errorf("the connection ended after %d requests: %v", n-i, err)
							begun <- struct{}{}
						}
						return
					}
				}
			})
		}
		for range 16 {
			<-begun
		}
		if err := end(f); err != nil {
			t.Error(err)
		}
		clients.Wait()
		eventually.Holds(t, "no connection is left", func() bool {
			f.front.mu.Lock()
			defer f.front.mu.Unlock()
			return len(f.front.conns)+f.front.httpServerConns == 0
		})
	}
}
