package fanout_test

import (
	"context"
	"sync/atomic"
	"testing"

	"tidings/services"
	"tidings/services/fanout"
	"tidings/services/fanout/fanouttest"
	"tidings/services/posts"
	"tidings/services/store"
)

// A post is deleted while a lost view is rebuilt, before any one of the reads of its facts. It is not in the view when the
// rebuild has answered.
func TestARebuildReadsAgainWhatWasRemovedMeanwhile(t *testing.T) {
	const firstRead = "positions of a user"
	var left atomic.Int64 // reads before the deletion; the first of a rebuild begins to count
	var waits, met int64
	var remove func()
	w := fanouttest.New(t, fanouttest.Options{Redis: "embedded", Trace: func(statement string) {
		if waits > 0 && statement == firstRead {
			left.Store(waits)
			waits = 0
		}
		if left.Load() > 0 && left.Add(-1) == 0 {
			met++
			remove()
		}
	}})
	users := w.Users(2)
	w.Follow(users[0], users[1])
	for before := int64(1); met == before-1; before++ {
		post := w.Post(users[0])
		w.Quiet(w.Fanout)
		w.Must(w.Redis.Reset(t.Context(), users[1]))
		remove = func() {
			w.Delete(post)
			w.Work(w.Fanout)
		}
		waits = before
		w.Must(w.Projector.Rebuild(t.Context(), users[1]))
		left.Store(0)
		if met == before {
			w.Agree(users[1])
		}
	}
	if met < 4 {
		t.Errorf("the post was deleted before %d reads only: the reads were not met", met)
	}
}

// An author who is pinned while their followers are counted gets the mode of the pin, although the count began before.
func TestAModeIsFoundAgainWhenItsAuthorChangedMeanwhile(t *testing.T) {
	var pin func()
	w := fanouttest.New(t, fanouttest.Options{
		Redis:  "embedded",
		Fanout: func(cfg *fanout.Config) { cfg.Thresholds = services.Thresholds{Big: 1, Huge: 1000} },
		Trace: func(statement string) {
			if now := pin; statement == "count followers" && now != nil {
				pin = nil
				now()
			}
		},
	})
	users := w.Users(2)
	w.Follow(users[0], users[1])
	pin = func() {
		w.Write(func(ctx context.Context, tx *store.Tx) error {
			author, err := posts.LockAuthor(ctx, tx.Tx, users[0])
			if err != nil {
				return err
			}
			big := services.AuthorBig
			author.Pinned = &big
			_, err = posts.PutAuthor(ctx, tx.Tx, author)
			return err
		})
	}
	w.Must(w.Fanout.FindMode(t.Context(), users[0]))
	if mode, err := posts.ModeOf(t.Context(), w.Store.Runner, users[0]); mode != services.AuthorBig || err != nil {
		t.Errorf("the mode is %v, %v; want that of the pin", mode, err)
	}
}
