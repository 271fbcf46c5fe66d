// Package feed is posts, likes and home feeds: publishing, deleting, liking, marking as seen, and pages that neither repeat nor skip a
// post.
//
// A post and the job that fans it out are one transaction; the author's own feed has the post before the answer. Pages
// come from the reader's inbox in at most two round trips. When the inbox is lost it is rebuilt first; when Redis does
// not answer, pages come from SQL.
//
// One page is made like this:
//
//  1. readRaw reads a part of the reader's inbox, and rebuilds an inbox that is lost or from before the reader's absence.
//  2. mergePage merges the posts of pulled authors into it, from this node's memory. The list ends at its 300th entry, or where the
//     inbox or a pulled author's list has lost posts.
//  3. withInFlight adds the posts in flight that the page lacks to the inbox, and reads it again.
//  4. appendVisible reads the posts and authors, and leaves out deleted posts. page goes on with step 1 until the page is full.
//
// Entries are IDs, and a cursor is an ID: it needs no look-up, and holds wherever the page came from.
package feed

import (
	"context"
	"time"

	"tidings/services"
	"tidings/services/fanout"
	"tidings/services/jobs"
	"tidings/services/nodecache"
	"tidings/services/people"
	"tidings/services/positions"
	"tidings/services/posts"
	"tidings/services/projector"
	"tidings/services/rdb"
	"tidings/services/sql"
)

// Config configures the service.
type Config struct {
	Jobs      *jobs.Engine // New registers its kinds of jobs
	DB        *sql.DB
	Redis     *rdb.Projections
	Posts     *posts.Memory                  // the node's copies of posts
	Reader    *nodecache.PostAndUserReader   // reads posts and authors from the node cache, Redis or SQL
	Pulled    *nodecache.PulledCache         // the posts of pulled authors
	InFlight  *nodecache.InFlightFanoutCache // the posts that may not have reached all their readers yet
	Projector *projector.Projector
	Fanout    *fanout.Fanout
	IDs       *services.IDClock
	Clock     services.Clock
	Settings
	// RebuildWait is how long a page waits for a feed that is being rebuilt before it comes from the facts; 0 means 500 ms.
	RebuildWait time.Duration
}

// Service has the commands of posts and reads the pages of home feeds. It is safe for concurrent use.
type Service struct {
	jobs         *jobs.Engine
	db           *sql.DB
	redis        *rdb.Projections
	posts        *posts.Memory
	reader       *nodecache.PostAndUserReader
	pulled       *nodecache.PulledCache
	inFlight     *nodecache.InFlightFanoutCache
	fanout       *fanout.Fanout
	projector    *projector.Projector
	ids          *services.IDClock
	clock        services.Clock
	kindsInFeeds []services.PostKind // the kinds of posts that enter feeds

	rebuildWait time.Duration // how long a page waits for a feed that is being rebuilt
}

// New makes the service, and registers the kinds of its jobs.
func New(cfg Config) *Service {
	if cfg.RebuildWait == 0 {
		cfg.RebuildWait = 500 * time.Millisecond
	}
	s := &Service{
		rebuildWait: cfg.RebuildWait, kindsInFeeds: cfg.kinds(),
		jobs: cfg.Jobs, db: cfg.DB, redis: cfg.Redis, posts: cfg.Posts, reader: cfg.Reader, pulled: cfg.Pulled, inFlight: cfg.InFlight,
		projector: cfg.Projector, fanout: cfg.Fanout, ids: cfg.IDs, clock: cfg.Clock,
	}
	cfg.Jobs.Register(s.kinds()...)
	return s
}

// maxClockSkew is how far ahead of this node's time a position may be: other nodes' clocks differ.
const maxClockSkew = time.Minute

// MarkSeen is the command that marks a reader's feed as seen up to a position (upTo). 0 is the newest post that the feed holds when the
// command is committed: every post that a page can have shown by then is in SQL, even if it is in no inbox and not in this node's cache.
// A dated mark (jobs.Command.HappenedAt) reaches the newest post that the feed has from before the moment of the mark. The mark only
// moves forward. The post at the position may have been deleted or hidden since, or its author unfollowed. INVALID if the position is in
// the future, NOT_FOUND if the reader can never have been shown such a post.
func (s *Service) MarkSeen(reader services.UserID, upTo services.PostID) *jobs.Command {
	return &jobs.Command{
		Name: "markHomeFeedSeen", Actor: reader,
		Apply: func(ctx context.Context, tx *sql.Tx) ([]string, error) {
			position, err := s.seenPositionToMark(ctx, tx, reader, upTo)
			if err != nil {
				return nil, err
			}
			// The position is a fact, and the document only its projection: after a loss of Redis the posts stay seen.
			if _, err := positions.Advance(ctx, tx, reader, positions.HomeFeedView, position); err != nil {
				return nil, err
			}
			return nil, jobs.Enqueue(ctx, tx, fanout.ProjectSeenJob(reader))
		},
		AfterCommit: func(ctx context.Context) error { return s.fanout.ProjectSeen(ctx, reader) },
	}
}

// seenPositionToMark is the position up to which a reader has been shown posts. It refuses a post that the reader cannot have been
// shown: the mark never moves back, so a wrong mark would hide new posts.
func (s *Service) seenPositionToMark(ctx context.Context, tx *sql.Tx, reader services.UserID, upTo services.PostID) (services.PostID, error) {
	switch at := tx.EventMoment(); {
	case upTo == 0 && at != 0:
		// A mute that had ended at that time hides nothing any more, but the job that ends the mute may run later than this mark.
		if err := people.EndMutes(ctx, tx, reader, tx.EventTime()); err != nil {
			return 0, err
		}
		return posts.NewestOfFeedUntil(ctx, tx, reader, services.PostID(at))
	case upTo == 0:
		return posts.NewestOfFeed(ctx, tx, reader)
	}
	// SQL is asked first: a post that exists may come from a node whose clock is ahead.
	name := services.GlobalID(services.PostType, upTo.String())
	shown, erased, err := posts.MayHaveBeenShown(ctx, tx, reader, upTo)
	switch {
	case err != nil || shown && !erased: // a post that was shown is not in the future, whatever this node's clock says
	case services.SortableID(upTo) > services.SortableIDAt(s.ids.Now().Add(maxClockSkew)):
		err = services.Errorf(services.Invalid, "upTo: %s is in the future", name)
	default:
		err = services.Errorf(services.NotFound, "upTo: there is no %s", name)
	}
	return upTo, err
}

// ParentOf returns the post that a post answers or answered, also after the deletion of either; 0 if it answers none. It reads SQL,
// because a copy of a deleted post need not have it.
func (s *Service) ParentOf(ctx context.Context, id services.PostID) (services.PostID, error) {
	read, err := posts.ByID(ctx, s.db, []services.PostID{id})
	return read[id].Parent, err
}
