package demo

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tidings/services"
)

// scriptEvents returns everything that happens in a script: the past, and the acts after it.
func scriptEvents(seed uint64, acts int) (past [][]event, events []event) {
	s := newScript(seed)
	past = s.pastEvents()
	for range acts {
		events = append(events, s.nextEvent())
	}
	return past, events
}

func TestTheSameSeedMakesTheSameWorld(t *testing.T) {
	past, acts := scriptEvents(7, 2000)
	again, actsAgain := scriptEvents(7, 2000)
	if diff := cmp.Diff(past, again); diff != "" {
		t.Errorf("the same seed makes another past (-first +second):\n%s", diff)
	}
	if diff := cmp.Diff(acts, actsAgain); diff != "" {
		t.Errorf("the same seed makes other acts (-first +second):\n%s", diff)
	}
	other, _ := scriptEvents(8, 0)
	if cmp.Equal(past, other) {
		t.Error("another seed makes the same past")
	}
}

// A visitor sees posts from days and from minutes ago, and the server gets the events in the order in which they happened.
func TestPastEventsSpanDaysInOrder(t *testing.T) {
	past, acts := scriptEvents(Seed, 100)
	last, posts := -fromNow(29*day), map[fromNow]bool{}
	for _, events := range past {
		for _, one := range events {
			if one.At < last || one.At >= 0 {
				t.Fatalf("%s happened %s after %s", one.Mutation, time.Duration(one.At), time.Duration(last))
			}
			last = one.At
			if one.Mutation == "publishPost" {
				posts[one.At] = true
			}
		}
	}
	if len(posts) < pastPostCount+unreadPostCount || last < -fromNow(5*time.Minute) {
		t.Errorf("posts at %d times, and the last event %s from now", len(posts), time.Duration(last))
	}
	for _, one := range acts {
		if one.At != 0 {
			t.Fatalf("an act of the present happened %s from now", time.Duration(one.At))
		}
	}
	clock := &manualClock{time.Date(2026, 1, 31, 9, 0, 0, 0, time.UTC)}
	h := newHost(Config{Clock: clock})
	if entry, _ := h.ingestEntry(event{Mutation: "clearDot", At: -fromNow(time.Hour)}); entry["at"] != "2026-01-31T08:00:00Z" {
		t.Errorf("an event of an hour ago is reported as %v", entry)
	}
	if entry, _ := h.ingestEntry(event{Mutation: "clearDot"}); entry["at"] != nil {
		t.Errorf("an event of now is reported as %v", entry)
	}
	plannedAt := func(at fromNow) any {
		entry, _ := h.ingestEntry(event{Mutation: "scheduleShow", At: at, Input: map[string]any{"plannedAt": fromNow(time.Hour)}})
		return entry["do"].(map[string]any)["scheduleShow"].(map[string]any)["plannedAt"]
	}
	clock.now = clock.now.Add(time.Minute) // a slow machine needs a minute to send the past
	if past, now := plannedAt(-1), plannedAt(0); past != "2026-01-31T10:00:00Z" || now != "2026-01-31T10:01:00Z" {
		t.Errorf("shows are planned for %v in the past and %v now", past, now)
	}
}

// A few people have many followers, and most have few. The script acts for everybody but the viewer.
func TestActivityAndFollowersAreSkewed(t *testing.T) {
	s := newScript(Seed)
	if len(s.people) < 200 || len(s.people) > 900 {
		t.Errorf("%d people, want a few hundred", len(s.people))
	}
	keys, followers := map[string]bool{}, make([]int, len(s.people))
	for _, one := range s.people {
		if err := services.CheckUserKey(one.key); err != nil || keys[one.key] {
			t.Errorf("the key %q is not valid or not unique: %v", one.key, err)
		}
		keys[one.key] = true
		for _, followee := range one.follows {
			followers[followee]++
		}
	}
	famous, quiet := 0, 0
	for i, count := range followers {
		if i > 0 && count > len(s.people)/5 {
			famous++
		}
		if count <= 10 {
			quiet++
		}
	}
	if famous < 2 || famous > 20 || quiet < len(s.people)/2 {
		t.Errorf("%d of %d people are famous and %d are quiet", famous, len(s.people), quiet)
	}
	_, acts := scriptEvents(Seed, 5000)
	kinds := map[string]int{}
	for _, one := range acts {
		if one.ActorKey == viewerKey {
			t.Fatalf("the script acts for the visitor: %+v", one)
		}
		kinds[one.Mutation]++
	}
	for _, kind := range []string{"publishPost", "likePost", "sendMessage", "follow", "scheduleShow", "startShow", "endShow"} {
		if kinds[kind] < 50 {
			t.Errorf("in 5,000 acts %s happens %d times", kind, kinds[kind])
		}
	}
}

// manualClock is a clock that a test moves.
type manualClock struct{ now time.Time }

func (c *manualClock) Now() time.Time { return c.now }

// eventCountingServer is a server that accepts every event and counts it.
type eventCountingServer struct {
	*httptest.Server
	mu              sync.Mutex // guards the counts
	eventsSinceTake int        // since the last call of takeEventCount
	requestCount    int        // since the start
}

