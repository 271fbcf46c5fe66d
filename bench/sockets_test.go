package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

func TestFrameLengthReadsWhatAppendFrameWrites(t *testing.T) {
	for _, length := range []int{0, 1, 125, 126, 127, 4000, 65535} {
		payload := bytes.Repeat([]byte{'x'}, length)
		frame := appendFrame(nil, opText, payload, false)
		whole, header := frameLength(frame)
		if whole != len(frame) || !bytes.Equal(frame[header:], payload) {
			t.Errorf("%d bytes: a frame of %d read as %d with a header of %d", length, len(frame), whole, header)
		}
		for cut := range min(header, len(frame)-1) {
			if whole, _ := frameLength(frame[:cut]); whole != 0 {
				t.Errorf("%d bytes: %d bytes of its header already say %d", length, cut, whole)
			}
		}
	}
	if got := appendFrame(nil, opPong, []byte("a"), true); !bytes.Equal(got, []byte{0x8a, 0x81, 0, 0, 0, 0, 'a'}) {
		t.Errorf("a client's frame: %x", got)
	}
	huge := []byte{0x81, 127, 0, 0, 0, 1, 0, 0, 0, 1}
	if whole, header := frameLength(huge); header != 10 || whole != 11 {
		t.Errorf("64-bit length: %d, %d", whole, header)
	}
}

// newPipedSocket makes a socket and returns it with the other end of its connection, to which the test writes.
func newPipedSocket(t *testing.T) (*socket, net.Conn) {
	t.Helper()
	ours, theirs := net.Pipe()
	t.Cleanup(func() { _, _ = ours.Close(), theirs.Close() })
	return &socket{fleet: &socketFleet{timeOrigin: time.Now()}, conn: ours, buffer: make([]byte, readBufferBytes)}, theirs
}

// readFrame returns whole frames, also if they arrive in pieces.
func TestNextReadsFragmentedFrames(t *testing.T) {
	long := strings.Repeat("long ", 2000)
	want := []string{"one", long, "", "three"}
	var stream []byte
	for _, text := range want {
		stream = appendFrame(stream, opText, []byte(text), false)
	}
	for _, size := range []int{1, 3, 700, len(stream)} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			s, server := newPipedSocket(t)
			go func() {
				for rest := stream; len(rest) > 0; rest = rest[min(size, len(rest)):] {
					if _, err := server.Write(rest[:min(size, len(rest))]); err != nil {
						return
					}
				}
			}()
			for i, text := range want {
				opcode, payload, err := s.readFrame()
				if err != nil || opcode != opText || string(payload) != text {
					t.Fatalf("frame %d: %d %.20q %v", i, opcode, payload, err)
				}
			}
		})
	}
}

// readFrame refuses a frame whose header says that it is longer than maxFrameBytes.
func TestNextRefusesAFrameWithoutEnd(t *testing.T) {
	s, server := newPipedSocket(t)
	go func() { _, _ = server.Write([]byte{0x81, 127, 0, 0, 0, 0, 0x7f, 0, 0, 0}) }()
	if _, _, err := s.readFrame(); err == nil || !strings.Contains(err.Error(), "a frame of") {
		t.Errorf("got %v", err)
	}
}

// subscriptionServer is a server of graphql-transport-ws that sends the messages of a test.
type subscriptionServer struct {
	refusesConnections bool              // whether it refuses all connections
	subscribeReplies   []string          // the messages that it sends after a message "subscribe"
	mu                 sync.Mutex        // guards conns and receivedTokens, and is held during writes to conns
	conns              []*websocket.Conn // the connections that have sent a token
	receivedTokens     map[string]bool   // the tokens that connections sent
	pongs              chan string       // the answers to pings: "message", or "frame " and the text of the ping
}

func (k *subscriptionServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if k.refusesConnections {
		http.Error(w, "no", http.StatusForbidden)
		return
	}
	upgrader := websocket.Upgrader{Subprotocols: []string{"graphql-transport-ws"}}
	conn, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer conn.Close()
	conn.SetPongHandler(func(text string) error { k.pongs <- "frame " + text; return nil })
	for {
		var message struct {
			Type    string
			ID      string
			Payload map[string]string
		}
		if err := conn.ReadJSON(&message); err != nil {
			return
		}
		switch message.Type {
		case "connection_init":
			k.mu.Lock()
			k.receivedTokens[message.Payload["authorization"]] = true
			k.conns = append(k.conns, conn)
			_ = conn.WriteMessage(websocket.TextMessage, []byte(`{"type":"connection_ack"}`)) // before writeToAllConns may write to it
			k.mu.Unlock()
		case "subscribe":
			k.mu.Lock()
			for _, text := range k.subscribeReplies {
				_ = conn.WriteMessage(websocket.TextMessage, []byte(text))
			}
			k.mu.Unlock()
		case "pong":
			k.pongs <- "message"
		}
	}
}

// connectionCount returns the number of connections that have sent a token.
func (k *subscriptionServer) connectionCount() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.conns)
}

// writeToAllConns writes a message to every connection. kind is a message type of the package websocket.
func (k *subscriptionServer) writeToAllConns(kind int, text string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, conn := range k.conns {
		_ = conn.WriteMessage(kind, []byte(text))
	}
}

// nextMessage is the message with an event of the subscription.
const nextMessage = `{"id":"1","type":"next","payload":{"data":{}}}`

