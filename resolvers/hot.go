package resolvers

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"weak"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"

	"tidings/dataloader"
	"tidings/graph"
	"tidings/services"
)

// Hot serves the most frequent operations (badges, home feeds and live boards) with compiled selections, and leaves all others
// to the schema. If a compiled operation fails, the schema executes it again, so that every error is made in one place. The
// answers are the same, byte for byte.
//
// An operation is compiled at its first use: planOf looks at its root field, each part compiles its selection with the objects
// of hot_*.go, and the plan is remembered for its document. A request then reads the parts, all at once, and appends the answer
// to one buffer. Operations that are not hot are remembered too, with a plan of nil. Hot exists for speed: for a page of badges
// the executor's fields, contexts and goroutines take more time than the read. A field that is added to a compiled type needs a
// member, or the executor answers the operations that select it.
func Hot(schema graphql.ExecutableSchema, r *Resolver) graphql.ExecutableSchema {
	return &hot{ExecutableSchema: schema, r: r, plans: make(map[weak.Pointer[ast.OperationDefinition]]*plan)}
}

// hot wraps the schema: the schema answers the operations that are not hot, and the transport sees one schema.
type hot struct {
	graphql.ExecutableSchema
	r *Resolver

	mu sync.RWMutex
	// plans is guarded by mu. A plan of nil is kept too, so that an operation that is not hot is examined only once. The
	// transport bounds the bytes of parsed documents. A plan is freed with its document: the key holds it weakly, and nothing in
	// a plan points to the operation.
	plans map[weak.Pointer[ast.OperationDefinition]]*plan
}

// plan is the compiled form of an operation: the parts to read, and the text around them; nil for an operation that is not
// hot. It is shared by all requests and does not change. It holds nothing of a viewer and no values of variables.
type plan struct {
	before, after []byte
	parts         []*part
	field         *ast.Field // of a subscription: its one field
}

// part is one field of the viewer. Its key is the field's key in the answer, with the colon. write is called only after read, if
// there is one, has succeeded.
type part struct {
	joint jointKind // how it is read for several viewers at once
	first int       // the size of a page that is read jointly
	key   []byte
	write writer[content]
	// read reads the content of the part; nil if there is nothing to read.
	read func(ctx context.Context, r *Resolver, viewer *graph.Viewer, variables map[string]any, c *content) error
}

// content is the value that a part is written from. Each part has one of its own and uses one of its fields, so that parts
// can be read at the same time without a lock. Badges of a subscription come from its channel, without a read.
type content struct {
	key    string // the key of the viewer
	badges shownBadges
	page   shownPage
	board  shownBoard
}

// viewerParts compiles the fields of the viewer; a field that is missing here is not hot.
var viewerParts = map[string]func(*ast.Field) *part{
	"badges":    badgesPart,
	"homeFeed":  homeFeedPart,
	"liveBoard": liveBoardPart,
	"id": func(field *ast.Field) *part {
		return &part{
			key:   appendKey(nil, field),
			write: func(to []byte, c *content) []byte { return appendID(to, services.ViewerType, c.key) },
		}
	},
	"__typename": func(field *ast.Field) *part {
		return &part{key: appendKey(nil, field), write: func(to []byte, _ *content) []byte { return append(to, `"Viewer"`...) }}
	},
}

// Exec executes the operation of the context. The executor has checked it, and the transport has charged it. A mutation is
// never hot: planOf refuses it.
func (h *hot) Exec(ctx context.Context) graphql.ResponseHandler {
	operation := graphql.GetOperationContext(ctx)
	plan := h.plan(operation.Operation)
	switch {
	case plan == nil:
	case plan.field != nil:
		// If subscribe refuses the operation, the schema refuses it again, and makes the error.
		if handler := h.subscribe(ctx, operation, plan); handler != nil {
			return handler
		}
	default:
		return h.query(operation, plan)
	}
	return h.ExecutableSchema.Exec(ctx)
}

// plan returns the plan of an operation, and makes it at the first use. If two requests make it at the same time, the plan that
// is stored first is kept. The key is the pointer to the operation in the transport's memory of documents, so a document that
// was parsed twice has two plans.
func (h *hot) plan(operation *ast.OperationDefinition) *plan {
	key := weak.Make(operation)
	h.mu.RLock()
	known, ok := h.plans[key]
	h.mu.RUnlock()
	if ok {
		return known
	}
	// The lock is not held, because compiling takes longer than a look-up, and other requests need not wait.
	made := planOf(operation)
	h.mu.Lock()
	defer h.mu.Unlock()
	if known, ok := h.plans[key]; ok {
		return known
	}
	h.plans[key] = made
	// The map would otherwise grow with every document that was ever sent, although the transport has dropped them.
	runtime.AddCleanup(operation, h.forget, key)
	return made
}

