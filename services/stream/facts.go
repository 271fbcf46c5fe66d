package stream

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"tidings/services"
	"tidings/services/sql"
)

var (
	// marks counts up, so that the writer can tell a mark that it has read from a newer one. due_at never moves to a later time:
	// otherwise a user who is marked again and again would never be due.
	markDue = sql.NewInsertion("mark users of the change stream", "stream_due", "user_number BIGINT, marks BIGINT, due_at BIGINT",
		`ON CONFLICT (user_number) DO UPDATE SET marks = stream_due.marks + 1,
			due_at = CASE WHEN stream_due.due_at < excluded.due_at THEN stream_due.due_at ELSE excluded.due_at END`)

	// Users who have been due for the longest time come first, so that nobody waits behind users who become due later.
	listDue = sql.NewStatement("due users of the change stream", `SELECT user_number, marks FROM stream_due WHERE due_at <= $1 ORDER BY due_at LIMIT $2`)

	// countDue is for metrics: how many users are due, and since when.
	countDue = sql.NewStatement("count due users of the change stream", `SELECT count(*), min(due_at) FROM stream_due WHERE due_at <= $1`)

	// settleDue removes only marks that have not risen since they were read: otherwise the change behind a newer mark would be lost.
	settleDue = sql.NewStatement("settle users of the change stream", `DELETE FROM stream_due
		WHERE (user_number, marks) IN (SELECT r.user_number, r.marks FROM {rows $1 user_number BIGINT, marks BIGINT} AS r)`)

	// delayDue keeps marks, with another time. A mark that rose since it was read is left unchanged.
	delayDue = sql.NewStatement("delay users of the change stream", `UPDATE stream_due SET due_at = r.due_at
		FROM {rows $1 user_number BIGINT, marks BIGINT, due_at BIGINT} AS r
		WHERE stream_due.user_number = r.user_number AND stream_due.marks = r.marks`)

	// postponeDue is for all marks of some users: those who would be due earlier become due at $2: Settings.ChangeInterval after this
	// comparison.
	postponeDue = sql.NewStatement("postpone users of the change stream", `UPDATE stream_due SET due_at = $2
		WHERE due_at < $2 AND {in user_number $1 BIGINT}`)

	// until_us goes by the database's clock, so that the clocks of nodes do not matter. began_at is set once: older items alert
	// nobody.
	leaseWriter = sql.NewStatement("become the writer of the change stream", `UPDATE stream_head
		SET token = $1, until_us = {database clock} + $2, began_at = CASE WHEN began_at = 0 THEN {database clock} ELSE began_at END
		WHERE name = 'changes' AND (token = $1 OR until_us < {database clock})`)

	resignWriter = sql.NewStatement("resign as the writer of the change stream", `UPDATE stream_head SET until_us = 0 WHERE name = 'changes' AND token = $1`)

	// No position so far is greater than head, the last position. It follows the clock, so that versions rise also after a backup is
	// restored. No row means that the token is not the writer's any more. The update locks the row, so positions are committed in their
	// order, and none is committed after a reader has read a greater one.
	raiseLastPosition = sql.NewStatement("raise the last position of the change stream", `UPDATE stream_head
		SET head = CASE WHEN head < $2 THEN $2 ELSE head END + $3 WHERE name = 'changes' AND token = $1 RETURNING head`)

	// No position so far is greater than head. began_at is when a node first became the writer.
	readLastPosition = sql.NewStatement("read the last position of the change stream", `SELECT head, began_at FROM stream_head WHERE name = 'changes'`)

	// slow_after is the last user that the slow lap has visited, and slow_began_at is when the lap began.
	readSlowLap = sql.NewStatement("read the slow lap of the change stream", `SELECT slow_after, slow_began_at FROM stream_head WHERE name = 'changes'`)

	moveSlow = sql.NewStatement("move the slow lap of the change stream", `UPDATE stream_head SET slow_after = $2, slow_began_at = $3
		WHERE name = 'changes' AND token = $1`)

	// The stream is written while the lease of the writer, which the writer renews, has not ended.
	readWritten = sql.NewStatement("whether the change stream is written", `SELECT 1 FROM stream_head WHERE name = 'changes' AND until_us >= {database clock}`)

	// putChanges keeps one row for each user: a newer change takes the place of the older one, and leaves a gap in the order.
	putChanges = sql.NewInsertion("put changes", "stream_changes", "user_number BIGINT, seq BIGINT, at BIGINT, face BIGINT, state BYTEA",
		`ON CONFLICT (user_number) DO UPDATE SET seq = excluded.seq, at = excluded.at, face = excluded.face, state = excluded.state`)

	// With the join a user who is being erased has no change.
	changesOfUsers = sql.NewStatement("changes of users", `SELECT c.user_number, u.key, c.seq, c.at, c.state
		FROM stream_changes c JOIN users u ON u.number = c.user_number WHERE {in c.user_number $1 BIGINT}`)

	// The hash is a column of its own, face, so that a lap reads no states.
	shownHashesOf = sql.NewStatement("shown hashes of changes", `SELECT user_number, face FROM stream_changes WHERE {in user_number $1 BIGINT}`)

	// The join leaves out users who are being erased.
	changesAfter = sql.NewStatement("changes after a position", `SELECT c.user_number, u.key, c.seq, c.at, c.state
		FROM stream_changes c JOIN users u ON u.number = c.user_number WHERE c.seq > $1 ORDER BY c.seq LIMIT $2`)

	forgetDue     = sql.NewStatement("forget a user's marks", `DELETE FROM stream_due WHERE user_number = $1`)
	forgetChanges = sql.NewStatement("forget a user's changes", `DELETE FROM stream_changes WHERE user_number = $1`)
)

