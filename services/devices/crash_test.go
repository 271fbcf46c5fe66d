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

// deviceCluster is nodes that take over the devices from each other, and browsers that change hands.
type deviceCluster struct {
	*deviceWorld
	random           *rand.Rand
	users            []services.UserID          // who sign in to the browsers
	browserNames     []string                   // the names of all browsers
	ownerByBrowser   map[string]services.UserID // by browser; 0: not registered
	senders          []*deviceSender            // of the running nodes
	stoppedSenders   []*deviceSender            // killed or paused, with outcomes that are not recorded yet
	pushServiceHangs atomic.Bool                // no request is answered
}

// runRandomStep does one thing at random.
func (c *deviceCluster) runRandomStep() {
	i := c.random.IntN(len(c.senders))
	switch c.random.IntN(11) {
	case 0, 1, 2:
		c.setLikes(c.random.IntN(9), c.users[c.random.IntN(len(c.users))])
	case 3: // killed, or paused, between the requests and their record; another node takes over
		_, _ = c.senders[i].Step(c.Ctx)
		c.senders[i].runningRequests.Wait()
		c.moveDevicesToNewNode()
		c.stoppedSenders = append(c.stoppedSenders, c.senders[i])
		c.senders[i] = newTestSender(c.newNode())
	case 10: // killed while requests are in progress, which the push service never took
		c.pushServiceHangs.Store(true)
		ctx, kill := context.WithCancel(c.Ctx)
		for range 2 {
			_, _ = c.senders[i].Step(ctx)
		}
		kill()
		c.senders[i].runningRequests.Wait()
		c.pushService.Restart() // what it has not read yet must not arrive after the next node's requests
		eventually.HoldsWithin(c.T, 20*time.Second, "the push service sees that nobody waits", func() bool { return c.pushService.RequestsUnderway() == 0 })
		c.pushServiceHangs.Store(false)
		c.moveDevicesToNewNode()
		c.senders[i] = newTestSender(c.newNode())
	case 4:
		c.senders[i].runningRequests.Wait()
		c.moveDevicesToNewNode()
	case 5:
		c.Clock.Advance(time.Duration(c.random.IntN(20)) * time.Minute)
	case 6: // somebody signs in, or out
		name, user := c.browserNames[c.random.IntN(len(c.browserNames))], c.users[c.random.IntN(len(c.users))]
		if c.random.IntN(4) > 0 || c.ownerByBrowser[name] == 0 {
			c.register(c.senders[i].devices, user, name)
			c.ownerByBrowser[name] = user
			return
		}
		sqltest.Must(c.senders[i].devices.Unregister(c.Ctx, c.ownerByBrowser[name], "", c.browsers[name].Endpoint))(c.T)
		c.ownerByBrowser[name] = 0
	default:
		_, _ = c.senders[i].Step(c.Ctx) // this node may not hold the lease
	}
	if len(c.stoppedSenders) > 0 && c.random.IntN(3) == 0 { // a stopped node wakes and tries to record its outcomes
		late := c.stoppedSenders[0]
		c.stoppedSenders = c.stoppedSenders[1:]
		if len(late.unrecorded) > 0 {
			if err := late.recordOutcomes(c.Ctx); err != leases.ErrLeaseLost {
				c.T.Errorf("a node without the lease recorded something: %v", err)
			}
		}
	}
}

// moveDevicesToNewNode ends the lease and gives the devices to another node.
func (c *deviceCluster) moveDevicesToNewNode() {
	for _, one := range c.senders {
		one.runningRequests.Wait() // a lease outlasts the requests that began in it
	}
	c.MustWrite(func(tx *sql.Tx) error { _, err := tx.Run(c.Ctx, endLease); return err })
	next := newTestSender(c.newNode())
	if err := next.lease.Hold(c.Ctx); err != nil {
		c.T.Errorf("free devices: %v", err)
	}
	c.senders[c.random.IntN(len(c.senders))] = next
}

// sendAllPending lets push services answer again, gives the devices to a new node, and lets the nodes send until nothing is left to
// send.
func (c *deviceCluster) sendAllPending() {
	c.pushService.SetAnswer(nil)
	c.moveDevicesToNewNode()
	for range 4 {
		c.Clock.Advance(time.Hour)
		for _, one := range c.senders {
			for {
				wait, err := one.Step(c.Ctx)
				if err != nil || wait == pollInterval {
					break // another node sends, or nothing is left to send
				}
				one.runningRequests.Wait()
			}
		}
	}
}

// Nodes die between any two steps, push services fail at random, and browsers change hands. Still the versions of a browser rise,
// two messages for one browser are never under way at once, and in the end its last message has its user's present number.
func TestCrashBetweenAnySteps(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		t := b.T
		w := newDeviceWorld(b)
		for seed := range histories.ShortOrFull(t, 6, 60) {
			random := rand.New(rand.NewPCG(uint64(seed), 1))
			c := &deviceCluster{deviceWorld: w, random: random, ownerByBrowser: map[string]services.UserID{}}
			var keys []string
			for i := range 5 {
				keys = append(keys, fmt.Sprintf("s%d-u%d", seed, i))
				c.browserNames = append(c.browserNames, fmt.Sprintf("s%d-b%d", seed, i))
			}
			c.users = b.MakeUsers(keys...)
			c.senders = []*deviceSender{newTestSender(w.newNode()), newTestSender(w.newNode())}
			for _, one := range c.senders {
				one.devices.maxPerStep = 2
			}
			for i, name := range c.browserNames {
				w.register(c.senders[0].devices, c.users[i], name)
				c.ownerByBrowser[name] = c.users[i]
			}
			rude := rand.New(rand.NewPCG(uint64(seed), 2))
			w.pushService.SetAnswer(func(to http.ResponseWriter, r *http.Request, _ devicestest.Message) bool {
				if c.pushServiceHangs.Load() {
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
				c.runRandomStep()
			}
			c.sendAllPending()
			for _, name := range c.browserNames {
				user := c.ownerByBrowser[name]
				written := sqltest.Must(w.stream.ChangesOf(b.Ctx, []services.UserID{user}))(t)[user]
				if written.Seq == 0 {
					continue // the device has no user, or a user without a change: its last message may be of an earlier user
				}
				m, some := w.pushService.LastMessage(name)
				if !some || m.Total != w.unreadLikes[user] || m.UserID != services.GlobalID(services.UserType, written.Key) {
					t.Errorf("seed %d: the user of %s has %d, and it got %+v", seed, name, w.unreadLikes[user], m)
				}
			}
			for _, name := range c.browserNames {
				if owner := c.ownerByBrowser[name]; owner != 0 {
					sqltest.Must(c.senders[0].devices.Unregister(b.Ctx, owner, "", w.browsers[name].Endpoint))(t)
				}
			}
			if t.Failed() {
				return
			}
		}
	})
}
