package jobs

import (
	"context"
	"time"

	"tidings/services/sql"
)

// nodeRetention is how long a node's row stays after its last heartbeat: longer than any lease of its jobs.
const nodeRetention = 24 * time.Hour

// All times of heartbeats are the database's, so that clocks of nodes need not agree. clock_at is the node's own time, for the
// comparison of the two clocks.
var (
	// A heartbeat's commit does not wait for the disk: if a crash of the database loses it, the next heartbeat replaces it.
	beatNode = sql.NewStatement("heartbeat", `INSERT INTO nodes (name, beat_at, clock_at, process, halted) SELECT $1, {database clock}, $2, $3, $4 {no wait for the disk}
		ON CONFLICT (name) DO UPDATE SET beat_at = excluded.beat_at, clock_at = excluded.clock_at, process = excluded.process, halted = excluded.halted`)

	listNodes = sql.NewStatement("nodes", `SELECT name, process, halted, {database clock} - beat_at, clock_at - beat_at FROM nodes ORDER BY name`)

	leaveNode = sql.NewStatement("node leaves", `DELETE FROM nodes WHERE name = $1`)

	forgetNodes = sql.NewStatement("forget nodes", `DELETE FROM nodes WHERE beat_at < {database clock} - $1`)

	// The condition node <> '' looks redundant, but it lets the database use the partial index of leased jobs, which is small.
	heldJobs = sql.NewStatement("jobs held by nodes", `SELECT id, kind, key, payload, created_at FROM jobs
		WHERE {in node $1 TEXT} AND node <> '' ORDER BY id LIMIT $2`)

	// The jobs of an earlier process have tokens without the prefix $2, which is that of the node's present process.
	earlierProcessJobs = sql.NewStatement("jobs held by an earlier process", `SELECT id, kind, key, payload, created_at FROM jobs
		WHERE {in node $1 TEXT} AND node <> '' AND token NOT LIKE $2 ORDER BY id LIMIT $3`)

	freeEarlierProcessJobs = sql.NewStatement("free the jobs of an earlier process", `UPDATE jobs SET due_at = $3, token = '', node = ''
		WHERE id IN (SELECT id FROM jobs WHERE {in node $1 TEXT} AND node <> '' AND token NOT LIKE $2 {skip locked})`)

	// overdueJobs finds jobs that were made, or planned to be due, by $3 and whose lease or pause, if any, ends by $2.
	overdueJobs = sql.NewStatement("overdue jobs", `SELECT j.id FROM {rows $1 kind TEXT} AS k CROSS JOIN jobs j
		WHERE j.kind = k.kind AND j.due_at <= $2 AND j.created_at <= $3 ORDER BY j.id LIMIT $4`)

	jobsByID = sql.NewStatement("jobs by id", `SELECT id, kind, key, payload, created_at FROM jobs WHERE {in id $1 BIGINT} ORDER BY id`)

	remainingJobs = sql.NewStatement("jobs not done yet", `SELECT id FROM jobs WHERE {in id $1 BIGINT}`)

	// The heartbeat is checked again in the statement: a node that has come back keeps its jobs.
	freeSilentNodesJobs = sql.NewStatement("free the jobs of nodes", `UPDATE jobs SET due_at = $2, token = '', node = ''
		WHERE id IN (SELECT id FROM jobs WHERE {in node $1 TEXT} AND node <> '' {skip locked})
		AND NOT EXISTS (SELECT 1 FROM nodes n WHERE n.name = jobs.node AND n.beat_at > {database clock} - $3)`)
)

// Node is a process that shares this database, according to its last heartbeat.
type Node struct {
	Name             string
	LeaseTokenPrefix string        // the prefix of its jobs' tokens; "" for a release that does not record it
	Self             bool          // it is this node
	JobsHalted       bool          // its jobs wait for an engine (Redis or SQL) that does not answer, or did not a moment ago
	SilentFor        time.Duration // since its last heartbeat, by the database's clock
	ClockAhead       time.Duration // how far its clock is ahead of the database's, less the heartbeat's time in transit
}

// RecordHeartbeat records this node's heartbeat, and whether its jobs wait for an engine (Redis or SQL) that does not answer. It
// lists all nodes by name, except those that have left or that ForgetNodes has removed. On SQLite, which serves one process, it
// does nothing and lists none. It is exported for the tests of other packages, which play a node that dies.
func RecordHeartbeat(ctx context.Context, db *sql.DB, halted bool) (nodes []Node, err error) {
	if db.Node == "" {
		return nil, nil
	}
	if _, err := db.Heartbeats.Run(ctx, beatNode, db.Node, db.Now(), db.LeaseTokenPrefix, halted); err != nil {
		return nil, err
	}
	return Nodes(ctx, db)
}

