package jobs

// Doubt marks jobs as in doubt: this node may or may not hold them.
func (e *Engine) Doubt(claimed []Job) { e.jobsInDoubt.add(claimed) }

// MaxRounds is how often a merge reads the facts at most.
const MaxRounds = maxRounds

// HeadStart is how much earlier short work is due.
const HeadStart = headStart
