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

// insertPost inserts a post without a job. The author's mode says whether the post is pulled.
func insertPost(ctx context.Context, tx *sql.Tx, author services.UserID, id services.PostID) error {
	mode, err := posts.ModeOf(ctx, tx.Runner, author)
	if err != nil {
		return err
	}
	post := services.Post{ID: id, Author: author, Kind: services.PostKindPost, Body: "body", Pulled: mode == services.AuthorHuge}
	if err := posts.Insert(ctx, tx, post); err != nil || !post.Pulled {
		return err
	}
	_, err = nodecache.PullChange{Author: author, Post: id}.Append(ctx, tx)
	return err
}

// SetMode writes an author's mode, as if all documents that have to name the author among the pulled authors did so already; see
// posts.PutAuthor.
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
		// The entry is in the same transaction, as in queueAuthorNaming: a node that can read the mode finds the entry in the changelog.
		_, err = nodecache.PullChange{Author: author}.Append(ctx, tx)
		return err
	})
}

// PublishPostWithID publishes a post under an ID that the test made earlier, and enqueues its job.
func (w *World) PublishPostWithID(author services.UserID, id services.PostID) {
	w.TB.Helper()
	w.Write(func(ctx context.Context, tx *sql.Tx) error {
		if err := insertPost(ctx, tx, author, id); err != nil {
			return err
		}
		return jobs.Enqueue(ctx, tx, fanout.FanOutJob(id))
	})
}

// MakeReader makes a reader who follows one author whose posts are pulled, huge, and one whose posts are pushed, small.
func (w *World) MakeReader() (reader, huge, small services.UserID) {
	w.TB.Helper()
	users := w.MakeUsers(3)
	w.SetMode(users[1], services.AuthorHuge)
	w.Follow(users[1], users[0])
	w.Follow(users[2], users[0])
	w.RunJobsAndReadLog()
	return users[0], users[1], users[2]
}

// RunJobsAndReadLog runs all jobs, and brings the node cache up to date with the changelog.
func (w *World) RunJobsAndReadLog() {
	w.TB.Helper()
	w.RunAllJobs(w.Fanout)
	_, err := w.Caches.Changelog.RunOnce(w.TB.Context())
	w.Must(err)
}
