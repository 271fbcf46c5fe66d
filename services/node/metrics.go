package node

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"tidings/services/fanout"
	"tidings/services/jobs"
	"tidings/services/store"
)

// metrics are the node's metrics for Prometheus: its own, Go's and the process'.
func (s *Server) metrics() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	gauge := func(name, help string, value func() float64) {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "tidings", Name: name, Help: help}, value))
	}
	counter := func(name, help string, value func() uint64) {
		registry.MustRegister(prometheus.NewCounterFunc(
			prometheus.CounterOpts{Namespace: "tidings", Name: name, Help: help}, func() float64 { return float64(value()) }))
	}
	counter("connections_refused_total", "Connections closed at once, because their address held as many as one may.", s.Connections.Refused)
	gauge("sockets_open", "Open WebSockets.", func() float64 { return float64(s.sockets.Stats().Open) })
	gauge("event_streams_open", "Open event streams (SSE), reserved ones included.", func() float64 { return float64(s.sockets.Stats().Streams) })
	counter("sockets_opened_total", "WebSockets and event streams ever opened.", func() uint64 { return s.sockets.Stats().Opened })
	counter("sockets_refused_total", "WebSockets and event streams refused.", func() uint64 { return s.sockets.Stats().Refused })
	counter("sockets_slow_total", "WebSockets and event streams cut off because they were not read.", func() uint64 { return s.sockets.Stats().Slow })
	counter("socket_events_total", "Events written to WebSockets and event streams.", func() uint64 { return s.sockets.Stats().Events })
	gauge("users_online", "Users with an open subscription on this node.", func() float64 { return float64(s.Hub.Stats().Online) })
	counter("push_delivered_total", "States handed to subscriptions.", func() uint64 { return s.Hub.Stats().Delivered })
	counter("push_conflated_total", "States replaced by newer ones before they were sent.", func() uint64 { return s.Hub.Stats().Conflated })
	counter("push_repairs_total", "Users whom the sweep found to be shown something old.", func() uint64 { return s.Hub.Stats().Repairs })
	counter("push_conflicts_total", "Users for whom two states were rendered under one version.", func() uint64 { return s.Hub.Stats().Conflicts })
	counter("push_render_errors_total", "Renderings that failed.", func() uint64 { return s.Hub.Stats().RenderErrors })
	counter("rate_limited_total", "Requests, operations and sockets that were refused for their rate.", s.Limiter.Refused)
	counter("rebuilds_total", "Views that were rebuilt from the facts.", func() uint64 { return s.Fanout.RebuildStats().Begun })
	gauge("rebuilds_running", "Views that are being rebuilt now.", func() float64 { return float64(s.Fanout.RebuildStats().Running) })
	counter("badge_audited_total", "Users whose badges were compared with the facts.", func() uint64 { return s.audit.Stats().Visited })
	counter("badge_mended_total", "Users of whose badges Redis had lost something that the audit brought back.", func() uint64 { return s.audit.Stats().Mended })
	counter("badge_drift_total", "Users whose badges were wrong, found and repaired by the audit.", func() uint64 { return s.audit.Stats().Drifted })
	counter("fanout_delivered_total", "Posts put into feeds.", s.Fanout.Delivered)
	counter("replays_delivered_total", "Times that replays were put into a list of a live board.", s.Live.ReplaysDelivered)
	counter("unread_clamped_total", "Numbers of unread messages that were found below nought. It stays 0.", s.Fanout.Clamped)
	gauge("badge_audit_lap_seconds", "How long the audit had been in its lap at this node's last turn: more than audit-every says that it does not keep up.", func() float64 { return s.audit.Stats().Lap.Seconds() })
	gauge("clock_ahead_seconds", "By how much this node's clock is ahead of the database's; negative when it is behind. 0 on SQLite, which has no clock of its own.", func() float64 {
		ahead, _ := s.Fanout.ClockAhead()
		return ahead.Seconds()
	})
	gauge("redis_refuses_writes", "1 while Redis answers and takes no writes: counts are STALE then.", func() float64 {
		if s.Redis.RefusesWrites() {
			return 1
		}
		return 0
	})
	for _, freed := range []struct {
		kind, help string
		count      func(fanout.Freed) uint64
	}{
		{"inboxes", "Inboxes and lists of replays that the cleaner cut to what is listed.", func(f fanout.Freed) uint64 { return f.Inboxes }},
		{"entries", "Entries that it cut from them.", func(f fanout.Freed) uint64 { return f.Entries }},
		{"dormant", "Dormant users whose keys it dropped.", func(f fanout.Freed) uint64 { return f.Dormant }},
		{"unknown", "Users not in SQL whose keys it dropped.", func(f fanout.Freed) uint64 { return f.Unknown }},
		{"orphans", "Keys of a view without its document that it dropped.", func(f fanout.Freed) uint64 { return f.Orphans }},
		{"endless", "Copies, views and leases without an expiry that it dropped.", func(f fanout.Freed) uint64 { return f.Endless }},
		{"keys", "Keys that it dropped, in all.", func(f fanout.Freed) uint64 { return f.Keys }},
	} {
		counter("cleaner_"+freed.kind+"_total", freed.help, func() uint64 { return freed.count(s.cleaner.Stats()) })
	}
	registry.MustRegister(&jobCollector{store: s.Store, fanout: s.Fanout})
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}

