package transport

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"tidings/services"
	"tidings/tests/eventually"
)

// countLoopConns returns the number of connections in loops.
func (f *frontFixture) countLoopConns() (count int) {
	for _, loop := range f.front.loops.loops {
		loop.mu.Lock()
		count += len(loop.conns)
		loop.mu.Unlock()
	}
	return count
}

// countFrontConns returns the number of connections that the front has.
func (f *frontFixture) countFrontConns() int {
	f.front.mu.Lock()
	defer f.front.mu.Unlock()
	return len(f.front.conns)
}

// whoRequest is a plain request of a viewer for the field who, which names the viewer.
func whoRequest(viewer string) string {
	return rawRequest(queryBody("{ who }"), "Authorization: Bearer dev:"+viewer)
}

// openConnInLoop makes a connection that has joined a loop.
func (f *frontFixture) openConnInLoop(viewer string) *keepAliveConn {
	f.Helper()
	k, before := f.openKeepAliveConn(), f.countLoopConns()
	f.joinLoop(k, viewer, before+1)
	return k
}

// joinLoop sends as many requests as make a connection join a loop, and waits until all loops together have count connections.
func (f *frontFixture) joinLoop(k *keepAliveConn, viewer string, count int) {
	f.Helper()
	for range minJointStreak {
		f.expectAnswer(k, whoRequest(viewer), "200 ", fmt.Sprintf(`{"data":{"who":"%s@"}}`, viewer))
	}
	eventually.Holds(f.T, "the connection joins a loop", func() bool { return f.countLoopConns() == count })
}

// expectAnswer sends a request and compares its answer.
func (f *frontFixture) expectAnswer(k *keepAliveConn, text, status, body string) {
	f.Helper()
	if _, err := io.WriteString(k, text); err != nil {
		f.Fatal(err)
	}
	f.expectNextAnswer(k, status, body)
}

// expectNextAnswer reads an answer, and compares the beginning of its status and a part of its body.
func (f *frontFixture) expectNextAnswer(k *keepAliveConn, status, body string) {
	f.Helper()
	got, err := http.ReadResponse(k.responseReader, nil)
	if err != nil {
		f.Fatal(err)
	}
	text, err := io.ReadAll(got.Body)
	if err != nil || !strings.HasPrefix(got.Status, status) || !strings.Contains(string(text), body) {
		f.Fatalf("%s %s, %v; want %s %s", got.Status, text, err, status, body)
	}
}

// countJointRequests returns a counter of the requests that are answered jointly from now on.
func (f *frontFixture) countJointRequests() *atomic.Int64 {
	var joint atomic.Int64
	f.schema.setBeforeBatch(func(_ context.Context, requests []JointRequest) bool {
		joint.Add(int64(len(requests)))
		return true
	})
	return &joint
}

func TestConnectionsWithRepeatedRequestsJoinALoop(t *testing.T) {
	f := newFrontFixture(t, false, nil)
	joint := f.countJointRequests()
	const conns, rounds = 24, 20
	var kept []*keepAliveConn
	for i := range conns {
		kept = append(kept, f.openConnInLoop(fmt.Sprint("reader", i)))
	}
	operations, addresses := f.limits.operationCharges.Load(), f.limits.addressCharges.Load()
	for range rounds {
		for i, k := range kept { // all connections send before any answer is read
			if _, err := io.WriteString(k, whoRequest(fmt.Sprint("reader", i))); err != nil {
				t.Fatal(err)
			}
		}
		for i, k := range kept {
			f.expectNextAnswer(k, "200 OK", fmt.Sprintf(`{"data":{"who":"reader%d@"}}`, i))
		}
	}
	if got := joint.Load(); got != conns*rounds {
		t.Errorf("%d of %d requests were answered jointly", got, conns*rounds)
	}
	if o, a := f.limits.operationCharges.Load()-operations, f.limits.addressCharges.Load()-addresses; o != conns*rounds || a != conns*rounds {
		t.Errorf("%d operations and %d requests were charged, want %d", o, a, conns*rounds)
	}
	for _, k := range kept {
		_ = k.Close()
	}
	eventually.Holds(t, "closed connections leave", func() bool { return f.countLoopConns() == 0 && f.countFrontConns() == 0 })
}

