package posts

import (
	"context"
	"slices"

	"tidings/services"
	"tidings/services/people"
	"tidings/services/sql"
)

// postColumns are the columns that scanPost reads, in its order.
const postColumns = `SELECT id, author, kind, parent, off_feed, pull, body, updated_at, edited_at, deleted_at FROM posts `

// feedPostCondition selects the posts that home feeds list and count. Every statement about these posts contains the condition, and so
// does the index posts_by_author: a statement without the condition in its text would not use the index.
const feedPostCondition = `deleted_at IS NULL AND NOT off_feed`

var (
	// insertPost inserts 0 rows if the ID is taken: see Insert.
	insertPost = sql.NewStatement("insert a post", `INSERT INTO posts (id, author, kind, parent, off_feed, pull, body, updated_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (id) DO NOTHING`)

	// A deletion is a mark. The row stays: lists can be read on from the post's position, and comments and replies still name it as
	// their parent. updated_at rises, so that caches take the deleted post for the newer copy.
	deletePost = sql.NewStatement("delete a post", `UPDATE posts SET deleted_at = $2,
		updated_at = CASE WHEN updated_at < $2 THEN $2 ELSE updated_at + 1 END WHERE id = $1 AND deleted_at IS NULL`)

	// lockPostToEdit keeps others from changing the post until the transaction ends.
	lockPostToEdit = sql.NewStatement("lock a post to edit it", postColumns+`WHERE id = $1 {for update}`)

	// Caches order copies by the time of the last change, so each change gets a later time. edited_at, which is shown, gets the
	// same time.
	editPost = sql.NewStatement("edit a post", `UPDATE posts SET body = $2,
		edited_at = CASE WHEN updated_at < $3 THEN $3 ELSE updated_at + 1 END,
		updated_at = CASE WHEN updated_at < $3 THEN $3 ELSE updated_at + 1 END WHERE id = $1`)

	// The lock is FOR SHARE: likes of one post do not wait for each other, and a deletion waits for all of them.
	lockPost = sql.NewStatement("lock a post", postColumns+`WHERE id = $1 {for share}`)

	postByID = sql.NewStatement("a post", postColumns+`WHERE id = $1`)

	// mayHaveBeenShown returns no row if there is no such post, if its author is being erased, or if the author has hidden from the
	// reader or blocked them since before it was published.
	mayHaveBeenShown = sql.NewStatement("whether a reader can have been shown a post",
		`SELECT p.author FROM posts p WHERE p.id = $2 AND NOT `+people.HidWhenPublishedCondition("p.author", "$1", "p.id"))

	postsByID = sql.NewStatement("posts by id", postColumns+`WHERE {in id $1 BIGINT}`)

	// newestOfMillisecond reads the greatest ID of a post in one millisecond, for sql.Tx.NewIDInTable: a past event gets the next ID,
	// so past events of one millisecond get IDs in the order in which they are reported.
	newestOfMillisecond = sql.NewestIDOfMillisecond("posts")

	// greatestPost reads one entry at the end of the primary key.
	greatestPost = sql.NewStatement("greatest post", `SELECT COALESCE(max(id), 0) FROM posts`)

	// authorPosts leaves out pulled posts, because no inbox has them.
	authorPosts = sql.NewStatement("an author's posts", `SELECT id FROM posts
		WHERE author = $1 AND NOT pull AND `+feedPostCondition+` ORDER BY id DESC LIMIT $2`)

	insertPostMentions = sql.NewInsertion("insert mentions in a post", "mentions", "post BIGINT, mentioned BIGINT, listed BOOLEAN, since BIGINT", "")

	deletePostMentions = sql.NewStatement("forget who is mentioned in a post", `DELETE FROM mentions WHERE post = $1`)

	postMentions = sql.NewStatement("who is mentioned in a post", `SELECT mentioned, since FROM mentions WHERE post = $1 ORDER BY mentioned`)

	// The column listed says that the user is in the post's list of mentions, and not only mentioned by its text. It is NULL in mentions
	// that are older than the column.
	mentionedByList = sql.NewStatement("who is mentioned by the list of a post", `SELECT mentioned, listed IS NULL FROM mentions WHERE post = $1 AND (listed OR listed IS NULL) ORDER BY mentioned`)
)

