// Package audit finds users' projections in Redis that differ from the facts, and rebuilds them.
//
// It guarantees that every active user's projection is compared with the facts at least once in each period, by any of the
// nodes, and that a difference that a waiting job explains is left alone. A failed comparison is repeated in the next turn or
// the next lap: an audit changes nothing but projections and counts, which can always be rebuilt from the facts.
//
// One turn (RunOnce): the suspects of earlier turns are checked again; then takeTurn leases the next 100 active users, checkUsers
// compares them, and each of Config.Others runs. A difference makes a suspect. If the difference is the same two seconds later and no
// earlier job is left, the difference is drift: repair rebuilds the projection, and a metric and the log report a bug.
package audit

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/projector"
	"tidings/services/rdb"
	"tidings/services/redis"
	"tidings/services/sql"
)

const (
	usersPerTurn         = 100              // active users that a turn compares
	parallelReads        = 2                // users whose facts are read at once
	recheckDelay         = 2 * time.Second  // between the check that finds a difference and the next check
	maxChecksPerSuspect  = 10               // a user who changes between all these checks is left to the next lap
	maxSuspects          = 1000             // while there are this many suspects, no other user is visited
	maxPauseBetweenTurns = time.Second      // the longest rest of Run between two turns
	turnLease            = 30 * time.Second // after it, another node takes the turn of a node that died
	// A job that a worker has claimed is due again when the worker's lease on it ends. maxJobLease is how far ahead of this node's
	// clock that may be. A lease counts from the time of a transaction, which may be ahead of this clock.
	maxJobLease = time.Minute
	// maxClockAhead is how far ahead of this node's clock the time may be at which another node made a job.
	maxClockAhead = time.Minute
)

// Config has the dependencies and settings of an audit.
type Config struct {
	DB        *sql.DB
	Redis     *rdb.Projections
	Projector *projector.Projector // compares and rebuilds
	Clock     services.Clock
	Log       *slog.Logger
	// Others are audits of what belongs to no user, such as the counts of posts. Each turn calls each of them once.
	Others []func(context.Context) error
	Settings
}

// Audit is the audit of one node; Run and RunOnce are for one goroutine. It visits every active user in laps and compares
// what Redis shows them with the facts. A difference is lag as long as anything changes or an earlier job waits. A
// difference that remains after that, with the same document and the same facts, is drift: the projection is rebuilt from the
// facts, pushed and counted. Several nodes may run one audit each: they take turns.
type Audit struct {
	Config
	// suspects belongs to the goroutine of Run. A node that restarts forgets them: the next lap finds what still differs.
	suspects []suspect

	// These are the counters of Stats. Metrics read them while Run runs.
	visitedUsers, restoredUsers, driftedUsers atomic.Uint64
	lapAgeNanos                               atomic.Int64 // see Stats.LapAge
}

// suspect is a user whose projection differed at the last check.
type suspect struct {
	user             services.UserID
	checkedAt        time.Time // when the last check ran
	lastJobID        int64     // the newest job at the last check: jobs up to it may explain the difference
	comparisonDigest [32]byte  // of all that the last check saw, in the projection and in the facts
	changedChecks    int       // how many checks found something else than the check before
}

// Stats are the counters of an audit on this node.
type Stats struct {
	VisitedUsers  uint64        // users who were checked; a panic leaves its user out
	RestoredUsers uint64        // users whose projection had lost something, which was restored before they asked for it
	DriftedUsers  uint64        // users whose projection was wrong
	LapAge        time.Duration // the age of the present lap at the last turn of this node
}

// New makes this node's audit.
func New(cfg Config) *Audit {
	cfg.Settings = services.WithDefaults(cfg.Settings)
	return &Audit{Config: cfg}
}

// Stats reads the counters of the audit.
func (a *Audit) Stats() Stats {
	return Stats{
		VisitedUsers: a.visitedUsers.Load(), RestoredUsers: a.restoredUsers.Load(), DriftedUsers: a.driftedUsers.Load(), LapAge: time.Duration(a.lapAgeNanos.Load()),
	}
}

