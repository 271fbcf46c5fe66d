package jobs

import (
	"context"
	"fmt"
)

// maxMergeAttempts bounds how often a ProjectionMerge reads the facts again. Each round needs a change of the same projection in
// the few milliseconds between two reads.
const maxMergeAttempts = 20

// ProjectionMerge makes a projection equal to the facts without a lock over both. A round takes a stamp of the projection, then reads
// the facts, then merges them under the stamp. The order matters: the projection refuses facts that may be older than a
// change that it has seen since the stamp, and the next round reads them again.
type ProjectionMerge[Stamp, Facts any] struct {
	// Name names the projection, for the error after maxMergeAttempts.
	Name func() string
	// Mark stamps the projection. ok is false if there is no projection or nothing to do: the merge then ends without an
	// error.
	Mark func(ctx context.Context) (stamp Stamp, ok bool, err error)
	// Read reads the facts.
	Read func(ctx context.Context) (Facts, error)
	// Put merges the facts. done is false if the projection has refused them.
	Put func(ctx context.Context, stamp Stamp, facts Facts) (done bool, err error)
}

// Run repeats rounds until one succeeds. An error of a step ends it.
func (m ProjectionMerge[Stamp, Facts]) Run(ctx context.Context) error {
	for range maxMergeAttempts {
		stamp, ok, err := m.Mark(ctx)
		if err != nil || !ok {
			return err
		}
		facts, err := m.Read(ctx)
		if err != nil {
			return err
		}
		// If done is false, the projection has changed since the stamp: the facts are read again under a new stamp.
		done, err := m.Put(ctx, stamp, facts)
		if err != nil || done {
			return err
		}
	}
	return fmt.Errorf("%s: it changed during each of %d attempts", m.Name(), maxMergeAttempts)
}
