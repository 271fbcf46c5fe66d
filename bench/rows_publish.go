package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"
)

// The row of publishing: the cost of the mutation for an author with a million followers, compared with an author with ten. The posts
// of the first author are pulled. The row checks this by a query of an operator.
const (
	famousAuthor    = 1 // the user IDs of the authors
	unknownAuthor   = 2
	firstOfAudience = 3 // the user ID of the first follower
)

// seedAudience makes two authors: the famous one has many followers, the unknown one has few. The first followers visited today, as many
// as active says. The others never visited.
func seedAudience(ctx context.Context, file string, many, few, active int) error {
	if err := seedUsers(ctx, file, many+firstOfAudience-1); err != nil {
		return err
	}
	return writeStore(ctx, file, func(tx *sql.Tx) error {
		const follow = `INSERT INTO follows (follower, followee, since, shown)
			WITH RECURSIVE n(i) AS (SELECT ?1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1 + ?2 - 1) SELECT i, ?3, 0, TRUE FROM n`
		return execAll(ctx, tx, []write{
			{`UPDATE users SET seen_at = 0 WHERE number >= ?1`, []any{firstOfAudience + active}},
			{follow, []any{firstOfAudience, many, famousAuthor}},
			{follow, []any{firstOfAudience, few, unknownAuthor}},
		})
	})
}

// publisher is one of the two authors.
type publisher struct {
	who    string
	number int    // the user ID
	mode   string // the mode in which posts reach the followers
	values series
}

func (b *bench) measurePublish(ctx context.Context) (err error) {
	p, err := b.newSite("publish", publishDatabase)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.deleteRedisData(context.WithoutCancel(ctx))) }()
	many, few := b.sizes.users, b.sizes.few
	b.say("publish: seeding %s followers", formatThousands(int64(many)))
	if err := seedAudience(ctx, p.databasePath(), many, few, b.sizes.readersOfOne); err != nil {
		return err
	}
	server, err := p.start(ctx, "--huge-followers", fmt.Sprint(many))
	if err != nil {
		return err
	}
	defer server.stop()
	famous := &publisher{who: formatThousands(int64(many)) + " followers", number: famousAuthor, mode: "HUGE"}
	unknown := &publisher{who: formatThousands(int64(few)) + " followers", number: unknownAuthor, mode: "SMALL"}
	for _, author := range []*publisher{famous, unknown} {
		if err := server.api.pinMode(ctx, member(author.number), author.mode); err != nil {
			return err
		}
	}
	for round := range b.rounds + 1 {
		if round > 0 {
			b.say("publish: round %d of %d", round, b.rounds)
		}
		latencies := map[*publisher][]time.Duration{}
		for i := range b.sizes.posts {
			for _, author := range []*publisher{famous, unknown} {
				start := time.Now()
				if err := server.api.publish(ctx, member(author.number), postBody(i)); err != nil {
					return err
				}
				latencies[author] = append(latencies[author], time.Since(start))
			}
		}
		if err := server.api.waitForJobs(ctx); err != nil {
			return err
		}
		for author, all := range latencies {
			if slices.Sort(all); round > 0 {
				author.values = append(author.values, newSample(all, sum(all)))
			}
		}
	}
	const what = "publishing by an author with "
	b.report.lines = append(b.report.lines, line{
		what: what + famous.who, limit: "by one with " + fmt.Sprint(few), ours: formatMilliseconds(famous.values.p50()), theirs: formatMilliseconds(unknown.values.p50()),
		value: ratio(float64(famous.values.p50()), float64(unknown.values.p50())), unit: "x the time", goal: atMost(1.2, "<= 1.2 x the time of the mutation"),
	})
	for _, author := range []*publisher{famous, unknown} {
		b.report.details = append(b.report.details, detail{what: "publishing, one after the other", who: author.who, values: author.values})
	}
	return nil
}

// publish publishes a post of the user with this key, by one mutation.
func (a *api) publish(ctx context.Context, key, body string) error {
	var data any
	const mutation = `mutation($body: String!) { publishPost(input: {body: $body}) { post { id } } }`
	return a.do(ctx, "dev:"+key, mutation, map[string]any{"body": body}, &data)
}

// pinMode pins an author's mode. It waits until the mode is in force and the followers' documents name the author.
func (a *api) pinMode(ctx context.Context, key, mode string) error {
	var data any
	pin := fmt.Sprintf(`mutation { pinAuthorMode(input: {userId: "user:%s", mode: %s}) { author { mode } } }`, key, mode)
	if err := a.do(ctx, adminToken, pin, nil, &data); err != nil {
		return err
	}
	for {
		now, err := a.modeOf(ctx, key)
		if err != nil {
			return err
		}
		if now == mode {
			return a.waitForJobs(ctx)
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("%s is %s, and not %s: %w", key, now, mode, err)
		}
	}
}

// modeOf returns the mode in which an author's posts reach their followers.
func (a *api) modeOf(ctx context.Context, key string) (string, error) {
	var answer struct {
		Admin struct{ Author struct{ Mode string } }
	}
	err := a.do(ctx, adminToken, fmt.Sprintf(`{ admin { author(userId: "user:%s") { mode } } }`, key), nil, &answer)
	return answer.Admin.Author.Mode, err
}