// Run audits until ctx ends. It rests after each turn, so that it takes only a part of the capacity of SQL and Redis: half as long
// as the turn took, at most maxPauseBetweenTurns, and that long if no turn was due.
func (a *Audit) Run(ctx context.Context) error {
	if err := services.Sleep(ctx, maxPauseBetweenTurns); err != nil {
		return err
	}
	return services.TakeTurns(ctx, a.Log, "the audit waits for SQL or Redis, or continues", func(ctx context.Context) (rest time.Duration, err error) {
		began := time.Now()
		more, err := a.RunOnce(ctx)
		rest = maxPauseBetweenTurns
		if more && err == nil {
			rest = min(rest, time.Since(began)/2)
		}
		return rest, err
	})
}

// RunOnce checks the suspects again, and takes the next turn when it is due. It reports whether it took one.
func (a *Audit) RunOnce(ctx context.Context) (took bool, err error) {
	// So many suspects mean that the job queue stands still, not that projections drift. More suspects would only use memory.
	if err := a.recheckSuspects(ctx); err != nil || len(a.suspects) >= maxSuspects {
		return false, err
	}
	turn, took, _, err := takeTurn(ctx, a.DB, auditPace{
		// A node that dies holds its turn until the lease ends, so a lap is planned shorter by the lease.
		LapTime: a.LapTime - min(turnLease, a.LapTime/2), MaxUsersPerTurn: usersPerTurn, ActiveSince: a.Projector.DormantBefore(), Lease: turnLease,
	})
	if err != nil || !took {
		return false, err
	}
	a.lapAgeNanos.Store(int64(turn.LapAge))
	if err := a.checkUsers(ctx, turn.Users); err != nil {
		return false, err
	}
	for _, other := range a.Others {
		if err := other(ctx); err != nil {
			return false, err
		}
	}
	// The turn is passed on last: if this node dies before that, another node visits the same users.
	return true, completeTurn(ctx, a.DB, turn)
}

// checkUsers checks users for the first time.
func (a *Audit) checkUsers(ctx context.Context, users []services.UserID) error {
	found, job, err := a.compare(ctx, users)
	if err != nil {
		return err
	}
	now := a.Clock.Now()
	visited := 0
	for i, compared := range found {
		if compared == nil {
			continue
		}
		visited++
		// If a turn reaches a user again before their second check, they stay one suspect, so that one fault counts as one drift.
		known := slices.ContainsFunc(a.suspects, func(s suspect) bool { return s.user == users[i] })
		if len(compared.DifferingParts) > 0 && !known {
			a.suspects = append(a.suspects, suspect{user: users[i], checkedAt: now, lastJobID: job, comparisonDigest: compared.Digest()})
		}
	}
	a.visitedUsers.Add(uint64(visited))
	return nil
}

