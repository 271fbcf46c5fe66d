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

// delays are what a busy machine takes from a test: a timer ticks, and each tick may be late. The nodes and their databases wait for the
// same processors, so the limits above are longer by as much.
type delays struct {
	mu   sync.Mutex
	sum  time.Duration // of all ticks until the last one
	last time.Time     // when the last tick came
}

const delayTick = 20 * time.Millisecond

// measureDelays measures until the test ends.
func measureDelays(t *testing.T) *delays {
	d := &delays{last: time.Now()}
	go func() {
		for {
			timer := time.NewTimer(delayTick)
			select {
			case <-t.Context().Done():
				timer.Stop()
				return
			case <-timer.C:
				d.mu.Lock()
				now := time.Now()
				d.sum, d.last = d.sum+d.overdue(now), now
				d.mu.Unlock()
			}
		}
	}()
	return d
}

// overdue is by how much the next tick is late. The caller holds mu.
func (d *delays) overdue(now time.Time) time.Duration { return max(0, now.Sub(d.last)-delayTick) }

func (d *delays) total() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sum + d.overdue(time.Now())
}

// fault is when something was done to a node or a database.
type fault struct {
	at     time.Time
	delays time.Duration // the total until then
}

func (c *chatters) faultNow() fault { return fault{time.Now(), c.delays.total()} }

// since returns the time since a fault, and how much of it the machine took.
func (c *chatters) since(f fault) (passed, delayed time.Duration) {
	return time.Since(f.at), c.delays.total() - f.delays
}

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
	delays        *delays
}

func startChatters(t *testing.T, database string) *chatters {
	c := &chatters{t: t, database: database, redis: redistest.Redis(t), delays: measureDelays(t)}
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

// wantNumbers checks the numbers of the second node after a fault. Once admittedWithin has passed, no number may be wrong and exact. At
// the latest after the time within, all numbers must be right and exact. Transactions that were in flight may still commit, so a
// number is right if it lies between the facts before and after the read. Both times are longer by what the machine was late.
func (c *chatters) wantNumbers(after fault, within time.Duration) {
	c.t.Helper()
	lies, stale := 0, 0
	world.EventuallySucceeds(c.t, world.RequestTimeout, func() error { // took is checked below
		passed, delayed := c.since(after)
		late, wrong := passed > admittedWithin+delayed, 0
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
	took, delayed := c.since(after)
	took, delayed = took.Round(time.Millisecond), delayed.Round(time.Millisecond)
	c.t.Logf("right and exact after %v; %d answers were not exact; the machine was late by %v", took, stale, delayed)
	if lies > 0 {
		c.t.Errorf("%d answers were wrong and exact more than %v after the kill; the machine was late by %v", lies, admittedWithin, delayed)
	}
	if took > within+delayed {
		c.t.Errorf("right and exact only after %v, want %v; the machine was late by %v", took, within, delayed)
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
				killed := c.faultNow()
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
		started := c.faultNow()
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
		paused := c.faultNow()
		enough.Store(true)
		c.wantNumbers(paused, repairedWithin)
		if err := pid.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		done()
		c.wantNumbers(c.faultNow(), repairedWithin)
		c.a.WaitForJobs(world.ConvergenceTimeout)
	}
}
