package sql

import (
	"context"
	"fmt"
	"strings"
)

// QueryLines runs any SQL and returns one line for each row: for tests and tools.
func (r Runner) QueryLines(ctx context.Context, text string, args ...any) (lines []string, err error) {
	found, err := r.db.query(ctx, AdHoc("test", text).texts[r.Dialect], r.Dialect.bind(args))
	if err != nil {
		return nil, err
	}
	defer found.Close()
	// Rows of a pool have column names. Rows of a batch are values without names: Columns below names them all "".
	columns, err := found.(interface{ Columns() ([]string, error) }).Columns()
	if err != nil {
		return nil, err
	}
	for found.Next() {
		// Any type is taken as the driver returns it.
		values := make([]any, len(columns))
		into := make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := found.Scan(into...); err != nil {
			return nil, err
		}
		lines = append(lines, strings.TrimSpace(fmt.Sprintln(values...)))
	}
	return lines, found.Err()
}

// Columns returns an empty name for each column, and nil if there are no rows.
func (h *bufferedRows) Columns() ([]string, error) {
	if len(h.remainingRows) == 0 {
		return nil, nil
	}
	return make([]string, len(h.remainingRows[0])), nil
}