// jobCollector reads the state of the job queue at each scrape.
type jobCollector struct {
	store  *store.Store
	fanout *fanout.Fanout
}

var (
	jobsWaiting = prometheus.NewDesc("tidings_jobs_waiting", "Jobs that wait or run.", nil, nil)
	jobsDead    = prometheus.NewDesc("tidings_jobs_dead", "Jobs given up.", nil, nil)
	fanoutWaits = prometheus.NewDesc("tidings_fanout_waiting", "Jobs that carry posts, or their deletion, to followers.", nil, nil)
	fanoutLag   = prometheus.NewDesc("tidings_fanout_lag_seconds", "For how long the oldest of these has been on its way.", nil, nil)
	jobsOldest  = prometheus.NewDesc("tidings_jobs_oldest_seconds", "How long the oldest waiting job has been due.", nil, nil)
)

// Describe names the metrics.
func (c *jobCollector) Describe(out chan<- *prometheus.Desc) {
	out <- jobsWaiting
	out <- jobsDead
	out <- jobsOldest
	out <- fanoutWaits
	out <- fanoutLag
}

// Collect reads the metrics; while SQL does not answer there are none.
func (c *jobCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	waiting, dead, oldest, err := jobs.JobCounts(ctx, c.store.DB)
	if err != nil {
		return
	}
	age := 0.0
	if !oldest.IsZero() {
		age = max(0, time.Since(oldest).Seconds())
	}
	out <- prometheus.MustNewConstMetric(jobsWaiting, prometheus.GaugeValue, float64(waiting))
	out <- prometheus.MustNewConstMetric(jobsDead, prometheus.GaugeValue, float64(dead))
	out <- prometheus.MustNewConstMetric(jobsOldest, prometheus.GaugeValue, age)
	lag, err := c.fanout.Lag(ctx)
	if err != nil {
		return
	}
	out <- prometheus.MustNewConstMetric(fanoutWaits, prometheus.GaugeValue, float64(lag.Waiting))
	out <- prometheus.MustNewConstMetric(fanoutLag, prometheus.GaugeValue, lag.Oldest.Seconds())
}

// clockTolerance is how far a node's clock may differ from the database's while the node takes traffic.
const clockTolerance = 2 * time.Second

// clockText says how far this node's clock is off.
func clockText(ahead time.Duration) string {
	where := "ahead of"
	if ahead < 0 {
		where = "behind"
	}
	return fmt.Sprintf("this node's clock is %s %s the database's", ahead.Abs().Round(time.Millisecond), where)
}

// readiness answers whether this node takes traffic.
type readiness struct {
	yes     atomic.Bool
	knows   func() bool                              // whether it has loaded the data that it serves from memory
	refuses func() bool                              // whether SQL takes no writes: another node may have room
	ahead   func() (ahead time.Duration, known bool) // of this node's clock, relative to the database's
	remark  func() string                            // a limitation of a node that takes traffic; "" for none
}

func (r *readiness) Set(yes bool) { r.yes.Store(yes) }

// ServeHTTP answers 200 while the node is ready, else 503.
func (r *readiness) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	if !r.yes.Load() {
		http.Error(w, "not ready", http.StatusServiceUnavailable)
		return
	}
	if !r.knows() {
		http.Error(w, "not ready: the shows of the live board are being read", http.StatusServiceUnavailable)
		return
	}
	if r.refuses() {
		http.Error(w, "not ready: the database takes no writes", http.StatusServiceUnavailable)
		return
	}
	ahead, known := r.ahead()
	if known && ahead.Abs() > clockTolerance {
		http.Error(w, "not ready: "+clockText(ahead), http.StatusServiceUnavailable)
		return
	}
	text := "ready\n"
	if known {
		text += clockText(ahead) + "\n"
	}
	_, _ = io.WriteString(w, text+r.remark())
}
