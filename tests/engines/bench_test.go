package engines

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// eachEngine runs a benchmark on both engines, each time on a new database.
func eachEngine(b *testing.B, run func(b *testing.B, s *sql.DB)) {
	b.Run("sqlite", func(b *testing.B) { run(b, sqltest.Open(b, sql.Config{URL: sqltest.SQLite(b)})) })
	b.Run("postgres", func(b *testing.B) { run(b, sqltest.Open(b, sql.Config{URL: sqltest.Postgres(b)})) })
}

// BenchmarkWrite publishes posts from several callers at once. If the callers share the wait for the disk, each post is cheaper
// with more callers.
func BenchmarkWrite(b *testing.B) {
	for _, callers := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			eachEngine(b, func(b *testing.B, db *sql.DB) {
				var last atomic.Uint64
				b.SetParallelism(callers)
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					ctx := context.Background()
					for pb.Next() {
						id := services.PostID(last.Add(1))
						err := db.Write(ctx, func(tx *sql.Tx) error {
							if err := putPost(ctx, tx, 1, id, "hello"); err != nil {
								return err
							}
							return jobs.Enqueue(ctx, tx, jobs.NewJob{Kind: "fan-out", Key: id.String(), Payload: []byte("{}")})
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
