package social

import (
	"testing"
	"time"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/jobs"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// Two commands that would each be the last within a limit run at once: one of them is refused.
func TestLimitsHoldAgainstConcurrentCommands(t *testing.T) {
	n := newNode(fanouttest.New(t, fanouttest.Options{SQLURL: sqltest.Postgres(t)}))
	commands := map[string]func(owner, other services.UserID) *jobs.Command{
		"follow": n.service.Follow, "block": n.service.Block, "hideFrom": n.service.HideFrom,
		"mute": func(owner, other services.UserID) *jobs.Command { return n.service.Mute(owner, other, time.Time{}) },
	}
	for name, command := range commands {
		t.Run(name, func(t *testing.T) {
			users := n.MakeNeverSeenUsers(maxPeoplePerList + 2)
			owner, others := users[0], users[1:]
			for _, other := range others[:maxPeoplePerList-1] {
				n.Must(n.commitCommand(command(owner, other)))
			}
			last, more := command(owner, others[maxPeoplePerList-1]), command(owner, others[maxPeoplePerList])
			first, second := sqltest.RunDuringTransaction(t, n.DB,
				func(tx *sql.Tx) error { _, err := last.Apply(t.Context(), tx); return err },
				func() error { return n.Fanout.Commit(t.Context(), more)[0] })
			sqltest.WantOneErrorWithCode(t, services.Conflict, first, second)
		})
	}
}
