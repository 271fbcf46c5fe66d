package chat

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/jobs"
	"tidings/services/sql/sqltest"
	"tidings/tests/histories"
)

// chatModel is a slow, independent model of conversations, which random histories compare with the product: lists of the messages of
// a few people in two rooms, and of their positions.
type chatModel struct {
	node       node // the product's service, which the model is compared with
	people     []services.UserID
	rooms      []*modelRoom
	flushRedis func(*rapid.T) // deletes keys from Redis; nil if that is not possible
}

// modelRoom is a room: its messages in their order, and everyone who is or was a member.
type modelRoom struct {
	id       services.ConversationID
	messages []*modelMessage
	members  map[services.UserID]*modelMember
}

// modelMessage is a message in a room. mentions are members alone.
type modelMessage struct {
	author   services.UserID
	mentions []services.UserID
	sentAt   time.Time
	recalled bool
}

// modelMember is one person's state in a room.
type modelMember struct {
	isMember, muted                bool
	markedUnread                   bool                 // marked as unread, after which the person has neither entered, written, nor read all
	readUpTo, markUnreadGeneration int                  // read up to this message; the generation rises with each mark as unread and each join
	leaseEndByDevice               map[string]time.Time // of devices that have the room open: when each lease ends
	readTokens                     []modelReadToken     // read tokens that devices were given, and may send late
}

// modelReadToken is a read token with what it meant when it was given: the messages up to shownUpTo were shown, and the member's
// generation was markUnreadGeneration.
type modelReadToken struct {
	text                            string // as MarkRead takes it
	shownUpTo, markUnreadGeneration int
}

// newChatModel makes two rooms of three people. flush is nil or deletes keys from Redis.
func newChatModel(n node, flush func(*chatModel, *rapid.T)) *chatModel {
	w := &chatModel{node: n, people: n.MakeUsers(3)}
	for range 2 {
		room := &modelRoom{id: n.createConversation(Room, w.people...), members: map[services.UserID]*modelMember{}}
		for _, user := range w.people {
			room.members[user] = &modelMember{isMember: true, leaseEndByDevice: map[string]time.Time{}}
		}
		w.rooms = append(w.rooms, room)
	}
	if flush != nil {
		w.flushRedis = func(t *rapid.T) { flush(w, t) }
	}
	return w
}

// hasRoomOpen reports whether the member has the room open on some device, so that nothing counts. Leases that have ended are removed;
// the messages sent until the end of the last one count as read. After a mark as unread, leases have no effect.
func (m *modelMember) hasRoomOpen(room *modelRoom, now time.Time) bool {
	var last time.Time
	for device, until := range m.leaseEndByDevice {
		if until.After(last) {
			last = until
		}
		if !until.After(now) {
			delete(m.leaseEndByDevice, device)
		}
	}
	if len(m.leaseEndByDevice) > 0 || m.markedUnread {
		return !m.markedUnread
	}
	for i, message := range room.messages {
		if !last.IsZero() && !message.sentAt.After(last) {
			m.readUpTo = max(m.readUpTo, i+1)
		}
	}
	return false
}

// expectedCounts counts a person's unread messages directly.
func (w *chatModel) expectedCounts(user services.UserID) (unread, mentions int) {
	for _, room := range w.rooms {
		member := room.members[user]
		if !member.isMember || member.hasRoomOpen(room, w.node.Clock.Now()) {
			continue
		}
		for i, message := range room.messages {
			if i < member.readUpTo || message.author == user || message.recalled {
				continue
			}
			mentioned := slices.Contains(message.mentions, user)
			if mentioned {
				mentions++
			}
			if mentioned || !member.muted {
				unread++
			}
		}
	}
	return unread, mentions
}

// drawRoomAndMember draws a room and a person, who may have left the room. It ends the leases of devices whose time is
// over.
func (w *chatModel) drawRoomAndMember(t *rapid.T) (*modelRoom, services.UserID, *modelMember) {
	room, user := rapid.SampledFrom(w.rooms).Draw(t, "room"), rapid.SampledFrom(w.people).Draw(t, "user")
	member := room.members[user]
	member.hasRoomOpen(room, w.node.Clock.Now())
	return room, user, member
}

