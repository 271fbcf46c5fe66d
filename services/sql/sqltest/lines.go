package sqltest

import (
	"context"
	"fmt"
	"strings"

	"tidings/services/sql"
)

// maxColumns is more columns than a statement of a test has.
const maxColumns = 100

// QueryLines runs any SQL and returns one line for each row.
func QueryLines(ctx context.Context, from sql.Reader, text string, args ...any) (lines []string, err error) {
	var values, into []any
	err = from.Each(ctx, sql.AdHoc("test", text), args, func(scan func(into ...any) error) error {
		// A Reader does not say how many columns there are: a row can only be scanned into as many values.
		err := scan(into...)
		for err != nil && len(into) < maxColumns {
			// Any type is taken as the driver returns it.
			values = make([]any, len(into)+1)
			into = make([]any, len(values))
			for i := range values {
				into[i] = &values[i]
			}
			err = scan(into...)
		}
		if err != nil {
			return err
		}
		lines = append(lines, strings.TrimSpace(fmt.Sprintln(values...)))
		return nil
	})
	return lines, err
}
