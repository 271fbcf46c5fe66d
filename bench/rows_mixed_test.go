package main

import (
	"slices"
	"testing"
)

func TestOneOfAHundredAndOneRequestsPublishes(t *testing.T) {
	counts := make([]int, len(mixedKindNames))
	for n := range 3 * (mixedReadsPerPost + 1) {
		counts[mixedRequestKind(n)]++
	}
	if !slices.Equal(counts, []int{150, 150, 3}) {
		t.Errorf("of 303 requests %v, want 150 badge queries, 150 pages and 3 posts", counts)
	}
}
