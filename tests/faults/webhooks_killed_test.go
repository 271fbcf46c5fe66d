package faults

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"tidings/services/redis/redistest"
	"tidings/services/sql/sqltest"
	"tidings/tests/histories"
	"tidings/tests/world"
)

// faultyReceiver is an HTTP server that receives the events of a webhook. Unless setBehavior says otherwise, it fails some requests at
// random: with an error, a redirect, no answer, or a broken answer. It can restart.
type faultyReceiver struct {
	t       *testing.T
	address string // where it listens, also after a restart
	server  *http.Server

	mu                    sync.Mutex              // guards the fields below
	random                *rand.Rand              // decides which requests fail, and how
	acceptsAll            bool                    // every request is accepted
	answersNone           bool                    // no request is answered
	unansweredUsers       map[string]bool         // users with a request that was not answered
	lastVersionByUser     map[string]string       // user -> the version that arrived last
	userAndVersionByEvent map[string]string       // event ID -> its user and version
	lastAcceptedByUser    map[string]world.Change // user -> the change that was accepted last
	repeatedEventCount    int                     // events that came more than once
}

// newFaultyReceiver starts a faultyReceiver.
func newFaultyReceiver(t *testing.T) *faultyReceiver {
	r := &faultyReceiver{
		t: t, random: rand.New(rand.NewPCG(3, 3)), lastVersionByUser: map[string]string{}, userAndVersionByEvent: map[string]string{}, lastAcceptedByUser: map[string]world.Change{}, unansweredUsers: map[string]bool{},
	}
	r.start("127.0.0.1:0")
	t.Cleanup(func() { _ = r.server.Close() })
	return r
}

// start listens on an address and serves requests.
func (r *faultyReceiver) start(address string) {
	r.t.Helper()
	var listener net.Listener
	world.Eventually(r.t, 10*time.Second, "the receiver listens", func() bool {
		var err error
		listener, err = net.Listen("tcp", address)
		return err == nil
	})
	if address != r.address { // a restart must not write r.address, because requests read it
		r.address = listener.Addr().String()
	}
	r.server = &http.Server{Handler: r, ReadHeaderTimeout: time.Minute}
	go func(server *http.Server) { _ = server.Serve(listener) }(r.server)
}

// restart closes every connection and listens again.
func (r *faultyReceiver) restart() {
	_ = r.server.Close()
	r.start(r.address)
}

// setBehavior sets acceptsAll and answersNone: whether the receiver accepts every request or fails some, and whether it leaves every
// request without an answer.
func (r *faultyReceiver) setBehavior(behaves, holds bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.acceptsAll, r.answersNone = behaves, holds
}

// countUnansweredUsers returns the number of users with a request that was not answered.
func (r *faultyReceiver) countUnansweredUsers() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.unansweredUsers)
}

// recordRequest records a request, and returns its fate: 1 fails it with an error, 2 with a redirect, 3 with no answer, and 4 with a
// broken answer. Any other number accepts it.
func (r *faultyReceiver) recordRequest(id string, change world.Change) (fate int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if change.Version < r.lastVersionByUser[change.Key] {
		r.t.Errorf("%s: the version %s after %s", change.Key, change.Version, r.lastVersionByUser[change.Key])
	}
	r.lastVersionByUser[change.Key] = change.Version
	of := change.Key + " " + change.Version
	if known := r.userAndVersionByEvent[id]; known != "" && known != of {
		r.t.Errorf("%s is %s and %s", id, known, of)
	} else if known != "" {
		r.repeatedEventCount++
	}
	r.userAndVersionByEvent[id] = of
	switch {
	case r.answersNone:
		r.unansweredUsers[change.Key] = true
		return 3
	case !r.acceptsAll:
		return r.random.IntN(10)
	}
	return 0
}

// ServeHTTP accepts an event, or fails: with an error, a redirect, no answer, or a broken answer.
func (r *faultyReceiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	text, err := io.ReadAll(request.Body)
	if err != nil {
		return
	}
	var event struct {
		Type string
		Data world.Change
	}
	if err = json.Unmarshal(text, &event); err != nil || event.Type != "badges.changed" {
		r.t.Errorf("%s: %v", text, err)
		return
	}
	switch r.recordRequest(request.Header.Get("webhook-id"), event.Data) {
	case 1:
		w.WriteHeader(http.StatusInternalServerError)
	case 2:
		http.Redirect(w, request, "http://"+r.address+"/elsewhere", http.StatusTemporaryRedirect)
	case 3:
		<-request.Context().Done() // until the sender gives up or is killed
	case 4:
		if connection, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_, _ = connection.Write([]byte("what?"))
			_ = connection.Close()
		}
	default:
		r.mu.Lock()
		defer r.mu.Unlock()
		r.lastAcceptedByUser[event.Data.Key] = event.Data
	}
}

