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

// Hot returns a schema that answers the most frequent operations (badges, home feeds and live boards) without resolvers, and leaves all
// others to the given schema. If such an operation fails, the given schema executes it again, so that every error is made in one place.
// The answers are the same as without Hot, byte for byte.
//
// An operation is planned at its first use: planOf looks at its root field, and each part compiles its selection with appenders. A request
// then reads the parts, all at once or together with other requests, and appends the answer to one buffer. Operations that are not hot are
// remembered too, with a plan of nil. Hot exists for speed: it reads what a whole page shows at once, and one read of Redis serves several
// requests. A field that a resolver answers needs an appender; without one, the operations that select it are not hot.
func Hot(schema graphql.ExecutableSchema, r *Resolver) graphql.ExecutableSchema {
	return &hot{ExecutableSchema: schema, r: r, plans: graph.NewPlans(planOf)}
}

// hot is the schema that Hot returns. The embedded schema answers the operations that are not compiled.
type hot struct {
	graphql.ExecutableSchema
	r     *Resolver
	plans *graph.Plans[*plan] // a nil plan is kept too, so that an operation that is not hot is examined only once
}

// plan is the compiled form of an operation: the parts to read, and the text before and after them. The plan of an operation that is
// not hot is nil. A plan is shared by all requests and does not change. It has nothing of a viewer and no values of variables.
type plan struct {
	before, after []byte
	parts         []*part
	field         *ast.Field // of a subscription: its one field; nil for a query
}

// part is one field of the viewer, or the field of a subscription. Its key is the field's key in the answer, with the colon. write is
// called only after read, if there is one, has succeeded.
type part struct {
	joint jointKind  // how it can be read for several viewers at once
	field *ast.Field // of a page; its arguments say whether the page is read jointly
	key   []byte
	write func(to []byte, c *partValue) []byte
	// read reads the value of the part; nil if there is nothing to read.
	read func(ctx context.Context, r *Resolver, viewer *graph.Viewer, variables map[string]any, c *partValue) error
}

// partValue is the value that a part is written from. Each part has one of its own, and uses the one field for its kind. So parts
// can be read at the same time without a lock. Badges of a subscription come from its channel, without a read.
type partValue struct {
	key    string // the key of the viewer
	badges shownBadges
	feed   shownFeed
	board  shownBoard
	named  services.Badges // the badges with their key, if their ID is written
}

// viewerParts has a function for each field of the viewer that can be compiled. An operation with any other field is not hot.
var viewerParts = map[string]func(*ast.Field) *part{
	"badges":    badgesPart,
	"homeFeed":  homeFeedPart,
	"liveBoard": liveBoardPart,
	"id": func(field *ast.Field) *part {
		return &part{
			key:   graph.AppendKey(nil, field),
			write: func(to []byte, c *partValue) []byte { return appendID(to, services.ViewerType, c.key) },
		}
	},
	"__typename": func(field *ast.Field) *part {
		return &part{key: graph.AppendKey(nil, field), write: func(to []byte, _ *partValue) []byte { return append(to, `"Viewer"`...) }}
	},
}

// Exec executes the operation of the context. gqlgen's executor has checked it, and the transport has charged it to the budget of its
// user. A mutation is never hot: planOf refuses it.
func (h *hot) Exec(ctx context.Context) graphql.ResponseHandler {
	operation := graphql.GetOperationContext(ctx)
	plan := h.plans.Of(operation.Operation)
	switch {
	case plan == nil:
	case plan.field != nil:
		// If subscribe returns nil, the embedded schema executes the operation, and makes the error.
		if handler := h.subscribe(ctx, operation, plan); handler != nil {
			return handler
		}
	default:
		return h.query(operation, plan)
	}
	return h.ExecutableSchema.Exec(ctx)
}

// planOf compiles { __typename }, { viewer { badges {...} homeFeed(...) {...} liveBoard(...) {...} } } and subscription { badgesChanged
// {...} }. If it is in doubt, it makes no plan and so leaves the operation to the executor: a wrong plan would give a wrong answer, and
// a missing one costs only time.
func planOf(operation *ast.OperationDefinition) *plan {
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
			return &plan{before: []byte{'{'}, after: []byte{'}'}, parts: []*part{badges}, field: field}
		}
	case operation.Operation == ast.Query && field.Name == "viewer":
		return viewerPlan(field)
	// Load balancers and clients send this query to see whether the server answers.
	case operation.Operation == ast.Query && field.Name == "__typename":
		return &plan{before: append(graph.AppendKey([]byte{'{'}, field), `"Query"`...), after: []byte{'}'}}
	}
	return nil
}

