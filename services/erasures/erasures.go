// Package erasures removes users: a job runs the steps that the features declare, see services/erase.
//
// The transaction that begins an erasure deletes the row of the user. From then on nobody reads them, their key is refused, and what
// they published is hidden. All the rest is removed by a job, one bounded transaction at a time; each records where it ended, so that
// the job goes on from there when a process dies. The steps are repeated until a pass of them finds nothing, because a request or a job
// that was under way may still add something. Then the key is forgotten, and is free again. On SQLite the bytes of what was deleted are
// overwritten at last, see scrub.
package erasures

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
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

// logKind is the kind of log entry for an erasure that begins. It says nothing of the user.
const logKind = "erasure"

// Config is what New needs.
type Config struct {
	DB     *sql.DB
	Redis  *rdb.Projections
	Jobs   *jobs.Engine
	People *people.Memory
	Log    *changelog.Follower
	Clock  services.Clock
	Logger *slog.Logger
	Steps  []erase.Step
	// Grace is how long after the beginning requests of the user may still be under way: the last pass begins later. 0 means 30 s.
	Grace time.Duration
	// Gone is called on every node when an erasure has begun, and again if the node has met the user since; nil for none.
	Gone func(key string)
}

// Service removes users. It is safe for concurrent use.
type Service struct {
	cfg    Config
	places map[string]int // the index of each step

	mu      sync.Mutex
	leaving map[services.UserID]bool // for whom Gone was called

	scrubbing scrubbing
}

// Erasure is one erasure: what was removed so far, by kind.
type Erasure struct {
	Name    string // by which ByName finds it
	BeganAt time.Time
	DoneAt  time.Time // zero: it goes on
	Removed map[string]int
}

// Done reports whether nothing is left.
func (e Erasure) Done() bool { return !e.DoneAt.IsZero() }

// New makes the service, and registers its kind of jobs and of log entries.
func New(cfg Config) *Service {
	if cfg.Grace == 0 {
		cfg.Grace = 30 * time.Second
	}
	s := &Service{cfg: cfg, places: map[string]int{}, leaving: map[services.UserID]bool{}}
	for i, step := range cfg.Steps {
		if _, taken := s.places[step.Name]; taken {
			panic("erasures: two steps are named " + step.Name)
		}
		s.places[step.Name] = i
	}
	cfg.Jobs.Register(jobs.Kind{Name: JobKind, Class: jobs.Bulk, Each: s.run, Changes: jobs.NoCounts()})
	cfg.Log.Register(changelog.Kind{Name: logKind, Load: s.learn})
	return s
}

var (
	insertErasure = sql.NewStatement("begin an erasure", `INSERT INTO erasures (id, user_number, key, began_at, done_at, pass, step, after, found, counts)
		VALUES ($1, $2, $3, $4, 0, 1, $5, 0, 0, $6)`)

	deleteUser = sql.NewStatement("delete a user", `DELETE FROM users WHERE number = $1`)

	lockKey = sql.NewStatement("lock a user by key", `SELECT number FROM users WHERE key = $1 {for update}`)

	erasureByName = sql.NewStatement("an erasure", `SELECT id, began_at, done_at, counts FROM erasures WHERE id = $1`)

	erasureByKey = sql.NewStatement("the erasure of a key", `SELECT id, began_at, done_at, counts FROM erasures WHERE key = $1 AND key <> ''`)

	// The lock waits for the end of an erasure that is being committed.
	erasedUser = sql.NewStatement("the user of an erasure", `SELECT user_number FROM erasures WHERE key = $1 AND key <> '' {for update}`)

	pending = sql.NewStatement("erasures that go on", `SELECT user_number, key FROM erasures WHERE user_number > 0 AND key <> '' ORDER BY user_number`)

	lockErasure = sql.NewStatement("lock an erasure", `SELECT id, key, began_at, pass, step, after, found, counts FROM erasures
		WHERE user_number = $1 AND user_number > 0 {for update}`)

	moveErasure = sql.NewStatement("move an erasure on", `UPDATE erasures SET pass = $2, step = $3, after = $4, found = $5, counts = $6 WHERE id = $1`)

	endErasure = sql.NewStatement("end an erasure", `UPDATE erasures SET user_number = 0, key = '', step = '', done_at = $2 WHERE id = $1`)
)

// Begin begins to erase the user of a key. Until the end, Begin answers how far that is. NOT_FOUND if nobody has the key.
func (s *Service) Begin(ctx context.Context, key string) (Erasure, error) {
	erasure, user, err := Begin(ctx, s.cfg.DB, key)
	if err == nil && user != 0 {
		s.gone(user, key)
		s.cfg.Jobs.Wake()
	}
	return erasure, err
}

