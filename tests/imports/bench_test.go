package imports

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/feed"
	"tidings/services/importer"
	"tidings/services/people"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// BenchmarkImportFollows imports 578,006 follows among 37,700 users, users included, in batches of some rows. Each row is two follows,
// one in each direction, as in a file of friendships.
func BenchmarkImportFollows(b *testing.B) {
	const users, friendships = 37_700, 289_003
	random := rand.New(rand.NewPCG(1, 2))
	pairs := make([][2]string, friendships)
	for i := range pairs {
		// A few users have very many followers.
		popular := int(float64(users) * random.Float64() * random.Float64() * random.Float64())
		pairs[i] = [2]string{strconv.Itoa(random.IntN(users)), strconv.Itoa(popular)}
	}
	for _, batch := range []int{1_000, 5_000, 20_000} {
		b.Run(fmt.Sprintf("rows=%d", batch), func(b *testing.B) {
			for b.Loop() {
				b.Run("sqlite", func(b *testing.B) {
					importFollowPairs(b, sqltest.Open(b, sql.Config{URL: sqltest.SQLite(b)}), pairs, batch)
				})
				b.Run("postgres", func(b *testing.B) {
					importFollowPairs(b, sqltest.Open(b, sql.Config{URL: sqltest.Postgres(b)}), pairs, batch)
				})
			}
		})
	}
}

// importFollowPairs imports pairs of keys as follows in both directions.
func importFollowPairs(b *testing.B, db *sql.DB, pairs [][2]string, batch int) {
	ctx := context.Background()
	for line := 0; line < len(pairs); line += batch {
		part := pairs[line:min(line+batch, len(pairs))]
		err := db.Write(ctx, func(tx *sql.Tx) error {
			keys := make([]string, 0, 2*len(part))
			for _, pair := range part {
				keys = append(keys, pair[0], pair[1])
			}
			ids, err := people.Ensure(ctx, tx, keys)
			if err != nil {
				return err
			}
			edges := make([]services.FollowEdge, 0, 2*len(part))
			for _, pair := range part {
				one, other := ids[pair[0]], ids[pair[1]]
				edges = append(edges, services.FollowEdge{Follower: one, Followee: other, PostsCountAfter: 1}, services.FollowEdge{Follower: other, Followee: one, PostsCountAfter: 1})
			}
			_, err = people.ImportFollows(ctx, tx, edges)
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkImportPosts imports 100,000 posts with keys, of 1,000 authors, into an empty database, in batches of the default size.
func BenchmarkImportPosts(b *testing.B) {
	const lines = 100_000
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var text strings.Builder
	for i := range lines {
		fmt.Fprintf(&text, `{"key":"article-%d","author":"u%d","at":"%s","body":"The article of the number %d"}`+"\n",
			i, i%1000, began.Add(time.Duration(i)*time.Second).Format(time.RFC3339), i)
	}
	for b.Loop() {
		b.StopTimer()
		db := sqltest.Open(b, sql.Config{URL: sqltest.SQLite(b)})
		b.StartTimer()
		report, err := feed.ImportFile(b.Context(), db, services.NewIDClock(services.SystemClock{}, 1), []services.PostKind{services.PostKindPost},
			importer.Options{File: "-", Input: strings.NewReader(text.String()), Quiet: true})
		if err != nil || report.NewItems != lines {
			b.Fatal(report, err)
		}
		b.ReportMetric(float64(lines)/report.Took.Seconds(), "lines/s")
	}
}
