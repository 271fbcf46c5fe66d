package fanout

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/rdb"
	"tidings/services/redis"
	"tidings/services/store"
)

// The kinds of jobs of replays.
const (
	jobEnd     = "show.end"     // key: show. It has become a replay
	jobReplays = "host.replays" // key: host. Several of their shows have become replays at once
	jobReplay  = "show.replay"  // a chunk of a host's followers; payload: replayChunk
)

func (f *Fanout) replayKinds() []jobs.Kind {
	return []jobs.Kind{
		{Name: jobEnd, Class: jobs.Short, Each: jobs.OfPost(f.fanOutReplay), Changes: jobs.NoCounts()}, // ids of shows look like posts'
		{Name: jobReplays, Class: jobs.Short, Each: f.fanOutReplays, Changes: jobs.NoCounts()},
		{Name: jobReplay, Class: jobs.Bulk, Each: f.runReplayChunk, Changes: jobs.NoCounts()},
	}
}

// replayChunk is a show, or with 0 the newest replays of a host, and a chunk of its host's followers.
type replayChunk struct {
	Show services.PostID `json:"show,omitempty"`
	Audience
}

// endJob brings a show that has become a replay into the lists of its host's followers.
func endJob(show services.PostID) jobs.NewJob { return jobs.Keyed(jobEnd, show.String()) }

// ReplaysJob brings the newest replays of a host into the lists of their followers: one job in place of one for each show.
func ReplaysJob(host services.UserID) jobs.NewJob {
	return jobs.UserKeyed(jobReplays, host)
}

func replayEntry(show services.Show) rdb.ReplayEntry {
	return rdb.ReplayEntry{Place: show.Place(), Host: show.Host}
}

func replayEntries(shows []services.Show) []rdb.ReplayEntry {
	entries := make([]rdb.ReplayEntry, len(shows))
	for i, show := range shows {
		entries[i] = replayEntry(show)
	}
	return entries
}

// listed says whether a show belongs in lists of replays.
func listed(show services.Show) bool {
	return show.Status == services.ShowReplay && show.Version > 0 && !show.Pull
}

// fanOutReplay brings a replay to the followers.
func (f *Fanout) fanOutReplay(ctx context.Context, job jobs.Job, id services.PostID) error {
	show, err := f.show(ctx, id)
	if err != nil || !listed(show) {
		return err
	}
	return f.fanOutChunks(ctx, job, show.Host, id)
}

// fanOutReplays brings a host's newest replays to the followers.
func (f *Fanout) fanOutReplays(ctx context.Context, job jobs.Job) error {
	host, err := services.ParseUserIDText(job.Key)
	if err != nil {
		return fmt.Errorf("key of %s: %w", job.Kind, err)
	}
	return f.fanOutChunks(ctx, job, host, 0)
}

// fanOutChunks serves the followers as a fan-out of posts does: at once when they are one chunk, else by a job for each
// chunk. Nobody waits for these jobs, because nodes remember ended shows for the life of a session.
func (f *Fanout) fanOutChunks(ctx context.Context, job jobs.Job, host services.UserID, id services.PostID) error {
	since, err := f.PushedSince(ctx, host)
	if err != nil {
		return err
	}
	audiences, err := f.Audiences(ctx, host, since)
	if err != nil || len(audiences) == 0 {
		return err
	}
	chunks := make([]replayChunk, len(audiences))
	for i, part := range audiences {
		chunks[i] = replayChunk{Show: id, Audience: part}
	}
	if len(chunks) == 1 {
		return f.pushReplays(ctx, chunks[0])
	}
	jobs, err := jobs.Chunked(jobReplay, chunks)
	if err != nil {
		return err
	}
	return f.Replace(ctx, job, jobs)
}

func (f *Fanout) runReplayChunk(ctx context.Context, job jobs.Job) error {
	var chunk replayChunk
	if err := jobs.ReadPayload(job, &chunk); err != nil {
		return err
	}
	return f.pushReplays(ctx, chunk)
}

