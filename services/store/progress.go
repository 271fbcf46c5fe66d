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

// SetImportProgress notes the last line of a source that is in, in the transaction that brings it in.
func (tx *Tx) SetImportProgress(ctx context.Context, source string, line int64) error {
	_, err := tx.Run(ctx, setProgress, source, line)
	return err
}

// ImportProgress is the last line of a source that is in; 0 for a source that is new.
func (s *Store) ImportProgress(ctx context.Context, source string) (line int64, err error) {
	_, err = s.One(ctx, progress, []any{source}, &line)
	return line, err
}
