package console

import "time"

// State is what a node knows beyond GraphQL. It is made for each view of the page, and holds no secret: errors of engines are
// reduced to a fault.
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

// Engine is the database or Redis. Took is how long the question took, also without an answer.
type Engine struct {
	Name, Kind string
	Fault      string // "" while it answers and takes writes
	Took       time.Duration
}

// Node is one node, by its last heartbeat. A node that died is silent until its row is dropped.
type Node struct {
	Name   string
	Self   bool
	Halted bool // its jobs wait for an engine that does not answer
	Silent time.Duration
	Ahead  time.Duration // of its clock
}

// Kind is the jobs of a kind. Dead ones wait for an operator.
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
