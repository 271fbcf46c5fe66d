package fanout

import (
	"context"

	"tidings/services"
	"tidings/services/redis"
)

// HostsOf lists the hosts that a user follows and may see, in order of user ID.
type HostsOf func(ctx context.Context, user services.UserID) ([]services.FollowedAuthor, error)

// HostMerge merges what a follower may see of a host, read after a stamp, into the follower's view, but for the document. It
// answers the entry of the document; nothing for an author who is no host. refused says that something was removed since the
// stamp.
type HostMerge func(ctx context.Context, edge services.Edge, stamp redis.Stamp) (hosts []services.FollowedAuthor, refused bool, err error)

// namedHosts reads the hosts that documents name. Without a feature that registers readers there are none.
type namedHosts struct {
	read  HostsOf
	write HostMerge
}

// RegisterHosts sets the readers of the hosts that documents name, before the first rebuild. It panics when they are set.
func (f *Fanout) RegisterHosts(of HostsOf, merge HostMerge) {
	if f.hosts.read != nil {
		panic("fanout: the hosts of documents are registered twice")
	}
	f.hosts = namedHosts{of, merge}
}

func (n namedHosts) of(ctx context.Context, user services.UserID) ([]services.FollowedAuthor, error) {
	if n.read == nil {
		return nil, nil
	}
	return n.read(ctx, user)
}

func (n namedHosts) merge(ctx context.Context, edge services.Edge, stamp redis.Stamp) (hosts []services.FollowedAuthor, refused bool, err error) {
	if n.write == nil {
		return nil, false, nil
	}
	return n.write(ctx, edge, stamp)
}
