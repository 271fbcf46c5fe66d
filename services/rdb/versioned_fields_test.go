package rdb

import (
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"tidings/services"
	"tidings/services/redis"
)

// putVersionedFields writes versioned fields into the reader's document.
func (v feedTest) putVersionedFields(fields ...VersionedField) redis.Result {
	v.Helper()
	results, err := v.projections.PutVersionedFields(v.Context(), []VersionedFields{{reader, fields}})
	v.must(err)
	return results[0]
}

// Versioned fields are read as they were written. An older value, or the same again, changes nothing.
func TestVersionedFieldsAreReadAsTheyWereWritten(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		v.projections.SetDots([]string{"shop", "wallet"})
		v.buildFromFacts(FeedFacts{})
		want := v.readDocument()
		want.Messages = []services.MessageTypeState{{Type: services.DefaultMessageType, Version: 3, Unread: 12}}
		want.Announcements = services.AnnouncementState{Version: 2, Position: 40, DotsDismissedUpTo: 1_700_000_000_000_000}
		want.Segments = services.SegmentState{Version: 9, Bits: math.MaxUint64}
		want.DismissedUpToByDot = map[string]uint64{"shop": 1_700_000_000_000_001}
		want.Policy = services.DisplayPolicy{Version: 4, AsDot: map[services.Source]bool{services.SourceHomeFeed: true}, QuietFromMinute: 60, QuietToMinute: 30, UTCOffsetMinutes: -480}
		want.Modes = services.CategoryModes{Version: 5, ByCategory: map[services.Category]services.CategoryMode{services.CategoryLike: services.CategoryDot, "OF_THE_HOST": services.CategoryOff}}
		fields := []VersionedField{
			MessagesVersionedField(want.Messages[0]), AnnouncementVersionedField(want.Announcements), SegmentVersionedField(want.Segments),
			DotVersionedField("shop", 1_700_000_000_000_001), PolicyVersionedField(want.Policy),
			ModesVersionedField(want.Modes),
		}
		for _, field := range fields {
			result := v.putVersionedFields(field)
			if result.Status != redis.Applied {
				v.Errorf("%+v: %+v", field, result)
			}
			want.Version = result.Version
			if again := v.putVersionedFields(field); again.Status != redis.Unchanged {
				v.Errorf("%+v again: %+v", field, again)
			}
			if older := v.putVersionedFields(VersionedField{field.Name, "1;0"}); older.Status != redis.Unchanged {
				v.Errorf("an older %s: %+v", field.Name, older)
			}
		}
		if difference := cmp.Diff(want, v.readDocument()); difference != "" {
			v.Error(difference)
		}
		if result := v.putVersionedFields(fields...); result.Status != redis.Unchanged {
			v.Errorf("all of them again: %+v", result)
		}
	})
}

// A client ignores the field of a dot that it does not know yet, and reads it once SetDots has named the dot.
func TestDotsAreReadAfterSetDots(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		v.buildFromFacts(FeedFacts{})
		v.putVersionedFields(DotVersionedField("shop", 7))
		if d := v.readDocument(); !d.Ready || d.DismissedUpToByDot != nil {
			v.Errorf("before it is known: %+v", d)
		}
		v.projections.SetDots([]string{"shop"})
		if d := v.readDocument(); d.DismissedUpToByDot["shop"] != 7 {
			v.Errorf("once it is: %+v", d)
		}
		v.writeField("Dshop", "broken")
		if d := v.readDocument(); d.Ready {
			v.Errorf("a broken one is read as %+v", d)
		}
	})
}

// A client with one more type of site messages finds the field of the new type missing in documents, and a rebuild adds it.
func TestARebuildAddsANewTypeOfMessages(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		v.buildFromFacts(FeedFacts{})
		v.putVersionedFields(MessagesVersionedField(services.MessageTypeState{Type: services.DefaultMessageType, Version: 3, Unread: 12}))
		v.projections.layout.Store(newLayout([]string{"billing", services.DefaultMessageType}, nil, nil, nil))
		if d := v.readDocument(); d.Ready {
			v.Errorf("without the new type it is %+v", d)
		}
		v.buildFromFacts(FeedFacts{})
		want := []services.MessageTypeState{{Type: "billing"}, {Type: services.DefaultMessageType, Version: 3, Unread: 12}}
		if d := v.readDocument(); !cmp.Equal(d.Messages, want) {
			v.Errorf("after it: %+v", d)
		}
	})
}

