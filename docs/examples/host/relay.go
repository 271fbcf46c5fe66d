package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"time"
)

// The relay sends the rows of the outbox to Tidings, in order, and sends each row again until Tidings has answered it. If either
// program dies between the sending and the removal of a row, the row is sent again with the same idempotency key, so it has one
// effect.

const (
	maxRequestEvents = 500       // the most events that Tidings accepts in one request
	maxRequestBytes  = 900 << 10 // the most bytes of the actions in one request; Tidings accepts requests up to 1 MB
	// Each act wakes the relay, so the relay needs this interval only for rows of another process. WatchErasures asks as often.
	pollInterval = time.Second
)

// outboxRow is a row of the outbox.
type outboxRow struct {
	id int64
	// actor is the key of a user. action is JSON, or "" for the erasure of the actor. happenedAt is the output of timeText.
	actor, action, happenedAt string
}

// isErasure reports whether the row is an erasure, which is a separate mutation and not an event.
func (r outboxRow) isErasure() bool { return r.action == "" }

// event returns the row as an event of ingest. The idempotency key has the ID of the row: it is unique, and the same at each try.
func (r outboxRow) event() Event {
	return Event{ActorID: userID(r.actor), IdempotencyKey: fmt.Sprintf("outbox-%d", r.id), HappenedAt: r.happenedAt, Action: json.RawMessage(r.action)}
}

// Relay empties the outbox until ctx ends. After a failure it waits, twice as long each time, up to half a minute.
func (a *Application) Relay(ctx context.Context) {
	// Only one relay sends, and only one batch at a time: the next batch begins once every row before it was answered.
	for failures := 0; ctx.Err() == nil; {
		more, err := a.relayOnce(ctx)
		switch {
		case err != nil:
			wait := backOff(failures, err)
			log.Printf("the relay waits for %s: %v", wait.Round(time.Millisecond), err)
			failures++
			// Nothing is lost meanwhile: events stay in the outbox.
			pause(ctx, wait)
		// There may be more rows, so go on without a pause.
		case more:
			failures = 0
		default:
			failures = 0
			a.awaitOutbox(ctx)
		}
	}
}

// backOff returns the time to wait after a failure. Its jitter keeps many relays from coming back at once.
func backOff(failures int, err error) time.Duration {
	// The shift is bounded, so that it cannot overflow after days of failures.
	wait := min(200*time.Millisecond<<min(failures, 10), 30*time.Second)
	var refused *Error
	if errors.As(err, &refused) && refused.RetryAfterMs != nil {
		wait = time.Duration(*refused.RetryAfterMs) * time.Millisecond // Tidings says how long to wait
	}
	return time.Duration(float64(wait) * (0.75 + rand.Float64()/2))
}

// awaitOutbox waits until the outbox may have rows. Rows of another process, such as `host seed`, are found after pollInterval.
func (a *Application) awaitOutbox(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-a.outboxChanged:
	case <-time.After(pollInterval):
	}
}

// relayOnce sends one batch of the outbox, and reports whether there may be more.
func (a *Application) relayOnce(ctx context.Context) (more bool, err error) {
	rows, err := a.store.nextOutboxBatch(ctx)
	if err != nil || len(rows) == 0 {
		return false, err
	}
	if rows[0].isErasure() {
		return true, a.erase(ctx, rows[0])
	}
	return true, a.send(ctx, rows)
}

// nextOutboxBatch reads the oldest rows of the outbox, as many as fit into one request. An erasure is a batch of its own.
func (s *Store) nextOutboxBatch(ctx context.Context) ([]outboxRow, error) {
	rows, err := list(ctx, s, func(from *sql.Rows, into *outboxRow) error {
		return from.Scan(&into.id, &into.actor, &into.action, &into.happenedAt)
	}, `SELECT id, actor, action, at FROM outbox ORDER BY id LIMIT ?`, maxRequestEvents)
	size := 0
	for i, row := range rows {
		size += len(row.action)
		// A batch is either one erasure, or events up to the limits of a request. The first row is taken whatever its size is.
		if i > 0 && (row.isErasure() || rows[0].isErasure() || size > maxRequestBytes) {
			return rows[:i], err
		}
	}
	return rows, err
}

