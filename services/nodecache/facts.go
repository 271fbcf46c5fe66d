package nodecache

import (
	"context"
	"time"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/jobs"
	"tidings/services/people"
	"tidings/services/posts"
	"tidings/services/sql"
)

// SQL reads the facts of the caches from the database. Each method calls one function of the package that owns the facts. Tests
// use other implementations of Facts.
type SQL struct{ *sql.DB }

// Users reads users by ID. Unknown users, and those who are being erased, are absent; see people.ByID.
func (s SQL) Users(ctx context.Context, users []services.UserID) (map[services.UserID]services.User, error) {
	return people.ByID(ctx, s.DB, users)
}

// UserIDs finds the IDs of users by key. Unknown keys, and those of users who are being erased, are absent; see people.IDs.
func (s SQL) UserIDs(ctx context.Context, keys []string) (map[string]services.UserID, error) {
	return people.IDs(ctx, s.DB, keys)
}

// ActivityThresholds reads the activity thresholds of all nodes. set is false before the first node has set them; see
// people.ActivityThresholds.
func (s SQL) ActivityThresholds(ctx context.Context) (thresholds services.ActivityThresholds, set bool, err error) {
	return people.ActivityThresholds(ctx, s.DB)
}

// Posts reads posts by ID, the deleted ones too; see posts.ByID.
func (s SQL) Posts(ctx context.Context, ids []services.PostID) (map[services.PostID]services.Post, error) {
	return posts.ByID(ctx, s.DB, ids)
}

// PullAuthors lists the authors whose posts may be pulled, in order of their user IDs: at most limit, with IDs greater than after; see
// posts.PullAuthors.
func (s SQL) PullAuthors(ctx context.Context, after services.UserID, limit int) ([]services.UserID, error) {
	return posts.PullAuthors(ctx, s.DB, after, limit)
}

// PulledPosts reads the newest pulled posts of authors, at most limit of each; see posts.Pulled.
func (s SQL) PulledPosts(ctx context.Context, authors []services.UserID, limit int) (map[services.UserID]posts.PulledPosts, error) {
	return posts.Pulled(ctx, s.DB, authors, limit)
}

// InFlightFanouts lists the fan-outs in several chunks that are not done; see posts.InFlightFanouts.
func (s SQL) InFlightFanouts(ctx context.Context) ([]posts.InFlightFanout, error) {
	return posts.InFlightFanouts(ctx, s.DB)
}

// LogAfter reads the entries of one kind after a version of the changelog, the oldest first, at most limit; see changelog.LogAfter.
func (s SQL) LogAfter(ctx context.Context, kind string, version uint64, limit int) ([]changelog.Entry, error) {
	return changelog.LogAfter(ctx, s.DB, kind, version, limit)
}

// LastSequence reads the newest and the oldest kept version of one kind of log; see changelog.LastSequence.
func (s SQL) LastSequence(ctx context.Context, kind string) (newest, oldest uint64, err error) {
	return changelog.LastSequence(ctx, s.DB, kind)
}

// LastSequences reads the version of the newest entry of each kind of log; see changelog.LastSequences.
func (s SQL) LastSequences(ctx context.Context) (map[string]uint64, error) {
	return changelog.LastSequences(ctx, s.DB)
}

// WaitingKeys reads the keys of jobs of a kind that were made by a time and are not done yet, at most limit, those due longest first;
// see jobs.WaitingKeys.
func (s SQL) WaitingKeys(ctx context.Context, kind string, madeBy time.Time, limit int) ([]string, error) {
	return jobs.WaitingKeys(ctx, s.DB, kind, madeBy, limit)
}

// SQL implements Facts.
var _ Facts = SQL{}
