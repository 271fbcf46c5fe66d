package feed

import (
	"context"
	"testing"

	"tidings/services/fanout/fanouttest"
	"tidings/services/jobs"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// PostgreSQL rolls a command back, and another node commits the same command meanwhile. Its answer then comes from its idempotency
// key, and this node shows nothing of the run that was rolled back.
func TestAnAnswerFromAKeyIgnoresARolledBackRun(t *testing.T) {
	n := newNode(fanouttest.New(t, fanouttest.Options{SQLURL: sqltest.Postgres(t)}))
	other := newNode(n.AnotherNode())
	reader, huge, _ := n.MakeReader()
	publish := func(n node) *jobs.Command {
		cmd, err := n.Publish(huge, Draft{Body: "hello"})
		n.Must(err)
		cmd.IdempotencyKey, cmd.Input = "k", "hello"
		return cmd
	}
	cmd, rolledBack, elsewhere := publish(n), false, false
	apply := cmd.Apply
	cmd.Apply = func(ctx context.Context, tx *sql.Tx) ([]string, error) {
		if rolledBack && !elsewhere {
			elsewhere = true
			other.Must(other.commit(publish(other)))
		}
		ids, err := apply(ctx, tx)
		if err == nil && !rolledBack {
			rolledBack = true
			err = sqltest.PostgresError("40001", "prefers another transaction")
		}
		return ids, err
	}
	n.Must(n.commit(cmd))
	if !elsewhere {
		t.Error("the command was not repeated")
	}
	n.RunJobsAndReadLog()
	n.checkWholeFeed(reader)
}
