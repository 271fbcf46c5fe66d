package badge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"tidings/services"
	"tidings/services/badge/source"
	"tidings/services/notifications/notificationstest"
	"tidings/services/rdb"
)

// failingSource is a source whose facts fail.
type failingSource struct {
	Source
	failWith func(ctx context.Context) error // makes the error of Facts, at once or later
}

func (f failingSource) Facts(ctx context.Context, users []services.UserID, today int64, documents []rdb.Document) error {
	_ = f.Source.Facts(ctx, users, today, documents) // writes values before it fails, which the caller must drop
	return f.failWith(ctx)
}

// breakSource makes one source of a node fail to count in SQL, and returns the function that repairs the source.
func (n node) breakSource(name string, with func(ctx context.Context) error) (mend func()) {
	index := slices.IndexFunc(n.sources, func(source Source) bool { return source.Name() == name })
	source := n.sources[index]
	n.sources[index] = failingSource{source, with}
	return func() { n.sources[index] = source }
}

// failAtOnce makes a source fail at once: see breakSource.
func failAtOnce(context.Context) error { return errors.New("broken") }

// failAtTimeout makes a source hang until its time is up: see breakSource.
func failAtTimeout(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// restarted is the same node after a restart, with nothing remembered.
func (n node) restarted() node {
	n.Service = New(n.config())
	return n
}

// If neither engine answers, a node that has shown nothing yet returns UNKNOWN, with a version that replaces nothing.
func TestWithoutEnginesTheFirstAnswerIsUnknown(t *testing.T) {
	n := redisServerNode(t)
	_, reader := n.newLikedAuthor(2)
	shown := n.read(reader)
	n.RedisServer.Kill()
	n.Must(n.DB.Close())
	got := n.restarted().read(reader)
	if got.Total.Precision != services.Unknown || got.Version >= shown.Version {
		t.Errorf("%+v after %s", got, shown.Version)
	}
	if len(got.SiteMessages.Types) != 1 {
		t.Errorf("types of site messages: %+v", got.SiteMessages)
	}
}

// A node that has shown badges shows the same numbers again, as STALE and with the time at which they were right.
func TestWithoutEnginesTheLastBadgesAreShown(t *testing.T) {
	n := redisServerNode(t)
	_, reader := n.newLikedAuthor(2)
	shown := n.read(reader)
	at := n.Clock.Now()
	n.RedisServer.Kill()
	n.Must(n.DB.Close())
	for range 2 {
		n.Clock.Advance(time.Hour)
		got := n.read(reader)
		if got.Version != services.StaleVersion(services.DocumentHalf(shown.Version), time.Time{}) || got.Total.Value != 2 || got.Total.Precision != services.Stale || !got.Total.AsOf().Equal(at) {
			t.Errorf("after %+v of %s: %+v", shown, at, got)
		}
		for count := range n.sources.counts(got) {
			if count.Precision != services.Stale || !count.AsOf().Equal(at) {
				t.Errorf("a part does not say since when: %+v", *count)
			}
		}
	}
	if shown.Total.Precision != services.Exact || shown.HomeFeed.Precision != services.Exact {
		t.Errorf("what was shown before has become %+v", shown)
	}
}

// A source that SQL cannot count, or not in time, keeps its last value and makes the total STALE; it never leaves the total.
// The other sources are counted.
func TestASourceThatFailsKeepsItsLastValue(t *testing.T) {
	for what, with := range map[string]func(context.Context) error{"broken": failAtOnce, "too slow": failAtTimeout} {
		t.Run(what, func(t *testing.T) {
			n := redisServerNode(t)
			author, reader := n.newLikedAuthor(4)
			n.Follow(reader, author)
			n.RunAllJobs(n.World.Fanout)
			n.Post(reader)
			n.RunAllJobs(n.World.Fanout)
			shown := n.read(author) // one post, four likes
			at := n.Clock.Now()
			n.Clock.Advance(time.Minute)
			notificationstest.Like(n.World, n.Post(author), author, reader)
			n.RunAllJobs(n.World.Fanout)
			now := n.Clock.Now()
			n.RedisServer.Kill()
			n.sqlTimeout = 2 * time.Second
			mend := n.breakSource("notifications", with)
			got := n.read(author)
			if got.Notifications.Like.Value != 4 || !got.Notifications.Like.AsOf().Equal(at) || got.Notifications.Newest != shown.Notifications.Newest {
				t.Errorf("the source that fails: %+v, shown before %+v", got.Notifications, shown.Notifications)
			}
			if got.HomeFeed.Value != 1 || !got.HomeFeed.AsOf().Equal(now) {
				t.Errorf("the other one: %+v", got.HomeFeed)
			}
			if got.Total.Value != 5 || got.Total.Precision != services.Stale || !got.Total.AsOf().Equal(at) {
				t.Errorf("the total: %+v", got.Total)
			}
			again := n.restarted()
			again.sqlTimeout = n.sqlTimeout
			again.breakSource("notifications", with)
			unknown := again.read(author)
			if unknown.Notifications.Like.Precision != services.Unknown || unknown.Total.Precision != services.Unknown || unknown.HomeFeed.Value != 1 {
				t.Errorf("where nothing was shown before: %+v", unknown)
			}
			mend()
			if got := n.read(author); got.Total.Value != 6 || !got.Total.AsOf().Equal(now) {
				t.Errorf("when it works again: %+v", got.Total)
			}
		})
	}
}

// Sources fail in every combination, on a node that remembers badges and on one that does not. The total is STALE with the same value,
// or UNKNOWN if a part of it is neither counted nor remembered.
func TestAnySourcesMayFail(t *testing.T) {
	n := redisServerNode(t)
	author, _ := n.newLikedAuthor(3)
	n.read(author)
	n.RedisServer.Kill()
	for _, remembers := range []bool{true, false} {
		for failing := range 1 << len(n.sources) {
			m := n
			if !remembers {
				m = n.restarted()
			}
			var mends []func()
			counted := false // whether a part of the total fails, or the policy, which says what the parts are
			for index := range m.sources {
				if failing&(1<<index) != 0 {
					key := m.sources[index].Key()
					counted = counted || key.InTotalByDefault() || key == ""
					mends = append(mends, m.breakSource(m.sources[index].Name(), failAtOnce))
				}
			}
			got := m.read(author)
			want := services.Stale
			if !remembers && counted {
				want = services.Unknown
			}
			if got.Total.Precision != want || remembers && got.Total.Value != 3 {
				t.Errorf("remembered %v, failing %b: %+v", remembers, failing, got.Total)
			}
			for _, mend := range mends {
				mend()
			}
		}
	}
}

// The policy decides which counts are in the total: if it cannot be read, the last known policy applies.
func TestTheLastKnownPolicyApplies(t *testing.T) {
	n := redisServerNode(t)
	_, reader := n.newLikedAuthor(3)
	cmd, err := n.SetPolicy(reader, PolicyChange{InTotal: map[services.Source]bool{services.SourceHomeFeed: false}})
	n.Must(err)
	n.Must(n.World.Fanout.Commit(t.Context(), cmd)[0])
	if got := n.read(reader); got.Total.Value != 0 || got.HomeFeed.Value != 3 {
		t.Fatalf("%+v", got)
	}
	n.RedisServer.Kill()
	n.breakSource("display policy", failAtOnce)
	if got := n.read(reader); got.Total.Value != 0 || got.HomeFeed.InTotal {
		t.Errorf("without the policy: %+v", got)
	}
}

// A user whose badges are remembered waits for a turn in SQL no longer than a count may take; other users wait on.
func TestUsersWithCachedBadgesDoNotWaitLongForSQL(t *testing.T) {
	n := redisServerNode(t)
	_, reader := n.newLikedAuthor(3)
	n.read(reader)
	full := n.newServiceWith(func(cfg *Config) {
		cfg.MaxConcurrentSQLCounts = 1
		cfg.SQLTimeout = 10 * time.Millisecond
	})
	if _, err := full.Read(t.Context(), reader); err != nil {
		t.Fatal(err)
	}
	full.sqlCountSlots <- struct{}{} // occupies the only slot, for long
	got, err := full.ReadFacts(t.Context(), reader)
	n.Must(err)
	if got.Total.Value != 3 || got.Total.Precision != services.Stale {
		t.Errorf("%+v", got.Total)
	}
	ctx, end := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer end()
	if badges, err := full.ReadFacts(ctx, reader+1); !services.IsUnavailable(err) {
		t.Errorf("of a stranger: %+v, %v", badges, err)
	}
}

// The cache keeps the newest badges shown to the most recent readers, and none that are UNKNOWN.
func TestTheCacheKeepsTheNewestBadges(t *testing.T) {
	l := newBadgeCache(2)
	at := func(n uint64, precision services.Precision) cachedBadges {
		v := newTestRendering(source.Settings{}, rdb.Document{Version: n}, momentOf(noon))
		badges := v.render()
		badges.HomeFeed.Precision = precision
		v.writeTotals(badges)
		return cachedBadges{testSources, v.Settings, source.ShownBadges{Policy: v.Document.Policy, Badges: badges, At: noon}}
	}
	version := func(user services.UserID) string {
		known, ok := l.get(user)
		if !ok {
			return ""
		}
		return known.Badges.Version[:16]
	}
	l.keep(1, at(7, services.Exact))
	l.keep(1, at(6, services.Exact))
	l.keep(2, at(3, services.Unknown))
	if version(1) != fmt.Sprintf("%016d", 7) || version(2) != "" {
		t.Errorf("remembered: %q and %q", version(1), version(2))
	}
	l.keep(1, at(8, services.Stale))
	l.keep(2, at(1, services.AtLeast))
	l.get(1)
	l.keep(3, at(1, services.Exact))
	if version(1) != fmt.Sprintf("%016d", 8) || version(2) != "" || version(3) == "" {
		t.Errorf("remembered: %q, %q and %q", version(1), version(2), version(3))
	}
}

// The STALE copy of any badges has the same values and their sum, and shares no memory with the original.
func TestAStaleCopySharesNoMemory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		count := rapid.IntRange(0, 300)
		v := newTestRendering(source.Settings{}, documentWithUnreadItems(count.Draw(t, "feed"), count.Draw(t, "likes"), count.Draw(t, "messages"), count.Draw(t, "conversations")), momentOf(noon))
		v.Document.FeedCountAtLeast = rapid.Bool().Draw(t, "more")
		if rapid.Bool().Draw(t, "out") {
			v.Document.Policy.InTotalInverted = map[services.Source]bool{services.SourceSiteMessages: true}
		}
		shown, before := v.render(), v.render()
		got := cachedBadges{testSources, v.Settings, source.ShownBadges{Policy: v.Document.Policy, Badges: shown, At: noon}}.staleCopy()
		if difference := cmp.Diff(before, shown); difference != "" {
			t.Fatalf("what was shown has changed:\n%s", difference)
		}
		if got.Total.Value != shown.Total.Value || got.Version != shown.Version || !got.Total.AsOf().Equal(noon) || got.Total.Precision != services.Stale {
			t.Fatalf("%+v of %+v", got, shown)
		}
		got.SiteMessages.Types[0].Count.Value = -1
		if shown.SiteMessages.Types[0].Count.Value < 0 {
			t.Fatal("the types are shared")
		}
	})
}
