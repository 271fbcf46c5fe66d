package rdb

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidings/services"
	"tidings/services/redis"
)

// trimInbox trims the reader's inbox, and returns the result and the number of entries that it removed.
func (v feedTest) trimInbox() (redis.Result, int) {
	v.Helper()
	results, cut, err := v.projections.TrimInboxes(v.Context(), []services.UserID{reader})
	v.must(err)
	return results[0], cut[0]
}

// A trim removes the entries beyond the list, raises the floor and the fields of trimmed and uncounted entries (ft, fq), and counts
// the entries that are left.
func TestTrimInboxes(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		if result, cut := v.trimInbox(); result.Status != redis.Missing || cut != 0 {
			v.Errorf("of nobody: %+v, %d", result, cut)
		}
		v.buildFromFacts(FeedFacts{Entries: makeEntries(1, 330, countedEntry)})
		n := v.readField("n")
		result, cut := v.trimInbox()
		if result.Status != redis.Applied || result.Version != 0 || cut != 30 || v.readField("n") != n {
			v.Errorf("330 that all count: %+v, %d cut, version %s after %s", result, cut, v.readField("n"), n)
		}
		if got := v.readField("fc") + " " + v.readField("ft"); got != "300+ "+services.PostID(30).String() {
			v.Errorf("the marks are %s", got)
		}
		if result, cut := v.trimInbox(); result.Status != redis.Unchanged || cut != 0 {
			v.Errorf("once more: %+v, %d cut", result, cut)
		}
		shown := v.readSnapshot()
		if shown.Wholeness != DocumentWhole || shown.NewestTrimmed != 30 || shown.NewestTrimmedCounted != 30 || len(shown.Entries) != 300 {
			v.Errorf("%d entries above %d, %d", len(shown.Entries), shown.NewestTrimmed, shown.NewestTrimmedCounted)
		}
		// The script treats an add below the new floor as trimmed and does not list it again. The version changes if the entry
		// counts.
		if late := v.addEntry(v.takeStamp(), countedEntry(30)); late.Status != redis.Applied || len(v.readSnapshot().Entries) != 300 {
			v.Errorf("a late post below the floor: %+v", late)
		}
		if late := v.addEntry(v.takeStamp(), uncountedEntry(30)); late.Status != redis.Unchanged {
			v.Errorf("a late post below the floor that does not count: %+v", late)
		}
		v.deleteKeys(DocumentKey(reader), inboxKey(reader))
		v.buildFromFacts(FeedFacts{Entries: append(makeEntries(1, 310, countedEntry), makeEntries(311, 320, uncountedEntry)...)})
		if result, cut := v.trimInbox(); cut != 20 || v.readField("fc") != "290+" || fmt.Sprint(result.Version) != v.readField("n") {
			v.Errorf("with own ones: %+v, %d cut, the count is %s", result, cut, v.readField("fc"))
		}
		v.deleteKeys(inboxKey(reader))
		v.beginRebuild(false)
		if result, cut := v.trimInbox(); cut != 0 || result.Status == redis.Applied {
			v.Errorf("while it is rebuilt: %+v", result)
		}
		v.replaceWithStringKey(inboxKey(reader))
		if result, cut := v.trimInbox(); cut != 0 || result.Status == redis.Applied {
			v.Errorf("of another type: %+v", result)
		}
	})
}

// feedModel is a feed's content by the facts. Nothing runs concurrently in its history.
type feedModel struct {
	entries map[services.PostID]services.FeedEntry
	seen    services.PostID // the reader has seen the feed up to this post
}

// checkSnapshot compares a snapshot with the facts, as the audit does.
func (s feedModel) checkSnapshot(shown UserSnapshot) error {
	if shown.Wholeness != DocumentWhole {
		return fmt.Errorf("it is %d", shown.Wholeness)
	}
	var above []services.FeedEntry
	newestBelow, unseen := services.PostID(0), 0
	for _, id := range slices.Backward(slices.Sorted(maps.Keys(s.entries))) {
		entry := s.entries[id]
		if entry.CountsAsNew && id > s.seen {
			unseen++
		}
		if id > shown.NewestTrimmed {
			above = append(above, entry)
		} else if entry.CountsAsNew {
			newestBelow = max(newestBelow, id)
		}
	}
	if !slices.Equal(above, shown.Entries) {
		return fmt.Errorf("listed are %d, want %d above %d", len(shown.Entries), len(above), shown.NewestTrimmed)
	}
	if newestBelow > shown.NewestTrimmedCounted || shown.NewestTrimmedCounted > shown.NewestTrimmed {
		return fmt.Errorf("the newest counting one below the floor %d is %d, and the mark %d", shown.NewestTrimmed, newestBelow, shown.NewestTrimmedCounted)
	}
	counting := 0
	for _, entry := range shown.Entries {
		if entry.CountsAsNew && entry.Post > s.seen {
			counting++
		}
	}
	d := shown.Document
	if d.FeedCount != min(counting, services.FeedRetention) || d.FeedCountAtLeast != (counting > services.FeedRetention || shown.NewestTrimmedCounted > s.seen) {
		return fmt.Errorf("the count is %d (%v), listed are %d", d.FeedCount, d.FeedCountAtLeast, counting)
	}
	if d.FeedCount > unseen || !d.FeedCountAtLeast && d.FeedCount != unseen {
		return fmt.Errorf("the count is %d (%v), true is %d", d.FeedCount, d.FeedCountAtLeast, unseen)
	}
	return nil
}