// openFleetToServer starts the server k and opens a fleet of n sockets to it.
func openFleetToServer(t *testing.T, k *subscriptionServer, n int) (*socketFleet, error) {
	t.Helper()
	k.receivedTokens, k.pongs = map[string]bool{}, make(chan string, 100)
	if k.subscribeReplies == nil {
		k.subscribeReplies = []string{`{"type":"ping"}`, nextMessage}
	}
	address := startHTTPServer(t, k.ServeHTTP)
	f, err := openFleet(t.Context(), address, n, badgeSubscriptionOpener(address, func(i int) string { return fmt.Sprint("dev:", i) }))
	if err == nil {
		t.Cleanup(f.close)
	}
	return f, err
}

// waitForClose fails the test if the channel is not closed within 10 s.
func waitForClose(t *testing.T, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("it did not happen in 10 s")
	}
}

func TestFleetReceivesAnEventOnEverySocket(t *testing.T) {
	k := &subscriptionServer{}
	f, err := openFleetToServer(t, k, 10)
	if err != nil {
		t.Fatal(err)
	}
	if want := len(appendFrame(nil, opText, []byte(nextMessage), false)); f.firstFrameBytes != want {
		t.Errorf("an event has %d bytes, want %d", f.firstFrameBytes, want)
	}
	if len(k.receivedTokens) != 10 || !k.receivedTokens["Bearer dev:9"] {
		t.Errorf("tokens %v", k.receivedTokens)
	}
	for range 2 {
		all := f.expectOneEventPerSocket()
		start := f.nanosSinceOrigin()
		k.writeToAllConns(websocket.TextMessage, nextMessage)
		k.writeToAllConns(websocket.TextMessage, nextMessage) // a second event of a socket does not count for the other sockets
		waitForClose(t, all)
		latencies, err := f.eventLatencies(func(int) int64 { return start })
		if err != nil || len(latencies) != 10 {
			t.Errorf("latencies %v, %v", latencies, err)
		}
		k.waitUntilSocketsReadAll(t, f)
	}
}

// waitUntilSocketsReadAll waits until every socket has read all that was written to it: it sends a ping and waits for all pongs.
func (k *subscriptionServer) waitUntilSocketsReadAll(t *testing.T, f *socketFleet) {
	t.Helper()
	k.writeToAllConns(websocket.PingMessage, "mark")
	for range f.sockets {
		select {
		case pong := <-k.pongs:
			if pong != "frame mark" {
				t.Errorf("answer to a ping: %q", pong)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("a ping was not answered in 10 s")
		}
	}
}

func TestFleetAnswersPings(t *testing.T) {
	k := &subscriptionServer{}
	f, err := openFleetToServer(t, k, 1)
	if err != nil {
		t.Fatal(err)
	}
	k.waitUntilSocketsReadAll(t, f)
	k.writeToAllConns(websocket.TextMessage, `{"type":"ping"}`)
	if pong := <-k.pongs; pong != "message" {
		t.Errorf("got %q", pong)
	}
}

// A socket that is open answers pings while others are being opened, however long that takes.
func TestFleetAnswersPingsWhileItOpens(t *testing.T) {
	k := &subscriptionServer{receivedTokens: map[string]bool{}, pongs: make(chan string, 100), subscribeReplies: []string{nextMessage}}
	address := startHTTPServer(t, k.ServeHTTP)
	open := badgeSubscriptionOpener(address, func(i int) string { return fmt.Sprint("dev:", i) })
	f, err := openFleet(t.Context(), address, 2, func(s *socket, i int) error {
		if i == 1 { // wait for a pong of socket 0
			for k.connectionCount() < 1 {
				if err := pause(t.Context(), time.Millisecond); err != nil {
					return err
				}
			}
			k.writeToAllConns(websocket.PingMessage, "while it opens")
			select {
			case <-k.pongs:
			case <-time.After(10 * time.Second):
				return errors.New("a ping was not answered in 10 s")
			}
		}
		return open(s, i)
	})
	if err != nil {
		t.Fatal(err)
	}
	f.close()
}

func TestFleetNotesLostSockets(t *testing.T) {
	for name, message := range map[string]string{"error": `{"id":"1","type":"error","payload":[]}`, "complete": `{"id":"1","type":"complete"}`, "close": ""} {
		t.Run(name, func(t *testing.T) {
			k := &subscriptionServer{}
			f, err := openFleetToServer(t, k, 2)
			if err != nil {
				t.Fatal(err)
			}
			if message == "" {
				k.writeToAllConns(websocket.CloseMessage, string(websocket.FormatCloseMessage(1012, "")))
			} else {
				k.writeToAllConns(websocket.TextMessage, message)
			}
			gone := make(chan struct{})
			go func() {
				f.readLoops.Wait()
				close(gone)
			}()
			waitForClose(t, gone)
			if got := f.describeLostSockets(); !strings.HasPrefix(got, "2 sockets are lost, the first one because: ") || !strings.Contains(got, name) {
				t.Errorf("losses: %s", got)
			}
		})
	}
}

func TestFleetThatCannotOpenIsAnError(t *testing.T) {
	for name, test := range map[string]struct {
		talker *subscriptionServer
		want   string
	}{
		"refused":           {&subscriptionServer{refusesConnections: true}, "no upgrade"},
		"error instead":     {&subscriptionServer{subscribeReplies: []string{`{"id":"1","type":"error","payload":[{"message":"who are you"}]}`}}, "who are you"},
		"pings and no more": {&subscriptionServer{subscribeReplies: strings.Split(strings.Repeat(`{"type":"ping"} `, 9), " ")[:9]}, "no event"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := openFleetToServer(t, test.talker, 3); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := openFleet(ctx, "127.0.0.1:1", 3, readFirstFrame); !errors.Is(err, context.Canceled) {
		t.Errorf("after the context: %v", err)
	}
}
