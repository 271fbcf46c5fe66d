package views

import (
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/jobs"
	"tidings/services/redis"
	"tidings/tests/histories"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var newsView = View{Code: "news", ID: "town"}

// testNode is the views of one node on real engines.
type testNode struct {
	*fanouttest.World
	service *Service
}

func newNode(w *fanouttest.World) testNode {
	return testNode{w, New(Config{
		DB: w.DB, Redis: w.Redis.Client, Jobs: w.Fanout.Engine, Projector: w.Projector, IDs: w.IDs, Clock: w.Clock, Log: w.Log,
	})}
}

// eachNode runs a test on both pairs of engines, each time on a new node.
func eachNode(t *testing.T, test func(t *testing.T, n testNode)) {
	t.Helper()
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) { test(t, newNode(w)) })
}

// commitCommand commits a command, and then advances the clock by a second.
func (n testNode) commitCommand(cmd *jobs.Command, err error) error {
	n.TB.Helper()
	n.Must(err)
	defer n.Clock.Advance(time.Second)
	return n.Fanout.Commit(n.TB.Context(), cmd)[0]
}

// mustCommit commits a command that must succeed, and then advances the clock by a second.
func (n testNode) mustCommit(cmd *jobs.Command, err error) {
	n.TB.Helper()
	n.Must(n.commitCommand(cmd, err))
}

func (n testNode) listViews(user services.UserID, size int, codes ...string) Page {
	n.TB.Helper()
	page, err := n.service.List(n.TB.Context(), user, codes, View{}, size)
	n.Must(err)
	return page
}

func TestNewItemsInAView(t *testing.T) {
	eachNode(t, func(t *testing.T, n testNode) {
		users := n.MakeNeverSeenUsers(2)
		n.mustCommit(n.service.Add(newsView, "a", n.Clock.Now()))
		if page := n.listViews(users[0], 10, "news"); len(page.Views) != 0 {
			t.Errorf("who never looked is shown %+v", page)
		}
		n.mustCommit(n.service.Touch(users[0], newsView, nil))
		n.mustCommit(n.service.Add(newsView, "b", n.Clock.Now()))
		n.mustCommit(n.service.Add(newsView, "c", n.Clock.Now()))
		n.mustCommit(n.service.Touch(users[1], newsView, nil))
		n.mustCommit(n.service.Remove(newsView, "b"))
		n.RunAllJobs(n.Fanout)
		for i, want := range []int{1, 0} {
			page := n.listViews(users[i], 10, "news")
			if len(page.Views) != 1 || page.Views[0].View != newsView || page.Views[0].Count.Value != want || !page.Views[0].Count.InTotal || page.Views[0].Count.Precision != services.Exact {
				t.Errorf("user %d is shown %+v, want %d", i, page, want)
			}
		}
		n.mustCommit(n.service.Add(newsView, "c", n.Clock.Now())) // the item moves to a later time
		n.RunAllJobs(n.Fanout)
		if got := n.listViews(users[1], 10, "news").Views[0].Count.Value; got != 1 {
			t.Errorf("after a move %d are new", got)
		}
		read, err := n.service.Read(t.Context(), users[1], newsView)
		n.Must(err)
		if read.Count.Value != 1 {
			t.Errorf("read alone: %+v", read)
		}
		if _, err := n.service.Read(t.Context(), users[1], View{Code: "news", ID: "city"}); services.CodeOf(err) != services.NotFound {
			t.Errorf("never looked at: %v", err)
		}
	})
}

