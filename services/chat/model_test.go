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

// world is the slow, independent model: lists of the messages of a few people in two rooms, and of their positions.
type world struct {
	n      node
	people []services.UserID
	rooms  []*modelRoom
	flush  func(*rapid.T) // deletes keys from Redis; nil if that is not possible
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
	at       time.Time
	recalled bool
}

// modelMember is one person's state in a room.
type modelMember struct {
	in, muted bool
	marked    bool                 // marked as unread, after which the person has neither entered, written, nor read all
	base, gen int                  // read up to the message base; gen rises with each mark as unread and each join
	leases    map[string]time.Time // of devices that have the room open: when each lease ends
	tokens    []modelToken         // read tokens that devices were given, and may send late
}

// modelToken is a read token with what it meant when it was given: the messages up to upTo were shown, and the member's gen was
// gen.
type modelToken struct {
	text      string // as MarkRead takes it
	upTo, gen int
}

// newWorld makes two rooms of three people. flush is nil or deletes keys from Redis.
func newWorld(n node, flush func(*world, *rapid.T)) *world {
	w := &world{n: n, people: n.MakeUsers(3)}
	for range 2 {
		room := &modelRoom{id: n.create(Room, w.people...), members: map[services.UserID]*modelMember{}}
		for _, user := range w.people {
			room.members[user] = &modelMember{in: true, leases: map[string]time.Time{}}
		}
		w.rooms = append(w.rooms, room)
	}
	if flush != nil {
		w.flush = func(t *rapid.T) { flush(w, t) }
	}
	return w
}

// inside reports whether the member has the room open on some device, so that nothing counts. Leases that have ended are removed;
// the messages sent until the end of the last one count as read. After a mark as unread, leases have no effect.
func (m *modelMember) inside(room *modelRoom, now time.Time) bool {
	var last time.Time
	for device, until := range m.leases {
		if until.After(last) {
			last = until
		}
		if !until.After(now) {
			delete(m.leases, device)
		}
	}
	if len(m.leases) > 0 || m.marked {
		return !m.marked
	}
	for i, message := range room.messages {
		if !last.IsZero() && !message.at.After(last) {
			m.base = max(m.base, i+1)
		}
	}
	return false
}

