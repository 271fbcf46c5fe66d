package chat

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/jobs"
	"tidings/services/rdb"
	"tidings/tests/eventually"
)

// A message is sent, and its projection fails: the message is in SQL and not in Redis, or only one of two members has it there. The
// total always equals the sum of its parts, and in the end everyone has counted the message once.
func TestAMessageCountsOnceAfterAFailedProjection(t *testing.T) {
	n := redisServerNode(t)
	users := n.MakeUsers(3)
	group, other := n.createConversation(Group, users...), n.createConversation(Group, users...)
	n.send(users[0], other)
	n.runJobs()
	n.send(users[0], group)
	n.Must(n.projectMember(t.Context(), group, users[1])) // and then the process dies
	n.wantCounts("reached", users[1], 2, 0)
	if unread, _ := n.countsFromBadge(users[2]); unread != 1 {
		t.Errorf("not reached: %d", unread)
	}
	n.runJobs()
	n.wantCounts("after the job", users[1], 2, 0)
	n.wantCounts("after the job", users[2], 2, 0)

	n.RedisServer.Kill()
	for range 2 {
		if err := n.commit(must(n.Service.Send(users[0], group, "hello", nil))); err != nil {
			t.Fatalf("without Redis: %v", err)
		}
	}
	n.RedisServer.Start()
	awaitRedis(t, n.Redis)
	n.Clock.Advance(time.Minute)
	n.RunAllJobs(n.fan)
	for _, user := range users[1:] {
		n.wantCounts("Redis was away between the halves, and lost what it had", user, 4, 0)
	}
}

// Users who are not active have no document. The job of a message marks them too, for the change stream, but only while marks are
// asked for. A member who quits is marked, as the conversation no longer counts, and not marked any more after a day.
func TestMessagesMarkInactiveMembers(t *testing.T) {
	n := redisServerNode(t)
	marked, marking := map[services.UserID]bool{}, false
	n.World.Projector.OnMark(func(_ context.Context, users []services.UserID) error {
		for _, user := range users {
			marked[user] = true
		}
		return nil
	}, func() bool { return marking })
	users, strangers := n.MakeUsers(2), n.MakeNeverSeenUsers(3)
	left := strangers[2]
	group := n.createConversation(Group, slices.Concat(users, strangers)...)
	n.runJobs()
	quit := func() { n.mustCommit(n.Quit(left, group), nil) }
	send := func() { n.send(users[0], group) }
	sendLater := func() { n.Clock.Advance(leftConversationsKeptFor + time.Second); send() }
	for _, c := range []struct {
		marking bool // whether marks are asked for
		does    func()
		want    []services.UserID
	}{
		{false, send, users},
		{true, send, slices.Concat(users, strangers)},
		{true, quit, slices.Concat(users, strangers)},
		{true, sendLater, slices.Concat(users, strangers[:2])},
	} {
		marking = c.marking
		clear(marked)
		c.does()
		n.runJobs()
		got := slices.Sorted(maps.Keys(marked))
		if slices.Sort(c.want); !slices.Equal(got, c.want) {
			t.Errorf("marking %t: %v are marked, want %v", c.marking, got, c.want)
		}
	}
	for _, stranger := range strangers {
		if n.Document(stranger).Ready {
			t.Errorf("user %d became active", stranger)
		}
	}
}

// A user reads a conversation between the commit of a message and its projection, and either may arrive late in Redis: read messages
// stay read, and later ones stay unread.
func TestALateStateReplacesNoNewerOne(t *testing.T) {
	n := redisServerNode(t)
	users := n.MakeUsers(2)
	group := n.createConversation(Group, users...)
	snapshot := func() []services.Membership {
		states, err := membershipsIn(t.Context(), n.World.DB, group, users[1:])
		n.Must(err)
		return states
	}
	put := func(states []services.Membership) {
		_, clamped, err := n.Redis.PutMemberships(t.Context(), states)
		n.Must(err)
		if clamped > 0 {
			t.Error("a negative number")
		}
	}
	n.send(users[0], group)
	added := snapshot()
	n.markRead(users[1], group, 0)
	n.wantCounts("cleared before the add arrived", users[1], 0, 0)
	put(added)
	n.wantCounts("the add arrives late", users[1], 0, 0)
	cleared := snapshot()
	n.send(users[0], group)
	put(snapshot())
	n.wantCounts("added after the clear", users[1], 1, 0)
	put(cleared)
	put(added)
	n.wantCounts("clear and add arrive late", users[1], 1, 0)
	n.runJobs()
	n.wantCounts("after the jobs", users[1], 1, 0)
}

