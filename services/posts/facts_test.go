package posts

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
	"tidings/tests/eventually"
)

func TestPosts(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		written := time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)
		long := services.Post{ID: services.MaxPostID, Author: 1<<32 - 1, Kind: "COMMENT", Body: strings.Repeat("🦉", 5000), UpdatedAt: written}
		b.MustWrite(func(tx *sql.Tx) error { return Insert(b.Ctx, tx, long) })
		b.insertPosts(1, 7)
		sqltest.Equal(b.T, sqltest.Must(ByID(b.Ctx, b.DB, []services.PostID{7, 8, services.MaxPostID}))(b.T), map[services.PostID]services.Post{
			7:                  {ID: 7, Author: 1, Kind: services.PostKindPost, Body: "body of 0000000000007", UpdatedAt: b.Clock.Now()},
			services.MaxPostID: long,
		})
		err := b.Write(b.Ctx, func(tx *sql.Tx) error { return Insert(b.Ctx, tx, services.Post{ID: 7, Author: 2}) })
		sqltest.WantCode(b.T, err, services.Conflict)
	})
}

func TestDeletePost(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		b.insertPosts(1, 5, 6, 7)
		b.Clock.Advance(time.Minute)
		deletedAt := b.Clock.Now()
		remove := func(id services.PostID) (post services.Post, deleted bool, err error) {
			err = b.Write(b.Ctx, func(tx *sql.Tx) (err error) { post, deleted, err = Delete(b.Ctx, tx, id); return err })
			return post, deleted, err
		}
		gone := services.Post{ID: 6, Author: 1, Kind: services.PostKindPost, Body: "body of 0000000000006", Deleted: true, UpdatedAt: deletedAt}
		post, deleted, err := remove(6)
		sqltest.Equal(b.T, sqltest.Must(post, err)(b.T), gone)
		sqltest.Equal(b.T, deleted, true)
		b.Clock.Advance(time.Minute)
		post, deleted, err = remove(6)
		sqltest.Equal(b.T, sqltest.Must(post, err)(b.T), gone)
		sqltest.Equal(b.T, deleted, false)
		_, _, err = remove(9)
		sqltest.WantCode(b.T, err, services.NotFound)
		sqltest.Equal(b.T, sqltest.Must(ByID(b.Ctx, b.DB, []services.PostID{6}))(b.T)[6], gone)
		sqltest.Equal(b.T, b.listPublished(), []services.PostID{7, 5})
		sqltest.Equal(b.T, sqltest.Must(PushedPostsOfAuthor(b.Ctx, b.DB, 1, 1))(b.T), []services.PostID{7})
		err = b.Write(b.Ctx, func(tx *sql.Tx) error { return Insert(b.Ctx, tx, services.Post{ID: 6, Author: 1}) })
		sqltest.WantCode(b.T, err, services.Conflict) // its ID cannot be used again
	})
}

// LockShared returns a post, deleted or not, and NOT_FOUND for an unknown ID.
func TestLockShared(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		b.insertPosts(3, 5)
		b.MustWrite(func(tx *sql.Tx) error {
			post, err := LockShared(b.Ctx, tx, 5)
			if post.Author != 3 || post.Deleted {
				b.T.Errorf("the post is %v", post)
			}
			return err
		})
		err := b.Write(b.Ctx, func(tx *sql.Tx) error { _, err := LockShared(b.Ctx, tx, 6); return err })
		sqltest.WantCode(b.T, err, services.NotFound)
		b.MustWrite(func(tx *sql.Tx) error {
			_, _, err := Delete(b.Ctx, tx, 5)
			post, err2 := LockShared(b.Ctx, tx, 5)
			if !post.Deleted {
				b.T.Error("a deleted post stands")
			}
			return errors.Join(err, err2)
		})
	})
}

