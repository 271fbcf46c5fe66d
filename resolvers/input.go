package resolvers

import (
	"context"

	"tidings/graph"
	"tidings/services"
	"tidings/services/feed"
	"tidings/services/jobs"
)

type byHostKey struct{}

// byHost says that the host application names the users in what follows: it makes those that there are not.
func byHost(ctx context.Context) context.Context { return context.WithValue(ctx, byHostKey{}, true) }

// byScope is byHost where the token has the host application's scope, and not the operators' alone.
func byScope(ctx context.Context) context.Context {
	if viewer, err := services.ViewerFrom(ctx); err == nil && viewer.Has(services.ScopeIngest) {
		return byHost(ctx)
	}
	return ctx
}

// hosts says whether the host application names the users: see byHost.
func hosts(ctx context.Context) bool { return ctx.Value(byHostKey{}) != nil }

// number is the user of a global id. NOT_FOUND when there is none, but see byHost.
func (r *Resolver) number(ctx context.Context, field, id string) (services.UserNumber, error) {
	numbers, err := r.numbers(ctx, field, []string{id})
	if err != nil {
		return 0, err
	}
	return numbers[0], nil
}

// numbers are the users of up to 500 global ids, as number finds each: one query for all.
func (r *Resolver) numbers(ctx context.Context, field string, ids []string) ([]services.UserNumber, error) {
	const most = 500
	if len(ids) > most {
		return nil, services.Errorf(services.Invalid, "%s: up to %d are allowed, got %d", field, most, len(ids))
	}
	keys := make([]string, len(ids))
	for i, id := range ids {
		var err error
		if keys[i], err = services.ParseUserID(field, id); err != nil {
			return nil, err
		}
	}
	find := r.Social.KnownAll
	if hosts(ctx) {
		find = r.Social.Make
	}
	known, err := find(ctx, keys)
	if err != nil {
		return nil, err
	}
	users := make([]services.UserNumber, len(keys))
	for i, key := range keys {
		var ok bool
		if users[i], ok = known[key]; !ok {
			return nil, services.NoUser(field, key)
		}
	}
	return users, nil
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

// publish makes the command of a post from what a client said.
func (r *Resolver) publish(author services.UserNumber, body string, parentID *string, mentions []string) (*jobs.Command, error) {
	draft, err := drafted(body, parentID, mentions)
	if err != nil {
		return nil, err
	}
	return r.Feed.Publish(author, draft)
}

// edit makes the command of editing a post.
func (r *Resolver) edit(author services.UserNumber, postID, body string, mentions []string) (*jobs.Command, error) {
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

// markHomeFeedSeen makes the command of the mark. Without upTo it covers everything that is in the feed when it is committed.
func (r *Resolver) markHomeFeedSeen(reader services.UserNumber, upTo *string) (*jobs.Command, error) {
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
	cmd := r.Feed.MarkSeen(reader, 0)
	cmd.Input = "" // as older versions wrote it: a key outlives an upgrade
	return cmd, nil
}