func (f *Fanout) show(ctx context.Context, id services.PostID) (services.Show, error) {
	shows, err := store.Shows(ctx, f.store.DB.Runner, []services.PostID{id})
	if err == nil && shows[id].ID == 0 {
		err = fmt.Errorf("show %s is not there", id)
	}
	return shows[id], err
}

// replaysOf are the shows of a chunk that belong in lists.
func (f *Fanout) replaysOf(ctx context.Context, chunk replayChunk) ([]services.Show, error) {
	if chunk.Show == 0 {
		return f.store.HostReplays(ctx, chunk.Author, RebuildEntries+1) // one more, to know whether older ones exist
	}
	show, err := f.show(ctx, chunk.Show)
	if err != nil || !listed(show) {
		return nil, err
	}
	return []services.Show{show}, nil
}

// pushReplays serves one chunk of followers, as SQL has them when it runs. A follower without a list needs none yet: it is
// made when their board is read.
func (f *Fanout) pushReplays(ctx context.Context, chunk replayChunk) error {
	stamp, err := f.redis.Now(ctx)
	if err != nil {
		return err
	}
	shows, err := f.replaysOf(ctx, chunk)
	if err != nil || len(shows) == 0 {
		return err
	}
	since, err := f.PushedSince(ctx, chunk.Author)
	if err != nil {
		return err
	}
	entries := replayEntries(shows)
	return f.EachFollower(ctx, chunk.Audience, since, func(edges []services.Edge) error {
		for part := range slices.Chunk(edges, max(1, entriesAtOnce/len(entries))) {
			if err := f.pushEntries(ctx, stamp, entries, part); err != nil {
				return err
			}
		}
		return nil
	})
}

// entriesAtOnce bounds how many entries go to Redis together.
const entriesAtOnce = 20_000

// pushEntries adds replays of a host to the followers' lists. For each list that refuses them, the edge is read again.
func (f *Fanout) pushEntries(ctx context.Context, stamp redis.Stamp, entries []rdb.ReplayEntry, edges []services.Edge) error {
	readers := FollowerIDs(edges)
	results, err := f.addReplays(ctx, stamp, entries, readers...)
	if err != nil {
		return err
	}
	for i, result := range results {
		if result.Status == redis.Retry {
			if err := f.addReplaysAgain(ctx, edges[i], entries); err != nil {
				return err
			}
		}
	}
	return nil
}

// addReplays adds replays to readers' lists, and counts the lists that lacked some.
func (f *Fanout) addReplays(ctx context.Context, stamp redis.Stamp, entries []rdb.ReplayEntry, readers ...services.UserID) ([]redis.Result, error) {
	merges := make([]rdb.MergeOfReplays, len(readers))
	for i, reader := range readers {
		merges[i] = rdb.MergeOfReplays{Reader: reader, Stamp: stamp, Entries: entries}
	}
	results, err := f.redis.MergeReplays(ctx, merges)
	for _, result := range results {
		if result.Status == redis.Applied {
			f.replaysDelivered.Add(1)
		}
	}
	return results, err
}

// ReplaysDelivered is how many times this node has put replays into a list.
func (f *Fanout) ReplaysDelivered() uint64 { return f.replaysDelivered.Load() }

// addReplaysAgain reads the edge again for a follower whose list refused replays. A replay itself does not change.
func (f *Fanout) addReplaysAgain(ctx context.Context, edge services.Edge, entries []rdb.ReplayEntry) error {
	return jobs.Merge[redis.Stamp, bool]{
		Name: func() string { return fmt.Sprintf("replays of %d for reader %d", edge.Followee, edge.Follower) },
		Mark: f.stampOf(edge.Follower),
		Read: func(ctx context.Context) (follows bool, err error) {
			_, follows, err = f.store.Edge(ctx, edge.Follower, edge.Followee)
			return follows, err
		},
		Put: func(ctx context.Context, stamp redis.Stamp, follows bool) (done bool, err error) {
			if !follows {
				return true, nil
			}
			results, err := f.addReplays(ctx, stamp, entries, edge.Follower)
			return err == nil && results[0].Status != redis.Retry, err
		},
	}.Run(ctx)
}