// truth counts a person's unread messages directly.
func (w *world) truth(user services.UserID) (unread, mentions int) {
	for _, room := range w.rooms {
		member := room.members[user]
		if !member.in || member.inside(room, w.n.Clock.Now()) {
			continue
		}
		for i, message := range room.messages {
			if i < member.base || message.author == user || message.recalled {
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

// pick draws a room and a person, who may have left the room. It applies the leases that have ended.
func (w *world) pick(t *rapid.T) (*modelRoom, services.UserID, *modelMember) {
	room, user := rapid.SampledFrom(w.rooms).Draw(t, "room"), rapid.SampledFrom(w.people).Draw(t, "user")
	member := room.members[user]
	member.inside(room, w.n.Clock.Now())
	return room, user, member
}

// do commits a command, and checks that it changed something if changes is true, and nothing otherwise. A command that is refused,
// or finds the state as requested, changes nothing.
func (w *world) do(t *rapid.T, cmd *jobs.Command, changes bool) {
	if err := w.n.do(cmd); (err == nil && cmd.Changed()) != changes {
		t.Fatalf("%s (to change something: %t): %v, changed %t", cmd.Name, changes, err, cmd.Changed())
	}
}

// doAsMember commits a command that is allowed only for a member; if allowed is false, it must be refused. If must is true, it must report
// a change. If not, it may still report a change that the model does not have: the end of an expired lease.
func (w *world) doAsMember(t *rapid.T, cmd *jobs.Command, allowed, must bool) {
	if err := w.n.do(cmd); (err == nil) != allowed || must && !cmd.Changed() {
		t.Fatalf("%s (allowed: %t, to change something: %t): %v, changed %t", cmd.Name, allowed, must, err, cmd.Changed())
	}
}

// send lets a person write a message with up to two mentions.
func (w *world) send(t *rapid.T) {
	room, user, member := w.pick(t)
	mentions := rapid.SliceOfNDistinct(rapid.SampledFrom(w.people), 0, 2, rapid.ID).Draw(t, "mentions")
	w.do(t, must(w.n.Send(user, room.id, "hello", mentions)), member.in)
	if !member.in {
		return
	}
	message := &modelMessage{author: user, at: w.n.Clock.Now()}
	for _, mentioned := range mentions {
		if room.members[mentioned].in {
			message.mentions = append(message.mentions, mentioned)
		}
	}
	room.messages = append(room.messages, message)
	member.readTo(room, len(room.messages))
}

// markRead lets a person mark a room as read up to a message, which may not exist yet.
func (w *world) markRead(t *rapid.T) {
	room, user, member := w.pick(t)
	if len(room.messages) == 0 {
		return
	}
	upTo := rapid.IntRange(1, len(room.messages)+1).Draw(t, "up to")
	allowed := member.in && upTo <= len(room.messages)
	w.doAsMember(t, must(w.n.MarkRead(user, room.id, Mark{UpTo: services.NewMessageID(room.id, int64(upTo))})), allowed, allowed && upTo > member.base)
	if allowed {
		member.readTo(room, upTo)
	}
}

// readTo moves a member's position forward. A mark as unread ends when all is read.
func (m *modelMember) readTo(room *modelRoom, number int) {
	m.base = max(m.base, number)
	m.marked = m.marked && m.base < len(room.messages)
}

// look lets a device look at a room: it gets the read token of the state that it is shown.
func (w *world) look(t *rapid.T) {
	room, user, member := w.pick(t)
	if !member.in {
		return
	}
	state, err := w.n.ReadConversation(w.n.TB.Context(), user, room.id)
	if err != nil {
		t.Fatal(err)
	}
	member.tokens = append(member.tokens, modelToken{NewReadToken(state.Own), len(room.messages), member.gen})
}

// markReadByToken lets a device send a token that it got earlier, and so mark as read what it was shown then.
func (w *world) markReadByToken(t *rapid.T) {
	room, user, member := w.pick(t)
	if len(member.tokens) == 0 {
		return
	}
	token := rapid.SampledFrom(member.tokens).Draw(t, "token")
	w.doAsMember(t, must(w.n.MarkRead(user, room.id, Mark{Token: token.text})), member.in, member.in && token.gen == member.gen && token.upTo > member.base)
	if member.in && token.gen == member.gen {
		member.readTo(room, token.upTo)
	}
}

// markUnread lets a person mark a message and all later ones as unread.
func (w *world) markUnread(t *rapid.T) {
	room, user, member := w.pick(t)
	if len(room.messages) == 0 {
		return
	}
	from := rapid.IntRange(1, len(room.messages)).Draw(t, "from")
	w.do(t, w.n.MarkUnread(user, services.NewMessageID(room.id, int64(from))), member.in)
	if !member.in {
		return
	}
	if member.inside(room, w.n.Clock.Now()) {
		member.base = len(room.messages)
	}
	member.base, member.gen, member.marked = min(member.base, from-1), member.gen+1, true
}

// recall lets a person recall a message. Only its author can, and only once.
func (w *world) recall(t *rapid.T) {
	room, user, member := w.pick(t)
	if len(room.messages) == 0 {
		return
	}
	i := rapid.IntRange(0, len(room.messages)-1).Draw(t, "message")
	message := room.messages[i]
	allowed := member.in && message.author == user && !message.recalled
	w.do(t, w.n.Recall(user, services.NewMessageID(room.id, int64(i+1))), allowed)
	message.recalled = message.recalled || allowed
}

// joinOrQuit lets a member quit, and anyone else join.
func (w *world) joinOrQuit(t *rapid.T) {
	room, user, member := w.pick(t)
	if member.in {
		w.do(t, w.n.Quit(user, room.id), true)
		member.in, member.leases = false, map[string]time.Time{}
		return
	}
	w.do(t, w.n.Join(user, room.id), true)
	member.in, member.muted, member.marked, member.base, member.gen = true, false, false, len(room.messages), member.gen+1
}

// mute lets a person mute a room, or end the mute.
func (w *world) mute(t *rapid.T) {
	room, user, member := w.pick(t)
	w.do(t, w.n.Mute(user, room.id, !member.muted), member.in)
	if member.in {
		member.muted = !member.muted
	}
}

// enter lets a device open a room, or renew its lease.
func (w *world) enter(t *rapid.T) {
	room, user, member := w.pick(t)
	device := rapid.SampledFrom([]string{"phone", "laptop"}).Draw(t, "device")
	w.do(t, w.n.Enter(user, room.id, device), member.in)
	if !member.in {
		return
	}
	if _, renewed := member.leases[device]; !renewed || !member.marked {
		member.readTo(room, len(room.messages))
	}
	member.leases[device] = w.n.Clock.Now().Add(time.Minute)
}

// leave lets a device close a room. The person stays a member.
func (w *world) leave(t *rapid.T) {
	room, user, member := w.pick(t)
	device := rapid.SampledFrom([]string{"phone", "laptop"}).Draw(t, "device")
	_, held := member.leases[device]
	reads := !member.marked && member.base < len(room.messages)
	w.doAsMember(t, w.n.Leave(user, room.id, device), member.in, member.in && (held || reads))
	if member.in {
		delete(member.leases, device)
	}
	if member.in && reads {
		member.base = len(room.messages)
	}
}

// queueNeedlessJobs queues jobs although nothing changed, as if they were repeated.
func (w *world) queueNeedlessJobs(t *rapid.T) {
	room, user, _ := w.pick(t)
	w.n.enqueue(w.n.projectJob(room.id), projectAllJob(room.id), memberJob(room.id, user), insideJob(room.id, user, time.Time{}))
}

// work lets one worker run once.
func (w *world) work(t *rapid.T) {
	worker := rapid.SampledFrom(w.n.fan.Workers(1)).Draw(t, "worker")
	if _, err := worker.RunOnce(w.n.TB.Context()); err != nil {
		t.Fatal(err)
	}
}

// pass lets time pass on the clock.
func (w *world) pass(t *rapid.T) {
	w.n.Clock.Advance(time.Duration(rapid.SampledFrom([]int{1, 20, 70}).Draw(t, "seconds")) * time.Second)
}

// compare runs all due jobs, and compares the badge and the list of every person with the count of the model (truth).
func (w *world) compare(t *rapid.T) {
	w.n.runJobs()
	for _, user := range w.people {
		unread, mentions := w.truth(user)
		for what, see := range map[string]func(services.UserID) (int, int){"badge": w.n.badgeCounts, "list": w.n.listCounts} {
			if gotUnread, gotMentions := see(user); gotUnread != unread || gotMentions != mentions {
				t.Fatalf("the %s of user %d shows %d and %d mentions, a count makes %d and %d", what, user, gotUnread, gotMentions, unread, mentions)
			}
		}
	}
	if clamped := w.n.fan.Projector.Clamped(); clamped > 0 {
		t.Fatalf("%d negative numbers", clamped)
	}
}

// actions are the steps of which a random history consists. Those with several names are drawn more often.
func (w *world) actions() map[string]func(*rapid.T) {
	actions := map[string]func(*rapid.T){
		"send": w.send, "send again": w.send, "send once more": w.send, "read": w.markRead, "look": w.look, "read by token": w.markReadByToken,
		"unread": w.markUnread, "recall": w.recall, "come or go": w.joinOrQuit, "mute": w.mute, "enter": w.enter, "leave": w.leave,
		"jobs again": w.queueNeedlessJobs, "work": w.work, "work more": w.work, "time": w.pass, "compare": w.compare,
	}
	if w.flush != nil {
		actions["lose"] = w.flush
	}
	return actions
}

// Badges and lists equal a straight count after every history, on each pair of engines, while the way of counting changes
// with the traffic.
func TestConversationsEqualTheModel(t *testing.T) {
	histories.Reduce(t, 3)
	small := func(c *Config) { c.MaxWriteLoad = 9 }
	check := func(t *testing.T, n node, flush func(*world, *rapid.T)) {
		rapid.Check(t, func(t *rapid.T) {
			w := newWorld(n, flush)
			t.Repeat(w.actions())
			w.compare(t)
		})
	}
	t.Run("sqlite-embedded", func(t *testing.T) {
		check(t, newNode(fanouttest.New(t, fanouttest.Options{Redis: "embedded"}), small), nil)
	})
	lose := func(w *world, t *rapid.T) {
		user := rapid.SampledFrom(w.people).Draw(t, "user")
		switch what := rapid.SampledFrom([]string{"all", "b", "c", "field"}).Draw(t, "what"); what {
		case "all":
			w.n.Server.Flush()
		case "field":
			w.n.Server.Do("HDEL", fmt.Sprintf("{u%d}:c", user), uint32(w.rooms[0].id))
		default:
			w.n.Server.Do("DEL", fmt.Sprintf("{u%d}:%s", user, what))
		}
	}
	t.Run("sqlite-redis", func(t *testing.T) { check(t, newNode(fanouttest.New(t, fanouttest.Options{}), small), lose) })
	t.Run("postgres-redis", func(t *testing.T) {
		check(t, newNode(fanouttest.New(t, fanouttest.Options{SQL: sqltest.Postgres(t)}), small), lose)
	})
}
