package rdb

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/redis"
	"tidings/services/redis/redistest"
)

func TestARebuildBeginsWithWhatIsMissing(t *testing.T) {
	eachView(t, func(v view) {
		before, err := v.c.Now(v.Context())
		v.must(err)
		stamp := v.begin(false)
		if v.document().Ready || v.field("st") != "0" || v.field("rm") == "" || fmt.Sprint(stamp) <= v.field("rm") {
			v.Errorf("born with st %q, rm %q, stamp %d", v.field("st"), v.field("rm"), stamp)
		}
		v.want("a read from before the birth", v.add(before, counted(1)), redis.Retry, "0")
		if result := v.add(stamp, counted(2)); result.Status != redis.Applied || v.document().Ready {
			v.Errorf("a post pushed meanwhile: %+v, ready %v", result, v.document().Ready)
		}
		if versions, err := v.c.Versions(v.Context(), []services.UserID{reader}); err != nil || versions[0] != 0 {
			v.Errorf("a building document has the version %v, %v", versions, err)
		}
		v.want("the end", v.build(FeedFacts{Stamp: stamp, Entries: []services.FeedEntry{listed(1), counted(3)}}), redis.Applied, "2", listed(1), counted(2), counted(3))
		again := v.begin(false)
		if d := v.document(); !d.Ready || d.FeedCount != 2 || again <= stamp {
			v.Errorf("begun again although all is there: %+v, stamp %d after %d", d, again, stamp)
		}
		v.drop(other)
		v.want("ended after a removal", v.build(FeedFacts{Stamp: again, Entries: makeEntries(4, 9, counted)}), redis.Retry, "2", listed(1), counted(2), counted(3))
		v.deleteKeys(DocumentKey(reader))
		v.want("the document lost", v.build(FeedFacts{Stamp: 1 << 62, Entries: makeEntries(4, 9, counted)}), redis.Missing, "")
		v.want("and the inbox not trusted", v.build(FeedFacts{Entries: makeEntries(8, 9, counted)}), redis.Applied, "2", makeEntries(8, 9, counted)...)
	})
}

func TestARebuildRepairsEveryBrokenField(t *testing.T) {
	eachView(t, func(v view) {
		facts := FeedFacts{Seen: 2, Entries: makeEntries(1, 9, counted)}
		v.build(facts)
		good := v.document()
		fields, err := v.c.Commands().HKeys(v.Context(), DocumentKey(reader)).Result()
		v.must(err)
		for _, field := range fields {
			for _, value := range []string{"", "?", "-1", "OOOOOOOOOOOOO", "none"} {
				if (field == "R" || field == "F" || field == "L") && value == "" {
					continue // equally valid
				}
				if value == "none" {
					v.must(v.c.Commands().HDel(v.Context(), DocumentKey(reader), field).Err())
				} else {
					v.set(field, value)
				}
				unread := slices.Contains([]string{"rm", "fq", "ft", "Ck"}, field) // only scripts read these
				if d := v.document(); d.Ready && !unread {
					v.Errorf("%s = %q: the document is %+v, want not ready", field, value, d)
				}
				result := v.build(facts)
				d := v.document()
				if d.N != result.N || result.N <= good.N && field != "n" {
					v.Errorf("%s = %q: version %d after %d, answered %d", field, value, d.N, good.N, result.N)
				}
				if d.Conversations.Version == 0 {
					v.Errorf("%s = %q: the list of conversations has no version", field, value)
				}
				good.N, good.Conversations.Version = d.N, d.Conversations.Version // a rebuild raises N, and gives a list that was lost another version
				if fmt.Sprint(d) != fmt.Sprint(good) {
					v.Errorf("%s = %q was rebuilt to %+v, want %+v", field, value, d, good)
				}
				if result := v.add(v.stamp(), counted(9)); result.Status != redis.Same {
					v.Errorf("%s = %q: a push after the rebuild: %+v", field, value, result)
				}
			}
		}
	})
}

