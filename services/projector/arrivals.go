package projector

import (
	"context"

	"tidings/services"
	"tidings/services/people"
	"tidings/services/sql"
)

// Arrival writes what a feature keeps of a user who visits, in the transaction that records the visit and before it does so:
// the time of the user's last visit is still the former one. It is safe to repeat.
type Arrival func(ctx context.Context, tx *sql.Tx, user services.UserID) error

// OnArrival adds an arrival. Those of all features are registered before the first visit.
func (p *Projector) OnArrival(write Arrival) { p.arrivals = append(p.arrivals, write) }

// Arrive records a visit of a user, who is active from then on, and writes what each feature keeps of them.
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
