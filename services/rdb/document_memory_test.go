package rdb

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tidings/services"
	"tidings/services/redis"
	"tidings/services/redis/redistest"
)

// readDocumentCached reads the reader's document through the memory. It must take the given number of round trips, and give what a
// whole read gives.
func (v feedTest) readDocumentCached(what string, trips int) Document {
	v.Helper()
	ctx, counted := redis.WithRoundTrips(v.Context())
	documents, err := v.projections.DocumentsCached(ctx, []services.UserID{reader})
	v.must(err)
	if counted.Count() != trips {
		v.Errorf("%s: %d round trips, want %d", what, counted.Count(), trips)
	}
	whole, err := v.projections.Documents(v.Context(), []services.UserID{reader})
	v.must(err)
	if diff := cmp.Diff(whole[0], documents[0]); diff != "" {
		v.Errorf("%s: from memory (-whole +kept):\n%s", what, diff)
	}
	return documents[0]
}

// Each script of the feed that changes the content of a document gives it a new version, so that no reader gets an outdated kept
// document. Fields that change without a new version are read each time.
func TestEveryWriteInvalidatesKeptDocuments(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		for name, write := range v.feedWrites() {
			v.deleteKeys(DocumentKey(reader), inboxKey(reader))
			v.buildFromFacts(FeedFacts{Entries: makeEntries(1, 3, countedEntry)})
			stamp := v.takeStamp()
			v.readDocumentCached(name+", the first read", 1+v.cachedDocumentCount())
			v.readDocumentCached(name+", again", 1)
			if result := write(stamp); result.Status != redis.Applied {
				v.Errorf("%s: %+v", name, result)
			}
			v.readDocumentCached(name+", after the write", 2)
			v.readDocumentCached(name+", and again", 1)
		}
		v.must(v.projections.MarkActive(v.Context(), []services.UserID{reader}, 20_123, time.Hour))
		if d := v.readDocumentCached("another day", 1); d.LastActiveDay != 20_123 {
			v.Errorf("the day is %d", d.LastActiveDay)
		}
	})
}

// cachedDocumentCount is 1 if this node keeps an earlier document of the reader: once the document has changed, that costs a second
// round trip.
func (v feedTest) cachedDocumentCount() int {
	kept := v.projections.memory.keptDocumentsOf([]services.UserID{reader}, v.projections.layout.Load())
	if kept[0].layout == nil {
		return 0
	}
	return 1
}

// A kept document is not used any more after SetDots has changed the layout, after ForgetDocument, or if Redis' document is not whole.
func TestKeptDocumentsAreDroppedWhenTheyNoLongerApply(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		v.buildFromFacts(FeedFacts{Entries: makeEntries(1, 3, countedEntry)})
		v.readDocumentCached("the first read", 1)
		v.projections.SetDots([]string{"shop"})
		v.readDocumentCached("with a dot", 1)
		v.projections.SetDots([]string{"shop"})
		if v.cachedDocumentCount() == 0 {
			v.Error("the same dots made documents unknown")
		}
		v.writeField(dotField("shop"), "5;7")
		v.writeField("n", "9999999999999999")
		if d := v.readDocumentCached("a dot that was dismissed", 2); d.DismissedUpToByDot["shop"] != 7 {
			v.Errorf("%+v", d.DismissedUpToByDot)
		}
		v.projections.ForgetDocument(reader)
		if v.cachedDocumentCount() != 0 {
			v.Error("a document that was forgotten is kept")
		}
		v.readDocumentCached("after that", 1)
		for what, lost := range map[string]func(){
			"being built":      func() { v.writeField("st", "0") },
			"of another epoch": func() { v.writeField("st", "1"); v.writeField("e", "x") },
			"a broken day":     func() { v.writeField("e", v.projections.Client.Epoch()); v.writeField("d", "today") },
			"gone":             func() { v.deleteKeys(DocumentKey(reader)) },
		} {
			v.deleteKeys(DocumentKey(reader), inboxKey(reader))
			v.buildFromFacts(FeedFacts{Entries: makeEntries(1, 3, countedEntry)})
			v.readDocumentCached("built", 1+v.cachedDocumentCount())
			lost()
			documents, err := v.projections.DocumentsCached(v.Context(), []services.UserID{reader})
			v.must(err)
			if documents[0].Ready {
				v.Errorf("a document %s is ready", what)
			}
		}
	})
}

// A long document is read whole each time.
func TestLongDocumentsAreNotKept(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		for many, keeps := range map[int]bool{maxKeptDocumentBytes/12 - 50: true, maxKeptDocumentBytes/12 + 1: false} {
			var authors []services.FollowedAuthor
			for i := range many {
				authors = append(authors, services.FollowedAuthor{Author: services.UserID(1000 + i), ItemsCountAfter: 1})
			}
			v.deleteKeys(DocumentKey(reader), inboxKey(reader))
			v.projections.ForgetDocument(reader)
			v.buildFromFacts(FeedFacts{Entries: makeEntries(1, 3, countedEntry), PulledAuthors: authors})
			if d := v.readDocumentCached("the first read", 1); len(d.PulledAuthors) != many {
				v.Errorf("%d authors of %d", len(d.PulledAuthors), many)
			}
			if kept := v.cachedDocumentCount() == 1; kept != keeps {
				v.Errorf("with %d authors: kept %v", many, kept)
			}
			if bytes := v.projections.memory.keptBytes; keeps && bytes < keptDocumentOverheadBytes+12*many*bytesPerValueByte || !keeps && bytes != 0 {
				v.Errorf("with %d authors: %d bytes are kept", many, bytes)
			}
			v.readDocumentCached("again", 1)
		}
	})
}

