package resolvers

import (
	"context"

	"tidings/graph"
	"tidings/services"
)

func (s *fixedResolver) User() graph.UserResolver {
	return fixedUserResolver{s.Resolver.User(), s.hotPartValue}
}

// fixedUserResolver answers the fields of a user with the relations in the content of a test.
type fixedUserResolver struct {
	graph.UserResolver
	hotPartValue
}

// relation returns the viewer's relation to a user: that of the board if the test has a board, else that of the feed.
func (u fixedUserResolver) relation(user *graph.User) *services.Relation {
	relation := u.feed.relations[user.UserID]
	if u.board.relations != nil {
		relation = u.board.relations[user.UserID]
	}
	return &relation
}

func (u fixedUserResolver) ViewerFollows(_ context.Context, user *graph.User) (*bool, error) {
	return &u.relation(user).Follows, nil
}

func (u fixedUserResolver) FollowsViewer(_ context.Context, user *graph.User) (*bool, error) {
	return &u.relation(user).FollowsViewer, nil
}

func (u fixedUserResolver) ViewerMutes(_ context.Context, user *graph.User) (*bool, error) {
	return &u.relation(user).Mutes, nil
}

func (u fixedUserResolver) ViewerBlocks(_ context.Context, user *graph.User) (*bool, error) {
	return &u.relation(user).Blocks, nil
}

func (u fixedUserResolver) ViewerHides(_ context.Context, user *graph.User) (*bool, error) {
	return &u.relation(user).Hides, nil
}

func (u fixedUserResolver) ViewerFollowMode(_ context.Context, user *graph.User) (*graph.FollowMode, error) {
	if relation := u.relation(user); relation.Follows {
		return &followModes[relation.Mode], nil
	}
	return nil, nil
}
