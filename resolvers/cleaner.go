package resolvers

import (
	"context"

	"tidings/graph"
)

// cleaner returns the state of the cleaner of Redis: whether a pass runs on any node, when the last pass ended, and how much that pass
// freed, no matter on which nodes it ran. While the first pass runs, lastRunAt is null.
func (r *Resolver) cleaner(ctx context.Context) (*graph.Cleaner, error) {
	run, err := r.Projector.CleanerRun(ctx)
	if err != nil {
		return nil, err
	}
	freed := run.Freed
	cleaner := &graph.Cleaner{Running: run.Running, Freed: graph.CleanerFreed{
		Inboxes: int(freed.Inboxes), Entries: int(freed.Entries), Dormant: int(freed.Dormant), Unknown: int(freed.Unknown),
		Orphans: int(freed.Orphans), Endless: int(freed.Endless), Keys: int(freed.Keys),
	}}
	if !run.EndedAt.IsZero() {
		cleaner.LastRunAt = &run.EndedAt
	}
	return cleaner, nil
}
