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

// trim trims the reader's inbox, and returns the number of entries that it removed.
func (v view) trim() (redis.Result, int) {
	v.Helper()
	results, cut, err := v.c.TrimInboxes(v.Context(), []services.UserID{reader})
	v.must(err)
	return results[0], cut[0]
}

// A trim removes the entries beyond the list, raises the floor and the fields of trimmed and uncounted entries (ft, fq), and counts the
// entries that are left.
func TestTrimInboxes(t *testing.T) {
	eachView(t, func(v view) {
		if result, cut := v.trim(); result.Status != redis.Missing || cut != 0 {
			v.Errorf("of nobody: %+v, %d", result, cut)
		}
		v.build(FeedFacts{Entries: makeEntries(1, 330, counted)})
		n := v.field("n")
		result, cut := v.trim()
		if result.Status != redis.Applied || result.N != 0 || cut != 30 || v.field("n") != n {
			v.Errorf("330 that all count: %+v, %d cut, version %s after %s", result, cut, v.field("n"), n)
		}
		if got := v.field("fc") + " " + v.field("ft"); got != "300+ "+services.PostID(30).String() {
			v.Errorf("the marks are %s", got)
		}
		if result, cut := v.trim(); result.Status != redis.Same || cut != 0 {
			v.Errorf("once more: %+v, %d cut", result, cut)
		}
		shown := v.snapshot()
		if shown.Wholeness != Whole || shown.Floor != 30 || shown.TrimmedCounted != 30 || len(shown.Entries) != 300 {
			v.Errorf("%d entries above %d, %d", len(shown.Entries), shown.Floor, shown.TrimmedCounted)
		}
		// The script treats an add below the new floor as trimmed and does not list it again. The version changes if the entry
		// counts.
		if late := v.add(v.stamp(), counted(30)); late.Status != redis.Applied || len(v.snapshot().Entries) != 300 {
			v.Errorf("a late post below the floor: %+v", late)
		}
		if late := v.add(v.stamp(), listed(30)); late.Status != redis.Same {
			v.Errorf("a late post below the floor that does not count: %+v", late)
		}
		v.deleteKeys(DocumentKey(reader), inboxKey(reader))
		v.build(FeedFacts{Entries: append(makeEntries(1, 310, counted), makeEntries(311, 320, listed)...)})
		if result, cut := v.trim(); cut != 20 || v.field("fc") != "290+" || fmt.Sprint(result.N) != v.field("n") {
			v.Errorf("with own ones: %+v, %d cut, the count is %s", result, cut, v.field("fc"))
		}
		v.deleteKeys(inboxKey(reader))
		v.begin(false)
		if result, cut := v.trim(); cut != 0 || result.Status == redis.Applied {
			v.Errorf("while it is rebuilt: %+v", result)
		}
		v.retype(inboxKey(reader))
		if result, cut := v.trim(); cut != 0 || result.Status == redis.Applied {
			v.Errorf("of another type: %+v", result)
		}
	})
}

// feedModel is a feed's content by the facts. Nothing runs concurrently in its history.
type feedModel struct {
	entries map[services.PostID]services.FeedEntry
	seen    services.PostID
}

// check compares a snapshot with the facts, as the audit does.
func (s feedModel) check(shown UserSnapshot) error {
	if shown.Wholeness != Whole {
		return fmt.Errorf("it is %d", shown.Wholeness)
	}
	var above []services.FeedEntry
	newestBelow, unseen := services.PostID(0), 0
	for _, id := range slices.Backward(slices.Sorted(maps.Keys(s.entries))) {
		entry := s.entries[id]
		if entry.Counts && id > s.seen {
			unseen++
		}
		if id > shown.Floor {
			above = append(above, entry)
		} else if entry.Counts {
			newestBelow = max(newestBelow, id)
		}
	}
	if !slices.Equal(above, shown.Entries) {
		return fmt.Errorf("listed are %d, want %d above %d", len(shown.Entries), len(above), shown.Floor)
	}
	if newestBelow > shown.TrimmedCounted || shown.TrimmedCounted > shown.Floor {
		return fmt.Errorf("the newest counting one below the floor %d is %d, and the mark %d", shown.Floor, newestBelow, shown.TrimmedCounted)
	}
	counting := 0
	for _, entry := range shown.Entries {
		if entry.Counts && entry.Post > s.seen {
			counting++
		}
	}
	d := shown.Document
	if d.FeedCount != min(counting, services.Retention) || d.FeedMore != (counting > services.Retention || shown.TrimmedCounted > s.seen) {
		return fmt.Errorf("the count is %d (%v), listed are %d", d.FeedCount, d.FeedMore, counting)
	}
	if d.FeedCount > unseen || !d.FeedMore && d.FeedCount != unseen {
		return fmt.Errorf("the count is %d (%v), true is %d", d.FeedCount, d.FeedMore, unseen)
	}
	return nil
}

