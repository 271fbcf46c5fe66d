package model

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/chat"
	"tidings/services/node"
	"tidings/services/people"
	"tidings/tests/histories"
	"tidings/tests/world"
)

// roomLogFile is the log of a busy chat room on IRC over many days. Its columns are day, line, time, kind, user, characters, mentioned
// users.
const roomLogFile = "room-ubuntu-irc.tsv.gz"

// replayedLogDays is how many days of the log are replayed, unless the environment variable replayedLogDaysVariable sets another number.
const (
	replayedLogDays         = 6
	replayedLogDaysVariable = "TIDINGS_TEST_ROOM_DAYS"
)

// roomLogLine is one line of the log: a user joins (kind "join"), leaves ("part") or sends a message ("msg").
type roomLogLine struct {
	day, kind, user, mentionedUser string // mentionedUser is "" without a mention
	messageCharacters              int
}

// forEachRoomLogLine calls do with each line of the log's first days, and end after each day. The log is a generated one, or the real
// one if the full set of histories is selected.
func forEachRoomLogLine(t *testing.T, days int, do func(roomLogLine), end func(day string)) {
	t.Helper()
	if !histories.FullSetSelected(t) {
		for _, line := range generateRoomLog(days) {
			if line.kind == "" {
				end(line.day)
			} else {
				do(line)
			}
		}
		return
	}
	text, err := gzip.NewReader(world.OpenSharedData(t, roomLogFile))
	if err != nil {
		t.Fatal(err)
	}
	day := ""
	lines := bufio.NewScanner(text)
	for lines.Scan() {
		fields := strings.Split(lines.Text(), "\t")
		if strings.HasPrefix(fields[0], "#") || len(fields) < 7 {
			continue
		}
		if day != "" && day != fields[0] {
			end(day)
			if days--; days == 0 {
				return
			}
		}
		day = fields[0]
		characters, err := strconv.Atoi(fields[5])
		if err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		do(roomLogLine{day: day, kind: fields[3], user: fields[4], mentionedUser: fields[6], messageCharacters: characters})
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	end(day)
}

// generateRoomLog generates a log of the size of the real one, the same at each call: more people come each day, and each day ends with
// a line without a kind. Messages mention members, people who have left and people who have not come yet, and some are empty.
func generateRoomLog(days int) (lines []roomLogLine) {
	const linesPerDay, newPeoplePerDay = 1350, 135
	for day := range days {
		name, users := fmt.Sprint("day", day), newPeoplePerDay*(day+1)
		for i := range linesPerDay {
			line := roomLogLine{day: name, kind: "msg", user: strconv.Itoa(1 + i*7919%users), messageCharacters: i * 31 % 437}
			switch {
			case i%13 == 5:
				line.kind = "join"
			case i%29 == 7:
				line.kind = "part"
			case i%4 == 1:
				line.mentionedUser = strconv.Itoa(1 + i%users)
			}
			lines = append(lines, line)
		}
		lines = append(lines, roomLogLine{day: name})
	}
	return lines
}

// roomPerson is the model of a user in the log: what they wrote, have read, and were mentioned in. The sequence of a message is its
// number in the conversation.
type roomPerson struct {
	isMember            bool  // is a member now
	readUpTo            int   // sequence of the message up to which they have read
	ownMessageSequences []int // sequences of their messages
	mentioningSequences []int // sequences of messages that mention them
}

// countUnread counts the person's unread messages, and those that mention the person. last is the sequence of the newest message.
func (p *roomPerson) countUnread(last int) (unread, mentions int) {
	after := func(numbers []int) int { return len(numbers) - sort.SearchInts(numbers, p.readUpTo+1) }
	return last - p.readUpTo - after(p.ownMessageSequences), after(p.mentioningSequences)
}

// replayedRoom replays the log to a conversation through the mutation ingest, in batches, and keeps a model of each user to compare with.
type replayedRoom struct {
	node           *world.Node
	t              *testing.T
	id             string                    // of the conversation
	parsedID       services.ConversationID   // the same ID, parsed
	people         map[string]*roomPerson    // by the user's number in the log
	members        []string                  // the present members; simulateMemberReads chooses readers by their index
	newestSequence int                       // the sequence of the newest message
	unsentEvents   []map[string]any          // events that are not sent yet
	sentEventCount int                       // the number of events that were sent
	countingWays   map[chat.CountingWay]bool // how the conversation was counted at the ends of the days: on write or on read
}

// roomUserKey returns the key of a user of the log.
func roomUserKey(user string) string { return "irc" + user }

// newReplayedRoom creates, on a node, the conversation into which the log is replayed.
func newReplayedRoom(t *testing.T, n *world.Node) *replayedRoom {
	r := &replayedRoom{node: n, t: t, people: map[string]*roomPerson{}, countingWays: map[chat.CountingWay]bool{}}
	var data struct {
		CreateConversation struct{ Conversation struct{ ID string } }
	}
	n.MustAsk("host", `mutation{createConversation(input:{kind:ROOM,title:"#ubuntu",memberIds:[]}){conversation{id}}}`, nil, &data)
	r.id = data.CreateConversation.Conversation.ID
	var err error
	if r.parsedID, err = services.ParseConversationID("id", r.id); err != nil {
		t.Fatal(err)
	}
	return r
}

// addEvent adds an event to the batch, and sends a full batch.
func (r *replayedRoom) addEvent(name, user string, more map[string]any) {
	input := map[string]any{}
	if name != "markConversationUnread" {
		input["conversationId"] = r.id
	}
	for key, value := range more {
		input[key] = value
	}
	if r.unsentEvents = append(r.unsentEvents, map[string]any{"as": "user:" + roomUserKey(user), "do": map[string]any{name: input}}); len(r.unsentEvents) == 500 {
		r.sendBatch()
	}
}

// sendBatch sends the unsent events as one batch.
func (r *replayedRoom) sendBatch() {
	if len(r.unsentEvents) == 0 {
		return
	}
	var data struct {
		Ingest struct {
			Results []struct {
				Error *struct{ Code, Message string }
			}
		}
	}
	r.node.MustAsk("host:ingest", `mutation($e:[IngestEvent!]!){ingest(events:$e){results{error{code message}}}}`, map[string]any{"e": r.unsentEvents}, &data)
	for i, result := range data.Ingest.Results {
		if result.Error != nil {
			r.t.Fatalf("%v: %+v", r.unsentEvents[i], *result.Error)
		}
	}
	r.sentEventCount += len(r.unsentEvents)
	r.unsentEvents = nil
}

// replayLine replays one line of the log. A user who speaks without being a member joins first.
func (r *replayedRoom) replayLine(line roomLogLine) {
	person := r.people[line.user]
	if person == nil {
		person = &roomPerson{}
		r.people[line.user] = person
	}
	if line.kind == "part" {
		if person.isMember {
			r.addEvent("quitConversation", line.user, nil)
			person.isMember = false
			r.members = slices.DeleteFunc(r.members, func(user string) bool { return user == line.user })
		}
		return
	}
	if !person.isMember {
		r.addEvent("joinConversation", line.user, nil)
		person.isMember, person.readUpTo = true, r.newestSequence
		r.members = append(r.members, line.user)
	}
	if line.kind != "msg" {
		return
	}
	more := map[string]any{"body": strings.Repeat("x", max(1, line.messageCharacters))}
	if line.mentionedUser != "" {
		more["mentionIds"] = []string{"user:" + roomUserKey(line.mentionedUser)}
	}
	r.addEvent("sendMessage", line.user, more)
	r.newestSequence++
	person.ownMessageSequences, person.readUpTo = append(person.ownMessageSequences, r.newestSequence), r.newestSequence
	if other := r.people[line.mentionedUser]; other != nil && other.isMember && line.mentionedUser != line.user {
		other.mentioningSequences = append(other.mentioningSequences, r.newestSequence)
	}
	r.simulateMemberReads()
}

// simulateMemberReads makes members read by a fixed rule: now and then one member reads all messages, another member all but the
// newest 3, and a third member marks the newest messages as unread.
func (r *replayedRoom) simulateMemberReads() {
	reader := func(step int) string { return r.members[r.newestSequence*step%len(r.members)] }
	message := func(number int) string {
		return services.NewMessageID(r.parsedID, int64(number)).GlobalID()
	}
	if r.newestSequence%5 == 0 {
		user := reader(7919)
		r.addEvent("markConversationRead", user, nil)
		r.people[user].readUpTo = max(r.people[user].readUpTo, r.newestSequence)
	}
	if number := r.newestSequence - 3; r.newestSequence%11 == 0 && number > 0 {
		user := reader(6271)
		r.addEvent("markConversationRead", user, map[string]any{"upTo": message(number)})
		r.people[user].readUpTo = max(r.people[user].readUpTo, number)
	}
	if number := r.newestSequence - 10; r.newestSequence%97 == 0 && number > 0 {
		user := reader(4513)
		r.addEvent("markConversationUnread", user, map[string]any{"fromMessageId": message(number)})
		r.people[user].readUpTo = min(r.people[user].readUpTo, number-1) // unread messages stay unread
	}
}

// checkAllBadges compares every user's counts of the conversation in the badges with the model. Users who have left have no unread
// messages.
func (r *replayedRoom) checkAllBadges(day string) {
	r.sendBatch()
	r.node.SettleJobsAndCaches()
	sequences, err := chat.SequencesOf(r.t.Context(), r.node.DB, []services.ConversationID{r.parsedID})
	if err != nil {
		r.t.Fatal(err)
	}
	r.countingWays[sequences[0].Way] = true
	keys := make([]string, 0, len(r.people))
	for user := range r.people {
		keys = append(keys, user)
	}
	slices.Sort(keys)
	for part := range slices.Chunk(keys, 500) {
		r.checkBadgesOf(day, part)
	}
}

// checkBadgesOf compares the counts of some users in the badges with the model.
func (r *replayedRoom) checkBadgesOf(day string, users []string) {
	names := make([]string, len(users))
	for i, user := range users {
		names[i] = roomUserKey(user)
	}
	ids, err := people.IDs(r.t.Context(), r.node.DB, names)
	if err != nil {
		r.t.Fatal(err)
	}
	for i, user := range users {
		var read *services.Badges
		// The counts are STALE while the machine is busy, and Redis misses its deadline.
		world.Eventually(r.t, 30*time.Second, "Redis answers", func() bool {
			if read, err = r.node.Badge.Read(r.t.Context(), ids[names[i]]); err != nil {
				r.t.Fatal(err)
			}
			return read.Conversations.Total.Precision != services.Stale
		})
		person, unread, mentions := r.people[user], 0, 0
		if person.isMember {
			unread, mentions = person.countUnread(r.newestSequence)
		}
		if got := read.Conversations; got.Total.Value != unread || got.Mentions.Value != mentions || got.Total.Precision != services.Exact {
			r.t.Fatalf("%s, person %s: %+v and %d mentions, a count over the log makes %d and %d", day, user, got.Total, got.Mentions.Value, unread, mentions)
		}
	}
}

// The log of a busy chat room is replayed through the API. At the end of each day everybody's count of unread messages equals a plain
// count over the log. The conversation is counted on write at the beginning and on read at the end.
func TestAReplayedRoomCountsLikeItsLog(t *testing.T) {
	days := replayedLogDays
	if text := os.Getenv(replayedLogDaysVariable); text != "" {
		var err error
		if days, err = strconv.Atoi(text); err != nil || days < 1 {
			t.Fatalf("%s: %q is no number of days", replayedLogDaysVariable, text)
		}
	}
	n := world.StartNode(t, world.NodeOptions{Redis: "auto", ManualStepping: true, ChangeConfig: func(cfg *node.Config) {
		cfg.Chat.MaxMembersCountedOnWrite, cfg.Chat.MaxLoadCountedOnWrite = 300, 100_000_000
	}})
	r := newReplayedRoom(t, n)
	played := 0
	forEachRoomLogLine(t, days, r.replayLine, func(day string) {
		r.checkAllBadges(day)
		played++
	})
	t.Logf("%d days, %d people, %d messages, %d events; counted by %v", played, len(r.people), r.newestSequence, r.sentEventCount, r.countingWays)
	if played != days || !r.countingWays[chat.OnWrite] || !r.countingWays[chat.OnRead] {
		t.Errorf("%d of %d days were played, counted by %v: want both ways", played, days, r.countingWays)
	}
}

// The generated log has everything that the real log has: enough people for both ways of counting, users who join twice, speak without
// joining, leave and come back, and mentions of members and of others.
func TestTheGeneratedRoomIsRealistic(t *testing.T) {
	counts, isMember := map[string]int{}, map[string]bool{}
	for _, line := range generateRoomLog(replayedLogDays) {
		member, known := isMember[line.user]
		switch mentionedIsMember, mentionedIsKnown := isMember[line.mentionedUser]; {
		case line.kind == "":
			counts["days"]++
			continue
		case line.kind == "part" && member:
			counts["members leave"]++
		case line.kind == "part":
			counts["others leave"]++
		case line.kind == "join" && member:
			counts["members join again"]++
		case line.kind == "msg" && !member:
			counts["others speak"]++
		case line.mentionedUser == "":
		case mentionedIsMember:
			counts["mentions of members"]++
		case mentionedIsKnown:
			counts["mentions of people who left"]++
		default:
			counts["mentions of unknown people"]++
		}
		if line.kind != "part" && known && !member {
			counts["people come back"]++
		}
		if line.kind == "msg" {
			counts["messages"]++
		}
		if line.kind == "msg" && line.messageCharacters == 0 {
			counts["empty messages"]++
		}
		if line.kind == "msg" && line.messageCharacters > 400 {
			counts["long messages"]++
		}
		isMember[line.user] = line.kind != "part"
	}
	counts["people"] = len(isMember)
	for what, least := range map[string]int{
		"days": replayedLogDays, "people": 700, "messages": 6000, "members leave": 30, "others leave": 10, "members join again": 100, "others speak": 100,
		"people come back": 10, "mentions of members": 1000, "mentions of people who left": 3, "mentions of unknown people": 3, "empty messages": 2, "long messages": 50,
	} {
		if counts[what] < least {
			t.Errorf("%s: %d, want at least %d", what, counts[what], least)
		}
	}
}
