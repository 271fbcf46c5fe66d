package posts

import (
	"context"

	"tidings/services"
	"tidings/services/sql"
)

// feedPostSourcesSQL is the SQL for the sources of a feed: the pushed posts of each followed author, the pulled posts of each followed
// author who can have pulled posts, and both kinds of the reader's own posts. reader is the reader's ID in the statement: a
// parameter, or a column.
func feedPostSourcesSQL(reader string) string {
	return followedEdgesSQL(reader) + `, sources AS MATERIALIZED (
	SELECT author, since, FALSE AS pull FROM edges
	UNION ALL SELECT author, since, TRUE FROM edges
		WHERE COALESCE((SELECT pull FROM authors WHERE authors.author = edges.author), FALSE)
	` + ownPostSourcesSQL(reader) + `
)`
}

// inboxPostSourcesSQL is the SQL for the sources of a reader's inbox: the pushed posts of each followed author, and the reader's own
// posts, pushed and pulled.
func inboxPostSourcesSQL(reader string) string {
	return followedEdgesSQL(reader) + `, sources AS MATERIALIZED (
	SELECT author, since, FALSE AS pull FROM edges
	` + ownPostSourcesSQL(reader) + `
)`
}

// followedEdgesSQL is the SQL for the authors that a reader follows and whose posts the reader is shown.
func followedEdgesSQL(reader string) string {
	return `edges AS MATERIALIZED (
	SELECT followee AS author, since FROM follows WHERE follower = ` + reader + ` AND followee <> ` + reader + ` AND shown
)`
}

// ownPostSourcesSQL is the SQL for the reader's own posts as sources, pushed and pulled.
func ownPostSourcesSQL(reader string) string {
	return `UNION ALL SELECT CAST(` + reader + ` AS BIGINT), 0, FALSE UNION ALL SELECT CAST(` + reader + ` AS BIGINT), 0, TRUE`
}

// feedPageSQL merges a feed from one range of posts_by_author for each source. To find how far down the ranges must go, it
// first looks up the depth-th newest post of each source (depth steps in the index). At least limit posts lie at or above the
// ceil(limit / depth)-th greatest of these posts, so no older post can be on the page. depth is small when the reader follows
// many authors, so that a reader of 2,000 authors reads little more than the page. bound is the end of one source's range: a
// source with very many posts gives no more than limit posts.
//
// among is a further condition on a source a and on id that the posts must meet; "" for none.
func feedPageSQL(among string) string {
	return `, page AS MATERIALIZED (
	SELECT CAST($3 AS BIGINT) AS size, 1 + 2 * CAST($3 AS BIGINT) / count(*) AS depth FROM sources
), marks AS MATERIALIZED (
	SELECT (SELECT id FROM posts WHERE posts.author = a.author AND posts.pull = a.pull AND id < $2 ` + among + ` AND ` + feedPostCondition + `
		ORDER BY id DESC LIMIT 1 OFFSET (SELECT depth - 1 FROM page)) AS mark
	FROM sources a
), floors AS MATERIALIZED (
	SELECT COALESCE((SELECT mark FROM marks WHERE mark IS NOT NULL ORDER BY mark DESC
		LIMIT 1 OFFSET (SELECT (size - 1) / depth FROM page)), 0) AS floor
), ranges AS MATERIALIZED (
	SELECT a.author, a.since, a.pull, COALESCE((SELECT id FROM posts
		WHERE posts.author = a.author AND posts.pull = a.pull AND id < $2 ` + among + ` AND id >= floors.floor AND ` + feedPostCondition + `
		ORDER BY id DESC LIMIT 1 OFFSET (SELECT size - 1 FROM page)), floors.floor) AS bound
	FROM sources a CROSS JOIN floors
)
SELECT p.id, p.author, CASE WHEN p.author <> $1 AND p.id > a.since THEN 1 ELSE 0 END
FROM ranges a {each posts p p.id, p.author} WHERE p.author = a.author AND p.pull = a.pull AND p.id >= a.bound AND p.id < $2 ` + among + ` AND ` + feedPostCondition + ` {end p}
ORDER BY p.id DESC LIMIT $3`
}

// countingCondition selects the posts that count as new for the reader and are newer than $4: not the reader's own posts, nor posts
// from before the follow.
const countingCondition = `AND a.author <> $1 AND id > CASE WHEN a.since > $4 THEN a.since ELSE $4 END`

