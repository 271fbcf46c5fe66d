package services_test

import (
	"math"
	"testing"

	"tidings/services"
)

func TestModesHaveHysteresis(t *testing.T) {
	thresholds := services.FollowerThresholds{Big: 100, Huge: 1000}
	const small, big, huge = services.AuthorSmall, services.AuthorBig, services.AuthorHuge
	for _, c := range []struct {
		followers                    int
		fromSmall, fromBig, fromHuge services.AuthorMode // the next mode, from each present mode
	}{
		{0, small, small, small},
		{79, small, small, small},
		{80, small, big, big},
		{99, small, big, big},
		{100, big, big, big},
		{799, big, big, big},
		{800, big, big, huge},
		{999, big, big, huge},
		{1000, huge, huge, huge},
		{1 << 40, huge, huge, huge},
	} {
		for now, want := range []services.AuthorMode{c.fromSmall, c.fromBig, c.fromHuge} {
			if got := thresholds.NextMode(services.AuthorMode(now), c.followers); got != want {
				t.Errorf("an author in mode %d with %d followers comes into mode %d, want %d", now, c.followers, got, want)
			}
		}
	}
}

// Around any threshold the mode does not change at each follow: once it has risen, it stays when the audience becomes a tenth
// smaller, and falls when the audience becomes more than a fifth smaller.
func TestAnAudienceAroundAThresholdDoesNotFlip(t *testing.T) {
	for _, thresholds := range []services.FollowerThresholds{{Big: 5000, Huge: 1_000_000}, {Big: 1, Huge: 1}, {Big: 10, Huge: 10}, {Big: 1, Huge: math.MaxInt32}} {
		for _, threshold := range []int{thresholds.Big, thresholds.Huge} {
			up := thresholds.NextMode(services.AuthorSmall, threshold)
			if below := threshold - threshold/10; thresholds.NextMode(up, below) != up {
				t.Errorf("%v: in mode %d from %d followers on, and not with %d any more", thresholds, up, threshold, below)
			}
			if below := threshold*4/5 - 1; below >= 0 && thresholds.NextMode(up, below) >= up {
				t.Errorf("%v: still in mode %d with %d followers", thresholds, up, below)
			}
		}
	}
}

func TestThresholdsAreChecked(t *testing.T) {
	for _, fit := range []services.FollowerThresholds{{Big: 1, Huge: 1}, {Big: 5000, Huge: 1_000_000}, {Big: math.MaxInt32, Huge: math.MaxInt32}} {
		if err := fit.Check(); err != nil {
			t.Errorf("%v: %v", fit, err)
		}
	}
	for _, unfit := range []struct {
		services.FollowerThresholds
		says string // the text of the error
	}{
		{services.FollowerThresholds{Big: 0, Huge: 10}, "bigFollowers: 1 to 2147483647 are allowed, got 0"},
		{services.FollowerThresholds{Big: math.MaxInt32 + 1, Huge: math.MaxInt32 + 1}, "bigFollowers: 1 to 2147483647 are allowed, got 2147483648"},
		{services.FollowerThresholds{Big: 10, Huge: 9}, "hugeFollowers: bigFollowers (10) to 2147483647 are allowed, got 9"},
		{services.FollowerThresholds{Big: 10, Huge: math.MaxInt32 + 1}, "hugeFollowers: bigFollowers (10) to 2147483647 are allowed, got 2147483648"},
	} {
		if err := unfit.Check(); services.CodeOf(err) != services.Invalid || err.Error() != unfit.says {
			t.Errorf("%v: %v", unfit.FollowerThresholds, err)
		}
	}
}
