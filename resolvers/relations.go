package resolvers

import (
	"context"

	"tidings/dataloader"
	"tidings/graph"
	"tidings/services"
)

// relationField is the field of a user that shows one part of the relation between the viewer and the user; null if it could not be
// read. It is null and not false, because on false a client would offer to follow a user who is followed already.
func (r *Resolver) relationField(ctx context.Context, user *graph.User, part func(services.Relation) bool) (*bool, error) {
	relation, err := r.relation(ctx, user)
	if err != nil {
		return nil, err
	}
	is := part(relation)
	return &is, nil
}

// relation is the relation between the viewer and a user. The first call reads the relations of all users who are shown together.
// They come from SQL, so a follow shows in the payload of its own mutation.
func (r *Resolver) relation(ctx context.Context, user *graph.User) (services.Relation, error) {
	viewer, err := r.viewer(ctx)
	if err != nil {
		return services.Relation{}, err
	}
	return dataloader.From(ctx).Relation(ctx, user.UserID, user.Together, func(ctx context.Context, users []services.UserID) (map[services.UserID]services.Relation, error) {
		return r.Social.Relations(ctx, viewer.UserID, users)
	})
}
