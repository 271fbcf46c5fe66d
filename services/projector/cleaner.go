package projector

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"tidings/services"
	"tidings/services/people"
	"tidings/services/rdb"
)

// The pace of the cleaner. A run goes over all keys. The nodes share it: each takes a turn of some steps. 500 keys take Redis about a
// millisecond.
const (
	cleanerPollInterval    = time.Second // how often a node looks whether a turn is due
	cleanerKeysPerStep     = 500         // the approximate number of keys in a step
	maxCleanerStepsPerTurn = 100         // the most steps in a turn
	// minCleanerPause is the least rest after a step. The cleaner rests as long as it works, so that it never takes more than half
	// of a slow Redis.
	minCleanerPause         = 5 * time.Millisecond
	cleanerTurnLease        = 30 * time.Second        // after it, others take the turn of a node that died
	leaveCleanerTurnTimeout = 1250 * time.Millisecond // bounds the statement that ends a turn
)

// Cleaner removes data from Redis that is no longer needed: entries that an inbox or a list of replays holds beyond its limit, all
// keys of users who are dormant or not in SQL, keys of users without a document, and keys that should have an expiry and have none,
// such as copies of posts. A run looks at all keys, in small steps. Several nodes may run one cleaner each: they take turns, and others
// take over from a cleaner that dies. It touches only Tidings' keys. The dropped data can be rebuilt: a user who returns gets a new
// document from the facts.
type Cleaner struct {
	projector   *Projector
	runInterval time.Duration // from the beginning of one run to the beginning of the next

	mu    sync.Mutex  // guards freed
	freed FreedCounts // what this node has freed since its start
}

// FreedCounts is what a cleaner has freed. A run carries it as JSON in the table cleaner, from turn to turn and from node to node.
type FreedCounts struct {
	TrimmedLists      uint64 `json:"inboxes"` // inboxes and lists of replays that held more than is listed
	RemovedEntries    uint64 `json:"entries"` // entries removed from these
	DormantUsers      uint64 `json:"dormant"` // users not seen for longer than the dormancy threshold
	UnknownUsers      uint64 `json:"unknown"` // users who are not in SQL
	OrphanKeys        uint64 `json:"orphans"` // keys of users without a document
	KeysWithoutExpiry uint64 `json:"endless"` // copies, leases and other keys that should have an expiry and had none
	DroppedKeys       uint64 `json:"keys"`    // dropped keys in all
}

// add adds what one more step has freed.
func (f *FreedCounts) add(more FreedCounts) {
	f.TrimmedLists += more.TrimmedLists
	f.RemovedEntries += more.RemovedEntries
	f.DormantUsers += more.DormantUsers
	f.UnknownUsers += more.UnknownUsers
	f.OrphanKeys += more.OrphanKeys
	f.KeysWithoutExpiry += more.KeysWithoutExpiry
	f.DroppedKeys += more.DroppedKeys
}

// NewCleaner makes this node's cleaner. every is the time from the beginning of one run to the beginning of the next.
func NewCleaner(p *Projector, every time.Duration) *Cleaner {
	return &Cleaner{projector: p, runInterval: every}
}

// Stats is the total that this node has freed since it started.
func (c *Cleaner) Stats() FreedCounts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.freed
}

// CleanerRun is the state of the cleaner's runs, on all nodes together.
type CleanerRun struct {
	RunningOrDue bool        // a run is under way, or is due at once: it was asked for, or none has begun yet
	LastEndedAt  time.Time   // zero when no run has ended yet
	LastFreed    FreedCounts // by the last run that ended
}

// LatestRun reads the state of the runs of all nodes.
func (c *Cleaner) LatestRun(ctx context.Context) (CleanerRun, error) {
	stored, err := readCleanerRun(ctx, c.projector.db)
	return CleanerRun{RunningOrDue: stored.RunningOrDue, LastEndedAt: stored.LastEndedAt, LastFreed: parseFreed(stored.LastFreedJSON)}, err
}

// AskForRun makes the next run due now, on any node, unless a run is under way.
func (c *Cleaner) AskForRun(ctx context.Context) error { return askForCleaning(ctx, c.projector.db) }

// Run takes turns at cleaning until ctx ends.
func (c *Cleaner) Run(ctx context.Context) error {
	return services.TakeTurns(ctx, c.projector.log, "the cleaner waits for an engine, or goes on", func(ctx context.Context) (rest time.Duration, err error) {
		more, err := c.RunOnce(ctx)
		if more && err == nil {
			return 0, nil
		}
		return cleanerPollInterval, err
	})
}

