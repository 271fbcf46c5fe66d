package metrics

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// shown reads a group, and prints each value as "name{label} value".
func shown(t *testing.T, group Group) string {
	t.Helper()
	var lines []string
	group.Read(t.Context(), func(index int, label string, value float64) {
		lines = append(lines, fmt.Sprintf("%s{%s} %v", group.Descriptions[index].Name, label, value))
	})
	return strings.Join(lines, ", ")
}

// room is a part with numbers.
type room struct {
	name string
	size int
	open bool
}

var roomMetrics = []Metric[room]{
	Gauge("size", "People.", func(r room) int { return r.size }),
	Flag("open", "1 while it is open.", func(r room) bool { return r.open }),
	Counter("visits_total", "People ever.", func(r room) uint64 { return 7 }),
}

func TestEachConstructorShowsTheValuesOfItsMetrics(t *testing.T) {
	hall, attic := room{"hall", 3, true}, room{"attic", 0, false}
	rooms := func(context.Context) ([]room, error) { return []room{hall, attic}, nil }
	for _, c := range []struct {
		group    Group
		expected string
	}{
		{Of(hall, roomMetrics...), "size{} 3, open{} 1, visits_total{} 7"},
		{FromStats(func() room { return attic }, roomMetrics...), "size{} 0, open{} 0, visits_total{} 7"},
		{FromRows("room", func(r room) string { return r.name }, rooms, roomMetrics[:2]...), "size{hall} 3, open{hall} 1, size{attic} 0, open{attic} 0"},
	} {
		if got := shown(t, c.group); got != c.expected {
			t.Errorf("got %q, want %q", got, c.expected)
		}
	}
}

func TestKindsAndHelpAreDescribed(t *testing.T) {
	expected := []Description{{"size", "People.", GaugeKind}, {"open", "1 while it is open.", GaugeKind}, {"visits_total", "People ever.", CounterKind}}
	if got := Of(room{}, roomMetrics...).Descriptions; !slices.Equal(got, expected) {
		t.Errorf("got %+v", got)
	}
}

// The values of a group are of one moment, and a statement of SQL runs once.
func TestStatsAreReadOnceForAllMetricsOfAGroup(t *testing.T) {
	reads := 0
	shown(t, FromStats(func() room { reads++; return room{} }, roomMetrics...))
	if reads != 1 {
		t.Errorf("the numbers were read %d times", reads)
	}
}

func TestMetricsAreAbsentAfterAnError(t *testing.T) {
	failed := errors.New("away")
	one := FromQuery(func(context.Context) (room, error) { return room{size: 3}, failed }, roomMetrics...)
	all := FromRows("room", func(r room) string { return r.name }, func(context.Context) ([]room, error) { return []room{{}}, failed }, roomMetrics...)
	for _, group := range []Group{one, all} {
		if got := shown(t, group); got != "" {
			t.Errorf("got %q", got)
		}
	}
}
