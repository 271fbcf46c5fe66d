package transport

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"

	"tidings/services"
)

// testSchema is a small executable schema, written by hand on the functions of gqlgen that generated code calls.
type testSchema struct {
	hub             *testHub                       // sends the events of all subscriptions
	schema          *ast.Schema                    // testSDL, parsed
	lingersMayEnd   chan struct{}                  // closed by the test to let the field lingers end
	helloValue      string                         // the value of the field hello
	eventExtensions map[string]any                 // the extensions of each event
	eventFault      atomic.Pointer[services.Error] // the error of the fields stalls, fails and loses; nil: they work
}

// testSDL is the schema that testSchema executes.
const testSDL = `
type Query {
  hello: String!
  who: String!
  echo(text: String!): String!
  "Answers when the context ends."
  slow: String!
  fails: String
  panics: String
}
type Mutation { set(text: String!): String! }
type Subscription {
  "Wakes."
  ticks(since: String): Int!
  "Does not wake: it needs a goroutine."
  plain: Int!
  "Like plain, through a goroutine that holds one event until it is taken."
  relayed: Int!
  "Does not wake, and ends some time after it was cancelled."
  lingers: Int!
  "Wakes, and its resolver fails."
  refused: Int!
  "Wakes, and its resolver does not answer until the context ends."
  stuck: Int!
  "Wakes, and its events cannot be rendered."
  panics: Int!
  "Wakes, and its events are never ready."
  hangs: Int!
  "Does not wake, and its events are not ready while there is a fault."
  stalls: Int!
  "Does not wake, and its events are null while there is a fault."
  fails: Int
  "Does not wake, and its events lose a part while there is a fault."
  loses: Pair!
  "Wakes, and the schema writes its events by itself. 13 cannot be written."
  written(since: String): Int!
}
scalar Pair`

// testWakingFields are the subscription fields of the test schema that wake: their subscriptions have no goroutine, and are read when
// they are woken (see SocketConfig.WithWakeConsumer).
var testWakingFields = []string{"ticks", "refused", "stuck", "panics", "hangs", "written"}

func newTestSchema() *testSchema {
	return &testSchema{hub: &testHub{}, helloValue: "world", schema: gqlparser.MustLoadSchema(&ast.Source{Input: testSDL})}
}

func (s *testSchema) Schema() *ast.Schema { return s.schema }

// Complexity gives no field a cost of its own.
func (s *testSchema) Complexity(context.Context, string, string, int, map[string]any) (int, bool) {
	return 0, false
}

// Exec executes the operation of a context, as the code does that gqlgen generates.
func (s *testSchema) Exec(ctx context.Context) graphql.ResponseHandler {
	operation := graphql.GetOperationContext(ctx)
	fields := graphql.CollectFields(operation, operation.Operation.SelectionSet, []string{"Query", "Mutation", "Subscription"})
	if operation.Operation.Operation == ast.Subscription {
		next := s.resolveSubscription(ctx, operation, fields[0])
		var buffer bytes.Buffer
		return func(ctx context.Context) *graphql.Response {
			buffer.Reset()
			if next == nil {
				return nil
			}
			data := next(ctx)
			if data == nil {
				if fields[0].Name == "lingers" {
					<-s.lingersMayEnd
				}
				return nil
			}
			data.MarshalGQL(&buffer)
			for name, value := range s.eventExtensions {
				graphql.RegisterExtension(ctx, name, value)
			}
			return &graphql.Response{Data: buffer.Bytes()}
		}
	}
	return func(ctx context.Context) *graphql.Response {
		out := graphql.NewFieldSet(fields)
		for i, field := range fields {
			out.Values[i] = s.resolveField(ctx, operation, field)
		}
		out.Dispatch(ctx)
		var buffer bytes.Buffer
		out.MarshalGQL(&buffer)
		return &graphql.Response{Data: buffer.Bytes()}
	}
}

// resolveField resolves a field of a query or a mutation.
func (s *testSchema) resolveField(ctx context.Context, operation *graphql.OperationContext, field graphql.CollectedField) graphql.Marshaler {
	return graphql.ResolveField(ctx, operation, field, fieldContext, func(ctx context.Context) (any, error) {
		arguments := field.ArgumentMap(operation.Variables)
		switch field.Name {
		case "hello":
			return s.helloValue, nil
		case "who":
			viewer, err := services.ViewerFrom(ctx)
			return viewer.Key + "@" + viewer.Device, err
		case "echo", "set":
			return arguments["text"], nil
		case "__schema":
			if operation.DisableIntrospection {
				return nil, errors.New("introspection is off")
			}
			return "open", nil
		case "slow":
			<-ctx.Done()
			return nil, services.Wrapf(services.Unavailable, ctx.Err(), "slow: not done in time")
		case "panics":
			panic("in a field")
		default:
			return nil, errors.New("it failed")
		}
	}, nil, func(_ context.Context, _ ast.SelectionSet, value string) graphql.Marshaler {
		return graphql.MarshalString(value)
	}, true, false)
}

