package rdb

import (
	"testing"
	"time"

	"tidings/services"
	"tidings/services/redis"
)

// rebuildWithoutVisit begins and ends a rebuild of the reader that is no visit. The facts have another day and another lifetime.
func (v view) rebuildWithoutVisit(facts FeedFacts) redis.Result {
	v.Helper()
	stamps, err := v.c.BeginRebuild(v.Context(), []services.UserID{reader}, RebuildMode{})
	v.must(err)
	facts.Reader, facts.Stamp, facts.Day, facts.Lifetime = reader, stamps[0], 20_010, 100*time.Hour
	result, err := v.c.EndRebuild(v.Context(), facts)
	v.must(err)
	return result.Result
}

// wantLife checks the day of the reader's document, and that it and the inbox live for about the given time.
func (v view) wantLife(what string, day int64, about time.Duration) {
	v.Helper()
	if got := v.document(); !got.Ready || got.Day != day {
		v.Errorf("%s: ready %t, day %d; want day %d", what, got.Ready, got.Day, day)
	}
	for _, key := range inboxKeys(reader)[:2] {
		if left, err := v.c.Commands().TTL(v.Context(), key).Result(); err != nil || left > about || left < about*9/10 {
			v.Errorf("%s: %s lives for %s, %v: want %s", what, key, left, err, about)
		}
	}
}

// A rebuild that is no visit leaves day and lifetime of a document as they are, also if the document or its inbox has to be born
// again. Only a document that has no day gets those of the facts.
func TestARebuildWithoutAVisitKeepsDayAndLifetime(t *testing.T) {
	eachView(t, func(v view) {
		v.build(FeedFacts{Entries: makeEntries(1, 3, counted)})
		v.wantLife("built", 20_000, time.Hour)
		n := v.document().N
		for what, spoil := range map[string]func(){
			"a whole document":  func() {},
			"another epoch":     func() { v.set("e", "7") },
			"a lost field":      func() { v.must(v.c.Commands().HDel(v.Context(), DocumentKey(reader), "T").Err()) },
			"a lost inbox":      func() { v.deleteKeys(inboxKey(reader)) },
			"an unready one":    func() { v.set("st", "0") },
			"an earlier epoch":  func() { v.set("e", "") },
			"a broken register": func() { v.set("Cv", "broken") },
		} {
			spoil()
			if result := v.rebuildWithoutVisit(FeedFacts{Entries: makeEntries(1, 4, counted)}); result.Status != redis.Applied || result.N <= n {
				v.Errorf("%s: %+v after version %d", what, result, n)
			}
			v.wantLife(what, 20_000, time.Hour)
			n = v.document().N
		}
		for what, spoil := range map[string]func(){
			"an emptied view": func() { v.must(v.c.Reset(v.Context(), reader)) },
			"a broken day":    func() { v.set("d", "?") },
		} {
			v.build(FeedFacts{})
			spoil()
			v.rebuildWithoutVisit(FeedFacts{})
			v.wantLife(what, 20_010, 100*time.Hour)
		}
	})
}

// Nothing is made for a user who has nothing and does not come.
func TestARebuildWithoutAVisitMakesNoDocument(t *testing.T) {
	eachView(t, func(v view) {
		for _, mode := range []RebuildMode{{}, {Refill: true}} {
			stamps, err := v.c.BeginRebuild(v.Context(), []services.UserID{reader}, mode)
			v.must(err)
			if left, err := v.c.Commands().Exists(v.Context(), viewKeys(reader)...).Result(); err != nil || left != 0 || stamps[0] != 0 {
				v.Errorf("%+v: %d keys, stamp %d, %v", mode, left, stamps[0], err)
			}
		}
	})
}

// A visit moves day and lifetime, also if a rebuild without a visit began before it and ends after it.
func TestAVisitOutlastsARebuildWithoutOne(t *testing.T) {
	eachView(t, func(v view) {
		for what, before := range map[string]func(){
			"of a whole document": func() {},
			"of an emptied view":  func() { v.must(v.c.Reset(v.Context(), reader)) },
		} {
			v.deleteKeys(viewKeys(reader)...)
			_, err := v.c.EndRebuild(v.Context(), FeedFacts{Reader: reader, Stamp: v.begin(false), Visit: true, Day: 19_990, Lifetime: 50 * time.Hour})
			v.must(err)
			before()
			stamps, err := v.c.BeginRebuild(v.Context(), []services.UserID{reader}, RebuildMode{})
			v.must(err)
			v.build(FeedFacts{Entries: makeEntries(1, 3, counted)})
			_, err = v.c.EndRebuild(v.Context(), FeedFacts{Reader: reader, Stamp: stamps[0], Day: 19_990, Lifetime: 50 * time.Hour})
			v.must(err)
			v.wantLife(what, 20_000, time.Hour)
		}
	})
}

// A rebuild removes the floor of the inbox of a user who returns after a long absence, as a refill does. It keeps the floor for a user
// who is not idle.
func TestReturningAfterAnAbsenceRemovesTheFloor(t *testing.T) {
	eachView(t, func(v view) {
		for _, idle := range []int64{20_000, 20_001} {
			v.deleteKeys(viewKeys(reader)...)
			v.build(FeedFacts{Entries: makeEntries(11, 40, counted), Floor: 10, TrimmedCounted: 9})
			stamps, err := v.c.BeginRebuild(v.Context(), []services.UserID{reader}, RebuildMode{Visit: true, IdleDay: idle})
			v.must(err)
			first := services.PostID(11)
			if idle > 20_000 {
				first = 1
			}
			v.build(FeedFacts{Stamp: stamps[0], Entries: makeEntries(1, 40, counted)})
			if page, err := v.c.Inbox(v.Context(), reader, services.MaxPostID, 50); err != nil || len(page.Entries) == 0 || page.Entries[len(page.Entries)-1].Post != first {
				v.Errorf("with the idle day %d, from day 20,000: %+v, %v", idle, page, err)
			}
		}
	})
}