func TestAPolicyIsReadAsItWasWritten(t *testing.T) {
	sources := rapid.Custom(func(t *rapid.T) map[services.Source]bool {
		return services.UnpackSources(rapid.Uint64Max(1<<len(services.Sources)-1).Draw(t, "sources"))
	})
	rapid.Check(t, func(t *rapid.T) {
		minute := rapid.IntRange(0, 1439)
		policy := services.DisplayPolicy{
			Version: rapid.Uint64Range(1, 1<<60).Draw(t, "version"), InTotalInverted: sources.Draw(t, "out"), AsDot: sources.Draw(t, "dots"),
			QuietFromMinute: minute.Draw(t, "from"), QuietToMinute: minute.Draw(t, "to"), UTCOffsetMinutes: rapid.IntRange(-720, 840).Draw(t, "offset"),
		}
		field := PolicyVersionedField(policy)
		p := &documentParser{texts: []string{field.Value}}
		if got := p.policy(); p.failed || !cmp.Equal(got, policy) {
			t.Fatalf("%+v is %q and read as %+v", policy, field.Value, got)
		}
		if len(field.Value) > 64 {
			t.Fatalf("%q is longer than a compact document allows", field.Value)
		}
	})
}

func TestACountOfViewsIsReadAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		state := services.ViewsState{
			Version: rapid.Uint64Range(1, 1<<60).Draw(t, "version"), Unread: rapid.IntRange(0, 20_000).Draw(t, "unread"), AtLeast: rapid.Bool().Draw(t, "more"),
		}
		field := ViewsVersionedField(state)
		p := &documentParser{texts: []string{field.Value}}
		if got := p.views(); p.failed || got != state {
			t.Fatalf("%+v is %q and read as %+v", state, field.Value, got)
		}
		p = &documentParser{texts: []string{field.Value[:len(field.Value)-1] + "2"}}
		if got := p.views(); !p.failed {
			t.Fatalf("a broken value is read as %+v", got)
		}
	})
}

// A value that is cut off, or has one part too many, is broken; it never reads as another value.
func FuzzVersionedFieldParts(f *testing.F) {
	for _, seed := range []string{"", "0", "1", "1;2", "1;2;3", "1;2;3;4", ";;", "1;;3"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p := &documentParser{texts: []string{text}}
		var a, b, c string
		p.splitField(&a, &b, &c)
		if !p.failed && text != initialValue && text != fmt.Sprintf("%s;%s;%s", a, b, c) {
			t.Errorf("%q was split into %q, %q and %q", text, a, b, c)
		}
	})
}

// The field of the count of views is absent if the user has touched no view. A broken count does not read as 0: the document is rebuilt,
// and the count comes from the facts.
func TestACountOfViewsMayBeAbsent(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		v.buildFromFacts(FeedFacts{})
		if d := v.readDocument(); !d.Ready || d.Views != (services.ViewsState{}) {
			v.Errorf("without views: %+v", d)
		}
		state := services.ViewsState{Version: 3, Unread: 12}
		v.putVersionedFields(ViewsVersionedField(state))
		if d := v.readDocument(); !d.Ready || d.Views != state {
			v.Errorf("with views: %+v", d)
		}
		v.writeField(viewsField, "3;12")
		if d := v.readDocument(); d.Ready {
			v.Errorf("broken, it is read as %+v", d.Views)
		}
		stamp := v.beginRebuild(false)
		if d := v.readDocument(); d.Ready {
			v.Errorf("between the steps of its rebuild it is read as %+v", d.Views)
		}
		v.putVersionedFields(ViewsVersionedField(state))
		v.buildFromFacts(FeedFacts{Stamp: stamp})
		if d := v.readDocument(); !d.Ready || d.Views != state {
			v.Errorf("rebuilt it is read as %+v", d)
		}
	})
}
