package store

import (
	"context"
	"fmt"
	"math"
	"time"

	"tidings/services"
	"tidings/services/sql"
)

// mostHidden is how many rows hidden from the viewer a page passes over: after as many it is short, and says that more follows.
const mostHidden = services.Retention

// Answers and likes are listed from one range of an index for each post. A statement first finds how far down the ranges go:
// to the first row after the page that is listed, or else to the last row that may be looked at, or else to the end (0). A range
// without a listed row is one row with nothing but its bound.
const (
	standingAnswers = `p.parent = c.post AND p.id < c.before AND p.deleted_at IS NULL`
	standingLikes   = `l.post = c.post AND (l.liked_at, l.liker) < (c.at, c.liker)`
)

// shownPost is the columns of a post p with its author u, and what a viewer is told of it.
func shownPost(viewer string) string {
	return `COALESCE(p.id, 0), COALESCE(p.author, 0), COALESCE(p.kind, ''), p.parent, COALESCE(p.body, ''), COALESCE(p.updated_at, 0), p.edited_at,
	COALESCE(u.key, ''), COALESCE(u.name, ''), COALESCE(u.avatar_url, ''),
	COALESCE(CAST((SELECT sum(n.likes) FROM post_counts n WHERE n.post = p.id) AS BIGINT), 0),
	COALESCE(CAST((SELECT sum(n.comments) FROM post_counts n WHERE n.post = p.id) AS BIGINT), 0),
	(SELECT count(*) FROM likes k WHERE k.post = p.id AND k.liker = ` + viewer + `)`
}

var (
	answersOf = sql.NewStatement("answers to posts", fmt.Sprintf(`
WITH ranges AS MATERIALIZED (
	SELECT c.i, c.post, c.before, COALESCE(
		(SELECT a.id FROM (SELECT p.id, p.author FROM posts p WHERE %[1]s ORDER BY p.id DESC LIMIT $2 + %[2]d) AS a
			WHERE NOT %[3]s ORDER BY a.id DESC LIMIT 1 OFFSET $2 - 1),
		(SELECT p.id FROM posts p WHERE %[1]s ORDER BY p.id DESC LIMIT 1 OFFSET $2 + %[2]d - 1), 0) AS bound
	FROM {rows $1 i BIGINT, post BIGINT, before BIGINT} AS c
)
SELECT c.i, c.bound, %[4]s
FROM ranges c LEFT JOIN posts p ON %[1]s AND p.id >= c.bound AND NOT %[5]s LEFT JOIN users u ON u.number = p.author
ORDER BY c.i, p.id DESC`, standingAnswers, mostHidden, apartFrom("a.author", "$3"), shownPost("$3"), apartFrom("p.author", "$3")))

	likesOf = sql.NewStatement("likes of posts", fmt.Sprintf(`
WITH ranges AS MATERIALIZED (
	SELECT c.i, c.post, c.at, c.liker, COALESCE(
		(SELECT a.liked_at FROM (SELECT l.liked_at, l.liker FROM likes l WHERE %[1]s ORDER BY l.liked_at DESC, l.liker DESC LIMIT $2 + %[2]d) AS a
			WHERE NOT %[3]s ORDER BY a.liked_at DESC, a.liker DESC LIMIT 1 OFFSET $2 - 1),
		(SELECT l.liked_at FROM likes l WHERE %[1]s ORDER BY l.liked_at DESC, l.liker DESC LIMIT 1 OFFSET $2 + %[2]d - 1), 0) AS bound
	FROM {rows $1 i BIGINT, post BIGINT, at BIGINT, liker BIGINT} AS c
)
SELECT c.i, c.bound, COALESCE(l.liked_at, 0), COALESCE(l.liker, 0), COALESCE(u.key, ''), COALESCE(u.name, ''), COALESCE(u.avatar_url, '')
FROM ranges c LEFT JOIN likes l ON %[1]s AND l.liked_at >= c.bound AND NOT %[4]s LEFT JOIN users u ON u.number = l.liker
ORDER BY c.i, l.liked_at DESC, l.liker DESC`, standingLikes, mostHidden, apartFrom("a.liker", "$3"), apartFrom("l.liker", "$3")))

	shownPosts = sql.NewStatement("posts that a viewer may see", `SELECT `+shownPost("$2")+`
FROM {rows $1 post BIGINT} AS c CROSS JOIN posts p LEFT JOIN users u ON u.number = p.author
WHERE p.id = c.post AND p.deleted_at IS NULL AND NOT `+hidesFrom("p.author", "$2"))
)

// ShownPost is a post with its author and what a viewer is told of it.
type ShownPost struct {
	services.Post
	By services.User
	services.Engagement
}

// AnswersPage asks for a page of the answers to a post, the newest first: those before an id.
type AnswersPage struct {
	Post, Before services.PostID
	Size         int
}

// AnswerList is a page of answers. With More, the next page is before Next.
type AnswerList struct {
	Answers []ShownPost
	More    bool
	Next    services.PostID
}

// LikePlace is the position of a like in the list of a post: its time, and then the user.
type LikePlace struct {
	At    time.Time
	Liker services.UserID
}

