package rdb

import (
	"context"
	"strconv"

	"tidings/services"
	"tidings/services/redis"
)

// Document is the badge document of one user as Redis has it: the hash {u<number>}:b.
//
//	st    0 while it is being built, 1 when good
//	e     epoch of its birth: one of another is taken as missing, see epoch
//	rm    stamp (us) of birth or of the last removal: an add read before it is refused
//	n     version of the user's own half (us)
//	d     the day (since 1970) on which the user was last marked active
//	T     home feed: seen up to (post id)
//	fc    home feed: the count, 0 to 300, with "+" when it may be more
//	fq ft home feed: newest entry that does not count; newest counting entry ever trimmed
//	F     home feed: followed authors whose posts are pulled, and since when they are followed, packed
//	L     live board: followed authors who host shows, and since when they are followed, packed
//	Cu Cm conversations: unread and mentions over those counted when written
//	R     conversations counted when read, and what to take from the head of each, packed
//	fx    home feed, where posts leave the number because of their age: those up to here have, and fc is without them
//	Cx    conversations, where messages do: the day (since 1970) on which the next one leaves the sums or the places; 0: none does
//	Ck    how many states {u<number>}:c has: with another number some were lost
//
// and registers, see Register.
type Document struct {
	Ready         bool // false: missing or being built, and then nothing else counts
	N             uint64
	Day           int64
	Seen          services.PostID
	FeedCount     int
	FeedMore      bool                        // FeedCount or more
	FeedAged      services.PostID             // posts up to it are too old to be in FeedCount
	Unread        int                         // of the whole feed, counted in SQL because FeedCount or more of Pulled are not all
	UnreadKnown   bool                        // Unread was counted
	Pulled        []services.FollowedAuthor   // whose posts are not in FeedCount, in no order
	PulledCount   services.PulledCount        // what a node knows of Pulled when it renders
	Hosts         []services.FollowedAuthor   // whose shows are on the board, in no order
	LiveSeen      uint64                      // live board: shows that went live up to this version of the log were seen
	LiveCount     services.LiveCount          // what a node knows of Hosts when it renders
	Notifications []services.CategoryCounts   // of services.Categories, in that order
	Messages      []services.MessageTypeState // of the configured types, in that order
	Notice        services.NoticeState
	Segments      services.SegmentState
	DotsSeen      map[string]uint64 // dot -> raise (us) that the user has clicked away; nil or absent: none since Notice.DotsFrom
	Policy        services.DisplayPolicy
	Conversations services.ConversationSums
}

// Documents reads the badge documents of the users, in their order, by one HMGET each in one round trip.
func (c *Projections) Documents(ctx context.Context, users []services.UserID) ([]Document, error) {
	if err := c.Trusted(); err != nil {
		return nil, err
	}
	layout := c.layout.Load()
	if len(users) == 1 {
		values, err := c.Shared().HMGet(ctx, badgeKey(users[0]), layout.fields...).Result()
		if err == nil {
			return []Document{layout.parse(values, c.Epoch())}, nil
		}
		if !redis.IsWrongType(err) {
			return nil, redis.Unavailable(err)
		}
	}
	ctx = redis.Reading(ctx)
	commands, err := c.readViews(ctx, func(p redis.Pipeliner) {
		for _, user := range users {
			p.HMGet(ctx, badgeKey(user), layout.fields...)
		}
	})
	if err != nil {
		return nil, err
	}
	// The epoch is taken after the answers: whatever connection they came through had told its history by then.
	documents, epoch := make([]Document, len(users)), c.Epoch()
	for i, command := range commands {
		values, err := command.(*redis.SliceCmd).Result()
		if err != nil {
			return nil, redis.Unavailable(err)
		}
		documents[i] = layout.parse(values, epoch)
	}
	return documents, nil
}

// Versions reads n of each user's document in one round trip: 0 where it is missing or being built.
func (c *Projections) Versions(ctx context.Context, users []services.UserID) ([]uint64, error) {
	if err := c.Trusted(); err != nil {
		return nil, err
	}
	commands, err := c.readViews(ctx, func(p redis.Pipeliner) {
		for _, user := range users {
			p.HMGet(ctx, badgeKey(user), "st", "e", "n")
		}
	})
	if err != nil {
		return nil, err
	}
	versions, epoch := make([]uint64, len(users)), c.Epoch()
	for i, command := range commands {
		values, err := command.(*redis.SliceCmd).Result()
		if err != nil {
			return nil, redis.Unavailable(err)
		}
		if values[0] == "1" && values[1] == epoch {
			n, _ := values[2].(string)
			versions[i], _ = strconv.ParseUint(n, 10, 64)
		}
	}
	return versions, nil
}

var versionRaise = loadScript("version_raise")

var documentLost = loadScript("document_lost")

// MarkLost says that the users were shown[i], versions of Redis, although their documents are older now: those are taken
// for missing, and made again with versions above.
func (c *Projections) MarkLost(ctx context.Context, users []services.UserID, shown []uint64) error {
	calls := make([]redis.Call, len(users))
	for i, user := range users {
		calls[i] = redis.Call{Keys: []string{badgeKey(user)}, Args: []any{shown[i]}}
	}
	_, err := c.results(ctx, documentLost, calls)
	return err
}

// RaiseVersions lifts the versions of documents above ones that were made up without Redis: passed[i] is of users[i].
func (c *Projections) RaiseVersions(ctx context.Context, users []services.UserID, passed []uint64) ([]Result, error) {
	calls := make([]redis.Call, len(users))
	for i, user := range users {
		calls[i] = redis.Call{Keys: []string{badgeKey(user), onlineKey(user)}, Args: []any{passed[i]}}
	}
	return c.results(ctx, versionRaise, calls)
}