// The list, the count and the marks equal the facts whatever changes before and after a trim.
func TestATrimmedInboxEqualsTheFacts(t *testing.T) {
	v := view{t, connect(t, redis.Options{URL: "embedded"})}
	rapid.Check(t, func(r *rapid.T) {
		v.deleteKeys(DocumentKey(reader), inboxKey(reader))
		facts := feedModel{entries: map[services.PostID]services.FeedEntry{}}
		v.build(FeedFacts{})
		next := services.PostID(1)
		for range rapid.IntRange(3, 12).Draw(r, "steps") {
			switch rapid.SampledFrom([]string{"publish", "publish", "trim", "trim", "see", "delete"}).Draw(r, "step") {
			case "publish":
				var entries []services.FeedEntry
				for range rapid.IntRange(1, 180).Draw(r, "posts") {
					entry := services.FeedEntry{Post: next, Author: author, Counts: (uint64(next)*2654435761>>7)%5 > 0}
					entries, facts.entries[next] = append(entries, entry), entry
					next++
				}
				v.merge(v.stamp(), false, entries...)
			case "trim":
				before := len(v.snapshot().Entries)
				if _, cut := v.trim(); cut != max(before-services.Retention, 0) {
					r.Fatalf("of %d entries %d were cut", before, cut)
				}
			case "see":
				facts.seen = max(facts.seen, services.PostID(rapid.IntRange(0, int(next)).Draw(r, "seen")))
				v.markSeen(facts.seen)
			case "delete":
				// Delete only entries well above the floor. Refills have their own test.
				for range rapid.IntRange(1, 10).Draw(r, "deletions") {
					if post := next - services.PostID(rapid.IntRange(1, 100).Draw(r, "back")); post > v.snapshot().Floor && post < next {
						delete(facts.entries, post)
						v.delete(post)
					}
				}
			}
			if err := facts.check(v.snapshot()); err != nil {
				r.Fatal(err)
			}
		}
	})
}

// dropUser drops the keys of the reader, if their last visit was on the day last or earlier.
func (v view) dropUser(last int64) int {
	v.Helper()
	dropped, err := v.c.DropUsers(v.Context(), []services.UserID{reader}, last)
	v.must(err)
	return dropped[0]
}

