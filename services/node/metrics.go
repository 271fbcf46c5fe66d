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

	"tidings/services/fanout"
	"tidings/services/jobs"
	"tidings/services/projector"
	"tidings/services/sql"
)

// metrics serves the node's metrics to Prometheus.
func (s *Server) metrics() http.Handler {
	return promhttp.HandlerFor(s.registry(), promhttp.HandlerOpts{})
}

// registry has the node's metrics: its own, Go's and the process'. Values are read at each scrape, and nothing is counted twice.
// Names do not change between versions, because dashboards and alarms have them; a test compares the names in deploy with these.
// Each call makes a new registry, because each handler and the console have their own. A metric may be read at any time between
// NewServer and the end of the node.
func (s *Server) registry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	// The metrics of Go and of the process: memory, goroutines, open files.
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	// A gauge may fall. A counter only rises while the process lives; Prometheus sees a restart.
	gauge := func(name, help string, value func() float64) {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "tidings", Name: name, Help: help}, value))
	}
	counter := func(name, help string, value func() uint64) {
		registry.MustRegister(prometheus.NewCounterFunc(
			prometheus.CounterOpts{Namespace: "tidings", Name: name, Help: help}, func() float64 { return float64(value()) }))
	}
	// Clients: connections, sockets and pushes.
	counter("connections_refused_total", "Connections closed at once because their address was at its limit.", s.Connections.CountRefused)
	gauge("sockets_open", "Open WebSockets.", func() float64 { return float64(s.sockets.Stats().Open) })
	gauge("event_streams_open", "Open event streams (SSE), reserved ones included.", func() float64 { return float64(s.sockets.Stats().Streams) })
	counter("sockets_opened_total", "WebSockets and event streams ever opened.", func() uint64 { return s.sockets.Stats().Opened })
	counter("sockets_refused_total", "WebSockets and event streams refused.", func() uint64 { return s.sockets.Stats().Refused })
	counter("sockets_slow_total", "WebSockets and event streams closed because the client read too slowly.", func() uint64 { return s.sockets.Stats().SlowClients })
	counter("socket_events_total", "Events written to WebSockets and event streams.", func() uint64 { return s.sockets.Stats().Events })
	gauge("users_online", "Users with an open subscription on this node.", func() float64 { return float64(s.Hub.Stats().OnlineUsers) })
	counter("push_delivered_total", "Badge states handed to subscriptions.", func() uint64 { return s.Hub.Stats().StatesDelivered })
	counter("push_conflated_total", "Badge states replaced by newer ones before they were sent.", func() uint64 { return s.Hub.Stats().StatesReplaced })
	counter("push_repairs_total", "Users whose shown badges were out of date when reconciliation compared them.", func() uint64 { return s.Hub.Stats().UsersRepaired })
	counter("push_conflicts_total", "Users with two different badge states under one version.", func() uint64 { return s.Hub.Stats().VersionConflicts })
	counter("push_render_errors_total", "Failed renderings of badges.", func() uint64 { return s.Hub.Stats().RenderErrors })
	counter("rate_limited_total", "Requests, operations and sockets refused by rate limits.", s.Limiter.Refused)
	// Projections: rebuilds, and what the audit had to mend. Some of these are 0 unless there is a fault: alarms watch them.
	counter("rebuilds_total", "Projections in Redis that were rebuilt from the facts.", func() uint64 { return s.Projector.RebuildStats().Begun })
	gauge("rebuilds_running", "Projections in Redis that are being rebuilt now.", func() float64 { return float64(s.Projector.RebuildStats().Running) })
	counter("badge_audited_total", "Users whose badges were compared with the facts.", func() uint64 { return s.audit.Stats().VisitedUsers })
	counter("badge_mended_total", "Users whose badges had lost data in Redis, which the audit restored.", func() uint64 { return s.audit.Stats().RestoredUsers })
	counter("badge_drift_total", "Users whose badges were wrong, as the audit found and repaired.", func() uint64 { return s.audit.Stats().DriftedUsers })
	counter("post_counts_mended_total", "Posts whose counts of likes or answers were wrong, as the audit found and repaired. Always 0 unless there is a fault.", func() uint64 { return s.audit.Stats().MiscountedPosts })
	counter("fanout_delivered_total", "Posts written into the inboxes of followers.", s.Fanout.DeliveredEntries)
	counter("replays_delivered_total", "Replays written into the replay lists of followers.", s.Live.ReplaysDelivered)
	counter("unread_clamped_total", "Negative counts of unread messages that were clamped to 0. Always 0 unless there is a fault.", s.Projector.NegativeCounts)
	gauge("badge_audit_lap_seconds", "Age of the audit's current lap at this node's last turn. More than audit-every means that the audit does not keep up.", func() float64 { return s.audit.Stats().LapAge.Seconds() })
	// The engines, as this node sees them.
	gauge("clock_ahead_seconds", "Seconds by which this node's clock is ahead of the database's; negative when behind. Always 0 on SQLite, which has no clock of its own.", func() float64 {
		ahead, _ := s.Projector.ClockAhead()
		return ahead.Seconds()
	})
	gauge("redis_refuses_writes", "1 while Redis answers but refuses writes, so that counts are STALE.", func() float64 {
		if s.Redis.RefusesWrites() {
			return 1
		}
		return 0
	})
	// There is one metric for each kind, and no labels, because alarms name the metrics.
	for _, freed := range []struct {
		kind, help string
		count      func(projector.FreedCounts) uint64
	}{
		{"inboxes", "Inboxes and replay lists that the cleaner trimmed.", func(f projector.FreedCounts) uint64 { return f.TrimmedLists }},
		{"entries", "Entries that the cleaner removed from inboxes and replay lists.", func(f projector.FreedCounts) uint64 { return f.RemovedEntries }},
		{"dormant", "Dormant users whose keys the cleaner removed.", func(f projector.FreedCounts) uint64 { return f.DormantUsers }},
		{"unknown", "Users unknown to SQL whose keys the cleaner removed.", func(f projector.FreedCounts) uint64 { return f.UnknownUsers }},
		{"orphans", "Keys without their badge document that the cleaner removed.", func(f projector.FreedCounts) uint64 { return f.OrphanKeys }},
		{"endless", "Copies, projections and leases without an expiry that the cleaner removed.", func(f projector.FreedCounts) uint64 { return f.KeysWithoutExpiry }},
		{"keys", "Keys that the cleaner removed, in all.", func(f projector.FreedCounts) uint64 { return f.DroppedKeys }},
	} {
		counter("cleaner_"+freed.kind+"_total", freed.help, func() uint64 { return freed.count(s.cleaner.Stats()) })
	}
	// Parts that may be switched off have metrics all the same, which then stay at 0 or are absent.
	s.registerStreamMetrics(gauge, counter)
	s.registerWebhookMetrics(gauge, counter)
	registry.MustRegister(&webhookCollector{enabled: s.webhooks.On, list: s.webhooks.Endpoints, now: s.clock.Now})
	registry.MustRegister(&deviceCollector{enabled: s.devices.On, count: s.devices.Counts, now: s.clock.Now})
	gauge("devices_sending", "1 on the node that sends to devices, 0 on the others.", func() float64 {
		if s.devices.Stats().SendsHere {
			return 1
		}
		return 0
	})
	registry.MustRegister(&jobCollector{store: s.Store, fanout: s.Fanout, streamLag: s.streamLag})
	return registry
}

