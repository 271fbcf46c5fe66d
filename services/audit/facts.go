package audit

import (
	"context"
	"crypto/rand"
	"time"

	"tidings/services"
	"tidings/services/sql"
)

// auditRowName is the name of the only row of the table audit.
const auditRowName = "users"

// maxUserIDsPerTurn bounds how many user IDs one turn scans for active users.
const maxUserIDsPerTurn = 10_000

var (
	// The counter of users is the greatest user ID, since IDs are dense.
	auditState = sql.NewStatement("the audit's state", `SELECT visited, lap_at, lease_until, (SELECT value FROM counters WHERE name = 'users')
		FROM audit WHERE name = $1`)

	activeUsersInRange = sql.NewStatement("active users of a range", `SELECT number FROM users
		WHERE number > $1 AND number <= $2 AND seen_at >= $3 ORDER BY number LIMIT $4`)

	// The update succeeds only on the state that was read, so that only one of two nodes that find the turn due takes it.
	takeAudit = sql.NewStatement("take the audit's lease", `UPDATE audit SET token = $2, lease_until = $3, lap_at = $4
		WHERE name = $1 AND visited = $5 AND lap_at = $6 AND lease_until <= $7`)

	releaseAudit = sql.NewStatement("pass the audit on", `UPDATE audit SET visited = $3, lap_at = $4, token = '', lease_until = 0 WHERE name = $1 AND token = $2`)
)

// auditTurn is the next batch of users of an audit, held under a lease: no other node audits meanwhile.
type auditTurn struct {
	Users []services.UserID
	// LapAge is how long this lap has lasted so far: much longer than the pace's LapTime if the audit does not keep up.
	LapAge time.Duration

	token       string // of the lease; completeTurn does nothing once another turn has replaced it
	visitedUpTo int64  // all users up to this ID were visited in this lap once this turn is done; 0: the lap is done
	// nextLapStart is the start of the lap that the next turn belongs to, in microseconds.
	nextLapStart int64
}

// auditPace sets the speed of an audit.
type auditPace struct {
	LapTime         time.Duration // from one visit of a user to the next
	MaxUsersPerTurn int           // users in a turn
	ActiveSince     time.Time     // users last seen before this are left out
	Lease           time.Duration // how long a turn may take before another node can take it over
}

// takeTurn takes the next users of the audit when their turn is due. An audit visits each user once in a lap, evenly over
// the lap's time. If no turn is due, next is the time to ask again.
func takeTurn(ctx context.Context, db *sql.DB, pace auditPace) (turn auditTurn, taken bool, next time.Time, err error) {
	var visited, lapAt, leaseUntil, total int64
	if _, err := db.One(ctx, auditState, []any{auditRowName}, &visited, &lapAt, &leaseUntil, &total); err != nil {
		return turn, false, next, err
	}
	now := db.Now()
	// began is the value in the row, with which takeAudit compares below. It is 0 before the first lap.
	began := lapAt
	if lapAt == 0 {
		lapAt = sql.Micros(now)
	}
	due := sql.FromMicros(lapAt).Add(dueAfter(pace.LapTime, visited, total))
	// Another node has the turn, and loses it when its lease ends.
	if held := sql.FromMicros(leaseUntil); held.After(due) {
		due = held
	}
	if due.After(now) {
		return turn, false, due, nil
	}
	turn = auditTurn{token: rand.Text(), nextLapStart: lapAt, LapAge: now.Sub(sql.FromMicros(lapAt))}
	if turn.Users, turn.visitedUpTo, err = readActiveUsers(ctx, db, visited, total, pace); err != nil {
		return turn, false, next, err
	}
	// The next lap begins when this lap should have ended, or now if this lap took longer: the audit does not hurry to catch
	// up.
	if turn.visitedUpTo >= total { // the last users of the lap: the next lap follows
		turn.visitedUpTo = 0
		turn.nextLapStart = max(lapAt+pace.LapTime.Microseconds(), sql.Micros(now))
	}
	err = db.Write(ctx, func(tx *sql.Tx) error {
		changed, err := tx.Run(ctx, takeAudit, auditRowName, turn.token, tx.Now.Add(pace.Lease), lapAt, visited, began, now)
		taken = changed == 1
		return err
	})
	return turn, taken && err == nil, now, err
}

// dueAfter returns the time after the start of a lap at which visited of its total users should have been visited.
func dueAfter(lap time.Duration, visited, total int64) time.Duration {
	if total == 0 {
		return 0
	}
	return time.Duration(float64(lap) * float64(visited) / float64(total))
}

// readActiveUsers lists the next active users, and the user ID up to which this list is complete.
func readActiveUsers(ctx context.Context, db *sql.DB, after, total int64, pace auditPace) (users []services.UserID, upTo int64, err error) {
	upTo = min(after+maxUserIDsPerTurn, total)
	users, err = sql.ReadColumn[services.UserID](ctx, db, activeUsersInRange, after, upTo, pace.ActiveSince, pace.MaxUsersPerTurn)
	// The range may have more active users than one turn visits: the turn ends at the last user of the list.
	if len(users) == pace.MaxUsersPerTurn {
		upTo = int64(users[len(users)-1])
	}
	return users, upTo, err
}

// completeTurn records that the users of a turn were visited. It does nothing when the lease was lost.
func completeTurn(ctx context.Context, db *sql.DB, turn auditTurn) error {
	return db.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.Run(ctx, releaseAudit, auditRowName, turn.token, turn.visitedUpTo, turn.nextLapStart)
		return err
	})
}
