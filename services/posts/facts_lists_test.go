package posts

import (
	"fmt"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// A post's newest answers and likes are by users who hide from the viewer. If these are few, the page is still full. If they are more
// than a page looks at, the page is short or empty, and reports that the list continues.
func TestPagesSkipHiddenUsersUpToABound(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		const viewer, hider, shown, post = 1, 2, 3, services.PostID(1000)
		b.MakeUsers("viewer", "hider", "shown")
		b.insertPosts(shown, post)
		b.MustWrite(func(tx *sql.Tx) error {
			_, err := sqltest.QueryLines(b.Ctx, tx, `INSERT INTO hides (author, follower, made) VALUES (2, 1, 1)`)
			return err
		})
		add := func(by services.UserID, from, count int) {
			b.MustWrite(func(tx *sql.Tx) error {
				for i := from; i < from+count; i++ {
					answer := services.Post{ID: post + services.PostID(i), Author: by, Kind: services.PostKindComment, Parent: post, OffFeed: true, Body: "b"}
					if err := Insert(b.Ctx, tx, answer); err != nil {
						return err
					}
				}
				return nil
			})
		}
		like := func(by services.UserID, from, count int) {
			b.MustWrite(func(tx *sql.Tx) error {
				for i := from; i < from+count; i++ {
					liker := by + services.UserID(100*i)
					if _, err := InsertLike(b.Ctx, tx, post, liker, time.UnixMicro(int64(1000+i/2))); err != nil {
						return err
					}
					if by == hider {
						if _, err := sqltest.QueryLines(b.Ctx, tx, fmt.Sprintf(`INSERT INTO blocks (blocker, blocked, made) VALUES (%d, 1, %d)`, liker, i)); err != nil {
							return err
						}
					}
				}
				return nil
			})
		}
		walk := func() (answers, likes []int) {
			before, after := services.MaxPostID, BeforeFirstLike
			for more := true; more; {
				page := AnswersPage{Post: post, After: before, Size: 2}
				list := sqltest.Must(Answers(b.Ctx, b.DB, viewer, []AnswersPage{page}))(b.T)[page]
				answers, before, more = append(answers, len(list.Items)), list.Next, list.More
			}
			for more := true; more; {
				page := LikesPage{Post: post, After: after, Size: 2}
				list := sqltest.Must(Likes(b.Ctx, b.DB, viewer, []LikesPage{page}))(b.T)[page]
				likes, after, more = append(likes, len(list.Items)), list.Next, list.More
			}
			return answers, likes
		}
		add(shown, 1, 3)
		add(hider, 10, 200)
		answers, _ := walk()
		sqltest.Equal(b.T, answers, []int{2, 1})
		add(hider, 300, 400)
		add(shown, 900, 1)
		answers, _ = walk()
		sqltest.Equal(b.T, answers, []int{1, 2, 1})
		deleted := post + 902
		add(shown, 902, 1)
		b.MustWrite(func(tx *sql.Tx) error {
			_, _, err := Delete(b.Ctx, tx, deleted)
			return err
		})
		answers, _ = walk()
		sqltest.Equal(b.T, answers, []int{1, 2, 1})

		// A page looks at 303 likes here. The last of them has the same time as the 304th, and both are on that page. The next page
		// begins with the likes before that time.
		like(shown, 2, 1)
		like(shown, 8, 2)
		like(hider, 10, 304)
		_, likes := walk()
		sqltest.Equal(b.T, likes, []int{0, 2, 1})
		like(hider, 400, 400)
		_, likes = walk()
		sqltest.Equal(b.T, likes, []int{0, 0, 2, 1})
	})
}

// All likes of the viewer's own post are listed, except those of users that the viewer blocks: the viewer was notified of them,
// and a gap would reveal that a user hides or blocks. On a post of another author users who hide or block are left out.
func TestLikesOfTheViewersOwnPostIncludeHidingUsers(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		const viewer, hider, blocker, blocked, erased, other = 1, 2, 3, 4, 5, 6
		b.MakeUsers("viewer", "hider", "blocker", "blocked", "erased", "other")
		b.insertPosts(viewer, 1000)
		b.insertPosts(other, 1001)
		b.MustWrite(func(tx *sql.Tx) error {
			for _, text := range []string{
				`INSERT INTO hides (author, follower, made) VALUES (2, 1, 1)`, `INSERT INTO blocks (blocker, blocked, made) VALUES (3, 1, 1)`,
				`INSERT INTO blocks (blocker, blocked, made) VALUES (1, 4, 1)`, `INSERT INTO erasures VALUES ('e', 5, 'erased', 1, 0, 1, '', 0, 0, '')`,
			} {
				if _, err := sqltest.QueryLines(b.Ctx, tx, text); err != nil {
					return err
				}
			}
			for _, post := range []services.PostID{1000, 1001} {
				for _, liker := range []services.UserID{hider, blocker, blocked, erased, other} {
					if _, err := InsertLike(b.Ctx, tx, post, liker, time.UnixMicro(int64(1000+liker))); err != nil {
						return err
					}
				}
			}
			return nil
		})
		own, others := LikesPage{Post: 1000, After: BeforeFirstLike, Size: 2}, LikesPage{Post: 1001, After: BeforeFirstLike, Size: 2}
		walk := func(page LikesPage) (likers []services.UserID) {
			for more := true; more; {
				list := sqltest.Must(Likes(b.Ctx, b.DB, viewer, []LikesPage{page, {Post: 7, After: BeforeFirstLike, Size: 2}}))(b.T)[page]
				for _, like := range list.Items {
					likers = append(likers, like.By.ID)
				}
				page.After, more = list.Next, list.More
			}
			return likers
		}
		sqltest.Equal(b.T, walk(own), []services.UserID{other, blocker, hider})
		sqltest.Equal(b.T, walk(others), []services.UserID{other})
	})
}