// FirstLike is before every like.
var FirstLike = LikePlace{At: sql.FromMicros(math.MaxInt64)}

// LikesPage asks for a page of the likes of a post, the newest first: those after a position.
type LikesPage struct {
	Post  services.PostID
	After LikePlace
	Size  int
}

// Like is a user's like of a post.
type Like struct {
	By services.User
	At time.Time
}

// Place is the position of the like in its list.
func (l Like) Place() LikePlace { return LikePlace{l.At, l.By.Number} }

// LikeList is a page of likes. With More, the next page is after Next.
type LikeList struct {
	Likes []Like
	More  bool
	Next  LikePlace
}

// Answers reads pages of answers as a viewer may see them, all by one query: without those of authors who hide from the viewer
// or block them, or whom the viewer blocks.
func (s *Store) Answers(ctx context.Context, viewer services.UserID, pages []AnswersPage) (map[AnswersPage]AnswerList, error) {
	asked, longest := make(sql.Rows, len(pages)), 0
	for i, page := range pages {
		asked[i], longest = []any{i, page.Post, page.Before}, max(longest, page.Size)
	}
	lists, bounds := make([]AnswerList, len(pages)), make([]services.PostID, len(pages))
	err := s.Each(ctx, answersOf, []any{asked, longest + 1, viewer}, func(scan func(...any) error) error {
		var i int
		var bound services.PostID
		post, err := scanShown(scan, &i, &bound)
		if err != nil {
			return err
		}
		if bounds[i] = bound; post.ID != 0 {
			lists[i].Answers = append(lists[i].Answers, post)
		}
		return nil
	})
	found := make(map[AnswersPage]AnswerList, len(pages))
	for i, page := range pages {
		list := lists[i]
		if list.More = len(list.Answers) > page.Size; list.More {
			list.Answers = list.Answers[:page.Size]
			list.Next = list.Answers[page.Size-1].ID
		} else if list.More = bounds[i] > 0; list.More { // only hidden answers were passed over
			list.Next = bounds[i]
		}
		found[page] = list
	}
	return found, err
}

// Likes reads pages of likes as a viewer may see them, all by one query, with the users whom Answers leaves out left out.
func (s *Store) Likes(ctx context.Context, viewer services.UserID, pages []LikesPage) (map[LikesPage]LikeList, error) {
	asked, longest := make(sql.Rows, len(pages)), 0
	for i, page := range pages {
		asked[i], longest = []any{i, page.Post, sql.Micros(page.After.At), page.After.Liker}, max(longest, page.Size)
	}
	lists, bounds := make([]LikeList, len(pages)), make([]int64, len(pages))
	err := s.Each(ctx, likesOf, []any{asked, longest + 1, viewer}, func(scan func(...any) error) error {
		var i int
		var bound, at int64
		var like Like
		if err := scan(&i, &bound, &at, &like.By.Number, &like.By.Key, &like.By.Name, &like.By.AvatarURL); err != nil {
			return err
		}
		if bounds[i] = bound; like.By.Number != 0 {
			like.At = sql.FromMicros(at)
			lists[i].Likes = append(lists[i].Likes, like)
		}
		return nil
	})
	found := make(map[LikesPage]LikeList, len(pages))
	for i, page := range pages {
		list := lists[i]
		if list.More = len(list.Likes) > page.Size; list.More {
			list.Likes = list.Likes[:page.Size]
			list.Next = list.Likes[page.Size-1].Place()
		} else if list.More = bounds[i] > 0; list.More {
			list.Next = LikePlace{At: sql.FromMicros(bounds[i])} // all likes of that time are on this page
		}
		found[page] = list
	}
	return found, err
}

// Visible reads posts with their authors and what a viewer is told of them. Those that are deleted or hidden from the viewer are
// absent.
func (s *Store) Visible(ctx context.Context, viewer services.UserID, posts []services.PostID) (map[services.PostID]ShownPost, error) {
	asked := make(sql.Rows, len(posts))
	for i, post := range posts {
		asked[i] = []any{post}
	}
	found := make(map[services.PostID]ShownPost, len(posts))
	err := s.Each(ctx, shownPosts, []any{asked, viewer}, func(scan func(...any) error) error {
		post, err := scanShown(scan)
		found[post.ID] = post
		return err
	})
	return found, err
}

// scanShown reads a row of shownPost, after the columns that come before it.
func scanShown(scan func(...any) error, first ...any) (post ShownPost, err error) {
	var updated int64
	var parent, edited sql.NullInt64
	err = scan(append(first, &post.ID, &post.Author, &post.Kind, &parent, &post.Body, &updated, &edited,
		&post.By.Key, &post.By.Name, &post.By.AvatarURL, &post.Likes, &post.Comments, &post.Liked)...)
	post.By.Number, post.Parent, post.UpdatedAt = post.Author, services.PostID(parent.Int64), sql.FromMicros(updated)
	if edited.Valid {
		post.EditedAt = sql.FromMicros(edited.Int64)
	}
	return post, err
}
