package badge

import (
	"context"
	"time"

	"tidings/services"
	"tidings/services/rdb"
	"tidings/services/store"
)

// withLive adds what this node knows of the shows of hosts whom documents name.
func (s *Service) withLive(documents []rdb.Document, today int64) {
	after := s.ages.Mark(services.SourceLiveBoard, today)
	for i := range documents {
		if document := &documents[i]; len(document.Hosts) > 0 {
			document.LiveCount = s.shows.CountLiveSince(document.Hosts, document.LiveSeen, after)
		}
	}
}

// liveBoard is how many shows run that went live since the board was looked at.
func (v *view) liveBoard(badges *services.Badges) {
	live := v.document.LiveCount
	v.learned(live.Sequence)
	badges.LiveSequence = live.Sequence
	v.expires(services.SourceLiveBoard, live.New)
	badges.LiveBoard = exact(live.New)
	if live.Behind {
		badges.LiveBoard = services.NewCount(0, services.Unknown, time.Time{})
	}
}

// liveFacts reads whom the board is of and how far it was seen. What runs is in memory, also without Redis.
func (s *Service) liveFacts(ctx context.Context, user services.UserNumber, today int64, document *rdb.Document) error {
	seen, err := s.store.Position(ctx, user, store.LiveBoard, "")
	if err != nil {
		return err
	}
	if document.Hosts, err = s.fanout.HostsBy(ctx, user); err != nil || len(document.Hosts) == 0 {
		return err
	}
	document.LiveSeen = uint64(seen)
	document.LiveCount = s.shows.CountLiveSince(document.Hosts, document.LiveSeen, s.ages.Mark(services.SourceLiveBoard, today))
	return nil
}

func (s *Service) explainLiveBoard(ctx context.Context, of explained) ([]services.Explanation, error) {
	hosts, err := s.fanout.HostsBy(ctx, of.user)
	if err != nil {
		return nil, err
	}
	after := s.ages.Mark(services.SourceLiveBoard, of.today)
	for i := range hosts {
		hosts[i].Since = max(hosts[i].Since, after)
	}
	explanation := services.Explanation{Source: services.SourceLiveBoard, Count: of.badges.LiveBoard}
	for _, show := range s.shows.LiveSince(hosts, uint64(of.seen[store.LiveBoard])) {
		explanation.Items = append(explanation.Items, services.Item{
			ID: show.GlobalID(), At: show.StartedAt, Count: 1, ClearedBy: clearing("markLiveBoardSeen", ""),
		})
	}
	return []services.Explanation{explanation}, nil
}

// digestLiveBoard counts the shows that went live since, whether they run still or are over.
func (s *Service) digestLiveBoard(ctx context.Context, user services.UserNumber, since time.Time, digest *services.Digest) error {
	hosts, err := s.fanout.HostsBy(ctx, user)
	if err != nil {
		return err
	}
	over, err := s.store.ReplaysFeed(ctx, user, services.ShowPlace{}, services.Retention)
	if err != nil {
		return err
	}
	// Of huge hosts memory has what is over.
	pulled, _ := s.shows.ReplaysAt(hosts, s.shows.Version(), services.ShowPlace{}, services.Retention)
	followed := make(map[services.UserNumber]services.PostID, len(hosts))
	for _, host := range hosts {
		followed[host.Author] = host.Since
	}
	came := map[services.PostID]bool{}
	for _, shows := range [][]services.Show{s.shows.LiveSince(hosts, 0), over, pulled} {
		for _, show := range shows {
			if at, follows := followed[show.Host]; follows && show.LiveStamp > at && !show.StartedAt.Before(since) {
				came[show.ID] = true
			}
		}
	}
	brings(digest, services.SourceLiveBoard, "", len(came), services.Retention)
	return nil
}
