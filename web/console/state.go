package console

import "time"

// NodeState is the part of a node's state that GraphQL does not return. It is made for each request of the page, and holds no
// secret: each error of an engine is reduced to a short fault.
type NodeState struct {
	Node   string // the name of this node
	Readyz string // what /readyz says
	Serves bool   // the node takes traffic

	Engines []Engine
	Nodes   []Node          // all nodes of the installation; none on SQLite, which serves one process
	Jobs    []JobKindCounts // the numbers of jobs, by kind
	Groups  []MetricGroup   // the metrics of this node, in groups
	Faults  []string        // parts that could not be read
}

// Engine is the database or Redis, with its name and the kind of engine that it is. Took is the duration of its health check, whether
// it answered or not.
type Engine struct {
	Name, Kind string
	Fault      string        // "" while it answers and takes writes
	Took       time.Duration // of the health check
}

// Node is one node as of its last heartbeat. A node that died stays in the list, silent, until its row is dropped.
type Node struct {
	Name      string
	Self      bool          // it is the node that answers
	Halted    bool          // its jobs wait for an engine that does not answer
	SilentFor time.Duration // the time since its last heartbeat
	Ahead     time.Duration // how far its clock is ahead of the database's
}

// JobKindCounts counts the jobs of one kind. Dead jobs wait for an operator.
type JobKindCounts struct {
	Name                           string        // the kind
	Waiting, Running, Failed, Dead int           // Waiting includes Running, and Failed: those that failed and will be tried again
	Lag                            time.Duration // the time since the oldest waiting job was due
}

// MetricGroup is a group of metrics of this node, under one title.
type MetricGroup struct {
	Title   string
	Numbers []Metric
}

// Metric is one metric.
type Metric struct {
	Name, Help string
	Value      float64
}
