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

func TestADocumentIsNotReadyUntilItsRebuildEnds(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		before, err := v.projections.Client.Now(v.Context())
		v.must(err)
		stamp := v.beginRebuild(false)
		if v.readDocument().Ready || v.readField("st") != "0" || v.readField("rm") == "" || fmt.Sprint(stamp) <= v.readField("rm") {
			v.Errorf("born with st %q, rm %q, stamp %d", v.readField("st"), v.readField("rm"), stamp)
		}
		v.wantFeed("a read from before the birth", v.addEntry(before, countedEntry(1)), redis.Retry, "0")
		if result := v.addEntry(stamp, countedEntry(2)); result.Status != redis.Applied || v.readDocument().Ready {
			v.Errorf("a post pushed meanwhile: %+v, ready %v", result, v.readDocument().Ready)
		}
		if versions, err := v.projections.DocumentVersions(v.Context(), []services.UserID{reader}); err != nil || versions[0] != 0 {
			v.Errorf("a building document has the version %v, %v", versions, err)
		}
		v.wantFeed("the end", v.buildFromFacts(FeedFacts{Stamp: stamp, Entries: []services.FeedEntry{uncountedEntry(1), countedEntry(3)}}), redis.Applied, "2", uncountedEntry(1), countedEntry(2), countedEntry(3))
		again := v.beginRebuild(false)
		if d := v.readDocument(); !d.Ready || d.FeedCount != 2 || again <= stamp {
			v.Errorf("begun again although all is there: %+v, stamp %d after %d", d, again, stamp)
		}
		v.dropAuthor(otherUser)
		v.wantFeed("ended after a removal", v.buildFromFacts(FeedFacts{Stamp: again, Entries: makeEntries(4, 9, countedEntry)}), redis.Retry, "2", uncountedEntry(1), countedEntry(2), countedEntry(3))
		v.deleteKeys(DocumentKey(reader))
		v.wantFeed("the document lost", v.buildFromFacts(FeedFacts{Stamp: 1 << 62, Entries: makeEntries(4, 9, countedEntry)}), redis.Missing, "")
		v.wantFeed("and the inbox not trusted", v.buildFromFacts(FeedFacts{Entries: makeEntries(8, 9, countedEntry)}), redis.Applied, "2", makeEntries(8, 9, countedEntry)...)
	})
}

func TestARebuildRepairsEveryBrokenField(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		facts := FeedFacts{SeenUpTo: 2, Entries: makeEntries(1, 9, countedEntry)}
		v.buildFromFacts(facts)
		good := v.readDocument()
		fields, err := v.projections.Client.Commands().HKeys(v.Context(), DocumentKey(reader)).Result()
		v.must(err)
		for _, field := range fields {
			for _, value := range []string{"", "?", "-1", "OOOOOOOOOOOOO", "none"} {
				if (field == "R" || field == "F" || field == "L") && value == "" {
					continue // these are lists, and an empty list is valid
				}
				if value == "none" {
					v.must(v.projections.Client.Commands().HDel(v.Context(), DocumentKey(reader), field).Err())
				} else {
					v.writeField(field, value)
				}
				unread := slices.Contains([]string{"rm", "fq", "ft", "Ck"}, field) // only scripts read these
				if d := v.readDocument(); d.Ready && !unread {
					v.Errorf("%s = %q: the document is %+v, want not ready", field, value, d)
				}
				result := v.buildFromFacts(facts)
				d := v.readDocument()
				if d.Version != result.Version || result.Version <= good.Version && field != "n" {
					v.Errorf("%s = %q: version %d after %d, answered %d", field, value, d.Version, good.Version, result.Version)
				}
				if d.Conversations.Version == 0 {
					v.Errorf("%s = %q: the list of conversations has no version", field, value)
				}
				// A rebuild raises Version, and gives a list that was lost another version.
				good.Version, good.Conversations.Version = d.Version, d.Conversations.Version
				if fmt.Sprint(d) != fmt.Sprint(good) {
					v.Errorf("%s = %q was rebuilt to %+v, want %+v", field, value, d, good)
				}
				if result := v.addEntry(v.takeStamp(), countedEntry(9)); result.Status != redis.Unchanged {
					v.Errorf("%s = %q: a push after the rebuild: %+v", field, value, result)
				}
			}
		}
	})
}

