package faults

import (
	"fmt"
	"testing"

	"tidings/services/redis/redistest"
	"tidings/tests/world"
)

// A node that starts while Redis is down serves requests: its mutations are kept, and counts are read from SQL and marked as STALE. Once
// Redis answers, the counts are exact, and open subscriptions get pushes again.
func TestNodeStartsWithoutRedis(t *testing.T) {
	server := redistest.NewServer(t)
	server.Kill()
	p := world.StartServingProcess(t, "", "--data", t.TempDir(), "--redis", server.URL())
	mutation := func(as, query string) {
		t.Helper()
		if err := world.Ask(p.URL, as, query, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	shown := func() (got world.Badges) {
		t.Helper()
		var data struct{ Viewer struct{ Badges world.Badges } }
		if err := world.Ask(p.URL, "reader", `{viewer{badges{`+world.BadgeFields+`}}}`, nil, &data); err != nil {
			t.Fatal(err)
		}
		return data.Viewer.Badges
	}
	mutation("author", `{viewer{user{key}}}`) // a user's own token creates the user
	mutation("reader", `mutation{follow(input:{userId:"user:author"}){user{id}}}`)
	mutation("author", `mutation{publishPost(input:{body:"one"}){post{id}}}`)
	if got := shown(); got.HomeFeed.Value != 1 || got.HomeFeed.Precision != "STALE" {
		t.Errorf("without Redis %+v, want 1 and STALE", got.HomeFeed)
	}
	var page struct {
		Viewer struct {
			HomeFeed struct{ Edges []struct{ Cursor string } }
		}
	}
	if err := world.Ask(p.URL, "reader", `{viewer{homeFeed{edges{cursor}}}}`, nil, &page); err != nil || len(page.Viewer.HomeFeed.Edges) != 1 {
		t.Errorf("without Redis the feed is %+v, %v", page, err)
	}
	device := world.OpenBadgeSubscription(t, p.URL, "reader")
	server.Start()
	exactly := func(want int) {
		t.Helper()
		world.EventuallySucceeds(t, world.RedisLossRecoveryTimeout, func() error {
			if got := shown(); got.HomeFeed.Value != want || got.Total.Precision != "EXACT" {
				return fmt.Errorf("%+v of %+v, want %d", got.HomeFeed, got.Total, want)
			}
			return nil
		})
	}
	exactly(1)
	mutation("author", `mutation{publishPost(input:{body:"two"}){post{id}}}`)
	exactly(2)
	device.WaitCounts(t, world.RedisLossRecoveryTimeout, 2, 0)
	p.WaitForJobs(world.RedisLossRecoveryTimeout)
}