// A rebuild makes the inbox whole even if another program wrote to the rebuild's own key or changed the order of the inbox.
func TestARebuildIgnoresWhatOthersWrote(t *testing.T) {
	eachView(t, func(v view) {
		for what, spoil := range map[string]func() error{
			"a text":  func() error { return v.c.Commands().Set(v.Context(), mergeKey(reader), "text", 0).Err() },
			"a stray": func() error { return v.c.Commands().SAdd(v.Context(), mergeKey(reader), entryText(counted(9))).Err() },
			"another order": func() error {
				return v.c.Commands().ZAdd(v.Context(), inboxKey(reader), redis.Z{Score: 5, Member: entryText(counted(1))}, redis.Z{Score: 1, Member: entryText(listed(2))}).Err()
			},
		} {
			v.deleteKeys(inboxKey(reader), DocumentKey(reader))
			v.build(FeedFacts{Entries: []services.FeedEntry{counted(1), listed(2)}})
			v.must(spoil())
			v.want(what, v.build(FeedFacts{Entries: makeEntries(2, 4, counted)}), redis.Applied, "4", makeEntries(1, 4, counted)...)
			if left, err := v.c.Commands().Exists(v.Context(), mergeKey(reader)).Result(); err != nil || left != 0 {
				v.Errorf("%s: the entries were gathered and are still there: %v", what, err)
			}
		}
	})
}

func TestPostsBelowTheFloorOfARebuildAreNotListed(t *testing.T) {
	eachView(t, func(v view) {
		v.want("more below, unseen", v.build(FeedFacts{Entries: makeEntries(11, 40, counted), Floor: 10, TrimmedCounted: 9}), redis.Applied, "30+", makeEntries(11, 40, counted)...)
		stamp := v.stamp()
		v.want("a listed post below the floor", v.add(stamp, listed(10)), redis.Same, "30+", makeEntries(11, 40, counted)...)
		// The list stays as it is. The version rises nevertheless (Applied), because a node may have counted the trimmed posts in SQL.
		v.want("a counting one below the trimmed", v.add(stamp, counted(9)), redis.Applied, "30+", makeEntries(11, 40, counted)...)
		v.want("merged below the floor", v.merge(stamp, false, counted(8), listed(7)), redis.Applied, "30+", makeEntries(11, 40, counted)...)
		v.want("seen up to the trimmed", v.markSeen(9), redis.Applied, "30", makeEntries(11, 40, counted)...)
		v.want("a late one below the floor", v.add(stamp, counted(10)), redis.Applied, "30+", makeEntries(11, 40, counted)...)
		v.want("the same again", v.add(stamp, counted(10)), redis.Applied, "30+", makeEntries(11, 40, counted)...)
		v.want("a higher floor", v.build(FeedFacts{Floor: 20}), redis.Applied, "20+", makeEntries(21, 40, counted)...)
		v.want("a lower floor", v.build(FeedFacts{Floor: 5, Entries: makeEntries(6, 30, counted)}), redis.Applied, "20+", makeEntries(21, 40, counted)...)
		page, err := v.c.Inbox(v.Context(), reader, services.MaxPostID, 50)
		if v.must(err); !page.Cut {
			v.Error("posts lie below the floor, and nothing is cut")
		}
		// A refill removes the floor of the inbox, so that older posts come in. While it runs, no reader sees the inbox.
		stamp = v.begin(true)
		if page, err = v.c.Inbox(v.Context(), reader, services.MaxPostID, 50); err != nil || page.Ready || v.document().Ready {
			v.Errorf("a feed that is being refilled is shown: %+v, %v", page, err)
		}
		v.want("a refill", v.build(FeedFacts{Stamp: stamp, Entries: makeEntries(1, 40, counted)}), redis.Applied, "31", makeEntries(1, 40, counted)...)
		if page, err = v.c.Inbox(v.Context(), reader, services.MaxPostID, 50); err != nil || page.Cut {
			v.Errorf("all is listed: cut %v, %v", page.Cut, err)
		}
	})
}

