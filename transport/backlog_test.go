package transport

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
)

const longEchoBytes = 2 * maxSmallAnswerBytes // the length of a text whose echo counts in the backlog

// longEchoRequest is a request for an answer of a little more than longEchoBytes bytes.
var longEchoRequest = `{"query":"{echo(text:\"` + strings.Repeat("x", longEchoBytes) + `\")}"}`

// askLongEchoOverSocket asks for a long answer over a socket that is not read.
func (w *socketFixture) askLongEchoOverSocket() {
	w.Helper()
	conn, err := w.dial(http.Header{}, webSocketSubprotocol)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = conn.Close() })
	for _, text := range []string{`{"type":"connection_init"}`, `{"type":"subscribe","id":"1","payload":` + longEchoRequest + `}`} {
		if err := conn.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
			w.Fatal(err)
		}
		if text == `{"type":"connection_init"}` {
			if _, _, err := conn.ReadMessage(); err != nil {
				w.Fatal(err)
			}
		}
	}
	synctest.Wait() // its answer waits
}

// askLongEchoOverHTTP asks for a long answer and reads its first line. rest reads on until the end or an error, and returns the
// number of bytes.
func (w *socketFixture) askLongEchoOverHTTP() (rest func() int) {
	w.Helper()
	conn, err := w.listener.dial(w.Context(), "", "")
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = conn.Close() })
	go fmt.Fprintf(conn, "POST /graphql HTTP/1.1\r\nHost: tidings.test\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		len(longEchoRequest), longEchoRequest)
	reader := bufio.NewReader(conn)
	if line, err := reader.ReadString('\n'); err != nil || !strings.Contains(line, "200") {
		w.Fatalf("%q %v", line, err)
	}
	synctest.Wait()
	return func() int {
		text, _ := io.ReadAll(reader) // an error if the answer was cut off
		return len(text)
	}
}

// Unread answers wait until the write deadline. While they together exceed the limit, the client of a new answer must read
// it within two seconds, over a socket and over HTTP. Earlier answers keep their deadline.
func TestManyUnreadAnswersAreCutOffSooner(t *testing.T) {
	const patient, hurried = 3, 20 // the numbers of sockets with the usual write deadline, and with the short one
	limit := func(cfg *SocketConfig) { cfg.MaxBacklogBytes = (patient + 1) * (longEchoBytes + 1000) }
	runWithAndWithoutPoller(t, limit, func(w *socketFixture) {
		before := w.askLongEchoOverHTTP()
		for range patient + hurried {
			w.askLongEchoOverSocket()
		}
		after := w.askLongEchoOverHTTP()
		if open := w.sockets.Stats().Open; open != patient+hurried {
			t.Fatalf("%d sockets are open at first", open)
		}
		passTime(backloggedWriteTimeout + time.Millisecond)
		synctest.Wait()
		if open := w.sockets.Stats().Open; open != patient {
			t.Errorf("%d sockets are open after %v, want the first %d", open, backloggedWriteTimeout, patient)
		}
		if got := after(); got > longEchoBytes {
			t.Errorf("%d bytes were still to be had of the answer that was asked for last", got)
		}
		if got := before(); got < longEchoBytes {
			t.Errorf("%d bytes were to be had of the answer that was asked for first", got)
		}
		passTime(8 * time.Second)
		synctest.Wait()
		if stats := w.sockets.Stats(); stats.Open != 0 || stats.SlowClients != patient+hurried {
			t.Errorf("after the write deadline: %+v", stats)
		}
		if waiting := w.sockets.backlog.waitingBytes.Load(); waiting != 0 {
			t.Errorf("%d bytes are still counted", waiting)
		}
		w.askLongEchoOverSocket()
		passTime(backloggedWriteTimeout + time.Millisecond)
		synctest.Wait()
		if open := w.sockets.Stats().Open; open != 1 {
			t.Error("a single client is hurried")
		}
	})
}
