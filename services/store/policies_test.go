package store_test

import (
	"sync"
	"testing"

	"tidings/services"
	"tidings/services/store"
)

func TestPolicies(t *testing.T) {
	each(t, func(b *bundle) {
		users := b.users("alice", "bob")
		policy, err := b.Policy(b.ctx, users[0])
		if err != nil {
			b.t.Fatal(err)
		}
		equal(b.t, policy, services.DisplayPolicy{})
		want := services.DisplayPolicy{
			Version: 1, OutOfTotal: map[services.Source]bool{services.SourceHomeFeed: true},
			AsDot: map[services.Source]bool{services.SourceConversations: true}, QuietFrom: 1320, QuietTo: 420, OffsetEast: -90,
		}
		b.write(func(tx *store.Tx) error {
			got, err := tx.ChangePolicy(b.ctx, users[0], func(p *services.DisplayPolicy) error {
				version := p.Version
				*p = want
				p.Version = version
				return nil
			})
			equal(b.t, got, want)
			return err
		})
		if policy, err = b.Policy(b.ctx, users[0]); err != nil {
			b.t.Fatal(err)
		}
		equal(b.t, policy, want)
		err = b.Write(b.ctx, func(tx *store.Tx) error {
			_, err := tx.ChangePolicy(b.ctx, users[0], func(p *services.DisplayPolicy) error {
				p.OutOfTotal = nil
				return errMine
			})
			return err
		})
		if err != errMine {
			b.t.Errorf("a refused change: %v", err)
		}
		if policy, err = b.Policy(b.ctx, users[0]); err != nil {
			b.t.Fatal(err)
		}
		equal(b.t, policy, want)
		if policy, err = b.Policy(b.ctx, users[1]); err != nil {
			b.t.Fatal(err)
		}
		equal(b.t, policy, services.DisplayPolicy{})
	})
}

// Two devices that change different things at once: both changes stand, and the version counts them.
func TestPoliciesAreChangedOneAfterTheOther(t *testing.T) {
	each(t, func(b *bundle) {
		user := b.users("alice")[0]
		var together sync.WaitGroup
		for _, source := range services.Sources {
			together.Go(func() {
				err := b.Write(b.ctx, func(tx *store.Tx) error {
					_, err := tx.ChangePolicy(b.ctx, user, func(p *services.DisplayPolicy) error {
						if p.AsDot == nil {
							p.AsDot = map[services.Source]bool{}
						}
						p.AsDot[source] = true
						return nil
					})
					return err
				})
				if err != nil {
					b.t.Error(err)
				}
			})
		}
		together.Wait()
		policy, err := b.Policy(b.ctx, user)
		if err != nil || policy.Version != uint64(len(services.Sources)) || len(policy.AsDot) != len(services.Sources) {
			b.t.Errorf("%+v, %v", policy, err)
		}
	})
}