// A conversation changes its way of counting while people talk in it and read, and no count shows it.
func TestNoCountShowsAChangeOfTheCountingWay(t *testing.T) {
	for name, options := range map[string]fanouttest.Options{"embedded": {RedisURL: "embedded"}, "redis": {}} {
		t.Run(name, func(t *testing.T) {
			n := newNode(fanouttest.New(t, options), func(c *Config) { c.MaxLoadCountedOnWrite = 12 })
			users := n.MakeUsers(3)
			group := n.createConversation(Room, users...)
			ways := map[CountingWay]bool{}
			total := 0
			for step := range 60 {
				n.send(users[0], group)
				total++
				ways[n.countingWayOf(group)] = true
				switch {
				case step%7 == 3:
					n.runJobs()
					ways[n.countingWayOf(group)] = true
					n.wantCounts("while it goes on", users[1], total, 0)
				case step%16 == 15:
					n.Clock.Advance(5 * time.Minute) // it becomes quiet
				}
			}
			n.runJobs()
			n.wantCounts("in the end", users[1], total, 0)
			for _, way := range []CountingWay{OnWrite, switchingToRead, OnRead} {
				if !ways[way] {
					t.Errorf("it was never counted by %s", way)
				}
			}
			n.markRead(users[1], group, services.NewMessageID(group, int64(total-2)))
			n.wantCounts("read", users[1], 2, 0)
		})
	}
}

// When a conversation is to be counted when read, a flag is written to each member in turn. Until all members have it, each
// message is still projected to every member.
func TestMessagesAreProjectedUntilAllMembersCountOnRead(t *testing.T) {
	n := newNode(fanouttest.New(t, fanouttest.Options{}), func(c *Config) { c.MaxLoadCountedOnWrite = 12 })
	users := n.MakeUsers(3)
	group := n.createConversation(Room, users...)
	quick := n.fan.Workers(1)[0] // the other worker projects the flags
	total := 0
	for range 8 {
		n.send(users[0], group)
		total++
		n.Clock.Advance(101 * time.Millisecond)
		_, err := quick.RunOnce(t.Context())
		n.Must(err)
		n.wantCounts("flags on their way", users[1], total, 0)
	}
	if way := n.countingWayOf(group); way != switchingToRead {
		t.Errorf("counted by %s", way)
	}
}

// Changes that are committed while the members get the flag for counting on read, after the page with a member was read and before the
// switch, reach the members' counts.
func TestTheSwitchToCountingOnReadLosesNoChange(t *testing.T) {
	// The job that ends the switch locks the conversation, and then reads pages of members. The second page is of one member.
	locked, pages := false, 0
	var between func()
	n := newNode(fanouttest.New(t, fanouttest.Options{Trace: func(statement string) {
		switch {
		case statement == "lock a conversation":
			locked, pages = true, 0
		case statement == "memberships of the active" && locked:
			if pages++; pages == 2 && between != nil {
				run := between
				between = nil
				run()
			}
		}
	}}), func(c *Config) { c.MaxMembersCountedOnWrite = 400 })
	users := n.MakeUsers(membersPerPage + 1)
	room := n.createConversation(Room, users[:400]...)
	recalled := n.send(users[0], room)
	n.runJobs()
	between = func() {
		n.mustCommit(n.Recall(users[0], recalled), nil)
		n.send(users[0], room, users[1])
		n.mustCommit(n.RemoveMembers(users[0], room, users[2:3]))
	}
	n.mustCommit(n.AddMembers(users[0], room, users[400:]))
	locked = false
	n.runJobs()
	if way := n.countingWayOf(room); way != OnRead || between != nil {
		t.Fatalf("counted by %s", way)
	}
	n.wantCounts("mentioned", users[1], 1, 1)
	n.wantCounts("recalled", users[3], 1, 0)
	n.wantCounts("removed", users[2], 0, 0)
	n.wantCounts("added", users[400], 1, 0)
}

// Above the limit of members a message is not projected to all: only the rows of its author and of the mentioned users are.
func TestALargeConversationIsCountedWhenRead(t *testing.T) {
	n := newNode(fanouttest.New(t, fanouttest.Options{}), func(c *Config) { c.MaxMembersCountedOnWrite = 3 })
	users := n.MakeUsers(5)
	room := n.createConversation(Room, users[:3]...)
	n.send(users[0], room)
	n.mustCommit(n.Join(users[3], room), nil)
	n.runJobs()
	if way := n.countingWayOf(room); way != OnRead {
		t.Fatalf("counted by %s", way)
	}
	n.mustCommit(n.Join(users[4], room), nil)
	message := n.send(users[0], room, users[1])
	if waiting, _ := n.CountJobs(); waiting > 3 { // the jobs of the joiner, the author and the mentioned user
		t.Errorf("%d jobs wait", waiting)
	}
	n.runJobs()
	n.wantCounts("mentioned", users[1], 2, 1)
	n.wantCounts("joined before it", users[3], 1, 0)
	n.wantCounts("joined while it was counted at reading", users[4], 1, 0)
	n.wantCounts("the author", users[0], 0, 0)
	n.mustCommit(n.Recall(users[0], message), nil)
	n.runJobs()
	n.wantCounts("recalled", users[1], 1, 0)
	n.wantCounts("recalled", users[4], 0, 0)
	for _, user := range users[1:] {
		n.mustCommit(n.Quit(user, room), nil)
	}
	n.runJobs()
	if way := n.countingWayOf(room); way != OnWrite {
		t.Errorf("small again, and counted by %s", way)
	}
	n.wantCounts("left", users[2], 0, 0)
}

