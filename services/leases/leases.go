// Package leases gives each row of a table to one node at a time, which works on it, for example on a webhook.
//
// It guarantees that no two nodes hold a row at the same time, by the database's clock, as long as the holder begins no
// work that may last beyond Until, and records its results only while the row still has its token.
//
// On failure: the lease of a node that crashed ends by itself, and another node takes the row. A node that drains
// releases its rows at once. While SQL does not answer, the work waits.
//
// The WorkerPool of each node looks for rows that nobody holds, and starts a Worker for each in a separate goroutine. The
// worker first calls Hold, by which the nodes compete: one node gets the row, and the workers of the other nodes get
// ErrLeaseLost and end. The winner calls Hold again before each piece of work, which renews the lease in time.
package leases

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"tidings/services"
	"tidings/services/sql"
)

// lookForRowsEvery bounds how long a row waits for a node once its lease has ended.
const (
	lookForRowsEvery = 2 * time.Second // for rows that no node holds
	// UnavailablePause is how long work waits after an engine did not answer, and the longest that giving up a row may take.
	UnavailablePause = time.Second

	// maxDatabaseClockLag is the most by which a database's clock is behind the machine's when it is read. SQLite's clock counts whole
	// milliseconds, and what it returns is rounded to some 40 us.
	maxDatabaseClockLag = 2 * time.Millisecond
)

// ErrLeaseLost ends the work on a row that another node holds, or that is gone.
var ErrLeaseLost = services.Errorf(services.Unavailable, "another node does the work")

// Table has the statements for a table with the columns name, token, until_us and node.
type Table struct{ free, take, resign sql.Statement }

// NewTable makes the statements of a table. The parameter what is a word for the rows, for the names of the statements.
func NewTable(what, table string) Table {
	return Table{
		// free also lists the rows with this node's token, so that a node resumes its own row after the worker of the row has ended.
		free: sql.NewStatement("rows that no node holds of "+what, fmt.Sprintf(
			`SELECT name FROM %s WHERE until_us < {database clock} OR token = $1 ORDER BY name`, table)),
		take: sql.NewStatement("become the node that holds a row of "+what, fmt.Sprintf(
			`UPDATE %s SET token = $2, node = $3, until_us = {database clock} + $4 WHERE name = $1 AND (token = $2 OR until_us < {database clock})`, table)),
		// The token stays: only its owner compares with it, and until_us = 0 makes the row free.
		resign: sql.NewStatement("resign as the node that holds a row of "+what, fmt.Sprintf(
			`UPDATE %s SET until_us = 0 WHERE name = $1 AND token = $2`, table)),
	}
}

// Worker works on one row. Only one goroutine calls it.
type Worker interface {
	// Step does some work and returns how long to wait before the next step. After ErrLeaseLost Step is not called again.
	Step(ctx context.Context) (wait time.Duration, err error)
	// Resign ends the work because this node stops.
	Resign(ctx context.Context)
}

// Config has the dependencies and settings of a pool.
type Config struct {
	DB        *sql.DB
	Table     Table                     // the statements for the table that has the rows
	RowsName  string                    // the name of the rows in the log
	Node      string                    // the name of this node
	Lease     time.Duration             // how long a lease lasts without a renewal
	Enabled   func() bool               // whether this node works at all
	NewWorker func(lease *Lease) Worker // makes the worker of a row
	Log       *slog.Logger
}

// WorkerPool works on the rows that this node holds, each in a goroutine of its own. It is safe for concurrent use.
type WorkerPool struct {
	cfg        Config
	leaseToken string        // what this node writes into the rows that it holds
	wake       chan struct{} // makes Run look for rows

	// runningRows are the rows with a worker, held or not: at most one worker for each.
	mu          sync.Mutex // guards runningRows
	runningRows map[string]bool
}

// NewWorkerPool makes the pool of a node.
func NewWorkerPool(cfg Config) *WorkerPool {
	return &WorkerPool{cfg: cfg, leaseToken: rand.Text(), wake: make(chan struct{}, 1), runningRows: map[string]bool{}}
}

// Wake makes this node look for rows now.
func (p *WorkerPool) Wake() {
	services.Signal(p.wake)
}

// RunningCount returns how many rows this node works on.
func (p *WorkerPool) RunningCount() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.runningRows)
}