// commitAndCheckChange commits a command, and checks that it changed something if changes is true, and nothing otherwise. A command
// that is refused, or finds the state as requested, changes nothing.
func (w *chatModel) commitAndCheckChange(t *rapid.T, cmd *jobs.Command, changes bool) {
	if err := w.node.commit(cmd); (err == nil && cmd.Changed()) != changes {
		t.Fatalf("%s (to change something: %t): %v, changed %t", cmd.Name, changes, err, cmd.Changed())
	}
}

// commitAndCheckAllowed commits a command that is allowed only for a member; if allowed is false, it must be refused. If must is
// true, it must report a change. If not, it may still report a change that the model does not have: the end of an expired lease.
func (w *chatModel) commitAndCheckAllowed(t *rapid.T, cmd *jobs.Command, allowed, must bool) {
	if err := w.node.commit(cmd); (err == nil) != allowed || must && !cmd.Changed() {
		t.Fatalf("%s (allowed: %t, to change something: %t): %v, changed %t", cmd.Name, allowed, must, err, cmd.Changed())
	}
}

// sendMessage lets a person write a message with up to two mentions.
func (w *chatModel) sendMessage(t *rapid.T) {
	room, user, member := w.drawRoomAndMember(t)
	mentions := rapid.SliceOfNDistinct(rapid.SampledFrom(w.people), 0, 2, rapid.ID).Draw(t, "mentions")
	w.commitAndCheckChange(t, must(w.node.Send(user, room.id, "hello", mentions)), member.isMember)
	if !member.isMember {
		return
	}
	message := &modelMessage{author: user, sentAt: w.node.Clock.Now()}
	for _, mentioned := range mentions {
		if room.members[mentioned].isMember {
			message.mentions = append(message.mentions, mentioned)
		}
	}
	room.messages = append(room.messages, message)
	member.advanceReadPosition(room, len(room.messages))
}

// markRead lets a person mark a room as read up to a message, which may not exist yet.
func (w *chatModel) markRead(t *rapid.T) {
	room, user, member := w.drawRoomAndMember(t)
	if len(room.messages) == 0 {
		return
	}
	upTo := rapid.IntRange(1, len(room.messages)+1).Draw(t, "up to")
	allowed := member.isMember && upTo <= len(room.messages)
	w.commitAndCheckAllowed(t, must(w.node.MarkRead(user, room.id, ReadMark{UpTo: services.NewMessageID(room.id, int64(upTo))})), allowed, allowed && upTo > member.readUpTo)
	if allowed {
		member.advanceReadPosition(room, upTo)
	}
}

// advanceReadPosition moves a member's position forward. A mark as unread ends when all is read.
func (m *modelMember) advanceReadPosition(room *modelRoom, number int) {
	m.readUpTo = max(m.readUpTo, number)
	m.markedUnread = m.markedUnread && m.readUpTo < len(room.messages)
}

// storeNewReadToken lets a device look at a room: it gets the read token of the state that it is shown.
func (w *chatModel) storeNewReadToken(t *rapid.T) {
	room, user, member := w.drawRoomAndMember(t)
	if !member.isMember {
		return
	}
	state, err := w.node.ReadConversation(w.node.TB.Context(), user, room.id)
	if err != nil {
		t.Fatal(err)
	}
	member.readTokens = append(member.readTokens, modelReadToken{NewReadToken(state.Membership), len(room.messages), member.markUnreadGeneration})
}

// markReadByToken lets a device send a token that it got earlier, and so mark as read what it was shown then.
func (w *chatModel) markReadByToken(t *rapid.T) {
	room, user, member := w.drawRoomAndMember(t)
	if len(member.readTokens) == 0 {
		return
	}
	token := rapid.SampledFrom(member.readTokens).Draw(t, "token")
	w.commitAndCheckAllowed(t, must(w.node.MarkRead(user, room.id, ReadMark{Token: token.text})), member.isMember, member.isMember && token.markUnreadGeneration == member.markUnreadGeneration && token.shownUpTo > member.readUpTo)
	if member.isMember && token.markUnreadGeneration == member.markUnreadGeneration {
		member.advanceReadPosition(room, token.shownUpTo)
	}
}

