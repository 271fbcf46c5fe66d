package node

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tidings/services"
	"tidings/services/outbound"
	"tidings/services/sql"
	"tidings/services/stream"
	"tidings/services/webhooks"
)

// WebhookConfig is the part of a webhooks service that the settings give, for a node and for the command line. The command line has
// no node: without Online the service can test and manage webhooks, and delivers nothing.
func WebhookConfig(cfg Config, db *sql.DB, changes *stream.Service) webhooks.Config {
	allow, _ := outbound.ParseNetworks(cfg.WebhooksAllow) // checked with the settings
	return webhooks.Config{
		DB: db, Stream: changes, Node: cfg.Node, SiteMessageTypes: cfg.SiteMessageTypes, Clock: services.SystemClock{},
		Allow: allow, Timeout: cfg.WebhooksTimeout, ParallelRequests: cfg.WebhooksRequests,
	}
}

// wireWebhooks makes the webhooks, after the change stream. Only a node can tell who is online.
func (s *Server) wireWebhooks() {
	cfg := WebhookConfig(s.Config, s.Store, s.stream)
	cfg.Online, cfg.Clock, cfg.Log = s.Redis.Presence.UsersWithOpenSubscription, s.clock, s.Log
	s.webhooks = webhooks.New(cfg)
}

// webhookCollector reads the state of the webhooks at each scrape. While the change stream is off, or without webhooks, there are
// no metrics. The names of the webhooks are a label: operators have chosen the names, and there are few. All endpoints are read
// together.
type webhookCollector struct {
	enabled func() bool                                                         // whether the change stream is on
	list    func(ctx context.Context, name string) ([]webhooks.Endpoint, error) // webhooks.Service.Endpoints; the name "" is for all
	now     func() time.Time
}

var (
	webhookLabels = []string{"webhook"} // the label of each metric

	webhookEvents  = prometheus.NewDesc("tidings_webhook_delivered_total", "Events that the receiver accepted, from all nodes.", webhookLabels, nil)
	webhookWaiting = prometheus.NewDesc("tidings_webhook_waiting", "Users whose newest change failed, or waits until they are away.", webhookLabels, nil)
	webhookDead    = prometheus.NewDesc("tidings_webhook_dead", "Users whose newest change was given up after a day.", webhookLabels, nil)
	webhookLag     = prometheus.NewDesc("tidings_webhook_lag_seconds", "Age of the oldest change that was not sent yet.", webhookLabels, nil)
	webhookDown    = prometheus.NewDesc("tidings_webhook_down", "1 while the receiver fails as a whole, or has answered 410 Gone.", webhookLabels, nil)
)

// Describe names the metrics.
func (c *webhookCollector) Describe(out chan<- *prometheus.Desc) {
	for _, metric := range []*prometheus.Desc{webhookEvents, webhookWaiting, webhookDead, webhookLag, webhookDown} {
		out <- metric
	}
}

// Collect reads the metrics; while SQL does not answer there are none. Like deviceCollector, it shows nothing rather than
// zeros.
func (c *webhookCollector) Collect(out chan<- prometheus.Metric) {
	if !c.enabled() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	list, err := c.list(ctx, "")
	if err != nil {
		return
	}
	for _, e := range list {
		lag, down := 0.0, 0.0
		// OldestUnsentAt is zero for an endpoint that has sent everything.
		if !e.OldestUnsentAt.IsZero() {
			lag = max(0, c.now().Sub(e.OldestUnsentAt).Seconds())
		}
		// A webhook that is down and one that was halted both need an operator to look, so one alarm covers them.
		if e.Down() || !e.ReceiverGoneAt.IsZero() {
			down = 1
		}
		out <- prometheus.MustNewConstMetric(webhookEvents, prometheus.CounterValue, float64(e.DeliveredEvents), e.Name)
		out <- prometheus.MustNewConstMetric(webhookWaiting, prometheus.GaugeValue, float64(e.WaitingUsers), e.Name)
		out <- prometheus.MustNewConstMetric(webhookDead, prometheus.GaugeValue, float64(e.DeadLetters), e.Name)
		out <- prometheus.MustNewConstMetric(webhookLag, prometheus.GaugeValue, lag, e.Name)
		out <- prometheus.MustNewConstMetric(webhookDown, prometheus.GaugeValue, down, e.Name)
	}
}

// registerWebhookMetrics registers the metrics of this node's work for webhooks. Each node counts only its own work, so a sum over
// the nodes is right.
func (s *Server) registerWebhookMetrics(gauge func(name, help string, value func() float64), counter func(name, help string, value func() uint64)) {
	stats := s.webhooks.Stats
	counter("webhooks_failed_total", "Requests of this node to webhooks that failed.", func() uint64 { return stats().FailedRequests })
	gauge("webhooks_delivering", "Webhooks that this node delivers.", func() float64 { return float64(stats().Endpoints) })
}
