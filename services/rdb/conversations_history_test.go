package rdb

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"tidings/services"
	"tidings/services/redis"
)

// conversationModel is one conversation as the facts have it.
type conversationModel struct {
	messages             []modelMessage
	countedOnReadVersion int64                                    // the version of countedOnRead
	countedOnRead        bool                                     // messages are counted when the badges are read, not when they are written
	memberStates         map[services.UserID]*services.Membership // the state of each member; snapshot adds what all members share
}

// modelMessage is one message, and the user that it mentions; 0: nobody.
type modelMessage struct {
	author, mentioned services.UserID
	recalled          bool // it was taken back, and counts for nobody
}

// conversationsWorld is a world of a few people and conversations, with states that reach their documents late, twice and in any
// order.
type conversationsWorld struct {
	ctx           context.Context
	projections   *Projections
	random        *rand.Rand
	people        []services.UserID                              // the members of all conversations
	conversations map[services.ConversationID]*conversationModel // the conversations, as they must be
	pendingWrites []func() error                                 // the deliveries and merges that have not happened yet
	// readsFactsEarly is an injected bug: a rebuild reads the facts before it marks the document.
	readsFactsEarly bool
	// omitsLeftConversations is an injected bug: a rebuild omits the conversations that the user has left.
	omitsLeftConversations bool
}

// newConversationsWorld makes three people and two conversations that all of them are in.
func newConversationsWorld(ctx context.Context, c *Projections, seed uint64) *conversationsWorld {
	w := &conversationsWorld{ctx: ctx, projections: c, random: rand.New(rand.NewPCG(seed, 0)), conversations: map[services.ConversationID]*conversationModel{}}
	for i := range uint64(3) {
		w.people = append(w.people, services.UserID(1+3*seed+i))
	}
	for id := range services.ConversationID(2) {
		t := &conversationModel{memberStates: map[services.UserID]*services.Membership{}}
		for _, user := range w.people {
			t.memberStates[user] = &services.Membership{Conversation: id + 1, User: user}
		}
		w.conversations[id+1] = t
	}
	return w
}

// snapshot is a user's state as one SQL statement reads it: the user's row and what all members share.
func (t *conversationModel) snapshot(user services.UserID) services.Membership {
	row := *t.memberStates[user]
	row.NewestMessageNumber, row.CountedOnRead, row.CountedOnReadVersion = int64(len(t.messages)), t.countedOnRead, t.countedOnReadVersion
	return row
}

// setReadPosition sets a user's read position to base, and recounts the user's mentions above it and the UnreadAdjustment: the number
// of messages above it that do not count, as a negative number.
func (t *conversationModel) setReadPosition(row *services.Membership, base int64) {
	row.ReadUpTo, row.UnreadAdjustment, row.Mentions = base, 0, 0
	for i, message := range t.messages {
		switch {
		case int64(i) < base:
		case message.author == row.User || message.recalled:
			row.UnreadAdjustment--
		case message.mentioned == row.User:
			row.Mentions++
		}
	}
	row.Version++
}

// queueStates takes the users' states of this moment, to be written into their documents later, by runPendingWrite or runAndCompare.
func (w *conversationsWorld) queueStates(id services.ConversationID, users ...services.UserID) {
	for _, user := range users {
		state := w.conversations[id].snapshot(user)
		w.pendingWrites = append(w.pendingWrites, func() error {
			_, clamped, err := w.projections.PutMemberships(w.ctx, []services.Membership{state})
			if err == nil && clamped > 0 {
				err = fmt.Errorf("a negative count of user %d after %+v", user, state)
			}
			return err
		})
	}
}

// rebuild begins a rebuild of the user's document, then reads the facts, then merges them. Anything may happen between the three.
func (w *conversationsWorld) rebuild(user services.UserID) error {
	mark := func() (redis.ClockStamp, error) {
		stamps, err := w.projections.BeginRebuild(w.ctx, []services.UserID{user}, RebuildMode{IsVisit: true})
		if err != nil {
			return 0, err
		}
		return stamps[0], nil
	}
	merge := func(stamp redis.ClockStamp, states []services.Membership) error {
		results, _, err := w.projections.PutMemberships(w.ctx, states)
		if err != nil || len(results) > 0 && results[0].Status == redis.Missing {
			return err // lost again meanwhile: the next reader starts over
		}
		_, err = w.projections.EndRebuild(w.ctx, FeedFacts{Reader: user, Stamp: stamp, IsVisit: true, KeyLifetime: time.Hour})
		return err
	}
	if w.readsFactsEarly {
		states := w.readStates(user)
		w.pendingWrites = append(w.pendingWrites, func() error {
			stamp, err := mark()
			if err == nil {
				err = merge(stamp, states)
			}
			return err
		})
		return nil
	}
	stamp, err := mark()
	if err != nil {
		return err
	}
	states := w.readStates(user)
	w.pendingWrites = append(w.pendingWrites, func() error { return merge(stamp, states) })
	return nil
}

