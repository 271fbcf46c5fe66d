package fanout

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"tidings/services"
	"tidings/services/rdb"
	"tidings/services/store"
)

const (
	auditUsers    = 100             // in a turn
	auditParallel = 2               // users whose facts are read at once
	auditAgain    = 2 * time.Second // from a look that finds a difference to the next one
	auditLooks    = 10              // at a user who changes all the time; the next lap looks again
	maxSuspects   = 1000            // while there are as many nobody else is visited
	auditPoll     = time.Second
	turnLease     = 30 * time.Second // after it others take the turn of a node that died
)

// Audit visits every active user in laps and compares what Redis shows him with the facts. What differs is lag as long
// as anything changes or a job of before waits; what then still differs, the same document and the same facts, is drift:
// it is made anew from the facts, pushed and counted. Several nodes may have one each: they take turns.
type Audit struct {
	fanout   *Fanout
	every    time.Duration
	suspects []suspect

	visited, mended, drifted atomic.Uint64
	lap                      atomic.Int64
}

// suspect is somebody whose view differed when he was looked at.
type suspect struct {
	user   services.UserID
	at     time.Time
	job    int64    // the last that there was then: those up to it may explain the difference
	digest [32]byte // of everything that was seen then
	looks  int
}

// AuditStats are an audit's numbers on this node.
type AuditStats struct {
	Visited uint64        // users who were looked at
	Mended  uint64        // users of whose view something was lost, which was brought back before they asked for it
	Drifted uint64        // users whose view was wrong
	Lap     time.Duration // how long the present lap has been going on, when this node had its last turn
}

// Audit makes this node's audit. Every active user is visited at least once in every.
func (f *Fanout) Audit(every time.Duration) *Audit { return &Audit{fanout: f, every: every} }

// Stats reads the audit's numbers.
func (a *Audit) Stats() AuditStats {
	return AuditStats{
		Visited: a.visited.Load(), Mended: a.mended.Load(), Drifted: a.drifted.Load(), Lap: time.Duration(a.lap.Load()),
	}
}

// Run audits until ctx ends. It rests half as long as it works, so that it never takes more than a part of the engines.
func (a *Audit) Run(ctx context.Context) error {
	timer := time.NewTimer(auditPoll)
	defer timer.Stop()
	waits := false
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		}
		began := time.Now()
		more, err := a.RunOnce(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if failed := err != nil; failed != waits {
			waits = failed
			a.fanout.log.Info("the audit waits for an engine, or goes on", "waits", waits, "error", err)
		}
		rest := auditPoll
		if more && err == nil {
			rest = min(rest, time.Since(began)/2)
		}
		timer.Reset(rest)
	}
}

// RunOnce looks again at those whose view differed, and takes the next turn when it is due. It says whether it took one.
func (a *Audit) RunOnce(ctx context.Context) (took bool, err error) {
	if err := a.lookAgain(ctx); err != nil || len(a.suspects) >= maxSuspects {
		return false, err
	}
	f := a.fanout
	turn, took, _, err := f.store.TakeAuditTurn(ctx, store.AuditPace{
		// A node that dies holds its turn for the lease: that much earlier everyone's is due.
		Lap: a.every - min(turnLease, a.every/2), Limit: auditUsers, ActiveSince: f.activeSince(), Lease: turnLease,
	})
	if err != nil || !took {
		return false, err
	}
	a.lap.Store(int64(turn.Lap))
	if err := a.visit(ctx, turn.Users); err != nil {
		return false, err
	}
	return true, f.store.PassAuditTurn(ctx, turn)
}

// visit looks at users for the first time.
func (a *Audit) visit(ctx context.Context, users []services.UserID) error {
	looks, job, err := a.look(ctx, users)
	if err != nil {
		return err
	}
	now := a.fanout.clock.Now()
	for i, look := range looks {
		// Who is met again before his second look is one suspect, and what is wrong with him one drift.
		known := slices.ContainsFunc(a.suspects, func(s suspect) bool { return s.user == users[i] })
		if len(look.differs) > 0 && !known {
			a.suspects = append(a.suspects, suspect{user: users[i], at: now, job: job, digest: look.digest()})
		}
	}
	a.visited.Add(uint64(len(users)))
	return nil
}

