package rdb

import (
	"testing"
	"time"

	"tidings/services"
	"tidings/services/redis"
	"tidings/services/redis/redistest"
)

// BenchmarkDelivery measures how long it takes to add a post to one full inbox, by the script of AddToInboxes and, for comparison, by
// a ZADD of the same member alone.
func BenchmarkDelivery(b *testing.B) {
	const readers, author = 500, services.UserID(9)
	c, err := Open(b.Context(), redis.Options{URL: redistest.Redis(b), DataDir: b.TempDir()}, DocumentShape{})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	begin := time.Now().Add(-time.Hour)
	entries := make([]services.FeedEntry, services.FeedRetention+20)
	for i := range entries {
		entries[i] = services.FeedEntry{Post: services.PostID(services.SortableIDAt(begin.Add(time.Duration(i) * time.Second))), Author: author, CountsAsNew: true}
	}
	users := make([]services.UserID, readers)
	for i := range users {
		users[i] = services.UserID(100 + i)
	}
	stamps, err := c.BeginRebuild(b.Context(), users, RebuildMode{IsVisit: true})
	if err != nil {
		b.Fatal(err)
	}
	for i, user := range users {
		if _, err := c.EndRebuild(b.Context(), FeedFacts{Reader: user, Stamp: stamps[i], IsVisit: true, Entries: entries, KeyLifetime: time.Hour}); err != nil {
			b.Fatal(err)
		}
		if err := c.Client.Commands().Copy(b.Context(), inboxKey(user), inboxKey(user)+"raw", 0, true).Err(); err != nil {
			b.Fatal(err)
		}
	}
	next := time.Now()
	b.Run("script", func(b *testing.B) {
		stamp, err := c.Client.Now(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		adds := make([]InboxPost, readers)
		for n := 0; n < b.N; n += readers {
			next = next.Add(time.Millisecond)
			for i, user := range users {
				adds[i] = InboxPost{Reader: user, Entry: services.FeedEntry{Post: services.PostID(services.SortableIDAt(next)), Author: author, CountsAsNew: true}}
			}
			results, err := c.AddToInboxes(b.Context(), stamp, adds)
			if err != nil || results[0].Status != redis.Applied {
				b.Fatal(results[0], err)
			}
		}
	})
	b.Run("ZADD", func(b *testing.B) {
		for n := 0; n < b.N; n += readers {
			next = next.Add(time.Millisecond)
			member := entryText(services.FeedEntry{Post: services.PostID(services.SortableIDAt(next)), Author: author, CountsAsNew: true})
			_, err := c.Client.Commands().Pipelined(b.Context(), func(p redis.Pipeliner) error {
				for _, user := range users {
					p.ZAdd(b.Context(), inboxKey(user)+"raw", redis.Z{Member: member})
				}
				return nil
			})
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}