// indexOfNodeWithMetric returns the index of the process on which a metric has the value 1, such as the node that delivers a webhook; -1
// if there is none.
func indexOfNodeWithMetric(nodes []*world.Process, metric string) int {
	for i, p := range nodes {
		response, err := http.Get(p.URL + "/metrics")
		if err != nil {
			continue
		}
		text, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if strings.Contains(string(text), "\n"+metric+" 1\n") {
			return i
		}
	}
	return -1
}

// webhookNodes is two processes of which one at a time delivers the events of a webhook, and the receiver of the events.
type webhookNodes struct {
	t        *testing.T
	nodes    []*world.Process
	start    func(name string) *world.Process // starts a process under a node name
	receiver *faultyReceiver
	likers   *randomLikers // the users whose likes change the badges
}

// takeOverWithin is the time within which the other node must go on with the work of a killed node. It is longer than a lease, which is
// the timeout of a delivery plus 15 s.
const takeOverWithin = 60 * time.Second

// waitDeliveringNodeIndex waits until one of the processes delivers the webhook's events, and returns its index in nodes.
func (k *webhookNodes) waitDeliveringNodeIndex() (at int) {
	k.t.Helper()
	world.Eventually(k.t, takeOverWithin, "a node delivers", func() bool { at = indexOfNodeWithMetric(k.nodes, "tidings_webhooks_delivering"); return at >= 0 })
	return at
}

// killAndRestart kills the process at an index of nodes and starts it again under its name.
func (k *webhookNodes) killAndRestart(at int) {
	k.nodes[at].Kill()
	k.nodes[at].WaitExit(10 * time.Second)
	k.nodes[at] = k.start([]string{"a", "b"}[at])
	k.likers.setNodes(k.nodes)
}

// waitEventsEqualBadges has the webhook's dead letters sent again, and waits until the last accepted event of each user equals the
// user's badges.
func (k *webhookNodes) waitEventsEqualBadges() {
	k.t.Helper()
	at := k.waitDeliveringNodeIndex()
	if err := world.Ask(k.nodes[at].URL, "boss:admin", `mutation{replayWebhook(input:{name:"app"}){replayed}}`, nil, nil); err != nil {
		k.t.Fatal(err)
	}
	world.EventuallySucceeds(k.t, takeOverWithin, func() error {
		for _, key := range k.likers.userKeys {
			var data struct{ Viewer struct{ Badges world.Badges } }
			if err := world.Ask(k.nodes[at].URL, key, `{viewer{badges{`+world.BadgeFields+`}}}`, nil, &data); err != nil {
				return err
			}
			k.receiver.mu.Lock()
			last := k.receiver.lastAcceptedByUser[key]
			k.receiver.mu.Unlock()
			if err := last.CheckAgainst(data.Viewer.Badges); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
		}
		return nil
	})
}

