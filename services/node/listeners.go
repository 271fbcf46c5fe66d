package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"tidings/transport"
	"tidings/web"
)

// Listeners are where a node serves: everybody, and operators.
type Listeners struct {
	Public     net.Listener
	operations net.Listener // nil without --operations-listen
}

// listen opens what the configuration names, all or nothing.
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

func (at Listeners) close() {
	_ = at.Public.Close() // a second close is of no consequence
	if at.operations != nil {
		_ = at.operations.Close()
	}
}

// text says where a node serves what: the public address first, and a note in parentheses.
func (at Listeners) text(development bool) string {
	public := "http://" + at.Public.Addr().String()
	switch {
	case at.operations == nil && development:
		return fmt.Sprintf("%s (GraphiQL: %[1]s/graphiql)", public)
	case at.operations == nil:
		return public + " (without --operations-listen neither GraphiQL nor /metrics is served)"
	}
	operations := "http://" + at.operations.Addr().String()
	if development {
		return fmt.Sprintf("%s (GraphiQL: %[1]s/graphiql, operations: %s)", public, operations)
	}
	return fmt.Sprintf("%s (operations: %s, GraphiQL: %[2]s/graphiql)", public, operations)
}

// routes is what a listener serves. /graphql takes the same tokens and has the same limits on both. What shows operators
// the node, /metrics and GraphiQL, is not for everybody: in production it is served to operators alone.
func (s *Server) routes(graphql http.Handler, operational bool) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/graphql", graphql)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	mux.Handle("GET /readyz", &s.Ready)
	if operational {
		page := web.GraphiQL(web.GraphiQLConfig{Development: s.Config.Development(), Version: Version()})
		mux.Handle("/graphiql", page)
		mux.Handle("/graphiql/", page)
		mux.Handle("GET /metrics", s.metrics())
		mux.Handle("GET /{$}", http.RedirectHandler("/graphiql", http.StatusFound))
	}
	if s.Config.Development() {
		return transport.LoopbackOnly(mux)
	}
	return mux
}

func (s *Server) httpServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler: handler, ReadHeaderTimeout: min(5*time.Second, s.Config.RequestDeadline), ReadTimeout: s.Config.RequestDeadline,
		// From the request's first line on: what is slow to come, to work out and to be taken has time for each.
		WriteTimeout: s.Config.RequestDeadline + s.Config.OperationTimeout + s.Config.AnswerDeadline, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
	}
}

// serveAt begins to serve. failed gets the error of a listener that ends. The connections of operators are not bounded by
// address: they get through when the public listener is full for theirs.
func (s *Server) serveAt(at Listeners) (failed <-chan error) {
	ended := make(chan error, 2)
	go func() { ended <- s.HTTP.Serve(s.Connections.Bound(at.Public)) }()
	if at.operations != nil {
		go func() { ended <- s.operations.Serve(at.operations) }()
	}
	return ended
}

// shutdown closes both listeners and waits until the requests of both have ended, or ctx has.
func (s *Server) shutdown(ctx context.Context) error {
	ended := make(chan error, 1)
	go func() { ended <- s.operations.Shutdown(ctx) }()
	return errors.Join(s.HTTP.Shutdown(ctx), <-ended)
}
