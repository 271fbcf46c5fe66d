package console

import "time"

// State is the part of a node's state that GraphQL does not return. It is made for each request of the page, and holds no
// secret: each error of an engine is reduced to a short fault.
type State struct {
	Node   string
	Ready  string // what /readyz says
	Serves bool   // it takes traffic

	Engines []Engine
	Nodes   []Node // of the whole installation; none on SQLite, which serves one process
	Jobs    []Kind
	Groups  []Group
	Faults  []string // parts that could not be read
}

// Engine is the database or Redis. Took is the duration of its health check, whether it answered or not.
type Engine struct {
	Name, Kind string
	Fault      string // "" while it answers and takes writes
	Took       time.Duration
}

// Node is one node as of its last heartbeat. A node that died stays in the list, silent, until its row is dropped.
type Node struct {
	Name   string
	Self   bool
	Halted bool // its jobs wait for an engine that does not answer
	Silent time.Duration
	Ahead  time.Duration // of its clock
}

// Kind counts the jobs of one kind. Dead jobs wait for an operator.
type Kind struct {
	Name                           string
	Waiting, Running, Failed, Dead int
	Lag                            time.Duration // since the oldest was due
}

// Group is some metrics of this node.
type Group struct {
	Title   string
	Numbers []Number
}

// Number is one metric.
type Number struct {
	Name, Help string
	Value      float64
}