func TestPastTheCapAViewIsAtLeast(t *testing.T) {
	eachNode(t, func(t *testing.T, n testNode) {
		user := n.MakeNeverSeenUsers(1)[0]
		n.mustCommit(n.service.Touch(user, newsView, nil))
		for count := 1; count <= 140; count++ {
			n.mustCommit(n.service.Add(newsView, fmt.Sprint(count), n.Clock.Now()))
			if count > 2 && count < 98 || count > 102 && count < 130 {
				continue
			}
			n.RunAllJobs(n.Fanout)
			got := n.listViews(user, 1, "news").Views[0].Count
			precision, display := services.Exact, fmt.Sprint(count)
			if count > 100 {
				precision = services.AtLeast
			}
			if count > 99 {
				display = "99+"
			}
			if got.Value != min(count, 100) || got.Precision != precision || got.Display != display {
				t.Errorf("%d new: %+v", count, got)
			}
		}
	})
}

// A page of any number of views takes one round trip of Redis. Where some views have to be built, SQL counts them, and the page takes
// two more.
func TestReadingViewsTakesOneRoundTrip(t *testing.T) {
	eachNode(t, func(t *testing.T, n testNode) {
		user := n.MakeNeverSeenUsers(1)[0]
		for i := range 60 {
			n.mustCommit(n.service.Touch(user, View{Code: "topic", ID: fmt.Sprint(i)}, nil))
		}
		for _, want := range []int{3, 1} {
			ctx, trips := redis.WithRoundTrips(t.Context())
			page, err := n.service.List(ctx, user, []string{"topic", "news"}, View{}, 50)
			n.Must(err)
			if len(page.Views) != 50 || !page.HasNext || trips.Count() != want {
				t.Errorf("%d views, more: %v, in %d round trips, want %d", len(page.Views), page.HasNext, trips.Count(), want)
			}
		}
	})
}

// Without Redis, and after Redis has lost the views, SQL counts the same.
func TestViewsWithoutRedis(t *testing.T) {
	n := newNode(fanouttest.New(t, fanouttest.Options{}))
	user := n.MakeNeverSeenUsers(1)[0]
	n.mustCommit(n.service.Touch(user, newsView, nil))
	for i := range 3 {
		n.mustCommit(n.service.Add(newsView, fmt.Sprint(i), n.Clock.Now()))
	}
	n.RunAllJobs(n.Fanout)
	value := func() int { return n.listViews(user, 1, "news").Views[0].Count.Value }
	if got := value(); got != 3 {
		t.Errorf("with Redis: %d", got)
	}
	n.RedisServer.Flush()
	if got := value(); got != 3 {
		t.Errorf("after a flush: %d", got)
	}
	n.RedisServer.Kill()
	n.mustCommit(n.service.Add(newsView, "4", n.Clock.Now()))
	if got := value(); got != 4 {
		t.Errorf("without Redis: %d", got)
	}
	n.RedisServer.Start()
	n.Clock.Advance(time.Minute)
	n.RunAllJobs(n.Fanout)
	if got := value(); got != 4 {
		t.Errorf("with an empty Redis: %d", got)
	}
}

func TestInvalidViewsAreRefused(t *testing.T) {
	n := newNode(fanouttest.New(t, fanouttest.Options{RedisURL: "embedded"}))
	long, now := string(make([]byte, 65)), n.Clock.Now()
	late, old := now.Add(time.Hour), time.Unix(-1, 0)
	refused := func(what string, want services.Code, err error) {
		t.Helper()
		if services.CodeOf(err) != want {
			t.Errorf("%s: %v, want %s", what, err, want)
		}
	}
	for _, view := range []View{{Code: "", ID: "x"}, {Code: "News", ID: "x"}, {Code: long, ID: "x"}, {Code: "home_page", ID: "x"}, {Code: "news"}, {Code: "news", ID: long}} {
		_, err := n.service.Add(view, "item", now)
		refused(fmt.Sprint("add to ", view), services.Invalid, err)
		_, err = n.service.Remove(view, "item")
		refused(fmt.Sprint("remove from ", view), services.Invalid, err)
		_, err = n.service.Touch(1, view, nil)
		refused(fmt.Sprint("touch ", view), services.Invalid, err)
	}
	_, err := n.service.Add(newsView, "", now)
	refused("no item", services.Invalid, err)
	_, err = n.service.Add(newsView, "x", old)
	refused("an item before 1970", services.Invalid, err)
	refused("an item in the future", services.Invalid, n.commitCommand(n.service.Add(newsView, "x", late)))
	refused("an item that is none", services.NotFound, n.commitCommand(n.service.Remove(newsView, "x")))
	refused("a touch in the future", services.Invalid, n.commitCommand(n.service.Touch(1, newsView, &late)))
	_, err = n.service.Touch(1, newsView, &old)
	refused("a touch before 1970", services.Invalid, err)
	for _, codes := range [][]string{nil, make([]string, 21), {"news", "home_page"}} {
		_, err := n.service.List(t.Context(), 1, codes, View{}, 1)
		refused(fmt.Sprint("codes ", codes), services.Invalid, err)
	}
	if got := n.listViews(1, 1, "news"); len(got.Views) != 0 {
		t.Errorf("something was half-done: %+v", got)
	}
}

