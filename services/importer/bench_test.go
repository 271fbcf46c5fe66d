package importer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"tidings/services"
	"tidings/services/people"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// BenchmarkImportFollows imports 578,006 edges among 37,700 users, users included, in batches of some rows. Each
// row is an edge both ways, as in a file of friendships.
func BenchmarkImportFollows(b *testing.B) {
	const users, friendships = 37_700, 289_003
	random := rand.New(rand.NewPCG(1, 2))
	pairs := make([][2]string, friendships)
	for i := range pairs {
		// A few are followed by very many.
		popular := int(float64(users) * random.Float64() * random.Float64() * random.Float64())
		pairs[i] = [2]string{strconv.Itoa(random.IntN(users)), strconv.Itoa(popular)}
	}
	for _, batch := range []int{1_000, 5_000, 20_000} {
		b.Run(fmt.Sprintf("rows=%d", batch), func(b *testing.B) {
			for b.Loop() {
				b.Run("sqlite", func(b *testing.B) { importPairs(b, sqltest.Open(b, sql.Config{URL: sqltest.SQLite(b)}), pairs, batch) })
				b.Run("postgres", func(b *testing.B) {
					importPairs(b, sqltest.Open(b, sql.Config{URL: sqltest.Postgres(b)}), pairs, batch)
				})
			}
		})
	}
}

func importPairs(b *testing.B, s *sql.DB, pairs [][2]string, batch int) {
	ctx := context.Background()
	for line := 0; line < len(pairs); line += batch {
		part := pairs[line:min(line+batch, len(pairs))]
		err := s.Write(ctx, func(tx *sql.Tx) error {
			keys := make([]string, 0, 2*len(part))
			for _, pair := range part {
				keys = append(keys, pair[0], pair[1])
			}
			numbers, err := people.Ensure(ctx, tx, keys)
			if err != nil {
				return err
			}
			edges := make([]services.Edge, 0, 2*len(part))
			for _, pair := range part {
				one, other := numbers[pair[0]], numbers[pair[1]]
				edges = append(edges, services.Edge{Follower: one, Followee: other, Since: 1}, services.Edge{Follower: other, Followee: one, Since: 1})
			}
			if _, err := people.ImportFollows(ctx, tx, edges); err != nil {
				return err
			}
			return setProgress(ctx, tx, "friendships", int64(line+len(part)))
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}
