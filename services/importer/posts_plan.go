package importer

import (
	"context"
	"slices"

	"tidings/services"
	"tidings/services/posts"
)

// plan makes posts of the batch, in its order: it finds the posts that they answer, omits those that exist already, and
// gives each the next id of its millisecond. Bad rows are set aside and leave the batch. The author of a planned post is an
// index in the table of keys.
func (im *postImport) plan(ctx context.Context) ([]posts.Imported, error) {
	known, byID, err := im.mentioned(ctx)
	if err != nil {
		return nil, err
	}
	last, err := im.lastOfMoments(ctx)
	if err != nil {
		return nil, err
	}
	planned := make([]posts.Imported, 0, len(im.batch))
	good := im.batch[:0]
	for _, row := range im.batch {
		if _, exists := known[row.Key]; exists && row.Key != "" {
			good = append(good, row)
			continue
		}
		post, err := planOne(row, known, byID, last)
		if err != nil {
			im.putAside(row.number, row.line, err)
			continue
		}
		post.OffFeed = !slices.Contains(im.kinds, post.Kind)
		post.Author = services.UserID(im.keys.place([]byte(row.Author)))
		if row.Key != "" {
			known[row.Key] = post.Post
		}
		good = append(good, row)
		planned = append(planned, post)
	}
	im.batch = good
	return planned, nil
}

// planOne makes the post of one row, all but its author.
func planOne(row postRow, known map[string]services.Post, byID map[services.PostID]services.Post, last map[services.PostID]services.PostID) (post posts.Imported, err error) {
	post.Kind, post.Body, post.ImportKey = services.PostKindPost, row.Body, row.Key
	post.UpdatedAt = row.moment.Time()
	if row.Parent != "" {
		parent, found := known[row.Parent]
		if row.parent != 0 {
			parent, found = byID[row.parent]
		}
		switch {
		case !found:
			return post, services.Errorf(services.NotFound, "parent: there is no %s; a parent must come before its answers", services.Quote(row.Parent))
		case parent.Deleted:
			return post, services.Errorf(services.NotFound, "parent: %s is deleted", services.Quote(row.Parent))
		}
		post.Parent, post.Kind = parent.ID, parent.Kind.AnswerKind()
	}
	post.ID = row.moment
	if newest, some := last[row.moment]; some {
		post.ID = newest + 1
	}
	if post.ID >= row.moment+services.PostsAMillisecond {
		return post, services.Errorf(services.Conflict, "at is %s: this millisecond already has %d posts", services.Quote(row.At), services.PostsAMillisecond)
	}
	last[row.moment] = post.ID
	return post, nil
}

// mentioned finds the posts that the batch names by key or by id, as far as they are in.
func (im *postImport) mentioned(ctx context.Context) (map[string]services.Post, map[services.PostID]services.Post, error) {
	var keys []string
	var ids []services.PostID
	for _, row := range im.batch {
		if row.Key != "" {
			keys = append(keys, row.Key)
		}
		if row.parent != 0 {
			ids = append(ids, row.parent)
		} else if row.Parent != "" {
			keys = append(keys, row.Parent)
		}
	}
	slices.Sort(keys)
	known, err := posts.ByImportKey(ctx, im.stored, slices.Compact(keys))
	if err != nil || len(ids) == 0 {
		return known, nil, err
	}
	slices.Sort(ids)
	byID, err := posts.ByID(ctx, im.stored, slices.Compact(ids))
	return known, byID, err
}

// lastOfMoments returns the greatest used ID of each millisecond of the batch. A millisecond after every post has none.
func (im *postImport) lastOfMoments(ctx context.Context) (map[services.PostID]services.PostID, error) {
	newest, err := posts.Newest(ctx, im.stored)
	if err != nil {
		return nil, err
	}
	var moments []services.PostID
	for _, row := range im.batch {
		if row.moment <= newest {
			moments = append(moments, row.moment)
		}
	}
	slices.Sort(moments)
	return posts.NewestAt(ctx, im.stored, slices.Compact(moments))
}
