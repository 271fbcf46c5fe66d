package live

import (
	"context"
	"time"

	"tidings/services"
	"tidings/services/badge/source"
	"tidings/services/positions"
	"tidings/services/rdb"
)

// Source is the source of the followed hosts' running shows that went live since the board was seen.
type Source struct {
	source.DefaultMethods
	service *Service
}

// Source is the service's source of the badges.
func (s *Service) Source() Source { return Source{service: s} }

// Name is the source's name in logs.
func (Source) Name() string { return "live board" }

// Key is LIVE_BOARD.
func (Source) Key() services.Source { return services.SourceLiveBoard }

// Part is the source's count. It has no further parts.
func (Source) Part(badges *services.Badges, i int) *services.Count {
	return source.SinglePart(&badges.LiveBoard, i)
}

// Follow follows the shows of a user's hosts: changes of their sets of live shows wake the hub for this user.
func (l Source) Follow(user services.UserID, document *rdb.Document) {
	l.service.Memory.setReaderHosts(user, document.Hosts)
}

// Facts reads the board's hosts and how far it was seen. The running shows are in the node cache, also without Redis. Facts makes
// the count too, because AddCached, which makes the count otherwise, runs only for documents from Redis.
func (l Source) Facts(ctx context.Context, users []services.UserID, today int64, documents []rdb.Document) error {
	hosts, err := followedHostsByReader(ctx, l.service.db, users)
	if err != nil || len(hosts) == 0 {
		return err
	}
	seen, err := positions.OfUsers[uint64](ctx, l.service.db, users, positions.LiveBoardView)
	if err != nil {
		return err
	}
	after := l.service.expiry.ExpiredUpTo(services.SourceLiveBoard, today)
	for i, user := range users {
		if document := &documents[i]; len(hosts[user]) > 0 {
			document.Hosts, document.LiveSeenUpTo = hosts[user], seen[user]
			document.LiveCount = l.service.Memory.countLiveSince(document.Hosts, document.LiveSeenUpTo, after)
		}
	}
	return nil
}

// Render counts the running shows that went live since the board was seen.
func (Source) Render(v *source.Rendering, badges *services.Badges) {
	live := v.Document.LiveCount
	// The versions of the hosts' live sets are the board's part of the badges' version: a show that starts raises the badges'
	// version without a write anywhere.
	v.AddSequence(live.VersionSum)
	badges.LiveSequence = live.VersionSum
	v.RecordExpiry(services.SourceLiveBoard, live.NewShows)
	badges.LiveBoard = source.ExactCount(live.NewShows)
	// This node has not loaded the shows yet, so any number would be wrong.
	if live.CacheNotLoaded {
		badges.LiveBoard = services.NewCount(0, services.Unknown, time.Time{})
	}
}

// Explain lists the shows that the count has.
func (l Source) Explain(ctx context.Context, of source.ExplainRequest) ([]services.Explanation, error) {
	hosts, err := l.service.followedHosts(ctx, of.User)
	if err != nil {
		return nil, err
	}
	after := l.service.expiry.ExpiredUpTo(services.SourceLiveBoard, of.Today)
	for i := range hosts {
		// A show counts if it went live after the follow and has not expired.
		hosts[i].ItemsCountAfter = max(hosts[i].ItemsCountAfter, after)
	}
	explanation := services.Explanation{Source: services.SourceLiveBoard, Count: of.Badges.LiveBoard}
	for _, show := range l.service.Memory.liveSince(hosts, of.SeenPositions[positions.LiveBoardView]) {
		explanation.Items = append(explanation.Items, services.Item{
			ID: show.GlobalID(), At: show.StartedAt, Count: 1, ClearedBy: source.ClearingMutationWithInput("markLiveBoardSeen", ""),
		})
	}
	return []services.Explanation{explanation}, nil
}

// Digest counts the shows that went live since a moment, whether they are still live or over.
func (l Source) Digest(ctx context.Context, user services.UserID, since time.Time, digest *services.Digest) error {
	hosts, err := l.service.followedHosts(ctx, user)
	if err != nil {
		return err
	}
	over, err := replaysOfFollowedHosts(ctx, l.service.db, user, ShowPosition{}, services.FeedRetention)
	if err != nil {
		return err
	}
	// The node cache has the replays of huge hosts.
	pulled, _ := l.service.Memory.replaysAt(hosts, l.service.Memory.Version(), ShowPosition{}, services.FeedRetention)
	followed := make(map[services.UserID]services.SortableID, len(hosts))
	for _, host := range hosts {
		if !host.CountsNothing {
			followed[host.Author] = host.ItemsCountAfter
		}
	}
	came := map[services.ShowID]bool{}
	// A show can be in two of the lists, because it may end between the reads: came counts it once.
	for _, shows := range [][]Show{l.service.Memory.liveSince(hosts, 0), over, pulled} {
		for _, show := range shows {
			// This is the condition of hostShows.eachLive, so that the digest counts what a badge would have counted.
			if at, follows := followed[show.Host]; follows && show.LiveStamp > at && !show.StartedAt.Before(since) {
				came[show.ID] = true
			}
		}
	}
	source.AddDigestPart(digest, services.SourceLiveBoard, "", len(came), services.FeedRetention)
	return nil
}

// AddCached adds the node cache's state of the shows of the documents' hosts.
func (l Source) AddCached(_ context.Context, _ []services.UserID, documents []rdb.Document, today int64) {
	after := l.service.expiry.ExpiredUpTo(services.SourceLiveBoard, today)
	for i := range documents {
		if document := &documents[i]; len(document.Hosts) > 0 {
			document.LiveCount = l.service.Memory.countLiveSince(document.Hosts, document.LiveSeenUpTo, after)
		}
	}
}
