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
	lockClients = 16
	lockLease   = time.Second      // how long the lock key lives if its holder dies
	lockPause   = time.Millisecond // before another try for the lock
	lockTries   = 1000             // then an addition is given up

	// These name the ways in the report.
	whoScript = "our script"
	whoLock   = "a lock key: SET NX PX, read, write, DEL"
	whoWatch  = "WATCH, read, MULTI, write, EXEC"
)

// hotMember is the member whose counter the clients increment.
const hotMember = services.UserID(1)

// way is one way to add an unread message. add adds message number `number`, and returns how often it had to try again.
type way struct {
	who     string // its name in the report
	add     func(ctx context.Context, number int64) (retries int, err error)
	sum     func(ctx context.Context) (int, error) // the sum as readers see it
	added   atomic.Int64                           // additions so far
	retries atomic.Int64
	failed  atomic.Int64 // additions that were given up after lockTries
	values  series
}

func (b *bench) measureLocks(ctx context.Context) (err error) {
	p, err := b.newSite("locks", locksDatabase)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.deleteRedisData(context.WithoutCancel(ctx))) }()
	ours, err := rdb.Open(ctx, tidingsredis.Options{URL: p.redisURL, Node: p.node}, rdb.Shape{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ours.Close()) }()
	client, err := p.connect()
	if err != nil {
		return err
	}
	defer client.Close()
	script, err := scriptWay(ctx, ours, client)
	if err != nil {
		return err
	}
	ways := []*way{script, lockWay(client, lockTries), watchWay(client, lockTries)}
	for round := range b.rounds + 1 {
		if round > 0 {
			b.say("locks: round %d of %d", round, b.rounds)
		}
		for _, w := range ways {
			turn := b.turnLength()
			if round == 0 {
				turn = max(turn/4, 100*time.Millisecond)
			}
			result, err := w.run(ctx, turn)
			if err != nil {
				return fmt.Errorf("%s: %w", w.who, err)
			}
			if round > 0 {
				w.values = append(w.values, result)
			}
		}
	}
	for _, w := range ways {
		sum, err := w.sum(ctx)
		if err != nil {
			return err
		}
		if done := w.added.Load(); int64(sum) != done {
			return fmt.Errorf("%s: the sum is %d after %d messages", w.who, sum, done)
		}
	}
	b.reportLocks(ways)
	return nil
}

// run lets lockClients clients add messages for a while, each of them one after the other. It samples the additions.
func (w *way) run(ctx context.Context, length time.Duration) (sample, error) {
	start := time.Now()
	latencies, errs := make([][]time.Duration, lockClients), make([]error, lockClients)
	var group sync.WaitGroup
	for i := range lockClients {
		group.Go(func() {
			for begin := time.Now(); errs[i] == nil && begin.Sub(start) < length; {
				var retries int
				retries, errs[i] = w.add(ctx, w.added.Add(1))
				w.retries.Add(int64(retries))
				if errors.Is(errs[i], errGivenUp) {
					w.added.Add(-1)
					w.failed.Add(1)
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

var errGivenUp = errors.New("tried too often")

// scriptWay returns the way of our script. It writes the member's absolute state: the newer state wins, and the script changes the sum
// with it.
func scriptWay(ctx context.Context, client *rdb.Projections, plain *redis.Client) (*way, error) {
	state := services.Membership{Conversation: 1, User: hotMember, Version: 1}
	if _, err := client.BeginRebuild(ctx, []services.UserID{hotMember}, rdb.RebuildMode{Visit: true}); err != nil {
		return nil, err
	}
	return &way{
		who: whoScript,
		add: func(ctx context.Context, number int64) (int, error) {
			state := state
			state.Head = number
			results, clamped, err := client.PutMemberships(ctx, []services.Membership{state})
			if err == nil && (clamped > 0 || results[0].Status == tidingsredis.Missing) {
				err = fmt.Errorf("the script answered %+v", results[0])
			}
			return 0, err
		},
		sum: sumOf(plain, "{u1}:b", "Cu"),
	}, nil
}

// The fields of the hash of the other two ways: the counter of the conversation, and the sum.
const counterField, sumField = "1", "sum"

// sumOf returns a function that reads the sum from a field of a hash.
func sumOf(client *redis.Client, key, field string) func(context.Context) (int, error) {
	return func(ctx context.Context) (int, error) { return client.HGet(ctx, key, field).Int() }
}

// readIncremented reads both counters and returns them incremented.
func readIncremented(ctx context.Context, read func(context.Context, string, ...string) *redis.SliceCmd, key string) (fields []any, err error) {
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

// lockWay returns the way that changes both counters under a lock key.
func lockWay(client *redis.Client, tries int) *way {
	const key, lock = "{u1}:locked", "{u1}:lock"
	return &way{
		who: whoLock,
		add: func(ctx context.Context, _ int64) (retries int, err error) {
			for {
				mine, err := client.SetNX(ctx, lock, 1, lockLease).Result()
				if err != nil {
					return retries, err
				}
				if mine {
					break
				}
				if retries++; retries >= tries {
					return retries, errGivenUp
				}
				if err := pause(ctx, lockPause); err != nil {
					return retries, err
				}
			}
			fields, err := readIncremented(ctx, client.HMGet, key)
			if err == nil {
				err = client.HSet(ctx, key, fields...).Err()
			}
			return retries, errors.Join(err, client.Del(ctx, lock).Err())
		},
		sum: sumOf(client, key, sumField),
	}
}

// watchWay returns the way that changes both counters in a transaction, which fails if another client was quicker.
func watchWay(client *redis.Client, tries int) *way {
	const key = "{u1}:watched"
	return &way{
		who: whoWatch,
		add: func(ctx context.Context, _ int64) (retries int, err error) {
			for ; retries < tries; retries++ {
				err = client.Watch(ctx, func(tx *redis.Tx) error {
					fields, err := readIncremented(ctx, tx.HMGet, key)
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
			return retries, errGivenUp
		},
		sum: sumOf(client, key, sumField),
	}
}

// formatRateAndRetries returns a way's rate, with how often it tried again or gave up.
func (w *way) formatRateAndRetries() string {
	text := formatRate(w.values)
	if retries := w.retries.Load(); retries > 0 {
		text += fmt.Sprintf(", %s retries each", formatFigure(float64(retries)/float64(w.added.Load())))
	}
	if failed := w.failed.Load(); failed > 0 {
		text += fmt.Sprintf(", %s given up", formatThousands(failed))
	}
	return text
}

func (b *bench) reportLocks(ways []*way) {
	what := fmt.Sprintf("one hot group: a member's counter and sum, %d clients", lockClients)
	ours := ways[0]
	for _, w := range ways[1:] {
		b.report.lines = append(b.report.lines, line{
			what: what, limit: w.who, ours: ours.formatRateAndRetries(), theirs: w.formatRateAndRetries(), value: ratio(ours.values.rate(), w.values.rate()), unit: "x", goal: atLeast(1, ">= 1 x"),
		})
	}
	for _, w := range ways {
		b.report.details = append(b.report.details, detail{what: what, who: w.who, values: w.values})
	}
}
