package web

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"tidings/graph"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/handler"
	"github.com/99designs/gqlgen/graphql/handler/extension"
	"github.com/99designs/gqlgen/graphql/handler/transport"
	"github.com/vektah/gqlparser/v2/ast"
)

// stub is a server of GraphiQL and of /graphql. It answers introspection from the real schema, and every other operation with
// the request and its user. A request that the schema does not allow gets the real errors.
type stub struct {
	graphql.ExecutableSchema
	origin string // such as http://127.0.0.1:8080

	mu            sync.Mutex
	requests      []request               // all operations over HTTP, except introspection
	inits         []transport.InitPayload // the payloads of all connection_init messages
	protocols     []string                // the header Sec-WebSocket-Protocol of each upgrade
	subscriptions map[chan string]string  // running subscription -> its authorization
}

// request is one operation that arrived over HTTP.
type request struct {
	operation     string // its name
	authorization string // the header Authorization
	variables     map[string]any
}

// authorizationKey is the key of a socket's authorization in its context.
type authorizationKey struct{}

// newStub starts a server whose page has the configuration cfg.
func newStub(t *testing.T, cfg GraphiQLConfig) *stub {
	t.Helper()
	s := &stub{
		ExecutableSchema: graph.NewExecutableSchema(graph.Config{}),
		subscriptions:    map[chan string]string{},
	}
	endpoint := handler.New(s)
	endpoint.Use(extension.Introspection{})
	endpoint.AddTransport(transport.Websocket{InitFunc: s.init})
	endpoint.AddTransport(transport.POST{})
	page := GraphiQL(cfg)
	mux := http.NewServeMux()
	mux.Handle("/graphiql", page)
	mux.Handle("/graphiql/", page)
	mux.HandleFunc("/readyz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/graphql", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			s.mu.Lock()
			s.protocols = append(s.protocols, r.Header.Get("Sec-WebSocket-Protocol"))
			s.mu.Unlock()
		}
		endpoint.ServeHTTP(w, r)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	s.origin = server.URL
	return s
}

// init takes the payload of a connection_init message.
func (s *stub) init(ctx context.Context, payload transport.InitPayload) (context.Context, *transport.InitPayload, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inits = append(s.inits, payload)
	return context.WithValue(ctx, authorizationKey{}, payload.Authorization()), nil, nil
}

// Exec answers an operation that passed the schema's validation.
func (s *stub) Exec(ctx context.Context) graphql.ResponseHandler {
	operation := graphql.GetOperationContext(ctx)
	if operation.OperationName == "IntrospectionQuery" {
		return s.ExecutableSchema.Exec(ctx)
	}
	if operation.Operation.Operation == ast.Subscription {
		return s.subscribe(ctx)
	}
	asked := request{operation.Operation.Name, operation.Headers.Get("Authorization"), operation.Variables}
	s.mu.Lock()
	s.requests = append(s.requests, asked)
	s.mu.Unlock()
	return graphql.OneShot(answer(asked.operation, asked.authorization))
}

// subscribe answers a subscription with one event at once, and with each event that is pushed.
func (s *stub) subscribe(ctx context.Context) graphql.ResponseHandler {
	authorization, _ := ctx.Value(authorizationKey{}).(string)
	events := make(chan string, 16)
	events <- "as it is"
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subscriptions[events] = authorization
	return func(ctx context.Context) *graphql.Response {
		select {
		case event := <-events:
			return answer(event, authorization)
		case <-ctx.Done():
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.subscriptions, events)
			return nil
		}
	}
}

// answer returns a response that repeats what was asked and by whom.
func answer(what, authorization string) *graphql.Response {
	data, err := json.Marshal(map[string]string{"what": what, "authorization": authorization})
	if err != nil {
		panic(err)
	}
	return &graphql.Response{Data: data}
}

// push sends an event to every running subscription.
func (s *stub) push(event string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for events := range s.subscriptions {
		events <- event
	}
}

// running lists the authorizations of the subscriptions that run.
func (s *stub) running() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	running := []string{}
	for _, authorization := range s.subscriptions {
		running = append(running, authorization)
	}
	slices.Sort(running)
	return running
}

// last returns the newest operation over HTTP.
func (s *stub) last(t *testing.T) request {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.requests) == 0 {
		t.Fatal("no operation arrived")
	}
	return s.requests[len(s.requests)-1]
}
