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

// newLikeCounts are counts of the category of likes. The version is also the count of the day, and the newest position.
func newLikeCounts(version uint64) services.CategoryCounts {
	return services.CategoryCounts{Category: services.CategoryLike, Version: version, Newest: services.NotificationID(version), NewestDay: 20_000, CountByDay: [8]int{int(version)}}
}

// NotificationCounts are the absolute counts of one user, for some or all categories.
type NotificationCounts struct {
	User   services.UserID
	Counts []services.CategoryCounts
}

// PutNotifications writes the versioned fields of counts.
func (c *Projections) PutNotifications(ctx context.Context, users []NotificationCounts) ([]redis.Result, error) {
	fields := make([]VersionedFields, len(users))
	for i, user := range users {
		fields[i].User = user.User
		for _, counts := range user.Counts {
			fields[i].Fields = append(fields[i].Fields, CategoryVersionedFields(counts)...)
		}
	}
	return c.PutVersionedFields(ctx, fields)
}

// putCounts writes counts into the reader's document.
func (v feedTest) putCounts(counts ...services.CategoryCounts) redis.Result {
	v.Helper()
	results, err := v.projections.PutNotifications(v.Context(), []NotificationCounts{{reader, counts}})
	v.must(err)
	return results[0]
}

func TestTheNewestVersionOfCountsWins(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		if result := v.putCounts(newLikeCounts(1)); result.Status != redis.Missing {
			v.Errorf("without a document: %+v, want the status %d", result, redis.Missing)
		}
		stamp := v.beginRebuild(false)
		if result := v.putCounts(newLikeCounts(2)); result.Status != redis.Applied || v.readDocument().Ready {
			v.Errorf("while it is built: %+v, ready %v", result, v.readDocument().Ready)
		}
		v.buildFromFacts(FeedFacts{Stamp: stamp})
		last := v.readDocument().Version
		for _, test := range []struct {
			version uint64
			status  redis.ResultStatus
			holds   uint64
		}{{2, redis.Unchanged, 2}, {1, redis.Unchanged, 2}, {0, redis.Unchanged, 2}, {3, redis.Applied, 3}, {10, redis.Applied, 10}, {9, redis.Unchanged, 10}, {1 << 52, redis.Applied, 1 << 52}, {1<<52 - 1, redis.Unchanged, 1 << 52}} {
			result, d := v.putCounts(newLikeCounts(test.version)), v.readDocument()
			if result.Status != test.status || d.Notifications[0] != newLikeCounts(test.holds) {
				v.Errorf("version %d: %+v and %+v, want %d and the counts of %d", test.version, result, d.Notifications[0], test.status, test.holds)
			}
			if result.Status == redis.Applied && (result.Version <= last || d.Version != result.Version) || result.Status == redis.Unchanged && d.Version != last {
				v.Errorf("version %d: the document's is %d after %d, answered %+v", test.version, d.Version, last, result)
			}
			last = d.Version
		}
		if result := v.putCounts(); result.Status != redis.Unchanged {
			v.Errorf("no counts at all: %+v", result)
		}
	})
}

func TestTheNewerCountsWinPerCategory(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		v.buildFromFacts(FeedFacts{})
		v.putCounts(newLikeCounts(5))
		mentions := newLikeCounts(3)
		mentions.Category = "MENTION"
		if result := v.putCounts(newLikeCounts(4), mentions); result.Status != redis.Applied {
			v.Errorf("%+v", result)
		}
		if v.readField("NL") != countsText(newLikeCounts(5)) || v.readField("NM") != countsText(mentions) || v.readField("HM") != "3;"+mentions.Newest.String() {
			v.Errorf("likes %q, mentions %q at %q", v.readField("NL"), v.readField("NM"), v.readField("HM"))
		}
	})
}

func TestCountsInAnyOrderConverge(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		for seed := range uint64(5) {
			v.deleteKeys(DocumentKey(reader))
			v.buildFromFacts(FeedFacts{})
			random := rand.New(rand.NewPCG(seed, 2))
			var versions []uint64
			for range 12 {
				versions = append(versions, random.Uint64N(30))
			}
			before := v.readDocument().Version
			for _, version := range versions {
				result := v.putCounts(newLikeCounts(version))
				if now := v.readDocument().Version; now < before || result.Status == redis.Applied && now == before {
					v.Errorf("version %d after %d", now, before)
				}
				before = v.readDocument().Version
			}
			if got := v.readDocument().Notifications[0]; got != newLikeCounts(slices.Max(versions)) {
				v.Errorf("after %v: %+v", versions, got)
			}
		}
	})
}

