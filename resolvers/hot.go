package resolvers

import (
	"context"
	"errors"
	"sync"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"

	"tidings/dataloader"
	"tidings/graph"
	"tidings/services"
)

// WithHotOperations returns a schema that answers the most frequent operations (badges, home feeds and live boards) without
// resolvers, and leaves all others to the given schema. If such an operation fails, the given schema executes it again, so that
// every error is made in one place. The answers are those of the given schema, byte for byte.
//
// An operation is planned at its first use: hotPlanOf looks at its root field, and each part compiles its selection with appenders. A
// request then reads the parts, all at once or together with other requests, and appends the answer to one buffer. Operations that
// are not hot are remembered too, with a plan of nil. WithHotOperations exists for speed: it reads what a whole page shows at once,
// and one read of Redis serves several requests. A field that a resolver answers needs an appender; without one, the operations
// that select it are not hot.
func WithHotOperations(schema graphql.ExecutableSchema, r *Resolver) graphql.ExecutableSchema {
	return &hotOperationSchema{ExecutableSchema: schema, r: r, plans: graph.NewPlanCache(hotPlanOf)}
}

// hotOperationSchema is the schema that WithHotOperations returns. The embedded schema answers the operations that are not hot.
type hotOperationSchema struct {
	graphql.ExecutableSchema
	r     *Resolver
	plans *graph.PlanCache[*hotPlan] // a nil plan is kept too, so that an operation that is not hot is examined only once
}

// hotPlan is the compiled form of an operation: the parts to read, and the text before and after them. The plan of an operation
// that is not hot is nil. A plan is shared by all requests and does not change. It has nothing of a viewer and no values of
// variables.
type hotPlan struct {
	prefix, suffix    []byte // the text of the answer before and after the parts
	parts             []*hotPlanPart
	subscriptionField *ast.Field // the one field of a subscription; nil for a query
}

// hotPlanPart is one field of the viewer, or the field of a subscription. write is called only after read, if there is one, has
// succeeded.
type hotPlanPart struct {
	joint   jointKind                               // how the part can be read for several viewers at once
	field   *ast.Field                              // of a page: its arguments say whether the page is read jointly; nil for other parts
	jsonKey []byte                                  // the field's key in the answer, with the colon
	write   func(to []byte, c *hotPartValue) []byte // appends the value of the part
	// read reads the value of the part; nil if there is nothing to read.
	read func(ctx context.Context, r *Resolver, viewer *graph.Viewer, variables map[string]any, c *hotPartValue) error
}

// hotPartValue is the value that a part is written from. Each part has one of its own, and uses the one field for its kind. So parts
// can be read at the same time without a lock. Badges of a subscription come from its channel, without a read.
type hotPartValue struct {
	viewerKey     string // the key of the viewer
	badges        shownBadges
	feed          shownFeed
	board         shownBoard
	badgesWithKey services.Badges // a copy of badges with the user's key, if their ID is written
}

// viewerPartCompilers has a function for each field of the viewer that can be compiled. An operation with any other field is not hot.
var viewerPartCompilers = map[string]func(*ast.Field) *hotPlanPart{
	"badges":    badgesPart,
	"homeFeed":  homeFeedPart,
	"liveBoard": liveBoardPart,
	"id": func(field *ast.Field) *hotPlanPart {
		return &hotPlanPart{
			jsonKey: graph.AppendKey(nil, field),
			write:   func(to []byte, c *hotPartValue) []byte { return appendID(to, services.ViewerType, c.viewerKey) },
		}
	},
	"__typename": func(field *ast.Field) *hotPlanPart {
		return &hotPlanPart{jsonKey: graph.AppendKey(nil, field), write: func(to []byte, _ *hotPartValue) []byte { return append(to, `"Viewer"`...) }}
	},
}

// Exec executes the operation of the context. gqlgen's executor has checked it, and the transport has charged it to the budget of its
// user. A mutation is never hot: hotPlanOf refuses it.
func (h *hotOperationSchema) Exec(ctx context.Context) graphql.ResponseHandler {
	operation := graphql.GetOperationContext(ctx)
	plan := h.plans.Of(operation.Operation)
	switch {
	case plan == nil:
	case plan.subscriptionField != nil:
		// If subscribe returns nil, the embedded schema executes the operation, and makes the error.
		if handler := h.subscribe(ctx, operation, plan); handler != nil {
			return handler
		}
	default:
		return h.query(operation, plan)
	}
	return h.ExecutableSchema.Exec(ctx)
}

