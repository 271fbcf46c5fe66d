package engines

import (
	"context"

	"tidings/services/sql"
)

// execute runs any SQL within a transaction.
func execute(ctx context.Context, tx *sql.Tx, text string, args ...any) error {
	_, err := tx.Run(ctx, sql.AdHoc("test", text), args...)
	return err
}

// executeCountingRows runs any SQL within a transaction and returns the number of rows that it changed.
func executeCountingRows(ctx context.Context, tx *sql.Tx, text string, args ...any) (int, error) {
	return tx.Run(ctx, sql.AdHoc("test", text), args...)
}

// The engines.
const (
	SQLite   = sql.SQLite
	Postgres = sql.Postgres
)