// Begin leaves the rest to the nodes that serve the database. user is 0 if the erasure had begun before.
func Begin(ctx context.Context, db *sql.DB, key string) (erasure Erasure, user services.UserID, err error) {
	if err := services.CheckUserKey(key); err != nil {
		return erasure, 0, err
	}
	err = db.Write(ctx, func(tx *sql.Tx) (err error) {
		user = 0
		var found bool
		if erasure, found, err = begun(ctx, tx, key); err != nil || found {
			return err
		}
		if found, err = tx.One(ctx, lockKey, []any{key}, &user); err != nil {
			return err
		}
		if !found { // another request may have begun meanwhile
			if erasure, found, err = begun(ctx, tx, key); err == nil && !found {
				err = services.NoUser("userId", key)
			}
			return err
		}
		erasure, err = begin(ctx, tx, key, user)
		return err
	})
	return erasure, user, err
}

// begin deletes the row of a user, and leaves the rest to a job.
func begin(ctx context.Context, tx *sql.Tx, key string, user services.UserID) (Erasure, error) {
	erasure := Erasure{Name: strings.ToLower(rand.Text()), BeganAt: tx.Now, Removed: map[string]int{}}
	if _, err := tx.Run(ctx, insertErasure, erasure.Name, user, key, tx.Now, "", "{}"); err != nil {
		return erasure, err
	}
	if _, err := tx.Run(ctx, deleteUser, user); err != nil {
		return erasure, err
	}
	if _, err := changelog.AppendChange(ctx, tx, people.LogProfile, services.UserIDText(user), tx.Now); err != nil {
		return erasure, err
	}
	if _, err := changelog.AppendLog(ctx, tx, logKind, "", nil); err != nil {
		return erasure, err
	}
	return erasure, jobs.Enqueue(ctx, tx, jobs.UserKeyed(JobKind, user))
}

// begun is the erasure of a key that goes on. If its job is dead, to ask again gives it another one.
func begun(ctx context.Context, tx *sql.Tx, key string) (erasure Erasure, found bool, err error) {
	if erasure, found, err = read(ctx, tx.Runner, erasureByKey, key); err != nil || !found {
		return erasure, found, err
	}
	var user services.UserID
	if found, err = tx.One(ctx, erasedUser, []any{key}, &user); err != nil || !found {
		return erasure, false, err
	}
	return erasure, true, jobs.Revive(ctx, tx, jobs.UserKeyed(JobKind, user))
}

// ByName is an erasure; found is false if there is none.
func (s *Service) ByName(ctx context.Context, name string) (Erasure, bool, error) {
	return ByName(ctx, s.cfg.DB, name)
}

// ByName is an erasure; found is false if there is none.
func ByName(ctx context.Context, db *sql.DB, name string) (erasure Erasure, found bool, err error) {
	return read(ctx, db.Runner, erasureByName, name)
}

func read(ctx context.Context, r sql.Runner, st sql.Statement, arg string) (e Erasure, found bool, err error) {
	var began, done int64
	var counts string
	if found, err = r.One(ctx, st, []any{arg}, &e.Name, &began, &done, &counts); err != nil || !found {
		return e, found, err
	}
	if e.BeganAt = sql.FromMicros(began); done > 0 {
		e.DoneAt = sql.FromMicros(done)
	}
	return e, true, json.Unmarshal([]byte(counts), &e.Removed)
}

// learn makes this node forget the users who are being erased.
func (s *Service) learn(ctx context.Context) error {
	leaving := map[services.UserID]bool{}
	err := s.cfg.DB.Each(ctx, pending, nil, func(scan func(...any) error) error {
		var number services.UserID
		var key string
		err := scan(&number, &key)
		if err == nil {
			leaving[number] = true
			s.gone(number, key)
		}
		return err
	})
	if err == nil {
		s.mu.Lock()
		s.leaving = leaving
		s.mu.Unlock()
	}
	return err
}

func (s *Service) gone(user services.UserID, key string) {
	met := s.cfg.People.Drop(user, key)
	s.mu.Lock()
	known := s.leaving[user]
	s.leaving[user] = true
	s.mu.Unlock()
	if s.cfg.Gone != nil && (met || !known) {
		s.cfg.Gone(key)
	}
}

// place is how far an erasure has come.
type place struct {
	id, key, step string
	began         time.Time
	pass, found   int
	after         int64
	counts        map[string]int
	ended         bool // the pass came to its end
}

const (
	stepsAtOnce = 200         // in one run of the job: other bulk work comes between
	passAfter   = time.Second // the least time between two passes, so that the jobs of the first are done
	longestWait = time.Minute
)

