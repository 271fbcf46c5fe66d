package push

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

func TestSlotKeepsTheNewest(t *testing.T) {
	s := newLatestSlot[int]("")
	if sent, replaced := s.put("2", 20); !sent || replaced {
		t.Fatalf("the first put: sent %v, replaced %v", sent, replaced)
	}
	if sent, replaced := s.put("3", 30); !sent || !replaced {
		t.Errorf("a put over a value not taken: sent %v, replaced %v", sent, replaced)
	}
	for _, version := range []string{"3", "2", "1"} {
		if sent, _ := s.put(version, 0); sent {
			t.Errorf("version %s was sent after 3", version)
		}
	}
	if got := <-s.values; got != 30 {
		t.Errorf("got %d, want the newest, 30", got)
	}
	if sent, replaced := s.put("4", 40); !sent || replaced {
		t.Errorf("a put after the value was taken: sent %v, replaced %v", sent, replaced)
	}
}

func TestSlotOmitsAHeldFirstState(t *testing.T) {
	for _, test := range []struct {
		since, version string
		sent           bool
	}{
		{"", "5", true}, {"4", "5", true}, {"5", "5", false}, {"6", "5", false},
	} {
		s := newLatestSlot[int](test.since)
		if sent := s.putFirst(test.version, 1); sent != test.sent {
			t.Errorf("since %q, state %s: sent %v, want %v", test.since, test.version, sent, test.sent)
		}
		if s.isOlderThan("5") || !s.isOlderThan("50") {
			t.Errorf("since %q: isOlderThan(5) %v, isOlderThan(50) %v; want the state's own version to count", test.since, s.isOlderThan("5"), s.isOlderThan("50"))
		}
		if sent, _ := s.put("51", 2); !sent {
			t.Errorf("since %q: what follows the state was not sent", test.since)
		}
	}
}

func TestAClosedSlotAcceptsNothing(t *testing.T) {
	s := newLatestSlot[int]("")
	s.put("1", 10)
	if !s.close() || s.close() {
		t.Error("close must report the first time, and only that")
	}
	if sent, _ := s.put("2", 20); sent || s.putFirst("2", 20) || s.isOlderThan("2") {
		t.Error("a closed slot takes nothing and lacks nothing")
	}
	if value, open := <-s.values; value != 10 || !open {
		t.Errorf("got %d, %v; want the value that was put before", value, open)
	}
	if _, open := <-s.values; open {
		t.Error("the channel is not closed")
	}
}

// In any order of puts and takes, the taken versions rise, and a take gets the newest put.
func TestSlotHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newLatestSlot[int]("")
		newest, last := -1, -1
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "put") {
				version := rapid.IntRange(0, 99).Draw(t, "version")
				sent, _ := s.put(fmt.Sprintf("%02d", version), version)
				if sent != (version > newest) {
					t.Fatalf("put %d after %d: sent %v", version, newest, sent)
				}
				newest = max(newest, version)
				continue
			}
			select {
			case got := <-s.values:
				if got <= last || got != newest {
					t.Fatalf("took %d after %d, newest is %d", got, last, newest)
				}
				last = got
			default:
				if last != newest {
					t.Fatalf("nothing to take, but %d was put and %d taken last", newest, last)
				}
			}
		}
	})
}
