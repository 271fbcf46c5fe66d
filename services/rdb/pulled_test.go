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

// sortPulled returns a copy of a list, sorted by author.
func sortPulled(list []services.FollowedAuthor) []services.FollowedAuthor {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b services.FollowedAuthor) int { return cmp.Compare(a.Author, b.Author) })
	return list
}

// addPulled names a pulled author in the reader's document.
func (v view) addPulled(stamp redis.Stamp, author services.FollowedAuthor) redis.Result {
	v.Helper()
	results, err := v.c.MergeNamed(v.Context(), PulledAuthors, stamp, []NamedAdd{{reader, author}})
	v.must(err)
	return results[0]
}

// wantPulled checks a script's result, and the authors that the reader's feed pulls after it.
func (v view) wantPulled(what string, result redis.Result, status redis.Status, pulled ...services.FollowedAuthor) {
	v.Helper()
	if result.Status != status || (result.N > 0) != (status == redis.Applied) {
		v.Errorf("%s: %+v, want the status %d", what, result, status)
	}
	document := v.document()
	page, err := v.c.Inbox(v.Context(), reader, services.MaxPostID, 10)
	v.must(err)
	if !slices.Equal(sortPulled(document.Pulled), pulled) || !slices.Equal(sortPulled(page.Pulled), pulled) {
		v.Errorf("%s: the document pulls %v, the page %v, want %v", what, document.Pulled, page.Pulled, pulled)
	}
}

func TestPulledAuthorsAreNamedInDocuments(t *testing.T) {
	// The second entry's time contains the bytes of the first author's ID, so that a search for them also matches at a wrong
	// offset.
	follow, second := services.FollowedAuthor{Author: author, Since: 3}, services.FollowedAuthor{Author: other, Since: services.PostID(author)<<32 | services.PostID(author)}
	eachView(t, func(v view) {
		first := follow
		if result := v.addPulled(1, first); result.Status != redis.Missing {
			v.Errorf("into nothing: %+v", result)
		}
		stamp := v.begin(false)
		v.build(FeedFacts{Stamp: stamp, Entries: makeEntries(1, 3, counted), Pulled: []services.FollowedAuthor{second}})
		v.wantPulled("born with one", v.add(v.stamp(), counted(4)), redis.Applied, second)
		v.wantPulled("another", v.addPulled(v.stamp(), first), redis.Applied, first, second)
		v.wantPulled("again", v.addPulled(v.stamp(), first), redis.Same, first, second)
		first.Since = 9
		v.wantPulled("followed anew", v.addPulled(v.stamp(), first), redis.Applied, first, second)
		read := v.stamp()
		v.wantPulled("a drop", v.drop(author), redis.Applied, second)
		v.wantPulled("read before the drop", v.addPulled(read, first), redis.Retry, second)
		// If the document names a pulled author, nodes may count posts that were never pushed: so every drop raises the version.
		v.wantPulled("dropped again", v.drop(author), redis.Applied, second)
		v.want("his posts went too", v.markSeen(1), redis.Applied, "0")
		result, err := v.c.MergeIntoInbox(v.Context(), Merge{Reader: reader, Stamp: v.stamp(), Fence: true, Pulled: []services.FollowedAuthor{first}})
		v.must(err)
		v.wantPulled("a follow", result, redis.Applied, first, second)
		v.wantPulled("read before the follow", v.addPulled(read, services.FollowedAuthor{Author: author}), redis.Retry, first, second)
		v.wantPulled("the other goes", v.drop(other), redis.Applied, first)
		v.wantPulled("a rebuild takes nobody out", v.build(FeedFacts{Pulled: []services.FollowedAuthor{second}}), redis.Applied, first, second)
	})
}

// A document that has lost its pulled authors counts as missing, and its next reader rebuilds it.
func TestLostPulledAuthorsAreRebuilt(t *testing.T) {
	eachView(t, func(v view) {
		pulled := services.FollowedAuthor{Author: author, Since: 3}
		for what, lose := range map[string]func(){
			"lost":   func() { v.must(v.c.Commands().HDel(v.Context(), DocumentKey(reader), "F").Err()) },
			"broken": func() { v.set("F", "12345678901") },
		} {
			v.build(FeedFacts{Entries: makeEntries(1, 3, counted), Pulled: []services.FollowedAuthor{pulled}})
			lose()
			if d := v.document(); d.Ready {
				v.Errorf("%s: the document is %+v", what, d)
			}
			if page, err := v.c.Inbox(v.Context(), reader, 9, 9); err != nil || page.Ready {
				v.Errorf("%s: the page is %+v, %v", what, page, err)
			}
			if what == "lost" {
				if result := v.addPulled(v.stamp(), pulled); result.Status != redis.Missing {
					v.Errorf("%s: a script takes it for whole: %+v", what, result)
				}
			}
			v.wantPulled(what+", rebuilt", v.build(FeedFacts{Pulled: []services.FollowedAuthor{pulled}}), redis.Applied, pulled)
		}
	})
}

// A document with many huge authors still fits a listpack, and a user who follows none needs no memory for them.
func TestMemoryOfADocumentWithPulledAuthors(t *testing.T) {
	server := redistest.NewServer(t)
	v := view{t, connect(t, redis.Options{URL: server.URL()})}
	usage := func() int64 { return server.Do("MEMORY", "USAGE", DocumentKey(reader), "SAMPLES", 0).(int64) }
	v.build(FeedFacts{Entries: makeEntries(1, 3, counted)})
	idle := usage()
	var pulled []services.FollowedAuthor
	for i := range 100 {
		pulled = append(pulled, services.FollowedAuthor{Author: services.UserID(1000 + i), Since: services.PostIDAt(time.Now())})
	}
	v.build(FeedFacts{Pulled: pulled})
	if with := usage(); idle > 300 || with > 5*(idle+100*namedAuthorSize)/4 { // the allocator's steps are up to a quarter
		t.Errorf("an idle document takes %d bytes, with 100 authors %d", idle, with)
	}
	if encoding := fmt.Sprint(server.Do("OBJECT", "ENCODING", DocumentKey(reader))); encoding != "listpack" && encoding != "ziplist" {
		t.Errorf("the document is a %s", encoding)
	}
	t.Logf("idle %d bytes, with 100 authors %d", idle, usage())
}

// A page says how many entries are above it, and has the floor and the seen position.
func TestInboxPagesReportAboveFloorAndSeen(t *testing.T) {
	eachView(t, func(v view) {
		v.build(FeedFacts{Entries: makeEntries(11, 40, counted), Floor: 10, TrimmedCounted: 9, Seen: 20})
		for _, want := range []struct {
			before services.PostID
			above  int
		}{{services.MaxPostID, 0}, {41, 0}, {40, 1}, {21, 20}, {11, 30}, {1, 30}} {
			page, err := v.c.Inbox(v.Context(), reader, want.before, 5)
			if err != nil || page.Above != want.above || page.Floor != 10 || page.Seen != 20 {
				v.Errorf("before %d: %d above, floor %d, seen %d, %v; want %d, 10 and 20", want.before, page.Above, page.Floor, page.Seen, err, want.above)
			}
		}
	})
}