// The node that delivers is killed while the receiver fails requests in several ways and restarts. Later the node that delivers is killed
// while a request for each user waits for its answer, and no further change of badges follows. No version of a user goes back, an event
// ID always means one version, another node takes over in time, and everybody's last accepted event equals their badges.
func TestNodesKilledDeliverEveryEvent(t *testing.T) {
	database, redis := sqltest.Postgres(t), redistest.Redis(t)
	k := &webhookNodes{t: t, receiver: newFaultyReceiver(t), start: func(name string) *world.Process {
		return world.StartServingProcess(t, "", "--database", database, "--redis", redis, "--node", name, "--rate-limits", "off",
			"--changes", "--changes-interval", "20ms", "--changes-lap", "24h", "--webhooks-allow", "127.0.0.1", "--webhooks-timeout", "2s")
	}}
	k.nodes = []*world.Process{k.start("a"), k.start("b")}
	if err := world.Ask(k.nodes[0].URL, "boss:admin", `mutation($u:URL!){addWebhook(input:{name:"app",url:$u}){secret}}`,
		map[string]any{"u": "http://" + k.receiver.address + "/hook"}, nil); err != nil {
		t.Fatal(err)
	}
	k.waitDeliveringNodeIndex()
	k.likers = newRandomLikers(t, k.nodes)
	k.likers.startActing()
	for range histories.ShortOrFull(t, 1, 5) {
		at, arrived := k.waitDeliveringNodeIndex(), k.receiver.countRequests()
		world.Eventually(t, takeOverWithin, "events arrive", func() bool { return k.receiver.countRequests() > arrived+20 })
		k.receiver.restart()
		k.killAndRestart(at)
	}
	k.likers.stop()
	k.receiver.setBehavior(true, false)
	k.waitEventsEqualBadges()

	at := k.waitDeliveringNodeIndex()
	k.receiver.setBehavior(true, true)
	to := []string{}
	for _, key := range k.likers.userKeys {
		to = append(to, "user:"+key)
	}
	if err := world.Ask(k.nodes[1-at].URL, "host:ingest", `mutation($to:[ID!]!){sendSiteMessage(input:{to:$to,title:"hello"}){message{id}}}`,
		map[string]any{"to": to}, nil); err != nil {
		t.Fatal(err)
	}
	world.Eventually(t, takeOverWithin, "a request for each user is under way", func() bool { return k.receiver.countUnansweredUsers() == len(k.likers.userKeys) })
	k.killAndRestart(at)
	k.receiver.setBehavior(true, false)
	k.waitEventsEqualBadges()
	k.receiver.mu.Lock()
	defer k.receiver.mu.Unlock()
	t.Logf("%d events, %d of them again", len(k.receiver.userAndVersionByEvent), k.receiver.repeatedEventCount)
	if k.receiver.repeatedEventCount == 0 {
		t.Error("no event was repeated: nothing failed")
	}
}

// countRequests returns the number of requests that have arrived so far, including the repeated ones.
func (r *faultyReceiver) countRequests() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.userAndVersionByEvent) + r.repeatedEventCount
}

// randomLikers are users who like each other's posts and undo the likes at random, through any of the nodes.
type randomLikers struct {
	userKeys, postIDs []string   // the users, and one post of each
	mu                sync.Mutex // guards nodes
	nodes             []*world.Process
	stopSignal        chan struct{}  // closed when the users are to stop
	actors            sync.WaitGroup // the goroutines that send the requests
}

// newRandomLikers makes six users, each with a post, who do not act yet.
func newRandomLikers(t *testing.T, nodes []*world.Process) *randomLikers {
	t.Helper()
	l := &randomLikers{userKeys: []string{"ann", "bob", "cat", "dan", "eve", "fay"}, stopSignal: make(chan struct{})}
	l.setNodes(nodes)
	for _, key := range l.userKeys {
		var data struct {
			PublishPost struct{ Post struct{ ID string } }
		}
		if err := world.Ask(nodes[0].URL, key, `mutation{publishPost(input:{body:"a post"}){post{id}}}`, nil, &data); err != nil {
			t.Fatal(err)
		}
		l.postIDs = append(l.postIDs, data.PublishPost.Post.ID)
	}
	return l
}

// setNodes sets the nodes that get the requests.
func (l *randomLikers) setNodes(nodes []*world.Process) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.nodes = append([]*world.Process(nil), nodes...)
}

// startActing starts goroutines that send random likes of the users, and undo likes, until stop is called.
func (l *randomLikers) startActing() {
	for actor := range 2 {
		random := rand.New(rand.NewPCG(9, uint64(actor)))
		l.actors.Go(func() {
			pace := time.NewTicker(10 * time.Millisecond) // enough load for kills at many points of the work, without filling the machine
			defer pace.Stop()
			for {
				select {
				case <-l.stopSignal:
					return
				case <-pace.C:
				}
				l.mu.Lock()
				url := l.nodes[random.IntN(len(l.nodes))].URL
				l.mu.Unlock()
				me, post := l.userKeys[random.IntN(len(l.userKeys))], l.postIDs[random.IntN(len(l.postIDs))]
				verb := []string{`mutation($p:ID!){likePost(input:{postId:$p}){post{id}}}`, `mutation($p:ID!){unlikePost(input:{postId:$p}){post{id}}}`}[random.IntN(2)]
				_ = world.Ask(url, me, verb, map[string]any{"p": post}, nil) // fails while the node is dead
			}
		})
	}
}

// stop ends the goroutines that startActing has started, and waits for them.
func (l *randomLikers) stop() {
	close(l.stopSignal)
	l.actors.Wait()
}
