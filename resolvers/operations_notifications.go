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

// likePost and unlikePost are idempotent. A job notifies the author after the commit; a like that is taken back before the job
// runs notifies nobody.
var likePost = &operation[graph.LikePostInput]{
	operationSpec: operationSpec{name: "likePost"},
	command: func(_ context.Context, c *operationCall, in *graph.LikePostInput) (*jobs.Command, error) {
		id, err := c.postID(in.PostID)
		return c.r.Feed.Like(c.actor, id), err
	},
}

// unlikePost is the reverse of likePost.
var unlikePost = &operation[graph.UnlikePostInput]{
	operationSpec: operationSpec{name: "unlikePost"},
	command: func(_ context.Context, c *operationCall, in *graph.UnlikePostInput) (*jobs.Command, error) {
		id, err := c.postID(in.PostID)
		return c.r.Feed.Unlike(c.actor, id), err
	},
}

// markNotificationsSeen moves the viewer's seen position, in all categories or in some. The position never goes back: with an older upTo
// nothing changes. The mark clears the number and leaves rows unread: markNotificationsRead marks rows.
var markNotificationsSeen = &operation[graph.MarkNotificationsSeenInput]{
	operationSpec: operationSpec{name: "markNotificationsSeen"},
	command: func(_ context.Context, c *operationCall, in *graph.MarkNotificationsSeenInput) (_ *jobs.Command, err error) {
		position, err := parseUpTo(in.UpTo)
		if err != nil {
			return nil, err
		}
		of, err := mergeCategories(in.Categories, in.HostCategories)
		if err != nil {
			return nil, err
		}
		// The categories are normalised, so that under one key no categories and all of them are one request.
		in.Categories, in.HostCategories = normalizeCategories(of), nil
		return c.r.Notifications.MarkSeen(c.actor, of, position)
	},
}

// markNotificationsRead marks notifications by their IDs, or the notifications of categories up to a position, or all. An upTo in
// ids means the notification as it was shown: causes that came later still count.
var markNotificationsRead = &operation[graph.MarkNotificationsReadInput]{
	operationSpec: operationSpec{name: "markNotificationsRead"},
	command: func(_ context.Context, c *operationCall, in *graph.MarkNotificationsReadInput) (_ *jobs.Command, err error) {
		in.ReadToken = orNull(orEmpty(in.ReadToken))
		of, err := mergeCategories(in.Categories, in.HostCategories)
		if err != nil {
			return nil, err
		}
		// IDs names rows, UpToPositions names rows in the state that was shown, and the other fields select rows if neither names any.
		read := notifications.ReadSelection{Categories: of, All: in.All != nil && *in.All, ReadToken: orEmpty(in.ReadToken)}
		// An empty list is not the same as none: MarkRead refuses it.
		if in.Ids != nil {
			read.IDs = make([]services.NotificationID, 0, len(in.Ids))
		}
		// The executor's list stays as it is; the copy is normalised.
		in.Ids = slices.Clone(in.Ids)
		for i, id := range in.Ids {
			if !services.IsNotificationUpTo(id) {
				notificationID, err := services.ParseNotificationID("ids", id)
				if err != nil {
					return nil, err
				}
				read.IDs = append(read.IDs, notificationID)
				continue
			}
			position, _, err := services.ParseNotificationUpTo("ids", id)
			if err != nil {
				return nil, err
			}
			// The part of an upTo after its position is dropped, so that two texts of one position are one request.
			read.UpToPositions, in.Ids[i] = append(read.UpToPositions, position), services.FormatNotificationUpTo(position)
		}
		if read.UpTo, err = parseUpTo(in.UpTo); err != nil {
			return nil, err
		}
		in.All = nil // false is the same as absent
		// MarkRead refuses categories beside IDs, so only an input without IDs has categories to normalise.
		if len(in.Ids) == 0 {
			in.Categories, in.HostCategories = normalizeCategories(of), nil
		}
		return c.r.Notifications.MarkRead(c.actor, read)
	},
}

// markNotificationUnread marks one notification unread, and opens a new generation of read tokens. The notification counts again only
// if it is beyond the seen position. The input needs its ID: an upTo is refused.
var markNotificationUnread = &operation[graph.MarkNotificationUnreadInput]{
	operationSpec: operationSpec{name: "markNotificationUnread"},
	command: func(_ context.Context, c *operationCall, in *graph.MarkNotificationUnreadInput) (*jobs.Command, error) {
		c.subjectID = in.ID
		notificationID, err := services.ParseNotificationID("id", in.ID)
		return c.r.Notifications.MarkUnread(c.actor, notificationID), err
	},
}

// markAllRead marks everything up to a position, and keeps what it changed for undoMarkAllRead.
var markAllRead = &operation[graph.MarkAllReadInput]{
	operationSpec: operationSpec{name: "markAllRead"},
	command: func(_ context.Context, c *operationCall, in *graph.MarkAllReadInput) (*jobs.Command, error) {
		in.ReadToken = orNull(orEmpty(in.ReadToken))
		position, err := parseUpTo(in.UpTo)
		if err != nil {
			return nil, err
		}
		return c.r.Notifications.MarkAllRead(c.actor, position, orEmpty(in.ReadToken))
	},
}

// undoMarkAllRead takes the last markAllRead back. After 30 s the error is CONFLICT.
var undoMarkAllRead = &operation[graph.UndoMarkAllReadInput]{
	operationSpec: operationSpec{name: "undoMarkAllRead"},
	command: func(_ context.Context, c *operationCall, _ *graph.UndoMarkAllReadInput) (*jobs.Command, error) {
		return c.r.Notifications.UndoAllRead(c.actor), nil
	},
}

// mergeCategories returns the categories that two arguments name: nil for all of them, and empty if both are empty. The error is
// INVALID for a name that no category of the host application can have. There are two arguments, because the schema's enum has
// Tidings' categories and cannot have the application's.
func mergeCategories(categories []services.Category, hosts []string) ([]services.Category, error) {
	if hosts == nil {
		return categories, nil
	}
	// all is never nil, because nil means all categories.
	all := append(make([]services.Category, 0, len(categories)+len(hosts)), categories...)
	for _, name := range hosts {
		if err := services.CheckHostCategory("hostCategories", services.Category(name)); err != nil {
			return nil, err
		}
		all = append(all, services.Category(name))
	}
	return all, nil
}

// normalizeCategories returns categories in their normal form, so that under an idempotency key equal sets are equal. The hash of an
// input ignores order and repetition anyway, so this matters only for nil, which means all categories.
func normalizeCategories(categories []services.Category) []services.Category {
	if categories == nil {
		return append(slices.Sorted(slices.Values(services.Categories)), services.CategoryHost)
	}
	return slices.Compact(slices.Sorted(slices.Values(categories)))
}

// parseUpTo returns the position that a mark with an upTo reaches; 0 without one. An upTo at position 0 is refused: the
// service takes 0 for everything.
func parseUpTo(upTo *string) (services.NotificationID, error) {
	if upTo == nil {
		return 0, nil
	}
	position, reach, err := services.ParseNotificationUpTo("upTo", *upTo)
	// A frequent mistake: the client sends the ID of a notification instead of its upTo.
	if err != nil && strings.HasPrefix(*upTo, services.NotificationType+":") {
		return 0, services.Errorf(services.Invalid, "upTo: %s is the id of a notification: send its upTo", services.Quote(*upTo))
	}
	if err == nil && position == 0 {
		err = services.Errorf(services.NotFound, "upTo: %s belongs to no notification of yours", *upTo)
	}
	return reach, err
}
