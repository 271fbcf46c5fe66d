package services

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestCheckURL(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "https://example.com": "", "http://[::1]:1/x?y": "", "https://example.com:65535": "", "https://example.com:": "",
		"https://example.com:0": "the port of", "https://example.com:99999": "the port of", "https://example.com:x": "is not an http or https address",
		"ftp://example.com": "is not an http or https address", "/page": "is not an http or https address",
	} {
		err := CheckURL("url", text)
		if (err == nil) != (want == "") || err != nil && (CodeOf(err) != Invalid || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestErrorCodes(t *testing.T) {
	cause := errors.New("disk full")
	wrapped := Wrapf(Unavailable, cause, "the database does not answer")
	for _, c := range []struct {
		err  error
		want Code
	}{
		{nil, ""}, {cause, Internal}, {Errorf(Invalid, "first: %d", 0), Invalid}, {wrapped, Unavailable},
		{fmt.Errorf("while reading: %w", wrapped), Unavailable}, {errors.Join(cause, Errorf(Conflict, "x")), Conflict},
	} {
		if got := CodeOf(c.err); got != c.want {
			t.Errorf("%v has the code %s, want %s", c.err, got, c.want)
		}
	}
	if !errors.Is(wrapped, cause) || !IsUnavailable(wrapped) || IsUnavailable(cause) {
		t.Error("the cause or the code is lost")
	}
	if got := wrapped.Error(); got != "the database does not answer: disk full" {
		t.Errorf("got %q", got)
	}
	if got := Errorf(Invalid, "first: %d", 0).Error(); got != "first: 0" {
		t.Errorf("got %q", got)
	}
}

func TestCheckText(t *testing.T) {
	for _, c := range []struct {
		text        string
		least, most int
		fits        bool
	}{
		{"", 0, 5, true}, {"", 1, 5, false}, {"a", 1, 5, true}, {"äöüäö", 1, 5, true}, {"äöüäöü", 1, 5, false},
		{"a\x00b", 1, 5, false}, {"\xff", 1, 5, false}, {"日本語😀!", 1, 5, true},
		{strings.Repeat("é", MaxBodyCharacters), 1, MaxBodyCharacters, true},
		{strings.Repeat("é", MaxBodyCharacters+1), 1, MaxBodyCharacters, false},
	} {
		err := CheckText("body", c.text, c.least, c.most)
		if (err == nil) != c.fits {
			t.Errorf("%s: %v", Quote(c.text), err)
		}
		if err != nil && (CodeOf(err) != Invalid || !strings.HasPrefix(err.Error(), "body: ")) {
			t.Errorf("%s: %v", Quote(c.text), err)
		}
		if long := utf8.RuneCountInString(c.text) > c.most; long && err.(*Error).Limit != c.most {
			t.Errorf("%s: the limit is %d", Quote(c.text), err.(*Error).Limit)
		}
	}
	if err := CheckText("name", "toolong", 0, 3); !strings.Contains(err.Error(), "up to 3 characters are allowed, got 7") {
		t.Errorf("the message is %v", err)
	}
}

func TestCheckFilled(t *testing.T) {
	for text, says := range map[string]string{
		"a": "", " a ": "", "\u3000字": "",
		"":                         "title: 1 to 12 characters are allowed, got 0",
		" ":                        "title: 1 to 12 characters are allowed, got nothing but white space",
		"\t\r\n\v\f\u0085":         "title: 1 to 12 characters are allowed, got nothing but white space",
		"\u00a0\u2003\u2028\u3000": "title: 1 to 12 characters are allowed, got nothing but white space",
		strings.Repeat(" ", 13):    "title: 1 to 12 characters are allowed, got 13",
		"a\x00b":                   "title: has a NUL character",
	} {
		err := CheckFilled("title", text, 12)
		if says == "" && err == nil {
			continue
		}
		if CodeOf(err) != Invalid || err.Error() != says {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
}

func TestViewerInContext(t *testing.T) {
	if _, err := ViewerFrom(context.Background()); CodeOf(err) != Unauthenticated {
		t.Errorf("without a viewer: %v", err)
	}
	want := Viewer{Key: "alice", Scopes: []Scope{ScopeViewer, ScopeAdmin}, Device: "phone"}
	got, err := ViewerFrom(WithViewer(context.Background(), want))
	if err != nil || got.Key != want.Key || got.Device != want.Device {
		t.Errorf("got %+v, %v", got, err)
	}
	if !got.Has(ScopeAdmin) || got.Has(ScopeIngest) {
		t.Error("the scopes are not the token's")
	}
}

func TestDisplayAtTheCap(t *testing.T) {
	for value, want := range map[int]string{0: "0", 1: "1", 98: "98", 99: "99", 100: "99+", 300: "99+"} {
		if got := NewCount(value, Exact, time.Time{}).Display; got != want {
			t.Errorf("%d shows as %s, want %s", value, got, want)
		}
	}
}

// The total is the sum of the parts that enter it, and no more exact than they are.
func TestSum(t *testing.T) {
	precisions := []Precision{Exact, AtLeast, Stale, Unknown}
	rapid.Check(t, func(t *rapid.T) {
		var parts []Count
		value, worst := 0, 0
		for range rapid.IntRange(0, 6).Draw(t, "parts") {
			part := NewCount(rapid.IntRange(0, 400).Draw(t, "value"), rapid.SampledFrom(precisions).Draw(t, "precision"), time.Time{})
			part.InTotal = rapid.Bool().Draw(t, "in total")
			if part.InTotal {
				value += part.Value
				worst = max(worst, slices.Index(precisions, part.Precision))
			}
			parts = append(parts, part)
		}
		got := Sum(parts...)
		if got.Value != value || got.Precision != precisions[worst] || !got.InTotal || got.Display != NewCount(value, Exact, time.Time{}).Display {
			t.Fatalf("the sum of %+v is %+v", parts, got)
		}
	})
}

func TestSumIsAsOldAsItsOldestPart(t *testing.T) {
	old, older := time.Unix(200, 0), time.Unix(100, 0)
	got := Sum(NewCount(1, Stale, old), NewCount(2, Exact, time.Time{}), NewCount(3, Stale, older))
	if !got.AsOf().Equal(older) || got.Value != 6 || got.Precision != Stale {
		t.Errorf("got %+v", got)
	}
}

// An Instant keeps the nanoseconds of a time, and the zero time stays none.
func TestInstantsAreTheirTimes(t *testing.T) {
	for _, want := range []time.Time{{}, time.Unix(1, 1), time.Unix(-5, 0), time.Date(2026, 2, 3, 4, 5, 6, 789_012_345, time.FixedZone("", 3600))} {
		if got := InstantOf(want).Time(); !got.Equal(want) || got.IsZero() != want.IsZero() {
			t.Errorf("the instant of %s is %s", want, got)
		}
	}
}

// Clients and logs see the names of the schema, and only these names are precisions.
func TestPrecisionsHaveTheNamesOfTheSchema(t *testing.T) {
	for precision, name := range map[Precision]string{Exact: "EXACT", AtLeast: "AT_LEAST", Stale: "STALE", Unknown: "UNKNOWN"} {
		var written strings.Builder
		precision.MarshalGQL(&written)
		var read Precision
		if err := read.UnmarshalGQL(name); err != nil || read != precision || precision.String() != name || written.String() != `"`+name+`"` {
			t.Errorf("%s is %s, written as %s, and read as %s with %v", name, precision, &written, read, err)
		}
	}
	for _, wrong := range []any{"", "exact", 1, nil} {
		if read := Stale; read.UnmarshalGQL(wrong) == nil || read != Stale {
			t.Errorf("%#v was read as %s", wrong, read)
		}
	}
}

func TestVersionsCompareAsText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.Uint64Max(9_999_999_999_999_999)
		a, b := [2]uint64{number.Draw(t, "n1"), number.Draw(t, "g1")}, [2]uint64{number.Draw(t, "n2"), number.Draw(t, "g2")}
		x, y := BadgesVersion(a[0], a[1]), BadgesVersion(b[0], b[1])
		if want := slices.Compare(a[:], b[:]); strings.Compare(x, y) != want {
			t.Fatalf("%v and %v print %s and %s", a, b, x, y)
		}
		if err := CheckVersion("since", x); err != nil {
			t.Fatal(err)
		}
	})
	for _, text := range []string{"", "1", strings.Repeat("0", 33), BadgesVersion(1, 2) + "0", strings.Replace(BadgesVersion(1, 2), ".", ",", 1), "x" + BadgesVersion(1, 2)[1:]} {
		if err := CheckVersion("since", text); CodeOf(err) != Invalid || !strings.HasPrefix(err.Error(), "since: ") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestPostAndUserIDs(t *testing.T) {
	if got := (User{Key: "alice"}).GlobalID(); got != "user:alice" {
		t.Error(got)
	}
	if got := (Post{ID: 1}).GlobalID(); got != "post:0000000000001" {
		t.Error(got)
	}
}
