package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tidings/services"
)

func TestConversationCount(t *testing.T) {
	for payload, want := range map[string]int64{
		`{"badgesChanged":{"conversations":{"total":{"value":12,"display":"12"}}}}`: 12, `"conversations":{"total":{"value":0}}`: 0,
		`{"conversations":{"total":{"value":`: -1, `"conversations":{"total":{"value":x}`: -1, `"total":{"value":3}`: -1, `"conversations":{"total":{"value":12`: -1,
	} {
		if got, found := unreadMessagesIn([]byte(payload)); found != (want >= 0) || found && got != want {
			t.Errorf("%s: %d, %v", payload, got, found)
		}
	}
}

// The subscription selects the fields of the document in the order that unreadMessagesIn expects.
func TestConversationCountFitsTheSubscription(t *testing.T) {
	if !strings.Contains(everySourceSubscription, "conversations { total { value ") {
		t.Errorf("the count is looked for where it is not: %s", everySourceSubscription)
	}
}

func TestUpdateMaxLateness(t *testing.T) {
	start := time.Now()
	after := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	messages := []sentMessage{{3, after(30)}, {1, after(5)}, {2, after(20)}, {9, after(90)}}
	late := make([]time.Duration, len(messages))
	quick := pushedUnreadCounts{counts: []pushedUnreadCount{{1, after(4)}, {2, after(21)}, {3, after(31)}, {9, after(95)}}}
	slow := pushedUnreadCounts{counts: []pushedUnreadCount{{0, start}, {3, after(80)}}} // lacks the last message
	quick.updateMaxLateness(messages, late)
	slow.updateMaxLateness(messages, late)
	want := []time.Duration{50, 75, 60, 5}
	for i := range want {
		want[i] *= time.Millisecond
	}
	if !slices.Equal(late, want) {
		t.Errorf("got %v, want %v", late, want)
	}
	// A push that came before the answer to the mutation counts as a delay of 0.
	late = late[:1]
	late[0] = 0
	quick.updateMaxLateness([]sentMessage{{1, after(5)}}, late)
	if late[0] != 0 {
		t.Errorf("a number that came before the answer is %v late", late[0])
	}
}

// fakeGroupServer is a server with one group, whose pushes reach the members immediately.
type fakeGroupServer struct {
	mu                       sync.Mutex         // guards the two fields below
	lastMessageNumber        int64              // the number of the last message, whoever sent it
	lastMessageNumberByToken map[string]int64   // token -> the number of that member's last message
	badgeExcess              int64              // by how many unread messages the badges are too high
	sendsNoPushes            bool               // whether it pushes nothing to the members
	group                    *groupConversation // the client of the server, which sends the messages
}

// answer answers as a server does: to a message, to events, and to a query of badges.
func (c *fakeGroupServer) answer(q receivedRequest) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case strings.Contains(q.Query, "sendMessage"):
		c.lastMessageNumber++
		c.lastMessageNumberByToken[q.token] = c.lastMessageNumber
		if !c.sendsNoPushes {
			for i := range c.group.pushedByMember {
				c.group.recordPushedCount(i, fmt.Appendf(nil, `"conversations":{"total":{"value":%d}}`, c.lastMessageNumber-c.lastMessageNumberByToken[c.group.token(i)]), time.Now())
			}
		}
		return fmt.Sprintf(`{"data":{"sendMessage":{"message":{"id":%q}}}}`, services.NewMessageID(1, c.lastMessageNumber).GlobalID())
	case len(q.Variables.Events) > 0:
		return ingestAnswer(q)
	}
	return fmt.Sprintf(`{"data":{"viewer":{"badges":{"conversations":{"total":{"value":%d}}}}}}`, c.lastMessageNumber-c.lastMessageNumberByToken[q.token]+c.badgeExcess)
}

