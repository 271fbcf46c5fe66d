package posts

import (
	"context"

	"tidings/services"
	"tidings/services/sql"
)

// authorColumns are the columns that scanAuthor reads, in its order.
const authorColumns = `SELECT author, followers, counted_at, mode, pinned, pull, unnamed, ver FROM authors `

var (
	authorMode = sql.NewStatement("an author's mode", `SELECT mode FROM authors WHERE author = $1`)

	authorsByID = sql.NewStatement("authors by ID", authorColumns+`WHERE {in author $1 BIGINT}`)

	lockAuthor = sql.NewStatement("lock an author", authorColumns+`WHERE author = $1 {for update}`)

	// LockAuthor needs a row: FOR UPDATE locks nothing if there is none.
	ensureAuthor = sql.NewStatement("ensure an author", `INSERT INTO authors (author, followers, counted_at, mode, pinned, pull, unnamed, ver)
		VALUES ($1, 0, 0, 0, NULL, FALSE, 0, 0) ON CONFLICT (author) DO NOTHING`)

	// ver rises with each write: nodes keep the newest version.
	putAuthor = sql.NewStatement("put an author", `INSERT INTO authors AS a (author, followers, counted_at, mode, pinned, pull, unnamed, ver)
		VALUES ($1, $2, $3, $4, $5, $6, $7, 1)
		ON CONFLICT (author) DO UPDATE SET followers = excluded.followers, counted_at = excluded.counted_at, mode = excluded.mode,
			pinned = excluded.pinned, pull = excluded.pull, unnamed = excluded.unnamed, ver = a.ver + 1
		RETURNING ver`)

	// unnamed is the number of chunks of followers whose documents do not list the author yet.
	decrementUnnamedChunks = sql.NewStatement("end a chunk of an author", `UPDATE authors SET unnamed = unnamed - 1, ver = ver + 1
		WHERE author = $1 AND unnamed > 0 RETURNING unnamed`)

	authorsAfter = sql.NewStatement("authors with a row", `SELECT author FROM authors WHERE author > $1 ORDER BY author LIMIT $2`)

	// authorsWithManyFollowers walks the whole index of followees, so only rare jobs run it.
	authorsWithManyFollowers = sql.NewStatement("authors that many follow", `SELECT followee FROM follows WHERE followee > $1
		GROUP BY followee HAVING count(*) >= $2 ORDER BY followee LIMIT $3`)

	// pullAuthors lists the authors whose row has pull set: they may have pulled posts, and their followers' documents list them or soon
	// will.
	pullAuthors = sql.NewStatement("pull authors", `SELECT author FROM authors WHERE pull AND author > $1 ORDER BY author LIMIT $2`)

	// The count ends at a limit: beyond the greatest threshold the number does not matter.
	countFollowers = sql.NewStatement("count followers",
		`SELECT count(*) FROM (SELECT 1 FROM follows WHERE followee = $1 LIMIT $2) AS counted`)

	// The thresholds are the numbers of followers from which an author is big, and huge.
	readThresholds = sql.NewStatement("read the thresholds", `SELECT big, huge FROM fanout_thresholds WHERE name = $1`)

	setThresholds = sql.NewStatement("set the thresholds", `INSERT INTO fanout_thresholds (name, big, huge) VALUES ($1, $2, $3)
		ON CONFLICT (name) DO UPDATE SET big = excluded.big, huge = excluded.huge`)
)

// thresholdsRowName is the name of the one row of fanout_thresholds. All nodes share it: if their thresholds differed, an author's
// mode could change with each count of their followers.
const thresholdsRowName = "authors"

// ModeOf returns how an author's posts reach followers now. It costs one look-up, for any number of followers. An author without
// a row is small.
func ModeOf(ctx context.Context, r sql.Runner, author services.UserID) (mode services.AuthorMode, err error) {
	_, err = r.One(ctx, authorMode, []any{author}, &mode)
	return mode, err
}

// Authors reads authors by user ID. An author without a row, who is small, is absent.
func Authors(ctx context.Context, r sql.Reader, ids []services.UserID) (map[services.UserID]services.Author, error) {
	authors := make(map[services.UserID]services.Author, len(ids))
	err := r.Each(ctx, authorsByID, []any{ids}, func(scan func(...any) error) error {
		author, err := scanAuthor(scan)
		authors[author.ID] = author
		return err
	})
	return authors, err
}

