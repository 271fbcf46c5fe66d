package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
)

// The row of a burst: a host application sends 10,000 events at once, and meanwhile people publish, one post after the other.
// Each author has one follower with a socket. No event of the burst concerns the follower. The push to the follower must not
// wait for the burst.
const (
	burstSenders      = 4                     // requests with events of the burst at a time
	burstPostInterval = 50 * time.Millisecond // from one author's post to the next author's
	// showStartInterval is from one host's show start to the next host's. A node notifies the boards of changed shows every
	// changelog.MinNotifyInterval, 100 ms, at most. So starts that follow each other faster would measure that wait, and not the hint.
	showStartInterval = 150 * time.Millisecond
)

// The keys of the users of the row of a burst: each function returns one.
func burstAuthorKey(i int) string { return fmt.Sprint("burst-author-", i) } // the i-th author, who publishes during the burst
func burstReaderKey(i int) string { return fmt.Sprint("burst-reader-", i) } // the follower of the i-th author
func burstPersonKey(i int) string { return fmt.Sprint("burst-person-", i) } // the i-th user who acts in the events of the burst

// burstEvents returns the mixed events of a round among the people of the burst; posts are the posts that they like and comment on. Of
// ten events, five like, two follow, two comment and one publishes.
func burstEvents(count, people int, posts []string, round int) []ingestEvent {
	events := make([]ingestEvent, count)
	for i := range events {
		who, other := burstPersonKey((i+round)%people), burstPersonKey((i*7+round*13+1)%people)
		post := posts[(i*3+round)%len(posts)]
		switch i % 10 {
		case 0, 2, 4, 6, 8:
			events[i] = likeEvent(who, post)
		case 1, 5:
			if who == other {
				other = burstPersonKey((i + round + 1) % people)
			}
			events[i] = followEvent(who, other)
		case 3, 7:
			events[i] = commentEvent(who, post)
		default:
			events[i] = publishEvent(who, postBody(i))
		}
	}
	return events
}

// measureBurst measures the row burst, 10,000 events at once, on a server of its own.
func (b *bench) measureBurst(ctx context.Context) error {
	return b.runOnOwnServer(ctx, "burst", eventBurstRedisDB, b.runBurstRounds)
}

// runBurstRounds measures the rounds of the row of a burst and reports them.
func (b *bench) runBurstRounds(ctx context.Context, _ installation, server *program) error {
	server.api.client.Transport = &http.Transport{MaxIdleConnsPerHost: burstSenders + 1}
	size := b.sizes.eventsPerBurst
	people, pairs := size/10, size/100
	b.printProgress("burst: seeding %s people, and %d authors with one follower each", formatThousands(int64(people)), pairs)
	posts, err := seedBurst(ctx, server.api, people, pairs)
	if err != nil {
		return err
	}
	followers, err := openFleet(ctx, server.address, pairs, badgeSubscriptionOpener(server.address, func(i int) string { return "dev:" + burstReaderKey(i) }))
	if err != nil {
		return err
	}
	defer followers.close()
	var idle, behind, taken, done series
	for round := range b.socketRounds {
		b.printProgress("burst: round %d of %d", round+1, b.socketRounds)
		quiet, err := measurePushLatencies(ctx, followers, burstPostInterval, publishAsBurstAuthor(server.api), nil)
		if err != nil {
			return err
		}
		events := burstEvents(size, people, posts, round)
		start, cpu := time.Now(), startCPUTimer(server.pid())
		var in, all, inCPU, allCPU time.Duration
		during, err := measurePushLatencies(ctx, followers, burstPostInterval, publishAsBurstAuthor(server.api), func() error {
			err := sendBurst(ctx, server.api, events)
			in, inCPU = time.Since(start), cpu(size)
			return err
		})
		if err == nil {
			err = server.api.waitForJobs(ctx)
			all, allCPU = time.Since(start), cpu(size)
		}
		if err != nil {
			return err
		}
		idle, behind = append(idle, newSample(quiet, sum(quiet))), append(behind, newSample(during, sum(during)))
		taken, done = append(taken, newRateSample(size, in).withServerCPU(inCPU)), append(done, newRateSample(size, all).withServerCPU(allCPU))
	}
	what := "a follower's push behind a burst of " + formatThousands(int64(size)) + " events"
	b.report.resultLines = append(b.report.resultLines, resultLine{
		measurement: what + ": p99", reference: "without the burst: " + formatMilliseconds(idle.medianLatencyP99()), ourFigure: "p50 " + formatMilliseconds(behind.medianLatencyP50()),
		value: float64(behind.medianLatencyP99()) / float64(time.Millisecond), unit: "ms", goal: atMost(200, "<= 200 ms"),
	})
	b.report.detailLines = append(b.report.detailLines,
		detailLine{measurement: what, label: "push, without the burst", results: idle}, detailLine{measurement: what, label: "push, behind it", results: behind},
		detailLine{measurement: what, label: "the burst's events, taken", results: taken}, detailLine{measurement: what, label: "the burst's events, with their jobs", results: done})
	return nil
}

