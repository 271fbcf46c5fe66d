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

// deviceCall is a request of a device: it marks messages read up to a number ("read"), marks them unread from a number on ("unread"), or
// reads the member's position ("look").
type deviceCall struct {
	verb                 string
	messageNumber        int64 // up to or from which messages are marked
	markUnreadGeneration int64 // in which the device marks messages read; -1: in any
}

// readState is a member's read position, and the generation in which it is: each mark as unread begins another generation.
type readState struct{ readUpTo, markUnreadGeneration int64 }

// readPositionModel is the sequential model of one member's position, for all devices.
var readPositionModel = porcupine.Model{
	Init: func() any { return readState{} },
	Step: func(state, input, output any) (bool, any) {
		at, call := state.(readState), input.(deviceCall)
		switch {
		case call.verb == "read" && (call.markUnreadGeneration == -1 || call.markUnreadGeneration == at.markUnreadGeneration):
			at.readUpTo = max(at.readUpTo, call.messageNumber)
		case call.verb == "unread":
			at = readState{min(at.readUpTo, call.messageNumber-1), at.markUnreadGeneration + 1}
		case call.verb == "look":
			return at == output.(readState), at
		}
		return true, at
	},
}

// Marks of several devices, late ones among them, are linearizable: the results fit a history in which a position never
// moves back within a generation.
func TestMarksAreLinearizable(t *testing.T) {
	for name, options := range map[string]func() fanouttest.Options{
		"sqlite": func() fanouttest.Options { return fanouttest.Options{RedisURL: "embedded"} },
		"postgres": func() fanouttest.Options {
			return fanouttest.Options{SQLURL: sqltest.Postgres(t), RedisURL: "embedded"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(fanouttest.New(t, options()), nil)
			for round := range 6 {
				history := randomDeviceCalls(t, n, uint64(round))
				if !porcupine.CheckOperations(readPositionModel, history) {
					t.Fatalf("round %d: no order explains %+v", round, history)
				}
			}
		})
	}
}

