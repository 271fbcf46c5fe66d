package rdb

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/redis"
	"tidings/services/redis/redistest"
)

// sortedByAuthor returns a copy of a list, sorted by author.
func sortedByAuthor(list []services.FollowedAuthor) []services.FollowedAuthor {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b services.FollowedAuthor) int { return cmp.Compare(a.Author, b.Author) })
	return list
}

// addPulledAuthor writes an author whose posts are pulled into the reader's document.
func (v feedTest) addPulledAuthor(stamp redis.ClockStamp, author services.FollowedAuthor) redis.Result {
	v.Helper()
	results, err := v.projections.MergeAuthors(v.Context(), PulledAuthorsField, stamp, []AuthorAddition{{reader, author}})
	v.must(err)
	return results[0]
}

// wantPulled checks a script's result, and the authors that the reader's feed pulls after it.
func (v feedTest) wantPulled(what string, result redis.Result, status redis.ResultStatus, pulled ...services.FollowedAuthor) {
	v.Helper()
	if result.Status != status || (result.Version > 0) != (status == redis.Applied) {
		v.Errorf("%s: %+v, want the status %d", what, result, status)
	}
	document := v.readDocument()
	page, err := v.projections.Inbox(v.Context(), reader, services.MaxPostID, 10)
	v.must(err)
	if !slices.Equal(sortedByAuthor(document.PulledAuthors), pulled) || !slices.Equal(sortedByAuthor(page.PulledAuthors), pulled) {
		v.Errorf("%s: the document pulls %v, the page %v, want %v", what, document.PulledAuthors, page.PulledAuthors, pulled)
	}
}

func TestDocumentsListThePulledAuthors(t *testing.T) {
	// The second entry's time contains the bytes of the first author's ID, so that a search for them also matches at a wrong
	// offset.
	follow, second := services.FollowedAuthor{Author: author, ItemsCountAfter: 3}, services.FollowedAuthor{Author: otherUser, ItemsCountAfter: services.SortableID(author)<<32 | services.SortableID(author)}
	eachRedis(t, func(v feedTest) {
		first := follow
		if result := v.addPulledAuthor(1, first); result.Status != redis.Missing {
			v.Errorf("into nothing: %+v", result)
		}
		stamp := v.beginRebuild(false)
		v.buildFromFacts(FeedFacts{Stamp: stamp, Entries: makeEntries(1, 3, countedEntry), PulledAuthors: []services.FollowedAuthor{second}})
		v.wantPulled("born with one", v.addEntry(v.takeStamp(), countedEntry(4)), redis.Applied, second)
		v.wantPulled("another", v.addPulledAuthor(v.takeStamp(), first), redis.Applied, first, second)
		v.wantPulled("again", v.addPulledAuthor(v.takeStamp(), first), redis.Unchanged, first, second)
		first.ItemsCountAfter = 9
		v.wantPulled("followed anew", v.addPulledAuthor(v.takeStamp(), first), redis.Applied, first, second)
		read := v.takeStamp()
		v.wantPulled("a drop", v.dropAuthor(author), redis.Applied, second)
		v.wantPulled("read before the drop", v.addPulledAuthor(read, first), redis.Retry, second)
		// If the document names a pulled author, nodes may count posts that were never pushed: so every drop raises the version.
		v.wantPulled("dropped again", v.dropAuthor(author), redis.Applied, second)
		v.wantFeed("their posts went too", v.markSeen(1), redis.Applied, "0")
		result, err := v.projections.MergeIntoInbox(v.Context(), InboxMerge{Reader: reader, Stamp: v.takeStamp(), RefuseEarlierReads: true, PulledAuthors: []services.FollowedAuthor{first}})
		v.must(err)
		v.wantPulled("a follow", result, redis.Applied, first, second)
		v.wantPulled("read before the follow", v.addPulledAuthor(read, services.FollowedAuthor{Author: author}), redis.Retry, first, second)
		v.wantPulled("the other goes", v.dropAuthor(otherUser), redis.Applied, first)
		v.wantPulled("a rebuild takes nobody out", v.buildFromFacts(FeedFacts{PulledAuthors: []services.FollowedAuthor{second}}), redis.Applied, first, second)
	})
}

