// Package main is a baseline for the benchmark: the badge and home feed queries of Tidings on stock gqlgen and go-redis.
//
// It is written the usual way: generated execution, a resolver for each remote field, a call to Redis for each
// command, the stock WebSocket transport. A user without a document in Redis is an error, and so is any other missing
// key.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/99designs/gqlgen/graphql/handler"
	"github.com/99designs/gqlgen/graphql/handler/lru"
	"github.com/99designs/gqlgen/graphql/handler/transport"
	"github.com/redis/go-redis/v9"
	"github.com/vektah/gqlparser/v2/ast"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "where to serve")
	redisURL := flag.String("redis", "redis://127.0.0.1:6379", "the Redis to read")
	users := flag.String("users", "", "a JSON file, key -> number")
	flag.Parse()
	if err := run(*listen, *redisURL, *users); err != nil {
		fmt.Fprintln(os.Stderr, "gqlgen baseline:", err)
		os.Exit(1)
	}
}

// run serves the baseline until it is stopped. usersFile is a JSON file with the user ID of each key.
func run(listen, redisURL, usersFile string) error {
	options, err := redis.ParseURL(redisURL)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(usersFile)
	if err != nil {
		return err
	}
	ids := map[string]uint32{}
	if err := json.Unmarshal(text, &ids); err != nil {
		return fmt.Errorf("%s: %w", usersFile, err)
	}
	client := redis.NewClient(options)
	defer client.Close()
	server := &http.Server{Addr: listen, Handler: routes(client, ids), ReadHeaderTimeout: 5 * time.Second}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// routes serves /graphql and POST /trigger, which gives every subscriber one event. ids maps keys of users to user IDs.
func routes(client *redis.Client, ids map[string]uint32) http.Handler {
	resolver := &Resolver{redis: client, events: newEventBroker()}
	graphql := handler.New(NewExecutableSchema(Config{Resolvers: resolver}))
	graphql.AddTransport(transport.Websocket{InitFunc: func(ctx context.Context, payload transport.InitPayload) (context.Context, *transport.InitPayload, error) {
		ctx, err := withViewer(ctx, ids, payload.Authorization())
		return ctx, nil, err
	}})
	graphql.AddTransport(transport.POST{})
	graphql.SetQueryCache(lru.New[*ast.QueryDocument](1000))
	mux := http.NewServeMux()
	mux.HandleFunc("/graphql", func(w http.ResponseWriter, r *http.Request) {
		if ctx, err := withViewer(r.Context(), ids, r.Header.Get("Authorization")); err == nil {
			r = r.WithContext(ctx)
		}
		graphql.ServeHTTP(w, r)
	})
	mux.HandleFunc("POST /trigger", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, resolver.events.sendToAll())
	})
	return mux
}

// viewerKey is the key of the viewer's user ID in a context.
type viewerKey struct{}

// withViewer puts the user ID of the viewer into the context. token is like "Bearer dev:KEY", and ids maps keys to user IDs.
func withViewer(ctx context.Context, ids map[string]uint32, token string) (context.Context, error) {
	_, key, _ := strings.Cut(token, ":")
	key, _, _ = strings.Cut(key, ":")
	id, ok := ids[key]
	if !ok {
		return ctx, errors.New("the token names nobody")
	}
	return context.WithValue(ctx, viewerKey{}, id), nil
}

// viewerFrom returns the user ID of the viewer that withViewer has put into the context.
func viewerFrom(ctx context.Context) (uint32, error) {
	id, ok := ctx.Value(viewerKey{}).(uint32)
	if !ok {
		return 0, errors.New("the token names nobody")
	}
	return id, nil
}
