package rdb

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/redis"
)

// likes are counts of the category of likes. The version is also the count of the day, and the newest position.
func likes(version uint64) services.CategoryCounts {
	return services.CategoryCounts{Category: services.CategoryLike, Version: version, Newest: services.PostID(version), Day: 20_000, Days: [8]int{int(version)}}
}

// NotificationCounts are the absolute counts of one user, for some or all categories.
type NotificationCounts struct {
	User   services.UserID
	Counts []services.CategoryCounts
}

// PutNotifications writes the versioned fields of counts.
func (c *Projections) PutNotifications(ctx context.Context, users []NotificationCounts) ([]redis.Result, error) {
	registers := make([]Registers, len(users))
	for i, user := range users {
		registers[i].User = user.User
		for _, counts := range user.Counts {
			registers[i].Fields = append(registers[i].Fields, CategoryRegisters(counts)...)
		}
	}
	return c.PutRegisters(ctx, registers)
}

// put writes counts into the reader's document.
func (v view) put(counts ...services.CategoryCounts) redis.Result {
	v.Helper()
	results, err := v.c.PutNotifications(v.Context(), []NotificationCounts{{reader, counts}})
	v.must(err)
	return results[0]
}

func TestCountsOfTheNewestVersionStay(t *testing.T) {
	eachView(t, func(v view) {
		if result := v.put(likes(1)); result.Status != redis.Missing {
			v.Errorf("without a document: %+v, want the status %d", result, redis.Missing)
		}
		stamp := v.begin(false)
		if result := v.put(likes(2)); result.Status != redis.Applied || v.document().Ready {
			v.Errorf("while it is built: %+v, ready %v", result, v.document().Ready)
		}
		v.build(FeedFacts{Stamp: stamp})
		last := v.document().N
		for _, test := range []struct {
			version uint64
			status  redis.Status
			holds   uint64
		}{{2, redis.Same, 2}, {1, redis.Same, 2}, {0, redis.Same, 2}, {3, redis.Applied, 3}, {10, redis.Applied, 10}, {9, redis.Same, 10}, {1 << 52, redis.Applied, 1 << 52}, {1<<52 - 1, redis.Same, 1 << 52}} {
			result, d := v.put(likes(test.version)), v.document()
			if result.Status != test.status || d.Notifications[0] != likes(test.holds) {
				v.Errorf("version %d: %+v and %+v, want %d and the counts of %d", test.version, result, d.Notifications[0], test.status, test.holds)
			}
			if result.Status == redis.Applied && (result.N <= last || d.N != result.N) || result.Status == redis.Same && d.N != last {
				v.Errorf("version %d: the document's is %d after %d, answered %+v", test.version, d.N, last, result)
			}
			last = d.N
		}
		if result := v.put(); result.Status != redis.Same {
			v.Errorf("no counts at all: %+v", result)
		}
	})
}

func TestTheNewerCountsWinPerCategory(t *testing.T) {
	eachView(t, func(v view) {
		v.build(FeedFacts{})
		v.put(likes(5))
		mentions := likes(3)
		mentions.Category = "MENTION"
		if result := v.put(likes(4), mentions); result.Status != redis.Applied {
			v.Errorf("%+v", result)
		}
		if v.field("NL") != countsText(likes(5)) || v.field("NM") != countsText(mentions) || v.field("HM") != "3;"+mentions.Newest.String() {
			v.Errorf("likes %q, mentions %q at %q", v.field("NL"), v.field("NM"), v.field("HM"))
		}
	})
}

func TestCountsInAnyOrderConverge(t *testing.T) {
	eachView(t, func(v view) {
		for seed := range uint64(5) {
			v.deleteKeys(DocumentKey(reader))
			v.build(FeedFacts{})
			random := rand.New(rand.NewPCG(seed, 2))
			var versions []uint64
			for range 12 {
				versions = append(versions, random.Uint64N(30))
			}
			before := v.document().N
			for _, version := range versions {
				result := v.put(likes(version))
				if now := v.document().N; now < before || result.Status == redis.Applied && now == before {
					v.Errorf("version %d after %d", now, before)
				}
				before = v.document().N
			}
			if got := v.document().Notifications[0]; got != likes(slices.Max(versions)) {
				v.Errorf("after %v: %+v", versions, got)
			}
		}
	})
}

