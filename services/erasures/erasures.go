// Package erasures removes users: a job runs the steps that the features declare, see services/erase.
//
// The transaction that begins an erasure deletes the row of the user. From then on nobody can read the user, the key is refused,
// and everything that the user published is hidden. A job removes the other data, one bounded transaction at a time. Each
// transaction records where it ended, so that the job continues there after the process dies. The steps are repeated until a pass
// of them finds nothing, because a request or a job that was under way may still add something. Then the key is forgotten, also
// where requests have named it since (KeyRemovers), and is free again. On SQLite the bytes of the deleted rows are overwritten at
// the end, see runScrubStep.
//
// The path of an erasure: Begin writes its row and its job, and every node learns of it by the changelog and closes the user's
// sockets (forgetErasedUsers, forgetUser). The job (run) deletes the user's keys in Redis and takes step after step of a pass
// (runNextStep); nextPass begins the next pass. After the last pass the erasure ends (end), or first goes through the steps of the
// scrub (runScrubStep), which erasures at the same time share (scrubRound).
//
// On failure: a job that fails is tried again, and repeats nothing but the step that failed. When the job is dead, Begin for the
// same key gives the erasure another job. The key stays refused until no row has anything of the user: nothing of a former user
// passes to the next user with the key.
package erasures

import (
	"context"
	"crypto/rand"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/erase"
	"tidings/services/jobs"
	"tidings/services/people"
	"tidings/services/rdb"
	"tidings/services/sql"
)

// JobKind is the kind of the job; its key is the user.
const JobKind = "erase"

// logKind is the kind of the changelog's entry that notifies all nodes that an erasure has begun. The entry does not name the user, because
// the changelog outlives the erasure: nodes read the pending erasures instead.
const logKind = "erasure"

// Config has the dependencies and settings of a Service.
type Config struct {
	DB *sql.DB
	// Redis and People hold copies of the user's facts that no step removes: the documents and the node cache.
	Redis     *rdb.Projections
	Jobs      *jobs.Engine
	People    *people.Memory
	Changelog *changelog.Follower
	Clock     services.Clock
	Logger    *slog.Logger
	// Steps are the steps of all features, in the order in which they run. Their names are stored, so a name means the same in
	// every release.
	Steps []erase.Step
	// KeyRemovers remove a user's key where requests have written it since the erasure began, in the transaction that frees the
	// key. What was written earlier is gone: a pass that began after the grace has removed it.
	KeyRemovers []erase.KeyRemover
	// RequestGrace is how long requests of the user may still be under way after an erasure began: the last pass begins after that time. 0
	// means 30 s. A transaction that may take longer holds its users, and the erasure begins after it: see people.EnsureLocked.
	RequestGrace time.Duration
	// OnErasureBegun is called on every node when an erasure has begun, and again if the node cache holds the user again later; nil
	// for none.
	OnErasureBegun func(key string)
}

// Service removes users. It is safe for concurrent use. All that must outlive the process is in SQL: the fields only save work.
type Service struct {
	cfg       Config
	stepIndex map[string]int // the index of each step in Config.Steps, by its name

	mu          sync.Mutex               // guards beingErased
	beingErased map[services.UserID]bool // the users that OnErasureBegun was called for

	// scrubState is used on SQLite only. It has a lock of its own.
	scrubState sharedScrubState
}

// Erasure is one erasure, with the counts of removed things so far, by kind. It stays readable by its name when it is done,
// without the user.
type Erasure struct {
	Name    string // by which ByName finds it
	BeganAt time.Time
	DoneAt  time.Time      // zero while the erasure goes on
	Removed map[string]int // by kind
}

// Done reports whether nothing is left.
func (e Erasure) Done() bool { return !e.DoneAt.IsZero() }

// New makes the service, and registers its kind of jobs and its kind of changelog entries.
func New(cfg Config) *Service {
	if cfg.RequestGrace == 0 {
		cfg.RequestGrace = 30 * time.Second
	}
	s := &Service{cfg: cfg, stepIndex: map[string]int{}, beingErased: map[services.UserID]bool{}}
	for i, step := range cfg.Steps {
		if _, taken := s.stepIndex[step.Name]; taken {
			// If two steps had the same name, a stored position could mean either step.
			panic("erasures: two steps are named " + step.Name)
		}
		s.stepIndex[step.Name] = i
	}
	// The key is the user, but no step of an erasure may remove the erasure's own job: hence NoUser.
	cfg.Jobs.Register(jobs.Kind{Name: JobKind, Class: jobs.BulkClass, Each: s.run, ChangedCounts: jobs.NoCounts(), NamesUser: jobs.NoUser})
	cfg.Changelog.Register(changelog.Kind{Name: logKind, Load: s.forgetErasedUsers})
	return s
}

// Begin begins to erase the user of a key. If the erasure has already begun, Begin returns its present state. The error is
// NOT_FOUND if nobody has the key.
func (s *Service) Begin(ctx context.Context, key string) (Erasure, error) {
	erasure, user, err := Begin(ctx, s.cfg.DB, key)
	if err == nil && user != 0 {
		s.forgetUser(user, key)
		s.cfg.Jobs.Wake()
	}
	return erasure, err
}

