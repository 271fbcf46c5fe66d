package chat

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/sql/sqltest"
)

// markCall is a request of a device: verb "read" up to a number, in a generation unless it is -1, "unread" from a number, or
// "look".
type markCall struct {
	verb   string
	number int64
	gen    int64
}

// markState is a position in its generation.
type markState struct{ base, gen int64 }

// marksModel is the sequential model of one member's position, for all devices.
var marksModel = porcupine.Model{
	Init: func() any { return markState{} },
	Step: func(state, input, output any) (bool, any) {
		at, call := state.(markState), input.(markCall)
		switch {
		case call.verb == "read" && (call.gen == -1 || call.gen == at.gen):
			at.base = max(at.base, call.number)
		case call.verb == "unread":
			at = markState{min(at.base, call.number-1), at.gen + 1}
		case call.verb == "look":
			return at == output.(markState), at
		}
		return true, at
	},
}

// Marks of several devices, late ones among them, are linearizable: the results fit a history in which a position never
// moves back within a generation.
func TestMarksAreLinearizable(t *testing.T) {
	for name, options := range map[string]func() fanouttest.Options{
		"sqlite":   func() fanouttest.Options { return fanouttest.Options{Redis: "embedded"} },
		"postgres": func() fanouttest.Options { return fanouttest.Options{SQL: sqltest.Postgres(t), Redis: "embedded"} },
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(fanouttest.New(t, options()), nil)
			for round := range 6 {
				history := marksHistory(t, n, uint64(round))
				if !porcupine.CheckOperations(marksModel, history) {
					t.Fatalf("round %d: no order explains %+v", round, history)
				}
			}
		})
	}
}

// marksHistory lets several devices of a member make random calls at once, and returns the calls with their results.
func marksHistory(t *testing.T, n node, seed uint64) []porcupine.Operation {
	users := n.MakeUsers(2)
	group := n.create(Group, users...)
	const messages, devices, calls = 12, 5, 12
	for range messages {
		n.send(users[0], group)
	}
	var mu sync.Mutex
	var history []porcupine.Operation
	start := time.Now()
	var running sync.WaitGroup
	for device := range devices {
		random := rand.New(rand.NewPCG(seed, uint64(device)))
		running.Go(func() {
			token := markState{}
			for range calls {
				call := markCall{verb: "look"}
				switch choice := random.IntN(10); {
				case choice < 3:
					call = markCall{"read", 1 + random.Int64N(messages), -1}
				case choice < 6:
					call = markCall{"read", 1 + random.Int64N(messages), token.gen}
				case choice < 7:
					call = markCall{"unread", 1 + random.Int64N(messages), -1}
				}
				from := time.Since(start).Nanoseconds()
				output := n.ask(t, users[1], group, call)
				if call.verb == "look" {
					token = output
				}
				mu.Lock()
				history = append(history, porcupine.Operation{ClientId: device, Input: call, Call: from, Output: output, Return: time.Since(start).Nanoseconds()})
				mu.Unlock()
			}
		})
	}
	running.Wait()
	return history
}

// ask does a call through the service, as a device does.
func (n node) ask(t *testing.T, user services.UserID, group services.ConversationID, call markCall) (state markState) {
	ctx := t.Context()
	switch call.verb {
	case "look":
		one, err := n.ReadConversation(ctx, user, group)
		if err != nil {
			t.Error(err)
		}
		return markState{one.Own.Base, one.Own.Gen}
	case "unread":
		if err := n.fan.Commit(ctx, n.MarkUnread(user, services.NewMessageID(group, call.number)))[0]; err != nil {
			t.Error(err)
		}
		return state
	}
	mark := Mark{UpTo: services.NewMessageID(group, call.number)}
	if call.gen >= 0 {
		mark = Mark{Token: NewReadToken(services.Membership{Conversation: group, User: user, Gen: call.gen, Head: call.number})}
	}
	cmd, err := n.MarkRead(user, group, mark)
	if err == nil {
		err = n.fan.Commit(ctx, cmd)[0]
	}
	if err != nil {
		t.Error(err)
	}
	return state
}

