package importer

import (
	"context"
	"slices"

	"tidings/services"
	"tidings/services/posts"
)

// plannedPost is a post that does not exist yet, with its ref; an empty text means none. Its author is an index in the table of keys.
type plannedPost struct {
	services.Post
	ref services.Ref
}

// plan makes posts of the batch, in its order: it finds the posts that they answer, omits those that exist already, and
// gives each the next id of its millisecond. Bad rows are set aside and leave the batch.
func (im *postImport) plan(ctx context.Context) ([]plannedPost, error) {
	known, err := im.mentioned(ctx)
	if err != nil {
		return nil, err
	}
	last, err := im.lastOfMoments(ctx)
	if err != nil {
		return nil, err
	}
	planned := make([]plannedPost, 0, len(im.batch))
	good := im.batch[:0]
	for _, row := range im.batch {
		if _, exists := known.ids[postRef(row.Key)]; exists && row.Key != "" {
			good = append(good, row)
			continue
		}
		post, err := planOne(row, known, last)
		if err != nil {
			im.putAside(row.number, row.line, err)
			continue
		}
		post.OffFeed = !slices.Contains(im.kinds, post.Kind)
		post.Author = services.UserID(im.keys.place([]byte(row.Author)))
		if row.Key != "" {
			known.ids[post.ref] = post.ID
			known.posts[post.ID] = post.Post
		}
		good = append(good, row)
		planned = append(planned, post)
	}
	im.batch = good
	return planned, nil
}

// planOne makes the post of one row, except for its author.
func planOne(row postRow, known mentioned, last map[services.PostID]services.PostID) (post plannedPost, err error) {
	post.Kind, post.Body, post.ref = services.PostKindPost, row.Body, postRef(row.Key)
	post.UpdatedAt = row.moment.Time()
	if row.Parent != "" {
		id := row.parent
		if id == 0 {
			id = known.ids[postRef(row.Parent)]
		}
		parent, found := known.posts[id]
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

// mentioned is the objects that a batch names by key or by ID and that exist.
type mentioned struct {
	ids   map[services.Ref]services.PostID
	posts map[services.PostID]services.Post // those that the batch may answer
}

func postRef(key string) services.Ref { return services.Ref{Type: services.PostType, Text: key} }

// mentioned reads what the batch names, in one statement for the refs and one for the posts that rows answer.
func (im *postImport) mentioned(ctx context.Context) (known mentioned, err error) {
	var names, parents []string
	var ids []services.PostID
	for _, row := range im.batch {
		if row.Key != "" {
			names = append(names, row.Key)
		}
		if row.parent != 0 {
			ids = append(ids, row.parent)
		} else if row.Parent != "" {
			parents = append(parents, row.Parent)
		}
	}
	holders, err := findRefs(ctx, im.stored, services.PostType, append(names, parents...))
	if err != nil {
		return known, err
	}
	known.ids = make(map[services.Ref]services.PostID, len(im.batch))
	for ref, holder := range holders {
		known.ids[ref] = services.PostID(holder.Object.Number)
	}
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
	known.posts, err = posts.ByID(ctx, im.stored, slices.Compact(ids))
	return known, err
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
