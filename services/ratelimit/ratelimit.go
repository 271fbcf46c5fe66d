// Package ratelimit bounds how much one subject may ask of the server: a viewer, a host application, an address.
//
// It guarantees that a decision costs no round trip, because each node keeps its own token buckets in memory. Nodes on one
// Redis add up their spending once a second, so that a subject gets one allowance and not one per node. The memory of a
// bucket is freed when the bucket is full again.
//
// On failure: while Redis does not answer, each node counts only its own spending. A node that meets a subject for the first
// time grants a full bucket until its next exchange.
package ratelimit

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/maphash"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"tidings/services"
)

// Budget is the name of a bounded kind of work.
type Budget string

// The budgets. Each belongs to one kind of subject.
const (
	Reads         Budget = "READS"         // cost of a viewer's queries, subscriptions and large payloads
	Events        Budget = "EVENTS"        // cost of the events of a viewer's subscriptions
	Writes        Budget = "WRITES"        // a viewer's mutation fields
	Follows       Budget = "FOLLOWS"       // a viewer's follows and unfollows
	Conversations Budget = "CONVERSATIONS" // conversations that a viewer creates, and additions of members
	Sockets       Budget = "SOCKETS"       // WebSockets that a viewer opens
	HostReads     Budget = "HOST_READS"    // cost of a host application's queries (scope ingest)
	HostEvents    Budget = "HOST_EVENTS"   // cost of the events of a host application's subscriptions
	HostWrites    Budget = "HOST_WRITES"   // what a host application ingests, and its mutation fields
	Admin         Budget = "ADMIN"         // operations with the scope admin
	Address       Budget = "ADDRESS"       // HTTP requests, WebSockets and their operations from one address
)

// Limits is the allowance of each budget, per subject and minute. A whole minute's allowance may be spent at once. 0 means
// no limit.
type Limits map[Budget]int

// defaults returns the limits of a server that sets none.
func defaults() Limits {
	return Limits{
		Reads: 600_000, Events: 6_000_000, Writes: 600, Follows: 120, Conversations: 60, Sockets: 240,
		HostReads: 60_000_000, HostEvents: 600_000_000, HostWrites: 3_000_000, Admin: 1_200, Address: 60_000,
	}
}

// budgets lists the names in the order of their documentation.
var budgets = []Budget{Reads, Events, Writes, Follows, Conversations, Sockets, HostReads, HostEvents, HostWrites, Admin, Address}

// maxLimit is far above what a server can do, and keeps an allowance within the numbers of the token buckets.
const maxLimit = 1_000_000_000

// parse reads NAME=NUMBER items over the defaults, or returns the reason why they are invalid. The single item "off"
// removes all limits.
func parse(items []string) (limits Limits, reason string) {
	limits = defaults()
	if len(items) == 1 && items[0] == "off" {
		return Limits{}, ""
	}
	named := map[Budget]bool{}
	for _, item := range items {
		name, text, _ := strings.Cut(item, "=")
		budget := Budget(name)
		if !slices.Contains(budgets, budget) {
			return nil, fmt.Sprintf("%s is not a budget: expected one of %v, then = and the number a minute; or off alone", services.Quote(item), budgets)
		}
		limit, err := strconv.Atoi(text)
		if err != nil || limit < 0 || limit > maxLimit {
			return nil, fmt.Sprintf("%s: 0 to %d is allowed after the =", services.Quote(item), maxLimit)
		}
		if named[budget] {
			return nil, fmt.Sprintf("%s is named twice", budget)
		}
		named[budget], limits[budget] = true, limit
	}
	return limits, ""
}

// SpendingLedger adds up the spending of all nodes.
type SpendingLedger interface {
	// Spend adds amounts to the buckets' totals in the window and returns the totals, in their order. A bucket's name is
	// the same on every node. Totals may be forgotten some time after the window.
	Spend(ctx context.Context, window int64, buckets []string, amounts []int) (totals []int, err error)
}

// Config holds the limits and their environment. Zero fields have defaults.
type Config struct {
	Limits           Limits
	Ledger           SpendingLedger // nil: this node is alone
	ExchangeInterval time.Duration  // how often the nodes exchange their spending; default 1 s
	Clock            services.Clock
	Log              *slog.Logger
}

