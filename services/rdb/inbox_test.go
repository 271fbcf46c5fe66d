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
	reader = services.UserID(7) // the user whose view is tested
	author = services.UserID(8) // whom the reader follows
	other  = services.UserID(9) // a user who has nothing
)

// view is one reader's feed on one Redis, for tests that cover every branch of a script.
type view struct {
	*testing.T
	c *Projections
}

// eachView runs a test with an empty Redis of each kind.
func eachView(t *testing.T, run func(v view)) {
	redistest.Each(t, func(t *testing.T, url string) {
		run(view{t, connect(t, redis.Options{URL: url, ReadTimeout: patience})})
	})
}

func (v view) must(err error) {
	v.Helper()
	if err != nil {
		v.Fatal(err)
	}
}

// build makes the reader's document and inbox from facts.
func (v view) build(facts FeedFacts) redis.Result {
	v.Helper()
	if facts.Stamp == 0 {
		facts.Stamp = v.begin(false)
	}
	facts.Reader, facts.Visit, facts.Day, facts.Lifetime = reader, true, 20_000, time.Hour
	result, err := v.c.EndRebuild(v.Context(), facts)
	v.must(err)
	return result.Result
}

// begin begins a rebuild of the reader's view.
func (v view) begin(refill bool) redis.Stamp {
	v.Helper()
	stamps, err := v.c.BeginRebuild(v.Context(), []services.UserID{reader}, RebuildMode{Visit: true, Refill: refill})
	v.must(err)
	return stamps[0]
}

// stamp takes a stamp of this moment. On a cluster a removal would refuse the stamps of Now for a second.
func (v view) stamp() redis.Stamp {
	v.Helper()
	stamp, err := v.c.StampOf(v.Context(), reader)
	v.must(err)
	return stamp
}

// add pushes an entry into the reader's inbox.
func (v view) add(stamp redis.Stamp, entry services.FeedEntry) redis.Result {
	v.Helper()
	results, err := v.c.AddToInboxes(v.Context(), stamp, []InboxPost{{reader, entry}})
	v.must(err)
	return results[0]
}

// merge merges entries into the reader's inbox, as after a read of SQL.
func (v view) merge(stamp redis.Stamp, fence bool, entries ...services.FeedEntry) redis.Result {
	v.Helper()
	result, err := v.c.MergeIntoInbox(v.Context(), Merge{Reader: reader, Stamp: stamp, Fence: fence, Entries: entries})
	v.must(err)
	return result
}

// drop removes an author from the reader's view.
func (v view) drop(author services.UserID) redis.Result {
	v.Helper()
	result, err := v.c.DropFromInbox(v.Context(), reader, author)
	v.must(err)
	return result
}

// delete removes one post of author.
func (v view) delete(post services.PostID) redis.Result {
	v.Helper()
	results, err := v.c.DeleteFromInboxes(v.Context(), []services.UserID{reader}, post, author)
	v.must(err)
	return results[0]
}

// markSeen moves the reader's seen position.
func (v view) markSeen(upTo services.PostID) redis.Result {
	v.Helper()
	result, err := v.c.MarkFeedSeen(v.Context(), reader, upTo)
	v.must(err)
	return result
}

// field reads a field of the reader's document, "" if it is absent.
func (v view) field(name string) string {
	v.Helper()
	value, err := v.c.Commands().HGet(v.Context(), DocumentKey(reader), name).Result()
	if err != redis.Nil {
		v.must(err)
	}
	return value
}

// set overwrites a field of the reader's document, as no script does.
func (v view) set(name string, value any) {
	v.Helper()
	v.must(v.c.Commands().HSet(v.Context(), DocumentKey(reader), name, value).Err())
}

// deleteKeys deletes keys behind the client's back.
func (v view) deleteKeys(keys ...string) {
	v.Helper()
	v.must(v.c.Commands().Del(v.Context(), keys...).Err())
}

// document reads the reader's document. It checks that a read through the memory of documents gives the same, whatever script has
// changed the document. A document that is not ready is not compared: if a test broke it by hand, it has no new version, and the
// kept document is still whole.
func (v view) document() Document {
	v.Helper()
	documents, err := v.c.Documents(v.Context(), []services.UserID{reader})
	v.must(err)
	for range 2 {
		if !documents[0].Ready {
			break
		}
		kept, err := v.c.DocumentsCached(v.Context(), []services.UserID{reader})
		v.must(err)
		if diff := cmp.Diff(documents[0], kept[0]); diff != "" {
			v.Errorf("from memory (-whole +kept):\n%s", diff)
		}
	}
	return documents[0]
}

