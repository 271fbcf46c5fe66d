package projector

import (
	"context"
	"crypto/rand"
	"time"

	"tidings/services/sql"
)

// cleanerRowName is the name of the one row in the table cleaner, which all nodes share.
const cleanerRowName = "redis"

// The one row of the table cleaner has two states. With a position, a run is under way, and the node with the token holds it until the
// lease ends. Without a position, no run is under way, and began_at says when the last one began.
var (
	cleanerState = sql.NewStatement("the cleaner's state", `SELECT place, freed, began_at, token, lease_until, done_at, done_freed FROM cleaner WHERE name = $1`)

	// $7 is the token that was read: of two nodes that saw the turn free, one gets it.
	takeCleaner = sql.NewStatement("take the cleaner's lease", `UPDATE cleaner SET token = $2, lease_until = $3, place = $4, freed = $5, began_at = $6
		WHERE name = $1 AND token = $7 AND lease_until <= $8`)

	// passCleaner ends a turn, and leaves the rest of the run to the next node that takes one.
	passCleaner = sql.NewStatement("pass the cleaner on", `UPDATE cleaner SET place = $3, freed = $4, token = '', lease_until = 0
		WHERE name = $1 AND token = $2`)

	endCleaner = sql.NewStatement("end a run of the cleaner", `UPDATE cleaner SET place = '', freed = '', token = '', lease_until = 0, done_at = $3, done_freed = $4
		WHERE name = $1 AND token = $2`)

	// askCleaner changes nothing while a run is under way: that run looks at every key anyway.
	askCleaner = sql.NewStatement("ask for a run of the cleaner", `UPDATE cleaner SET began_at = 0 WHERE name = $1 AND place = ''`)
)

// cleanerTurn is a part of a run of the cleaner, held under a lease: no other node cleans meanwhile.
type cleanerTurn struct {
	Position  string // the position from which the run continues, cleanerStartPosition at the beginning; update it before the turn is passed
	FreedJSON string // what the run has freed so far, "" at the beginning; update it too

	leaseToken string // says that this node holds the lease
}

// cleanerStartPosition is the position at which a run begins.
const cleanerStartPosition = "start"

// cleanerRun is the state of the cleaner's runs.
type cleanerRun struct {
	RunningOrDue  bool      // a run is under way, or is due at once: it was asked for, or none has begun yet
	LastEndedAt   time.Time // when the last complete run ended; zero when none has
	LastFreedJSON string    // what that run freed
}

// takeCleanerTurn takes the next part of the run under way, or begins a run if the last run began at least the duration every
// ago. taken is false if no run is due or another node has the turn.
func takeCleanerTurn(ctx context.Context, db *sql.DB, every, lease time.Duration) (turn cleanerTurn, taken bool, err error) {
	var token string
	var beganAt, leaseUntil, doneAt int64
	var doneFreed string
	if _, err := db.One(ctx, cleanerState, []any{cleanerRowName}, &turn.Position, &turn.FreedJSON, &beganAt, &token, &leaseUntil, &doneAt, &doneFreed); err != nil {
		return turn, false, err
	}
	// The state is read first, because almost every poll finds that no turn is due, and then writes nothing.
	now := db.Now()
	if sql.FromMicros(leaseUntil).After(now) || turn.Position == "" && sql.FromMicros(beganAt).Add(every).After(now) {
		return turn, false, nil
	}
	if turn.Position == "" {
		turn.Position, beganAt = cleanerStartPosition, sql.Micros(now)
	}
	turn.leaseToken = rand.Text()
	err = db.Write(ctx, func(tx *sql.Tx) error {
		// The token that was read makes the update a compare-and-swap: of two nodes that saw the turn free, one gets it.
		changed, err := tx.Run(ctx, takeCleaner, cleanerRowName, turn.leaseToken, tx.Now.Add(lease), turn.Position, turn.FreedJSON, beganAt, token, now)
		taken = changed == 1
		return err
	})
	return turn, taken && err == nil, err
}

// leaveCleanerTurn leaves the rest of the run to the next caller of takeCleanerTurn, or ends the run. held is false, and nothing
// changes, when the lease was lost.
func leaveCleanerTurn(ctx context.Context, db *sql.DB, turn cleanerTurn, ended bool) (held bool, err error) {
	err = db.Write(ctx, func(tx *sql.Tx) error {
		var changed int
		var err error
		if ended {
			changed, err = tx.Run(ctx, endCleaner, cleanerRowName, turn.leaseToken, tx.Now, turn.FreedJSON)
		} else {
			changed, err = tx.Run(ctx, passCleaner, cleanerRowName, turn.leaseToken, turn.Position, turn.FreedJSON)
		}
		held = changed == 1
		return err
	})
	return held && err == nil, err
}

// askForCleaning makes the next run due at once, unless one is under way.
func askForCleaning(ctx context.Context, db *sql.DB) error {
	return db.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.Run(ctx, askCleaner, cleanerRowName)
		return err
	})
}

// readCleanerRun reads the state of the cleaner's runs.
func readCleanerRun(ctx context.Context, db *sql.DB) (run cleanerRun, err error) {
	var position, freed, token string
	var beganAt, leaseUntil, doneAt int64
	_, err = db.One(ctx, cleanerState, []any{cleanerRowName}, &position, &freed, &beganAt, &token, &leaseUntil, &doneAt, &run.LastFreedJSON)
	if doneAt > 0 {
		run.LastEndedAt = sql.FromMicros(doneAt)
	}
	run.RunningOrDue = position != "" || beganAt == 0
	return run, err
}
