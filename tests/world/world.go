// Package world is the part that tests of the whole program share: nodes in this process and separate processes, requests as
// a client sends them, watched subscriptions, and a model of people that computes what each must see.
package world

import "time"

// Convergence is what the promises allow after Redis has lost its data.
const Convergence = 10 * time.Second
