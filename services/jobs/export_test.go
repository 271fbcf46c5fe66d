package jobs

// Doubt makes it doubtful whether this node holds jobs.
func (e *Engine) Doubt(claimed []Job) { e.inDoubt.add(claimed) }

// MaxRounds is how often a merge reads the facts.
const MaxRounds = maxRounds
