package jobs

import (
	"context"
	"slices"
	"sync"
	"time"

	"tidings/services"
)

// The times of heartbeats. A count that is wrong for longer than a second would break a promise, so nodeSilentAfter and two
// beats together stay below a second.
const (
	// beatEvery is the time between two heartbeats. They cost a round trip each and no wait for the disk.
	beatEvery = 200 * time.Millisecond
	// nodeSilentAfter is the silence after which a node's jobs no longer count as in progress: less than a second together with
	// two beats.
	nodeSilentAfter = 500 * time.Millisecond
	// nodeDeadAfter is the silence after which others take over a node's jobs. If the node comes back, its leases are
	// lost: what it writes about those jobs changes nothing.
	nodeDeadAfter = 2 * time.Second
	// jobsHaltReportedFor is how long this node reports itself as halted after an engine did not answer a job: longer than a job's
	// pause and its next try together, so that jobs that fail again are not forgotten in between.
	jobsHaltReportedFor = 2 * time.Second
	// nodeLocksGoneAfter is the silence after which PostgreSQL has ended all transactions of a node, so that it locks no job any
	// more.
	nodeLocksGoneAfter = 10 * time.Second
	// beatTimeout bounds one turn of a heartbeat.
	beatTimeout = time.Second
	// maxLateJobsRead bounds how many held or overdue jobs are read at once. If that many are found, there may be more, so that
	// every count of every user may lack the effect of one.
	maxLateJobsRead = 5000
)

// Heartbeat announces to the other nodes on this database that this node lives, and takes over the jobs of silent nodes. The jobs
// are freed after two seconds, and until they are done CountsBehind names the counts that they may change. CountsBehind also names
// the counts of jobs that wait because Redis or SQL does not answer this node or another: otherwise the first reads after the
// engine answers again would show them as EXACT. On SQLite, which serves one process, there is no other node. The heartbeat also
// releases jobs whose state is unknown because SQL did not answer.
type Heartbeat struct {
	engine *Engine

	// predecessorCrashed says that an earlier process of the same name crashed. PostgreSQL may not have noticed yet that it is gone.
	predecessorCrashed bool
	startedAt          time.Time // the start of this process
	unfreed            []Job     // jobs of the earlier process that are not freed yet, because its transactions lock them

	processes map[string]process // of the other nodes, by name
}

// process is a process of another node.
type process struct {
	id          string    // Node.LeaseTokenPrefix of the process
	restartedAt time.Time // when it replaced a crashed process; zero: it did not
}

// Heartbeat makes this node's heartbeat.
func (e *Engine) Heartbeat() *Heartbeat { return &Heartbeat{engine: e} }

// OnBeat registers a function that gets the nodes on this database each time they are listed: when the heartbeat begins and, on
// PostgreSQL, after each beat. On SQLite the list is empty. An error fails the beat. Call it before the heartbeat begins.
func (e *Engine) OnBeat(call func(ctx context.Context, nodes []Node) error) {
	e.beatCallbacks = append(e.beatCallbacks, call)
}

// onBeat calls the functions that OnBeat has registered. An error fails the beat, and the next one calls all of them again.
func (e *Engine) onBeat(ctx context.Context, nodes []Node) error {
	for _, call := range e.beatCallbacks {
		if err := call(ctx, nodes); err != nil {
			return err
		}
	}
	return nil
}

// Begin releases leases left by a crashed process of the same name and announces this node. Call it before the workers
// start.
func (h *Heartbeat) Begin(ctx context.Context) error {
	before, err := Nodes(ctx, h.engine.db)
	if err != nil {
		return err
	}
	h.startedAt = time.Now()
	// A process that ends in order removes its row at the end of Run. If there is a row, the former process is taken to have crashed.
	h.predecessorCrashed = slices.ContainsFunc(before, func(node Node) bool { return node.Self })
	if err := h.freeOwnJobs(ctx); err != nil {
		return err
	}
	if err := h.engine.lateJobs.addHeldJobs(ctx, h.engine, h.unfreed); err != nil {
		return err
	}
	nodes, err := RecordHeartbeat(ctx, h.engine.db, false)
	if err != nil {
		return err
	}
	_ = h.restartedNodes(nodes) // records the processes
	return h.engine.onBeat(ctx, nodes)
}

// freeOwnJobs releases leases that a crashed process of the same name left. Jobs that its transactions have locked stay until
// PostgreSQL has ended these transactions.
func (h *Heartbeat) freeOwnJobs(ctx context.Context) error {
	freed, left, err := freeOwnJobs(ctx, h.engine.db, maxLateJobsRead)
	if err != nil {
		return err
	}
	h.unfreed = left
	if freed > 0 {
		h.engine.log.Info("the previous process did not stop cleanly: its jobs run again", "jobs", freed)
		h.engine.Wake()
	}
	return nil
}

// predecessorLingers reports whether PostgreSQL may still run transactions of a crashed process of the same name.
func (h *Heartbeat) predecessorLingers() bool {
	return h.predecessorCrashed && time.Since(h.startedAt) < nodeLocksGoneAfter
}

// Run beats until ctx ends, and then removes this node from the list. Stop it after the workers.
func (h *Heartbeat) Run(ctx context.Context) error {
	// failing is true while beats fail, so that an outage is logged once.
	failing := false
	err := services.Every(ctx, beatEvery, func(ctx context.Context) {
		err := h.RunOnce(ctx)
		if err != nil && ctx.Err() == nil && !failing {
			h.engine.log.Warn("the heartbeat failed: other nodes may take over this node's jobs", "error", err)
		}
		failing = err != nil
	})
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), beatTimeout)
	defer cancel()
	if doubt := h.engine.possiblyLeasedJobs.giveBack(ending, h.engine); doubt != nil {
		h.engine.log.Debug("jobs that this node may hold could not be given back; others run them when their leases end", "error", doubt)
	}
	if left := removeOwnNode(ending, h.engine.db); left != nil {
		h.engine.log.Debug("this node could not be removed from the list of nodes; the others will find it silent", "error", left)
	}
	return err
}

