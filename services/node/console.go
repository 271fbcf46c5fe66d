package node

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tidings/dataloader"
	"tidings/graph"
	"tidings/resolvers"
	"tidings/services"
	"tidings/services/acts"
	"tidings/services/jobs"
	"tidings/transport"
	"tidings/web/console"
)

// overviewTimeout bounds how long an overview waits for each engine: an operator opens it when one of them does not answer.
// Two engines and the statements after them then take a few seconds at most, which a person still waits for.
const overviewTimeout = 2 * time.Second

// overviewMetrics are the metrics that the overview of the console has, by group. /metrics has all. Each is one number: metrics with
// labels would need more room than a line. A name that the registry does not have is left out silently, so look at the page after
// adding one.
var overviewMetrics = []struct {
	title string
	names []string
}{
	{"Audit", []string{"badge_audited_total", "badge_drift_total", "badge_mended_total", "post_counts_mended_total", "badge_audit_lap_seconds"}},
	{"Pushes", []string{"users_online", "sockets_open", "event_streams_open", "push_delivered_total", "push_conflated_total", "push_repairs_total", "push_conflicts_total", "push_render_errors_total"}},
	{"Fan-out", []string{"fanout_waiting", "fanout_lag_seconds", "fanout_delivered_total", "replays_delivered_total"}},
	{"Change stream", []string{"changes_writer", "changes_waiting", "changes_lag_seconds", "changes_written_total"}},
	{"Rebuilds and limits", []string{"rebuilds_total", "rebuilds_running", "rate_limited_total", "connections_refused_total", "unread_clamped_total"}},
}

// newConsole makes the operators' console. It executes GraphQL as its viewer, and records what the viewer does; the data that
// it takes from the node directly is only read. Both listeners share it, so that a session made on one is good on the other.
func (s *Server) newConsole(identity *transport.Identity, root *resolvers.Resolver) http.Handler {
	// resolvers.WithHotOperations, which makes frequent operations faster, is not used here: an operator's page is rare.
	local := transport.NewLocalExecutor(transport.LocalExecutorConfig{
		Schema: graph.NewSchema(graph.Config{Resolvers: root}), PrepareContext: func(ctx context.Context) context.Context { return dataloader.With(ctx, root.Readers) },
		ErrorPresenter: resolvers.ErrorPresenter(s.Log), Recover: resolvers.Recover, OperationTimeout: s.Config.Requests.OperationTimeout,
	})
	// The console has its own registry beside the registry of /metrics: both only read.
	registry := sync.OnceValue(s.registry) // made on first use, because few nodes are looked at
	return console.New(console.Config{
		Identify: func(ctx context.Context, token string) (services.Viewer, time.Time, error) {
			return identity.Viewer(ctx, token, "", "")
		},
		Execute: local.Do,
		// RecordAct is for acts of the console that are no mutations, such as a look at a user.
		RecordAct: func(ctx context.Context, action, target string, work func(ctx context.Context) error) error {
			viewer, err := services.ViewerFrom(ctx)
			if err != nil {
				return err
			}
			return root.Acts.Do(ctx, acts.Act{Actor: viewer.Subject, Action: action, Target: target}, work)
		},
		NodeState: func(ctx context.Context) console.NodeState { return s.consoleState(ctx, registry()) },
		Now:       s.clock.Now, Development: s.Config.Development(), Version: version(), Log: s.Log,
	})
}

// consoleState is what the overview shows beyond GraphQL. A part that cannot be read is named in Faults, and the rest is
// shown: the page must work best when the node does not. It is called for each view of the overview, and keeps nothing.
func (s *Server) consoleState(ctx context.Context, metrics prometheus.Gatherer) console.NodeState {
	status, text := s.Ready.state()
	state := console.NodeState{Node: s.Config.Node, Readyz: strings.TrimSpace(text), Serves: status == http.StatusOK}
	state.Engines = []console.Engine{
		// The engines are asked one after the other: each has its own timeout, and there are only two.
		pingEngine(ctx, "Database", s.DB.DialectName(), s.DB.Ping, s.DB.RefusesWrites),
		pingEngine(ctx, "Redis", s.Redis.Client.Mode(), s.Redis.Client.Ping, s.Redis.Client.RefusesWrites),
	}
	fault := func(what string, err error) {
		if err != nil {
			s.Log.Warn("the console could not show "+what, "error", err)
			state.Faults = append(state.Faults, what)
		}
	}
	within, cancel := context.WithTimeout(ctx, overviewTimeout)
	defer cancel()
	// The two reads of SQL share one timeout, so that a page takes a few seconds at most.
	nodes, err := jobs.Nodes(within, s.DB)
	fault("the nodes", err)
	for _, node := range nodes {
		state.Nodes = append(state.Nodes, console.Node{Name: node.Name, Self: node.Self, Halted: node.JobsHalted, SilentFor: node.SilentFor, Ahead: node.ClockAhead.Round(time.Millisecond)})
	}
	kinds, err := jobs.CountsByKind(within, s.DB)
	fault("the jobs by kind", err)
	for _, kind := range kinds {
		shown := console.JobKindCounts{Name: kind.Kind, Waiting: kind.Waiting, Running: kind.Running, Failed: kind.Failed, Dead: kind.Dead}
		if !kind.OldestWaitingSince.IsZero() {
			shown.Lag = max(0, s.clock.Now().Sub(kind.OldestWaitingSince))
		}
		state.Jobs = append(state.Jobs, shown)
	}
	state.Groups, err = readMetricGroups(metrics)
	fault("all metrics", err)
	return state
}

// pingEngine asks an engine for an answer, and measures how long that takes. The error itself is not shown, because it may have an
// address in it. Whether the engine refuses writes is known already: WatchMasters and WatchWrites check it each second.
func pingEngine(ctx context.Context, name, kind string, ping func(context.Context) error, refuses func() bool) console.Engine {
	ctx, cancel := context.WithTimeout(ctx, overviewTimeout)
	defer cancel()
	began := time.Now()
	err := ping(ctx)
	shown := console.Engine{Name: name, Kind: kind, Took: time.Since(began)}
	if err != nil {
		shown.Fault = "does not answer"
	} else if refuses() {
		shown.Fault = "refuses writes"
	}
	return shown
}

// readMetricGroups reads overviewMetrics. A metric that cannot be read now is absent, and a group without any is left out. Gather
// returns what it could read also with an error. The names here are without the namespace, which Gather adds.
func readMetricGroups(metrics prometheus.Gatherer) ([]console.MetricGroup, error) {
	families, err := metrics.Gather()
	found := map[string]console.Metric{}
	for _, family := range families {
		// Counters and gauges are read alike. If a metric had several values the last would win, but each of overviewMetrics has
		// one.
		for _, metric := range family.GetMetric() {
			value := metric.GetGauge().GetValue()
			if metric.GetCounter() != nil {
				value = metric.GetCounter().GetValue()
			}
			found[family.GetName()] = console.Metric{Name: family.GetName(), Help: family.GetHelp(), Value: value}
		}
	}
	var list []console.MetricGroup
	for _, group := range overviewMetrics {
		shown := console.MetricGroup{Title: group.title}
		for _, name := range group.names {
			if number, there := found["tidings_"+name]; there {
				shown.Numbers = append(shown.Numbers, number)
			}
		}
		list = append(list, shown)
	}
	// A group without numbers has no heading either.
	return slices.DeleteFunc(list, func(group console.MetricGroup) bool { return len(group.Numbers) == 0 }), err
}
