package projector

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/jobs"
)

// The constants say how often old rows are dropped, and how old they get. A node is hardly ever an hour behind the changelog; a node
// that was away for longer loads its caches anew.
const (
	janitorEvery       = 10 * time.Minute
	keepChangelogFor   = time.Hour
	keepIdempotencyFor = 24 * time.Hour
)

// Janitor deletes rows that SQL keeps for a limited time: the changelog after an hour, idempotency keys after a day, nodes that have been
// silent for a day, and the rows that features have registered.
type Janitor struct{ projector *Projector }

// expiringRows are a feature's rows that are kept for a limited time.
type expiringRows struct {
	name   string                                             // names the rows in errors
	forget func(ctx context.Context) (dropped int, err error) // deletes the rows that are due
}

// RegisterExpiringRows adds rows that the janitor drops: forget deletes the rows that are due, in a bounded batch, and is called
// in each turn of this node's one janitor. It panics when the name is taken.
func (p *Projector) RegisterExpiringRows(name string, forget func(ctx context.Context) (dropped int, err error)) {
	for _, rows := range p.expiring {
		if rows.name == name {
			panic(fmt.Sprintf("projector: the expiring rows %q are registered twice", name))
		}
	}
	p.expiring = append(p.expiring, expiringRows{name, forget})
}

// NewJanitor makes this node's janitor. Several nodes may run one each, because janitors only delete old rows.
func NewJanitor(p *Projector) *Janitor { return &Janitor{projector: p} }

// Run cleans every ten minutes until ctx ends.
func (j *Janitor) Run(ctx context.Context) error {
	// The first turn is now: a node that restarts every few minutes would otherwise never clean.
	ticker := time.NewTicker(janitorEvery)
	defer ticker.Stop()
	for {
		if _, err := j.RunOnce(ctx); err != nil && ctx.Err() == nil {
			j.projector.log.Warn("old rows were not dropped; the next turn tries again", "error", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// RunOnce cleans once and returns how many rows it deleted.
func (j *Janitor) RunOnce(ctx context.Context) (dropped int, err error) {
	// If one deletion fails, the others still run.
	now := j.projector.clock.Now()
	entries, logErr := changelog.TrimLog(ctx, j.projector.db, now.Add(-keepChangelogFor))
	keys, keyErr := jobs.ForgetIdempotencyKeys(ctx, j.projector.db, now.Add(-keepIdempotencyFor))
	nodes, nodeErr := jobs.ForgetNodes(ctx, j.projector.db)
	dropped = entries + keys + nodes
	err = errors.Join(logErr, keyErr, nodeErr)
	for _, rows := range j.projector.expiring {
		gone, failure := rows.drop(ctx)
		if failure != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", rows.name, failure))
		}
		dropped += gone
	}
	return dropped, err
}

// drop deletes the rows that are due. A panic is an error: the other rows are still deleted, and the janitor waits for its next turn.
func (e expiringRows) drop(ctx context.Context) (dropped int, err error) {
	defer services.Recover(&err)
	return e.forget(ctx)
}