// RunOnce beats once and handles the jobs of silent nodes.
func (h *Heartbeat) RunOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, beatTimeout)
	defer cancel()
	e := h.engine
	halted := e.jobsHalted()
	nodes, err := RecordHeartbeat(ctx, e.db, halted)
	if err != nil {
		return err
	}
	if len(nodes) > 0 {
		if err := e.onBeat(ctx, nodes); err != nil {
			return err
		}
	}
	if err := e.possiblyLeasedJobs.giveBack(ctx, e); err != nil {
		return err
	}
	if h.predecessorLingers() || len(h.unfreed) > 0 {
		if err := h.freeOwnJobs(ctx); err != nil {
			return err
		}
	}
	var silent, dead []string
	replaced := h.restartedNodes(nodes)
	// hanging says that jobs may be overdue. While jobs are overdue, later ones become overdue too, so look for them until none is left.
	hanging := h.predecessorLingers() || len(replaced) > 0 || halted || len(e.lateJobs.jobs) > 0
	for _, node := range nodes {
		if node.SilentFor >= nodeSilentAfter {
			silent = append(silent, node.Name)
			hanging = hanging || node.SilentFor < nodeLocksGoneAfter
		}
		hanging = hanging || node.JobsHalted && node.SilentFor < nodeLocksGoneAfter
		if node.SilentFor >= nodeDeadAfter {
			dead = append(dead, node.Name)
		}
	}
	if err := h.takeOver(ctx, silent, dead, replaced); err != nil {
		return err
	}
	// Do this last: the jobs of dead nodes must not wait while overdue jobs are read, whose number grows with the backlog.
	if hanging {
		return e.lateJobs.refreshWithTimeout(ctx, e)
	}
	return nil
}

// restartedNodes lists the nodes whose process has recently replaced one that did not remove its node from the list. The earlier
// process crashed, perhaps too recently to count as silent, and PostgreSQL may still run its transactions.
func (h *Heartbeat) restartedNodes(nodes []Node) (again []Node) {
	processes := make(map[string]process, len(nodes))
	for _, node := range nodes {
		if node.Self || node.LeaseTokenPrefix == "" {
			continue
		}
		now, known := h.processes[node.Name]
		if now.id != node.LeaseTokenPrefix {
			if now = (process{id: node.LeaseTokenPrefix}); known {
				now.restartedAt = time.Now()
			}
		}
		processes[node.Name] = now
		if !now.restartedAt.IsZero() && time.Since(now.restartedAt) < nodeLocksGoneAfter {
			again = append(again, node)
		}
	}
	h.processes = processes
	return again
}

// takeOver records the jobs that silent nodes and crashed processes held, and frees the jobs of dead nodes.
func (h *Heartbeat) takeOver(ctx context.Context, silent, dead []string, replaced []Node) (err error) {
	e := h.engine
	held := h.unfreed
	if len(silent) > 0 {
		theirs, err := jobsHeldBy(ctx, e.db, silent, maxLateJobsRead)
		if err != nil {
			return err
		}
		held = append(theirs, held...)
	}
	for _, node := range replaced {
		theirs, err := jobsHeldByEarlierProcess(ctx, e.db, node, maxLateJobsRead)
		if err != nil {
			return err
		}
		held = append(theirs, held...)
	}
	// The jobs are recorded before they are freed: the counts that they change are doubtful until a
	// worker has run them.
	if err := e.lateJobs.addHeldJobs(ctx, e, held); err != nil {
		return err
	}
	if len(dead) == 0 || len(held) == 0 {
		return nil
	}
	freed, err := freeJobsOf(ctx, e.db, dead, nodeDeadAfter)
	if freed > 0 {
		e.log.Warn("a node is silent: the others take over its jobs", "nodes", dead, "jobs", freed)
		e.Wake()
	}
	return err
}

// noteJobsHalted records that an engine (Redis or SQL) did not answer a job just now.
func (e *Engine) noteJobsHalted() { e.lastHaltMicros.Store(e.clock.Now().UnixMicro()) }

// jobsHalted reports whether an engine does not answer this node's jobs, or did not until a moment ago.
func (e *Engine) jobsHalted() bool {
	last := e.lastHaltMicros.Load()
	return last != 0 && e.clock.Now().Sub(time.UnixMicro(last)) < jobsHaltReportedFor
}

// possiblyLeasedJobs are jobs that this node may hold although no worker runs them: SQL did not answer when they were claimed or
// settled.
type possiblyLeasedJobs struct {
	mu   sync.Mutex // guards jobs
	jobs []Job
}

// add remembers jobs that giveBack will release. Jobs that this node does not hold may be among them: giveBack leaves those alone.
func (d *possiblyLeasedJobs) add(jobs []Job) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.jobs = append(d.jobs, jobs...)
}

// giveBack releases the jobs that this node may hold. Jobs that were claimed again or finished meanwhile no longer have this node's
// token, and do not change.
func (d *possiblyLeasedJobs) giveBack(ctx context.Context, e *Engine) error {
	d.mu.Lock()
	jobs := d.jobs
	d.jobs = nil
	d.mu.Unlock()
	if len(jobs) == 0 {
		return nil
	}
	if err := release(ctx, e.db, jobs, e.clock.Now()); err != nil {
		d.add(jobs)
		return err
	}
	e.Wake()
	return nil
}