// If a document's count may be a lower bound, a node counts in SQL instead, and may do so while a follow is absent for a moment. So the
// merge of a follow raises the version, even if the inbox has all its posts already. A merge of a single post does not.
func TestMergingAFollowRaisesTheVersionOfACountFromSQL(t *testing.T) {
	eachView(t, func(v view) {
		all := makeEntries(21, 40, counted)
		for _, test := range []struct {
			what   string
			facts  FeedFacts
			status redis.Status
			count  string
		}{
			{"all posts in the inbox", FeedFacts{Entries: all}, redis.Same, "20"},
			{"a post that counts below the floor", FeedFacts{Entries: all, Floor: 20, TrimmedCounted: 19}, redis.Applied, "20+"},
			{"a pulled author", FeedFacts{Entries: all, Pulled: []services.FollowedAuthor{{Author: 10, Since: 3}}}, redis.Applied, "20"},
		} {
			v.deleteKeys(DocumentKey(reader), inboxKey(reader))
			v.build(test.facts)
			v.want("one post, with "+test.what, v.merge(v.stamp(), false, counted(40)), redis.Same, test.count, slices.Clone(all)...)
			v.want("an edge, with "+test.what, v.merge(v.stamp(), true, counted(39), counted(40)), test.status, test.count, slices.Clone(all)...)
		}
	})
}

// If a document's count may be a lower bound, a node counts in SQL instead, and may include a post that was not pushed. So the removal
// of such a post raises the version, unless the post was seen.
func TestRemovingAnAbsentPostRaisesTheVersionOfACountFromSQL(t *testing.T) {
	eachView(t, func(v view) {
		all := makeEntries(21, 40, counted)
		pulled := FeedFacts{Entries: all, Pulled: []services.FollowedAuthor{{Author: 10, Since: 3}}}
		for _, test := range []struct {
			what   string
			facts  FeedFacts
			drop   bool
			status redis.Status
			count  string
		}{
			{"all posts in the inbox", FeedFacts{Entries: all}, false, redis.Same, "20"},
			{"a post that counts below the floor", FeedFacts{Entries: all, Floor: 20, TrimmedCounted: 19}, false, redis.Applied, "20+"},
			{"a pulled author", pulled, false, redis.Applied, "20"},
			{"all posts in the inbox", FeedFacts{Entries: all}, true, redis.Same, "20"},
			{"a pulled author", pulled, true, redis.Applied, "20"},
		} {
			v.deleteKeys(DocumentKey(reader), inboxKey(reader))
			v.build(test.facts)
			if test.drop {
				v.want("a drop with "+test.what, v.drop(other), test.status, test.count, slices.Clone(all)...)
				continue
			}
			v.want("a deletion with "+test.what, v.delete(41), test.status, test.count, slices.Clone(all)...)
			v.markSeen(30)
			v.want("of a seen post, with "+test.what, v.delete(10), redis.Same, "10", slices.Clone(all)...)
		}
	})
}

func TestMergingBelowTheFloorMarksTheCountAsALowerBound(t *testing.T) {
	eachView(t, func(v view) {
		v.want("a floor", v.build(FeedFacts{Entries: makeEntries(11, 20, listed), Floor: 10}), redis.Applied, "0", makeEntries(11, 20, listed)...)
		v.want("a post that counts, below it", v.merge(v.stamp(), false, counted(9)), redis.Applied, "0+", makeEntries(11, 20, listed)...)
	})
}

