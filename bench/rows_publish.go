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
	famousAuthorID  = 1 // the user ID of the author with many followers
	obscureAuthorID = 2 // the user ID of the author with few followers
	firstFollowerID = 3 // the user ID of the first follower
)

// seedFamousAndObscureAuthors makes two authors: the famous one has many followers, and the obscure one has few. Of the followers, the
// first ones visited today: active is how many. The others never visited.
func seedFamousAndObscureAuthors(ctx context.Context, file string, many, few, active int) error {
	if err := seedUsers(ctx, file, many+firstFollowerID-1); err != nil {
		return err
	}
	return writeOfflineDatabase(ctx, file, func(tx *sql.Tx) error {
		const follow = `INSERT INTO follows (follower, followee, since, shown)
			WITH RECURSIVE n(i) AS (SELECT ?1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1 + ?2 - 1) SELECT i, ?3, 0, TRUE FROM n`
		return execAll(ctx, tx, []sqlStatement{
			{`UPDATE users SET seen_at = 0 WHERE number >= ?1`, []any{firstFollowerID + active}},
			{follow, []any{firstFollowerID, many, famousAuthorID}},
			{follow, []any{firstFollowerID, few, obscureAuthorID}},
		})
	})
}

// publisher is one of the two authors whose mutations are compared: the famous or the obscure one.
type publisher struct {
	label   string // the name in the report
	userID  int    // of the author
	mode    string // the mode in which posts reach the followers
	results series // the times of the mutations
}

// measurePublish measures the row of publishing by a famous and by an obscure author.
func (b *bench) measurePublish(ctx context.Context) (err error) {
	p, err := b.newInstallation("publish", publishRedisDB)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.deleteRedisData(context.WithoutCancel(ctx))) }()
	many, few := b.sizes.manyUsers, b.sizes.fewUsers
	b.printProgress("publish: seeding %s followers", formatThousands(int64(many)))
	if err := seedFamousAndObscureAuthors(ctx, p.databasePath(), many, few, b.sizes.followersOfOneAuthor); err != nil {
		return err
	}
	server, err := p.start(ctx, "--huge-followers", fmt.Sprint(many))
	if err != nil {
		return err
	}
	defer server.stop()
	famous := &publisher{label: formatThousands(int64(many)) + " followers", userID: famousAuthorID, mode: "HUGE"}
	unknown := &publisher{label: formatThousands(int64(few)) + " followers", userID: obscureAuthorID, mode: "SMALL"}
	for _, author := range []*publisher{famous, unknown} {
		if err := server.api.pinMode(ctx, memberKey(author.userID), author.mode); err != nil {
			return err
		}
	}
	for round := range b.rounds + 1 {
		if round > 0 {
			b.printProgress("publish: round %d of %d", round, b.rounds)
		}
		latencies, busy := map[*publisher][]time.Duration{}, map[*publisher]time.Duration{}
		for i := range b.sizes.likedPosts {
			for _, author := range []*publisher{famous, unknown} {
				start, before := time.Now(), threadTimeOrUnknown(server.pid())
				if err := server.api.publishPost(ctx, memberKey(author.userID), postBody(i)); err != nil {
					return err
				}
				latencies[author] = append(latencies[author], time.Since(start))
				busy[author] += threadTimeOrUnknown(server.pid()) - before
			}
		}
		if err := server.api.waitForJobs(ctx); err != nil {
			return err
		}
		for author, all := range latencies {
			if slices.Sort(all); round > 0 {
				author.results = append(author.results, newSample(all, sum(all)).withServerCPU(busy[author]/time.Duration(len(all))))
			}
		}
	}
	const what = "publishing by an author with "
	b.report.resultLines = append(b.report.resultLines, resultLine{
		measurement: what + famous.label, reference: "by one with " + fmt.Sprint(few), ourFigure: formatMilliseconds(famous.results.medianLatencyP50()), referenceFigure: formatMilliseconds(unknown.results.medianLatencyP50()),
		value: ratio(float64(famous.results.medianLatencyP50()), float64(unknown.results.medianLatencyP50())), unit: "x the time", goal: atMost(1.2, "<= 1.2 x the time of the mutation"),
	})
	for _, author := range []*publisher{famous, unknown} {
		b.report.detailLines = append(b.report.detailLines, detailLine{measurement: "publishing, one after the other", label: author.label, results: author.results})
	}
	return nil
}

// publishPost publishes a post of the user with this key, by one mutation.
func (a *apiClient) publishPost(ctx context.Context, key, body string) error {
	var data any
	const mutation = `mutation($body: String!) { publishPost(input: {body: $body}) { post { id } } }`
	return a.doGraphQL(ctx, "dev:"+key, mutation, map[string]any{"body": body}, &data)
}

// pinMode pins an author's mode. It waits until the mode is in force and the followers' documents name the author.
func (a *apiClient) pinMode(ctx context.Context, key, mode string) error {
	var data any
	pin := fmt.Sprintf(`mutation { pinAuthorMode(input: {userId: "user:%s", mode: %s}) { author { mode } } }`, key, mode)
	if err := a.doGraphQL(ctx, adminToken, pin, nil, &data); err != nil {
		return err
	}
	for {
		now, err := a.authorMode(ctx, key)
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

// authorMode returns the mode in which an author's posts reach their followers.
func (a *apiClient) authorMode(ctx context.Context, key string) (string, error) {
	var answer struct {
		Admin struct{ Author struct{ Mode string } }
	}
	err := a.doGraphQL(ctx, adminToken, fmt.Sprintf(`{ admin { author(userId: "user:%s") { mode } } }`, key), nil, &answer)
	return answer.Admin.Author.Mode, err
}