// All kept documents together take at most maxKeptBytes. The documents that were used longest ago are dropped first.
func TestKeptDocumentsAreBoundedInBytes(t *testing.T) {
	m, layout := newDocumentMemory(), &documentLayout{}
	keep := func(user services.UserID, bytes int) { m.keep(user, keptDocument{layout: layout, memoryBytes: bytes}) }
	const long = maxKeptBytes / 4
	for user := range services.UserID(4) {
		keep(user+1, long)
	}
	keep(1, long) // again: it counts once
	if m.keptBytes != 4*long || m.users.Len() != 4 {
		t.Fatalf("%d documents of %d bytes are kept, want 4 of %d", m.users.Len(), m.keptBytes, 4*long)
	}
	keep(5, 1)
	for user, want := range map[services.UserID]bool{1: true, 2: false, 3: true, 4: true, 5: true} {
		if kept := m.keptDocumentsOf([]services.UserID{user}, layout)[0].layout != nil; kept != want {
			t.Errorf("the document of user %d is kept: %v, want %v", user, kept, want)
		}
	}
	m.forget(1)
	keep(3, 10) // smaller now
	if want := long + 11; m.keptBytes != want {
		t.Errorf("%d bytes are kept, want %d", m.keptBytes, want)
	}
	(&Projections{memory: m}).ForgetDocuments()
	if m.keptBytes != 0 {
		t.Errorf("%d bytes are kept of nothing", m.keptBytes)
	}
	for user := range services.UserID(maxKeptDocuments + 10) {
		keep(user+1, 1)
	}
	if m.keptBytes != maxKeptDocuments || m.users.Len() != maxKeptDocuments {
		t.Errorf("%d small documents of %d bytes are kept, want %d", m.users.Len(), m.keptBytes, maxKeptDocuments)
	}
}

// A document that was lost may be born again with the version that it had, after the clock was set back. It must not be taken
// for the kept one.
func TestARecreatedDocumentOfTheSameVersionIsReadAgain(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		v.buildFromFacts(FeedFacts{Entries: makeEntries(1, 3, countedEntry)})
		v.readDocumentCached("the first read", 1)
		version := v.readField("n")
		v.deleteKeys(DocumentKey(reader), inboxKey(reader))
		v.buildFromFacts(FeedFacts{Entries: makeEntries(1, 5, countedEntry)})
		v.writeField("n", version)
		if d := v.readDocumentCached("born again", 2); d.FeedCount != 5 {
			v.Errorf("%d posts count", d.FeedCount)
		}
	})
}

// A document says which posts are too old to count, and on which day the next message will be (fields fx and Cx). Both may change
// without a new version, if the count stays the same. A document that is kept in memory must still have the present values.
func TestKeptDocumentsHaveThePresentExpiryFields(t *testing.T) {
	redistest.EachRedis(t, func(t *testing.T, url string) {
		expiry := services.SourceExpiry{services.SourceHomeFeed: 2, services.SourceConversations: 2}
		v := feedTest{t, openProjections(t, redis.Options{URL: url, ReadTimeout: longReadTimeout}, DocumentShape{Expiry: expiry})}
		v.buildFromFacts(FeedFacts{Entries: makeEntries(10, 13, countedEntry)})
		state := services.Membership{Conversation: 1, User: reader, NewestMessageNumber: 3, ExpiredAsOfDay: 100, NextExpiryDay: 102}
		_, _, err := v.projections.PutMemberships(v.Context(), []services.Membership{state})
		v.must(err)
		if d := v.readDocumentCached("the first read", 1); d.Conversations.NextExpiryDay != 102 || d.FeedExpiredUpTo != 0 {
			v.Errorf("%d, %v", d.Conversations.NextExpiryDay, d.FeedExpiredUpTo)
		}
		_, err = v.projections.ExpireFeedPosts(v.Context(), []services.UserID{reader}, 5)
		v.must(err)
		if d := v.readDocumentCached("after a day without posts", 1); d.FeedExpiredUpTo != 5 {
			v.Errorf("posts up to %v are too old", d.FeedExpiredUpTo)
		}
		v.must(v.projections.Client.Commands().HSet(v.Context(), DocumentKey(reader), nextExpiryDayField, 90).Err())
		v.must(v.projections.UpdateNextMessageExpiry(v.Context(), []services.UserID{reader}))
		if d := v.readDocumentCached("after the next message to leave was looked up", 1); d.Conversations.NextExpiryDay != 102 {
			v.Errorf("the next message leaves on %d", d.Conversations.NextExpiryDay)
		}
	})
}

// For a kept document Redis is asked for a few fields only.
func TestKeptDocumentsAreCheckedByAFewFields(t *testing.T) {
	v := feedTest{t, openProjections(t, redis.Options{URL: redistest.NewServer(t).URL(), ReadTimeout: longReadTimeout})}
	v.buildFromFacts(FeedFacts{Entries: makeEntries(1, 3, countedEntry)})
	v.readDocumentCached("the first read", 1)
	v.must(v.projections.Client.Commands().Do(v.Context(), "ACL", "SETUSER", "default", "-hgetall").Err())
	documents, err := v.projections.DocumentsCached(v.Context(), []services.UserID{reader})
	if err != nil || !documents[0].Ready || documents[0].FeedCount != 3 {
		t.Errorf("%+v, %v", documents, err)
	}
	if _, err := v.projections.DocumentsCached(v.Context(), []services.UserID{reader, reader + 1}); err == nil {
		t.Error("a document that is not kept was read without HGETALL")
	}
}