// randomDeviceCalls lets several devices of a member make random calls at once, and returns the calls with their results.
func randomDeviceCalls(t *testing.T, n node, seed uint64) []porcupine.Operation {
	users := n.MakeUsers(2)
	group := n.createConversation(Group, users...)
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
			token := readState{}
			for range calls {
				call := deviceCall{verb: "look"}
				switch choice := random.IntN(10); {
				case choice < 3:
					call = deviceCall{"read", 1 + random.Int64N(messages), -1}
				case choice < 6:
					call = deviceCall{"read", 1 + random.Int64N(messages), token.markUnreadGeneration}
				case choice < 7:
					call = deviceCall{"unread", 1 + random.Int64N(messages), -1}
				}
				from := time.Since(start).Nanoseconds()
				output := n.runDeviceCall(t, users[1], group, call)
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

// runDeviceCall does a call through the service, as a device does. It returns the position that a "look" reads.
func (n node) runDeviceCall(t *testing.T, user services.UserID, group services.ConversationID, call deviceCall) (state readState) {
	ctx := t.Context()
	switch call.verb {
	case "look":
		one, err := n.ReadConversation(ctx, user, group)
		if err != nil {
			t.Error(err)
		}
		return readState{one.Membership.ReadUpTo, one.Membership.MarkUnreadGeneration}
	case "unread":
		if err := n.fan.Commit(ctx, n.MarkUnread(user, services.NewMessageID(group, call.messageNumber)))[0]; err != nil {
			t.Error(err)
		}
		return state
	}
	mark := ReadMark{UpTo: services.NewMessageID(group, call.messageNumber)}
	if call.markUnreadGeneration >= 0 {
		mark = ReadMark{Token: NewReadToken(services.Membership{Conversation: group, User: user, MarkUnreadGeneration: call.markUnreadGeneration, NewestMessageNumber: call.messageNumber})}
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
func TestMarkUnreadKeepsEarlierUnreadMessages(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		n := newNode(w, nil)
		users := n.MakeUsers(2)
		group := n.createConversation(Group, users...)
		for range 30 {
			n.send(users[0], group, users[1])
		}
		marked := func(verb string, number, waits int64) {
			t.Helper()
			n.runDeviceCall(t, users[1], group, deviceCall{verb, number, -1})
			one, err := n.ReadConversation(t.Context(), users[1], group)
			if err != nil || one.Membership.Unread() != waits || one.Membership.UnreadMentions() != waits {
				t.Errorf("%s %d: %d wait, %d of them mentions, want %d; %v", verb, number, one.Membership.Unread(), one.Membership.UnreadMentions(), waits, err)
			}
		}
		marked("read", 8, 22)
		marked("unread", 25, 22)
		marked("unread", 9, 22)
		marked("unread", 5, 26)
		marked("unread", 30, 26)
		marked("read", 30, 0)
		marked("unread", 25, 6)
		if one, err := n.ReadConversation(t.Context(), users[1], group); err != nil || one.Membership.MarkUnreadGeneration != 5 {
			t.Errorf("generation %d, each mark opens one: %v", one.Membership.MarkUnreadGeneration, err)
		}
	})
}

// A mark as unread stands until the user enters, writes or reads again, whatever becomes of the device that was inside when it was
// made. The badge shows it in both ways of counting.
func TestAMarkAsUnreadStandsAfterADeviceLeaves(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		n := newNode(w, func(c *Config) { c.MaxMembersCountedOnWrite = 2 })
		users := n.MakeUsers(3)
		for way, id := range map[CountingWay]services.ConversationID{OnWrite: n.createConversation(Group, users[:2]...), OnRead: n.createConversation(Room, users...)} {
			for what, happens := range map[string]func(){
				"the lease ends":     func() { n.Clock.Advance(time.Minute) },
				"the device leaves":  func() { n.mustCommit(n.Leave(users[1], id, "laptop"), nil) },
				"its socket closes":  func() { n.Must(n.EndDeviceLeases(t.Context(), users[1], "laptop")) },
				"the device renews":  func() { n.mustCommit(n.Enter(users[1], id, "laptop"), nil) },
				"it renews and ends": func() { n.mustCommit(n.Enter(users[1], id, "laptop"), nil); n.Clock.Advance(time.Minute) },
			} {
				what = fmt.Sprintf("%s, counted by %s", what, way)
				n.send(users[0], id)
				n.mustCommit(n.Enter(users[1], id, "laptop"), nil)
				first := n.send(users[0], id)
				n.send(users[0], id)
				n.runJobs()
				n.wantCounts(what+": inside", users[1], 0, 0)
				n.mustCommit(n.MarkUnread(users[1], first), nil)
				n.runJobs()
				n.wantCounts(what+": marked", users[1], 2, 0)
				happens()
				n.runJobs()
				n.wantCounts(what, users[1], 2, 0)
				n.send(users[0], id)
				n.runJobs()
				n.wantCounts(what+": a message", users[1], 3, 0)
				n.mustCommit(n.Enter(users[1], id, "phone"), nil)
				n.mustCommit(n.Leave(users[1], id, "phone"), nil)
				n.mustCommit(n.Leave(users[1], id, "laptop"), nil)
				n.runJobs()
				n.wantCounts(what+": entered", users[1], 0, 0)
				if got := n.countingWayOf(id); got != way {
					t.Fatalf("counted by %s", got)
				}
			}
		}
	})
}

func TestTokensAreReadBackByTheirMemberAlone(t *testing.T) {
	token := NewReadToken(services.Membership{Conversation: 7, User: 8, MarkUnreadGeneration: 3, NewestMessageNumber: 99})
	if gen, number, err := parseToken(token, 8, 7); gen != 3 || number != 99 || err != nil {
		t.Errorf("%d, %d, %v", gen, number, err)
	}
	for what, err := range map[string]error{
		"another member":       parseTokenError(parseToken(token, 9, 7)),
		"another conversation": parseTokenError(parseToken(token, 8, 6)),
		"cut off":              parseTokenError(parseToken(token[:len(token)-2], 8, 7)),
		"longer":               parseTokenError(parseToken(token+"AA", 8, 7)),
		"nothing":              parseTokenError(parseToken("", 8, 7)),
	} {
		if services.CodeOf(err) != services.Invalid {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// parseTokenError returns the error of a call of parseToken, its third result.
func parseTokenError(_, _ int64, err error) error { return err }

func FuzzReadToken(f *testing.F) {
	f.Add(NewReadToken(services.Membership{Conversation: 7, User: 8, MarkUnreadGeneration: 3, NewestMessageNumber: 99}))
	f.Add("")
	f.Add("////")
	f.Fuzz(func(t *testing.T, text string) {
		gen, number, err := parseToken(text, 8, 7)
		if err == nil && (gen < 0 || number < 0 || number > services.MaxMessageNumber) {
			t.Error(fmt.Sprint(gen, number))
		}
	})
}
