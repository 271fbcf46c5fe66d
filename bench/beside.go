package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
)

// This file measures the reads of bystanders: users who have no part in a rush, which is a time with very many writes. It also
// measures their floor: the same reads beside a program that only computes, with as much processor time as the server, Redis and this
// program, the client, used for the rush. The reads and the program share the processors, and no server avoids this cost.

// busyProcessorsLabel names, in the results, the reads beside a program that only computes.
const busyProcessorsLabel = "beside a program that only computes as much"

// cpuUsage says how much processor time the server and Redis used together while some reads were answered.
type cpuUsage struct {
	answerCount  float64       // how many reads were answered
	cpuTime      time.Duration // of the server, Redis and the client together
	elapsed      time.Duration // how long the reads took
	cpuTimeKnown bool          // false if this system does not report the processor time of a process
}

// measureCPUUsage runs do, which returns how many reads were answered, and measures the processor time meanwhile.
func (b *bench) measureCPUUsage(server *program, do func() (answers float64, err error)) (cpuUsage, error) {
	before, beforeErr := b.sharedCPUTime(server)
	start := time.Now()
	answers, err := do()
	e := cpuUsage{answerCount: answers, elapsed: time.Since(start)}
	after, afterErr := b.sharedCPUTime(server)
	e.cpuTime, e.cpuTimeKnown = after-before, beforeErr == nil && afterErr == nil
	return e, err
}

// sharedCPUTime returns the processor time that a server, Redis and this program, the client, have used so far, as a sum.
func (b *bench) sharedCPUTime(server *program) (sum time.Duration, err error) {
	for _, pid := range []int{server.pid(), b.redisPID, os.Getpid()} {
		used, err := processorTime(pid)
		if err != nil {
			return 0, err
		}
		sum += used
	}
	return sum, nil
}

// processorsForOtherWork returns how many processors were busy with work other than the reads. It assumes that a read takes as much
// processor time as in alone, which is a measurement with reads only.
func (e cpuUsage) processorsForOtherWork(alone cpuUsage) float64 {
	if alone.answerCount == 0 {
		return 0
	}
	reads := float64(alone.cpuTime) / alone.answerCount * e.answerCount
	return max(0, (float64(e.cpuTime)-reads)/float64(e.elapsed))
}

// loadWithBusyProcessors calls load while a program keeps processors busy: as many as were busy with work other than reads in the
// measurement during. alone is a measurement with reads only. It does nothing if the processor time of alone or of during is not known.
func (b *bench) loadWithBusyProcessors(ctx context.Context, alone, during cpuUsage, load func() error) error {
	if !alone.cpuTimeKnown || !during.cpuTimeKnown {
		return nil
	}
	computes, err := startBareServer(ctx, b.dataFolder, bareServerComputingKind, strconv.FormatFloat(during.processorsForOtherWork(alone), 'f', 3, 64))
	if err != nil {
		return err
	}
	defer computes.stop()
	return load()
}

// measureBystanders sends the badge queries of bystanders, the users who have no part in a rush, to a server, and measures them.
func (b *bench) measureBystanders(ctx context.Context, server *program) (sample, cpuUsage, error) {
	var result sample
	e, err := b.measureCPUUsage(server, func() (answers float64, err error) {
		result, err = b.loadBystanders(ctx, server.address, server.pid())
		return result.ratePerSecond * b.rowTurnLength().Seconds(), err
	})
	return result, e, err
}

// bystanderResults has the samples of the reads of bystanders, users who have no part in a rush: before the rush, during it, and
// beside a program that only computes, as much as the rush did.
type bystanderResults struct{ before, during, withBusyProcessors series }

