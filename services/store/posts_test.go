package store_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/sql/sqltest"
	"tidings/services/store"
)

func TestPosts(t *testing.T) {
	each(t, func(b *bundle) {
		written := time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)
		long := services.Post{ID: services.MaxPostID, Author: 1<<32 - 1, Kind: "COMMENT", Body: strings.Repeat("🦉", 5000), UpdatedAt: written}
		b.write(func(tx *store.Tx) error { return tx.InsertPost(b.ctx, long) })
		b.post(1, 7)
		equal(b.t, must(b.Posts(b.ctx, []services.PostID{7, 8, services.MaxPostID}))(b.t), map[services.PostID]services.Post{
			7:                  {ID: 7, Author: 1, Kind: services.PostKindPost, Body: "body of 0000000000007", UpdatedAt: b.clock.Now()},
			services.MaxPostID: long,
		})
		err := b.Write(b.ctx, func(tx *store.Tx) error { return tx.InsertPost(b.ctx, services.Post{ID: 7, Author: 2}) })
		coded(b.t, err, services.Conflict)
	})
}

func TestDeletePost(t *testing.T) {
	each(t, func(b *bundle) {
		b.post(1, 5, 6, 7)
		b.clock.advance(time.Minute)
		deletedAt := b.clock.Now()
		remove := func(id services.PostID) (post services.Post, deleted bool, err error) {
			err = b.Write(b.ctx, func(tx *store.Tx) (err error) { post, deleted, err = tx.DeletePost(b.ctx, id); return err })
			return post, deleted, err
		}
		gone := services.Post{ID: 6, Author: 1, Kind: services.PostKindPost, Body: "body of 0000000000006", Deleted: true, UpdatedAt: deletedAt}
		post, deleted, err := remove(6)
		equal(b.t, must(post, err)(b.t), gone)
		equal(b.t, deleted, true)
		b.clock.advance(time.Minute)
		post, deleted, err = remove(6)
		equal(b.t, must(post, err)(b.t), gone)
		equal(b.t, deleted, false)
		_, _, err = remove(9)
		coded(b.t, err, services.NotFound)
		equal(b.t, must(b.Posts(b.ctx, []services.PostID{6}))(b.t)[6], gone)
		equal(b.t, b.published(), []services.PostID{7, 5})
		equal(b.t, must(b.AuthorPosts(b.ctx, 1, 1))(b.t), []services.PostID{7})
		err = b.Write(b.ctx, func(tx *store.Tx) error { return tx.InsertPost(b.ctx, services.Post{ID: 6, Author: 1}) })
		coded(b.t, err, services.Conflict) // its id is not free again
	})
}

func TestPostForShare(t *testing.T) {
	each(t, func(b *bundle) {
		b.post(3, 5)
		b.write(func(tx *store.Tx) error {
			post, err := tx.PostForShare(b.ctx, 5)
			if post.Author != 3 || post.Deleted {
				b.t.Errorf("the post is %v", post)
			}
			return err
		})
		err := b.Write(b.ctx, func(tx *store.Tx) error { _, err := tx.PostForShare(b.ctx, 6); return err })
		coded(b.t, err, services.NotFound)
		b.write(func(tx *store.Tx) error {
			_, _, err := tx.DeletePost(b.ctx, 5)
			post, err2 := tx.PostForShare(b.ctx, 5)
			if !post.Deleted {
				b.t.Error("a deleted post stands")
			}
			return errors.Join(err, err2)
		})
	})
}

// A transaction that has read a post for sharing commits before the post can be deleted. Otherwise a like and a deletion that
// do not see each other could both succeed.
func TestPostForShareHoldsOffDeletion(t *testing.T) {
	b := newBundle(t, sqltest.Postgres(t))
	b.post(1, 5)
	held, gate, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	letGo := sync.OnceFunc(func() { close(gate) })
	t.Cleanup(letGo) // before the store's own end, which would wait for ever
	go func() {
		done <- b.Write(b.ctx, func(tx *store.Tx) error {
			_, err := tx.PostForShare(b.ctx, 5)
			close(held)
			<-gate
			_, err2 := tx.InsertLike(b.ctx, 5, 2, tx.Now)
			return errors.Join(err, err2)
		})
	}()
	<-held
	deleted := make(chan error, 1)
	go func() {
		deleted <- b.Write(b.ctx, func(tx *store.Tx) error { _, _, err := tx.DeletePost(b.ctx, 5); return err })
	}()
	eventually(t, "the deletion waits for the row", func() bool {
		return len(must(b.Lines(b.ctx, "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"))(t)) == 1
	})
	letGo()
	if err := errors.Join(<-done, <-deleted); err != nil {
		t.Fatal(err)
	}
	if post := must(b.Posts(b.ctx, []services.PostID{5}))(t)[5]; !post.Deleted {
		t.Error("the post was not deleted after all")
	}
}