// Insert publishes a post. Its UpdatedAt is kept, or set to now when it is zero; Deleted is ignored. The error is CONFLICT if a
// post of another node has the ID: then the caller makes a new ID. The caller sets post.Pulled if the author is huge now, see
// services.AuthorMode. It is stored, so that a later change of the author's mode moves no post.
func Insert(ctx context.Context, tx *sql.Tx, post services.Post) error {
	updated := post.UpdatedAt
	if updated.IsZero() {
		updated = tx.Now
	}
	parent := sql.NullInt64{Int64: int64(post.Parent), Valid: post.Parent != 0}
	inserted, err := tx.Run(ctx, insertPost, post.ID, post.Author, post.Kind, parent, post.OffFeed, post.Pulled, post.Body, updated)
	if err == nil && inserted == 0 {
		err = services.Errorf(services.Conflict, "the post id %s is taken", post.ID)
		if tx.MomentOfNewIDs() != 0 { // another event of the same millisecond is being committed: the next try finds it
			err = services.Errorf(services.Unavailable, "at: another event of this millisecond came between: send the event again")
		}
	}
	if err == nil && post.Parent != 0 {
		tx.KeepForEndHook(postCounts, countChange{post: post.Parent, comments: 1})
	}
	return err
}

// NewID makes an ID that is greater than the IDs of all posts, whatever the clocks say. A post with a lesser ID would be older than
// posts that users have seen already, and would not count. Two nodes may still commit in the opposite order, so feeds look back
// some seconds. A post of an event with a time (see sql.Tx.SetEventMoment and SetMomentOfNewIDs) is placed among the posts of its
// time: it counts as seen for readers who have seen a later post.
func NewID(ctx context.Context, tx *sql.Tx, ids *services.IDClock) (services.PostID, error) {
	if tx.MomentOfNewIDs() != 0 {
		id, err := tx.NewIDInTable(ctx, ids, newestOfMillisecond)
		return services.PostID(id), err
	}
	var greatest services.SortableID
	if _, err := tx.One(ctx, greatestPost, nil, &greatest); err != nil {
		return 0, err
	}
	// This node's clock may be behind another node's clock.
	ids.Observe(greatest)
	return services.PostID(tx.NewID(ids)), nil
}

// Newest is the greatest id of all posts, 0 when there is none.
func Newest(ctx context.Context, r sql.Reader) (newest services.PostID, err error) {
	err = r.Each(ctx, greatestPost, nil, func(scan func(...any) error) error { return scan(&newest) })
	return newest, err
}

// Delete deletes a post; its row stays. It returns the post as it is now. deleted is false when the post was deleted before. The
// error is NOT_FOUND if the post never existed. The likes and mentions of the post stay in SQL.
func Delete(ctx context.Context, tx *sql.Tx, id services.PostID) (post services.Post, deleted bool, err error) {
	changed, err := tx.Run(ctx, deletePost, id, tx.EventTime())
	if err != nil {
		return post, false, err
	}
	if post, err = read(ctx, tx, postByID, id); err == nil && changed > 0 && post.Parent != 0 {
		tx.KeepForEndHook(postCounts, countChange{post: post.Parent, comments: -1})
	}
	return post, changed > 0, err
}

// Lock reads a post and locks it until this transaction ends, against edits, deletions and LockShared. The post may be deleted: see
// Deleted. The error is NOT_FOUND if the post never existed.
func Lock(ctx context.Context, tx *sql.Tx, id services.PostID) (services.Post, error) {
	return read(ctx, tx, lockPostToEdit, id)
}

// Edit changes the body and the mentions of a post, which keeps its position, and returns the post as it is now. listed is as for
// InsertMentions. The caller holds Lock.
func Edit(ctx context.Context, tx *sql.Tx, id services.PostID, body string, mentions []Mention, listed []services.UserID) (services.Post, error) {
	if _, err := tx.Run(ctx, editPost, id, body, tx.EventTime()); err != nil {
		return services.Post{}, err
	}
	if _, err := tx.Run(ctx, deletePostMentions, id); err != nil {
		return services.Post{}, err
	}
	if err := insertMentions(ctx, tx, id, mentions, listed); err != nil {
		return services.Post{}, err
	}
	return read(ctx, tx, postByID, id)
}

// LockShared reads a post and keeps others from deleting it until this transaction ends. The post may be deleted already: then it has
// Deleted set. The error is NOT_FOUND if the post never existed.
func LockShared(ctx context.Context, tx *sql.Tx, id services.PostID) (services.Post, error) {
	return read(ctx, tx, lockPost, id)
}

// MayHaveBeenShown reports whether a reader can have been shown a post, whether they follow its author or not: then its ID is a
// position in the reader's feed. The post may have been deleted since, and its author may have hidden from the reader or blocked
// them since. A post that the author published while hiding from the reader, or while blocking them, looks to the reader as if it
// never existed. erased says that the author has been erased: it is no longer known who could not see their posts.
func MayHaveBeenShown(ctx context.Context, r sql.Reader, reader services.UserID, id services.PostID) (shown, erased bool, err error) {
	var author services.UserID
	shown, err = r.One(ctx, mayHaveBeenShown, []any{reader, id}, &author)
	return shown, shown && author == 0, err
}

