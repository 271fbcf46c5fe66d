package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"
)

// The row of a mixed load: of 101 requests 50 are badge queries, 50 are home feed pages and one publishes a post. All
// readers follow the authors, so that the fan-out runs beside the reads.
const (
	mixedReads  = 100 // for each post
	kindBadge   = 0
	kindFeed    = 1
	kindPublish = 2
)

// mixedKinds are the names of the kinds in the report, by kind.
var mixedKinds = []string{kindBadge: "badge query", kindFeed: "home feed page of 20", kindPublish: "publishing"}

func (b *bench) measureMixed(ctx context.Context) error {
	return b.runAlone(ctx, "mixed", mixedDatabase, b.runMixedRounds)
}

func (b *bench) runMixedRounds(ctx context.Context, _ site, server *program) error {
	readers := b.sizes.readersOfOne / 10
	b.say("mixed: seeding %s readers who follow 10", formatThousands(int64(readers)))
	if err := seedMixed(ctx, server.api, readers); err != nil {
		return err
	}
	const what = "mixed load, 100 reads to 1 post"
	values, alone, computing := make([]series, len(mixedKinds)), make([]series, len(mixedKinds)), make([]series, len(mixedKinds))
	for round := range b.rounds + 1 {
		if round > 0 {
			b.say("mixed: round %d of %d", round, b.rounds)
		}
		mix := func(into []series, kind func(n int) int) func() (float64, error) {
			return func() (reads float64, err error) {
				results, err := b.mix(ctx, server.address, readers, round, kind)
				for kind, result := range results {
					if kind != kindPublish {
						reads += result.rate * b.turnLength().Seconds()
					}
					if round > 0 {
						into[kind] = append(into[kind], result)
					}
				}
				return reads, err
			}
		}
		quiet, err := b.measureEffort(server, mix(alone, readsAlone))
		if err != nil {
			return err
		}
		mixed, err := b.measureEffort(server, mix(values, kindOf))
		if err != nil {
			return err
		}
		if err := server.api.waitForJobs(ctx); err != nil {
			return err
		}
		if err := b.loadBesideComputing(ctx, quiet, mixed, func() error {
			_, err := mix(computing, readsAlone)()
			return err
		}); err != nil {
			return err
		}
	}
	for kind, name := range mixedKinds {
		b.report.details = append(b.report.details, detail{what: what, who: name, values: values[kind]})
		if kind == kindPublish {
			continue
		}
		b.report.details = append(b.report.details, detail{what: what, who: name + ", without a post", values: alone[kind]},
			detail{what: what, who: name + ", without a post, " + whoComputes, values: computing[kind]})
		b.report.lines = append(b.report.lines, line{
			what: what + ": p99 of the " + name, limit: "without a post: " + formatMilliseconds(alone[kind].p99()), ours: formatRate(values[kind]) + ", p50 " + formatMilliseconds(values[kind].p50()),
			value: float64(values[kind].p99()) / float64(time.Millisecond), unit: "ms", goal: atMost(10, "<= 10 ms"),
		})
		if floor := computing[kind]; len(floor) > 0 {
			b.report.lines = append(b.report.lines, line{
				what: what + ": p99 of the " + name, limit: "without a post, " + whoComputes, ours: formatMilliseconds(values[kind].p99()), theirs: formatMilliseconds(floor.p99()),
				value: ratio(float64(values[kind].p99()), float64(floor.p99())), unit: "x the time",
			})
		}
	}
	return nil
}

// seedMixed makes readers who follow the same authors, and posts that are unread for them.
func seedMixed(ctx context.Context, a *api, readers int) error {
	var events []event
	for r := range readers {
		for i := range followCounts[0] {
			events = append(events, followEvent(reader(followCounts[0], r), author(i)))
		}
	}
	if _, err := a.ingest(ctx, events); err != nil {
		return err
	}
	if err := visit(ctx, a, readersOf(followCounts[0], readers)); err != nil {
		return err
	}
	events = nil
	for i := range unreadPosts {
		events = append(events, publishEvent(author(i%followCounts[0]), postBody(i)))
	}
	if _, err := a.ingest(ctx, events); err != nil {
		return err
	}
	return a.waitForJobs(ctx)
}

// mix keeps the connections busy for a turn with requests, and returns a sample for each kind. kind returns the kind of the n-th
// request.
func (b *bench) mix(ctx context.Context, address string, readers, round int, kind func(n int) int) ([]sample, error) {
	people := tokens(readersOf(followCounts[0], readers))
	requests := [][][]byte{newTarget(address, 0, badgeQuery, people).requests, newTarget(address, 0, feedQuery, people).requests, nil}
	for i := range followCounts[0] {
		mutation := `mutation { publishPost(input: {body: "` + postBody(i) + `"}) { post { id } } }`
		requests[kindPublish] = append(requests[kindPublish], newTarget(address, 0, mutation, []string{"dev:" + author(i)}).requests...)
	}
	latencies := make([][][]time.Duration, b.connections)
	errs := make([]error, b.connections)
	start := time.Now()
	var group sync.WaitGroup
	for i := range b.connections {
		group.Go(func() {
			latencies[i], errs[i] = loadMixedConnection(ctx, address, requests, kind, (round*b.connections+i)*mixedReads, start.Add(b.turnLength()))
		})
	}
	group.Wait()
	took := time.Since(start)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	results := make([]sample, len(mixedKinds))
	for i := range mixedKinds {
		var all []time.Duration
		for _, one := range latencies {
			all = append(all, one[i]...)
		}
		slices.Sort(all)
		results[i] = newSample(all, took)
	}
	return results, nil
}

// kindOf returns the kind of the n-th request of a mixed load. The connections begin with different n, so that they do not publish at
// the same moment.
func kindOf(n int) int {
	if turn := n % (mixedReads + 1); turn < mixedReads {
		return turn % 2
	}
	return kindPublish
}

// readsAlone is like kindOf, but for a load that only reads.
func readsAlone(n int) int { return n % 2 }

// loadMixedConnection sends requests over one connection until the deadline, from number first on. It returns the latencies by kind.
func loadMixedConnection(ctx context.Context, address string, requests [][][]byte, kindOf func(n int) int, first int, deadline time.Time) (latencies [][]time.Duration, err error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if err := conn.SetDeadline(deadline.Add(answerLimit)); err != nil {
		return nil, err
	}
	latencies = make([][]time.Duration, len(mixedKinds))
	answers := bufio.NewReaderSize(conn, 16<<10)
	for n := first; ; n++ {
		sent := time.Now()
		if !sent.Before(deadline) {
			return latencies, nil
		}
		kind := kindOf(n)
		if _, err = conn.Write(requests[kind][n%len(requests[kind])]); err == nil {
			err = readAnswer(answers)
		}
		if err != nil {
			return nil, fmt.Errorf("%s number %s: %w", mixedKinds[kind], strconv.Itoa(n), err)
		}
		latencies[kind] = append(latencies[kind], time.Since(sent))
	}
}
