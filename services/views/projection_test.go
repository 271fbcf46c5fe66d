package views

import (
	"errors"
	"testing"
	"time"

	"github.com/sony/gobreaker/v2"

	"tidings/services"
	"tidings/services/rdb"
	"tidings/services/rdb/rdbtest"
	"tidings/services/redis"
	"tidings/services/redis/clienttest"
	"tidings/services/redis/redistest"
)

func TestEveryScriptFileIsLoadedAfterItsParts(t *testing.T) {
	clienttest.EveryScriptIsLoaded(t, luaFiles)
}

// projectionInTest is the projection of views on one Redis.
type projectionInTest struct {
	*testing.T
	projection
}

func eachProjection(t *testing.T, run func(s projectionInTest)) {
	t.Helper()
	clienttest.EachRedis(t, func(t *testing.T, c *redis.Client) { run(projectionInTest{t, projection{c}}) })
}

func (s projectionInTest) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// buildView builds a view in Redis with these items.
func (s projectionInTest) buildView(view View, items ...Item) {
	s.Helper()
	stamps, err := s.beginRebuild(s.Context(), []View{view})
	s.must(err)
	_, err = s.endRebuild(s.Context(), []viewFacts{{view: view, stamp: stamps[0], newestItems: newestItems{items: items}}})
	s.must(err)
}

// countAllItems returns the count for a user whose last look was before all items.
func (s projectionInTest) countAllItems(view View) viewCount {
	s.Helper()
	counts, err := s.count(s.Context(), []LastAccess{{View: view, UpTo: time.UnixMicro(1)}})
	s.must(err)
	return counts[0]
}

// For a user who never looked at a view, all of its items are new. The members that are not items are not counted, and a complete view is
// ready: it need not be rebuilt.
func TestAViewThatWasNeverLookedAtIsCounted(t *testing.T) {
	eachProjection(t, func(s projectionInTest) {
		view := View{Code: "news", ID: "never"}
		s.buildView(view, Item{Name: "a", At: time.UnixMilli(1000)}, Item{Name: "b", At: time.UnixMilli(2000)})
		counts, err := s.count(s.Context(), []LastAccess{{View: view}})
		s.must(err)
		if want := (viewCount{ready: true, count: 2}); counts[0] != want {
			t.Errorf("it is %+v, want %+v", counts[0], want)
		}
	})
}

func TestKeysOfViewsAreRecognized(t *testing.T) {
	if got := viewKey(View{Code: "news", ID: "a b"}); got != "v:news/a b" {
		t.Errorf("the key is %q", got)
	}
	for name, ours := range map[string]bool{
		viewKey(View{Code: "town", ID: "a/b"}): true, "v:": false, "v:/": false, "v:a": false, "v:/a": false, "v:a/": false, "{u7}:b": false,
	} {
		if family, found := redis.FamilyOf(name); found != ours || found && family.MarkerMember != stampMember {
			t.Errorf("%q is ours: %t", name, found)
		}
	}
}

// A view of another epoch counts as missing. A rebuild makes it anew, without its former items.
func TestAViewOfAnotherEpochIsMissing(t *testing.T) {
	eachProjection(t, func(s projectionInTest) {
		s.buildView(newsView, Item{Name: "a", At: time.UnixMicro(5)}, Item{Name: "b", At: time.UnixMicro(6)})
		if got := s.countAllItems(newsView); !got.ready || got.count != 2 {
			s.Fatalf("%+v, want 2", got)
		}
		s.must(s.Commands().ZAdd(s.Context(), viewKey(newsView), redis.Z{Score: -4711, Member: epochMember}).Err())
		if got := s.countAllItems(newsView); got.ready {
			s.Errorf("of another epoch: %+v", got)
		}
		s.buildView(newsView, Item{Name: "c", At: time.UnixMicro(7)})
		if got := s.countAllItems(newsView); !got.ready || got.count != 1 {
			s.Errorf("begun anew: %+v, want 1", got)
		}
	})
}

