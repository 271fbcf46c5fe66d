package resolvers

import (
	"context"
	"strconv"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"

	"tidings/graph"
	"tidings/services"
	"tidings/services/feed"
)

// shownFeed is a page of a home feed with the ID of its user, which its cursors contain. One goroutine reads it and writes it into the
// answer, so it needs no lock.
type shownFeed struct {
	feed.Page
	viewer      services.UserID
	engagements map[services.PostID]services.Engagement // of the posts; nil if they are not requested
	relations   map[services.UserID]services.Relation   // of the authors; nil if they are not requested
	labels      map[services.Object]services.Label      // of the posts; nil if they are not requested
}

// size estimates the bytes of the page, so that the buffer of the answer is large enough from the beginning.
func (p *shownFeed) size() int {
	// edge is the number of bytes of an edge with all fields and an author, without the body. Bodies vary most, so their lengths
	// are added below.
	const edge = 384
	size := len(p.Items) * edge
	for i := range p.Items {
		size += len(p.Items[i].Post.Body)
	}
	return size
}

// shownEdge is a post in its place in a feed: the edge and the node in one. It is used for one entry after another: see eachPost. Parts
// that the selection does not need are zero.
type shownEdge struct {
	*feed.Item
	viewer     services.UserID // whose feed it is
	engagement services.Engagement
	author     shownUser
	label      services.Label
}

// homeFeedPart compiles a page of the viewer's home feed; nil if a field cannot be compiled. Only the data that the selection needs is
// read. The posts are read with their authors. Counts, relations and labels take one statement each.
func homeFeedPart(field *ast.Field) *part {
	write := pageObject.compile(field.SelectionSet)
	if write == nil {
		return nil
	}
	// What the selection needs beside the page is found out here, once for each document.
	wanted := wantedBelow(field.SelectionSet, nil)
	engaged := len(wanted["Post.viewerHasLiked"])+len(wanted["Post.likeCount"])+len(wanted["Post.commentCount"]) > 0
	related := wanted.selectsRelations()
	labelled := wanted.selectsLabels("Post")
	joint := jointNot
	first, top := topPageSize(field)
	if top && !engaged && !related && !labelled {
		joint = jointFeed
	}
	return &part{
		joint: joint, first: first,
		key:   appendKey(nil, field),
		write: func(to []byte, c *content) []byte { return write(to, &c.feed) },
		read: func(ctx context.Context, r *Resolver, viewer *graph.Viewer, variables map[string]any, c *content) error {
			// Arguments are read as the executor reads them. A wrong argument leaves the request to the executor.
			arguments := field.ArgumentMap(variables)
			first, err := argument(arguments, "first", graph.UnmarshalInt)
			if err != nil {
				return err
			}
			after, err := argument(arguments, "after", graphql.UnmarshalString)
			if err != nil {
				return err
			}
			lastID, err := argument(arguments, "lastId", graphql.UnmarshalID)
			if err != nil {
				return err
			}
			newerThan, err := argument(arguments, "newerThan", graphql.UnmarshalID)
			if err != nil {
				return err
			}
			last, err := argument(arguments, "last", graph.UnmarshalInt)
			if err != nil {
				return err
			}
			before, err := argument(arguments, "before", graphql.UnmarshalString)
			if err != nil {
				return err
			}
			c.feed.viewer = viewer.Number
			// The executor's resolver calls homeFeed too, so that pages and errors are the same.
			if c.feed.Page, err = r.homeFeed(ctx, viewer.Number, feedArguments{first, after, lastID, newerThan, last, before}.withGivenFirst(field, variables)); err != nil {
				return err
			}
			// Counts, labels and relations are one read each for the whole page, and only if a field shows them. The counts are
			// of likes and comments, with the viewer's own like. The result has every post of the page.
			if engaged {
				ids := make([]services.PostID, len(c.feed.Items))
				for i := range c.feed.Items {
					ids[i] = c.feed.Items[i].Post.ID
				}
				if c.feed.engagements, err = r.Feed.Engagements(ctx, viewer.Number, ids); err != nil {
					return err
				}
			}
			if labelled {
				if c.feed.labels, err = labelsOf(ctx, r, c.feed.Items, func(item *feed.Item) services.Object { return postObject(item.Post.ID) }); err != nil {
					return err
				}
			}
			// An author can have several posts on a page, and is asked for once.
			if related {
				c.feed.relations, err = r.Social.Relations(ctx, viewer.Number, userIDsOf(c.feed.Items, func(item *feed.Item) *services.User { return &item.Author }))
			}
			return err
		},
	}
}

// argument reads an argument as the executor does; nil if it is null or absent. A variable has the value that was decoded from JSON, so
// unmarshal refuses a value of a wrong type.
func argument[T any](arguments map[string]any, name string, unmarshal func(any) (T, error)) (*T, error) {
	given := arguments[name]
	if given == nil {
		return nil, nil
	}
	value, err := unmarshal(given)
	return &value, err
}

// appendPostID writes the global ID of a post.
func appendPostID(to []byte, id services.PostID) []byte {
	return appendID(to, services.PostType, id.String())
}

// appendFeedCursor writes a position in the viewer's feed.
func appendFeedCursor(to []byte, viewer services.UserID, position services.PostID) []byte {
	return append(feedCursor.append(append(to, '"'), viewer, uint64(position)), '"')
}