func TestLikes(t *testing.T) {
	each(t, func(b *bundle) {
		b.post(1, 5)
		var answers []bool
		b.write(func(tx *store.Tx) error {
			answers = nil
			for _, step := range []func() (bool, error){
				func() (bool, error) { return tx.InsertLike(b.ctx, 5, 2, tx.Now) },
				func() (bool, error) { return tx.InsertLike(b.ctx, 5, 2, tx.Now) },
				func() (bool, error) { return tx.InsertLike(b.ctx, 5, 3, tx.Now) },
				func() (bool, error) { return tx.DeleteLike(b.ctx, 5, 2) },
				func() (bool, error) { return tx.DeleteLike(b.ctx, 5, 2) },
				func() (bool, error) { return tx.InsertLike(b.ctx, 5, 2, tx.Now) },
			} {
				answer, err := step()
				if err != nil {
					return err
				}
				answers = append(answers, answer)
			}
			return nil
		})
		equal(b.t, answers, []bool{true, false, true, true, false, true})
	})
}

func TestPositionsOnlyGrow(t *testing.T) {
	each(t, func(b *bundle) {
		equal(b.t, must(b.Position(b.ctx, 1, store.HomePage, ""))(b.t), services.PostID(0))
		for _, step := range []struct{ to, stands services.PostID }{{7, 7}, {5, 7}, {7, 7}, {9, 9}, {0, 9}, {services.MaxPostID, services.MaxPostID}} {
			b.clock.advance(time.Second)
			var stands services.PostID
			b.write(func(tx *store.Tx) (err error) {
				stands, err = tx.RaisePosition(b.ctx, 1, store.HomePage, "", step.to)
				return err
			})
			equal(b.t, stands, step.stands)
			equal(b.t, must(b.Position(b.ctx, 1, store.HomePage, ""))(b.t), step.stands)
		}
		equal(b.t, must(b.Position(b.ctx, 2, store.HomePage, ""))(b.t), services.PostID(0))
		equal(b.t, must(b.Position(b.ctx, 1, store.HomePage, "x"))(b.t), services.PostID(0))
		equal(b.t, must(b.Position(b.ctx, 1, "topic", ""))(b.t), services.PostID(0))
		rows := must(b.Lines(b.ctx, "SELECT last_access_at - $1 FROM user_access_log", b.clock.Now()))(b.t)
		equal(b.t, rows, []string{"0"}) // a late report is an access too
	})
}

func TestEditPost(t *testing.T) {
	each(t, func(b *bundle) {
		b.post(1, 5, 6)
		b.write(func(tx *store.Tx) error { return tx.InsertPostMentions(b.ctx, 5, []services.UserID{2, 3}) })
		edit := func(body string, mentioned ...services.UserID) (post services.Post) {
			b.write(func(tx *store.Tx) error {
				before, err := tx.PostForUpdate(b.ctx, 5)
				if err != nil {
					return err
				}
				if post, err = tx.EditPost(b.ctx, 5, body, mentioned); !post.UpdatedAt.After(before.UpdatedAt) {
					b.t.Errorf("edited at %v, after %v", post.UpdatedAt, before.UpdatedAt)
				}
				return err
			})
			return post
		}
		began := b.clock.Now()
		edit("two", 3, 4) // in the moment in which it was published
		equal(b.t, must(b.PostMentions(b.ctx, 5))(b.t), []services.UserID{3, 4})
		b.clock.advance(time.Minute)
		equal(b.t, edit("three").UpdatedAt, began.Add(time.Minute))
		b.clock.advance(-time.Hour)
		want := services.Post{ID: 5, Author: 1, Kind: services.PostKindPost, Body: "four", UpdatedAt: began.Add(time.Minute + time.Microsecond)}
		want.EditedAt = want.UpdatedAt // the clock has fallen back, and the time of an edit has not
		equal(b.t, edit("four"), want)
		equal(b.t, must(b.Posts(b.ctx, []services.PostID{5}))(b.t)[5], want)
		equal(b.t, len(must(b.PostMentions(b.ctx, 5))(b.t)), 0)
		equal(b.t, b.published(), []services.PostID{6, 5})
		err := b.Write(b.ctx, func(tx *store.Tx) error { _, err := tx.PostForUpdate(b.ctx, 9); return err })
		coded(b.t, err, services.NotFound)
	})
}
