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

// talk is one conversation as the facts have it.
type talk struct {
	messages   []talkMessage
	wayVersion int64                                    // the version of readSide
	readSide   bool                                     // messages are counted when the badges are read, not when they are written
	rows       map[services.UserID]*services.Membership // the state of each member; snapshot adds what all members share
}

// talkMessage is one message, and the user whom it mentions; 0: nobody.
type talkMessage struct {
	author, mentions services.UserID
	recalled         bool
}

// talks is a world of a few people and conversations, with states that reach their documents late, twice and in any order.
type talks struct {
	ctx    context.Context
	c      *Projections
	random *rand.Rand
	people []services.UserID
	facts  map[services.ConversationID]*talk // the conversations, as they must be
	waits  []func() error                    // the deliveries and merges that have not happened yet
	// readsFirst is an injected bug: a rebuild reads the facts before it marks the document.
	readsFirst bool
	// forgetsLeft is an injected bug: a rebuild omits the conversations that the user has left.
	forgetsLeft bool
}

// newTalks makes three people and two conversations that all of them are in.
func newTalks(ctx context.Context, c *Projections, seed uint64) *talks {
	w := &talks{ctx: ctx, c: c, random: rand.New(rand.NewPCG(seed, 0)), facts: map[services.ConversationID]*talk{}}
	for i := range uint64(3) {
		w.people = append(w.people, services.UserID(1+3*seed+i))
	}
	for id := range services.ConversationID(2) {
		t := &talk{rows: map[services.UserID]*services.Membership{}}
		for _, user := range w.people {
			t.rows[user] = &services.Membership{Conversation: id + 1, User: user}
		}
		w.facts[id+1] = t
	}
	return w
}

// snapshot is a user's state as one SQL statement reads it: the user's row and what all members share.
func (t *talk) snapshot(user services.UserID) services.Membership {
	row := *t.rows[user]
	row.Head, row.ReadSide, row.WayVersion = int64(len(t.messages)), t.readSide, t.wayVersion
	return row
}

// move sets a user's position, and recounts the user's mentions above it and K: the number of messages above it that do not count, as a
// negative number.
func (t *talk) move(row *services.Membership, base int64) {
	row.Base, row.K, row.Mentions = base, 0, 0
	for i, message := range t.messages {
		switch {
		case int64(i) < base:
		case message.author == row.User || message.recalled:
			row.K--
		case message.mentions == row.User:
			row.Mentions++
		}
	}
	row.Version++
}

// queueStates takes the users' states of this moment, to be written into their documents later, by work or run.
func (w *talks) queueStates(id services.ConversationID, users ...services.UserID) {
	for _, user := range users {
		state := w.facts[id].snapshot(user)
		w.waits = append(w.waits, func() error {
			_, clamped, err := w.c.PutMemberships(w.ctx, []services.Membership{state})
			if err == nil && clamped > 0 {
				err = fmt.Errorf("a negative count of user %d after %+v", user, state)
			}
			return err
		})
	}
}