// The list, the count, the inbox floor and NewestTrimmedCounted agree with the facts, whatever changes before and after a trim.
func TestATrimmedInboxEqualsTheFacts(t *testing.T) {
	v := feedTest{t, openProjections(t, redis.Options{URL: "embedded"})}
	rapid.Check(t, func(r *rapid.T) {
		v.deleteKeys(DocumentKey(reader), inboxKey(reader))
		facts := feedModel{entries: map[services.PostID]services.FeedEntry{}}
		v.buildFromFacts(FeedFacts{})
		next := services.PostID(1)
		for range rapid.IntRange(3, 12).Draw(r, "steps") {
			switch rapid.SampledFrom([]string{"publish", "publish", "trim", "trim", "see", "delete"}).Draw(r, "step") {
			case "publish":
				var entries []services.FeedEntry
				for range rapid.IntRange(1, 180).Draw(r, "posts") {
					entry := services.FeedEntry{Post: next, Author: author, CountsAsNew: (uint64(next)*2654435761>>7)%5 > 0}
					entries, facts.entries[next] = append(entries, entry), entry
					next++
				}
				v.mergeEntries(v.takeStamp(), false, entries...)
			case "trim":
				before := len(v.readSnapshot().Entries)
				if _, cut := v.trimInbox(); cut != max(before-services.FeedRetention, 0) {
					r.Fatalf("of %d entries %d were cut", before, cut)
				}
			case "see":
				facts.seen = max(facts.seen, services.PostID(rapid.IntRange(0, int(next)).Draw(r, "seen")))
				v.markSeen(facts.seen)
			case "delete":
				// Delete only entries well above the floor. Refills have their own test.
				for range rapid.IntRange(1, 10).Draw(r, "deletions") {
					if post := next - services.PostID(rapid.IntRange(1, 100).Draw(r, "back")); post > v.readSnapshot().NewestTrimmed && post < next {
						delete(facts.entries, post)
						v.deletePost(post)
					}
				}
			}
			if err := facts.checkSnapshot(v.readSnapshot()); err != nil {
				r.Fatal(err)
			}
		}
	})
}

// dropReaderIfLastVisitBy drops the keys of the reader, if their last visit was on the day last or earlier.
func (v feedTest) dropReaderIfLastVisitBy(last int64) int {
	v.Helper()
	dropped, err := v.projections.DropUsers(v.Context(), []services.UserID{reader}, last)
	v.must(err)
	return dropped[0]
}

// All keys of a dormant user are dropped. The keys of a user who has come back, is coming back, or has a subscription, stay.
func TestDropUsers(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		whole := func() {
			v.deleteKeys(DocumentKey(reader), inboxKey(reader))
			v.buildFromFacts(FeedFacts{Entries: makeEntries(1, 3, countedEntry)}) // last visit on day 20,000
		}
		whole()
		if v.dropReaderIfLastVisitBy(19_999) != 0 || !v.readDocument().Ready {
			v.Error("a user who came back was dropped")
		}
		if v.dropReaderIfLastVisitBy(20_000) != 2 || v.readSnapshot().Wholeness != DocumentAbsent {
			v.Error("a dormant user was not dropped")
		}
		if v.dropReaderIfLastVisitBy(20_000) != 0 {
			v.Error("a user was dropped twice")
		}
		v.beginRebuild(false)
		if v.dropReaderIfLastVisitBy(20_000) != 0 || v.readField("st") != "0" {
			v.Error("what is just being made was dropped")
		}
		v.writeField("rm", time.Now().Add(-time.Hour).UnixMicro())
		if v.dropReaderIfLastVisitBy(20_000) != 2 {
			v.Error("what was begun an hour ago was not dropped")
		}
		whole()
		v.must(v.projections.Presence.WriteOnlineLeases(v.Context(), []services.UserID{reader}, time.Minute))
		if v.dropReaderIfLastVisitBy(20_000) != 0 || !v.readDocument().Ready {
			v.Error("a user with a subscription was dropped")
		}
		if v.dropReaderIfLastVisitBy(AnyVisitDay) != 3 {
			v.Error("an unknown user was not dropped")
		}
		whole()
		v.must(v.projections.Client.Commands().HSet(v.Context(), onlineKey(reader), "dead", time.Now().Add(-time.Minute).UnixMilli()).Err())
		if v.dropReaderIfLastVisitBy(20_000) != 3 {
			v.Error("a lease that is over has kept a user")
		}
		v.replaceWithStringKey(DocumentKey(reader))
		if v.dropReaderIfLastVisitBy(20_000) != 1 {
			v.Error("a document of another type was not dropped")
		}
	})
}

