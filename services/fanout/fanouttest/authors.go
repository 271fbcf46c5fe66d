package fanouttest

import (
	"context"

	"tidings/services"
	"tidings/services/fanout"
	"tidings/services/jobs"
	"tidings/services/nodecache"
	"tidings/services/posts"
	"tidings/services/sql"
)

// insert publishes a post in its author's mode.
func insert(ctx context.Context, tx *sql.Tx, author services.UserID, id services.PostID) error {
	mode, err := posts.ModeOf(ctx, tx.Runner, author)
	if err != nil {
		return err
	}
	post := services.Post{ID: id, Author: author, Kind: services.PostKindPost, Body: "body", Pull: mode == services.AuthorHuge}
	if err := posts.Insert(ctx, tx, post); err != nil || !post.Pull {
		return err
	}
	_, err = nodecache.PullChange{Author: author, Post: id}.Append(ctx, tx)
	return err
}

// SetMode writes an author's mode, as if all documents that have to name the author did so already; see posts.PutAuthor.
func (w *World) SetMode(author services.UserID, mode services.AuthorMode) {
	w.TB.Helper()
	w.Write(func(ctx context.Context, tx *sql.Tx) error {
		known, err := posts.LockAuthor(ctx, tx, author)
		if err != nil {
			return err
		}
		known.Mode = mode
		if _, err := posts.PutAuthor(ctx, tx, known); err != nil {
			return err
		}
		// In the same transaction, as beginNaming does: a node that reads the mode reads the log up to here as well.
		_, err = nodecache.PullChange{Author: author}.Append(ctx, tx)
		return err
	})
}

// PostAs publishes under an id that was made earlier.
func (w *World) PostAs(author services.UserID, id services.PostID) {
	w.TB.Helper()
	w.Write(func(ctx context.Context, tx *sql.Tx) error {
		if err := insert(ctx, tx, author, id); err != nil {
			return err
		}
		return jobs.Enqueue(ctx, tx, fanout.FanOutJob(id))
	})
}