// newGroupServer starts a fakeGroupServer, and creates its group of five members; two of them are talkers.
func newGroupServer(t *testing.T) *fakeGroupServer {
	t.Helper()
	c := &fakeGroupServer{lastMessageNumberByToken: map[string]int64{}}
	c.group = &groupConversation{api: startStubAPI(t, c.answer), keyPrefix: "m", memberCount: 5, senderCount: 2, pushedByMember: make([]pushedUnreadCounts, 5)}
	if err := c.group.create(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

// sendMessagesFor returns a function that lets the talkers of the group send messages for a time, each of them one per interval.
func (g *groupConversation) sendMessagesFor(t *testing.T, length, every time.Duration) func() error {
	return func() error {
		ctx, end := context.WithTimeout(t.Context(), length)
		defer end()
		return g.sendMessagesUntilCanceled(ctx, every)
	}
}

func TestGroupMessagesAndBadgesAreMeasured(t *testing.T) {
	c := newGroupServer(t)
	result, err := c.group.measureMessages(t.Context(), c.group.sendMessagesFor(t, 200*time.Millisecond, 50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	if said := len(c.group.messages); said < 2 || said > 10 || int64(said) != c.lastMessageNumber {
		t.Errorf("%d messages of two who speak every 50 ms for 200 ms; the server has %d", said, c.lastMessageNumber)
	}
	if result.latencyP99 > 0 || !(result.ratePerSecond > 0) {
		t.Errorf("everybody was notified before the answer: %+v", result)
	}
	before := c.lastMessageNumber
	if _, err := c.group.measureMessages(t.Context(), c.group.sendMessagesFor(t, 50*time.Millisecond, 0)); err != nil || c.lastMessageNumber <= before {
		t.Errorf("%d messages more, %v", c.lastMessageNumber-before, err)
	}
	if err := c.group.checkBadges(t.Context()); err != nil {
		t.Error(err)
	}
	c.badgeExcess = 1
	if err := c.group.checkBadges(t.Context()); err == nil {
		t.Error("badges with one message too many are taken for right")
	}
}

func TestGroupWithoutPushesIsAnError(t *testing.T) {
	c := newGroupServer(t)
	if _, err := c.group.measureMessages(t.Context(), func() error { return nil }); err == nil {
		t.Error("nobody said anything, and that was measured")
	}
	c.sendsNoPushes = true
	ctx, end := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer end()
	if _, err := c.group.measureMessages(ctx, c.group.sendMessagesFor(t, 10*time.Millisecond, 0)); err == nil {
		t.Error("nobody was notified, and that was measured")
	}
}

// The unread messages of a group are counted on write or on read, and each way has its lines in the report.
func TestGroupsAreMeasuredInBothCountingWays(t *testing.T) {
	ways := unreadCountingStrategies()
	if len(ways) != 2 || slices.Equal(ways[0].serverArguments, ways[1].serverArguments) {
		t.Errorf("%+v", ways)
	}
	b := &bench{options: options{sizes: fullDataSizes}, report: &report{}}
	for _, way := range ways {
		way.lateness = series{{ratePerSecond: 100, latencyP99: 150 * time.Millisecond}}
		way.bystandersPaced.before = series{{ratePerSecond: 3000, latencyP50: time.Millisecond, latencyP99: 2 * time.Millisecond}}
		way.bystandersPaced.during = series{{ratePerSecond: 1000, latencyP50: 2 * time.Millisecond, latencyP99: 8 * time.Millisecond}}
		way.bystandersUnpaced.before, way.bystandersUnpaced.during = way.bystandersPaced.before, series{{ratePerSecond: 500, latencyP50: 6 * time.Millisecond, latencyP99: 10 * time.Millisecond}}
	}
	b.reportGroupConversation(ways)
	lines := b.report.resultLines
	if len(lines) != 16 || lines[4].value != 6 || lines[5].value != 5 || lines[6].value != 6 || lines[0].value != 150 || lines[1].value != 2 || lines[2].value != 4 || lines[3].value != 3 || lines[3].goal.verdict(3) != "no" {
		t.Errorf("%+v", b.report.resultLines)
	}
}
