package faults

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"tidings/services/devices"
	"tidings/services/devices/devicestest"
	"tidings/services/redis/redistest"
	"tidings/services/sql/sqltest"
	"tidings/tests/histories"
	"tidings/tests/world"
)

// pushNodes is two processes that send Web Push messages to the devices of some users, and the push service that gets the messages.
type pushNodes struct {
	t           *testing.T
	nodes       []*world.Process
	start       func(name string) *world.Process // starts a process under a node name
	pushService *devicestest.PushService         // gets the messages of both processes
	likers      *randomLikers                    // the users who have the devices; their likes change the badges

	mu              sync.Mutex      // guards unansweredUsers, and the random numbers of failSomeMessages
	unansweredUsers map[string]bool // by an ID such as user:ann: users with a message that the push service did not answer
}

// waitSendingNodeIndex waits until one of the processes sends messages to devices, and returns its index in nodes.
func (p *pushNodes) waitSendingNodeIndex() (at int) {
	p.t.Helper()
	world.Eventually(p.t, takeOverWithin, "a node sends", func() bool { at = indexOfNodeWithMetric(p.nodes, "tidings_devices_sending"); return at >= 0 })
	return at
}

// killAndRestart kills the process at an index of nodes and starts it again under its name.
func (p *pushNodes) killAndRestart(at int) {
	p.nodes[at].Kill()
	p.nodes[at].WaitExit(10 * time.Second)
	p.nodes[at] = p.start([]string{"a", "b"}[at])
	p.likers.setNodes(p.nodes)
}

// failSomeMessages makes the push service fail one message in four.
func (p *pushNodes) failSomeMessages() {
	random := rand.New(rand.NewPCG(5, 5))
	p.pushService.SetAnswer(func(w http.ResponseWriter, _ *http.Request, _ devicestest.Message) bool {
		p.mu.Lock()
		fate := random.IntN(12)
		p.mu.Unlock()
		switch fate {
		case 0:
			w.WriteHeader(http.StatusInternalServerError)
		case 1:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		case 2:
			if connection, _, err := http.NewResponseController(w).Hijack(); err == nil {
				_ = connection.Close()
			}
		default:
			w.WriteHeader(http.StatusCreated)
			return true
		}
		return false
	})
}

// leaveMessagesUnanswered makes the push service answer nothing.
func (p *pushNodes) leaveMessagesUnanswered() {
	p.pushService.SetAnswer(func(_ http.ResponseWriter, r *http.Request, m devicestest.Message) bool {
		p.mu.Lock()
		p.unansweredUsers[m.UserID] = true
		p.mu.Unlock()
		<-r.Context().Done() // until the sender gives up or is killed
		return false
	})
}

// waitIconsEqualBadges waits until the last message that each device accepted has the total of its user's badges.
func (p *pushNodes) waitIconsEqualBadges() {
	p.t.Helper()
	at := p.waitSendingNodeIndex()
	world.EventuallySucceeds(p.t, 2*takeOverWithin, func() error {
		for _, key := range p.likers.userKeys {
			var data struct{ Viewer struct{ Badges world.Badges } }
			if err := world.Ask(p.nodes[at].URL, key, `{viewer{badges{`+world.BadgeFields+`}}}`, nil, &data); err != nil {
				return err
			}
			m, some := p.pushService.LastMessage(key)
			if total := data.Viewer.Badges.Total; !some || m.Total != total.Value || m.UserID != "user:"+key {
				return fmt.Errorf("%s has %+v, and the device %+v", key, total, m)
			}
		}
		return nil
	})
}

// The node that sends the messages is killed while the push service fails some of them. Later the node that sends is killed while a
// message to each device waits for its answer, and no further change of badges follows. No version of a device goes back, no two messages
// of one device are in progress at once, another node takes over in time, and everybody's icon equals their badges.
func TestIconsAreRightAfterNodesAreKilled(t *testing.T) {
	database, redis := sqltest.Postgres(t), redistest.Redis(t)
	private, _, err := devices.NewVAPIDKeys()
	if err != nil {
		t.Fatal(err)
	}
	keys, _ := devices.ParseVAPIDKeys(private, "")
	p := &pushNodes{t: t, pushService: devicestest.NewPushService(t, keys.Public), unansweredUsers: map[string]bool{}, start: func(name string) *world.Process {
		return world.StartServingProcess(t, "", "--database", database, "--redis", redis, "--node", name, "--rate-limits", "off", "--changes-interval", "20ms", "--changes-lap", "24h",
			"--vapid-private-key", private, "--vapid-subject", "mailto:ops@example.com", "--web-push-allow", "127.0.0.1", "--web-push-timeout", "2s")
	}}
	p.nodes = []*world.Process{p.start("a"), p.start("b")}
	p.likers = newRandomLikers(t, p.nodes)
	for _, key := range p.likers.userKeys {
		b := p.pushService.Subscribe(key)
		if err := world.Ask(p.nodes[0].URL, key, `mutation($e:URL!,$p:String!,$a:String!){registerDevice(input:{endpoint:$e,p256dh:$p,auth:$a}){changed}}`,
			map[string]any{"e": b.Endpoint, "p": b.P256dh, "a": b.Auth}, nil); err != nil {
			t.Fatal(err)
		}
	}
	p.failSomeMessages()
	p.likers.startActing()
	for range histories.ShortOrFull(t, 1, 5) {
		at, arrived := p.waitSendingNodeIndex(), p.pushService.ArrivalCount()
		world.Eventually(t, takeOverWithin, "messages arrive", func() bool { return p.pushService.ArrivalCount() > arrived+20 })
		p.pushService.Restart()
		p.killAndRestart(at)
	}
	p.likers.stop()
	p.pushService.SetAnswer(nil)
	p.waitIconsEqualBadges()

	at := p.waitSendingNodeIndex()
	p.leaveMessagesUnanswered()
	to := []string{}
	for _, key := range p.likers.userKeys {
		to = append(to, "user:"+key)
	}
	if err := world.Ask(p.nodes[1-at].URL, "host:ingest", `mutation($to:[ID!]!){sendSiteMessage(input:{to:$to,title:"hello"}){message{id}}}`,
		map[string]any{"to": to}, nil); err != nil {
		t.Fatal(err)
	}
	world.Eventually(t, takeOverWithin, "a message for each device is under way", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.unansweredUsers) == len(p.likers.userKeys)
	})
	p.killAndRestart(at)
	p.pushService.SetAnswer(nil)
	p.waitIconsEqualBadges()
	t.Logf("%d messages", p.pushService.ArrivalCount())
}
