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

// The row of a dormant user's return: their inbox is made again from the newest posts of everyone they follow. Tidings reads them
// with one SELECT on the index of posts by author. The usual alternative is a Redis sorted set for each author, all read in one
// pipeline and merged.
const (
	outboxAuthorCount    = 200                    // how many authors the reader follows
	postsPerOutbox       = services.FeedRetention // posts of each author
	rebuildReadsPerRound = 20                     // how often the feed is read in each of the two ways in a round
	outboxReaderID       = outboxAuthorCount + 1  // the user ID of the reader
)

// seedOutboxes makes the authors and their posts, in SQL and as outboxes in Redis, which are sorted sets with the posts of one author
// each. It also makes a reader who follows all of the authors.
func seedOutboxes(ctx context.Context, file string, outboxes *redis.Client) error {
	if err := seedUsers(ctx, file, outboxReaderID); err != nil {
		return err
	}
	begin := time.Now().Add(-outboxAuthorCount * postsPerOutbox * time.Second)
	return writeOfflineDatabase(ctx, file, func(tx *database.Tx) error {
		for author := 1; author <= outboxAuthorCount; author++ {
			if _, err := tx.ExecContext(ctx, `INSERT INTO follows (follower, followee, since, shown) VALUES (?1, ?2, 0, TRUE)`, outboxReaderID, author); err != nil {
				return err
			}
			entries := make([]redis.Z, postsPerOutbox)
			for i := range postsPerOutbox {
				id := services.SortableIDAt(begin.Add(time.Duration(i*outboxAuthorCount+author) * time.Second))
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

// outboxKey returns the key of the sorted set with an author's posts.
func outboxKey(author int) string { return fmt.Sprintf("outbox:%d", author) }

// measureInboxRebuild measures the row of a dormant user's return: the feed by one SELECT, and merged from outboxes in Redis.
func (b *bench) measureInboxRebuild(ctx context.Context) (err error) {
	p, err := b.newInstallation("rebuild", rebuildRedisDB)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.deleteRedisData(context.WithoutCancel(ctx))) }()
	client, err := p.connect()
	if err != nil {
		return err
	}
	defer client.Close()
	b.printProgress("rebuild: seeding %s posts", formatThousands(outboxAuthorCount*postsPerOutbox))
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
		{"one SELECT over the index of posts by author", func(ctx context.Context) ([]services.PostID, error) { return selectNewestPosts(ctx, facts) }, &series{}},
		{"200 outboxes in one pipeline, merged", func(ctx context.Context) ([]services.PostID, error) { return mergeOutboxes(ctx, client) }, &series{}},
	}
	var first []services.PostID
	for round := range b.rounds + 1 {
		for _, way := range ways {
			var latencies []time.Duration
			for range rebuildReadsPerRound {
				start := time.Now()
				posts, err := way.read(ctx)
				if err != nil {
					return err
				}
				latencies = append(latencies, time.Since(start))
				if first == nil {
					first = posts
				}
				if !slices.Equal(posts, first) || len(posts) != services.FeedRetention {
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
	b.report.resultLines = append(b.report.resultLines, resultLine{
		measurement: what, reference: ways[1].who, ourFigure: formatMilliseconds(ours.medianLatencyP50()) + ", one SELECT", referenceFigure: formatMilliseconds(theirs.medianLatencyP50()),
		value: ratio(float64(ours.medianLatencyP50()), float64(theirs.medianLatencyP50())), unit: "x the time", goal: atMost(1, "one round trip for the outboxes (here: no more time)"),
	})
	for _, way := range ways {
		b.report.detailLines = append(b.report.detailLines, detailLine{measurement: what, label: way.who, results: *way.values})
	}
	return nil
}

// selectNewestPosts reads the newest posts of the reader's feed from SQL, by one SELECT: the one by which Tidings reads a feed there.
func selectNewestPosts(ctx context.Context, facts *sql.DB) (newest []services.PostID, err error) {
	entries, err := posts.HomeFeed(ctx, facts, outboxReaderID, services.MaxPostID, services.FeedRetention)
	for _, entry := range entries {
		newest = append(newest, entry.Post)
	}
	return newest, err
}

// mergeOutboxes reads the reader's feed from the outboxes: from each sorted set as many IDs as a whole feed may need, of which it keeps
// the newest. IDs as texts sort by time.
func mergeOutboxes(ctx context.Context, client *redis.Client) (posts []services.PostID, err error) {
	commands, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for author := 1; author <= outboxAuthorCount; author++ {
			pipe.ZRevRange(ctx, outboxKey(author), 0, services.FeedRetention-1)
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
	for _, text := range all[:services.FeedRetention] {
		post, err := services.ParseSortableID(text)
		if err != nil {
			return nil, err
		}
		posts = append(posts, services.PostID(post))
	}
	return posts, nil
}