// registerStreamMetrics registers the metrics of the change stream. Most are 0 on all nodes but the writer. For all nodes together,
// add up the counters, and take the greatest value of each gauge.
func (s *Server) registerStreamMetrics(gauge func(name, help string, value func() float64), counter func(name, help string, value func() uint64)) {
	stats := s.stream.Stats
	counter("changes_written_total", "Changes of users' badges that this node wrote to the change stream.", func() uint64 { return stats().Changes })
	counter("changes_marked_total", "Users that this node's jobs marked for the change stream.", func() uint64 { return stats().Marks })
	counter("changes_compared_total", "Marked users whose badges this node compared with their last change.", func() uint64 { return stats().ComparedUsers })
	counter("changes_laps_total", "Laps of the change stream over all active users.", func() uint64 { return stats().Laps })
	gauge("changes_lap_seconds", "Duration of this node's last lap.", func() float64 { return stats().LastLapTook.Seconds() })
	counter("changes_slow_laps_total", "Laps of the change stream over all users who are not active.", func() uint64 { return stats().SlowLaps })
	gauge("changes_slow_lap_seconds", "Duration of the last slow lap that this node ended, with its rests.", func() float64 { return stats().LastSlowLapTook.Seconds() })
	gauge("changes_writer", "1 on the node that writes the change stream, 0 on the others and while it is off.", func() float64 {
		if stats().IsWriter {
			return 1
		}
		return 0
	})
}

