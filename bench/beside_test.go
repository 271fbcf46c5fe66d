package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"
)

// The processor time that the reads do not use belongs to the other work.
func TestUnusedProcessorTimeBelongsToOtherWork(t *testing.T) {
	alone := cpuUsage{answerCount: 1000, cpuTime: 100 * time.Millisecond, elapsed: time.Second, cpuTimeKnown: true} // 100 us each
	for name, test := range map[string]struct {
		alone, during cpuUsage
		want          float64
	}{
		"half a processor":       {alone, cpuUsage{answerCount: 500, cpuTime: 550 * time.Millisecond, elapsed: time.Second}, 0.5},
		"in two seconds":         {alone, cpuUsage{answerCount: 500, cpuTime: 550 * time.Millisecond, elapsed: 2 * time.Second}, 0.25},
		"nothing but reads":      {alone, cpuUsage{answerCount: 500, cpuTime: 50 * time.Millisecond, elapsed: time.Second}, 0},
		"reads that became fast": {alone, cpuUsage{answerCount: 500, cpuTime: 20 * time.Millisecond, elapsed: time.Second}, 0},
		"no reads alone":         {cpuUsage{elapsed: time.Second}, cpuUsage{answerCount: 5, cpuTime: time.Second, elapsed: time.Second}, 0},
	} {
		if got := test.during.processorsForOtherWork(test.alone); got != test.want {
			t.Errorf("%s: %v processors, want %v", name, got, test.want)
		}
	}
}

// The program that only computes goes on computing, and uses at most twice the share of a processor that it was told to use.
func TestKeepProcessorsBusyTakesItsShare(t *testing.T) {
	if runtime.GOOS != "linux" {
		if err := keepProcessorsBusy(t.Context(), 0.1); err == nil {
			t.Error("a share of what nobody can measure")
		}
		return
	}
	t.Setenv(childModeVariable, bareServerArgument)
	const share = 0.2
	start := time.Now()
	p, err := startBareServer(t.Context(), t.TempDir(), bareServerComputingKind, fmt.Sprint(share))
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

// loadWithBusyProcessors calls its function only if the processor time is known for both measurements.
func TestBusyProcessorsNeedKnownProcessorTimes(t *testing.T) {
	t.Setenv(childModeVariable, bareServerArgument)
	b := &bench{dataFolder: t.TempDir()}
	known, failed := cpuUsage{answerCount: 1, elapsed: time.Second, cpuTimeKnown: true}, errors.New("the load fails")
	if err := b.loadWithBusyProcessors(t.Context(), known, known, func() error { return failed }); !errors.Is(err, failed) {
		t.Errorf("got %v, want %v", err, failed)
	}
	for _, pair := range [][2]cpuUsage{{{}, known}, {known, {}}} {
		if err := b.loadWithBusyProcessors(t.Context(), pair[0], pair[1], func() error { return failed }); err != nil {
			t.Errorf("a floor of what is not known: %v", err)
		}
	}
	if err := runBareServer("127.0.0.1:0", bareServerComputingKind, "much"); err == nil {
		t.Error("a share that is no number is taken")
	}
}

// The CPU usage includes both processes: the server and Redis.
func TestCPUUsageIsOfBothProcesses(t *testing.T) {
	if runtime.GOOS != "linux" {
		return // only Linux reports the processor time of a process
	}
	server, redis := startChild(t, t.Context(), "wait"), startChild(t, t.Context(), "wait")
	b := &bench{redisPID: redis.pid()}
	e, err := b.measureCPUUsage(&program{process: server}, func() (float64, error) { return 7, nil })
	if err != nil || !e.cpuTimeKnown || e.answerCount != 7 || e.elapsed <= 0 {
		t.Errorf("%+v, %v", e, err)
	}
	redis.stop()
	if e, err = b.measureCPUUsage(&program{process: server}, func() (float64, error) { return 7, nil }); err != nil || e.cpuTimeKnown {
		t.Errorf("without Redis: %+v, %v", e, err)
	}
}

func TestKeepProcessorsBusyEndsWithItsContext(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	end()
	if err := keepProcessorsBusy(ctx, 1); err != nil {
		t.Error(err)
	}
}
