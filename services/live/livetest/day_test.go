package livetest

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"
)

// now is the time at which the days of these tests are made.
var now = time.Date(2026, 3, 14, 12, 34, 56, 0, time.UTC)

func TestADayHasTheRequestedShows(t *testing.T) {
	size := ShowDaySize{Shows: 2000, LiveShows: 100, Hosts: 200, Viewers: 300, MaxFollowedHosts: 150}
	d := NewShowDay(now, size, 1)
	starts := map[time.Time]int{}
	counts := map[string]int{}
	for _, show := range d.Shows {
		switch {
		case show.Started.After(now) || show.Ended.After(now):
			t.Errorf("%+v: what has not happened yet", show)
		case !show.Ended.IsZero() && show.Ended.Before(show.Started):
			t.Errorf("%+v: the end is before the start", show)
		case !show.Ended.IsZero():
			counts["over"]++
		case !show.Started.IsZero():
			counts["live"]++
			starts[show.Started]++
		case show.Cancelled:
			counts["cancelled"]++
		case show.Planned.Before(now):
			t.Errorf("%+v: nobody has started it", show)
		default:
			counts["upcoming"]++
		}
	}
	if counts["live"] != 100 || counts["over"] != 950 || counts["cancelled"] < 20 || counts["upcoming"] < 800 || starts[now.Truncate(time.Hour)] < 40 {
		t.Errorf("%v, at the hour %d", counts, starts[now.Truncate(time.Hour)])
	}
	few := 0
	for i, hosts := range d.FollowedHosts {
		if len(hosts) == 0 || len(hosts) > 150 || i == 0 && len(hosts) != 150 {
			t.Errorf("viewer %d follows %d", i, len(hosts))
		}
		if len(hosts) < 10 {
			few++
		}
	}
	if few < 150 || few > 280 {
		t.Errorf("%d of 300 follow fewer than ten", few)
	}
	if again := NewShowDay(now, size, 1); !slices.Equal(again.Shows, d.Shows) {
		t.Error("the same day is another one")
	}
}

func TestFilesOfADay(t *testing.T) {
	d := &ShowDay{
		FollowedHosts: [][]int{{1, 0}, {0}},
		Shows:         []Show{{Key: "a", Planned: now}, {Key: "b", HostIndex: 1, Planned: now, Started: now, Ended: now.Add(time.Minute)}, {Key: "c", Planned: now, Cancelled: true}},
	}
	var follows, shows bytes.Buffer
	if err := d.WriteFollows(&follows); err != nil || follows.String() != "viewer-0,host-1\nviewer-0,host-0\nviewer-1,host-0\n" {
		t.Errorf("%q, %v", follows.String(), err)
	}
	want := `{"key":"b","host":"host-1","title":"b","plannedAt":1773491696000,"startedAt":1773491696000,"endedAt":"2026-03-14T12:35:56Z","cancelled":false}
{"key":"c","host":"host-0","title":"c","plannedAt":1773491696000,"cancelled":true}
`
	if err := d.WriteShows(&shows, 1, 3); err != nil || shows.String() != want {
		t.Errorf("%s, %v", shows.String(), err)
	}
}

// A board has live shows first, the newest start on top; then upcoming shows, the soonest plan on top; then replays, the newest
// end on top. Of shows with equal times the newer one comes first.
func TestTheBoardOfADay(t *testing.T) {
	at := func(minute int) time.Time { return now.Add(time.Duration(minute) * time.Minute) }
	d := &ShowDay{FollowedHosts: [][]int{{0, 1}, {1}}, showsByHost: make([][]int, 3), Shows: []Show{
		{Key: "r1", Started: at(-50), Ended: at(-20)}, {Key: "u1", Planned: at(9)}, {Key: "l1", Started: at(-9)}, {Key: "l2", Started: at(-9), HostIndex: 1},
		{Key: "u2", Planned: at(5)}, {Key: "x", Planned: at(5), Cancelled: true}, {Key: "r2", Started: at(-60), Ended: at(-10), HostIndex: 1},
		{Key: "foreign", Started: at(-9), HostIndex: 2}, {Key: "l3", Started: at(-1)}, {Key: "later", Started: at(0)},
	}}
	for i, show := range d.Shows {
		d.showsByHost[show.HostIndex] = append(d.showsByHost[show.HostIndex], i)
	}
	if got, cut := d.ExpectedBoard(0, 9); strings.Join(got, ",") != "l3 LIVE,l2 LIVE,l1 LIVE,u2 UPCOMING,u1 UPCOMING,r2 REPLAY,r1 REPLAY" || cut {
		t.Errorf("%v, %t", got, cut)
	}
	if got, _ := d.ExpectedBoard(1, 9); strings.Join(got, ",") != "l2 LIVE,r2 REPLAY" {
		t.Errorf("%v", got)
	}
	for i := range 300 {
		d.showsByHost[1] = append(d.showsByHost[1], len(d.Shows))
		d.Shows = append(d.Shows, Show{Key: "more", HostIndex: 1, Started: at(-90), Ended: at(-70 - i)})
	}
	if got, cut := d.ExpectedBoard(1, len(d.Shows)); len(got) != 301 || !cut || got[1] != "r2 REPLAY" {
		t.Errorf("%d, %t", len(got), cut)
	}
}
