package store_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"testing"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
	"tidings/services/store"
	"tidings/services/store/storetest"
)

// eachEngine runs a benchmark on both engines, each time on a new database.
func eachEngine(b *testing.B, run func(b *testing.B, s *store.Store)) {
	b.Run("sqlite", func(b *testing.B) { run(b, storetest.Open(b, sql.Config{URL: sqltest.SQLite(b)})) })
	b.Run("postgres", func(b *testing.B) { run(b, storetest.Open(b, sql.Config{URL: sqltest.Postgres(b)})) })
}

// BenchmarkWrite publishes posts from some callers at once. Where they share the wait for the disk, more callers
// make each post cheaper.
func BenchmarkWrite(b *testing.B) {
	for _, callers := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			eachEngine(b, func(b *testing.B, s *store.Store) {
				var last atomic.Uint64
				b.SetParallelism(callers)
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					ctx := context.Background()
					for pb.Next() {
						id := services.PostID(last.Add(1))
						err := s.Write(ctx, func(tx *store.Tx) error {
							if err := putPost(ctx, tx, 1, id, "hello"); err != nil {
								return err
							}
							return jobs.Enqueue(ctx, tx.Tx, jobs.NewJob{Kind: "fan-out", Key: id.String(), Payload: []byte("{}")})
						})
						if err != nil {
							b.Error(err)
							return
						}
					}
				})
			})
		})
	}
}

// BenchmarkImportFollows imports 578,006 edges among 37,700 users, users included, in batches of some rows. Each
// row is an edge both ways, as in a file of friendships.
func BenchmarkImportFollows(b *testing.B) {
	const people, friendships = 37_700, 289_003
	random := rand.New(rand.NewPCG(1, 2))
	pairs := make([][2]string, friendships)
	for i := range pairs {
		// A few are followed by very many.
		popular := int(float64(people) * random.Float64() * random.Float64() * random.Float64())
		pairs[i] = [2]string{strconv.Itoa(random.IntN(people)), strconv.Itoa(popular)}
	}
	for _, batch := range []int{1_000, 5_000, 20_000} {
		b.Run(fmt.Sprintf("rows=%d", batch), func(b *testing.B) {
			for b.Loop() {
				eachEngine(b, func(b *testing.B, s *store.Store) { importPairs(b, s, pairs, batch) })
			}
		})
	}
}

func importPairs(b *testing.B, s *store.Store, pairs [][2]string, batch int) {
	ctx := context.Background()
	for line := 0; line < len(pairs); line += batch {
		part := pairs[line:min(line+batch, len(pairs))]
		err := s.Write(ctx, func(tx *store.Tx) error {
			keys := make([]string, 0, 2*len(part))
			for _, pair := range part {
				keys = append(keys, pair[0], pair[1])
			}
			numbers, err := tx.EnsureUsers(ctx, keys)
			if err != nil {
				return err
			}
			edges := make([]services.Edge, 0, 2*len(part))
			for _, pair := range part {
				one, other := numbers[pair[0]], numbers[pair[1]]
				edges = append(edges, services.Edge{Follower: one, Followee: other, Since: 1}, services.Edge{Follower: other, Followee: one, Since: 1})
			}
			if _, err := tx.ImportFollows(ctx, edges); err != nil {
				return err
			}
			return tx.SetImportProgress(ctx, "friendships", int64(line+len(part)))
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}
