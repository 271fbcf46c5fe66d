// Package world is the part that tests of the whole program share: nodes in this process and processes of their own,
// requests as a client sends them, watched subscriptions, and a model of people that says what each of them must be shown.
package world

import "time"

// Convergence is what the promises allow after Redis has lost its data.
const Convergence = 10 * time.Second
