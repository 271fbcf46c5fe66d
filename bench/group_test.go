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
		if got, found := conversationCount([]byte(payload)); found != (want >= 0) || found && got != want {
			t.Errorf("%s: %d, %v", payload, got, found)
		}
	}
}

// The subscription selects the fields of the document in the order that conversationCount expects.
func TestConversationCountFitsTheSubscription(t *testing.T) {
	if !strings.Contains(everySubscription, "conversations { total { value ") {
		t.Errorf("the count is looked for where it is not: %s", everySubscription)
	}
}

func TestRaiseLateness(t *testing.T) {
	start := time.Now()
	after := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	messages := []sentMessage{{3, after(30)}, {1, after(5)}, {2, after(20)}, {9, after(90)}}
	late := make([]time.Duration, len(messages))
	quick := pushedCounts{counts: []pushedCount{{1, after(4)}, {2, after(21)}, {3, after(31)}, {9, after(95)}}}
	slow := pushedCounts{counts: []pushedCount{{0, start}, {3, after(80)}}} // lacks the last message
	quick.raiseLateness(messages, late)
	slow.raiseLateness(messages, late)
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
	quick.raiseLateness([]sentMessage{{1, after(5)}}, late)
	if late[0] != 0 {
		t.Errorf("a number that came before the answer is %v late", late[0])
	}
}

// groupServer is a server with one group, whose pushes reach the members immediately.
type groupServer struct {
	mu     sync.Mutex
	head   int64            // the number of the last message
	last   map[string]int64 // token -> the number of that member's last message
	extra  int64            // by how much the badges are too high
	silent bool             // sends no push
	group  *group
}

// answer answers as a server does: to a message, to events, and to a query of badges.
func (c *groupServer) answer(q question) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case strings.Contains(q.Query, "sendMessage"):
		c.head++
		c.last[q.token] = c.head
		if !c.silent {
			for i := range c.group.pushed {
				c.group.watch(i, fmt.Appendf(nil, `"conversations":{"total":{"value":%d}}`, c.head-c.last[c.group.token(i)]), time.Now())
			}
		}
		return fmt.Sprintf(`{"data":{"sendMessage":{"message":{"id":%q}}}}`, services.NewMessageID(1, c.head).GlobalID())
	case len(q.Variables.Events) > 0:
		return results(q)
	}
	return fmt.Sprintf(`{"data":{"viewer":{"badges":{"conversations":{"total":{"value":%d}}}}}}`, c.head-c.last[q.token]+c.extra)
}

func newGroupServer(t *testing.T) *groupServer {
	t.Helper()
	c := &groupServer{last: map[string]int64{}}
	c.group = &group{api: stubAPI(t, c.answer), prefix: "m", members: 5, talkers: 2, pushed: make([]pushedCounts, 5)}
	if err := c.group.create(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

// talkFor returns a function that lets the group talk for a time. Each talker waits for an interval between two messages.
func (g *group) talkFor(t *testing.T, length, every time.Duration) func() error {
	return func() error {
		ctx, end := context.WithTimeout(t.Context(), length)
		defer end()
		return g.talk(ctx, every)
	}
}

func TestAGroupTalks(t *testing.T) {
	c := newGroupServer(t)
	result, err := c.group.measureTalk(t.Context(), c.group.talkFor(t, 200*time.Millisecond, 50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	if said := len(c.group.messages); said < 2 || said > 10 || int64(said) != c.head {
		t.Errorf("%d messages of two who speak every 50 ms for 200 ms; the server has %d", said, c.head)
	}
	if result.p99 > 0 || !(result.rate > 0) {
		t.Errorf("everybody was told before the answer: %+v", result)
	}
	before := c.head
	if _, err := c.group.measureTalk(t.Context(), c.group.talkFor(t, 50*time.Millisecond, 0)); err != nil || c.head <= before {
		t.Errorf("%d messages more, %v", c.head-before, err)
	}
	if err := c.group.check(t.Context()); err != nil {
		t.Error(err)
	}
	c.extra = 1
	if err := c.group.check(t.Context()); err == nil {
		t.Error("badges with one message too many are taken for right")
	}
}

func TestAGroupWithoutPushes(t *testing.T) {
	c := newGroupServer(t)
	if _, err := c.group.measureTalk(t.Context(), func() error { return nil }); err == nil {
		t.Error("nobody said anything, and that was measured")
	}
	c.silent = true
	ctx, end := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer end()
	if _, err := c.group.measureTalk(ctx, c.group.talkFor(t, 10*time.Millisecond, 0)); err == nil {
		t.Error("nobody was told, and that was measured")
	}
}

func TestGroupsAreMeasuredInBothCountingWays(t *testing.T) {
	ways := countingWays()
	if len(ways) != 2 || slices.Equal(ways[0].arguments, ways[1].arguments) {
		t.Errorf("%+v", ways)
	}
	b := &bench{options: options{sizes: wholeDataSizes}, report: &report{}}
	for _, way := range ways {
		way.lateness = series{{rate: 100, p99: 150 * time.Millisecond}}
		way.others.before = series{{rate: 3000, p50: time.Millisecond, p99: 2 * time.Millisecond}}
		way.others.during = series{{rate: 1000, p50: 2 * time.Millisecond, p99: 8 * time.Millisecond}}
		way.rush.before, way.rush.during = way.others.before, series{{rate: 500, p50: 6 * time.Millisecond, p99: 10 * time.Millisecond}}
	}
	b.reportGroup(ways)
	lines := b.report.lines
	if len(lines) != 16 || lines[4].value != 6 || lines[5].value != 5 || lines[6].value != 6 || lines[0].value != 150 || lines[1].value != 2 || lines[2].value != 4 || lines[3].value != 3 || lines[3].goal.verdict(3) != "no" {
		t.Errorf("%+v", b.report.lines)
	}
}