// markUnread lets a person mark a message and all later ones as unread.
func (w *chatModel) markUnread(t *rapid.T) {
	room, user, member := w.drawRoomAndMember(t)
	if len(room.messages) == 0 {
		return
	}
	from := rapid.IntRange(1, len(room.messages)).Draw(t, "from")
	w.commitAndCheckChange(t, w.node.MarkUnread(user, services.NewMessageID(room.id, int64(from))), member.isMember)
	if !member.isMember {
		return
	}
	if member.hasRoomOpen(room, w.node.Clock.Now()) {
		member.readUpTo = len(room.messages)
	}
	member.readUpTo, member.markUnreadGeneration, member.markedUnread = min(member.readUpTo, from-1), member.markUnreadGeneration+1, true
}

// recallMessage lets a person recall a message. Only its author can, and only once.
func (w *chatModel) recallMessage(t *rapid.T) {
	room, user, member := w.drawRoomAndMember(t)
	if len(room.messages) == 0 {
		return
	}
	i := rapid.IntRange(0, len(room.messages)-1).Draw(t, "message")
	message := room.messages[i]
	allowed := member.isMember && message.author == user && !message.recalled
	w.commitAndCheckChange(t, w.node.Recall(user, services.NewMessageID(room.id, int64(i+1))), allowed)
	message.recalled = message.recalled || allowed
}

// joinOrQuit lets a member quit, and anyone else join.
func (w *chatModel) joinOrQuit(t *rapid.T) {
	room, user, member := w.drawRoomAndMember(t)
	if member.isMember {
		w.commitAndCheckChange(t, w.node.Quit(user, room.id), true)
		member.isMember, member.leaseEndByDevice = false, map[string]time.Time{}
		return
	}
	w.commitAndCheckChange(t, w.node.Join(user, room.id), true)
	member.isMember, member.muted, member.markedUnread, member.readUpTo, member.markUnreadGeneration = true, false, false, len(room.messages), member.markUnreadGeneration+1
}

// toggleMute lets a person mute a room, or end the mute.
func (w *chatModel) toggleMute(t *rapid.T) {
	room, user, member := w.drawRoomAndMember(t)
	w.commitAndCheckChange(t, w.node.Mute(user, room.id, !member.muted), member.isMember)
	if member.isMember {
		member.muted = !member.muted
	}
}

// openRoom lets a device open a room, or renew its lease.
func (w *chatModel) openRoom(t *rapid.T) {
	room, user, member := w.drawRoomAndMember(t)
	device := rapid.SampledFrom([]string{"phone", "laptop"}).Draw(t, "device")
	w.commitAndCheckChange(t, w.node.Enter(user, room.id, device), member.isMember)
	if !member.isMember {
		return
	}
	if _, renewed := member.leaseEndByDevice[device]; !renewed || !member.markedUnread {
		member.advanceReadPosition(room, len(room.messages))
	}
	member.leaseEndByDevice[device] = w.node.Clock.Now().Add(time.Minute)
}

// closeRoom lets a device close a room. The person stays a member.
func (w *chatModel) closeRoom(t *rapid.T) {
	room, user, member := w.drawRoomAndMember(t)
	device := rapid.SampledFrom([]string{"phone", "laptop"}).Draw(t, "device")
	_, held := member.leaseEndByDevice[device]
	reads := !member.markedUnread && member.readUpTo < len(room.messages)
	w.commitAndCheckAllowed(t, w.node.Leave(user, room.id, device), member.isMember, member.isMember && (held || reads))
	if member.isMember {
		delete(member.leaseEndByDevice, device)
	}
	if member.isMember && reads {
		member.readUpTo = len(room.messages)
	}
}

// queueNeedlessJobs queues jobs although nothing changed, as if they were repeated.
func (w *chatModel) queueNeedlessJobs(t *rapid.T) {
	room, user, _ := w.drawRoomAndMember(t)
	w.node.enqueue(w.node.projectJob(room.id), projectAllAndSwitchJob(room.id), projectMemberJob(room.id, user), leaseEndJob(room.id, user, time.Time{}))
}

