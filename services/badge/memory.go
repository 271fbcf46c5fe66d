package badge

import (
	"context"

	"tidings/services"
	"tidings/services/rdb"
)

// withMemory adds to documents what this node knows of what is counted when somebody reads. Of users who are watched it
// hears when that changes.
func (s *Service) withMemory(ctx context.Context, users []services.UserNumber, documents []rdb.Document, watched bool, today int64) {
	for i := range documents {
		if watched && documents[i].Ready {
			s.conversations.Follow(users[i], documents[i].Conversations.ReadSide)
			s.pulled.Follow(users[i], documents[i].Pulled)
			s.shows.Follow(users[i], documents[i].Hosts)
		}
	}
	s.withHeads(ctx, documents)
	s.withPulled(ctx, documents, today)
	s.withBeyond(ctx, users, documents, today)
	s.withLive(documents, today)
}

// withPulled adds the posts of authors whom nobody writes into inboxes: from memory, and one SELECT for authors of whom
// this node does not know yet.
func (s *Service) withPulled(ctx context.Context, documents []rdb.Document, today int64) {
	var lists [][]services.FollowedAuthor
	for i := range documents {
		if len(documents[i].Pulled) > 0 {
			lists = append(lists, documents[i].Pulled)
		}
	}
	if len(lists) == 0 {
		return
	}
	s.pulled.Learn(ctx, lists...)
	aged := s.ages.Mark(services.SourceHomeFeed, today)
	for i := range documents {
		if document := &documents[i]; len(document.Pulled) > 0 {
			document.PulledCount = s.pulled.Count(document.Pulled, max(document.Seen, aged))
		}
	}
}