// forget drops the plan of a document that nobody holds any more. The runtime calls it from a goroutine of its own, after the
// operation has been collected: no request can have the key any more.
func (h *hot) forget(key weak.Pointer[ast.OperationDefinition]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.plans, key)
}

// planOf compiles { __typename }, { viewer { badges {...} homeFeed(...) {...} liveBoard(...) {...} } } and subscription {
// badgesChanged {...} }. It leaves any doubtful operation to the executor: a wrong plan would give a wrong answer, and a
// missing one costs only time.
func planOf(operation *ast.OperationDefinition) *plan {
	// A directive may skip the field, and several fields need the executor's order and merging.
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
		return &plan{before: append(appendKey([]byte{'{'}, field), `"Query"`...), after: []byte{'}'}}
	}
	return nil
}

// viewerPlan compiles the viewer with its parts; nil if one of them cannot be compiled. An alias of the viewer or of a part
// changes only a key of the answer.
func viewerPlan(viewer *ast.Field) *plan {
	fields, plain := plainFields("Viewer", viewer.SelectionSet)
	if !plain {
		return nil
	}
	p := &plan{before: append(appendKey([]byte{'{'}, viewer), '{'), after: []byte("}}")}
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

// response is the whole answer, in a buffer that need not grow. Each growth copies the buffer, and a page of a feed would make it
// grow several times.
func (p *plan) response(contents []content) *graphql.Response {
	size := 512
	for i := range contents {
		size += contents[i].page.size() + contents[i].board.size()
	}
	return &graphql.Response{Data: p.append(make([]byte, 0, size), contents)}
}

// append writes the data of the answer. contents has one element for each part, in their order.
func (p *plan) append(to []byte, contents []content) []byte {
	to = append(to, p.before...)
	for i, part := range p.parts {
		if i > 0 {
			to = append(to, ',')
		}
		to = part.write(append(to, part.key...), &contents[i])
	}
	return append(to, p.after...)
}

// Quick returns a function that answers a compiled query without the executor; nil for a query that is not compiled. It is for
// queries without variables: see transport.QuickSchema. The function does the work of Exec, and of everything between the
// transport and Exec: for example, it makes the loader in place of Around. transport.Front has checked the token, the limits and
// the document. If ok is false, nothing has been answered, and the caller uses the executor, which makes the error.
func (h *hot) Quick(operation *ast.OperationDefinition) func(ctx context.Context, to []byte) (data []byte, ok bool) {
	p := h.plan(operation)
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
		contents, err := p.read(dataloader.With(ctx, h.r.Sources), h.r, viewer, nil)
		if err != nil {
			return to, false
		}
		return p.append(to, contents), true
	}
}

// read reads all parts. Several parts are read in parallel, as in execution, so that together they take one round trip. The
// viewer's ID and type need no read. An error of one part fails all: the executor then answers the whole operation, with every
// error in its place. The viewer is a parameter, because otherwise every part would look it up in the context again.
func (p *plan) read(ctx context.Context, r *Resolver, viewer *graph.Viewer, variables map[string]any) ([]content, error) {
	contents := make([]content, len(p.parts))
	reading, last := 0, 0
	for i, part := range p.parts {
		contents[i].key = viewer.Key
		if part.read != nil {
			reading, last = reading+1, i
		}
	}
	// One part needs no goroutine. If no part has a read, last is 0, and attempt returns at once.
	if reading <= 1 {
		return contents, p.parts[last].attempt(ctx, r, viewer, variables, &contents[last])
	}
	failures := make([]error, len(p.parts))
	var group sync.WaitGroup
	for i, part := range p.parts {
		if part.read == nil {
			continue
		}
		group.Go(func() { failures[i] = part.attempt(ctx, r, viewer, variables, &contents[i]) })
	}
	group.Wait()
	return contents, errors.Join(failures...)
}

// attempt reads a part. It turns a panic into an error: the executor then meets the panic again and reports it. A panic in a
// goroutine of read would otherwise end the process: the executor's own recover is in another goroutine.
func (p *part) attempt(ctx context.Context, r *Resolver, viewer *graph.Viewer, variables map[string]any, c *content) (err error) {
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

// query returns a handler that answers once. The executor calls the handler until it returns nil, and from one goroutine, so
// answered needs no lock.
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

// subscribe opens the channel of a subscription as the schema would, through the transport's middleware for resolvers; nil if
// the subscription is refused. The transport reads the channel itself, so that the subscription needs no goroutine. The channel
// comes from the resolver of the schema, so both ways open it with the same checks.
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
			return p.response([]content{{badges: shownBadges{badges, key}}})
		case <-ctx.Done():
			return nil
		}
	}
}
