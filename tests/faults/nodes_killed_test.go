package faults

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/chat"
	"tidings/services/people"
	"tidings/services/redis/redistest"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

const (
	// admittedWithin is the longest time after the kill of a node in which another node may still show wrong numbers as exact.
	admittedWithin = time.Second
	// repairedWithin is the time within which the numbers must be right and exact again.
	repairedWithin = 5 * time.Second
)

// chatters are two nodes on one PostgreSQL and one Redis, and people who get messages through the first node.
type chatters struct {
	t             *testing.T
	database      string
	redis         string
	a, b          *world.Process
	facts         *sql.DB // the same database, read without a node
	readers       []string
	conversations []string
	acked         atomic.Int64 // messages that were acknowledged
}

func startChatters(t *testing.T, database string) *chatters {
	c := &chatters{t: t, database: database, redis: redistest.Redis(t)}
	c.b = c.start("b")
	c.a = c.start("a")
	c.facts = sqltest.Open(t, sql.Config{URL: c.database})
	for i := range 20 {
		reader := fmt.Sprintf("reader-%d", i)
		var data struct {
			CreateConversation struct{ Conversation struct{ ID string } }
		}
		for _, step := range []struct{ as, query string }{
			{reader, `{viewer{badges{total{value}}}}`},
			{"sender", `mutation{createConversation(input:{kind:DIRECT,memberIds:["user:` + reader + `"]}){conversation{id}}}`},
		} {
			if err := world.Ask(c.b.URL, step.as, step.query, nil, &data); err != nil {
				t.Fatal(err)
			}
		}
		c.readers = append(c.readers, reader)
		c.conversations = append(c.conversations, data.CreateConversation.Conversation.ID)
	}
	return c
}

func (c *chatters) start(name string) *world.Process {
	c.t.Helper()
	return world.StartProcess(c.t, "", "--database", c.database, "--redis", c.redis, "--node", name)
}

// send sends messages through the first node, four at a time, until the node no longer answers or stop returns true.
func (c *chatters) send(stop func() bool) (done func()) {
	var sending sync.WaitGroup
	for lane := range 4 {
		sending.Go(func() {
			for i := lane; !stop(); i += 4 {
				err := world.Ask(c.a.URL, "sender", `mutation($c:ID!){sendMessage(input:{conversationId:$c,body:"hello"}){message{id}}}`,
					map[string]any{"c": c.conversations[i%len(c.conversations)]}, nil)
				if err != nil {
					return
				}
				c.acked.Add(1)
			}
		})
	}
	return sending.Wait
}

// countUnreadInSQL counts each reader's unread messages in SQL.
func (c *chatters) countUnreadInSQL() (unread []int) {
	c.t.Helper()
	numbers, err := people.IDs(c.t.Context(), c.facts, c.readers)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, reader := range c.readers {
		states, err := chat.MembershipsOf(c.t.Context(), c.facts, numbers[reader], 0, time.Time{}, 100)
		if err != nil {
			c.t.Fatal(err)
		}
		sum := 0
		for _, state := range states {
			sum += int(state.Unread())
		}
		unread = append(unread, sum)
	}
	return unread
}

// readCounts reads each reader's count of messages through a node.
func (c *chatters) readCounts(n *world.Process) (counts []world.Count) {
	c.t.Helper()
	for _, reader := range c.readers {
		var data struct {
			Viewer struct {
				Badges struct{ Conversations struct{ Total world.Count } }
			}
		}
		if err := world.Ask(n.URL, reader, `{viewer{badges{conversations{total{value precision}}}}}`, nil, &data); err != nil {
			c.t.Fatal(err)
		}
		counts = append(counts, data.Viewer.Badges.Conversations.Total)
	}
	return counts
}