func TestCountsNotifyTheNodesOfSubscribers(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		v.buildFromFacts(FeedFacts{})
		now := time.Now().UnixMilli()
		v.must(v.projections.Client.Commands().HSet(v.Context(), onlineKey(reader), "here", now+60_000, "gone", now-1).Err())
		if result := v.putCounts(newLikeCounts(1)); !slices.Equal(result.OnlineNodes, []string{"here"}) {
			v.Errorf("%q are notified, want here", result.OnlineNodes)
		}
		if result := v.putCounts(newLikeCounts(1)); result.OnlineNodes != nil {
			v.Errorf("nothing changed and %q are notified", result.OnlineNodes)
		}
		ahead := uint64(time.Now().Add(time.Hour).UnixMicro())
		v.writeField("n", ahead)
		if result := v.putCounts(newLikeCounts(2)); result.Version != ahead+1 {
			v.Errorf("version %d behind a clock, want %d", result.Version, ahead+1)
		}
		v.writeField("NL", "broken")
		older := newLikeCounts(1)
		older.Newest = newLikeCounts(2).Newest // stored in a field of its own, which is still valid
		if result := v.putCounts(newLikeCounts(1)); result.Status != redis.Applied || v.readDocument().Notifications[0] != older {
			v.Errorf("over a broken value: %+v, %+v", result, v.readDocument())
		}
	})
}

// A category's newest position is written together with its counts. Without counts the position is rightly absent; with counts
// its absence is a loss.
func TestANewestPositionNeedsItsCounts(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		v.buildFromFacts(FeedFacts{})
		if d := v.readDocument(); !d.Ready || v.readField("HL") != "" || d.Notifications[0].Newest != 0 {
			v.Errorf("before any: %+v, the newest %q", d, v.readField("HL"))
		}
		v.putCounts(newLikeCounts(7))
		if d := v.readDocument(); !d.Ready || d.Notifications[0] != newLikeCounts(7) {
			v.Errorf("after one: %+v", d)
		}
		for what, lose := range map[string]func(){
			"lost":   func() { v.must(v.projections.Client.Commands().HDel(v.Context(), DocumentKey(reader), "HL").Err()) },
			"broken": func() { v.writeField("HL", "9;nowhere") },
		} {
			lose()
			if d := v.readDocument(); d.Ready {
				v.Errorf("%s: %+v", what, d)
			}
			stamp := v.beginRebuild(false)
			if result := v.putCounts(newLikeCounts(7)); result.Status != redis.Applied {
				v.Errorf("%s, rebuilt: %+v", what, result)
			}
			v.buildFromFacts(FeedFacts{Stamp: stamp})
			if d := v.readDocument(); !d.Ready || d.Notifications[0] != newLikeCounts(7) {
				v.Errorf("%s, rebuilt: %+v", what, d)
			}
		}
		// An earlier version of Tidings wrote this position for a category without notifications.
		v.writeField("HC", InitialValue)
		if d := v.readDocument(); !d.Ready || d.Notifications[1].Newest != 0 {
			v.Errorf("with a position before all others: %+v", d)
		}
	})
}

// Counts and newest position exist together or not at all. If SQL has no notifications of the category, a user with only one of
// the two is rebuilt once, and not on every read.
func TestACategoryWithoutItsCountsOrPositionIsRebuilt(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		lost := func(field string) func() {
			return func() { v.must(v.projections.Client.Commands().HDel(v.Context(), DocumentKey(reader), field).Err()) }
		}
		for what, damage := range map[string]func(){
			"counts without a position":      func() { v.putCounts(newLikeCounts(7)); lost("HL")() },
			"counts with an empty position":  func() { v.putCounts(newLikeCounts(7)); v.writeField("HL", "") },
			"a position without counts":      func() { v.putCounts(newLikeCounts(7)); lost("NL")() },
			"a position with broken counts":  func() { v.putCounts(newLikeCounts(7)); v.writeField("NL", "7;x") },
			"an empty position, none before": func() { v.writeField("HL", "") },
			"a broken position, none before": func() { v.writeField("HL", "9;nowhere") },
			"a position of a former version": func() { v.writeField("HL", InitialValue) },
		} {
			v.deleteKeys(inboxKey(reader), DocumentKey(reader), conversationsKey(reader))
			v.buildFromFacts(FeedFacts{})
			damage()
			stamp := v.beginRebuild(false)
			if counts, position := v.readField("NL"), v.readField("HL"); counts != InitialValue || position != "" {
				v.Errorf("%s: the counts begin as %q, the position as %q", what, counts, position)
			}
			v.buildFromFacts(FeedFacts{Stamp: stamp})
			if d := v.readDocument(); !d.Ready || d.Notifications[0].Newest != 0 || d.Notifications[0].Version != 0 {
				v.Errorf("%s, rebuilt: %+v", what, d)
			}
		}
	})
}

func TestPutNotificationsKeepsTheOrderOfItsUsers(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		users := make([]NotificationCounts, 501)
		for i := range users {
			users[i] = NotificationCounts{services.UserID(i), []services.CategoryCounts{newLikeCounts(1)}}
		}
		_, err := v.projections.BeginRebuild(v.Context(), []services.UserID{3, 500}, RebuildMode{IsVisit: true})
		v.must(err)
		ctx, trips := redis.WithRoundTrips(v.Context())
		results, err := v.projections.PutNotifications(ctx, users)
		v.must(err)
		for i, result := range results {
			if want := map[bool]redis.ResultStatus{true: redis.Applied, false: redis.Missing}[i == 3 || i == 500]; result.Status != want {
				v.Errorf("user %d: %+v, want the status %d", i, result, want)
			}
		}
		if len(results) != 501 || trips.Count() != 2 {
			v.Errorf("%d results in %d round trips, want 501 in 2", len(results), trips.Count())
		}
	})
}
