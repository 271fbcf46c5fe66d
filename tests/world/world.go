// Package world is shared by the tests of the whole program: nodes in this process and separate processes, requests as
// a client sends them, watched subscriptions, and a model of people that computes what each person must see.
package world

import "time"

// RedisLossRecoveryTimeout is the longest time in which badges and feeds must be right again after Redis has lost its data. It is a
// promise (see docs/how-it-works.md). Like DeviceUpdateTimeout it must stay far below 30 s, after which other things repair what is
// lost: the reconciliations that render every watched user again, and the end of a job's lease, after which the job runs again.
const RedisLossRecoveryTimeout = 10 * time.Second
