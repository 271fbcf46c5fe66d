package fanout

import (
	"context"

	"tidings/services"
	"tidings/services/redis"
)

// HostMerge merges what a follower may see of a host, read after a stamp, into the follower's view, but for the document. It
// answers the entry of the document; nothing for an author who is no host. refused says that something was removed since the
// stamp.
type HostMerge func(ctx context.Context, edge services.Edge, stamp redis.Stamp) (hosts []services.FollowedAuthor, refused bool, err error)

// RegisterHosts sets what a follow merges of a host, before the first job. Without it a follow merges posts alone. It panics
// when it is set.
func (f *Fanout) RegisterHosts(merge HostMerge) {
	if f.hosts != nil {
		panic("fanout: the merge of hosts is registered twice")
	}
	f.hosts = merge
}

func (f *Fanout) mergeHost(ctx context.Context, edge services.Edge, stamp redis.Stamp) (hosts []services.FollowedAuthor, refused bool, err error) {
	if f.hosts == nil {
		return nil, false, nil
	}
	return f.hosts(ctx, edge, stamp)
}
