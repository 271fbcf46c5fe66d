package resolvers

import (
	"context"
	"strings"
	"time"

	"tidings/dataloader"
	"tidings/graph"
	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/notice"
)

// host is for what only the host application and those who look after the installation may do.
func (r *Resolver) host(ctx context.Context) error {
	viewer, err := services.ViewerFrom(ctx)
	if err != nil {
		return err
	}
	if !viewer.Has(services.ScopeIngest) && !viewer.Has(services.ScopeAdmin) {
		return services.Errorf(services.Forbidden, "the token lacks the scopes %s and %s, of which one is needed", services.ScopeIngest, services.ScopeAdmin)
	}
	return nil
}

// commitShared makes a command of the host application happen.
func (r *Resolver) commitShared(ctx context.Context, key *string, cmd *jobs.Command) error {
	if err := withKey(cmd, key); err != nil {
		return err
	}
	defer dataloader.From(ctx).Forget()
	return r.Fanout.Commit(ctx, cmd)[0]
}

// announcement is what the host application is shown of one that it has just changed.
func (r *Resolver) announcement(ctx context.Context, cmd *jobs.Command) (graph.Announcement, error) {
	id, err := services.ParseAnnouncementID("announcementId", cmd.IDs()[0])
	if err != nil {
		return graph.Announcement{}, err
	}
	a, err := r.Notice.Announcement(ctx, id)
	return graphAnnouncement(a), err
}

func graphAnnouncement(a services.Announcement) graph.Announcement {
	shown := graph.Announcement{ID: a.GlobalID(), Title: a.Title, Content: a.Content, StartsAt: a.StartsAt, UpdatedAt: a.UpdatedAt}
	if !a.EndsAt.IsZero() {
		shown.EndsAt = &a.EndsAt
	}
	return shown
}

func graphItem(item notice.Item) graph.Announcement {
	shown := graphAnnouncement(item.Announcement)
	shown.Unread = &item.Unread
	return shown
}

// announcements makes a page of the list for its viewer.
func (r *Resolver) announcements(ctx context.Context, viewer *graph.Viewer, first *int, after *string) (*graph.AnnouncementConnection, error) {
	page, size, err := sharedPage(ctx, first, func(ctx context.Context, _ []asker, size int) (*graph.AnnouncementConnection, error) {
		return r.readAnnouncements(ctx, viewer, size, after)
	})
	if err != nil {
		return nil, err
	}
	page.Edges = cut(page.Edges, size, &page.PageInfo, func(edge *graph.AnnouncementEdge) *string { return &edge.Cursor })
	return &page, nil
}

func (r *Resolver) readAnnouncements(ctx context.Context, viewer *graph.Viewer, size int, after *string) (_ *graph.AnnouncementConnection, err error) {
	before := uint64(notice.End)
	if after != nil {
		if before, err = announcementCursor.parse("after", viewer.Number, *after); err != nil {
			return nil, err
		}
	}
	page, err := r.Notice.Page(ctx, viewer.Number, before, size)
	if err != nil {
		return nil, err
	}
	result := &graph.AnnouncementConnection{Edges: make([]graph.AnnouncementEdge, len(page.Items)), PageInfo: graph.PageInfo{HasNextPage: page.HasNext}}
	for i, item := range page.Items {
		result.Edges[i] = graph.AnnouncementEdge{Cursor: announcementCursor.text(viewer.Number, item.Position), Node: graphItem(item)}
	}
	if n := len(result.Edges); n > 0 {
		result.PageInfo.StartCursor, result.PageInfo.EndCursor = &result.Edges[0].Cursor, &result.Edges[n-1].Cursor
	}
	return result, nil
}

// readUpTo is the place that upTo names: an announcement by its id, or a place by its cursor.
func readUpTo(viewer services.UserNumber, upTo *string) (place notice.UpTo, err error) {
	switch {
	case upTo == nil:
	case strings.Contains(*upTo, ":"):
		place.Announcement, err = services.ParseAnnouncementID("upTo", *upTo)
	default:
		place.Position, err = announcementCursor.parse("upTo", viewer, *upTo)
	}
	return place, err
}

func draft(title, content string, starts, ends *time.Time, segments []string) notice.Draft {
	d := notice.Draft{Title: title, Content: content, Segments: segments}
	if starts != nil {
		d.StartsAt = *starts
	}
	if ends != nil {
		d.EndsAt = *ends
	}
	return d
}

// announcementEvent changes an announcement that stands.
func (r *Resolver) announcementEvent(_ context.Context, event graph.IngestEvent) (*happening, error) {
	switch {
	case event.EditAnnouncement != nil:
		e := event.EditAnnouncement
		id, err := services.ParseAnnouncementID("announcementId", e.AnnouncementID)
		if err != nil {
			return nil, err
		}
		cmd, err := r.Notice.Edit(id, notice.Edit{
			Title: e.Title, Content: e.Content, StartsAt: e.StartsAt, EndsAt: e.EndsAt, NoEnd: e.NoEnd,
			Segments: e.Segments, ForEveryone: e.ForEveryone, ShowAgain: e.ShowAgain,
		})
		return &happening{cmd, e.AnnouncementID, e.Key}, err
	case event.WithdrawAnnouncement != nil:
		e := event.WithdrawAnnouncement
		id, err := services.ParseAnnouncementID("announcementId", e.AnnouncementID)
		if err != nil {
			return nil, err
		}
		return &happening{r.Notice.Withdraw(id), e.AnnouncementID, e.Key}, nil
	}
	return nil, nil
}

func (r *Resolver) noticeEvent(ctx context.Context, event graph.IngestEvent) (*happening, error) {
	switch {
	case event.PublishAnnouncement != nil:
		e := event.PublishAnnouncement
		cmd, err := r.Notice.Publish(draft(e.Title, e.Content, e.StartsAt, e.EndsAt, e.Segments))
		return &happening{cmd, "", e.Key}, err
	case event.RaiseDot != nil:
		cmd, err := r.Notice.RaiseDot(event.RaiseDot.Name, event.RaiseDot.Segments)
		return &happening{cmd, "", event.RaiseDot.Key}, err
	case event.SetSegments != nil:
		user, err := r.number(ctx, "userId", event.SetSegments.UserID)
		if err != nil {
			return nil, err
		}
		cmd, err := r.Notice.SetSegments(user, event.SetSegments.Segments)
		return &happening{cmd, event.SetSegments.UserID, event.SetSegments.Key}, err
	case event.MarkAnnouncementsRead != nil:
		mark := event.MarkAnnouncementsRead
		cmd, err := as(ctx, r, mark.As, func(actor services.UserNumber) (*jobs.Command, error) {
			upTo, err := readUpTo(actor, mark.UpTo)
			if err != nil {
				return nil, err
			}
			return r.Notice.MarkRead(actor, upTo), nil
		})
		return &happening{cmd, "", mark.Key}, err
	case event.ClearDot != nil:
		cmd, err := as(ctx, r, event.ClearDot.As, func(actor services.UserNumber) (*jobs.Command, error) {
			return r.Notice.ClearDot(actor, event.ClearDot.Name)
		})
		return &happening{cmd, "", event.ClearDot.Key}, err
	}
	return nil, nil
}