// eachPost returns the compiler of a list with one entry for each post of a page, such as edges or nodes. entry compiles the object that
// is written for each post. One shownEdge serves all entries, because a writer keeps nothing. A slice of edges would cost an allocation
// that is as large as the page.
func eachPost(entry fieldCompiler[shownEdge]) fieldCompiler[shownFeed] {
	return func(selected ast.SelectionSet) writer[shownFeed] {
		write := entry(selected)
		if write == nil {
			return nil
		}
		return func(to []byte, page *shownFeed) []byte {
			to = append(to, '[')
			// All entries share this variable: a writer has appended the values of an entry before they are replaced by those of the
			// next.
			edge := shownEdge{viewer: page.viewer}
			for i := range page.Items {
				if i > 0 {
					to = append(to, ',')
				}
				edge.Item = &page.Items[i]
				if page.engagements != nil {
					edge.engagement = page.engagements[edge.Post.ID]
				}
				// Without labels the map is nil, and this is the empty label.
				edge.label = page.labels[postObject(edge.Post.ID)]
				edge.author = shownUser{&edge.Author, page.relations[edge.Author.Number]}
				to = write(to, &edge)
			}
			return append(to, ']')
		}
	}
}

// The types of a home feed. The lists of a post and its parent are not compiled, because they need reads of their own.
var (
	// feedPostObject is the object of a post. The order of the fields means nothing: an answer is in the order of its document.
	feedPostObject = objectCompiler[shownEdge]{"Post", map[string]fieldCompiler[shownEdge]{
		"id":     leaf(func(to []byte, i *shownEdge) []byte { return appendPostID(to, i.Post.ID) }),
		"kind":   leaf(func(to []byte, i *shownEdge) []byte { return graph.AppendText(to, string(i.Post.Kind)) }),
		"author": objectField(func(i *shownEdge) *shownUser { return &i.author }, userObject),
		"body":   leaf(func(to []byte, i *shownEdge) []byte { return graph.AppendText(to, i.Post.Body) }),
		"parentId": leaf(func(to []byte, i *shownEdge) []byte {
			if i.Post.Parent == 0 {
				return append(to, "null"...)
			}
			return appendPostID(to, i.Post.Parent)
		}),
		"publishedAt": leaf(func(to []byte, i *shownEdge) []byte { return graph.AppendTime(to, i.Post.ID.Time()) }),
		// A post that was never edited has the zero time, which is shown as null.
		"editedAt": leaf(func(to []byte, i *shownEdge) []byte {
			if i.Post.EditedAt.IsZero() {
				return append(to, "null"...)
			}
			return graph.AppendTime(to, i.Post.EditedAt)
		}),
		"viewerCanEdit":  leaf(func(to []byte, i *shownEdge) []byte { return strconv.AppendBool(to, i.Post.Author == i.viewer) }),
		"viewerHasLiked": leaf(func(to []byte, i *shownEdge) []byte { return strconv.AppendBool(to, i.engagement.Liked) }),
		"ref":            leaf(func(to []byte, i *shownEdge) []byte { return appendTextOrNull(to, i.label.Ref) }),
		"url":            leaf(func(to []byte, i *shownEdge) []byte { return appendTextOrNull(to, i.label.URL) }),
		"data":           leaf(func(to []byte, i *shownEdge) []byte { return appendData(to, i.label.Data) }),
		"likeCount":      leaf(func(to []byte, i *shownEdge) []byte { return strconv.AppendInt(to, int64(i.engagement.Likes), 10) }),
		"commentCount":   leaf(func(to []byte, i *shownEdge) []byte { return strconv.AppendInt(to, int64(i.engagement.Comments), 10) }),
	}}

	// The cursor is the post's own position, even if the page ends further below.
	edgeObject = objectCompiler[shownEdge]{"PostEdge", map[string]fieldCompiler[shownEdge]{
		"cursor": leaf(func(to []byte, e *shownEdge) []byte { return appendFeedCursor(to, e.viewer, e.Post.ID) }),
		// One value is the edge and the post, so get has nothing to do.
		"node": objectField(func(e *shownEdge) *shownEdge { return e }, feedPostObject),
	}}

	// hasPreviousPage is true only for a page that was read upwards: see homeFeedAbove.
	pageInfoObject = objectCompiler[shownFeed]{"PageInfo", map[string]fieldCompiler[shownFeed]{
		"hasNextPage":     leaf(func(to []byte, p *shownFeed) []byte { return strconv.AppendBool(to, p.HasNext) }),
		"hasPreviousPage": leaf(func(to []byte, p *shownFeed) []byte { return strconv.AppendBool(to, p.HasPrevious) }),
		"startCursor": leaf(func(to []byte, p *shownFeed) []byte {
			if len(p.Items) == 0 {
				return append(to, "null"...)
			}
			return appendFeedCursor(to, p.viewer, p.Items[0].Post.ID)
		}),
		// endCursor is the page's own position and not that of its last post: see connection. Otherwise a client would take a page
		// without posts, because all of them are hidden, for the end of the feed.
		"endCursor": leaf(func(to []byte, p *shownFeed) []byte {
			if p.Next == 0 {
				return append(to, "null"...)
			}
			return appendFeedCursor(to, p.viewer, p.Next)
		}),
	}}

	// A selection with both edges and nodes writes each post twice, as the executor does.
	pageObject = objectCompiler[shownFeed]{"PostConnection", map[string]fieldCompiler[shownFeed]{
		"edges":    eachPost(edgeObject.compile),
		"nodes":    eachPost(feedPostObject.compile),
		"pageInfo": objectField(func(p *shownFeed) *shownFeed { return p }, pageInfoObject),
		// lastId is for clients that keep no cursors. It is the same position as endCursor.
		"lastId": leaf(func(to []byte, p *shownFeed) []byte {
			if p.Next == 0 {
				return append(to, "null"...)
			}
			return appendPostID(to, p.Next)
		}),
		"end":      leaf(func(to []byte, p *shownFeed) []byte { return appendTextOrNull(to, string(p.End)) }),
		"building": leaf(func(to []byte, p *shownFeed) []byte { return strconv.AppendBool(to, p.Building) }),
	}}
)