// send sends rows, and removes the rows that were answered. The error is the reason why the other rows have to wait.
func (a *Application) send(ctx context.Context, rows []outboxRow) error {
	events := make([]Event, len(rows))
	for i, row := range rows {
		events[i] = row.event()
	}
	// Without an answer it is unknown whether the events took effect. So the rows stay, and are sent again with the same keys.
	results, err := a.tidings.Ingest(ctx, events)
	var refused *Error
	switch {
	case err == nil:
	case errors.As(err, &refused) && !refused.temporary() && len(rows) > 1:
		return a.sendEach(ctx, rows)
	case errors.As(err, &refused) && !refused.temporary():
		// The request had only this row, so Tidings refuses this row.
		results = []Result{{refused}}
	default:
		return err
	}
	answered := len(results)
	var wait error
	for i, result := range results {
		if result.Error != nil && result.Error.temporary() {
			answered, wait = i, result.Error // this row and those after it are sent again, to keep the order
			break
		}
	}
	// Answered rows leave the outbox even if the rest has to wait.
	return errors.Join(a.store.removeAnswered(ctx, rows[:answered], results), wait)
}

// sendEach sends rows one by one. Tidings refuses a whole request if one row does not fit its schema, perhaps because another
// version of this program wrote the row. Such a row must not stop the other rows.
func (a *Application) sendEach(ctx context.Context, rows []outboxRow) error {
	for i, row := range rows {
		// An event that has to wait also stops the events after it, because their order matters.
		if err := a.send(ctx, rows[i:i+1]); err != nil {
			return fmt.Errorf("event %d: %w", row.id, err)
		}
	}
	return nil
}

// removeAnswered removes rows from the outbox. A row that was refused for good is kept in the table refused, for a person to look at:
// sending it again would not help.
func (s *Store) removeAnswered(ctx context.Context, rows []outboxRow, results []Result) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		for i, row := range rows {
			if refused := results[i].Error; refused != nil {
				log.Printf("event %d was refused: %v", row.id, refused)
				// Copy the row from the outbox: if the user was erased meanwhile, the row is gone and must not be kept.
				_, err := tx.ExecContext(ctx, `INSERT INTO refused (id, actor, other, action, error) SELECT id, actor, other, action, ? FROM outbox WHERE id = ?`, refused.Error(), row.id)
				if err != nil {
					return err
				}
			}
			if _, err := tx.ExecContext(ctx, `DELETE FROM outbox WHERE id = ?`, row.id); err != nil {
				return err
			}
		}
		return nil
	})
}

// erase asks Tidings to erase a user. After the answer nobody can read the user any more. WatchErasures waits for the end.
func (a *Application) erase(ctx context.Context, r outboxRow) error {
	var answer struct {
		EraseUser struct {
			Erasure struct{ Name string }
		}
	}
	err := a.tidings.ask(ctx, bearer{scope: "admin"}, `mutation Erase($user: ID!) {
		eraseUser(input: {userId: $user}) { erasure { name } }
	}`, map[string]any{"user": userID(r.actor)}, &answer)
	var refused *Error
	if errors.As(err, &refused) && refused.Code == "NOT_FOUND" {
		err = nil // Tidings never had the user, or finished the erasure before this process died
	}
	if err != nil {
		return err
	}
	return a.store.write(ctx, func(tx *sql.Tx) error {
		// The name of the erasure reveals nothing about the user, so it may be kept after the erasure.
		if name := answer.EraseUser.Erasure.Name; name != "" {
			if _, err := tx.ExecContext(ctx, `INSERT INTO erasures (name, done_at) VALUES (?, '') ON CONFLICT DO NOTHING`, name); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, `DELETE FROM outbox WHERE id = ?`, r.id)
		return err
	})
}

// WatchErasures notes when Tidings has finished the erasures, until ctx ends.
func (a *Application) WatchErasures(ctx context.Context) {
	// The list of erasures is in the database, so WatchErasures goes on after a restart.
	for ; ctx.Err() == nil; pause(ctx, pollInterval) {
		names, err := list(ctx, a.store, func(from *sql.Rows, into *string) error { return from.Scan(into) }, `SELECT name FROM erasures WHERE done_at = ''`)
		for _, name := range names {
			if err == nil {
				err = a.watchErasure(ctx, name)
			}
		}
		if err != nil && ctx.Err() == nil {
			log.Printf("erasures: %v", err)
		}
	}
}

// watchErasure asks Tidings for the state of one erasure, and notes its end if it is done.
func (a *Application) watchErasure(ctx context.Context, name string) error {
	var answer struct {
		Admin struct{ Erasure *struct{ DoneAt *string } }
	}
	err := a.tidings.ask(ctx, bearer{scope: "admin"}, `query Erasure($name: String!) { admin { erasure(name: $name) { doneAt } } }`, map[string]any{"name": name}, &answer)
	// The request failed, the erasure is not done yet, or Tidings no longer has its record.
	if err != nil || answer.Admin.Erasure == nil || answer.Admin.Erasure.DoneAt == nil {
		return err
	}
	log.Printf("the erasure %s is done", name)
	_, err = a.store.ExecContext(ctx, `UPDATE erasures SET done_at = ? WHERE name = ?`, *answer.Admin.Erasure.DoneAt, name)
	return err
}
