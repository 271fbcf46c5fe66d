package rdb

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tidings/services"
	"tidings/services/redis"
	"tidings/services/redis/redistest"
)

const (
	reader    = services.UserID(7) // the user whose projection is tested
	author    = services.UserID(8) // the reader follows them
	otherUser = services.UserID(9) // a user who has nothing
)

// feedTest is a test of one reader's feed on one Redis, with helpers that run the scripts and read what they wrote.
type feedTest struct {
	*testing.T
	projections *Projections
}

// eachRedis runs a test with an empty Redis of each kind.
func eachRedis(t *testing.T, run func(v feedTest)) {
	redistest.EachRedis(t, func(t *testing.T, url string) {
		run(feedTest{t, openProjections(t, redis.Options{URL: url, ReadTimeout: longReadTimeout})})
	})
}

func (v feedTest) must(err error) {
	v.Helper()
	if err != nil {
		v.Fatal(err)
	}
}

// buildFromFacts makes the reader's document and inbox from facts.
func (v feedTest) buildFromFacts(facts FeedFacts) redis.Result {
	v.Helper()
	if facts.Stamp == 0 {
		facts.Stamp = v.beginRebuild(false)
	}
	facts.Reader, facts.IsVisit, facts.LastActiveDay, facts.KeyLifetime = reader, true, 20_000, time.Hour
	result, err := v.projections.EndRebuild(v.Context(), facts)
	v.must(err)
	return result.Result
}

// beginRebuild begins a rebuild of the reader's projection, and returns its stamp. A refill removes the inbox floor.
func (v feedTest) beginRebuild(refill bool) redis.ClockStamp {
	v.Helper()
	stamps, err := v.projections.BeginRebuild(v.Context(), []services.UserID{reader}, RebuildMode{IsVisit: true, Refill: refill})
	v.must(err)
	return stamps[0]
}

// takeStamp takes a stamp of this moment. The stamps of Projections.Now are a second old on a cluster: for a second after a removal they
// are refused.
func (v feedTest) takeStamp() redis.ClockStamp {
	v.Helper()
	stamp, err := v.projections.TakeUserStamp(v.Context(), reader)
	v.must(err)
	return stamp
}

// addEntry pushes an entry into the reader's inbox.
func (v feedTest) addEntry(stamp redis.ClockStamp, entry services.FeedEntry) redis.Result {
	v.Helper()
	results, err := v.projections.AddToInboxes(v.Context(), stamp, []InboxPost{{reader, entry}})
	v.must(err)
	return results[0]
}

// mergeEntries merges entries into the reader's inbox, as after a read of SQL. With a fence, writes from earlier reads are refused.
func (v feedTest) mergeEntries(stamp redis.ClockStamp, fence bool, entries ...services.FeedEntry) redis.Result {
	v.Helper()
	result, err := v.projections.MergeIntoInbox(v.Context(), InboxMerge{Reader: reader, Stamp: stamp, RefuseEarlierReads: fence, Entries: entries})
	v.must(err)
	return result
}

// dropAuthor removes everything of an author from the reader's projection, as after an unfollow.
func (v feedTest) dropAuthor(author services.UserID) redis.Result {
	v.Helper()
	result, err := v.projections.DropFromInbox(v.Context(), reader, author)
	v.must(err)
	return result
}

// deletePost removes one post of author.
func (v feedTest) deletePost(post services.PostID) redis.Result {
	v.Helper()
	results, err := v.projections.DeleteFromInboxes(v.Context(), []services.UserID{reader}, post, author)
	v.must(err)
	return results[0]
}

// markSeen moves the reader's seen position.
func (v feedTest) markSeen(upTo services.PostID) redis.Result {
	v.Helper()
	result, err := v.projections.MarkFeedSeen(v.Context(), reader, upTo)
	v.must(err)
	return result
}

// readField reads a field of the reader's document, "" if it is absent.
func (v feedTest) readField(name string) string {
	v.Helper()
	value, err := v.projections.Client.Commands().HGet(v.Context(), DocumentKey(reader), name).Result()
	if err != redis.Nil {
		v.must(err)
	}
	return value
}

// writeField overwrites a field of the reader's document, as no script does.
func (v feedTest) writeField(name string, value any) {
	v.Helper()
	v.must(v.projections.Client.Commands().HSet(v.Context(), DocumentKey(reader), name, value).Err())
}

