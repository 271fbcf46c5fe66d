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

// stubServer is a server of GraphiQL and of /graphql. It answers introspection from the real schema, and every other operation with
// the request and its user. A request that the schema does not allow gets the real errors.
type stubServer struct {
	graphql.ExecutableSchema
	origin string // such as http://127.0.0.1:8080

	mu                       sync.Mutex              // guards the fields below
	requests                 []receivedOperation     // all operations over HTTP, except introspection
	initPayloads             []transport.InitPayload // the payloads of all connection_init messages
	offeredProtocols         []string                // the header Sec-WebSocket-Protocol of each upgrade
	authorizationByEventChan map[chan string]string  // the authorization of each running subscription, by its channel
}

// receivedOperation is one operation that arrived over HTTP.
type receivedOperation struct {
	operationName string // its name
	authorization string // the header Authorization
	variables     map[string]any
}

// authorizationContextKey is the key of a socket's authorization in its context.
type authorizationContextKey struct{}

// newStubServer starts a stubServer whose GraphiQL page has the configuration cfg.
func newStubServer(t *testing.T, cfg GraphiQLConfig) *stubServer {
	t.Helper()
	s := &stubServer{
		ExecutableSchema:         graph.NewExecutableSchema(graph.Config{}),
		authorizationByEventChan: map[chan string]string{},
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
			s.offeredProtocols = append(s.offeredProtocols, r.Header.Get("Sec-WebSocket-Protocol"))
			s.mu.Unlock()
		}
		endpoint.ServeHTTP(w, r)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	s.origin = server.URL
	return s
}

// init keeps the payload of a connection_init message, and puts its authorization into the context of the socket.
func (s *stubServer) init(ctx context.Context, payload transport.InitPayload) (context.Context, *transport.InitPayload, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.initPayloads = append(s.initPayloads, payload)
	return context.WithValue(ctx, authorizationContextKey{}, payload.Authorization()), nil, nil
}

// Exec answers a valid operation with its name and its authorization; introspection is answered from the schema.
func (s *stubServer) Exec(ctx context.Context) graphql.ResponseHandler {
	operation := graphql.GetOperationContext(ctx)
	if operation.OperationName == "IntrospectionQuery" {
		return s.ExecutableSchema.Exec(ctx)
	}
	if operation.Operation.Operation == ast.Subscription {
		return s.subscribe(ctx)
	}
	asked := receivedOperation{operation.Operation.Name, operation.Headers.Get("Authorization"), operation.Variables}
	s.mu.Lock()
	s.requests = append(s.requests, asked)
	s.mu.Unlock()
	return graphql.OneShot(echoResponse(asked.operationName, asked.authorization))
}

// subscribe answers a subscription with one event at once, and with each event that is pushed.
func (s *stubServer) subscribe(ctx context.Context) graphql.ResponseHandler {
	authorization, _ := ctx.Value(authorizationContextKey{}).(string)
	events := make(chan string, 16)
	events <- "as it is"
	s.mu.Lock()
	defer s.mu.Unlock()
	s.authorizationByEventChan[events] = authorization
	return func(ctx context.Context) *graphql.Response {
		select {
		case event := <-events:
			return echoResponse(event, authorization)
		case <-ctx.Done():
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.authorizationByEventChan, events)
			return nil
		}
	}
}

// echoResponse returns a response that repeats the request and its caller.
func echoResponse(what, authorization string) *graphql.Response {
	data, err := json.Marshal(map[string]string{"what": what, "authorization": authorization})
	if err != nil {
		panic(err)
	}
	return &graphql.Response{Data: data}
}

// pushEvent sends an event to every running subscription.
func (s *stubServer) pushEvent(event string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for events := range s.authorizationByEventChan {
		events <- event
	}
}

// subscriptionAuthorizations lists the authorizations of the subscriptions that run.
func (s *stubServer) subscriptionAuthorizations() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	running := []string{}
	for _, authorization := range s.authorizationByEventChan {
		running = append(running, authorization)
	}
	slices.Sort(running)
	return running
}

// lastOperation returns the newest operation over HTTP.
func (s *stubServer) lastOperation(t *testing.T) receivedOperation {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.requests) == 0 {
		t.Fatal("no operation arrived")
	}
	return s.requests[len(s.requests)-1]
}
