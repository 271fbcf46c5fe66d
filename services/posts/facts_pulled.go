package posts

import (
	"context"
	"time"

	"tidings/services"
	"tidings/services/sql"
)

var (
	// For each author the statement reads one entry more than is wanted: that entry becomes PulledPosts.NextOlder. One statement
	// reads one snapshot, so the version belongs to exactly the posts beside it.
	pulledPosts = sql.NewStatement("pulled posts", `
SELECT p.author, p.id, 0 FROM {rows $1 author BIGINT} AS a CROSS JOIN posts p
WHERE p.author = a.author AND p.pull AND `+feedPostCondition+` AND p.id >= COALESCE((SELECT id FROM posts
	WHERE posts.author = a.author AND pull AND `+feedPostCondition+` ORDER BY id DESC LIMIT 1 OFFSET $2), 0)
UNION ALL
SELECT author, 0, pulled_ver FROM authors WHERE {in author $3 BIGINT}
ORDER BY 1, 2`)

	setPulledVersion = sql.NewStatement("set the version of an author's pulled posts", `UPDATE authors SET pulled_ver = $2 WHERE author = $1`)

	// A pull author may have pulled posts. An author without a row in authors, as most are, is no pull author: hence COALESCE.
	pullAuthorsOfReader = sql.NewStatement("pull authors of a reader", `SELECT followee, since FROM follows
		WHERE follower = $1 AND followee <> $1 AND shown
			AND COALESCE((SELECT pull FROM authors WHERE authors.author = follows.followee), FALSE)
		ORDER BY followee`)

	authorPulls = sql.NewStatement("whether an author is a pull author", `SELECT pull FROM authors WHERE author = $1`)
)

// SetPulledVersion records the version of the changelog at which an author's pulled posts last changed. The caller has appended to
// the changelog in this transaction, so that versions only rise.
func SetPulledVersion(ctx context.Context, tx *sql.Tx, author services.UserID, version uint64) error {
	_, err := tx.Run(ctx, setPulledVersion, author, int64(version))
	return err
}

// Pulled reads the newest pulled posts of authors, at most limit of each. An author without a row in authors is absent. Nodes
// cache the result with its version of the changelog, and apply the later changes to it.
func Pulled(ctx context.Context, db *sql.DB, authors []services.UserID, limit int) (map[services.UserID]PulledPosts, error) {
	found := make(map[services.UserID]PulledPosts)
	err := db.Each(ctx, pulledPosts, []any{sql.ColumnParameter(authors), limit, authors}, func(scan func(...any) error) error {
		var author services.UserID
		var post services.PostID
		var version uint64
		err := scan(&author, &post, &version)
		known := found[author]
		// This is the author's own row, with the version.
		if post == 0 {
			known.ChangelogVersion = version
		} else {
			known.Posts = append(known.Posts, post)
		}
		found[author] = known
		return err
	})
	for author, known := range found {
		if len(known.Posts) > limit {
			known.NextOlder, known.Posts = known.Posts[0], known.Posts[1:]
			found[author] = known
		}
	}
	return found, err
}

// PullAuthorsOf lists the pull authors, who may have pulled posts, that a reader follows and has not muted, and that do not hide from
// the reader, in order of user ID. The reader's document lists these authors.
func PullAuthorsOf(ctx context.Context, db *sql.DB, reader services.UserID) ([]services.FollowedAuthor, error) {
	return sql.ReadRows(ctx, db, pullAuthorsOfReader, []any{reader}, func(scan sql.Scan, author *services.FollowedAuthor) error {
		return scan(&author.Author, &author.ItemsCountAfter)
	})
}

// IsPullAuthor reports whether an author is listed in their followers' documents.
func IsPullAuthor(ctx context.Context, db *sql.DB, author services.UserID) (pulls bool, err error) {
	_, err = db.One(ctx, authorPulls, []any{author}, &pulls)
	return pulls, err
}

