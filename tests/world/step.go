package world

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"tidings/services"
	"tidings/services/feed"
	"tidings/services/jobs"
	"tidings/services/live"
	"tidings/services/nodecache"
	"tidings/services/people"
	"tidings/services/posts"
	"tidings/services/redis"
	"tidings/services/sql"
)

// Metric reads one of the node's metrics.
func (n *Node) Metric(name string) (value float64) {
	n.TB.Helper()
	response, err := http.Get(n.URL + "/metrics")
	if err != nil {
		n.TB.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		n.TB.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindSubmatch(text)
	if found == nil {
		n.TB.Fatalf("there is no metric %s", name)
	}
	if value, err = strconv.ParseFloat(string(found[1]), 64); err != nil {
		n.TB.Fatal(err)
	}
	return value
}

// WaitNewPosts waits until a user has exactly this number of new posts.
func (n *Node) WaitNewPosts(as string, want int) {
	n.TB.Helper()
	var got Count
	Eventually(n.TB, 30*time.Second, as+" has the new posts", func() bool {
		var data struct {
			Viewer struct{ Badges struct{ HomeFeed Count } }
		}
		n.MustAsk(as, `{viewer{badges{homeFeed{value precision}}}}`, nil, &data)
		got = data.Viewer.Badges.HomeFeed
		return got.Value == want && got.Precision == services.Exact.String()
	})
}

// Readyz returns the answer of the node's /readyz.
func (n *Node) Readyz() (status int, text string) {
	n.TB.Helper()
	response, err := http.Get(n.URL + "/readyz")
	if err != nil {
		n.TB.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		n.TB.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// Get returns the text of a page of the node.
func (n *Node) Get(t *testing.T, path string) string {
	t.Helper()
	response, err := http.Get(n.URL + path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Announce publishes an announcement as the host application and returns its ID.
func (n *Node) Announce(input map[string]any) string {
	n.TB.Helper()
	var data struct {
		PublishAnnouncement struct{ Announcement struct{ ID string } }
	}
	n.MustAsk("host:ingest", `mutation($i:PublishAnnouncementInput!){publishAnnouncement(input:$i){announcement{id}}}`, map[string]any{"i": input}, &data)
	return data.PublishAnnouncement.Announcement.ID
}

// RaiseDot raises a dot as the host application.
func (n *Node) RaiseDot(input map[string]any) {
	n.TB.Helper()
	n.MustAsk("host:ingest", `mutation($i:RaiseDotInput!){raiseDot(input:$i){name}}`, map[string]any{"i": input}, nil)
}

// MakeAuthorsHuge pins the authors' mode to huge, so that their posts are pulled from now on. It changes no document of a follower, so
// it must be called before anybody follows the authors: an earlier follower's document would lack their posts until an audit.
func (n *Node) MakeAuthorsHuge(keys ...string) {
	n.TB.Helper()
	ids := n.EnsureUserIDs(keys...)
	err := n.DB.Write(n.TB.Context(), func(tx *sql.Tx) error {
		for _, id := range ids {
			huge := services.AuthorHuge
			if _, err := posts.PutAuthor(n.TB.Context(), tx, services.Author{ID: id, Mode: huge, Pinned: &huge}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		n.TB.Fatal(err)
	}
}

// feedSubscription is an open subscription to homeFeedChanged.
type feedSubscription struct {
	t    *testing.T
	conn *websocket.Conn
}

// SubscribeToFeed subscribes to a person's home feed.
func (n *Node) SubscribeToFeed(t *testing.T, as string) feedSubscription {
	t.Helper()
	conn := n.Dial(t)
	Send(t, conn, `{"type":"connection_init","payload":{"authorization":"dev:`+as+`"}}`)
	Send(t, conn, `{"id":"1","type":"subscribe","payload":{"query":`+
		QuoteJSON(`subscription{homeFeedChanged{newPosts{value} newestId authors{key} badges{version homeFeed{value}}}}`)+`}}`)
	return feedSubscription{t, conn}
}

// WaitNewPostsEvent waits for an event with count new posts, the newest post and these authors.
func (w feedSubscription) WaitNewPostsEvent(count int, newest string, authors ...string) {
	w.t.Helper()
	if err := w.conn.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		w.t.Fatal(err)
	}
	for last := ""; ; {
		_, text, err := w.conn.ReadMessage()
		if err != nil {
			w.t.Fatalf("%d new posts were not pushed: %v; the last was %s", count, err, last)
		}
		last = string(text)
		var message struct {
			Type    string
			Payload struct {
				Data struct {
					HomeFeedChanged struct {
						NewPosts struct{ Value int }
						NewestID *string
						Authors  []struct{ Key string }
						Badges   struct{ HomeFeed struct{ Value int } }
					}
				}
			}
		}
		if err := json.Unmarshal(text, &message); err != nil || message.Type == "error" {
			w.t.Fatalf("%s: %v", text, err)
		}
		event := message.Payload.Data.HomeFeedChanged
		if message.Type != "next" || event.NewPosts.Value != count {
			continue
		}
		var keys []string
		for _, author := range event.Authors {
			keys = append(keys, author.Key)
		}
		if event.Badges.HomeFeed != event.NewPosts || (event.NewestID == nil) != (newest == "") || newest != "" && *event.NewestID != newest || !slices.Equal(keys, authors) {
			w.t.Errorf("pushed: %s, want %s of %v", text, newest, authors)
		}
		return
	}
}

// TailChangelog brings the node cache up to date with the changelog.
func (n *Node) TailChangelog() {
	n.TB.Helper()
	if _, err := n.Caches.Changelog.RunOnce(n.TB.Context()); err != nil {
		n.TB.Fatalf("the log: %v", err)
	}
}

// CheckBoardRedisRoundTrips pages through a reader's board, which has want shows, and fails unless each page takes the allowed
// number of round trips to Redis.
func CheckBoardRedisRoundTrips(t *testing.T, n *Node, reader services.UserID, want int) {
	for _, first := range []int{1, 20, 100} {
		var page live.Board
		// On a busy machine Redis may miss its deadline: then a read repeats its round trips or does without Redis. So each page has
		// three tries.
		turn := func(ask live.BoardRequest, most int) (trips int) {
			ask.First = first
			for range 3 {
				trips = countRedisRoundTrips(t, func(ctx context.Context) (err error) {
					page, err = n.Live.Board(ctx, reader, ask)
					return err
				})
				if trips > 0 && trips <= most && !page.ReplaysBeingBuilt {
					break
				}
			}
			return trips
		}
		wanted := 1
		if first >= want*2/3 && want > 0 { // every third show is a replay, and a page that reaches the replays makes a second round trip
			wanted = 2
		}
		if trips := turn(live.BoardRequest{}, wanted); trips != wanted || len(page.Items) != min(first, want) || page.ReplaysBeingBuilt {
			t.Errorf("a first page of %d: %d round trips, want %d; %d shows, building %t", first, trips, wanted, len(page.Items), page.ReplaysBeingBuilt)
		}
		for listed := len(page.Items); page.HasNext; listed += len(page.Items) {
			cursor := live.CursorText(page.Session, page.Items[len(page.Items)-1].Position)
			if trips := turn(live.BoardRequest{After: &cursor}, 2); trips > 2 || page.SessionReplaced {
				t.Errorf("a page of %d after %d: %d round trips, want 2 at most; a new session %t", first, listed, trips, page.SessionReplaced)
			}
			if len(page.Items) != min(first, want-listed) {
				t.Fatalf("a page of %d after %d has %d of %d", first, listed, len(page.Items), want)
			}
		}
	}
}

// RunJobs runs every due job. Jobs planned for later stay, such as the jobs that close shows without an end.
func (n *Node) RunJobs() {
	n.TB.Helper()
	for claimed := 1; claimed > 0; {
		claimed = 0
		for _, worker := range n.Workers {
			claimed += n.RunWorkerOnce(worker)
		}
	}
}

// countRedisRoundTrips returns the number of round trips to Redis that a call takes.
func countRedisRoundTrips(t *testing.T, do func(ctx context.Context) error) int {
	t.Helper()
	ctx, trips := redis.WithRoundTrips(t.Context())
	if err := do(ctx); err != nil {
		t.Fatal(err)
	}
	return trips.Count()
}

// EnsureUserIDs returns the IDs of users, and creates those who do not exist.
func (n *Node) EnsureUserIDs(keys ...string) []services.UserID {
	n.TB.Helper()
	ids := make([]services.UserID, len(keys))
	err := n.DB.Write(n.TB.Context(), func(tx *sql.Tx) error {
		known, err := people.Ensure(n.TB.Context(), tx, keys)
		for i, key := range keys {
			ids[i] = known[key]
		}
		return err
	})
	if err != nil {
		n.TB.Fatal(err)
	}
	return ids
}

// newFeedWithEmptyCache makes a feed service with an empty node cache.
func (n *Node) newFeedWithEmptyCache() *feed.Service {
	memory := nodecache.New(nodecache.Config{Facts: nodecache.SQL{DB: n.DB}, Redis: n.Redis, Log: n.Log})
	unused := jobs.New(jobs.Config{DB: n.DB, Clock: n.Clock, Log: n.Log}) // the node's engine has a feed already
	return feed.New(feed.Config{Jobs: unused, DB: n.DB, Redis: n.Redis, Posts: memory.Posts, Reader: memory.Reader, Pulled: memory.Pulled, InFlight: memory.InFlight, Projector: n.Projector, Fanout: n.Fanout, Clock: n.Clock})
}

// CheckFeedRedisRoundTrips fails unless reads of badges and feeds take the allowed number of round trips to Redis. followed is the
// number of authors that the reader follows; a reader who follows any must have 120 new posts.
func CheckFeedRedisRoundTrips(t *testing.T, n *Node, reader services.UserID, followed int) {
	want := map[bool]int{true: 120}[followed > 0]
	trips := countRedisRoundTrips(t, func(ctx context.Context) error {
		got, err := n.Badge.Read(ctx, reader)
		if err == nil && (got.HomeFeed.Value != want || got.HomeFeed.Precision != services.Exact) {
			err = fmt.Errorf("%+v, want %d", got.HomeFeed, want)
		}
		return err
	})
	if trips != 1 {
		t.Errorf("badges: %d round trips, want 1", trips)
	}
	for _, first := range []int{1, 20, 100} {
		page := func(service *feed.Service) int {
			return countRedisRoundTrips(t, func(ctx context.Context) error {
				got, err := service.Page(ctx, reader, services.MaxPostID, first)
				if err == nil && len(got.Items) != min(first, want) {
					err = fmt.Errorf("%d posts, want %d", len(got.Items), min(first, want))
				}
				return err
			})
		}
		page(n.newFeedWithEmptyCache()) // puts the copies of profiles into Redis, where all nodes find them
		cold := n.newFeedWithEmptyCache()
		if trips := page(cold); trips > 2 {
			t.Errorf("a page of %d: %d round trips, want 2 at most", first, trips)
		}
		if trips := page(cold); trips != 1 {
			t.Errorf("a page of %d that is remembered: %d round trips, want 1", first, trips)
		}
	}
}

// CheckPushRedisRoundTrips fails unless a push to 100 people takes the allowed number of round trips to Redis.
func CheckPushRedisRoundTrips(t *testing.T, n *Node) {
	keys := make([]string, 100)
	for i := range keys {
		keys[i] = fmt.Sprint("online", i)
		n.Follow(keys[i], "author0")
		n.Badges(keys[i])
	}
	users := n.EnsureUserIDs(keys...)
	// inOneTrip returns an error unless one round trip reads everybody's exact number of new posts, which is want.
	inOneTrip := func(want int) error {
		ctx, trips := redis.WithRoundTrips(t.Context())
		badges, errs := n.Badge.ReadAndFollow(ctx, users)
		if err := errors.Join(errs...); err != nil {
			return err
		}
		for i, got := range badges {
			if got.HomeFeed.Value != want || got.HomeFeed.Precision != services.Exact {
				return fmt.Errorf("%s: %+v, want %d", keys[i], got.HomeFeed, want)
			}
		}
		if got := trips.Count(); got != 1 {
			return fmt.Errorf("%d round trips, want 1", got)
		}
		return nil
	}
	// On a busy machine a read above may be answered from SQL, which leaves no document in Redis.
	EventuallySucceeds(t, 30*time.Second, func() error { return inOneTrip(0) })
	n.Publish("author0", "to all of them")
	n.SettleJobsAndCaches()
	if err := inOneTrip(1); err != nil {
		t.Error(err)
	}
	if trips := countRedisRoundTrips(t, func(ctx context.Context) error {
		_, err := n.Redis.DocumentVersions(ctx, users)
		return err
	}); trips != 1 {
		t.Errorf("reconciliation: %d round trips, want 1", trips)
	}
}

// UserExists reports whether a user with this key exists.
func (n *Node) UserExists(key string) bool {
	n.TB.Helper()
	ids, err := people.IDs(n.TB.Context(), n.DB, []string{key})
	if err != nil {
		n.TB.Fatal(err)
	}
	return len(ids) > 0
}

// GoLive lets a host begin a show, and returns the ID of the show.
func (n *Node) GoLive(host string) (show string) {
	n.TB.Helper()
	show = n.ScheduleShow(host, "a show", n.Clock.Now().Add(time.Hour))
	n.MutateShow(host, "startShow", show)
	return show
}
