package fanout

import (
	"context"

	"tidings/services"
	"tidings/services/rdb"
)

// hostsBy are the hosts whom a user's document names.
func (f *Fanout) hostsBy(context.Context, services.UserNumber) ([]services.FollowedAuthor, error) {
	return nil, nil // nobody has a show yet
}

// auditBoard compares the hosts whom a document names.
func (f *Fanout) auditBoard(ctx context.Context, user services.UserNumber, shown rdb.Snapshot) (any, []string, error) {
	hosts, err := f.hostsBy(ctx, user)
	if err != nil {
		return nil, nil, err
	}
	var differs []string
	if !sameAuthors(shown.Document.Hosts, hosts) {
		differs = append(differs, "live board: hosts")
	}
	return hosts, differs, nil
}
