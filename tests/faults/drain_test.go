package faults

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"tidings/services/redis/redistest"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// maxDrainTime is the longest allowed time between SIGTERM and the end of the process.
const maxDrainTime = 15 * time.Second

// After SIGTERM a process drains: it asks the clients of all sockets to reconnect elsewhere. A process that gets little processor time
// still asks all of them, because the drain follows the clock and does not count ticks of a timer, which can be lost.
func TestDrainOfAStarvedProcess(t *testing.T) {
	p := world.StartServingProcess(t, "", "--data", t.TempDir(), "--redis", "embedded")
	var watches []*world.BadgeSubscription
	for i := range 8 {
		watches = append(watches, world.OpenBadgeSubscription(t, p.URL, fmt.Sprintf("person-%d", i)))
	}
	p.Terminate()
	// Let the process run for only a fifth of the time.
	turn := time.NewTicker(10 * time.Millisecond)
	defer turn.Stop()
	for i := 0; ; i++ {
		signal := syscall.SIGSTOP
		if i%5 == 0 {
			signal = syscall.SIGCONT
		}
		select {
		case <-p.Ended:
			for _, w := range watches {
				if code := w.WaitCloseCode(t, world.RedisLossRecoveryTimeout); code != websocket.CloseServiceRestart {
					t.Errorf("the socket of %s was closed with %d, want %d", w.Person, code, websocket.CloseServiceRestart)
				}
			}
			return
		case <-turn.C:
			_ = p.Command.Process.Signal(signal) // it may have ended
		}
		if i > int(60*time.Second/(10*time.Millisecond)) {
			t.Fatal("the process has not ended within a minute")
		}
	}
}

// A job that waits for a lock in the database does not delay the end of the process, and the next process runs the job.
func TestDrainEndsThoughAJobHangs(t *testing.T) {
	database := sqltest.Postgres(t)
	arguments := []string{"--database", database, "--redis", redistest.Redis(t), "--drain", "100ms"}
	p := world.StartServingProcess(t, "", arguments...)
	var data struct {
		PublishPost struct{ Post struct{ ID string } }
	}
	must := func(as, query string, variables map[string]any, into any) {
		t.Helper()
		if err := world.Ask(p.URL, as, query, variables, into); err != nil {
			t.Fatal(err)
		}
	}
	likes := func() (n int) {
		t.Helper()
		var data struct{ Viewer struct{ Badges world.Badges } }
		must("author", `{viewer{badges{`+world.BadgeFields+`}}}`, nil, &data)
		return data.Viewer.Badges.Notifications.Like.Value
	}
	must("author", `mutation{publishPost(input:{body:"b"}){post{id}}}`, nil, &data)
	if got := likes(); got != 0 {
		t.Fatalf("at first there are %d likes", got)
	}
	release := sqltest.LockTable(t, database, "notification_causes")
	must("fan", `mutation($p:ID!){likePost(input:{postId:$p}){post{id}}}`, map[string]any{"p": data.PublishPost.Post.ID}, nil)
	p.Terminate()
	if code := p.WaitExit(maxDrainTime); code != 0 {
		t.Errorf("exit code %d: %s", code, p.Output.String())
	}
	release()
	p = world.StartServingProcess(t, "", arguments...)
	world.Eventually(t, world.RedisLossRecoveryTimeout, "the like counts", func() bool { return likes() == 1 })
	p.WaitForJobs(world.RedisLossRecoveryTimeout)
}
