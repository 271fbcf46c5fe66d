package main

import (
	"testing"

	"tidings/services/rdb/rdbtest"
	"tidings/services/store/storetest"
)

// Redis is killed and comes back with a snapshot from before the last writes. Everything in it looks whole; none of it may
// be believed: not by who reads, not by who watches, not by what is written afterwards.
func TestRedisComesBackFromAnOlderSnapshot(t *testing.T) {
	server := rdbtest.NewServer(t)
	n := startNode(t, nodeOptions{database: storetest.SQLite(t), redis: server.URL()})
	for _, reader := range []string{"watcher", "sleeper", "looker"} {
		n.follow(reader, "author")
	}
	var ids []string
	publish := func(body string) { ids = append([]string{n.publish("author", body)}, ids...) }
	shows := func(reader string, want int) {
		t.Helper()
		eventually(t, convergence, reader+" has the badge", func() bool {
			got := n.badges(reader).HomeFeed
			return got.Value == want && got.Precision == "EXACT"
		})
	}
	publish("one")
	watch := openWatch(t, n.url, "watcher")
	watch.shows(t, convergence, 1, 0)
	shows("sleeper", 1)
	shows("looker", 1)
	server.Do("SAVE")
	publish("two")
	publish("three")
	watch.shows(t, convergence, 3, 0)
	shows("sleeper", 3)
	n.markFeedSeen("looker", "")
	shows("looker", 0)

	server.Kill()
	server.Start()
	if left := server.Do("DBSIZE"); left == int64(0) {
		t.Fatal("the snapshot is empty: nothing is tried")
	}
	right := func(reader string, want int) (precision string) {
		t.Helper()
		got := n.badges(reader).HomeFeed
		if got.Value != want {
			t.Errorf("%s has %+v, want %d", reader, got, want)
		}
		if page := n.page(reader, 10, "", ""); len(page.ids()) != 3 || page.ids()[0] != ids[0] {
			t.Errorf("%s lists %v, want %v", reader, page.ids(), ids)
		}
		return got.Precision
	}
	eventually(t, convergence, "an exact answer after right ones only", func() bool {
		sleeper, looker := right("sleeper", 3), right("looker", 0)
		return sleeper == "EXACT" && looker == "EXACT" || t.Failed()
	})
	publish("four")
	watch.shows(t, convergence, 4, 0)
	shows("sleeper", 4)
	shows("looker", 1)
}
