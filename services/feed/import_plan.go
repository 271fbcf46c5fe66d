package feed

import (
	"context"
	"slices"

	"tidings/services"
	"tidings/services/posts"
	"tidings/services/refs"
)

// plannedPost is a post that does not exist yet, with its ref; an empty text means none. Its author is an index in the table of keys.
type plannedPost struct {
	services.Post
	ref services.Ref
}

// plan makes posts of the batch, in its order: it finds the posts that they answer, omits those that exist already, and
// gives each the next ID of its millisecond. Bad rows are set aside and leave the batch. It reads outside of the transaction
// and holds no lock, so that a slow plan delays nobody; write finds out whether the plan still holds. If not, plan runs
// again.
func (im *postImport) plan(ctx context.Context) ([]plannedPost, error) {
	known, err := im.readKnown(ctx)
	if err != nil {
		return nil, err
	}
	last, err := im.newestIDsByMilli(ctx)
	if err != nil {
		return nil, err
	}
	planned := make([]plannedPost, 0, len(im.Rows))
	// Rows move towards the front in place: good never overtakes the row that is read.
	good := im.Rows[:0]
	for _, row := range im.Rows {
		// The key was imported before, by this file or another, or an earlier row of the batch has it: the row
		// counts as a duplicate.
		if _, exists := known.ids[postRef(row.Key)]; exists && row.Key != "" {
			good = append(good, row)
			continue
		}
		post, err := planOne(row, known, last)
		if err != nil {
			im.PutAside(row.lineNumber, row.line, err)
			continue
		}
		post.OffFeed = !slices.Contains(im.kindsInFeeds, post.Kind)
		post.Author = services.UserID(im.keys.IndexOf([]byte(row.Author)))
		// Later rows of the batch may answer this post or repeat its key.
		if row.Key != "" {
			known.ids[post.ref] = post.ID
			known.posts[post.ID] = post.Post
		}
		good = append(good, row)
		planned = append(planned, post)
	}
	im.Rows = good
	return planned, nil
}

// planOne makes the post of one row, except for its author, and takes the next ID of the millisecond in last. NOT_FOUND and
// CONFLICT make the row a bad line.
func planOne(row postRow, known knownPosts, last map[services.SortableID]services.PostID) (post plannedPost, err error) {
	post.Kind, post.Body, post.ref = services.PostKindPost, row.Body, postRef(row.Key)
	post.UpdatedAt = row.firstIDOfMilli.Time()
	if row.Parent != "" {
		id := row.parentID
		// For an unknown key id stays 0, which is no post.
		if id == 0 {
			id = known.ids[postRef(row.Parent)]
		}
		parent, found := known.posts[id]
		switch {
		case !found:
			return post, services.Errorf(services.NotFound, "parent: there is no %s; a parent must come before its answers", services.Quote(row.Parent))
		// A deleted post keeps its row for the answers that it has, and gets no new ones.
		case parent.Deleted:
			return post, services.Errorf(services.NotFound, "parent: %s is deleted", services.Quote(row.Parent))
		}
		post.Parent, post.Kind = parent.ID, parent.Kind.AnswerKind()
	}
	// A millisecond has room for two million posts, including posts that the server makes. IDs of one millisecond sort as the
	// lines do.
	post.ID = services.PostID(row.firstIDOfMilli)
	if newest, some := last[row.firstIDOfMilli]; some {
		post.ID = newest + 1
	}
	if services.SortableID(post.ID) >= row.firstIDOfMilli+services.SortableIDsPerMillisecond {
		return post, services.Errorf(services.Conflict, "at is %s: this millisecond already has %d posts", services.Quote(row.At), services.SortableIDsPerMillisecond)
	}
	// The ID counts as used from here on. If write refuses the batch, the plan is made anew, with a new map.
	last[row.firstIDOfMilli] = post.ID
	return post, nil
}

// knownPosts has the objects that a batch names by key or by ID and that exist. plan adds the posts that it makes.
// A ref without a post is absent, and so is a post that nothing in the batch answers.
type knownPosts struct {
	ids   map[services.Ref]services.PostID  // the posts that have the refs
	posts map[services.PostID]services.Post // the posts that the batch may answer
}

// postRef is the ref of a post with a key.
func postRef(key string) services.Ref { return services.Ref{Type: services.PostType, Text: key} }

// readKnown reads the objects that the batch names, in one statement for the refs and one for the posts that rows answer.
func (im *postImport) readKnown(ctx context.Context) (known knownPosts, err error) {
	var names, parents []string
	var ids []services.PostID
	for _, row := range im.Rows {
		if row.Key != "" {
			names = append(names, row.Key)
		}
		if row.parentID != 0 {
			ids = append(ids, row.parentID)
		} else if row.Parent != "" {
			parents = append(parents, row.Parent)
		}
	}
	// Keys of rows show which posts exist already; parents lead to their posts.
	holders, err := refs.FindKeys(ctx, im.DB, services.PostType, append(names, parents...))
	if err != nil {
		return known, err
	}
	known.ids = make(map[services.Ref]services.PostID, len(im.Rows))
	// Refs of deleted posts are found too: their keys are taken for good.
	for ref, holder := range holders {
		known.ids[ref] = services.PostID(holder.Object.Number)
	}
	// Parents in this batch are absent here: plan adds them when it comes to them.
	for _, parent := range parents {
		if id, found := known.ids[postRef(parent)]; found {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	if len(ids) == 0 {
		known.posts = map[services.PostID]services.Post{}
		return known, nil
	}
	known.posts, err = posts.ByID(ctx, im.DB, slices.Compact(ids))
	return known, err
}

// newestIDsByMilli returns the greatest used ID of each millisecond of the batch. A millisecond after the newest post has no used
// ID, so that a file of posts newer than all others costs one look at the end of the index instead of one for each row.
func (im *postImport) newestIDsByMilli(ctx context.Context) (map[services.SortableID]services.PostID, error) {
	newest, err := posts.Newest(ctx, im.DB)
	if err != nil {
		return nil, err
	}
	var moments []services.SortableID
	for _, row := range im.Rows {
		if row.firstIDOfMilli <= services.SortableID(newest) {
			moments = append(moments, row.firstIDOfMilli)
		}
	}
	slices.Sort(moments)
	return posts.NewestAt(ctx, im.DB, slices.Compact(moments))
}
