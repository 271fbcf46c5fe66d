package notifications

import (
	"cmp"
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tidings/services"
	"tidings/services/fanout"
	"tidings/services/fanout/fanouttest"
	"tidings/services/jobs"
	"tidings/services/posts"
	"tidings/services/sql"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// node is the notifications of one node on real engines.
type node struct {
	*fanouttest.World
	service *Service
}

// newNode makes the notifications of a world's node and of nodes made later. CheckAgainstFacts compares their counts.
func newNode(w *fanouttest.World) node { return newNodeWithCausesPerPage(w, causesPerPage) }

// newNodeWithCausesPerPage makes the notifications of a world's node and of nodes made later, as newNode does. causes is how many causes
// of one actor they handle in one transaction (Service.causesPerPage).
func newNodeWithCausesPerPage(w *fanouttest.World, causes int) node {
	n := node{World: w}
	w.Install(func(w *fanouttest.World, f *fanouttest.Fanout) {
		made := New(Config{DB: w.DB, Redis: w.Redis, Jobs: f.Engine, Projector: f.Projector, IDs: w.IDs, Log: w.Log})
		made.causesPerPage = causes
		if n.service == nil {
			n.service = made
		}
	})
	w.RegisterCategoryCountsDiff(func(ctx context.Context, user services.UserID) (counts []services.CategoryCounts, err error) {
		states, err := statesOfUser(ctx, w.DB, user)
		for _, state := range states {
			if shown, is := state.documentCounts(n.service.Memory.Current()); is {
				counts = append(counts, shown)
			}
		}
		return counts, err
	})
	return n
}

// eachNode runs a test on both pairs of engines: SQLite with the embedded Redis, and PostgreSQL with a redis-server.
func eachNode(t *testing.T, test func(t *testing.T, n node)) {
	t.Helper()
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		test(t, newNode(w))
	})
}

// markSeen returns the command that marks notifications seen. The mark must be valid.
func (n node) markSeen(user services.UserID, categories []services.Category, upTo services.NotificationID) *jobs.Command {
	n.TB.Helper()
	cmd, err := n.service.MarkSeen(user, categories, upTo)
	n.Must(err)
	return cmd
}

// commit advances the clock by a second, commits a command, and returns its error. It runs no jobs.
func (n node) commit(cmd *jobs.Command) error {
	n.TB.Helper()
	n.Clock.Advance(time.Second)
	return n.Fanout.Commit(n.TB.Context(), cmd)[0]
}

// like returns the command that likes a post. As the command of services/feed does, it writes the fact and the job that notifies. That
// package is a layer above, so these tests cannot use it.
func (n node) like(user services.UserID, post services.PostID) *jobs.Command {
	return n.newLikeCommand(user, post, func(ctx context.Context, tx *sql.Tx) (bool, error) {
		return posts.InsertLike(ctx, tx, post, user, tx.NewID(n.IDs).OrderedTime())
	})
}

// unlike returns the command that ends a like.
func (n node) unlike(user services.UserID, post services.PostID) *jobs.Command {
	return n.newLikeCommand(user, post, func(ctx context.Context, tx *sql.Tx) (bool, error) { return posts.DeleteLike(ctx, tx, post, user) })
}

// newLikeCommand makes the command that changes a like, with the job of its cause.
func (n node) newLikeCommand(user services.UserID, id services.PostID, change func(context.Context, *sql.Tx) (bool, error)) *jobs.Command {
	return &jobs.Command{Name: "like", Actor: user, Apply: func(ctx context.Context, tx *sql.Tx) ([]string, error) {
		post, err := posts.LockVisibleShared(ctx, tx, user, "postId", id)
		if err != nil {
			return nil, err
		}
		if changed, err := change(ctx, tx); err != nil || !changed {
			return nil, cmp.Or(err, jobs.ErrUnchanged)
		}
		job, err := NotifyJob(Cause{Recipient: post.Author, Category: services.CategoryLike, Subject: services.SortableID(id), Actor: user})
		if err != nil {
			return nil, err
		}
		return nil, jobs.Enqueue(ctx, tx, job)
	}}
}

// commitAndRunJobs runs a command and all jobs that follow from it.
func (n node) commitAndRunJobs(cmd *jobs.Command) {
	n.TB.Helper()
	n.Must(n.commit(cmd))
	n.RunAllJobs(n.Fanout)
}

// states are a user's states according to the facts.
func (n node) states(user services.UserID) []categoryState {
	n.TB.Helper()
	states, err := statesOfUser(n.TB.Context(), n.DB, user)
	n.Must(err)
	return states
}

