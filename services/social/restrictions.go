package social

import (
	"context"
	"time"

	"tidings/services"
	"tidings/services/fanout"
	"tidings/services/jobs"
	"tidings/services/notifications"
	"tidings/services/people"
	"tidings/services/sql"
)

// restrictionVerb is the wording of a restriction's errors: "you cannot DO yourself", "people can be DONE".
type restrictionVerb struct{ do, done string }

// restrictionVerbs are the words of each kind of restriction in errors.
var restrictionVerbs = map[services.RestrictionKind]restrictionVerb{
	services.Mute:  {"mute", "muted"},
	services.Block: {"block", "blocked"},
	services.Hide:  {"hide posts from", "hidden from"},
}

// Mute is the command by which another user's posts leave a user's feed, until a time or, with the zero time, until Unmute. An
// existing follow stays, and a new follow is allowed. Muting again until the same time changes nothing. INVALID for oneself and
// for a time in the past, CONFLICT beyond the limit.
func (s *Service) Mute(muter, muted services.UserID, until time.Time) *jobs.Command {
	// Columns are in microseconds: a mute until the same time must compare as equal.
	until = until.Truncate(time.Microsecond)
	mute := services.Restriction{Kind: services.Mute, Owner: muter, Other: muted, Until: until}
	return &jobs.Command{
		Name: "mute", Actor: muter,
		Apply: func(ctx context.Context, tx *sql.Tx) ([]string, error) {
			if now := tx.EventTime(); !until.IsZero() && !until.After(now) {
				return nil, services.Errorf(services.Invalid, "until: %s is in the past; it is now %s", timeText(until), timeText(now))
			}
			if _, err := s.restrict(ctx, tx, mute, s.limits.MaxMutes); err != nil {
				return nil, err
			}
			left := []jobs.NewJob{fanout.FollowJob(muter, muted)}
			// A job ends the mute. It checks whether the mute is over, because a later command may have set another end.
			if !until.IsZero() {
				left = append(left, fanout.MuteEndJob(muter, muted, tx.JobDueAt(until)))
			}
			return nil, jobs.Enqueue(ctx, tx, left...)
		},
		AfterCommit: func(ctx context.Context) error { return s.fanout.ReconcileFollow(ctx, muter, muted) },
	}
}

