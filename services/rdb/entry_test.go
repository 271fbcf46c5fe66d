package rdb

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"tidings/services"
)

// zeroID is the text of the ID 0, which sorts before every post.
var zeroID = services.PostID(0).String()

// drawEntry draws a random entry.
func drawEntry(t *rapid.T) services.FeedEntry {
	return services.FeedEntry{
		Post:        services.PostID(rapid.Uint64Max(uint64(services.MaxPostID)).Draw(t, "post")),
		Author:      services.UserID(rapid.Uint32().Draw(t, "author")),
		CountsAsNew: rapid.Bool().Draw(t, "counts"),
	}
}

func TestEntriesAreReadAsTheyWereWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entry := drawEntry(t)
		text := entryText(entry)
		got, ok := parseEntry(text)
		if len(text) != entryLength || !ok || got != entry {
			t.Fatalf("%+v is %q and read as %+v, %v", entry, text, got, ok)
		}
		if !strings.HasPrefix(text, entryWithoutFlag(entry.Post, entry.Author)) {
			t.Fatalf("%q does not begin with its stem", text)
		}
	})
}

func TestEntriesSortAsTheirIDsDo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawEntry(t), drawEntry(t)
		if rapid.Bool().Draw(t, "neighbours") {
			b.Post = min(a.Post+1, services.MaxPostID)
		}
		if a.Post == b.Post {
			return
		}
		if (a.Post < b.Post) != (entryText(a) < entryText(b)) {
			t.Fatalf("%+v and %+v sort as %q and %q", a, b, entryText(a), entryText(b))
		}
		// The scripts rely on this: an ID followed by "~" sorts after the entries of that ID and before the entries of the next
		// ID, and the sentinel is first.
		lower, upper := min(a.Post, b.Post), max(a.Post, b.Post)
		border := lower.String() + "~"
		if entryText(services.FeedEntry{Post: lower, Author: math.MaxUint32}) >= border || entryText(services.FeedEntry{Post: upper}) <= border {
			t.Fatalf("%q does not part %d from %d", border, lower, upper)
		}
		if string(floorMark)+upper.String() >= entryText(services.FeedEntry{}) {
			t.Fatalf("the sentinel of %d is not before every entry", upper)
		}
	})
}

func TestEntryText(t *testing.T) {
	for _, test := range []struct {
		entry services.FeedEntry
		text  string
	}{
		{services.FeedEntry{}, "0000000000000!!!!!-"},
		{services.FeedEntry{Post: 1, Author: 85, CountsAsNew: true}, "0000000000001!!!\"!+"},
		{services.FeedEntry{Post: services.MaxPostID, Author: math.MaxUint32, CountsAsNew: true}, "7ZZZZZZZZZZZZs8W-!+"},
	} {
		if got := entryText(test.entry); got != test.text {
			t.Errorf("%+v is %q, want %q", test.entry, got, test.text)
		}
	}
}

func TestParseEntryRefusesMalformedText(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":              "",
		"the sentinel":         "!" + zeroID,
		"a short one":          "0000000000001!!!!!",
		"a long one":           "0000000000001!!!!!++",
		"another flag":         "0000000000001!!!!!*",
		"no flag":              "0000000000001!!!!! ",
		"a letter of no id":    "000000000000U!!!!!+",
		"a lower-case letter":  "000000000000a!!!!!+",
		"an id of 64 bits":     "8000000000000!!!!!+",
		"a letter of no user":  "0000000000001!!!!v+",
		"a space in the user":  "0000000000001!! !!+",
		"a user of 33 bits":    "0000000000001uuuuu+",
		"the first user above": "0000000000001s8W-\"+",
		"a letter of two":      "0000000000001!!!ä+",
	} {
		if entry, ok := parseEntry(text); ok {
			t.Errorf("%s: %q is read as %+v", name, text, entry)
		}
	}
}

func FuzzParseEntry(f *testing.F) {
	for _, seed := range []string{"", "!0000000000000", "0000000000001!!!!!+", "7ZZZZZZZZZZZZs8W-!-", "0000000000001uuuuu+"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		entry, ok := parseEntry(text)
		if ok && entryText(entry) != text {
			t.Errorf("%q is read as %+v, which is %q", text, entry, entryText(entry))
		}
	})
}

func TestAuthorLettersAreUnique(t *testing.T) {
	ids := []services.UserID{0, 1, 84, 85, 86, 7224, 7225, 614_124, 614_125, 52_200_624, 52_200_625, math.MaxUint32 - 1, math.MaxUint32}
	var letters []string
	for _, id := range ids {
		letters = append(letters, AuthorLetters(id))
	}
	if !slices.IsSorted(letters) || len(slices.Compact(letters)) != len(ids) {
		t.Errorf("%q: want them different and in order", letters)
	}
}