// Limiter keeps the buckets of one node. It is safe for concurrent use.
type Limiter struct {
	cfg           Config
	seed          maphash.Seed // of the hash in shardOf
	shards        [shardCount]shard
	refused       atomic.Uint64 // requests that were refused
	failureLogged bool          // the last exchange failed and was logged; only RunOnce uses it
}

const (
	shardCount = 64 // parts into which the buckets are divided, each with its own lock
	// totalsWindow is how long one total counts. A node never counts what the others report between its own last exchange of a
	// window and the end of the window. That is at most the spending of one exchange, and a window has ten exchanges by default.
	totalsWindow = 10 * time.Second
)

// shard is a part of the buckets. All buckets of one subject are in the same shard, so that TakeAll needs one lock.
type shard struct {
	mu      sync.Mutex // guards buckets
	buckets map[bucketKey]*bucket
}

// bucketKey names a bucket.
type bucketKey struct {
	budget  Budget
	subject string // such as a user's key or an address
}

// bucket is one subject's budget on this node.
type bucket struct {
	limiter            *rate.Limiter // the token bucket
	unreportedSpending int           // spent here and not yet reported to the other nodes
	windowNumber       int64         // the window that allNodesSpending belongs to
	allNodesSpending   int           // what all nodes together had spent in that window, at the last exchange
}

// New makes a limiter. Its Run exchanges spending and frees full buckets.
func New(cfg Config) *Limiter {
	cfg.Clock = cmp.Or[services.Clock](cfg.Clock, services.SystemClock{})
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	cfg.ExchangeInterval = cmp.Or(cfg.ExchangeInterval, time.Second)
	l := &Limiter{cfg: cfg, seed: maphash.MakeSeed()}
	for i := range l.shards {
		l.shards[i].buckets = map[bucketKey]*bucket{}
	}
	return l
}

// shardOf returns the shard of a subject. The hash has a secret seed: nobody can aim all their addresses at one lock.
func (l *Limiter) shardOf(key bucketKey) *shard {
	return &l.shards[maphash.String(l.seed, key.subject)%shardCount]
}

// Refused counts the refused requests since the start.
func (l *Limiter) Refused() uint64 { return l.refused.Load() }

// Spending is the amount that a request takes from one budget.
type Spending struct {
	Budget Budget
	Amount int
}

// Take spends amount of a subject's budget. RATE_LIMITED, with the time to wait, means that nothing was spent. An amount
// beyond the whole budget empties it, so that one large request is possible each minute.
func (l *Limiter) Take(budget Budget, subject string, amount int) error {
	return l.TakeAll(subject, Spending{budget, amount})
}

// TakeAll spends from all of several budgets of one subject, each named once, or from none of them. RATE_LIMITED says how long to
// wait until all of them have enough. If a refused request spent a part, a client that retries as advised would on each try spend
// the budget for which it waits, and would never succeed. An amount beyond a whole budget empties it, as for Take.
func (l *Limiter) TakeAll(subject string, spendings ...Spending) error {
	part := l.shardOf(bucketKey{subject: subject})
	now := l.cfg.Clock.Now()
	part.mu.Lock()
	defer part.mu.Unlock()
	taken := make([]pendingTake, 0, 2) // WRITES and one more, as a rule
	var short Budget
	var wait time.Duration
	for _, spending := range spendings {
		limit := l.cfg.Limits[spending.Budget]
		if limit == 0 || spending.Amount <= 0 {
			continue
		}
		b, asked := part.bucket(bucketKey{spending.Budget, subject}, limit), min(spending.Amount, limit)
		// Reserve first: only the reservation knows how long the wait is.
		reservation := b.limiter.ReserveN(now, asked)
		taken = append(taken, pendingTake{b, reservation, asked})
		if delay := reservation.DelayFrom(now); delay > wait {
			short, wait = spending.Budget, delay
		}
	}
	if wait > 0 {
		for _, t := range taken {
			t.reservation.CancelAt(now)
		}
		l.refused.Add(1)
		wait = (wait + time.Millisecond - 1).Truncate(time.Millisecond) // rounded up, so that the wait is long enough
		return &services.Error{Code: services.RateLimited, Reason: string(short), Limit: l.cfg.Limits[short], RetryAfter: wait, Message: fmt.Sprintf(
			"%s: up to %d a minute are allowed, try again in %s", short, l.cfg.Limits[short], waitText(wait))}
	}
	for _, t := range taken {
		t.bucket.unreportedSpending += t.amount
	}
	return nil
}

