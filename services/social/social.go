// Package social has the commands of users about each other and about themselves: follows, mutes, blocks, hides and profiles. The
// facts are in services/people.
//
// A follow and its job are one transaction; the follower's feed is brought in line before the answer, and again by the job. The
// host application is the authority on users: a user exists once the application names them, or once their own token first asks.
// Nothing else creates users.
//
// The path of a follow: Follow checks blocks and the limit and inserts the row. enqueueFollowJobs queues three jobs: one for the
// feed, one for the notification and one for the followee's mode. After the commit ReconcileFollow writes the follower's own feed,
// so that they read their own change; if it fails, the answer comes from SQL and the job repairs the feed.
//
// On failure: a command is committed whole or not at all. A restriction that Redis does not show yet already holds for every read
// from SQL.
package social

import (
	"context"
	"fmt"
	"slices"
	"time"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/fanout"
	"tidings/services/jobs"
	"tidings/services/notifications"
	"tidings/services/people"
	"tidings/services/posts"
	"tidings/services/projector"
	"tidings/services/sql"
)

// Config is what the service needs.
type Config struct {
	DB            *sql.DB
	People        *people.Memory // the node's cache of user IDs and profiles
	Projector     *projector.Projector
	Fanout        *fanout.Fanout
	Notifications *notifications.Service // recounts after a block and after its end
	IDs           *services.IDClock

	OnBlock BlockHook // nil for none

	Settings
}

// BlockHook is a feature's part of a block. It runs in the block's transaction. It returns jobs to commit with the block, and a
// function that brings the blocker's own projections up to date after the commit; nil for none.
type BlockHook func(ctx context.Context, tx *sql.Tx, blocker, blocked services.UserID) (queued []jobs.NewJob, after func(context.Context) error, err error)

// Service reads and creates users, and makes their commands, which the caller commits. It is safe for concurrent use.
type Service struct {
	db            *sql.DB
	people        *people.Memory // the node's cache of user IDs and profiles
	projector     *projector.Projector
	fanout        *fanout.Fanout
	notifications *notifications.Service
	ids           *services.IDClock
	limits        Settings
	onBlock       BlockHook
}

// New makes the service. It registers nothing, because fan-out registers the jobs of follows.
func New(cfg Config) *Service {
	return &Service{
		db: cfg.DB, people: cfg.People, projector: cfg.Projector, fanout: cfg.Fanout, notifications: cfg.Notifications, ids: cfg.IDs,
		limits: services.WithDefaults(cfg.Settings), onBlock: cfg.OnBlock,
	}
}

// EnsureUser returns the ID of the user with the key, and creates the user if there is none. It is for the user that a token names.
func (s *Service) EnsureUser(ctx context.Context, key string) (services.UserID, error) {
	if id, ok, err := s.people.UserID(ctx, key); err != nil || ok {
		return id, err
	}
	// The first request of a user that the application has not named yet.
	made, err := s.EnsureUsers(ctx, []string{key})
	return made[key], err
}

