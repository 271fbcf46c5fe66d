package store

import (
	"context"

	"tidings/services"
	"tidings/services/sql"
)

// The sources of a feed: of each author whom the reader follows the posts that are pushed, and of who has any those that
// are pulled; and both of the reader's own.
const (
	followedEdges = `edges AS MATERIALIZED (
	SELECT followee AS author, since FROM follows WHERE follower = $1 AND followee <> $1 AND shown
)`
	ofAll = followedEdges + `, sources AS MATERIALIZED (
	SELECT author, since, FALSE AS pull FROM edges
	UNION ALL SELECT author, since, TRUE FROM edges
		WHERE COALESCE((SELECT pull FROM authors WHERE authors.author = edges.author), FALSE)
	UNION ALL SELECT CAST($1 AS BIGINT), 0, FALSE UNION ALL SELECT CAST($1 AS BIGINT), 0, TRUE
)`
	ofInbox = followedEdges + `, sources AS MATERIALIZED (
	SELECT author, since, FALSE AS pull FROM edges
	UNION ALL SELECT CAST($1 AS BIGINT), 0, FALSE UNION ALL SELECT CAST($1 AS BIGINT), 0, TRUE
)`
)

// A feed is put together from one range of posts_by_author for each source. How far down the ranges go is found
// first: of each source the depth-th newest post is looked up (one step into the index), and below the
// ceil(limit / depth)-th greatest of these lie at least limit posts, so that nothing older can be on the page.
// depth is small when many are followed, so that whoever follows 2,000 reads little more than the page. bound
// keeps a single author who posts without end to limit posts as well.
//
// among is a condition on a source a, and on id, that the posts meet besides; "" for none.
func newestOfSources(among string) string {
	return `, page AS MATERIALIZED (
	SELECT CAST($3 AS BIGINT) AS size, 1 + 2 * CAST($3 AS BIGINT) / count(*) AS depth FROM sources
), marks AS MATERIALIZED (
	SELECT (SELECT id FROM posts WHERE posts.author = a.author AND posts.pull = a.pull AND id < $2 ` + among + ` AND ` + feedPost + `
		ORDER BY id DESC LIMIT 1 OFFSET (SELECT depth - 1 FROM page)) AS mark
	FROM sources a
), floors AS MATERIALIZED (
	SELECT COALESCE((SELECT mark FROM marks WHERE mark IS NOT NULL ORDER BY mark DESC
		LIMIT 1 OFFSET (SELECT (size - 1) / depth FROM page)), 0) AS floor
), ranges AS MATERIALIZED (
	SELECT a.author, a.since, a.pull, COALESCE((SELECT id FROM posts
		WHERE posts.author = a.author AND posts.pull = a.pull AND id < $2 ` + among + ` AND id >= floors.floor AND ` + feedPost + `
		ORDER BY id DESC LIMIT 1 OFFSET (SELECT size - 1 FROM page)), floors.floor) AS bound
	FROM sources a CROSS JOIN floors
)
SELECT p.id, p.author, CASE WHEN p.author <> $1 AND p.id > a.since THEN 1 ELSE 0 END
FROM ranges a {each post p} WHERE p.author = a.author AND p.pull = a.pull AND p.id >= a.bound AND p.id < $2 ` + among + ` AND ` + feedPost + ` {end}
ORDER BY p.id DESC LIMIT $3`
}

// counting is met by what counts for the reader and is newer than $4.
const counting = `AND a.author <> $1 AND id > CASE WHEN a.since > $4 THEN a.since ELSE $4 END`

const countOfSources = `
SELECT count(*) FROM (
	SELECT 1 FROM sources r {each post p} WHERE r.author <> $1 AND p.author = r.author AND p.pull = r.pull
		AND p.id > CASE WHEN r.since > $2 THEN r.since ELSE $2 END AND ` + feedPost + ` {end}
	LIMIT $3
) AS counted`

