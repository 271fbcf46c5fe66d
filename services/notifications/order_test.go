package notifications

import (
	"context"
	"slices"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/posts"
	"tidings/services/sql"
)

// subjects are the posts that notifications are about, in their order.
func subjects(list []Notification) (posts []services.PostID) {
	for _, n := range list {
		posts = append(posts, services.PostID(n.Subject))
	}
	return posts
}

// readAllPages is the whole list of a user, read by pages of the given size.
func (n node) readAllPages(user services.UserID, size int) (list []Notification) {
	n.TB.Helper()
	var before Position
	for {
		page, err := n.service.Page(n.TB.Context(), user, PageQuery{Before: before, First: size})
		n.Must(err)
		list = append(list, page.Notifications...)
		if !page.More {
			return list
		}
		before = page.Next
	}
}

// likeWithFirstJobDelayed likes posts in their order. The job of the first like is claimed and not run, as by a node that was
// killed: only RunAllJobs runs it, when the lease has ended.
func (n node) likeWithFirstJobDelayed(liker services.UserID, posts []services.PostID) {
	n.TB.Helper()
	n.RunAllJobs(n.Fanout)
	n.Must(n.commit(n.like(liker, posts[0])))
	held, err := jobs.Claim(n.TB.Context(), n.DB, []string{"notify"}, 1, time.Minute, 0)
	if n.Must(err); len(held) != 1 {
		n.TB.Fatalf("%d jobs were held back, want 1", len(held))
	}
	for _, post := range posts[1:] {
		n.Must(n.commit(n.like(liker, post)))
	}
	n.RunDueJobs(n.Fanout)
}

func TestListIsNewestFirstWhenAJobComesLate(t *testing.T) {
	eachNode(t, func(t *testing.T, n node) {
		users := n.MakeUsers(2)
		author := users[0]
		posts := n.InsertPosts(author, 4)
		n.likeWithFirstJobDelayed(users[1], posts)
		if got, want := subjects(n.readAllPages(author, 10)), []services.PostID{posts[3], posts[2], posts[1]}; !slices.Equal(got, want) {
			t.Fatalf("before the late one %v are listed, want %v", got, want)
		}
		n.RunAllJobs(n.Fanout)
		for size := 1; size <= 5; size++ {
			if got, want := subjects(n.readAllPages(author, size)), []services.PostID{posts[3], posts[2], posts[1], posts[0]}; !slices.Equal(got, want) {
				t.Errorf("by pages of %d %v are listed, want %v", size, got, want)
			}
		}
	})
}

// A like whose job comes late does not move its group up, and its user is listed by the like's time.
func TestALateLikeDoesNotMoveItsGroupUp(t *testing.T) {
	eachNode(t, func(t *testing.T, n node) {
		users := n.MakeUsers(4)
		author := users[0]
		posts := n.InsertPosts(author, 2)
		n.likeWithFirstJobDelayed(users[1], posts[:1])
		n.commitAndRunJobs(n.like(users[2], posts[0]))
		at := n.readAllPages(author, 1)[0].At
		n.commitAndRunJobs(n.like(users[3], posts[1]))
		n.RunAllJobs(n.Fanout)
		list := n.readAllPages(author, 10)
		if got := subjects(list); !slices.Equal(got, []services.PostID{posts[1], posts[0]}) {
			t.Fatalf("listed are %v", got)
		}
		if joined := list[1]; !slices.Equal(joined.SampleActors, []services.UserID{users[2], users[1]}) || !joined.At.Equal(at) || joined.Seen {
			t.Errorf("the group is %+v, want %v and %v at %v", joined, users[2], users[1], at)
		}
	})
}

// A cause that arrives after a list was read is not covered by a mark of that list, even if it sorts below the first entry. A
// mark of a later list, which shows the cause, covers it.
func TestAMarkCoversOnlyTheListThatWasRead(t *testing.T) {
	for name, mark := range map[string]func(n node, user services.UserID, first Notification){
		"seen": func(n node, user services.UserID, first Notification) {
			n.commitAndRunJobs(n.markSeen(user, nil, max(first.NewestPosition, first.MarkAllUpTo)))
		},
		"read": func(n node, user services.UserID, first Notification) {
			op, err := n.service.MarkRead(user, ReadSelection{UpTo: max(first.NewestPosition, first.MarkAllUpTo)})
			n.Must(err)
			n.commitAndRunJobs(op)
		},
		"all read": func(n node, user services.UserID, first Notification) {
			op, err := n.service.MarkAllRead(user, max(first.NewestPosition, first.MarkAllUpTo), "")
			n.Must(err)
			n.commitAndRunJobs(op)
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachNode(t, func(t *testing.T, n node) {
				users := n.MakeUsers(2)
				author := users[0]
				posts := []services.PostID{n.Post(author), n.Post(author), n.Post(author)}
				n.likeWithFirstJobDelayed(users[1], posts)
				shown := n.readAllPages(author, 10)
				n.RunAllJobs(n.Fanout)
				n.wantUnseen(author, "the late one has come", 3)
				mark(n, author, shown[0])
				n.wantUnseen(author, "marked what was shown before it came", 1)
				list := n.readAllPages(author, 10)
				if list[0].Seen != true || list[2].Subject != services.SortableID(posts[0]) || list[2].Seen {
					t.Fatalf("the list is %+v", list)
				}
				mark(n, author, list[0])
				n.wantUnseen(author, "marked what was shown with it", 0)
				if again := n.readAllPages(author, 10)[0]; name != "seen" && again.MarkAllUpTo != 0 {
					t.Errorf("all is read, and a mark reaches to %v", again.MarkAllUpTo)
				}
			})
		})
	}
}

// Facts of one microsecond are ordered by their keys, so that the order does not depend on their arrival.
func TestTheOrderOfAListDoesNotDependOnArrival(t *testing.T) {
	eachNode(t, func(t *testing.T, n node) {
		users := n.MakeUsers(3)
		likers := []services.UserID{users[1], users[2]}
		want := []int{3, 2, 1, 0} // the later microsecond first, then the later post
		for _, order := range [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}, {2, 0, 3, 1}, {1, 3, 0, 2}} {
			author := n.MakeUsers(1)[0]
			liked := n.InsertPosts(author, 4)
			at := n.Clock.Now().Truncate(time.Hour)
			n.Write(func(ctx context.Context, tx *sql.Tx) error {
				for i, post := range liked {
					if _, err := posts.InsertLike(ctx, tx, post, likers[i%2], at.Add(time.Duration(i/2)*time.Microsecond)); err != nil {
						return err
					}
				}
				return nil
			})
			for _, i := range order {
				n.Write(func(ctx context.Context, tx *sql.Tx) error {
					_, err := applyCauses(ctx, tx, []Cause{{Recipient: author, Category: services.CategoryLike, Subject: services.SortableID(liked[i]), Actor: likers[i%2]}})
					return err
				})
			}
			var got []int
			for _, post := range subjects(n.readAllPages(author, 1)) {
				got = append(got, slices.Index(liked, post))
			}
			if len(got) != 4 || !slices.Equal(got, want) {
				t.Errorf("applied in the order %v the list is %v, want %v", order, got, want)
			}
		}
	})
}