// A document that has lost its pulled authors counts as missing, and its next reader rebuilds it.
func TestLostPulledAuthorsAreRebuilt(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		pulled := services.FollowedAuthor{Author: author, ItemsCountAfter: 3}
		for what, lose := range map[string]func(){
			"lost":   func() { v.must(v.projections.Client.Commands().HDel(v.Context(), DocumentKey(reader), "F").Err()) },
			"broken": func() { v.writeField("F", "12345678901") },
		} {
			v.buildFromFacts(FeedFacts{Entries: makeEntries(1, 3, countedEntry), PulledAuthors: []services.FollowedAuthor{pulled}})
			lose()
			if d := v.readDocument(); d.Ready {
				v.Errorf("%s: the document is %+v", what, d)
			}
			if page, err := v.projections.Inbox(v.Context(), reader, 9, 9); err != nil || page.Ready {
				v.Errorf("%s: the page is %+v, %v", what, page, err)
			}
			if what == "lost" {
				if result := v.addPulledAuthor(v.takeStamp(), pulled); result.Status != redis.Missing {
					v.Errorf("%s: a script takes it for whole: %+v", what, result)
				}
			}
			v.wantPulled(what+", rebuilt", v.buildFromFacts(FeedFacts{PulledAuthors: []services.FollowedAuthor{pulled}}), redis.Applied, pulled)
		}
	})
}

// A document with many huge authors still fits a listpack, and a user who follows none needs no memory for them.
func TestMemoryOfADocumentWithPulledAuthors(t *testing.T) {
	server := redistest.NewServer(t)
	v := feedTest{t, openProjections(t, redis.Options{URL: server.URL()})}
	usage := func() int64 { return server.Do("MEMORY", "USAGE", DocumentKey(reader), "SAMPLES", 0).(int64) }
	v.buildFromFacts(FeedFacts{Entries: makeEntries(1, 3, countedEntry)})
	idle := usage()
	var pulled []services.FollowedAuthor
	for i := range 100 {
		pulled = append(pulled, services.FollowedAuthor{Author: services.UserID(1000 + i), ItemsCountAfter: services.SortableIDAt(time.Now())})
	}
	v.buildFromFacts(FeedFacts{PulledAuthors: pulled})
	if with := usage(); idle > 300 || with > 5*(idle+100*packedAuthorSize)/4 { // the allocator's steps are up to a quarter
		t.Errorf("an idle document takes %d bytes, with 100 authors %d", idle, with)
	}
	if encoding := fmt.Sprint(server.Do("OBJECT", "ENCODING", DocumentKey(reader))); encoding != "listpack" && encoding != "ziplist" {
		t.Errorf("the document is a %s", encoding)
	}
	t.Logf("idle %d bytes, with 100 authors %d", idle, usage())
}

// A page says how many entries are above it, and has the floor and the seen position.
func TestInboxPagesReportAboveFloorAndSeen(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		v.buildFromFacts(FeedFacts{Entries: makeEntries(11, 40, countedEntry), NewestTrimmed: 10, NewestTrimmedCounted: 9, SeenUpTo: 20})
		for _, want := range []struct {
			before services.PostID
			above  int
		}{{services.MaxPostID, 0}, {41, 0}, {40, 1}, {21, 20}, {11, 30}, {1, 30}} {
			page, err := v.projections.Inbox(v.Context(), reader, want.before, 5)
			if err != nil || page.EntriesAbove != want.above || page.NewestTrimmed != 10 || page.SeenUpTo != 20 {
				v.Errorf("before %d: %d above, floor %d, seen %d, %v; want %d, 10 and 20", want.before, page.EntriesAbove, page.NewestTrimmed, page.SeenUpTo, err, want.above)
			}
		}
	})
}