// A rebuild makes the inbox whole even if another program wrote to the rebuild's own key or changed the order of the inbox.
func TestARebuildIgnoresWhatOthersWrote(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		for what, damage := range map[string]func() error{
			"a text": func() error {
				return v.projections.Client.Commands().Set(v.Context(), mergeKey(reader), "text", 0).Err()
			},
			"a stray": func() error {
				return v.projections.Client.Commands().SAdd(v.Context(), mergeKey(reader), entryText(countedEntry(9))).Err()
			},
			"another order": func() error {
				return v.projections.Client.Commands().ZAdd(v.Context(), inboxKey(reader), redis.Z{Score: 5, Member: entryText(countedEntry(1))}, redis.Z{Score: 1, Member: entryText(uncountedEntry(2))}).Err()
			},
		} {
			v.deleteKeys(inboxKey(reader), DocumentKey(reader))
			v.buildFromFacts(FeedFacts{Entries: []services.FeedEntry{countedEntry(1), uncountedEntry(2)}})
			v.must(damage())
			v.wantFeed(what, v.buildFromFacts(FeedFacts{Entries: makeEntries(2, 4, countedEntry)}), redis.Applied, "4", makeEntries(1, 4, countedEntry)...)
			if left, err := v.projections.Client.Commands().Exists(v.Context(), mergeKey(reader)).Result(); err != nil || left != 0 {
				v.Errorf("%s: the entries were gathered and are still there: %v", what, err)
			}
		}
	})
}

func TestPostsBelowTheFloorOfARebuildAreNotListed(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		v.wantFeed("more below, unseen", v.buildFromFacts(FeedFacts{Entries: makeEntries(11, 40, countedEntry), NewestTrimmed: 10, NewestTrimmedCounted: 9}), redis.Applied, "30+", makeEntries(11, 40, countedEntry)...)
		stamp := v.takeStamp()
		v.wantFeed("a listed post below the floor", v.addEntry(stamp, uncountedEntry(10)), redis.Unchanged, "30+", makeEntries(11, 40, countedEntry)...)
		// The list stays as it is. The version rises nevertheless (Applied), because a node may have counted the trimmed posts in SQL.
		v.wantFeed("a counting one below the trimmed", v.addEntry(stamp, countedEntry(9)), redis.Applied, "30+", makeEntries(11, 40, countedEntry)...)
		v.wantFeed("merged below the floor", v.mergeEntries(stamp, false, countedEntry(8), uncountedEntry(7)), redis.Applied, "30+", makeEntries(11, 40, countedEntry)...)
		v.wantFeed("seen up to the trimmed", v.markSeen(9), redis.Applied, "30", makeEntries(11, 40, countedEntry)...)
		v.wantFeed("a late one below the floor", v.addEntry(stamp, countedEntry(10)), redis.Applied, "30+", makeEntries(11, 40, countedEntry)...)
		v.wantFeed("the same again", v.addEntry(stamp, countedEntry(10)), redis.Applied, "30+", makeEntries(11, 40, countedEntry)...)
		v.wantFeed("a higher floor", v.buildFromFacts(FeedFacts{NewestTrimmed: 20}), redis.Applied, "20+", makeEntries(21, 40, countedEntry)...)
		v.wantFeed("a lower floor", v.buildFromFacts(FeedFacts{NewestTrimmed: 5, Entries: makeEntries(6, 30, countedEntry)}), redis.Applied, "20+", makeEntries(21, 40, countedEntry)...)
		page, err := v.projections.Inbox(v.Context(), reader, services.MaxPostID, 50)
		if v.must(err); !page.OlderPostsCut {
			v.Error("posts lie below the floor, and nothing is cut")
		}
		// A refill removes the floor of the inbox, so that older posts come in. While it runs, no reader sees the inbox.
		stamp = v.beginRebuild(true)
		if page, err = v.projections.Inbox(v.Context(), reader, services.MaxPostID, 50); err != nil || page.Ready || v.readDocument().Ready {
			v.Errorf("a feed that is being refilled is shown: %+v, %v", page, err)
		}
		v.wantFeed("a refill", v.buildFromFacts(FeedFacts{Stamp: stamp, Entries: makeEntries(1, 40, countedEntry)}), redis.Applied, "31", makeEntries(1, 40, countedEntry)...)
		if page, err = v.projections.Inbox(v.Context(), reader, services.MaxPostID, 50); err != nil || page.OlderPostsCut {
			v.Errorf("all is listed: cut %v, %v", page.OlderPostsCut, err)
		}
	})
}