func newEventCountingServer(t *testing.T) *eventCountingServer {
	c := &eventCountingServer{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request struct{ Variables struct{ Events []any } }
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
			t.Error(err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.requestCount++
		if len(request.Variables.Events) == 0 { // the request is resumeQuery
			_, _ = io.WriteString(w, `{"data": {"viewer": {"user": {"name": null}}}}`)
			return
		}
		c.eventsSinceTake += len(request.Variables.Events)
		results := make([]map[string]any, len(request.Variables.Events))
		for i := range results {
			results[i] = map[string]any{"id": "post:1"}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"data": map[string]any{"ingest": map[string]any{"results": results}}})
	}))
	t.Cleanup(c.Close)
	return c
}

// takeEventCount returns the number of events since its last call.
func (c *eventCountingServer) takeEventCount() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer func() { c.eventsSinceTake = 0 }()
	return c.eventsSinceTake
}

// The people act as often as the configuration says. Acts that were missed during a pause or a suspension are not made up for.
func TestActsPerMinuteAreKept(t *testing.T) {
	for _, pace := range []int{0, 60, 600} {
		server, clock := newEventCountingServer(t), &manualClock{time.Date(2026, 1, 31, 9, 0, 0, 0, time.UTC)}
		w := New(Config{URL: server.URL, Seed: Seed, ActsPerMinute: pace, Clock: clock, Log: slog.New(slog.DiscardHandler)})
		t.Cleanup(w.host.close)
		if err := w.Build(t.Context()); err != nil {
			t.Fatal(err)
		}
		if past := server.takeEventCount(); past < 1000 {
			t.Errorf("the past has %d events", past)
		}
		minutes := func(count int) int {
			for range time.Duration(count) * time.Minute / dueCheckInterval {
				clock.now = clock.now.Add(dueCheckInterval)
				w.sendDueActs(t.Context())
			}
			return server.takeEventCount()
		}
		if got := minutes(10); got < 10*pace*93/100 || got > 10*pace*107/100 {
			t.Errorf("at a pace of %d, %d acts in 10 minutes", pace, got)
		}
		// The process was suspended for an hour: the missed acts are dropped.
		clock.now = clock.now.Add(time.Hour)
		w.sendDueActs(t.Context())
		for range 10 * 60 * pace / maxEventsPerRequest {
			w.sendDueActs(t.Context())
		}
		if got := server.takeEventCount(); got > pace/20+2 {
			t.Errorf("at a pace of %d, %d acts were made up for", pace, got)
		}
		w.PausePeople(time.Minute)
		if got := minutes(1); got > 1 {
			t.Errorf("at a pace of %d, %d acts during the pause", pace, got)
		}
		if got := minutes(10); got < 10*pace*93/100 || got > 10*pace*107/100 {
			t.Errorf("at a pace of %d, %d acts in the 10 minutes after the pause", pace, got)
		}
	}
}

// A world that lives for weeks remembers what can still be acted on, and nothing else.
func TestALongRunningWorldHasBoundedMemory(t *testing.T) {
	server := newEventCountingServer(t)
	w := New(Config{URL: server.URL, Seed: Seed, Clock: services.SystemClock{}, Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(w.host.close)
	if err := w.Build(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 40 {
		events := make([]event, maxEventsPerRequest)
		for i := range events {
			events[i] = w.script.nextEvent()
		}
		if err := w.host.send(t.Context(), events); err != nil {
			t.Fatal(err)
		}
	}
	for _, show := range append(w.script.plannedShows, w.script.liveShows...) {
		if _, known := w.host.made[objectName{"show", show}]; !known {
			t.Errorf("show %d can be acted on and is forgotten", show)
		}
	}
	kinds := map[string]int{}
	for name := range w.host.made {
		kinds[name.Kind]++
	}
	if want := map[string]int{"post": keptObjectsPerKind + viewerPostCount, "show": keptObjectsPerKind + viewerPostCount, "conversation": len(plannedConversations)}; !cmp.Equal(kinds, want) {
		t.Errorf("it remembers %v, want %v", kinds, want)
	}
}

// The server commits each request before it answers, and the next request waits for the answer: the demo starts fast because there
// are few requests.
func TestPastEventsAreSentInFewRequests(t *testing.T) {
	server := newEventCountingServer(t)
	w := New(Config{URL: server.URL, Seed: Seed, Clock: services.SystemClock{}, Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(w.host.close)
	if err := w.Build(t.Context()); err != nil {
		t.Fatal(err)
	}
	if events := server.takeEventCount(); events < 1000 || server.requestCount > 15 {
		t.Errorf("the past is %d events in %d requests", events, server.requestCount)
	}
}

func TestAMissingServerEndsTheBuild(t *testing.T) {
	server := newEventCountingServer(t)
	server.Close()
	w := New(Config{URL: server.URL, Seed: Seed, ActsPerMinute: 60, Clock: services.SystemClock{}, Log: slog.New(slog.DiscardHandler)})
	if err := w.Build(t.Context()); err == nil {
		t.Error("a world was built on no server")
	}
}
