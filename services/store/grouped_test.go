package store_test

import (
	"errors"
	"testing"

	"tidings/services/jobs"
	"tidings/services/store"
)

// Jobs of one group that are committed together are one, without those of a part that failed.
func TestGroupedJobsAreOne(t *testing.T) {
	each(t, func(b *bundle) {
		grouped := func(kind, group, name string) jobs.NewJob {
			return jobs.NewJob{Kind: kind, Group: group, Payload: []byte(name)}
		}
		broken := errors.New("broken")
		errs := b.WriteAll(b.ctx, []func(*store.Tx) error{
			func(tx *store.Tx) error {
				return jobs.Enqueue(b.ctx, tx.Tx, grouped("a", "1", "one"), grouped("a", "2", "two"))
			},
			func(tx *store.Tx) error {
				if err := jobs.Enqueue(b.ctx, tx.Tx, grouped("a", "1", "never"), job("nor this", "")); err != nil {
					return err
				}
				return broken
			},
			func(tx *store.Tx) error {
				return jobs.Enqueue(b.ctx, tx.Tx, job("by itself", ""), grouped("a", "1", "three"), grouped("b", "1", "four"), grouped("a", "1", "five"))
			},
		})
		if errs[0] != nil || !errors.Is(errs[1], broken) || errs[2] != nil {
			b.t.Errorf("the parts: %v", errs)
		}
		equal(b.t, names(b.claim(10, "a")), []string{"by itself", "one\nthree\nfive", "two"})
		equal(b.t, names(b.claim(10, "b")), []string{"four"})
		b.enqueue(grouped("a", "1", "alone"))
		equal(b.t, names(b.claim(10, "a")), []string{"alone"})
		if errs := b.WriteAll(b.ctx, []func(*store.Tx) error{func(tx *store.Tx) error {
			_ = jobs.Enqueue(b.ctx, tx.Tx, grouped("a", "1", "undone")) // it never fails: the job is added later
			return broken
		}}); !errors.Is(errs[0], broken) {
			b.t.Errorf("a part alone: %v", errs)
		}
		equal(b.t, len(b.claim(10, "a")), 0)
	})
}

// A fact whose job cannot be added is rolled back with all others of its commit, and every caller gets the error.
func TestNoFactWithoutItsGroupedJob(t *testing.T) {
	each(t, func(b *bundle) {
		fact := func(key string) func(*store.Tx) error {
			return func(tx *store.Tx) error {
				if _, err := tx.EnsureUsers(b.ctx, []string{key}); err != nil {
					return err
				}
				return jobs.Enqueue(b.ctx, tx.Tx, jobs.NewJob{Kind: "a", Group: "1", Payload: []byte(key)})
			}
		}
		noQueue := func(tx *store.Tx) error { return tx.Exec(b.ctx, "ALTER TABLE jobs RENAME TO gone") }
		for i, err := range b.WriteAll(b.ctx, []func(*store.Tx) error{fact("alice"), noQueue, fact("bob")}) {
			if err == nil {
				b.t.Errorf("part %d stands without its job", i)
			}
		}
		equal(b.t, len(must(b.UserIDs(b.ctx, []string{"alice", "bob"}))(b.t)), 0)
		b.write(fact("alice"))
		equal(b.t, names(b.claim(10, "a")), []string{"alice"})
	})
}
