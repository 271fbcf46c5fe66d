package resolvers

import (
	"context"

	"tidings/graph"
	"tidings/services"
	"tidings/services/fanout"
)

const maxEvents = 500

// ingest does every event in one commit and answers for each by itself.
func (r *Resolver) ingest(ctx context.Context, events []graph.IngestEvent) (*graph.IngestPayload, error) {
	if len(events) == 0 || len(events) > maxEvents {
		return nil, services.Errorf(services.Invalid, "events: 1 to %d are allowed, got %d", maxEvents, len(events))
	}
	results := make([]graph.IngestResult, len(events))
	ops, places := make([]*fanout.Op, 0, len(events)), make([]int, 0, len(events))
	for i, event := range events {
		op, id, err := r.event(ctx, event)
		if err != nil {
			results[i] = r.ingestFailure(err)
			continue
		}
		if id != "" {
			results[i].ID = &id
		}
		ops, places = append(ops, op), append(places, i)
	}
	if len(ops) == 0 {
		return &graph.IngestPayload{Results: results}, nil
	}
	for k, err := range r.Fanout.Commit(ctx, ops...) {
		i := places[k]
		switch ids := ops[k].IDs(); {
		case err != nil:
			results[i] = r.ingestFailure(err)
		case len(ids) > 0:
			results[i].ID = &ids[0]
		}
	}
	return &graph.IngestPayload{Results: results}, nil
}

func (r *Resolver) ingestFailure(err error) graph.IngestResult {
	shown := present(r.Log, err)
	code, _ := shown.Extensions["code"].(string)
	return graph.IngestResult{Error: &graph.IngestError{Code: code, Message: shown.Message}}
}

// event makes the op of one event, and the id that it names.
func (r *Resolver) event(ctx context.Context, event graph.IngestEvent) (op *fanout.Op, id string, err error) {
	// The executor does not hold @oneOf against variables: without this, one of two things would be lost unsaid.
	if named := things(event); named != 1 {
		return nil, "", services.Errorf(services.Invalid, "events: an event names exactly one thing that happened, got %d", named)
	}
	var key *string
	switch {
	case event.PublishPost != nil:
		key = event.PublishPost.Key
		op, err = as(ctx, r, event.PublishPost.As, func(actor services.UserNumber) (*fanout.Op, error) {
			return r.Feed.Publish(actor, event.PublishPost.Body)
		})
	case event.DeletePost != nil:
		key, id = event.DeletePost.Key, event.DeletePost.PostID
		op, err = r.onPost(ctx, event.DeletePost.As, id, r.Feed.Delete)
	case event.LikePost != nil:
		key, id = event.LikePost.Key, event.LikePost.PostID
		op, err = r.onPost(ctx, event.LikePost.As, id, r.Notify.Like)
	case event.UnlikePost != nil:
		key, id = event.UnlikePost.Key, event.UnlikePost.PostID
		op, err = r.onPost(ctx, event.UnlikePost.As, id, r.Notify.Unlike)
	case event.Follow != nil:
		key, id = event.Follow.Key, event.Follow.UserID
		op, err = r.onUser(ctx, event.Follow.As, id, r.Social.Follow)
	case event.Unfollow != nil:
		key, id = event.Unfollow.Key, event.Unfollow.UserID
		op, err = r.onUser(ctx, event.Unfollow.As, id, r.Social.Unfollow)
	case event.SetProfile != nil:
		key, id = event.SetProfile.Key, event.SetProfile.As
		op, err = as(ctx, r, id, func(actor services.UserNumber) (*fanout.Op, error) {
			return r.Social.SetProfile(actor, event.SetProfile.Name, event.SetProfile.AvatarURL)
		})
	case event.MarkHomeFeedSeen != nil:
		key = event.MarkHomeFeedSeen.Key
		op, err = as(ctx, r, event.MarkHomeFeedSeen.As, func(actor services.UserNumber) (*fanout.Op, error) {
			return r.markHomeFeedSeen(ctx, actor, event.MarkHomeFeedSeen.UpTo)
		})
	case event.MarkNotificationsSeen != nil:
		mark := event.MarkNotificationsSeen
		key = mark.Key
		op, err = as(ctx, r, mark.As, func(actor services.UserNumber) (*fanout.Op, error) {
			upTo, err := notificationPlace(mark.UpTo)
			if err != nil {
				return nil, err
			}
			return r.Notify.MarkSeen(actor, mark.Categories, upTo), nil
		})
	}
	if err != nil {
		return nil, "", err
	}
	return op, id, withKey(op, key)
}

// things counts what an event names.
func things(event graph.IngestEvent) (named int) {
	for _, given := range []bool{
		event.PublishPost != nil, event.DeletePost != nil, event.LikePost != nil, event.UnlikePost != nil, event.Follow != nil,
		event.Unfollow != nil, event.SetProfile != nil, event.MarkHomeFeedSeen != nil, event.MarkNotificationsSeen != nil,
	} {
		if given {
			named++
		}
	}
	return named
}

// as makes an op for the user whom an event names.
func as(ctx context.Context, r *Resolver, id string, make func(actor services.UserNumber) (*fanout.Op, error)) (*fanout.Op, error) {
	actor, err := r.number(ctx, "as", id)
	if err != nil {
		return nil, err
	}
	return make(actor)
}

func (r *Resolver) onPost(ctx context.Context, actor, post string, make func(services.UserNumber, services.PostID) *fanout.Op) (*fanout.Op, error) {
	return as(ctx, r, actor, func(actor services.UserNumber) (*fanout.Op, error) {
		id, err := services.ParsePostGlobalID("postId", post)
		if err != nil {
			return nil, err
		}
		return make(actor, id), nil
	})
}

func (r *Resolver) onUser(ctx context.Context, actor, user string, make func(actor, user services.UserNumber) *fanout.Op) (*fanout.Op, error) {
	return as(ctx, r, actor, func(actor services.UserNumber) (*fanout.Op, error) {
		other, err := r.number(ctx, "userId", user)
		if err != nil {
			return nil, err
		}
		return make(actor, other), nil
	})
}
