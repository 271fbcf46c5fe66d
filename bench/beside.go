package main

import (
	"context"
	"os"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
)

// This file measures other users' reads during a rush, and their floor: the same reads beside a program that only computes, with
// as much processor time as the server and Redis used for the rush. The reads and the program share the processors, and no server
// avoids this cost.

// whoComputes names the floor in the results.
const whoComputes = "beside a program that only computes as much"

// effort says how much processor time the server and Redis used together while some reads were answered.
type effort struct {
	answers float64       // how many reads were answered
	used    time.Duration // the processor time
	took    time.Duration // the time that passed
	known   bool          // false if this system does not report the processor time of a process
}

// measureEffort measures do, which returns how many reads were answered.
func (b *bench) measureEffort(server *program, do func() (answers float64, err error)) (effort, error) {
	before, beforeErr := b.processorTimes(server)
	start := time.Now()
	answers, err := do()
	e := effort{answers: answers, took: time.Since(start)}
	after, afterErr := b.processorTimes(server)
	e.used, e.known = after-before, beforeErr == nil && afterErr == nil
	return e, err
}

// processorTimes returns the processor time that a server and Redis have used so far, as a sum.
func (b *bench) processorTimes(server *program) (time.Duration, error) {
	ours, err := processorTime(server.pid())
	if err != nil {
		return 0, err
	}
	redis, err := processorTime(b.redisPID)
	return ours + redis, err
}

// processorsBeside returns how many processors were busy with work other than the reads. It assumes that a read takes as much processor
// time as in alone.
func (e effort) processorsBeside(alone effort) float64 {
	if alone.answers == 0 {
		return 0
	}
	reads := float64(alone.used) / alone.answers * e.answers
	return max(0, (float64(e.used)-reads)/float64(e.took))
}

// loadBesideComputing calls load while a program keeps processors busy: as many as the work beside the reads kept busy in the effort
// during. It does nothing if one of the efforts is not known.
func (b *bench) loadBesideComputing(ctx context.Context, alone, during effort, load func() error) error {
	if !alone.known || !during.known {
		return nil
	}
	computes, err := startBareServer(ctx, b.folder, bareComputing, strconv.FormatFloat(during.processorsBeside(alone), 'f', 3, 64))
	if err != nil {
		return err
	}
	defer computes.stop()
	return load()
}

// loadOthers sends the other users' reads to a server, and measures them.
func (b *bench) loadOthers(ctx context.Context, server *program) (sample, effort, error) {
	var result sample
	e, err := b.measureEffort(server, func() (answers float64, err error) {
		result, err = othersTarget(server).load(ctx, othersConnections, b.turnLength())
		return result.rate * b.turnLength().Seconds(), err
	})
	return result, e, err
}

// rushResults has the samples of other users' reads: before a rush, during the rush, and beside a program that only computes, as much as the
// rush did.
type rushResults struct{ before, during, computing series }

// addRush adds a round: the reads before the rush, and the reads during it.
func (r *rushResults) addRush(ctx context.Context, b *bench, server *program, before sample, rush func(context.Context) error) (effort, error) {
	var during sample
	e, err := b.measureEffort(server, func() (answers float64, err error) {
		during, err = b.loadDuring(ctx, othersTarget(server), rush)
		return during.rate * b.turnLength().Seconds(), err
	})
	r.before, r.during = append(r.before, before), append(r.during, during)
	return e, err
}

// addFloor adds the floor of a round: the reads beside a program that computes. alone is the effort of the reads before the rush, and
// during is the effort of the reads during it.
func (r *rushResults) addFloor(ctx context.Context, b *bench, server *program, alone, during effort) error {
	return b.loadBesideComputing(ctx, alone, during, func() error {
		result, err := othersTarget(server).load(ctx, othersConnections, b.turnLength())
		r.computing = append(r.computing, result)
		return err
	})
}

// computeBurst is the time for which compute keeps a processor busy before it looks again whether it is ahead.
const computeBurst = 2 * time.Millisecond

// compute keeps a number of processors busy, for example 0.5 of them, until ctx ends. The processor time that this process used before
// the call does not count.
func compute(ctx context.Context, processors float64) error {
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
					_ = pause(ctx, computeBurst) // the loop looks at ctx
					continue
				}
				for burst := time.Now(); time.Since(burst) < computeBurst; {
				}
			}
			return nil
		})
	}
	return group.Wait()
}
