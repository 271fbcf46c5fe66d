package resolvers

import (
	"context"

	"tidings/graph"
	"tidings/services"
	"tidings/services/feed"
	"tidings/services/jobs"
)

// publishPost makes a post, or an answer to one. The kind follows from the parent: an answer to a post is a comment, an
// answer to an answer a reply.
var publishPost = &operation[graph.PublishPostInput]{
	operationSpec: operationSpec{name: "publishPost", createdType: services.PostType},
	command: func(ctx context.Context, c *operationCall, in *graph.PublishPostInput) (*jobs.Command, error) {
		draft, err := c.draft(ctx, in.Body, in.ParentID, in.Mentions)
		if err != nil {
			return nil, err
		}
		return c.r.Feed.Publish(c.actor, draft)
	},
}

// editPost replaces the text. Mentions that are left out stay; a list, also an empty one, replaces them. Users who are newly
// mentioned are notified. Users who are no longer mentioned lose their notifications.
var editPost = &operation[graph.EditPostInput]{
	operationSpec: operationSpec{name: "editPost", createdType: services.PostType},
	command: func(ctx context.Context, c *operationCall, in *graph.EditPostInput) (*jobs.Command, error) {
		id, err := c.postID(in.PostID)
		if err != nil {
			return nil, err
		}
		// null is an empty list here: it removes the mentions of the former list.
		mentions, given := in.Mentions.ValueOK()
		draft, err := c.draft(ctx, in.Body, nil, mentions)
		if err != nil {
			return nil, err
		}
		draft.KeepListedMentions = !given
		return c.r.Feed.Edit(c.actor, id, draft)
	},
}

// deletePost takes a post out of all feeds. Its ID still names a position, so a client goes on paging below it as before.
var deletePost = &operation[graph.DeletePostInput]{
	operationSpec: operationSpec{name: "deletePost", createdType: services.PostType},
	command: func(_ context.Context, c *operationCall, in *graph.DeletePostInput) (*jobs.Command, error) {
		id, err := c.postID(in.PostID)
		return c.r.Feed.Delete(c.actor, id), err
	},
}

// markHomeFeedSeen marks the feed as seen. Without upTo it covers every post in the feed at the time of the commit. The mark
// never moves back. upTo may name a post that no longer exists.
var markHomeFeedSeen = &operation[graph.MarkHomeFeedSeenInput]{
	operationSpec: operationSpec{name: "markHomeFeedSeen"},
	command: func(_ context.Context, c *operationCall, in *graph.MarkHomeFeedSeenInput) (*jobs.Command, error) {
		if in.UpTo == nil {
			return c.r.Feed.MarkSeen(c.actor, 0), nil
		}
		position, err := services.ParsePostGlobalID("upTo", *in.UpTo)
		if err == nil && position == 0 { // 0 would mean no upTo
			err = services.Errorf(services.NotFound, "upTo: there is no %s", *in.UpTo)
		}
		return c.r.Feed.MarkSeen(c.actor, position), err
	},
}

// draft is the post of an input, for a new post and for an edit, which has no parent. If the host application acts, users
// in mentions who do not exist are created.
func (c *operationCall) draft(ctx context.Context, body string, parentID *string, mentions []string) (draft feed.Draft, err error) {
	// If a user acts, nobody is created: a mention of an unknown user is NOT_FOUND in the commit.
	if createsUsers(ctx) {
		if _, err := c.r.resolveUserIDs(ctx, "mentions", mentions); err != nil {
			return draft, err
		}
	}
	draft.Body = body
	if parentID != nil {
		if draft.Parent, err = services.ParsePostGlobalID("parentId", *parentID); err != nil {
			return draft, err
		}
	}
	// Mentions has keys, because the commit looks these users up together with the users that the body mentions.
	for _, id := range mentions {
		key, err := services.ParseUserID("mentions", id)
		if err != nil {
			return draft, err
		}
		draft.Mentions = append(draft.Mentions, key)
	}
	return draft, nil
}