// resolveSubscription resolves a field of a subscription, and returns the function that makes the next event.
func (s *testSchema) resolveSubscription(
	ctx context.Context, operation *graphql.OperationContext, field graphql.CollectedField,
) func(context.Context) graphql.Marshaler {
	return graphql.ResolveFieldStream(ctx, operation, field, fieldContext, func(ctx context.Context) (any, error) {
		switch field.Name {
		case "refused":
			return nil, services.Errorf(services.Unauthenticated, "a token is needed")
		case "stuck":
			<-ctx.Done()
			return nil, ctx.Err()
		case "written":
			services.RequestFrom(ctx).(services.SubscriptionRequest).WriteEvents(func(to []byte, event any) []byte {
				value := event.(int)
				if to = append(to, `{"written":`...); value == 13 {
					panic("in an event")
				}
				return append(strconv.AppendInt(to, int64(value), 10), '}')
			})
		}
		values, err := s.hub.watch(ctx)
		if field.Name == "relayed" && err == nil {
			return relayValues(ctx, values), nil
		}
		return values, err
	}, nil, func(ctx context.Context, _ ast.SelectionSet, value int) graphql.Marshaler {
		switch field.Name {
		case "panics", "written": // written is executed only by mistake: WriteEvents was called for its events
			panic("in an event")
		case "hangs":
			<-ctx.Done()
		case "stalls":
			if s.eventFault.Load() != nil {
				<-ctx.Done()
			}
		case "fails":
			if fault := s.eventFault.Load(); fault != nil {
				graphql.AddError(ctx, fault)
				return graphql.Null
			}
		case "loses":
			part := strconv.Itoa(value)
			if fault := s.eventFault.Load(); fault != nil {
				graphql.AddError(ctx, fault)
				part = "null"
			}
			return graphql.WriterFunc(func(w io.Writer) { _, _ = io.WriteString(w, `{"value":`+strconv.Itoa(value)+`,"part":`+part+`}`) })
		}
		return graphql.WriterFunc(func(w io.Writer) { _, _ = io.WriteString(w, strconv.Itoa(value)) })
	}, true, true)
}

// relayValues returns a channel to which a goroutine copies values. The goroutine holds one value until it is taken, and closes the
// channel when values is closed. The function relay of package resolvers does the same with changes.
func relayValues(ctx context.Context, values <-chan int) <-chan int {
	shown := make(chan int)
	go func() {
		defer close(shown)
		for value := range values {
			select {
			case shown <- value:
			case <-ctx.Done():
				return
			}
		}
	}()
	return shown
}

// fieldContext returns the context that gqlgen's generated code would make for a field.
func fieldContext(_ context.Context, field graphql.CollectedField) (*graphql.FieldContext, error) {
	return &graphql.FieldContext{Object: field.ObjectDefinition.Name, Field: field, IsResolver: true}, nil
}

// testHub stands in for push.Hub, which sends events to subscriptions. Each subscription has a watcher, with a slot for one event, which
// a newer event replaces.
type testHub struct {
	mu       sync.Mutex                // guards the other fields, and testWatcher.closed
	watchers map[*testWatcher]struct{} // one for each open subscription
	watchErr error                     // the error of watch; nil: watch succeeds
}

// testWatcher is the channel of one subscription, and its consumer to wake.
type testWatcher struct {
	hub      *testHub
	values   chan int                 // what the resolver returns
	consumer services.ChannelConsumer // nil for a subscription that does not wake
	closed   bool                     // values is closed
}

// wakeConsumerContextKey is the key of the consumer in a context.
type wakeConsumerContextKey struct{}

// withWakeConsumer is the SocketConfig.WithWakeConsumer of tests.
func withWakeConsumer(ctx context.Context, consumer services.ChannelConsumer) context.Context {
	return context.WithValue(ctx, wakeConsumerContextKey{}, consumer)
}

// watch returns a channel of values for one subscription. The channel is closed with its consumer, or with ctx if there is no consumer.
func (h *testHub) watch(ctx context.Context) (<-chan int, error) {
	consumer, _ := ctx.Value(wakeConsumerContextKey{}).(services.ChannelConsumer)
	one := &testWatcher{hub: h, values: make(chan int, 1), consumer: consumer}
	if err := h.register(one); err != nil {
		return nil, err
	}
	if consumer == nil {
		context.AfterFunc(ctx, one.End)
	} else {
		consumer.OnEnd(one)
	}
	return one.values, nil
}

// register registers a watcher, unless watchErr is set.
func (h *testHub) register(one *testWatcher) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watchErr != nil {
		return h.watchErr
	}
	if h.watchers == nil {
		h.watchers = make(map[*testWatcher]struct{})
	}
	h.watchers[one] = struct{}{}
	return nil
}

// End removes the watcher from its hub and closes its channel, as services.ChannelEnder requires.
func (w *testWatcher) End() {
	w.hub.mu.Lock()
	delete(w.hub.watchers, w)
	first := !w.closed
	w.closed = true
	if first {
		close(w.values)
	}
	w.hub.mu.Unlock()
	if first && w.consumer != nil {
		w.consumer.Wake()
	}
}

// publish gives every watcher the value, in place of one that the watcher has not taken yet.
func (h *testHub) publish(value int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for one := range h.watchers {
		select {
		case <-one.values:
		default:
		}
		one.values <- value
		if one.consumer != nil {
			one.consumer.Wake()
		}
	}
}

// endAllWatchers closes the channel of every subscription, as push.Hub does when it stops.
func (h *testHub) endAllWatchers() {
	h.mu.Lock()
	watchers := make([]*testWatcher, 0, len(h.watchers))
	for one := range h.watchers {
		watchers = append(watchers, one)
	}
	h.mu.Unlock()
	for _, one := range watchers {
		one.End()
	}
}

// countWatchers returns the number of open subscriptions.
func (h *testHub) countWatchers() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.watchers)
}