// countNewPostsSQL counts the posts that count as new for a reader and are newer than seen. It stops at limit, so that a reader who
// was away for long costs no more.
func countNewPostsSQL(reader, seen, limit string) string {
	return `
SELECT count(*) FROM (
	SELECT 1 FROM sources r {each posts p p.id, p.author} WHERE r.author <> ` + reader + ` AND p.author = r.author AND p.pull = r.pull
		AND p.id > CASE WHEN r.since > ` + seen + ` THEN r.since ELSE ` + seen + ` END AND ` + feedPostCondition + ` {end p}
	LIMIT ` + limit + `
) AS counted`
}

// newestFeedPostSQL selects the newest post of all sources; it looks up the newest of each source, one step of the index each.
func newestFeedPostSQL(condition string) string {
	return `
SELECT COALESCE(max(newest), 0) FROM (
	SELECT (SELECT id FROM posts WHERE posts.author = a.author AND posts.pull = a.pull AND ` + condition + ` ORDER BY id DESC LIMIT 1) AS newest
	FROM sources a
) AS of_each`
}

var (
	// Parameters of the three lists: $1 the reader, $2 the ID below which posts are listed, $3 how many, and with countingCondition
	// $4 the seen position.
	homeFeed = sql.NewStatement("home feed", `WITH `+feedPostSourcesSQL(`$1`)+feedPageSQL(""))

	// inboxFeed lists what an inbox has: pushed posts, and the reader's own posts, pushed and pulled.
	inboxFeed = sql.NewStatement("home feed of an inbox", `WITH `+inboxPostSourcesSQL(`$1`)+feedPageSQL(""))

	// unreadFeed lists only posts that count as new: not the reader's own, nor posts from before the follow or up to the seen position.
	unreadFeed = sql.NewStatement("new posts of a home feed", `WITH `+feedPostSourcesSQL(`$1`)+feedPageSQL(countingCondition))

	newestOfFeed = sql.NewStatement("newest post of a home feed", `WITH `+feedPostSourcesSQL(`$1`)+newestFeedPostSQL(feedPostCondition))

	// $2 is the ID up to which posts are looked at.
	newestOfFeedUntil = sql.NewStatement("newest post of a home feed until a time", `WITH `+feedPostSourcesSQL(`$1`)+newestFeedPostSQL(feedPostCondition+` AND id <= $2`))

	// The count of each reader has its own limit: one limit for all of them would leave readers out.
	countNew = sql.NewStatement("count new posts", `SELECT c.i, (WITH `+feedPostSourcesSQL(`c.reader`)+countNewPostsSQL(`c.reader`, `c.seen`, `$2`)+`)
FROM {rows $1 i BIGINT, reader BIGINT, seen BIGINT} AS c`)

	// countNewOfOne does the work of countNew for one reader. $1 is the reader, $2 the seen position, and $3 the limit.
	countNewOfOne = sql.NewStatement("count new posts of a reader", `WITH `+feedPostSourcesSQL(`$1`)+countNewPostsSQL(`$1`, `$2`, `$3`))

	// countPushed has the same parameters. It counts only pushed posts, as an inbox has them.
	countPushed = sql.NewStatement("count new posts of an inbox", `WITH `+inboxPostSourcesSQL(`$1`)+countNewPostsSQL(`$1`, `$2`, `$3`))

	// newestCounting looks up each followed author's newest pushed post that is newer than the follow and not after $2.
	newestCounting = sql.NewStatement("newest counting post of an inbox", `
SELECT COALESCE(max(newest), 0) FROM (
	SELECT (SELECT id FROM posts WHERE author = f.followee AND NOT pull AND id > f.since AND id <= $2 AND `+feedPostCondition+`
		ORDER BY id DESC LIMIT 1) AS newest
	FROM follows f WHERE f.follower = $1 AND f.followee <> $1 AND f.shown
) AS of_each`)
)

// HomeFeed lists the newest posts of the followed authors that the reader may see, and the reader's own posts: at most limit
// posts with IDs below before, the newest first. Own posts and posts from before the follow are listed but do not count. The cost
// grows with the number of followed authors and with limit, not with how much the authors have written.
func HomeFeed(ctx context.Context, db *sql.DB, reader services.UserID, before services.PostID, limit int) ([]services.FeedEntry, error) {
	return readFeed(ctx, db, homeFeed, limit, reader, before)
}