// want checks a script's result and the reader's feed after it.
func (v view) want(what string, result redis.Result, status redis.Status, count string, entries ...services.FeedEntry) {
	v.Helper()
	if result.Status != status || (result.N > 0) != (status == redis.Applied) {
		v.Errorf("%s: %+v, want the status %d", what, result, status)
	}
	if got := v.field("fc"); got != count {
		v.Errorf("%s: the count is %q, want %q", what, got, count)
	}
	if status == redis.Applied && v.field("n") != strconv.FormatUint(result.N, 10) {
		v.Errorf("%s: answered version %d, stored %s", what, result.N, v.field("n"))
	}
	page, err := v.c.Inbox(v.Context(), reader, services.MaxPostID, services.Retention)
	v.must(err)
	slices.Reverse(entries)
	if !slices.Equal(page.Entries, entries) {
		v.Errorf("%s: the inbox is %v, want %v", what, page.Entries, entries)
	}
}

// counted is an entry of author that counts.
func counted(id services.PostID) services.FeedEntry {
	return services.FeedEntry{Post: id, Author: author, Counts: true}
}

// listed is an entry that is listed and does not count.
func listed(id services.PostID) services.FeedEntry {
	return services.FeedEntry{Post: id, Author: author}
}

// makeEntries makes entries with the IDs from first to last.
func makeEntries(first, last services.PostID, make func(services.PostID) services.FeedEntry) (entries []services.FeedEntry) {
	for id := first; id <= last; id++ {
		entries = append(entries, make(id))
	}
	return entries
}

// everyWrite are the scripts of the feed that change existing keys, each with arguments that would change something.
func (v view) everyWrite() map[string]func(redis.Stamp) redis.Result {
	return map[string]func(redis.Stamp) redis.Result{
		"add":    func(stamp redis.Stamp) redis.Result { return v.add(stamp, counted(50)) },
		"merge":  func(stamp redis.Stamp) redis.Result { return v.merge(stamp, true, counted(51)) },
		"end":    func(stamp redis.Stamp) redis.Result { return v.build(FeedFacts{Stamp: stamp}) },
		"drop":   func(redis.Stamp) redis.Result { return v.drop(author) },
		"delete": func(redis.Stamp) redis.Result { return v.delete(1) },
		"see":    func(redis.Stamp) redis.Result { return v.markSeen(60) },
	}
}

func TestNothingIsWrittenWithoutADocument(t *testing.T) {
	eachView(t, func(v view) {
		if stamp := v.stamp(); stamp != 0 {
			v.Errorf("a stamp of %d without a document, want 0", stamp)
		}
		for name, write := range v.everyWrite() {
			v.want(name, write(1<<62), redis.Missing, "")
		}
		v.must(v.c.MarkActive(v.Context(), []services.UserID{reader}, 20_001, time.Hour))
		for _, key := range inboxKeys(reader) {
			if n, err := v.c.Commands().Exists(v.Context(), key).Result(); err != nil || n != 0 {
				v.Errorf("%s was made: %d, %v", key, n, err)
			}
		}
	})
}

func TestALostInboxMarksTheDocumentAsBuilding(t *testing.T) {
	eachView(t, func(v view) {
		for name := range v.everyWrite() {
			for what, spoil := range map[string]func(){
				"lost":             func() { v.deleteKeys(inboxKey(reader)) },
				"without sentinel": func() { v.must(v.c.Commands().ZRem(v.Context(), inboxKey(reader), "!"+zeroID).Err()) },
				"without st":       func() { v.must(v.c.Commands().HDel(v.Context(), DocumentKey(reader), "st").Err()) },
				"without T":        func() { v.must(v.c.Commands().HDel(v.Context(), DocumentKey(reader), "T").Err()) },
				"with a broken n":  func() { v.set("n", "soon") },
			} {
				v.deleteKeys(DocumentKey(reader), inboxKey(reader))
				v.build(FeedFacts{Entries: makeEntries(1, 3, counted)})
				spoil()
				if result := v.everyWrite()[name](v.stamp()); result.Status != redis.Missing {
					v.Errorf("%s into an inbox %s: %+v, want the status %d", name, what, result, redis.Missing)
				}
				page, err := v.c.Inbox(v.Context(), reader, services.MaxPostID, 10)
				if d := v.document(); err != nil || page.Ready || d.Ready {
					v.Errorf("%s into an inbox %s: %+v, %+v, %v: want neither ready", name, what, d, page, err)
				}
				v.want("the rebuild", v.build(FeedFacts{Seen: 1, Entries: makeEntries(1, 3, counted)}), redis.Applied, "2", makeEntries(1, 3, counted)...)
				if d := v.document(); !d.Ready || d.Seen != 1 {
					v.Errorf("%s into an inbox %s: rebuilt to %+v", name, what, d)
				}
			}
		}
	})
}