// read reads one post by a statement with postColumns. The error is NOT_FOUND if there is no such post.
func read(ctx context.Context, tx *sql.Tx, st sql.Statement, id services.PostID) (post services.Post, err error) {
	found := false
	err = tx.Each(ctx, st, []any{id}, func(scan func(...any) error) error {
		found = true
		post, err = scanPost(scan)
		return err
	})
	if err == nil && !found {
		err = services.Errorf(services.NotFound, "there is no post %s", id)
	}
	return post, err
}

// ByID reads posts, the deleted ones too. An unknown ID is absent.
func ByID(ctx context.Context, r sql.Reader, ids []services.PostID) (map[services.PostID]services.Post, error) {
	posts := make(map[services.PostID]services.Post, len(ids))
	err := r.Each(ctx, postsByID, []any{sql.Numbers(ids)}, func(scan func(...any) error) error {
		post, err := scanPost(scan)
		posts[post.ID] = post
		return err
	})
	return posts, err
}

// scanPost reads a row of postColumns.
func scanPost(scan func(...any) error) (post services.Post, err error) {
	var updated int64
	var parent, edited, deleted sql.NullInt64
	err = scan(&post.ID, &post.Author, &post.Kind, &parent, &post.OffFeed, &post.Pulled, &post.Body, &updated, &edited, &deleted)
	post.Parent, post.UpdatedAt, post.Deleted = services.PostID(parent.Int64), sql.FromMicros(updated), deleted.Valid
	if edited.Valid {
		post.EditedAt = sql.FromMicros(edited.Int64)
	}
	return post, err
}

// PushedPostsOfAuthor lists the author's posts that are pushed into followers' inboxes, the newest first, at most limit.
func PushedPostsOfAuthor(ctx context.Context, db *sql.DB, author services.UserID, limit int) ([]services.PostID, error) {
	return sql.ReadColumn[services.PostID](ctx, db, authorPosts, author, limit)
}

// LockVisibleShared reads the post that a viewer names in an argument, and keeps others from deleting it until this transaction
// ends. The error is NOT_FOUND if there is no such post, or if the post is deleted or hidden from the viewer.
func LockVisibleShared(ctx context.Context, tx *sql.Tx, viewer services.UserID, argument string, id services.PostID) (services.Post, error) {
	post, err := LockShared(ctx, tx, id)
	name := services.GlobalID(services.PostType, id.String())
	if err = people.CheckVisible(ctx, tx, viewer, post.Author, err, argument, name); err == nil && post.Deleted {
		err = services.Errorf(services.NotFound, "%s: %s is deleted", argument, name)
	}
	return post, err
}

// CheckIsAuthor returns the error of an action on a post that only the post's author may take; err is the error of reading the
// post. The error is NOT_FOUND if there is no such post or it is hidden from the actor, and FORBIDDEN for another author's post.
func CheckIsAuthor(ctx context.Context, tx *sql.Tx, actor services.UserID, argument string, id services.PostID, author services.UserID, err error) error {
	return people.CheckIsAuthor(ctx, tx, actor, author, err, argument, services.GlobalID(services.PostType, id.String()), "post")
}

// InsertMentions stores the users that a new post mentions, each once, and which of these users are in the post's list of
// mentions.
func InsertMentions(ctx context.Context, tx *sql.Tx, post services.PostID, mentioned, listed []services.UserID) error {
	mentions := make([]Mention, len(mentioned))
	for i, user := range mentioned {
		mentions[i].User = user
	}
	return insertMentions(ctx, tx, post, mentions, listed)
}

// insertMentions stores mentions. Those of the users in listed are recorded as mentions by the list.
func insertMentions(ctx context.Context, tx *sql.Tx, post services.PostID, mentions []Mention, listed []services.UserID) error {
	all := services.Map(mentions, func(mention Mention) []any {
		return []any{post, mention.User, slices.Contains(listed, mention.User), mention.EditTimeID}
	})
	_, err := tx.Insert(ctx, insertPostMentions, all)
	return err
}

// Mentions lists the mentions of a post, in order of user ID.
func Mentions(ctx context.Context, r sql.Reader, post services.PostID) ([]Mention, error) {
	return sql.ReadRows(ctx, r, postMentions, []any{post}, func(scan sql.Scan, mention *Mention) error {
		return scan(&mention.User, &mention.EditTimeID)
	})
}

// MentionedByList returns the users in a post's list of mentions, and not those that only its text mentions. unrecorded are
// mentioned users without a record of whether they are in the list: their mentions were stored before SQL recorded that. An
// edit of the text keeps the users in the list.
func MentionedByList(ctx context.Context, r sql.Reader, post services.PostID) (listed, unrecorded []services.UserID, err error) {
	err = r.Each(ctx, mentionedByList, []any{post}, func(scan func(...any) error) error {
		var user services.UserID
		var unstored bool
		if err := scan(&user, &unstored); err != nil {
			return err
		}
		if unstored {
			unrecorded = append(unrecorded, user)
		} else {
			listed = append(listed, user)
		}
		return nil
	})
	return listed, unrecorded, err
}