// LockAuthor reads an author and locks the row until this transaction ends. An author without a row gets one. The lock makes
// counts, pins and changes of the mode run one after the other.
func LockAuthor(ctx context.Context, tx *sql.Tx, id services.UserID) (author services.Author, err error) {
	if _, err := tx.Run(ctx, ensureAuthor, id); err != nil {
		return author, err
	}
	err = tx.Each(ctx, lockAuthor, []any{id}, func(scan func(...any) error) (err error) {
		author, err = scanAuthor(scan)
		return err
	})
	return author, err
}

// scanAuthor reads a row of authorColumns.
func scanAuthor(scan func(...any) error) (author services.Author, err error) {
	var pinned sql.NullInt64
	var counted int64
	err = scan(&author.ID, &author.Followers, &counted, &author.Mode, &pinned, &author.NamedInFollowerDocuments, &author.FollowerChunksToName, &author.Version)
	if counted > 0 {
		author.CountedAt = sql.FromMicros(counted)
	}
	if pinned.Valid {
		mode := services.AuthorMode(pinned.Int64)
		author.Pinned = &mode
	}
	return author, err
}

// PutAuthor writes an author's row and returns its new version. A huge author has NamedInFollowerDocuments set. It stays set after
// the author is no longer huge, as long as followers still have the author's pulled posts.
func PutAuthor(ctx context.Context, tx *sql.Tx, author services.Author) (version uint64, err error) {
	var pinned sql.NullInt64
	if author.Pinned != nil {
		pinned = sql.NullInt64{Int64: int64(*author.Pinned), Valid: true}
	}
	counted := int64(0)
	if !author.CountedAt.IsZero() {
		counted = sql.Micros(author.CountedAt)
	}
	pull := author.NamedInFollowerDocuments || author.Mode == services.AuthorHuge
	_, err = tx.One(ctx, putAuthor, []any{author.ID, author.Followers, counted, int64(author.Mode), pinned, pull, author.FollowerChunksToName}, &version)
	return version, err
}

// DecrementUnnamedChunks records that one more chunk of an author's followers is done: their documents list the author. last is true
// once, for the last chunk: the number does not fall below 0 when a chunk runs again.
func DecrementUnnamedChunks(ctx context.Context, tx *sql.Tx, author services.UserID) (last bool, err error) {
	var left int
	found, err := tx.One(ctx, decrementUnnamedChunks, []any{author}, &left)
	return found && left == 0, err
}

// AuthorsForModeCheck lists at most limit authors with user IDs greater than after, in order. If followers is above 0, it lists the
// authors with at least that many followers, and reads the whole index of follows. Otherwise it lists the authors that have a row in
// the table authors: those whose mode was ever computed or pinned.
func AuthorsForModeCheck(ctx context.Context, db *sql.DB, followers int, after services.UserID, limit int) ([]services.UserID, error) {
	if followers > 0 {
		return sql.ReadColumn[services.UserID](ctx, db, authorsWithManyFollowers, after, followers, limit)
	}
	return sql.ReadColumn[services.UserID](ctx, db, authorsAfter, after, limit)
}

// PullAuthors lists authors that are listed in their followers' documents: at most limit authors with user IDs greater than
// after, in order. No other author has pulled posts.
func PullAuthors(ctx context.Context, db *sql.DB, after services.UserID, limit int) ([]services.UserID, error) {
	return sql.ReadColumn[services.UserID](ctx, db, pullAuthors, after, limit)
}

// CountFollowers counts the followers of an author, up to limit.
func CountFollowers(ctx context.Context, db *sql.DB, author services.UserID, limit int) (count int, err error) {
	_, err = db.One(ctx, countFollowers, []any{author, limit}, &count)
	return count, err
}

// ReadThresholds reads the numbers of followers from which authors are big and huge, as an admin has set them; set is false when no
// admin has.
func ReadThresholds(ctx context.Context, db *sql.DB) (thresholds services.FollowerThresholds, set bool, err error) {
	set, err = db.One(ctx, readThresholds, []any{thresholdsRowName}, &thresholds.Big, &thresholds.Huge)
	return thresholds, set, err
}

// SetThresholds sets the numbers of followers from which authors are big and huge, for all nodes.
func SetThresholds(ctx context.Context, tx *sql.Tx, thresholds services.FollowerThresholds) error {
	_, err := tx.Run(ctx, setThresholds, thresholdsRowName, thresholds.Big, thresholds.Huge)
	return err
}
