package sql_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

func TestErrorsThatMeanRefusedWrites(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false}, {errDeliberate, false}, {context.DeadlineExceeded, false},
		{sqltest.PostgresError("53100", ""), true}, {sqltest.PostgresError("25006", ""), true}, {sqltest.PostgresError("58030", ""), true},
		{sqltest.PostgresError("53300", ""), false}, {sqltest.PostgresError("40001", ""), false}, {sqltest.PostgresError("57P01", ""), false},
		{errors.New("write tidings.db-wal: file too large"), true},
	} {
		for _, err := range []error{c.err, sql.MapError("test", c.err)} {
			if got := sql.IsWriteRefusal(err); got != c.want {
				t.Errorf("%v: %v, want %v", fmt.Sprint(err), got, c.want)
			}
		}
	}
}
