package rdb

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tidings/services"
	"tidings/services/redis"
	"tidings/services/redis/redistest"
)

// readCached reads the reader's document through the memory. It must take the given number of round trips, and give what a whole
// read gives.
func (v view) readCached(what string, trips int) Document {
	v.Helper()
	ctx, counted := redis.WithRoundTrips(v.Context())
	documents, err := v.c.DocumentsCached(ctx, []services.UserID{reader})
	v.must(err)
	if counted.Count() != trips {
		v.Errorf("%s: %d round trips, want %d", what, counted.Count(), trips)
	}
	whole, err := v.c.Documents(v.Context(), []services.UserID{reader})
	v.must(err)
	if diff := cmp.Diff(whole[0], documents[0]); diff != "" {
		v.Errorf("%s: from memory (-whole +kept):\n%s", what, diff)
	}
	return documents[0]
}

// Each script of the feed that changes the content of a document gives it a new version, so that no reader gets an outdated kept
// document. Fields that change without a new version are read each time.
func TestKeptDocumentsFollowEveryWrite(t *testing.T) {
	eachView(t, func(v view) {
		for name, write := range v.everyWrite() {
			v.deleteKeys(DocumentKey(reader), inboxKey(reader))
			v.build(FeedFacts{Entries: makeEntries(1, 3, counted)})
			stamp := v.stamp()
			v.readCached(name+", the first read", 1+v.keptCount())
			v.readCached(name+", again", 1)
			if result := write(stamp); result.Status != redis.Applied {
				v.Errorf("%s: %+v", name, result)
			}
			v.readCached(name+", after the write", 2)
			v.readCached(name+", and again", 1)
		}
		v.must(v.c.MarkActive(v.Context(), []services.UserID{reader}, 20_123, time.Hour))
		if d := v.readCached("another day", 1); d.Day != 20_123 {
			v.Errorf("the day is %d", d.Day)
		}
	})
}

// keptCount is 1 if this node keeps an earlier document of the reader: once the document has changed, that costs a second
// round trip.
func (v view) keptCount() int {
	kept := v.c.memory.keptOf([]services.UserID{reader}, v.c.layout.Load())
	if kept[0].layout == nil {
		return 0
	}
	return 1
}

// A kept document is not used any more after SetDots has changed the layout, after ForgetDocument, or if Redis' document is not whole.
func TestKeptDocumentsEndWithWhatTheyWereReadBy(t *testing.T) {
	eachView(t, func(v view) {
		v.build(FeedFacts{Entries: makeEntries(1, 3, counted)})
		v.readCached("the first read", 1)
		v.c.SetDots([]string{"shop"})
		v.readCached("with a dot", 1)
		v.c.SetDots([]string{"shop"})
		if v.keptCount() == 0 {
			v.Error("the same dots made documents unknown")
		}
		v.set(dotField("shop"), "5;7")
		v.set("n", "9999999999999999")
		if d := v.readCached("a dot that was dismissed", 2); d.DotsSeen["shop"] != 7 {
			v.Errorf("%+v", d.DotsSeen)
		}
		v.c.ForgetDocument(reader)
		if v.keptCount() != 0 {
			v.Error("a document that was forgotten is kept")
		}
		v.readCached("after that", 1)
		for what, lost := range map[string]func(){
			"being built":      func() { v.set("st", "0") },
			"of another epoch": func() { v.set("st", "1"); v.set("e", "x") },
			"a broken day":     func() { v.set("e", v.c.Epoch()); v.set("d", "today") },
			"gone":             func() { v.deleteKeys(DocumentKey(reader)) },
		} {
			v.deleteKeys(DocumentKey(reader), inboxKey(reader))
			v.build(FeedFacts{Entries: makeEntries(1, 3, counted)})
			v.readCached("built", 1+v.keptCount())
			lost()
			documents, err := v.c.DocumentsCached(v.Context(), []services.UserID{reader})
			v.must(err)
			if documents[0].Ready {
				v.Errorf("a document %s is ready", what)
			}
		}
	})
}