// runWorkerOnce lets one of the node's workers, which run jobs, run once.
func (w *chatModel) runWorkerOnce(t *rapid.T) {
	worker := rapid.SampledFrom(w.node.fan.Workers(1)).Draw(t, "worker")
	if _, err := worker.RunOnce(w.node.TB.Context()); err != nil {
		t.Fatal(err)
	}
}

// advanceClock lets time pass on the clock.
func (w *chatModel) advanceClock(t *rapid.T) {
	w.node.Clock.Advance(time.Duration(rapid.SampledFrom([]int{1, 20, 70}).Draw(t, "seconds")) * time.Second)
}

// compareCounts runs all due jobs, and compares the badge and the list of every person with the count of the model
// (expectedCounts).
func (w *chatModel) compareCounts(t *rapid.T) {
	w.node.runJobs()
	for _, user := range w.people {
		unread, mentions := w.expectedCounts(user)
		for what, see := range map[string]func(services.UserID) (int, int){"badge": w.node.countsFromBadge, "list": w.node.countsFromList} {
			if gotUnread, gotMentions := see(user); gotUnread != unread || gotMentions != mentions {
				t.Fatalf("the %s of user %d shows %d and %d mentions, a count makes %d and %d", what, user, gotUnread, gotMentions, unread, mentions)
			}
		}
	}
	if clamped := w.node.fan.Projector.NegativeCounts(); clamped > 0 {
		t.Fatalf("%d negative numbers", clamped)
	}
}

// actions are the steps of which a random history consists. Those with several names are drawn more often.
func (w *chatModel) actions() map[string]func(*rapid.T) {
	actions := map[string]func(*rapid.T){
		"send": w.sendMessage, "send again": w.sendMessage, "send once more": w.sendMessage, "read": w.markRead, "look": w.storeNewReadToken, "read by token": w.markReadByToken,
		"unread": w.markUnread, "recall": w.recallMessage, "come or go": w.joinOrQuit, "mute": w.toggleMute, "enter": w.openRoom, "leave": w.closeRoom,
		"jobs again": w.queueNeedlessJobs, "work": w.runWorkerOnce, "work more": w.runWorkerOnce, "time": w.advanceClock, "compare": w.compareCounts,
	}
	if w.flushRedis != nil {
		actions["lose"] = w.flushRedis
	}
	return actions
}

// Badges and lists equal the counts of the model (chatModel) after every history, on each pair of engines, while the way of counting
// changes with the traffic.
func TestConversationsEqualTheModel(t *testing.T) {
	histories.ReduceRapidChecks(t, 3)
	small := func(c *Config) { c.MaxLoadCountedOnWrite = 9 }
	check := func(t *testing.T, n node, flush func(*chatModel, *rapid.T)) {
		rapid.Check(t, func(t *rapid.T) {
			w := newChatModel(n, flush)
			t.Repeat(w.actions())
			w.compareCounts(t)
		})
	}
	t.Run("sqlite-embedded", func(t *testing.T) {
		check(t, newNode(fanouttest.New(t, fanouttest.Options{RedisURL: "embedded"}), small), nil)
	})
	lose := func(w *chatModel, t *rapid.T) {
		user := rapid.SampledFrom(w.people).Draw(t, "user")
		switch what := rapid.SampledFrom([]string{"all", "b", "c", "field"}).Draw(t, "what"); what {
		case "all":
			w.node.RedisServer.Flush()
		case "field":
			w.node.RedisServer.Do("HDEL", fmt.Sprintf("{u%d}:c", user), uint32(w.rooms[0].id))
		default:
			w.node.RedisServer.Do("DEL", fmt.Sprintf("{u%d}:%s", user, what))
		}
	}
	t.Run("sqlite-redis", func(t *testing.T) { check(t, newNode(fanouttest.New(t, fanouttest.Options{}), small), lose) })
	t.Run("postgres-redis", func(t *testing.T) {
		check(t, newNode(fanouttest.New(t, fanouttest.Options{SQLURL: sqltest.Postgres(t)}), small), lose)
	})
}
