package dataloader

import (
	"context"

	"tidings/services"
)

// Relation reads how the viewer and a user are related: their follows, mutes, blocks and hides. A response has one viewer. The same
// read covers all users that the response has read so far, and the users in together.
func (l *Loader) Relation(ctx context.Context, user services.UserID, together []services.UserID, read func(ctx context.Context, users []services.UserID) (map[services.UserID]services.Relation, error)) (services.Relation, error) {
	m := l.currentMemory()
	others := func() []services.UserID { return append(m.users.keys(), together...) }
	relation, _, err := m.relations.loadOne(ctx, user, others, read)
	return relation, err
}