// All keys of a dormant user are dropped. The keys of a user who has come back, is coming back, or has a subscription, stay.
func TestDropUsers(t *testing.T) {
	eachView(t, func(v view) {
		whole := func() {
			v.deleteKeys(DocumentKey(reader), inboxKey(reader))
			v.build(FeedFacts{Entries: makeEntries(1, 3, counted)}) // last visit on day 20,000
		}
		whole()
		if v.dropUser(19_999) != 0 || !v.document().Ready {
			v.Error("a user who came back was dropped")
		}
		if v.dropUser(20_000) != 2 || v.snapshot().Wholeness != Absent {
			v.Error("a dormant user was not dropped")
		}
		if v.dropUser(20_000) != 0 {
			v.Error("a user was dropped twice")
		}
		v.begin(false)
		if v.dropUser(20_000) != 0 || v.field("st") != "0" {
			v.Error("what is just being made was dropped")
		}
		v.set("rm", time.Now().Add(-time.Hour).UnixMicro())
		if v.dropUser(20_000) != 2 {
			v.Error("what was begun an hour ago was not dropped")
		}
		whole()
		v.must(v.c.Enter(v.Context(), []services.UserID{reader}, time.Minute))
		if v.dropUser(20_000) != 0 || !v.document().Ready {
			v.Error("a user with a subscription was dropped")
		}
		if v.dropUser(AnyDay) != 3 {
			v.Error("an unknown user was not dropped")
		}
		whole()
		v.must(v.c.Commands().HSet(v.Context(), onlineKey(reader), "dead", time.Now().Add(-time.Minute).UnixMilli()).Err())
		if v.dropUser(20_000) != 3 {
			v.Error("a lease that is over has kept a user")
		}
		v.retype(DocumentKey(reader))
		if v.dropUser(20_000) != 1 {
			v.Error("a document of another type was not dropped")
		}
	})
}

// An add whose post was read before the user's keys were dropped is refused after the user is back: their rebuild has read the post.
func TestALateAddAfterADrop(t *testing.T) {
	eachView(t, func(v view) {
		v.build(FeedFacts{Entries: makeEntries(1, 3, counted)})
		late := v.stamp()
		if v.dropUser(20_000) != 2 {
			v.Fatal("the user was not dropped")
		}
		if result := v.add(late, counted(4)); result.Status != redis.Missing {
			v.Errorf("while nothing is there: %+v", result)
		}
		begun := v.begin(false)
		if result := v.add(late, counted(4)); result.Status != redis.Retry {
			v.Errorf("during the rebuild: %+v", result)
		}
		v.build(FeedFacts{Stamp: begun, Entries: makeEntries(1, 5, counted)})
		if result := v.add(late, counted(4)); result.Status != redis.Retry {
			v.Errorf("after it: %+v", result)
		}
		v.want("in the end", v.add(v.stamp(), counted(6)), redis.Applied, "6", makeEntries(1, 6, counted)...)
	})
}

// walk passes all keys, reports the findings of each step and returns the number of steps.
func (v view) walk(about int, each func(Findings)) (steps int) {
	v.Helper()
	for place, done := (WalkPlace{}), false; !done; steps++ {
		var found Findings
		var err error
		found, place, done, err = v.c.Walk(v.Context(), place, about)
		v.must(err)
		each(found)
	}
	return steps
}

// A walk finds all leftovers on every master, and dropping them touches nothing else.
func TestAWalkFindsAllLeftovers(t *testing.T) {
	eachView(t, func(v view) {
		ctx, rds := v.Context(), v.c.Commands()
		var users []services.UserID
		for user := services.UserID(1); user <= 40; user++ {
			users = append(users, user)
		}
		stamps, err := v.c.BeginRebuild(ctx, users, RebuildMode{Visit: true})
		v.must(err)
		for i, user := range users {
			facts := FeedFacts{Reader: user, Stamp: stamps[i], Visit: true, Day: 20_000, Lifetime: time.Hour}
			if user == 5 {
				facts.Entries = makeEntries(1, 310, counted)
			}
			_, err := v.c.EndRebuild(ctx, facts)
			v.must(err)
		}
		post := services.Post{ID: 77, Author: 1, Kind: services.PostKindPost, Body: "kept"}
		v.must(v.c.PutCopies(ctx, []services.Post{post}, []services.User{{Number: 1, Key: "ann"}}))
		v.must(rds.ZAdd(ctx, "v:town/x", redis.Z{Score: -5, Member: "!r"}).Err())
		v.must(rds.Expire(ctx, "v:town/x", time.Hour).Err())
		v.must(v.c.Enter(ctx, users[:2], time.Hour))
		kept := map[string]bool{}
		for _, key := range []string{"session:1", "{u9}:cart", "v:settings/x", "p:0000000000009", "{u9}:p", "v:a/b", "cart"} {
			v.must(rds.Set(ctx, key, "another application's", 0).Err())
		}
		v.walk(20, func(Findings) {})
		v.keys(func(key string) { kept[key] = true })
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
		steps := v.walk(20, func(found Findings) {
			passed += found.Keys
			for _, user := range found.Documents {
				documents[user] = true
			}
			for _, user := range found.LongInboxes {
				long[user] = true
			}
			o, e, err := v.c.DropLeftovers(ctx, found.Leftovers)
			v.must(err)
			orphans, endless = orphans+o, endless+e
		})
		if len(documents) != len(users) || len(long) != 1 || !long[5] || orphans != 3 || endless != 4 || passed < 90 {
			v.Errorf("%d documents, long %v, %d orphans, %d endless, of %d keys in %d steps", len(documents), long, orphans, endless, passed, steps)
		}
		left := map[string]bool{}
		v.keys(func(key string) { left[key] = true })
		if !maps.Equal(kept, left) {
			v.Errorf("left are %v, want %v", slices.Sorted(maps.Keys(left)), slices.Sorted(maps.Keys(kept)))
		}
	})
}

