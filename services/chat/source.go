package chat

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"tidings/services"
	"tidings/services/badge/source"
	"tidings/services/rdb"
)

// Source is the source of the unread messages of all conversations. The mentions are some of these messages, so they are not added
// to the total again.
type Source struct {
	source.DefaultMethods
	service *Service
}

// Source is the service's source of the badges.
func (s *Service) Source() Source { return Source{service: s} }

// Name is the source's name in logs.
func (Source) Name() string { return "conversations" }

// Key is CONVERSATIONS.
func (Source) Key() services.Source { return services.SourceConversations }

// Part returns the source's i-th count in the badges; it has one, the total of all conversations.
func (Source) Part(badges *services.Badges, i int) *services.Count {
	return source.SinglePart(&badges.Conversations.Total, i)
}

// Within returns the count of mentions, which are part of the unread messages.
func (Source) Within(badges *services.Badges) *services.Count {
	return &badges.Conversations.Mentions
}

// Follow lets this node follow the last sequences of the conversations in a user's document that are counted on read.
func (c Source) Follow(user services.UserID, document *rdb.Document) {
	c.service.Sequences.follow(user, document.Conversations.CountedOnRead)
}

// Facts counts the unread messages of every conversation from its rows, and puts them into the Unread and Mentions of the
// documents. That includes conversations that are counted on read, so the documents get no positions (CountedOnRead).
func (c Source) Facts(ctx context.Context, users []services.UserID, today int64, documents []rdb.Document) error {
	pages, indexes := make([]userMembershipsPageRequest, len(users)), make([]int, len(users))
	for i, user := range users {
		pages[i], indexes[i] = userMembershipsPageRequest{user: user}, i
	}
	for len(pages) > 0 {
		limit := membershipsPerUser(len(pages))
		found, err := membershipsOfEach(ctx, c.service.DB, pages, c.service.Clock.Now(), limit)
		if err != nil {
			return err
		}
		states := slices.Concat(found...)
		// Messages that are too old do not count here, as they do not count in the document in Redis.
		if err := c.service.removeExpired(ctx, states, today); err != nil {
			return err
		}
		// The next round reads the next page of each user whose page was full.
		rest := 0
		for i, page := range found {
			sums := &documents[indexes[i]].Conversations
			for range page {
				state := c.service.applyMuteSetting(states[0])
				states = states[1:]
				sums.NextExpiryDay = earlierDay(sums.NextExpiryDay, state.NextExpiryDay)
				sums.Mentions += int(state.UnreadMentions())
				sums.Unread += countInBadges(state)
			}
			if len(page) == limit {
				pages[rest], indexes[rest] = userMembershipsPageRequest{pages[i].user, page[limit-1].Conversation}, indexes[i]
				rest++
			}
		}
		pages, indexes = pages[:rest], indexes[:rest]
	}
	return nil
}

// membershipsPerUser is how many states of each user are read at once, if the states of this many users are read together. It is
// bounded, so that users with very many conversations do not fill the memory. Most users have fewer states, so one read is enough.
func membershipsPerUser(users int) int {
	const ofAll, ofOne, ofEach = 5000, 1000, 50 // at most for all users together, at most for one, at least for each
	return max(min(ofAll/users, ofOne), ofEach)
}

// HoldsExpired reports whether a document still counts messages that are too old. A document's counts are right until the day on
// which its next message expires.
func (Source) HoldsExpired(document *rdb.Document, today int64) bool {
	leaves := document.Conversations.NextExpiryDay
	return leaves > 0 && leaves <= today
}

// RemoveExpired takes the messages that are too old out of the counts of users. It works on a few users at a time, because it reads
// all states of each.
func (c Source) RemoveExpired(ctx context.Context, users []services.UserID, today int64) error {
	const parallel = 8
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, user := range users {
		group.Go(func() (err error) {
			defer services.Recover(&err)
			return c.service.removeExpiredOfUser(ctx, user, today)
		})
	}
	return services.Repanic(group.Wait())
}

// Render adds the counts made when a message is written to the counts made when a user reads.
func (Source) Render(v *source.Rendering, badges *services.Badges) {
	sums := v.Document.Conversations
	v.AddSequence(sums.CachedSequenceSum)
	precision := services.Exact
	if sums.CacheNotLoaded {
		precision = services.AtLeast
	}
	if sums.NextExpiryDay > 0 {
		v.RecordChangeAt(services.DayStart(sums.NextExpiryDay))
	}
	badges.Conversations.Total = services.NewCount(sums.Unread+sums.CachedUnread, precision, time.Time{})
	badges.Conversations.Mentions = source.ExactCount(sums.Mentions)
	if sums.Version > 0 {
		// The list's version rises with each change of the user's rows and each message that counts on read: WatchList reads the
		// list again when it changes. Without a document there is no version.
		badges.Conversations.List = services.ConversationListVersion{DocumentVersion: sums.Version, SequenceSum: sums.CachedSequenceSum}
	}
}

// CopyNonCounts clears the version of the list in badges that repeat earlier counts, because the list may have changed since.
func (Source) CopyNonCounts(_ *source.Rendering, badges *services.Badges, _ source.ShownBadges) {
	badges.Conversations.List = services.ConversationListVersion{}
}

