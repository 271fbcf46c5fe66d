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

// pulledAuthors are authors for tests. Among their numbers are one with a zero byte and the greatest ones.
var pulledAuthors = []services.FollowedAuthor{{Author: 300, Since: 7}, {Author: math.MaxUint32, Since: services.MaxPostID}, {Author: 5}}

// goodValues are Redis' answers for a valid document.
func goodValues() []any {
	values := []any{"1", "1234567890", "1700000000000001", "20000", "0000000000004", "299+", packNamed(pulledAuthors...), packNamed(pulledAuthors[1:]...), "7", "2", "\x00\x00\x00\x09\x01\x00\x00\x00", "1700000000000000",
		"3;17;1700000000000000", "4;18446744073709551615", "5;3;16;1320;420;-90", "6;", "7;140;1", "3;DLIKE,OOF_THE_HOST"}
	for range services.Categories {
		values = append(values, "12;3;19999;1,2,3,4,5,6,7,8", "12;0000000000009")
	}
	return append(values, "8;21")
}

// standard is the layout of projections that were opened without a Shape.
var standard = newLayout([]string{services.DefaultMessageType}, nil, nil, nil)

func TestADocumentIsReadWhole(t *testing.T) {
	d := standard.parse(goodValues(), "1234567890")
	want := Document{Ready: true, N: 1_700_000_000_000_001, Day: 20_000, Seen: 4, FeedCount: 299, FeedMore: true, Pulled: pulledAuthors, Hosts: pulledAuthors[1:]}
	want.Modes = services.CategoryModes{Version: 3, Of: map[services.Category]services.CategoryMode{"LIKE": services.CategoryDot, "OF_THE_HOST": services.CategoryOff}}
	want.LiveSeen, want.Views = 6, services.ViewsState{Version: 7, Unread: 140, More: true}
	if len(d.Notifications) != len(services.Categories) {
		t.Fatalf("%+v has not every category", d)
	}
	for i, counts := range d.Notifications {
		if counts != (services.CategoryCounts{Category: services.Categories[i], Version: 12, Newest: 9, Older: 3, Day: 19_999, Days: [8]int{1, 2, 3, 4, 5, 6, 7, 8}}) {
			t.Errorf("category %d: %+v", i, counts)
		}
	}
	want.Conversations = services.ConversationSums{Unread: 7, Mentions: 2, ReadSide: []services.ReadSidePlace{{Conversation: 9, Base: 1 << 24}}, Version: 1_700_000_000_000_000}
	want.Announcements = services.AnnouncementState{Version: 3, Position: 17, DotsFrom: 1_700_000_000_000_000}
	want.Segments = services.SegmentState{Version: 4, Bits: math.MaxUint64}
	want.Policy = services.DisplayPolicy{Version: 5, Turned: map[services.Source]bool{services.SourceHomeFeed: true, services.SourceNotifications: true},
		AsDot: map[services.Source]bool{services.SourceConversations: true}, QuietFrom: 1320, QuietTo: 420, OffsetEast: -90}
	want.Messages = []services.MessageTypeState{{Type: services.DefaultMessageType, Version: 8, Unread: 21}}
	want.Notifications = d.Notifications
	if difference := cmp.Diff(want, d); difference != "" {
		t.Error(difference)
	}
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
			return isText && len(text)%namedAuthorSize == 0
		case "R":
			return isText && len(text)%8 == 0
		case announcementField:
			return value == "1;2;3"
		case viewsField, categoryModesField:
			return value == nil
		}
		return false
	}
	for i, field := range standard.fields {
		for _, value := range broken {
			if right(field, value) {
				continue
			}
			values := goodValues()
			values[i] = value
			if d := standard.parse(values, "1234567890"); d.Ready || d.N != 0 || d.Notifications != nil {
				t.Errorf("%s = %#v is read as %+v, want nothing", field, value, d)
			}
		}
	}
	for n := range len(standard.fields) {
		if d := standard.parse(goodValues()[:n], "1234567890"); d.Ready {
			t.Errorf("%d of %d fields are read as %+v", n, len(standard.fields), d)
		}
	}
	values := goodValues()
	values[0] = "0"
	if d := standard.parse(values, "1234567890"); d.Ready || d.FeedCount != 0 {
		t.Errorf("a document that is being built is read as %+v", d)
	}
}

// someCounts draws random counts of a category.
func someCounts(t *rapid.T) services.CategoryCounts {
	number := rapid.OneOf(rapid.IntRange(0, 20), rapid.IntRange(0, math.MaxInt))
	counts := services.CategoryCounts{
		Version: rapid.Uint64Max(math.MaxInt64).Draw(t, "version"), Older: number.Draw(t, "older"), Day: int64(number.Draw(t, "day")),
	}
	for i := range counts.Days {
		counts.Days[i] = number.Draw(t, "count")
	}
	return counts
}

func TestCountsAreReadAsTheyWereWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		counts := someCounts(t)
		if got, err := parseCounts(countsText(counts)); err != nil || got != counts {
			t.Fatalf("%+v is %q and read as %+v, %v", counts, countsText(counts), got, err)
		}
	})
	if text := countsText(services.CategoryCounts{Version: 7, Older: 1, Day: 20_000, Days: [8]int{8, 7, 6, 5, 4, 3, 2, 1}}); text != "7;1;20000;8,7,6,5,4,3,2,1" {
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
		least := min(counts.Older, slices.Min(counts.Days[:]))
		again, err := parseCounts(countsText(counts))
		if least < 0 || counts.Day < 0 || err != nil || again != counts {
			t.Errorf("%q is read as %+v, and that as %+v, %v", text, counts, again, err)
		}
	})
}

func TestEveryValueOfADocumentStaysShort(t *testing.T) {
	// By Redis' default setting, one value above 64 bytes makes a document several times as large. A user would need 10,000 new groups
	// of notifications in one day for that.
	counts := services.CategoryCounts{Category: services.CategoryLike, Version: 9_999_999_999, Newest: services.MaxPostID, Older: 99_999, Day: 99_999,
		Days: [8]int{9999, 9999, 9999, 9999, 9999, 9999, 9999, 9999}}
	eachView(t, func(v view) {
		v.build(FeedFacts{Entries: makeEntries(services.MaxPostID-400, services.MaxPostID, counted), Floor: services.MaxPostID - 401, TrimmedCounted: services.MaxPostID - 401})
		v.set("n", uint64(9_007_199_254_740_990))
		v.set("rm", uint64(9_007_199_254_740_990))
		v.must(v.c.MarkActive(v.Context(), []services.UserID{reader}, 9_999_999, time.Hour))
		results, err := v.c.PutNotifications(v.Context(), []NotificationCounts{{reader, []services.CategoryCounts{counts}}})
		v.must(err)
		if result := v.add(1<<62, listed(services.MaxPostID-1)); result.Status != redis.Retry || results[0].N != 9_007_199_254_740_991 {
			v.Errorf("%+v, %+v", result, results)
		}
		fields, err := v.c.Commands().HGetAll(v.Context(), DocumentKey(reader)).Result()
		v.must(err)
		if len(fields) != 16+len(services.Categories)+1+5 { // one category has notifications, and so a newest position
			v.Errorf("%d fields: %v", len(fields), fields)
		}
		for name, value := range fields {
			if len(value) > 64 || len(name) > 16 {
				v.Errorf("%s = %q has %d bytes, at most 64 are allowed", name, value, len(value))
			}
		}
		if d := v.document(); !d.Ready || d.Notifications[0] != counts || d.FeedCount != services.Retention || !d.FeedMore {
			v.Errorf("the document is %+v", d)
		}
	})
}

func TestDocumentsAreInTheOrderOfTheirUsers(t *testing.T) {
	eachView(t, func(v view) {
		const many = 500
		users := make([]services.UserID, many)
		for i := range users {
			users[i] = services.UserID(many - i)
		}
		built := users[:200]
		stamps, err := v.c.BeginRebuild(v.Context(), users[:250], RebuildMode{Visit: true})
		v.must(err)
		for i, user := range built {
			_, err := v.c.EndRebuild(v.Context(), FeedFacts{Reader: user, Stamp: stamps[i], Visit: true, Seen: services.PostID(user), Lifetime: time.Hour})
			v.must(err)
		}
		documents, err := v.c.Documents(v.Context(), users)
		v.must(err)
		versions, err := v.c.Versions(v.Context(), users)
		v.must(err)
		if len(documents) != many || len(versions) != many {
			v.Fatalf("%d documents, %d versions", len(documents), len(versions))
		}
		for i, d := range documents {
			if ready := i < len(built); d.Ready != ready || ready && d.Seen != services.PostID(users[i]) || d.N != versions[i] || ready != (versions[i] > 0) {
				v.Errorf("document %d is %+v, its version %d", i, d, versions[i])
			}
		}
		for _, i := range []int{0, 210, 499} {
			one, err := v.c.Documents(v.Context(), users[i:i+1])
			v.must(err)
			if one[0].Ready != documents[i].Ready || one[0].N != documents[i].N || one[0].Seen != documents[i].Seen {
				v.Errorf("alone %+v, among others %+v", one[0], documents[i])
			}
		}
		twice, err := v.c.Documents(v.Context(), []services.UserID{users[3], users[3]})
		if err != nil || len(twice) != 2 || twice[0].N != documents[3].N || twice[1].N != documents[3].N {
			v.Errorf("the same user twice: %+v, %v", twice, err)
		}
	})
}

func TestDocumentsAreOneRoundTrip(t *testing.T) {
	eachView(t, func(v view) {
		for _, number := range []int{0, 1, 2, 500} {
			users := make([]services.UserID, number)
			for i := range users {
				users[i] = services.UserID(i)
			}
			ctx, trips := redis.WithRoundTrips(v.Context())
			documents, err := v.c.Documents(ctx, users)
			if err != nil || len(documents) != number || trips.Count() != min(number, 1) {
				v.Errorf("%d documents: %d in %d round trips, %v", number, len(documents), trips.Count(), err)
			}
			ctx, trips = redis.WithRoundTrips(v.Context())
			versions, err := v.c.Versions(ctx, users)
			if err != nil || len(versions) != number || trips.Count() != min(number, 1) {
				v.Errorf("%d versions: %d in %d round trips, %v", number, len(versions), trips.Count(), err)
			}
		}
	})
}
