package webhooks

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"tidings/services"
	"tidings/services/leases"
	"tidings/services/sql"
)

// endpointColumns are the columns that readEndpoint scans, in its order.
const endpointColumns = "name, url, secrets, away, totals, sources, since, read_to, full_to, token, failures, retry_at, halted_at"

var (
	// $8 is the position at which the endpoint begins. An empty token and a lease that has ended let any node take it.
	insertWebhook = sql.NewStatement("add a webhook", `INSERT INTO webhooks (name, url, secrets, away, totals, sources, since, read_to, full_to, created_at,
			token, until_us, node, delivered, failures, retry_at, halted_at, ok_at, failed_at, error)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8, $9, '', 0, '', 0, 0, 0, 0, 0, 0, '') ON CONFLICT (name) DO NOTHING`)

	// Every endpoint counts, delivered or not: each costs a node a worker.
	countWebhooks = sql.NewStatement("count webhooks", `SELECT count(*) FROM webhooks`)

	// webhooksWithinLimit returns a row unless there are more webhooks than allowed. On PostgreSQL endpointLimit runs it at the end of a
	// transaction that adds one. The owner in $1 does not matter: all webhooks count together.
	webhooksWithinLimit = sql.NewStatement("whether there are too many webhooks", `SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM {rows $1 owner BIGINT, most BIGINT} AS c
		WHERE (SELECT count(*) FROM webhooks) > c.most)`)

	deleteWebhook = sql.NewStatement("remove a webhook", `DELETE FROM webhooks WHERE name = $1`)

	// No foreign key removes the letters of a webhook, so Remove runs this statement too.
	deleteLetters = sql.NewStatement("remove the letters of a webhook", `DELETE FROM webhook_letters WHERE webhook = $1`)

	lockWebhook = sql.NewStatement("lock a webhook", `SELECT `+endpointColumns+` FROM webhooks WHERE name = $1 {for update}`)

	readWebhook = sql.NewStatement("a webhook", `SELECT `+endpointColumns+` FROM webhooks WHERE name = $1`)

	// The caller has locked the row by lockWebhook.
	setSecrets = sql.NewStatement("set the secrets of a webhook", `UPDATE webhooks SET secrets = $2 WHERE name = $1`)

	// Each count is bounded by the number of users, and is read from the index.
	listWebhooks = sql.NewStatement("list webhooks", `SELECT w.name, w.url, w.secrets, w.away, w.totals, w.sources, w.created_at, w.node, w.until_us >= {database clock},
			w.delivered, w.failures, w.retry_at, w.halted_at, w.ok_at, w.failed_at, w.error,
			(SELECT count(*) FROM webhook_letters l WHERE l.webhook = w.name AND l.dead_at = 0),
			(SELECT count(*) FROM webhook_letters l WHERE l.webhook = w.name AND l.dead_at > 0),
			(SELECT c.at FROM stream_changes c WHERE c.seq > w.read_to ORDER BY c.seq LIMIT 1)
		FROM webhooks w WHERE $1 = '' OR w.name = $1 ORDER BY w.name`)

	// leaseTable is the table whose rows the leases package gives to nodes.
	leaseTable = leases.NewTable("webhooks", "webhooks")

	// Only the holder of the lease moves the position: a node that was paused beyond its lease finds another token, and no row.
	// $4 are the events delivered, $7 the time, $8 the last error or '', $9 whether the receiver is gone. A column keeps its
	// value if its event did not happen.
	recordRound = sql.NewStatement("move a webhook", `UPDATE webhooks SET read_to = $3, delivered = delivered + $4, failures = $5, retry_at = $6,
			ok_at = CASE WHEN $4 > 0 THEN $7 ELSE ok_at END, failed_at = CASE WHEN $8 = '' THEN failed_at ELSE $7 END,
			error = CASE WHEN $8 = '' THEN error ELSE $8 END, halted_at = CASE WHEN $9 THEN $7 ELSE halted_at END, full_to = $10
		WHERE name = $1 AND token = $2`)

	// putLetters keeps one letter for each user: the newest replaces the former one.
	putLetters = sql.NewInsertion("put letters", "webhook_letters",
		"webhook TEXT, user_number BIGINT, base BIGINT, heard BIGINT, seq BIGINT, attempts BIGINT, first_at BIGINT, due_at BIGINT, dead_at BIGINT, status BIGINT, error TEXT",
		`ON CONFLICT (webhook, user_number) DO UPDATE SET base = excluded.base, heard = excluded.heard, seq = excluded.seq, attempts = excluded.attempts,
			first_at = excluded.first_at, due_at = excluded.due_at, dead_at = excluded.dead_at, status = excluded.status, error = excluded.error`)

	// dropLetters removes letters, dead ones too, whose users' newest changes are delivered, not chosen by the filter, or erased.
	dropLetters = sql.NewStatement("drop letters", `DELETE FROM webhook_letters WHERE webhook = $1 AND {in user_number $2 BIGINT}`)

	// wakeLetters makes all failed letters due now, except dead ones. Letters with attempts = 0 go on waiting until their users are away.
	wakeLetters = sql.NewStatement("try letters again at once", `UPDATE webhook_letters SET due_at = $2 WHERE webhook = $1 AND dead_at = 0 AND attempts > 0 AND due_at > $2`)

	// Users with a newer change in the stream are left out, since that change comes from the stream: without the join a user would
	// be in one round twice. A user without a change is erased, and the letter is listed to be dropped. The index by webhook,
	// dead_at and due_at has the letters in this order.
	dueLetters = sql.NewStatement("due letters", `SELECT l.user_number, '', l.base, l.heard, l.seq, l.attempts, l.first_at, l.due_at, l.dead_at, l.status, l.error
		FROM webhook_letters l LEFT JOIN stream_changes c ON c.user_number = l.user_number
		WHERE l.webhook = $1 AND l.dead_at = 0 AND l.due_at <= $2 AND (c.seq IS NULL OR c.seq <= $3) ORDER BY l.due_at LIMIT $4`)

	// Like dueLetters, but also letters that are not due: one of them is the trial of an endpoint that is down. attempts is 0 in
	// letters that only wait.
	failedLetters = sql.NewStatement("letters that failed", `SELECT l.user_number, '', l.base, l.heard, l.seq, l.attempts, l.first_at, l.due_at, l.dead_at, l.status, l.error
		FROM webhook_letters l LEFT JOIN stream_changes c ON c.user_number = l.user_number
		WHERE l.webhook = $1 AND l.dead_at = 0 AND l.attempts > 0 AND (c.seq IS NULL OR c.seq <= $2) ORDER BY l.due_at LIMIT $3`)

	// This includes dead letters: after a new change of the user, the webhook gets everything that changed after base, the last
	// version that it has.
	lettersOf = sql.NewStatement("letters of users", `SELECT user_number, '', base, heard, seq, attempts, first_at, due_at, dead_at, status, error
		FROM webhook_letters WHERE webhook = $1 AND {in user_number $2 BIGINT}`)

	// Users who are being erased have no row of users, and are not shown.
	deadLetters = sql.NewStatement("dead letters", `SELECT l.user_number, u.key, l.base, l.heard, l.seq, l.attempts, l.first_at, l.due_at, l.dead_at, l.status, l.error
		FROM webhook_letters l JOIN users u ON u.number = l.user_number
		WHERE l.webhook = $1 AND l.dead_at > $2 ORDER BY l.dead_at DESC, l.user_number LIMIT $3`)

	// attempts 1 and first_at now give the letter a whole day again, and keep it among the failed letters.
	replayAll = sql.NewStatement("replay dead letters", `UPDATE webhook_letters SET dead_at = 0, attempts = 1, first_at = $2, due_at = $2 WHERE webhook = $1 AND dead_at > 0`)

	replayOne = sql.NewStatement("replay a dead letter", `UPDATE webhook_letters SET dead_at = 0, attempts = 1, first_at = $2, due_at = $2
		WHERE webhook = $1 AND user_number = $3 AND dead_at > 0`)

	// resumeWebhook ends the pause of an endpoint and lets a receiver that was gone be tried again. The column failures stays: only the
	// next request shows whether the receiver works.
	resumeWebhook = sql.NewStatement("resume a webhook", `UPDATE webhooks SET halted_at = 0, retry_at = 0 WHERE name = $1`)

	// There is an index by user for this statement alone.
	forgetLetters = sql.NewStatement("forget a user's letters", `DELETE FROM webhook_letters WHERE user_number = $1`)
)

