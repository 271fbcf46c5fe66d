package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"tidings/services"
	"tidings/services/rdb"
	tidingsredis "tidings/services/redis"
)

// The row of one hot group: many clients at once increment one member's counter of one conversation, and the member's sum. It compares
// our script with two usual alternatives: a lock key, and WATCH.
const (
	lockClients    = 16               // how many clients increment at a time
	lockLease      = time.Second      // how long the lock key lives if its holder dies
	lockRetryPause = time.Millisecond // before another try for the lock
	maxLockTries   = 1000             // then an addition is given up

	// These name the strategies in the report.
	scriptLabel = "our script"
	lockLabel   = "a lock key: SET NX PX, read, write, DEL"
	watchLabel  = "WATCH, read, MULTI, write, EXEC"
)

// hotMemberID is the member whose counter of unread messages the clients increment.
const hotMemberID = services.UserID(1)

// incrementStrategy is one way to count one more unread message for a member, in the counter of a conversation and in the sum over all
// conversations. addMessage adds message number `number`, and returns how often it had to try again.
type incrementStrategy struct {
	label        string // its name in the report
	addMessage   func(ctx context.Context, number int64) (retries int, err error)
	readSum      func(ctx context.Context) (int, error) // the sum as readers see it
	addedCount   atomic.Int64                           // additions so far
	retryCount   atomic.Int64                           // further tries so far
	givenUpCount atomic.Int64                           // additions that were given up after maxLockTries
	results      series                                 // samples of the additions
}

// measureIncrementStrategies measures the row "locks" of the report: three ways to raise a counter that many clients raise at once. They
// are our script, a lock key, and WATCH.
func (b *bench) measureIncrementStrategies(ctx context.Context) (err error) {
	p, err := b.newInstallation("locks", locksRedisDB)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.deleteRedisData(context.WithoutCancel(ctx))) }()
	ours, err := rdb.Open(ctx, tidingsredis.Options{URL: p.redisURL, NodeID: p.nodeName}, rdb.DocumentShape{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ours.Close()) }()
	client, err := p.connect()
	if err != nil {
		return err
	}
	defer client.Close()
	script, err := scriptStrategy(ctx, ours, client)
	if err != nil {
		return err
	}
	ways := []*incrementStrategy{script, lockStrategy(client, maxLockTries), watchStrategy(client, maxLockTries)}
	for round := range b.rounds + 1 {
		if round > 0 {
			b.printProgress("locks: round %d of %d", round, b.rounds)
		}
		for _, w := range ways {
			turn := b.rowTurnLength()
			if round == 0 {
				turn = max(turn/4, 100*time.Millisecond)
			}
			result, err := w.runClients(ctx, turn)
			if err != nil {
				return fmt.Errorf("%s: %w", w.label, err)
			}
			if round > 0 {
				w.results = append(w.results, result)
			}
		}
	}
	for _, w := range ways {
		sum, err := w.readSum(ctx)
		if err != nil {
			return err
		}
		if done := w.addedCount.Load(); int64(sum) != done {
			return fmt.Errorf("%s: the sum is %d after %d messages", w.label, sum, done)
		}
	}
	b.reportIncrementStrategies(ways)
	return nil
}

// runClients lets lockClients clients add messages for a while. Each client adds one message after the other. It returns a sample of the
// additions.
func (w *incrementStrategy) runClients(ctx context.Context, length time.Duration) (sample, error) {
	start := time.Now()
	latencies, errs := make([][]time.Duration, lockClients), make([]error, lockClients)
	var group sync.WaitGroup
	for i := range lockClients {
		group.Go(func() {
			for begin := time.Now(); errs[i] == nil && begin.Sub(start) < length; {
				var retries int
				retries, errs[i] = w.addMessage(ctx, w.addedCount.Add(1))
				w.retryCount.Add(int64(retries))
				if errors.Is(errs[i], errTooManyTries) {
					w.addedCount.Add(-1)
					w.givenUpCount.Add(1)
					errs[i] = nil
				}
				now := time.Now()
				latencies[i] = append(latencies[i], now.Sub(begin))
				begin = now
			}
		})
	}
	group.Wait()
	took := time.Since(start)
	all := slices.Concat(latencies...)
	slices.Sort(all)
	return newSample(all, took), errors.Join(errs...)
}

// errTooManyTries is the error of addMessage when a strategy gives up an addition.
var errTooManyTries = errors.New("tried too often")

