package resolvers

import (
	"context"

	"tidings/graph"
	"tidings/services"
	"tidings/services/fanout"
	"tidings/services/feed"
)

// number is the user of a global id, who exists once he is named.
func (r *Resolver) number(ctx context.Context, field, id string) (services.UserNumber, error) {
	key, err := services.ParseUserID(field, id)
	if err != nil {
		return 0, err
	}
	return r.Social.Number(ctx, key)
}

// mentioned is the user of a global id, if he was ever mentioned: naming him here does not make him.
func (r *Resolver) mentioned(ctx context.Context, field, id string) (services.UserNumber, error) {
	key, err := services.ParseUserID(field, id)
	if err != nil {
		return 0, err
	}
	number, known, err := r.Social.Known(ctx, key)
	if err == nil && !known {
		err = services.Errorf(services.NotFound, "%s: there is no user %s", field, services.Quote(key))
	}
	return number, err
}

// pair is the viewer and the other user of a mutation.
func (r *Resolver) pair(ctx context.Context, userID string) (*graph.Viewer, services.UserNumber, error) {
	viewer, err := r.viewer(ctx)
	if err != nil {
		return nil, 0, err
	}
	number, err := r.number(ctx, "userId", userID)
	return viewer, number, err
}

// publish makes the op of a post from what a client said.
func (r *Resolver) publish(author services.UserNumber, body string, parentID *string, mentions []string) (*fanout.Op, error) {
	draft, err := drafted(body, parentID, mentions)
	if err != nil {
		return nil, err
	}
	return r.Feed.Publish(author, draft)
}

// edit makes the op of editing a post.
func (r *Resolver) edit(author services.UserNumber, postID, body string, mentions []string) (*fanout.Op, error) {
	id, err := services.ParsePostGlobalID("postId", postID)
	if err != nil {
		return nil, err
	}
	draft, err := drafted(body, nil, mentions)
	if err != nil {
		return nil, err
	}
	return r.Feed.Edit(author, id, draft)
}

// drafted is a draft of what the input says.
func drafted(body string, parentID *string, mentions []string) (draft feed.Draft, err error) {
	draft.Body = body
	if parentID != nil {
		if draft.Parent, err = services.ParsePostGlobalID("parentId", *parentID); err != nil {
			return draft, err
		}
	}
	for _, id := range mentions {
		key, err := services.ParseUserID("mentions", id)
		if err != nil {
			return draft, err
		}
		draft.Mentions = append(draft.Mentions, key)
	}
	return draft, nil
}

// markHomeFeedSeen makes the op of the mark. Without upTo it covers everything that is in the feed when it is committed.
func (r *Resolver) markHomeFeedSeen(reader services.UserNumber, upTo *string) (*fanout.Op, error) {
	if upTo != nil {
		place, err := services.ParsePostGlobalID("upTo", *upTo)
		if err != nil {
			return nil, err
		}
		if place == 0 { // which stands for no place
			return nil, services.Errorf(services.NotFound, "upTo: there is no %s", *upTo)
		}
		return r.Feed.MarkSeen(reader, place), nil
	}
	op := r.Feed.MarkSeen(reader, 0)
	op.Input = "" // as older versions wrote it: a key outlives an upgrade
	return op, nil
}
