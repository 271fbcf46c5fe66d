package transport

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tidings/tests/eventually"
)

// A loop answers the last request of a client that has closed its sending side, even if epoll reports the request and the
// close together. It closes the connections of clients that are gone.
func TestALoopEndsWithItsClient(t *testing.T) {
	f := newFrontFixture(t, false, nil)
	f.front.loops.loops = f.front.loops.loops[:1]
	begun, gate := make(chan struct{}, 1), make(chan struct{})
	blocker, half, whole := f.openConnInLoop("blocker"), f.openConnInLoop("half"), f.openConnInLoop("whole")
	f.schema.setBeforeBatch(func(context.Context, []JointRequest) bool {
		select {
		case begun <- struct{}{}:
			<-gate
		default:
		}
		return true
	})
	if _, err := io.WriteString(blocker, whoRequest("blocker")); err != nil {
		t.Fatal(err)
	}
	<-begun
	if _, err := io.WriteString(half, whoRequest("half")); err != nil {
		t.Fatal(err)
	}
	if err := half.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	_ = whole.Close()
	close(gate)
	f.expectNextAnswer(half, "200 ", "half@")
	if _, err := half.responseReader.ReadByte(); err != io.EOF {
		t.Errorf("after its last answer the connection has %v, want its end", err)
	}
	f.expectNextAnswer(blocker, "200 ", "blocker@")
	eventually.Holds(t, "one connection is left", func() bool { return f.countLoopConns() == 1 && f.countFrontConns() == 1 })
}

func TestALoopDrains(t *testing.T) {
	f := newFrontFixture(t, false, nil)
	idle, late, busy := f.openConnInLoop("idle"), f.openConnInLoop("late"), f.openConnInLoop("busy")
	f.front.Drain(time.Hour)
	if last, err := late.ask(whoRequest("late")); err != nil || !last {
		t.Errorf("during the drain: the last answer: %v, %v", last, err)
	}
	if _, err := late.responseReader.ReadByte(); err != io.EOF {
		t.Errorf("after its last answer the connection has %v, want its end", err)
	}
	begun, gate := make(chan struct{}), make(chan struct{})
	f.schema.setBeforeBatch(func(context.Context, []JointRequest) bool { close(begun); <-gate; return true })
	if _, err := io.WriteString(busy, whoRequest("busy")); err != nil {
		t.Fatal(err)
	}
	<-begun
	f.front.mu.Lock()
	f.front.keepIdleConnsUntil = time.Now()
	f.front.mu.Unlock()
	done := make(chan error, 1)
	go func() { done <- f.front.Shutdown(t.Context()) }()
	if _, err := idle.responseReader.ReadByte(); err != io.EOF {
		t.Errorf("an idle connection has %v, want its end", err)
	}
	select {
	case err := <-done:
		t.Fatalf("the shutdown ended before the request: %v", err)
	default:
	}
	close(gate)
	f.expectNextAnswer(busy, "200 ", "busy@")
	if err := <-done; err != nil {
		t.Errorf("the shutdown: %v", err)
	}
	if f.countLoopConns() != 0 {
		t.Errorf("%d connections are left in loops", f.countLoopConns())
	}
}

// A shutdown closes the idle connections. A connection that is answered after that is closed after its answer.
func TestAShutdownClosesLoopConnsThatAnswered(t *testing.T) {
	f := newFrontFixture(t, false, nil)
	k := f.openConnInLoop("alice")
	f.front.closesIdleConns.Store(true)
	f.expectAnswer(k, whoRequest("alice"), "200 ", "alice@")
	if _, err := k.responseReader.ReadByte(); err != io.EOF {
		t.Errorf("the connection that became idle has %v, want its end", err)
	}
	eventually.Holds(t, "no connection is left", func() bool { return f.countLoopConns() == 0 && f.countFrontConns() == 0 })
}

func TestCloseCutsTheConnectionsOfALoop(t *testing.T) {
	f := newFrontFixture(t, false, nil)
	idle, busy := f.openConnInLoop("idle"), f.openConnInLoop("busy")
	begun, gate := make(chan struct{}), make(chan struct{})
	f.schema.setBeforeBatch(func(context.Context, []JointRequest) bool { close(begun); <-gate; return true })
	if _, err := io.WriteString(busy, whoRequest("busy")); err != nil {
		t.Fatal(err)
	}
	<-begun
	_ = f.front.Close()
	for name, one := range map[string]*keepAliveConn{"idle": idle, "busy": busy} {
		if _, err := one.responseReader.ReadByte(); err == nil {
			t.Errorf("%s: something came after the end", name)
		}
	}
	close(gate)
	eventually.Holds(t, "no connection is left", func() bool { return f.countLoopConns() == 0 && f.countFrontConns() == 0 })
}