func TestAddingToAnInbox(t *testing.T) {
	eachView(t, func(v view) {
		v.build(FeedFacts{Entries: []services.FeedEntry{listed(1), counted(2)}})
		stamp := v.stamp()
		v.want("a post that counts", v.add(stamp, counted(3)), redis.Applied, "2", listed(1), counted(2), counted(3))
		v.want("the same again", v.add(stamp, counted(3)), redis.Same, "2", listed(1), counted(2), counted(3))
		v.want("a post that is listed", v.add(stamp, listed(4)), redis.Applied, "2", listed(1), counted(2), counted(3), listed(4))
		v.want("one that counted", v.add(stamp, listed(2)), redis.Retry, "2", listed(1), counted(2), counted(3), listed(4))
		v.want("one that was listed", v.add(stamp, counted(1)), redis.Retry, "2", listed(1), counted(2), counted(3), listed(4))
		v.drop(other)
		v.want("a read from before a removal", v.add(stamp, counted(5)), redis.Retry, "2", listed(1), counted(2), counted(3), listed(4))
		rm, err := strconv.ParseUint(v.field("rm"), 10, 64)
		v.must(err)
		v.want("a read at the removal", v.add(redis.Stamp(rm), counted(5)), redis.Retry, "2", listed(1), counted(2), counted(3), listed(4))
		v.want("a read right after it", v.add(redis.Stamp(rm+1), counted(5)), redis.Applied, "3", listed(1), counted(2), counted(3), listed(4), counted(5))
	})
}

// A merge adds entries and changes flags, and changes nothing when repeated. A fence refuses writes from earlier reads.
func TestMergingIntoAnInbox(t *testing.T) {
	eachView(t, func(v view) {
		v.build(FeedFacts{Entries: makeEntries(1, 3, counted)})
		stamp := v.stamp()
		v.want("other flags", v.merge(stamp, false, listed(1), listed(2), counted(4)), redis.Applied, "2", listed(1), listed(2), counted(3), counted(4))
		v.want("and back", v.merge(stamp, false, counted(2)), redis.Applied, "3", listed(1), counted(2), counted(3), counted(4))
		v.want("what is there", v.merge(stamp, false, counted(2), listed(1)), redis.Same, "3", listed(1), counted(2), counted(3), counted(4))
		v.want("nothing", v.merge(stamp, false), redis.Same, "3", listed(1), counted(2), counted(3), counted(4))
		v.want("without a fence", v.add(stamp, counted(5)), redis.Applied, "4", listed(1), counted(2), counted(3), counted(4), counted(5))
		v.want("a fence alone", v.merge(stamp, true), redis.Same, "4", listed(1), counted(2), counted(3), counted(4), counted(5))
		v.want("behind the fence", v.merge(stamp, true, counted(6)), redis.Retry, "4", listed(1), counted(2), counted(3), counted(4), counted(5))
		v.want("and a push", v.add(stamp, counted(6)), redis.Retry, "4", listed(1), counted(2), counted(3), counted(4), counted(5))
		v.want("read again", v.merge(v.stamp(), true, counted(6)), redis.Applied, "5", listed(1), counted(2), counted(3), counted(4), counted(5), counted(6))
	})
}

func TestRemovingFromAnInbox(t *testing.T) {
	eachView(t, func(v view) {
		foreign := services.FeedEntry{Post: 4, Author: other, Counts: true}
		v.build(FeedFacts{Entries: append(makeEntries(1, 3, counted), foreign, listed(5))})
		old := v.stamp()
		v.want("a post of another author's", v.delete(4), redis.Same, "4", counted(1), counted(2), counted(3), foreign, listed(5))
		v.want("a read from before it", v.add(old, counted(6)), redis.Retry, "4", counted(1), counted(2), counted(3), foreign, listed(5))
		v.want("a post that counts", v.delete(2), redis.Applied, "3", counted(1), counted(3), foreign, listed(5))
		v.want("a post that is listed", v.delete(5), redis.Applied, "3", counted(1), counted(3), foreign)
		v.want("the same again", v.delete(5), redis.Same, "3", counted(1), counted(3), foreign)
		old = v.stamp()
		v.want("somebody without posts", v.drop(10), redis.Same, "3", counted(1), counted(3), foreign)
		v.want("a read from before that", v.add(old, counted(6)), redis.Retry, "3", counted(1), counted(3), foreign)
		v.want("an author", v.drop(author), redis.Applied, "1", foreign)
		v.want("the same again", v.drop(author), redis.Same, "1", foreign)
	})
}

