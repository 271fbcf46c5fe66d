package jobs_test

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/sql"
)

// A request is remembered by its scope and key for idempotencyRetention. Until then the key cannot be used for another request.
func TestIdempotencyKeys(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		remember := func(scope, key string, hash []byte, ids ...string) error {
			return b.Write(b.Ctx, func(tx *sql.Tx) error {
				return jobs.RememberRequest(b.Ctx, tx, scope, key, jobs.RememberedRequest{InputHash: hash, IDs: ids})
			})
		}
		recall := func(scope, key string) (hash []byte, ids []string, found bool) {
			b.MustWrite(func(tx *sql.Tx) error {
				had, known, err := jobs.RecallRequest(b.Ctx, tx, scope, key)
				hash, ids, found = had.InputHash, had.IDs, known
				return err
			})
			return hash, ids, found
		}
		_, _, found := recall("alice", "k")
		equal(b.T, found, false)
		if err := errors.Join(remember("alice", "k", []byte{0, 1}, `post:"1"`, "post:2"), remember("bob", "k", nil)); err != nil {
			b.T.Fatal(err)
		}
		hash, ids, found := recall("alice", "k")
		equal(b.T, []any{hash, ids, found}, []any{[]byte{0, 1}, []string{`post:"1"`, "post:2"}, true})
		hash, ids, found = recall("bob", "k")
		equal(b.T, []any{bytes.Equal(hash, nil), len(ids), found}, []any{true, 0, true})

		b.Clock.Advance(jobs.IdempotencyRetention - time.Microsecond)
		err := remember("alice", "k", []byte{2}, "post:3")
		wantCode(b.T, err, services.Unavailable)
		if !errors.Is(err, jobs.ErrKeyExists) {
			b.T.Errorf("the error is %v", err)
		}
		_, _, found = recall("alice", "k")
		equal(b.T, found, true)

		b.Clock.Advance(time.Microsecond)
		_, _, found = recall("alice", "k")
		equal(b.T, found, false)
		if err := remember("alice", "k", []byte{2}, "post:3"); err != nil {
			b.T.Fatal(err)
		}
		hash, ids, found = recall("alice", "k")
		equal(b.T, []any{hash, ids, found}, []any{[]byte{2}, []string{"post:3"}, true})

		equal(b.T, must(jobs.ForgetIdempotencyKeys(b.Ctx, b.DB, b.Clock.Now()))(b.T), 1) // bob's
		equal(b.T, must(jobs.ForgetIdempotencyKeys(b.Ctx, b.DB, b.Clock.Now().Add(1)))(b.T), 0)
		equal(b.T, must(jobs.ForgetIdempotencyKeys(b.Ctx, b.DB, b.Clock.Now().Add(time.Second)))(b.T), 1)
	})
}

// Requests with one key arrive together. One request takes effect; the other requests wait for it and then return its answer.
func TestIdempotencyKeysAtOnce(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		const requests = 8
		var all sync.WaitGroup
		answers := make([]string, requests)
		for n := range requests {
			all.Go(func() {
				err := b.Write(b.Ctx, func(tx *sql.Tx) error {
					err := jobs.RememberRequest(b.Ctx, tx, "alice", "k", jobs.RememberedRequest{})
					if errors.Is(err, jobs.ErrKeyExists) {
						had, found, err := jobs.RecallRequest(b.Ctx, tx, "alice", "k")
						answers[n] = fmt.Sprint(had.IDs, found)
						return err
					}
					id := services.PostID(100 + n)
					answers[n] = fmt.Sprint([]string{id.String()}, true)
					return errors.Join(err, jobs.Enqueue(b.Ctx, tx, jobs.NewJob{Kind: "a", Key: id.String()}), jobs.RememberIDs(b.Ctx, tx, "alice", "k", []string{id.String()}))
				})
				if err != nil {
					b.T.Error(err)
				}
			})
		}
		all.Wait()
		made := b.claim(requests, "a")
		equal(b.T, len(made), 1)
		for _, answer := range answers {
			equal(b.T, answer, "["+made[0].Key+"] true")
		}
	})
}
