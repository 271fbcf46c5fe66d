package projector

import (
	"tidings/services"
	"tidings/services/jobs"
)

// The kinds of the projector's jobs.
const (
	jobPolicy = "policy" // key: user. Their display policy of badges changed
	jobRefill = "refill" // key: user. Their inbox has room for older posts
)

// kinds are the kinds of the projector's own jobs. A display policy decides about the total, so it may change every
// count.
func (p *Projector) kinds() []jobs.Kind {
	return []jobs.Kind{
		{Name: jobPolicy, Class: jobs.Short, Each: jobs.OfUser(p.ProjectPolicy), Changes: jobs.CountsOf(jobs.FirstUser, services.Sources...)},
		{Name: jobRefill, Class: jobs.Short, Each: jobs.OfUser(p.Refill), Changes: jobs.CountsOf(jobs.FirstUser, services.SourceHomeFeed)},
	}
}

// PolicyJob projects a user's display policy into their document.
func PolicyJob(user services.UserID) jobs.NewJob { return jobs.UserKeyed(jobPolicy, user) }

// RefillJob reads a user's inbox from the facts again, because it has room below its floor.
func RefillJob(user services.UserID) jobs.NewJob { return jobs.UserKeyed(jobRefill, user) }
