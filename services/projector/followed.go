package projector

import (
	"context"

	"tidings/services"
)

// HostsReader lists the hosts that a user follows and may see, in order of user ID. The projector lies below the feature of shows and
// does not import it.
type HostsReader func(ctx context.Context, user services.UserID) ([]services.FollowedAuthor, error)

// RegisterHostsReader sets the function that lists the hosts in documents. Call it before the first rebuild. Without it documents
// have no hosts. A second call panics.
func (p *Projector) RegisterHostsReader(of HostsReader) {
	if p.hostsReader != nil {
		panic("projector: the hosts of documents are registered twice")
	}
	p.hostsReader = of
}
