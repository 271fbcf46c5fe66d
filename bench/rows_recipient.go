package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// The row measures the effect of a rush of likes for one user on other users. It compares the time of these other users' badge query
// during the rush with the time before it.
const (
	othersCount       = 16 // how many other users there are
	othersFollow      = 10 // how many authors each of them follows
	othersPosts       = 20 // how many posts each of these authors publishes
	othersConnections = 4  // few, because this measures the time of an answer and not the throughput
)

// other returns the key of the i-th of the other users, who are not part of the rush.
func other(i int) string { return "other-" + strconv.Itoa(i) }

func othersKeys() (keys []string) {
	for i := range othersCount {
		keys = append(keys, other(i))
	}
	return keys
}

// seedOthers makes users with a feed and unread posts, who are not part of the rush.
func seedOthers(ctx context.Context, a *api) error {
	var events []event
	for _, key := range othersKeys() {
		for i := range othersFollow {
			events = append(events, followEvent(key, author(i)))
		}
	}
	if _, err := a.ingest(ctx, events); err != nil {
		return err
	}
	if err := a.waitForJobs(ctx); err != nil {
		return err
	}
	if err := visit(ctx, a, othersKeys()); err != nil {
		return err
	}
	events = nil
	for i := range othersPosts {
		events = append(events, publishEvent(author(i%othersFollow), postBody(i)))
	}
	if _, err := a.ingest(ctx, events); err != nil {
		return err
	}
	return a.waitForJobs(ctx)
}

// othersTarget returns the target that queries the badges of the other users.
func othersTarget(p *program) target {
	return newTarget(p.address, p.pid(), everyQuery, tokens(othersKeys()))
}

// othersLines returns lines that compare the other users' times: the median, the 99th percentile, and the mean, which in a closed
// loop is the inverse of the rate and includes every stall. The percentile and the mean are also compared with the floor.
func othersLines(what string, r rushResults) []line {
	what += ": others' badge query, "
	p99, p99Before := r.during.p99(), r.before.p99()
	lines := []line{
		{
			what: what + "median", limit: "itself, before", ours: formatMilliseconds(r.during.p50()), theirs: formatMilliseconds(r.before.p50()),
			value: ratio(float64(r.during.p50()), float64(r.before.p50())), unit: "x the time", goal: atMost(1.5, "<= 1.5 x the time"),
		}, {
			what: what + "p99", limit: "itself, before", ours: formatMilliseconds(p99), theirs: formatMilliseconds(p99Before),
			value: ratio(float64(p99), float64(p99Before)), unit: "x the time", goal: atMost(1.5, "<= 1.5 x the time"),
		}, {
			what: what + "mean", limit: "itself, before", ours: formatRate(r.during), theirs: formatRate(r.before),
			value: ratio(r.before.rate(), r.during.rate()), unit: "x the time", goal: atMost(2, "<= 2 x the time"),
		},
	}
	if len(r.computing) == 0 {
		return lines
	}
	return append(lines, line{
		what: what + "p99", limit: whoComputes, ours: formatMilliseconds(p99), theirs: formatMilliseconds(r.computing.p99()),
		value: ratio(float64(p99), float64(r.computing.p99())), unit: "x the time",
	}, line{
		what: what + "mean", limit: whoComputes, ours: formatRate(r.during), theirs: formatRate(r.computing),
		value: ratio(r.computing.rate(), r.during.rate()), unit: "x the time",
	})
}

// loadDuring loads a target while rush runs, and then ends the context of rush.
func (b *bench) loadDuring(ctx context.Context, t target, rush func(context.Context) error) (sample, error) {
	rushing, end := context.WithCancel(ctx)
	defer end()
	done := make(chan error, 1)
	go func() { done <- rush(rushing) }()
	result, err := t.load(ctx, othersConnections, b.turnLength())
	end()
	return result, errors.Join(err, <-done)
}

const (
	hotKey       = "celebrity" // the key of the user whose posts are liked
	likeClients  = 2           // one batch is sent while another one is built
	likesPerCall = batchSize
	likesPaced   = 10_000 // likes per second: the rate that ingest should take
)

func liker(i int) string { return "liker-" + strconv.Itoa(i) }

