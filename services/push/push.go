// Package push is the hub: it takes hints in and wakes subscriptions, and its reconciliation finds the changes whose hints were
// lost.
//
// It delivers a user's state to their watchers on this node. Watching always takes the same three steps, implemented only here:
// register (in the local map, then by the node's lease in Redis), read the state, then send only newer versions.
//
// It guarantees that the versions on one channel rise strictly. A hinted change is sent at once, and further changes at most once
// per MinSendInterval. The last state that is sent was read after the last hint. If the hint of a change was lost, the next
// reconciliation finds the change, because it compares both halves of the version. A sample finds two states of one version, and
// the later one gets a newer version. A state that changes with time alone is sent at the moment of the change (NextAt). Nothing
// queues: a channel holds one value, and a newer one replaces it, so that a slow consumer costs nothing and delays nobody. There is
// no goroutine per watcher or per user. A user with one watcher takes about 350 bytes, and each further watcher 200; without
// WithConsumer, the callback at the end of a context is 400 more.
//
// On failure: while Redis is away, reconciliation is tried each second, and the first reconciliation that gets an answer finds
// every missed change. If a state cannot be rendered, or only as UNKNOWN, the last state stays in place. The next reconciliation
// tries again. After a second failure the first reconciliation that comes at least ReconcileInterval later tries again, and after
// each further failure the first that comes at least three times ReconcileInterval later. When Redis lost its data, every user is
// read again, which rebuilds their document, and their lease is written again. A document that is older than a state that was
// rendered from it is not sent: it is reported as lost, rebuilt with a newer version, and then sent.
package push

import (
	"context"
	"log/slog"
	"time"

	"tidings/services"
)

// Config holds the functions and settings of a hub. The functions are safe for concurrent use, return when their ctx ends
// and answer in the order of users.
type Config struct {
	// DocumentVersions reads the document half of each user's version in one pipeline. 0 means that the document is missing or not
	// ready. The hub asks for at most 1,000 users at once.
	DocumentVersions func(ctx context.Context, users []services.UserID) ([]uint64, error)
	// WriteLeases records in Redis that this node wants hints about the users, for the time of the lease.
	WriteLeases func(ctx context.Context, users []services.UserID, lease time.Duration) error
	// MarkDocumentsLost is called with users whose documents are now older than the versions shown, which were rendered from them:
	// Redis has lost writes without noticing. After it, Render reads documents that are rebuilt and newer. nil: the users are only
	// read again.
	MarkDocumentsLost func(ctx context.Context, users []services.UserID, shown []uint64) error
	// SharedChangeSequences is, for each user, the sequence of the shared changes that this node has applied to the user's badges,
	// from memory alone. A user who was rendered at a lower value has missed a change. nil: sequences are not compared.
	SharedChangeSequences func(users []services.UserID) []uint64
	// RaiseVersions is called with users who have two states of one version; shown is the document half of that version. After it,
	// Render reads newer versions. nil: the later state is sent with the next change.
	RaiseVersions func(ctx context.Context, users []services.UserID, shown []uint64) error
	// NoteClientVersion is called with the version that a client holds when it begins to watch. It never waits for an engine. nil:
	// it is not called.
	NoteClientVersion func(user services.UserID, version string)
	// RemoveLeases takes back the leases that WriteLeases wrote, at once when the last watcher of a user left. After an error,
	// Redis may still delete the leases later.
	RemoveLeases func(ctx context.Context, users []services.UserID) error
	// Render reads and renders users in one batch, of at most 256. It rebuilds missing documents, and finds another source by
	// itself when Redis does not answer. Each user has a state or an error. All watchers share the states, so they must not be
	// changed afterwards. A state of precision UNKNOWN is sent to watchers that have none yet, and tried again like an error. A
	// state that was rendered without Redis has a version from the clock, newer than the document's. Once Redis is back, the
	// document needs a version that is newer still; otherwise later changes by time or of shared data would look older than the
	// state that was sent.
	Render func(ctx context.Context, users []services.UserID) ([]*services.Badges, []error)

	Clock services.Clock // nil means the machine's clock
	Log   *slog.Logger   // nil discards

	Settings
	Lease            time.Duration // how long a lease holds; it is renewed after a third; 0 is 90 s
	KeepUnwatchedFor time.Duration // how long a user without watchers stays in memory, for reconnects; 0 is 2 s
	CompareOneUserIn int           // each reconciliation renders one user in this many, to compare it with the shown state; 0 is 30
}

// Stats are the hub's counters: the first two are current values, the others totals since New.
type Stats struct {
	OnlineUsers      int    // users with a watcher
	Watchers         int    // open channels
	StatesDelivered  uint64 // states put into channels
	StatesReplaced   uint64 // states of StatesDelivered that a newer state replaced before they were received
	UsersRepaired    uint64 // users that reconciliation found with a stale or lost state
	VersionConflicts uint64 // users with two different states under one version
	RenderErrors     uint64 // users who could not be rendered, or only as UNKNOWN; each try counts
}

// The constants bound one call of the functions in Config. A call that takes longer counts as failed.
const (
	maxUsersPerRender      = 256             // users in one Render: larger batches gain nothing and delay their first user
	maxUsersPerCall        = 1000            // users in one DocumentVersions, WriteLeases or RemoveLeases
	renderWorkers          = 4               // Render calls at once: enough that some read while others render
	redisCallTimeout       = time.Second     // of DocumentVersions, WriteLeases, RemoveLeases, MarkDocumentsLost and RaiseVersions
	renderTimeout          = 5 * time.Second // of Render
	removeAllLeasesTimeout = 2 * time.Second // to remove all leases when the hub ends
)

// withDefaults sets the zero settings to their defaults.
func (c Config) withDefaults() Config {
	if c.Clock == nil {
		c.Clock = services.SystemClock{}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Settings = services.WithDefaults(c.Settings)
	defaultTo(&c.Lease, 90*time.Second)
	defaultTo(&c.KeepUnwatchedFor, 2*time.Second)
	defaultTo(&c.CompareOneUserIn, 30)
	return c
}

// defaultTo sets *d to value if it is 0 or less.
func defaultTo[N ~int | ~int64](d *N, value N) {
	if *d <= 0 {
		*d = value
	}
}

type consumerKey struct{} // the key of the consumer in a context

// WithConsumer names the consumer of the channel of Watch, for a transport without a goroutine per subscription. The hub wakes it each
// time it has put a state into the channel, and once it has closed the channel.
//
// The channel is closed when the consumer ends it, and not when ctx ends. So the hub and ctx hold no reference to each other
// while the subscription lives.
func WithConsumer(ctx context.Context, consumer services.ChannelConsumer) context.Context {
	return context.WithValue(ctx, consumerKey{}, consumer)
}

// consumerFrom returns the consumer that WithConsumer has put into ctx, or nil if there is none.
func consumerFrom(ctx context.Context) services.ChannelConsumer {
	consumer, _ := ctx.Value(consumerKey{}).(services.ChannelConsumer)
	return consumer
}
