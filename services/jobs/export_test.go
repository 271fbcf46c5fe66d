package jobs

// MarkPossiblyLeased marks jobs as in doubt: this node may or may not hold them.
func (e *Engine) MarkPossiblyLeased(claimed []Job) { e.possiblyLeasedJobs.add(claimed) }

// MaxMergeAttempts is how often a merge reads the facts at most.
const MaxMergeAttempts = maxMergeAttempts

// PriorityHeadStart is how much earlier the jobs of a small commit are due than those of a large one.
const PriorityHeadStart = priorityHeadStart

// OverdueIDs lists the jobs that a heartbeat finds overdue.
var OverdueIDs = overdueIDs