// Nodes lists all nodes by name, except those that have left or that ForgetNodes has removed; on SQLite it lists none. Unlike
// RecordHeartbeat it records no heartbeat of this node.
func Nodes(ctx context.Context, db *sql.DB) ([]Node, error) {
	if db.Node == "" {
		return nil, nil
	}
	return sql.ReadRows(ctx, db.Heartbeats, listNodes, nil, func(scan sql.Scan, node *Node) error {
		var silent, ahead int64
		err := scan(&node.Name, &node.LeaseTokenPrefix, &node.JobsHalted, &silent, &ahead)
		node.Self = node.Name == db.Node
		node.SilentFor, node.ClockAhead = time.Duration(silent)*time.Microsecond, time.Duration(ahead)*time.Microsecond
		return err
	})
}

// removeOwnNode removes this node from the list. It must hold no jobs any more.
func removeOwnNode(ctx context.Context, db *sql.DB) error {
	if db.Node == "" {
		return nil
	}
	_, err := db.Heartbeats.Run(ctx, leaveNode, db.Node)
	return err
}

// ForgetNodes removes the nodes that have been silent for a day, and returns how many.
func ForgetNodes(ctx context.Context, db *sql.DB) (forgotten int, err error) {
	err = db.Write(ctx, func(tx *sql.Tx) error {
		forgotten, err = tx.Run(ctx, forgetNodes, nodeRetention.Microseconds())
		return err
	})
	return forgotten, err
}

// jobsHeldBy lists jobs that some nodes hold leases on, at most limit, oldest first.
func jobsHeldBy(ctx context.Context, db *sql.DB, nodes []string, limit int) ([]Job, error) {
	return selectJobs(ctx, db, heldJobs, nodes, limit)
}

// jobsHeldByEarlierProcess lists jobs that earlier processes of a node hold leases on, at most limit, oldest first.
func jobsHeldByEarlierProcess(ctx context.Context, db *sql.DB, node Node, limit int) ([]Job, error) {
	return selectJobs(ctx, db, earlierProcessJobs, []string{node.Name}, node.LeaseTokenPrefix+"%", limit)
}

// overdueIDs lists the ids of jobs of some kinds that were due by a time and are not done yet, at most limit, oldest first.
// They are overdue because the workers are behind, an engine does not answer, or a hanging node has locked them. Jobs whose
// lease or pause ends after until are omitted.
func overdueIDs(ctx context.Context, db *sql.DB, kinds []string, dueBy, until time.Time, limit int) ([]int64, error) {
	return sql.ReadColumn[int64](ctx, db, overdueJobs, sql.ColumnParameter(kinds), until, dueBy, limit)
}

// selectJobs reads the jobs that a statement selects, without tries and token: they are not claimed.
func selectJobs(ctx context.Context, db *sql.DB, st sql.Statement, args ...any) ([]Job, error) {
	return sql.ReadRows(ctx, db, st, args, func(scan sql.Scan, job *Job) error {
		var created int64
		err := scan(&job.ID, &job.Kind, &job.Key, &job.Payload, &created)
		job.CreatedAt = sql.FromMicros(created)
		return err
	})
}

// remainingJobIDs returns which of the given jobs are not done yet.
func remainingJobIDs(ctx context.Context, db *sql.DB, ids []int64) ([]int64, error) {
	return sql.ReadColumn[int64](ctx, db, remainingJobs, ids)
}

// freeJobsOf ends the leases of those nodes that have been silent for at least the given time, and returns how many it ended. Later
// writes of those nodes to the jobs have no effect: their tokens are void.
func freeJobsOf(ctx context.Context, db *sql.DB, nodes []string, silent time.Duration) (freed int, err error) {
	err = db.Write(ctx, func(tx *sql.Tx) error {
		freed, err = tx.Run(ctx, freeSilentNodesJobs, nodes, tx.Now, silent.Microseconds())
		return err
	})
	return freed, err
}

// freeOwnJobs ends the leases that an earlier process of this node's name still holds, and returns how many. It cannot free
// jobs that a transaction of that process still has locked: it returns them, at most limit, oldest first. Call it again
// until none is left. On SQLite the lock of the file proves that every former holder of a lease is dead: all leases end.
func freeOwnJobs(ctx context.Context, db *sql.DB, limit int) (freed int, left []Job, err error) {
	its := db.LeaseTokenPrefix + "%"
	err = db.Write(ctx, func(tx *sql.Tx) error {
		if db.Node == "" {
			if db.Dialect == sql.SQLite {
				freed, err = tx.Run(ctx, freeJobs, tx.Now, its)
			}
			return err
		}
		freed, err = tx.Run(ctx, freeEarlierProcessJobs, []string{db.Node}, its, tx.Now)
		return err
	})
	if err != nil || db.Node == "" {
		return freed, nil, err
	}
	left, err = jobsHeldByEarlierProcess(ctx, db, Node{Name: db.Node, LeaseTokenPrefix: db.LeaseTokenPrefix}, limit)
	return freed, left, err
}
