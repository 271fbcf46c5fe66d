package resolvers

import (
	"reflect"
	"testing"
)

// rebuildRoundTrips is the fewest round trips of a rebuild: a reader must find that the document is missing, the document must be
// stamped before its facts are read, and the facts must be written after that. The third of them also returns the written document.
const rebuildRoundTrips = 3

// The first query of badges after Redis has lost everything takes three round trips to Redis, and runs each SQL statement at most
// once.
func badgesOfEmptyRedisTakeThreeRoundTrips(t *testing.T, c *filledWorld) {
	const query = "{ viewer { badges { total { value precision } conversations { total { value precision } } notifications { total { value precision } } homeFeed { value precision } } } }"
	before := c.must("reader", query, nil)
	c.Must(c.Redis.Client.Commands().FlushAll(t.Context()).Err())
	c.statements.takeCounts()
	if after := c.must("reader", query, nil); !reflect.DeepEqual(after.valueAt("viewer"), before.valueAt("viewer")) {
		t.Errorf("the badges are %s, and were %s", after.valueAt("viewer"), before.valueAt("viewer"))
	}
	if trips := c.lastRoundTrips.Load(); trips != rebuildRoundTrips {
		t.Errorf("%d round trips to Redis, want %d", trips, rebuildRoundTrips)
	}
	for name, times := range c.statements.takeCounts() {
		if times > 1 {
			t.Errorf("the statement %q ran %d times", name, times)
		}
	}
}