// startCPUTimer begins to measure the processor time of a process. The function each returns the processor time since then, divided by
// n; it is negative if the time is not known or n is 0.
func startCPUTimer(pid int) (each func(n int) time.Duration) {
	before, err := processorTime(pid)
	return func(n int) time.Duration {
		after, failed := processorTime(pid)
		if err != nil || failed != nil || n == 0 {
			return -1
		}
		return (after - before) / time.Duration(n)
	}
}

// withServerCPU returns the sample with the processor time of the server for one event.
func (s sample) withServerCPU(each time.Duration) sample {
	s.serverCPUPerAnswer = each
	return s
}

// newRateSample returns a sample with the rate of a number of events that together took this time.
func newRateSample(events int, took time.Duration) sample {
	one := newSample([]time.Duration{took}, took)
	one.ratePerSecond = float64(events) / took.Seconds()
	return one
}

// seedBurst makes the people of the burst and their posts, and pairs of an author and a follower.
func seedBurst(ctx context.Context, a *apiClient, people, pairs int) (posts []string, err error) {
	var events, first []ingestEvent
	for i := range people {
		first = append(first, publishEvent(burstPersonKey(i), postBody(i)))
	}
	readers := make([]string, pairs)
	for i := range pairs {
		readers[i] = burstReaderKey(i)
		events = append(events, followEvent(readers[i], burstAuthorKey(i)))
	}
	if posts, err = a.ingest(ctx, first); err == nil {
		_, err = a.ingest(ctx, events)
	}
	if err == nil {
		err = visit(ctx, a, readers)
	}
	if err == nil {
		err = a.waitForJobs(ctx)
	}
	return posts, err
}

// sendBurst sends the events by burstSenders requests at a time.
func sendBurst(ctx context.Context, a *apiClient, events []ingestEvent) error {
	errs := make([]error, burstSenders)
	var group sync.WaitGroup
	for i, part := range slices.Collect(slices.Chunk(events, (len(events)+burstSenders-1)/burstSenders)) {
		group.Go(func() { _, errs[i] = a.ingest(ctx, part) })
	}
	group.Wait()
	return errors.Join(errs...)
}

// publishAsBurstAuthor returns an act for measurePushLatencies: the i-th author publishes a post.
func publishAsBurstAuthor(a *apiClient) func(ctx context.Context, i int) error {
	return func(ctx context.Context, i int) error { return a.publishPost(ctx, burstAuthorKey(i), postBody(i)) }
}

// measurePushLatencies lets each author act once, one in each interval. It returns the sorted times from the sending of an
// author's mutation to the push at that author's follower. If beside is not nil, it runs at the same time, from the first act on.
func measurePushLatencies(ctx context.Context, followers *socketFleet, interval time.Duration, act func(ctx context.Context, i int) error, beside func() error) ([]time.Duration, error) {
	all, failed := followers.expectOneEventPerSocket(), make(chan error, 1)
	if beside == nil {
		beside = func() error { return nil }
	}
	go func() { failed <- beside() }()
	sent := make([]int64, len(followers.sockets))
	errs := make([]error, len(sent))
	var group sync.WaitGroup
	start := time.Now()
	for i := range sent {
		group.Go(func() {
			if errs[i] = pause(ctx, time.Until(start.Add(time.Duration(i)*interval))); errs[i] != nil {
				return
			}
			sent[i] = followers.nanosSinceOrigin()
			errs[i] = act(ctx, i)
		})
	}
	group.Wait()
	if err := cmp.Or(errors.Join(errs...), <-failed); err != nil {
		return nil, err
	}
	select {
	case <-all:
	case <-time.After(broadcastTimeout):
		return nil, fmt.Errorf("%d of %d followers got no push within %v", followers.pendingEvents.Load(), len(sent), broadcastTimeout)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	late := make([]time.Duration, len(sent))
	for i, s := range followers.sockets {
		late[i] = time.Duration(s.eventNanos.Load() - sent[i])
	}
	slices.Sort(late)
	return late, nil
}
