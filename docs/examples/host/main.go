// Command host is a small application beside Tidings: people follow authors, like their articles, and have an app whose icon shows how
// much waits for them. It is made to be read and copied. docs/embed.md explains the same in words.
//
//	host seed             makes people, follows and articles, as if the application were older than Tidings
//	host export [FOLDER]  writes follows.csv and posts.jsonl for `tidings import`: the first sync
//	host serve            serves the application, tells Tidings what happens, and receives its webhooks
//
// It guarantees that every fact reaches Tidings, in order and with one effect, and that in the end every icon shows the user's
// badges, even if either program is killed at any moment: facts wait in an outbox, and a webhook is acknowledged after it is on
// disk.
//
// While Tidings does not answer, the application works as usual, except that nobody can open their feed, which is in Tidings.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// Application is the application. Its parts are in facts.go and store.go, api.go, relay.go, phones.go, and sync.go.
type Application struct {
	store   *Store   // its own database
	tidings *Tidings // the client of the Tidings server
	ownURL  string   // the address at which Tidings reaches this application
	// outboxChanged tells the relay that something is in the outbox. It has room for one token, so many facts wake the relay once.
	outboxChanged chan struct{}
}

func main() {
	log.SetFlags(log.Ltime)
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

// run does the work of main and returns an error, so that deferred calls run before the program ends.
func run() error {
	database := flag.String("db", "host.db", "the application's database")
	listen := flag.String("listen", "127.0.0.1:9090", "the address to serve")
	server := flag.String("tidings", "http://127.0.0.1:8080", "the address of Tidings")
	flag.Parse()
	secret := os.Getenv("TIDINGS_JWT_SECRET") // the same secret as Tidings has; a flag would show in the list of processes
	store, err := OpenStore(*database)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	// The first signal ends all parts in order. A second signal ends the program at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	defer stop()
	switch flag.Arg(0) {
	case "seed":
		return Seed(ctx, store)
	case "export":
		return Export(ctx, store, flag.Arg(1))
	case "serve":
		if secret == "" {
			return errors.New("set TIDINGS_JWT_SECRET to the secret with which Tidings checks tokens")
		}
		app := &Application{
			store: store, tidings: NewTidings(*server, secret), ownURL: "http://" + *listen, outboxChanged: make(chan struct{}, 1),
		}
		return app.Serve(ctx, *listen)
	}
	return errors.New("usage: host [flags] seed | export [FOLDER] | serve")
}

// Serve runs the API, the relay, the watch of erasures and the registration of the webhook, until ctx ends.
func (a *Application) Serve(ctx context.Context, address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err // for example if the application already runs: two relays would send events twice and out of order
	}
	var parts sync.WaitGroup
	// The parts are independent: while Tidings is down, the relay waits and the API goes on.
	parts.Go(func() { a.Relay(ctx) })
	parts.Go(func() { a.WatchErasures(ctx) })
	parts.Go(func() { a.EnsureWebhook(ctx) })
	server := &http.Server{Handler: a.Handler(), ReadHeaderTimeout: 5 * time.Second}
	parts.Go(func() {
		<-ctx.Done()
		soon, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		// Requests in progress may end. Their events are in the outbox, and are sent after the next start at the latest.
		_ = server.Shutdown(soon)
	})
	fmt.Printf("The application serves http://%s\n", listener.Addr())
	if err = server.Serve(listener); errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	parts.Wait()
	return err
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
