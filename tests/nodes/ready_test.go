package nodes

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/redis/redistest"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// A node is ready once it has read the shows of boards. Before that it does not know which shows are live.
func TestANodeIsReadyOnceItsShowsAreLoaded(t *testing.T) {
	n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: "embedded", ManualStepping: true})
	n.Ready.Set(true)
	answer := func() (int, string) {
		t.Helper()
		response, err := http.Get(n.URL + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(text)
	}
	if status, text := answer(); status != http.StatusServiceUnavailable || !strings.Contains(text, "shows") {
		t.Errorf("before its shows were read: %d %q", status, text)
	}
	if _, err := n.Caches.Changelog.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if status, text := answer(); status != http.StatusOK {
		t.Errorf("afterwards: %d %q", status, text)
	}
	whole := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: "embedded"})
	world.Eventually(t, 30*time.Second, "a node that runs is ready by itself", func() bool {
		response, err := http.Get(whole.URL + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		return response.Body.Close() == nil && response.StatusCode == http.StatusOK
	})
}

// A subscriber who arrives before the node has read the shows of boards first gets a live board count with the precision UNKNOWN, and
// then the exact count, whether a show is live or not.
func TestEarlySubscribersGetTheMissingCounts(t *testing.T) {
	database, redis := sqltest.SQLite(t), redistest.Redis(t)
	former := world.StartNode(t, world.NodeOptions{Database: database, Redis: redis})
	former.Follow("fan", "host")
	former.Follow("waiting", "idle")
	schedule := `mutation($p:Time!){scheduleShow(input:{title:"t",plannedAt:$p}){show{id}}}`
	var data struct {
		ScheduleShow struct{ Show struct{ ID string } }
	}
	for _, host := range []string{"host", "idle"} {
		former.MustAsk(host, schedule, map[string]any{"p": time.Now().Add(time.Hour)}, &data)
		former.MustAsk(host, `mutation($s:ID!){startShow(input:{showId:$s}){show{id}}}`, map[string]any{"s": data.ScheduleShow.Show.ID}, nil)
	}
	live := func(person string, want int) {
		t.Helper()
		world.Eventually(t, 30*time.Second, person+" is shown what runs", func() bool {
			var data struct {
				Viewer struct {
					Badges struct{ LiveBoard world.Count }
				}
			}
			former.MustAsk(person, `{viewer{badges{liveBoard{value precision}}}}`, nil, &data)
			return data.Viewer.Badges.LiveBoard.Value == want && data.Viewer.Badges.LiveBoard.Precision == "EXACT"
		})
	}
	live("fan", 1)
	live("waiting", 1)
	former.MustAsk("idle", `mutation($s:ID!){endShow(input:{showId:$s}){show{id}}}`, map[string]any{"s": data.ScheduleShow.Show.ID}, nil)
	live("waiting", 0)
	former.Stop()

	// The clock goes a day ahead, so that the last midnight, which is a part of the version of badges, is later than the starts and
	// ends of the shows. The counts that were unknown at first must raise the version nevertheless.
	n := world.StartNode(t, world.NodeOptions{Database: database, Redis: redis, ManualStepping: true})
	n.Clock.Advance(24 * time.Hour)
	var running sync.WaitGroup
	for _, run := range []func(context.Context) error{n.Hub.Run, n.Badge.Run} {
		running.Go(func() { _ = run(t.Context()) })
	}
	t.Cleanup(running.Wait)
	ids, wants := n.EnsureUserIDs("fan", "waiting"), []int{1, 0}
	states := make([]<-chan *services.Badges, len(ids))
	next := func(i int) (state *services.Badges) {
		t.Helper()
		world.Eventually(t, 30*time.Second, "the next state comes", func() bool {
			select {
			case state = <-states[i]:
			default:
			}
			return state != nil
		})
		return state
	}
	for i, id := range ids {
		var err error
		if states[i], err = n.Hub.Watch(t.Context(), id, ""); err != nil {
			t.Fatal(err)
		}
		if early := next(i); early.LiveBoard.Precision != services.Unknown || early.Total.Precision != services.Unknown {
			t.Errorf("before the shows were read: %+v", early.LiveBoard)
		}
	}
	wantSocketsRefused(t, n.URL)
	if _, err := n.Caches.Changelog.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, want := range wants {
		// On a busy machine a state from before the shows may wait in the channel, or Redis may miss its deadline. A later state is
		// exact.
		for exact := false; !exact; {
			state := next(i)
			if state.LiveBoard.Precision != services.Unknown && state.LiveBoard.Value != want {
				t.Errorf("afterwards %+v, want %d", state.LiveBoard, want)
			}
			exact = state.LiveBoard.Precision == services.Exact
		}
	}
	world.OpenBadgeSubscription(t, n.URL, "somebody").WaitCounts(t, world.DeviceUpdateTimeout, 0, 0)
}

// wantSocketsRefused checks that the node refuses a WebSocket with the status 503, and tells the client to try again after a second.
func wantSocketsRefused(t *testing.T, url string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/graphql", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Connection", "Upgrade")
	request.Header.Set("Upgrade", "websocket")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") != "1" {
		t.Errorf("before the shows were read a socket was answered with %d", response.StatusCode)
	}
}
