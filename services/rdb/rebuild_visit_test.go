package rdb

import (
	"testing"
	"time"

	"tidings/services"
	"tidings/services/redis"
)

// rebuildWithoutVisit begins and ends a rebuild of the reader that is no visit. The facts have another day and another lifetime.
func (v feedTest) rebuildWithoutVisit(facts FeedFacts) redis.Result {
	v.Helper()
	stamps, err := v.projections.BeginRebuild(v.Context(), []services.UserID{reader}, RebuildMode{})
	v.must(err)
	facts.Reader, facts.Stamp, facts.LastActiveDay, facts.KeyLifetime = reader, stamps[0], 20_010, 100*time.Hour
	result, err := v.projections.EndRebuild(v.Context(), facts)
	v.must(err)
	return result.Result
}

// wantLifetime checks the day of the reader's document, and that it and the inbox live for about the given time.
func (v feedTest) wantLifetime(what string, day int64, about time.Duration) {
	v.Helper()
	if got := v.readDocument(); !got.Ready || got.LastActiveDay != day {
		v.Errorf("%s: ready %t, day %d; want day %d", what, got.Ready, got.LastActiveDay, day)
	}
	for _, key := range inboxScriptKeys(reader)[:2] {
		if left, err := v.projections.Client.Commands().TTL(v.Context(), key).Result(); err != nil || left > about || left < about*9/10 {
			v.Errorf("%s: %s lives for %s, %v: want %s", what, key, left, err, about)
		}
	}
}

// A rebuild that is no visit leaves day and lifetime of a document as they are, also if the document or its inbox has to be born
// again. Only a document that has no day gets those of the facts.
func TestARebuildWithoutAVisitKeepsDayAndLifetime(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		v.buildFromFacts(FeedFacts{Entries: makeEntries(1, 3, countedEntry)})
		v.wantLifetime("built", 20_000, time.Hour)
		n := v.readDocument().Version
		for what, damage := range map[string]func(){
			"a whole document":         func() {},
			"another epoch":            func() { v.writeField("e", "7") },
			"a lost field":             func() { v.must(v.projections.Client.Commands().HDel(v.Context(), DocumentKey(reader), "T").Err()) },
			"a lost inbox":             func() { v.deleteKeys(inboxKey(reader)) },
			"an unready one":           func() { v.writeField("st", "0") },
			"an earlier epoch":         func() { v.writeField("e", "") },
			"a broken versioned field": func() { v.writeField("Cv", "broken") },
		} {
			damage()
			if result := v.rebuildWithoutVisit(FeedFacts{Entries: makeEntries(1, 4, countedEntry)}); result.Status != redis.Applied || result.Version <= n {
				v.Errorf("%s: %+v after version %d", what, result, n)
			}
			v.wantLifetime(what, 20_000, time.Hour)
			n = v.readDocument().Version
		}
		for what, damage := range map[string]func(){
			"an emptied projection": func() { v.must(v.projections.ResetUserData(v.Context(), reader)) },
			"a broken day":          func() { v.writeField("d", "?") },
		} {
			v.buildFromFacts(FeedFacts{})
			damage()
			v.rebuildWithoutVisit(FeedFacts{})
			v.wantLifetime(what, 20_010, 100*time.Hour)
		}
	})
}

// Nothing is made for a user who has nothing and does not come.
func TestARebuildWithoutAVisitMakesNoDocument(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		for _, mode := range []RebuildMode{{}, {Refill: true}} {
			stamps, err := v.projections.BeginRebuild(v.Context(), []services.UserID{reader}, mode)
			v.must(err)
			if left, err := v.projections.Client.Commands().Exists(v.Context(), userDataKeys(reader)...).Result(); err != nil || left != 0 || stamps[0] != 0 {
				v.Errorf("%+v: %d keys, stamp %d, %v", mode, left, stamps[0], err)
			}
		}
	})
}

// A visit moves day and lifetime, also if a rebuild without a visit began before it and ends after it.
func TestARebuildWithoutAVisitKeepsALaterVisit(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		for what, before := range map[string]func(){
			"of a whole document":      func() {},
			"of an emptied projection": func() { v.must(v.projections.ResetUserData(v.Context(), reader)) },
		} {
			v.deleteKeys(userDataKeys(reader)...)
			_, err := v.projections.EndRebuild(v.Context(), FeedFacts{Reader: reader, Stamp: v.beginRebuild(false), IsVisit: true, LastActiveDay: 19_990, KeyLifetime: 50 * time.Hour})
			v.must(err)
			before()
			stamps, err := v.projections.BeginRebuild(v.Context(), []services.UserID{reader}, RebuildMode{})
			v.must(err)
			v.buildFromFacts(FeedFacts{Entries: makeEntries(1, 3, countedEntry)})
			_, err = v.projections.EndRebuild(v.Context(), FeedFacts{Reader: reader, Stamp: stamps[0], LastActiveDay: 19_990, KeyLifetime: 50 * time.Hour})
			v.must(err)
			v.wantLifetime(what, 20_000, time.Hour)
		}
	})
}

// A rebuild removes the floor of the inbox of a user who returns after a long absence, as a refill does. It keeps the floor for a user
// who is not idle.
func TestReturningAfterAnAbsenceRemovesTheFloor(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		for _, idle := range []int64{20_000, 20_001} {
			v.deleteKeys(userDataKeys(reader)...)
			v.buildFromFacts(FeedFacts{Entries: makeEntries(11, 40, countedEntry), NewestTrimmed: 10, NewestTrimmedCounted: 9})
			stamps, err := v.projections.BeginRebuild(v.Context(), []services.UserID{reader}, RebuildMode{IsVisit: true, FirstActiveDay: idle})
			v.must(err)
			first := services.PostID(11)
			if idle > 20_000 {
				first = 1
			}
			v.buildFromFacts(FeedFacts{Stamp: stamps[0], Entries: makeEntries(1, 40, countedEntry)})
			if page, err := v.projections.Inbox(v.Context(), reader, services.MaxPostID, 50); err != nil || len(page.Entries) == 0 || page.Entries[len(page.Entries)-1].Post != first {
				v.Errorf("with the idle day %d, from day 20,000: %+v, %v", idle, page, err)
			}
		}
	})
}
