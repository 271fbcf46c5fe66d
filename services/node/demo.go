package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"tidings/services"
	"tidings/services/demo"
)

const (
	// demoFolderPattern is the name of the temporary folder of a demo, for os.MkdirTemp. A demo has a folder of its own, because its
	// people would otherwise be in a real database for good.
	demoFolderPattern = "tidings-demo-*"
	demoMarkerFile    = "demo" // the file that marks a data folder as one of --demo

	// The change stream of a demo has shorter intervals than in production, because a visitor watches it.
	demoChangesInterval = 100 * time.Millisecond
	demoChangesLap      = 6 * time.Second
)

// claimDemoFolder chooses the data folder of a demo. Without a configured folder it makes a temporary one, which remove
// deletes. A configured folder that holds another database is refused. remove is called when the node has closed its files.
// The same folder can be given again: the world then finds its people and goes on.
func claimDemoFolder(cfg *Config) (remove func(), err error) {
	if cfg.Data == "" {
		if cfg.Data, err = os.MkdirTemp("", demoFolderPattern); err != nil {
			return nil, fmt.Errorf("--demo: a temporary folder cannot be made: %w", err)
		}
		return func() { _ = os.RemoveAll(cfg.Data) }, nil
	}
	// The marker file is written before the database is made. So a database without a marker file does not belong to a demo.
	mark := filepath.Join(cfg.Data, demoMarkerFile)
	_, unmarked := os.Stat(mark)
	if _, err := os.Stat(filepath.Join(cfg.Data, databaseFile)); err == nil && unmarked != nil {
		return nil, fmt.Errorf("--demo: the folder %s holds a database that is not of a demo: choose another with --data, or none", cfg.Data)
	}
	if err := os.MkdirAll(cfg.Data, 0o700); err != nil {
		return nil, fmt.Errorf("--data %s: the folder cannot be made: %w", cfg.Data, err)
	}
	return func() {}, os.WriteFile(mark, []byte("The world of tidings --demo.\n"), 0o600)
}

// speedUpStreamForDemo sets what a demo needs of the change stream: it is on, and fast enough to be watched. Lower values that the
// visitor set are kept.
func speedUpStreamForDemo(cfg *Config) {
	changes := &cfg.Stream
	changes.AlwaysOn = true
	changes.ChangeInterval, changes.LapInterval = min(changes.ChangeInterval, demoChangesInterval), min(changes.LapInterval, demoChangesLap)
}

// serveDemo runs the node and the world on it, until ctx ends or the world cannot be built. ready is called once it is built. The
// world is a client of the node over HTTP, as an application would be. It starts together with the node: the listener holds its
// first request until the node serves. The error joins the error of the node and the error of building the world. If the world
// fails later, it logs the error, and the node goes on.
func (s *Server) serveDemo(ctx context.Context, at Listeners, ready func()) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// The seed is always the same: each demo has the same people, so that texts about it can name them.
	s.world = demo.New(demo.Config{
		URL: "http://" + at.Public.Addr().String() + "/graphql", Seed: demo.Seed, ActsPerMinute: s.Config.DemoPace, Clock: s.clock, Log: s.Log,
	})
	s.demoWorldStopped = ctx.Done()
	var failure error
	done := startLoops(ctx, s.Log, func(ctx context.Context) error {
		if failure = s.world.Build(ctx); failure != nil {
			cancel(failure)
			return failure
		}
		ready()
		return s.world.Run(ctx)
	})
	// The end of ctx stops the world at once, and begins the node's drain.
	err := s.runWithExitTimeout(ctx, at)
	cancel(nil)
	<-done
	if errors.Is(failure, context.Canceled) {
		failure = nil // it was stopped while it was being built
	}
	return errors.Join(err, failure)
}

const (
	flushRedisPath = "/demo/flush" // a POST there calls flushDemoRedis
	// flushRedisHeader must come with a request to flush. A page of another site cannot send it: the browser asks first, and
	// nothing here permits it.
	flushRedisHeader = "Tidings-Demo"
	// pauseAfterFlush is how long the people stop, so that the badges before and after the flush can be compared.
	pauseAfterFlush       = 3 * time.Second
	settleTimeBeforeFlush = 300 * time.Millisecond // how long a flush waits for the effects of the people's last acts
)

// flushDemoRedis removes all keys from the demo's own Redis, while the people of the demo's world hold still. It is served with
// --demo only, where checkDemo has refused any Redis that is not the demo's own. The page's button calls it: everything is rebuilt
// from SQL while the visitor watches.
func (s *Server) flushDemoRedis(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	// There are two guards, because a page of another site must not empty even a demo.
	if r.Header.Get(flushRedisHeader) == "" {
		http.Error(w, "the header "+flushRedisHeader+" is required", http.StatusForbidden)
		return
	}
	if origin := r.Header.Get("Origin"); origin != "" && origin != "http://"+r.Host {
		http.Error(w, "only the page of this server may do this", http.StatusForbidden)
		return
	}
	// The hold covers the wait and the comparison after it. A page that goes away earlier flushes nothing.
	s.world.PausePeople(settleTimeBeforeFlush + pauseAfterFlush)
	if services.Sleep(r.Context(), settleTimeBeforeFlush) != nil {
		return
	}
	keys, err := s.Redis.Client.EmptyOwnServer(r.Context())
	if err != nil {
		http.Error(w, "Redis could not be emptied", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	// The error is ignored: a client that left needs no answer.
	_ = json.NewEncoder(w).Encode(map[string]int64{"keys": keys, "heldMs": pauseAfterFlush.Milliseconds()})
}

const (
	iconStreamPath         = "/demo/icon"     // a GET there calls streamDemoIcon
	iconStreamKeepAlive    = 15 * time.Second // a comment in this interval shows that the connection is alive
	iconStreamWriteTimeout = 10 * time.Second // the time in which the page must take an event
)

// streamDemoIcon serves an event stream of the badge that the demo's application sets on the icon of its closed app on a phone. It is
// served with --demo only. Each event has the whole icon, so a page that was away needs no history. The stream stands for a push
// service: the icon comes from the change stream and not from a subscription.
func (s *Server) streamDemoIcon(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Type", "text/event-stream")
	to := http.NewResponseController(w)
	send := func(text string) error {
		if err := to.SetWriteDeadline(time.Now().Add(iconStreamWriteTimeout)); err != nil {
			return err
		}
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
		return to.Flush()
	}
	// The world makes icons only while somebody looks.
	defer s.world.WatchIcon()()
	if send("retry: 1000\n\n") != nil {
		return
	}
	keepAlive := time.NewTicker(iconStreamKeepAlive)
	defer keepAlive.Stop()
	for sent := ""; ; {
		// changed is closed with the next icon, so none is missed between this line and the select.
		icon, changed := s.world.Icon()
		if icon.Version != sent {
			sent = icon.Version
			event, err := json.Marshal(icon)
			if err != nil || send("data: "+string(event)+"\n\n") != nil {
				return
			}
		}
		select {
		case <-changed:
		case <-keepAlive.C:
			if send(":\n\n") != nil {
				return
			}
		case <-r.Context().Done():
			return
		// Without this case the drain would wait for this request.
		case <-s.demoWorldStopped:
			return
		}
	}
}
