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

// The row of webhooks: it measures reads while posts change all readers' badges. One server sends all changes to a webhook, and
// another one has no webhook and no change stream. The webhook's receiver answers at once, and shares the processors with the rest.
const (
	hookReaders        = 400                    // the number of readers, or fewer with smaller data
	hookPostsPerSecond = 10                     // posts a second, each to all of the readers
	hookPostInterval   = 100 * time.Millisecond // from one request with posts to the next
)

// hookServer is one of the two servers of the row webhooks: with or without a webhook.
type hookServer struct {
	*program
	withOrWithoutWebhook string        // "with" or "without" a webhook
	readerCount          int           // how many readers, who all follow the authors of the posts
	publishedPostCount   int           // how many posts were published so far
	receivedEvents       *atomic.Int64 // how many events the webhook's receiver has got
}

// measureWebhooks starts the receiver and the two servers of the row webhooks, and measures the row.
func (b *bench) measureWebhooks(ctx context.Context) (err error) {
	endpoint := hookEndpoint{}
	closeEndpoint, err := endpoint.listen(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeEndpoint()) }()
	var servers []*hookServer
	var sites []installation
	defer func() {
		for _, p := range sites {
			err = errors.Join(err, p.deleteRedisData(context.WithoutCancel(ctx)))
		}
	}()
	for _, one := range []struct {
		what     string
		database int
		flags    []string
	}{{"without", withoutWebhooksRedisDB, nil}, {"with", withWebhooksRedisDB, []string{"--changes", "--webhooks-allow", "127.0.0.0/8"}}} {
		p, err := b.newInstallation("webhooks-"+one.what, one.database)
		if err != nil {
			return err
		}
		sites = append(sites, p)
		server, err := p.start(ctx, one.flags...)
		if err != nil {
			return err
		}
		defer server.stop()
		h := &hookServer{program: server, withOrWithoutWebhook: one.what, readerCount: min(hookReaders, b.sizes.followersOfOneAuthor), receivedEvents: &endpoint.receivedEvents}
		b.printProgress("webhooks: seeding %d readers", h.readerCount)
		if err := seedMixed(ctx, server.api, h.readerCount); err != nil {
			return err
		}
		servers = append(servers, h)
	}
	const add = `mutation($url: URL!) { addWebhook(input: {name: "bench", url: $url}) { secret } }`
	if err := servers[1].api.doGraphQL(ctx, "dev:operator:admin", add, map[string]any{"url": endpoint.url}, &struct{}{}); err != nil {
		return err
	}
	return b.runWebhookRounds(ctx, servers)
}

// hookEndpoint is the receiver that the webhook's events are sent to.
type hookEndpoint struct {
	url            string
	receivedEvents atomic.Int64 // events so far
}

// listen serves the endpoint until closeEndpoint is called.
func (h *hookEndpoint) listen(ctx context.Context) (closeEndpoint func() error, err error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	h.url = "http://" + listener.Addr().String() + "/"
	endpoint := &http.Server{ReadHeaderTimeout: answerTimeout, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			h.receivedEvents.Add(1)
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

// publishPosts publishes hookPostsPerSecond posts a second until ctx ends.
func (h *hookServer) publishPosts(ctx context.Context) error {
	tick := time.NewTicker(hookPostInterval)
	defer tick.Stop()
	for {
		if err := h.publishIntervalPosts(context.WithoutCancel(ctx)); err != nil { // a batch in flight is not cancelled
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// publishIntervalPosts publishes the posts that are due in one hookPostInterval.
func (h *hookServer) publishIntervalPosts(ctx context.Context) error {
	events := make([]ingestEvent, int(hookPostsPerSecond*hookPostInterval/time.Second))
	for i := range events {
		events[i] = publishEvent(authorKey(h.publishedPostCount%followCounts[0]), postBody(h.publishedPostCount))
		h.publishedPostCount++
	}
	_, err := h.api.ingest(ctx, events)
	return err
}

// webhookReadResults are a kind of reads and their samples on the two servers.
type webhookReadResults struct {
	name, query                 string
	withoutWebhook, withWebhook series
}

// runWebhookRounds measures the rounds of the row webhooks and reports them. servers are the one without and the one with a webhook.
func (b *bench) runWebhookRounds(ctx context.Context, servers []*hookServer) error {
	reads := []*webhookReadResults{{name: "badge query", query: badgeQuery}, {name: "home feed page of 20", query: feedQuery}}
	for round := range b.rounds + 1 { // the first one warms up
		b.printProgress("webhooks: round %d of %d", round, b.rounds)
		for _, read := range reads {
			for i, values := range []*series{&read.withoutWebhook, &read.withWebhook} {
				result, err := b.measureHookTurn(ctx, servers[i], read.query)
				if err != nil {
					return fmt.Errorf("%s a webhook: %w", servers[i].withOrWithoutWebhook, err)
				}
				if round > 0 {
					*values = append(*values, result)
				}
			}
		}
	}
	what := fmt.Sprintf("%d posts a second to %d followers", hookPostsPerSecond, servers[0].readerCount)
	for _, read := range reads {
		b.report.resultLines = append(b.report.resultLines, resultLine{
			measurement: what + ", with a webhook: " + read.name, reference: "itself, without", ourFigure: formatRateAndCPU(read.withWebhook), referenceFigure: formatRateAndCPU(read.withoutWebhook),
			value: ratio(read.withWebhook.medianRate(), read.withoutWebhook.medianRate()), unit: "x the rate", goal: atLeast(0.9, ">= 0.9 x"),
		})
		b.report.detailLines = append(b.report.detailLines, detailLine{measurement: what, label: read.name + " without a webhook", results: read.withoutWebhook},
			detailLine{measurement: what, label: read.name + " with a webhook", results: read.withWebhook})
	}
	return nil
}

// measureHookTurn marks the readers' feeds as seen, and measures a query for one turn while posts are published. If there is a
// webhook, it checks that events come.
func (b *bench) measureHookTurn(ctx context.Context, h *hookServer, query string) (sample, error) {
	// The count of unread posts ends at 300. If the feeds were not marked as seen, it would reach 300 and not change any more.
	var seen []ingestEvent
	for _, key := range readerKeysFollowing(followCounts[0], h.readerCount) {
		seen = append(seen, userEvent(key, "markHomeFeedSeen", map[string]any{}))
	}
	if _, err := h.api.ingest(ctx, seen); err != nil {
		return sample{}, err
	}
	if err := h.api.waitForJobs(ctx); err != nil {
		return sample{}, err
	}
	before := h.receivedEvents.Load()
	target := newLoadTarget(h.address, h.pid(), query, tokens(readerKeysFollowing(followCounts[0], h.readerCount)))
	result, err := loadDuringRush(ctx, func(ctx context.Context) (sample, error) {
		return target.load(ctx, bystanderConnections, b.rowTurnLength())
	}, h.publishPosts)
	for end := time.Now().Add(answerTimeout); err == nil && h.withOrWithoutWebhook == "with" && h.receivedEvents.Load() == before; {
		// After a short turn a count may be what it was before the feed was seen: then no event is sent. Another post changes the
		// count.
		if err = errors.Join(h.publishIntervalPosts(ctx), pause(ctx, hookPostInterval)); err == nil && time.Now().After(end) {
			err = errors.New("no event came")
		}
	}
	return result, err
}
