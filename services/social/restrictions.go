package social

import (
	"context"
	"time"

	"tidings/services"
	"tidings/services/fanout"
	"tidings/services/jobs"
	"tidings/services/sql"
	"tidings/services/store"
)

// verb is how the errors of a kind of restriction speak.
type verb struct{ do, done string }

var verbs = map[services.RestrictionKind]verb{
	services.Mute:  {"mute", "muted"},
	services.Block: {"block", "blocked"},
	services.Hide:  {"hide posts from", "hidden from"},
}

// Mute is the command by which a user is shown nothing of another in his feed any more, until a time or, with the zero time,
// until he unmutes him. He keeps following him, or may begin to. Muting again until the same time changes nothing. INVALID for oneself and
// for a time that is past, CONFLICT beyond the limit.
func (s *Service) Mute(muter, muted services.UserID, until time.Time) *jobs.Command {
	until = until.Truncate(time.Microsecond)
	mute := services.Restriction{Kind: services.Mute, Owner: muter, Other: muted, Until: until}
	return &jobs.Command{
		Name: "mute", Actor: muter,
		Apply: func(ctx context.Context, in *sql.Tx) ([]string, error) {
			tx := store.In(in)
			if !until.IsZero() && !until.After(tx.Now) {
				return nil, services.Errorf(services.Invalid, "until: %s is past: it is %s", moment(until), moment(tx.Now))
			}
			if _, err := s.restrict(ctx, tx, mute, s.maxMutes); err != nil {
				return nil, err
			}
			left := []jobs.NewJob{fanout.FollowJob(muter, muted)}
			if !until.IsZero() {
				left = append(left, fanout.MuteEndJob(muter, muted, until))
			}
			return nil, jobs.Enqueue(ctx, tx.Tx, left...)
		},
		AfterCommit: func(ctx context.Context) error { return s.fanout.Reconcile(ctx, muter, muted) },
	}
}