// If a document's count may be a lower bound, a node counts in SQL instead, and may do so while a follow is absent for a moment. So
// the merge of a follow raises the version, even if the inbox has all its posts already. A merge of a single post does not.
func TestMergingAFollowRaisesTheVersionOfACountFromSQL(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		all := makeEntries(21, 40, countedEntry)
		for _, test := range []struct {
			what   string
			facts  FeedFacts
			status redis.ResultStatus
			count  string
		}{
			{"all posts in the inbox", FeedFacts{Entries: all}, redis.Unchanged, "20"},
			{"a post that counts below the floor", FeedFacts{Entries: all, NewestTrimmed: 20, NewestTrimmedCounted: 19}, redis.Applied, "20+"},
			{"a pulled author", FeedFacts{Entries: all, PulledAuthors: []services.FollowedAuthor{{Author: 10, ItemsCountAfter: 3}}}, redis.Applied, "20"},
		} {
			v.deleteKeys(DocumentKey(reader), inboxKey(reader))
			v.buildFromFacts(test.facts)
			v.wantFeed("one post, with "+test.what, v.mergeEntries(v.takeStamp(), false, countedEntry(40)), redis.Unchanged, test.count, slices.Clone(all)...)
			v.wantFeed("an edge, with "+test.what, v.mergeEntries(v.takeStamp(), true, countedEntry(39), countedEntry(40)), test.status, test.count, slices.Clone(all)...)
		}
	})
}

// If a document's count may be a lower bound, a node counts in SQL instead, and may include a post that was not pushed. So the removal
// of such a post raises the version, unless the post was seen.
func TestRemovingAnAbsentPostRaisesTheVersionOfACountFromSQL(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		all := makeEntries(21, 40, countedEntry)
		pulled := FeedFacts{Entries: all, PulledAuthors: []services.FollowedAuthor{{Author: 10, ItemsCountAfter: 3}}}
		for _, test := range []struct {
			what   string
			facts  FeedFacts
			drop   bool
			status redis.ResultStatus
			count  string
		}{
			{"all posts in the inbox", FeedFacts{Entries: all}, false, redis.Unchanged, "20"},
			{"a post that counts below the floor", FeedFacts{Entries: all, NewestTrimmed: 20, NewestTrimmedCounted: 19}, false, redis.Applied, "20+"},
			{"a pulled author", pulled, false, redis.Applied, "20"},
			{"all posts in the inbox", FeedFacts{Entries: all}, true, redis.Unchanged, "20"},
			{"a pulled author", pulled, true, redis.Applied, "20"},
		} {
			v.deleteKeys(DocumentKey(reader), inboxKey(reader))
			v.buildFromFacts(test.facts)
			if test.drop {
				v.wantFeed("a drop with "+test.what, v.dropAuthor(otherUser), test.status, test.count, slices.Clone(all)...)
				continue
			}
			v.wantFeed("a deletion with "+test.what, v.deletePost(41), test.status, test.count, slices.Clone(all)...)
			v.markSeen(30)
			v.wantFeed("of a seen post, with "+test.what, v.deletePost(10), redis.Unchanged, "10", slices.Clone(all)...)
		}
	})
}

