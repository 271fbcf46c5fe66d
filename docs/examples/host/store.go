package main

import (
	"context"
	"database/sql"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"modernc.org/sqlite" // the driver, in plain Go
	sqlite3 "modernc.org/sqlite/lib"
)

// schema is the SQL that makes the tables.
//
//go:embed schema.sql
var schema string

// errNotFound is the error of an act on an object that does not exist.
var errNotFound = errors.New("there is no such thing")

// Store is the application's database.
type Store struct{ *sql.DB }

// OpenStore opens a database, and makes its tables if it is new.
func OpenStore(path string) (*Store, error) {
	// FULL: an acknowledged fact and its event survive a power cut. immediate: a transaction that reads and then writes waits for
	// the lock at its beginning, instead of failing in the middle.
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=foreign_keys(ON)&_pragma=busy_timeout(5000)&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	if _, err := db.Exec(schema); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), db.Close())
	}
	return &Store{db}, nil
}

// write runs a function in a transaction. If write returns no error, the transaction is on disk.
func (s *Store) write(ctx context.Context, do func(tx *sql.Tx) error) error {
	tx, err := s.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	// If the function fails, neither its fact nor its event is kept.
	if err := do(tx); err != nil {
		var fault *sqlite.Error
		// The tables refer to users, so the database itself refuses an act of a user who does not exist.
		if errors.As(err, &fault) && fault.Code() == sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY {
			err = errNotFound // the acting user, or a user that the act names
		}
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// execChanged runs a statement and reports whether it changed a row.
func execChanged(ctx context.Context, tx *sql.Tx, statement string, values ...any) (bool, error) {
	result, err := tx.ExecContext(ctx, statement, values...)
	if err != nil {
		return false, err
	}
	// 0 rows mean that the statement had nothing to change.
	rows, err := result.RowsAffected()
	return rows > 0, err
}

// list reads all rows of a query.
func list[T any](ctx context.Context, s *Store, scan func(row *sql.Rows, into *T) error, query string, values ...any) ([]T, error) {
	rows, err := s.QueryContext(ctx, query, values...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	// The result is never nil, so that JSON has [] and not null.
	found := []T{}
	for rows.Next() {
		var one T
		if err := scan(rows, &one); err != nil {
			return nil, err
		}
		found = append(found, one)
	}
	return found, rows.Err()
}

// Action is one act to report to Tidings: the name of a mutation and its input, as in IngestAction.
type Action map[string]map[string]any

// queueEvent puts an event into the outbox, in the transaction of its fact. at is the time of the fact: Tidings orders events by
// their times, however late they arrive. other is the key of another user that the event names; "" for none.
func queueEvent(ctx context.Context, tx *sql.Tx, actor, other string, action Action, at time.Time) error {
	text, err := json.Marshal(action)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO outbox (actor, other, action, at) VALUES (?, ?, ?, ?)`, actor, other, string(text), timeText(at))
	return err
}

// timeText formats a time for the tables and for Tidings. Tidings keeps milliseconds.
func timeText(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000Z") }