// markUsers marks users, who must be sorted and distinct: rows are locked in their order, and several jobs mark users at the same
// time. A user who is due earlier keeps that time.
func markUsers(ctx context.Context, tx *sql.Tx, users []services.UserID, due time.Time) error {
	_, err := tx.Insert(ctx, markDue, services.Map(users, func(user services.UserID) []any { return []any{user, int64(1), due} }))
	return err
}

// dueUser is a marked user, with the marks as they were read.
type dueUser struct {
	user  services.UserID
	marks int64 // rises with each mark of the user
}

// dueUsers lists users who are due, the longest due first.
func dueUsers(ctx context.Context, db *sql.DB, limit int) ([]dueUser, error) {
	return sql.ReadRows(ctx, db, listDue, []any{db.Now(), limit}, func(scan sql.Scan, one *dueUser) error {
		return scan(&one.user, &one.marks)
	})
}

// Lag counts the users who are due, and returns how long the first has been due. Users who are due at a later time are not
// counted.
func (s *Service) Lag(ctx context.Context) (waiting int, oldest time.Duration, err error) {
	var first sql.NullInt64
	now := s.db.Now()
	if _, err := s.db.One(ctx, countDue, []any{now}, &waiting, &first); err != nil || !first.Valid {
		return waiting, 0, err
	}
	return waiting, now.Sub(sql.FromMicros(first.Int64)), nil
}

// takeLease makes the holder of a token the writer, unless another node is the writer. Calling it again prolongs the lease.
func takeLease(ctx context.Context, db *sql.DB, token string, lease time.Duration) (leads bool, err error) {
	err = db.Write(ctx, func(tx *sql.Tx) error {
		n, err := tx.Run(ctx, leaseWriter, token, lease.Microseconds())
		leads = n > 0
		return err
	})
	return leads && err == nil, err
}

// resign ends the lease of a token now.
func resign(ctx context.Context, db *sql.DB, token string) error {
	return db.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.Run(ctx, resignWriter, token)
		return err
	})
}