func TestMergingBelowTheFloorMarksTheCountAsALowerBound(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		v.wantFeed("a floor", v.buildFromFacts(FeedFacts{Entries: makeEntries(11, 20, uncountedEntry), NewestTrimmed: 10}), redis.Applied, "0", makeEntries(11, 20, uncountedEntry)...)
		v.wantFeed("a post that counts, below it", v.mergeEntries(v.takeStamp(), false, countedEntry(9)), redis.Applied, "0+", makeEntries(11, 20, uncountedEntry)...)
	})
}

func TestAFeedIsTrimmedInSlices(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		v.buildFromFacts(FeedFacts{Entries: makeEntries(1, 332, countedEntry)})
		page, err := v.projections.Inbox(v.Context(), reader, services.MaxPostID, 400)
		if v.must(err); len(page.Entries) != services.FeedRetention || !page.OlderPostsCut || v.readField("fc") != "300+" {
			v.Errorf("332 posts: %d listed, cut %v, count %s", len(page.Entries), page.OlderPostsCut, v.readField("fc"))
		}
		if kept, err := v.projections.AuthorPostsInInbox(v.Context(), reader, author); err != nil || len(kept) != 332 {
			v.Errorf("332 posts: %d kept, %v", len(kept), err)
		}
		v.addEntry(v.takeStamp(), countedEntry(333))
		kept, err := v.projections.AuthorPostsInInbox(v.Context(), reader, author)
		if v.must(err); len(kept) != 316 || kept[0] != 18 || kept[315] != 333 || v.readField("ft") != services.PostID(17).String() {
			v.Errorf("333 posts: %d kept from %d on, ft %s: want 316 from 18 on, ft 17", len(kept), kept[0], v.readField("ft"))
		}
		if kept, err = v.projections.AuthorPostsInInbox(v.Context(), reader, otherUser); err != nil || kept != nil {
			v.Errorf("of somebody else: %v, %v", kept, err)
		}
	})
}

func TestAShortInboxAsksForARefill(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		foreign := func(id services.PostID) services.FeedEntry {
			return services.FeedEntry{Post: id, Author: otherUser, CountsAsNew: true}
		}
		v.buildFromFacts(FeedFacts{Entries: append(makeEntries(11, 13, countedEntry), makeEntries(14, 312, foreign)...), NewestTrimmed: 10})
		if result := v.deletePost(11); result.RefillDue {
			v.Errorf("301 of 302 are left: %+v", result)
		}
		v.deletePost(12)
		if result := v.deletePost(13); result.Status != redis.Applied || !result.RefillDue {
			v.Errorf("299 are left and more lie below: %+v, want short", result)
		}
		if again := v.deletePost(13); again.Status != redis.Unchanged || !again.RefillDue {
			v.Errorf("the same again, without a refill: %+v, want short", again)
		}
		if again := v.dropAuthor(author); again.Status != redis.Unchanged || !again.RefillDue {
			v.Errorf("of an author without posts, without a refill: %+v, want short", again)
		}
		if result := v.buildFromFacts(FeedFacts{Stamp: v.beginRebuild(true), Entries: makeEntries(14, 312, foreign)}); result.RefillDue {
			v.Errorf("299 are all there are: %+v", result)
		}
		if again := v.deletePost(13); again.Status != redis.Unchanged || again.RefillDue {
			v.Errorf("the same again, after the refill: %+v", again)
		}
		// All posts of the author were trimmed unseen: only SQL can tell how many counting posts are left.
		facts := FeedFacts{Entries: makeEntries(13, 312, foreign), NewestTrimmed: 12, NewestTrimmedCounted: 12}
		v.buildFromFacts(facts)
		if result := v.dropAuthor(author); result.Status != redis.Applied || !result.RefillDue {
			v.Errorf("after dropping an author whose entries may have been trimmed: %+v, want short", result)
		}
		v.markSeen(12)
		if result := v.dropAuthor(author); result.Status != redis.Unchanged {
			v.Errorf("dropped, and what was trimmed was seen: %+v, want nothing", result)
		}
	})
}

