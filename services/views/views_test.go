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

var news = View{Code: "news", ID: "town"}

// node is the views of one node on real engines.
type node struct {
	*fanouttest.World
	service *Service
}

func newNode(w *fanouttest.World) node {
	return node{w, New(Config{
		DB: w.Store, Redis: w.Redis.Client, Jobs: w.Fanout.Engine, Projector: w.Projector, IDs: w.IDs, Clock: w.Clock, Log: w.Log,
	})}
}

func each(t *testing.T, test func(t *testing.T, n node)) {
	t.Helper()
	fanouttest.Each(t, nil, func(t *testing.T, w *fanouttest.World) { test(t, newNode(w)) })
}

// do commits a command, and then advances the clock by a second.
func (n node) do(cmd *jobs.Command, err error) error {
	n.TB.Helper()
	n.Must(err)
	defer n.Clock.Advance(time.Second)
	return n.Fanout.Commit(n.TB.Context(), cmd)[0]
}

func (n node) must(cmd *jobs.Command, err error) {
	n.TB.Helper()
	n.Must(n.do(cmd, err))
}

func (n node) list(user services.UserID, size int, codes ...string) Page {
	n.TB.Helper()
	page, err := n.service.List(n.TB.Context(), user, codes, View{}, size)
	n.Must(err)
	return page
}

func TestNewItemsInAView(t *testing.T) {
	each(t, func(t *testing.T, n node) {
		users := n.MakeStrangers(2)
		n.must(n.service.Add(news, "a", n.Clock.Now()))
		if page := n.list(users[0], 10, "news"); len(page.Views) != 0 {
			t.Errorf("who never looked is shown %+v", page)
		}
		n.must(n.service.Touch(users[0], news, nil))
		n.must(n.service.Add(news, "b", n.Clock.Now()))
		n.must(n.service.Add(news, "c", n.Clock.Now()))
		n.must(n.service.Touch(users[1], news, nil))
		n.must(n.service.Remove(news, "b"))
		n.RunAllJobs(n.Fanout)
		for i, want := range []int{1, 0} {
			page := n.list(users[i], 10, "news")
			if len(page.Views) != 1 || page.Views[0].View != news || page.Views[0].Count.Value != want || !page.Views[0].Count.InTotal || page.Views[0].Count.Precision != services.Exact {
				t.Errorf("user %d is shown %+v, want %d", i, page, want)
			}
		}
		n.must(n.service.Add(news, "c", n.Clock.Now())) // it moves
		n.RunAllJobs(n.Fanout)
		if got := n.list(users[1], 10, "news").Views[0].Count.Value; got != 1 {
			t.Errorf("after a move %d are new", got)
		}
		read, err := n.service.Read(t.Context(), users[1], news)
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
	each(t, func(t *testing.T, n node) {
		user := n.MakeStrangers(1)[0]
		n.must(n.service.Touch(user, news, nil))
		for count := 1; count <= 140; count++ {
			n.must(n.service.Add(news, fmt.Sprint(count), n.Clock.Now()))
			if count > 2 && count < 98 || count > 102 && count < 130 {
				continue
			}
			n.RunAllJobs(n.Fanout)
			got := n.list(user, 1, "news").Views[0].Count
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
	each(t, func(t *testing.T, n node) {
		user := n.MakeStrangers(1)[0]
		for i := range 60 {
			n.must(n.service.Touch(user, View{Code: "topic", ID: fmt.Sprint(i)}, nil))
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
	user := n.MakeStrangers(1)[0]
	n.must(n.service.Touch(user, news, nil))
	for i := range 3 {
		n.must(n.service.Add(news, fmt.Sprint(i), n.Clock.Now()))
	}
	n.RunAllJobs(n.Fanout)
	value := func() int { return n.list(user, 1, "news").Views[0].Count.Value }
	if got := value(); got != 3 {
		t.Errorf("with Redis: %d", got)
	}
	n.Server.Flush()
	if got := value(); got != 3 {
		t.Errorf("after a flush: %d", got)
	}
	n.Server.Kill()
	n.must(n.service.Add(news, "4", n.Clock.Now()))
	if got := value(); got != 4 {
		t.Errorf("without Redis: %d", got)
	}
	n.Server.Start()
	n.Clock.Advance(time.Minute)
	n.RunAllJobs(n.Fanout)
	if got := value(); got != 4 {
		t.Errorf("with an empty Redis: %d", got)
	}
}

func TestBadViews(t *testing.T) {
	n := newNode(fanouttest.New(t, fanouttest.Options{Redis: "embedded"}))
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
	_, err := n.service.Add(news, "", now)
	refused("no item", services.Invalid, err)
	_, err = n.service.Add(news, "x", old)
	refused("an item before 1970", services.Invalid, err)
	refused("an item in the future", services.Invalid, n.do(n.service.Add(news, "x", late)))
	refused("an item that is none", services.NotFound, n.do(n.service.Remove(news, "x")))
	refused("a touch in the future", services.Invalid, n.do(n.service.Touch(1, news, &late)))
	_, err = n.service.Touch(1, news, &old)
	refused("a touch before 1970", services.Invalid, err)
	for _, codes := range [][]string{nil, make([]string, 21), {"news", "home_page"}} {
		_, err := n.service.List(t.Context(), 1, codes, View{}, 1)
		refused(fmt.Sprint("codes ", codes), services.Invalid, err)
	}
	if got := n.list(1, 1, "news"); len(got.Views) != 0 {
		t.Errorf("something was half-done: %+v", got)
	}
}

// Readers on two devices, and items that come, move and go: the new items agree with a simple model.
func TestUnreadOfViewsAgreesWithTheModel(t *testing.T) {
	histories.Reduce(t, 5)
	n, number := newNode(fanouttest.New(t, fanouttest.Options{})), 0
	rapid.Check(t, func(t *rapid.T) {
		number++
		users := n.MakeStrangers(2)
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
				n.must(n.service.Add(view, item, at))
				if had := items[view][item]; at.After(had) && at.After(gone[fmt.Sprint(view, item)]) {
					items[view][item] = at
				}
			},
			"remove": func(*rapid.T) {
				view, item := view(), item()
				if at, known := items[view][item]; known {
					n.must(n.service.Remove(view, item))
					gone[fmt.Sprint(view, item)] = at
					delete(items[view], item)
				}
			},
			"touch": func(t *rapid.T) {
				user, view := rapid.SampledFrom(users).Draw(t, "user"), view()
				upTo := n.Clock.Now().Add(-time.Duration(rapid.IntRange(0, 30).Draw(t, "ago")) * time.Second) // a device that is late
				n.must(n.service.Touch(user, view, &upTo))
				if upTo.After(seen[user][view]) {
					seen[user][view] = upTo
				}
			},
			"lose": func(*rapid.T) { n.Server.Flush() },
			"": func(t *rapid.T) {
				n.RunDueJobs(n.Fanout)
				for _, user := range users {
					page := n.list(user, 10, "a", "b")
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