// A transaction that locks a post commits before the post can be deleted. Otherwise a like and a deletion that do not see each
// other could both succeed.
func TestLockSharedDelaysADeletion(t *testing.T) {
	b := newTestDB(t, sqltest.Postgres(t))
	b.insertPosts(1, 5)
	held, gate, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	letGo := sync.OnceFunc(func() { close(gate) })
	t.Cleanup(letGo) // before the database is closed, which would wait for it forever
	go func() {
		done <- b.Write(b.Ctx, func(tx *sql.Tx) error {
			_, err := LockShared(b.Ctx, tx, 5)
			close(held)
			<-gate
			_, err2 := InsertLike(b.Ctx, tx, 5, 2, tx.Now)
			return errors.Join(err, err2)
		})
	}()
	<-held
	deleted := make(chan error, 1)
	go func() {
		deleted <- b.Write(b.Ctx, func(tx *sql.Tx) error { _, _, err := Delete(b.Ctx, tx, 5); return err })
	}()
	eventually.Succeeds(t, 20*time.Second, "the deletion waits for the row", func() error {
		lines, err := sqltest.QueryLines(b.Ctx, b, "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")
		if err == nil && len(lines) != 1 {
			err = fmt.Errorf("%d wait", len(lines))
		}
		return err
	})
	letGo()
	if err := errors.Join(<-done, <-deleted); err != nil {
		t.Fatal(err)
	}
	if post := sqltest.Must(ByID(b.Ctx, b.DB, []services.PostID{5}))(t)[5]; !post.Deleted {
		t.Error("the post was not deleted after all")
	}
}

func TestLikes(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		b.insertPosts(1, 5)
		var answers []bool
		b.MustWrite(func(tx *sql.Tx) error {
			answers = nil
			for _, step := range []func() (bool, error){
				func() (bool, error) { return InsertLike(b.Ctx, tx, 5, 2, tx.Now) },
				func() (bool, error) { return InsertLike(b.Ctx, tx, 5, 2, tx.Now) },
				func() (bool, error) { return InsertLike(b.Ctx, tx, 5, 3, tx.Now) },
				func() (bool, error) { return DeleteLike(b.Ctx, tx, 5, 2) },
				func() (bool, error) { return DeleteLike(b.Ctx, tx, 5, 2) },
				func() (bool, error) { return InsertLike(b.Ctx, tx, 5, 2, tx.Now) },
			} {
				answer, err := step()
				if err != nil {
					return err
				}
				answers = append(answers, answer)
			}
			return nil
		})
		sqltest.Equal(b.T, answers, []bool{true, false, true, true, false, true})
	})
}

func TestEditPost(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		b.insertPosts(1, 5, 6)
		b.MustWrite(func(tx *sql.Tx) error { return InsertMentions(b.Ctx, tx, 5, []services.UserID{2, 3}, nil) })
		sqltest.Equal(b.T, sqltest.Must(Mentions(b.Ctx, b.DB.Runner, 5))(b.T), []Mention{{User: 2}, {User: 3}})
		edit := func(body string, mentioned ...services.UserID) (post services.Post) {
			b.MustWrite(func(tx *sql.Tx) error {
				before, err := Lock(b.Ctx, tx, 5)
				if err != nil {
					return err
				}
				mentions := make([]Mention, len(mentioned))
				for i, user := range mentioned {
					mentions[i] = Mention{User: user, EditTimeID: 8}
				}
				if post, err = Edit(b.Ctx, tx, 5, body, mentions, mentioned[:min(1, len(mentioned))]); !post.UpdatedAt.After(before.UpdatedAt) {
					b.T.Errorf("edited at %v, after %v", post.UpdatedAt, before.UpdatedAt)
				}
				return err
			})
			return post
		}
		began := b.Clock.Now()
		edit("two", 3, 4) // in the millisecond of its publication
		sqltest.Equal(b.T, sqltest.Must(Mentions(b.Ctx, b.DB.Runner, 5))(b.T), []Mention{{3, 8}, {4, 8}})
		b.Clock.Advance(time.Minute)
		sqltest.Equal(b.T, edit("three").UpdatedAt, began.Add(time.Minute))
		b.Clock.Advance(-time.Hour)
		want := services.Post{ID: 5, Author: 1, Kind: services.PostKindPost, Body: "four", UpdatedAt: began.Add(time.Minute + time.Microsecond)}
		want.EditedAt = want.UpdatedAt // the clock was set back, but the time of an edit never goes back
		sqltest.Equal(b.T, edit("four"), want)
		sqltest.Equal(b.T, sqltest.Must(ByID(b.Ctx, b.DB, []services.PostID{5}))(b.T)[5], want)
		sqltest.Equal(b.T, len(sqltest.Must(Mentions(b.Ctx, b.DB.Runner, 5))(b.T)), 0)
		sqltest.Equal(b.T, b.listPublished(), []services.PostID{6, 5})
		err := b.Write(b.Ctx, func(tx *sql.Tx) error { _, err := Lock(b.Ctx, tx, 9); return err })
		sqltest.WantCode(b.T, err, services.NotFound)
	})
}
