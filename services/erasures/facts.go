package erasures

import (
	"context"
	"encoding/json"

	"tidings/services"
	"tidings/services/sql"
)

var (
	// The first pass begins with an empty step name, which means the first step: see runNextStep.
	insertErasure = sql.NewStatement("begin an erasure", `INSERT INTO erasures (id, user_number, key, began_at, done_at, pass, step, after, found, counts)
		VALUES ($1, $2, $3, $4, 0, 1, $5, 0, 0, $6)`)

	// Without the row no statement that joins users shows anything of the user.
	deleteUser = sql.NewStatement("delete a user", `DELETE FROM users WHERE number = $1`)

	// The lock makes concurrent requests wait for the request that deletes the row.
	lockKey = sql.NewStatement("lock a user by key", `SELECT number FROM users WHERE key = $1 {for update}`)

	erasureByName = sql.NewStatement("an erasure", `SELECT id, began_at, done_at, counts FROM erasures WHERE id = $1`)

	// The key is '' in erasures that are done. There may be any number of them, and the index leaves them out.
	erasureByKey = sql.NewStatement("the erasure of a key", `SELECT id, began_at, done_at, counts FROM erasures WHERE key = $1 AND key <> ''`)

	// The lock waits for the end of an erasure that is being committed.
	erasedUser = sql.NewStatement("the user of an erasure", `SELECT user_number FROM erasures WHERE key = $1 AND key <> '' {for update}`)

	// When the key is free again only the scrub of the database is left, and no node has data of the user.
	pendingErasures = sql.NewStatement("erasures that go on", `SELECT user_number, key FROM erasures WHERE user_number > 0 AND key <> '' ORDER BY user_number`)

	// user_number is 0 in an erasure that is done.
	lockErasure = sql.NewStatement("lock an erasure", `SELECT id, key, began_at, pass, step, after, found, counts FROM erasures
		WHERE user_number = $1 AND user_number > 0 {for update}`)

	// The ID was read by lockProgress, which has locked the row.
	saveErasureProgress = sql.NewStatement("move an erasure on", `UPDATE erasures SET pass = $2, step = $3, after = $4, found = $5, counts = $6 WHERE id = $1`)

	// The key is removed where requests have written it since began_at. It is '' in erasures whose key is free already.
	keysToFree = sql.NewStatement("keys of erasures to free", `SELECT key, began_at FROM erasures WHERE {in id $1 TEXT} AND key <> ''`)

	dropKeys = sql.NewStatement("free the keys of erasures", `UPDATE erasures SET key = '' WHERE {in id $1 TEXT}`)

	// The row that stays has counts and times, and does not name the user.
	endErasure = sql.NewStatement("end an erasure", `UPDATE erasures SET user_number = 0, key = '', step = '', done_at = $2 WHERE id = $1`)
)

// read reads one erasure by a statement that finds it by an argument.
func read(ctx context.Context, r sql.Runner, st sql.Statement, arg string) (e Erasure, found bool, err error) {
	var began, done int64
	var counts string
	if found, err = r.One(ctx, st, []any{arg}, &e.Name, &began, &done, &counts); err != nil || !found {
		return e, found, err
	}
	if e.BeganAt = sql.FromMicros(began); done > 0 {
		e.DoneAt = sql.FromMicros(done)
	}
	return e, true, json.Unmarshal([]byte(counts), &e.Removed)
}

// lockProgress reads how far the erasure of a user has come, and keeps other workers from moving it on until this transaction ends:
// two workers may have the job when the lease of one ran out. It returns errErasureDone if there is no erasure.
func (s *Service) lockProgress(ctx context.Context, tx *sql.Tx, user services.UserID) (at erasureProgress, err error) {
	var began int64
	var counts string
	found, err := tx.One(ctx, lockErasure, []any{user}, &at.id, &at.key, &began, &at.pass, &at.step, &at.stepPosition, &at.foundInPass, &counts)
	if err == nil && !found {
		err = errErasureDone
	}
	if err != nil {
		return at, err
	}
	at.began = sql.FromMicros(began)
	return at, json.Unmarshal([]byte(counts), &at.removedCounts)
}

// save writes how far an erasure has come, in the transaction of the removal: so the counts are exact even after a crash.
func (s *Service) save(ctx context.Context, tx *sql.Tx, at erasureProgress) error {
	counts, err := json.Marshal(at.removedCounts)
	if err != nil {
		return err
	}
	_, err = tx.Run(ctx, saveErasureProgress, at.id, at.pass, at.step, at.stepPosition, at.foundInPass, string(counts))
	return err
}
