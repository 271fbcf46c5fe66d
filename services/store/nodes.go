package store

import (
	"context"
	"time"
)

// keepNodes is how long the row of a node stays after its last heartbeat: longer than any lease of its jobs.
const keepNodes = 24 * time.Hour

var (
	// A heartbeat that a crash of the database loses has been replaced by the next one: its commit does not wait for the disk.
	beatNode = newStatement("heartbeat", `INSERT INTO nodes (name, beat_at, clock_at) SELECT $1, {database clock}, $2 {no wait for the disk}
		ON CONFLICT (name) DO UPDATE SET beat_at = excluded.beat_at, clock_at = excluded.clock_at`)

	listNodes = newStatement("nodes", `SELECT name, {database clock} - beat_at, clock_at - beat_at FROM nodes ORDER BY name`)

	leaveNode = newStatement("node leaves", `DELETE FROM nodes WHERE name = $1`)

	forgetNodes = newStatement("forget nodes", `DELETE FROM nodes WHERE beat_at < {database clock} - $1`)

	heldJobs = newStatement("jobs held by nodes", `SELECT id, kind, key, payload, created_at FROM jobs
		WHERE {in node $1 TEXT} AND node <> '' ORDER BY id LIMIT $2`)

	heldBefore = newStatement("jobs held by an earlier process", `SELECT id, kind, key, payload, created_at FROM jobs
		WHERE {in node $1 TEXT} AND node <> '' AND token NOT LIKE $2 ORDER BY id LIMIT $3`)

	freeJobsBefore = newStatement("free the jobs of an earlier process", `UPDATE jobs SET due_at = $3, token = '', node = ''
		WHERE id IN (SELECT id FROM jobs WHERE {in node $1 TEXT} AND node <> '' AND token NOT LIKE $2 {skip locked})`)

	overdueJobs = newStatement("overdue jobs", `SELECT j.id FROM {rows $1 kind TEXT} AS k CROSS JOIN jobs j
		WHERE j.kind = k.kind AND j.due_at <= $2 ORDER BY j.id LIMIT $3`)

	jobsByID = newStatement("jobs by id", `SELECT id, kind, key, payload, created_at FROM jobs WHERE {in id $1 BIGINT} ORDER BY id`)

	remainingJobs = newStatement("jobs not done yet", `SELECT id FROM jobs WHERE {in id $1 BIGINT}`)

	freeJobsOf = newStatement("free the jobs of nodes", `UPDATE jobs SET due_at = $2, token = '', node = ''
		WHERE id IN (SELECT id FROM jobs WHERE {in node $1 TEXT} AND node <> '' {skip locked})
		AND NOT EXISTS (SELECT 1 FROM nodes n WHERE n.name = jobs.node AND n.beat_at > {database clock} - $3)`)
)

// Node is a process that shares this database, as its last heartbeat shows it.
type Node struct {
	Name   string
	Self   bool          // it is the one that asks
	Silent time.Duration // since its last heartbeat, by the database's clock
	Ahead  time.Duration // of its clock before the database's, less what the heartbeat took on its way
}

// Beat says that this node lives and lists the nodes that have said so within a day, by their names. On SQLite, which serves
// one process, it does nothing and lists nobody.
func (s *Store) Beat(ctx context.Context) (nodes []Node, err error) {
	if s.node == "" {
		return nil, nil
	}
	if _, err := s.pulse.run(ctx, beatNode, s.node, s.now()); err != nil {
		return nil, err
	}
	return s.Nodes(ctx)
}

// Nodes lists what Beat does, and says nothing of this node.
func (s *Store) Nodes(ctx context.Context) (nodes []Node, err error) {
	if s.node == "" {
		return nil, nil
	}
	err = s.pulse.each(ctx, listNodes, nil, func(scan func(...any) error) error {
		var node Node
		var silent, ahead int64
		err := scan(&node.Name, &silent, &ahead)
		node.Self = node.Name == s.node
		node.Silent, node.Ahead = time.Duration(silent)*time.Microsecond, time.Duration(ahead)*time.Microsecond
		nodes = append(nodes, node)
		return err
	})
	return nodes, err
}

