package rdb

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"tidings/services"
	"tidings/services/redis"
)

// pulledAuthors are authors for tests. Among their IDs are one with a zero byte and the greatest ones.
var pulledAuthors = []services.FollowedAuthor{{Author: 300, ItemsCountAfter: 7}, {Author: math.MaxUint32, ItemsCountAfter: services.MaxSortableID}, {Author: 5}}

// validDocumentValues are Redis' answers for a valid document: the values of defaultDocumentLayout's fields, in their order.
func validDocumentValues() []any {
	values := []any{"1", "1234567890", "1700000000000001", "20000", "0000000000004", "299+", packAuthors(pulledAuthors...), packAuthors(pulledAuthors[1:]...), "7", "2", "\x00\x00\x00\x09\x01\x00\x00\x00", "1700000000000000",
		"3;17;1700000000000000", "4;18446744073709551615", "5;3;16;1320;420;-90", "6;", "7;140;1", "3;DLIKE,OOF_THE_HOST"}
	for range fixedVersionedFields[len(values)-len(unversionedFields):] {
		values = append(values, nil) // a field that is newer than this test may be absent
	}
	for range services.Categories {
		values = append(values, "12;3;19999;1,2,3,4,5,6,7,8", "12;0000000000009")
	}
	return append(values, "8;21")
}

// defaultDocumentLayout is the layout of projections that were opened without a DocumentShape.
var defaultDocumentLayout = newLayout([]string{services.DefaultMessageType}, nil, nil, nil)

func TestADocumentIsReadWhole(t *testing.T) {
	d := defaultDocumentLayout.parse(validDocumentValues(), "1234567890")
	want := Document{Ready: true, Version: 1_700_000_000_000_001, LastActiveDay: 20_000, FeedSeenUpTo: 4, FeedCount: 299, FeedCountAtLeast: true, PulledAuthors: pulledAuthors, Hosts: pulledAuthors[1:]}
	want.Modes = services.CategoryModes{Version: 3, ByCategory: map[services.Category]services.CategoryMode{"LIKE": services.CategoryDot, "OF_THE_HOST": services.CategoryOff}}
	want.LiveSeenUpTo, want.Views = 6, services.ViewsState{Version: 7, Unread: 140, AtLeast: true}
	if len(d.Notifications) != len(services.Categories) {
		t.Fatalf("%+v has not every category", d)
	}
	for i, counts := range d.Notifications {
		if counts != (services.CategoryCounts{Category: services.Categories[i], Version: 12, Newest: 9, OlderUnseen: 3, NewestDay: 19_999, CountByDay: [8]int{1, 2, 3, 4, 5, 6, 7, 8}}) {
			t.Errorf("category %d: %+v", i, counts)
		}
	}
	want.Conversations = services.ConversationSums{Unread: 7, Mentions: 2, CountedOnRead: []services.CountedOnReadPosition{{Conversation: 9, ReadUpTo: 1 << 24}}, Version: 1_700_000_000_000_000}
	want.Announcements = services.AnnouncementState{Version: 3, Position: 17, DotsDismissedUpTo: 1_700_000_000_000_000}
	want.Segments = services.SegmentState{Version: 4, Bits: math.MaxUint64}
	want.Policy = services.DisplayPolicy{Version: 5, InTotalInverted: map[services.Source]bool{services.SourceHomeFeed: true, services.SourceNotifications: true},
		AsDot: map[services.Source]bool{services.SourceConversations: true}, QuietFromMinute: 1320, QuietToMinute: 420, UTCOffsetMinutes: -90}
	want.Messages = []services.MessageTypeState{{Type: services.DefaultMessageType, Version: 8, Unread: 21}}
	want.Notifications = d.Notifications
	if difference := cmp.Diff(want, d); difference != "" {
		t.Error(difference)
	}
}

// mayBeAbsent reports whether a fixed versioned field may be absent.
func mayBeAbsent(field string) bool {
	return slices.ContainsFunc(fixedVersionedFields, func(fixed fixedVersionedField) bool { return fixed.field == field && fixed.optional })
}

