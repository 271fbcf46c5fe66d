package resolvers

import (
	"context"
	"strings"

	"tidings/graph"
	"tidings/services"
	"tidings/services/erasures"
)

// eraseUser begins the erasure of a user, or answers how far it is.
func (r *Resolver) eraseUser(ctx context.Context, input graph.EraseUserInput) (*graph.EraseUserPayload, error) {
	if _, err := r.scoped(ctx, services.ScopeAdmin); err != nil {
		return nil, err
	}
	key, err := services.ParseUserID("userId", input.UserID)
	if err != nil {
		return nil, err
	}
	begun, err := r.Erasures.Begin(ctx, key)
	if err != nil {
		return nil, err
	}
	return &graph.EraseUserPayload{Erasure: graphErasure(begun)}, nil
}

// erasure is an erasure by its ID; nil if there is none.
func (r *Resolver) erasure(ctx context.Context, id string) (*graph.Erasure, error) {
	own, ours := strings.CutPrefix(id, erasureType+":")
	if !ours {
		return nil, services.Errorf(services.Invalid, "id: %s is not the ID of an erasure", services.Quote(id))
	}
	found, known, err := r.Erasures.ByID(ctx, own)
	if err != nil || !known {
		return nil, err
	}
	shown := graphErasure(found)
	return &shown, nil
}

// erasureType begins the IDs of erasures.
const erasureType = "erasure"

func graphErasure(e erasures.Erasure) graph.Erasure {
	shown := graph.Erasure{ID: services.GlobalID(erasureType, e.ID), State: graph.ErasureStatePending, BeganAt: e.BeganAt, DoneAt: orNever(e.DoneAt), Removed: []graph.ErasedCount{}}
	if e.Done() {
		shown.State = graph.ErasureStateDone
	}
	for _, kind := range e.Kinds() {
		shown.Removed = append(shown.Removed, graph.ErasedCount{Kind: kind, Count: e.Removed[kind]})
	}
	return shown
}
