package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"tidings/services"
)

// The row of fan-out publishes posts of one author into the full inboxes of all followers. It measures the time from the mutation
// until the last inbox has the posts, and compares it with pipelined ZADDs of the same members into copies of the same inboxes.
// The row also measures Redis' memory for a full inbox, and for the document of an idle user: here a new user who has only asked for
// their badges.
const (
	zaddsPerPipeline      = 500                    // ZADDs in one pipeline
	idleUserCount         = 20                     // how many idle users are measured for each number of conversations
	fewConversations      = 2                      // conversations of an idle user
	manyConversations     = 10                     // conversations of an idle user who is in more of them
	inboxBytesGoal        = 12 << 10               // bytes: the goal for a full inbox
	idleUserBytesGoal     = 400                    // bytes: the goal for an idle user's document
	conversationBytesGoal = 40                     // bytes: the goal for each further conversation
	fullInboxEntries      = services.FeedRetention // how many posts a full inbox has
)

// seedFollowers makes the famous author with more posts than a full feed has, and followers who visited today.
func seedFollowers(ctx context.Context, file string, followers int) error {
	if err := seedFamousAndObscureAuthors(ctx, file, followers, 0, followers); err != nil {
		return err
	}
	return writeOfflineDatabase(ctx, file, func(tx *sql.Tx) error {
		now := time.Now().UnixMicro()
		for i := range fullInboxEntries + 50 {
			id := services.SortableIDAt(time.Now().Add(-time.Hour).Add(time.Duration(i) * time.Second))
			_, err := tx.ExecContext(ctx, `INSERT INTO posts (id, author, kind, body, updated_at) VALUES (?1, ?2, 'POST', ?3, ?4)`, int64(id), famousAuthorID, postBody(i), now)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// measureFanOut measures the rows of fan-out and of the memory of inboxes and documents.
func (b *bench) measureFanOut(ctx context.Context) (err error) {
	p, err := b.newInstallation("fanout", fanOutRedisDB)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.deleteRedisData(context.WithoutCancel(ctx))) }()
	followers := b.sizes.followersOfOneAuthor
	b.printProgress("fanout: filling %s inboxes", formatThousands(int64(followers)))
	if err := seedFollowers(ctx, p.databasePath(), followers); err != nil {
		return err
	}
	server, err := p.start(ctx)
	if err != nil {
		return err
	}
	defer server.stop()
	client, err := p.connect()
	if err != nil {
		return err
	}
	defer client.Close()
	if err := openFeeds(ctx, server.api, firstFollowerID, followers); err != nil {
		return err
	}
	var ours, raw series
	for round := range b.rounds {
		b.printProgress("fanout: round %d of %d", round+1, b.rounds)
		before := time.Now()
		result, err := b.measurePostDeliveries(ctx, server, followers)
		if err != nil {
			return err
		}
		ours = append(ours, result)
		if result, err = b.measureRawZAdds(ctx, client, followers, before); err != nil {
			return err
		}
		raw = append(raw, result)
	}
	const what = "fan-out into full inboxes"
	b.report.resultLines = append(b.report.resultLines, resultLine{
		measurement: what, reference: "raw pipelined ZADD into the same inboxes", ourFigure: formatRateAndCPU(ours), referenceFigure: formatRate(raw), value: ratio(ours.medianRate(), raw.medianRate()), unit: "x",
		goal: atLeast(0.4, ">= 0.4 x its rate"),
	})
	b.report.detailLines = append(b.report.detailLines,
		detailLine{measurement: what, label: "posts of one author, from the first mutation to the last inbox", results: ours},
		detailLine{measurement: what, label: "raw pipelined ZADD", results: raw})
	return b.reportInboxMemory(ctx, p, server, client, followers)
}

// measurePostDeliveries publishes posts of the famous author and waits until they are in the last follower's inbox. It returns the rate
// of deliveries: a delivery is one post in one inbox.
func (b *bench) measurePostDeliveries(ctx context.Context, server *program, followers int) (sample, error) {
	a, posts := server.api, b.sizes.deliveredPostsPerRound
	start, cpu := time.Now(), startCPUTimer(server.pid())
	for i := range posts {
		if err := a.publishPost(ctx, memberKey(famousAuthorID), postBody(i)); err != nil {
			return sample{}, err
		}
	}
	if err := a.waitForJobs(ctx); err != nil {
		return sample{}, err
	}
	took, each := time.Since(start), cpu(posts*followers)
	for _, number := range []int{firstFollowerID, firstFollowerID + followers - 1} {
		unread, _, err := readBadgeAndFeed(ctx, a, memberKey(number))
		if err != nil {
			return sample{}, err
		}
		if unread < posts {
			return sample{}, fmt.Errorf("%s has %d new posts, %d were just published", memberKey(number), unread, posts)
		}
	}
	return sample{ratePerSecond: float64(posts*followers) / took.Seconds(), serverCPUPerAnswer: each, bytesPerSocketOrEntry: nan}, nil
}

// measureRawZAdds copies the followers' inboxes and adds to each copy, by plain ZADDs, as many members as there were posts in the round,
// of the same length. It returns the rate of the added members.
func (b *bench) measureRawZAdds(ctx context.Context, client *redis.Client, followers int, at time.Time) (sample, error) {
	names := make([]string, followers)
	for i := range names {
		names[i] = fmt.Sprintf("raw:%d", i)
		inbox := fmt.Sprintf("{u%d}:i", firstFollowerID+i)
		if err := client.Copy(ctx, inbox, names[i], client.Options().DB, true).Err(); err != nil {
			return sample{}, err
		}
	}
	author := strings.Repeat("0", 4) + "1"
	start := time.Now()
	for post := range b.sizes.deliveredPostsPerRound {
		entry := redis.Z{Member: services.SortableIDAt(at.Add(time.Duration(post)*time.Millisecond)).String() + author + "-"}
		for first := 0; first < followers; first += zaddsPerPipeline {
			_, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
				for _, name := range names[first:min(first+zaddsPerPipeline, followers)] {
					pipe.ZAdd(ctx, name, entry)
				}
				return nil
			})
			if err != nil {
				return sample{}, err
			}
		}
	}
	took := time.Since(start)
	return sample{ratePerSecond: float64(b.sizes.deliveredPostsPerRound*followers) / took.Seconds(), serverCPUPerAnswer: -1, bytesPerSocketOrEntry: nan}, client.Unlink(ctx, names...).Err()
}

