package badge

import (
	"fmt"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/views"
)

var (
	townView  = views.View{Code: "news", ID: "town"}
	musicView = views.View{Code: "topic", ID: `mu"sic`} // with a quote in its ID, which must be escaped
)

// reportItems reports items into a view, and runs the jobs.
func (n node) reportItems(view views.View, items ...string) {
	n.TB.Helper()
	for _, item := range items {
		n.mustCommit(n.views.Add(view, item, n.Clock.Now()))
		n.Clock.Advance(time.Second)
	}
	n.RunAllJobs(n.World.Fanout)
}

// Items that come, go and are seen change the count of each reader's views. The count is out of the total until the reader's
// policy puts it in, and a change of the policy for another source leaves it there.
func TestViewsAreCounted(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		n := newNode(w)
		users := n.MakeUsers(3)
		reader, other, stranger := users[0], users[1], users[2]
		counts := func(want ...int) {
			t.Helper()
			for i, user := range users {
				facts, err := n.ReadFacts(t.Context(), user)
				n.Must(err)
				if got := n.read(user).Views; got.Value != want[i] || got.Precision != services.Exact || facts.Views.Value != want[i] {
					t.Errorf("user %d has %+v and from SQL %+v, want %d", i, got, facts.Views, want[i])
				}
			}
		}
		n.reportItems(townView, "a")
		counts(0, 0, 0)
		n.mustCommit(n.views.Touch(reader, townView, nil))
		n.mustCommit(n.views.Touch(other, musicView, nil))
		before := n.read(reader).Version
		n.reportItems(townView, "b", "c")
		n.reportItems(musicView, "x")
		counts(2, 1, 0)
		got := n.read(reader)
		if got.Views.InTotal || got.Total.Value != 0 || got.Version <= before {
			t.Errorf("by default: %+v in a total of %+v", got.Views, got.Total)
		}
		n.setDisplayPolicy(reader, PolicyChange{InTotal: map[services.Source]bool{services.SourceViews: true}})
		n.setDisplayPolicy(reader, PolicyChange{InTotal: map[services.Source]bool{services.SourceHomeFeed: false}})
		if got := n.read(reader); !got.Views.InTotal || got.Total.Value != 2 || got.HomeFeed.InTotal {
			t.Errorf("once the policy lets it in: %+v in a total of %+v", got.Views, got.Total)
		}
		n.mustCommit(n.views.Touch(reader, musicView, nil))
		n.mustCommit(n.views.Remove(townView, "c"))
		n.RunAllJobs(n.World.Fanout)
		counts(1, 1, 0)
		n.mustCommit(n.views.Touch(reader, townView, nil)) // the reader sees the touch at once, before any job
		if got := n.read(reader); got.Views.Value != 0 || got.Total.Value != 0 {
			t.Errorf("after a look: %+v in a total of %+v", got.Views, got.Total)
		}
		n.setDisplayPolicy(reader, PolicyChange{InTotal: map[services.Source]bool{services.SourceViews: false}})
		n.reportItems(musicView, "y")
		counts(1, 2, 0)
		if got := n.read(reader).Total.Value; got != 0 {
			t.Errorf("out of the total again, which is %d", got)
		}
		n.read(stranger)
		n.CheckAgainstFacts(users...)
	})
}

// More items than are counted are AT_LEAST, and are displayed with a "+" whatever the cap.
func TestACountOfViewsMayBeALowerBound(t *testing.T) {
	n := newNode(fanouttest.New(t, fanouttest.Options{RedisURL: "embedded"}))
	user := n.MakeUsers(1)[0]
	n.mustCommit(n.views.Touch(user, townView, nil))
	for i := range 101 {
		n.mustCommit(n.views.Add(townView, fmt.Sprint(i), n.Clock.Now()))
	}
	n.Clock.Advance(time.Second)
	n.RunAllJobs(n.World.Fanout)
	if got := n.read(user).Views; got.Value != 100 || got.Precision != services.AtLeast || got.Display != "99+" {
		t.Errorf("101 items: %+v", got)
	}
	wide := n.newServiceWith(func(cfg *Config) { cfg.Caps = map[services.Source]int{services.SourceViews: 999} })
	if got, err := wide.Read(t.Context(), user); err != nil || got.Views.Display != "100+" {
		t.Errorf("with a cap of 999: %+v, %v", got.Views, err)
	}
}

// Without Redis and after it lost its data the count is the same; a user who was away for long sees it as well.
func TestViewsSurviveRedisAndAbsence(t *testing.T) {
	n := redisServerNode(t)
	user := n.MakeUsers(1)[0]
	n.mustCommit(n.views.Touch(user, townView, nil))
	n.reportItems(townView, "a", "b")
	expect := func(when string, want int, precision services.Precision) {
		t.Helper()
		if got := n.read(user).Views; got.Value != want || got.Precision != precision {
			t.Errorf("%s: %+v, want %d %s", when, got, want, precision)
		}
	}
	expect("at first", 2, services.Exact)
	n.RedisServer.Flush()
	expect("after a flush", 2, services.Exact)
	n.World.Clock.Advance(40 * day)
	n.reportItems(townView, "c") // nothing is projected to a dormant user
	if got := n.Document(user).Views.Unread; got == 3 {
		t.Error("a dormant user's document was written")
	}
	expect("after a month away", 3, services.Exact)
	n.RedisServer.Kill()
	n.mustCommit(n.views.Add(townView, "d", n.Clock.Now()))
	expect("without Redis", 4, services.Stale)
	n.mustCommit(n.views.Touch(user, townView, nil))
	expect("seen without Redis", 0, services.Stale)
	n.RedisServer.Start()
	n.Clock.Advance(time.Minute)
	n.RunAllJobs(n.World.Fanout)
	n.reportItems(townView, "e")
	if got := n.read(user).Views.Value; got != 1 {
		t.Errorf("with Redis again: %d, want 1", got)
	}
}

// A count is explained by the views behind it, with a mutation that clears each, and the digest has the new items.
func TestViewsAreExplained(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		n := newNode(w)
		user := n.MakeUsers(1)[0]
		n.reportItems(townView, "old")
		n.Clock.Advance(time.Hour)
		since := n.Clock.Now()
		n.mustCommit(n.views.Touch(user, townView, nil))
		n.mustCommit(n.views.Touch(user, musicView, nil))
		n.reportItems(townView, "a", "b")
		n.reportItems(musicView, "x")
		items := n.explainedItems(user)["VIEWS"]
		if len(items) != 2 || items[0].ID != musicView.GlobalID() || items[0].Count != 1 || items[1].ID != townView.GlobalID() || items[1].Count != 2 {
			t.Fatalf("it is explained by %+v", items)
		}
		if want := `mutation { touchView(input: {code: "topic", key: "mu\"sic"}) { badges { version total { value display } } } }`; items[0].ClearedBy != want {
			t.Errorf("it is cleared by %s, want %s", items[0].ClearedBy, want)
		}
		n.mustCommit(n.views.Touch(user, musicView, nil))
		if items := n.explainedItems(user)["VIEWS"]; len(items) != 1 || items[0].ID != townView.GlobalID() {
			t.Errorf("after a look it is explained by %+v", items)
		}
		digest, err := n.Digest(t.Context(), user, since)
		n.Must(err)
		if got := digestCounts(digest)["VIEWS"]; got != 3 {
			t.Errorf("the digest has %d items, want 3, seen or not", got)
		}
	})
}