// pendingTake is the amount to take from one bucket, if all the request's other buckets have enough too.
type pendingTake struct {
	bucket      *bucket
	reservation *rate.Reservation // of the amount; cancelled if another bucket has too little
	amount      int               // the tokens to take
}

// bucket finds a subject's bucket, or makes a full one. The shard is locked.
func (s *shard) bucket(key bucketKey, limit int) *bucket {
	b := s.buckets[key]
	if b == nil {
		b = &bucket{limiter: rate.NewLimiter(rate.Limit(float64(limit)/60), limit)}
		s.buckets[key] = b
	}
	return b
}

// waitText returns a wait in whole seconds, as a person reads it.
func waitText(wait time.Duration) string {
	return fmt.Sprintf("%d s", int(math.Ceil(wait.Seconds())))
}

// Run exchanges spending and frees full buckets until ctx ends.
func (l *Limiter) Run(ctx context.Context) error {
	return services.Every(ctx, l.cfg.ExchangeInterval, func(ctx context.Context) { l.RunOnce(ctx) })
}

// RunOnce reports this node's spending to the other nodes, subtracts their spending from each bucket, and frees full buckets.
func (l *Limiter) RunOnce(ctx context.Context) {
	keys, amounts := l.collectSpending()
	if l.cfg.Ledger == nil || len(keys) == 0 {
		return
	}
	names := services.Map(keys, func(key bucketKey) string { return key.name() })
	now := l.cfg.Clock.Now()
	number := now.UnixMilli() / totalsWindow.Milliseconds()
	// If this fails, the collected amounts are lost: the other nodes do not subtract them from their buckets.
	totals, err := l.cfg.Ledger.Spend(ctx, number, names, amounts)
	if err != nil {
		if !l.failureLogged {
			l.cfg.Log.Warn("each node applies the rate limits by itself until Redis answers", "error", err)
		}
		l.failureLogged = true
		return
	}
	l.failureLogged = false
	for i, total := range totals {
		l.subtractOthersSpending(keys[i], amounts[i], number, total, now)
	}
}

// collectSpending takes the spending of all buckets that are noticeably used, and drops the buckets that are full again. Barely
// used buckets are not exchanged: Redis holds only the buckets that could reach their limit.
func (l *Limiter) collectSpending() (keys []bucketKey, amounts []int) {
	now := l.cfg.Clock.Now()
	for i := range l.shards {
		part := &l.shards[i]
		part.mu.Lock()
		for key, b := range part.buckets {
			burst := float64(b.limiter.Burst())
			left := b.limiter.TokensAt(now)
			if left >= burst {
				delete(part.buckets, key)
			} else if b.unreportedSpending > 0 && left < burst*7/8 {
				keys, amounts = append(keys, key), append(amounts, b.unreportedSpending)
				b.unreportedSpending = 0
			}
		}
		part.mu.Unlock()
	}
	return keys, amounts
}

// subtractOthersSpending subtracts from a bucket the spending of other nodes since the last exchange. said is what this node has
// reported.
func (l *Limiter) subtractOthersSpending(key bucketKey, said int, number int64, total int, now time.Time) {
	part := l.shardOf(key)
	part.mu.Lock()
	defer part.mu.Unlock()
	b := part.buckets[key]
	if b == nil {
		return
	}
	// The totals begin at 0 in each window.
	if b.windowNumber != number {
		b.windowNumber, b.allNodesSpending = number, 0
	}
	others := min(total-b.allNodesSpending-said, b.limiter.Burst())
	b.allNodesSpending = total
	if others > 0 {
		// The bucket may fall below zero: the subject then waits for the amount that they have spent on other nodes.
		b.limiter.ReserveN(now, others)
	}
}

// name returns the name of a bucket on all nodes: short, and without a user's key or an address in it, because it becomes a
// key of Redis. The hash is cryptographic so that nobody can choose a name that shares another subject's bucket.
func (k bucketKey) name() string {
	sum := sha256.Sum256([]byte(string(k.budget) + ":" + k.subject))
	return hex.EncodeToString(sum[:12])
}
