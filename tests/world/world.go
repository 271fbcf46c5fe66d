// Package world is shared by the tests of the whole program: nodes in this process and separate processes, requests as
// a client sends them, watched subscriptions, and a model of people that computes what each person must see.
package world

import "time"

// ConvergenceTimeout is the longest time in which badges and feeds must be right again after Redis has lost its data.
const ConvergenceTimeout = 10 * time.Second
