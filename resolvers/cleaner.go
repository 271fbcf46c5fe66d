package resolvers

import (
	"context"

	"tidings/graph"
)

// cleaner returns the state of the cleaner of Redis: whether a pass runs on any node, when the last pass ended, and how much that pass
// freed, no matter on which nodes it ran. While the first pass runs, lastRunAt is null.
func (r *Resolver) cleaner(ctx context.Context) (*graph.Cleaner, error) {
	run, err := r.Cleaner.LatestRun(ctx)
	if err != nil {
		return nil, err
	}
	freed := run.LastFreed
	cleaner := &graph.Cleaner{Running: run.RunningOrDue, Freed: graph.CleanerFreed{
		Inboxes: int(freed.TrimmedLists), Entries: int(freed.RemovedEntries), Dormant: int(freed.DormantUsers), Unknown: int(freed.UnknownUsers),
		Orphans: int(freed.OrphanKeys), Endless: int(freed.KeysWithoutExpiry), Keys: int(freed.DroppedKeys),
	}}
	if !run.LastEndedAt.IsZero() {
		cleaner.LastRunAt = &run.LastEndedAt
	}
	return cleaner, nil
}
