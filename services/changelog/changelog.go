// Package changelog is the log of rare changes that every node keeps in memory, and each node's tailing of that log.
//
// A change is appended in the transaction of its fact. Entries are numbered by kind, without gaps, so a node at a version of a kind
// has missed nothing. A node reads the log on a hint and every 500 ms, also without Redis, so that memory is never older than the
// last successful read. When SQL does not answer, memory stays as it is; when a part of the log was trimmed while the node was
// away, the memory of that kind is loaded anew.
//
// The owner of a memory registers a Kind for it. The engine knows no kind by name: it skips kinds in SQL that nobody has
// registered.
//
// The path of a change: AppendLog raises the last sequence of its kind, which locks the log of that kind until the commit, and adds the
// entry. The commit signals; the node wakes its Follower and sends a hint to the other nodes. Each node reads the entries after its
// version (KindFollower), applies them, and notifies the users concerned: all users (OnSharedChange), or the readers of a changed
// key (ReaderIndex, OnReadersNotified).
package changelog

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"tidings/services"
)

// Log is the interface through which the log is read.
type Log interface {
	// LogAfter lists the entries of a kind after a version, in their order, at most limit.
	LogAfter(ctx context.Context, kind string, version uint64, limit int) ([]Entry, error)
	// LastSequence returns the versions of the newest entry of a kind and of the oldest that is kept; 0, 0 if there never was one.
	LastSequence(ctx context.Context, kind string) (newest, oldest uint64, err error)
	// LastSequences returns the version of the newest entry of each kind.
	LastSequences(ctx context.Context) (map[string]uint64, error)
}

// Kind is a kind of entries, and how a node handles them. Load, Apply and AfterLogRead of one kind never run concurrently.
type Kind struct {
	Name string // the field Kind of the kind's entries
	// Load brings memory to the state of SQL, or empties it. The log's version is read before the load, so entries that are applied
	// afterwards may be in the loaded state already.
	Load func(ctx context.Context) error
	// Apply makes changes in the order of their entries. When an entry does not say what changed, it makes no change and
	// returns false: then memory is reloaded. nil: memory is reloaded on any change.
	Apply func(entries []Entry) bool
	// AfterLogRead runs after each read of the log of this kind, once the version of the applied entries is visible; err is nil
	// when memory is at the end of the log. It is for state that changes with time, and for notifications. nil: nothing runs.
	AfterLogRead func(err error)
	// ConcernsAllUsers says that changes of this kind concern all users: the functions that OnSharedChange registered are called.
	ConcernsAllUsers bool
}

// ApplyEach makes a Kind's Apply from a function that applies one entry.
func ApplyEach(apply func(Entry)) func([]Entry) bool {
	return func(entries []Entry) bool {
		for _, entry := range entries {
			apply(entry)
		}
		return true
	}
}

// LoadByClearing makes a Kind's Load that empties a memory, for memories that are filled on use.
func LoadByClearing(clear func()) func(context.Context) error {
	return func(context.Context) error {
		clear()
		return nil
	}
}

// PollPhase says when a PollTask runs.
type PollPhase int

// The phases of a poll. The log is read at each poll and on each hint.
const (
	BeforeLogRead    PollPhase = iota // at each poll, before the log is read
	AfterEachLogRead                  // after each read of the log
	AfterPollRead                     // at each poll, after the log was read
)

// PollTask is work of a node beside the log, for memory of facts that have no entries in the log.
type PollTask struct {
	Name  string // in errors
	Phase PollPhase
	Run   func(ctx context.Context) error
}

// Config is what a Follower needs.
type Config struct {
	Log    Log // the log in SQL
	Logger *slog.Logger
	Clock  services.Clock // nil is the machine's
	Settings
}

// Follower follows the log for one node. All registrations come before Run. After them it is safe for concurrent use, except
// for RunOnce and Tail, which Run calls.
type Follower struct {
	log          Log
	logger       *slog.Logger
	clock        services.Clock
	pollInterval time.Duration // between two polls
	wakeUp       chan struct{} // of Wake

	// All registrations are made before Run, so the lists need no lock.
	kinds             []*KindFollower           // of Register
	pollTasks         []PollTask                // of RegisterPollTask
	loops             []func(context.Context)   // of RegisterLoop
	versionParts      []VersionPart             // of RegisterVersionPart
	onSharedChange    []func()                  // of OnSharedChange
	onReadersNotified []func([]services.UserID) // of OnReadersNotified
}

// New makes a follower without kinds.
func New(cfg Config) *Follower {
	cfg.Settings = services.WithDefaults(cfg.Settings)
	if cfg.Clock == nil {
		cfg.Clock = services.SystemClock{}
	}
	return &Follower{log: cfg.Log, logger: cfg.Logger, clock: cfg.Clock, pollInterval: cfg.PollInterval, wakeUp: make(chan struct{}, 1)}
}

// Clock is the node's clock.
func (f *Follower) Clock() services.Clock { return f.clock }

// Logger is the logger for the owners of kinds and poll tasks.
func (f *Follower) Logger() *slog.Logger { return f.logger }

// Register adds a kind. Kinds are followed in the order of their registration. It panics when the name is taken.
func (f *Follower) Register(kind Kind) *KindFollower {
	for _, one := range f.kinds {
		if one.kind.Name == kind.Name {
			panic(fmt.Sprintf("changelog: the kind %q is registered twice", kind.Name))
		}
	}
	following := &KindFollower{kind: kind, log: f.log}
	f.kinds = append(f.kinds, following)
	return following
}

// RegisterPollTask adds work beside the log. Tasks of one phase run in the order of their registration. It panics when the name is
// taken.
func (f *Follower) RegisterPollTask(task PollTask) {
	for _, one := range f.pollTasks {
		if one.Name == task.Name {
			panic(fmt.Sprintf("changelog: the poll task %q is registered twice", task.Name))
		}
	}
	f.pollTasks = append(f.pollTasks, task)
}

// RegisterLoop adds a loop that runs beside Run, until its context ends.
func (f *Follower) RegisterLoop(run func(context.Context)) { f.loops = append(f.loops, run) }