// openFeeds opens users' feeds, which makes their inboxes.
func openFeeds(ctx context.Context, a *apiClient, first, users int) error {
	for i := range users {
		if _, _, err := readBadgeAndFeed(ctx, a, memberKey(first+i)); err != nil {
			return err
		}
	}
	return nil
}

// reportInboxMemory reports the memory of a full inbox, of the document of an idle user who is in few conversations, and of each
// further conversation. It stops the server, because it writes to the server's database.
func (b *bench) reportInboxMemory(ctx context.Context, p installation, server *program, client *redis.Client, followers int) error {
	var full []float64
	for i := range min(followers, 100) {
		name := fmt.Sprintf("{u%d}:i", firstFollowerID+i)
		entries, err := client.ZCard(ctx, name).Result()
		if err != nil {
			return err
		}
		if entries <= fullInboxEntries {
			return fmt.Errorf("%s holds %d entries: it is not full", name, entries)
		}
		size, err := client.MemoryUsage(ctx, name, 0).Result()
		if err != nil {
			return err
		}
		full = append(full, float64(size))
	}
	b.report.resultLines = append(b.report.resultLines, resultLine{
		measurement: "Redis memory: a full inbox", reference: "-", value: median(full), unit: "B", goal: atMost(inboxBytesGoal, "<= 12 KB"),
	})
	server.stop()
	var sizes []float64
	for _, conversations := range []int{0, fewConversations, manyConversations} {
		size, err := b.measureIdleUserBytes(ctx, p, client, conversations)
		if err != nil {
			return err
		}
		sizes = append(sizes, size)
	}
	b.report.resultLines = append(b.report.resultLines,
		resultLine{measurement: "Redis memory: an idle user's document, in 2 conversations", reference: "-", ourFigure: formatFigure(sizes[0]) + " B in none", value: sizes[1], unit: "B", goal: atMost(idleUserBytesGoal, "<= 400 B")},
		resultLine{
			measurement: "Redis memory: each further conversation", reference: "-", value: (sizes[2] - sizes[1]) / (manyConversations - fewConversations), unit: "B", goal: atMost(conversationBytesGoal, "<= 40 B"),
		})
	return nil
}

// measureIdleUserBytes puts new users into a number of conversations. For each user it adds the sizes of two keys: the user's
// document, and the list of their conversations. It returns the median of the sums.
func (b *bench) measureIdleUserBytes(ctx context.Context, p installation, client *redis.Client, conversations int) (float64, error) {
	var readers []services.UserID
	err := writeOfflineDatabase(ctx, p.databasePath(), func(tx *sql.Tx) error {
		var made int // a development server has already made users: those of docs/tour.md
		if err := tx.QueryRowContext(ctx, `SELECT value FROM counters WHERE name = 'users'`).Scan(&made); err != nil {
			return err
		}
		for i := range idleUserCount {
			number := made + 1 + i
			readers = append(readers, services.UserID(number))
			if _, err := tx.ExecContext(ctx, `INSERT INTO users (number, key, seen_at) VALUES (?1, ?2, 0)`, number, memberKey(number)); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, `UPDATE counters SET value = ?1 WHERE name = 'users'`, made+idleUserCount)
		return err
	})
	if err == nil && conversations > 0 {
		err = seedConversations(ctx, p.databasePath(), readers, famousAuthorID, conversations)
	}
	if err != nil {
		return 0, err
	}
	server, err := p.start(ctx)
	if err != nil {
		return 0, err
	}
	defer server.stop()
	var sizes []float64
	for _, reader := range readers {
		var data any
		if err := server.api.doGraphQL(ctx, memberToken(int(reader)-1), everySourceQuery, nil, &data); err != nil {
			return 0, err
		}
		size := int64(0)
		for _, part := range []string{"b", "c"} {
			one, err := client.MemoryUsage(ctx, fmt.Sprintf("{u%d}:%s", reader, part), 0).Result()
			if err != nil && !errors.Is(err, redis.Nil) {
				return 0, err
			}
			size += one
		}
		sizes = append(sizes, float64(size))
	}
	return median(sizes), nil
}
