package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"
)

// The processor time that remains after the reads belongs to the other work.
func TestProcessorsBesideReads(t *testing.T) {
	alone := effort{answers: 1000, used: 100 * time.Millisecond, took: time.Second, known: true} // 100 us each
	for name, test := range map[string]struct {
		alone, during effort
		want          float64
	}{
		"half a processor":       {alone, effort{answers: 500, used: 550 * time.Millisecond, took: time.Second}, 0.5},
		"in two seconds":         {alone, effort{answers: 500, used: 550 * time.Millisecond, took: 2 * time.Second}, 0.25},
		"nothing but reads":      {alone, effort{answers: 500, used: 50 * time.Millisecond, took: time.Second}, 0},
		"reads that became fast": {alone, effort{answers: 500, used: 20 * time.Millisecond, took: time.Second}, 0},
		"no reads alone":         {effort{took: time.Second}, effort{answers: 5, used: time.Second, took: time.Second}, 0},
	} {
		if got := test.during.processorsBeside(test.alone); got != test.want {
			t.Errorf("%s: %v processors, want %v", name, got, test.want)
		}
	}
}

// The program goes on computing, and uses at most twice the processors that it was told to use.
func TestComputeTakesItsShare(t *testing.T) {
	if runtime.GOOS != "linux" {
		if err := compute(t.Context(), 0.1); err == nil {
			t.Error("a share of what nobody can measure")
		}
		return
	}
	t.Setenv(childMode, bareServerArgument)
	const share = 0.2
	start := time.Now()
	p, err := startBareServer(t.Context(), t.TempDir(), bareComputing, fmt.Sprint(share))
	if err != nil {
		t.Fatal(err)
	}
	defer p.stop()
	before, err := processorTime(p.pid()) // without what the start of the program took, which is much under the race detector
	if err != nil {
		t.Fatal(err)
	}
	var used time.Duration
	for used < 300*time.Millisecond { // 30 times the unit in which the system measures it
		if err := pause(t.Context(), 10*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		now, err := processorTime(p.pid())
		if err != nil {
			t.Fatal(err)
		}
		used = now - before
	}
	// The time is counted from before the start of the program, because a program that had to wait for a processor may make up for the
	// wait.
	if got := float64(used) / float64(time.Since(start)); got > 2*share {
		t.Errorf("it used %.2f processors, want %v", got, share)
	}
}

// The floor is measured while the program computes, and only if both efforts are known.
func TestTheFloorNeedsItsMeasure(t *testing.T) {
	t.Setenv(childMode, bareServerArgument)
	b := &bench{folder: t.TempDir()}
	known, failed := effort{answers: 1, took: time.Second, known: true}, errors.New("the load fails")
	if err := b.loadBesideComputing(t.Context(), known, known, func() error { return failed }); !errors.Is(err, failed) {
		t.Errorf("got %v, want %v", err, failed)
	}
	for _, pair := range [][2]effort{{{}, known}, {known, {}}} {
		if err := b.loadBesideComputing(t.Context(), pair[0], pair[1], func() error { return failed }); err != nil {
			t.Errorf("a floor of what is not known: %v", err)
		}
	}
	if err := runBareServer("127.0.0.1:0", bareComputing, "much"); err == nil {
		t.Error("a share that is no number is taken")
	}
}

// The effort includes both processes: the server and Redis.
func TestEffortIsOfBothProcesses(t *testing.T) {
	if runtime.GOOS != "linux" {
		return // only Linux reports the processor time of a process
	}
	server, redis := startChild(t, t.Context(), "wait"), startChild(t, t.Context(), "wait")
	b := &bench{redisPID: redis.pid()}
	e, err := b.measureEffort(&program{process: server}, func() (float64, error) { return 7, nil })
	if err != nil || !e.known || e.answers != 7 || e.took <= 0 {
		t.Errorf("%+v, %v", e, err)
	}
	redis.stop()
	if e, err = b.measureEffort(&program{process: server}, func() (float64, error) { return 7, nil }); err != nil || e.known {
		t.Errorf("without Redis: %+v, %v", e, err)
	}
}

func TestComputeEndsWithItsContext(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	end()
	if err := compute(ctx, 1); err != nil {
		t.Error(err)
	}
}