// Run works on the rows that no other node holds, until ctx ends.
func (p *WorkerPool) Run(ctx context.Context) error {
	var working sync.WaitGroup
	defer working.Wait()
	ctx, cancel := context.WithCancel(ctx) // a panic ends the workers too
	defer cancel()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		case <-p.wake:
		}
		// While SQL does not answer, the running workers go on for as long as their leases last.
		names, err := p.FreeRows(ctx)
		if err != nil && ctx.Err() == nil {
			p.cfg.Log.Warn(p.cfg.RowsName+" wait", "error", err)
		}
		for _, name := range names {
			if p.beginRow(name) {
				working.Go(func() { defer p.endRow(name); p.work(ctx, name) })
			}
		}
		timer.Reset(lookForRowsEvery)
	}
}

// FreeRows lists the rows that this node may work on.
func (p *WorkerPool) FreeRows(ctx context.Context) ([]string, error) {
	if !p.cfg.Enabled() {
		return nil, nil
	}
	return sql.ReadColumn[string](ctx, p.cfg.DB, p.cfg.Table.free, p.leaseToken)
}

// beginRow records that this node works on a row. It returns false if the node already works on the row.
func (p *WorkerPool) beginRow(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.runningRows[name] {
		return false
	}
	p.runningRows[name] = true
	return true
}

// endRow lets Run start a worker for the row again.
func (p *WorkerPool) endRow(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.runningRows, name)
}

// work works on a row until ctx ends or another node holds the row.
func (p *WorkerPool) work(ctx context.Context, name string) {
	w := p.cfg.NewWorker(p.Lease(name))
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		wait, err := step(ctx, w)
		switch {
		case ctx.Err() != nil:
			// The context has ended, but the other nodes should not have to wait for the lease.
			w.Resign(context.WithoutCancel(ctx))
			return
		case err == ErrLeaseLost:
			return
		case err != nil:
			p.cfg.Log.Warn(p.cfg.RowsName+" wait", "name", name, "error", err)
			wait = UnavailablePause
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
	}
}

// step runs a step. A panic is an error: the row waits, and the others go on.
func step(ctx context.Context, w Worker) (wait time.Duration, err error) {
	defer services.Recover(&err)
	return w.Step(ctx)
}

// Lease is the lease of a row that this node holds, or tries to.
type Lease struct {
	pool *WorkerPool
	Name string // of the row
	// renewAt and until are by the machine's clock, and zero until Hold has succeeded.
	renewAt time.Time // when Hold renews the lease next
	until   time.Time // until when this node surely holds the row
}

// Lease returns the lease of a row, which is not held yet.
func (p *WorkerPool) Lease(name string) *Lease { return &Lease{pool: p, Name: name} }

// Token returns the token of the row while this node holds it.
func (l *Lease) Token() string { return l.pool.leaseToken }

// Until returns the time until which this node surely holds the row: the lease ends then or a little later.
func (l *Lease) Until() time.Time { return l.until }

// Hold makes this node the holder of the row, or renews its lease. After a success it does nothing until a quarter of the lease has
// passed. It returns ErrLeaseLost if another node holds the row, if the row is gone, or if Enabled returns false.
func (l *Lease) Hold(ctx context.Context) error {
	now := time.Now()
	if now.Before(l.renewAt) {
		return nil
	}
	cfg, leads := l.pool.cfg, false
	if !cfg.Enabled() {
		return ErrLeaseLost
	}
	err := cfg.DB.Write(ctx, func(tx *sql.Tx) error {
		n, err := tx.Run(ctx, cfg.Table.take, l.Name, l.pool.leaseToken, cfg.Node, cfg.Lease.Microseconds())
		leads = n > 0
		return err
	})
	if err != nil {
		return err
	}
	if !leads {
		return ErrLeaseLost
	}
	// now was read before the lease began, and the database read its clock at most maxDatabaseClockLag behind. So until is never
	// later than the end of the lease.
	l.renewAt, l.until = now.Add(cfg.Lease/4), now.Add(cfg.Lease-maxDatabaseClockLag)
	return nil
}

// Resign lets another node hold the row at once.
func (l *Lease) Resign(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, UnavailablePause)
	defer cancel()
	_ = l.pool.cfg.DB.Write(ctx, func(tx *sql.Tx) error { // otherwise the lease ends by itself
		_, err := tx.Run(ctx, l.pool.cfg.Table.resign, l.Name, l.pool.leaseToken)
		return err
	})
}
