package announcements

import (
	"context"
	"math"
	"time"

	"tidings/services"
	"tidings/services/badge/source"
	"tidings/services/rdb"
)

// Source is the badge source of unread announcements, and of dots, which have no count.
type Source struct {
	source.DefaultMethods
	service *Service
}

// Source is this node's source of the badges.
func (s *Service) Source() Source { return Source{service: s} }

// Name is the source's name in logs.
func (Source) Name() string { return "announcements and dots" }

// Key is the key of the announcements' count.
func (Source) Key() services.Source { return services.SourceAnnouncements }

// Part is the source's only count.
func (Source) Part(badges *services.Badges, i int) *services.Count {
	return source.SinglePart(&badges.Announcements, i)
}

// CopyNonCounts copies the dots of the badges that were shown earlier.
func (Source) CopyNonCounts(_ *source.Rendering, badges *services.Badges, earlier source.ShownBadges) {
	badges.Dots = earlier.Badges.Dots
}

// Facts reads the states of users from SQL. It gives a new user their initial position, as a rebuild would.
func (b Source) Facts(ctx context.Context, users []services.UserID, _ int64, documents []rdb.Document) error {
	// Without the list there is no count. The source then fails as a whole, and does not count 0.
	if _, err := b.service.Memory.At(ctx, b.service.clock.Now()); err != nil {
		return err
	}
	states, err := b.service.userStates(ctx, users)
	if err != nil {
		return err
	}
	for i, user := range users {
		state, document := states[user], &documents[i]
		document.Announcements, document.Segments, document.DismissedUpToByDot = state.AnnouncementState, state.Segments, state.DismissedUpToByDot
	}
	return nil
}

// SharedState is this node's list of announcements and dots.
func (b Source) SharedState(ctx context.Context, now time.Time) (any, error) {
	state, err := b.service.Memory.At(ctx, now)
	if err != nil {
		return nil, err
	}
	return state, nil
}

// Render counts the current announcements that are for this user and lie after the user's position. Announcements leave the count
// when they end. Render lists every dot, lit or not.
func (Source) Render(v *source.Rendering, badges *services.Badges) {
	badges.Dots = []services.Dot{}
	// SharedState is a nil interface before the first load.
	state, known := v.SharedState.(*SharedState)
	if !known {
		badges.Announcements = services.NewCount(0, services.Unknown, time.Time{})
		return
	}
	own, segments := v.Document.Announcements, Segments(v.Document.Segments.Bits)
	count, ends := state.countUnread(v.Expiry.SkipExpiredAnnouncements(own, v.Today()), segments)
	v.RecordExpiry(services.SourceAnnouncements, count)
	// Ends are time boundaries and not changes: each node counts them by its own clock, without a message.
	v.AddSequence(state.sequence() - state.EndedCount)
	v.AddTimeBoundaries(int64(state.EndedCount))
	v.RecordChangeAt(ends)
	badges.Announcements = source.ExactCount(count)
	badges.Dots = state.dotsFor(own, segments, v.Document.DismissedUpToByDot)
}

// Explain lists the unread announcements.
func (b Source) Explain(ctx context.Context, of source.ExplainRequest) ([]services.Explanation, error) {
	shared, err := b.service.Memory.At(ctx, b.service.clock.Now())
	if err != nil {
		return nil, err
	}
	own, err := b.service.userState(ctx, of.User) // read as in Facts, so that the items are the counted ones
	if err != nil {
		return nil, err
	}
	explanation := services.Explanation{Source: services.SourceAnnouncements, Count: of.Badges.Announcements}
	aged := b.service.projector.Expiry().SkipExpiredAnnouncements(own.AnnouncementState, of.Today)
	// The items come from this node's list, as the count does: an announcement that this node does not know yet is in neither.
	for _, announcement := range shared.unread(aged, Segments(own.Segments.Bits)) {
		id := announcement.GlobalID()
		explanation.Items = append(explanation.Items, services.Item{
			ID: id, At: time.UnixMicro(int64(announcement.Position)).UTC(), Count: 1, ClearedBy: source.ClearingMutation("markAnnouncementsRead", "upTo", id),
		})
	}
	return []services.Explanation{explanation}, nil
}

// Digest adds how many of the user's current announcements entered the list since a moment.
func (b Source) Digest(ctx context.Context, user services.UserID, since time.Time, digest *services.Digest) error {
	shared, err := b.service.Memory.At(ctx, b.service.clock.Now())
	if err != nil {
		return err
	}
	own, err := readUser(ctx, b.service.db.Runner, user)
	if err != nil {
		return err
	}
	count := 0
	for _, announcement := range shared.visible(Segments(own.Segments.Bits), math.MaxUint64, maxListedAnnouncements) {
		// A position is a stamp, and so a time in microseconds.
		if announcement.Position >= uint64(since.UnixMicro()) {
			count++
		}
	}
	source.AddDigestPart(digest, services.SourceAnnouncements, "", count, maxListedAnnouncements)
	return nil
}
