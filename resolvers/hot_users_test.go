package resolvers

import (
	"context"

	"tidings/graph"
	"tidings/services"
)

func (s *shownResolver) User() graph.UserResolver {
	return shownRelations{s.Resolver.User(), s.partValue}
}

// shownRelations answers the fields of a user with the relations in the content of a test.
type shownRelations struct {
	graph.UserResolver
	partValue
}

func (u shownRelations) relation(user *graph.User) *services.Relation {
	relation := u.feed.relations[user.Number]
	if u.board.relations != nil {
		relation = u.board.relations[user.Number]
	}
	return &relation
}

func (u shownRelations) ViewerFollows(_ context.Context, user *graph.User) (*bool, error) {
	return &u.relation(user).Follows, nil
}

func (u shownRelations) FollowsViewer(_ context.Context, user *graph.User) (*bool, error) {
	return &u.relation(user).Followed, nil
}

func (u shownRelations) ViewerMutes(_ context.Context, user *graph.User) (*bool, error) {
	return &u.relation(user).Mutes, nil
}

func (u shownRelations) ViewerBlocks(_ context.Context, user *graph.User) (*bool, error) {
	return &u.relation(user).Blocks, nil
}

func (u shownRelations) ViewerHides(_ context.Context, user *graph.User) (*bool, error) {
	return &u.relation(user).Hides, nil
}

func (u shownRelations) ViewerFollowMode(_ context.Context, user *graph.User) (*graph.FollowMode, error) {
	if relation := u.relation(user); relation.Follows {
		return &followModes[relation.Mode], nil
	}
	return nil, nil
}