// RebuildReplays makes a user's missing list of replays from the facts, when a board is read that has hosts and no list.
// Concurrent callers share one rebuild. It does nothing without a document: the document is rebuilt first.
func (f *Fanout) RebuildReplays(ctx context.Context, user services.UserID) error {
	key := "replays " + strconv.FormatUint(uint64(user), 10)
	return f.Once(ctx, key, "the list of replays", func(ctx context.Context) error { return f.rebuildReplays(ctx, user) })
}

func (f *Fanout) rebuildReplays(ctx context.Context, user services.UserID) error {
	return jobs.Merge[redis.Stamp, rdb.MergeOfReplays]{
		Name: func() string { return fmt.Sprintf("replays of user %d", user) },
		Mark: func(ctx context.Context) (redis.Stamp, bool, error) {
			stamps, err := f.redis.BeginReplays(ctx, []services.UserID{user})
			if err != nil {
				return 0, false, err
			}
			return stamps[0], stamps[0] != 0, nil
		},
		Read: func(ctx context.Context) (rdb.MergeOfReplays, error) { return f.replayFacts(ctx, user) },
		Put: func(ctx context.Context, stamp redis.Stamp, facts rdb.MergeOfReplays) (done bool, err error) {
			facts.Stamp = stamp
			results, err := f.redis.MergeReplays(ctx, []rdb.MergeOfReplays{facts})
			return err == nil && results[0].Status == redis.Applied, err
		},
	}.Run(ctx)
}

func (f *Fanout) replayFacts(ctx context.Context, user services.UserID) (facts rdb.MergeOfReplays, err error) {
	facts = rdb.MergeOfReplays{Reader: user, Whole: true}
	shows, err := f.store.ReplaysFeed(ctx, user, services.ShowPlace{}, RebuildEntries+1)
	if len(shows) > RebuildEntries {
		facts.Floor, shows = shows[RebuildEntries].Place(), shows[:RebuildEntries]
	}
	facts.Entries = replayEntries(shows)
	return facts, err
}

// boardFacts is a user's board according to the facts, in the form of Redis.
type boardFacts struct {
	hosts   []services.FollowedAuthor
	replays []rdb.ReplayEntry
}

// auditBoard compares the hosts that a document names, and the list of replays if there is one.
func (f *Fanout) auditBoard(ctx context.Context, user services.UserID, shown rdb.Snapshot) (any, []string, error) {
	var facts boardFacts
	var err error
	if facts.hosts, err = f.HostsBy(ctx, user); err != nil {
		return nil, nil, err
	}
	var differs []string
	if !SameAuthors(shown.Document.Hosts, facts.hosts) {
		differs = append(differs, "live board: hosts")
	}
	// Big hosts' replays are not pushed to idle users. Their list is made anew when they return.
	if !shown.Listed || f.Away(shown.Document) {
		return facts, differs, nil
	}
	found, err := f.replayFacts(ctx, user)
	if err != nil {
		return nil, nil, err
	}
	above := func(entry rdb.ReplayEntry) bool {
		return shown.ReplayFloor.ID == 0 || entry.Place.Before(shown.ReplayFloor)
	}
	for _, entry := range found.Entries {
		if above(entry) {
			facts.replays = append(facts.replays, entry)
		}
	}
	// A list records that it lacks older replays. One that lacks some although it has room is made anew.
	short := len(shown.Replays) < services.Retention && shown.ReplayFloor.ID > 0
	if shown.ReplayStrays > 0 || short || !slices.Equal(facts.replays, shown.Replays) {
		differs = append(differs, "live board: replays")
	}
	return facts, differs, nil
}