// hotPlanOf compiles { __typename }, { viewer { badges {...} homeFeed(...) {...} liveBoard(...) {...} } } and subscription {
// badgesChanged {...} }. If it is in doubt, it makes no plan and so leaves the operation to the executor: a wrong plan would give a
// wrong answer, and a missing one costs only time.
func hotPlanOf(operation *ast.OperationDefinition) *hotPlan {
	// A directive may skip the field. Several fields may need to be merged, which the executor does.
	if len(operation.Directives) > 0 || len(operation.SelectionSet) != 1 {
		return nil
	}
	field, ok := operation.SelectionSet[0].(*ast.Field)
	if !ok || len(field.Directives) > 0 {
		return nil
	}
	switch {
	case operation.Operation == ast.Subscription && field.Name == "badgesChanged":
		if badges := badgesPart(field); badges != nil {
			return &hotPlan{prefix: []byte{'{'}, suffix: []byte{'}'}, parts: []*hotPlanPart{badges}, subscriptionField: field}
		}
	case operation.Operation == ast.Query && field.Name == "viewer":
		return viewerPlan(field)
	// Load balancers and clients send this query to see whether the server answers.
	case operation.Operation == ast.Query && field.Name == "__typename":
		return &hotPlan{prefix: append(graph.AppendKey([]byte{'{'}, field), `"Query"`...), suffix: []byte{'}'}}
	}
	return nil
}

// viewerPlan compiles the viewer with its parts; nil if one of them cannot be compiled. An alias of the viewer or of a part
// changes only a key of the answer.
func viewerPlan(viewer *ast.Field) *hotPlan {
	fields, expanded := graph.ExpandFragments([]string{"Viewer", "Node"}, viewer.SelectionSet)
	if !expanded {
		return nil
	}
	p := &hotPlan{prefix: append(graph.AppendKey([]byte{'{'}, viewer), '{'), suffix: []byte("}}")}
	named := map[string]bool{}
	for _, field := range fields {
		compile, known := viewerPartCompilers[field.Name]
		if !known || named[field.Name] { // the executor would read all aliases of a field together
			return nil
		}
		named[field.Name] = true
		part := compile(field)
		if part == nil {
			return nil
		}
		p.parts = append(p.parts, part)
	}
	return p
}

// response writes the whole answer into a buffer that is large enough from the beginning. A buffer that is too small is copied, and a
// page of a feed would need that several times.
func (p *hotPlan) response(contents []hotPartValue) *graphql.Response {
	size := 512
	for i := range contents {
		size += contents[i].feed.estimatedBytes() + contents[i].board.estimatedBytes()
	}
	return &graphql.Response{Data: p.append(make([]byte, 0, size), contents)}
}

// append writes the data of the answer. contents has one element for each part, in their order.
func (p *hotPlan) append(to []byte, contents []hotPartValue) []byte {
	to = append(to, p.prefix...)
	for i, part := range p.parts {
		if i > 0 {
			to = append(to, ',')
		}
		to = part.write(append(to, part.jsonKey...), &contents[i])
	}
	return append(to, p.suffix...)
}

// HotAnswer returns a function that answers a hot query without the executor; nil for a query that is not hot. See
// transport.HotSchema. The function does the work of Exec, and of everything between the transport and Exec: for example, it makes
// the loader in place of UseLoader. transport.Front has checked the token, the limits and the document. If ok is false, nothing has
// been answered, and the caller uses the executor, which makes the error.
func (h *hotOperationSchema) HotAnswer(operation *ast.OperationDefinition, variables map[string]any) func(ctx context.Context, to []byte) (data []byte, ok bool) {
	p := h.plans.Of(operation)
	if p == nil || p.subscriptionField != nil {
		return nil
	}
	return func(ctx context.Context, to []byte) ([]byte, bool) {
		if len(p.parts) == 0 {
			return p.append(to, nil), true
		}
		viewer, err := h.r.viewer(ctx)
		if err != nil {
			return to, false
		}
		contents, err := p.read(dataloader.With(ctx, h.r.Readers), h.r, viewer, variables)
		if err != nil {
			return to, false
		}
		return p.append(to, contents), true
	}
}

