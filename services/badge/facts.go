package badge

import (
	"context"
	"iter"
	"slices"

	"tidings/services"
	"tidings/services/fanout"
	"tidings/services/rdb"
	"tidings/services/store"
)

// factSource is how one source is counted in SQL, for when Redis does not answer.
type factSource struct {
	name string
	// read fills the source's part of the document; when it fails, what it wrote is dropped.
	read func(ctx context.Context, user services.UserNumber, today int64, document *rdb.Document) error
	// counts are the numbers that rest on it, always in the same order.
	counts func(badges *services.Badges) []*services.Count
	// carry takes over what else rests on it from what was shown earlier; nil where there is nothing.
	carry func(v *view, badges *services.Badges, earlier known)
}

// factSources is the table of all sources: each adds its own.
func (s *Service) factSources() []factSource {
	return []factSource{
		{name: "home feed", read: s.feedFacts, counts: countsOf(services.SourceHomeFeed)},
		{name: "notifications", read: s.notificationFacts, counts: countsOf(services.SourceNotifications), carry: func(_ *view, badges *services.Badges, earlier known) {
			badges.Notifications.Newest = earlier.badges.Notifications.Newest
		}},
		{name: "site messages", read: s.messageFacts, counts: countsOf(services.SourceSiteMessages)},
		{name: "announcements and dots", read: s.noticeFacts, counts: countsOf(services.SourceAnnouncements), carry: func(_ *view, badges *services.Badges, earlier known) {
			badges.Dots = earlier.badges.Dots
		}},
		{name: "conversations", read: s.conversationFacts, counts: func(badges *services.Badges) []*services.Count {
			return []*services.Count{&badges.Conversations.Total, &badges.Conversations.Mentions}
		}},
		{name: "live board", read: s.liveFacts, counts: countsOf(services.SourceLiveBoard)},
		// Without it nobody knows which numbers make the total.
		{name: "display policy", read: s.policyFacts, counts: countsIn(everyPart), carry: func(v *view, badges *services.Badges, earlier known) {
			v.document.Policy, badges.Quiet = earlier.view.document.Policy, earlier.badges.Quiet
		}},
	}
}

func countsOf(source services.Source) func(*services.Badges) []*services.Count {
	return countsIn(func(badges *services.Badges) iter.Seq[*services.Count] { return partsOf(badges, source) })
}

func countsIn(parts func(*services.Badges) iter.Seq[*services.Count]) func(*services.Badges) []*services.Count {
	return func(badges *services.Badges) []*services.Count { return slices.Collect(parts(badges)) }
}

// countFacts makes a document of the facts alone, and says which sources could not be read and why the last one could
// not. One that hangs does not hold up the others: each has its own time, and all together have three times that.
func (s *Service) countFacts(ctx context.Context, user services.UserNumber, today int64) (document rdb.Document, failed []factSource, err error) {
	ctx, cancel := context.WithTimeout(ctx, 3*s.patience)
	defer cancel()
	for _, source := range s.sources {
		next := document
		if failure := s.countSource(ctx, source, user, today, &next); failure != nil {
			failed, err = append(failed, source), failure
			continue
		}
		document = next
	}
	if len(document.Messages) == 0 {
		document.Messages = s.noMessages()
	}
	return document, failed, err
}

func (s *Service) countSource(ctx context.Context, source factSource, user services.UserNumber, today int64, document *rdb.Document) error {
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	return source.read(ctx, user, today, document)
}

// noMessages are the types of site messages, of which each badge has a count.
func (s *Service) noMessages() (none []services.MessageTypeState) {
	for _, kind := range s.redis.MessageTypes() {
		none = append(none, services.MessageTypeState{Type: kind})
	}
	return none
}

func (s *Service) feedFacts(ctx context.Context, user services.UserNumber, today int64, document *rdb.Document) error {
	seen, err := s.store.Position(ctx, user, store.HomePage, "")
	if err != nil {
		return err
	}
	limit := s.caps.feedLimit()
	count, err := s.store.CountNew(ctx, user, max(seen, s.ages.Mark(services.SourceHomeFeed, today)), limit+1)
	if err != nil {
		return err
	}
	document.FeedCount, document.FeedMore = min(count, limit), count > limit
	return nil
}

func (s *Service) notificationFacts(ctx context.Context, user services.UserNumber, _ int64, document *rdb.Document) error {
	states, err := s.store.NotificationStates(ctx, user)
	for _, state := range states {
		document.Notifications = append(document.Notifications, fanout.CountsOf(state))
	}
	return err
}

func (s *Service) messageFacts(ctx context.Context, user services.UserNumber, _ int64, document *rdb.Document) error {
	states, err := s.store.MessageStates(ctx, user)
	if err != nil {
		return err
	}
	for _, kind := range s.redis.MessageTypes() {
		shown := services.MessageTypeState{Type: kind}
		for _, state := range states {
			if state.Type == kind {
				shown = fanout.MessagesOf(state)
			}
		}
		document.Messages = append(document.Messages, shown)
	}
	return nil
}

func (s *Service) policyFacts(ctx context.Context, user services.UserNumber, _ int64, document *rdb.Document) (err error) {
	document.Policy, err = s.store.Policy(ctx, user)
	return err
}

// noticeFacts gives a user who is new his position, as a rebuild would.
func (s *Service) noticeFacts(ctx context.Context, user services.UserNumber, _ int64, document *rdb.Document) error {
	if _, err := s.announcements.At(ctx, s.clock.Now()); err != nil {
		return err
	}
	standing, err := s.fanout.EnterNotices(ctx, user)
	document.Notice, document.Segments, document.DotsSeen = standing.NoticeState, standing.Segments, standing.Dots
	return err
}