// Explain lists the conversations with unread messages.
func (c Source) Explain(ctx context.Context, of source.ExplainRequest) ([]services.Explanation, error) {
	explanation := services.Explanation{Source: services.SourceConversations, Count: of.Badges.Conversations.Total}
	err := c.eachConversation(ctx, of.User, true, func(state MemberState) bool {
		if count := countInBadges(c.service.applyMuteSetting(state.Membership)); count > 0 {
			explanation.Items = append(explanation.Items, state.item(count))
		}
		return len(explanation.Items) < of.MaxItems()
	})
	return []services.Explanation{explanation}, err
}

// item is a conversation as an item of a count, with the time of its last message.
func (s MemberState) item(count int) services.Item {
	id := s.ID.GlobalID()
	return services.Item{ID: id, At: s.LastActiveAt, Count: count, ClearedBy: source.ClearingMutation("markConversationRead", "conversationId", id)}
}

// Newest lists all conversations with unread messages and all with mentions: only all of them say whether a message is in SQL and not
// in the count yet. That is common in a burst, because the messages of a conversation are projected at most ten times a second.
func (c Source) Newest(ctx context.Context, of source.ExplainRequest) (explanations []services.Explanation, known bool, err error) {
	unread := services.Explanation{Source: services.SourceConversations, Count: of.Badges.Conversations.Total}
	mentions := services.Explanation{Source: services.SourceConversations, Part: services.MentionsPart, Count: of.Badges.Conversations.Mentions}
	add := func(to *services.Explanation, state MemberState, count int, loose bool) {
		if count > 0 {
			item := state.item(count)
			item.AtIsUncertain = loose // the last message need not be one of the mentions that count
			to.Items = append(to.Items, item)
		}
	}
	err = c.eachConversation(ctx, of.User, true, func(state MemberState) bool {
		own := c.service.applyMuteSetting(state.Membership)
		add(&unread, state, countInBadges(own), own.Muted)
		add(&mentions, state, int(own.UnreadMentions()), true)
		return len(unread.Items) < source.MaxExplainedItems
	})
	return []services.Explanation{unread, mentions}, true, err
}

// Digest adds to an away digest the number of conversations with messages since a time.
func (c Source) Digest(ctx context.Context, user services.UserID, since time.Time, digest *services.Digest) error {
	count := 0
	err := c.eachConversation(ctx, user, false, func(state MemberState) bool {
		recent := !state.LastActiveAt.Before(since)
		// Without a message, LastActiveAt is the time of the creation.
		if recent && state.NewestNumber > 0 {
			count++
		}
		return recent && count < source.MaxExplainedItems
	})
	source.AddDigestPart(digest, services.SourceConversations, "", count, source.MaxExplainedItems)
	return err
}

// AddWithoutSQL is AddCached for one document. It is not complete if this node has not cached one of the conversations.
func (c Source) AddWithoutSQL(_ services.UserID, document *rdb.Document, _ int64) (complete bool) {
	return c.addOnReadCount(&document.Conversations, c.service.Clock.Now())
}

// AddCached adds to documents the node cache's state of the conversations that are counted when read, with one SELECT for the
// conversations that this node has not cached.
func (c Source) AddCached(ctx context.Context, _ []services.UserID, documents []rdb.Document, _ int64) {
	now := c.service.Clock.Now()
	var incomplete []int // documents with conversations that this node has not cached
	var missing [][]services.CountedOnReadPosition
	for i := range documents {
		// Follow was called before the count: a message in between is in the count, or the user is notified of it.
		if sums := &documents[i].Conversations; !c.addOnReadCount(sums, now) {
			incomplete, missing = append(incomplete, i), append(missing, sums.CountedOnRead)
		}
	}
	if len(missing) == 0 { // nearly always
		return
	}
	c.service.Sequences.cacheMissing(ctx, missing...)
	for _, i := range incomplete {
		c.addOnReadCount(&documents[i].Conversations, now)
	}
}

// addOnReadCount adds the node cache's count of the conversations that are counted when read, and reports whether the node has cached
// all of them.
func (c Source) addOnReadCount(sums *services.ConversationSums, now time.Time) (complete bool) {
	if len(sums.CountedOnRead) == 0 { // as in most documents
		return true
	}
	counted := c.service.Sequences.countOnRead(sums.CountedOnRead, now)
	sums.CachedUnread, sums.CachedSequenceSum, sums.CacheNotLoaded = counted.Unread, counted.SequenceSum, !counted.Complete
	return counted.Complete
}

// eachConversation visits a user's conversations, the last active first, until do returns false. If unread is true, it leaves out
// conversations without unread messages, and takes messages that are too old to count out of the counts of the others.
func (c Source) eachConversation(ctx context.Context, user services.UserID, unread bool, do func(state MemberState) bool) error {
	const page = 200
	list := statesOf
	if unread {
		list = unreadStatesOf
	}
	before, last := c.service.Clock.Now().Add(24*time.Hour), services.ConversationID(0) // this node's clock may be behind the writer's
	for {
		states, err := list(ctx, c.service.DB, user, before, last, page)
		if err != nil {
			return err
		}
		if unread {
			if err := c.service.removeExpiredFromStates(ctx, states, services.DayOf(c.service.Clock.Now())); err != nil {
				return err
			}
		}
		for _, state := range states {
			before, last = state.LastActiveAt, state.ID
			if !do(state) {
				return nil
			}
		}
		if len(states) < page {
			return nil
		}
	}
}

// earlierDay is the earlier of two days; 0 means no day.
func earlierDay(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// countInBadges is a conversation's share of the badges: for a muted one its mentions.
func countInBadges(state services.Membership) int {
	if state.Muted {
		return int(state.UnreadMentions())
	}
	return int(state.Unread())
}