// hotRecipient is an author whose posts are liked as fast as the server accepts likes.
type hotRecipient struct {
	api    *api
	pid    int          // of the server
	posts  []string     // their IDs
	likers int          // how many users like
	next   atomic.Int64 // the next pair of a user and a post
	taken  atomic.Int64 // how many likes were accepted
}

// like sends batches of likes until ctx ends: perSecond likes a second, or, if perSecond is 0, as fast as they are accepted. No user
// likes a post twice: each likes every post, and then the next user begins.
func (h *hotRecipient) like(ctx context.Context, perSecond int) error {
	start := time.Now()
	errs := make([]error, likeClients)
	var batches atomic.Int64
	var group sync.WaitGroup
	for i := range likeClients {
		group.Go(func() {
			for ctx.Err() == nil && errs[i] == nil {
				if perSecond > 0 {
					due := start.Add(time.Duration(batches.Add(1)-1) * likesPerCall * time.Second / time.Duration(perSecond))
					if pause(ctx, time.Until(due)) != nil {
						return
					}
				}
				errs[i] = h.batch(context.WithoutCancel(ctx)) // a batch in flight is not cancelled, because it counts in the end
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// batch sends the next batch of likes.
func (h *hotRecipient) batch(ctx context.Context) error {
	events := make([]event, likesPerCall)
	first := int(h.next.Add(likesPerCall) - likesPerCall)
	if most := h.likers * len(h.posts); first+likesPerCall > most {
		return fmt.Errorf("all %d likes are used up", most)
	}
	for i := range events {
		pair := first + i
		events[i] = likeEvent(liker(pair/len(h.posts)), h.posts[pair%len(h.posts)])
	}
	_, err := h.api.ingest(ctx, events)
	if err == nil {
		h.taken.Add(likesPerCall)
	}
	return err
}

// post makes the author's document, and publishes the posts that are going to be liked.
func (h *hotRecipient) post(ctx context.Context, posts int) (err error) {
	if err := visit(ctx, h.api, []string{hotKey}); err != nil {
		return err
	}
	var events []event
	for i := range posts {
		events = append(events, publishEvent(hotKey, postBody(i)))
	}
	h.posts, err = h.api.ingest(ctx, events)
	return err
}

// measureRecipient measures likes of one person's posts.
func (b *bench) measureRecipient(ctx context.Context) error {
	return b.runAlone(ctx, "recipient", recipientDatabase, b.runRecipientRounds)
}

// runRecipientRounds makes the users and posts, takes the rounds of the row and reports them.
func (b *bench) runRecipientRounds(ctx context.Context, at site, server *program) error {
	server.api.client.Transport = &http.Transport{MaxIdleConnsPerHost: likeClients}
	b.say("recipient: seeding %d people who like", b.sizes.likers)
	if err := seedOthers(ctx, server.api); err != nil {
		return err
	}
	var events []event
	for i := range b.sizes.likers {
		events = append(events, profileEvent(liker(i), "Liker "+strconv.Itoa(i)))
	}
	if _, err := server.api.ingest(ctx, events); err != nil {
		return err
	}
	h := &hotRecipient{api: server.api, pid: server.pid(), likers: b.sizes.likers}
	if err := h.post(ctx, b.sizes.posts); err != nil {
		return err
	}
	inserts, err := openInsertFloor("sqlite", at.databasePath(), 1, newFiles(at.folder))
	if err != nil {
		return err
	}
	defer inserts.source.Close()
	r := recipientResults{inserts: inserts}
	for round := range b.socketRounds {
		b.say("recipient: round %d of %d", round+1, b.socketRounds)
		if err := b.measureRecipientRound(ctx, server, h, &r); err != nil {
			return err
		}
	}
	b.reportRecipient(&r)
	return nil
}

// recipientResults are the samples of the row.
type recipientResults struct {
	alone                    series       // the rate of likes, without other requests
	paced, unpaced           rushResults  // others' badge query while likes come at a given rate, and as fast as they are accepted
	pacedLikes, unpacedLikes series       // likes meanwhile
	settled                  series       // how long it took after the last like until the count was right
	inserts                  *insertFloor // the floor of the likes without other requests
}

// measureRecipientRound takes one round: likes alone, likes at a given rate, and likes as fast as they are accepted.
func (b *bench) measureRecipientRound(ctx context.Context, server *program, h *hotRecipient, r *recipientResults) error {
	before, alone, err := b.loadOthers(ctx, server)
	if err != nil {
		return err
	}
	if err := r.inserts.begin(ctx); err != nil {
		return err
	}
	already := h.taken.Load()
	result, err := h.measure(func() error {
		rushing, end := context.WithTimeout(ctx, b.turnLength())
		defer end()
		return errors.Join(h.like(rushing, 0), ctx.Err())
	})
	if err != nil {
		return err
	}
	r.alone = append(r.alone, result)
	if r.settled, err = h.appendSettled(ctx, r.settled); err != nil {
		return err
	}
	if err := errors.Join(r.inserts.end(ctx, int(h.taken.Load()-already)), r.inserts.round(ctx)); err != nil {
		return err
	}
	for _, rush := range []struct {
		perSecond int
		others    *rushResults
		taken     *series
	}{{likesPaced, &r.paced, &r.pacedLikes}, {0, &r.unpaced, &r.unpacedLikes}} {
		var e effort
		taken, err := h.measure(func() (err error) {
			e, err = rush.others.addRush(ctx, b, server, before, func(ctx context.Context) error { return h.like(ctx, rush.perSecond) })
			return err
		})
		if err != nil {
			return err
		}
		*rush.taken = append(*rush.taken, taken)
		if r.settled, err = h.appendSettled(ctx, r.settled); err != nil {
			return err
		}
		if err := rush.others.addFloor(ctx, b, server, alone, e); err != nil {
			return err
		}
	}
	return nil
}

// measure returns how many likes a second were accepted while do ran.
func (h *hotRecipient) measure(do func() error) (sample, error) {
	before, start, cpu := h.taken.Load(), time.Now(), measureCPU(h.pid)
	err := do()
	taken := h.taken.Load() - before
	return sample{rate: float64(taken) / time.Since(start).Seconds(), cpu: cpu(int(taken)), bytesPerEntry: nan}, err
}

func (b *bench) reportRecipient(r *recipientResults) {
	const what = "likes on one person, in batches of 500"
	b.report.lines = slices.Concat(b.report.lines,
		[]line{{what: what + ": accepted", limit: "-", ours: formatRateAndCPU(r.alone), value: r.alone.rate(), unit: "a second", goal: atLeast(likesPaced, ">= 10,000 a second")}, r.inserts.line(what+": accepted", r.alone)},
		othersLines(what+", at "+formatRate(r.pacedLikes), r.paced),
		othersLines(what+", as fast as they are taken", r.unpaced))
	for _, one := range []struct {
		who    string
		values series
	}{
		{"accepted, nobody else asks", r.alone}, {whoInserts, r.inserts.values}, {"others' badge query before", r.paced.before}, {"others' badge query at 10,000 likes a second", r.paced.during},
		{"accepted meanwhile", r.pacedLikes}, {"the same reads " + whoComputes, r.paced.computing}, {"others' badge query at as many likes as are taken", r.unpaced.during},
		{"accepted meanwhile", r.unpacedLikes}, {"the same reads " + whoComputes, r.unpaced.computing},
		{"from the last one accepted until the number is right", r.settled},
	} {
		b.report.details = append(b.report.details, detail{what: what, who: one.who, values: one.values})
	}
}

// appendSettled calls settle, and returns the earlier samples and that of settle.
func (h *hotRecipient) appendSettled(ctx context.Context, earlier series) (series, error) {
	result, err := h.settle(ctx)
	return append(earlier, result), err
}

// settle waits until all jobs are done and returns how long that took. Then the person's count must be right: the number of posts that
// somebody has liked.
func (h *hotRecipient) settle(ctx context.Context) (sample, error) {
	want := int(min(h.taken.Load(), int64(len(h.posts))))
	start := time.Now()
	if err := h.api.waitForJobs(ctx); err != nil {
		return sample{}, err
	}
	took := time.Since(start)
	var data struct {
		Viewer struct {
			Badges struct {
				Notifications struct{ Like struct{ Value int } }
			}
		}
	}
	if err := h.api.do(ctx, "dev:"+hotKey, everyQuery, nil, &data); err != nil {
		return sample{}, err
	}
	if got := data.Viewer.Badges.Notifications.Like.Value; got != want {
		return sample{}, fmt.Errorf("%d likes on %d posts count as %d", h.taken.Load(), want, got)
	}
	return sample{rate: nan, p50: took, p99: took, cpu: -1, bytesPerEntry: nan}, nil
}
