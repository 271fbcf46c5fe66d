// Package push is the hub: hints in, wake-ups out; the sweep that heals.
//
// It carries the state of a user to whoever watches him on this node. Watching is always the same three
// steps, written here and nowhere else: enter (the local map, then the node's lease in Redis), read the
// state, then send only newer versions.
//
// It guarantees: the versions on one channel rise strictly; a change that is hinted is sent at once, and
// further ones at most once per MinInterval, always as read after the last hint; a change whose hint was
// lost is found by the next sweep, which compares both halves of the version; two states of one version are
// found by a sample, and the later one gets a newer version; a moment at which time alone changes the state
// (NextAt) is met. Nothing queues: a channel holds one value, and a newer one takes its place, so that a
// slow consumer costs nothing and holds nobody up. There is no goroutine per watcher or per user; a user with one watcher takes about
// 800 bytes, half of them for being told of the end of its context, and each further watcher 700.
//
// On failure: while Redis is away the sweep goes on each second, and the first one that gets an answer finds
// all that was missed. A state that cannot be rendered, or only as UNKNOWN, leaves the last one standing and is tried again by the
// next sweep, then after 1 and after 3 more, never faster. When Redis lost its data every user is read
// again, which rebuilds his document, and enters again. A document that is older than what was rendered of it
// before is not sent: it is reported as lost, rebuilt with a newer version, and then sent.
package push

import (
	"context"
	"log/slog"
	"time"

	"tidings/services"
)

// Config is what the hub is handed. The functions are safe for concurrent use, end when their ctx ends and
// answer in the order of users.
type Config struct {
	// Versions reads the own half of each user's version in one pipeline. 0 is a document that is missing
	// or not ready. The hub asks for at most 1,000 users at once.
	Versions func(ctx context.Context, users []services.UserID) ([]uint64, error)
	// Enter writes that this node wants hints about the users, for so long.
	Enter func(ctx context.Context, users []services.UserID, lease time.Duration) error
	// Lost is told of users whose documents are older now than what was rendered of them, at the versions shown: Redis has
	// lost writes without knowing it. What Render reads afterwards is rebuilt and newer. nil: they are only read again.
	Lost func(ctx context.Context, users []services.UserID, shown []uint64) error
	// Learned is how far this node has learned what the users' badges share with others, from memory alone. Who was
	// rendered when it was less has missed a change. nil: it is not compared.
	Learned func(users []services.UserID) []uint64
	// Raise is told of users who have two states of one version, with its own half: what Render reads afterwards is newer.
	// nil: the later state is sent with the next change.
	Raise func(ctx context.Context, users []services.UserID, shown []uint64) error
	// Held is told which version a client holds that begins to watch. It never waits for an engine. nil: nobody is told.
	Held func(user services.UserID, version string)
	// Leave takes back what Enter wrote.
	Leave func(ctx context.Context, users []services.UserID) error
	// Render reads and renders users in one batch, of at most 256. It rebuilds documents that are missing
	// and finds another way by itself when Redis does not answer. Each user has a state or an error. What it
	// returns is shared by all watchers and must not be changed afterwards. A state of precision UNKNOWN is
	// sent to who has none yet and tried again like an error. A state that was rendered without
	// Redis has a version from the clock, newer than the document's: once Redis is back the document needs a
	// newer one still, or what only time or shared things change would look older than what was sent.
	Render func(ctx context.Context, users []services.UserID) ([]*services.Badges, []error)

	Clock services.Clock // nil is the machine's
	Log   *slog.Logger   // nil is silent

	MinInterval time.Duration // between two changes sent to one user; 0 is 100 ms. The first goes at once.
	Sweep       time.Duration // from one healing sweep to the next; 0 is 1 s
	Lease       time.Duration // how long Enter holds, renewed at a third; 0 is 90 s
	Linger      time.Duration // how long a user without watchers stays, for reconnects; 0 is 2 s
	Sample      int           // each sweep renders one user of so many, to compare what is shown; 0 is 30
}

// Stats are the hub's numbers: two as they are now, the others since New.
type Stats struct {
	Online       int    // users with a watcher
	Watchers     int    // open channels
	Delivered    uint64 // states put into channels
	Conflated    uint64 // of these, states that a newer one replaced before they were taken
	Repairs      uint64 // users whom the sweep found to be shown something old or lost
	Conflicts    uint64 // users for whom two states were rendered under one version
	RenderErrors uint64 // users who could not be rendered, or only as UNKNOWN; each try counted
}

// The bounds of one call of the functions in Config. A call that takes longer counts as failed.
const (
	maxBatch      = 256  // users in one Render: larger batches gain nothing and delay their first user
	maxSweep      = 1000 // users in one Versions, Enter or Leave
	workers       = 4    // Render calls at once: enough to keep reading while others render
	callTimeout   = time.Second
	renderTimeout = 5 * time.Second
	leaveTimeout  = 2 * time.Second // for all users, when the hub ends
)

func (c Config) withDefaults() Config {
	if c.Clock == nil {
		c.Clock = services.SystemClock{}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	defaultTo(&c.MinInterval, 100*time.Millisecond)
	defaultTo(&c.Sweep, time.Second)
	defaultTo(&c.Lease, 90*time.Second)
	defaultTo(&c.Linger, 2*time.Second)
	defaultTo(&c.Sample, 30)
	return c
}

func defaultTo[N ~int | ~int64](d *N, value N) {
	if *d <= 0 {
		*d = value
	}
}

type wakeKey struct{}

// WithWake puts a callback into the context handed to Watch, for a transport that wants no goroutine per
// subscription: the hub calls it each time it has put a state into the channel, and once it has closed it.
// It runs on a goroutine of the hub that has others to serve: it must not block. The first call may come
// before Watch returns. Two calls may stand for one state, when the second replaced the first in the
// channel: receive without waiting, and take an empty channel for "nothing new".
func WithWake(ctx context.Context, wake func()) context.Context {
	return context.WithValue(ctx, wakeKey{}, wake)
}

func wakeFrom(ctx context.Context) func() {
	wake, _ := ctx.Value(wakeKey{}).(func())
	return wake
}