// Each request on a connection in a loop gets the same answer as from the HTTP server alone.
func TestALoopAnswersAsTheServerDoes(t *testing.T) {
	f := newFrontFixture(t, false, nil)
	for _, test := range frontCases {
		t.Run(test.name, func(t *testing.T) {
			want := f.sendAndReadAnswers(f.directAddress, 1, test.text)
			k := f.openConnInLoop("alice")
			defer k.Close()
			if _, err := io.WriteString(k, test.text); err != nil {
				t.Fatal(err)
			}
			if got := f.readAnswers(k.responseReader, 1); got[0] != want[0] {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
		eventually.Holds(t, "the connection has ended", func() bool { return f.countLoopConns() == 0 })
	}
}

func TestRequestsThatAreNotPlainLeaveTheLoop(t *testing.T) {
	f := newFrontFixture(t, false, nil)
	who := whoRequest("alice")
	for name, pieces := range map[string][]string{
		"in pieces":         {who[:40], who[40:]},
		"a body in pieces":  {who[:len(who)-3], who[len(who)-3:]},
		"two at once":       {who + who},
		"another operation": {rawRequest(queryBody("{ fails }")), who},
		"longer":            {rawRequest(queryBody("{ who }" + strings.Repeat(" ", 2*frontBufferSize))), who},
	} {
		t.Run(name, func(t *testing.T) {
			k := f.openConnInLoop("alice")
			defer k.Close()
			answers := strings.Count(strings.Join(pieces, ""), "POST ")
			for i, piece := range pieces {
				if _, err := io.WriteString(k, piece); err != nil {
					t.Fatal(err)
				}
				if i == 0 {
					eventually.Holds(t, "the connection leaves the loop", func() bool { return f.countLoopConns() == 0 })
				}
			}
			for range answers {
				f.expectNextAnswer(k, "200 ", "")
			}
			f.joinLoop(k, "alice", 1) // and comes back
		})
		eventually.Holds(t, "the connection has ended", func() bool { return f.countLoopConns() == 0 })
	}
}

// After a read that fills the buffer, epoll does not report the rest of the input again. The rest is answered nevertheless.
func TestALoopReadsAllInputAfterAFullBuffer(t *testing.T) {
	f := newFrontFixture(t, false, nil)
	full := rawRequest(queryBody("{ who }" + strings.Repeat(" ", frontBufferSize-len(whoRequest("alice")))))
	for len(full) > frontBufferSize { // the length has more digits
		full = rawRequest(queryBody("{ who }" + strings.Repeat(" ", 2*frontBufferSize-len(whoRequest("alice"))-len(full))))
	}
	if len(full) != frontBufferSize {
		t.Fatalf("the request has %d bytes, want %d", len(full), frontBufferSize)
	}
	k := f.openKeepAliveConn()
	f.expectAnswer(k, full, "200 ", "alice@") // from now on the front remembers its head and its body
	f.joinLoop(k, "alice", 1)
	if _, err := io.WriteString(k, full+full); err != nil {
		t.Fatal(err)
	}
	f.expectNextAnswer(k, "200 ", "alice@")
	f.expectNextAnswer(k, "200 ", "alice@")
}

// If a remembered head announces fewer bytes than a remembered body behind it has, the loop does not take the two for one request.
func TestALoopReadsABodyByItsContentLength(t *testing.T) {
	f := newFrontFixture(t, false, nil)
	body := queryBody("{ who }")
	short := fmt.Sprint("Content-Length: ", len(body)-1)
	// From now on the front remembers the head with the short length, so that a loop finds it.
	f.expectAnswer(f.openKeepAliveConn(), rawRequest(body[:len(body)-1], short), "400 ", "")
	k := f.openConnInLoop("alice")
	f.expectAnswer(k, rawRequest(body, short), "400 ", "")
}

func TestALoopForgetsAnInvalidToken(t *testing.T) {
	clock := &fixedClock{now: noon}
	path := filepath.Join(t.TempDir(), "jwks.json")
	if err := os.WriteFile(path, []byte(keySetJSON(ed25519JWK("e", ed25519PublicKey()))), 0o600); err != nil {
		t.Fatal(err)
	}
	identity := newIdentity(t, IdentityConfig{TokenSettings: TokenSettings{JWKS: path}, Clock: clock})
	f := newFrontFixture(t, false, func(cfg *Config, _ *http.Server) { cfg.Identity = identity })
	text := rawRequest(queryBody("{ who }"), "Authorization: Bearer "+signClaims(t, jwt.SigningMethodEdDSA, ed25519Key(), "e", claimsOf("alice", noon.Add(time.Minute))))
	k := f.openKeepAliveConn()
	for range minJointStreak {
		f.expectAnswer(k, text, "200 ", "alice@")
	}
	eventually.Holds(t, "the connection joins a loop", func() bool { return f.countLoopConns() == 1 })
	f.expectAnswer(k, text, "200 ", "alice@")
	clock.advance(time.Minute + tokenLeeway)
	f.expectAnswer(k, text, "401 ", "")
}

func TestRequestsThatALoopCannotAnswerGoToHotAnswerFunc(t *testing.T) {
	f := newFrontFixture(t, false, nil)
	for name, jointly := range map[string]func(context.Context, []JointRequest) bool{
		"not ready": func(context.Context, []JointRequest) bool { return false },
		"a panic":   func(context.Context, []JointRequest) bool { panic("in a batch") },
		"too long": func(_ context.Context, requests []JointRequest) bool {
			for i := range requests {
				requests[i].Text, requests[i].OK = append(requests[i].Text, make([]byte, 32<<20)...), true
			}
			return false
		},
	} {
		k := f.openConnInLoop("alice")
		operations, addresses, answered := f.limits.operationCharges.Load(), f.limits.addressCharges.Load(), f.schema.hotAnswerCount.Load()
		f.schema.setBeforeBatch(jointly)
		f.expectAnswer(k, whoRequest("alice"), "200 ", `{"data":{"who":"alice@"}}`)
		if o, a := f.limits.operationCharges.Load()-operations, f.limits.addressCharges.Load()-addresses; o != 1 || a != 1 {
			t.Errorf("%s: %d operations and %d requests were charged", name, o, a)
		}
		if f.schema.hotAnswerCount.Load() != answered+1 {
			t.Errorf("%s: the front has not answered", name)
		}
		f.schema.beforeBatch.Store(nil)
		for range extraStreakAfterJointFailure { // the connection does not join a loop again at once
			f.expectAnswer(k, whoRequest("alice"), "200 ", "alice@")
		}
		if f.countLoopConns() != 0 {
			t.Errorf("%s: the connection is in a loop", name)
		}
		f.joinLoop(k, "alice", 1)
		_ = k.Close()
		eventually.Holds(t, "the connection has ended", func() bool { return f.countLoopConns() == 0 })
	}
}

// A request above a limit of Limits gets a 429 on a connection in a loop too. The connection then leaves the loop, and can join again.
func TestALoopAnswersRateLimitedRequestsWith429(t *testing.T) {
	f := newFrontFixture(t, false, nil)
	for name, refused := range map[string]*atomic.Bool{"address": &f.limits.refuseAddress, "operation": &f.limits.refuseOperation} {
		k := f.openConnInLoop("alice")
		refused.Store(true)
		before := f.schema.hotAnswerCount.Load()
		f.expectAnswer(k, whoRequest("alice"), "429 ", "RATE_LIMITED")
		if f.schema.hotAnswerCount.Load() != before {
			t.Errorf("%s: a refused request was answered", name)
		}
		refused.Store(false)
		f.joinLoop(k, "alice", 1)
		_ = k.Close()
		eventually.Holds(t, "the connection has ended", func() bool { return f.countLoopConns() == 0 })
	}
}

// The schema may set another function than the HotAnswerFunc for a request, for instance after Redis has just failed.
func TestALoopUsesTheFallbackThatTheSchemaSets(t *testing.T) {
	f := newFrontFixture(t, false, nil)
	k := f.openConnInLoop("alice")
	f.schema.setBeforeBatch(func(_ context.Context, requests []JointRequest) bool {
		requests[0].Else = func(_ context.Context, to []byte) ([]byte, bool) { return append(to, `{"who":"else"}`...), true }
		return false
	})
	f.expectAnswer(k, whoRequest("alice"), "200 ", `{"data":{"who":"else"}}`)
}

// Loops know no head that comes only once, such as one with a request ID: a connection with such heads does not join.
func TestConnectionsWithChangingHeadersDoNotJoinALoop(t *testing.T) {
	f := newFrontFixture(t, false, nil)
	k := f.openKeepAliveConn()
	for i := range 2 * minJointStreak {
		f.expectAnswer(k, rawRequest(queryBody("{ who }"), fmt.Sprintf("%s: id-%d", requestIDHeader, i)), "200 ", "alice@")
	}
	if joined := f.front.loops.joinCount.Load(); joined != 0 {
		t.Errorf("it has joined %d times", joined)
	}
}

// A client that reads nothing delays its own connection, and no other.
func TestAClientThatDoesNotReadDelaysNoOther(t *testing.T) {
	f := newFrontFixture(t, false, nil)
	long := strings.Repeat("x", 3<<20)
	slow, other := f.openConnInLoop("slow"), f.openConnInLoop("other")
	f.schema.setBeforeBatch(func(_ context.Context, requests []JointRequest) bool {
		for i := range requests {
			if viewer, err := services.ViewerFrom(requests[i].Context); err == nil && viewer.Key == "slow" {
				requests[i].Operation = HotAnswerFunc(func(_ context.Context, to []byte) ([]byte, bool) {
					return fmt.Appendf(to, `{"who":%q}`, long), true
				})
			}
		}
		return true
	})
	if _, err := io.WriteString(slow, whoRequest("slow")); err != nil {
		t.Fatal(err)
	}
	eventually.Holds(t, "the slow connection leaves the loop", func() bool { return f.countLoopConns() == 1 })
	for range 5 {
		f.expectAnswer(other, whoRequest("other"), "200 ", "other@")
	}
	f.expectNextAnswer(slow, "200 ", long)
}

// A slow read, for instance while Redis hangs, delays only its own batch. Another runner answers the other connections.
func TestASlowBatchDelaysOnlyItsOwnConnections(t *testing.T) {
	f := newFrontFixture(t, false, nil)
	f.front.loops.loops = f.front.loops.loops[:1]
	first, second := f.openConnInLoop("first"), f.openConnInLoop("second")
	begun, gate := make(chan struct{}), make(chan struct{})
	var once atomic.Bool
	f.schema.setBeforeBatch(func(context.Context, []JointRequest) bool {
		if !once.Swap(true) {
			close(begun)
			<-gate
		}
		return true
	})
	if _, err := io.WriteString(first, whoRequest("first")); err != nil {
		t.Fatal(err)
	}
	<-begun
	for range 3 {
		f.expectAnswer(second, whoRequest("second"), "200 ", "second@")
	}
	// A next request comes on the connection that is being answered. epoll reports its input to the runner that answers the other
	// connections.
	if _, err := io.WriteString(first, whoRequest("first")); err != nil {
		t.Fatal(err)
	}
	f.expectAnswer(second, whoRequest("second"), "200 ", "second@")
	close(gate)
	f.expectNextAnswer(first, "200 ", "first@")
	f.expectNextAnswer(first, "200 ", "first@")
	f.joinLoop(first, "first", 2)
	for range 3 {
		f.expectAnswer(first, whoRequest("first"), "200 ", "first@")
		f.expectAnswer(second, whoRequest("second"), "200 ", "second@")
	}
	if f.countLoopConns() != 2 {
		t.Errorf("%d connections are in the loop, want both", f.countLoopConns())
	}
}
