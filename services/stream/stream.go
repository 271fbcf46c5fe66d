// Package stream is the change stream. It has the newest change of each user's badges, in one order over all users. Readers
// outside follow the stream by a position.
//
// A job that changes a user's document marks the user in SQL before the job is done. One node at a time, the writer, compares the
// badges of marked users with their last change, and writes a new one if they differ. A user has one change at a time. So a burst
// leaves one change, the stream has at most one change for each user, and no position is ever too old: a reader that begins at the
// start gets everybody's present state.
//
// The path of a change: Mark writes a row of stream_due. When the row is due, the writer's RunOnce reads it (compareDue), then the
// user's badges and last change (compare), and the items that may alert (explain). writeChanges gives the new state a position and
// removes the row, unless the user was marked again. Readers, such as webhooks and devices, get the change by ChangesAfter.
//
// The stream guarantees that positions are committed in their order, that a user's version rises strictly, and that, once nothing
// changes any more, the last change of every marked user equals their badges, whatever process dies between any two steps.
// Changes without a write for each user (announcements, raised dots, rooms, huge authors, shows) are found by laps over the
// active users, and by slow laps over the others. Changes that time alone brings have a due time of their own.
//
// On failure: without Redis or SQL marks wait. If the writer dies, another node takes over after the lease; a writer that comes
// back late cannot commit, because its token is void. While the stream is off, nothing is marked, read or written.
package stream

import (
	"context"
	"crypto/rand"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"tidings/services"
	"tidings/services/sql"
)

// Config is what a stream needs.
type Config struct {
	DB *sql.DB
	// Peek reads badges as they are now, without a visit of their users. A user's error means that the badges cannot be read at
	// the moment.
	Peek func(ctx context.Context, users []services.UserID) (badges []*services.Badges, errs []error)
	// Newest finds the newest item of each part of a user's badges, for the parts of some sources. A part without an item since a
	// moment is absent.
	Newest func(ctx context.Context, user services.UserID, badges *services.Badges, sources []services.Source, since time.Time) ([]services.Explanation, error)
	// Applied rises when this node has learned a change that many users share.
	Applied func() uint64
	// ActiveSince returns a time: laps visit the users who were seen since then, slow laps the others.
	ActiveSince func() time.Time

	Clock services.Clock
	Log   *slog.Logger

	Always   bool          // the stream is on even without a reader; else see SetHasReaders
	Interval time.Duration // the shortest time between two changes of one user; 0 means 1 s
	Lap      time.Duration // from the beginning of a lap to the next, unless laps last longer; 0 means 1 min. See lapDue and slowLapDue
	Lease    time.Duration // of the writer; 0 means 5 s
}

// Service is the change stream on one node. It is safe for concurrent use. The laps, leadsUntil and wasOff belong to the goroutine of Run.
type Service struct {
	cfg   Config
	db    *sql.DB
	token string        // of this node as the writer
	on    atomic.Bool   // see On
	wake  chan struct{} // see Wake

	lap        lap       // of the writer
	slow       slowLap   // of the writer
	leadsUntil time.Time // until then this node is the writer without asking SQL again
	wasOff     bool      // this node did not write: the stream was off, or another node was the writer
	stats      counters
}

// counters are the values that Stats reads; Run's goroutine and jobs write them.
type counters struct {
	changes, marks, compared atomic.Uint64
	laps, slowLaps           atomic.Uint64
	lapTook, slowLapTook     atomic.Int64
	leads                    atomic.Bool // this node is the writer
}

// Stats are this node's numbers since its start.
type Stats struct {
	Changes  uint64        // written
	Marks    uint64        // users marked by jobs
	Compared uint64        // users whose badges were compared with their last change
	Laps     uint64        // over all active users
	LapTook  time.Duration // the last lap

	SlowLaps    uint64        // over all other users
	SlowLapTook time.Duration // the last slow lap, with its rests

	Writes bool // this node is the writer
}

// New makes the stream of a node.
func New(cfg Config) *Service {
	if cfg.Interval == 0 {
		cfg.Interval = time.Second
	}
	if cfg.Lap == 0 {
		cfg.Lap = time.Minute
	}
	if cfg.Lease == 0 {
		cfg.Lease = 5 * time.Second
	}
	s := &Service{cfg: cfg, db: cfg.DB, token: rand.Text(), wake: make(chan struct{}, 1), wasOff: true}
	s.on.Store(cfg.Always)
	return s
}