// An add whose post was read before the user's keys were dropped is refused after the user is back: their rebuild has read the post.
func TestAnAddReadBeforeADropIsRefused(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		v.buildFromFacts(FeedFacts{Entries: makeEntries(1, 3, countedEntry)})
		late := v.takeStamp()
		if v.dropReaderIfLastVisitBy(20_000) != 2 {
			v.Fatal("the user was not dropped")
		}
		if result := v.addEntry(late, countedEntry(4)); result.Status != redis.Missing {
			v.Errorf("while nothing is there: %+v", result)
		}
		begun := v.beginRebuild(false)
		if result := v.addEntry(late, countedEntry(4)); result.Status != redis.Retry {
			v.Errorf("during the rebuild: %+v", result)
		}
		v.buildFromFacts(FeedFacts{Stamp: begun, Entries: makeEntries(1, 5, countedEntry)})
		if result := v.addEntry(late, countedEntry(4)); result.Status != redis.Retry {
			v.Errorf("after it: %+v", result)
		}
		v.wantFeed("in the end", v.addEntry(v.takeStamp(), countedEntry(6)), redis.Applied, "6", makeEntries(1, 6, countedEntry)...)
	})
}

// walkKeys passes all keys, about so many in a step, calls each with the findings of each step, and returns the number of steps.
func (v feedTest) walkKeys(about int, each func(KeyWalkFindings)) (steps int) {
	v.Helper()
	for position, done := (KeyWalkPosition{}), false; !done; steps++ {
		var found KeyWalkFindings
		var err error
		found, position, done, err = v.projections.WalkKeys(v.Context(), position, about)
		v.must(err)
		each(found)
	}
	return steps
}

// A walk finds all leftovers on every master, and dropping them touches nothing else.
func TestAWalkFindsAllLeftovers(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		ctx, rds := v.Context(), v.projections.Client.Commands()
		var users []services.UserID
		for user := services.UserID(1); user <= 40; user++ {
			users = append(users, user)
		}
		stamps, err := v.projections.BeginRebuild(ctx, users, RebuildMode{IsVisit: true})
		v.must(err)
		for i, user := range users {
			facts := FeedFacts{Reader: user, Stamp: stamps[i], IsVisit: true, LastActiveDay: 20_000, KeyLifetime: time.Hour}
			if user == 5 {
				facts.Entries = makeEntries(1, 310, countedEntry)
			}
			_, err := v.projections.EndRebuild(ctx, facts)
			v.must(err)
		}
		post := services.Post{ID: 77, Author: 1, Kind: services.PostKindPost, Body: "kept"}
		v.must(v.projections.PutCopies(ctx, []services.Post{post}, []services.User{{ID: 1, Key: "ann"}}))
		v.must(rds.ZAdd(ctx, "v:town/x", redis.Z{Score: -5, Member: "!r"}).Err())
		v.must(rds.Expire(ctx, "v:town/x", time.Hour).Err())
		v.must(v.projections.Presence.WriteOnlineLeases(ctx, users[:2], time.Hour))
		kept := map[string]bool{}
		for _, key := range []string{"session:1", "{u9}:cart", "v:settings/x", "p:0000000000009", "{u9}:p", "v:a/b", "cart"} {
			v.must(rds.Set(ctx, key, "another application's", 0).Err())
		}
		v.walkKeys(20, func(KeyWalkFindings) {})
		v.eachKey(func(key string) { kept[key] = true })
		// The keys from here on are to be dropped.
		const gone = services.UserID(1000)
		v.must(rds.ZAdd(ctx, inboxKey(gone), redis.Z{Member: "!0000000000000"}).Err())
		v.must(rds.HSet(ctx, conversationsKey(gone), "1", "1,0,0,1,0,0,").Err())
		v.must(rds.Set(ctx, redis.UserKey(gone, ":zz"), "of another version", 0).Err())
		v.must(rds.HSet(ctx, onlineKey(gone), "dead", 1).Err())
		v.must(rds.Set(ctx, profileKey(gone), "0000000000000001x{}", 0).Err())
		v.must(rds.Set(ctx, postKey(78), "0000000000000001x{}", 0).Err())
		v.must(rds.ZAdd(ctx, "v:town/y", redis.Z{Score: -5, Member: "!r"}).Err())
		documents, long, orphans, endless, passed := map[services.UserID]bool{}, map[services.UserID]bool{}, 0, 0, 0
		steps := v.walkKeys(20, func(found KeyWalkFindings) {
			passed += found.KeysPassed
			for _, user := range found.UsersWithDocument {
				documents[user] = true
			}
			for _, user := range found.UsersWithLongInbox {
				long[user] = true
			}
			o, e, err := v.projections.DropLeftovers(ctx, found.Leftovers)
			v.must(err)
			orphans, endless = orphans+o, endless+e
		})
		if len(documents) != len(users) || len(long) != 1 || !long[5] || orphans != 3 || endless != 4 || passed < 90 {
			v.Errorf("%d documents, long %v, %d orphans, %d endless, of %d keys in %d steps", len(documents), long, orphans, endless, passed, steps)
		}
		left := map[string]bool{}
		v.eachKey(func(key string) { left[key] = true })
		if !maps.Equal(kept, left) {
			v.Errorf("left are %v, want %v", slices.Sorted(maps.Keys(left)), slices.Sorted(maps.Keys(kept)))
		}
	})
}

