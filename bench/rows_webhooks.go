package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// The row of webhooks: it measures reads while posts change all readers' badges. One server sends all changes to a webhook, and another
// one has no webhook and no change stream. The webhook's receiver answers at once, and shares the processors with the rest.
const (
	hookReaders  = 400                    // the number of readers, or fewer with smaller data
	hookPosts    = 10                     // a second, each to all of the readers
	hookInterval = 100 * time.Millisecond // from one request with posts to the next
)

// hookServer is one of the two servers.
type hookServer struct {
	*program
	what     string // "with" or "without" a webhook
	readers  int
	posts    int           // published so far
	received *atomic.Int64 // events at the receiver
}

func (b *bench) measureWebhooks(ctx context.Context) (err error) {
	endpoint := hookEndpoint{}
	closeEndpoint, err := endpoint.listen(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeEndpoint()) }()
	var servers []*hookServer
	var sites []site
	defer func() {
		for _, p := range sites {
			err = errors.Join(err, p.deleteRedisData(context.WithoutCancel(ctx)))
		}
	}()
	for _, one := range []struct {
		what     string
		database int
		flags    []string
	}{{"without", plainDatabase, nil}, {"with", webhooksDatabase, []string{"--changes", "--webhooks-allow", "127.0.0.0/8"}}} {
		p, err := b.newSite("webhooks-"+one.what, one.database)
		if err != nil {
			return err
		}
		sites = append(sites, p)
		server, err := p.start(ctx, one.flags...)
		if err != nil {
			return err
		}
		defer server.stop()
		h := &hookServer{program: server, what: one.what, readers: min(hookReaders, b.sizes.readersOfOne), received: &endpoint.received}
		b.say("webhooks: seeding %d readers", h.readers)
		if err := seedMixed(ctx, server.api, h.readers); err != nil {
			return err
		}
		servers = append(servers, h)
	}
	const add = `mutation($url: URL!) { addWebhook(input: {name: "bench", url: $url}) { secret } }`
	if err := servers[1].api.do(ctx, "dev:operator:admin", add, map[string]any{"url": endpoint.url}, &struct{}{}); err != nil {
		return err
	}
	return b.runWebhookRounds(ctx, servers)
}

// hookEndpoint is the receiver that the events are sent to.
type hookEndpoint struct {
	url      string
	received atomic.Int64 // events so far
}

// listen serves the endpoint until closeEndpoint is called.
func (h *hookEndpoint) listen(ctx context.Context) (closeEndpoint func() error, err error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	h.url = "http://" + listener.Addr().String() + "/"
	endpoint := &http.Server{ReadHeaderTimeout: answerLimit, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			h.received.Add(1)
		}
		w.WriteHeader(http.StatusNoContent)
	})}
	done := make(chan error, 1)
	go func() { done <- endpoint.Serve(listener) }()
	return func() error {
		err := endpoint.Close()
		if served := <-done; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	}, nil
}

// publish publishes hookPosts posts a second until ctx ends.
func (h *hookServer) publish(ctx context.Context) error {
	tick := time.NewTicker(hookInterval)
	defer tick.Stop()
	for {
		if err := h.publishOnce(context.WithoutCancel(ctx)); err != nil { // a batch in flight is not cancelled
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// publishOnce publishes the posts that are due in one hookInterval.
func (h *hookServer) publishOnce(ctx context.Context) error {
	events := make([]event, int(hookPosts*hookInterval/time.Second))
	for i := range events {
		events[i] = publishEvent(author(h.posts%followCounts[0]), postBody(h.posts))
		h.posts++
	}
	_, err := h.api.ingest(ctx, events)
	return err
}

// hookReads are a kind of reads, with their samples.
type hookReads struct {
	name, query   string
	without, with series
}

func (b *bench) runWebhookRounds(ctx context.Context, servers []*hookServer) error {
	reads := []*hookReads{{name: "badge query", query: badgeQuery}, {name: "home feed page of 20", query: feedQuery}}
	for round := range b.rounds + 1 { // the first one warms up
		b.say("webhooks: round %d of %d", round, b.rounds)
		for _, read := range reads {
			for i, values := range []*series{&read.without, &read.with} {
				result, err := b.hookTurn(ctx, servers[i], read.query)
				if err != nil {
					return fmt.Errorf("%s a webhook: %w", servers[i].what, err)
				}
				if round > 0 {
					*values = append(*values, result)
				}
			}
		}
	}
	what := fmt.Sprintf("%d posts a second to %d followers", hookPosts, servers[0].readers)
	for _, read := range reads {
		b.report.lines = append(b.report.lines, line{
			what: what + ", with a webhook: " + read.name, limit: "itself, without", ours: formatRateAndCPU(read.with), theirs: formatRateAndCPU(read.without),
			value: ratio(read.with.rate(), read.without.rate()), unit: "x the rate", goal: atLeast(0.9, ">= 0.9 x"),
		})
		b.report.details = append(b.report.details, detail{what: what, who: read.name + " without a webhook", values: read.without},
			detail{what: what, who: read.name + " with a webhook", values: read.with})
	}
	return nil
}

// hookTurn marks the readers' feeds as seen, and measures a query for one turn while posts are published. If there is a webhook, it
// checks that events come.
func (b *bench) hookTurn(ctx context.Context, h *hookServer, query string) (sample, error) {
	// A count ends at 300. Without this it would reach 300 and not change any more.
	var seen []event
	for _, key := range readersOf(followCounts[0], h.readers) {
		seen = append(seen, userEvent(key, "markHomeFeedSeen", map[string]any{}))
	}
	if _, err := h.api.ingest(ctx, seen); err != nil {
		return sample{}, err
	}
	if err := h.api.waitForJobs(ctx); err != nil {
		return sample{}, err
	}
	before := h.received.Load()
	result, err := b.loadDuring(ctx, newTarget(h.address, h.pid(), query, tokens(readersOf(followCounts[0], h.readers))), h.publish)
	for end := time.Now().Add(answerLimit); err == nil && h.what == "with" && h.received.Load() == before; {
		// After a short turn a count may be what it was before the feed was seen: then no event is sent. Another post changes the
		// count.
		if err = errors.Join(h.publishOnce(ctx), pause(ctx, hookInterval)); err == nil && time.Now().After(end) {
			err = errors.New("no event came")
		}
	}
	return result, err
}
