// Package stream is the change stream. It has the newest change of each user's badges, in one order over all users. Readers
// outside follow the stream by a position.
//
// A job that changes a user's document marks the user in SQL before the job is done. One node at a time, the writer, compares the
// badges of marked users with their last change, and writes a new one if they differ. A user has one change at a time. So a burst
// leaves one change, the stream has at most one change for each user, and no position is ever too old: a reader that begins at the
// start gets everybody's present state.
//
// The path of a change: Mark writes a row of stream_due. When the row is due, the writer's RunOnce reads it (compareDueUsers), then
// the user's badges and last change (compare), and the items that may alert (explainDifference). writeChanges gives the new state a
// position and removes the row, unless the user was marked again. Readers, such as webhooks and devices, get the change by
// ChangesAfter.
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
	// NewestItems finds the newest item of each part of a user's badges, for the parts of some sources. A part without an item since a
	// moment is absent.
	NewestItems func(ctx context.Context, user services.UserID, badges *services.Badges, sources []services.Source, since time.Time) ([]services.Explanation, error)
	// SharedChanges rises when this node has learned a change that many users share.
	SharedChanges func() uint64
	// ActiveSince returns a time: laps visit the users who were seen since then, slow laps the others.
	ActiveSince func() time.Time

	Clock services.Clock
	Log   *slog.Logger

	Settings
	Lease time.Duration // of the writer; 0 means 5 s
}

// Service is the change stream on one node. It is safe for concurrent use. The laps, isWriterUntil and wasNotWriting belong to the
// goroutine of Run.
type Service struct {
	cfg        Config
	db         *sql.DB
	leaseToken string        // of this node as the writer
	on         atomic.Bool   // this node marks users, and writes if it is the writer
	wake       chan struct{} // has an entry if wakeWriter was called: the writer looks for marks now

	lap           lap       // the state of the lap, while this node is the writer
	slowLap       slowLap   // the state of the slow lap, while this node is the writer
	isWriterUntil time.Time // until then this node is the writer without asking SQL again
	wasNotWriting bool      // this node did not write: the stream was off, or another node was the writer
	stats         counters
}

// counters are the values that Stats reads; Run's goroutine and jobs write them.
type counters struct {
	changes, marks, comparedUsers  atomic.Uint64
	laps, slowLaps                 atomic.Uint64
	lastLapNanos, lastSlowLapNanos atomic.Int64
	isWriter                       atomic.Bool // this node is the writer
}

// Stats are this node's numbers since its start.
type Stats struct {
	Changes       uint64        // changes written
	Marks         uint64        // users marked by jobs
	ComparedUsers uint64        // users whose badges were compared with their last change
	Laps          uint64        // over all active users
	LastLapTook   time.Duration // the last lap

	SlowLaps        uint64        // over all users who are not active
	LastSlowLapTook time.Duration // the last slow lap, with its rests

	IsWriter bool // this node is the writer
}

// New makes the stream of a node.
func New(cfg Config) *Service {
	cfg.Settings = services.WithDefaults(cfg.Settings)
	if cfg.Lease == 0 {
		cfg.Lease = 5 * time.Second
	}
	s := &Service{cfg: cfg, db: cfg.DB, leaseToken: rand.Text(), wake: make(chan struct{}, 1), wasNotWriting: true}
	s.on.Store(cfg.AlwaysOn)
	return s
}

// SetHasReaders says whether anybody reads the stream. If nobody reads the stream, it is off, unless it is always on: marks and
// comparisons cost a write for each change of a user.
func (s *Service) SetHasReaders(read bool) {
	s.on.Store(read || s.cfg.AlwaysOn)
	s.wakeWriter()
}

// On reports whether this node marks users, and writes if it is the writer.
func (s *Service) On() bool { return s.on.Load() }

// wakeWriter makes the writer look for marks now. One pending wake is enough for any number of calls.
func (s *Service) wakeWriter() {
	services.Signal(s.wake)
}

// Stats reads the numbers of this node.
func (s *Service) Stats() Stats {
	return Stats{
		Changes: s.stats.changes.Load(), Marks: s.stats.marks.Load(), ComparedUsers: s.stats.comparedUsers.Load(), Laps: s.stats.laps.Load(),
		LastLapTook: time.Duration(s.stats.lastLapNanos.Load()), SlowLaps: s.stats.slowLaps.Load(), LastSlowLapTook: time.Duration(s.stats.lastSlowLapNanos.Load()),
		IsWriter: s.stats.isWriter.Load(),
	}
}

// Mark records that the badges of users may have changed. It is called after their documents have changed and before the job that
// changed them is done: if it fails, the job runs again. A mark too many costs a comparison; one too few would lose a change.
func (s *Service) Mark(ctx context.Context, users []services.UserID) error {
	if !s.on.Load() || len(users) == 0 {
		return nil
	}
	// markUsers needs them sorted, and the caller's list must not change.
	users = slices.Clone(users)
	slices.Sort(users)
	users = slices.Compact(users)
	s.stats.marks.Add(uint64(len(users)))
	return s.db.Write(ctx, func(tx *sql.Tx) error { return markUsers(ctx, tx, users, tx.Now.Add(s.cfg.ChangeInterval)) })
}

const (
	// pollInterval is the time between two looks for due marks, which any node may have made.
	pollInterval = 200 * time.Millisecond
	errorPause   = time.Second // the pause after an engine did not answer
)

// Run writes the stream while this node is the writer, until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		more, err := s.RunOnce(ctx)
		wait := pollInterval
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

// wakeIf is the channel of wakeWriter, or, if wakes is false, nil, which never wakes: after an error Run waits for the whole pause.
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
		s.wasNotWriting = true
		s.stats.isWriter.Store(false)
		return false, nil
	}
	leads, err := s.becomeWriter(ctx)
	s.stats.isWriter.Store(leads)
	if err != nil || !leads {
		return false, err
	}
	// This node becomes the writer, or the stream was off: changes may have passed by without a mark.
	if s.wasNotWriting {
		s.wasNotWriting = false
		s.lap.requestLap()
		s.slowLap = slowLap{}
	}
	compared, err := s.compareDueUsers(ctx)
	if err != nil {
		return false, err
	}
	if more, err = s.stepLap(ctx); err == nil { // also while many users are due
		err = s.stepSlowLap(ctx)
	}
	return more || compared > 0, err
}

// becomeWriter makes this node the writer, or renews its lease. It asks SQL four times in a lease. A node that wrongly takes itself
// for the writer does no harm: writeChanges finds its token void.
func (s *Service) becomeWriter(ctx context.Context) (leads bool, err error) {
	now := s.cfg.Clock.Now()
	if now.Before(s.isWriterUntil) {
		return true, nil
	}
	leads, err = takeLease(ctx, s.db, s.leaseToken, s.cfg.Lease)
	if leads {
		s.isWriterUntil = now.Add(s.cfg.Lease / 4)
	}
	if !leads {
		s.wasNotWriting = true // a node that becomes the writer begins with a lap
	}
	return leads, err
}

// resign lets another node write at once. Only a node that leads has a lease to end.
func (s *Service) resign(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, errorPause)
	defer cancel()
	if s.stats.isWriter.Swap(false) {
		_ = resign(ctx, s.db, s.leaseToken) // the lease ends by itself
	}
}