func TestAFeedIsTrimmedInSlices(t *testing.T) {
	eachView(t, func(v view) {
		v.build(FeedFacts{Entries: makeEntries(1, 332, counted)})
		page, err := v.c.Inbox(v.Context(), reader, services.MaxPostID, 400)
		if v.must(err); len(page.Entries) != services.Retention || !page.Cut || v.field("fc") != "300+" {
			v.Errorf("332 posts: %d listed, cut %v, count %s", len(page.Entries), page.Cut, v.field("fc"))
		}
		if kept, err := v.c.AuthorPostsInInbox(v.Context(), reader, author); err != nil || len(kept) != 332 {
			v.Errorf("332 posts: %d kept, %v", len(kept), err)
		}
		v.add(v.stamp(), counted(333))
		kept, err := v.c.AuthorPostsInInbox(v.Context(), reader, author)
		if v.must(err); len(kept) != 316 || kept[0] != 18 || kept[315] != 333 || v.field("ft") != services.PostID(17).String() {
			v.Errorf("333 posts: %d kept from %d on, ft %s: want 316 from 18 on, ft 17", len(kept), kept[0], v.field("ft"))
		}
		if kept, err = v.c.AuthorPostsInInbox(v.Context(), reader, other); err != nil || kept != nil {
			v.Errorf("of somebody else: %v, %v", kept, err)
		}
	})
}

func TestAShortInboxAsksForARefill(t *testing.T) {
	eachView(t, func(v view) {
		foreign := func(id services.PostID) services.FeedEntry {
			return services.FeedEntry{Post: id, Author: other, Counts: true}
		}
		v.build(FeedFacts{Entries: append(makeEntries(11, 13, counted), makeEntries(14, 312, foreign)...), Floor: 10})
		if result := v.delete(11); result.Short {
			v.Errorf("301 of 302 are left: %+v", result)
		}
		v.delete(12)
		if result := v.delete(13); result.Status != redis.Applied || !result.Short {
			v.Errorf("299 are left and more lie below: %+v, want short", result)
		}
		if again := v.delete(13); again.Status != redis.Same || !again.Short {
			v.Errorf("the same again, without a refill: %+v, want short", again)
		}
		if again := v.drop(author); again.Status != redis.Same || !again.Short {
			v.Errorf("of an author without posts, without a refill: %+v, want short", again)
		}
		if result := v.build(FeedFacts{Stamp: v.begin(true), Entries: makeEntries(14, 312, foreign)}); result.Short {
			v.Errorf("299 are all there are: %+v", result)
		}
		if again := v.delete(13); again.Status != redis.Same || again.Short {
			v.Errorf("the same again, after the refill: %+v", again)
		}
		// All posts of the author were trimmed unseen: only SQL can tell how many counting posts are left.
		facts := FeedFacts{Entries: makeEntries(13, 312, foreign), Floor: 12, TrimmedCounted: 12}
		v.build(facts)
		if result := v.drop(author); result.Status != redis.Applied || !result.Short {
			v.Errorf("after dropping an author whose entries may have been trimmed: %+v, want short", result)
		}
		v.markSeen(12)
		if result := v.drop(author); result.Status != redis.Same {
			v.Errorf("dropped, and what was trimmed was seen: %+v, want nothing", result)
		}
	})
}

func TestPagesAreContiguous(t *testing.T) {
	eachView(t, func(v view) {
		v.build(FeedFacts{Entries: makeEntries(1, 310, counted)})
		for _, limit := range []int{1, 7, 100, 299, 300, 301} {
			var all []services.FeedEntry
			before, cut := services.MaxPostID, false
			for {
				page, err := v.c.Inbox(v.Context(), reader, before, limit)
				v.must(err)
				cut = page.Cut
				if len(page.Entries) == 0 {
					break
				}
				all = append(all, page.Entries...)
				before = page.Entries[len(page.Entries)-1].Post
			}
			slices.Reverse(all)
			if !slices.Equal(all, makeEntries(11, 310, counted)) || !cut {
				v.Errorf("in pages of %d: %d entries, cut %v", limit, len(all), cut)
			}
		}
		for _, empty := range []services.PostID{0, 1, 11} {
			if page, err := v.c.Inbox(v.Context(), reader, empty, 5); err != nil || len(page.Entries) != 0 || !page.Ready {
				v.Errorf("before %d: %+v, %v", empty, page, err)
			}
		}
	})
}

