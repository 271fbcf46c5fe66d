package redistest

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

func TestTheProxyForwardsCommands(t *testing.T) {
	server := NewServer(t)
	client := dial(t, NewProxy(t, server.URL()).URL())
	if err := client.Set(t.Context(), "key", "value", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if value := server.Do("GET", "key"); value != "value" {
		t.Errorf("the server has %v", value)
	}
}

func TestDropRepliesDropsTheAnswerOfAnAppliedCommand(t *testing.T) {
	server := NewServer(t)
	proxy := NewProxy(t, server.Addr())
	client := dial(t, proxy.URL())
	if err := client.Incr(t.Context(), "n").Err(); err != nil {
		t.Fatal(err)
	}
	proxy.DropReplies(1)
	if err := client.Incr(t.Context(), "n").Err(); !errors.Is(err, io.EOF) {
		t.Errorf("the dropped reply: %v, want the end of the connection", err)
	}
	if n, err := client.Incr(t.Context(), "n").Result(); n != 3 || err != nil {
		t.Errorf("afterwards: %d, %v, want 3: the one without an answer was applied, and only one was dropped", n, err)
	}
}

func TestAHeldReplyIsGivenWhenItIsReleased(t *testing.T) {
	server := NewServer(t)
	proxy := NewProxy(t, server.Addr())
	client, other := dial(t, proxy.URL()), dial(t, proxy.URL())
	if err := errors.Join(client.Ping(t.Context()).Err(), other.Ping(t.Context()).Err()); err != nil {
		t.Fatal(err)
	}
	arrived, release := proxy.HoldReply()
	defer release()
	held := make(chan int64, 1)
	go func() { held <- client.Incr(t.Context(), "n").Val() }()
	<-arrived
	if n, err := other.Incr(t.Context(), "n").Result(); n != 2 || err != nil {
		t.Errorf("meanwhile another connection has %d, %v, want 2", n, err)
	}
	select {
	case n := <-held:
		t.Errorf("the held reply %d was given before it was released", n)
	default:
	}
	release()
	if n := <-held; n != 1 {
		t.Errorf("the held reply is %d, want 1", n)
	}
}

func TestABlackHoleTimesOutCallsAndKeepsConnections(t *testing.T) {
	server := NewServer(t)
	proxy := NewProxy(t, server.Addr())
	client := dial(t, proxy.URL())
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	proxy.BlackHole(true)
	var timeout net.Error
	if err := client.Set(t.Context(), "key", 1, 0).Err(); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("in the hole: %v, want a time-out", err)
	}
	if value := server.Do("GET", "key"); value != nil {
		t.Errorf("it came through: %v", value)
	}
	proxy.BlackHole(false)
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Errorf("after the hole: %v", err)
	}
}

func TestADelayedReplyMissesItsDeadline(t *testing.T) {
	proxy := NewProxy(t, NewServer(t).Addr())
	client := dial(t, proxy.URL())
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	proxy.Delay(100 * time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := client.Ping(ctx).Err(); err == nil {
		t.Error("an answer within 20 ms through a delay of 100 ms each way")
	}
	proxy.Delay(0)
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Errorf("without the delay: %v", err)
	}
}

func TestResetBreaksOnlyOpenConnections(t *testing.T) {
	proxy := NewProxy(t, NewServer(t).Addr())
	connection, err := net.Dial("tcp", proxy.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	if _, err := connection.Write([]byte("PING\r\n")); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 7)
	if _, err := io.ReadFull(connection, answer); err != nil || string(answer) != "+PONG\r\n" {
		t.Fatalf("%q, %v", answer, err)
	}
	proxy.ResetConnections()
	_ = connection.SetReadDeadline(time.Now().Add(10 * time.Second))
	var timeout net.Error
	if _, err := connection.Read(answer); err == nil || errors.As(err, &timeout) && timeout.Timeout() {
		t.Errorf("after ResetConnections: %v, want a broken connection", err)
	}
	if err := dial(t, proxy.URL()).Ping(t.Context()).Err(); err != nil {
		t.Errorf("a new connection: %v", err)
	}
}

func TestAProxyBeforeADeadServerRefuses(t *testing.T) {
	server := NewServer(t)
	proxy := NewProxy(t, server.Addr())
	server.Kill()
	if err := dial(t, proxy.URL()).Ping(t.Context()).Err(); err == nil {
		t.Error("an answer from a dead server")
	}
	server.Start()
	if err := dial(t, proxy.URL()).Ping(t.Context()).Err(); err != nil {
		t.Errorf("after Start: %v", err)
	}
}
