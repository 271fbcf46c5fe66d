package projector

import (
	"context"

	"tidings/services"
	"tidings/services/people"
	"tidings/services/sql"
)

// Arrival writes a feature's own data when a user visits. It runs in the transaction that records the visit, and before the
// visit is recorded, so it still reads the time of the previous visit. It may be repeated.
type Arrival func(ctx context.Context, tx *sql.Tx, user services.UserID) error

// OnArrival registers an arrival. All features register theirs before the first visit.
func (p *Projector) OnArrival(write Arrival) { p.arrivals = append(p.arrivals, write) }

// Arrive records a visit, which makes the user active, and runs every feature's Arrival.
func (p *Projector) Arrive(ctx context.Context, user services.UserID) error {
	return p.store.Write(ctx, func(tx *sql.Tx) error {
		for _, write := range p.arrivals {
			if err := write(ctx, tx, user); err != nil {
				return err
			}
		}
		return people.MarkActive(ctx, tx, []services.UserID{user})
	})
}