// run runs the next steps. The job ends with the erasure.
func (s *Service) run(ctx context.Context, job jobs.Job) error {
	user, err := services.ParseUserIDText(job.Key)
	if err != nil {
		return fmt.Errorf("key of %s: %w", job.Kind, err)
	}
	if err := s.cfg.Redis.Erase(ctx, user); err != nil {
		return err
	}
	for range stepsAtOnce {
		at, done, err := s.step(ctx, user)
		wait := time.Duration(0)
		if err == nil && at.scrubs() && !at.ended && !done {
			done, wait, err = s.scrub(ctx, user, at)
		}
		if errors.Is(err, errNone) {
			done, err = true, nil
		}
		switch {
		case err != nil:
			return err
		case done:
			if s.cfg.Logger != nil && at.id != "" {
				s.cfg.Logger.Info("a user is erased", "erasure", at.id, "removed", at.counts)
			}
			return s.cfg.Redis.Erase(ctx, user) // should this fail, the job comes again
		case at.ended:
			wait = min(passAfter*time.Duration(at.pass), longestWait)
		}
		if wait > 0 {
			return s.again(ctx, job, user, wait)
		}
	}
	return s.again(ctx, job, user, 0)
}

// again replaces the job by one that goes on after a while.
func (s *Service) again(ctx context.Context, job jobs.Job, user services.UserID, wait time.Duration) error {
	next := jobs.UserKeyed(JobKind, user)
	if wait > 0 {
		next.NotBefore = s.cfg.DB.Now().Add(wait)
	}
	return s.cfg.Jobs.Replace(ctx, job, []jobs.NewJob{next})
}

// errNone says that there is no erasure of the user any more.
var errNone = errors.New("the erasure is done")

// step runs one step in one transaction with the new position, but none of scrub. done is true when the erasure is.
func (s *Service) step(ctx context.Context, user services.UserID) (at place, done bool, err error) {
	err = s.cfg.DB.Write(ctx, func(tx *sql.Tx) error {
		done = false
		if at, err = s.lock(ctx, tx, user); err != nil {
			return err
		}
		if at.scrubs() {
			return nil
		}
		index := s.places[at.step] // 0 for a step of another version: all of them can be repeated
		result, err := s.cfg.Steps[index].Run(ctx, tx, erase.At{User: user, Key: at.key, After: at.after, Late: at.pass > 1})
		if err != nil {
			return fmt.Errorf("step %s: %w", at.step, err)
		}
		for kind, n := range result.Removed {
			at.counts[kind] += n
			at.found += n
		}
		if result.Waits {
			at.found++
		}
		switch {
		case result.More:
			at.after = result.After
		case index+1 < len(s.cfg.Steps):
			at.step, at.after = s.cfg.Steps[index+1].Name, 0
		case at.found == 0 && at.pass > 2 && !tx.Now.Before(at.began.Add(s.cfg.Grace)):
			if s.cfg.DB.Scrubs() {
				at.step, at.after, at.ended = scrubFile, 0, true // others that began with it come to the same round
				break
			}
			done = true
			return s.end(ctx, tx, at)
		default:
			return s.nextPass(ctx, tx, &at)
		}
		return s.save(ctx, tx, at)
	})
	return at, done, err
}

// end ends an erasure.
func (s *Service) end(ctx context.Context, tx *sql.Tx, at place) error {
	_, err := tx.Run(ctx, endErasure, at.id, tx.Now)
	return err
}

// nextPass begins the next pass, and makes all nodes forget the user again: a request that had read the user's ID before the erasure
// began may have given it back to the cache. A pass that begins before the grace is over is not the last one, even if it finds
// nothing: a request may still add something behind it.
func (s *Service) nextPass(ctx context.Context, tx *sql.Tx, at *place) error {
	at.pass, at.step, at.after, at.found, at.ended = at.pass+1, s.cfg.Steps[0].Name, 0, 0, true
	if tx.Now.Before(at.began.Add(s.cfg.Grace)) {
		at.found = 1
	}
	if _, err := changelog.AppendLog(ctx, tx, logKind, "", nil); err != nil {
		return err
	}
	return s.save(ctx, tx, *at)
}

func (s *Service) lock(ctx context.Context, tx *sql.Tx, user services.UserID) (at place, err error) {
	var began int64
	var counts string
	found, err := tx.One(ctx, lockErasure, []any{user}, &at.id, &at.key, &began, &at.pass, &at.step, &at.after, &at.found, &counts)
	if err == nil && !found {
		err = errNone
	}
	if err != nil {
		return at, err
	}
	at.began = sql.FromMicros(began)
	return at, json.Unmarshal([]byte(counts), &at.counts)
}

func (s *Service) save(ctx context.Context, tx *sql.Tx, at place) error {
	counts, err := json.Marshal(at.counts)
	if err != nil {
		return err
	}
	_, err = tx.Run(ctx, moveErasure, at.id, at.pass, at.step, at.after, at.found, string(counts))
	return err
}

// Kinds are the kinds of what was removed, in the order of their names.
func (e Erasure) Kinds() []string {
	kinds := []string{}
	for kind, n := range e.Removed {
		if n > 0 {
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	return kinds
}