// wantNumbers checks the numbers of the second node after a fault, which was at since. Once admittedWithin has passed, no number may be
// wrong and exact. At the latest after the time within, all numbers must be right and exact. Transactions that were in flight may
// still commit, so a number is right if it lies between the facts before and after the read.
func (c *chatters) wantNumbers(since time.Time, within time.Duration) {
	c.t.Helper()
	lies, stale := 0, 0
	world.EventuallySucceeds(c.t, world.ConvergenceTimeout, func() error {
		late, wrong := time.Since(since) > admittedWithin, 0
		least, shown := c.countUnreadInSQL(), c.readCounts(c.b)
		most := c.countUnreadInSQL()
		for i, got := range shown {
			right := got.Value >= least[i] && got.Value <= most[i]
			switch {
			case got.Precision != string(services.Exact):
				stale, wrong = stale+1, wrong+1
			case !right:
				wrong++
				if late {
					lies++
				}
			}
		}
		if wrong > 0 {
			return fmt.Errorf("%d of %d readers are shown something else than the facts", wrong, len(shown))
		}
		return nil
	})
	took := time.Since(since)
	c.t.Logf("right and exact after %v; %d answers were not exact", took.Round(time.Millisecond), stale)
	if lies > 0 {
		c.t.Errorf("%d answers were wrong and exact more than %v after the kill", lies, admittedWithin)
	}
	if took > within {
		c.t.Errorf("right and exact only after %v, want %v", took.Round(time.Millisecond), within)
	}
}

// A node is killed while it projects acknowledged changes. The other node shows no wrong count as exact for long, whether or
// not the killed node restarts under its name.
func TestKilledNodeLeavesNoWrongNumbers(t *testing.T) {
	for _, again := range []bool{false, true} {
		t.Run(fmt.Sprintf("it starts again %t", again), func(t *testing.T) {
			c := startChatters(t, sqltest.Postgres(t))
			for range 4 {
				goal := c.acked.Load() + 100
				done := c.send(func() bool { return false })
				world.Eventually(t, world.RequestTimeout, "a hundred messages are acknowledged", func() bool { return c.acked.Load() >= goal })
				c.a.Kill()
				killed := time.Now()
				done()
				if again {
					c.a = c.start("a")
				}
				c.wantNumbers(killed, repairedWithin)
				if !again {
					c.a = c.start("a")
				}
			}
			if !slices.ContainsFunc(c.countUnreadInSQL(), func(unread int) bool { return unread > 0 }) {
				t.Error("nothing was unread: the test has proved nothing")
			}
		})
	}
}

// PostgreSQL is killed while both nodes project acknowledged changes. After it is back no job is late, because a node releases
// the jobs for which PostgreSQL did not answer the claim or the end.
func TestKilledPostgresLeavesNothingLate(t *testing.T) {
	server := sqltest.NewServer(t)
	c := startChatters(t, server.Database(t))
	for range 4 {
		goal := c.acked.Load() + 100
		done := c.send(func() bool { return false })
		world.Eventually(t, world.RequestTimeout, "a hundred messages are acknowledged", func() bool { return c.acked.Load() >= goal })
		server.Kill()
		done()
		server.Start(t)
		started := time.Now()
		world.Eventually(t, world.RequestTimeout, "the database answers", func() bool { return c.facts.Ping(t.Context()) == nil })
		c.wantNumbers(started, repairedWithin)
	}
}

// A node hangs until the other node considers it dead, and then continues. Its late writes have no effect.
func TestPausedNodeIsHarmless(t *testing.T) {
	c := startChatters(t, sqltest.Postgres(t))
	for range 2 {
		goal := c.acked.Load() + 100
		var enough atomic.Bool
		done := c.send(enough.Load)
		world.Eventually(t, world.RequestTimeout, "a hundred messages are acknowledged", func() bool { return c.acked.Load() >= goal })
		pid := c.a.Command.Process
		if err := pid.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		paused := time.Now()
		enough.Store(true)
		c.wantNumbers(paused, repairedWithin)
		if err := pid.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		done()
		c.wantNumbers(time.Now(), repairedWithin)
		c.a.WaitForJobs(world.ConvergenceTimeout)
	}
}