// deleteKeys deletes keys of Redis without a script, as if Redis had lost them.
func (v feedTest) deleteKeys(keys ...string) {
	v.Helper()
	v.must(v.projections.Client.Commands().Del(v.Context(), keys...).Err())
}

// readDocument reads the reader's document. It checks that a read through the memory of documents gives the same, whatever script has
// changed the document. A document that is not ready is not compared: if a test broke it by hand, it has no new version, and the
// kept document is still whole.
func (v feedTest) readDocument() Document {
	v.Helper()
	documents, err := v.projections.Documents(v.Context(), []services.UserID{reader})
	v.must(err)
	for range 2 {
		if !documents[0].Ready {
			break
		}
		kept, err := v.projections.DocumentsCached(v.Context(), []services.UserID{reader})
		v.must(err)
		if diff := cmp.Diff(documents[0], kept[0]); diff != "" {
			v.Errorf("from memory (-whole +kept):\n%s", diff)
		}
	}
	return documents[0]
}

// wantFeed checks a script's result and the reader's feed after it.
func (v feedTest) wantFeed(what string, result redis.Result, status redis.ResultStatus, count string, entries ...services.FeedEntry) {
	v.Helper()
	if result.Status != status || (result.Version > 0) != (status == redis.Applied) {
		v.Errorf("%s: %+v, want the status %d", what, result, status)
	}
	if got := v.readField("fc"); got != count {
		v.Errorf("%s: the count is %q, want %q", what, got, count)
	}
	if status == redis.Applied && v.readField("n") != strconv.FormatUint(result.Version, 10) {
		v.Errorf("%s: answered version %d, stored %s", what, result.Version, v.readField("n"))
	}
	page, err := v.projections.Inbox(v.Context(), reader, services.MaxPostID, services.FeedRetention)
	v.must(err)
	slices.Reverse(entries)
	if !slices.Equal(page.Entries, entries) {
		v.Errorf("%s: the inbox is %v, want %v", what, page.Entries, entries)
	}
}

// countedEntry is an entry of author that counts.
func countedEntry(id services.PostID) services.FeedEntry {
	return services.FeedEntry{Post: id, Author: author, CountsAsNew: true}
}

// uncountedEntry is an entry that is listed and does not count.
func uncountedEntry(id services.PostID) services.FeedEntry {
	return services.FeedEntry{Post: id, Author: author}
}

// makeEntries makes entries with the IDs from first to last.
func makeEntries(first, last services.PostID, entry func(services.PostID) services.FeedEntry) (entries []services.FeedEntry) {
	for id := first; id <= last; id++ {
		entries = append(entries, entry(id))
	}
	return entries
}

// feedWrites are the scripts of the feed that change existing keys, each with arguments that would change something.
func (v feedTest) feedWrites() map[string]func(redis.ClockStamp) redis.Result {
	return map[string]func(redis.ClockStamp) redis.Result{
		"add":    func(stamp redis.ClockStamp) redis.Result { return v.addEntry(stamp, countedEntry(50)) },
		"merge":  func(stamp redis.ClockStamp) redis.Result { return v.mergeEntries(stamp, true, countedEntry(51)) },
		"end":    func(stamp redis.ClockStamp) redis.Result { return v.buildFromFacts(FeedFacts{Stamp: stamp}) },
		"drop":   func(redis.ClockStamp) redis.Result { return v.dropAuthor(author) },
		"delete": func(redis.ClockStamp) redis.Result { return v.deletePost(1) },
		"see":    func(redis.ClockStamp) redis.Result { return v.markSeen(60) },
	}
}

func TestNothingIsWrittenWithoutADocument(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		if stamp := v.takeStamp(); stamp != 0 {
			v.Errorf("a stamp of %d without a document, want 0", stamp)
		}
		for name, write := range v.feedWrites() {
			v.wantFeed(name, write(1<<62), redis.Missing, "")
		}
		v.must(v.projections.MarkActive(v.Context(), []services.UserID{reader}, 20_001, time.Hour))
		for _, key := range inboxScriptKeys(reader) {
			if n, err := v.projections.Client.Commands().Exists(v.Context(), key).Result(); err != nil || n != 0 {
				v.Errorf("%s was made: %d, %v", key, n, err)
			}
		}
	})
}

