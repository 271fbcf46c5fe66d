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
	mixedReadsPerPost = 100 // badge queries and pages for each post
	mixedBadgeKind    = 0   // the kind of a badge query
	mixedFeedKind     = 1   // the kind of a query of a home feed page
	mixedPublishKind  = 2   // the kind of a mutation that publishes a post
)

// mixedKindNames are the names of the kinds of requests in the report, by kind.
var mixedKindNames = []string{mixedBadgeKind: "badge query", mixedFeedKind: "home feed page of 20", mixedPublishKind: "publishing"}

// measureMixedLoad measures the row of a mixed load on a server of its own.
func (b *bench) measureMixedLoad(ctx context.Context) error {
	return b.runOnOwnServer(ctx, "mixed", mixedLoadRedisDB, b.runMixedRounds)
}

// runMixedRounds measures the rounds of the row of a mixed load and reports them.
func (b *bench) runMixedRounds(ctx context.Context, _ installation, server *program) error {
	readers := b.sizes.followersOfOneAuthor / 10
	b.printProgress("mixed: seeding %s readers who follow 10", formatThousands(int64(readers)))
	if err := seedMixed(ctx, server.api, readers); err != nil {
		return err
	}
	const what = "mixed load, 100 reads to 1 post"
	values, alone, computing := make([]series, len(mixedKindNames)), make([]series, len(mixedKindNames)), make([]series, len(mixedKindNames))
	for round := range b.rounds + 1 {
		if round > 0 {
			b.printProgress("mixed: round %d of %d", round, b.rounds)
		}
		mix := func(into []series, kind func(n int) int) func() (float64, error) {
			return func() (reads float64, err error) {
				cpu := startCPUTimer(server.pid())
				results, err := b.loadMixed(ctx, server.address, readers, round, kind)
				answers := 0.0
				for kind, result := range results {
					count := result.ratePerSecond * b.rowTurnLength().Seconds()
					if answers += count; kind != mixedPublishKind {
						reads += count
					}
				}
				// The time of one answer is that of all work, divided by all answers.
				each := cpu(int(answers))
				for kind, result := range results {
					if round > 0 {
						into[kind] = append(into[kind], result.withServerCPU(each))
					}
				}
				return reads, err
			}
		}
		quiet, err := b.measureCPUUsage(server, mix(alone, mixedReadOnlyRequestKind))
		if err != nil {
			return err
		}
		mixed, err := b.measureCPUUsage(server, mix(values, mixedRequestKind))
		if err != nil {
			return err
		}
		if err := server.api.waitForJobs(ctx); err != nil {
			return err
		}
		if err := b.loadWithBusyProcessors(ctx, quiet, mixed, func() error {
			_, err := mix(computing, mixedReadOnlyRequestKind)()
			return err
		}); err != nil {
			return err
		}
	}
	for kind, name := range mixedKindNames {
		b.report.detailLines = append(b.report.detailLines, detailLine{measurement: what, label: name, results: values[kind]})
		if kind == mixedPublishKind {
			continue
		}
		b.report.detailLines = append(b.report.detailLines, detailLine{measurement: what, label: name + ", without a post", results: alone[kind]},
			detailLine{measurement: what, label: name + ", without a post, " + busyProcessorsLabel, results: computing[kind]})
		b.report.resultLines = append(b.report.resultLines, resultLine{
			measurement: what + ": p99 of the " + name, reference: "without a post: " + formatMilliseconds(alone[kind].medianLatencyP99()), ourFigure: formatRateAndCPU(values[kind]) + ", p50 " + formatMilliseconds(values[kind].medianLatencyP50()),
			value: float64(values[kind].medianLatencyP99()) / float64(time.Millisecond), unit: "ms", goal: atMost(10, "<= 10 ms"),
		})
		if floor := computing[kind]; len(floor) > 0 {
			b.report.resultLines = append(b.report.resultLines, resultLine{
				measurement: what + ": p99 of the " + name, reference: "without a post, " + busyProcessorsLabel, ourFigure: formatMilliseconds(values[kind].medianLatencyP99()), referenceFigure: formatMilliseconds(floor.medianLatencyP99()),
				value: ratio(float64(values[kind].medianLatencyP99()), float64(floor.medianLatencyP99())), unit: "x the time",
			})
		}
	}
	return nil
}