// unseenCount is the number of groups that a user has not seen. It checks that the facts and the document agree.
func (n node) unseenCount(user services.UserID) (count int) {
	n.TB.Helper()
	n.CheckAgainstFacts(user)
	for _, state := range n.states(user) {
		count += state.OlderUnseen
		for _, groups := range state.UnseenByDay {
			count += groups
		}
	}
	return count
}

// wantUnseen checks how many groups the user has not seen.
func (n node) wantUnseen(user services.UserID, when string, want int) {
	n.TB.Helper()
	if got := n.unseenCount(user); got != want {
		n.TB.Errorf("%s: %d are unseen, want %d", when, got, want)
	}
}

func TestLikesOfOnePostAreOneGroup(t *testing.T) {
	eachNode(t, func(t *testing.T, n node) {
		users := n.MakeUsers(4)
		author := users[0]
		first, second := n.Post(author), n.Post(author)
		n.commitAndRunJobs(n.like(users[1], first))
		n.wantUnseen(author, "a like", 1)
		n.commitAndRunJobs(n.like(users[2], first))
		n.wantUnseen(author, "another's like of the same post", 1)
		n.commitAndRunJobs(n.like(users[3], second))
		n.wantUnseen(author, "a like of another post", 2)
		n.wantUnseen(users[1], "for who liked", 0)
	})
}

// A like counts once and is undone by an unlike, however often both are repeated.
func TestRepeatedLikesAndUnlikes(t *testing.T) {
	eachNode(t, func(t *testing.T, n node) {
		users := n.MakeUsers(2)
		author, liker := users[0], users[1]
		post := n.Post(author)
		for range 3 {
			n.commitAndRunJobs(n.like(liker, post))
			n.wantUnseen(author, "liked", 1)
			again := n.like(liker, post)
			if err := n.commit(again); err != nil || again.Changed() {
				t.Errorf("liked twice: %v, changed %t", err, again.Changed())
			}
			n.commitAndRunJobs(n.unlike(liker, post))
			n.wantUnseen(author, "unliked", 0)
			again = n.unlike(liker, post)
			if err := n.commit(again); err != nil || again.Changed() {
				t.Errorf("unliked twice: %v, changed %t", err, again.Changed())
			}
		}
	})
}

// Late jobs read the present facts: if a like is undone before its job runs, nothing is left.
func TestALikeUndoneBeforeItsJobLeavesNothing(t *testing.T) {
	eachNode(t, func(t *testing.T, n node) {
		users := n.MakeUsers(2)
		post := n.Post(users[0])
		n.Must(n.commit(n.like(users[1], post)))
		n.Must(n.commit(n.unlike(users[1], post)))
		n.RunAllJobs(n.Fanout)
		n.wantUnseen(users[0], "taken back at once", 0)
		n.Must(n.commit(n.like(users[1], post)))
		n.Must(n.commit(n.unlike(users[1], post)))
		n.Must(n.commit(n.like(users[1], post)))
		n.RunAllJobs(n.Fanout)
		n.wantUnseen(users[0], "liked in the end", 1)
	})
}

// A seen like stays seen when it is undone and comes back.
func TestARepeatedLikeStaysSeen(t *testing.T) {
	eachNode(t, func(t *testing.T, n node) {
		users := n.MakeUsers(2)
		author, liker := users[0], users[1]
		post := n.Post(author)
		n.commitAndRunJobs(n.like(liker, post))
		n.commitAndRunJobs(n.markSeen(author, nil, 0))
		n.wantUnseen(author, "seen", 0)
		n.commitAndRunJobs(n.unlike(liker, post))
		n.commitAndRunJobs(n.like(liker, post))
		n.wantUnseen(author, "the same like again", 0)
	})
}

func TestALikeOfADeletedPostDoesNotCount(t *testing.T) {
	eachNode(t, func(t *testing.T, n node) {
		users := n.MakeUsers(3)
		author := users[0]
		post, other := n.Post(author), n.Post(author)
		n.commitAndRunJobs(n.like(users[1], post))
		n.commitAndRunJobs(n.like(users[1], other))
		n.Write(func(ctx context.Context, tx *sql.Tx) error {
			if _, _, err := posts.Delete(ctx, tx, post); err != nil {
				return err
			}
			job, err := NotifyJob(Cause{Recipient: author, Category: services.CategoryLike, Subject: services.SortableID(post)})
			if err != nil {
				return err
			}
			return jobs.Enqueue(ctx, tx, job, fanout.RemovePostJob(post))
		})
		n.RunAllJobs(n.Fanout)
		n.wantUnseen(author, "one of two posts deleted", 1)
	})
}

