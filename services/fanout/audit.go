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
	auditParallel = 2               // users whose facts are read in parallel
	auditAgain    = 2 * time.Second // between the check that finds a difference and the next check
	auditLooks    = 10              // checks of a user who changes all the time; the next lap checks them again
	maxSuspects   = 1000            // while there are this many suspects, no other user is visited
	auditPoll     = time.Second
	turnLease     = 30 * time.Second // after it, others take the turn of a node that died
)

// Audit visits every active user in laps and compares what Redis shows them with the facts. A difference is lag as long as
// anything changes or an earlier job waits. A difference that remains after that, with the same document and the same facts,
// is drift: the view is made anew from the facts, pushed and counted. Several nodes may run one audit each: they take turns.
type Audit struct {
	fanout   *Fanout
	every    time.Duration
	suspects []suspect

	visited, mended, drifted atomic.Uint64
	lap                      atomic.Int64
}

// suspect is a user whose view differed at the last check.
type suspect struct {
	user   services.UserID
	at     time.Time
	job    int64    // the last job at that check: jobs up to it may explain the difference
	digest [32]byte // of everything that the check saw
	looks  int
}

// AuditStats are the counters of an audit on this node.
type AuditStats struct {
	Visited uint64        // users who were checked
	Mended  uint64        // users of whose view something was lost, and was restored before they asked for it
	Drifted uint64        // users whose view was wrong
	Lap     time.Duration // how long the present lap has been going on, when this node had its last turn
}

// Audit makes this node's audit. It visits every active user at least once in each period of every.
func (f *Fanout) Audit(every time.Duration) *Audit { return &Audit{fanout: f, every: every} }

// Stats reads the counters of the audit.
func (a *Audit) Stats() AuditStats {
	return AuditStats{
		Visited: a.visited.Load(), Mended: a.mended.Load(), Drifted: a.drifted.Load(), Lap: time.Duration(a.lap.Load()),
	}
}

// Run audits until ctx ends. It rests half as long as it works, so that it never takes more than a part of the capacity of
// SQL and Redis.
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

// RunOnce checks the suspects again, and takes the next turn when it is due. It says whether it took one.
func (a *Audit) RunOnce(ctx context.Context) (took bool, err error) {
	if err := a.lookAgain(ctx); err != nil || len(a.suspects) >= maxSuspects {
		return false, err
	}
	f := a.fanout
	turn, took, _, err := f.store.TakeAuditTurn(ctx, store.AuditPace{
		// A node that dies holds its turn for the lease, so every user is due that much earlier.
		Lap: a.every - min(turnLease, a.every/2), Limit: auditUsers, ActiveSince: f.ActiveSince(), Lease: turnLease,
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

// visit checks users for the first time.
func (a *Audit) visit(ctx context.Context, users []services.UserID) error {
	looks, job, err := a.look(ctx, users)
	if err != nil {
		return err
	}
	now := a.fanout.clock.Now()
	for i, look := range looks {
		// A user who is met again before their second check stays one suspect, so that one fault counts as one drift.
		known := slices.ContainsFunc(a.suspects, func(s suspect) bool { return s.user == users[i] })
		if len(look.differs) > 0 && !known {
			a.suspects = append(a.suspects, suspect{user: users[i], at: now, job: job, digest: look.digest()})
		}
	}
	a.visited.Add(uint64(len(users)))
	return nil
}

// lookAgain checks the suspects whose difference no job explains any more.
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
				return err // the next lap finds the remaining suspects again
			}
		case s.looks < auditLooks:
			kept = append(kept, suspect{user: s.user, at: now, job: job, digest: look.digest(), looks: s.looks + 1})
		}
	}
	a.suspects = kept
	return nil
}

// repair makes a wrong view anew, notifies its watchers, and counts it.
func (a *Audit) repair(ctx context.Context, user services.UserID, differs []string) error {
	a.drifted.Add(1)
	a.fanout.log.Error("badges differed from the facts and are made anew", "parts", strings.Join(differs, ", "))
	return a.fanout.remake(ctx, user)
}

// remake empties a user's view before it rebuilds it: a rebuild merges into the view, and this one cannot be trusted.
func (f *Fanout) remake(ctx context.Context, user services.UserID) error {
	if err := f.redis.Reset(ctx, user); err != nil {
		return err
	}
	return f.Rebuild(ctx, user)
}

// Recount makes a user's view anew from the facts, even a correct one, and answers the parts in which it differed. Changes
// that had not reached the view yet count as differences too.
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

// look is the result of one check of one user.
type look struct {
	snapshot rdb.Snapshot
	facts    []any
	differs  []string // the parts that differ
}

// digest is equal for equal documents and equal facts.
func (l look) digest() [32]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%+v\n%+v", l.snapshot, l.facts))
}

// look compares users' views with the facts, and answers the last job at that time. The facts are read after the views, so
// they are ahead of these by the effects of jobs up to that one. A view that has lost something is not wrong: its next
// reader would restore it, and so does the audit.
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
