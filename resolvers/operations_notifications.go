package resolvers

import (
	"context"
	"slices"
	"strings"

	"tidings/graph"
	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/notifications"
)

var likePost = &operation[graph.LikePostInput]{
	name: "likePost",
	command: func(_ context.Context, c *call, in *graph.LikePostInput) (*jobs.Command, error) {
		id, err := c.postID(in.PostID)
		return c.r.Feed.Like(c.actor, id), err
	},
}

var unlikePost = &operation[graph.UnlikePostInput]{
	name: "unlikePost",
	command: func(_ context.Context, c *call, in *graph.UnlikePostInput) (*jobs.Command, error) {
		id, err := c.postID(in.PostID)
		return c.r.Feed.Unlike(c.actor, id), err
	},
}

var markNotificationsSeen = &operation[graph.MarkNotificationsSeenInput]{
	name: "markNotificationsSeen",
	command: func(_ context.Context, c *call, in *graph.MarkNotificationsSeenInput) (_ *jobs.Command, err error) {
		place, err := notificationPlace(in.UpTo)
		if err != nil {
			return nil, err
		}
		if in.Categories, err = notifications.CheckCategories("categories", in.Categories); err != nil {
			return nil, err
		}
		return c.r.Notifications.MarkSeen(c.actor, in.Categories, place)
	},
}

var markNotificationsRead = &operation[graph.MarkNotificationsReadInput]{
	name: "markNotificationsRead",
	command: func(_ context.Context, c *call, in *graph.MarkNotificationsReadInput) (_ *jobs.Command, err error) {
		in.ReadToken = orNull(orEmpty(in.ReadToken))
		read := notifications.Reading{Categories: in.Categories, All: in.All != nil && *in.All, Token: orEmpty(in.ReadToken)}
		in.Ids = slices.Clone(in.Ids)
		for i, id := range in.Ids {
			if !services.IsUpTo(id) {
				place, err := services.ParseNotificationID("ids", id)
				if err != nil {
					return nil, err
				}
				read.IDs = append(read.IDs, place)
				continue
			}
			place, _, err := services.ParseUpTo("ids", id)
			if err != nil {
				return nil, err
			}
			read.Shown, in.Ids[i] = append(read.Shown, place), services.UpToText(place)
		}
		if read.UpTo, err = notificationPlace(in.UpTo); err != nil {
			return nil, err
		}
		in.All = nil // false is the same as absent
		if len(in.Ids) == 0 {
			if in.Categories, err = notifications.CheckCategories("categories", in.Categories); err != nil {
				return nil, err
			}
		}
		return c.r.Notifications.MarkRead(c.actor, read)
	},
}

var markNotificationUnread = &operation[graph.MarkNotificationUnreadInput]{
	name: "markNotificationUnread",
	command: func(_ context.Context, c *call, in *graph.MarkNotificationUnreadInput) (*jobs.Command, error) {
		c.subject = in.ID
		place, err := services.ParseNotificationID("id", in.ID)
		return c.r.Notifications.MarkUnread(c.actor, place), err
	},
}

var markAllRead = &operation[graph.MarkAllReadInput]{
	name: "markAllRead",
	command: func(_ context.Context, c *call, in *graph.MarkAllReadInput) (*jobs.Command, error) {
		in.ReadToken = orNull(orEmpty(in.ReadToken))
		place, err := notificationPlace(in.UpTo)
		if err != nil {
			return nil, err
		}
		return c.r.Notifications.MarkAllRead(c.actor, place, orEmpty(in.ReadToken))
	},
}

var undoMarkAllRead = &operation[graph.UndoMarkAllReadInput]{
	name: "undoMarkAllRead", presentOnly: "only the last markAllRead can be undone, within 30 s",
	command: func(_ context.Context, c *call, _ *graph.UndoMarkAllReadInput) (*jobs.Command, error) {
		return c.r.Notifications.UndoAllRead(c.actor), nil
	},
}

// notificationPlace is the position of an upTo; 0 without one.
func notificationPlace(upTo *string) (services.PostID, error) {
	if upTo == nil {
		return 0, nil
	}
	place, reach, err := services.ParseUpTo("upTo", *upTo)
	if err != nil && strings.HasPrefix(*upTo, services.NotificationType+":") {
		return 0, services.Errorf(services.Invalid, "upTo: %s is the id of a notification: send its upTo", services.Quote(*upTo))
	}
	if err == nil && place == 0 {
		err = services.Errorf(services.NotFound, "upTo: %s belongs to no notification of yours", *upTo)
	}
	return reach, err
}