func TestALostInboxMarksTheDocumentAsBuilding(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		for name := range v.feedWrites() {
			for what, damage := range map[string]func(){
				"lost":               func() { v.deleteKeys(inboxKey(reader)) },
				"without sentinel":   func() { v.must(v.projections.Client.Commands().ZRem(v.Context(), inboxKey(reader), "!"+zeroID).Err()) },
				"with a short floor": func() { v.replaceMark("!4") },
				"without st":         func() { v.must(v.projections.Client.Commands().HDel(v.Context(), DocumentKey(reader), "st").Err()) },
				"without T":          func() { v.must(v.projections.Client.Commands().HDel(v.Context(), DocumentKey(reader), "T").Err()) },
				"with a broken n":    func() { v.writeField("n", "soon") },
			} {
				v.deleteKeys(DocumentKey(reader), inboxKey(reader))
				v.buildFromFacts(FeedFacts{Entries: makeEntries(1, 3, countedEntry)})
				damage()
				if result := v.feedWrites()[name](v.takeStamp()); result.Status != redis.Missing {
					v.Errorf("%s into an inbox %s: %+v, want the status %d", name, what, result, redis.Missing)
				}
				page, err := v.projections.Inbox(v.Context(), reader, services.MaxPostID, 10)
				if d := v.readDocument(); err != nil || page.Ready || d.Ready {
					v.Errorf("%s into an inbox %s: %+v, %+v, %v: want neither ready", name, what, d, page, err)
				}
				v.wantFeed("the rebuild", v.buildFromFacts(FeedFacts{SeenUpTo: 1, Entries: makeEntries(1, 3, countedEntry)}), redis.Applied, "2", makeEntries(1, 3, countedEntry)...)
				if d := v.readDocument(); !d.Ready || d.FeedSeenUpTo != 1 {
					v.Errorf("%s into an inbox %s: rebuilt to %+v", name, what, d)
				}
			}
		}
	})
}

func TestAddingToAnInbox(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		v.buildFromFacts(FeedFacts{Entries: []services.FeedEntry{uncountedEntry(1), countedEntry(2)}})
		stamp := v.takeStamp()
		v.wantFeed("a post that counts", v.addEntry(stamp, countedEntry(3)), redis.Applied, "2", uncountedEntry(1), countedEntry(2), countedEntry(3))
		v.wantFeed("the same again", v.addEntry(stamp, countedEntry(3)), redis.Unchanged, "2", uncountedEntry(1), countedEntry(2), countedEntry(3))
		v.wantFeed("a post that is listed", v.addEntry(stamp, uncountedEntry(4)), redis.Applied, "2", uncountedEntry(1), countedEntry(2), countedEntry(3), uncountedEntry(4))
		v.wantFeed("one that counted", v.addEntry(stamp, uncountedEntry(2)), redis.Retry, "2", uncountedEntry(1), countedEntry(2), countedEntry(3), uncountedEntry(4))
		v.wantFeed("one that was listed", v.addEntry(stamp, countedEntry(1)), redis.Retry, "2", uncountedEntry(1), countedEntry(2), countedEntry(3), uncountedEntry(4))
		v.dropAuthor(otherUser)
		v.wantFeed("a read from before a removal", v.addEntry(stamp, countedEntry(5)), redis.Retry, "2", uncountedEntry(1), countedEntry(2), countedEntry(3), uncountedEntry(4))
		rm, err := strconv.ParseUint(v.readField("rm"), 10, 64)
		v.must(err)
		v.wantFeed("a read at the removal", v.addEntry(redis.ClockStamp(rm), countedEntry(5)), redis.Retry, "2", uncountedEntry(1), countedEntry(2), countedEntry(3), uncountedEntry(4))
		v.wantFeed("a read right after it", v.addEntry(redis.ClockStamp(rm+1), countedEntry(5)), redis.Applied, "3", uncountedEntry(1), countedEntry(2), countedEntry(3), uncountedEntry(4), countedEntry(5))
	})
}

