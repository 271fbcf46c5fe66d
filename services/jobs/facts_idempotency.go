package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"tidings/services"
	"tidings/services/sql"
)

// idempotencyRetention is how long an idempotency key is kept. A client that repeats a request later gets a new effect.
const idempotencyRetention = 24 * time.Hour

// errKeyExists is the error of rememberRequest when the key exists already: recallRequest returns its result.
var errKeyExists = services.Errorf(services.Unavailable, "this idempotency key is being used by another request: send it again")

// A row is claimed before the command runs and filled in after it, in one transaction: other transactions only see a row
// with a whole answer.
var (
	// rememberStatement writes a row if the key is new or expired. If the key is in use, it writes nothing, and the count of changed
	// rows is 0.
	rememberStatement = sql.NewStatement("remember an idempotency key", `INSERT INTO idempotency AS i (scope, key, body_hash, sent_hash, subject, ids, at)
		VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (scope, key) DO UPDATE SET body_hash = excluded.body_hash, sent_hash = excluded.sent_hash, subject = excluded.subject,
			ids = excluded.ids, code = '', message = '', at = excluded.at
		WHERE i.at <= $8`)

	rememberIDsStatement = sql.NewStatement("remember what an idempotency key made", `UPDATE idempotency SET ids = $3 WHERE scope = $1 AND key = $2`)

	fillInRefusal = sql.NewStatement("remember that an idempotency key was refused", `UPDATE idempotency SET code = $3, message = $4 WHERE scope = $1 AND key = $2`)

	recallStatement = sql.NewStatement("recall an idempotency key", `SELECT body_hash, sent_hash, subject, ids, code, message FROM idempotency WHERE scope = $1 AND key = $2 AND at > $3`)

	forgetIdempotencyKeys = sql.NewStatement("forget idempotency keys", `DELETE FROM idempotency WHERE at < $1`)
)

// rememberRequest claims a key for 24 hours and stores the request and its IDs with it, in the transaction of the command; a
// refusal is stored by rememberRefusal. It waits for a running transaction that has claimed the same key. errKeyExists when the key
// exists already: the transaction can go on, and recallRequest finds the result in it.
func rememberRequest(ctx context.Context, tx *sql.Tx, scope, key string, as rememberedRequest) error {
	if as.IDs == nil {
		as.IDs = []string{}
	}
	// A nil would become a NULL, which the columns refuse.
	for _, hash := range []*[]byte{&as.InputHash, &as.SentInputHash} {
		if *hash == nil {
			*hash = []byte{}
		}
	}
	changed, err := tx.Run(ctx, rememberStatement, scope, key, as.InputHash, as.SentInputHash, as.Subject, sql.AsJSON(as.IDs), tx.Now, tx.Now.Add(-idempotencyRetention))
	if err == nil && changed == 0 {
		return errKeyExists
	}
	return err
}

// rememberIDs stores the IDs that the command returned, under a key that this transaction has claimed.
func rememberIDs(ctx context.Context, tx *sql.Tx, scope, key string, ids []string) error {
	_, err := tx.Run(ctx, rememberIDsStatement, scope, key, sql.AsJSON(ids))
	return err
}

// rememberRefusal stores the refusal of the request under a key that this transaction has claimed.
func rememberRefusal(ctx context.Context, tx *sql.Tx, scope, key string, refusal *services.Error) error {
	_, err := tx.Run(ctx, fillInRefusal, scope, key, string(refusal.Code), refusal.Message)
	return err
}

// unchangedCode stands in the column of a refusal's code when the state was already as requested. It is not a services.Code.
const unchangedCode = "UNCHANGED"

// rememberUnchanged stores, under a key that this transaction has claimed, that its request changed nothing, and the ids that
// it returned.
func rememberUnchanged(ctx context.Context, tx *sql.Tx, scope, key string, ids []string) error {
	if len(ids) > 0 {
		if err := rememberIDs(ctx, tx, scope, key, ids); err != nil {
			return err
		}
	}
	_, err := tx.Run(ctx, fillInRefusal, scope, key, unchangedCode, "")
	return err
}

// rememberedRequest is the request of a key and its stored result.
type rememberedRequest struct {
	InputHash     []byte          // the inputHash of the command's name and input
	SentInputHash []byte          // the inputHash of the command's name and SentInput; empty: there was no SentInput
	Subject       string          // Command.Subject; "" for a request without SentInput
	IDs           []string        // the IDs that the command returned
	Refusal       *services.Error // nil: it was not refused
	Unchanged     bool            // the state was already as requested: see ErrUnchanged
}

// recallRequest returns the result that a key had within the last 24 hours.
func recallRequest(ctx context.Context, tx *sql.Tx, scope, key string) (had rememberedRequest, found bool, err error) {
	var list, code, message string
	found, err = tx.One(ctx, recallStatement, []any{scope, key, tx.Now.Add(-idempotencyRetention)}, &had.InputHash, &had.SentInputHash, &had.Subject, &list, &code, &message)
	if err != nil || !found {
		return rememberedRequest{}, false, err
	}
	if err := json.Unmarshal([]byte(list), &had.IDs); err != nil {
		return rememberedRequest{}, false, fmt.Errorf("jobs: the ids of idempotency key %s: %w", services.Quote(key), err)
	}
	switch code {
	case "":
	case unchangedCode:
		had.Unchanged = true
	default:
		had.Refusal = &services.Error{Code: services.Code(code), Message: message}
	}
	return had, true, nil
}

// ForgetIdempotencyKeys deletes the keys stored before a time and returns how many.
func ForgetIdempotencyKeys(ctx context.Context, db *sql.DB, before time.Time) (forgotten int, err error) {
	err = db.Write(ctx, func(tx *sql.Tx) error {
		forgotten, err = tx.Run(ctx, forgetIdempotencyKeys, before)
		return err
	})
	return forgotten, err
}
