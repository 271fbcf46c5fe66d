package live

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"tidings/services"
	"tidings/services/fanout"
	"tidings/services/jobs"
	"tidings/services/people"
	"tidings/services/projector"
	"tidings/services/redis"
)

// The kinds of jobs of replays.
const (
	jobFanOutReplay      = "show.end"     // key: show. It has become a replay
	jobFanOutHostReplays = "host.replays" // key: host. Several of their shows have become replays at once
	jobReplayChunk       = "show.replay"  // a chunk of a host's followers; payload: replayChunk
)

func (s *Service) replayKinds() []jobs.Kind {
	return []jobs.Kind{
		{Name: jobFanOutReplay, Class: jobs.ShortClass, Each: jobs.ObjectWork(s.fanOutReplay), ChangedCounts: jobs.NoCounts(), NamesUser: jobs.NoUser},
		{Name: jobFanOutHostReplays, Class: jobs.ShortClass, Each: s.fanOutReplays, ChangedCounts: jobs.NoCounts(), NamesUser: jobs.UserInKey},
		{Name: jobReplayChunk, Class: jobs.BulkClass, Each: jobs.PayloadWork(s.runReplayChunk),
			ChangedCounts: jobs.NoCounts(), NamesUser: jobs.UserInPayload(replayChunk.NamedUsers)},
	}
}

// replayChunk is a chunk of a host's followers, and the show to add to their lists. Show 0 stands for the host's newest replays.
type replayChunk struct {
	Show services.ShowID `json:"show,omitempty"`
	fanout.FollowerChunk
}

// fanOutReplayJob is the job that adds a show that has become a replay to the lists of its host's followers.
func fanOutReplayJob(show services.ShowID) jobs.NewJob {
	return jobs.KeyedJob(jobFanOutReplay, show.String())
}

// fanOutReplaysJob is the job that adds the newest replays of a host to their followers' lists: one job instead of one for each
// show.
func fanOutReplaysJob(host services.UserID) jobs.NewJob {
	return jobs.UserJob(jobFanOutHostReplays, host)
}

func entryOf(show Show) replayEntry {
	return replayEntry{Position: show.Position(), Host: show.Host}
}

func entriesOf(shows []Show) []replayEntry {
	return services.Map(shows, entryOf)
}

// inReplayLists reports whether a show belongs in lists of replays: it is over and on boards, and its host was not huge at its end.
func inReplayLists(show Show) bool {
	return show.Status == ShowReplay && show.Version > 0 && !show.Pull
}

// fanOutReplay adds a replay to the lists of its host's followers.
func (s *Service) fanOutReplay(ctx context.Context, job jobs.Job, id services.ShowID) error {
	show, err := s.show(ctx, id)
	// The host was erased, or is not on boards yet. In the second case publishShows will queue a job for the host's replays.
	if err != nil || !inReplayLists(show) {
		return err
	}
	return s.fanOutChunks(ctx, job, show.Host, id)
}

// fanOutReplays adds a host's newest replays to the lists of the followers.
func (s *Service) fanOutReplays(ctx context.Context, job jobs.Job) error {
	host, err := services.ParseUserIDText(job.Key)
	if err != nil {
		return fmt.Errorf("key of %s: %w", job.Kind, err)
	}
	return s.fanOutChunks(ctx, job, host, 0)
}

// fanOutChunks updates the lists of the followers as a fan-out of posts updates inboxes: at once if they are one chunk, otherwise by a
// job for each chunk. No board waits for these jobs, because node caches keep ended shows for the life of a session.
func (s *Service) fanOutChunks(ctx context.Context, job jobs.Job, host services.UserID, id services.ShowID) error {
	// For a big host only the active followers are updated; the lists of idle followers are rebuilt when they return.
	since, err := s.fanout.PushLastSeenCutoff(ctx, host)
	if err != nil {
		return err
	}
	parts, err := s.fanout.FollowerChunks(ctx, host, since)
	if err != nil || len(parts) == 0 {
		return err
	}
	chunks := services.Map(parts, func(part fanout.FollowerChunk) replayChunk { return replayChunk{Show: id, FollowerChunk: part} })
	if len(chunks) == 1 {
		return s.pushReplays(ctx, chunks[0])
	}
	jobs, err := jobs.ChunkJobs(jobReplayChunk, chunks)
	if err != nil {
		return err
	}
	return s.jobs.Replace(ctx, job, jobs)
}

// runReplayChunk updates the lists of one chunk of followers. Any node may run it.
func (s *Service) runReplayChunk(ctx context.Context, job jobs.Job, chunk replayChunk) error {
	return s.pushReplays(ctx, chunk)
}

// show reads a show; it is zero when its host was erased.
func (s *Service) show(ctx context.Context, id services.ShowID) (Show, error) {
	shows, err := readShows(ctx, s.db.Runner, []services.ShowID{id})
	return shows[id], err
}

// replaysOf are the shows of a chunk that belong in lists.
func (s *Service) replaysOf(ctx context.Context, chunk replayChunk) ([]Show, error) {
	if chunk.Show == 0 {
		// This is one more than a list keeps, to know whether older ones exist.
		return newestReplaysOf(ctx, s.db, chunk.Author, projector.RebuiltInboxEntries+1)
	}
	show, err := s.show(ctx, chunk.Show)
	if err != nil || !inReplayLists(show) {
		return nil, err
	}
	return []Show{show}, nil
}