func TestAViewOfAnotherTypeIsMissing(t *testing.T) {
	eachProjection(t, func(s projectionInTest) {
		list := func() {
			s.must(s.Delete(s.Context(), viewKey(newsView)))
			s.must(s.Commands().RPush(s.Context(), viewKey(newsView), "text").Err())
		}
		for range 2 {
			list()
			if got := s.countAllItems(newsView); got.ready {
				s.Errorf("a view: %+v", got)
			}
			list()
			s.buildView(newsView)
			if got := s.countAllItems(newsView); !got.ready {
				s.Errorf("a rebuild: %+v", got)
			}
			list()
			if result, err := s.remove(s.Context(), newsView, "i"); err != nil || result.Status != redis.Missing {
				s.Errorf("a removal: %+v, %v", result, err)
			}
		}
	})
}

// The cleaner drops a view that would never expire in Redis. It keeps one that expires, and the key of another application.
func TestTheCleanerDropsAnEndlessView(t *testing.T) {
	rdbtest.EachRedis(t, func(t *testing.T, c *rdb.Projections) {
		s, endless := projectionInTest{t, projection{c.Client}}, View{Code: "topic", ID: "endless"}
		s.buildView(newsView)
		s.buildView(endless)
		s.must(s.Commands().Persist(t.Context(), viewKey(endless)).Err())
		s.must(s.Commands().Set(t.Context(), "v:settings/x", "another application's", 0).Err())
		dropped := 0
		for position, done := (rdb.KeyWalkPosition{}), false; !done; {
			found, to, ended, err := c.WalkKeys(t.Context(), position, 10)
			s.must(err)
			_, gone, err := c.DropLeftovers(t.Context(), found.Leftovers)
			s.must(err)
			position, done, dropped = to, ended, dropped+gone
		}
		left, err := s.Commands().Exists(t.Context(), "v:settings/x").Result()
		s.must(err)
		if dropped != 1 || left != 1 || s.countAllItems(endless).ready || !s.countAllItems(newsView).ready {
			t.Errorf("%d dropped; endless %+v, news %+v", dropped, s.countAllItems(endless), s.countAllItems(newsView))
		}
	})
}

// No count is used while Redis refuses writes: it may be behind.
func TestCountsAreNotBelievedWhileWritesAreRefused(t *testing.T) {
	server := redistest.NewServer(t)
	s := projectionInTest{t, projection{clienttest.Open(t, redis.Options{URL: server.URL(), ReadTimeout: clienttest.LongReadTimeout})}}
	s.buildView(newsView)
	if got := s.countAllItems(newsView); !got.ready {
		t.Fatalf("at first: %+v", got)
	}
	server.Do("CONFIG", "SET", "maxmemory", "100kb")
	if err := s.CheckWrites(t.Context()); !services.IsUnavailable(err) {
		t.Fatalf("a probe of a full Redis: %v", err)
	}
	if _, err := s.count(t.Context(), []LastAccess{{View: newsView}}); !services.IsUnavailable(err) {
		t.Errorf("while writes are refused: %v, want UNAVAILABLE", err)
	}
}

// Counts are guarded: while Redis hangs, one count waits after each pause, and all other counts are refused at once.
func TestCountsOfAHungRedisAreGuarded(t *testing.T) {
	const within, pause = 60 * time.Millisecond, 500 * time.Millisecond // the read timeout, and the longer pause of the guard
	proxy := redistest.NewProxy(t, redistest.NewServer(t).Addr())
	s := projectionInTest{t, projection{clienttest.Open(t, redis.Options{URL: proxy.URL(), ReadTimeout: within})}}
	proxy.BlackHole(true)
	start, waited := time.Now(), 0
	for range 100 {
		_, err := s.count(t.Context(), []LastAccess{{View: newsView}})
		if !services.IsUnavailable(err) {
			t.Fatalf("%v, want UNAVAILABLE", err)
		}
		if !errors.Is(err, gobreaker.ErrOpenState) {
			waited++
		}
	}
	if most := 2 + int(time.Since(start)/pause); waited == 0 || waited > most {
		t.Errorf("%d counts waited in %v, want 1 to %d", waited, time.Since(start), most)
	}
}
