package model

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"tidings/services/redis/redistest"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// maxReadTime is the longest that a read may take, in one of three tries, on a machine that is busy with other tests. On a quiet
// machine a read takes less than 300 ms.
const maxReadTime = 3 * time.Second

// While Redis hangs, every kind of read is answered from SQL within maxReadTime, also the first ones, which wait for Redis in vain. So
// no reader waits until the time limits of other readers have passed.
func TestReadsDoNotWaitForARedisThatHangs(t *testing.T) {
	reads := map[string]string{
		"badges":        `{viewer{badges{` + world.BadgeFields + `}}}`,
		"home feed":     `{viewer{homeFeed(first:20){edges{node{body author{name}}}}}}`,
		"live board":    `{viewer{liveBoard(first:20){edges{node{title host{name}}}}}}`,
		"notifications": `{viewer{notifications(first:20){edges{node{id category}}}}}`,
		"conversations": `{viewer{conversations(first:20){edges{node{id title unread{value}}}}}}`,
		"views":         `{viewer{views(codes:["news"],first:20){edges{node{__typename}}}}}`,
		"whole screen": `{viewer{badges{total{value}} homeFeed(first:20){edges{node{body author{name}}}} liveBoard(first:5){edges{node{title}}}
			views(codes:["news"]){edges{node{__typename}}}}}`,
	}
	// If readers waited for Redis one after the other, the last one would wait for 16 time limits, which is longer than maxReadTime.
	// With many more readers a slow machine takes that long anyway.
	const readers = 16
	server := redistest.NewServer(t)
	n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: server.URL()})
	for i := range readers {
		reader := fmt.Sprint("reader", i)
		n.Follow(reader, "author")
		n.MustAsk(reader, `mutation{touchView(input:{code:"news",key:"town"}){__typename}}`, nil, nil)
		n.Badges(reader)
	}
	n.Publish("author", "one")
	for kind, query := range reads {
		t.Run(kind, func(t *testing.T) {
			// On a busy machine the test may get no processor for a while. So each kind of read has three tries: readers that wait
			// one after the other are too slow in all of them.
			var longest time.Duration
			for range 3 {
				if longest = longestReadWhileRedisHangs(t, n, server, readers, query); longest <= maxReadTime || t.Failed() {
					break
				}
			}
			if longest > maxReadTime {
				t.Errorf("a read took %v, at most %v is allowed", longest, maxReadTime)
			}
		})
	}
}

// longestReadWhileRedisHangs lets all readers read at once while Redis hangs, four times each, and returns the time of the slowest read.
func longestReadWhileRedisHangs(t *testing.T, n *world.Node, server *redistest.Server, readers int, query string) (longest time.Duration) {
	t.Helper()
	for i := range readers {
		n.MustAsk(fmt.Sprint("reader", i), query, nil, nil)
	}
	server.Pause()
	defer waitExactBadges(n)
	defer server.Resume()
	const turns = 4 // reads of each reader, one after the other
	var took [turns][]time.Duration
	for turn := range turns {
		took[turn] = make([]time.Duration, readers)
	}
	var asking sync.WaitGroup
	for reader := range readers {
		asking.Go(func() {
			for turn := range turns {
				began := time.Now()
				if err := world.Ask(n.URL, fmt.Sprint("reader", reader), query, nil, nil); err != nil {
					t.Error(err)
				}
				took[turn][reader] = time.Since(began)
			}
		})
	}
	asking.Wait()
	for turn := range turns {
		slowest := slices.Max(took[turn])
		t.Logf("turn %d: the longest of %d took %v", turn, readers, slowest.Round(time.Millisecond))
		longest = max(longest, slowest)
	}
	return longest
}

// waitExactBadges waits until badges are EXACT again, which means that they come from Redis.
func waitExactBadges(n *world.Node) {
	n.TB.Helper()
	world.Eventually(n.TB, world.RedisLossRecoveryTimeout, "badges are exact again", func() bool { return n.Badges("reader0").Total.Precision == "EXACT" })
}
