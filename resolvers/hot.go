package resolvers

import (
	"context"
	"strconv"
	"sync"

	"github.com/99designs/gqlgen/graphql"
	lru "github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/vektah/gqlparser/v2/ast"

	"tidings/services"
)

// Hot serves the operations that are asked most, badges alone, by selections that were compiled, and leaves all others
// to the schema: those, and whatever fails, so that every error is made in one place. The answers are the same bytes.
func Hot(schema graphql.ExecutableSchema, r *Resolver) graphql.ExecutableSchema {
	plans, err := lru.NewLRU[*ast.OperationDefinition, *plan](hotPlans, nil)
	if err != nil {
		panic("resolvers: " + err.Error()) // for a capacity below 1 only
	}
	return &hot{ExecutableSchema: schema, r: r, plans: plans}
}

// hotPlans is how many documents are remembered, as many as stay parsed: the same text is the same document.
const hotPlans = 1000

type hot struct {
	graphql.ExecutableSchema
	r *Resolver

	mu    sync.Mutex
	plans *lru.LRU[*ast.OperationDefinition, *plan]
}

// plan is what is written around and of the badges; nil for an operation that is not hot.
type plan struct {
	before, after []byte
	write         writer[services.Badges]
	field         *ast.Field // the one of a subscription
}

// Exec executes the operation of the context.
func (h *hot) Exec(ctx context.Context) graphql.ResponseHandler {
	operation := graphql.GetOperationContext(ctx)
	plan := h.plan(operation.Operation)
	switch {
	case plan == nil:
	case plan.field != nil:
		if handler := h.subscribe(ctx, operation, plan); handler != nil {
			return handler
		}
	default:
		return h.query(plan)
	}
	return h.ExecutableSchema.Exec(ctx)
}

func (h *hot) plan(operation *ast.OperationDefinition) *plan {
	h.mu.Lock()
	defer h.mu.Unlock()
	if known, ok := h.plans.Get(operation); ok {
		return known
	}
	made := planOf(operation)
	h.plans.Add(operation, made)
	return made
}

// planOf compiles { viewer { badges {...} } } and subscription { badgesChanged {...} }.
func planOf(operation *ast.OperationDefinition) *plan {
	if len(operation.Directives) > 0 {
		return nil
	}
	path := []string{"viewer", "badges"}
	switch operation.Operation {
	case ast.Subscription:
		path = []string{"badgesChanged"}
	case ast.Query:
	default:
		return nil
	}
	p := &plan{}
	selected := operation.SelectionSet
	for _, name := range path {
		if len(selected) != 1 {
			return nil
		}
		field, ok := selected[0].(*ast.Field)
		if !ok || field.Name != name || len(field.Directives) > 0 {
			return nil
		}
		p.before = append(strconv.AppendQuote(append(p.before, '{'), field.Alias), ':')
		p.after = append(p.after, '}')
		selected = field.SelectionSet
		if operation.Operation == ast.Subscription {
			p.field = field
		}
	}
	if p.write = badgesObject.compile(selected); p.write == nil {
		return nil
	}
	return p
}

func (p *plan) response(badges *services.Badges) *graphql.Response {
	data := make([]byte, 0, 512)
	data = p.write(append(data, p.before...), badges)
	return &graphql.Response{Data: append(data, p.after...)}
}

// query answers once, like every handler of a query.
func (h *hot) query(p *plan) graphql.ResponseHandler {
	answered := false
	return func(ctx context.Context) *graphql.Response {
		if answered {
			return nil
		}
		answered = true
		if viewer, err := h.r.viewer(ctx); err == nil {
			if badges, err := h.r.Badge.Read(ctx, viewer.Number); err == nil {
				return p.response(badges)
			}
		}
		return h.ExecutableSchema.Exec(ctx)(ctx)
	}
}

// subscribe asks for the channel as the schema would, through what the transport has put around resolvers; nil when it
// is refused.
func (h *hot) subscribe(ctx context.Context, operation *graphql.OperationContext, p *plan) graphql.ResponseHandler {
	var since *string
	switch value := p.field.ArgumentMap(operation.Variables)["since"].(type) {
	case nil:
	case string:
		since = &value
	default:
		return nil
	}
	found, err := operation.ResolverMiddleware(ctx, func(ctx context.Context) (any, error) {
		return (&subscriptionResolver{h.r}).BadgesChanged(ctx, since)
	})
	states, ok := found.(<-chan *services.Badges)
	if err != nil || !ok {
		return nil
	}
	return func(ctx context.Context) *graphql.Response {
		select {
		case badges, open := <-states:
			if !open {
				return nil
			}
			return p.response(badges)
		case <-ctx.Done():
			return nil
		}
	}
}
