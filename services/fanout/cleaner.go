package fanout

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"tidings/services"
	"tidings/services/rdb"
)

const (
	cleanerPoll  = time.Second
	cleanerKeys  = 500 // in a step, about
	cleanerSteps = 100 // in a turn, at most
	// cleanerLeast is the least rest after a step. It rests as long as it works, so that it never takes more than half of a
	// Redis that is slow.
	cleanerLeast = 5 * time.Millisecond
	passWithin   = 1250 * time.Millisecond // bounds the end of a turn
)

// Cleaner takes out of Redis what nobody asks for any more: entries of inboxes and of lists of replays that are not listed, all that is kept of users
// who are dormant or not in SQL, parts of a view that has no document, and copies that nothing would ever end. It walks
// along all keys in runs, in small steps. Several nodes may have one each: they take turns, and one that dies is stood in for.
// What is not Tidings' by its name is not touched. Nothing that is dropped is a number: whoever comes back is rebuilt.
type Cleaner struct {
	fanout *Fanout
	every  time.Duration

	mu    sync.Mutex
	freed Freed
}

// Freed is what a cleaner has freed.
type Freed struct {
	Inboxes uint64 `json:"inboxes"` // and lists of replays that held more than is listed
	Entries uint64 `json:"entries"` // of these
	Dormant uint64 `json:"dormant"` // users who were not seen for long
	Unknown uint64 `json:"unknown"` // users who are not in SQL
	Orphans uint64 `json:"orphans"` // keys of a view without its document
	Endless uint64 `json:"endless"` // copies, views and leases without an expiry
	Keys    uint64 `json:"keys"`    // in all
}

func (f *Freed) add(more Freed) {
	f.Inboxes += more.Inboxes
	f.Entries += more.Entries
	f.Dormant += more.Dormant
	f.Unknown += more.Unknown
	f.Orphans += more.Orphans
	f.Endless += more.Endless
	f.Keys += more.Keys
}

// Cleaner makes this node's cleaner. A run begins that long after the last one began.
func (f *Fanout) Cleaner(every time.Duration) *Cleaner { return &Cleaner{fanout: f, every: every} }

// Stats is what this node has freed since it started.
func (c *Cleaner) Stats() Freed {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.freed
}

// CleanerRun is what is known of the cleaner's runs, on whichever node.
type CleanerRun struct {
	Running bool
	EndedAt time.Time // zero when none has come to its end
	Freed   Freed     // by the last that did
}

// CleanerRun tells of the cleaner's runs.
func (f *Fanout) CleanerRun(ctx context.Context) (CleanerRun, error) {
	stored, err := f.store.CleanerRun(ctx)
	return CleanerRun{Running: stored.Running, EndedAt: stored.EndedAt, Freed: parseFreed(stored.Freed)}, err
}

// AskForCleaning lets a run of the cleaner begin at once, on some node, unless one is under way.
func (f *Fanout) AskForCleaning(ctx context.Context) error { return f.store.AskForCleaning(ctx) }

