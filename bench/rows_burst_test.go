package main

import (
	"fmt"
	"maps"
	"testing"
)

// The events of a burst have the kinds that burstEvents documents. No user follows themselves, because a server would refuse
// that.
func TestBurstEventsHaveTheDocumentedKinds(t *testing.T) {
	const count, people = 1000, 50
	posts := []string{"post:1", "post:2", "post:3"}
	for round := range 5 {
		kinds := map[string]int{}
		for _, one := range burstEvents(count, people, posts, round) {
			for mutation, input := range one["do"].(map[string]any) {
				kinds[mutation]++
				if fields := input.(map[string]any); mutation == "follow" && fields["userId"] == one["as"] {
					t.Errorf("%v follows themselves", one["as"])
				}
			}
		}
		if want := map[string]int{"likePost": 500, "follow": 200, "publishPost": 300}; !maps.Equal(kinds, want) {
			t.Errorf("%v, want %v", kinds, want)
		}
	}
	first, second := fmt.Sprint(burstEvents(count, people, posts, 0)), fmt.Sprint(burstEvents(count, people, posts, 1))
	if first == second {
		t.Error("two rounds send the same events, which change nothing the second time")
	}
}