// jobCollector reads the state of the job queue at each scrape. It is one collector and not several gauges, so that three statements
// serve seven metrics, and no metric is shown while SQL does not answer: a 0 would look like an empty queue.
type jobCollector struct {
	store  *sql.DB
	fanout *fanout.Fanout
	// streamLag is Server.streamLag: how many marked users wait for the writer of the change stream, and how long the first has
	// waited.
	streamLag func(ctx context.Context) (waiting int, seconds float64, err error)
}

var (
	jobsWaiting    = prometheus.NewDesc("tidings_jobs_waiting", "Jobs that wait or run, including those planned for later.", nil, nil)
	jobsDead       = prometheus.NewDesc("tidings_jobs_dead", "Jobs given up after five failures of their own.", nil, nil)
	fanoutWaiting  = prometheus.NewDesc("tidings_fanout_waiting", "Jobs that bring posts or deletions to followers.", nil, nil)
	fanoutLag      = prometheus.NewDesc("tidings_fanout_lag_seconds", "Age of the oldest post that is still being brought to followers.", nil, nil)
	changesWaiting = prometheus.NewDesc("tidings_changes_waiting", "Users whose badges are to be compared with their last change.", nil, nil)
	// changesLag is about the users that changesWaiting counts.
	changesLag = prometheus.NewDesc("tidings_changes_lag_seconds", "Time since the first of them was due.", nil, nil)
	jobsOldest = prometheus.NewDesc("tidings_jobs_oldest_seconds", "Time since the oldest waiting job was due.", nil, nil)
)

// Describe names the metrics.
func (c *jobCollector) Describe(out chan<- *prometheus.Desc) {
	out <- jobsWaiting
	out <- jobsDead
	out <- jobsOldest
	out <- fanoutWaiting
	out <- fanoutLag
	out <- changesWaiting
	out <- changesLag
}

// Collect reads the metrics; while SQL does not answer there are none. Metrics that were read before a statement failed are
// shown.
func (c *jobCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	// The interface of Prometheus gives no context. The timeout is short, because Prometheus waits for the whole page.
	waiting, dead, oldest, err := jobs.JobCounts(ctx, c.store)
	if err != nil {
		return
	}
	// The age is zero for an empty queue, and for a job whose time is ahead of this clock.
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
	out <- prometheus.MustNewConstMetric(fanoutWaiting, prometheus.GaugeValue, float64(lag.WaitingJobs))
	out <- prometheus.MustNewConstMetric(fanoutLag, prometheus.GaugeValue, lag.OldestJobAge.Seconds())
	// Both are 0 while the stream is off.
	due, late, err := c.streamLag(ctx)
	if err != nil {
		return
	}
	out <- prometheus.MustNewConstMetric(changesWaiting, prometheus.GaugeValue, float64(due))
	out <- prometheus.MustNewConstMetric(changesLag, prometheus.GaugeValue, late)
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
