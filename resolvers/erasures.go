package resolvers

import (
	"context"

	"tidings/graph"
	"tidings/services"
	"tidings/services/erasures"
)

// eraseUser begins the erasure of a user. If it has begun already, eraseUser returns its progress. So the call can be repeated safely.
// The answer has the name of the erasure. An operator needs the name to ask later whether the erasure is done, because the user's ID
// then no longer names anyone.
func (r *Resolver) eraseUser(ctx context.Context, input graph.EraseUserInput) (*graph.EraseUserPayload, error) {
	return runAsAdmin(ctx, r, "eraseUser", userIDOrEmpty(input.UserID), "", func(ctx context.Context) (*graph.EraseUserPayload, error) {
		key, err := services.ParseUserID("userId", input.UserID)
		if err != nil {
			return nil, err
		}
		begun, err := r.Erasures.Begin(ctx, key)
		if err != nil {
			return nil, err
		}
		return &graph.EraseUserPayload{Erasure: graphErasure(begun)}, nil
	})
}

// erasure returns an erasure by its name; nil if there is none. The name reveals nothing about the user, so an operator may keep it.
func (r *Resolver) erasure(ctx context.Context, name string) (*graph.Erasure, error) {
	found, known, err := r.Erasures.ByName(ctx, name)
	if err != nil || !known {
		return nil, err
	}
	shown := graphErasure(found)
	return &shown, nil
}

// graphErasure is an erasure as the API shows it. Kinds of which nothing was removed are left out. The counts of Removed grow while
// the job runs. They are kept, as a proof of what was removed.
func graphErasure(e erasures.Erasure) graph.Erasure {
	shown := graph.Erasure{Name: e.Name, State: graph.ErasureStatePending, BeganAt: e.BeganAt, DoneAt: timeOrNull(e.DoneAt), Removed: []graph.ErasedCount{}}
	if e.Done() {
		shown.State = graph.ErasureStateDone
	}
	for _, kind := range e.RemovedKinds() {
		shown.Removed = append(shown.Removed, graph.ErasedCount{Kind: kind, Count: e.Removed[kind]})
	}
	return shown
}
