package store

import (
	"context"

	"tidings/services/sql"
)

var (
	setProgress = sql.NewStatement("set an import's progress", `INSERT INTO imports (source, line) VALUES ($1, $2)
		ON CONFLICT (source) DO UPDATE SET line = excluded.line`)

	progress = sql.NewStatement("an import's progress", `SELECT line FROM imports WHERE source = $1`)
)

// SetImportProgress records the last imported line of a source, in the transaction that imports it.
func (tx *Tx) SetImportProgress(ctx context.Context, source string, line int64) error {
	_, err := tx.Run(ctx, setProgress, source, line)
	return err
}

// ImportProgress is the last imported line of a source; 0 for a new source.
func (s *Store) ImportProgress(ctx context.Context, source string) (line int64, err error) {
	_, err = s.One(ctx, progress, []any{source}, &line)
	return line, err
}
