package changelog

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func timeAtSecond(second int) time.Time { return time.Unix(int64(second), 0) }

// timedValue is a value with the time of its last change.
type timedValue struct{ changedAtSecond int }

func newValueCache(capacity int) *Cache[string, timedValue] {
	return NewCache[string](capacity, func(v timedValue) time.Time { return timeAtSecond(v.changedAtSecond) })
}

func TestAnOlderCopyNeverReplacesANewerOne(t *testing.T) {
	m := newValueCache(10)
	m.Keep("a", timedValue{5})
	m.Keep("a", timedValue{3})
	if got, ok := m.Get("a"); !ok || got.changedAtSecond != 5 {
		t.Errorf("got %v, %t", got, ok)
	}
	m.Keep("a", timedValue{5})
	m.Keep("a", timedValue{7})
	if got, _ := m.Get("a"); got.changedAtSecond != 7 {
		t.Errorf("got %v", got)
	}
}

// A reader that took its copy before the change and comes back after it must not restore the old value.
func TestAStaleCopyIsNotKept(t *testing.T) {
	m := newValueCache(10)
	m.Keep("a", timedValue{1})
	m.RecordChange("a", timeAtSecond(4))
	if _, ok := m.Get("a"); ok {
		t.Error("what changed is still remembered")
	}
	m.Keep("a", timedValue{1})
	if found, missing := m.GetAll([]string{"a"}); len(found) != 0 || len(missing) != 1 {
		t.Errorf("found %v, missing %v", found, missing)
	}
	found := map[string]timedValue{}
	if missing := m.AddReadValues(found, map[string]timedValue{"a": {1}}, []string{"a"}); len(missing) != 1 || len(found) != 0 {
		t.Errorf("a copy from before the change was taken: %v", found)
	}
	if m.AddReadValues(found, map[string]timedValue{"a": {4}}, []string{"a"}); found["a"].changedAtSecond != 4 {
		t.Errorf("the copy of the change was not taken: %v", found)
	}
	m.RecordChange("a", timeAtSecond(4)) // reported again
	if _, ok := m.Get("a"); !ok {
		t.Error("a change that is known already took the value away")
	}
}

// Each hands over the values in the order of the keys, a key twice if it is asked for twice, and ends at the first value that is
// missing or stale.
func TestEachStopsAtTheFirstMissingOrStaleValue(t *testing.T) {
	m := newValueCache(10)
	for i, key := range []string{"a", "b", "c", "d"} {
		m.Keep(key, timedValue{i + 1})
	}
	m.RecordChange("d", timeAtSecond(9))
	for _, test := range []struct {
		keys, want []string // want: index, key and time of each value that Each hands over
		all        bool     // what Each returns
	}{
		{nil, nil, true},
		{[]string{"c", "a", "c"}, []string{"0c3", "1a1", "2c3"}, true},
		{[]string{"a", "x", "b"}, []string{"0a1"}, false},
		{[]string{"b", "d", "a"}, []string{"0b2"}, false},
	} {
		var got []string
		all := m.Each(test.keys, func(i int, v timedValue) {
			got = append(got, fmt.Sprintf("%d%s%d", i, test.keys[i], v.changedAtSecond))
		})
		if all != test.all || !slices.Equal(got, test.want) {
			t.Errorf("of %v: %v, all %t", test.keys, got, all)
		}
	}
}

func TestAddReadValuesAddsStaleValuesWithoutKeepingThem(t *testing.T) {
	m := newValueCache(10)
	m.RecordChange("a", timeAtSecond(9))
	found := map[string]timedValue{}
	m.AddReadValues(found, map[string]timedValue{"a": {8}}, nil)
	if found["a"].changedAtSecond != 8 {
		t.Error("SQL's answer was withheld")
	}
	if _, ok := m.Get("a"); ok {
		t.Error("and remembered, though a newer one exists")
	}
}

func TestGetAllListsEachMissingKeyOnce(t *testing.T) {
	m := newValueCache(10)
	m.Keep("a", timedValue{1})
	found, missing := m.GetAll([]string{"a", "b", "a", "b", "c"})
	if len(found) != 1 || len(missing) != 2 || missing[0] != "b" || missing[1] != "c" {
		t.Errorf("found %v, missing %v", found, missing)
	}
}

func TestCacheEvictsBeyondItsCapacity(t *testing.T) {
	m := newValueCache(3)
	for _, key := range []string{"a", "b", "c", "d"} {
		m.Keep(key, timedValue{1})
	}
	if _, ok := m.Get("a"); ok {
		t.Error("four values in a memory of three")
	}
	if _, ok := m.Get("d"); !ok {
		t.Error("the newest is not there")
	}
	m.Clear()
	if _, ok := m.Get("d"); ok {
		t.Error("cleared, and still there")
	}
}

// In any order of reads and changes, a cached value is never older than a reported change.
func TestACachedValueIsNeverOlderThanAReportedChange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newValueCache(4)
		reported := 0
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			moment := rapid.IntRange(1, 20).Draw(t, "at")
			if rapid.Bool().Draw(t, "change") {
				m.RecordChange("a", timeAtSecond(moment))
				reported = max(reported, moment)
			} else {
				m.Keep("a", timedValue{moment})
			}
			if got, ok := m.Get("a"); ok && got.changedAtSecond < reported {
				t.Fatalf("remembers %d after the change at %d", got.changedAtSecond, reported)
			}
		}
	})
}