func TestInboxPagesAreContiguous(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		v.buildFromFacts(FeedFacts{Entries: makeEntries(1, 310, countedEntry)})
		for _, limit := range []int{1, 7, 100, 299, 300, 301} {
			var all []services.FeedEntry
			before, cut := services.MaxPostID, false
			for {
				page, err := v.projections.Inbox(v.Context(), reader, before, limit)
				v.must(err)
				cut = page.OlderPostsCut
				if len(page.Entries) == 0 {
					break
				}
				all = append(all, page.Entries...)
				before = page.Entries[len(page.Entries)-1].Post
			}
			slices.Reverse(all)
			if !slices.Equal(all, makeEntries(11, 310, countedEntry)) || !cut {
				v.Errorf("in pages of %d: %d entries, cut %v", limit, len(all), cut)
			}
		}
		for _, empty := range []services.PostID{0, 1, 11} {
			if page, err := v.projections.Inbox(v.Context(), reader, empty, 5); err != nil || len(page.Entries) != 0 || !page.Ready {
				v.Errorf("before %d: %+v, %v", empty, page, err)
			}
		}
	})
}

func TestActivityExtendsTheKeysLifetime(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		v.buildFromFacts(FeedFacts{Entries: makeEntries(1, 3, countedEntry)})
		n := v.readField("n")
		v.must(v.projections.MarkActive(v.Context(), []services.UserID{reader, otherUser}, 20_009, 48*time.Hour))
		for _, key := range inboxScriptKeys(reader)[:2] {
			if left, err := v.projections.Client.Commands().TTL(v.Context(), key).Result(); err != nil || left < 45*time.Hour || left > 48*time.Hour {
				v.Errorf("%s lives for %s, %v: want up to 48h", key, left, err)
			}
		}
		if d := v.readDocument(); d.LastActiveDay != 20_009 || v.readField("n") != n {
			v.Errorf("the document is %+v, version %s after %s", d, v.readField("n"), n)
		}
	})
}

func TestMemoryOfAFullInboxAndAnIdleDocument(t *testing.T) {
	server := redistest.NewServer(t)
	v := feedTest{t, openProjections(t, redis.Options{URL: server.URL()})}
	usage := func(key string) int64 { return server.Do("MEMORY", "USAGE", key, "SAMPLES", 0).(int64) }
	// The sizes are realistic: IDs of 2026, the greatest author IDs, the longest count.
	first := services.PostID(services.SortableIDAt(time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)))
	const most = services.FeedRetention + 32 // posts that an inbox can hold
	entries := makeEntries(first, first+most-1, countedEntry)
	for i := range entries {
		entries[i].Author = ^services.UserID(0) - services.UserID(i)
	}
	v.buildFromFacts(FeedFacts{Entries: entries, SeenUpTo: first - 1, NewestTrimmed: first - 1, NewestTrimmedCounted: first - 1})
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
	v := feedTest{t, openProjections(t, redis.Options{URL: server.URL()})}
	v.buildFromFacts(FeedFacts{})
	now := uint64(time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC).UnixMicro())
	results, err := v.projections.PutVersionedFields(v.Context(), []VersionedFields{{User: reader, Fields: []VersionedField{
		AnnouncementVersionedField(services.AnnouncementState{Version: 12, Position: now, DotsDismissedUpTo: now}),
	}}})
	v.must(err)
	v.putStates(services.Membership{Conversation: 100_000, User: reader, NewestMessageNumber: 5000, ReadUpTo: 3, Version: 3, Mentions: 20},
		services.Membership{Conversation: 100_001, User: reader, NewestMessageNumber: 5000, ReadUpTo: 3, Version: 3, Mentions: 20})
	size := int64(0)
	for _, key := range []string{DocumentKey(reader), conversationsKey(reader)} {
		size += server.Do("MEMORY", "USAGE", key, "SAMPLES", 0).(int64)
	}
	if results[0].Status != redis.Applied || size > 400 {
		t.Errorf("an idle user in two conversations takes %d bytes, want at most 400", size)
	}
	t.Logf("an idle user in two conversations: %d bytes", size)
}