func TestABrokenFieldNeverReadsAsZero(t *testing.T) {
	broken := []any{nil, 1, "", " ", "-1", "+1", "1.5", "none", "1 ", "\x00", "18446744073709551615", "99999999999999999999",
		"000000000000", "00000000000000", "8000000000000", "1;2;3", "1;2;3;1,2,3,4,5,6,7", "1;2;3;1,2,3,4,5,6,7,8,9", "1;-2;3;1,2,3,4,5,6,7,8", "++", "3++"}
	right := func(field string, value any) bool { // a value that is wrong for other fields but valid for this one
		text, isText := value.(string)
		switch field {
		case "n", "d", "fc", "Cu", "Cm", "Cv":
			return slices.Contains([]any{"000000000000", "00000000000000", "8000000000000"}, value)
		case "F", "L":
			return isText && len(text)%packedAuthorSize == 0
		case "R":
			return isText && len(text)%8 == 0
		case announcementField:
			return value == "1;2;3"
		}
		return value == nil && mayBeAbsent(field)
	}
	for i, field := range defaultDocumentLayout.fields {
		for _, value := range broken {
			if right(field, value) {
				continue
			}
			values := validDocumentValues()
			values[i] = value
			if d := defaultDocumentLayout.parse(values, "1234567890"); d.Ready || d.Version != 0 || d.Notifications != nil {
				t.Errorf("%s = %#v is read as %+v, want nothing", field, value, d)
			}
		}
	}
	for n := range len(defaultDocumentLayout.fields) {
		if d := defaultDocumentLayout.parse(validDocumentValues()[:n], "1234567890"); d.Ready {
			t.Errorf("%d of %d fields are read as %+v", n, len(defaultDocumentLayout.fields), d)
		}
	}
	values := validDocumentValues()
	values[0] = "0"
	if d := defaultDocumentLayout.parse(values, "1234567890"); d.Ready || d.FeedCount != 0 {
		t.Errorf("a document that is being built is read as %+v", d)
	}
}

// drawCounts draws random counts of a category.
func drawCounts(t *rapid.T) services.CategoryCounts {
	number := rapid.OneOf(rapid.IntRange(0, 20), rapid.IntRange(0, math.MaxInt))
	counts := services.CategoryCounts{
		Version: rapid.Uint64Max(math.MaxInt64).Draw(t, "version"), OlderUnseen: number.Draw(t, "older"), NewestDay: int64(number.Draw(t, "day")),
	}
	for i := range counts.CountByDay {
		counts.CountByDay[i] = number.Draw(t, "count")
	}
	return counts
}

func TestCountsAreReadAsTheyWereWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		counts := drawCounts(t)
		if got, err := parseCounts(countsText(counts)); err != nil || got != counts {
			t.Fatalf("%+v is %q and read as %+v, %v", counts, countsText(counts), got, err)
		}
	})
	if text := countsText(services.CategoryCounts{Version: 7, OlderUnseen: 1, NewestDay: 20_000, CountByDay: [8]int{8, 7, 6, 5, 4, 3, 2, 1}}); text != "7;1;20000;8,7,6,5,4,3,2,1" {
		t.Errorf("counts are %q", text)
	}
}

func FuzzParseCounts(f *testing.F) {
	for _, seed := range []string{"", "0;0;0;0,0,0,0,0,0,0,0", "9223372036854775807;1;2;3,4,5,6,7,8,9,10", "1;2;3;4,5", ";;;,,,,,,,", "1;2;3;-4,5,6,7,8,9,10,11"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		counts, err := parseCounts(text)
		if err != nil {
			return
		}
		least := min(counts.OlderUnseen, slices.Min(counts.CountByDay[:]))
		again, err := parseCounts(countsText(counts))
		if least < 0 || counts.NewestDay < 0 || err != nil || again != counts {
			t.Errorf("%q is read as %+v, and that as %+v, %v", text, counts, again, err)
		}
	})
}

