// Package store is SQL: the only importer of database/sql.
package store

import (
	"context"
	"log/slog"
	"time"

	"tidings/services"
)

// Config says which database and how.
type Config struct {
	URL      string // "sqlite:FILE" or postgres://...
	MaxConns int    // PostgreSQL: connections at most; 0 is 16
	Clock    services.Clock
	Log      *slog.Logger
}

// Store is an open database. It is safe for concurrent use.
type Store struct{}

// Tx is one write transaction. Now is its one time: UTC, to the microsecond.
type Tx struct{ Now time.Time }

var errNotYet = services.Errorf(services.Internal, "not built yet")

// HomePage is the view code of the home feed; its view id is "".
const HomePage = "home_page"

// Cause is why a notification may stand.
type Cause struct {
	Recipient services.UserNumber
	Category  services.Category
	Subject   services.PostID
	Actor     services.UserNumber
}

// NotificationState is the absolute state of one category of one user.
type NotificationState struct {
	Recipient  services.UserNumber
	Category   services.Category
	Version    uint64
	Head, Seen services.PostID
	Older      int
	Day        int64
	Days       [8]int
}

// NewJob is work to be done.
type NewJob struct {
	Kind, Key string
	Payload   []byte
	NotBefore time.Time
}

// Job is claimed work.
type Job struct {
	ID        int64
	Kind, Key string
	Payload   []byte
	Tries     int
	Token     string
	CreatedAt time.Time
}

// LogEntry is one rare shared change.
type LogEntry struct {
	Kind    string
	Version uint64
	At      time.Time
	Key     string
	Payload []byte
}

func Open(ctx context.Context, cfg Config) (*Store, error) { return nil, errNotYet }
func (s *Store) Close() error                              { return nil }
func (s *Store) Ping(ctx context.Context) error            { return errNotYet }
func (s *Store) Dialect() string                           { return "sqlite" }

func (s *Store) Write(ctx context.Context, fn func(tx *Tx) error) error { return errNotYet }
func (s *Store) WriteAll(ctx context.Context, fns []func(tx *Tx) error) (errs []error) {
	return make([]error, len(fns))
}

func (tx *Tx) EnsureUsers(ctx context.Context, keys []string) (map[string]services.UserNumber, error) {
	return nil, errNotYet
}
func (tx *Tx) SetProfile(ctx context.Context, user services.UserNumber, name, avatarURL *string) error {
	return errNotYet
}
func (tx *Tx) MarkActive(ctx context.Context, users []services.UserNumber) error { return errNotYet }
func (s *Store) UserNumbers(ctx context.Context, keys []string) (map[string]services.UserNumber, error) {
	return nil, errNotYet
}
func (s *Store) Users(ctx context.Context, numbers []services.UserNumber) (map[services.UserNumber]services.User, error) {
	return nil, errNotYet
}

func (tx *Tx) InsertFollow(ctx context.Context, edge services.Edge) (created bool, err error) {
	return false, errNotYet
}
func (tx *Tx) DeleteFollow(ctx context.Context, follower, followee services.UserNumber) (deleted bool, err error) {
	return false, errNotYet
}
func (tx *Tx) CountFollowees(ctx context.Context, follower services.UserNumber, limit int) (int, error) {
	return 0, errNotYet
}
func (tx *Tx) ImportFollows(ctx context.Context, edges []services.Edge) (inserted int, err error) {
	return 0, errNotYet
}
func (s *Store) Edge(ctx context.Context, follower, followee services.UserNumber) (services.Edge, bool, error) {
	return services.Edge{}, false, errNotYet
}
func (s *Store) Edges(ctx context.Context, followers []services.UserNumber, followee services.UserNumber) (map[services.UserNumber]services.Edge, error) {
	return nil, errNotYet
}
func (s *Store) Followers(ctx context.Context, followee, after services.UserNumber, limit int, activeSince time.Time) ([]services.Edge, error) {
	return nil, errNotYet
}

