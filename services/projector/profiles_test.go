package projector_test

import (
	"context"
	"testing"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/people"
	"tidings/services/sql"
)

// A changed profile reaches the copy of the profile in Redis.
func TestAChangedProfileIsProjectedToRedis(t *testing.T) {
	w := newEmbeddedWorld(t)
	user := w.MakeUsers(1)[0]
	name := "Ada"
	w.Write(func(ctx context.Context, tx *sql.Tx) error {
		if _, err := people.SetProfile(ctx, tx, user, &name, nil); err != nil {
			return err
		}
		return jobs.Enqueue(ctx, tx, people.ProjectProfileJob(user))
	})
	w.RunAllJobs(w.Fanout)
	_, copies, err := w.Redis.Copies(t.Context(), nil, []services.UserID{user})
	w.Must(err)
	if copies[user].Name != name {
		t.Errorf("the copy is %+v", copies[user])
	}
}
