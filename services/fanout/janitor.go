package fanout

import (
	"context"
	"errors"
	"time"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/jobs"
)

const (
	janitorEvery       = 10 * time.Minute
	keepLog            = time.Hour
	keepIdempotencyFor = 24 * time.Hour
	keepFanouts        = 24 * time.Hour
	keepBoardsLonger   = time.Hour // than the longest session: clocks of nodes differ, and a page may be in flight
	dormantStep        = 20_000    // users whose positions one turn checks
)

// Janitor drops rows that SQL keeps only for a time: the log after an hour, idempotency keys and fan-outs with a dead chunk
// after a day, what sessions of the live board need an hour after the last of them has ended, the positions of dormant users
// in announcements and dots, and nodes that have been silent for a day.
type Janitor struct {
	fanout *Fanout
	walked services.UserID // how far the walk along the positions has come
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
	fanouts, fanoutErr := j.fanout.store.ForgetFanouts(ctx, now.Add(-keepFanouts))
	boards := now.Add(-j.fanout.cfg.KeepBoards - keepBoardsLonger)
	formers, formerErr := j.fanout.store.ForgetShowHistory(ctx, boards)
	follows, followErr := j.fanout.store.ForgetPastFollows(ctx, boards)
	nodes, nodeErr := jobs.ForgetNodes(ctx, j.fanout.store.DB)
	walked, positions, err := j.fanout.store.DropDormantNotices(ctx, j.fanout.activeSince(), j.walked, dormantStep)
	if err == nil {
		j.walked = walked
	}
	return entries + keys + fanouts + formers + follows + nodes + positions, errors.Join(logErr, keyErr, fanoutErr, formerErr, followErr, nodeErr, err)
}