// Run cleans until ctx ends.
func (c *Cleaner) Run(ctx context.Context) error {
	ticker := time.NewTicker(cleanerPoll)
	defer ticker.Stop()
	waits := false
	for {
		more, err := c.RunOnce(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if failed := err != nil; failed != waits {
			waits = failed
			c.fanout.log.Info("the cleaner waits for an engine, or goes on", "waits", waits, "error", err)
		}
		if more && err == nil {
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// RunOnce takes the next turn, if it is time for one, and says whether it took one.
func (c *Cleaner) RunOnce(ctx context.Context) (took bool, err error) {
	f := c.fanout
	turn, took, err := f.store.TakeCleanerTurn(ctx, c.every, turnLease)
	if err != nil || !took {
		return false, err
	}
	place, freed, ended := parsePlace(turn.Place), parseFreed(turn.Freed), false
	began := time.Now()
	for step := 0; step < cleanerSteps && time.Since(began) < turnLease/3 && !ended && err == nil; step++ {
		stepped := time.Now()
		if place, ended, err = c.step(ctx, place, &freed); err == nil && !ended {
			err = c.rest(ctx, time.Since(stepped))
		}
	}
	turn.Place, turn.Freed = asText(place), asText(freed)
	// Also when ctx has ended: then somebody else goes on at once.
	passing, cancel := context.WithTimeout(context.WithoutCancel(ctx), passWithin)
	defer cancel()
	held, passed := f.store.PassCleanerTurn(passing, turn, ended)
	if ended && held {
		f.log.Info("Redis is cleaned", "inboxes", freed.Inboxes, "entries", freed.Entries, "dormant", freed.Dormant,
			"unknown", freed.Unknown, "orphans", freed.Orphans, "endless", freed.Endless, "keys", freed.Keys)
	}
	return true, errors.Join(err, passed)
}

// rest waits as long as a step took.
func (c *Cleaner) rest(ctx context.Context, worked time.Duration) error {
	timer := time.NewTimer(max(worked, cleanerLeast))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// step cleans the next keys. What it has freed counts even if it fails: on its repetition it is gone.
func (c *Cleaner) step(ctx context.Context, from rdb.WalkPlace, total *Freed) (to rdb.WalkPlace, ended bool, err error) {
	var freed Freed
	defer func() {
		total.add(freed)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.freed.add(freed)
	}()
	redis := c.fanout.redis
	found, to, ended, err := redis.Walk(ctx, from, cleanerKeys)
	if err != nil {
		return from, false, err
	}
	if err := c.dropUsers(ctx, found.Documents, &freed); err != nil {
		return from, false, err
	}
	if len(found.Leftover) > 0 {
		orphans, endless, err := redis.DropLeftovers(ctx, found.Leftover)
		if err != nil {
			return from, false, err
		}
		freed.add(Freed{Orphans: uint64(orphans), Endless: uint64(endless), Keys: uint64(orphans + endless)})
	}
	if err := c.trimReplays(ctx, found.Replays, &freed); err != nil {
		return from, false, err
	}
	if len(found.Long) == 0 {
		return to, ended, nil
	}
	results, cut, err := redis.TrimInboxes(ctx, found.Long)
	if err != nil {
		return from, false, err
	}
	for _, entries := range cut {
		if entries > 0 {
			freed.add(Freed{Inboxes: 1, Entries: uint64(entries)})
		}
	}
	c.fanout.hint(ctx, found.Long, results)
	return to, ended, nil
}

// trimReplays cuts lists of replays. What is shown stays the same.
func (c *Cleaner) trimReplays(ctx context.Context, users []services.UserID, freed *Freed) error {
	if len(users) == 0 {
		return nil
	}
	cut, err := c.fanout.redis.TrimReplays(ctx, users)
	if err != nil {
		return err
	}
	for _, entries := range cut {
		if entries > 0 {
			freed.add(Freed{Inboxes: 1, Entries: uint64(entries)})
		}
	}
	return nil
}

// dropUsers drops what is kept of those users who are dormant or unknown. SQL is read after their documents were found: whoever
// comes back writes down that he is here before anything of him is made, and his document then says so to the script.
func (c *Cleaner) dropUsers(ctx context.Context, users []services.UserID, freed *Freed) error {
	if len(users) == 0 {
		return nil
	}
	f := c.fanout
	since := f.activeSince()
	visits, err := f.store.LastVisits(ctx, users)
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
		last  int64
		count *uint64
	}{{dormant, services.DayOf(since), &freed.Dormant}, {unknown, rdb.AnyDay, &freed.Unknown}} {
		if len(part.users) == 0 {
			continue
		}
		dropped, err := f.redis.DropUsers(ctx, part.users, part.last)
		if err != nil {
			return err
		}
		for _, keys := range dropped {
			if keys > 0 {
				*part.count++
				freed.Keys += uint64(keys)
			}
		}
	}
	return nil
}

// parsePlace reads a place. What it cannot read, as another version of this program may write, is the beginning.
func parsePlace(text string) (place rdb.WalkPlace) {
	if json.Unmarshal([]byte(text), &place) != nil {
		return rdb.WalkPlace{}
	}
	return place
}

func parseFreed(text string) (freed Freed) {
	if json.Unmarshal([]byte(text), &freed) != nil {
		return Freed{}
	}
	return freed
}

// asText prints texts and numbers, which cannot fail.
func asText(value any) string {
	text, _ := json.Marshal(value)
	return string(text)
}
