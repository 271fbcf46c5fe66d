package devices

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/devices/devicestest"
	"tidings/services/leases"
	"tidings/services/people/peopletest"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
	"tidings/tests/eventually"
	"tidings/tests/histories"
)

// cluster is nodes that take over the devices from each other, and browsers that change hands.
type cluster struct {
	*world
	random  *rand.Rand
	users   []services.UserID
	names   []string                   // of browsers
	owner   map[string]services.UserID // by browser; 0: not registered
	nodes   []*courier                 // the couriers of the running nodes
	stopped []*courier                 // killed or paused, with outcomes that are not recorded yet
	hangs   atomic.Bool                // no request is answered
}

// act does one thing at random.
func (c *cluster) act() {
	i := c.random.IntN(len(c.nodes))
	switch c.random.IntN(11) {
	case 0, 1, 2:
		c.like(c.random.IntN(9), c.users[c.random.IntN(len(c.users))])
	case 3: // killed, or paused, between the requests and their record; another node takes over
		_, _ = c.nodes[i].Step(c.Ctx)
		c.nodes[i].sending.Wait()
		c.takeOver()
		c.stopped = append(c.stopped, c.nodes[i])
		c.nodes[i] = newCourier(c.newNode())
	case 10: // killed while requests are in progress, which the push service never took
		c.hangs.Store(true)
		ctx, kill := context.WithCancel(c.Ctx)
		for range 2 {
			_, _ = c.nodes[i].Step(ctx)
		}
		kill()
		c.nodes[i].sending.Wait()
		c.push.Restart() // what it has not read yet must not arrive after the next node's requests
		eventually.HoldsWithin(c.T, 20*time.Second, "the push service sees that nobody waits", func() bool { return c.push.Underway() == 0 })
		c.hangs.Store(false)
		c.takeOver()
		c.nodes[i] = newCourier(c.newNode())
	case 4:
		c.nodes[i].sending.Wait()
		c.takeOver()
	case 5:
		c.Clock.Advance(time.Duration(c.random.IntN(20)) * time.Minute)
	case 6: // somebody signs in, or out
		name, user := c.names[c.random.IntN(len(c.names))], c.users[c.random.IntN(len(c.users))]
		if c.random.IntN(4) > 0 || c.owner[name] == 0 {
			c.register(c.nodes[i].s, user, name)
			c.owner[name] = user
			return
		}
		sqltest.Must(c.nodes[i].s.Unregister(c.Ctx, c.owner[name], "", c.browsers[name].Endpoint))(c.T)
		c.owner[name] = 0
	default:
		_, _ = c.nodes[i].Step(c.Ctx) // this node may not hold the lease
	}
	if len(c.stopped) > 0 && c.random.IntN(3) == 0 { // a stopped node wakes and tries to record its outcomes
		late := c.stopped[0]
		c.stopped = c.stopped[1:]
		if len(late.unrecorded) > 0 {
			if err := late.record(c.Ctx); err != leases.ErrLeaseLost {
				c.T.Errorf("a node without the lease recorded something: %v", err)
			}
		}
	}
}

// takeOver ends the lease and gives the devices to another node.
func (c *cluster) takeOver() {
	for _, one := range c.nodes {
		one.sending.Wait() // a lease outlasts the requests that began in it
	}
	c.MustWrite(func(tx *sql.Tx) error { _, err := tx.Run(c.Ctx, endLease); return err })
	next := newCourier(c.newNode())
	if err := next.lease.Hold(c.Ctx); err != nil {
		c.T.Errorf("free devices: %v", err)
	}
	c.nodes[c.random.IntN(len(c.nodes))] = next
}

// drain lets push services answer again, gives the devices to a new node, and lets the nodes send until nothing is left to send.
func (c *cluster) drain() {
	c.push.SetAnswer(nil)
	c.takeOver()
	for range 4 {
		c.Clock.Advance(time.Hour)
		for _, one := range c.nodes {
			for {
				wait, err := one.Step(c.Ctx)
				if err != nil || wait == poll {
					break // another node sends, or nothing is left to send
				}
				one.sending.Wait()
			}
		}
	}
}

// Nodes die between any two steps, push services fail at random, and browsers change hands. Still the versions of a browser rise,
// two messages for one browser are never under way at once, and in the end its last message has its user's present number.
func TestCrashBetweenAnySteps(t *testing.T) {
	peopletest.EachBundle(t, func(b *peopletest.Bundle) {
		t := b.T
		w := newWorld(b)
		for seed := range histories.Number(t, 6, 60) {
			random := rand.New(rand.NewPCG(uint64(seed), 1))
			c := &cluster{world: w, random: random, owner: map[string]services.UserID{}}
			var keys []string
			for i := range 5 {
				keys = append(keys, fmt.Sprintf("s%d-u%d", seed, i))
				c.names = append(c.names, fmt.Sprintf("s%d-b%d", seed, i))
			}
			c.users = b.MakeUsers(keys...)
			c.nodes = []*courier{newCourier(w.newNode()), newCourier(w.newNode())}
			for _, one := range c.nodes {
				one.s.batch = 2
			}
			for i, name := range c.names {
				w.register(c.nodes[0].s, c.users[i], name)
				c.owner[name] = c.users[i]
			}
			rude := rand.New(rand.NewPCG(uint64(seed), 2))
			w.push.SetAnswer(func(to http.ResponseWriter, r *http.Request, _ devicestest.Message) bool {
				if c.hangs.Load() {
					<-r.Context().Done()
					return false
				}
				w.mu.Lock()
				defer w.mu.Unlock()
				if rude.IntN(3) == 0 {
					to.WriteHeader([]int{500, 302, 429, 403}[rude.IntN(4)])
					return false
				}
				to.WriteHeader(http.StatusCreated)
				return true
			})
			for range 80 {
				c.act()
			}
			c.drain()
			for _, name := range c.names {
				user := c.owner[name]
				written := sqltest.Must(w.stream.ChangesOf(b.Ctx, []services.UserID{user}))(t)[user]
				if written.Seq == 0 {
					continue // the device has no user, or a user without a change: its last message may be of an earlier user
				}
				m, some := w.push.Last(name)
				if !some || m.Total != w.likes[user] || m.UserID != services.GlobalID(services.UserType, written.Key) {
					t.Errorf("seed %d: the user of %s has %d, and it got %+v", seed, name, w.likes[user], m)
				}
			}
			for _, name := range c.names {
				if owner := c.owner[name]; owner != 0 {
					sqltest.Must(c.nodes[0].s.Unregister(b.Ctx, owner, "", w.browsers[name].Endpoint))(t)
				}
			}
			if t.Failed() {
				return
			}
		}
	})
}