// A connection without a request for the idle time is closed, whatever the others do.
func TestALoopClosesConnsAfterTheIdleTime(t *testing.T) {
	f := newFrontFixture(t, false, func(_ *Config, server *http.Server) { server.IdleTimeout = 3 * time.Second })
	f.front.loops.loops = f.front.loops.loops[:1]
	idle, busy := f.openConnInLoop("idle"), f.openConnInLoop("busy")
	ended := make(chan error, 1)
	go func() {
		_, err := idle.responseReader.ReadByte()
		ended <- err
	}()
	for {
		select {
		case err := <-ended:
			if err != io.EOF {
				t.Errorf("the idle connection has %v, want its end", err)
			}
			eventually.Holds(t, "it is forgotten", func() bool {
				f.expectAnswer(busy, whoRequest("busy"), "200 ", "busy@") // or the loop would close this one too
				return f.countLoopConns() == 1 && f.countFrontConns() == 1
			})
			return
		default:
			f.expectAnswer(busy, whoRequest("busy"), "200 ", "busy@")
		}
	}
}

// countLoopRunners counts the goroutines of loops in this process.
func countLoopRunners() int {
	stacks := make([]byte, 1<<20)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "(*loopRunner).run(")
}

// Slow reads of a loop's data start further runners (goroutines of the loop), which end again. Idle connections are closed nevertheless.
func TestFurtherLoopRunnersEnd(t *testing.T) {
	f := newFrontFixture(t, false, func(_ *Config, server *http.Server) { server.IdleTimeout = 5 * time.Second })
	f.front.loops.loops = f.front.loops.loops[:1]
	idle, first, second := f.openConnInLoop("idle"), f.openConnInLoop("first"), f.openConnInLoop("second")
	ended := make(chan struct{})
	go func() { _, _ = idle.responseReader.ReadByte(); close(ended) }()
	before := countLoopRunners()
	for rounds, open := 0, true; open || rounds < 10; rounds++ {
		select {
		case <-ended:
			open = false
		default:
		}
		begun, answered := make(chan struct{}), make(chan struct{})
		var once atomic.Bool
		f.schema.setBeforeBatch(func(context.Context, []JointRequest) bool {
			if !once.Swap(true) { // the first read lasts until another runner has answered
				close(begun)
				<-answered
			}
			return true
		})
		if _, err := io.WriteString(first, whoRequest("first")); err != nil {
			t.Fatal(err)
		}
		heard := make(chan error, 1)
		go func() {
			got, err := http.ReadResponse(first.responseReader, nil)
			if err == nil {
				_, err = io.Copy(io.Discard, got.Body)
			}
			heard <- err
		}()
		select {
		case <-begun:
			f.expectAnswer(second, whoRequest("second"), "200 ", "second@")
			close(answered)
			if err := <-heard; err != nil {
				t.Fatal(err)
			}
		case err := <-heard: // the request came before the loop had finished the answer before it, so a goroutine serves the connection for a while
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	eventually.Holds(t, "one runner is left", func() bool { return countLoopRunners() <= before })
}

// A loopRunner may use the key of a connection that has left the loop for a goroutine of its own. The runner then gets no connection,
// and closes none.
func TestAStalePollKeyReturnsNoConnection(t *testing.T) {
	f := newFrontFixture(t, false, nil)
	f.front.loops.loops = f.front.loops.loops[:1]
	loop := f.front.loops.loops[0]
	k, other := f.openConnInLoop("alice"), f.openConnInLoop("bob")
	loop.mu.Lock()
	key := min(loop.lastPollKey-1, loop.lastPollKey)
	c := loop.conns[key]
	loop.mu.Unlock()
	f.expectAnswer(k, rawRequest(queryBody("{ fails }")), "200 ", "") // the connection leaves the loop
	eventually.Holds(t, "the connection has a goroutine that waits", func() bool { return c.loop.owner.Load() == nil && c.state.Load() == frontConnIdle })
	if got, found := loop.claimConn(key); got != nil || found != claimedNothing {
		t.Errorf("the key is claimed: %v", found)
	}
	loop.closeIfIdle(key)
	if c.state.Load() != frontConnIdle {
		t.Error("the connection was taken from its goroutine")
	}
	f.expectAnswer(k, whoRequest("alice"), "200 ", "alice@")
	f.expectAnswer(other, whoRequest("bob"), "200 ", "bob@")
}

// epoll reports no event for a closed descriptor. A connection that was cut while it joined a loop is forgotten nevertheless.
func TestAConnectionThatIsCutWhileItJoinsIsForgotten(t *testing.T) {
	f := newFrontFixture(t, false, nil)
	f.front.loops.loops = f.front.loops.loops[:1]
	loop := f.front.loops.loops[0]
	_ = f.openConnInLoop("alice")
	loop.mu.Lock()
	c := loop.conns[loop.lastPollKey]
	loop.mu.Unlock()
	// frontConn.abort makes these two calls if the connection joins a loop right after shutDownSocket has found it in none.
	_ = c.conn.Close()
	c.loop.removeClosedFromLoop(c)
	eventually.Holds(t, "no connection is left", func() bool { return f.countLoopConns() == 0 && f.countFrontConns() == 0 })
}

// A read deadline from before the loop does not keep the front from noticing that the client of an operation has gone.
func TestAClientThatGoesAfterALoopEndsItsOperation(t *testing.T) {
	f := newFrontFixture(t, false, func(cfg *Config, server *http.Server) {
		server.IdleTimeout, cfg.OperationTimeout = 2*time.Second, time.Hour
	})
	k := f.openConnInLoop("alice")
	joined := time.Now()
	for time.Since(joined) < 3*time.Second { // past the read deadline that was set before it joined
		f.expectAnswer(k, whoRequest("alice"), "200 ", "alice@")
	}
	before := f.limits.operationCharges.Load()
	if _, err := io.WriteString(k, rawRequest(queryBody("{ slow }"))); err != nil {
		t.Fatal(err)
	}
	eventually.Holds(t, "the operation has begun", func() bool { return f.limits.operationCharges.Load() > before })
	_ = k.Close()
	eventually.Holds(t, "the connection is forgotten", func() bool { return f.countFrontConns() == 0 }) // an hour before its deadline
}

// Clients send requests singly, two at once or in pieces, hang up and come back: each gets its own answers, and at the end no
// connection is left.
func TestLoopsUnderLoad(t *testing.T) {
	f := newFrontFixture(t, false, nil)
	const clients, requests = 12, 400
	failed := make(chan error, clients)
	for i := range clients {
		go func() { failed <- f.sendMixedRequests(fmt.Sprint("client", i), i, requests) }()
	}
	for range clients {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	eventually.Holds(t, "no connection is left", func() bool { return f.countLoopConns() == 0 && f.countFrontConns() == 0 })
}

// sendMixedRequests sends requests of a client, some of them two at once or in pieces, on one connection after another.
func (f *frontFixture) sendMixedRequests(viewer string, seed, requests int) error {
	one, want := whoRequest(viewer), fmt.Sprintf(`{"data":{"who":"%s@"}}`, viewer)
	for done := 0; done < requests; {
		conn, err := net.Dial("tcp", f.frontAddress)
		if err != nil {
			return err
		}
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		from := bufio.NewReader(conn)
		for use := range 40 + 7*seed {
			text, count := one, 1
			if use > minJointStreak+seed && use%5 == 0 {
				text, count = one+one, 2
			}
			cut := len(text)
			if use%17 == 3 {
				cut = (use * 31) % len(text)
			}
			for _, piece := range []string{text[:cut], text[cut:]} {
				if _, err := io.WriteString(conn, piece); err != nil {
					return err
				}
			}
			for range count {
				got, err := http.ReadResponse(from, nil)
				if err != nil {
					return err
				}
				body, err := io.ReadAll(got.Body)
				if err != nil || string(body) != want {
					return errors.Join(fmt.Errorf("%s got %s", viewer, body), err)
				}
				done++
			}
		}
		if seed%2 == 0 { // close the connection with a request under way
			_, _ = io.WriteString(conn, one)
		}
		_ = conn.Close()
	}
	return nil
}

// A panic about one request of a batch ends the connection of that request. The runner answers the other requests.
func TestALoopSurvivesAPanic(t *testing.T) {
	log := &lockedBuffer{}
	f := newFrontFixture(t, false, func(cfg *Config, _ *http.Server) { cfg.Log = slog.New(slog.NewTextHandler(log, nil)) })
	other := f.openConnInLoop("bob")
	for stack, begin := range map[string]func(){
		"fakeLimits).ChargeOperation": func() { f.limits.panicsOnCharge.Store(true) }, // while the request is charged
		"loopRunner).reply": func() { // while it is answered
			f.schema.setBeforeBatch(func(_ context.Context, requests []JointRequest) bool {
				requests[0].Text, requests[0].OK = nil, true
				return false
			})
		},
	} {
		k := f.openConnInLoop("alice")
		begin()
		if _, err := io.WriteString(k, whoRequest("alice")); err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(k.responseReader); err != nil || len(text) > 0 {
			t.Errorf("%s: the client got %q, %v", stack, text, err)
		}
		f.limits.panicsOnCharge.Store(false)
		f.countJointRequests()
		eventually.Holds(t, "the connection has left", func() bool { return f.countLoopConns() == 1 && f.countFrontConns() == 1 })
		f.expectAnswer(other, whoRequest("bob"), "200 ", "bob@")
		if text := log.String(); !strings.Contains(text, stack) {
			t.Errorf("%s: the log has no stack: %s", stack, text)
		}
	}
}