// Unread messages before the marked one stay unread, with their mentions.
func TestMarkUnreadOnlyAdds(t *testing.T) {
	fanouttest.Each(t, nil, func(t *testing.T, w *fanouttest.World) {
		n := newNode(w, nil)
		users := n.MakeUsers(2)
		group := n.create(Group, users...)
		for range 30 {
			n.send(users[0], group, users[1])
		}
		marked := func(verb string, number, waits int64) {
			t.Helper()
			n.ask(t, users[1], group, markCall{verb, number, -1})
			one, err := n.ReadConversation(t.Context(), users[1], group)
			if err != nil || one.Own.Unread() != waits || one.Own.UnreadMentions() != waits {
				t.Errorf("%s %d: %d wait, %d of them mentions, want %d; %v", verb, number, one.Own.Unread(), one.Own.UnreadMentions(), waits, err)
			}
		}
		marked("read", 8, 22)
		marked("unread", 25, 22)
		marked("unread", 9, 22)
		marked("unread", 5, 26)
		marked("unread", 30, 26)
		marked("read", 30, 0)
		marked("unread", 25, 6)
		if one, err := n.ReadConversation(t.Context(), users[1], group); err != nil || one.Own.Gen != 5 {
			t.Errorf("generation %d, each mark opens one: %v", one.Own.Gen, err)
		}
	})
}

// A mark as unread stands until the user enters, writes or reads again, whatever becomes of the device that was inside when it was
// made. The badge shows it in both ways of counting.
func TestAMarkAsUnreadOutlivesAVisit(t *testing.T) {
	fanouttest.Each(t, nil, func(t *testing.T, w *fanouttest.World) {
		n := newNode(w, func(c *Config) { c.MaxWriteMembers = 2 })
		users := n.MakeUsers(3)
		for way, id := range map[Way]services.ConversationID{OnWrite: n.create(Group, users[:2]...), OnRead: n.create(Room, users...)} {
			for what, happens := range map[string]func(){
				"the lease ends":     func() { n.Clock.Advance(time.Minute) },
				"the device leaves":  func() { n.mustDo(n.Leave(users[1], id, "laptop"), nil) },
				"its socket closes":  func() { n.Must(n.DeviceGone(t.Context(), users[1], "laptop")) },
				"the device renews":  func() { n.mustDo(n.Enter(users[1], id, "laptop"), nil) },
				"it renews and ends": func() { n.mustDo(n.Enter(users[1], id, "laptop"), nil); n.Clock.Advance(time.Minute) },
			} {
				what = fmt.Sprintf("%s, counted by %s", what, way)
				n.send(users[0], id)
				n.mustDo(n.Enter(users[1], id, "laptop"), nil)
				first := n.send(users[0], id)
				n.send(users[0], id)
				n.runJobs()
				n.wantCounts(what+": inside", users[1], 0, 0)
				n.mustDo(n.MarkUnread(users[1], first), nil)
				n.runJobs()
				n.wantCounts(what+": marked", users[1], 2, 0)
				happens()
				n.runJobs()
				n.wantCounts(what, users[1], 2, 0)
				n.send(users[0], id)
				n.runJobs()
				n.wantCounts(what+": a message", users[1], 3, 0)
				n.mustDo(n.Enter(users[1], id, "phone"), nil)
				n.mustDo(n.Leave(users[1], id, "phone"), nil)
				n.mustDo(n.Leave(users[1], id, "laptop"), nil)
				n.runJobs()
				n.wantCounts(what+": entered", users[1], 0, 0)
				if got := n.wayOf(id); got != way {
					t.Fatalf("counted by %s", got)
				}
			}
		}
	})
}

func TestTokensAreReadBackByTheirMemberAlone(t *testing.T) {
	token := NewReadToken(services.Membership{Conversation: 7, User: 8, Gen: 3, Head: 99})
	if gen, number, err := parseToken(token, 8, 7); gen != 3 || number != 99 || err != nil {
		t.Errorf("%d, %d, %v", gen, number, err)
	}
	for what, err := range map[string]error{
		"another member":       errorOf(parseToken(token, 9, 7)),
		"another conversation": errorOf(parseToken(token, 8, 6)),
		"cut off":              errorOf(parseToken(token[:len(token)-2], 8, 7)),
		"longer":               errorOf(parseToken(token+"AA", 8, 7)),
		"nothing":              errorOf(parseToken("", 8, 7)),
	} {
		if services.CodeOf(err) != services.Invalid {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// errorOf returns the error of a call of parseToken, its third result.
func errorOf(_, _ int64, err error) error { return err }

func FuzzReadToken(f *testing.F) {
	f.Add(NewReadToken(services.Membership{Conversation: 7, User: 8, Gen: 3, Head: 99}))
	f.Add("")
	f.Add("////")
	f.Fuzz(func(t *testing.T, text string) {
		gen, number, err := parseToken(text, 8, 7)
		if err == nil && (gen < 0 || number < 0 || number > services.MaxMessageNumber) {
			t.Error(fmt.Sprint(gen, number))
		}
	})
}
