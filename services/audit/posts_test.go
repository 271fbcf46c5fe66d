package audit_test

import (
	"context"
	"maps"
	"testing"

	"tidings/services"
	"tidings/services/posts"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

func TestWrongCountsOfAPostAreRepaired(t *testing.T) {
	w := newFastNode(t, nil)
	user, author := newUserWithFullDocument(w)
	a := newAudit(w, auditLapTime)
	post := w.Post(user)
	comment := services.Post{ID: services.PostID(w.IDs.Next()), Author: author, Kind: services.PostKindComment, Parent: post, OffFeed: true, Body: "well"}
	w.Write(func(ctx context.Context, tx *sql.Tx) error {
		if err := posts.Insert(ctx, tx, comment); err != nil {
			return err
		}
		for _, liked := range []services.PostID{post, comment.ID} {
			if _, err := posts.InsertLike(ctx, tx, liked, author, tx.Now); err != nil {
				return err
			}
		}
		return nil
	})
	w.RunAllJobs(w.Fanout)
	runLap(w, a)
	if found := a.Stats().MiscountedPosts; found != 0 {
		t.Errorf("%d posts have wrong counts before anything is changed", found)
	}
	w.Write(func(ctx context.Context, tx *sql.Tx) error {
		_, err := sqltest.QueryLines(ctx, tx, "UPDATE post_counts SET likes = 9, comments = 9")
		return err
	})
	runLap(w, a)
	got, err := posts.Engagements(t.Context(), w.Store, author, []services.PostID{post, comment.ID})
	w.Must(err)
	want := map[services.PostID]services.Engagement{post: {Likes: 1, Comments: 1, LikedByViewer: true}, comment.ID: {Likes: 1, LikedByViewer: true}}
	if !maps.Equal(got, want) || a.Stats().MiscountedPosts < 2 {
		t.Errorf("the post and its answer have the counts %+v, want %+v; %d were found wrong", got, want, a.Stats().MiscountedPosts)
	}
	found := a.Stats().MiscountedPosts
	runLap(w, a)
	if again := a.Stats().MiscountedPosts; again != found {
		t.Errorf("%d more were found wrong in the next lap", again-found)
	}
}
