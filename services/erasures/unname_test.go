package erasures

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"tidings/services"
	"tidings/services/acts"
	"tidings/services/erase"
	"tidings/services/fanout/fanouttest"
	"tidings/services/jobs"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// Until the key is free, requests name the user in acts and in remembered refusals, even after the steps that remove such acts and
// refusals. Nothing of that is left in the end.
func TestRequestsDuringAnErasureLeaveNoNames(t *testing.T) {
	sqltest.EachURL(t, func(t *testing.T, url string) {
		requests := 0
		request := erase.Step{Name: "request", Run: func(ctx context.Context, tx *sql.Tx, at erase.StepPosition) (erase.StepResult, error) {
			requests++
			id := services.SortableIDAt(tx.Now) + services.SortableID(requests)
			for _, text := range []string{
				fmt.Sprintf(`INSERT INTO acts (id, actor, action, target, details, outcome) VALUES (%d, 'boss', 'eraseUser', 'user:%s', '', 'DONE')`, id, erasedUserKey),
				fmt.Sprintf(`INSERT INTO acts (id, actor, action, target, details, outcome) VALUES (%d, '%s', 'raiseDot', '', '', 'DONE')`, id+1000, erasedUserKey),
				fmt.Sprintf(`INSERT INTO idempotency (scope, key, body_hash, ids, at, code, message) VALUES ('u9', 'k%d', '', '[]', %d, 'CONFLICT', 'userId: the user "%s" is being erased')`,
					requests, sql.Micros(tx.Now), erasedUserKey),
			} {
				if _, err := sqltest.QueryLines(ctx, tx, text); err != nil {
					return erase.StepResult{}, err
				}
			}
			return erase.StepResult{}, nil
		}}
		world := fanouttest.New(t, fanouttest.Options{SQLURL: url, RedisURL: "embedded"})
		w := newErasureWorldIn(world, slices.Concat(world.Fanout.EraseSteps(), acts.EraseSteps, []erase.Step{request})...)
		w.cfg.KeyRemovers = []erase.KeyRemover{acts.RemoveUserKey, jobs.EraseKeyFromRefusalsSince}
		w.runToEnd(w.beginErasure())
		for _, table := range []string{"acts", "idempotency", "erasures"} {
			rows, err := sqltest.QueryLines(t.Context(), w.DB, "SELECT * FROM "+table)
			if w.Must(err); len(rows) == 0 {
				t.Errorf("%s is empty: the test proves nothing", table)
			}
			for _, row := range rows {
				if strings.Contains(row, erasedUserKey) {
					t.Errorf("left in %s: %s", table, row)
				}
			}
		}
	})
}
