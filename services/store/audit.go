package store

import (
	"context"
	"crypto/rand"
	"time"

	"tidings/services"
	"tidings/services/sql"
)

// auditUsers names the one row: the audit of users.
const auditUsers = "users"

// maxAuditSpan bounds how many numbers are looked through for those who are active.
const maxAuditSpan = 10_000

var (
	auditState = sql.NewStatement("the audit's state", `SELECT visited, lap_at, lease_until, (SELECT value FROM counters WHERE name = 'users')
		FROM audit WHERE name = $1`)

	auditRange = sql.NewStatement("active users of a range", `SELECT number FROM users
		WHERE number > $1 AND number <= $2 AND seen_at >= $3 ORDER BY number LIMIT $4`)

	takeAudit = sql.NewStatement("take the audit's lease", `UPDATE audit SET token = $2, lease_until = $3, lap_at = $4
		WHERE name = $1 AND visited = $5 AND lap_at = $6 AND lease_until <= $7`)

	passAudit = sql.NewStatement("pass the audit on", `UPDATE audit SET visited = $3, lap_at = $4, token = '', lease_until = 0 WHERE name = $1 AND token = $2`)

	lastJob = sql.NewStatement("the last job", `SELECT COALESCE(max(id), 0) FROM jobs`)

	jobUpTo = sql.NewStatement("a job of before", `SELECT id FROM jobs WHERE id <= $1 AND due_at <= $2 ORDER BY id LIMIT 1`)
)

// AuditTurn is the next users of an audit, held under a lease: nobody else looks at them meanwhile.
type AuditTurn struct {
	Users []services.UserID
	// Lap is how long this lap has been going on: far more than asked for when the audit does not keep up.
	Lap time.Duration

	token   string
	visited int64 // once they are
	lapAt   int64
}

// AuditPace says how an audit walks.
type AuditPace struct {
	Lap         time.Duration // from one visit of a user to the next
	Limit       int           // users in a turn
	ActiveSince time.Time     // who was not seen since is left out
	Lease       time.Duration // how long a turn may take before somebody else has it
}

// TakeAuditTurn takes the next users of the audit when it is time for them: each is visited once in a lap, all of them
// evenly over its time. Without a turn it says when to ask again.
func (s *Store) TakeAuditTurn(ctx context.Context, pace AuditPace) (turn AuditTurn, taken bool, next time.Time, err error) {
	var visited, lapAt, leaseUntil, total int64
	if _, err := s.One(ctx, auditState, []any{auditUsers}, &visited, &lapAt, &leaseUntil, &total); err != nil {
		return turn, false, next, err
	}
	now := s.Now()
	began := lapAt
	if lapAt == 0 {
		lapAt = sql.Micros(now)
	}
	due := sql.FromMicros(lapAt).Add(share(pace.Lap, visited, total))
	if held := sql.FromMicros(leaseUntil); held.After(due) {
		due = held
	}
	if due.After(now) {
		return turn, false, due, nil
	}
	turn = AuditTurn{token: rand.Text(), lapAt: lapAt, Lap: now.Sub(sql.FromMicros(lapAt))}
	if turn.Users, turn.visited, err = s.auditRange(ctx, visited, total, pace); err != nil {
		return turn, false, next, err
	}
	if turn.visited >= total { // the last ones: the next lap follows
		turn.visited = 0
		turn.lapAt = max(lapAt+pace.Lap.Microseconds(), sql.Micros(now))
	}
	err = s.Write(ctx, func(tx *Tx) error {
		changed, err := tx.Run(ctx, takeAudit, auditUsers, turn.token, tx.Now.Add(pace.Lease), lapAt, visited, began, now)
		taken = changed == 1
		return err
	})
	return turn, taken && err == nil, now, err
}

// share is the part of a lap's time after which so many of all are visited.
func share(lap time.Duration, visited, total int64) time.Duration {
	if total == 0 {
		return 0
	}
	return time.Duration(float64(lap) * float64(visited) / float64(total))
}

// auditRange lists the next active users, and up to which number that is all of them.
func (s *Store) auditRange(ctx context.Context, after, total int64, pace AuditPace) (users []services.UserID, upTo int64, err error) {
	upTo = min(after+maxAuditSpan, total)
	err = s.Each(ctx, auditRange, []any{after, upTo, pace.ActiveSince, pace.Limit}, func(scan func(...any) error) error {
		var user services.UserID
		err := scan(&user)
		users = append(users, user)
		return err
	})
	if len(users) == pace.Limit {
		upTo = int64(users[len(users)-1])
	}
	return users, upTo, err
}

// PassAuditTurn says that the users of a turn were visited. Nothing happens when the lease was lost.
func (s *Store) PassAuditTurn(ctx context.Context, turn AuditTurn) error {
	return s.Write(ctx, func(tx *Tx) error {
		_, err := tx.Run(ctx, passAudit, auditUsers, turn.token, turn.visited, turn.lapAt)
		return err
	})
}

// LastJob is the number of the last job there is, 0 when there is none: jobs that are made later have greater ones.
func (s *Store) LastJob(ctx context.Context) (id int64, err error) {
	_, err = s.One(ctx, lastJob, nil, &id)
	return id, err
}

// JobWaits says whether a job up to a number is still to be done: one that can be claimed, or is leased, until dueBy. What
// is planned for later does not count.
func (s *Store) JobWaits(ctx context.Context, upTo int64, dueBy time.Time) (waits bool, err error) {
	var id int64
	return s.One(ctx, jobUpTo, []any{upTo, dueBy}, &id)
}