// addRushRound adds a round: before has the reads before the rush, and the reads during it are measured while rush runs.
func (r *bystanderResults) addRushRound(ctx context.Context, b *bench, server *program, before sample, rush func(context.Context) error) (cpuUsage, error) {
	var during sample
	e, err := b.measureCPUUsage(server, func() (answers float64, err error) {
		during, err = loadDuringRush(ctx, func(ctx context.Context) (sample, error) { return b.loadBystanders(ctx, server.address, server.pid()) }, rush)
		return during.ratePerSecond * b.rowTurnLength().Seconds(), err
	})
	r.before, r.during = append(r.before, before), append(r.during, during)
	return e, err
}

// addBusyProcessorsRound adds the floor of a round: the reads beside a program that computes. alone is the CPU usage during the
// reads before the rush, and during is the CPU usage during the rush.
func (r *bystanderResults) addBusyProcessorsRound(ctx context.Context, b *bench, server *program, alone, during cpuUsage) error {
	return b.loadWithBusyProcessors(ctx, alone, during, func() error {
		result, err := b.loadBystanders(ctx, server.address, server.pid())
		r.withBusyProcessors = append(r.withBusyProcessors, result)
		return err
	})
}

// bystandersArgument is the argument with which this program is started again as the client of the bystanders.
const bystandersArgument = "bystanders"

// bystandersSample is what the client of the bystanders prints, as JSON: the fields of a sample.
type bystandersSample struct {
	RatePerSecond                              float64
	LatencyP50, LatencyP99, ClientCPUPerAnswer time.Duration
}

// loadBystanders sends the badge queries of the bystanders to a server, the process pid, for a turn, and returns a sample of the answers.
// The client is a process of its own: in this one, answers would wait for the goroutines that make the rush.
func (b *bench) loadBystanders(ctx context.Context, address string, pid int) (sample, error) {
	self, err := os.Executable()
	if err != nil {
		return sample{}, err
	}
	cpu := startCPUTimer(pid)
	text, err := runForOutput(ctx, ".", self, bystandersArgument, address, b.rowTurnLength().String())
	if err != nil {
		return sample{}, err
	}
	var result bystandersSample
	if err := json.Unmarshal([]byte(text), &result); err != nil {
		return sample{}, fmt.Errorf("bystanders: %w: %s", err, text)
	}
	return sample{
		ratePerSecond: result.RatePerSecond, latencyP50: result.LatencyP50, latencyP99: result.LatencyP99, clientCPUPerAnswer: result.ClientCPUPerAnswer,
		serverCPUPerAnswer: cpu(int(result.RatePerSecond * b.rowTurnLength().Seconds())), bytesPerSocketOrEntry: nan,
	}, nil
}

// runBystanders is the client of the bystanders: it sends their badge queries to an address for a length of time, and prints a
// bystandersSample.
func runBystanders(out io.Writer, address, length string) error {
	turn, err := time.ParseDuration(length)
	if err != nil {
		return err
	}
	result, err := newLoadTarget(address, 0, everySourceQuery, tokens(bystanderKeys())).load(context.Background(), bystanderConnections, turn)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(bystandersSample{result.ratePerSecond, result.latencyP50, result.latencyP99, result.clientCPUPerAnswer})
}

// busyLoopDuration is the time for which keepProcessorsBusy keeps a processor busy before it looks again whether it is ahead.
const busyLoopDuration = 2 * time.Millisecond

// keepProcessorsBusy keeps a number of processors busy, for example 0.5 of them, until ctx ends. The processor time that this
// process used before the call does not count.
func keepProcessorsBusy(ctx context.Context, processors float64) error {
	start := time.Now()
	before, err := processorTime(os.Getpid())
	if err != nil {
		return err
	}
	var group errgroup.Group
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() error {
			for ctx.Err() == nil {
				used, err := processorTime(os.Getpid())
				if err != nil {
					return err
				}
				if float64(used-before) > processors*float64(time.Since(start)) {
					_ = pause(ctx, busyLoopDuration) // the loop looks at ctx
					continue
				}
				for burst := time.Now(); time.Since(burst) < busyLoopDuration; {
				}
			}
			return nil
		})
	}
	return group.Wait()
}
