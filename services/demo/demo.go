// Package demo is the world of tidings --demo: a few hundred people who post, like, comment, talk and go live while a
// visitor watches.
//
// It is a host application like any other: it only sends requests to the public API over a connection, with a token that has
// the scope ingest. A seed always gives the same world: the people, their follows, and everything that they do, in order.
// The people act at the configured pace, however busy the server is: an act that is more than a second late is dropped.
//
// An act that the server refuses is logged and dropped. If the server does not answer, the world cannot be built; once it is
// built, the people wait until the server answers again.
package demo

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"tidings/services"
)

// viewerKey is the key of the person whose phones the demo's page shows. Only the visitor acts for them.
const viewerKey = "mia"

// Seed is the seed of the world of tidings --demo.
const Seed = 1

// Config configures a world.
type Config struct {
	URL           string // the server's /graphql, which accepts development tokens
	Seed          uint64 // chooses the world
	ActsPerMinute int    // acts per minute of all people together; with 0 nobody acts once the world is built
	Clock         services.Clock
	Log           *slog.Logger
}

// World is a world on a server: Build makes it, Run lets its people act. PausePeople, WatchIcon and Icon may be called concurrently.
// Only the goroutine of Build and Run uses script, next and nextDueAt.
type World struct {
	cfg         Config
	host        *host        // sends the requests
	iconUpdater *iconUpdater // keeps the app icon on the viewer's phone current
	script      *script      // decides what happens, from the seed
	next        act          // the act that is sent next
	nextDueAt   time.Time    // when next is due

	mu           sync.Mutex // guards noActsBefore
	noActsBefore time.Time  // no act happens before this time
}

// New returns the world of the seed. It sends no request.
func New(cfg Config) *World {
	host := newHost(cfg)
	return &World{cfg: cfg, host: host, iconUpdater: newIconUpdater(host), script: newScript(cfg.Seed)}
}

// Build makes the people and their past. If the server has them already, it only reads the objects that they can act on. The
// script makes the past in both cases, because its later acts depend on it.
func (w *World) Build(ctx context.Context) error {
	past := w.script.pastEvents()
	known, err := w.host.findExistingWorld(ctx, w.script)
	for i := 0; i < len(past) && err == nil && !known; i++ {
		err = w.host.send(ctx, past[i])
	}
	if err != nil {
		return fmt.Errorf("the demo world cannot be built: %w", err)
	}
	// The first act comes after a pause, not at once.
	w.planNextAct(w.cfg.Clock.Now())
	return nil
}

const (
	dueCheckInterval = 50 * time.Millisecond // how often Run looks for acts that are due
	maxActDelay      = time.Second           // acts that are overdue by more are dropped
)

// Run lets the people act, and the application follow the change stream, until ctx ends.
func (w *World) Run(ctx context.Context) error {
	defer w.host.close()
	// The host's connections are closed after the icon updater has ended.
	var following sync.WaitGroup
	defer following.Wait()
	ctx, cancel := context.WithCancel(ctx) // a panic of an act ends the icon updater too
	defer cancel()
	following.Go(func() { _ = services.KeepRunning(ctx, w.cfg.Log, w.iconUpdater.run) }) // its error is that of ctx
	return services.Every(ctx, dueCheckInterval, w.sendDueActs)
}

// sendDueActs sends the acts that are due, in one request.
func (w *World) sendDueActs(ctx context.Context) {
	now := w.cfg.Clock.Now()
	// A pause postpones the next act to the end of the pause, so that no burst of acts follows.
	if held := w.pausedUntil(); w.cfg.ActsPerMinute == 0 || now.Before(held) {
		w.nextDueAt = later(w.nextDueAt, held)
		return
	}
	var events []event
	for !w.nextDueAt.After(now) && len(events) < maxEventsPerRequest {
		if now.Sub(w.nextDueAt) <= maxActDelay {
			events = append(events, w.next.event)
		}
		// The next act counts from the time when this act was due, not from now: late ticks do not slow the pace.
		w.planNextAct(w.nextDueAt)
	}
	if len(events) == 0 {
		return
	}
	if err := w.host.send(ctx, events); err != nil && ctx.Err() == nil {
		w.cfg.Log.Debug("the people of the demo could not act", "acts", len(events), "error", err)
	}
}

// planNextAct chooses the next act. last is when the previous act was due.
func (w *World) planNextAct(last time.Time) {
	w.next = w.script.nextAct()
	w.nextDueAt = last.Add(time.Duration(w.next.relativePause * float64(time.Minute) / float64(max(w.cfg.ActsPerMinute, 1))))
}

// PausePeople stops the people for a time, so that the visitor can compare the badges before and after an event. A shorter pause
// never ends a longer one.
func (w *World) PausePeople(pause time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noActsBefore = later(w.noActsBefore, w.cfg.Clock.Now().Add(pause))
}

// pausedUntil returns the end of the pause that ends last.
func (w *World) pausedUntil() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.noActsBefore
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
