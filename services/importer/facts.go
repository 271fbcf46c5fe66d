package importer

import (
	"context"

	"tidings/services/sql"
)

var (
	// A row for each regular file that was ever imported, by importFile.progressKey. Rows stay after the end: they are few.
	putProgress = sql.NewStatement("set an import's progress", `INSERT INTO imports (source, line) VALUES ($1, $2)
		ON CONFLICT (source) DO UPDATE SET line = excluded.line`)

	oneProgress = sql.NewStatement("an import's progress", `SELECT line FROM imports WHERE source = $1`)
)

// setProgress records the last imported line of a source (the progressKey of a file), in the transaction that imports it: a crash then
// neither loses lines nor imports them twice. Line 0 lets the next run start anew.
func setProgress(ctx context.Context, tx *sql.Tx, source string, line int64) error {
	_, err := tx.Run(ctx, putProgress, source, line)
	return err
}

// readProgress is the last imported line of a source (the progressKey of a file); 0 for a new source, and for one whose import is to
// start anew.
func readProgress(ctx context.Context, r sql.Reader, source string) (line int64, err error) {
	_, err = r.One(ctx, oneProgress, []any{source}, &line)
	return line, err
}
