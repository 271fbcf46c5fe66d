package nodes

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"tidings/services/erasures"
	"tidings/services/jobs"
	"tidings/services/redis/redistest"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// countdownContext is a context that ends after Done and Err were called a number of times. So work that checks it after each step can be
// stopped between any two steps.
type countdownContext struct {
	context.Context
	cancel            context.CancelFunc // ends Context
	checksUntilCancel atomic.Int64       // how many calls of Done and Err are left until the end
}

// countCheckOrCancel counts a call of Done or Err, and ends the context if none is left.
func (m *countdownContext) countCheckOrCancel() {
	if m.checksUntilCancel.Add(-1) < 0 {
		m.cancel()
	}
}

// Done counts this call, and returns the channel that is closed at the context's end.
func (m *countdownContext) Done() <-chan struct{} {
	m.countCheckOrCancel()
	return m.Context.Done()
}

// Err counts this call, and returns an error once the context has ended.
func (m *countdownContext) Err() error {
	m.countCheckOrCancel()
	return m.Context.Err()
}

// claimAndInterruptErasureJob runs a due job of an erasure, as a worker that dies after the job has checked its context looks times. Then
// it advances the clock beyond the end of the job's lease. It returns whether a job was due.
func claimAndInterruptErasureJob(n *world.Node, looks int) bool {
	n.TB.Helper()
	claimed, err := jobs.Claim(n.TB.Context(), n.DB, []string{erasures.JobKind}, 1, 30*time.Second, 0)
	if err != nil {
		n.TB.Fatal(err)
	}
	if len(claimed) == 0 {
		return false
	}
	ctx := &countdownContext{}
	ctx.Context, ctx.cancel = context.WithCancel(n.TB.Context())
	ctx.checksUntilCancel.Store(int64(looks))
	_ = n.Jobs.RunJobs(ctx, claimed) // ends early with an error
	ctx.cancel()
	n.Clock.Advance(31 * time.Second)
	return true
}

// An erasure whose worker is stopped again and again, between any two steps, removes as many objects as an undisturbed erasure.
func TestErasureSurvivesKills(t *testing.T) {
	ended := func(killed bool) string {
		server := redistest.NewServer(t)
		n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: server.URL(), ManualStepping: true})
		l := runEveryMutation(n, 3)
		n.SettleJobsAndCaches()
		erasure := eraseLeaver(n)
		deaths, rng := 0, rand.New(rand.NewPCG(1, 2))
		for killed && readErasure(n, erasure.Name).State == "PENDING" {
			if !claimAndInterruptErasureJob(n, 5+rng.IntN(80)) {
				n.SettleJobsAndCaches() // runs other jobs, and jobs that are due later
			}
			if deaths++; deaths > 3000 {
				t.Fatal("the erasure does not end")
			}
		}
		n.SettleJobsAndCaches()
		for _, found := range findLeaverData(n, server) {
			t.Errorf("left: %s", found)
		}
		l.wantCorrectCounts()
		shown := readErasure(n, erasure.Name)
		if killed && deaths < 20 {
			t.Errorf("the worker died %d times only", deaths)
		}
		return fmt.Sprint(shown.State, shown.Removed)
	}
	if quiet, killed := ended(false), ended(true); quiet != killed {
		t.Errorf("%s, and with kills %s", quiet, killed)
	}
}

// Only operators can erase users. A user who does not exist cannot be erased. An open socket of the user is closed.
func TestErasureClosesSockets(t *testing.T) {
	n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: "embedded"})
	n.Badges(leaverKey)
	erase := fmt.Sprintf(`mutation{eraseUser(input:{userId:"user:%s"}){%s}}`, leaverKey, erasureFields)
	for _, c := range []struct{ as, query, code string }{
		{leaverKey, erase, "FORBIDDEN"}, {"host:ingest", erase, "FORBIDDEN"}, {"", erase, "UNAUTHENTICATED"},
		{"boss:admin", `mutation{eraseUser(input:{userId:"user:nobody"}){erasure{name}}}`, "NOT_FOUND"},
		{"boss:admin", `mutation{eraseUser(input:{userId:"post:1"}){erasure{name}}}`, "INVALID"},
		{"boss:admin", `{admin{erasure(name:"x"){name}}}`, ""},
	} {
		if got := n.Ask(c.as, c.query, nil).ErrorCode(); got != c.code {
			t.Errorf("%s %s: %q, want %q", c.as, c.query, got, c.code)
		}
	}
	conn := n.Dial(t)
	world.Send(t, conn, fmt.Sprintf(`{"type":"connection_init","payload":{"authorization":"Bearer dev:%s"}}`, leaverKey))
	world.Send(t, conn, `{"id":"1","type":"subscribe","payload":{"query":"subscription{badgesChanged{version}}"}}`)
	read := func() (string, error) {
		_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
		_, text, err := conn.ReadMessage()
		return string(text), err
	}
	for range 2 { // the acknowledgement, and the first badges
		if text, err := read(); err != nil {
			t.Fatal(text, err)
		}
	}
	eraseLeaver(n)
	for {
		_, err := read()
		if websocket.IsCloseError(err, 4403) {
			break
		}
		if err != nil {
			t.Fatalf("the socket ended with %v", err)
		}
	}
	if kinds := n.Jobs.Kinds(); !slices.Contains(kinds, erasures.JobKind) {
		t.Errorf("%v", kinds)
	}
}
