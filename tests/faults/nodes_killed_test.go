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
	// markedStaleWithin is the longest time after the kill of a node in which another node may still show wrong numbers as exact.
	markedStaleWithin = time.Second
	// exactAgainWithin is the time within which the numbers must be right and exact again.
	exactAgainWithin = 5 * time.Second
)

// machineDelays measures by how much a busy machine delays a test: it adds up how late each tick of a timer is. The nodes and their
// databases wait for the same processors, so the tests extend markedStaleWithin and exactAgainWithin by this time.
type machineDelays struct {
	mu         sync.Mutex    // guards the fields below
	pastDelays time.Duration // the sum of the delays of all ticks so far
	lastTickAt time.Time     // when the last tick came
}

// delayTickInterval is the time between two ticks of machineDelays, if none is late.
const delayTickInterval = 20 * time.Millisecond

// measureDelays starts to measure the delays of the machine. It goes on until the test ends.
func measureDelays(t *testing.T) *machineDelays {
	d := &machineDelays{lastTickAt: time.Now()}
	go func() {
		for {
			timer := time.NewTimer(delayTickInterval)
			select {
			case <-t.Context().Done():
				timer.Stop()
				return
			case <-timer.C:
				d.mu.Lock()
				now := time.Now()
				d.pastDelays, d.lastTickAt = d.pastDelays+d.overdueBy(now), now
				d.mu.Unlock()
			}
		}
	}()
	return d
}

// overdueBy returns by how much the next tick is late at a time; 0 if it is not. The caller holds mu.
func (d *machineDelays) overdueBy(now time.Time) time.Duration {
	return max(0, now.Sub(d.lastTickAt)-delayTickInterval)
}

// totalDelay returns the sum of all delays so far, including that of the tick that is due.
func (d *machineDelays) totalDelay() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.pastDelays + d.overdueBy(time.Now())
}

// faultTime is the moment at which a test killed, paused or restarted a node or a database.
type faultTime struct {
	at               time.Time
	totalDelayBefore time.Duration // the machine's totalDelay at that moment
}

// newFaultTime returns the present moment as that of a fault.
func (c *chatNodes) newFaultTime() faultTime { return faultTime{time.Now(), c.delays.totalDelay()} }

// sinceFault returns the time since a fault, and by how much the machine delayed the test in this time.
func (c *chatNodes) sinceFault(f faultTime) (passed, delayed time.Duration) {
	return time.Since(f.at), c.delays.totalDelay() - f.totalDelayBefore
}

// chatNodes are two nodes on one PostgreSQL and one Redis, and readers who get messages that are sent through nodeA. The tests kill or
// pause nodeA, or kill PostgreSQL, and check the counts that nodeB shows.
type chatNodes struct {
	t               *testing.T
	databaseURL     string
	redisURL        string
	nodeA, nodeB    *world.Process
	factsDB         *sql.DB        // the same database, read without a node
	readers         []string       // the keys of the readers
	conversationIDs []string       // the conversation of the sender with each reader
	ackedMessages   atomic.Int64   // messages that were acknowledged
	delays          *machineDelays // by which the time limits of the tests are extended
}

// startChatNodes starts both nodes on a database and makes 20 readers, each in a conversation with the sender.
func startChatNodes(t *testing.T, database string) *chatNodes {
	c := &chatNodes{t: t, databaseURL: database, redisURL: redistest.Redis(t), delays: measureDelays(t)}
	c.nodeB = c.start("b")
	c.nodeA = c.start("a")
	c.factsDB = sqltest.Open(t, sql.Config{URL: c.databaseURL})
	for i := range 20 {
		reader := fmt.Sprintf("reader-%d", i)
		var data struct {
			CreateConversation struct{ Conversation struct{ ID string } }
		}
		for _, step := range []struct{ as, query string }{
			{reader, `{viewer{badges{total{value}}}}`},
			{"sender", `mutation{createConversation(input:{kind:DIRECT,memberIds:["user:` + reader + `"]}){conversation{id}}}`},
		} {
			if err := world.Ask(c.nodeB.URL, step.as, step.query, nil, &data); err != nil {
				t.Fatal(err)
			}
		}
		c.readers = append(c.readers, reader)
		c.conversationIDs = append(c.conversationIDs, data.CreateConversation.Conversation.ID)
	}
	return c
}

// start starts a node under a name.
func (c *chatNodes) start(name string) *world.Process {
	c.t.Helper()
	return world.StartServingProcess(c.t, "", "--database", c.databaseURL, "--redis", c.redisURL, "--node", name)
}

// sendMessages starts to send messages through nodeA, four at a time, until the node no longer answers or stop returns true. done waits
// for the end of the last request.
func (c *chatNodes) sendMessages(stop func() bool) (done func()) {
	var sending sync.WaitGroup
	for sender := range 4 {
		sending.Go(func() {
			for i := sender; !stop(); i += 4 {
				err := world.Ask(c.nodeA.URL, "sender", `mutation($c:ID!){sendMessage(input:{conversationId:$c,body:"hello"}){message{id}}}`,
					map[string]any{"c": c.conversationIDs[i%len(c.conversationIDs)]}, nil)
				if err != nil {
					return
				}
				c.ackedMessages.Add(1)
			}
		})
	}
	return sending.Wait
}