// seedMixed makes readers who follow the same authors, and posts that are unread for them.
func seedMixed(ctx context.Context, a *apiClient, readers int) error {
	var events []ingestEvent
	for r := range readers {
		for i := range followCounts[0] {
			events = append(events, followEvent(readerKey(followCounts[0], r), authorKey(i)))
		}
	}
	if _, err := a.ingest(ctx, events); err != nil {
		return err
	}
	if err := visit(ctx, a, readerKeysFollowing(followCounts[0], readers)); err != nil {
		return err
	}
	events = nil
	for i := range unreadPostsPerReader {
		events = append(events, publishEvent(authorKey(i%followCounts[0]), postBody(i)))
	}
	if _, err := a.ingest(ctx, events); err != nil {
		return err
	}
	return a.waitForJobs(ctx)
}

// loadMixed keeps the connections busy for a turn with requests, and returns a sample for each kind of request. The function kind
// returns the kind of the n-th request.
func (b *bench) loadMixed(ctx context.Context, address string, readers, round int, kind func(n int) int) ([]sample, error) {
	people := tokens(readerKeysFollowing(followCounts[0], readers))
	requests := [][][]byte{newLoadTarget(address, 0, badgeQuery, people).requests, newLoadTarget(address, 0, feedQuery, people).requests, nil}
	for i := range followCounts[0] {
		mutation := `mutation { publishPost(input: {body: "` + postBody(i) + `"}) { post { id } } }`
		requests[mixedPublishKind] = append(requests[mixedPublishKind], newLoadTarget(address, 0, mutation, []string{"dev:" + authorKey(i)}).requests...)
	}
	latencies := make([][][]time.Duration, b.connections)
	errs := make([]error, b.connections)
	start := time.Now()
	var group sync.WaitGroup
	for i := range b.connections {
		group.Go(func() {
			latencies[i], errs[i] = loadMixedConnection(ctx, address, requests, kind, (round*b.connections+i)*mixedReadsPerPost, start.Add(b.rowTurnLength()))
		})
	}
	group.Wait()
	took := time.Since(start)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	results := make([]sample, len(mixedKindNames))
	for i := range mixedKindNames {
		var all []time.Duration
		for _, one := range latencies {
			all = append(all, one[i]...)
		}
		slices.Sort(all)
		results[i] = newSample(all, took)
	}
	return results, nil
}

// mixedRequestKind returns the kind of the n-th request of a mixed load. The connections begin with different n, so that they do not
// publish at the same moment.
func mixedRequestKind(n int) int {
	if turn := n % (mixedReadsPerPost + 1); turn < mixedReadsPerPost {
		return turn % 2
	}
	return mixedPublishKind
}

// mixedReadOnlyRequestKind returns the kind of the n-th request of a load that only reads: a badge query or a home feed page.
func mixedReadOnlyRequestKind(n int) int { return n % 2 }

// loadMixedConnection sends requests over one connection until the deadline, from number first on. It returns the latencies by kind.
func loadMixedConnection(ctx context.Context, address string, requests [][][]byte, kindOf func(n int) int, first int, deadline time.Time) (latencies [][]time.Duration, err error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if err := conn.SetDeadline(deadline.Add(answerTimeout)); err != nil {
		return nil, err
	}
	latencies = make([][]time.Duration, len(mixedKindNames))
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
			return nil, fmt.Errorf("%s number %s: %w", mixedKindNames[kind], strconv.Itoa(n), err)
		}
		latencies[kind] = append(latencies[kind], time.Since(sent))
	}
}