// pushReplays updates the lists of one chunk of followers, which it reads from SQL. A follower without a list needs none yet: the
// list is made when the follower's board is read.
func (s *Service) pushReplays(ctx context.Context, chunk replayChunk) error {
	// The stamp is taken before every read from SQL below: a list from which something was removed since then refuses what was read.
	stamp, err := s.redis.Client.Now(ctx)
	if err != nil {
		return err
	}
	shows, err := s.replaysOf(ctx, chunk)
	if err != nil || len(shows) == 0 {
		return err
	}
	since, err := s.fanout.PushLastSeenCutoff(ctx, chunk.Author)
	if err != nil {
		return err
	}
	entries := entriesOf(shows)
	return s.fanout.EachFollower(ctx, chunk.FollowerChunk, since, func(edges []services.FollowEdge) error {
		for part := range slices.Chunk(edges, max(1, maxEntriesPerCall/len(entries))) {
			if err := s.pushEntries(ctx, stamp, entries, part); err != nil {
				return err
			}
		}
		return nil
	})
}

// maxEntriesPerCall bounds how many entries go to Redis together: about 600 kB, and some milliseconds of Redis' one thread.
const maxEntriesPerCall = 20_000

// pushEntries adds replays of a host to the followers' lists. For each list that refuses them, the follow is read again.
func (s *Service) pushEntries(ctx context.Context, stamp redis.ClockStamp, entries []replayEntry, edges []services.FollowEdge) error {
	readers := fanout.FollowerIDs(edges)
	results, err := s.addReplays(ctx, stamp, entries, readers...)
	if err != nil {
		return err
	}
	for i, result := range results {
		if result.Status == redis.Retry {
			if err := s.addReplaysAgain(ctx, edges[i], entries); err != nil {
				return err
			}
		}
	}
	return nil
}

// addReplays adds replays to readers' lists, and counts each list that lacked some of them.
func (s *Service) addReplays(ctx context.Context, stamp redis.ClockStamp, entries []replayEntry, readers ...services.UserID) ([]redis.Result, error) {
	merges := services.Map(readers, func(reader services.UserID) replayMerge {
		return replayMerge{Reader: reader, Stamp: stamp, Entries: entries}
	})
	results, err := s.redis.mergeReplays(ctx, merges)
	for _, result := range results {
		if result.Status == redis.Applied {
			s.replaysDelivered.Add(1)
		}
	}
	return results, err
}

// addReplaysAgain reads the follow again for a follower whose list refused replays, and adds the replays if the follow still exists. The
// replays are not read again: they do not change.
func (s *Service) addReplaysAgain(ctx context.Context, edge services.FollowEdge, entries []replayEntry) error {
	return jobs.ProjectionMerge[redis.ClockStamp, bool]{
		Name: func() string { return fmt.Sprintf("replays of %d for reader %d", edge.Followee, edge.Follower) },
		Mark: func(ctx context.Context) (redis.ClockStamp, bool, error) {
			stamp, err := s.redis.TakeUserStamp(ctx, edge.Follower)
			return stamp, stamp != 0, err // a reader without a document needs no merge
		},
		Read: func(ctx context.Context) (follows bool, err error) {
			_, follows, err = people.Edge(ctx, s.db, edge.Follower, edge.Followee)
			return follows, err
		},
		Put: func(ctx context.Context, stamp redis.ClockStamp, follows bool) (done bool, err error) {
			if !follows {
				return true, nil
			}
			results, err := s.addReplays(ctx, stamp, entries, edge.Follower)
			return err == nil && results[0].Status != redis.Retry, err
		},
	}.Run(ctx)
}

// rebuildReplays makes a user's missing list of replays from the facts. It runs when a board is read that has hosts but no list.
// Concurrent callers share one rebuild. It does nothing without a document: the document is rebuilt first.
func (s *Service) rebuildReplays(ctx context.Context, user services.UserID) error {
	key := "replays " + strconv.FormatUint(uint64(user), 10)
	return s.projector.RunSharedRebuild(ctx, key, "the list of replays", func(ctx context.Context) error { return s.buildReplays(ctx, user) })
}

// buildReplays makes a list under the rule of jobs.ProjectionMerge: the list exists before its facts are read, so that a change in
// between reaches the list or makes the merge read again.
func (s *Service) buildReplays(ctx context.Context, user services.UserID) error {
	return jobs.ProjectionMerge[redis.ClockStamp, replayMerge]{
		Name: func() string { return fmt.Sprintf("replays of user %d", user) },
		Mark: func(ctx context.Context) (redis.ClockStamp, bool, error) {
			stamps, err := s.redis.beginReplays(ctx, []services.UserID{user})
			if err != nil {
				return 0, false, err
			}
			return stamps[0], stamps[0] != 0, nil
		},
		Read: func(ctx context.Context) (replayMerge, error) { return s.replayFacts(ctx, user) },
		Put: func(ctx context.Context, stamp redis.ClockStamp, facts replayMerge) (done bool, err error) {
			facts.Stamp = stamp
			results, err := s.redis.mergeReplays(ctx, []replayMerge{facts})
			return err == nil && results[0].Status == redis.Applied, err
		},
	}.Run(ctx)
}

// replayFacts reads the newest replays of a user's followed hosts for a rebuild of the list. It reads one replay more than the
// list keeps: the position of that replay becomes the floor of the list.
func (s *Service) replayFacts(ctx context.Context, user services.UserID) (facts replayMerge, err error) {
	facts = replayMerge{Reader: user, IsRebuild: true}
	shows, err := replaysOfFollowedHosts(ctx, s.db, user, ShowPosition{}, projector.RebuiltInboxEntries+1)
	if len(shows) > projector.RebuiltInboxEntries {
		facts.Floor, shows = shows[projector.RebuiltInboxEntries].Position(), shows[:projector.RebuiltInboxEntries]
	}
	facts.Entries = entriesOf(shows)
	return facts, err
}
