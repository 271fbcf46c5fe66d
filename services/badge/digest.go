package badge

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"tidings/services"
	"tidings/services/store"
)

// digestAuthors is how many authors a digest names.
const digestAuthors = 3

// digester counts what one source brought since a moment.
type digester func(ctx context.Context, user services.UserNumber, since time.Time, digest *services.Digest) error

// Digest is what came since a moment, or, without one, since the user was here before his present visit. What came is
// counted whether it has been seen meanwhile or not.
func (s *Service) Digest(ctx context.Context, user services.UserNumber, since time.Time) (*services.Digest, error) {
	if since.After(s.clock.Now()) && since.After(s.fanout.Now()) {
		return nil, services.Errorf(services.Invalid, "since: %s lies ahead", since.UTC().Format(time.RFC3339))
	}
	if since.IsZero() {
		var err error
		if since, err = s.store.VisitedBefore(ctx, user); err != nil {
			return nil, err
		}
	}
	digest := &services.Digest{Since: since, Parts: []services.DigestPart{}}
	if since.IsZero() {
		return digest, nil
	}
	for _, source := range []digester{s.digestHomeFeed, s.digestNotifications, s.digestSiteMessages, s.digestAnnouncements, s.digestConversations, s.digestLiveBoard} {
		if err := source(ctx, user, since, digest); err != nil {
			return nil, err
		}
	}
	return digest, nil
}

func (s *Service) digestHomeFeed(ctx context.Context, user services.UserNumber, since time.Time, digest *services.Digest) error {
	before := max(services.PostIDAt(since), 1) - 1
	entries, err := s.store.UnreadFeed(ctx, user, before, services.Retention)
	if err != nil {
		return err
	}
	posts := map[services.UserNumber]int{}
	for _, entry := range entries {
		posts[entry.Author]++
	}
	brings(digest, services.SourceHomeFeed, "", len(entries), services.Retention)
	for author := range posts {
		digest.Authors = append(digest.Authors, author)
	}
	slices.SortFunc(digest.Authors, func(a, b services.UserNumber) int { return cmp.Or(cmp.Compare(posts[b], posts[a]), cmp.Compare(a, b)) })
	digest.Authors = digest.Authors[:min(digestAuthors, len(digest.Authors))]
	return nil
}

// brings adds what a source brought to a digest; a number at the bound may be more.
func brings(digest *services.Digest, source services.Source, part string, count, bound int) {
	precision := services.Exact
	if count >= bound {
		precision = services.AtLeast
	}
	digest.Parts = append(digest.Parts, services.DigestPart{Source: source, Part: part, Count: services.NewCount(count, precision, time.Time{})})
}

func (s *Service) digestNotifications(ctx context.Context, user services.UserNumber, since time.Time, digest *services.Digest) error {
	first := services.PostIDAt(since)
	page, err := s.store.Notifications(ctx, store.NotificationQuery{
		User: user, Categories: services.Categories, Limit: mostExplained, Each: true, Expiry: s.expiry,
	})
	if err != nil {
		return err
	}
	counts := map[services.Category]int{}
	for _, notification := range page.Notifications {
		if notification.Place >= first {
			counts[notification.Category]++
		}
	}
	for _, category := range services.Categories {
		brings(digest, services.SourceNotifications, string(category), counts[category], mostExplained)
	}
	return nil
}

func (s *Service) digestSiteMessages(ctx context.Context, user services.UserNumber, since time.Time, digest *services.Digest) error {
	first := services.PostIDAt(since)
	byType, err := s.messagesByType(ctx, user, s.redis.MessageTypes(), false)
	if err != nil {
		return err
	}
	for _, kind := range s.redis.MessageTypes() {
		messages := byType[kind]
		older := slices.IndexFunc(messages, func(message services.SiteMessage) bool { return message.ID < first })
		if older < 0 {
			older = len(messages)
		}
		brings(digest, services.SourceSiteMessages, kind, older, mostExplained)
	}
	return nil
}

func (s *Service) digestAnnouncements(ctx context.Context, user services.UserNumber, since time.Time, digest *services.Digest) error {
	notices, err := s.announcements.At(ctx, s.clock.Now())
	if err != nil {
		return err
	}
	standing, err := s.store.UserNotices(ctx, user)
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
