package webhooks

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/leases"
	"tidings/services/people/peopletest"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
	"tidings/tests/histories"
)

// sendWithoutRecording does a round and does not record it, like a process that is killed or paused before the record.
func (d *deliverer) sendWithoutRecording(ctx context.Context) error {
	if err := d.lease.Hold(ctx); err != nil {
		return err
	}
	e, found, err := readEndpoint(ctx, d.s.db, readWebhook, d.name)
	if err != nil || !found || e.leaseToken != d.lease.Token() {
		return leases.ErrLeaseLost
	}
	if d.unsavedOutcome != nil {
		return nil
	}
	items, all, err := d.planRound(ctx, e)
	if err != nil || len(items) == 0 {
		return err
	}
	d.unsavedOutcome = d.outcomeOfRound(e, items, all, d.send(ctx, e, items))
	return nil
}

// competingNodes is nodes that take over an endpoint from each other.
type competingNodes struct {
	*testWorld
	random            *rand.Rand   // draws the events
	nodes             []*deliverer // the nodes' deliverers of the one endpoint
	nodesWithoutLease []*deliverer // deliverers that lost the lease while the outcome of a round was not saved
}

// runRandomEvent lets one thing happen at random: a change of a user's likes, a step or a crash of a node, or a passage of time.
func (c *competingNodes) runRandomEvent(users []services.UserID) {
	i := c.random.IntN(len(c.nodes))
	switch c.random.IntN(8) {
	case 0, 1, 2:
		c.changeLikes(c.random.IntN(9), users[c.random.IntN(len(users))])
	case 3: // killed, or paused, between the requests and their record; another node takes over
		_ = c.nodes[i].sendWithoutRecording(c.Ctx)
		c.takeOverEndpoint()
		c.nodesWithoutLease = append(c.nodesWithoutLease, c.nodes[i])
		c.nodes[i] = delivererOf(c.newNode(), "app")
	case 4:
		c.takeOverEndpoint()
	case 5:
		c.Clock.Advance(time.Duration(c.random.IntN(20)) * time.Minute)
	default:
		_, _ = c.nodes[i].Step(c.Ctx) // another node may have the lease
	}
	if len(c.nodesWithoutLease) > 0 && c.random.IntN(3) == 0 { // a paused node wakes and tries to record its round
		late := c.nodesWithoutLease[0]
		c.nodesWithoutLease = c.nodesWithoutLease[1:]
		if late.unsavedOutcome != nil {
			if err := late.save(c.Ctx); err != leases.ErrLeaseLost {
				c.T.Errorf("a node without the lease recorded a round: %v", err)
			}
		}
	}
}

// takeOverEndpoint ends the lease and gives the endpoint to another node.
func (c *competingNodes) takeOverEndpoint() {
	c.MustWrite(func(tx *sql.Tx) error { _, err := tx.Run(c.Ctx, endAllLeases); return err })
	next := delivererOf(c.newNode(), "app")
	if err := next.lease.Hold(c.Ctx); err != nil {
		c.T.Errorf("a free endpoint: %v", err)
	}
	c.nodes[c.random.IntN(len(c.nodes))] = next
}

// Nodes die between any two steps, and receivers fail at random: versions arrive in their order, one id is one version, and in
// the end the last accepted event of each user has their present badges.
func TestCrashBetweenAnySteps(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		t := b.T
		w := newTestWorld(b)
		for seed := range histories.ShortOrFull(t, 6, 60) {
			random := rand.New(rand.NewPCG(uint64(seed), 1))
			prefix := fmt.Sprintf("s%d-", seed)
			keys := []string{prefix + "ann", prefix + "bob", prefix + "cat", prefix + "dan", prefix + "eve"}
			users := b.MakeUsers(keys...)
			s := w.newNode()
			w.addEndpoint(s, Filter{})
			c := &competingNodes{testWorld: w, random: random, nodes: []*deliverer{delivererOf(s, "app"), delivererOf(w.newNode(), "app")}}
			for _, d := range c.nodes {
				d.s.changesPerRound = 2
			}
			rude := rand.New(rand.NewPCG(uint64(seed), 2))
			w.receiver.setAnswer(func(to http.ResponseWriter, _ delivery) {
				w.mu.Lock()
				defer w.mu.Unlock()
				if rude.IntN(3) == 0 {
					to.WriteHeader([]int{500, 302, 429, 404}[rude.IntN(4)])
				}
			})
			for range 80 {
				c.runRandomEvent(users)
			}
			w.receiver.answerWith(http.StatusOK)
			c.takeOverEndpoint()
			for range 4 {
				b.Clock.Advance(time.Hour)
				for _, d := range c.nodes {
					for wait := time.Duration(0); wait == 0; {
						var err error
						if wait, err = d.Step(b.Ctx); err != nil {
							break // another one delivers
						}
					}
				}
			}
			got := w.receiver.takeDeliveries()
			totals, version := w.acceptedTotals(got), map[string]string{}
			for i, user := range users {
				if w.likes[user] != totals[keys[i]] {
					t.Errorf("seed %d: %s has %d likes and got %d", seed, keys[i], w.likes[user], totals[keys[i]])
				}
			}
			for _, d := range got {
				if of := d.Data.Key + d.Data.Version; version[d.ID] != "" && version[d.ID] != of {
					t.Errorf("seed %d: %s is %s and %s", seed, d.ID, version[d.ID], of)
				} else {
					version[d.ID] = of
				}
			}
			if w.receiver.requestsOverlapped {
				t.Errorf("seed %d: two requests for a user were under way at once", seed)
			}
			sqltest.Equal(t, s.Remove(b.Ctx, "app"), nil)
			if t.Failed() {
				return
			}
		}
	})
}

