package faults

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"tidings/services/redis/redistest"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// notifiedUserCount is the number of users that the host application notifies at once.
const notifiedUserCount = 10_000

// readOrdersCategoryCounts reads, as the host application, the count of each user in the category "orders".
func readOrdersCategoryCounts(url string, keys []string) (counts []int, err error) {
	var data struct {
		Users []struct {
			Badges struct {
				Total         struct{ Value int }
				Notifications struct {
					Categories []struct {
						Name  string
						Count struct{ Value int }
					}
				}
			}
		}
	}
	err = world.Ask(url, "host:ingest", `query($k:[String!]!){users(keys:$k){badges{total{value} notifications{categories{name count{value}}}}}}`, map[string]any{"k": keys}, &data)
	for i, user := range data.Users {
		count := -1 // if the node does not know the category
		for _, one := range user.Badges.Notifications.Categories {
			if one.Name == "orders" {
				count = one.Count.Value
			}
		}
		if count >= 0 && user.Badges.Total.Value != count {
			return nil, fmt.Errorf("%s has a total of %d over %d", keys[i], user.Badges.Total.Value, count)
		}
		counts = append(counts, count)
	}
	return counts, err
}

// A node is killed while it notifies 10,000 users: before its answer, after it, and in the middle of the jobs. The host application
// repeats each notification on another node, with the same idempotency key. The notification counts once for everybody, and a
// recount finds no difference.
func TestNodesKilledNotifyEverybodyOnce(t *testing.T) {
	database, redis := sqltest.Postgres(t), redistest.Redis(t)
	start := func(name string) *world.Process {
		return world.StartServingProcess(t, "", "--database", database, "--redis", redis, "--node", name)
	}
	stays, dies := start("stays"), start("dies")
	if err := world.Ask(stays.URL, "u0", `{viewer{badges{version}}}`, nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := world.Ask(dies.URL, "boss:admin", `mutation{defineCategory(input:{name:"orders",grouped:false}){created}}`, nil, nil); err != nil {
		t.Fatal(err)
	}
	world.EventuallySucceeds(t, world.DeviceUpdateTimeout, func() error { // the other node learns of the category
		counts, err := readOrdersCategoryCounts(stays.URL, []string{"u0"})
		if err == nil && counts[0] != 0 {
			err = fmt.Errorf("the count is %d", counts[0])
		}
		return err
	})
	keys, to := make([]string, notifiedUserCount), make([]string, notifiedUserCount)
	for i := range keys {
		keys[i] = fmt.Sprintf("u%d", i)
		to[i] = "user:" + keys[i]
	}
	spread := make([]string, 50)
	for i := range spread {
		spread[i] = keys[i*notifiedUserCount/len(spread)]
	}
	notify := func(url string, round int) error {
		return world.Ask(url, "host:ingest", `mutation($i:NotifyInput!){notify(input:$i){recipients}}`, map[string]any{"i": map[string]any{
			"category": "orders", "to": to, "title": "sent", "idempotencyKey": fmt.Sprint("round", round),
		}}, nil)
	}
	for round, killed := range []func(answered <-chan error){
		func(<-chan error) {}, // the kill is most likely before the answer
		func(answered <-chan error) { <-answered },
		func(answered <-chan error) {
			<-answered
			// The jobs write the users in chunks. Wait until any chunk is written, and not a certain one, because the node that was
			// killed before may still hold the leases of some.
			world.EventuallySucceeds(t, time.Minute, func() error {
				counts, err := readOrdersCategoryCounts(stays.URL, spread)
				if err == nil && !slices.Contains(counts, 3) {
					err = fmt.Errorf("the counts are %d", counts)
				}
				return err
			})
		},
	} {
		answered := make(chan error, 1)
		go func() { answered <- notify(dies.URL, round) }()
		killed(answered)
		dies.Kill()
		// The transaction of the killed node may lock the idempotency key for some seconds. The host application tries until it has an
		// answer.
		world.EventuallySucceeds(t, time.Minute, func() error { return notify(stays.URL, round) })
		dies = start("dies")
	}
	stays.WaitForJobs(time.Minute) // longer than the leases of the dead node
	for _, node := range []*world.Process{stays, dies} {
		for i := 0; i < notifiedUserCount; i += 100 {
			world.EventuallySucceeds(t, world.DeviceUpdateTimeout, func() error {
				counts, err := readOrdersCategoryCounts(node.URL, keys[i:i+100])
				for j, count := range counts {
					if count != 3 {
						return fmt.Errorf("%s counts %d", keys[i+j], count)
					}
				}
				return err
			})
		}
	}
	for i := 0; i < notifiedUserCount; i += 331 {
		wantRecountUnchanged(t, stays.URL, to[i])
	}
}

// wantRecountUnchanged recounts the badges of a user from the facts, and fails the test if a count in Redis differed from the facts.
func wantRecountUnchanged(t *testing.T, url, user string) {
	t.Helper()
	var data struct{ RecountBadges struct{ Differed []string } }
	if err := world.Ask(url, "boss:admin", `mutation($u:ID!){recountBadges(input:{userId:$u}){differed}}`, map[string]any{"u": user}, &data); err != nil {
		t.Fatal(err)
	}
	if len(data.RecountBadges.Differed) > 0 {
		t.Errorf("of %s %v differed", user, data.RecountBadges.Differed)
	}
}
