package main

import (
	"slices"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"tidings/services"
	"tidings/services/sql"
)

// selectNewestPosts and mergeOutboxes read the same feed: the newest posts of all authors, who post in turn.
func TestBothRebuildsReadTheSameFeed(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	defer client.Close()
	p := installation{dataFolder: t.TempDir()}
	if err := seedOutboxes(t.Context(), p.dataFolder+"/tidings.db", client); err != nil {
		t.Fatal(err)
	}
	facts, err := sql.Open(t.Context(), sql.Config{URL: "sqlite:" + p.dataFolder + "/tidings.db"})
	if err != nil {
		t.Fatal(err)
	}
	defer facts.Close()
	selected, err := selectNewestPosts(t.Context(), facts)
	if err != nil {
		t.Fatal(err)
	}
	merged, err := mergeOutboxes(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(selected, merged) || len(merged) != services.FeedRetention || !slices.IsSortedFunc(merged, func(a, b services.PostID) int { return int(b - a) }) {
		t.Errorf("%d and %d posts", len(selected), len(merged))
	}
}
