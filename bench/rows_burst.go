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
	burstSenders  = 4                     // requests at a time
	burstInterval = 50 * time.Millisecond // from one post to the next
)

// These return the keys of the authors who publish during the burst, of their followers, and of the people of the burst.
func burstAuthor(i int) string { return fmt.Sprint("burst-author-", i) }
func burstReader(i int) string { return fmt.Sprint("burst-reader-", i) }
func burstPerson(i int) string { return fmt.Sprint("burst-person-", i) }

// burstEvents returns the mixed events of a round among the people of the burst; posts are the posts that they like and comment on. Of
// ten events, five like, two follow, two comment and one publishes.
func burstEvents(count, people int, posts []string, round int) []event {
	events := make([]event, count)
	for i := range events {
		who, whom := burstPerson((i+round)%people), burstPerson((i*7+round*13+1)%people)
		post := posts[(i*3+round)%len(posts)]
		switch i % 10 {
		case 0, 2, 4, 6, 8:
			events[i] = likeEvent(who, post)
		case 1, 5:
			if who == whom {
				whom = burstPerson((i + round + 1) % people)
			}
			events[i] = followEvent(who, whom)
		case 3, 7:
			events[i] = commentEvent(who, post)
		default:
			events[i] = publishEvent(who, postBody(i))
		}
	}
	return events
}

// measureBurst measures the row on a server of its own.
func (b *bench) measureBurst(ctx context.Context) error {
	return b.runAlone(ctx, "burst", burstDatabase, b.runBurstRounds)
}

// runBurstRounds takes the rounds of the row and reports them.
func (b *bench) runBurstRounds(ctx context.Context, _ site, server *program) error {
	server.api.client.Transport = &http.Transport{MaxIdleConnsPerHost: burstSenders + 1}
	size := b.sizes.burstSize
	people, pairs := size/10, size/100
	b.say("burst: seeding %s people, and %d authors with one follower each", formatThousands(int64(people)), pairs)
	posts, err := seedBurst(ctx, server.api, people, pairs)
	if err != nil {
		return err
	}
	followers, err := openFleet(ctx, server.address, pairs, subscribe(server.address, func(i int) string { return "dev:" + burstReader(i) }))
	if err != nil {
		return err
	}
	defer followers.close()
	var idle, behind, taken, done series
	for round := range b.socketRounds {
		b.say("burst: round %d of %d", round+1, b.socketRounds)
		quiet, err := measurePushes(ctx, followers, publishes(server.api), nil)
		if err != nil {
			return err
		}
		events := burstEvents(size, people, posts, round)
		start := time.Now()
		var in, all time.Duration
		during, err := measurePushes(ctx, followers, publishes(server.api), func() error {
			err := sendBurst(ctx, server.api, events)
			in = time.Since(start)
			return err
		})
		if err == nil {
			err = server.api.waitForJobs(ctx)
			all = time.Since(start)
		}
		if err != nil {
			return err
		}
		idle, behind = append(idle, newSample(quiet, sum(quiet))), append(behind, newSample(during, sum(during)))
		taken, done = append(taken, rateOf(size, in)), append(done, rateOf(size, all))
	}
	what := "a follower's push behind a burst of " + formatThousands(int64(size)) + " events"
	b.report.lines = append(b.report.lines, line{
		what: what + ": p99", limit: "without the burst: " + formatMilliseconds(idle.p99()), ours: "p50 " + formatMilliseconds(behind.p50()),
		value: float64(behind.p99()) / float64(time.Millisecond), unit: "ms", goal: atMost(200, "<= 200 ms"),
	})
	b.report.details = append(b.report.details,
		detail{what: what, who: "push, without the burst", values: idle}, detail{what: what, who: "push, behind it", values: behind},
		detail{what: what, who: "the burst's events, taken", values: taken}, detail{what: what, who: "the burst's events, with their jobs", values: done})
	return nil
}

// measureCPU begins to measure the processor time of a process. The result returns the time for each of n things since then; it is negative
// if the time is not known.
func measureCPU(pid int) (each func(n int) time.Duration) {
	before, err := processorTime(pid)
	return func(n int) time.Duration {
		after, failed := processorTime(pid)
		if err != nil || failed != nil || n == 0 {
			return -1
		}
		return (after - before) / time.Duration(n)
	}
}

// withCPU returns the sample with the processor time of the server for one event.
func (s sample) withCPU(each time.Duration) sample {
	s.cpu = each
	return s
}

// rateOf returns a sample with the rate of a number of events that together took this time.
func rateOf(events int, took time.Duration) sample {
	one := newSample([]time.Duration{took}, took)
	one.rate = float64(events) / took.Seconds()
	return one
}

// seedBurst makes the people of the burst and their posts, and pairs of an author and a follower.
func seedBurst(ctx context.Context, a *api, people, pairs int) (posts []string, err error) {
	var events, first []event
	for i := range people {
		first = append(first, publishEvent(burstPerson(i), postBody(i)))
	}
	readers := make([]string, pairs)
	for i := range pairs {
		readers[i] = burstReader(i)
		events = append(events, followEvent(readers[i], burstAuthor(i)))
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
func sendBurst(ctx context.Context, a *api, events []event) error {
	errs := make([]error, burstSenders)
	var group sync.WaitGroup
	for i, part := range slices.Collect(slices.Chunk(events, (len(events)+burstSenders-1)/burstSenders)) {
		group.Go(func() { _, errs[i] = a.ingest(ctx, part) })
	}
	group.Wait()
	return errors.Join(errs...)
}

// publishes returns an act for measurePushes: the i-th author publishes a post.
func publishes(a *api) func(ctx context.Context, i int) error {
	return func(ctx context.Context, i int) error { return a.publish(ctx, burstAuthor(i), postBody(i)) }
}

// measurePushes lets each author act once, one every burstInterval. It returns the sorted times from the sending of an author's mutation to the
// push at that author's follower. If beside is not nil, it runs at the same time, from the first act on.
func measurePushes(ctx context.Context, followers *fleet, act func(ctx context.Context, i int) error, beside func() error) ([]time.Duration, error) {
	all, failed := followers.expect(), make(chan error, 1)
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
			if errs[i] = pause(ctx, time.Until(start.Add(time.Duration(i)*burstInterval))); errs[i] != nil {
				return
			}
			sent[i] = followers.now()
			errs[i] = act(ctx, i)
		})
	}
	group.Wait()
	if err := cmp.Or(errors.Join(errs...), <-failed); err != nil {
		return nil, err
	}
	select {
	case <-all:
	case <-time.After(volleyLimit):
		return nil, fmt.Errorf("%d of %d followers got no push within %v", followers.pending.Load(), len(sent), volleyLimit)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	late := make([]time.Duration, len(sent))
	for i, s := range followers.sockets {
		late[i] = time.Duration(s.eventAt.Load() - sent[i])
	}
	slices.Sort(late)
	return late, nil
}
