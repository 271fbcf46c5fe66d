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

// pushNodes is two processes that send to the devices of a crowd, and their push service.
type pushNodes struct {
	t     *testing.T
	nodes []*world.Process
	start func(name string) *world.Process // starts a process under a node name
	push  *devicestest.Service             // the push service
	crowd *crowd                           // the people who act

	mu   sync.Mutex
	held map[string]bool // users with a message that was not answered
}

// waitSender waits until a process sends, and returns its index.
func (p *pushNodes) waitSender() (at int) {
	p.t.Helper()
	world.Eventually(p.t, takeOverWithin, "a node sends", func() bool { at = workingNode(p.nodes, "tidings_devices_sending"); return at >= 0 })
	return at
}

// kill kills a process and starts it again.
func (p *pushNodes) kill(at int) {
	p.nodes[at].Kill()
	p.nodes[at].WaitExit(10 * time.Second)
	p.nodes[at] = p.start([]string{"a", "b"}[at])
	p.crowd.setNodes(p.nodes)
}

// failSomeMessages makes the push service fail one message in four.
func (p *pushNodes) failSomeMessages() {
	random := rand.New(rand.NewPCG(5, 5))
	p.push.SetAnswer(func(w http.ResponseWriter, _ *http.Request, _ devicestest.Message) bool {
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

// holdMessages makes the push service answer nothing.
func (p *pushNodes) holdMessages() {
	p.push.SetAnswer(func(_ http.ResponseWriter, r *http.Request, m devicestest.Message) bool {
		p.mu.Lock()
		p.held[m.UserID] = true
		p.mu.Unlock()
		<-r.Context().Done() // until the sender gives up or is killed
		return false
	})
}

// settle waits until the last message that each device accepted has the total of its user's badges.
func (p *pushNodes) settle() {
	p.t.Helper()
	at := p.waitSender()
	world.EventuallySucceeds(p.t, 2*takeOverWithin, func() error {
		for _, key := range p.crowd.keys {
			var data struct{ Viewer struct{ Badges world.Badges } }
			if err := world.Ask(p.nodes[at].URL, key, `{viewer{badges{`+world.BadgeFields+`}}}`, nil, &data); err != nil {
				return err
			}
			m, some := p.push.Last(key)
			if total := data.Viewer.Badges.Total; !some || m.Total != total.Value || m.UserID != "user:"+key {
				return fmt.Errorf("%s has %+v, and the device %+v", key, total, m)
			}
		}
		return nil
	})
}

// The node that sends is killed in the middle of its work, while the push service fails. Later it is killed while a message for
// each device is in progress, and no further change follows. No version of a device goes back, no two messages of one device are
// in progress at once, another node takes over in time, and everybody's icon equals their badges.
func TestNodesKilledPushEveryIcon(t *testing.T) {
	database, redis := sqltest.Postgres(t), redistest.Redis(t)
	private, _, err := devices.NewKeys()
	if err != nil {
		t.Fatal(err)
	}
	keys, _ := devices.ParseKeys(private, "")
	p := &pushNodes{t: t, push: devicestest.NewService(t, keys.Public), held: map[string]bool{}, start: func(name string) *world.Process {
		return world.StartProcess(t, "", "--database", database, "--redis", redis, "--node", name, "--rate-limits", "off", "--changes-interval", "20ms", "--changes-lap", "24h",
			"--vapid-private-key", private, "--vapid-subject", "mailto:ops@example.com", "--web-push-allow", "127.0.0.1", "--web-push-timeout", "2s")
	}}
	p.nodes = []*world.Process{p.start("a"), p.start("b")}
	p.crowd = newCrowd(t, p.nodes)
	for _, key := range p.crowd.keys {
		b := p.push.Subscribe(key)
		if err := world.Ask(p.nodes[0].URL, key, `mutation($e:URL!,$p:String!,$a:String!){registerDevice(input:{endpoint:$e,p256dh:$p,auth:$a}){changed}}`,
			map[string]any{"e": b.Endpoint, "p": b.P256dh, "a": b.Auth}, nil); err != nil {
			t.Fatal(err)
		}
	}
	p.failSomeMessages()
	p.crowd.run()
	for range histories.Number(t, 1, 5) {
		at, arrived := p.waitSender(), p.push.Arrived()
		world.Eventually(t, takeOverWithin, "messages arrive", func() bool { return p.push.Arrived() > arrived+20 })
		p.push.Restart()
		p.kill(at)
	}
	p.crowd.stop()
	p.push.SetAnswer(nil)
	p.settle()

	at := p.waitSender()
	p.holdMessages()
	to := []string{}
	for _, key := range p.crowd.keys {
		to = append(to, "user:"+key)
	}
	if err := world.Ask(p.nodes[1-at].URL, "host:ingest", `mutation($to:[ID!]!){sendSiteMessage(input:{to:$to,title:"hello"}){message{id}}}`,
		map[string]any{"to": to}, nil); err != nil {
		t.Fatal(err)
	}
	world.Eventually(t, takeOverWithin, "a message for each device is under way", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.held) == len(p.crowd.keys)
	})
	p.kill(at)
	p.push.SetAnswer(nil)
	p.settle()
	t.Logf("%d messages", p.push.Arrived())
}