// endpointLimit is the limit of how many endpoints the installation has.
var endpointLimit = sql.NewOwnerLimit("webhooks", webhooksWithinLimit)

// parseSecrets reads the column secrets. The error does not contain its text.
func parseSecrets(text string) (secrets []secret, err error) {
	if err := json.Unmarshal([]byte(text), &secrets); err != nil {
		return nil, fmt.Errorf("the secrets of a webhook: %w", err)
	}
	return secrets, nil
}

// parseSources reads the column sources. Names of parts have no comma.
func parseSources(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// readEndpoint reads one endpoint by readWebhook or lockWebhook.
func readEndpoint(ctx context.Context, r sql.Reader, st sql.Statement, name string) (e endpoint, found bool, err error) {
	if checkName(name) != nil { // PostgreSQL refuses a NUL
		return e, false, nil
	}
	var secrets, sources string
	var retryAt, haltedAt int64
	found, err = r.One(ctx, st, []any{name}, &e.Name, &e.URL, &secrets, &e.Filter.OnlyAway, &e.Filter.OnlyTotals, &sources, &e.alertsAfter, &e.readTo, &e.drainedTo, &e.leaseToken, &e.failuresInRow, &retryAt, &haltedAt)
	if err != nil || !found {
		return e, found, err
	}
	e.Filter.Sources, e.retryAt, e.receiverGone = parseSources(sources), sql.FromMicrosOrZero(retryAt), haltedAt > 0
	e.secrets, err = parseSecrets(secrets)
	return e, true, err
}

// Endpoints lists the endpoint of this name, or, if name is "", all endpoints in the order of their names.
func (s *Service) Endpoints(ctx context.Context, name string) ([]Endpoint, error) {
	now := s.db.Now()
	return sql.ReadRows(ctx, s.db, listWebhooks, []any{name}, func(scan sql.Scan, e *Endpoint) error {
		var secrets, sources string
		var created, retry, halted, ok, failed int64
		var since sql.NullInt64
		if err := scan(&e.Name, &e.URL, &secrets, &e.Filter.OnlyAway, &e.Filter.OnlyTotals, &sources, &created, &e.Node, &e.HasDeliverer,
			&e.DeliveredEvents, &e.FailuresInRow, &retry, &halted, &ok, &failed, &e.LastError, &e.WaitingUsers, &e.DeadLetters, &since); err != nil {
			return err
		}
		// Operators see this list. It has only the number of the secrets: a secret is shown only when it is made.
		kept, err := parseSecrets(secrets)
		e.SigningSecrets, e.Filter.Sources = len(signingSecrets(kept, now)), parseSources(sources)
		e.CreatedAt, e.RetryAt, e.ReceiverGoneAt, e.LastSuccessAt, e.LastFailureAt, e.OldestUnsentAt = sql.FromMicrosOrZero(created), sql.FromMicrosOrZero(retry), sql.FromMicrosOrZero(halted), sql.FromMicrosOrZero(ok), sql.FromMicrosOrZero(failed), sql.FromMicrosOrZero(since.Int64)
		return err
	})
}

// scanLetter reads a letter. Its key is "" where the statement does not look it up.
func scanLetter(scan sql.Scan, l *Letter) error {
	var first, due, dead int64
	err := scan(&l.User, &l.UserKey, &l.DeliveredUpTo, &l.AlertedUpTo, &l.LastTriedSeq, &l.Attempts, &first, &due, &dead, &l.Status, &l.Error)
	l.StartedAt, l.DueAt, l.DeadAt = sql.FromMicrosOrZero(first), sql.FromMicrosOrZero(due), sql.FromMicrosOrZero(dead)
	return err
}

// listLetters lists letters by a statement that has the columns of scanLetter.
func listLetters(ctx context.Context, db *sql.DB, st sql.Statement, args ...any) ([]Letter, error) {
	return sql.ReadRows(ctx, db, st, args, scanLetter)
}

// row returns the columns of the letter that putLetters writes.
func (l Letter) row(webhook string) []any {
	return []any{webhook, l.User, int64(l.DeliveredUpTo), int64(l.AlertedUpTo), int64(l.LastTriedSeq), int64(l.Attempts), sql.MicrosOrZero(l.StartedAt), sql.MicrosOrZero(l.DueAt), sql.MicrosOrZero(l.DeadAt), int64(l.Status), l.Error}
}

// forget removes everything that webhooks hold of a user, and returns the number of rows. A round that is under way may put a
// letter back; the next pass of the erasure removes it.
func forget(ctx context.Context, tx *sql.Tx, user services.UserID) (removed int, err error) {
	return tx.Run(ctx, forgetLetters, user)
}