// keys lists all keys in Redis.
func (v view) keys(each func(string)) {
	v.Helper()
	var mu sync.Mutex
	v.must(v.c.EachMaster(v.Context(), func(ctx context.Context, master *redis.Master) error {
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
	eachView(t, func(v view) {
		ctx, rds := v.Context(), v.c.Commands()
		post := services.Post{ID: 78, Author: 1, Kind: services.PostKindPost, Body: "new", UpdatedAt: time.Now()}
		v.must(rds.ZAdd(ctx, inboxKey(reader), redis.Z{Member: "!0000000000000"}).Err())
		v.must(rds.HSet(ctx, conversationsKey(reader), "1", "1,0,0,1,0,0,").Err())
		v.must(rds.Set(ctx, postKey(post.ID), "0000000000000001x{}", 0).Err())
		v.must(rds.ZAdd(ctx, "v:town/y", redis.Z{Score: -5, Member: "!r"}).Err())
		v.must(rds.HSet(ctx, onlineKey(reader), "dead", 1).Err())
		var found []Leftover
		v.walk(20, func(f Findings) { found = append(found, f.Leftovers...) })
		if len(found) != 5 {
			v.Fatalf("found %v", found)
		}
		v.begin(false)
		v.must(v.c.PutCopies(ctx, []services.Post{post}, nil))
		v.must(rds.Expire(ctx, "v:town/y", time.Hour).Err())
		v.must(v.c.Enter(ctx, []services.UserID{reader}, time.Hour))
		// v.begin has deleted the earlier states of conversations, and its new inbox belongs to a document: no orphan is left.
		if orphans, endless, err := v.c.DropLeftovers(ctx, found); err != nil || orphans != 0 || endless != 0 {
			v.Errorf("%d orphans and %d others went, %v", orphans, endless, err)
		}
		v.build(FeedFacts{Entries: makeEntries(1, 2, counted)})
		if !v.document().Ready {
			v.Error("the rebuild was broken")
		}
	})
}

// When a master has left the cluster the walk continues with the next one. After the last master it ends.
func TestAWalkContinuesWithoutALostMaster(t *testing.T) {
	eachView(t, func(v view) {
		v.build(FeedFacts{})
		found := map[services.UserID]bool{}
		note := func(f Findings) {
			for _, user := range f.Documents {
				found[user] = true
			}
		}
		for place, done := (WalkPlace{Master: "!", Cursor: 99}), v.c.Mode() != "cluster"; !done; {
			f, to, ended, err := v.c.Walk(v.Context(), place, 10)
			v.must(err)
			note(f)
			place, done = to, ended
		}
		if v.c.Mode() == "cluster" && !found[reader] {
			v.Error("the masters after the one that has gone were not walked")
		}
		if f, to, done, err := v.c.Walk(v.Context(), WalkPlace{Master: "~"}, 10); err != nil || !done || f.Keys != 0 || to != (WalkPlace{}) {
			v.Errorf("past the last master: %+v, %+v, %v, %v", f, to, done, err)
		}
	})
}