// read reads all parts. Several parts are read in parallel, as in the executor, so that the parts together take the time of one round
// trip. The viewer's ID and type need no read. An error of one part is an error of all: then the executor answers the whole operation,
// with every error in its place. The viewer is a parameter, because otherwise every part would look it up in the context again.
func (p *hotPlan) read(ctx context.Context, r *Resolver, viewer *graph.Viewer, variables map[string]any) ([]hotPartValue, error) {
	contents := make([]hotPartValue, len(p.parts))
	reading, last := 0, 0
	for i, part := range p.parts {
		contents[i].viewerKey = viewer.Key
		if part.read != nil {
			reading, last = reading+1, i
		}
	}
	// A single read needs no goroutine. If no part has a read, last is 0, and readValue returns at once.
	if reading <= 1 {
		return contents, p.parts[last].readValue(ctx, r, viewer, variables, &contents[last])
	}
	failures := make([]error, len(p.parts))
	var group sync.WaitGroup
	for i, part := range p.parts {
		if part.read == nil {
			continue
		}
		group.Go(func() { failures[i] = part.readValue(ctx, r, viewer, variables, &contents[i]) })
	}
	group.Wait()
	return contents, errors.Join(failures...)
}

// readValue reads a part. It turns a panic into an error: then the executor runs into the panic again and reports it. Without this, a
// panic in a goroutine of read would end the process, because the executor recovers only in its own goroutine.
func (p *hotPlanPart) readValue(ctx context.Context, r *Resolver, viewer *graph.Viewer, variables map[string]any, c *hotPartValue) (err error) {
	if p.read == nil {
		return nil
	}
	defer func() {
		if fault := recover(); fault != nil {
			err = Recover(ctx, fault)
		}
	}()
	return p.read(ctx, r, viewer, variables, c)
}

// query returns a handler that answers once. The executor calls the handler until it returns nil. It does so from one goroutine, so
// the variable answered needs no lock.
func (h *hotOperationSchema) query(operation *graphql.OperationContext, p *hotPlan) graphql.ResponseHandler {
	answered := false
	return func(ctx context.Context) *graphql.Response {
		if answered {
			return nil
		}
		answered = true
		if len(p.parts) == 0 {
			return p.response(nil)
		}
		if viewer, err := h.r.viewer(ctx); err == nil {
			if contents, err := p.read(ctx, h.r, viewer, operation.Variables); err == nil {
				return p.response(contents)
			}
		}
		// The schema finds the same error again, and reports it with its path.
		return h.ExecutableSchema.Exec(ctx)(ctx)
	}
}

// subscribe opens the channel of a subscription as the embedded schema would, through the transport's middleware for resolvers. It
// returns nil if the subscription is refused. The transport reads the channel itself, so that the subscription needs no goroutine. The
// resolver of the schema opens the channel, so the checks are the same as without a plan.
func (h *hotOperationSchema) subscribe(ctx context.Context, operation *graphql.OperationContext, p *hotPlan) graphql.ResponseHandler {
	var since *string
	switch value := p.subscriptionField.ArgumentMap(operation.Variables)["since"].(type) {
	case nil:
	case string:
		since = &value
	default:
		// A value of another kind is an error that the executor reports.
		return nil
	}
	viewer, err := h.r.viewer(ctx)
	if err != nil {
		return nil
	}
	key := viewer.Key // only the key is kept: a subscription lives for hours
	found, err := operation.ResolverMiddleware(ctx, func(ctx context.Context) (any, error) {
		states, err := (&subscriptionResolver{h.r}).BadgesChanged(ctx, since)
		if request, writes := services.RequestFrom(ctx).(services.SubscriptionRequest); writes && err == nil {
			request.WriteEvents(func(to []byte, event any) []byte { return p.appendBadges(to, key, event.(*services.Badges)) })
		}
		return states, err
	})
	states, ok := found.(<-chan *services.Badges)
	if err != nil || !ok {
		return nil
	}
	// nil ends the subscription. Badges in the channel are shared by all watchers of the user, and are only read here.
	return func(ctx context.Context) *graphql.Response {
		select {
		case badges, open := <-states:
			if !open {
				return nil
			}
			return p.response([]hotPartValue{{badges: shownBadges{badges, key}}})
		case <-ctx.Done():
			return nil
		}
	}
}
