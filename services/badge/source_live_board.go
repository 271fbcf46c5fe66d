package badge

import (
	"context"
	"time"

	"tidings/services"
	"tidings/services/rdb"
	"tidings/services/store"
)

// liveBoard is the source of the followed hosts' running shows that went live since the board was seen.
type liveBoard struct {
	plain
	s *Service
}

func (liveBoard) name() string         { return "live board" }
func (liveBoard) key() services.Source { return services.SourceLiveBoard }

func (liveBoard) part(badges *services.Badges, i int) *services.Count {
	return single(&badges.LiveBoard, i)
}

func (l liveBoard) follow(user services.UserID, document *rdb.Document) {
	l.s.shows.Follow(user, document.Hosts)
}

// facts reads the board's hosts and how far it was seen. The running shows are in the node cache, also without Redis.
func (l liveBoard) facts(ctx context.Context, user services.UserID, today int64, document *rdb.Document) error {
	seen, err := l.s.store.Position(ctx, user, store.LiveBoard, "")
	if err != nil {
		return err
	}
	if document.Hosts, err = l.s.fanout.HostsBy(ctx, user); err != nil || len(document.Hosts) == 0 {
		return err
	}
	document.LiveSeen = uint64(seen)
	document.LiveCount = l.s.shows.CountLiveSince(document.Hosts, document.LiveSeen, l.s.ages.Mark(services.SourceLiveBoard, today))
	return nil
}

// render counts the running shows that went live since the board was looked at.
func (liveBoard) render(v *view, badges *services.Badges) {
	live := v.document.LiveCount
	v.learned(live.Sequence)
	badges.LiveSequence = live.Sequence
	v.expires(services.SourceLiveBoard, live.New)
	badges.LiveBoard = exact(live.New)
	if live.Behind {
		badges.LiveBoard = services.NewCount(0, services.Unknown, time.Time{})
	}
}

func (l liveBoard) explain(ctx context.Context, of explained) ([]services.Explanation, error) {
	hosts, err := l.s.fanout.HostsBy(ctx, of.user)
	if err != nil {
		return nil, err
	}
	after := l.s.ages.Mark(services.SourceLiveBoard, of.today)
	for i := range hosts {
		hosts[i].Since = max(hosts[i].Since, after)
	}
	explanation := services.Explanation{Source: services.SourceLiveBoard, Count: of.badges.LiveBoard}
	for _, show := range l.s.shows.LiveSince(hosts, uint64(of.seen[store.LiveBoard])) {
		explanation.Items = append(explanation.Items, services.Item{
			ID: show.GlobalID(), At: show.StartedAt, Count: 1, ClearedBy: clearing("markLiveBoardSeen", ""),
		})
	}
	return []services.Explanation{explanation}, nil
}

// digest counts the shows that went live since, running or over.
func (l liveBoard) digest(ctx context.Context, user services.UserID, since time.Time, digest *services.Digest) error {
	hosts, err := l.s.fanout.HostsBy(ctx, user)
	if err != nil {
		return err
	}
	over, err := l.s.store.ReplaysFeed(ctx, user, services.ShowPlace{}, services.Retention)
	if err != nil {
		return err
	}
	// The node cache has the replays of huge hosts.
	pulled, _ := l.s.shows.ReplaysAt(hosts, l.s.shows.Version(), services.ShowPlace{}, services.Retention)
	followed := make(map[services.UserID]services.PostID, len(hosts))
	for _, host := range hosts {
		followed[host.Author] = host.Since
	}
	came := map[services.PostID]bool{}
	for _, shows := range [][]services.Show{l.s.shows.LiveSince(hosts, 0), over, pulled} {
		for _, show := range shows {
			if at, follows := followed[show.Host]; follows && show.LiveStamp > at && !show.StartedAt.Before(since) {
				came[show.ID] = true
			}
		}
	}
	brings(digest, services.SourceLiveBoard, "", len(came), services.Retention)
	return nil
}

// remember adds the node cache's state of the shows of the documents' hosts.
func (l liveBoard) remember(_ context.Context, _ []services.UserID, documents []rdb.Document, today int64) {
	after := l.s.ages.Mark(services.SourceLiveBoard, today)
	for i := range documents {
		if document := &documents[i]; len(document.Hosts) > 0 {
			document.LiveCount = l.s.shows.CountLiveSince(document.Hosts, document.LiveSeen, after)
		}
	}
}