// A change that moves behind others before it is read still alerts, and only once.
func TestAChangeThatMovedAlertsOnce(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		t := b.T
		w := newTestWorld(b)
		users := b.MakeUsers("ann", "bob", "cat")
		s := w.newNode()
		s.changesPerRound = 2
		w.addEndpoint(s, Filter{})
		d := delivererOf(s, "app")
		w.deliverAll(d)
		alert := func(likes int, user services.UserID) { w.changeLikes(likes, user) }
		fall := func(likes int, user services.UserID) {
			w.mu.Lock()
			w.likes[user] = likes
			w.mu.Unlock()
			sqltest.Equal(t, w.stream.Mark(b.Ctx, []services.UserID{user}), nil)
			w.writeStream()
		}
		alert(5, users[0])
		alert(1, users[1])
		alert(1, users[2])
		fall(3, users[0]) // the change is behind the others now, and its alert is older than theirs
		for range 2 {
			sqltest.Must(d.Step(b.Ctx))(t)
		}
		loud := map[string]int{}
		for _, d := range w.receiver.takeDeliveries() {
			if !d.Data.Silent {
				loud[d.Data.Key]++
			}
		}
		sqltest.Equal(t, loud, map[string]int{"ann": 1, "bob": 1, "cat": 1})

		w.deliverAll(d)
		alert(6, users[0])
		alert(2, users[1])
		alert(2, users[2])
		sqltest.Must(d.Step(b.Ctx))(t) // ann and bob; more is left
		fall(4, users[0])
		w.deliverAll(d)
		clear(loud)
		for _, d := range w.receiver.takeDeliveries() {
			if !d.Data.Silent {
				loud[d.Data.Key]++
			}
		}
		sqltest.Equal(t, loud, map[string]int{"ann": 1, "bob": 1, "cat": 1})
	})
}

// Only one node delivers, and another one takes over when the lease ends.
func TestOneNodeDelivers(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		t := b.T
		w := newTestWorld(b)
		users := b.MakeUsers("ann")
		first, second := w.newNode(), w.newNode()
		w.addEndpoint(first, Filter{})
		here, there := delivererOf(first, "app"), delivererOf(second, "app")
		w.deliverAll(here)
		if _, err := there.Step(b.Ctx); err != leases.ErrLeaseLost {
			t.Fatalf("two nodes deliver: %v", err)
		}
		sqltest.Equal(t, sqltest.Must(second.pool.FreeRows(b.Ctx))(t), []string(nil))
		w.changeLikes(1, users...)
		sqltest.Equal(t, here.sendWithoutRecording(b.Ctx), nil)
		b.MustWrite(func(tx *sql.Tx) error { _, err := tx.Run(b.Ctx, endAllLeases); return err })
		sqltest.Equal(t, sqltest.Must(second.pool.FreeRows(b.Ctx))(t), []string{"app"})
		w.deliverAll(there)
		if _, err := here.Step(b.Ctx); err != leases.ErrLeaseLost {
			t.Errorf("the node before: %v", err)
		}
		got := w.receiver.takeDeliveries()
		if len(got) != 2 || got[0].ID != got[1].ID || got[0].body != got[1].body {
			t.Errorf("%+v", got)
		}
		there.Resign(b.Ctx)
		sqltest.Equal(t, sqltest.Must(first.pool.FreeRows(b.Ctx))(t), []string{"app"})
	})
}
