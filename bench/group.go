package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"tidings/services"
)

// groupConversation is a conversation of the kind GROUP, in which the first members, the talkers, send messages. The other members are
// the listeners.
type groupConversation struct {
	api                      *apiClient
	keyPrefix, id            string               // the beginning of the members' keys, and the ID of the conversation
	memberCount, senderCount int                  // how many members, and how many of them are talkers
	pushedByMember           []pushedUnreadCounts // what was pushed to each member

	mu                        sync.Mutex    // guards the fields below
	messages                  []sentMessage // all messages so far
	lastMessageNumberBySender []int64       // for each talker, the number of its last message
}

// sentMessage is a message: its number in the group, and when its mutation was answered.
type sentMessage struct {
	number     int64
	answeredAt time.Time
}

// pushedUnreadCounts are the numbers of unread messages that were pushed to one member.
type pushedUnreadCounts struct {
	mu     sync.Mutex          // guards counts
	counts []pushedUnreadCount // in the order in which they came
}

// pushedUnreadCount is a pushed number of unread messages, and when it came.
type pushedUnreadCount struct {
	value     int64
	arrivedAt time.Time
}

// key returns the key of member i, and token a token of this member.
func (g *groupConversation) key(i int) string   { return fmt.Sprint(g.keyPrefix, i) }
func (g *groupConversation) token(i int) string { return "dev:" + g.key(i) }

// create makes the members and the conversation, and sets g.id.
func (g *groupConversation) create(ctx context.Context) error {
	var others []string
	for i := 1; i < g.memberCount; i++ {
		others = append(others, "user:"+g.key(i))
	}
	g.lastMessageNumberBySender = make([]int64, g.senderCount)
	ids, err := g.api.ingest(ctx, []ingestEvent{userEvent(g.key(0), "createConversation", map[string]any{"kind": "GROUP", "title": "Harbour", "memberIds": others})})
	if err != nil {
		return err
	}
	g.id = ids[0]
	return nil
}

// recordPushedCount notes the number of unread messages in an event that was pushed to member i.
func (g *groupConversation) recordPushedCount(i int, payload []byte, at time.Time) {
	value, found := unreadMessagesIn(payload)
	if !found {
		return
	}
	g.pushedByMember[i].mu.Lock()
	defer g.pushedByMember[i].mu.Unlock()
	g.pushedByMember[i].counts = append(g.pushedByMember[i].counts, pushedUnreadCount{value, at})
}

