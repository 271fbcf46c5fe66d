package badge

import (
	"context"

	"tidings/services"
	"tidings/services/rdb"
)

// countFacts makes a document of the facts alone, and says which sources could not be read and why the last one could
// not. One that hangs does not hold up the others: each has its own time, and all together have three times that.
func (s *Service) countFacts(ctx context.Context, user services.UserID, today int64) (document rdb.Document, failed []Source, err error) {
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

func (s *Service) countSource(ctx context.Context, source Source, user services.UserID, today int64, document *rdb.Document) error {
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	return source.facts(ctx, user, today, document)
}

// noMessages are the types of site messages, of which each badge has a count.
func (s *Service) noMessages() (none []services.MessageTypeState) {
	for _, kind := range s.redis.MessageTypes() {
		none = append(none, services.MessageTypeState{Type: kind})
	}
	return none
}
