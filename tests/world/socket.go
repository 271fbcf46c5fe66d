package world

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// CloseCodeForToken opens a socket with a token and returns its close code.
func (n *Node) CloseCodeForToken(t *testing.T, token string) int {
	t.Helper()
	conn := n.Dial(t)
	Send(t, conn, `{"type":"connection_init","payload":{"authorization":`+QuoteJSON(token)+`}}`)
	_, text, err := conn.ReadMessage()
	frame, ok := err.(*websocket.CloseError)
	if !ok {
		t.Fatalf("the socket got %s, %v", text, err)
	}
	return frame.Code
}

// Dial opens a WebSocket to the node. The test's end closes it.
func (n *Node) Dial(t *testing.T) *websocket.Conn {
	t.Helper()
	dialer := websocket.Dialer{Subprotocols: []string{"graphql-transport-ws"}}
	conn, _, err := dialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(n.URL, "http")+"/graphql", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// Send writes a text message.
func Send(t *testing.T, conn *websocket.Conn, message string) {
	t.Helper()
	if err := conn.WriteMessage(websocket.TextMessage, []byte(message)); err != nil {
		t.Fatal(err)
	}
}

// DialTCP opens a plain TCP connection to the node, on which a test can send any bytes.
func (n *Node) DialTCP() net.Conn {
	n.TB.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(n.URL, "http://"))
	if err != nil {
		n.TB.Fatal(err)
	}
	n.TB.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		n.TB.Fatal(err)
	}
	return conn
}
