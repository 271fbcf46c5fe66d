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

// The row recipient measures the effect of a rush of likes for one user on other users, the bystanders. It compares the time of their
// badge query during the rush with the time before it.
const (
	bystanderCount       = 16 // how many bystanders there are
	followsPerBystander  = 10 // how many authors each bystander follows
	bystanderAuthorPosts = 20 // how many posts these authors publish together
	bystanderConnections = 4  // of the bystanders' queries: few, to measure the time of an answer and not the throughput
)

// bystanderKey returns the key of the i-th bystander: a user who has no part in the rush.
func bystanderKey(i int) string { return "other-" + strconv.Itoa(i) }

func bystanderKeys() (keys []string) {
	for i := range bystanderCount {
		keys = append(keys, bystanderKey(i))
	}
	return keys
}

// seedBystanders makes the bystanders, users who have no part in the rush, each with a feed and unread posts.
func seedBystanders(ctx context.Context, a *apiClient) error {
	var events []ingestEvent
	for _, key := range bystanderKeys() {
		for i := range followsPerBystander {
			events = append(events, followEvent(key, authorKey(i)))
		}
	}
	if _, err := a.ingest(ctx, events); err != nil {
		return err
	}
	if err := a.waitForJobs(ctx); err != nil {
		return err
	}
	if err := visit(ctx, a, bystanderKeys()); err != nil {
		return err
	}
	events = nil
	for i := range bystanderAuthorPosts {
		events = append(events, publishEvent(authorKey(i%followsPerBystander), postBody(i)))
	}
	if _, err := a.ingest(ctx, events); err != nil {
		return err
	}
	return a.waitForJobs(ctx)
}

// bystandersLines returns lines of the report that compare the times of the bystanders' badge query during a rush with those before it:
// the median, the 99th percentile, and the mean, which in a closed loop is the inverse of the rate and includes every stall. All three are
// also compared with the floor.
func bystandersLines(what string, r bystanderResults) []resultLine {
	what += ": others' badge query, "
	p99, p99Before := r.during.medianLatencyP99(), r.before.medianLatencyP99()
	lines := []resultLine{
		{
			measurement: what + "median", reference: "itself, before", ourFigure: formatMilliseconds(r.during.medianLatencyP50()), referenceFigure: formatMilliseconds(r.before.medianLatencyP50()),
			value: ratio(float64(r.during.medianLatencyP50()), float64(r.before.medianLatencyP50())), unit: "x the time", goal: atMost(1.5, "<= 1.5 x the time"),
		}, {
			measurement: what + "p99", reference: "itself, before", ourFigure: formatMilliseconds(p99), referenceFigure: formatMilliseconds(p99Before),
			value: ratio(float64(p99), float64(p99Before)), unit: "x the time", goal: atMost(1.5, "<= 1.5 x the time"),
		}, {
			measurement: what + "mean", reference: "itself, before", ourFigure: formatRateAndCPU(r.during), referenceFigure: formatRateAndCPU(r.before),
			value: ratio(r.before.medianRate(), r.during.medianRate()), unit: "x the time", goal: atMost(2, "<= 2 x the time"),
		},
	}
	if len(r.withBusyProcessors) == 0 {
		return lines
	}
	return append(lines, resultLine{
		measurement: what + "median", reference: busyProcessorsLabel, ourFigure: formatMilliseconds(r.during.medianLatencyP50()), referenceFigure: formatMilliseconds(r.withBusyProcessors.medianLatencyP50()),
		value: ratio(float64(r.during.medianLatencyP50()), float64(r.withBusyProcessors.medianLatencyP50())), unit: "x the time",
	}, resultLine{
		measurement: what + "p99", reference: busyProcessorsLabel, ourFigure: formatMilliseconds(p99), referenceFigure: formatMilliseconds(r.withBusyProcessors.medianLatencyP99()),
		value: ratio(float64(p99), float64(r.withBusyProcessors.medianLatencyP99())), unit: "x the time",
	}, resultLine{
		measurement: what + "mean", reference: busyProcessorsLabel, ourFigure: formatRateAndCPU(r.during), referenceFigure: formatRateAndCPU(r.withBusyProcessors),
		value: ratio(r.withBusyProcessors.medianRate(), r.during.medianRate()), unit: "x the time",
	})
}

// loadDuringRush calls load while the function rush runs, and then ends the context of rush.
func loadDuringRush(ctx context.Context, load func(context.Context) (sample, error), rush func(context.Context) error) (sample, error) {
	rushing, end := context.WithCancel(ctx)
	defer end()
	done := make(chan error, 1)
	go func() { done <- rush(rushing) }()
	result, err := load(ctx)
	end()
	return result, errors.Join(err, <-done)
}

const (
	celebrityKey        = "celebrity"     // the key of the user whose posts are liked
	likeClients         = 2               // how many clients send likes: one batch is sent while another one is built
	likesPerCall        = ingestBatchSize // how many likes one batch has
	pacedLikesPerSecond = 10_000          // likes a second in a rush of a given rate: the rate that ingest should take
)

