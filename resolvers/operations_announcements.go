package resolvers

import (
	"context"
	"strings"

	"tidings/graph"
	"tidings/services"
	"tidings/services/announcements"
	"tidings/services/jobs"
)

// publishAnnouncement publishes an announcement, now or at a later start. It reads nothing for its checks: the service alone checks
// texts, times and segments. An announcement gets its position when it starts, for a future start by a job. Until then it has none.
var publishAnnouncement = &operation[graph.PublishAnnouncementInput]{
	operationSpec: operationSpec{name: "publishAnnouncement", actorKind: actorHost, createdType: services.AnnouncementType},
	command: func(_ context.Context, c *operationCall, in *graph.PublishAnnouncementInput) (*jobs.Command, error) {
		return c.r.Announcements.Publish(announcements.Draft{
			Title: in.Title, Content: in.Content, StartsAt: timeOrZero(in.StartsAt), EndsAt: timeOrZero(in.EndsAt), Segments: in.Segments,
		})
	},
}

// editAnnouncement changes the fields that the input names: absent fields stay, and null removes an end or the segments. A title
// and a start cannot be removed. An edit of the text alone keeps the position, so nobody's count changes. showAgain gives the
// announcement a new position, and it counts for everybody again.
var editAnnouncement = &operation[graph.EditAnnouncementInput]{
	operationSpec: operationSpec{name: "editAnnouncement", actorKind: actorHost, createdType: services.AnnouncementType},
	command: func(_ context.Context, c *operationCall, in *graph.EditAnnouncementInput) (*jobs.Command, error) {
		id, err := c.announcementID(in.AnnouncementID)
		if err != nil {
			return nil, err
		}
		edit := announcements.Edit{Content: clearableValue(in.Content), EndsAt: in.EndsAt.Value(), Segments: in.Segments.Value(), ShowAgain: in.ShowAgain}
		// Null and absence have different meanings here, and Value alone does not tell them apart.
		edit.NoEnd = in.EndsAt.IsSet() && edit.EndsAt == nil
		edit.ForEveryone = in.Segments.IsSet() && edit.Segments == nil
		if edit.Title, err = nonNullValue("title", in.Title); err != nil {
			return nil, err
		}
		if edit.StartsAt, err = nonNullValue("startsAt", in.StartsAt); err != nil {
			return nil, err
		}
		return c.r.Announcements.Edit(id, edit)
	},
}

// withdrawAnnouncement takes an announcement out of the list and out of all counts. An announcement that has not started can be
// withdrawn too. If the ID is wrong, the command returned beside the error is ignored: see operation.command.
var withdrawAnnouncement = &operation[graph.WithdrawAnnouncementInput]{
	operationSpec: operationSpec{name: "withdrawAnnouncement", actorKind: actorHost, createdType: services.AnnouncementType},
	command: func(_ context.Context, c *operationCall, in *graph.WithdrawAnnouncementInput) (*jobs.Command, error) {
		id, err := c.announcementID(in.AnnouncementID)
		return c.r.Announcements.Withdraw(id), err
	},
}

// markAnnouncementsRead marks up to an announcement, given by its ID, or up to a position, given by a cursor. Without upTo it
// marks everything that is there at the commit. Every ID has a colon and no cursor has one, so the two are told apart.
var markAnnouncementsRead = &operation[graph.MarkAnnouncementsReadInput]{
	operationSpec: operationSpec{name: "markAnnouncementsRead"},
	command: func(_ context.Context, c *operationCall, in *graph.MarkAnnouncementsReadInput) (*jobs.Command, error) {
		var upTo announcements.ReadUpTo
		var err error
		switch {
		case in.UpTo == nil:
		case strings.Contains(*in.UpTo, ":"):
			upTo.Announcement, err = announcements.ParseID("upTo", *in.UpTo)
		default:
			upTo.Position, err = announcementCursor.parse("upTo", c.actor, *in.UpTo)
		}
		return c.r.Announcements.MarkRead(c.actor, upTo), err
	},
}

// raiseDot lights a dot for everybody, or for segments. If it is raised again, it is lit even for users who have cleared it. The
// cost is the same for any number of users: one time is stored, or one for each segment, and the time at which each user cleared
// the dot is compared with it.
var raiseDot = &operation[graph.RaiseDotInput]{
	operationSpec: operationSpec{name: "raiseDot", actorKind: actorHost},
	command: func(_ context.Context, c *operationCall, in *graph.RaiseDotInput) (*jobs.Command, error) {
		return c.r.Announcements.RaiseDot(in.Name, in.Segments)
	},
}

// clearDot clears a dot for the viewer alone: it stays lit for others.
var clearDot = &operation[graph.ClearDotInput]{
	operationSpec: operationSpec{name: "clearDot"},
	command: func(_ context.Context, c *operationCall, in *graph.ClearDotInput) (*jobs.Command, error) {
		return c.r.Announcements.ClearDot(c.actor, in.Name)
	},
}

// setSegments replaces the segments of a user, by their names. The whole set is given each time, so the application need not
// know the former segments.
var setSegments = &operation[graph.SetSegmentsInput]{
	operationSpec: operationSpec{name: "setSegments", actorKind: actorHost},
	command: func(ctx context.Context, c *operationCall, in *graph.SetSegmentsInput) (*jobs.Command, error) {
		user, err := c.userID(ctx, in.UserID)
		if err != nil {
			return nil, err
		}
		return c.r.Announcements.SetSegments(user, in.Segments)
	},
}