// viewerPlan compiles the viewer with its parts; nil if one of them cannot be compiled. An alias of the viewer or of a part
// changes only a key of the answer.
func viewerPlan(viewer *ast.Field) *plan {
	fields, plain := graph.PlainFields([]string{"Viewer", "Node"}, viewer.SelectionSet)
	if !plain {
		return nil
	}
	p := &plan{before: append(graph.AppendKey([]byte{'{'}, viewer), '{'), after: []byte("}}")}
	named := map[string]bool{}
	for _, field := range fields {
		compile, known := viewerParts[field.Name]
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
func (p *plan) response(contents []partValue) *graphql.Response {
	size := 512
	for i := range contents {
		size += contents[i].feed.size() + contents[i].board.size()
	}
	return &graphql.Response{Data: p.append(make([]byte, 0, size), contents)}
}

// append writes the data of the answer. contents has one element for each part, in their order.
func (p *plan) append(to []byte, contents []partValue) []byte {
	to = append(to, p.before...)
	for i, part := range p.parts {
		if i > 0 {
			to = append(to, ',')
		}
		to = part.write(append(to, part.key...), &contents[i])
	}
	return append(to, p.after...)
}

// Quick returns a function that answers a hot query without the executor; nil for a query that is not hot. See transport.QuickSchema. The function does the work of Exec, and of everything between the
// transport and Exec: for example, it makes the loader in place of UseLoader. transport.Front has checked the token, the limits and
// the document. If ok is false, nothing has been answered, and the caller uses the executor, which makes the error.
func (h *hot) Quick(operation *ast.OperationDefinition, variables map[string]any) func(ctx context.Context, to []byte) (data []byte, ok bool) {
	p := h.plans.Of(operation)
	if p == nil || p.field != nil {
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
		contents, err := p.read(dataloader.With(ctx, h.r.Sources), h.r, viewer, variables)
		if err != nil {
			return to, false
		}
		return p.append(to, contents), true
	}
}

// read reads all parts. Several parts are read in parallel, as in the executor, so that the parts together take the time of one round
// trip. The viewer's ID and type need no read. An error of one part is an error of all: then the executor answers the whole operation,
// with every error in its place. The viewer is a parameter, because otherwise every part would look it up in the context again.
func (p *plan) read(ctx context.Context, r *Resolver, viewer *graph.Viewer, variables map[string]any) ([]partValue, error) {
	contents := make([]partValue, len(p.parts))
	reading, last := 0, 0
	for i, part := range p.parts {
		contents[i].key = viewer.Key
		if part.read != nil {
			reading, last = reading+1, i
		}
	}
	// A single read needs no goroutine. If no part has a read, last is 0, and readContent returns at once.
	if reading <= 1 {
		return contents, p.parts[last].readContent(ctx, r, viewer, variables, &contents[last])
	}
	failures := make([]error, len(p.parts))
	var group sync.WaitGroup
	for i, part := range p.parts {
		if part.read == nil {
			continue
		}
		group.Go(func() { failures[i] = part.readContent(ctx, r, viewer, variables, &contents[i]) })
	}
	group.Wait()
	return contents, errors.Join(failures...)
}

// readContent reads a part. It turns a panic into an error: then the executor runs into the panic again and reports it. Without this, a
// panic in a goroutine of read would end the process, because the executor recovers only in its own goroutine.
func (p *part) readContent(ctx context.Context, r *Resolver, viewer *graph.Viewer, variables map[string]any, c *partValue) (err error) {
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

// query returns a handler that answers once. The executor calls the handler until it returns nil. It does so from one goroutine, so the
// variable answered needs no lock.
func (h *hot) query(operation *graphql.OperationContext, p *plan) graphql.ResponseHandler {
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
func (h *hot) subscribe(ctx context.Context, operation *graphql.OperationContext, p *plan) graphql.ResponseHandler {
	var since *string
	switch value := p.field.ArgumentMap(operation.Variables)["since"].(type) {
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
		if request, writes := services.RequestFrom(ctx).(services.EventRequest); writes && err == nil {
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
			return p.response([]partValue{{badges: shownBadges{badges, key}}})
		case <-ctx.Done():
			return nil
		}
	}
}