// scriptStrategy returns the strategy of our script. It writes the member's absolute state: the newer state wins, and the script
// changes the sum with it.
func scriptStrategy(ctx context.Context, client *rdb.Projections, plain *redis.Client) (*incrementStrategy, error) {
	state := services.Membership{Conversation: 1, User: hotMemberID, Version: 1}
	if _, err := client.BeginRebuild(ctx, []services.UserID{hotMemberID}, rdb.RebuildMode{IsVisit: true}); err != nil {
		return nil, err
	}
	return &incrementStrategy{
		label: scriptLabel,
		addMessage: func(ctx context.Context, number int64) (int, error) {
			state := state
			state.NewestMessageNumber = number
			results, clamped, err := client.PutMemberships(ctx, []services.Membership{state})
			if err == nil && (clamped > 0 || results[0].Status == tidingsredis.Missing) {
				err = fmt.Errorf("the script answered %+v", results[0])
			}
			return 0, err
		},
		readSum: sumReader(plain, "{u1}:b", "Cu"),
	}, nil
}

// The fields of the Redis hash that the lock and the WATCH strategies write: the counter of the conversation, and the sum.
const counterField, sumField = "1", "sum"

// sumReader returns a function that reads the sum from a field of a hash.
func sumReader(client *redis.Client, key, field string) func(context.Context) (int, error) {
	return func(ctx context.Context) (int, error) { return client.HGet(ctx, key, field).Int() }
}

// readIncrementedCounters reads the counter and the sum in a hash by the function read. It returns them incremented, as the fields and
// values of an HSET.
func readIncrementedCounters(ctx context.Context, read func(context.Context, string, ...string) *redis.SliceCmd, key string) (fields []any, err error) {
	values, err := read(ctx, key, counterField, sumField).Result()
	if err != nil {
		return nil, err
	}
	for i, field := range []string{counterField, sumField} {
		text, _ := values[i].(string) // a missing counter is zero
		number, _ := strconv.Atoi(text)
		fields = append(fields, field, number+1)
	}
	return fields, nil
}

// lockStrategy returns the strategy that raises a member's counter of one conversation, and the member's sum with it, under a lock key.
func lockStrategy(client *redis.Client, tries int) *incrementStrategy {
	const key, lock = "{u1}:locked", "{u1}:lock"
	return &incrementStrategy{
		label: lockLabel,
		addMessage: func(ctx context.Context, _ int64) (retries int, err error) {
			for {
				mine, err := client.SetNX(ctx, lock, 1, lockLease).Result()
				if err != nil {
					return retries, err
				}
				if mine {
					break
				}
				if retries++; retries >= tries {
					return retries, errTooManyTries
				}
				if err := pause(ctx, lockRetryPause); err != nil {
					return retries, err
				}
			}
			fields, err := readIncrementedCounters(ctx, client.HMGet, key)
			if err == nil {
				err = client.HSet(ctx, key, fields...).Err()
			}
			return retries, errors.Join(err, client.Del(ctx, lock).Err())
		},
		readSum: sumReader(client, key, sumField),
	}
}

// watchStrategy returns the strategy that changes both counters in a transaction, which fails if another client was quicker.
func watchStrategy(client *redis.Client, tries int) *incrementStrategy {
	const key = "{u1}:watched"
	return &incrementStrategy{
		label: watchLabel,
		addMessage: func(ctx context.Context, _ int64) (retries int, err error) {
			for ; retries < tries; retries++ {
				err = client.Watch(ctx, func(tx *redis.Tx) error {
					fields, err := readIncrementedCounters(ctx, tx.HMGet, key)
					if err != nil {
						return err
					}
					_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error { return p.HSet(ctx, key, fields...).Err() })
					return err
				}, key)
				if !errors.Is(err, redis.TxFailedErr) {
					return retries, err
				}
			}
			return retries, errTooManyTries
		},
		readSum: sumReader(client, key, sumField),
	}
}

// formatRateAndRetries returns a strategy's rate, with how often it tried again or gave up.
func (w *incrementStrategy) formatRateAndRetries() string {
	text := formatRate(w.results)
	if retries := w.retryCount.Load(); retries > 0 {
		text += fmt.Sprintf(", %s retries each", formatFigure(float64(retries)/float64(w.addedCount.Load())))
	}
	if failed := w.givenUpCount.Load(); failed > 0 {
		text += fmt.Sprintf(", %s given up", formatThousands(failed))
	}
	return text
}

// reportIncrementStrategies adds the results of the row locks to the report. The first of the ways is our script.
func (b *bench) reportIncrementStrategies(ways []*incrementStrategy) {
	what := fmt.Sprintf("one hot group: a member's counter and sum, %d clients", lockClients)
	ours := ways[0]
	for _, w := range ways[1:] {
		b.report.resultLines = append(b.report.resultLines, resultLine{
			measurement: what, reference: w.label, ourFigure: ours.formatRateAndRetries(), referenceFigure: w.formatRateAndRetries(), value: ratio(ours.results.medianRate(), w.results.medianRate()), unit: "x", goal: atLeast(1, ">= 1 x"),
		})
	}
	for _, w := range ways {
		b.report.detailLines = append(b.report.detailLines, detailLine{measurement: what, label: w.label, results: w.results})
	}
}
