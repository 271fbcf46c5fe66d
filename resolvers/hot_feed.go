package resolvers

import (
	"context"
	"slices"
	"sync"

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
	viewer      services.UserID                         // whose feed it is
	engagements map[services.PostID]services.Engagement // of the posts; nil if they are not requested
	relations   map[services.UserID]services.Relation   // of the authors; nil if they are not requested
	labels      map[services.Object]services.Label      // of the posts; nil if they are not requested
}

// estimatedBytes estimates the bytes of the page, so that the buffer of the answer is large enough from the beginning.
func (p *shownFeed) estimatedBytes() int {
	// edge is the number of bytes of an edge with all fields and an author, without the body. Bodies vary most, so their lengths
	// are added below.
	const edge = 384
	size := len(p.Items) * edge
	for i := range p.Items {
		size += len(p.Items[i].Post.Body)
	}
	return size
}

// fill makes a page of the schema for appenders: without IDs and cursors of its items, which these write. The page has texts of p,
// which must stay as it is until the page is written.
func (p *shownFeed) fill(page *pooledFeedPage) {
	page.reads = graph.PostReads{Viewer: p.viewer, Engagements: p.engagements, Labels: p.labels}
	page.PageInfo.HasNextPage, page.PageInfo.HasPreviousPage, page.Building = p.HasNext, p.HasPrevious, p.InboxBuilding
	page.Edges = slices.Grow(page.Edges, len(p.Items))[:len(p.Items)]
	for i := range p.Items {
		item, post := &p.Items[i], &page.Edges[i].Node
		post.Kind, post.Body, post.PublishedAt = item.Post.Kind, item.Post.Body, item.Post.ID.Time()
		post.Number, post.AuthorID, post.ParentNumber, post.Read = item.Post.ID, item.Post.Author, item.Post.Parent, &page.reads
		if !item.Post.EditedAt.IsZero() {
			post.EditedAt = &item.Post.EditedAt
		}
		fillHotUser(&post.Author, &item.Author, p.relations)
	}
	if len(p.Items) > 0 {
		page.startCursor = feedCursorText(p.viewer, p.Items[0].Post.ID)
		page.PageInfo.StartCursor = &page.startCursor
	}
	// The page ends with the last position that was looked at, which may be after its last post: posts between them are hidden or
	// deleted. postConnection does the same.
	if p.NextPageAfter != 0 {
		page.endCursor, page.lastID = feedCursorText(p.viewer, p.NextPageAfter), services.GlobalID(services.PostType, p.NextPageAfter.String())
		page.PageInfo.EndCursor, page.LastID = &page.endCursor, &page.lastID
	}
	if p.End != "" {
		page.End = &p.End
	}
}

// append appends the page. write is the compiled selection of the page.
func (p *shownFeed) append(to []byte, write func(to []byte, page *graph.PostConnection) []byte) []byte {
	page := feedPagePool.Get().(*pooledFeedPage)
	p.fill(page)
	to = write(to, &page.PostConnection)
	page.clear()
	feedPagePool.Put(page)
	return to
}

// pooledFeedPage is a page of posts that is filled, written and cleared again. It is reused, because a page with its edges is some
// 8 KB.
type pooledFeedPage struct {
	graph.PostConnection
	reads                          graph.PostReads // the nodes point to it
	startCursor, endCursor, lastID string          // the fields of the page point to them
}

// clear empties the page, and keeps the memory of its edges.
func (page *pooledFeedPage) clear() {
	clear(page.Edges)
	*page = pooledFeedPage{PostConnection: graph.PostConnection{Edges: page.Edges[:0]}}
}

// feedPagePool has pages for reuse.
var feedPagePool = sync.Pool{New: func() any { return new(pooledFeedPage) }}

// homeFeedPart compiles a page of the viewer's home feed; nil if a field cannot be compiled. Only the data that the selection needs is
// read. The posts are read with their authors. Counts, relations and labels take one statement each.
func homeFeedPart(field *ast.Field) *hotPlanPart {
	write := appenders.PostConnection(field.SelectionSet)
	if write == nil {
		return nil
	}
	// What the selection needs beside the page is found out here, once for each document.
	wanted := selectedFieldsBelow(field.SelectionSet, nil)
	engaged := len(wanted["Post.viewerHasLiked"])+len(wanted["Post.likeCount"])+len(wanted["Post.commentCount"]) > 0
	related := wanted.selectsRelations()
	labelled := wanted.selectsLabels("Post")
	joint := jointNone
	if !engaged && !related && !labelled {
		joint = jointFeed
	}
	return &hotPlanPart{
		joint: joint, field: field,
		jsonKey: graph.AppendKey(nil, field),
		write:   func(to []byte, c *hotPartValue) []byte { return c.feed.append(to, write) },
		read: func(ctx context.Context, r *Resolver, viewer *graph.Viewer, variables map[string]any, c *hotPartValue) error {
			// Arguments are read as the executor reads them. A wrong argument leaves the request to the executor.
			arguments := field.ArgumentMap(variables)
			var err error
			first := argument(arguments, "first", graph.UnmarshalInt, &err)
			after := argument(arguments, "after", graphql.UnmarshalString, &err)
			lastID := argument(arguments, "lastId", graphql.UnmarshalID, &err)
			newerThan := argument(arguments, "newerThan", graphql.UnmarshalID, &err)
			last := argument(arguments, "last", graph.UnmarshalInt, &err)
			before := argument(arguments, "before", graphql.UnmarshalString, &err)
			if err != nil {
				return err
			}
			c.feed.viewer = viewer.UserID
			// The executor's resolver calls homeFeed too, so that pages and errors are the same.
			if c.feed.Page, err = r.homeFeed(ctx, viewer.UserID, feedArguments{first, after, lastID, newerThan, last, before}.withoutDefaultFirst(field, variables)); err != nil {
				return err
			}
			// Counts, labels and relations are one read each for the whole page, and only if a field shows them. The counts are
			// of likes and comments, with the viewer's own like. The result has every post of the page.
			if engaged {
				ids := make([]services.PostID, len(c.feed.Items))
				for i := range c.feed.Items {
					ids[i] = c.feed.Items[i].Post.ID
				}
				if c.feed.engagements, err = r.Feed.Engagements(ctx, viewer.UserID, ids); err != nil {
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
				c.feed.relations, err = r.Social.Relations(ctx, viewer.UserID, userIDsOf(c.feed.Items, func(item *feed.Item) *services.User { return &item.Author }))
			}
			return err
		},
	}
}

// argument reads an argument as the executor does; nil if it is null or absent. A variable has the value that was decoded from
// JSON, so unmarshal refuses a value of a wrong type. After an error of an earlier argument it reads nothing.
func argument[T any](arguments map[string]any, name string, unmarshal func(any) (T, error), err *error) *T {
	given := arguments[name]
	if given == nil || *err != nil {
		return nil
	}
	var value T
	value, *err = unmarshal(given)
	return &value
}
