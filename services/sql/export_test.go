package sql

import (
	"context"
	"database/sql"
	"errors"
	"strings"
)

// QueuedWrites is the number of writes that wait for SQLite's writer, short and long ones together. It is 0 on PostgreSQL, where
// writes wait for no common writer.
func (s *DB) QueuedWrites() int {
	if s.writer == nil {
		return 0
	}
	return len(s.writer.shortQueue) + len(s.writer.longQueue)
}

// IsWriteRefusal reports whether an error is a refused write.
var IsWriteRefusal = isWriteRefusal

// MigrateTo brings a new database to an earlier version of the tables, and runs statements on it.
func MigrateTo(ctx context.Context, url string, version int64, statements ...string) (err error) {
	d, driver, source := Postgres, "pgx", url
	if file, isSQLite := strings.CutPrefix(url, "sqlite:"); isSQLite {
		d, driver, source = SQLite, "sqlite", file
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	steps, err := d.migrationProvider(db)
	if err == nil {
		_, err = steps.UpTo(ctx, version)
	}
	for _, text := range statements {
		if err == nil {
			_, err = db.ExecContext(ctx, text)
		}
	}
	return err
}
