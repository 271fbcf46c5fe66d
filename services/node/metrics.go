package node

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"tidings/services/metrics"
)

// metrics serves the node's metrics to Prometheus.
func (s *Server) metrics() http.Handler {
	return promhttp.HandlerFor(s.registry(), promhttp.HandlerOpts{})
}

// metricParts are the parts of the node that describe metrics of their own. A new part with metrics has one line here. Parts that are
// switched off are here too: what they count stays at 0, or is absent.
func (s *Server) metricParts() []metricPart {
	return []metricPart{
		// Clients: connections, sockets and pushes.
		s.Connections, s.sockets, s.Hub, s.Limiter,
		// Projections: rebuilds, what the audit had to mend, what was delivered and freed.
		s.Projector, s.audit, s.counts, s.Fanout, s.Live, s.cleaner,
		// The engines, as this node sees them.
		s.Redis.Client, s.Jobs,
		// What is sent to readers outside.
		s.stream, s.webhooks, s.devices,
	}
}

// metricPart is a part of the node with metrics.
type metricPart interface{ Metrics() []metrics.Group }

// registry has the node's metrics: its own, Go's and the process'. Values are read at each scrape. A test compares the names in deploy
// with those of the parts. Each call makes a new registry, because each handler and the console have their own. A metric may be read at
// any time between NewServer and the end of the node.
func (s *Server) registry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	// The metrics of Go and of the process: memory, goroutines, open files.
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, part := range s.metricParts() {
		for _, group := range part.Metrics() {
			registry.MustRegister(newMetricCollector(group))
		}
	}
	return registry
}

// metricCollector shows a group of metrics to Prometheus.
type metricCollector struct {
	group        metrics.Group
	descriptions []*prometheus.Desc // of each metric of the group
}

// newMetricCollector makes the collector of a group.
func newMetricCollector(group metrics.Group) *metricCollector {
	c := &metricCollector{group: group}
	var labels []string
	if group.Label != "" {
		labels = []string{group.Label}
	}
	for _, metric := range group.Descriptions {
		c.descriptions = append(c.descriptions, prometheus.NewDesc("tidings_"+metric.Name, metric.Help, labels, nil))
	}
	return c
}

// Describe names the metrics.
func (c *metricCollector) Describe(out chan<- *prometheus.Desc) {
	for _, description := range c.descriptions {
		out <- description
	}
}

// Collect reads the metrics. The interface of Prometheus gives no context. A second is enough for a statement, and the timeout is
// short, because Prometheus waits for the whole page. Groups are read beside each other.
func (c *metricCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	c.group.Read(ctx, func(index int, label string, value float64) {
		kind := prometheus.GaugeValue
		if c.group.Descriptions[index].Kind == metrics.CounterKind {
			kind = prometheus.CounterValue
		}
		var labels []string
		if c.group.Label != "" {
			labels = []string{label}
		}
		out <- prometheus.MustNewConstMetric(c.descriptions[index], kind, value, labels...)
	})
}

// clockTolerance is how far a node's clock may differ from the database's while the node takes traffic. IDs follow the
// database's clock, but tokens, expiries and timers go by the node's own.
// A clock that a time server keeps is far within it.
const clockTolerance = 2 * time.Second

// clockText says how far this node's clock is off.
func clockText(ahead time.Duration) string {
	where := "ahead of"
	if ahead < 0 {
		where = "behind"
	}
	return fmt.Sprintf("this node's clock is %s %s the database's", ahead.Abs().Round(time.Millisecond), where)
}

// readiness answers whether this node takes traffic. Redis is not asked: without it the node answers from SQL. The functions
// are set once, before the node serves. ready is atomic, because the drain sets it while requests read it.
type readiness struct {
	ready          atomic.Bool                              // what Set said last
	cachesLoaded   func() bool                              // whether the node has loaded the data that it serves from memory
	refusesWrites  func() bool                              // whether SQL refuses writes; another node's disk may have room
	clockAhead     func() (ahead time.Duration, known bool) // of this node's clock, relative to the database's
	limitationText func() string                            // a limitation of a node that takes traffic; "" for none
}

// Set says whether the node serves: true once all runs, false when the drain begins.
func (r *readiness) Set(yes bool) { r.ready.Store(yes) }

// ServeHTTP answers 200 while the node is ready, else 503. The text is for people.
func (r *readiness) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	status, text := r.state()
	if status != http.StatusOK {
		http.Error(w, strings.TrimSuffix(text, "\n"), status)
		return
	}
	_, _ = io.WriteString(w, text)
}

// state is the status and the text of the answer. The console shows it too. The first reason in this order is shown: a node
// that starts has several.
func (r *readiness) state() (status int, text string) {
	switch {
	case !r.ready.Load():
		return http.StatusServiceUnavailable, "not ready\n"
	// Until the shows are loaded the node would show boards without shows.
	case !r.cachesLoaded():
		return http.StatusServiceUnavailable, "not ready: the shows of the live board are being loaded\n"
	// This node could serve reads, but another node may be able to serve both reads and writes.
	case r.refusesWrites():
		return http.StatusServiceUnavailable, "not ready: the database refuses writes\n"
	}
	// An unknown difference of the clocks holds no node back.
	ahead, known := r.clockAhead()
	// On a node whose clock is off, tokens would expire early or late, and shows would start and items expire at other times than on
	// other nodes.
	if known && ahead.Abs() > clockTolerance {
		return http.StatusServiceUnavailable, "not ready: " + clockText(ahead) + "\n"
	}
	text = "ready\n"
	if known {
		text += clockText(ahead) + "\n"
	}
	return http.StatusOK, text + r.limitationText()
}