// timeText formats a time for an error.
func timeText(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000Z") }

// Unmute is the command that ends a mute: the feed becomes as if there had been no mute. Without a mute it changes nothing.
func (s *Service) Unmute(muter, muted services.UserID) *jobs.Command {
	return &jobs.Command{
		Name: "unmute", Actor: muter,
		Apply: func(ctx context.Context, tx *sql.Tx) ([]string, error) {
			return nil, s.unrestrict(ctx, tx, services.Restriction{Kind: services.Mute, Owner: muter, Other: muted}, fanout.FollowJob(muter, muted))
		},
		AfterCommit: func(ctx context.Context) error { return s.fanout.ReconcileFollow(ctx, muter, muted) },
	}
}

// HideFrom is the command by which an author hides their posts and shows from another user. Posts and shows no longer notify that
// user either. An existing follow stays, and a new follow is allowed. Hiding again changes nothing. INVALID for oneself, CONFLICT
// beyond the limit.
func (s *Service) HideFrom(author, follower services.UserID) *jobs.Command {
	return &jobs.Command{
		Name: "hideFrom", Actor: author,
		Apply: func(ctx context.Context, tx *sql.Tx) ([]string, error) {
			hide := services.Restriction{Kind: services.Hide, Owner: author, Other: follower}
			if _, err := s.restrict(ctx, tx, hide, s.limits.MaxHides); err != nil {
				return nil, err
			}
			// Only the follower's feed, board and notifications change. The author sees nothing new, so there is nothing to
			// do before the answer.
			return nil, jobs.Enqueue(ctx, tx, fanout.FollowJob(follower, author), notifications.RecountActorJob(follower, author))
		},
	}
}

// UnhideFrom is the command that ends HideFrom. Without a hide it changes nothing.
func (s *Service) UnhideFrom(author, follower services.UserID) *jobs.Command {
	return &jobs.Command{
		Name: "unhideFrom", Actor: author,
		Apply: func(ctx context.Context, tx *sql.Tx) ([]string, error) {
			hide := services.Restriction{Kind: services.Hide, Owner: author, Other: follower}
			return nil, s.unrestrict(ctx, tx, hide, fanout.FollowJob(follower, author), notifications.RecountActorJob(follower, author))
		},
	}
}

// Block is the command by which a user blocks another. Follows between them end, none can begin, and their DIRECT conversation is
// closed. Actions of the blocked user no longer notify the blocker. The blocker's posts and shows are hidden from the blocked user
// and no longer notify them. Blocking again changes nothing. INVALID for oneself, CONFLICT beyond the limit.
//
// ended and after are set by each run of Apply, which may run again, and read by AfterApply.
func (s *Service) Block(blocker, blocked services.UserID) *jobs.Command {
	var ended []services.FollowEdge
	var after func(context.Context) error
	return &jobs.Command{
		Name: "block", Actor: blocker,
		Apply: func(ctx context.Context, tx *sql.Tx) (ids []string, err error) {
			block := services.Restriction{Kind: services.Block, Owner: blocker, Other: blocked}
			if ended, err = s.restrict(ctx, tx, block, s.limits.MaxBlocks); err != nil {
				return nil, err
			}
			for _, edge := range ended {
				if err := enqueueFollowJobs(ctx, tx, edge.Follower, edge.Followee); err != nil {
					return nil, err
				}
			}
			// A block changes what counts on both sides: each user may have notifications that the other user caused.
			queued := []jobs.NewJob{notifications.RecountActorJob(blocker, blocked), notifications.RecountActorJob(blocked, blocker)}
			if s.onBlock != nil {
				var more []jobs.NewJob
				if more, after, err = s.onBlock(ctx, tx, blocker, blocked); err != nil {
					return nil, err
				}
				queued = append(queued, more...)
			}
			return nil, jobs.Enqueue(ctx, tx, queued...)
		},
		// Only the blocker's own projections are updated before the answer; the jobs update those of the other user.
		AfterApply: func(ctx context.Context) error {
			for _, edge := range ended {
				if edge.Follower == blocker {
					if err := s.fanout.ReconcileFollow(ctx, blocker, blocked); err != nil {
						return err
					}
				}
			}
			if after != nil {
				return after(ctx)
			}
			return nil
		},
		AfterCommit: func(ctx context.Context) error { return s.notifications.RecountActor(ctx, blocker, blocked) },
	}
}

// Unblock is the command that ends a block. The follows that the block ended do not return. Actions of the other user notify again
// unless they were seen or read before. Without a block it changes nothing.
func (s *Service) Unblock(blocker, blocked services.UserID) *jobs.Command {
	return &jobs.Command{
		Name: "unblock", Actor: blocker,
		Apply: func(ctx context.Context, tx *sql.Tx) ([]string, error) {
			block := services.Restriction{Kind: services.Block, Owner: blocker, Other: blocked}
			return nil, s.unrestrict(ctx, tx, block, notifications.RecountActorJob(blocker, blocked), notifications.RecountActorJob(blocked, blocker))
		},
		AfterCommit: func(ctx context.Context) error { return s.notifications.RecountActor(ctx, blocker, blocked) },
	}
}

// restrict adds a restriction between two users. The owner can have at most the given number of restrictions of its kind. It
// returns ErrUnchanged when the restriction exists already with the same end, and otherwise the follows that a block ended.
func (s *Service) restrict(ctx context.Context, tx *sql.Tx, r services.Restriction, most int) (ended []services.FollowEdge, err error) {
	says := restrictionVerbs[r.Kind]
	if r.Owner == r.Other {
		return nil, services.Errorf(services.Invalid, "userId: you cannot %s yourself", says.do)
	}
	if tx.EventMoment() != 0 && r.Kind == services.Mute { // the event must not extend a mute that was over by then
		if err := people.EndMutes(ctx, tx, r.Owner, tx.EventTime()); err != nil {
			return nil, err
		}
	}
	if err := people.LockRestrictions(ctx, tx, r.Owner, r.Other); err != nil {
		return nil, err
	}
	// The count is read before the insertion and checked after it: a restriction that exists already does not exceed the limit.
	// The error undoes the insertion.
	had, err := people.CountRestrictions(ctx, tx, r.Kind, r.Owner, most)
	if err != nil {
		return nil, err
	}
	if r.MadeAt, err = people.NewRestrictionID(ctx, tx, s.ids, r.Kind, r.Owner); err != nil {
		return nil, err
	}
	put, err := people.Restrict(ctx, tx, r)
	switch {
	case err != nil:
	case !put.Created && !put.Changed:
		err = jobs.ErrUnchanged
	case put.Created && had >= most:
		err = services.Errorf(services.Conflict, "userId: at most %d people can be %s", most, says.done)
	}
	return put.EndedFollows, err
}

// unrestrict removes a restriction, and queues the jobs that bring projections in line. Without a restriction it returns ErrUnchanged,
// and queues nothing.
func (s *Service) unrestrict(ctx context.Context, tx *sql.Tx, r services.Restriction, left ...jobs.NewJob) error {
	if err := people.LockRestrictions(ctx, tx, r.Owner, r.Other); err != nil {
		return err
	}
	ended, err := people.Unrestrict(ctx, tx, r)
	if err == nil && !ended {
		err = jobs.ErrUnchanged
	}
	if err != nil {
		return err
	}
	return jobs.Enqueue(ctx, tx, left...)
}

// checkMayFollow returns FORBIDDEN while the follower blocks the followee. It returns NOT_FOUND, as for an unknown user, while the
// followee blocks the follower: users do not learn that they are blocked. Neither block changes until the transaction ends.
func checkMayFollow(ctx context.Context, tx *sql.Tx, follower, followee services.UserID) error {
	if err := people.LockRestrictionsShared(ctx, tx, follower); err != nil {
		return err
	}
	blocked, own, err := people.Blocked(ctx, tx, follower, followee)
	switch {
	case err != nil || !blocked:
		return err
	case own:
		return services.Errorf(services.Forbidden, "userId: you block this user: unblock them before you follow them")
	}
	return people.NoUserError(ctx, tx, "userId", followee)
}

// HiddenAuthors returns which authors hide their posts and shows from a viewer, by a hide or by a block. It is one statement for any
// number of authors; an absent author is shown.
func (s *Service) HiddenAuthors(ctx context.Context, viewer services.UserID, authors []services.UserID) (map[services.UserID]bool, error) {
	return people.HiddenAuthors(ctx, s.db, viewer, authors)
}

// Restrictions lists a user's restrictions of one kind, the newest first: at most limit restrictions whose MadeAt is below
// before. more reports whether there are more.
func (s *Service) Restrictions(ctx context.Context, kind services.RestrictionKind, owner services.UserID, before services.SortableID, limit int) (list []services.Restriction, more bool, err error) {
	list, err = people.Restrictions(ctx, s.db, kind, owner, before, limit+1)
	more = len(list) > limit
	return list[:min(limit, len(list))], more, err
}
