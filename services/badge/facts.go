package badge

import (
	"context"

	"tidings/services"
	"tidings/services/fanout"
	"tidings/services/rdb"
	"tidings/services/store"
)

// countFacts makes a document of the facts alone: each source adds its own.
func (s *Service) countFacts(ctx context.Context, user services.UserNumber) (document rdb.Document, err error) {
	for _, source := range []func(context.Context, services.UserNumber, *rdb.Document) error{
		s.feedFacts, s.notificationFacts, s.messageFacts, s.policyFacts,
	} {
		if err := source(ctx, user, &document); err != nil {
			return document, err
		}
	}
	return document, nil
}

func (s *Service) feedFacts(ctx context.Context, user services.UserNumber, document *rdb.Document) error {
	seen, err := s.store.Position(ctx, user, store.HomePage, "")
	if err != nil {
		return err
	}
	count, err := s.store.CountNew(ctx, user, seen, services.Retention+1)
	if err != nil {
		return err
	}
	document.FeedCount, document.FeedMore = min(count, services.Retention), count > services.Retention
	return nil
}

func (s *Service) notificationFacts(ctx context.Context, user services.UserNumber, document *rdb.Document) error {
	states, err := s.store.NotificationStates(ctx, user)
	for _, state := range states {
		document.Notifications = append(document.Notifications, fanout.CountsOf(state))
	}
	return err
}

func (s *Service) messageFacts(ctx context.Context, user services.UserNumber, document *rdb.Document) error {
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

func (s *Service) policyFacts(ctx context.Context, user services.UserNumber, document *rdb.Document) (err error) {
	document.Policy, err = s.store.Policy(ctx, user)
	return err
}
