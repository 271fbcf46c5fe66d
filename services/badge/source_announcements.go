package badge

import (
	"context"
	"math"
	"time"

	"tidings/services"
	"tidings/services/badge/source"
	"tidings/services/mirror"
	"tidings/services/rdb"
)

// announcements is the source of the unread announcements, and of the dots, which have no count.
type announcements struct {
	source.Plain
	s *Service
}

func (announcements) Name() string         { return "announcements and dots" }
func (announcements) Key() services.Source { return services.SourceAnnouncements }

func (announcements) Part(badges *services.Badges, i int) *services.Count {
	return source.Single(&badges.Announcements, i)
}

func (announcements) Carry(_ *source.View, badges *services.Badges, earlier source.Shown) {
	badges.Dots = earlier.Badges.Dots
}

// Facts gives a new user their initial position, as a rebuild would.
func (a announcements) Facts(ctx context.Context, user services.UserID, _ int64, document *rdb.Document) error {
	if _, err := a.s.announcements.At(ctx, a.s.clock.Now()); err != nil {
		return err
	}
	standing, err := a.s.fanout.EnterNotices(ctx, user)
	document.Notice, document.Segments, document.DotsSeen = standing.NoticeState, standing.Segments, standing.Dots
	return err
}

// Render counts the current announcements that are meant for this user and lie after their position; they leave the count when
// they end. It lists every dot, lit or not.
func (announcements) Render(v *source.View, badges *services.Badges) {
	badges.Dots = []services.Dot{}
	notices, known := v.Shared.(*mirror.Notices)
	if !known {
		badges.Announcements = services.NewCount(0, services.Unknown, time.Time{})
		return
	}
	count, ends := notices.CountUnread(v.Ages.AgedNotices(v.Document.Notice, v.Today()), segmentsOf(v.Document))
	v.Expires(services.SourceAnnouncements, count)
	v.Learned(notices.Sequence() - notices.Ended)
	v.Passed(int64(notices.Ended))
	v.ChangesAt(ends)
	badges.Announcements = source.Exact(count)
	badges.Dots = notices.Lights(v.Document.Notice, segmentsOf(v.Document), v.Document.DotsSeen)
}

// Share is this node's list of announcements and dots.
func (a announcements) Share(ctx context.Context, now time.Time) (any, error) {
	notices, err := a.s.announcements.At(ctx, now)
	if err != nil {
		return nil, err
	}
	return notices, nil
}

func segmentsOf(document rdb.Document) services.SegmentBits {
	return services.SegmentBits(document.Segments.Bits)
}

func (a announcements) Explain(ctx context.Context, of source.Explained) ([]services.Explanation, error) {
	notices, err := a.s.announcements.At(ctx, a.s.clock.Now())
	if err != nil {
		return nil, err
	}
	standing, err := a.s.store.UserNotices(ctx, of.User)
	if err != nil {
		return nil, err
	}
	explanation := services.Explanation{Source: services.SourceAnnouncements, Count: of.Badges.Announcements}
	for _, announcement := range notices.Unread(a.s.settings.Ages.AgedNotices(standing.NoticeState, of.Today), services.SegmentBits(standing.Segments.Bits)) {
		id := announcement.GlobalID()
		explanation.Items = append(explanation.Items, services.Item{
			ID: id, At: time.UnixMicro(int64(announcement.Position)).UTC(), Count: 1, ClearedBy: source.ClearedBy("markAnnouncementsRead", "upTo", id),
		})
	}
	return []services.Explanation{explanation}, nil
}

func (a announcements) Digest(ctx context.Context, user services.UserID, since time.Time, digest *services.Digest) error {
	notices, err := a.s.announcements.At(ctx, a.s.clock.Now())
	if err != nil {
		return err
	}
	standing, err := a.s.store.UserNotices(ctx, user)
	if err != nil {
		return err
	}
	count := 0
	for _, announcement := range notices.Visible(services.SegmentBits(standing.Segments.Bits), math.MaxUint64, services.MaxAnnouncements) {
		if announcement.Position >= uint64(since.UnixMicro()) {
			count++
		}
	}
	source.Brings(digest, services.SourceAnnouncements, "", count, services.MaxAnnouncements)
	return nil
}
