package store

import (
	"context"

	"tidings/services/sql"
)

// Exec runs any SQL within a transaction.
func (tx *Tx) Exec(ctx context.Context, text string, args ...any) error {
	_, err := tx.Run(ctx, sql.AdHoc("test", text), args...)
	return err
}

// Change runs any SQL within a transaction and says how many rows it changed.
func (tx *Tx) Change(ctx context.Context, text string, args ...any) (int, error) {
	return tx.Run(ctx, sql.AdHoc("test", text), args...)
}

// The engines.
const (
	SQLite   = sql.SQLite
	Postgres = sql.Postgres
)