// errLeaseLost is the error of a writer whose lease another node has taken. It rolls the transaction back.
var errLeaseLost = services.Errorf(services.Unavailable, "another node writes the change stream")

// takePositions takes n positions, and returns the last position. If n is 0 it takes none, and the last position may rise all the same.
// The lock of its row is held until the transaction ends.
func takePositions(ctx context.Context, tx *sql.Tx, token string, n int) (last uint64, err error) {
	found, err := tx.One(ctx, raiseLastPosition, []any{token, tx.Now, n}, &last)
	if err == nil && !found {
		err = errLeaseLost
	}
	return last, err
}

// readSlowLapPosition reads how far the slow lap has come.
func readSlowLapPosition(ctx context.Context, db *sql.DB) (at slowLapPosition, err error) {
	var us int64
	_, err = db.One(ctx, readSlowLap, nil, &at.lastUser, &us)
	if us > 0 {
		at.began = sql.FromMicros(us)
	}
	return at, err
}

// moveSlowLap stores how far the slow lap has come. It changes nothing for a node that is not the writer any more.
func moveSlowLap(ctx context.Context, tx *sql.Tx, token string, to slowLapPosition) error {
	_, err := tx.Run(ctx, moveSlow, token, to.lastUser, to.began)
	return err
}

// LastPosition reads the last position of the stream: no change that is written so far has a greater one. began is when a node first
// became the writer, the zero time if none did.
func (s *Service) LastPosition(ctx context.Context) (last uint64, began time.Time, err error) {
	var us int64
	_, err = s.db.One(ctx, readLastPosition, nil, &last, &us)
	if us > 0 {
		began = sql.FromMicros(us)
	}
	return last, began, err
}

// HasWriter reports whether a node writes the stream at the moment.
func (s *Service) HasWriter(ctx context.Context) (bool, error) {
	var one int
	return s.db.One(ctx, readWritten, nil, &one)
}

// scanChange reads a row of changes with the key of its user.
func scanChange(scan sql.Scan, change *Change) error {
	var at int64
	var state []byte
	if err := scan(&change.User, &change.Key, &change.Seq, &at, &state); err != nil {
		return err
	}
	change.At = sql.FromMicros(at)
	if err := json.Unmarshal(state, &change.State); err != nil {
		return fmt.Errorf("the change of user %d: %w", change.User, err)
	}
	return nil
}

// ChangesOf reads the newest changes of some users; users without one are absent.
func (s *Service) ChangesOf(ctx context.Context, users []services.UserID) (map[services.UserID]Change, error) {
	list, err := sql.ReadRows(ctx, s.db, changesOfUsers, []any{users}, scanChange)
	return services.KeyBy(list, func(change Change) services.UserID { return change.User }), err
}

// ChangesAfter lists the changes after a position, in their order, at most limit. A change that has been replaced by a newer one of
// its user is not listed: the newer one follows. A position that was read stays right for ever, because positions are committed in
// their order.
func (s *Service) ChangesAfter(ctx context.Context, seq uint64, limit int) ([]Change, error) {
	return sql.ReadRows(ctx, s.db, changesAfter, []any{seq, limit}, scanChange)
}

// readShownHashes reads the hashes of what the last changes of some users show; users without one are absent.
func readShownHashes(ctx context.Context, db *sql.DB, users []services.UserID) (map[services.UserID]int64, error) {
	return sql.ReadMap[services.UserID, int64](ctx, db, shownHashesOf, users)
}

// Forget removes everything that the stream holds of a user, and returns the number of rows. Readers no longer see the user, and
// the gap in the order reveals nothing.
func Forget(ctx context.Context, tx *sql.Tx, user services.UserID) (removed int, err error) {
	for _, st := range []sql.Statement{forgetDue, forgetChanges} {
		n, err := tx.Run(ctx, st, user)
		if err != nil {
			return removed, err
		}
		removed += n
	}
	return removed, nil
}
