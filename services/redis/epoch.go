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

// A Redis that was restarted from an older snapshot, or a replica that was promoted without the last writes, holds keys that look
// whole and stay out of date for good. The epoch tells such data apart: a short number made of the lineages of all masters (their
// replication IDs, which are new with every start and every promotion). Data carries the epoch of its birth, and readers treat data
// of another epoch as missing, so that it is rebuilt from SQL. On a cluster the failover of one master therefore invalidates the
// data of all.
//
// A node learns of a new lineage before it reads any of its data, because every new connection asks for the lineage. If a
// connection outlives the change, as one to a promoted replica of a cluster does, WatchMasters notices within a second.

// The constants are the limits and the fixed texts of the epoch.
const (
	epochFreshFor     = 200 * time.Millisecond // how long a rebuild on a cluster relies on the masters' last answers
	epochCheckTimeout = 300 * time.Millisecond // how long a rebuild waits for the masters' answers
	noEpoch           = "0"                    // the epoch before the first answer of a master; no valid data has it
	embeddedLineage   = "!"                    // the lineage of the embedded Redis, which belongs to this process
	noLineage         = "?"                    // the lineage of a Redis that does not tell it
	lineageField      = "master_replid:"       // begins the line of INFO with the lineage
	masterRole        = "role:master"          // the line of INFO that only a master has
	soleMasterKey     = ""                     // stands for the address of the only master if there is no cluster
	epochModulus      = 1<<31 - 1              // 31 bits take 6 bytes in a hash, and 32 would take 10
	infoSection       = "replication"          // the section of INFO that has the lines lineageField and masterRole
)

// epoch is this node's knowledge of the masters' lineages. It is safe for concurrent use.
type epoch struct {
	dataFormat string // Options.DataFormat, a part of the epoch: data in another format has another epoch. Set before the first use

	mu                 sync.Mutex         // guards lastQuestionNumber, lineages and verifiedAt
	lastQuestionNumber uint64             // number of the latest question to a master for its lineage
	lineages           map[string]lineage // master's address -> its last answer
	verifiedAt         time.Time          // when recordAllLineages last had the answers of all masters

	// currentText is the epoch that computeEpoch has computed last, read without the lock by every read of a document. nil: no
	// master was asked yet.
	currentText   atomic.Pointer[string]
	warnNoLineage sync.Once // logs once that Redis does not report its lineage
}

// lineage is a master's answer to the question for its lineage. The answer to an earlier question never replaces the answer to a later
// one: it may come from a server that has died meanwhile.
type lineage struct {
	id             string // the replication ID
	questionNumber uint64 // the number of the question that it answers
}

// value returns the current epoch in the form that is written with data; noEpoch if no epoch is known.
func (e *epoch) value() string {
	if text := e.currentText.Load(); text != nil {
		return *text
	}
	return noEpoch
}

// nextQuestionNumber numbers a question for a lineage before it is sent. Its answer may come after the answer to a later question: see
// lineage.
func (e *epoch) nextQuestionNumber() (number uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lastQuestionNumber++
	return e.lastQuestionNumber
}

// recordLineage records the answer of one server, if the server is a known master or the only one.
func (e *epoch) recordLineage(addr, id string, question uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	last, known := e.lineages[addr]
	// Replicas answer too, and so does a server that is no master any more, through a connection that is still open.
	if id == "" || question < last.questionNumber || !known && addr != soleMasterKey {
		return
	}
	if !known {
		e.lineages = map[string]lineage{}
	}
	e.lineages[addr] = lineage{id, question}
	e.computeEpoch()
}

// recordAllLineages records the answers (ids, by address) of all masters to one question, and forgets servers that are no longer masters.
func (e *epoch) recordAllLineages(ids map[string]string, question uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	next := make(map[string]lineage, len(ids))
	for addr, id := range ids {
		next[addr] = lineage{id, question}
		// A connection that was made meanwhile has asked later, so its answer stays.
		if last, known := e.lineages[addr]; known && last.questionNumber > question {
			next[addr] = last
		}
	}
	e.lineages = next
	e.verifiedAt = time.Now()
	e.computeEpoch()
}