// likerKey returns the key of the i-th user who likes.
func likerKey(i int) string { return "liker-" + strconv.Itoa(i) }

// likedAuthor is the author whose posts are liked, the celebrity, with the client that sends the likes.
type likedAuthor struct {
	api               *apiClient
	serverPID         int          // the process whose processor time is measured
	postIDs           []string     // the posts that are liked
	likerCount        int          // how many users like
	nextLikerPostPair atomic.Int64 // the number of the next like: each is a pair of a user and a post
	acceptedLikes     atomic.Int64 // how many likes were accepted
}

// sendLikes sends batches of likes until ctx ends: perSecond likes a second, or, if perSecond is 0, as fast as they are accepted.
// No user likes a post twice: each likes every post, and then the next user begins.
func (h *likedAuthor) sendLikes(ctx context.Context, perSecond int) error {
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
				errs[i] = h.sendLikeBatch(context.WithoutCancel(ctx)) // a batch in flight is not cancelled, because it counts in the end
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// sendLikeBatch sends the next batch of likes.
func (h *likedAuthor) sendLikeBatch(ctx context.Context) error {
	events := make([]ingestEvent, likesPerCall)
	first := int(h.nextLikerPostPair.Add(likesPerCall) - likesPerCall)
	if most := h.likerCount * len(h.postIDs); first+likesPerCall > most {
		return fmt.Errorf("all %d likes are used up", most)
	}
	for i := range events {
		pair := first + i
		events[i] = likeEvent(likerKey(pair/len(h.postIDs)), h.postIDs[pair%len(h.postIDs)])
	}
	_, err := h.api.ingest(ctx, events)
	if err == nil {
		h.acceptedLikes.Add(likesPerCall)
	}
	return err
}

// publishPosts makes the author's document, and publishes the posts that are going to be liked.
func (h *likedAuthor) publishPosts(ctx context.Context, posts int) (err error) {
	if err := visit(ctx, h.api, []string{celebrityKey}); err != nil {
		return err
	}
	var events []ingestEvent
	for i := range posts {
		events = append(events, publishEvent(celebrityKey, postBody(i)))
	}
	h.postIDs, err = h.api.ingest(ctx, events)
	return err
}

// measureLikeRush measures a rush of likes of one author's posts, on a server of its own.
func (b *bench) measureLikeRush(ctx context.Context) error {
	return b.runOnOwnServer(ctx, "recipient", hotRecipientRedisDB, b.runLikeRushRounds)
}

// runLikeRushRounds makes the users and posts of the row recipient, measures its rounds and reports them.
func (b *bench) runLikeRushRounds(ctx context.Context, at installation, server *program) error {
	server.api.client.Transport = &http.Transport{MaxIdleConnsPerHost: likeClients}
	b.printProgress("recipient: seeding %d people who like", b.sizes.likers)
	if err := seedBystanders(ctx, server.api); err != nil {
		return err
	}
	var events []ingestEvent
	for i := range b.sizes.likers {
		events = append(events, profileEvent(likerKey(i), "Liker "+strconv.Itoa(i)))
	}
	if _, err := server.api.ingest(ctx, events); err != nil {
		return err
	}
	h := &likedAuthor{api: server.api, serverPID: server.pid(), likerCount: b.sizes.likers}
	if err := h.publishPosts(ctx, b.sizes.likedPosts); err != nil {
		return err
	}
	inserts, err := openInsertBaseline("sqlite", at.databasePath(), 1, sqliteDatabaseFactory(at.dataFolder))
	if err != nil {
		return err
	}
	defer inserts.loadDatabase.Close()
	r := likeRushResults{inserts: inserts}
	for round := range b.socketRounds {
		b.printProgress("recipient: round %d of %d", round+1, b.socketRounds)
		if err := b.measureLikeRushRound(ctx, server, h, &r); err != nil {
			return err
		}
	}
	b.reportLikeRush(&r)
	return nil
}

// likeRushResults are the samples of the row recipient.
type likeRushResults struct {
	likesAlone                         series           // the rate of likes, without other requests
	bystandersPaced, bystandersUnpaced bystanderResults // the bystanders' badge query, with likes at a given rate and as fast as accepted
	pacedLikes, unpacedLikes           series           // the rate of likes beside the bystanders: at a given rate, and as fast as accepted
	settlingTimes                      series           // how long it took after the last like until the count was right
	inserts                            *insertBaseline  // the floor of the likes without other requests
}

// measureLikeRushRound measures one round: likes alone, likes at a given rate, and likes as fast as they are accepted.
func (b *bench) measureLikeRushRound(ctx context.Context, server *program, h *likedAuthor, r *likeRushResults) error {
	before, alone, err := b.measureBystanders(ctx, server)
	if err != nil {
		return err
	}
	if err := r.inserts.recordRowsBeforeLoad(ctx); err != nil {
		return err
	}
	already := h.acceptedLikes.Load()
	result, err := h.measureLikes(func() error {
		rushing, end := context.WithTimeout(ctx, b.rowTurnLength())
		defer end()
		return errors.Join(h.sendLikes(rushing, 0), ctx.Err())
	})
	if err != nil {
		return err
	}
	r.likesAlone = append(r.likesAlone, result)
	if r.settlingTimes, err = h.appendSettlingTime(ctx, r.settlingTimes); err != nil {
		return err
	}
	if err := errors.Join(r.inserts.collectWrittenRows(ctx, int(h.acceptedLikes.Load()-already)), r.inserts.measureRound(ctx)); err != nil {
		return err
	}
	for _, rush := range []struct {
		perSecond int
		others    *bystanderResults
		taken     *series
	}{{pacedLikesPerSecond, &r.bystandersPaced, &r.pacedLikes}, {0, &r.bystandersUnpaced, &r.unpacedLikes}} {
		var e cpuUsage
		taken, err := h.measureLikes(func() (err error) {
			e, err = rush.others.addRushRound(ctx, b, server, before, func(ctx context.Context) error { return h.sendLikes(ctx, rush.perSecond) })
			return err
		})
		if err != nil {
			return err
		}
		*rush.taken = append(*rush.taken, taken)
		if r.settlingTimes, err = h.appendSettlingTime(ctx, r.settlingTimes); err != nil {
			return err
		}
		if err := rush.others.addBusyProcessorsRound(ctx, b, server, alone, e); err != nil {
			return err
		}
	}
	return nil
}

// measureLikes returns how many likes a second were accepted while do ran.
func (h *likedAuthor) measureLikes(do func() error) (sample, error) {
	before, start, cpu := h.acceptedLikes.Load(), time.Now(), startCPUTimer(h.serverPID)
	err := do()
	taken := h.acceptedLikes.Load() - before
	return sample{ratePerSecond: float64(taken) / time.Since(start).Seconds(), serverCPUPerAnswer: cpu(int(taken)), bytesPerSocketOrEntry: nan}, err
}

// reportLikeRush adds the results of the row recipient to the report.
func (b *bench) reportLikeRush(r *likeRushResults) {
	const what = "likes on one person, in batches of 500"
	b.report.resultLines = slices.Concat(b.report.resultLines,
		[]resultLine{{measurement: what + ": accepted", reference: "-", ourFigure: formatRateAndCPU(r.likesAlone), value: r.likesAlone.medianRate(), unit: "a second", goal: atLeast(pacedLikesPerSecond, ">= 10,000 a second")}, r.inserts.compareLoad(what+": accepted", r.likesAlone)},
		bystandersLines(what+", at "+formatRate(r.pacedLikes), r.bystandersPaced),
		bystandersLines(what+", as fast as they are taken", r.bystandersUnpaced))
	for _, one := range []struct {
		who    string
		values series
	}{
		{"accepted, nobody else asks", r.likesAlone}, {bareInsertsLabel, r.inserts.results}, {"others' badge query before", r.bystandersPaced.before}, {"others' badge query at 10,000 likes a second", r.bystandersPaced.during},
		{"accepted meanwhile", r.pacedLikes}, {"the same reads " + busyProcessorsLabel, r.bystandersPaced.withBusyProcessors}, {"others' badge query at as many likes as are taken", r.bystandersUnpaced.during},
		{"accepted meanwhile", r.unpacedLikes}, {"the same reads " + busyProcessorsLabel, r.bystandersUnpaced.withBusyProcessors},
		{"from the last one accepted until the number is right", r.settlingTimes},
	} {
		b.report.detailLines = append(b.report.detailLines, detailLine{measurement: what, label: one.who, results: one.values})
	}
}

// appendSettlingTime waits until all jobs are done, and returns the earlier samples with one of how long that took.
func (h *likedAuthor) appendSettlingTime(ctx context.Context, earlier series) (series, error) {
	result, err := h.measureSettlingTime(ctx)
	return append(earlier, result), err
}

// measureSettlingTime waits until all jobs are done and returns how long that took. Then the count of the celebrity's like
// notifications must be right: the number of posts that somebody has liked.
func (h *likedAuthor) measureSettlingTime(ctx context.Context) (sample, error) {
	want := int(min(h.acceptedLikes.Load(), int64(len(h.postIDs))))
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
	if err := h.api.doGraphQL(ctx, "dev:"+celebrityKey, everySourceQuery, nil, &data); err != nil {
		return sample{}, err
	}
	if got := data.Viewer.Badges.Notifications.Like.Value; got != want {
		return sample{}, fmt.Errorf("%d likes on %d posts count as %d", h.acceptedLikes.Load(), want, got)
	}
	return sample{ratePerSecond: nan, latencyP50: took, latencyP99: took, serverCPUPerAnswer: -1, bytesPerSocketOrEntry: nan}, nil
}