func moment(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000Z") }

// Unmute is the command by which a user is shown another's posts again: his feed lists and counts what it would have without
// the mute. Without a mute it changes nothing.
func (s *Service) Unmute(muter, muted services.UserID) *jobs.Command {
	return &jobs.Command{
		Name: "unmute", Actor: muter,
		Apply: func(ctx context.Context, in *sql.Tx) ([]string, error) {
			tx := store.In(in)
			return nil, s.unrestrict(ctx, tx, services.Restriction{Kind: services.Mute, Owner: muter, Other: muted}, fanout.FollowJob(muter, muted))
		},
		AfterCommit: func(ctx context.Context) error { return s.fanout.Reconcile(ctx, muter, muted) },
	}
}

// HideFrom is the command by which an author's posts and shows are shown to another no more, who may follow him or begin to; nor
// do they notify. Hiding again changes nothing. INVALID for oneself, CONFLICT beyond the limit.
func (s *Service) HideFrom(author, follower services.UserID) *jobs.Command {
	return &jobs.Command{
		Name: "hideFrom", Actor: author,
		Apply: func(ctx context.Context, in *sql.Tx) ([]string, error) {
			tx := store.In(in)
			hide := services.Restriction{Kind: services.Hide, Owner: author, Other: follower}
			if _, err := s.restrict(ctx, tx, hide, s.maxHides); err != nil {
				return nil, err
			}
			return nil, jobs.Enqueue(ctx, tx.Tx, fanout.FollowJob(follower, author), fanout.ActorJob(follower, author))
		},
	}
}

// UnhideFrom is the command by which they are shown to him again, if they follow. Without a hide it changes nothing.
func (s *Service) UnhideFrom(author, follower services.UserID) *jobs.Command {
	return &jobs.Command{
		Name: "unhideFrom", Actor: author,
		Apply: func(ctx context.Context, in *sql.Tx) ([]string, error) {
			tx := store.In(in)
			hide := services.Restriction{Kind: services.Hide, Owner: author, Other: follower}
			return nil, s.unrestrict(ctx, tx, hide, fanout.FollowJob(follower, author), fanout.ActorJob(follower, author))
		},
	}
}

// Block is the command by which two users have nothing to do with each other any more, whoever of them did it: neither follows
// the other or can begin to, and their DIRECT conversation is closed. What the blocked one did notifies the blocker no
// more; what the blocker publishes is hidden from the blocked one and notifies them no more. Blocking again changes nothing.
// INVALID for oneself, CONFLICT beyond the limit.
func (s *Service) Block(blocker, blocked services.UserID) *jobs.Command {
	var ended []services.Edge
	var after func(context.Context) error
	return &jobs.Command{
		Name: "block", Actor: blocker,
		Apply: func(ctx context.Context, in *sql.Tx) (ids []string, err error) {
			tx := store.In(in)
			block := services.Restriction{Kind: services.Block, Owner: blocker, Other: blocked}
			if ended, err = s.restrict(ctx, tx, block, s.maxBlocks); err != nil {
				return nil, err
			}
			for _, edge := range ended {
				if err := enqueue(ctx, tx, edge.Follower, edge.Followee); err != nil {
					return nil, err
				}
			}
			queued := []jobs.NewJob{fanout.ActorJob(blocker, blocked), fanout.ActorJob(blocked, blocker)}
			if s.onBlock != nil {
				var more []jobs.NewJob
				if more, after, err = s.onBlock(ctx, in, blocker, blocked); err != nil {
					return nil, err
				}
				queued = append(queued, more...)
			}
			return nil, jobs.Enqueue(ctx, tx.Tx, queued...)
		},
		AfterCommit: func(ctx context.Context) error {
			for _, edge := range ended {
				if edge.Follower == blocker {
					if err := s.fanout.Reconcile(ctx, blocker, blocked); err != nil {
						return err
					}
				}
			}
			if after != nil {
				if err := after(ctx); err != nil {
					return err
				}
			}
			return s.fanout.RecountActor(ctx, blocker, blocked)
		},
	}
}

// Unblock is the command by which that ends. The follows that were ended stay so; what the other had done notifies again, where
// it was not seen or read before. Without a block it changes nothing.
func (s *Service) Unblock(blocker, blocked services.UserID) *jobs.Command {
	return &jobs.Command{
		Name: "unblock", Actor: blocker,
		Apply: func(ctx context.Context, in *sql.Tx) ([]string, error) {
			tx := store.In(in)
			block := services.Restriction{Kind: services.Block, Owner: blocker, Other: blocked}
			return nil, s.unrestrict(ctx, tx, block, fanout.ActorJob(blocker, blocked), fanout.ActorJob(blocked, blocker))
		},
		AfterCommit: func(ctx context.Context) error { return s.fanout.RecountActor(ctx, blocker, blocked) },
	}
}

// restrict puts something between two users: at most so many of its kind. ErrUnchanged when it stands already, and ends at the same time.
func (s *Service) restrict(ctx context.Context, tx *store.Tx, r services.Restriction, most int) (ended []services.Edge, err error) {
	says := verbs[r.Kind]
	if r.Owner == r.Other {
		return nil, services.Errorf(services.Invalid, "userId: one cannot %s oneself", says.do)
	}
	if err := tx.LockRestrictions(ctx, r.Owner, r.Other); err != nil {
		return nil, err
	}
	had, err := tx.CountRestrictions(ctx, r.Kind, r.Owner, most)
	if err != nil {
		return nil, err
	}
	r.Made = tx.NewID(s.ids)
	put, err := tx.Restrict(ctx, r)
	switch {
	case err != nil:
	case !put.Created && !put.Changed:
		err = jobs.ErrUnchanged
	case put.Created && had >= most:
		err = services.Errorf(services.Conflict, "userId: at most %d people can be %s", most, says.done)
	}
	return put.Ended, err
}

// unrestrict takes it away, and leaves the jobs that bring views in line.
func (s *Service) unrestrict(ctx context.Context, tx *store.Tx, r services.Restriction, left ...jobs.NewJob) error {
	if err := tx.LockRestrictions(ctx, r.Owner, r.Other); err != nil {
		return err
	}
	ended, err := tx.Unrestrict(ctx, r)
	if err == nil && !ended {
		err = jobs.ErrUnchanged
	}
	if err != nil {
		return err
	}
	return jobs.Enqueue(ctx, tx.Tx, left...)
}

// mayFollow is FORBIDDEN while the follower blocks the followee, and NOT_FOUND while the followee blocks the follower, as for
// somebody who is not there. Neither changes until the transaction ends.
func mayFollow(ctx context.Context, tx *store.Tx, follower, followee services.UserID) error {
	if err := tx.HoldRestrictions(ctx, follower); err != nil {
		return err
	}
	blocked, own, err := tx.Blocked(ctx, follower, followee)
	switch {
	case err != nil || !blocked:
		return err
	case own:
		return services.Errorf(services.Forbidden, "userId: you block this user: unblock them before you follow them")
	}
	return tx.NoUser(ctx, "userId", followee)
}

// Hidden answers which of some authors hide the posts and shows that they publish from a viewer: because they hide them from
// this viewer or block the viewer. It is one statement, however many they are; absent means shown.
func (s *Service) Hidden(ctx context.Context, viewer services.UserID, authors []services.UserID) (map[services.UserID]bool, error) {
	return s.store.Hidden(ctx, viewer, authors)
}

// Restrictions lists what a user has put between himself and others of one kind, the newest first: those made before one,
// at most limit, and whether there are more.
func (s *Service) Restrictions(ctx context.Context, kind services.RestrictionKind, owner services.UserID, before services.PostID, limit int) (list []services.Restriction, more bool, err error) {
	list, err = s.store.Restrictions(ctx, kind, owner, before, limit+1)
	more = len(list) > limit
	return list[:min(limit, len(list))], more, err
}