func TestCountsNotifyTheNodesOfSubscribers(t *testing.T) {
	eachView(t, func(v view) {
		v.build(FeedFacts{})
		now := time.Now().UnixMilli()
		v.must(v.c.Commands().HSet(v.Context(), onlineKey(reader), "here", now+60_000, "gone", now-1).Err())
		if result := v.put(likes(1)); !slices.Equal(result.Nodes, []string{"here"}) {
			v.Errorf("%q are notified, want here", result.Nodes)
		}
		if result := v.put(likes(1)); result.Nodes != nil {
			v.Errorf("nothing changed and %q are notified", result.Nodes)
		}
		ahead := uint64(time.Now().Add(time.Hour).UnixMicro())
		v.set("n", ahead)
		if result := v.put(likes(2)); result.N != ahead+1 {
			v.Errorf("version %d behind a clock, want %d", result.N, ahead+1)
		}
		v.set("NL", "broken")
		older := likes(1)
		older.Newest = likes(2).Newest // stored in a field of its own, which is still valid
		if result := v.put(likes(1)); result.Status != redis.Applied || v.document().Notifications[0] != older {
			v.Errorf("over a broken value: %+v, %+v", result, v.document())
		}
	})
}

// A category's newest position is written together with its counts. Without counts the position is rightly absent; with counts
// its absence is a loss.
func TestANewestPositionNeedsItsCounts(t *testing.T) {
	eachView(t, func(v view) {
		v.build(FeedFacts{})
		if d := v.document(); !d.Ready || v.field("HL") != "" || d.Notifications[0].Newest != 0 {
			v.Errorf("before any: %+v, the newest %q", d, v.field("HL"))
		}
		v.put(likes(7))
		if d := v.document(); !d.Ready || d.Notifications[0] != likes(7) {
			v.Errorf("after one: %+v", d)
		}
		for what, lose := range map[string]func(){
			"lost":   func() { v.must(v.c.Commands().HDel(v.Context(), DocumentKey(reader), "HL").Err()) },
			"broken": func() { v.set("HL", "9;nowhere") },
		} {
			lose()
			if d := v.document(); d.Ready {
				v.Errorf("%s: %+v", what, d)
			}
			stamp := v.begin(false)
			if result := v.put(likes(7)); result.Status != redis.Applied {
				v.Errorf("%s, rebuilt: %+v", what, result)
			}
			v.build(FeedFacts{Stamp: stamp})
			if d := v.document(); !d.Ready || d.Notifications[0] != likes(7) {
				v.Errorf("%s, rebuilt: %+v", what, d)
			}
		}
		// This is the format of an earlier version for a category without notifications.
		v.set("HC", InitialValue)
		if d := v.document(); !d.Ready || d.Notifications[1].Newest != 0 {
			v.Errorf("with a place before all others: %+v", d)
		}
	})
}

// Counts and newest position exist together or not at all. If SQL has no notifications of the category, a user with only one of
// the two is rebuilt once, and not on every read.
func TestACategoryWithoutItsCountsOrPositionIsRebuilt(t *testing.T) {
	eachView(t, func(v view) {
		lost := func(field string) func() {
			return func() { v.must(v.c.Commands().HDel(v.Context(), DocumentKey(reader), field).Err()) }
		}
		for what, spoil := range map[string]func(){
			"counts without a place":      func() { v.put(likes(7)); lost("HL")() },
			"counts with an empty place":  func() { v.put(likes(7)); v.set("HL", "") },
			"a place without counts":      func() { v.put(likes(7)); lost("NL")() },
			"a place with broken counts":  func() { v.put(likes(7)); v.set("NL", "7;x") },
			"an empty place, none before": func() { v.set("HL", "") },
			"a broken place, none before": func() { v.set("HL", "9;nowhere") },
			"a place of a former version": func() { v.set("HL", InitialValue) },
		} {
			v.deleteKeys(inboxKey(reader), DocumentKey(reader), conversationsKey(reader))
			v.build(FeedFacts{})
			spoil()
			stamp := v.begin(false)
			if counts, place := v.field("NL"), v.field("HL"); counts != InitialValue || place != "" {
				v.Errorf("%s: the counts begin as %q, the place as %q", what, counts, place)
			}
			v.build(FeedFacts{Stamp: stamp})
			if d := v.document(); !d.Ready || d.Notifications[0].Newest != 0 || d.Notifications[0].Version != 0 {
				v.Errorf("%s, rebuilt: %+v", what, d)
			}
		}
	})
}

func TestResultsOfManyUsersAreInTheirOrder(t *testing.T) {
	eachView(t, func(v view) {
		users := make([]NotificationCounts, 501)
		for i := range users {
			users[i] = NotificationCounts{services.UserID(i), []services.CategoryCounts{likes(1)}}
		}
		_, err := v.c.BeginRebuild(v.Context(), []services.UserID{3, 500}, RebuildMode{Visit: true})
		v.must(err)
		ctx, trips := redis.WithRoundTrips(v.Context())
		results, err := v.c.PutNotifications(ctx, users)
		v.must(err)
		for i, result := range results {
			if want := map[bool]redis.Status{true: redis.Applied, false: redis.Missing}[i == 3 || i == 500]; result.Status != want {
				v.Errorf("user %d: %+v, want the status %d", i, result, want)
			}
		}
		if len(results) != 501 || trips.Count() != 2 {
			v.Errorf("%d results in %d round trips, want 501 in 2", len(results), trips.Count())
		}
	})
}