// rebuild begins a rebuild of the user's document, then reads the facts, then merges them. Anything may happen between the three.
func (w *talks) rebuild(user services.UserID) error {
	mark := func() (redis.Stamp, error) {
		stamps, err := w.c.BeginRebuild(w.ctx, []services.UserID{user}, RebuildMode{Visit: true})
		if err != nil {
			return 0, err
		}
		return stamps[0], nil
	}
	merge := func(stamp redis.Stamp, states []services.Membership) error {
		results, _, err := w.c.PutMemberships(w.ctx, states)
		if err != nil || len(results) > 0 && results[0].Status == redis.Missing {
			return err // lost again meanwhile: the next reader starts over
		}
		_, err = w.c.EndRebuild(w.ctx, FeedFacts{Reader: user, Stamp: stamp, Visit: true, Lifetime: time.Hour})
		return err
	}
	if w.readsFirst {
		states := w.read(user)
		w.waits = append(w.waits, func() error {
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
	states := w.read(user)
	w.waits = append(w.waits, func() error { return merge(stamp, states) })
	return nil
}

// read returns a user's states, as a rebuild reads them from the facts.
func (w *talks) read(user services.UserID) (states []services.Membership) {
	for _, id := range slices.Sorted(maps.Keys(w.facts)) {
		if state := w.facts[id].snapshot(user); !state.Left || !w.forgetsLeft {
			states = append(states, state)
		}
	}
	return states
}

// step runs one random event.
func (w *talks) step() error {
	id, user := services.ConversationID(1+w.random.IntN(2)), w.people[w.random.IntN(3)]
	t := w.facts[id]
	row, head := t.rows[user], int64(len(t.messages))
	switch action := w.random.IntN(24); {
	case action < 5 && !row.Left:
		t.messages = append(t.messages, talkMessage{author: user, mentions: w.people[w.random.IntN(3)]})
		for other, state := range t.rows {
			if mentioned := t.messages[head].mentions; other == mentioned && other != user && !state.Left {
				state.Mentions++
				state.Version++
			}
		}
		t.move(row, head+1)
		w.queueStates(id, w.people...)
	case action < 8 && !row.Left && head > 0:
		if to := 1 + w.random.Int64N(head); to > row.Base {
			t.move(row, to)
			w.queueStates(id, user)
		}
	case action == 8 && !row.Left:
		t.move(row, w.random.Int64N(head+1))
		w.queueStates(id, user)
	case action == 9 && head > 0:
		w.recall(id, w.random.Int64N(head))
	case action == 10:
		row.Left, row.Inside = !row.Left, false
		if !row.Left {
			t.move(row, head)
		}
		row.Version++
		w.queueStates(id, user)
	case action == 11:
		row.Muted = !row.Muted
		row.Version++
		w.queueStates(id, user)
	case action == 12 && !row.Left:
		row.Inside = !row.Inside
		t.move(row, head)
		w.queueStates(id, user)
	case action == 13:
		t.readSide, t.wayVersion = !t.readSide, t.wayVersion+1
		w.queueStates(id, w.people...)
	case action == 14:
		return w.lose(user)
	case action < 17:
		return w.rebuild(user)
	default:
		return w.work()
	}
	return nil
}

// recall takes back a message. Only members who have it unread count one message less.
func (w *talks) recall(id services.ConversationID, at int64) {
	t := w.facts[id]
	message := &t.messages[at]
	if message.recalled {
		return
	}
	message.recalled = true
	for user, row := range t.rows {
		if row.Base <= at && user != message.author && !row.Left {
			row.K--
			if message.mentions == user {
				row.Mentions--
			}
			row.Version++
		}
	}
	w.queueStates(id, w.people...)
}

// lose deletes a user's document, all their states, or one state.
func (w *talks) lose(user services.UserID) error {
	switch w.random.IntN(3) {
	case 0:
		return w.c.Commands().Del(w.ctx, DocumentKey(user)).Err()
	case 1:
		return w.c.Commands().Del(w.ctx, conversationsKey(user)).Err()
	}
	return w.c.Commands().HDel(w.ctx, conversationsKey(user), "1").Err()
}

// work delivers one pending state, and now and then keeps it pending for another delivery.
func (w *talks) work() error {
	if len(w.waits) == 0 {
		return nil
	}
	i := w.random.IntN(len(w.waits))
	arrive := w.waits[i]
	if w.random.IntN(4) > 0 {
		w.waits = slices.Delete(w.waits, i, i+1)
	}
	return arrive()
}

// shown returns the conversations' counts that a document shows.
func (w *talks) shown(d Document) (unread, mentions int) {
	unread = d.Conversations.Unread
	for _, place := range d.Conversations.ReadSide {
		unread += max(0, len(w.facts[place.Conversation].messages)-int(place.Base))
	}
	return unread, d.Conversations.Mentions
}

// truth returns the counts that the user's document must show, by a direct count of the facts.
func (w *talks) truth(user services.UserID) (unread, mentions int) {
	for _, t := range w.facts {
		row := t.rows[user]
		if row.Left || row.Inside {
			continue
		}
		for i, message := range t.messages {
			if int64(i) < row.Base || message.author == user || message.recalled {
				continue
			}
			mentioned := message.mentions == user
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

// checkSums compares the sums with the states beside them. They must agree at every moment, whatever was lost before.
func (w *talks) checkSums() error {
	documents, err := w.c.Documents(w.ctx, w.people)
	if err != nil {
		return err
	}
	beside, err := w.c.Pipeline(w.ctx, func(p redis.Pipeliner) {
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
			var head, base, k, version, mentions, way int
			var flags string
			if n, _ := fmt.Sscanf(text, "%d,%d,%d,%d,%d,%d,%s", &head, &base, &k, &version, &mentions, &way, &flags); n == 6 {
				unread += head - base + k
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

// run runs a number of events with checks, then lets all states arrive in any order, and compares each document with the facts.
func (w *talks) run(steps int) error {
	for range steps {
		if err := w.step(); err != nil {
			return err
		}
		if err := w.checkSums(); err != nil {
			return err
		}
	}
	w.random.Shuffle(len(w.waits), func(i, k int) { w.waits[i], w.waits[k] = w.waits[k], w.waits[i] })
	for len(w.waits) > 0 {
		arrive := w.waits[0]
		w.waits = w.waits[1:]
		if err := arrive(); err != nil {
			return err
		}
	}
	for _, user := range w.people {
		if err := w.compare(user); err != nil {
			return err
		}
	}
	return nil
}

// compare compares what readers see with the facts once all states have arrived. A document marked as not good is rebuilt
// first, as its next reader would do; a document marked as good must be right.
func (w *talks) compare(user services.UserID) error {
	documents, err := w.c.Documents(w.ctx, []services.UserID{user})
	if err == nil && !documents[0].Ready {
		if err = w.rebuild(user); err == nil {
			if err = w.waits[0](); err == nil {
				documents, err = w.c.Documents(w.ctx, []services.UserID{user})
			}
		}
		w.waits = nil
	}
	if err != nil {
		return err
	}
	var places []services.ConversationID
	for _, place := range documents[0].Conversations.ReadSide {
		places = append(places, place.Conversation)
	}
	slices.Sort(places)
	var wantPlaces []services.ConversationID
	for _, state := range w.read(user) {
		if state.ReadSide && !state.Left && !state.Inside && !state.Muted {
			wantPlaces = append(wantPlaces, state.Conversation)
		}
	}
	unread, mentions := w.shown(documents[0])
	wantUnread, wantMentions := w.truth(user)
	if !documents[0].Ready || unread != wantUnread || mentions != wantMentions || !slices.Equal(places, wantPlaces) {
		return fmt.Errorf("user %d is shown %d and %d mentions, %v counted at reading (ready %t); the facts say %d, %d and %v",
			user, unread, mentions, places, documents[0].Ready, wantUnread, wantMentions, wantPlaces)
	}
	return nil
}
