package redis

import (
	"context"
	"errors"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Redis that was started again from an older snapshot, or a replica that took over without the last writes, holds
// keys that look whole and are behind for good. They are told apart by the epoch: a short number made of the
// lineages of all masters (their replication ids, which are new with every start and every promotion). What is kept
// carries the epoch of its birth, and readers take what is of another epoch as missing, so that it is made again
// from SQL. On a cluster the failover of one master therefore costs what all have.
//
// A node learns of a new lineage before it reads anything from it, because every connection asks when it is made;
// where a connection outlives the change, as to the replica of a cluster that is promoted, Watch finds out
// within a second.

const (
	epochTrust    = 200 * time.Millisecond // for so long a rebuild on a cluster relies on the last answer
	epochWithin   = 300 * time.Millisecond // what a rebuild waits for it
	noEpoch       = "0"                    // nothing that is good has it
	lonelyLineage = "!"                    // of the embedded Redis: it is this process'
	noLineage     = "?"                    // of a Redis that may not be asked
	lineageField  = "master_replid:"
	masterRole    = "role:master"
	onlyMaster    = ""        // the address of the one master where there is no cluster
	epochModulus  = 1<<31 - 1 // 31 bits take 6 bytes in a hash, and 32 would take 10
	replicationOf = "replication"
)

// epoch is what this node knows of the masters' lineages. It is safe for concurrent use.
type epoch struct {
	form string // of what is written: what has another form is of another epoch. It is set before the first use

	mu       sync.Mutex
	turn     uint64             // of the latest question begun
	lineages map[string]lineage // master's address -> what it said last
	verified time.Time          // when all were asked last

	text  atomic.Pointer[string]
	blind sync.Once // the warning that Redis does not say
}

// lineage is a master's answer. A later question's answer is never replaced by an earlier one's: that may come from
// a server that has died meanwhile.
type lineage struct {
	id   string
	turn uint64
}

// value is the epoch now, as what is written carries it.
func (e *epoch) value() string {
	if text := e.text.Load(); text != nil {
		return *text
	}
	return noEpoch
}

func (e *epoch) begin() (turn uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.turn++
	return e.turn
}

// learn takes the answer of one server, if it is known as a master or is the only one.
func (e *epoch) learn(addr, id string, turn uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	last, known := e.lineages[addr]
	if id == "" || turn < last.turn || !known && addr != onlyMaster {
		return
	}
	if !known {
		e.lineages = map[string]lineage{}
	}
	e.lineages[addr] = lineage{id, turn}
	e.fold()
}

// learnAll takes the answers of all masters; those that are none any more are forgotten.
func (e *epoch) learnAll(ids map[string]string, turn uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	next := make(map[string]lineage, len(ids))
	for addr, id := range ids {
		next[addr] = lineage{id, turn}
		if last, known := e.lineages[addr]; known && last.turn > turn {
			next[addr] = last
		}
	}
	e.lineages = next
	e.verified = time.Now()
	e.fold()
}

// fold makes the epoch of the lineages, whatever their order.
func (e *epoch) fold() {
	ids := make([]string, 0, len(e.lineages))
	for _, lineage := range e.lineages {
		ids = append(ids, lineage.id)
	}
	slices.Sort(ids)
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(strings.Join(ids, " ") + e.form))
	text := strconv.FormatUint(sum.Sum64()%epochModulus+1, 10)
	e.text.Store(&text)
}

func (e *epoch) fresh() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return time.Since(e.verified) < epochTrust
}

// greet asks a server for its lineage when a connection is made, before anything is read through it.
func (c *Client) greet(addr string) func(context.Context, *redis.Conn) error {
	return func(ctx context.Context, connection *redis.Conn) error {
		turn := c.epoch.begin()
		id, err := c.lineageOf(connection.Info(uncounted(ctx), replicationOf))
		if err != nil {
			return err
		}
		c.epoch.learn(addr, id, turn)
		return nil
	}
}

// lineageOf reads the answer to INFO: "" of a replica, whose lineage is its master's. Of a Redis that does not say,
// by its make or by the rights of our user, a loss is not noticed, and the log says so once.
func (c *Client) lineageOf(info *redis.StringCmd) (id string, err error) {
	text, err := info.Result()
	var refusal redis.Error
	if err != nil && (!errors.As(err, &refusal) || isOutage(err)) {
		return "", err
	}
	if err == nil && !strings.Contains(text, masterRole) {
		return "", nil
	}
	if _, rest, found := strings.Cut(text, lineageField); found {
		id, _, _ = strings.Cut(rest, "\r\n")
		return id, nil
	}
	c.epoch.blind.Do(func() {
		c.log.Warn("this Redis does not answer INFO replication: if it loses writes and comes back, that is not noticed", "error", err)
	})
	return noLineage, nil
}

// CheckEpoch asks every master for its lineage: one round trip. While one of them does not answer,
// or is no master any more, the epoch stays.
func (c *Client) CheckEpoch(ctx context.Context) error {
	if c.mode == modeEmbedded {
		return nil
	}
	turn := c.epoch.begin()
	var mu sync.Mutex
	ids, whole := map[string]string{}, true
	err := c.EachMaster(uncounted(ctx), func(ctx context.Context, master *redis.Client) error {
		id, err := c.lineageOf(master.Info(ctx, replicationOf))
		mu.Lock()
		defer mu.Unlock()
		ids[c.AddrOf(master)] = id
		whole = whole && id != ""
		return err
	})
	if err == nil && whole {
		c.epoch.learnAll(ids, turn)
	}
	return Unavailable(err)
}

// AddrOf is the address of a master, "" where there is only one.
func (c *Client) AddrOf(master *redis.Client) string {
	if c.mode == modeCluster {
		return master.Options().Addr
	}
	return onlyMaster
}

// Epoch is what the things that are read now must carry to be believed. Take it after their answers: whatever
// connection they came through has told its history by then.
func (c *Client) Epoch() string { return c.epoch.value() }

// EpochToBuild is the epoch for what is built now. On a cluster it is asked for again unless that was just now: of two
// nodes of which one has not noticed a failover yet, each would make anew what the other has made.
func (c *Client) EpochToBuild(ctx context.Context) string {
	if c.mode == modeCluster && !c.epoch.fresh() {
		done := c.asking.DoChan("", func() (any, error) {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), epochWithin)
			defer cancel()
			return nil, c.CheckEpoch(ctx)
		})
		select {
		case <-ctx.Done():
		case <-done: // without an answer the last epoch is as good as any
		}
	}
	return c.epoch.value()
}