// Readers on two devices, and items that come, move and go: the new items agree with a simple model.
func TestUnreadOfViewsAgreesWithTheModel(t *testing.T) {
	histories.ReduceRapidChecks(t, 5)
	n, number := newNode(fanouttest.New(t, fanouttest.Options{})), 0
	rapid.Check(t, func(t *rapid.T) {
		number++
		users := n.MakeNeverSeenUsers(2)
		views := []View{{Code: "a", ID: fmt.Sprint(number)}, {Code: "b", ID: fmt.Sprint(number)}}
		items, seen := map[View]map[string]time.Time{}, map[services.UserID]map[View]time.Time{}
		for _, view := range views {
			items[view] = map[string]time.Time{}
		}
		for _, user := range users {
			seen[user] = map[View]time.Time{}
		}
		view := func() View { return rapid.SampledFrom(views).Draw(t, "view") }
		item := func() string { return fmt.Sprint(rapid.IntRange(0, 4).Draw(t, "item")) }
		gone := map[string]time.Time{}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				view, item, at := view(), item(), n.Clock.Now().Add(-time.Duration(rapid.IntRange(0, 30).Draw(t, "ago"))*time.Second)
				n.mustCommit(n.service.Add(view, item, at))
				if had := items[view][item]; at.After(had) && at.After(gone[fmt.Sprint(view, item)]) {
					items[view][item] = at
				}
			},
			"remove": func(*rapid.T) {
				view, item := view(), item()
				if at, known := items[view][item]; known {
					n.mustCommit(n.service.Remove(view, item))
					gone[fmt.Sprint(view, item)] = at
					delete(items[view], item)
				}
			},
			"touch": func(t *rapid.T) {
				user, view := rapid.SampledFrom(users).Draw(t, "user"), view()
				upTo := n.Clock.Now().Add(-time.Duration(rapid.IntRange(0, 30).Draw(t, "ago")) * time.Second) // a device that is late
				n.mustCommit(n.service.Touch(user, view, &upTo))
				if upTo.After(seen[user][view]) {
					seen[user][view] = upTo
				}
			},
			"lose": func(*rapid.T) { n.RedisServer.Flush() },
			"": func(t *rapid.T) {
				n.RunDueJobs(n.Fanout)
				for _, user := range users {
					page := n.listViews(user, 10, "a", "b")
					if len(page.Views) != len(seen[user]) {
						t.Fatalf("user %d has %d views, want %d", user, len(page.Views), len(seen[user]))
					}
					for _, view := range page.Views {
						want := 0
						for _, at := range items[view.View] {
							if at.After(seen[user][view.View]) {
								want++
							}
						}
						if view.Count.Value != want || !view.UpTo.Equal(seen[user][view.View]) {
							t.Fatalf("user %d is shown %+v, want %d since %s", user, view, want, seen[user][view.View])
						}
					}
				}
			},
		})
	})
}