func (tx *Tx) InsertPost(ctx context.Context, post services.Post) error { return errNotYet }
func (tx *Tx) DeletePost(ctx context.Context, id services.PostID) (post services.Post, deleted bool, err error) {
	return post, false, errNotYet
}
func (tx *Tx) PostForShare(ctx context.Context, id services.PostID) (services.Post, error) {
	return services.Post{}, errNotYet
}
func (s *Store) Posts(ctx context.Context, ids []services.PostID) (map[services.PostID]services.Post, error) {
	return nil, errNotYet
}
func (s *Store) AuthorPosts(ctx context.Context, author services.UserNumber, limit int) ([]services.PostID, error) {
	return nil, errNotYet
}
func (s *Store) HomeFeed(ctx context.Context, reader services.UserNumber, before services.PostID, limit int) ([]services.FeedEntry, error) {
	return nil, errNotYet
}
func (s *Store) NewestCounting(ctx context.Context, reader services.UserNumber, upTo services.PostID) (services.PostID, error) {
	return 0, errNotYet
}
func (s *Store) CountNew(ctx context.Context, reader services.UserNumber, seen services.PostID, limit int) (int, error) {
	return 0, errNotYet
}

func (tx *Tx) RaisePosition(ctx context.Context, user services.UserNumber, viewCode, viewID string, position services.PostID) (services.PostID, error) {
	return 0, errNotYet
}
func (s *Store) Position(ctx context.Context, user services.UserNumber, viewCode, viewID string) (services.PostID, error) {
	return 0, errNotYet
}

func (tx *Tx) InsertLike(ctx context.Context, post services.PostID, liker services.UserNumber) (bool, error) {
	return false, errNotYet
}
func (tx *Tx) DeleteLike(ctx context.Context, post services.PostID, liker services.UserNumber) (bool, error) {
	return false, errNotYet
}
func (tx *Tx) ApplyCauses(ctx context.Context, causes []Cause) ([]NotificationState, error) {
	return nil, errNotYet
}
func (tx *Tx) RaiseNotificationsSeen(ctx context.Context, user services.UserNumber, category services.Category, upTo services.PostID) (NotificationState, error) {
	return NotificationState{}, errNotYet
}
func (s *Store) NotificationStates(ctx context.Context, user services.UserNumber) ([]NotificationState, error) {
	return nil, errNotYet
}

func (tx *Tx) Enqueue(ctx context.Context, jobs ...NewJob) error { return errNotYet }
func (s *Store) Claim(ctx context.Context, kinds []string, limit int, lease time.Duration) ([]Job, error) {
	return nil, errNotYet
}
func (s *Store) Extend(ctx context.Context, jobs []Job, lease time.Duration) error { return errNotYet }
func (s *Store) Finish(ctx context.Context, jobs []Job) (int, error)               { return 0, errNotYet }
func (tx *Tx) FinishJobs(ctx context.Context, jobs []Job) (int, error)             { return 0, errNotYet }
func (s *Store) Release(ctx context.Context, jobs []Job, notBefore time.Time) error {
	return errNotYet
}
func (s *Store) Fail(ctx context.Context, job Job, cause error, retryAt time.Time, maxTries int) (dead bool, err error) {
	return false, errNotYet
}
func (s *Store) JobCounts(ctx context.Context) (waiting, dead int, oldest time.Time, err error) {
	return 0, 0, time.Time{}, errNotYet
}
func (s *Store) NextDue(ctx context.Context, kinds []string) (time.Time, bool, error) {
	return time.Time{}, false, errNotYet
}

func (tx *Tx) AppendLog(ctx context.Context, kind, key string, payload []byte) (uint64, error) {
	return 0, errNotYet
}
func (s *Store) LogAfter(ctx context.Context, kind string, version uint64, limit int) ([]LogEntry, error) {
	return nil, errNotYet
}
func (s *Store) LogHead(ctx context.Context, kind string) (head, oldest uint64, err error) {
	return 0, 0, errNotYet
}
func (s *Store) TrimLog(ctx context.Context, before time.Time) (int, error) { return 0, errNotYet }

func (tx *Tx) Remember(ctx context.Context, scope, key string, bodyHash []byte, ids []string) error {
	return errNotYet
}
func (tx *Tx) Recall(ctx context.Context, scope, key string) (bodyHash []byte, ids []string, found bool, err error) {
	return nil, nil, false, errNotYet
}
func (s *Store) ForgetIdempotencyKeys(ctx context.Context, before time.Time) (int, error) {
	return 0, errNotYet
}
func (tx *Tx) SetImportProgress(ctx context.Context, source string, line int64) error {
	return errNotYet
}
func (s *Store) ImportProgress(ctx context.Context, source string) (line int64, err error) {
	return 0, errNotYet
}