var (
	homeFeed = sql.NewStatement("home feed", `WITH `+ofAll+newestOfSources(""))

	inboxFeed = sql.NewStatement("home feed of an inbox", `WITH `+ofInbox+newestOfSources(""))

	unreadFeed = sql.NewStatement("new posts of a home feed", `WITH `+ofAll+newestOfSources(counting))

	newestOfFeed = sql.NewStatement("newest post of a home feed", `WITH `+ofAll+`
SELECT COALESCE(max(newest), 0) FROM (
	SELECT (SELECT id FROM posts WHERE posts.author = a.author AND posts.pull = a.pull AND `+feedPost+` ORDER BY id DESC LIMIT 1) AS newest
	FROM sources a
) AS of_each`)

	countNew = sql.NewStatement("count new posts", `WITH `+ofAll+countOfSources)

	countPushed = sql.NewStatement("count new posts of an inbox", `WITH `+ofInbox+countOfSources)

	newestCounting = sql.NewStatement("newest counting post of an inbox", `
SELECT COALESCE(max(newest), 0) FROM (
	SELECT (SELECT id FROM posts WHERE author = f.followee AND NOT pull AND id > f.since AND id <= $2 AND `+feedPost+`
		ORDER BY id DESC LIMIT 1) AS newest
	FROM follows f WHERE f.follower = $1 AND f.followee <> $1 AND f.shown
) AS of_each`)
)

// HomeFeed lists the newest posts of everyone whom the reader follows and is shown, and his own, those before one id,
// the newest first, at most limit. Own posts and those from before the follow do not count. What it costs grows with the
// number followed and with limit, not with how much the authors have written.
func (s *Store) HomeFeed(ctx context.Context, reader services.UserID, before services.PostID, limit int) ([]services.FeedEntry, error) {
	return s.feed(ctx, homeFeed, limit, reader, before)
}

// NewestOfFeed is the newest post that HomeFeed lists now, 0 when it lists none.
func (tx *Tx) NewestOfFeed(ctx context.Context, reader services.UserID) (newest services.PostID, err error) {
	_, err = tx.One(ctx, newestOfFeed, []any{reader}, &newest)
	return newest, err
}

// InboxFeed lists what of HomeFeed is in the reader's inbox: the pushed posts, and his own whatever their way.
func (s *Store) InboxFeed(ctx context.Context, reader services.UserID, before services.PostID, limit int) ([]services.FeedEntry, error) {
	return s.feed(ctx, inboxFeed, limit, reader, before)
}

// UnreadFeed lists the posts that CountNew counts, the newest first, at most limit.
func (s *Store) UnreadFeed(ctx context.Context, reader services.UserID, seen services.PostID, limit int) ([]services.FeedEntry, error) {
	return s.feed(ctx, unreadFeed, limit, reader, services.MaxPostID, seen)
}

// feed reads entries by a statement whose third parameter is the limit; more are those after it.
func (s *Store) feed(ctx context.Context, st sql.Statement, limit int, reader services.UserID, before services.PostID, more ...any) ([]services.FeedEntry, error) {
	if limit <= 0 {
		return nil, nil
	}
	var entries []services.FeedEntry
	err := s.Each(ctx, st, append([]any{reader, before, limit}, more...), func(scan func(...any) error) error {
		var entry services.FeedEntry
		err := scan(&entry.Post, &entry.Author, &entry.Counts)
		entries = append(entries, entry)
		return err
	})
	return entries, err
}

// NewestCounting is the newest pushed post, up to and with an id, that counts for the reader: of someone followed, from
// after the follow, not deleted. 0 when there is none.
func (s *Store) NewestCounting(ctx context.Context, reader services.UserID, upTo services.PostID) (services.PostID, error) {
	var newest services.PostID
	_, err := s.One(ctx, newestCounting, []any{reader, upTo}, &newest)
	return newest, err
}

// CountPushed says how many of the posts that CountNew counts are in the reader's inbox: the pushed ones.
func (s *Store) CountPushed(ctx context.Context, reader services.UserID, seen services.PostID, limit int) (int, error) {
	var count int
	_, err := s.One(ctx, countPushed, []any{reader, seen, limit}, &count)
	return count, err
}

// CountNew says how many posts after seen count for the reader, counting no further than limit.
func (s *Store) CountNew(ctx context.Context, reader services.UserID, seen services.PostID, limit int) (int, error) {
	var count int
	_, err := s.One(ctx, countNew, []any{reader, seen, limit}, &count)
	return count, err
}