// Begin begins to erase the user of a key, and leaves the later steps to the nodes that serve the database. The command line
// calls it while a server runs. user is 0 if the erasure had begun before.
func Begin(ctx context.Context, db *sql.DB, key string) (erasure Erasure, user services.UserID, err error) {
	if err := services.CheckUserKey(key); err != nil {
		return erasure, 0, err
	}
	err = db.Write(ctx, func(tx *sql.Tx) (err error) {
		// Write may run the function again after a conflict.
		user = 0
		var found bool
		if erasure, found, err = resumeErasure(ctx, tx, key); err != nil || found {
			return err
		}
		if found, err = tx.One(ctx, lockKey, []any{key}, &user); err != nil {
			return err
		}
		if !found { // another request may have begun the erasure meanwhile
			if erasure, found, err = resumeErasure(ctx, tx, key); err == nil && !found {
				err = services.NoUserError("userId", key)
			}
			return err
		}
		erasure, err = begin(ctx, tx, key, user)
		return err
	})
	return erasure, user, err
}

// begin deletes the row of a user, and enqueues the job that removes the other data. Both happen in one transaction, so at every
// moment a user is either readable or being removed.
func begin(ctx context.Context, tx *sql.Tx, key string, user services.UserID) (Erasure, error) {
	erasure := Erasure{Name: strings.ToLower(rand.Text()), BeganAt: tx.Now, Removed: map[string]int{}}
	if _, err := tx.Run(ctx, insertErasure, erasure.Name, user, key, tx.Now, "", "{}"); err != nil {
		return erasure, err
	}
	if _, err := tx.Run(ctx, deleteUser, user); err != nil {
		return erasure, err
	}
	// Nodes drop the profile that they keep, and show it to nobody.
	if _, err := changelog.AppendChange(ctx, tx, people.ProfileChangelogKind, services.UserIDText(user), tx.Now); err != nil {
		return erasure, err
	}
	// Each node also closes the user's sockets and forgets the ID of the key, see forgetErasedUsers.
	if _, err := changelog.AppendLog(ctx, tx, logKind, "", nil); err != nil {
		return erasure, err
	}
	return erasure, jobs.Enqueue(ctx, tx, jobs.UserJob(JobKind, user))
}

// resumeErasure returns the erasure of a key, if it has not ended, and enqueues another job if its job is dead.
func resumeErasure(ctx context.Context, tx *sql.Tx, key string) (erasure Erasure, found bool, err error) {
	if erasure, found, err = read(ctx, tx.Runner, erasureByKey, key); err != nil || !found {
		return erasure, found, err
	}
	var user services.UserID
	if found, err = tx.One(ctx, erasedUser, []any{key}, &user); err != nil || !found {
		return erasure, false, err
	}
	return erasure, true, jobs.Revive(ctx, tx, jobs.UserJob(JobKind, user))
}

// ByName returns the erasure of a name; the second result is false if there is none.
func (s *Service) ByName(ctx context.Context, name string) (Erasure, bool, error) {
	return ByName(ctx, s.cfg.DB, name)
}

// ByName returns the erasure of a name; the second result is false if there is none.
func ByName(ctx context.Context, db *sql.DB, name string) (erasure Erasure, found bool, err error) {
	if services.CheckIdentifier(name) != nil { // PostgreSQL refuses a NUL
		return erasure, false, nil
	}
	return read(ctx, db.Runner, erasureByName, name)
}

// forgetErasedUsers makes this node forget the users who are being erased. It is called for each changelog entry of logKind, when the
// node starts, and when it has missed entries: so it reads all erasures that have not ended.
func (s *Service) forgetErasedUsers(ctx context.Context) error {
	// The documents of all users are forgotten, because an erasure that has ended meanwhile no longer names its user.
	s.cfg.Redis.ForgetDocuments()
	leaving := map[services.UserID]bool{}
	err := s.cfg.DB.Each(ctx, pendingErasures, nil, func(scan func(...any) error) error {
		var id services.UserID
		var key string
		err := scan(&id, &key)
		if err == nil {
			leaving[id] = true
			s.forgetUser(id, key)
		}
		return err
	})
	if err == nil {
		s.mu.Lock()
		s.beingErased = leaving
		s.mu.Unlock()
	}
	return err
}

// forgetUser makes this node forget a user who is being erased. It calls OnErasureBegun, which closes the user's sockets, when the
// node first learns of the erasure. It calls OnErasureBegun again if a request that had read the ID before has put the user back
// into the cache.
func (s *Service) forgetUser(user services.UserID, key string) {
	met := s.cfg.People.Drop(user, key)
	s.cfg.Redis.ForgetDocument(user)
	s.mu.Lock()
	known := s.beingErased[user]
	s.beingErased[user] = true
	s.mu.Unlock()
	if s.cfg.OnErasureBegun != nil && (met || !known) {
		s.cfg.OnErasureBegun(key)
	}
}

// RemovedKinds returns the names of the kinds of which something was removed, sorted.
func (e Erasure) RemovedKinds() []string {
	kinds := []string{}
	for kind, n := range e.Removed {
		if n > 0 {
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	return kinds
}
