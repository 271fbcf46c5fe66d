package fanout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tidings/services/changelog"
	"tidings/services/jobs"
	"tidings/services/posts"
)

const (
	janitorEvery       = 10 * time.Minute
	keepLog            = time.Hour
	keepIdempotencyFor = 24 * time.Hour
	keepFanouts        = 24 * time.Hour
)

// Janitor drops rows that SQL keeps only for a time: the log after an hour, idempotency keys and fan-outs with a dead chunk
// after a day, nodes that have been silent for a day, and what features have registered.
type Janitor struct{ fanout *Fanout }

// limitedRows is a feature's rows that are kept for a time.
type limitedRows struct {
	name   string
	forget func(ctx context.Context) (dropped int, err error)
}

// RegisterLimitedRows adds rows that the janitor drops: forget deletes those that are due, in a bounded batch, and is called in
// each turn of this node's one janitor. It panics when the name is taken.
func (f *Fanout) RegisterLimitedRows(name string, forget func(ctx context.Context) (dropped int, err error)) {
	for _, rows := range f.limited {
		if rows.name == name {
			panic(fmt.Sprintf("fanout: the limited rows %q are registered twice", name))
		}
	}
	f.limited = append(f.limited, limitedRows{name, forget})
}

// Janitor makes this node's janitor. Several nodes may run one each, because they only delete old rows.
func (f *Fanout) Janitor() *Janitor { return &Janitor{fanout: f} }

// Run cleans every ten minutes until ctx ends.
func (j *Janitor) Run(ctx context.Context) error {
	ticker := time.NewTicker(janitorEvery)
	defer ticker.Stop()
	for {
		if _, err := j.RunOnce(ctx); err != nil && ctx.Err() == nil {
			j.fanout.log.Warn("old rows were not dropped; the next turn tries again", "error", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// RunOnce cleans once and answers how many rows it deleted.
func (j *Janitor) RunOnce(ctx context.Context) (dropped int, err error) {
	now := j.fanout.clock.Now()
	entries, logErr := changelog.TrimLog(ctx, j.fanout.store.DB, now.Add(-keepLog))
	keys, keyErr := jobs.ForgetIdempotencyKeys(ctx, j.fanout.store.DB, now.Add(-keepIdempotencyFor))
	fanouts, fanoutErr := posts.ForgetFanouts(ctx, j.fanout.store.DB, now.Add(-keepFanouts))
	nodes, nodeErr := jobs.ForgetNodes(ctx, j.fanout.store.DB)
	dropped = entries + keys + fanouts + nodes
	err = errors.Join(logErr, keyErr, fanoutErr, nodeErr)
	for _, rows := range j.fanout.limited {
		gone, failure := rows.forget(ctx)
		if failure != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", rows.name, failure))
		}
		dropped += gone
	}
	return dropped, err
}