func TestTheSeenPositionOnlyRises(t *testing.T) {
	eachView(t, func(v view) {
		all := makeEntries(1, 5, counted)
		v.build(FeedFacts{Seen: 2, Entries: slices.Clone(all)})
		v.want("back", v.markSeen(1), redis.Same, "3", slices.Clone(all)...)
		v.want("where it is", v.markSeen(2), redis.Same, "3", slices.Clone(all)...)
		v.want("forward", v.markSeen(4), redis.Applied, "1", slices.Clone(all)...)
		v.want("a rebuild from an older mark", v.build(FeedFacts{Seen: 3}), redis.Applied, "1", slices.Clone(all)...)
		v.want("a rebuild from a newer mark", v.build(FeedFacts{Seen: 5}), redis.Applied, "0", slices.Clone(all)...)
		v.want("to the end of time", v.markSeen(services.MaxPostID), redis.Applied, "0", slices.Clone(all)...)
		if d := v.document(); d.Seen != services.MaxPostID || d.FeedMore {
			v.Errorf("the document is %+v", d)
		}
	})
}

func TestVersionsAndFencesRiseWhenTheClockIsBehind(t *testing.T) {
	eachView(t, func(v view) {
		v.build(FeedFacts{Entries: makeEntries(1, 9, counted)})
		ahead := uint64(time.Now().Add(time.Hour).UnixMicro())
		v.set("n", ahead)
		v.set("rm", ahead)
		for i, write := range []func() redis.Result{
			func() redis.Result { return v.delete(1) }, func() redis.Result { return v.markSeen(3) }, func() redis.Result { return v.drop(author) },
			func() redis.Result { return v.add(v.stamp(), counted(20)) }, func() redis.Result { return v.merge(v.stamp(), true, counted(21)) },
			func() redis.Result { return v.build(FeedFacts{Stamp: v.begin(true)}) },
		} {
			if result := write(); result.Status != redis.Applied || result.N != ahead+uint64(i)+1 {
				v.Errorf("write %d: %+v, want the version %d", i, result, ahead+uint64(i)+1)
			}
		}
		if rm := v.field("rm"); rm != fmt.Sprint(ahead+3) {
			v.Errorf("after three removals rm is %s, want %d", rm, ahead+3)
		}
		v.deleteKeys(inboxKey(reader))
		if stamp := v.begin(false); stamp != redis.Stamp(ahead+5) || v.field("rm") != fmt.Sprint(ahead+4) {
			v.Errorf("an inbox born at %s, stamp %d: want %d and %d", v.field("rm"), stamp, ahead+4, ahead+5)
		}
	})
}

func TestOnlyLiveLeasesAreNotified(t *testing.T) {
	eachView(t, func(v view) {
		v.build(FeedFacts{Entries: makeEntries(1, 9, counted)})
		now := time.Now().UnixMilli()
		v.must(v.c.Commands().HSet(v.Context(), onlineKey(reader), "here", now+60_000, "there", now+90_000, "gone", now-1, "long ago", 0).Err())
		for name, result := range map[string]redis.Result{
			"add": v.add(v.stamp(), counted(20)), "merge": v.merge(v.stamp(), false, counted(21)), "delete": v.delete(1), "see": v.markSeen(3),
			"drop": v.drop(author), "end": v.build(FeedFacts{}),
		} {
			slices.Sort(result.Nodes)
			if !slices.Equal(result.Nodes, []string{"here", "there"}) {
				v.Errorf("%s tells %q, want here and there", name, result.Nodes)
			}
		}
		if result := v.markSeen(3); result.Nodes != nil {
			v.Errorf("nothing changed and %q are notified", result.Nodes)
		}
	})
}

func TestRoundTripsOfInboxes(t *testing.T) {
	eachView(t, func(v view) {
		v.build(FeedFacts{Entries: makeEntries(1, 9, counted)})
		adds, many := make([]InboxPost, 1200), make([]services.UserID, 1200)
		for i := range adds {
			adds[i], many[i] = InboxPost{services.UserID(i), counted(10)}, services.UserID(i)
		}
		var page InboxPage
		for _, test := range []struct {
			name string
			want int
			run  func(ctx context.Context) (int, error)
		}{
			{"a page", 1, func(ctx context.Context) (_ int, err error) {
				page, err = v.c.Inbox(ctx, reader, 5, 20)
				return len(page.Entries), err
			}},
			{"1,200 pushes", 3, func(ctx context.Context) (int, error) {
				results, err := v.c.AddToInboxes(ctx, 1<<62, adds)
				return len(results), err
			}},
			{"1,200 deletions", 3, func(ctx context.Context) (int, error) {
				results, err := v.c.DeleteFromInboxes(ctx, many, 10, author)
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