// countUnreadInSQL returns each reader's number of unread messages by the facts in SQL.
func (c *chatNodes) countUnreadInSQL() (unread []int) {
	c.t.Helper()
	ids, err := people.IDs(c.t.Context(), c.factsDB, c.readers)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, reader := range c.readers {
		states, err := chat.MembershipsOf(c.t.Context(), c.factsDB, ids[reader], 0, time.Time{}, 100)
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

// readUnreadCounts reads each reader's count of unread messages, as a node shows it in the badges.
func (c *chatNodes) readUnreadCounts(n *world.Process) (counts []world.Count) {
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

// wantCountsAfterFault checks the counts that nodeB shows after a fault. Once markedStaleWithin has passed, no count may be wrong
// and called exact. At the latest after the time within, all counts must be right and exact. Transactions that had begun may
// still commit, so a count is right if it lies between the facts before and after the read. Both times are extended by the delay
// of the machine since the fault.
func (c *chatNodes) wantCountsAfterFault(after faultTime, within time.Duration) {
	c.t.Helper()
	lies, stale := 0, 0
	world.EventuallySucceeds(c.t, world.RequestTimeout, func() error { // the time is checked below
		passed, delayed := c.sinceFault(after)
		late, wrong := passed > markedStaleWithin+delayed, 0
		least, shown := c.countUnreadInSQL(), c.readUnreadCounts(c.nodeB)
		most := c.countUnreadInSQL()
		for i, got := range shown {
			right := got.Value >= least[i] && got.Value <= most[i]
			switch {
			case got.Precision != services.Exact.String():
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
	took, delayed := c.sinceFault(after)
	took, delayed = took.Round(time.Millisecond), delayed.Round(time.Millisecond)
	c.t.Logf("right and exact after %v; %d answers were not exact; the machine was late by %v", took, stale, delayed)
	if lies > 0 {
		c.t.Errorf("%d answers were wrong and exact more than %v after the kill; the machine was late by %v", lies, markedStaleWithin, delayed)
	}
	if took > within+delayed {
		c.t.Errorf("right and exact only after %v, want %v; the machine was late by %v", took, within, delayed)
	}
}

// A node is killed while it writes the projections of acknowledged messages. Soon the other node shows no wrong count as exact, whether
// or not the killed node restarts under its name.
func TestKilledNodeLeavesNoWrongNumbers(t *testing.T) {
	for _, again := range []bool{false, true} {
		t.Run(fmt.Sprintf("it starts again %t", again), func(t *testing.T) {
			c := startChatNodes(t, sqltest.Postgres(t))
			for range 4 {
				goal := c.ackedMessages.Load() + 100
				done := c.sendMessages(func() bool { return false })
				world.Eventually(t, world.RequestTimeout, "a hundred messages are acknowledged", func() bool { return c.ackedMessages.Load() >= goal })
				c.nodeA.Kill()
				killed := c.newFaultTime()
				done()
				if again {
					c.nodeA = c.start("a")
				}
				c.wantCountsAfterFault(killed, exactAgainWithin)
				if !again {
					c.nodeA = c.start("a")
				}
			}
			if !slices.ContainsFunc(c.countUnreadInSQL(), func(unread int) bool { return unread > 0 }) {
				t.Error("nothing was unread: the test has proved nothing")
			}
		})
	}
}

// PostgreSQL is killed while both nodes write the projections of acknowledged messages. After it is back no job is late: a node that had
// no answer from PostgreSQL when it claimed or finished jobs gives their leases back.
func TestKilledPostgresLeavesNothingLate(t *testing.T) {
	server := sqltest.NewServer(t)
	c := startChatNodes(t, server.NewDatabase(t))
	for range 4 {
		goal := c.ackedMessages.Load() + 100
		done := c.sendMessages(func() bool { return false })
		world.Eventually(t, world.RequestTimeout, "a hundred messages are acknowledged", func() bool { return c.ackedMessages.Load() >= goal })
		server.Kill()
		done()
		server.Start(t)
		started := c.newFaultTime()
		world.Eventually(t, world.RequestTimeout, "the database answers", func() bool { return c.factsDB.Ping(t.Context()) == nil })
		c.wantCountsAfterFault(started, exactAgainWithin)
	}
}

// A node hangs until the other node considers it dead, and then continues. Its late writes have no effect.
func TestLateWritesOfAPausedNodeHaveNoEffect(t *testing.T) {
	c := startChatNodes(t, sqltest.Postgres(t))
	for range 2 {
		goal := c.ackedMessages.Load() + 100
		var enough atomic.Bool
		done := c.sendMessages(enough.Load)
		world.Eventually(t, world.RequestTimeout, "a hundred messages are acknowledged", func() bool { return c.ackedMessages.Load() >= goal })
		pid := c.nodeA.Command.Process
		if err := pid.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		paused := c.newFaultTime()
		enough.Store(true)
		c.wantCountsAfterFault(paused, exactAgainWithin)
		if err := pid.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		done()
		c.wantCountsAfterFault(c.newFaultTime(), exactAgainWithin)
		c.nodeA.WaitForJobs(world.RedisLossRecoveryTimeout)
	}
}
