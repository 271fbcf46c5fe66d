package audit_test

import (
	"context"
	"testing"

	"tidings/services"
	"tidings/services/posts"
	"tidings/services/store"
)

func TestWrongCountsOfAPostAreFoundAndMended(t *testing.T) {
	w := world(t, nil)
	user, author := litUser(w)
	a := newAudit(w, auditEvery)
	post := w.Post(user)
	w.Write(func(ctx context.Context, tx *store.Tx) error {
		_, err := posts.InsertLike(ctx, tx.Tx, post, author, tx.Now)
		return err
	})
	w.Quiet(w.Fanout)
	lapOf(w, a)
	if found := a.Stats().Posts; found != 0 {
		t.Errorf("%d posts have wrong counts before anything is spoiled", found)
	}
	w.Write(func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Lines(ctx, "UPDATE post_counts SET likes = 9, comments = 9")
		return err
	})
	lapOf(w, a)
	got, err := posts.Engagements(t.Context(), w.Store.DB, author, []services.PostID{post})
	w.Must(err)
	if want := (services.Engagement{Likes: 1, Liked: true}); got[post] != want || a.Stats().Posts == 0 {
		t.Errorf("the post has the counts %+v, want %+v; %d were found wrong", got[post], want, a.Stats().Posts)
	}
	found := a.Stats().Posts
	lapOf(w, a)
	if again := a.Stats().Posts; again != found {
		t.Errorf("%d more were found wrong in the next lap", again-found)
	}
}
