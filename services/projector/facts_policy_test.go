package projector

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"tidings/services"
	"tidings/services/people/peopletest"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

var errTest = errors.New("mine") // an error that a test returns from its own function

func TestPolicies(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		users := b.MakeUsers("alice", "bob")
		policy, err := Policy(b.Ctx, b.DB, users[0])
		if err != nil {
			b.T.Fatal(err)
		}
		sqltest.Equal(b.T, policy, services.DisplayPolicy{})
		want := services.DisplayPolicy{
			Version: 1, InTotalInverted: map[services.Source]bool{services.SourceHomeFeed: true},
			AsDot: map[services.Source]bool{services.SourceConversations: true}, QuietFromMinute: 1320, QuietToMinute: 420, UTCOffsetMinutes: -90,
		}
		b.MustWrite(func(tx *sql.Tx) error {
			got, err := ChangePolicy(b.Ctx, tx, users[0], func(p *services.DisplayPolicy) error {
				version := p.Version
				*p = want
				p.Version = version
				return nil
			})
			sqltest.Equal(b.T, got, want)
			return err
		})
		if policy, err = Policy(b.Ctx, b.DB, users[0]); err != nil {
			b.T.Fatal(err)
		}
		sqltest.Equal(b.T, policy, want)
		err = b.Write(b.Ctx, func(tx *sql.Tx) error {
			_, err := ChangePolicy(b.Ctx, tx, users[0], func(p *services.DisplayPolicy) error {
				p.InTotalInverted = nil
				return errTest
			})
			return err
		})
		if err != errTest {
			b.T.Errorf("a refused change: %v", err)
		}
		if policy, err = Policy(b.Ctx, b.DB, users[0]); err != nil {
			b.T.Fatal(err)
		}
		sqltest.Equal(b.T, policy, want)
		if policy, err = Policy(b.Ctx, b.DB, users[1]); err != nil {
			b.T.Fatal(err)
		}
		sqltest.Equal(b.T, policy, services.DisplayPolicy{})
	})
}

// Several devices change different parts at once: all changes are kept, and the version counts each.
func TestPoliciesAreChangedOneAfterTheOther(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		user := b.MakeUsers("alice")[0]
		var together sync.WaitGroup
		for _, source := range services.Sources {
			together.Go(func() {
				err := b.Write(b.Ctx, func(tx *sql.Tx) error {
					_, err := ChangePolicy(b.Ctx, tx, user, func(p *services.DisplayPolicy) error {
						if p.AsDot == nil {
							p.AsDot = map[services.Source]bool{}
						}
						p.AsDot[source] = true
						return nil
					})
					return err
				})
				if err != nil {
					b.T.Error(err)
				}
			})
		}
		together.Wait()
		policy, err := Policy(b.Ctx, b.DB, user)
		if err != nil || policy.Version != uint64(len(services.Sources)) || len(policy.AsDot) != len(services.Sources) {
			b.T.Errorf("%+v, %v", policy, err)
		}
	})
}

// A change leaves the choices of sources that only a newer node knows.
func TestAChangedPolicyKeepsUnknownSources(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		user := b.MakeUsers("alice")[0]
		unknown, later := int64(1)<<len(services.Sources), int64(1)<<40
		change := func(source services.Source) {
			b.MustWrite(func(tx *sql.Tx) error {
				_, err := ChangePolicy(b.Ctx, tx, user, func(p *services.DisplayPolicy) error {
					p.InTotalInverted, p.AsDot = map[services.Source]bool{source: true}, nil
					return nil
				})
				return err
			})
		}
		change(services.SourceHomeFeed)
		b.MustWrite(func(tx *sql.Tx) error {
			_, err := sqltest.QueryLines(b.Ctx, tx, "UPDATE display_policies SET out_of_total = out_of_total + $1, as_dot = $2", unknown, later)
			return err
		})
		change(services.SourceNotifications)
		got := sqltest.Must(sqltest.QueryLines(b.Ctx, b, "SELECT out_of_total, as_dot FROM display_policies"))(b.T)
		sqltest.Equal(b.T, got, []string{fmt.Sprint(unknown+int64(services.PackSources(map[services.Source]bool{services.SourceNotifications: true})), later)})
		policy, err := Policy(b.Ctx, b.DB, user)
		if err != nil || policy.Version != 2 || len(policy.InTotalInverted) != 1 || len(policy.AsDot) != 0 {
			b.T.Errorf("%+v, %v", policy, err)
		}
	})
}