// readStates returns a user's states, as a rebuild reads them from the facts.
func (w *conversationsWorld) readStates(user services.UserID) (states []services.Membership) {
	for _, id := range slices.Sorted(maps.Keys(w.conversations)) {
		if state := w.conversations[id].snapshot(user); !state.HasLeft || !w.omitsLeftConversations {
			states = append(states, state)
		}
	}
	return states
}

// runRandomEvent runs one random event.
func (w *conversationsWorld) runRandomEvent() error {
	id, user := services.ConversationID(1+w.random.IntN(2)), w.people[w.random.IntN(3)]
	t := w.conversations[id]
	row, last := t.memberStates[user], int64(len(t.messages))
	switch action := w.random.IntN(24); {
	case action < 5 && !row.HasLeft:
		t.messages = append(t.messages, modelMessage{author: user, mentioned: w.people[w.random.IntN(3)]})
		for other, state := range t.memberStates {
			if mentioned := t.messages[last].mentioned; other == mentioned && other != user && !state.HasLeft {
				state.Mentions++
				state.Version++
			}
		}
		t.setReadPosition(row, last+1)
		w.queueStates(id, w.people...)
	case action < 8 && !row.HasLeft && last > 0:
		if to := 1 + w.random.Int64N(last); to > row.ReadUpTo {
			t.setReadPosition(row, to)
			w.queueStates(id, user)
		}
	case action == 8 && !row.HasLeft:
		t.setReadPosition(row, w.random.Int64N(last+1))
		w.queueStates(id, user)
	case action == 9 && last > 0:
		w.recallMessage(id, w.random.Int64N(last))
	case action == 10:
		row.HasLeft, row.IsOpen = !row.HasLeft, false
		if !row.HasLeft {
			t.setReadPosition(row, last)
		}
		row.Version++
		w.queueStates(id, user)
	case action == 11:
		row.Muted = !row.Muted
		row.Version++
		w.queueStates(id, user)
	case action == 12 && !row.HasLeft:
		row.IsOpen = !row.IsOpen
		t.setReadPosition(row, last)
		w.queueStates(id, user)
	case action == 13:
		t.countedOnRead, t.countedOnReadVersion = !t.countedOnRead, t.countedOnReadVersion+1
		w.queueStates(id, w.people...)
	case action == 14:
		return w.loseData(user)
	case action < 17:
		return w.rebuild(user)
	default:
		return w.runPendingWrite()
	}
	return nil
}

// recallMessage takes back a message. Only members who have it unread count one message less.
func (w *conversationsWorld) recallMessage(id services.ConversationID, at int64) {
	t := w.conversations[id]
	message := &t.messages[at]
	if message.recalled {
		return
	}
	message.recalled = true
	for user, row := range t.memberStates {
		if row.ReadUpTo <= at && user != message.author && !row.HasLeft {
			row.UnreadAdjustment--
			if message.mentioned == user {
				row.Mentions--
			}
			row.Version++
		}
	}
	w.queueStates(id, w.people...)
}

// loseData deletes a user's document, all their states, or one state.
func (w *conversationsWorld) loseData(user services.UserID) error {
	switch w.random.IntN(3) {
	case 0:
		return w.projections.Client.Commands().Del(w.ctx, DocumentKey(user)).Err()
	case 1:
		return w.projections.Client.Commands().Del(w.ctx, conversationsKey(user)).Err()
	}
	return w.projections.Client.Commands().HDel(w.ctx, conversationsKey(user), "1").Err()
}

// runPendingWrite delivers one pending state, and now and then keeps it pending for another delivery.
func (w *conversationsWorld) runPendingWrite() error {
	if len(w.pendingWrites) == 0 {
		return nil
	}
	i := w.random.IntN(len(w.pendingWrites))
	arrive := w.pendingWrites[i]
	if w.random.IntN(4) > 0 {
		w.pendingWrites = slices.Delete(w.pendingWrites, i, i+1)
	}
	return arrive()
}

// shownCounts returns the counts of conversations that a reader of the document sees: its sums, and the messages in the conversations
// that are counted on read.
func (w *conversationsWorld) shownCounts(d Document) (unread, mentions int) {
	unread = d.Conversations.Unread
	for _, position := range d.Conversations.CountedOnRead {
		unread += max(0, len(w.conversations[position.Conversation].messages)-int(position.ReadUpTo))
	}
	return unread, d.Conversations.Mentions
}

