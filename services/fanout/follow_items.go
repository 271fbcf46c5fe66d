package fanout

import (
	"context"

	"tidings/services"
	"tidings/services/redis"
)

// HostMerge merges the items of a host that a follower may see into the follower's lists, by a follow (edge) that was read after the
// stamp. It returns the host's entry for the document, which the caller writes, or nothing for an author who is no host. refused reports
// that something was removed since the stamp.
//
// It runs before the script of the posts and may refuse: ReconcileFollow then takes a new stamp and reads everything again.
type HostMerge func(ctx context.Context, edge services.FollowEdge, stamp redis.ClockStamp) (hosts []services.FollowedAuthor, refused bool, err error)

// RegisterHosts sets the merge of hosts that a follow runs. Call it before the first job. Without it a follow merges posts
// alone. A second call panics.
func (f *Fanout) RegisterHosts(merge HostMerge) {
	if f.hostMerge != nil {
		panic("fanout: the merge of hosts is registered twice")
	}
	f.hostMerge = merge
}

// mergeHost calls the HostMerge that RegisterHosts has set; without the feature of shows no author is a host. Fan-out lies below that
// feature, and does not import it.
func (f *Fanout) mergeHost(ctx context.Context, edge services.FollowEdge, stamp redis.ClockStamp) (hosts []services.FollowedAuthor, refused bool, err error) {
	if f.hostMerge == nil {
		return nil, false, nil
	}
	return f.hostMerge(ctx, edge, stamp)
}