// A merge adds entries and changes flags, and changes nothing when repeated. A fence refuses writes from earlier reads.
func TestMergingIntoAnInbox(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		v.buildFromFacts(FeedFacts{Entries: makeEntries(1, 3, countedEntry)})
		stamp := v.takeStamp()
		v.wantFeed("other flags", v.mergeEntries(stamp, false, uncountedEntry(1), uncountedEntry(2), countedEntry(4)), redis.Applied, "2", uncountedEntry(1), uncountedEntry(2), countedEntry(3), countedEntry(4))
		v.wantFeed("and back", v.mergeEntries(stamp, false, countedEntry(2)), redis.Applied, "3", uncountedEntry(1), countedEntry(2), countedEntry(3), countedEntry(4))
		v.wantFeed("what is there", v.mergeEntries(stamp, false, countedEntry(2), uncountedEntry(1)), redis.Unchanged, "3", uncountedEntry(1), countedEntry(2), countedEntry(3), countedEntry(4))
		v.wantFeed("nothing", v.mergeEntries(stamp, false), redis.Unchanged, "3", uncountedEntry(1), countedEntry(2), countedEntry(3), countedEntry(4))
		v.wantFeed("without a fence", v.addEntry(stamp, countedEntry(5)), redis.Applied, "4", uncountedEntry(1), countedEntry(2), countedEntry(3), countedEntry(4), countedEntry(5))
		v.wantFeed("a fence alone", v.mergeEntries(stamp, true), redis.Unchanged, "4", uncountedEntry(1), countedEntry(2), countedEntry(3), countedEntry(4), countedEntry(5))
		v.wantFeed("behind the fence", v.mergeEntries(stamp, true, countedEntry(6)), redis.Retry, "4", uncountedEntry(1), countedEntry(2), countedEntry(3), countedEntry(4), countedEntry(5))
		v.wantFeed("and a push", v.addEntry(stamp, countedEntry(6)), redis.Retry, "4", uncountedEntry(1), countedEntry(2), countedEntry(3), countedEntry(4), countedEntry(5))
		v.wantFeed("read again", v.mergeEntries(v.takeStamp(), true, countedEntry(6)), redis.Applied, "5", uncountedEntry(1), countedEntry(2), countedEntry(3), countedEntry(4), countedEntry(5), countedEntry(6))
	})
}

func TestRemovingFromAnInbox(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		foreign := services.FeedEntry{Post: 4, Author: otherUser, CountsAsNew: true}
		v.buildFromFacts(FeedFacts{Entries: append(makeEntries(1, 3, countedEntry), foreign, uncountedEntry(5))})
		old := v.takeStamp()
		v.wantFeed("a post of another author's", v.deletePost(4), redis.Unchanged, "4", countedEntry(1), countedEntry(2), countedEntry(3), foreign, uncountedEntry(5))
		v.wantFeed("a read from before it", v.addEntry(old, countedEntry(6)), redis.Retry, "4", countedEntry(1), countedEntry(2), countedEntry(3), foreign, uncountedEntry(5))
		v.wantFeed("a post that counts", v.deletePost(2), redis.Applied, "3", countedEntry(1), countedEntry(3), foreign, uncountedEntry(5))
		v.wantFeed("a post that is listed", v.deletePost(5), redis.Applied, "3", countedEntry(1), countedEntry(3), foreign)
		v.wantFeed("the same again", v.deletePost(5), redis.Unchanged, "3", countedEntry(1), countedEntry(3), foreign)
		old = v.takeStamp()
		v.wantFeed("somebody without posts", v.dropAuthor(10), redis.Unchanged, "3", countedEntry(1), countedEntry(3), foreign)
		v.wantFeed("a read from before that", v.addEntry(old, countedEntry(6)), redis.Retry, "3", countedEntry(1), countedEntry(3), foreign)
		v.wantFeed("an author", v.dropAuthor(author), redis.Applied, "1", foreign)
		v.wantFeed("the same again", v.dropAuthor(author), redis.Unchanged, "1", foreign)
	})
}

func TestTheSeenPositionOnlyRises(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		all := makeEntries(1, 5, countedEntry)
		v.buildFromFacts(FeedFacts{SeenUpTo: 2, Entries: slices.Clone(all)})
		v.wantFeed("back", v.markSeen(1), redis.Unchanged, "3", slices.Clone(all)...)
		v.wantFeed("where it is", v.markSeen(2), redis.Unchanged, "3", slices.Clone(all)...)
		v.wantFeed("forward", v.markSeen(4), redis.Applied, "1", slices.Clone(all)...)
		v.wantFeed("a rebuild from an older mark", v.buildFromFacts(FeedFacts{SeenUpTo: 3}), redis.Applied, "1", slices.Clone(all)...)
		v.wantFeed("a rebuild from a newer mark", v.buildFromFacts(FeedFacts{SeenUpTo: 5}), redis.Applied, "0", slices.Clone(all)...)
		v.wantFeed("to the end of time", v.markSeen(services.MaxPostID), redis.Applied, "0", slices.Clone(all)...)
		if d := v.readDocument(); d.FeedSeenUpTo != services.MaxPostID || d.FeedCountAtLeast {
			v.Errorf("the document is %+v", d)
		}
	})
}