// sendMessagesUntilCanceled lets each talker send one message in each interval, until ctx ends. every is the length of the interval, over
// which the talkers are spread. If it is 0, each talker sends its next message as soon as the last one is answered.
func (g *groupConversation) sendMessagesUntilCanceled(ctx context.Context, every time.Duration) error {
	start := time.Now()
	errs := make([]error, g.senderCount)
	var group sync.WaitGroup
	for i := range g.senderCount {
		group.Go(func() {
			for turn := 0; ctx.Err() == nil && errs[i] == nil; turn++ {
				due := start.Add(time.Duration(turn)*every + every*time.Duration(i)/time.Duration(g.senderCount))
				if every > 0 && pause(ctx, time.Until(due)) != nil {
					return
				}
				errs[i] = g.sendMessage(context.WithoutCancel(ctx), i) // a message in flight is not cancelled, because it counts in the end
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// sendMessage sends one message of a talker and notes its number.
func (g *groupConversation) sendMessage(ctx context.Context, talker int) error {
	const mutation = `mutation($id: ID!, $body: String!) { sendMessage(input: {conversationId: $id, body: $body}) { message { id } } }`
	var data struct {
		SendMessage struct{ Message struct{ ID string } }
	}
	if err := g.api.doGraphQL(ctx, g.token(talker), mutation, map[string]any{"id": g.id, "body": "The ferry is late again."}, &data); err != nil {
		return err
	}
	now := time.Now()
	id, err := services.ParseMessageID("message", data.SendMessage.Message.ID)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.messages = append(g.messages, sentMessage{id.Number(), now})
	g.lastMessageNumberBySender[talker] = id.Number()
	return nil
}

// measureMessages calls talk, which sends messages, and waits until the right number of unread messages was pushed to all listeners.
// It returns the rate of messages, and the times from each message's answer until the last listener had the message.
func (g *groupConversation) measureMessages(ctx context.Context, talk func() error) (sample, error) {
	g.mu.Lock()
	first := len(g.messages)
	g.mu.Unlock()
	start := time.Now()
	if err := talk(); err != nil {
		return sample{}, err
	}
	took := time.Since(start)
	g.mu.Lock()
	messages := slices.Clone(g.messages[first:])
	g.mu.Unlock()
	if len(messages) == 0 {
		return sample{}, errors.New("nobody said anything")
	}
	last := slices.MaxFunc(messages, func(a, b sentMessage) int { return int(a.number - b.number) }).number
	deadline := time.Now().Add(broadcastTimeout)
	for i := g.senderCount; i < g.memberCount; i++ {
		for g.pushedByMember[i].greatest() < last {
			if time.Now().After(deadline) {
				return sample{}, fmt.Errorf("%s has %d unread messages %v after the last of %d", g.key(i), g.pushedByMember[i].greatest(), broadcastTimeout, last)
			}
			if err := pause(ctx, 5*time.Millisecond); err != nil {
				return sample{}, err
			}
		}
	}
	late := make([]time.Duration, len(messages))
	for i := g.senderCount; i < g.memberCount; i++ {
		g.pushedByMember[i].updateMaxLateness(messages, late)
	}
	slices.Sort(late)
	return newSample(late, took), nil
}

// greatest returns the last number of unread messages that was pushed to a listener, which is the greatest one; 0 if there was none.
func (a *pushedUnreadCounts) greatest() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.counts) == 0 {
		return 0
	}
	return a.counts[len(a.counts)-1].value // a listener's count only grows
}

// updateMaxLateness compares the messages with what was pushed to this listener. It raises late[i] to the time from the answer to
// message i until a pushed number included that message.
func (a *pushedUnreadCounts) updateMaxLateness(messages []sentMessage, late []time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, message := range messages {
		index, _ := slices.BinarySearchFunc(a.counts, message.number, func(c pushedUnreadCount, number int64) int { return int(c.value - number) })
		if index < len(a.counts) {
			late[i] = max(late[i], a.counts[index].arrivedAt.Sub(message.answeredAt))
		}
	}
}

// checkBadges reads the badges of all members and compares them with the sent messages: for a listener all messages must count, and
// for a talker those after its own last message.
func (g *groupConversation) checkBadges(ctx context.Context) error {
	var last int64
	for _, message := range g.messages {
		last = max(last, message.number)
	}
	for i := range g.memberCount {
		var data struct {
			Viewer struct {
				Badges struct {
					Conversations struct{ Total struct{ Value int64 } }
				}
			}
		}
		if err := g.api.doGraphQL(ctx, g.token(i), everySourceQuery, nil, &data); err != nil {
			return err
		}
		want := last
		if i < g.senderCount {
			want -= g.lastMessageNumberBySender[i]
		}
		if got := data.Viewer.Badges.Conversations.Total.Value; got != want {
			return fmt.Errorf("%s has %d unread messages, %d were said since they said something", g.key(i), got, want)
		}
	}
	return nil
}

// unreadMessagesPrefix is the text in an event that comes right before the number of unread messages.
var unreadMessagesPrefix = []byte(`"conversations":{"total":{"value":`)

// unreadMessagesIn finds the number of unread messages in the JSON text of an event.
func unreadMessagesIn(payload []byte) (value int64, found bool) {
	_, rest, found := bytes.Cut(payload, unreadMessagesPrefix)
	if !found {
		return 0, false
	}
	end := bytes.IndexAny(rest, ",}")
	if end < 0 {
		return 0, false
	}
	value, err := strconv.ParseInt(string(rest[:end]), 10, 64)
	return value, err == nil
}