var (
	// A row exists while a fan-out with more than one chunk is in flight: readers merge the post into their feeds, because their
	// inboxes may not have it yet.
	insertFanout = sql.NewStatement("begin a fan-out", `INSERT INTO fanouts (post, author, chunks, began_at) VALUES ($1, $2, $3, $4)
		ON CONFLICT (post) DO NOTHING`)

	// decrementFanoutChunks lowers the number of chunks that are left, and returns it.
	decrementFanoutChunks = sql.NewStatement("end a chunk of a fan-out", `UPDATE fanouts SET chunks = chunks - 1 WHERE post = $1 RETURNING chunks`)

	resizeFanout = sql.NewStatement("change the chunks of a fan-out", `UPDATE fanouts SET chunks = $2 WHERE post = $1`)

	deleteFanout = sql.NewStatement("end a fan-out", `DELETE FROM fanouts WHERE post = $1`)

	inFlightFanouts = sql.NewStatement("fan-outs in flight", `SELECT post, author FROM fanouts ORDER BY post`)

	// oldestFanout reads when the oldest fan-out began.
	oldestFanout = sql.NewStatement("the oldest fan-out", `SELECT min(began_at) FROM fanouts`)

	forgetFanouts = sql.NewStatement("forget fan-outs", `DELETE FROM fanouts WHERE began_at < $1 RETURNING post, author`)

	eraseFanouts = sql.NewStatement("erase fan-outs", `DELETE FROM fanouts WHERE post > $2 AND post <= $3 AND author = $1 RETURNING post, author`)
)

// BeginFanout records that a post's fan-out has begun, and its number of chunks. A second call changes nothing: the job that
// splits the fan-out into chunks may run twice.
func BeginFanout(ctx context.Context, tx *sql.Tx, fanout InFlightFanout, chunks int) error {
	_, err := tx.Run(ctx, insertFanout, fanout.Post, fanout.Author, chunks, tx.Now)
	return err
}

// EndFanoutChunk records that a chunk of a fan-out is done, and returns how many are left. The last chunk deletes the fan-out. left is
// -1 if the fan-out was deleted before. It is called in the transaction that ends the chunk's job, so that a chunk counts once.
func EndFanoutChunk(ctx context.Context, tx *sql.Tx, post services.PostID) (left int, err error) {
	found, err := tx.One(ctx, decrementFanoutChunks, []any{post}, &left)
	if err != nil || !found {
		return -1, err
	}
	if left <= 0 {
		_, err = tx.Run(ctx, deleteFanout, post)
	}
	return max(left, 0), err
}

// ResizeFanout sets how many chunks of a fan-out are left. A deleted fan-out stays deleted.
func ResizeFanout(ctx context.Context, tx *sql.Tx, post services.PostID, chunks int) error {
	_, err := tx.Run(ctx, resizeFanout, post, chunks)
	return err
}

// InFlightFanouts lists the fan-outs in more than one chunk that are not done, the oldest first.
func InFlightFanouts(ctx context.Context, db *sql.DB) ([]InFlightFanout, error) {
	return readFanouts(ctx, db, inFlightFanouts)
}

// readFanouts reads the fan-outs that a statement selects or deletes.
func readFanouts(ctx context.Context, r sql.Reader, st sql.Statement, args ...any) ([]InFlightFanout, error) {
	return sql.ReadRows(ctx, r, st, args, func(scan sql.Scan, one *InFlightFanout) error {
		return scan(&one.Post, &one.Author)
	})
}

// ForgetFanouts deletes the fan-outs that began before a time and have not ended, and returns them. In a fan-out that old, a job of
// a chunk has failed for good. The caller notifies the nodes that these fan-outs have ended.
func ForgetFanouts(ctx context.Context, tx *sql.Tx, before time.Time) ([]InFlightFanout, error) {
	return readFanouts(ctx, tx, forgetFanouts, before)
}

// EraseFanouts deletes the fan-outs of an author's posts after one position and up to another, and returns them. The caller notifies
// the nodes that these fan-outs have ended.
func EraseFanouts(ctx context.Context, tx *sql.Tx, author services.UserID, after, end int64) ([]InFlightFanout, error) {
	return readFanouts(ctx, tx, eraseFanouts, author, after, end)
}

// OldestFanout returns when the oldest of InFlightFanouts began, or the zero time when there is none.
func OldestFanout(ctx context.Context, db *sql.DB) (began time.Time, err error) {
	var at sql.NullInt64
	if _, err = db.One(ctx, oldestFanout, nil, &at); err == nil && at.Valid {
		began = sql.FromMicros(at.Int64)
	}
	return began, err
}
