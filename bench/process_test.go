package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// childModeVariable is the environment variable that makes the test binary a child process. Its value is the mode, which says what the
// child does, such as to fail or to be a bare server: see TestMain.
const childModeVariable = "BENCH_TEST_CHILD"

// TestMain runs the tests, or what the mode of a child process says.
func TestMain(m *testing.M) {
	switch os.Getenv(childModeVariable) {
	case "":
		os.Exit(m.Run())
	case "fail":
		fmt.Println("the reason")
		os.Exit(3)
	case "wait":
		fmt.Println("waiting")
		<-make(chan os.Signal)
	case "bare":
		exitChild(runBareWriter(os.Args[1], os.Args[2], 500, os.Args[3:]...))
	case bareServerArgument:
		exitChild(runBareServer(os.Args[2], os.Args[3], os.Args[4:]...))
	case socketClientArgument:
		exitChild(runSocketClient(os.Args[2], os.Args[3], os.Args[4], os.Args[5]))
	case bystandersArgument:
		exitChild(runBystanders(os.Stdout, os.Args[2], os.Args[3]))
		os.Exit(0)
	}
}

// exitChild ends the child with an error, if there is one.
func exitChild(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// startChild starts the test's own program as a child process in a mode of TestMain.
func startChild(t *testing.T, ctx context.Context, mode string, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(childModeVariable, mode)
	p, err := startProcess(ctx, t.TempDir(), mode, ".", self, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.stop)
	return p
}

// readyWhenPrinted returns a check that succeeds once the process has printed a text.
func readyWhenPrinted(p *process, text string) func(context.Context) error {
	return func(context.Context) error {
		if !strings.Contains(p.outputTail(), text) {
			return errors.New("not yet")
		}
		return nil
	}
}

func TestTheErrorOfAProcessThatEndsEarlyHasItsOutput(t *testing.T) {
	p := startChild(t, t.Context(), "fail")
	err := p.waitUntilReady(t.Context(), func(context.Context) error { return errors.New("not ready") })
	if err == nil || !strings.Contains(err.Error(), "fail ended before it was ready") || !strings.Contains(err.Error(), "the reason") {
		t.Errorf("got %v", err)
	}
}

func TestStopEndsAProcess(t *testing.T) {
	p := startChild(t, t.Context(), "wait")
	if err := p.waitUntilReady(t.Context(), readyWhenPrinted(p, "waiting")); err != nil {
		t.Fatal(err)
	}
	p.stop()
	if err := syscall.Kill(p.pid(), 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d is still there: %v", p.pid(), err)
	}
	p.stop() // a second stop has no effect
}

func TestProcessEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p := startChild(t, ctx, "wait")
	if err := p.waitUntilReady(ctx, readyWhenPrinted(p, "waiting")); err != nil {
		t.Fatal(err)
	}
	cancel()
	waitForClose(t, p.done)
}

func TestMissingProgramIsAnError(t *testing.T) {
	if _, err := startProcess(t.Context(), t.TempDir(), "nothing", ".", "/nowhere/nothing"); err == nil || !strings.Contains(err.Error(), "nothing") {
		t.Errorf("start: %v", err)
	}
	if _, err := runForOutput(t.Context(), ".", "/nowhere/nothing"); err == nil {
		t.Error("runForOutput found it")
	}
}

func TestTheErrorOfRunForOutputHasTheOutput(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(childModeVariable, "fail")
	if out, err := runForOutput(t.Context(), ".", self); err == nil || !strings.Contains(err.Error(), "the reason") || !strings.Contains(out, "the reason") {
		t.Errorf("%q, %v", out, err)
	}
}

func TestBareWriterProcessSendsEventsToEverySocket(t *testing.T) {
	ports := make([]string, 2)
	for i := range ports {
		port, err := freePort()
		if err != nil {
			t.Fatal(err)
		}
		ports[i] = fmt.Sprint("127.0.0.1:", port)
	}
	p := startChild(t, t.Context(), "bare", ports...)
	if err := p.waitUntilReady(t.Context(), readyWhenListening(ports[1])); err != nil {
		t.Fatal(err)
	}
	f, err := openFleet(t.Context(), ports[0], 3, readFirstFrame)
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	if f.firstFrameBytes < 500 || f.firstFrameBytes > 502 {
		t.Errorf("frames of %d bytes", f.firstFrameBytes)
	}
	// The writer adds a connection to its list a moment after the connection's first frame was read. Only connections in the list get
	// events, so the test triggers until each has one.
	all, ticker := f.expectOneEventPerSocket(), time.NewTicker(10*time.Millisecond)
	defer ticker.Stop()
	for done := false; !done; {
		if err := triggerBroadcast(t.Context(), ports[1]); err != nil {
			t.Fatal(err)
		}
		select {
		case <-all:
			done = true
		case <-ticker.C:
		}
	}
	p.stop()
	if err := readyWhenListening(ports[0])(t.Context()); err == nil {
		t.Error("it listens after it was stopped")
	}
}

func TestReadinessChecksFailOnAClosedPort(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := readyWhenListening(address)(t.Context()); err != nil {
		t.Error(err)
	}
	_ = listener.Close()
	if err := readyWhenListening(address)(t.Context()); err == nil {
		t.Error("a closed port listens")
	}
	if err := readyWhenAnswering("http://" + address)(t.Context()); err == nil {
		t.Error("a closed port answers")
	}
}