// computeEpoch computes the epoch from the lineages, whatever their order. The lock is held.
func (e *epoch) computeEpoch() {
	ids := make([]string, 0, len(e.lineages))
	for _, lineage := range e.lineages {
		ids = append(ids, lineage.id)
	}
	// The IDs are sorted: the order of the masters differs between nodes, and the epoch must not.
	slices.Sort(ids)
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(strings.Join(ids, " ") + e.dataFormat))
	text := strconv.FormatUint(sum.Sum64()%epochModulus+1, 10)
	e.currentText.Store(&text)
}

// fresh reports whether all masters have answered within epochFreshFor.
func (e *epoch) fresh() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return time.Since(e.verifiedAt) < epochFreshFor
}

// askLineageOnConnect returns a hook that asks a server for its lineage on each new connection, before anything is read through it. An
// error fails the connection, and so the call that needed it.
func (c *Client) askLineageOnConnect(addr string) func(context.Context, *redis.Conn) error {
	return func(ctx context.Context, connection *redis.Conn) error {
		question := c.epoch.nextQuestionNumber()
		id, err := c.lineageOf(connection.Info(withoutRoundTripCount(ctx), infoSection))
		if err != nil {
			return err
		}
		c.epoch.recordLineage(addr, id, question)
		return nil
	}
}

// lineageOf reads the answer to INFO: "" for a replica, whose lineage is its master's. If a Redis does not report its lineage,
// because of its make or our user's rights, lost writes go unnoticed, and the log says so once.
func (c *Client) lineageOf(info *redis.StringCmd) (id string, err error) {
	text, err := info.Result()
	var refusal redis.Error
	// Without any answer the connection is of no use. A refusal of the question is an answer.
	if err != nil && (!errors.As(err, &refusal) || isOutage(err)) {
		return "", err
	}
	// A replica has no lineage of its own: it serves old data under the lineage of its master.
	if err == nil && !strings.Contains(text, masterRole) {
		return "", nil
	}
	if _, rest, found := strings.Cut(text, lineageField); found {
		id, _, _ = strings.Cut(rest, "\r\n")
		return id, nil
	}
	c.epoch.warnNoLineage.Do(func() {
		c.log.Warn("this Redis does not answer INFO replication: a restart that lost writes goes unnoticed", "error", err)
	})
	return noLineage, nil
}

// CheckEpoch asks every master for its lineage: one round trip. If one of them does not answer, or is no longer a master, the
// epoch stays.
func (c *Client) CheckEpoch(ctx context.Context) error {
	// The embedded Redis and its data end with this process, so its lineage never changes.
	if c.mode == modeEmbedded {
		return nil
	}
	question := c.epoch.nextQuestionNumber()
	var mu sync.Mutex
	ids, whole := map[string]string{}, true
	err := c.EachMaster(withoutRoundTripCount(ctx), func(ctx context.Context, master *redis.Client) error {
		id, err := c.lineageOf(master.Info(ctx, infoSection))
		mu.Lock()
		defer mu.Unlock()
		ids[c.AddrOf(master)] = id
		// A server that has become a replica has no lineage of its own: the next check finds the new master.
		whole = whole && id != ""
		return err
	})
	if err == nil && whole {
		c.epoch.recordAllLineages(ids, question)
	}
	return MapError(err)
}

// AddrOf is the address of a master, "" if there is only one.
func (c *Client) AddrOf(master *redis.Client) string {
	if c.mode == modeCluster {
		return master.Options().Addr
	}
	return soleMasterKey
}

// Epoch is the epoch that data must carry to be trusted. Read it after the answers that it is compared with: by then every
// connection that they came through has reported its server's lineage.
func (c *Client) Epoch() string { return c.epoch.value() }

// EpochForNewData is the epoch for data that is built now. On a cluster it asks the masters again unless that has just been done.
// Without this question, a node that has not noticed a failover and a node that has would each discard and rebuild the data of
// the other.
func (c *Client) EpochForNewData(ctx context.Context) string {
	if c.mode == modeCluster && !c.epoch.fresh() {
		done := c.epochChecks.DoChan("", func() (any, error) {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), epochCheckTimeout)
			defer cancel()
			return nil, c.CheckEpoch(ctx)
		})
		// The question is shared with other callers, and goes on when this caller's time is up.
		select {
		case <-ctx.Done():
		case <-done: // without an answer the last epoch is used
		}
	}
	return c.epoch.value()
}