func TestVersionsAndFencesRiseWhenTheClockIsBehind(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		v.buildFromFacts(FeedFacts{Entries: makeEntries(1, 9, countedEntry)})
		ahead := uint64(time.Now().Add(time.Hour).UnixMicro())
		v.writeField("n", ahead)
		v.writeField("rm", ahead)
		for i, write := range []func() redis.Result{
			func() redis.Result { return v.deletePost(1) }, func() redis.Result { return v.markSeen(3) }, func() redis.Result { return v.dropAuthor(author) },
			func() redis.Result { return v.addEntry(v.takeStamp(), countedEntry(20)) }, func() redis.Result { return v.mergeEntries(v.takeStamp(), true, countedEntry(21)) },
			func() redis.Result { return v.buildFromFacts(FeedFacts{Stamp: v.beginRebuild(true)}) },
		} {
			if result := write(); result.Status != redis.Applied || result.Version != ahead+uint64(i)+1 {
				v.Errorf("write %d: %+v, want the version %d", i, result, ahead+uint64(i)+1)
			}
		}
		if rm := v.readField("rm"); rm != fmt.Sprint(ahead+3) {
			v.Errorf("after three removals rm is %s, want %d", rm, ahead+3)
		}
		v.deleteKeys(inboxKey(reader))
		if stamp := v.beginRebuild(false); stamp != redis.ClockStamp(ahead+5) || v.readField("rm") != fmt.Sprint(ahead+4) {
			v.Errorf("an inbox born at %s, stamp %d: want %d and %d", v.readField("rm"), stamp, ahead+4, ahead+5)
		}
	})
}

func TestOnlyLiveLeasesAreNotified(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		v.buildFromFacts(FeedFacts{Entries: makeEntries(1, 9, countedEntry)})
		now := time.Now().UnixMilli()
		v.must(v.projections.Client.Commands().HSet(v.Context(), onlineKey(reader), "here", now+60_000, "there", now+90_000, "gone", now-1, "long ago", 0).Err())
		for name, result := range map[string]redis.Result{
			"add": v.addEntry(v.takeStamp(), countedEntry(20)), "merge": v.mergeEntries(v.takeStamp(), false, countedEntry(21)), "delete": v.deletePost(1), "see": v.markSeen(3),
			"drop": v.dropAuthor(author), "end": v.buildFromFacts(FeedFacts{}),
		} {
			slices.Sort(result.OnlineNodes)
			if !slices.Equal(result.OnlineNodes, []string{"here", "there"}) {
				v.Errorf("%s tells %q, want here and there", name, result.OnlineNodes)
			}
		}
		if result := v.markSeen(3); result.OnlineNodes != nil {
			v.Errorf("nothing changed and %q are notified", result.OnlineNodes)
		}
	})
}

func TestRoundTripsOfInboxes(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		v.buildFromFacts(FeedFacts{Entries: makeEntries(1, 9, countedEntry)})
		adds, many := make([]InboxPost, 1200), make([]services.UserID, 1200)
		for i := range adds {
			adds[i], many[i] = InboxPost{services.UserID(i), countedEntry(10)}, services.UserID(i)
		}
		var page InboxPage
		for _, test := range []struct {
			name string
			want int
			run  func(ctx context.Context) (int, error)
		}{
			{"a page", 1, func(ctx context.Context) (_ int, err error) {
				page, err = v.projections.Inbox(ctx, reader, 5, 20)
				return len(page.Entries), err
			}},
			{"1,200 pushes", 3, func(ctx context.Context) (int, error) {
				results, err := v.projections.AddToInboxes(ctx, 1<<62, adds)
				return len(results), err
			}},
			{"1,200 deletions", 3, func(ctx context.Context) (int, error) {
				results, err := v.projections.DeleteFromInboxes(ctx, many, 10, author)
				return len(results), err
			}},
		} {
			ctx, trips := redis.WithRoundTrips(v.Context())
			n, err := test.run(ctx)
			if err != nil || trips.Count() != test.want || n != 1200 && n != 4 {
				v.Errorf("%s: %d answers in %d round trips, %v: want %d", test.name, n, trips.Count(), err, test.want)
			}
		}
	})
}