// SetHasReaders says whether anybody reads the stream. If nobody reads the stream, it is off, unless it is always on: marks and
// comparisons cost a write for each change of a user.
func (s *Service) SetHasReaders(read bool) {
	s.on.Store(read || s.cfg.Always)
	s.Wake()
}

// On reports whether this node marks users, and writes if it is the writer.
func (s *Service) On() bool { return s.on.Load() }

// Wake makes the writer look for marks now. One pending wake is enough for any number of calls.
func (s *Service) Wake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Stats reads the numbers of this node.
func (s *Service) Stats() Stats {
	return Stats{
		Changes: s.stats.changes.Load(), Marks: s.stats.marks.Load(), Compared: s.stats.compared.Load(), Laps: s.stats.laps.Load(),
		LapTook: time.Duration(s.stats.lapTook.Load()), SlowLaps: s.stats.slowLaps.Load(), SlowLapTook: time.Duration(s.stats.slowLapTook.Load()),
		Writes: s.stats.leads.Load(),
	}
}

// Mark records that the badges of users may have changed. It is called after their documents have changed and before the job that
// changed them is done: if it fails, the job runs again. A mark too many costs a comparison; one too few would lose a change.
func (s *Service) Mark(ctx context.Context, users []services.UserID) error {
	if !s.on.Load() || len(users) == 0 {
		return nil
	}
	// mark needs them sorted, and the caller's list must not change.
	users = slices.Clone(users)
	slices.Sort(users)
	users = slices.Compact(users)
	s.stats.marks.Add(uint64(len(users)))
	return s.db.Write(ctx, func(tx *sql.Tx) error { return mark(ctx, tx, users, tx.Now.Add(s.cfg.Interval)) })
}

const (
	// poll is the time between two looks for due marks, which any node may have made.
	poll       = 200 * time.Millisecond
	errorPause = time.Second // after an engine did not answer
)

// Run writes the stream while this node is the writer, until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		more, err := s.RunOnce(ctx)
		wait := poll
		switch {
		case ctx.Err() != nil:
			s.resign(context.WithoutCancel(ctx))
			return ctx.Err()
		case err != nil:
			s.cfg.Log.Warn("the change stream waits", "error", err)
			wait = errorPause
		case more:
			continue
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-s.wakeIf(err == nil):
		}
	}
}

// wakeIf is the channel of wakes, or nil, which never wakes: after an error the pause is kept.
func (s *Service) wakeIf(wakes bool) <-chan struct{} {
	if wakes {
		return s.wake
	}
	return nil
}

// RunOnce does one step if this node is the writer: a batch of due users and a part of each lap. more says that work is left.
// Tests call it in place of Run.
func (s *Service) RunOnce(ctx context.Context) (more bool, err error) {
	if !s.on.Load() {
		s.wasOff = true
		s.stats.leads.Store(false)
		return false, nil
	}
	leads, err := s.lead(ctx)
	s.stats.leads.Store(leads)
	if err != nil || !leads {
		return false, err
	}
	// This node becomes the writer, or the stream was off: changes may have passed by without a mark.
	if s.wasOff {
		s.wasOff = false
		s.lap.begin()
		s.slow = slowLap{}
	}
	compared, err := s.compareDue(ctx)
	if err != nil {
		return false, err
	}
	if more, err = s.stepLap(ctx); err == nil { // also while many users are due
		err = s.stepSlowLap(ctx)
	}
	return more || compared > 0, err
}

// lead makes this node the writer, or renews its lease. It asks SQL four times in a lease. A node that wrongly takes itself for
// the writer does no harm: writeChanges finds its token void.
func (s *Service) lead(ctx context.Context) (leads bool, err error) {
	now := s.cfg.Clock.Now()
	if now.Before(s.leadsUntil) {
		return true, nil
	}
	leads, err = takeLease(ctx, s.db, s.token, s.cfg.Lease)
	if leads {
		s.leadsUntil = now.Add(s.cfg.Lease / 4)
	}
	if !leads {
		s.wasOff = true // a node that becomes the writer begins with a lap
	}
	return leads, err
}

// resign lets another node write at once. Only a node that leads has a lease to end.
func (s *Service) resign(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, errorPause)
	defer cancel()
	if s.stats.leads.Swap(false) {
		_ = resign(ctx, s.db, s.token) // the lease ends by itself
	}
}