func TestMuteMentionsMutesMentionsToo(t *testing.T) {
	n := newNode(fanouttest.New(t, fanouttest.Options{}), func(c *Config) { c.MuteMentions = true })
	users := n.MakeUsers(2)
	group := n.createConversation(Group, users...)
	n.send(users[0], group, users[1])
	n.mustCommit(n.Mute(users[1], group, true), nil)
	n.runJobs()
	if unread, mentions := n.countsFromBadge(users[1]); unread != 0 || mentions != 0 {
		t.Errorf("%d unread, %d mentions", unread, mentions)
	}
}

// Messages that are committed together are projected to the members in one pass.
func TestMessagesCommittedTogetherTakeOnePass(t *testing.T) {
	n := redisServerNode(t)
	users := n.MakeUsers(3)
	group := n.createConversation(Group, users...)
	n.runJobs()
	cmds := make([]*jobs.Command, 200)
	for i := range cmds {
		cmds[i] = must(n.Service.Send(users[i%2], group, "hello", nil))
	}
	for _, err := range n.fan.Commit(t.Context(), cmds...) {
		n.Must(err)
	}
	before := n.Document(users[2]).Version
	for _, worker := range n.fan.Workers(1) {
		_, err := worker.RunOnce(t.Context())
		n.Must(err)
	}
	if n.Document(users[2]).Version == before {
		t.Error("the first pass did not come at once")
	}
	n.wantCounts("all", users[2], 200, 0)
	if waiting, _ := n.CountJobs(); waiting != 0 {
		t.Errorf("%d jobs wait", waiting)
	}
}

// The last of many messages is projected when it is due: workers find it without being woken.
func TestTheLastMessageIsProjectedWhenDue(t *testing.T) {
	n := newNode(fanouttest.New(t, fanouttest.Options{Jobs: func(cfg *jobs.Config) { cfg.PollInterval = time.Hour }}), nil)
	users := n.MakeUsers(3)
	group := n.createConversation(Group, users...)
	n.runJobs()
	ctx, stop := context.WithCancel(t.Context())
	var running errgroup.Group
	for _, worker := range n.fan.Workers(1) {
		running.Go(func() error { return worker.Run(ctx) })
	}
	n.Clock.RunInRealTime()
	for range 20 {
		n.send(users[0], group)
	}
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	for waiting := 1; waiting > 0; {
		select {
		case <-deadline.C:
			t.Fatalf("%d jobs wait", waiting)
		case <-time.After(time.Millisecond):
			waiting, _ = n.CountJobs()
		}
	}
	stop()
	_ = running.Wait() // the workers end with their context
	n.wantCounts("all", users[2], 20, 0)
}

func TestADisconnectedDeviceIsOutside(t *testing.T) {
	n := redisServerNode(t)
	users := n.MakeUsers(2)
	first, second := n.createConversation(Group, users...), n.createConversation(Direct, users...)
	n.mustCommit(n.Enter(users[1], first, "phone"), nil)
	n.mustCommit(n.Enter(users[1], second, "phone"), nil)
	n.mustCommit(n.Enter(users[1], second, "laptop"), nil)
	n.send(users[0], first)
	n.Must(n.EndDeviceLeases(t.Context(), users[1], "phone"))
	n.send(users[0], first)
	n.send(users[0], second)
	n.runJobs()
	n.wantCounts("the laptop is inside the second", users[1], 1, 0)
	n.Must(n.EndDeviceLeases(t.Context(), users[1], "laptop"))
	n.Must(n.EndDeviceLeases(t.Context(), users[1], "nothing"))
	n.send(users[0], second)
	n.runJobs()
	n.wantCounts("all are outside", users[1], 2, 0)
}

// must returns a command that was made without an error.
func must(cmd *jobs.Command, err error) *jobs.Command {
	if err != nil {
		panic(err)
	}
	return cmd
}

// awaitRedis waits until Redis answers again.
func awaitRedis(t *testing.T, redis *rdb.Projections) {
	t.Helper()
	eventually.Succeeds(t, 20*time.Second, "Redis answers", func() error { return redis.Client.Ping(t.Context()) })
}
