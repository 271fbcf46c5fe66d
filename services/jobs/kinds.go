package jobs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"tidings/services"
)

// JobClass is the queue class of a kind. Each class has its own workers, so that long work does not delay short work.
type JobClass int

// The queue classes.
const (
	// ShortClass is for milliseconds of work, such as that for one user. A worker claims up to 1,000 jobs at once.
	ShortClass JobClass = iota
	// BulkClass is for a chunk of a large piece of work. Workers and nodes share the chunks: each claims one at a time.
	BulkClass
	// UrgentClass is for chunks that run before the chunks of BulkClass.
	UrgentClass
)

// Kind declares one kind of job. Its owner registers it.
type Kind struct {
	Name  string // stored in the queue: like keys and payloads, it must stay the same across releases
	Class JobClass

	// Each runs one job, Batch runs all jobs that were claimed together and returns an outcome for each; a kind has one of
	// the two. The outcome ErrFinished means that the job has removed itself from the queue. A panic is a failure of the job; after
	// a panic of Batch, each of its jobs runs alone.
	Each  func(ctx context.Context, job Job) error
	Batch func(ctx context.Context, jobs []Job) (outcomes []error)

	// ChangedCounts states the counts that jobs of the kind change: CountsOf or NoCounts. A kind without it is refused, because
	// the counts of a dead node's job would then be shown as exact.
	ChangedCounts ChangedCounts

	// NamesUser finds the jobs that name a user: UserInKey, UserInPayload or NoUser, for instance. A kind without it is refused, because
	// erasures would leave its jobs.
	NamesUser NamesUser
}

// callEach runs one job. A panic is a failure of the job: a bug in one kind must not end the process, which runs all others.
func (k Kind) callEach(ctx context.Context, job Job) (outcome error) {
	defer services.Recover(&outcome)
	return k.Each(ctx, job)
}

// callBatch runs jobs together. An error means that their outcomes are unknown, because of a panic or of another bug in the kind.
func (k Kind) callBatch(ctx context.Context, jobs []Job) (outcomes []error, err error) {
	defer services.Recover(&err)
	outcomes = k.Batch(ctx, jobs)
	if len(outcomes) != len(jobs) {
		return nil, fmt.Errorf("the kind returned %d outcomes for %d jobs", len(outcomes), len(jobs))
	}
	return outcomes, nil
}

// ChangedCounts are the counts in documents that jobs of a kind change.
type ChangedCounts struct {
	// isSet distinguishes NoCounts from a kind that does not state its counts.
	isSet   bool
	sources []services.Source // the sources of the badges whose counts change
	users   UsersOf           // the users whose counts change
}

// UsersOf lists the users whose counts a job changes. everyone is true if the job may concern all users, or if listing them
// would take longer than the job itself.
type UsersOf func(ctx context.Context, job Job) (users []services.UserID, everyone bool, err error)

// usersOf lists the users of a job. A panic is an error.
func (c ChangedCounts) usersOf(ctx context.Context, job Job) (users []services.UserID, everyone bool, err error) {
	defer services.Recover(&err)
	return c.users(ctx, job)
}

// CountsOf states that jobs of a kind change the counts of these sources, for the users that a job names.
func CountsOf(users UsersOf, sources ...services.Source) ChangedCounts {
	return ChangedCounts{isSet: users != nil && len(sources) > 0, sources: sources, users: users}
}

// NoCounts states that jobs of a kind change no count.
func NoCounts() ChangedCounts { return ChangedCounts{isSet: true} }

// Everyone is the UsersOf of jobs that may reach any user.
func Everyone(context.Context, Job) ([]services.UserID, bool, error) { return nil, true, nil }

// Register adds kinds, before workers and heartbeat start. It panics on a kind without a name, with a name that is taken,
// with both or neither of Each and Batch, or without ChangedCounts or NamesUser: those are bugs in the program.
func (e *Engine) Register(kinds ...Kind) {
	for _, kind := range kinds {
		if err := e.check(kind); err != nil {
			panic(fmt.Sprintf("jobs: kind %q: %s", kind.Name, err))
		}
		e.kinds[kind.Name] = kind
		e.kindsByClass[kind.Class] = append(e.kindsByClass[kind.Class], kind.Name)
		slices.Sort(e.kindsByClass[kind.Class])
	}
}

// check returns an error if a kind must not be registered.
func (e *Engine) check(kind Kind) error {
	_, taken := e.kinds[kind.Name]
	_, served := e.wakeUp[kind.Class]
	switch {
	case kind.Name == "":
		return errors.New("it has no name")
	case taken:
		return errors.New("it is registered already")
	case !served:
		return fmt.Errorf("there is no queue class %d", kind.Class)
	case (kind.Each == nil) == (kind.Batch == nil):
		return errors.New("it needs either Each or Batch")
	case !kind.ChangedCounts.isSet:
		return errors.New("it does not state the counts that it changes")
	case kind.NamesUser == nil:
		return errors.New("it does not state which users its jobs name")
	}
	return nil
}

// Kinds are the names of the registered kinds, in order.
func (e *Engine) Kinds() []string { return slices.Sorted(maps.Keys(e.kinds)) }