// A mark clears the notifications that were shown: those after the newest shown one still count, and the mark only grows.
func TestSeenUpToAPosition(t *testing.T) {
	eachNode(t, func(t *testing.T, n node) {
		users := n.MakeUsers(2)
		author, liker := users[0], users[1]
		var positions []services.NotificationID
		for range 3 {
			n.commitAndRunJobs(n.like(liker, n.Post(author)))
			positions = append(positions, n.Document(author).Notifications[0].Newest)
		}
		for _, look := range []struct {
			upTo services.NotificationID
			left int
		}{{positions[0], 2}, {positions[1], 1}, {positions[0], 1}, {0, 0}, {positions[1], 0}} {
			n.commitAndRunJobs(n.markSeen(author, []services.Category{services.CategoryLike}, look.upTo))
			n.wantUnseen(author, "seen up to "+look.upTo.String(), look.left)
		}
		if err := n.commit(n.markSeen(author, nil, positions[2]+1)); services.CodeOf(err) != services.Invalid {
			t.Errorf("beyond the newest: %v", err)
		}
		n.commitAndRunJobs(n.like(liker, n.Post(author)))
		n.wantUnseen(author, "a like after the look", 1)
	})
}

// A user's own mark is in the document before any job has run.
func TestAUsersOwnMarkIsVisibleAtOnce(t *testing.T) {
	eachNode(t, func(t *testing.T, n node) {
		users := n.MakeUsers(2)
		n.commitAndRunJobs(n.like(users[1], n.Post(users[0])))
		cmd := n.markSeen(users[0], nil, 0)
		n.Must(n.commit(cmd))
		if days := n.Document(users[0]).Notifications[0].CountByDay; days[0] != 0 || cmd.ProjectionsStale() {
			t.Errorf("the document says %v, behind %t", days, cmd.ProjectionsStale())
		}
		n.RunAllJobs(n.Fanout)
		n.wantUnseen(users[0], "after the jobs", 0)
	})
}

// A user who never had a notification may mark all the same; a category named twice is marked once.
func TestMarksWithoutNotificationsAndOfOneCategoryTwice(t *testing.T) {
	eachNode(t, func(t *testing.T, n node) {
		users := n.MakeUsers(2)
		n.commitAndRunJobs(n.markSeen(users[1], nil, 0))
		n.wantUnseen(users[1], "nothing to see", 0)
		n.commitAndRunJobs(n.like(users[1], n.Post(users[0])))
		twice := []services.Category{services.CategoryLike, services.CategoryLike}
		n.commitAndRunJobs(n.markSeen(users[0], twice, 0))
		n.wantUnseen(users[0], "seen", 0)
		if twice[0] != services.CategoryLike || len(twice) != 2 {
			t.Error("the caller's list was changed")
		}
	})
}

// A list of notifications that is empty is a mistake, and means neither all of them nor none.
func TestAnEmptyListOfNotificationsIsRefused(t *testing.T) {
	eachNode(t, func(t *testing.T, n node) {
		user := n.MakeUsers(1)[0]
		none := []services.NotificationID{}
		for name, read := range map[string]ReadSelection{
			"alone": {IDs: none}, "beside all": {IDs: none, All: true}, "beside categories": {IDs: none, Categories: services.Categories},
			"beside a position": {IDs: none, UpTo: 1}, "as it was shown": {UpToPositions: none},
		} {
			if _, err := n.service.MarkRead(user, read); services.CodeOf(err) != services.Invalid || !strings.HasPrefix(err.Error(), "ids") {
				t.Errorf("%s: %v, want INVALID for ids", name, err)
			}
		}
		for name, read := range map[string]ReadSelection{
			"one as it was shown": {IDs: none, UpToPositions: []services.NotificationID{1}}, "all": {All: true}, "categories": {Categories: services.Categories},
		} {
			if _, err := n.service.MarkRead(user, read); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// When many users like one post at once, each like is stored, and the author has one group.
func TestConcurrentLikesOfAPostFormOneGroup(t *testing.T) {
	eachNode(t, func(t *testing.T, n node) {
		users := n.MakeUsers(21)
		author := users[0]
		post := n.Post(author)
		var together sync.WaitGroup
		errs := make([]error, len(users))
		for i, liker := range users[1:] {
			together.Go(func() { errs[i] = n.Fanout.Commit(t.Context(), n.like(liker, post))[0] })
		}
		together.Wait()
		for _, err := range errs {
			n.Must(err)
		}
		n.RunAllJobs(n.Fanout)
		n.wantUnseen(author, "twenty likes", 1)
		for _, liker := range users[1:] {
			n.Must(n.commit(n.unlike(liker, post)))
		}
		n.RunAllJobs(n.Fanout)
		n.wantUnseen(author, "none left", 0)
	})
}