func TestEveryValueOfADocumentStaysShort(t *testing.T) {
	// By Redis' default setting, one value above 64 bytes makes a document several times as large. A user would need 10,000 new groups
	// of notifications in one day for that.
	counts := services.CategoryCounts{Category: services.CategoryLike, Version: 9_999_999_999, Newest: services.NotificationID(services.MaxSortableID), OlderUnseen: 99_999, NewestDay: 99_999,
		CountByDay: [8]int{9999, 9999, 9999, 9999, 9999, 9999, 9999, 9999}}
	eachRedis(t, func(v feedTest) {
		v.buildFromFacts(FeedFacts{Entries: makeEntries(services.MaxPostID-400, services.MaxPostID, countedEntry), NewestTrimmed: services.MaxPostID - 401, NewestTrimmedCounted: services.MaxPostID - 401})
		v.writeField("n", uint64(9_007_199_254_740_990))
		v.writeField("rm", uint64(9_007_199_254_740_990))
		v.must(v.projections.MarkActive(v.Context(), []services.UserID{reader}, 9_999_999, time.Hour))
		results, err := v.projections.PutNotifications(v.Context(), []NotificationCounts{{reader, []services.CategoryCounts{counts}}})
		v.must(err)
		if result := v.addEntry(1<<62, uncountedEntry(services.MaxPostID-1)); result.Status != redis.Retry || results[0].Version != 9_007_199_254_740_991 {
			v.Errorf("%+v, %+v", result, results)
		}
		fields, err := v.projections.Client.Commands().HGetAll(v.Context(), DocumentKey(reader)).Result()
		v.must(err)
		if len(fields) != 16+len(services.Categories)+1+5 { // one category has notifications, and so a newest position
			v.Errorf("%d fields: %v", len(fields), fields)
		}
		for name, value := range fields {
			if len(value) > 64 || len(name) > 16 {
				v.Errorf("%s = %q has %d bytes, at most 64 are allowed", name, value, len(value))
			}
		}
		if d := v.readDocument(); !d.Ready || d.Notifications[0] != counts || d.FeedCount != services.FeedRetention || !d.FeedCountAtLeast {
			v.Errorf("the document is %+v", d)
		}
	})
}

func TestDocumentsAreInTheOrderOfTheirUsers(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		const many = 500
		users := make([]services.UserID, many)
		for i := range users {
			users[i] = services.UserID(many - i)
		}
		built := users[:200]
		stamps, err := v.projections.BeginRebuild(v.Context(), users[:250], RebuildMode{IsVisit: true})
		v.must(err)
		for i, user := range built {
			_, err := v.projections.EndRebuild(v.Context(), FeedFacts{Reader: user, Stamp: stamps[i], IsVisit: true, SeenUpTo: services.PostID(user), KeyLifetime: time.Hour})
			v.must(err)
		}
		documents, err := v.projections.Documents(v.Context(), users)
		v.must(err)
		versions, err := v.projections.DocumentVersions(v.Context(), users)
		v.must(err)
		if len(documents) != many || len(versions) != many {
			v.Fatalf("%d documents, %d versions", len(documents), len(versions))
		}
		for i, d := range documents {
			if ready := i < len(built); d.Ready != ready || ready && d.FeedSeenUpTo != services.PostID(users[i]) || d.Version != versions[i] || ready != (versions[i] > 0) {
				v.Errorf("document %d is %+v, its version %d", i, d, versions[i])
			}
		}
		for _, i := range []int{0, 210, 499} {
			one, err := v.projections.Documents(v.Context(), users[i:i+1])
			v.must(err)
			if one[0].Ready != documents[i].Ready || one[0].Version != documents[i].Version || one[0].FeedSeenUpTo != documents[i].FeedSeenUpTo {
				v.Errorf("alone %+v, among others %+v", one[0], documents[i])
			}
		}
		twice, err := v.projections.Documents(v.Context(), []services.UserID{users[3], users[3]})
		if err != nil || len(twice) != 2 || twice[0].Version != documents[3].Version || twice[1].Version != documents[3].Version {
			v.Errorf("the same user twice: %+v, %v", twice, err)
		}
	})
}

func TestDocumentsAreOneRoundTrip(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		for _, number := range []int{0, 1, 2, 500} {
			users := make([]services.UserID, number)
			for i := range users {
				users[i] = services.UserID(i)
			}
			ctx, trips := redis.WithRoundTrips(v.Context())
			documents, err := v.projections.Documents(ctx, users)
			if err != nil || len(documents) != number || trips.Count() != min(number, 1) {
				v.Errorf("%d documents: %d in %d round trips, %v", number, len(documents), trips.Count(), err)
			}
			ctx, trips = redis.WithRoundTrips(v.Context())
			versions, err := v.projections.DocumentVersions(ctx, users)
			if err != nil || len(versions) != number || trips.Count() != min(number, 1) {
				v.Errorf("%d versions: %d in %d round trips, %v", number, len(versions), trips.Count(), err)
			}
		}
	})
}
