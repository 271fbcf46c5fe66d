package badge

import (
	"context"
	"math"
	"time"

	"tidings/services"
	"tidings/services/rdb"
)

// announcements is the source of the unread announcements, and of the dots, which have no count.
type announcements struct {
	plain
	s *Service
}

func (announcements) name() string         { return "announcements and dots" }
func (announcements) key() services.Source { return services.SourceAnnouncements }

func (announcements) part(badges *services.Badges, i int) *services.Count {
	return single(&badges.Announcements, i)
}

func (announcements) carry(_ *view, badges *services.Badges, earlier known) {
	badges.Dots = earlier.badges.Dots
}

// facts gives a new user their initial position, as a rebuild would.
func (a announcements) facts(ctx context.Context, user services.UserID, _ int64, document *rdb.Document) error {
	if _, err := a.s.announcements.At(ctx, a.s.clock.Now()); err != nil {
		return err
	}
	standing, err := a.s.fanout.EnterNotices(ctx, user)
	document.Notice, document.Segments, document.DotsSeen = standing.NoticeState, standing.Segments, standing.Dots
	return err
}

// render counts the current announcements that are meant for this user and lie after their position; they leave the count when
// they end. It lists every dot, lit or not.
func (announcements) render(v *view, badges *services.Badges) {
	badges.Dots = []services.Dot{}
	if v.notices == nil {
		badges.Announcements = services.NewCount(0, services.Unknown, time.Time{})
		return
	}
	count, ends := v.notices.CountUnread(v.ages.AgedNotices(v.document.Notice, v.today()), v.segments())
	v.expires(services.SourceAnnouncements, count)
	v.learned(v.notices.Sequence() - v.notices.Ended)
	v.passed(int64(v.notices.Ended))
	v.changesAt(ends)
	badges.Announcements = exact(count)
	badges.Dots = v.notices.Lights(v.document.Notice, v.segments(), v.document.DotsSeen)
}

func (v *view) segments() services.SegmentBits { return services.SegmentBits(v.document.Segments.Bits) }

func (a announcements) explain(ctx context.Context, of explained) ([]services.Explanation, error) {
	notices, err := a.s.announcements.At(ctx, a.s.clock.Now())
	if err != nil {
		return nil, err
	}
	standing, err := a.s.store.UserNotices(ctx, of.user)
	if err != nil {
		return nil, err
	}
	explanation := services.Explanation{Source: services.SourceAnnouncements, Count: of.badges.Announcements}
	for _, announcement := range notices.Unread(a.s.ages.AgedNotices(standing.NoticeState, of.today), services.SegmentBits(standing.Segments.Bits)) {
		id := announcement.GlobalID()
		explanation.Items = append(explanation.Items, services.Item{
			ID: id, At: time.UnixMicro(int64(announcement.Position)).UTC(), Count: 1, ClearedBy: clearedBy("markAnnouncementsRead", "upTo", id),
		})
	}
	return []services.Explanation{explanation}, nil
}

func (a announcements) digest(ctx context.Context, user services.UserID, since time.Time, digest *services.Digest) error {
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
	brings(digest, services.SourceAnnouncements, "", count, services.MaxAnnouncements)
	return nil
}