// eachKey calls each with every key in Redis.
func (v feedTest) eachKey(each func(string)) {
	v.Helper()
	var mu sync.Mutex
	v.must(v.projections.Client.EachMaster(v.Context(), func(ctx context.Context, master *redis.Master) error {
		keys, err := master.Keys(ctx, "*").Result()
		mu.Lock()
		defer mu.Unlock()
		for _, key := range keys {
			each(key)
		}
		return err
	}))
}

// A key that was a leftover when the walk found it, and no longer is, stays.
func TestAKeyThatIsNoLongerALeftoverStays(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		ctx, rds := v.Context(), v.projections.Client.Commands()
		post := services.Post{ID: 78, Author: 1, Kind: services.PostKindPost, Body: "new", UpdatedAt: time.Now()}
		v.must(rds.ZAdd(ctx, inboxKey(reader), redis.Z{Member: "!0000000000000"}).Err())
		v.must(rds.HSet(ctx, conversationsKey(reader), "1", "1,0,0,1,0,0,").Err())
		v.must(rds.Set(ctx, postKey(post.ID), "0000000000000001x{}", 0).Err())
		v.must(rds.ZAdd(ctx, "v:town/y", redis.Z{Score: -5, Member: "!r"}).Err())
		v.must(rds.HSet(ctx, onlineKey(reader), "dead", 1).Err())
		var found []Leftover
		v.walkKeys(20, func(f KeyWalkFindings) { found = append(found, f.Leftovers...) })
		if len(found) != 5 {
			v.Fatalf("found %v", found)
		}
		v.beginRebuild(false)
		v.must(v.projections.PutCopies(ctx, []services.Post{post}, nil))
		v.must(rds.Expire(ctx, "v:town/y", time.Hour).Err())
		v.must(v.projections.Presence.WriteOnlineLeases(ctx, []services.UserID{reader}, time.Hour))
		// v.beginRebuild has deleted the earlier states of conversations, and its new inbox belongs to a document: no orphan is left.
		if orphans, endless, err := v.projections.DropLeftovers(ctx, found); err != nil || orphans != 0 || endless != 0 {
			v.Errorf("%d orphans and %d others went, %v", orphans, endless, err)
		}
		v.buildFromFacts(FeedFacts{Entries: makeEntries(1, 2, countedEntry)})
		if !v.readDocument().Ready {
			v.Error("the rebuild was broken")
		}
	})
}

// When a master has left the cluster the walk continues with the next one. After the last master it ends.
func TestAWalkContinuesWithoutALostMaster(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		v.buildFromFacts(FeedFacts{})
		found := map[services.UserID]bool{}
		note := func(f KeyWalkFindings) {
			for _, user := range f.UsersWithDocument {
				found[user] = true
			}
		}
		for position, done := (KeyWalkPosition{Master: "!", Cursor: 99}), v.projections.Client.Mode() != "cluster"; !done; {
			f, to, ended, err := v.projections.WalkKeys(v.Context(), position, 10)
			v.must(err)
			note(f)
			position, done = to, ended
		}
		if v.projections.Client.Mode() == "cluster" && !found[reader] {
			v.Error("the masters after the one that has gone were not walked")
		}
		if f, to, done, err := v.projections.WalkKeys(v.Context(), KeyWalkPosition{Master: "~"}, 10); err != nil || !done || f.KeysPassed != 0 || to != (KeyWalkPosition{}) {
			v.Errorf("past the last master: %+v, %+v, %v, %v", f, to, done, err)
		}
	})
}
