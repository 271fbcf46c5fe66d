package fanout

import (
	"context"
	"time"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/nodecache"
	"tidings/services/positions"
	"tidings/services/posts"
	"tidings/services/redis"
)

// The kinds of jobs of feeds. The names and keys are stored in the queue, so they stay the same across releases.
const (
	jobFanOut = nodecache.JobFanOut // key: post ID. Brings a new post to all followers

	jobPushChunk       = "post.push"   // brings a new post to a chunk of followers; payload: postChunk
	jobPushOnlineChunk = "post.online" // brings a new post to the followers of a chunk who are online; payload: postChunk
	jobRemovePost      = "post.remove" // key: post ID. Takes a deleted post out of all followers' feeds
	jobDropChunk       = "post.drop"   // takes a deleted post out of the feeds of a chunk of followers; payload: postChunk
	jobFollow          = "follow"      // key: reader/author. A follow, its mode, a mute or a hide changed
	jobProjectSeen     = "feed.seen"   // key: user. The seen position of their feed moved
)

// feedKinds are the kinds of jobs in this file. A fan-out concerns everyone: listing its followers would take as long as serving
// them. A follow changes the live board too, because ReconcileFollow merges the shows of a host.
func (f *Fanout) feedKinds() []jobs.Kind {
	everyFeed := jobs.CountsOf(jobs.Everyone, services.SourceHomeFeed)
	ownFeed := jobs.CountsOf(jobs.FirstUserOfKey, services.SourceHomeFeed)
	author := jobs.UserInPayload(postChunk.namedUsers)
	return []jobs.Kind{
		{Name: jobFanOut, Class: jobs.ShortClass, Each: jobs.ObjectWork(f.fanOut), ChangedCounts: everyFeed, NamesUser: jobs.NoUser},
		{Name: jobRemovePost, Class: jobs.ShortClass, Each: jobs.ObjectWork(f.fanOut), ChangedCounts: everyFeed, NamesUser: jobs.NoUser},
		{Name: jobPushChunk, Class: jobs.BulkClass, Each: jobs.PayloadWork(f.runPostChunk), ChangedCounts: everyFeed, NamesUser: author},
		{Name: jobPushOnlineChunk, Class: jobs.UrgentClass, Each: jobs.PayloadWork(f.runOnlineChunk), ChangedCounts: everyFeed, NamesUser: author},
		{Name: jobDropChunk, Class: jobs.BulkClass, Each: jobs.PayloadWork(f.runPostChunk), ChangedCounts: everyFeed, NamesUser: author},
		{Name: jobFollow, Class: jobs.ShortClass, Each: jobs.PairWork(f.ReconcileFollow),
			ChangedCounts: jobs.CountsOf(jobs.FirstUserOfKey, services.SourceHomeFeed, services.SourceLiveBoard), NamesUser: jobs.UserInKey},
		{Name: jobProjectSeen, Class: jobs.ShortClass, Each: jobs.UserWork(f.ProjectSeen), ChangedCounts: ownFeed, NamesUser: jobs.UserInKey},
	}
}

// FanOutJob is the job that brings a new post to all followers.
func FanOutJob(post services.PostID) jobs.NewJob { return jobs.KeyedJob(jobFanOut, post.String()) }

// RemovePostJob is the job that takes a deleted post out of all followers' feeds.
func RemovePostJob(post services.PostID) jobs.NewJob {
	return jobs.KeyedJob(jobRemovePost, post.String())
}

// FollowJob is the job that makes a reader's feed agree with whether they follow the author, and with mutes and hides between the two.
// The job says only that one of these has changed, and reads the follow when it runs: so the result is right for any order of
// the changes.
func FollowJob(reader, author services.UserID) jobs.NewJob {
	return jobs.KeyedJob(jobFollow, jobs.PairKey(reader, author))
}

// ProjectSeenJob is the job that projects the seen position of a user's feed into their document. The command does that at once too; the
// job makes up for a failure of the command.
func ProjectSeenJob(user services.UserID) jobs.NewJob {
	return jobs.UserJob(jobProjectSeen, user)
}

// ProjectSeen projects the durable seen position of a user's feed into their document. Positions only move forward,
// here and in SQL, so it needs no stamp.
func (f *Fanout) ProjectSeen(ctx context.Context, user services.UserID) error {
	seen, err := positions.Of[services.PostID](ctx, f.db, user, positions.HomeFeedView)
	if err != nil {
		return err
	}
	result, err := f.redis.MarkFeedSeen(ctx, user, seen)
	if err != nil {
		return err
	}
	return f.projector.HintAndMark(ctx, []services.UserID{user}, []redis.Result{result})
}

// Lag is how far fan-out is behind, for metrics and the console.
type Lag struct {
	WaitingJobs  int           // jobs that deliver posts or deletions
	OldestJobAge time.Duration // the age of the oldest job or fan-out; 0 when there is none
}

// Lag reads how far fan-out is behind, on all nodes together.
func (f *Fanout) Lag(ctx context.Context) (lag Lag, err error) {
	waiting, oldest, err := jobs.JobCountsOf(ctx, f.db, []string{jobFanOut, jobPushOnlineChunk, jobPushChunk, jobRemovePost, jobDropChunk})
	if err != nil {
		return lag, err
	}
	// A chunk's job is younger than its post. The beginning of the oldest fan-out includes the time of its earlier chunks.
	began, err := posts.OldestFanout(ctx, f.db)
	if err != nil {
		return lag, err
	}
	if oldest.IsZero() || !began.IsZero() && began.Before(oldest) {
		oldest = began
	}
	lag.WaitingJobs = waiting
	if !oldest.IsZero() {
		// The job may have been made by a clock that is ahead of this one.
		lag.OldestJobAge = max(0, f.clock.Now().Sub(oldest))
	}
	return lag, nil
}
