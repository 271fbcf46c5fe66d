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

// group is a conversation in which the first members talk and the others listen.
type group struct {
	api              *api
	prefix, id       string
	members, talkers int            // how many; the talkers are the first of the members
	pushed           []pushedCounts // to each member

	mu       sync.Mutex
	messages []sentMessage // all messages so far
	last     []int64       // for each talker, the number of its last message
}

// sentMessage is a message: its number in the group, and when its mutation was answered.
type sentMessage struct {
	number int64
	at     time.Time
}

// pushedCounts are the numbers of unread messages that were pushed to one member.
type pushedCounts struct {
	mu     sync.Mutex
	counts []pushedCount
}

// pushedCount is a pushed number of unread messages, and when it came.
type pushedCount struct {
	value int64
	at    time.Time
}

// key returns the key of member i.
func (g *group) key(i int) string   { return fmt.Sprint(g.prefix, i) }
func (g *group) token(i int) string { return "dev:" + g.key(i) }

// create makes the members and the conversation, and fills in its ID.
func (g *group) create(ctx context.Context) error {
	var others []string
	for i := 1; i < g.members; i++ {
		others = append(others, "user:"+g.key(i))
	}
	g.last = make([]int64, g.talkers)
	ids, err := g.api.ingest(ctx, []event{userEvent(g.key(0), "createConversation", map[string]any{"kind": "GROUP", "title": "Harbour", "memberIds": others})})
	if err != nil {
		return err
	}
	g.id = ids[0]
	return nil
}

// watch notes the number of unread messages in an event that was pushed to member i.
func (g *group) watch(i int, payload []byte, at time.Time) {
	value, found := conversationCount(payload)
	if !found {
		return
	}
	g.pushed[i].mu.Lock()
	defer g.pushed[i].mu.Unlock()
	g.pushed[i].counts = append(g.pushed[i].counts, pushedCount{value, at})
}

// talk lets every talker send a message once per interval until ctx ends, with the talkers spread over the interval. With
// interval 0 each talker sends its next message as soon as the last one is answered.
func (g *group) talk(ctx context.Context, every time.Duration) error {
	start := time.Now()
	errs := make([]error, g.talkers)
	var group sync.WaitGroup
	for i := range g.talkers {
		group.Go(func() {
			for turn := 0; ctx.Err() == nil && errs[i] == nil; turn++ {
				due := start.Add(time.Duration(turn)*every + every*time.Duration(i)/time.Duration(g.talkers))
				if every > 0 && pause(ctx, time.Until(due)) != nil {
					return
				}
				errs[i] = g.say(context.WithoutCancel(ctx), i) // a message in flight is not cancelled, because it counts in the end
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// say sends one message of a talker and notes its number.
func (g *group) say(ctx context.Context, talker int) error {
	const mutation = `mutation($id: ID!, $body: String!) { sendMessage(input: {conversationId: $id, body: $body}) { message { id } } }`
	var data struct {
		SendMessage struct{ Message struct{ ID string } }
	}
	if err := g.api.do(ctx, g.token(talker), mutation, map[string]any{"id": g.id, "body": "The ferry is late again."}, &data); err != nil {
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
	g.last[talker] = id.Number()
	return nil
}

// measureTalk calls talk and waits until all listeners have the right count. It returns the rate of messages, and the time from each
// message's answer until the last listener had the message.
func (g *group) measureTalk(ctx context.Context, talk func() error) (sample, error) {
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
	head := slices.MaxFunc(messages, func(a, b sentMessage) int { return int(a.number - b.number) }).number
	deadline := time.Now().Add(volleyLimit)
	for i := g.talkers; i < g.members; i++ {
		for g.pushed[i].greatest() < head {
			if time.Now().After(deadline) {
				return sample{}, fmt.Errorf("%s has %d unread messages %v after the last of %d", g.key(i), g.pushed[i].greatest(), volleyLimit, head)
			}
			if err := pause(ctx, 5*time.Millisecond); err != nil {
				return sample{}, err
			}
		}
	}
	late := make([]time.Duration, len(messages))
	for i := g.talkers; i < g.members; i++ {
		g.pushed[i].raiseLateness(messages, late)
	}
	slices.Sort(late)
	return newSample(late, took), nil
}

// greatest returns the last number that was pushed to a listener, which is the greatest one; 0 if there was none.
func (a *pushedCounts) greatest() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.counts) == 0 {
		return 0
	}
	return a.counts[len(a.counts)-1].value // a listener's count only grows
}

// raiseLateness compares the messages with what was pushed to this listener. It raises late[i] to the time from the answer to message i
// until a pushed number included that message.
func (a *pushedCounts) raiseLateness(messages []sentMessage, late []time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, message := range messages {
		place, _ := slices.BinarySearchFunc(a.counts, message.number, func(c pushedCount, number int64) int { return int(c.value - number) })
		if place < len(a.counts) {
			late[i] = max(late[i], a.counts[place].at.Sub(message.at))
		}
	}
}

// check reads the badges of all members and compares them with the sent messages: for a listener all messages must count, and for a
// talker those after its own last message.
func (g *group) check(ctx context.Context) error {
	var head int64
	for _, message := range g.messages {
		head = max(head, message.number)
	}
	for i := range g.members {
		var data struct {
			Viewer struct {
				Badges struct {
					Conversations struct{ Total struct{ Value int64 } }
				}
			}
		}
		if err := g.api.do(ctx, g.token(i), everyQuery, nil, &data); err != nil {
			return err
		}
		want := head
		if i < g.talkers {
			want -= g.last[i]
		}
		if got := data.Viewer.Badges.Conversations.Total.Value; got != want {
			return fmt.Errorf("%s has %d unread messages, %d were said since he said something", g.key(i), got, want)
		}
	}
	return nil
}

// beforeCount is the text in an event that comes right before the number of unread messages.
var beforeCount = []byte(`"conversations":{"total":{"value":`)

// conversationCount finds the number of unread messages in an event.
func conversationCount(payload []byte) (value int64, found bool) {
	_, rest, found := bytes.Cut(payload, beforeCount)
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
