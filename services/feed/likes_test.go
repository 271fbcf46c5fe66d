package feed

import (
	"context"
	"testing"

	"tidings/services"
	"tidings/services/fanout"
	"tidings/services/fanout/fanouttest"
	"tidings/services/jobs"
	"tidings/services/notifications/notificationstest"
	"tidings/services/posts"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// likesAndNotifications is how many likes a post has, and how many notifications of likes its author has according to the facts.
func (n node) likesAndNotifications(author services.UserID, post services.PostID) (likes, notified int) {
	n.TB.Helper()
	n.RunAllJobs(n.fan)
	likers, err := sqltest.QueryLines(n.TB.Context(), n.DB, "SELECT liker FROM likes WHERE post = $1", post)
	n.Must(err)
	return len(likers), len(notificationstest.Subjects(n.World, author, services.CategoryLike))
}

// A like notifies the author, and an unlike withdraws the notification. Neither changes anything when it is repeated.
func TestALikeNotifiesOnce(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		n := newNode(w)
		users := n.MakeUsers(2)
		author, liker := users[0], users[1]
		post := n.World.Post(author)
		for range 2 {
			for step, newCommand := range []func(services.UserID, services.PostID) *jobs.Command{n.Like, n.Unlike} {
				n.Must(n.commit(newCommand(liker, post)))
				if likes, notified := n.likesAndNotifications(author, post); likes != 1-step || notified != 1-step {
					t.Errorf("step %d: %d likes, %d notifications", step, likes, notified)
				}
				again := newCommand(liker, post)
				if err := n.commit(again); err != nil || again.Changed() {
					t.Errorf("step %d again: %v, changed %t", step, err, again.Changed())
				}
			}
		}
	})
}

func TestOnesOwnLikeNotifiesNobody(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		n := newNode(w)
		author := n.MakeUsers(1)[0]
		post := n.World.Post(author)
		n.RunAllJobs(n.fan)
		n.Must(n.commit(n.Like(author, post)))
		if waiting, _ := n.CountJobs(); waiting != 0 {
			t.Errorf("%d jobs for nobody", waiting)
		}
		if likes, notified := n.likesAndNotifications(author, post); likes != 1 || notified != 0 {
			t.Errorf("%d likes, %d notifications", likes, notified)
		}
		again := n.Like(author, post)
		if err := n.commit(again); err != nil || again.Changed() {
			t.Errorf("the like was not kept: %v, changed %t", err, again.Changed())
		}
	})
}

func TestADeletedPostIsNotLiked(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		n := newNode(w)
		users := n.MakeUsers(3)
		post := n.World.Post(users[0])
		n.Must(n.commit(n.Like(users[1], post)))
		n.Write(func(ctx context.Context, tx *sql.Tx) error {
			if _, _, err := posts.Delete(ctx, tx, post); err != nil {
				return err
			}
			return jobs.Enqueue(ctx, tx, fanout.RemovePostJob(post))
		})
		for what, cmd := range map[string]*jobs.Command{
			"like": n.Like(users[2], post), "unlike": n.Unlike(users[1], post), "like of a post that never was": n.Like(users[2], 12345),
		} {
			if err := n.commit(cmd); services.CodeOf(err) != services.NotFound {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}