// NewestOfFeed is the newest post that HomeFeed lists now, 0 when the feed is empty.
func NewestOfFeed(ctx context.Context, tx *sql.Tx, reader services.UserID) (newest services.PostID, err error) {
	_, err = tx.One(ctx, newestOfFeed, []any{reader}, &newest)
	return newest, err
}

// NewestOfFeedUntil is the newest post that HomeFeed lists and that is not after a position, 0 when there is none.
func NewestOfFeedUntil(ctx context.Context, tx *sql.Tx, reader services.UserID, until services.PostID) (newest services.PostID, err error) {
	_, err = tx.One(ctx, newestOfFeedUntil, []any{reader, until}, &newest)
	return newest, err
}

// InboxFeed lists the part of HomeFeed that is in the reader's inbox: pushed posts, and the reader's own posts in either mode. A
// rebuild fills the inbox from it.
func InboxFeed(ctx context.Context, db *sql.DB, reader services.UserID, before services.PostID, limit int) ([]services.FeedEntry, error) {
	return readFeed(ctx, db, inboxFeed, limit, reader, before)
}

// UnreadFeed lists the posts that CountNew counts, the newest first, at most limit. It explains the count.
func UnreadFeed(ctx context.Context, db *sql.DB, reader services.UserID, seen services.PostID, limit int) ([]services.FeedEntry, error) {
	return readFeed(ctx, db, unreadFeed, limit, reader, services.MaxPostID, seen)
}

// readFeed reads entries with a statement whose third parameter is the limit; more are the parameters after it.
func readFeed(ctx context.Context, db *sql.DB, st sql.Statement, limit int, reader services.UserID, before services.PostID, more ...any) ([]services.FeedEntry, error) {
	if limit <= 0 {
		return nil, nil
	}
	return sql.ReadRows(ctx, db, st, append([]any{reader, before, limit}, more...), func(scan sql.Scan, entry *services.FeedEntry) error {
		return scan(&entry.Post, &entry.Author, &entry.CountsAsNew)
	})
}

// NewestCountingPost returns the newest pushed post, up to and including an ID, that counts for the reader: by a followed author,
// published after the follow, not deleted. It returns 0 when there is none. Rebuilds and audits learn from it whether posts that
// the inbox does not list count.
func NewestCountingPost(ctx context.Context, db *sql.DB, reader services.UserID, upTo services.PostID) (services.PostID, error) {
	var newest services.PostID
	_, err := db.One(ctx, newestCounting, []any{reader, upTo}, &newest)
	return newest, err
}

// CountNewPushed counts the posts of CountNew that are in the reader's inbox: the pushed posts.
func CountNewPushed(ctx context.Context, db *sql.DB, reader services.UserID, seen services.PostID, limit int) (int, error) {
	var count int
	_, err := db.One(ctx, countPushed, []any{reader, seen, limit}, &count)
	return count, err
}

// FeedReader is a reader of a feed who has seen it up to a post.
type FeedReader struct {
	ID     services.UserID
	SeenTo services.PostID // the newest post that they have seen; 0: none
}

// CountNew counts for each reader the posts after SeenTo that count for them, up to limit. It counts for several readers by one
// statement. Counts in Redis are compared with its result.
func CountNew(ctx context.Context, db *sql.DB, readers []FeedReader, limit int) ([]int, error) {
	asked, counts := make(sql.RowsParameter, len(readers)), make([]int, len(readers))
	// Most reads are of one reader. For them, countNewOfOne takes half the time of countNew.
	if len(readers) == 1 {
		_, err := db.One(ctx, countNewOfOne, []any{readers[0].ID, readers[0].SeenTo, limit}, &counts[0])
		return counts, err
	}
	for i, reader := range readers {
		// Rows come in no order; i is the index of the reader.
		asked[i] = []any{i, int64(reader.ID), int64(reader.SeenTo)}
	}
	return counts, db.Each(ctx, countNew, []any{asked, limit}, func(scan func(...any) error) error {
		var i, count int
		err := scan(&i, &count)
		counts[i] = count
		return err
	})
}
