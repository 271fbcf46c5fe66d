package main

import (
	"context"
	database "database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"tidings/services"
	"tidings/services/posts"
	"tidings/services/sql"
)

// The row of a dormant user's return: their inbox is made again from the newest posts of everyone they follow. Tidings reads them with
// one SELECT on the index of posts by author. The usual alternative is a Redis sorted set for each author, all read in one pipeline and
// merged.
const (
	outboxFollowed = 200                // how many authors the reader follows
	outboxPosts    = services.Retention // posts of each author
	rebuildReads   = 20                 // in a round
	outboxReader   = outboxFollowed + 1 // the user ID of the reader
)

// seedOutboxes makes the authors and their posts, in SQL and as sorted sets in Redis, and a reader who follows all of them.
func seedOutboxes(ctx context.Context, file string, outboxes *redis.Client) error {
	if err := seedUsers(ctx, file, outboxReader); err != nil {
		return err
	}
	begin := time.Now().Add(-outboxFollowed * outboxPosts * time.Second)
	return writeStore(ctx, file, func(tx *database.Tx) error {
		for author := 1; author <= outboxFollowed; author++ {
			if _, err := tx.ExecContext(ctx, `INSERT INTO follows (follower, followee, since, shown) VALUES (?1, ?2, 0, TRUE)`, outboxReader, author); err != nil {
				return err
			}
			entries := make([]redis.Z, outboxPosts)
			for i := range outboxPosts {
				id := services.PostIDAt(begin.Add(time.Duration(i*outboxFollowed+author) * time.Second))
				_, err := tx.ExecContext(ctx, `INSERT INTO posts (id, author, kind, body, updated_at) VALUES (?1, ?2, 'POST', ?3, 0)`, int64(id), author, postBody(i))
				if err != nil {
					return err
				}
				entries[i] = redis.Z{Member: id.String()}
			}
			if err := outboxes.ZAdd(ctx, outboxKey(author), entries...).Err(); err != nil {
				return err
			}
		}
		return nil
	})
}

func outboxKey(author int) string { return fmt.Sprintf("outbox:%d", author) }

func (b *bench) measureRebuild(ctx context.Context) (err error) {
	p, err := b.newSite("rebuild", rebuildDatabase)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.deleteRedisData(context.WithoutCancel(ctx))) }()
	client, err := p.connect()
	if err != nil {
		return err
	}
	defer client.Close()
	b.say("rebuild: seeding %s posts", formatThousands(outboxFollowed*outboxPosts))
	if err := seedOutboxes(ctx, p.databasePath(), client); err != nil {
		return err
	}
	facts, err := sql.Open(ctx, sql.Config{URL: "sqlite:" + p.databasePath()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, facts.Close()) }()
	ways := []struct {
		who    string
		read   func(context.Context) ([]services.PostID, error)
		values *series
	}{
		{"one SELECT over the index of posts by author", func(ctx context.Context) ([]services.PostID, error) { return selectNewest(ctx, facts) }, &series{}},
		{"200 outboxes in one pipeline, merged", func(ctx context.Context) ([]services.PostID, error) { return mergeOutboxes(ctx, client) }, &series{}},
	}
	var first []services.PostID
	for round := range b.rounds + 1 {
		for _, way := range ways {
			var latencies []time.Duration
			for range rebuildReads {
				start := time.Now()
				posts, err := way.read(ctx)
				if err != nil {
					return err
				}
				latencies = append(latencies, time.Since(start))
				if first == nil {
					first = posts
				}
				if !slices.Equal(posts, first) || len(posts) != services.Retention {
					return fmt.Errorf("%s: the feeds differ", way.who)
				}
			}
			if slices.Sort(latencies); round > 0 {
				*way.values = append(*way.values, newSample(latencies, sum(latencies)))
			}
		}
	}
	const what = "rebuild of a dormant user's feed, 200 followed"
	ours, theirs := *ways[0].values, *ways[1].values
	b.report.lines = append(b.report.lines, line{
		what: what, limit: ways[1].who, ours: formatMilliseconds(ours.p50()) + ", one SELECT", theirs: formatMilliseconds(theirs.p50()),
		value: ratio(float64(ours.p50()), float64(theirs.p50())), unit: "x the time", goal: atMost(1, "one round trip for the outboxes (here: no more time)"),
	})
	for _, way := range ways {
		b.report.details = append(b.report.details, detail{what: what, who: way.who, values: *way.values})
	}
	return nil
}

// selectNewest reads the feed in the way of Tidings.
func selectNewest(ctx context.Context, facts *sql.DB) (newest []services.PostID, err error) {
	entries, err := posts.HomeFeed(ctx, facts, outboxReader, services.MaxPostID, services.Retention)
	for _, entry := range entries {
		newest = append(newest, entry.Post)
	}
	return newest, err
}

// mergeOutboxes reads the feed in the usual way: from each sorted set as many IDs as a whole feed may need, of which it keeps the
// newest. IDs as texts sort by time.
func mergeOutboxes(ctx context.Context, client *redis.Client) (posts []services.PostID, err error) {
	commands, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for author := 1; author <= outboxFollowed; author++ {
			pipe.ZRevRange(ctx, outboxKey(author), 0, services.Retention-1)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var all []string
	for _, command := range commands {
		all = append(all, command.(*redis.StringSliceCmd).Val()...)
	}
	slices.Sort(all)
	slices.Reverse(all)
	for _, text := range all[:services.Retention] {
		post, err := services.ParsePostID(text)
		if err != nil {
			return nil, err
		}
		posts = append(posts, post)
	}
	return posts, nil
}
