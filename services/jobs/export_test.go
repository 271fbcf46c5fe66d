package jobs

// What the tests of this package call, beside what the package exports.

// MarkPossiblyLeased marks jobs as in doubt: this node may or may not hold them.
func (e *Engine) MarkPossiblyLeased(claimed []Job) { e.possiblyLeasedJobs.add(claimed) }

// The limits of jobs and keys.
const (
	MaxMergeAttempts     = maxMergeAttempts
	PriorityHeadStart    = priorityHeadStart
	IdempotencyRetention = idempotencyRetention
)

// What a worker does with the jobs that it has claimed.
var (
	Extend     = extend
	FinishInTx = finishInTx
	Release    = release
	Fail       = fail
)

// What the heartbeat does with the jobs of other nodes, and at the end.
var (
	OverdueIDs      = overdueIDs
	JobsHeldBy      = jobsHeldBy
	RemainingJobIDs = remainingJobIDs
	FreeJobsOf      = freeJobsOf
	FreeOwnJobs     = freeOwnJobs
	RemoveOwnNode   = removeOwnNode
)

// RememberedRequest is the request of an idempotency key, and its answer.
type RememberedRequest = rememberedRequest

// What a command does with its idempotency key.
var (
	ErrKeyExists    = errKeyExists
	RememberRequest = rememberRequest
	RememberIDs     = rememberIDs
	RecallRequest   = recallRequest
)