func TestActivityExtendsTheKeysLifetime(t *testing.T) {
	eachView(t, func(v view) {
		v.build(FeedFacts{Entries: makeEntries(1, 3, counted)})
		n := v.field("n")
		v.must(v.c.MarkActive(v.Context(), []services.UserID{reader, other}, 20_009, 48*time.Hour))
		for _, key := range inboxKeys(reader)[:2] {
			if left, err := v.c.Commands().TTL(v.Context(), key).Result(); err != nil || left < 45*time.Hour || left > 48*time.Hour {
				v.Errorf("%s lives for %s, %v: want up to 48h", key, left, err)
			}
		}
		if d := v.document(); d.Day != 20_009 || v.field("n") != n {
			v.Errorf("the document is %+v, version %s after %s", d, v.field("n"), n)
		}
	})
}

func TestMemoryOfAFullInboxAndAnIdleDocument(t *testing.T) {
	server := redistest.NewServer(t)
	v := view{t, connect(t, redis.Options{URL: server.URL()})}
	usage := func(key string) int64 { return server.Do("MEMORY", "USAGE", key, "SAMPLES", 0).(int64) }
	// The sizes are realistic: IDs of 2026, the greatest author IDs, the longest count.
	first := services.PostIDAt(time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC))
	const most = services.Retention + 32 // posts that an inbox can hold
	entries := makeEntries(first, first+most-1, counted)
	for i := range entries {
		entries[i].Author = ^services.UserID(0) - services.UserID(i)
	}
	v.build(FeedFacts{Entries: entries, Seen: first - 1, Floor: first - 1, TrimmedCounted: first - 1})
	if n := server.Do("ZCARD", inboxKey(reader)).(int64); n != most+1 {
		t.Fatalf("the inbox has %d members, want %d", n, most+1)
	}
	inbox, document := usage(inboxKey(reader)), usage(DocumentKey(reader))
	if inbox > 12<<10 || document > 400 {
		t.Errorf("a full inbox takes %d bytes, an idle document %d: want at most 12,288 and 400", inbox, document)
	}
	t.Logf("a full inbox %d bytes, an idle document %d", inbox, document)
	for _, key := range []string{inboxKey(reader), DocumentKey(reader)} {
		if encoding := fmt.Sprint(server.Do("OBJECT", "ENCODING", key)); !strings.Contains("listpack ziplist", encoding) {
			t.Errorf("%s is a %s, want it compact", key, encoding)
		}
	}
}

// The user is in two conversations, with unread messages and mentions in both, and has read an announcement.
func TestMemoryOfAnIdleUserInTwoConversations(t *testing.T) {
	server := redistest.NewServer(t)
	v := view{t, connect(t, redis.Options{URL: server.URL()})}
	v.build(FeedFacts{})
	now := uint64(time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC).UnixMicro())
	results, err := v.c.PutRegisters(v.Context(), []Registers{{User: reader, Fields: []Register{
		AnnouncementRegister(services.AnnouncementState{Version: 12, Position: now, DotsFrom: now}),
	}}})
	v.must(err)
	v.putStates(services.Membership{Conversation: 100_000, User: reader, Head: 5000, Base: 3, Version: 3, Mentions: 20},
		services.Membership{Conversation: 100_001, User: reader, Head: 5000, Base: 3, Version: 3, Mentions: 20})
	size := int64(0)
	for _, key := range []string{DocumentKey(reader), conversationsKey(reader)} {
		size += server.Do("MEMORY", "USAGE", key, "SAMPLES", 0).(int64)
	}
	if results[0].Status != redis.Applied || size > 400 {
		t.Errorf("an idle user in two conversations takes %d bytes, want at most 400", size)
	}
	t.Logf("an idle user in two conversations: %d bytes", size)
}
