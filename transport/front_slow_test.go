package transport

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// The head of a request is read once, however many pieces its body comes in. Its token is not verified before the body is there,
// so the head is not remembered.
func TestFrontReadsTheHeadOfABodyInPiecesOnce(t *testing.T) {
	f := newFrontFixture(t, false, nil)
	text := []byte(rawRequest(queryBody("{ who }" + strings.Repeat(" ", 1000))))
	one := &frontConn{front: f.front}
	read := map[*requestHead]bool{}
	for n := range text {
		if used, outcome := one.answerRequests(text[:n]); used != 0 || outcome != frontReadsMore {
			t.Fatalf("after %d bytes: %d are used, with the outcome %d", n, used, outcome)
		}
		if one.pendingHead != nil {
			read[one.pendingHead] = true
		}
	}
	if len(read) != 1 {
		t.Errorf("the head was read %d times, want 1", len(read))
	}
}

// A token that expires while the body arrives is checked again.
func TestFrontChecksTheTokenWhenTheBodyIsThere(t *testing.T) {
	clock := &fixedClock{now: noon}
	identity := newIdentity(t, IdentityConfig{TokenSettings: TokenSettings{HMACSecret: testHMACSecret}, Clock: clock})
	f := newFrontFixture(t, false, func(cfg *Config, _ *http.Server) { cfg.Identity = identity })
	text := rawRequest(queryBody("{ who }"), "Authorization: Bearer "+signHMAC(t, testHMACSecret, claimsOf("alice", noon.Add(time.Minute))))
	if _, err := f.openKeepAliveConn().ask(text); err != nil { // from here on the head is remembered with its caller
		t.Fatal(err)
	}
	one := &frontConn{front: f.front}
	one.answerRequests([]byte(text[:len(text)-3]))
	if h, _ := one.nextHead([]byte(text)); h == nil || h.caller == nil {
		t.Error("before it expires the head has no caller")
	}
	clock.advance(time.Minute + tokenLeeway)
	if h, _ := one.nextHead([]byte(text)); h == nil || h.caller != nil {
		t.Error("after it expired the head has a caller")
	}
}

// A body that comes byte by byte is slow, although each byte comes soon. The front hands its connection to the HTTP server, which ends
// the request after its read timeout.
func TestFrontLeavesADrippingBodyToTheServer(t *testing.T) {
	f := newFrontFixture(t, false, func(_ *Config, server *http.Server) {
		server.ReadHeaderTimeout, server.ReadTimeout = time.Second, time.Second // so a request is slow after 100 ms
	})
	conn := must(net.Dial("tcp", f.frontAddress))
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	text := rawRequest(queryBody("{ who }" + strings.Repeat(" ", 10_000)))
	drips := time.NewTicker(10 * time.Millisecond)
	defer drips.Stop()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if _, err := io.WriteString(conn, text[:len(text)-5000]); err != nil {
		t.Fatal(err)
	}
	go func() {
		for rest := text[len(text)-5000:]; rest != ""; rest = rest[1:] {
			select {
			case <-drips.C:
			case <-ctx.Done():
				return
			}
			if _, err := io.WriteString(conn, rest[:1]); err != nil {
				return
			}
		}
	}()
	// The front itself answers no 408, so this one says that the connection was handed on.
	got, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || got.StatusCode != http.StatusRequestTimeout {
		t.Errorf("the answer is %v, %v, want 408", got, err)
	}
	if f.schema.hotAnswerCount.Load() != 0 {
		t.Error("half a request was answered")
	}
}