// expectedCounts returns the counts that the user's document must show, by a direct count of the facts.
func (w *conversationsWorld) expectedCounts(user services.UserID) (unread, mentions int) {
	for _, t := range w.conversations {
		row := t.memberStates[user]
		if row.HasLeft || row.IsOpen {
			continue
		}
		for i, message := range t.messages {
			if int64(i) < row.ReadUpTo || message.author == user || message.recalled {
				continue
			}
			mentioned := message.mentioned == user
			if mentioned {
				mentions++
			}
			if mentioned || !row.Muted {
				unread++
			}
		}
	}
	return unread, mentions
}

// checkUnreadSums compares the unread sum of each document with the user's states in Redis. The sum and the states must agree at every
// moment, whatever was lost before.
func (w *conversationsWorld) checkUnreadSums() error {
	documents, err := w.projections.Documents(w.ctx, w.people)
	if err != nil {
		return err
	}
	beside, err := w.projections.Client.Pipeline(w.ctx, func(p redis.Pipeliner) {
		for _, user := range w.people {
			p.HGetAll(w.ctx, conversationsKey(user))
			p.HMGet(w.ctx, DocumentKey(user), "Ck")
		}
	})
	if err != nil {
		return err
	}
	for i, user := range w.people {
		states, kept := beside[2*i].(*redis.MapStringStringCmd).Val(), beside[2*i+1].(*redis.SliceCmd).Val()[0]
		if !documents[i].Ready || kept != strconv.Itoa(len(states)) {
			continue
		}
		unread := 0
		for _, text := range states {
			var last, base, k, version, mentions, way int
			var flags string
			if n, _ := fmt.Sscanf(text, "%d,%d,%d,%d,%d,%d,%s", &last, &base, &k, &version, &mentions, &way, &flags); n == 6 {
				unread += last - base + k
			} else if slices.Contains([]string{"m", "mr"}, flags) {
				unread += mentions
			}
		}
		if unread != documents[i].Conversations.Unread {
			return fmt.Errorf("user %d: the sum is %d, its parts %v", user, documents[i].Conversations.Unread, states)
		}
	}
	return nil
}

// runAndCompare runs a number of events with checks, then lets all states arrive in any order, and compares each document with the
// facts.
func (w *conversationsWorld) runAndCompare(steps int) error {
	for range steps {
		if err := w.runRandomEvent(); err != nil {
			return err
		}
		if err := w.checkUnreadSums(); err != nil {
			return err
		}
	}
	w.random.Shuffle(len(w.pendingWrites), func(i, k int) { w.pendingWrites[i], w.pendingWrites[k] = w.pendingWrites[k], w.pendingWrites[i] })
	for len(w.pendingWrites) > 0 {
		arrive := w.pendingWrites[0]
		w.pendingWrites = w.pendingWrites[1:]
		if err := arrive(); err != nil {
			return err
		}
	}
	for _, user := range w.people {
		if err := w.compareWithFacts(user); err != nil {
			return err
		}
	}
	return nil
}

// compareWithFacts compares what readers see with the facts once all states have arrived. A document that is not ready is rebuilt
// first, as its next reader would do; a document that is ready must be right.
func (w *conversationsWorld) compareWithFacts(user services.UserID) error {
	documents, err := w.projections.Documents(w.ctx, []services.UserID{user})
	if err == nil && !documents[0].Ready {
		if err = w.rebuild(user); err == nil {
			if err = w.pendingWrites[0](); err == nil {
				documents, err = w.projections.Documents(w.ctx, []services.UserID{user})
			}
		}
		w.pendingWrites = nil
	}
	if err != nil {
		return err
	}
	var positions []services.ConversationID
	for _, position := range documents[0].Conversations.CountedOnRead {
		positions = append(positions, position.Conversation)
	}
	slices.Sort(positions)
	var wantPositions []services.ConversationID
	for _, state := range w.readStates(user) {
		if state.CountedOnRead && !state.HasLeft && !state.IsOpen && !state.Muted {
			wantPositions = append(wantPositions, state.Conversation)
		}
	}
	unread, mentions := w.shownCounts(documents[0])
	wantUnread, wantMentions := w.expectedCounts(user)
	if !documents[0].Ready || unread != wantUnread || mentions != wantMentions || !slices.Equal(positions, wantPositions) {
		return fmt.Errorf("user %d is shown %d and %d mentions, %v counted at reading (ready %t); the facts say %d, %d and %v",
			user, unread, mentions, positions, documents[0].Ready, wantUnread, wantMentions, wantPositions)
	}
	return nil
}