// EnsureUsers finds users by their keys, and creates those that do not exist. It is for the host application, which is the
// authority on users. INVALID for a text that is not a key, CONFLICT for the key of a user who is being erased.
func (s *Service) EnsureUsers(ctx context.Context, keys []string) (map[string]services.UserID, error) {
	for _, key := range keys {
		if err := services.CheckUserKey(key); err != nil {
			return nil, err
		}
	}
	// Look in the cache and in SQL first: a write for users who exist would wait for the disk.
	ids, err := s.FindUsers(ctx, keys)
	if err != nil {
		return nil, err
	}
	var missing []string
	for _, key := range keys {
		if _, known := ids[key]; !known {
			missing = append(missing, key)
		}
	}
	if len(missing) == 0 {
		return ids, nil
	}
	var made map[string]services.UserID
	err = s.db.Write(ctx, func(tx *sql.Tx) (err error) {
		made, err = people.Ensure(ctx, tx, missing)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("make %d users: %w", len(missing), err)
	}
	for key, id := range made {
		ids[key] = id
		s.people.KeepUserID(key, id)
	}
	return ids, nil
}

// usersPerTransaction is how many users one transaction of CreateMissingUsers creates: other transactions that create users wait
// for it.
const usersPerTransaction = 2000

// CreateMissingUsers creates those of the users with these keys that do not exist, so that FindUsers then finds them. It skips
// invalid keys. It also skips the keys of users who are being erased, and returns these keys. It is for ingest: one transaction for
// each 2,000 new users of a request.
func (s *Service) CreateMissingUsers(ctx context.Context, keys []string) (refused []string, err error) {
	fresh := slices.DeleteFunc(slices.Clone(keys), func(key string) bool {
		return services.CheckUserKey(key) != nil || s.people.HasUserID(key)
	})
	for part := range slices.Chunk(fresh, usersPerTransaction) {
		left, err := s.createUncachedUsers(ctx, part)
		if err != nil {
			return nil, err
		}
		refused = append(refused, left...)
	}
	return refused, nil
}

// createUncachedUsers creates the users with keys that are not in this node's cache, unless SQL has them. refused are the keys of users
// who are being erased.
func (s *Service) createUncachedUsers(ctx context.Context, fresh []string) (refused []string, err error) {
	ids, err := people.IDs(ctx, s.db, fresh)
	if err != nil {
		return nil, err
	}
	// Write only for keys whose users no node has created.
	fresh = slices.DeleteFunc(fresh, func(key string) bool {
		id, known := ids[key]
		if known {
			s.people.KeepUserID(key, id)
		}
		return known
	})
	if len(fresh) == 0 {
		return nil, nil
	}
	err = s.db.Write(ctx, func(tx *sql.Tx) (err error) {
		ids, refused, err = people.EnsureExceptErased(ctx, tx, fresh)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%d users: %w", len(fresh), err)
	}
	for key, id := range ids {
		s.people.KeepUserID(key, id)
	}
	return refused, nil
}

// FindUser finds a user by key without creating them; ok is false when the key was never used.
func (s *Service) FindUser(ctx context.Context, key string) (id services.UserID, ok bool, err error) {
	return s.people.UserID(ctx, key)
}

// FindUsers finds users by their keys without creating them; a key that was never used is absent.
func (s *Service) FindUsers(ctx context.Context, keys []string) (map[string]services.UserID, error) {
	return s.people.UserIDs(ctx, keys)
}

// FindCachedUser finds a user by key if this node has the key in its cache.
func (s *Service) FindCachedUser(key string) (id services.UserID, ok bool) {
	return s.people.CachedUserID(key)
}

// Follow is the command by which one user follows another from now on. The followee is notified. Following again changes nothing.
// INVALID for oneself, FORBIDDEN while the follower blocks the followee, NOT_FOUND while the followee blocks the follower, CONFLICT
// beyond the limit.
func (s *Service) Follow(follower, followee services.UserID) *jobs.Command {
	return &jobs.Command{
		Name: "follow", Actor: follower,
		Apply: func(ctx context.Context, tx *sql.Tx) ([]string, error) {
			// Nobody follows themselves: their own posts are in their feed, and do not count.
			if follower == followee {
				return nil, services.Errorf(services.Invalid, "userId: you cannot follow yourself")
			}
			if err := checkMayFollow(ctx, tx, follower, followee); err != nil {
				return nil, err
			}
			// A follow that exists already does not exceed the limit, and needs no more than this statement.
			following, follows, err := people.CountFollowees(ctx, tx, follower, followee, s.limits.MaxFollowees)
			switch {
			case err != nil:
				return nil, err
			case follows:
				return nil, jobs.ErrUnchanged
			case following >= s.limits.MaxFollowees:
				return nil, services.Errorf(services.Conflict, "userId: at most %d people can be followed", s.limits.MaxFollowees)
			}
			since, err := posts.NewID(ctx, tx, s.ids) // the follow begins after all posts that exist
			if err != nil {
				return nil, err
			}
			created, err := people.InsertFollow(ctx, tx, services.FollowEdge{Follower: follower, Followee: followee, PostsCountAfter: since})
			if err == nil && !created { // the same follow was made meanwhile
				err = jobs.ErrUnchanged
			}
			if err != nil {
				return nil, err
			}
			tx.EnforceLimit(people.FolloweesLimit, follower, s.limits.MaxFollowees)
			return nil, enqueueFollowJobs(ctx, tx, follower, followee)
		},
		AfterCommit: func(ctx context.Context) error { return s.fanout.ReconcileFollow(ctx, follower, followee) },
	}
}

// enqueueFollowJobs queues the jobs of a follow that began or ended: for the follower's feed, the followee's notifications, and the
// followee's number of followers, on which their mode as an author depends. The jobs read the follow when they run.
func enqueueFollowJobs(ctx context.Context, tx *sql.Tx, follower, followee services.UserID) error {
	notify, err := notifications.NotifyJob(notifications.Cause{Recipient: followee, Category: services.CategoryFollow, Actor: follower, Moment: tx.EventMoment()})
	if err != nil {
		return err
	}
	return jobs.Enqueue(ctx, tx, fanout.FollowJob(follower, followee), notify, fanout.UpdateModeJob(followee, tx.Now))
}

// Unfollow is the command by which a follow ends, and stops notifying. Without a follow it changes nothing.
func (s *Service) Unfollow(follower, followee services.UserID) *jobs.Command {
	return &jobs.Command{
		Name: "unfollow", Actor: follower,
		Apply: func(ctx context.Context, tx *sql.Tx) ([]string, error) {
			// No further lock is needed: deleting the row locks it, and the end of a follow does not depend on restrictions.
			deleted, err := people.DeleteFollow(ctx, tx, follower, followee)
			if err != nil {
				return nil, err
			}
			if !deleted {
				return nil, jobs.ErrUnchanged
			}
			return nil, enqueueFollowJobs(ctx, tx, follower, followee)
		},
		AfterCommit: func(ctx context.Context) error { return s.fanout.ReconcileFollow(ctx, follower, followee) },
	}
}

// SetFollowMode is the command that sets which items of a followee count for the follower. All items stay in the follower's lists.
// Unseen items count again when a later mode allows it. CONFLICT without a follow.
func (s *Service) SetFollowMode(follower, followee services.UserID, mode services.FollowMode) *jobs.Command {
	return &jobs.Command{
		Name: "setFollowMode", Actor: follower,
		Apply: func(ctx context.Context, tx *sql.Tx) ([]string, error) {
			// The same lock as a follow takes, in the same order: first the follower's row, then the edge.
			if err := people.LockRestrictionsShared(ctx, tx, follower); err != nil {
				return nil, err
			}
			follows, changed, err := people.SetFollowMode(ctx, tx, follower, followee, mode)
			switch {
			case err != nil:
				return nil, err
			case !follows:
				return nil, services.Errorf(services.Conflict, "userId: you do not follow this user: a mode needs a follow")
			case !changed:
				return nil, jobs.ErrUnchanged
			}
			// The count changes and not the list: the job rewrites which entries of the inbox count. Nobody is
			// notified of a mode.
			return nil, jobs.Enqueue(ctx, tx, fanout.FollowJob(follower, followee))
		},
		AfterCommit: func(ctx context.Context) error { return s.fanout.ReconcileFollow(ctx, follower, followee) },
	}
}

// FolloweesNotInModeAll lists the users that a user follows in a mode other than FollowAll, by their IDs, the greatest first: at most
// limit users with an ID below before. more reports whether there are more.
func (s *Service) FolloweesNotInModeAll(ctx context.Context, follower services.UserID, before uint64, limit int) (list []services.UserID, more bool, err error) {
	list, err = people.FolloweesInReducedMode(ctx, s.db, follower, before, limit+1)
	more = len(list) > limit
	return list[:min(limit, len(list))], more, err
}

// maxNameLength is how long a name may be, in characters.
const maxNameLength = 100

// SetProfile is the command that sets a user's name and picture; nil leaves a field as it is, "" removes it.
func (s *Service) SetProfile(user services.UserID, name, avatarURL *string) (*jobs.Command, error) {
	if name != nil {
		if err := services.CheckText("name", *name, 0, maxNameLength); err != nil {
			return nil, err
		}
	}
	if avatarURL != nil {
		if err := services.CheckURL("avatarUrl", *avatarURL); err != nil {
			return nil, err
		}
	}
	// Apply sets this for AfterApply.
	var changedAt time.Time
	return &jobs.Command{
		Name: "setProfile", Actor: user,
		Apply: func(ctx context.Context, tx *sql.Tx) ([]string, error) {
			var err error
			if changedAt, err = people.SetProfile(ctx, tx, user, name, avatarURL); err != nil {
				return nil, err
			}
			// The changelog updates the nodes' caches, and the job the copy in Redis: both compare the time of the change.
			if _, err := changelog.AppendChange(ctx, tx, people.ProfileChangelogKind, services.UserIDText(user), changedAt); err != nil {
				return nil, err
			}
			return nil, jobs.Enqueue(ctx, tx, people.ProjectProfileJob(user))
		},
		AfterApply: func(context.Context) error {
			// This node forgets the old profile at once; the others learn of the change from the changelog.
			s.people.RecordChange(user, changedAt)
			return nil
		},
		AfterCommit: func(ctx context.Context) error { return s.projector.Profiles.Project(ctx, user) },
	}, nil
}