// RunOnce takes the next turn if it is due, and reports whether it took one. A turn ends after a number of steps, or well
// before its lease does, so that the nodes share a run and a lost lease is rare. Steps without the lease do no harm either:
// each of them may be repeated.
func (c *Cleaner) RunOnce(ctx context.Context) (took bool, err error) {
	p := c.projector
	turn, took, err := takeCleanerTurn(ctx, p.db, c.runInterval, cleanerTurnLease)
	if err != nil || !took {
		return false, err
	}
	position, freed, ended := parsePosition(turn.Position), parseFreed(turn.FreedJSON), false
	began := time.Now()
	for step := 0; step < maxCleanerStepsPerTurn && time.Since(began) < cleanerTurnLease/3 && !ended && err == nil; step++ {
		stepped := time.Now() // a step is followed by a pause of its length
		if position, ended, err = c.step(ctx, position, &freed); err == nil && !ended {
			err = services.Sleep(ctx, max(time.Since(stepped), minCleanerPause))
		}
	}
	turn.Position, turn.FreedJSON = toJSON(position), toJSON(freed)
	// This runs also when ctx has ended, so that another node can go on at once.
	passing, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveCleanerTurnTimeout)
	defer cancel()
	held, passed := leaveCleanerTurn(passing, p.db, turn, ended)
	if ended && held {
		p.log.Info("Redis is cleaned", "inboxes", freed.TrimmedLists, "entries", freed.RemovedEntries, "dormant", freed.DormantUsers,
			"unknown", freed.UnknownUsers, "orphans", freed.OrphanKeys, "endless", freed.KeysWithoutExpiry, "keys", freed.DroppedKeys)
	}
	return true, errors.Join(err, passed)
}

// step cleans the next keys. It counts what it has freed even if it fails afterwards, because a repetition finds those keys gone.
func (c *Cleaner) step(ctx context.Context, from rdb.KeyWalkPosition, total *FreedCounts) (to rdb.KeyWalkPosition, ended bool, err error) {
	var freed FreedCounts
	defer func() {
		total.add(freed)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.freed.add(freed)
	}()
	redis := c.projector.redis
	// Until everything that was found is cleaned, the position stays where it was, so that an error repeats the step.
	found, to, ended, err := redis.WalkKeys(ctx, from, cleanerKeysPerStep)
	if err != nil {
		return from, false, err
	}
	if err := c.dropUsers(ctx, found.UsersWithDocument, &freed); err != nil {
		return from, false, err
	}
	if len(found.Leftovers) > 0 {
		orphans, endless, err := redis.DropLeftovers(ctx, found.Leftovers)
		if err != nil {
			return from, false, err
		}
		freed.add(FreedCounts{OrphanKeys: uint64(orphans), KeysWithoutExpiry: uint64(endless), DroppedKeys: uint64(orphans + endless)})
	}
	if err := c.trimLists(ctx, found.LongLists, &freed); err != nil {
		return from, false, err
	}
	if len(found.UsersWithLongInbox) == 0 {
		return to, ended, nil
	}
	results, cut, err := redis.TrimInboxes(ctx, found.UsersWithLongInbox)
	if err != nil {
		return from, false, err
	}
	for _, entries := range cut {
		if entries > 0 {
			freed.add(FreedCounts{TrimmedLists: 1, RemovedEntries: uint64(entries)})
		}
	}
	c.projector.sendHints(ctx, found.UsersWithLongInbox, results)
	return to, ended, nil
}

// trimLists cuts lists that hold more entries than readers can see.
func (c *Cleaner) trimLists(ctx context.Context, long []rdb.LongList, freed *FreedCounts) error {
	if len(long) == 0 {
		return nil
	}
	cut, err := c.projector.redis.TrimLists(ctx, long)
	if err != nil {
		return err
	}
	for _, entries := range cut {
		if entries > 0 {
			freed.add(FreedCounts{TrimmedLists: 1, RemovedEntries: uint64(entries)})
		}
	}
	return nil
}

// dropUsers drops the keys of the users who are dormant or unknown. It reads SQL after it has found their documents. A user who
// returns is first marked as seen in SQL; only then are keys written for them, with the new visit in the document. The script
// checks that visit, so it never drops the document of a user who has returned meanwhile.
func (c *Cleaner) dropUsers(ctx context.Context, users []services.UserID, freed *FreedCounts) error {
	if len(users) == 0 {
		return nil
	}
	p := c.projector
	since := p.DormantBefore()
	visits, err := people.LastVisits(ctx, p.db, users)
	if err != nil {
		return err
	}
	var dormant, unknown []services.UserID
	for _, user := range users {
		if seen, known := visits[user]; !known {
			unknown = append(unknown, user)
		} else if seen.Before(since) {
			dormant = append(dormant, user)
		}
	}
	for _, part := range []struct {
		users []services.UserID
		last  int64 // a document with a later day stays, whatever SQL said: its user has returned since
		count *uint64
	}{{dormant, services.DayOf(since), &freed.DormantUsers}, {unknown, rdb.AnyVisitDay, &freed.UnknownUsers}} {
		if len(part.users) == 0 {
			continue
		}
		dropped, err := p.redis.DropUsers(ctx, part.users, part.last)
		if err != nil {
			return err
		}
		for _, keys := range dropped {
			if keys > 0 {
				*part.count++
				freed.DroppedKeys += uint64(keys)
			}
		}
	}
	return nil
}

// parsePosition reads a position in the walk over the keys from JSON. An unreadable text, as another version of this program may write,
// means the beginning.
func parsePosition(text string) (position rdb.KeyWalkPosition) {
	if json.Unmarshal([]byte(text), &position) != nil {
		return rdb.KeyWalkPosition{}
	}
	return position
}

// parseFreed reads from JSON what a run has freed so far; an unreadable text counts as nothing.
func parseFreed(text string) (freed FreedCounts) {
	if json.Unmarshal([]byte(text), &freed) != nil {
		return FreedCounts{}
	}
	return freed
}

// toJSON returns a value as JSON. It is for texts and numbers, with which this cannot fail.
func toJSON(value any) string {
	text, _ := json.Marshal(value)
	return string(text)
}
