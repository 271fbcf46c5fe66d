package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"tidings/transport"
	"tidings/web"
)

// Listeners are the addresses that a node serves: for everybody, and for operators. They are open before anything is served,
// so the port of an address with port 0 is known.
type Listeners struct {
	Public     net.Listener
	operations net.Listener // nil without --operations-listen
}

// listen opens the addresses of the configuration, all or none. Errors name the flag.
func listen(cfg Config) (at Listeners, err error) {
	if at.Public, err = net.Listen("tcp", cfg.Listen); err != nil {
		return at, fmt.Errorf("--listen %s: %w", cfg.Listen, err)
	}
	if cfg.Operations == "" {
		return at, nil
	}
	if at.operations, err = net.Listen("tcp", cfg.Operations); err != nil {
		return at, errors.Join(fmt.Errorf("--operations-listen %s: %w", cfg.Operations, err), at.Public.Close())
	}
	return at, nil
}

// close frees the addresses of a node that did not start.
func (at Listeners) close() {
	_ = at.Public.Close() // a second close does no harm
	if at.operations != nil {
		_ = at.operations.Close()
	}
}

// addressLine is the addresses of a node, for people: the public one first, and in parentheses what is served where. Port 0 has
// become a number by then. Scripts read this line to find the port.
func (at Listeners) addressLine(cfg Config) string {
	public, development := "http://"+at.Public.Addr().String(), cfg.Development()
	switch {
	case at.operations == nil && cfg.Demo:
		return fmt.Sprintf("%s (the demo: open %[1]s/, GraphiQL: %[1]s/graphiql)", public)
	case at.operations == nil && development:
		return fmt.Sprintf("%s (GraphiQL: %[1]s/graphiql)", public)
	case at.operations == nil:
		return public + " (without --operations-listen neither GraphiQL, /metrics nor the console is served)"
	}
	operations := "http://" + at.operations.Addr().String()
	if cfg.Demo {
		return fmt.Sprintf("%s (the demo: open %[1]s/, GraphiQL: %[1]s/graphiql, operations: %s)", public, operations)
	}
	if development {
		return fmt.Sprintf("%s (GraphiQL: %[1]s/graphiql, operations: %s)", public, operations)
	}
	return fmt.Sprintf("%s (operations: %s, GraphiQL: %[2]s/graphiql, console: %[2]s/admin)", public, operations)
}

// routes is the handler of a listener. /graphql takes the same tokens and has the same limits on both listeners. In production only
// operators get /metrics and the pages, because these show the inside of the node. In development mode one address has
// everything. The operations listener has /graphql too, so that operators need one address.
func (s *Server) routes(graphql http.Handler, operational, profiles bool) http.Handler {
	mux := http.NewServeMux()
	// Health asks whether the process lives, and readiness whether it should get traffic. A node whose database is away is alive: a
	// restart would help nobody.
	mux.Handle("/graphql", graphql)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	mux.Handle("GET /readyz", &s.Ready)
	if operational {
		page := web.GraphiQL(web.GraphiQLConfig{Development: s.Config.Development(), Introspection: s.Config.allowIntrospection(), Version: version()})
		mux.Handle("/graphiql", page)
		mux.Handle("/graphiql/", page)
		mux.Handle("GET /metrics", s.metrics())
		books := web.Docs(version())
		mux.Handle("/docs", books)
		mux.Handle("/docs/", books)
		mux.Handle("/admin", s.console)
		mux.Handle("/admin/", s.console)
		mux.Handle("/{$}", web.Demo(web.DemoConfig{Mode: s.Config.demoPageMode(), Version: version()}))
	}
	if profiles {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)   // go tool pprof posts addresses
		mux.HandleFunc("/debug/pprof/cmdline", http.NotFound) // the command line may hold a key
	}
	if s.Config.Demo {
		mux.HandleFunc("POST "+flushRedisPath, s.flushDemoRedis)
		mux.HandleFunc("GET "+iconStreamPath, s.streamDemoIcon)
	}
	// LoopbackOnly is around all routes, because in development mode no request needs a secret.
	if s.Config.Development() {
		return transport.LoopbackOnly(mux)
	}
	return mux
}

// headBytesBesideQuery is the most bytes that the head of a request may have beside the query of its URL, which may be as long as a
// body: a token of up to 8 KB, a page's cookies of other paths of its host, and what proxies add.
const headBytesBesideQuery = 32 << 10

// httpServer is the server of a listener. Every wait for a client has a deadline. Faults of clients are logged for debugging
// only: there are thousands a day.
func (s *Server) httpServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler: handler, ReadHeaderTimeout: min(5*time.Second, s.Config.Requests.RequestDeadline), ReadTimeout: s.Config.Requests.RequestDeadline,
		// WriteTimeout counts from the request's first line, so it includes the deadlines of a slow request, a slow operation and a
		// slow reader.
		WriteTimeout: s.Config.Requests.RequestDeadline + s.Config.Requests.OperationTimeout + s.Config.Requests.WriteTimeout, IdleTimeout: 2 * time.Minute,
		// The HTTP server reads a whole head before any check, and each connection may send one. Its default is 1 MB.
		MaxHeaderBytes: int(s.Config.Requests.BodyLimit) + headBytesBesideQuery,
		ErrorLog:       slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
	}
}

// serveAt begins to serve. failed gets the error of a listener that ends. Connections of operators are not bounded by
// address, so they get through when their address has used up its limit on the public listener.
func (s *Server) serveAt(at Listeners) (failed <-chan error) {
	// The channel has room for both errors, because nobody reads the second one.
	ended := make(chan error, 2)
	go func() { ended <- s.Front.Serve(s.Connections.WrapListener(at.Public)) }()
	if at.operations != nil {
		go func() { ended <- s.OperationsServer.Serve(at.operations) }()
	}
	return ended
}

// shutdown closes both listeners and waits until the requests of both have ended, or ctx has ended. Both are shut down at the
// same time.
func (s *Server) shutdown(ctx context.Context) error {
	ended := make(chan error, 1)
	go func() { ended <- s.OperationsServer.Shutdown(ctx) }()
	return errors.Join(s.Front.Shutdown(ctx), <-ended)
}
