package main

import (
	"slices"
	"testing"
)

func TestFollowMixturesHaveReadersOfTheirOwn(t *testing.T) {
	want := []followMixture{{10, 0}, {10, 5}, {200, 0}, {200, 5}, {200, 50}, {2000, 0}, {2000, 5}, {2000, 50}}
	if got := allFollowMixtures(); !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	keys := map[string]bool{}
	for _, m := range allFollowMixtures() {
		for _, key := range mixtureReaderKeys(m, 3) {
			keys[key] = true
		}
	}
	if len(keys) != 3*len(want) {
		t.Errorf("%d readers, want %d", len(keys), 3*len(want))
	}
}