// lookAgain looks at the suspects whose difference no job explains any more.
func (a *Audit) lookAgain(ctx context.Context) error {
	f := a.fanout
	now := f.clock.Now()
	waiting := map[int64]bool{}
	var kept, due []suspect
	for _, s := range a.suspects {
		if _, known := waiting[s.job]; !known && !now.Before(s.at.Add(auditAgain)) {
			waits, err := f.store.JobWaits(ctx, s.job, now.Add(turnLease))
			if err != nil {
				return err
			}
			waiting[s.job] = waits
		}
		if now.Before(s.at.Add(auditAgain)) || waiting[s.job] {
			kept = append(kept, s)
		} else {
			due = append(due, s)
		}
	}
	if len(due) == 0 {
		return nil
	}
	users := make([]services.UserID, len(due))
	for i, s := range due {
		users[i] = s.user
	}
	looks, job, err := a.look(ctx, users)
	if err != nil {
		return err
	}
	for i, look := range looks {
		s := due[i]
		switch {
		case len(look.differs) == 0:
		case look.digest() == s.digest:
			if err := a.repair(ctx, s.user, look.differs); err != nil {
				return err // whoever is left of them is found in the next lap
			}
		case s.looks < auditLooks:
			kept = append(kept, suspect{user: s.user, at: now, job: job, digest: look.digest(), looks: s.looks + 1})
		}
	}
	a.suspects = kept
	return nil
}

// repair makes a wrong view anew, tells whoever shows it, and counts it.
func (a *Audit) repair(ctx context.Context, user services.UserID, differs []string) error {
	a.drifted.Add(1)
	a.fanout.log.Error("badges differed from the facts and are made anew", "parts", strings.Join(differs, ", "))
	return a.fanout.remake(ctx, user)
}

// remake empties a user's view and rebuilds it: what a rebuild merges into could not be trusted.
func (f *Fanout) remake(ctx context.Context, user services.UserID) error {
	if err := f.redis.Reset(ctx, user); err != nil {
		return err
	}
	return f.Rebuild(ctx, user)
}

// Recount makes a user's view anew from the facts, whatever it was, and answers in which parts it differed. What was on
// its way to it counts as a difference too.
func (f *Fanout) Recount(ctx context.Context, user services.UserID) (differed []string, err error) {
	snapshots, err := f.redis.Snapshots(ctx, []services.UserID{user})
	if err != nil {
		return nil, err
	}
	stamp, err := f.redis.Now(ctx)
	if err != nil {
		return nil, err
	}
	if snapshots[0].Wholeness == rdb.Whole || snapshots[0].Wholeness == rdb.WrongType {
		look, err := f.compare(ctx, user, snapshots[0], stamp)
		if err != nil {
			return nil, err
		}
		differed = look.differs
	}
	return differed, f.remake(ctx, user)
}

// look is what was seen of one user.
type look struct {
	snapshot rdb.Snapshot
	facts    []any
	differs  []string // the parts that do
}

// digest is the same for the same document and the same facts.
func (l look) digest() [32]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%+v\n%+v", l.snapshot, l.facts))
}

// look compares users' views with the facts, and answers the last job that there was then: the facts, which are read after
// the views, are ahead of these by what jobs up to it carry. A view of which something is lost is no wrong one: its next
// reader would bring it back, and so does the audit.
func (a *Audit) look(ctx context.Context, users []services.UserID) (looks []look, job int64, err error) {
	f := a.fanout
	snapshots, err := f.redis.Snapshots(ctx, users)
	if err != nil {
		return nil, 0, err
	}
	stamp, err := f.redis.Now(ctx)
	if err != nil {
		return nil, 0, err
	}
	looks = make([]look, len(users))
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(auditParallel)
	for i, user := range users {
		group.Go(func() (err error) {
			switch snapshots[i].Wholeness {
			case rdb.Absent:
				return nil
			case rdb.Partial:
				a.mended.Add(1)
				return f.Rebuild(within, user)
			}
			looks[i], err = f.compare(within, user, snapshots[i], stamp)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, 0, err
	}
	job, err = f.store.LastJob(ctx)
	return looks, job, err
}