// Leave takes this node off the list: it holds no jobs any more.
func (s *Store) Leave(ctx context.Context) error {
	if s.node == "" {
		return nil
	}
	_, err := s.pulse.run(ctx, leaveNode, s.node)
	return err
}

// ForgetNodes takes those off the list that have been silent for a day, and says how many.
func (s *Store) ForgetNodes(ctx context.Context) (forgotten int, err error) {
	err = s.Write(ctx, func(tx *Tx) error {
		forgotten, err = tx.run(ctx, forgetNodes, keepNodes.Microseconds())
		return err
	})
	return forgotten, err
}

// HeldBy lists jobs whose leases some nodes hold, at most limit, the first made first.
func (s *Store) HeldBy(ctx context.Context, nodes []string, limit int) ([]Job, error) {
	return s.jobsOf(ctx, heldJobs, nodes, limit)
}

// Overdue lists the ids of jobs of some kinds that were due at a moment and nobody has claimed, at most limit, the first made
// first: the workers are behind, or a node that hangs has locked them.
func (s *Store) Overdue(ctx context.Context, kinds []string, dueBy time.Time, limit int) ([]int64, error) {
	list := make(rows, len(kinds))
	for i, kind := range kinds {
		list[i] = []any{kind}
	}
	return s.jobIDs(ctx, overdueJobs, list, dueBy, limit)
}

// Jobs reads those of some jobs that are not done yet, the first made first. They are not claimed by it.
func (s *Store) Jobs(ctx context.Context, ids []int64) ([]Job, error) {
	return s.jobsOf(ctx, jobsByID, ids)
}

func (s *Store) jobsOf(ctx context.Context, st statement, args ...any) (jobs []Job, err error) {
	err = s.each(ctx, st, args, func(scan func(...any) error) error {
		var job Job
		var created int64
		err := scan(&job.ID, &job.Kind, &job.Key, &job.Payload, &created)
		job.CreatedAt = fromMicros(created)
		jobs = append(jobs, job)
		return err
	})
	return jobs, err
}

// Remaining lists those of some jobs that are not done yet.
func (s *Store) Remaining(ctx context.Context, ids []int64) ([]int64, error) {
	return s.jobIDs(ctx, remainingJobs, ids)
}

func (s *Store) jobIDs(ctx context.Context, st statement, args ...any) (ids []int64, err error) {
	err = s.each(ctx, st, args, func(scan func(...any) error) error {
		var id int64
		err := scan(&id)
		ids = append(ids, id)
		return err
	})
	return ids, err
}

// FreeJobsOf ends the leases of nodes that have been silent for so long, and says how many. What they still do with those
// jobs has no effect on them: the tokens are void.
func (s *Store) FreeJobsOf(ctx context.Context, nodes []string, silent time.Duration) (freed int, err error) {
	err = s.Write(ctx, func(tx *Tx) error {
		freed, err = tx.run(ctx, freeJobsOf, nodes, tx.Now, silent.Microseconds())
		return err
	})
	return freed, err
}

// FreeOwnJobs ends the leases that an earlier process of this node's name holds, and says how many. Those of jobs that a transaction
// of that process has locked stand still: they are left, at most limit, the first made first. Call it again until none is. On SQLite
// the lock of the file says that whoever held leases is dead: all of them end.
func (s *Store) FreeOwnJobs(ctx context.Context, limit int) (freed int, left []Job, err error) {
	its := s.tokens + "%"
	err = s.Write(ctx, func(tx *Tx) error {
		if s.node == "" {
			if s.dialect == sqlite {
				freed, err = tx.run(ctx, freeJobs, tx.Now, its)
			}
			return err
		}
		freed, err = tx.run(ctx, freeJobsBefore, []string{s.node}, its, tx.Now)
		return err
	})
	if err != nil || s.node == "" {
		return freed, nil, err
	}
	left, err = s.jobsOf(ctx, heldBefore, []string{s.node}, its, limit)
	return freed, left, err
}
