package resolvers

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidings/services"
	"tidings/services/stream"
)

func TestACursorIsReadBackByItsViewerAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		viewer := services.UserID(rapid.Uint32().Draw(t, "viewer"))
		position := services.PostID(rapid.Uint64Max(uint64(services.MaxPostID)).Draw(t, "position"))
		text := feedCursorText(viewer, position)
		if got, err := parseFeedCursor(viewer, text); got != position || err != nil {
			t.Fatalf("%d became %d, %v", position, got, err)
		}
		stranger := viewer + services.UserID(rapid.Uint32Range(1, ^uint32(0)).Draw(t, "distance"))
		if _, err := parseFeedCursor(stranger, text); services.CodeOf(err) != services.Invalid || !strings.Contains(err.Error(), "another user") {
			t.Fatalf("a stranger reads it: %v", err)
		}
	})
}

// The cursors of lists whose positions are IDs or times are parsed again whatever the time is: from 2039 on, bit 62 of the IDs of
// posts is set.
func TestAListCursorIsReadBackWhateverItsTime(t *testing.T) {
	for _, at := range []uint64{0, 1 << 62, uint64(services.SortableIDAt(time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC))), uint64(services.MaxPostID)} {
		for _, kind := range []byte{publishedPostsCursorKind, hostedShowsCursorKind, memberCursorKind} {
			if of, got, err := parseListCursor(kind, listCursorText(kind, 7, at)); of != 7 || got != at || err != nil {
				t.Errorf("%d became %d of %d, %v", at, got, of, err)
			}
		}
	}
	// SQL's signed integers cannot hold these numbers.
	for _, text := range []string{listCursorText(memberCursorKind, 7, 1<<63), listCursorText(memberCursorKind, 1<<63, 7)} {
		if _, _, err := parseListCursor(memberCursorKind, text); services.CodeOf(err) != services.Invalid {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Every text that is sent as a cursor is parsed, or refused with the reason. If a text is parsed, its position prints as the same text
// again.
func FuzzCursor(f *testing.F) {
	good := feedCursorText(7, 99)
	for _, seed := range []string{"", good, good + "=", good[:len(good)-1], good + "A", "!!!", "é", "AAAA", strings.Repeat("A", 18), strings.Repeat("_", 18), "\x00", strings.Repeat("A", 10_000)} {
		f.Add(uint32(7), seed)
	}
	f.Fuzz(func(t *testing.T, viewer uint32, text string) {
		position, err := parseFeedCursor(services.UserID(viewer), text)
		switch {
		case err == nil && (position > services.MaxPostID || feedCursorText(services.UserID(viewer), position) != text):
			t.Errorf("%q was read as %d", text, position)
		case err != nil && (services.CodeOf(err) != services.Invalid || !strings.HasPrefix(err.Error(), "after: ") || len(err.Error()) > 500):
			t.Errorf("%q: %v", text, err)
		}
	})
}

func TestACursorOfAnotherKindIsRefused(t *testing.T) {
	bytes, err := base64.RawURLEncoding.DecodeString(feedCursorText(7, 99))
	if err != nil {
		t.Fatal(err)
	}
	for what, damage := range map[string]func([]byte) []byte{
		"another kind":       func(b []byte) []byte { b[0]++; return b },
		"a longer one":       func(b []byte) []byte { return append(b, 0) },
		"a shorter one":      func(b []byte) []byte { return b[:len(b)-1] },
		"a position past it": func(b []byte) []byte { b[5] |= 0x80; return b },
	} {
		text := base64.RawURLEncoding.EncodeToString(damage(append([]byte{}, bytes...)))
		if _, err := parseFeedCursor(7, text); services.CodeOf(err) != services.Invalid {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A position in the change stream can be parsed again. Two cursors in the wrong order, and more than two, are refused.
func TestChangePosition(t *testing.T) {
	for _, position := range []stream.Position{{}, {ReadTo: 7}, {ReadTo: 7, DrainedTo: 7}, {ReadTo: 7, DrainedTo: 3}} {
		text := changePositionText(position)
		if got, err := parseChangePosition(&text); got != position || err != nil {
			t.Errorf("%+v became %+v, %v", position, got, err)
		}
	}
	if got, err := parseChangePosition(nil); got != (stream.Position{}) || err != nil {
		t.Errorf("the start: %+v, %v", got, err)
	}
	three, seven := changeCursor.text(0, 3), changeCursor.text(0, 7)
	for _, text := range []string{"", "x", three + seven, seven + "x", seven + three[1:], seven + three + three, seven + feedCursor.text(0, 3), "é" + seven} {
		if _, err := parseChangePosition(&text); services.CodeOf(err) != services.Invalid || !strings.HasPrefix(err.Error(), "after: ") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestPageSize(t *testing.T) {
	for first, fits := range map[int]bool{-1: false, 0: false, 1: true, 20: true, 100: true, 101: false, 1 << 31: false} {
		size, err := pageSize(&first)
		if fits && (size != first || err != nil) || !fits && (services.CodeOf(err) != services.Invalid || !strings.Contains(err.Error(), "first: 1 to 100")) {
			t.Errorf("first %d: %d, %v", first, size, err)
		}
	}
	if size, err := pageSize(nil); size != 20 || err != nil {
		t.Errorf("left out: %d, %v", size, err)
	}
}

func TestAfterAndLastIDExcludeEachOther(t *testing.T) {
	after, lastID, broken := feedCursorText(7, 99), "post:"+services.PostID(98).String(), "post:x"
	for _, start := range []struct {
		what          string
		after, lastID *string
		position      services.PostID // the wanted position
		code          services.Code   // the code of the wanted error; "" for none
	}{
		{"nowhere said", nil, nil, services.MaxPostID, ""},
		{"after", &after, nil, 99, ""},
		{"lastId", nil, &lastID, 98, ""},
		{"both", &after, &lastID, 0, services.Invalid},
		{"a broken lastId", nil, &broken, 0, services.Invalid},
		{"lastId as after", &lastID, nil, 0, services.Invalid},
		{"after as lastId", nil, &after, 0, services.Invalid},
	} {
		if position, err := startPosition(7, start.after, start.lastID); position != start.position || services.CodeOf(err) != start.code {
			t.Errorf("%s: %d, %v", start.what, position, err)
		}
	}
}
