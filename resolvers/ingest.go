package resolvers

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"tidings/dataloader"
	"tidings/graph"
	"tidings/services"
	"tidings/services/jobs"
)

const maxEvents = 500

// timeOfEvent is what each event adds to the time of its batch.
const timeOfEvent = 10 * time.Millisecond

// withTimeFor is the context of a batch, whose deadline grows with its events.
func withTimeFor(ctx context.Context, events int) (context.Context, context.CancelFunc) {
	deadline, limited := ctx.Deadline()
	if !limited || ctx.Err() != nil {
		return ctx, func() {}
	}
	return context.WithDeadline(context.WithoutCancel(ctx), deadline.Add(time.Duration(events)*timeOfEvent))
}

// sendFewer tells the host of a batch that used up its time what helps.
func sendFewer(ctx context.Context, events int, err error) error {
	if events > 1 && services.IsUnavailable(err) && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return services.Wrapf(services.Unavailable, err, "events: %d events used up their time before they were done: send fewer at once", events)
	}
	return err
}

// ingest does every event in one commit and answers for each by itself.
func (r *Resolver) ingest(ctx context.Context, events []graph.IngestEvent) (*graph.IngestPayload, error) {
	if len(events) == 0 || len(events) > maxEvents {
		return nil, services.Errorf(services.Invalid, "events: 1 to %d are allowed, got %d", maxEvents, len(events))
	}
	ctx = byHost(ctx)
	ctx, cancel := withTimeFor(ctx, len(events))
	defer cancel()
	if err := r.Social.Meet(ctx, named(events)); err != nil {
		return nil, sendFewer(ctx, len(events), err)
	}
	results := make([]graph.IngestResult, len(events))
	cmds, places := make([]*jobs.Command, 0, len(events)), make([]int, 0, len(events))
	for i, event := range events {
		cmd, id, err := r.event(ctx, event)
		if err != nil {
			results[i] = r.ingestFailure(err)
			continue
		}
		if id != "" {
			results[i].ID = &id
		}
		cmds, places = append(cmds, cmd), append(places, i)
	}
	if len(cmds) == 0 {
		return &graph.IngestPayload{Results: results}, nil
	}
	defer dataloader.From(ctx).Forget()
	for k, err := range r.Fanout.Commit(ctx, cmds...) {
		i := places[k]
		err = sendFewer(ctx, len(events), err)
		switch ids := cmds[k].IDs(); {
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

// happening is what an event comes to: its command, the id that it names, "" for none, and its idempotency key.
type happening struct {
	cmd *jobs.Command
	id  string
	key *string
}

// ingested are the sources of events: each answers for its own, and nil for what is another's.
var ingested = []func(r *Resolver, ctx context.Context, event graph.IngestEvent) (*happening, error){
	(*Resolver).postEvent, (*Resolver).peopleEvent, (*Resolver).restrictionEvent, (*Resolver).notificationEvent,
	(*Resolver).notificationMarkEvent, (*Resolver).noticeEvent, (*Resolver).announcementEvent,
	(*Resolver).siteMessageEvent, (*Resolver).viewEvent, (*Resolver).policyEvent,
	(*Resolver).conversationEvent, (*Resolver).messageEvent, (*Resolver).positionEvent, (*Resolver).showEvent,
	(*Resolver).boardEvent,
}

// event makes the command of one event, and the id that it names.
func (r *Resolver) event(ctx context.Context, event graph.IngestEvent) (cmd *jobs.Command, id string, err error) {
	// The executor does not hold @oneOf against variables: without this, one of two things would be lost unsaid.
	if named := things(event); named != 1 {
		return nil, "", services.Errorf(services.Invalid, "events: an event names exactly one thing that happened, got %d", named)
	}
	for _, source := range ingested {
		happened, err := source(r, ctx, event)
		if err != nil {
			return nil, "", err
		}
		if happened != nil {
			return happened.cmd, happened.id, withKey(happened.cmd, happened.key)
		}
	}
	return nil, "", fmt.Errorf("events: no source knows %+v", event)
}

func (r *Resolver) postEvent(ctx context.Context, event graph.IngestEvent) (*happening, error) {
	switch {
	case event.PublishPost != nil:
		cmd, err := as(ctx, r, event.PublishPost.As, func(actor services.UserNumber) (*jobs.Command, error) {
			if _, err := r.numbers(ctx, "mentions", event.PublishPost.Mentions); err != nil {
				return nil, err
			}
			return r.publish(actor, event.PublishPost.Body, event.PublishPost.ParentID, event.PublishPost.Mentions)
		})
		return &happening{cmd, "", event.PublishPost.Key}, err
	case event.EditPost != nil:
		cmd, err := as(ctx, r, event.EditPost.As, func(actor services.UserNumber) (*jobs.Command, error) {
			if _, err := r.numbers(ctx, "mentions", event.EditPost.Mentions); err != nil {
				return nil, err
			}
			return r.edit(actor, event.EditPost.PostID, event.EditPost.Body, event.EditPost.Mentions)
		})
		return &happening{cmd, event.EditPost.PostID, event.EditPost.Key}, err
	case event.DeletePost != nil:
		cmd, err := r.onPost(ctx, event.DeletePost.As, event.DeletePost.PostID, r.Feed.Delete)
		return &happening{cmd, event.DeletePost.PostID, event.DeletePost.Key}, err
	case event.MarkHomeFeedSeen != nil:
		cmd, err := as(ctx, r, event.MarkHomeFeedSeen.As, func(actor services.UserNumber) (*jobs.Command, error) {
			return r.markHomeFeedSeen(actor, event.MarkHomeFeedSeen.UpTo)
		})
		return &happening{cmd, "", event.MarkHomeFeedSeen.Key}, err
	}
	return nil, nil
}

func (r *Resolver) peopleEvent(ctx context.Context, event graph.IngestEvent) (*happening, error) {
	switch {
	case event.Follow != nil:
		cmd, err := r.onUser(ctx, event.Follow.As, event.Follow.UserID, r.Social.Follow)
		return &happening{cmd, event.Follow.UserID, event.Follow.Key}, err
	case event.Unfollow != nil:
		cmd, err := r.onUser(ctx, event.Unfollow.As, event.Unfollow.UserID, r.Social.Unfollow)
		return &happening{cmd, event.Unfollow.UserID, event.Unfollow.Key}, err
	case event.SetProfile != nil:
		cmd, err := as(ctx, r, event.SetProfile.As, func(actor services.UserNumber) (*jobs.Command, error) {
			return r.Social.SetProfile(actor, event.SetProfile.Name, event.SetProfile.AvatarURL)
		})
		return &happening{cmd, event.SetProfile.As, event.SetProfile.Key}, err
	}
	return nil, nil
}

func (r *Resolver) notificationEvent(ctx context.Context, event graph.IngestEvent) (*happening, error) {
	switch {
	case event.LikePost != nil:
		cmd, err := r.onPost(ctx, event.LikePost.As, event.LikePost.PostID, r.Notify.Like)
		return &happening{cmd, event.LikePost.PostID, event.LikePost.Key}, err
	case event.UnlikePost != nil:
		cmd, err := r.onPost(ctx, event.UnlikePost.As, event.UnlikePost.PostID, r.Notify.Unlike)
		return &happening{cmd, event.UnlikePost.PostID, event.UnlikePost.Key}, err
	case event.MarkNotificationsSeen != nil:
		mark := event.MarkNotificationsSeen
		cmd, err := as(ctx, r, mark.As, func(actor services.UserNumber) (*jobs.Command, error) {
			return r.notificationsSeen(actor, mark.Categories, mark.UpTo)
		})
		return &happening{cmd, "", mark.Key}, err
	}
	return nil, nil
}

// named are the keys of the users whom the events name by their ids. Each exists once it is named.
func named(events []graph.IngestEvent) (keys []string) {
	note := func(id string) {
		if key, err := services.ParseUserID("", id); err == nil {
			keys = append(keys, key)
		}
	}
	for _, event := range events {
		fields := reflect.ValueOf(event)
		for i := range fields.NumField() {
			if fields.Field(i).IsNil() {
				continue
			}
			what := fields.Field(i).Elem()
			for _, field := range []string{"As", "UserID", "UserIds", "MemberIds", "MentionIds"} {
				switch ids := what.FieldByName(field); {
				case !ids.IsValid():
				case ids.Kind() == reflect.String:
					note(ids.String())
				case ids.Kind() == reflect.Slice && ids.Len() <= maxEvents:
					for k := range ids.Len() {
						note(ids.Index(k).String())
					}
				}
			}
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// things counts what an event names: every field of the event is a thing that may have happened.
func things(event graph.IngestEvent) (named int) {
	fields := reflect.ValueOf(event)
	for i := range fields.NumField() {
		if !fields.Field(i).IsNil() {
			named++
		}
	}
	return named
}

// as makes a command for the user whom an event names.
func as(ctx context.Context, r *Resolver, id string, make func(actor services.UserNumber) (*jobs.Command, error)) (*jobs.Command, error) {
	actor, err := r.number(ctx, "as", id)
	if err != nil {
		return nil, err
	}
	return make(actor)
}

func (r *Resolver) onPost(ctx context.Context, actor, post string, make func(services.UserNumber, services.PostID) *jobs.Command) (*jobs.Command, error) {
	return as(ctx, r, actor, func(actor services.UserNumber) (*jobs.Command, error) {
		id, err := services.ParsePostGlobalID("postId", post)
		if err != nil {
			return nil, err
		}
		return make(actor, id), nil
	})
}

func (r *Resolver) onUser(ctx context.Context, actor, user string, make func(actor, user services.UserNumber) *jobs.Command) (*jobs.Command, error) {
	return as(ctx, r, actor, func(actor services.UserNumber) (*jobs.Command, error) {
		other, err := r.number(ctx, "userId", user)
		if err != nil {
			return nil, err
		}
		return make(actor, other), nil
	})
}