// recheckSuspects checks the suspects whose difference no job explains any more.
func (a *Audit) recheckSuspects(ctx context.Context) error {
	now := a.Clock.Now()
	type check struct {
		job int64     // the newest job at the check
		at  time.Time // when the check ran
	}
	waiting := map[check]bool{}
	var kept, due []suspect
	for _, s := range a.suspects {
		// The queue is asked once for all suspects of one check. Jobs that were planned for after the check do not explain what the
		// check found. The time of the check decides which jobs these are, and not the present time: otherwise a job that is due each
		// minute would keep a suspect waiting forever.
		of := check{s.lastJobID, s.checkedAt}
		if _, known := waiting[of]; !known && !now.Before(s.checkedAt.Add(recheckDelay)) {
			waits, err := jobs.AnyJobWaits(ctx, a.DB, s.lastJobID, s.checkedAt.Add(maxClockAhead), now.Add(maxJobLease))
			if err != nil {
				return err
			}
			waiting[of] = waits
		}
		if now.Before(s.checkedAt.Add(recheckDelay)) || waiting[of] {
			kept = append(kept, s)
		} else {
			due = append(due, s)
		}
	}
	if len(due) == 0 {
		return nil
	}
	found, job, err := a.compare(ctx, services.Map(due, func(s suspect) services.UserID { return s.user }))
	if err != nil {
		return err
	}
	for i, compared := range found {
		s := due[i]
		switch {
		// The next lap finds the difference again.
		case compared == nil:
		// A job was late, or the user changed something: the difference was lag.
		case len(compared.DifferingParts) == 0:
		// Nothing has changed on either side, and no job is left that could change anything.
		case compared.Digest() == s.comparisonDigest:
			if err := a.repair(ctx, s.user, compared.DifferingParts); err != nil {
				return err // all suspects stay, and the next turn checks them again
			}
		// Something changed in between, so this may be another difference. The user waits as a new suspect.
		case s.changedChecks < maxChecksPerSuspect:
			kept = append(kept, suspect{user: s.user, checkedAt: now, lastJobID: job, comparisonDigest: compared.Digest(), changedChecks: s.changedChecks + 1})
		}
	}
	a.suspects = kept
	return nil
}

// repair rebuilds a wrong projection, notifies its watchers, and counts it. It is no visit of the user. A panic is logged: the
// projection is left empty, and the next lap tries to restore it.
func (a *Audit) repair(ctx context.Context, user services.UserID, differs []string) (err error) {
	a.driftedUsers.Add(1)
	a.Log.Error("badges differed from the facts and are rebuilt", "parts", strings.Join(differs, ", "))
	defer func() { err = a.logPanic(err) }()
	defer services.Recover(&err)
	return a.Projector.EmptyAndRestore(ctx, user)
}

// logPanic logs the error of a panic, and returns any other error. A panic concerns one user: if it ended the turn, no node would ever
// pass the turn on, and the audit of everybody would end.
func (a *Audit) logPanic(err error) error {
	if services.IsPanic(err) {
		a.Log.Error("the audit left a user out because of a panic", "error", err)
		return nil
	}
	return err
}

// compare compares users' projections with the facts. It reads the projections, then the facts, then the number of the newest job,
// which it returns: a projection may lack effects of jobs up to this one. It returns nil for a user whose comparison panicked.
func (a *Audit) compare(ctx context.Context, users []services.UserID) (found []*projector.FactsComparison, job int64, err error) {
	snapshots, err := a.Redis.ReadUserSnapshots(ctx, users)
	if err != nil {
		return nil, 0, err
	}
	stamp, err := a.Redis.Client.Now(ctx)
	if err != nil {
		return nil, 0, err
	}
	found = make([]*projector.FactsComparison, len(users))
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(parallelReads)
	for i, user := range users {
		group.Go(func() error {
			one, err := a.compareOne(within, user, snapshots[i], stamp)
			if err == nil {
				found[i] = &one
			}
			return a.logPanic(err)
		})
	}
	if err := group.Wait(); err != nil {
		return nil, 0, err
	}
	// The last job is read after the facts: every effect by which the facts are ahead belongs to this job or an earlier one.
	job, err = jobs.LastID(ctx, a.DB)
	return found, job, err
}

// compareOne compares a user's projection with the facts. A projection that has lost something is not wrong: its next reader would
// restore it, and so does the audit, unless the user is away: then their return does. A panic is an error.
func (a *Audit) compareOne(ctx context.Context, user services.UserID, shown rdb.UserSnapshot, stamp redis.ClockStamp) (found projector.FactsComparison, err error) {
	defer services.Recover(&err)
	switch shown.Wholeness {
	// The user has no document: nothing is shown, and so nothing is wrong.
	case rdb.DocumentAbsent:
		return found, nil
	case rdb.DocumentPartial:
		restored, err := a.Projector.Restore(ctx, user)
		if restored {
			a.restoredUsers.Add(1)
		}
		return found, err
	}
	return a.Projector.CompareWithFacts(ctx, user, shown, stamp)
}