// A long document is read whole each time.
func TestLongDocumentsAreNotKept(t *testing.T) {
	eachView(t, func(v view) {
		for many, keeps := range map[int]bool{maxKeptBytes/12 - 50: true, maxKeptBytes/12 + 1: false} {
			var authors []services.FollowedAuthor
			for i := range many {
				authors = append(authors, services.FollowedAuthor{Author: services.UserID(1000 + i), Since: 1})
			}
			v.deleteKeys(DocumentKey(reader), inboxKey(reader))
			v.c.ForgetDocument(reader)
			v.build(FeedFacts{Entries: makeEntries(1, 3, counted), Pulled: authors})
			if d := v.readCached("the first read", 1); len(d.Pulled) != many {
				v.Errorf("%d authors of %d", len(d.Pulled), many)
			}
			if kept := v.keptCount() == 1; kept != keeps {
				v.Errorf("with %d authors: kept %v", many, kept)
			}
			v.readCached("again", 1)
		}
	})
}

// A document that was lost may be born again with the version that it had, after the clock was set back. It must not be taken
// for the kept one.
func TestADocumentThatIsBornAgainIsReadAgain(t *testing.T) {
	eachView(t, func(v view) {
		v.build(FeedFacts{Entries: makeEntries(1, 3, counted)})
		v.readCached("the first read", 1)
		version := v.field("n")
		v.deleteKeys(DocumentKey(reader), inboxKey(reader))
		v.build(FeedFacts{Entries: makeEntries(1, 5, counted)})
		v.set("n", version)
		if d := v.readCached("born again", 2); d.FeedCount != 5 {
			v.Errorf("%d posts count", d.FeedCount)
		}
	})
}

// A document says which posts are too old to count, and on which day the next message will be (fields fx and Cx). Both may change
// without a new version, if the count stays the same. A document that is kept in memory must still have the present values.
func TestKeptDocumentsAge(t *testing.T) {
	redistest.Each(t, func(t *testing.T, url string) {
		expiry := services.SourceExpiry{services.SourceHomeFeed: 2, services.SourceConversations: 2}
		v := view{t, connect(t, redis.Options{URL: url, ReadTimeout: patience}, Shape{Expiry: expiry})}
		v.build(FeedFacts{Entries: makeEntries(10, 13, counted)})
		state := services.Membership{Conversation: 1, User: reader, Head: 3, AgedOn: 100, LeavesOn: 102}
		_, _, err := v.c.PutMemberships(v.Context(), []services.Membership{state})
		v.must(err)
		if d := v.readCached("the first read", 1); d.Conversations.LeavesOn != 102 || d.FeedAged != 0 {
			v.Errorf("%d, %v", d.Conversations.LeavesOn, d.FeedAged)
		}
		_, err = v.c.AgeFeeds(v.Context(), []services.UserID{reader}, 5)
		v.must(err)
		if d := v.readCached("after a day without posts", 1); d.FeedAged != 5 {
			v.Errorf("posts up to %v are too old", d.FeedAged)
		}
		v.must(v.c.Commands().HSet(v.Context(), DocumentKey(reader), leavesOnField, 90).Err())
		v.must(v.c.FindNextAged(v.Context(), []services.UserID{reader}))
		if d := v.readCached("after the next message to leave was looked up", 1); d.Conversations.LeavesOn != 102 {
			v.Errorf("the next message leaves on %d", d.Conversations.LeavesOn)
		}
	})
}

// For a kept document Redis is asked for a few fields only.
func TestKeptDocumentsAreNotReadWhole(t *testing.T) {
	v := view{t, connect(t, redis.Options{URL: redistest.NewServer(t).URL(), ReadTimeout: patience})}
	v.build(FeedFacts{Entries: makeEntries(1, 3, counted)})
	v.readCached("the first read", 1)
	v.must(v.c.Commands().Do(v.Context(), "ACL", "SETUSER", "default", "-hgetall").Err())
	documents, err := v.c.DocumentsCached(v.Context(), []services.UserID{reader})
	if err != nil || !documents[0].Ready || documents[0].FeedCount != 3 {
		t.Errorf("%+v, %v", documents, err)
	}
	if _, err := v.c.DocumentsCached(v.Context(), []services.UserID{reader, reader + 1}); err == nil {
		t.Error("a document that is not kept was read without HGETALL")
	}
}
