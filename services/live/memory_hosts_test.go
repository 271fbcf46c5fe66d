package live

import (
	"testing"

	"pgregory.net/rapid"

	"tidings/services"
)

// The table equals a map: every added host is found with its last value, and no other host is.
func TestTheTableOfHostsEqualsAMap(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		table, want := newHostTable(), map[services.UserID]uint64{}
		// Some IDs are next to each other, some are far apart, and some collide in one slot.
		id := rapid.Custom(func(r *rapid.T) services.UserID {
			return services.UserID(rapid.Uint32Range(1, 300).Draw(r, "n") << rapid.SampledFrom([]int{0, 0, 11, 23}).Draw(r, "shift"))
		})
		for stamp := range rapid.Uint64Range(0, 600).Draw(r, "adds") {
			one := id.Draw(r, "host")
			table.add(one).liveVersion, want[one] = stamp, stamp
		}
		for range 50 {
			one := id.Draw(r, "asked")
			if got := table.get(one); got.liveVersion != want[one] || got.shows != nil || (got.userID == one) != containsHost(want, one) {
				r.Fatalf("the host %d is %+v, want %d", one, got, want[one])
			}
		}
		if got := table.get(0); got.userID != 0 || got.liveVersion != 0 {
			r.Fatalf("nobody is %+v", got)
		}
		count := 0
		table.each(func(one *cachedHost) {
			if count++; want[one.userID] != one.liveVersion {
				r.Fatalf("of all the host %d is %+v, want %d", one.userID, one, want[one.userID])
			}
		})
		if count != len(want) || 2*count > len(table.slots) {
			r.Fatalf("%d hosts in %d slots, want %d", count, len(table.slots), len(want))
		}
	})
}

func containsHost(hosts map[services.UserID]uint64, one services.UserID) bool {
	_, known := hosts[one]
	return known
}
