package live

import (
	"context"
	"slices"

	"tidings/services"
	"tidings/services/fanout"
	"tidings/services/jobs"
	"tidings/services/positions"
	"tidings/services/projector"
	"tidings/services/rdb"
	"tidings/services/redis"
	"tidings/services/sql"
)

// The kinds of jobs of hosts.
const (
	jobHostIntoDocuments      = "host.name"  // key: host. Writes the host into the documents of their followers
	jobHostIntoChunkDocuments = "host.chunk" // payload: fanout.FollowerChunk. Writes a host into the documents of a chunk of followers
	jobHostsIntoDocuments     = "host.names" // payload: hostsPayload. Writes several hosts into the documents of their followers
	jobLiveSeen               = "live.seen"  // key: user. Their seen position in the live board moved
)

func (s *Service) hostKinds() []jobs.Kind {
	return []jobs.Kind{
		{Name: jobHostIntoDocuments, Class: jobs.ShortClass, Each: s.runHostIntoDocuments,
			ChangedCounts: jobs.CountsOf(jobs.Everyone, services.SourceLiveBoard), NamesUser: jobs.UserInKey},
		{Name: jobHostIntoChunkDocuments, Class: jobs.BulkClass, Each: jobs.PayloadWork(s.runHostIntoChunkDocuments),
			ChangedCounts: jobs.CountsOf(jobs.Everyone, services.SourceLiveBoard), NamesUser: jobs.UserInPayload(fanout.FollowerChunk.NamedUsers)},
		{Name: jobHostsIntoDocuments, Class: jobs.BulkClass, Each: jobs.PayloadWork(s.runHostsIntoDocuments),
			ChangedCounts: jobs.CountsOf(jobs.Everyone, services.SourceLiveBoard), NamesUser: jobs.UserInPayload(hostsPayload.namedUsers)},
		{Name: jobLiveSeen, Class: jobs.ShortClass, Each: jobs.UserWork(s.projectSeen),
			ChangedCounts: jobs.CountsOf(jobs.FirstUserOfKey, services.SourceLiveBoard), NamesUser: jobs.UserInKey},
	}
}

// hostIntoDocumentsJob is the job that writes a user with a first show into the documents of all followers. The shows appear on boards
// when all documents have the host: from then on every board that lists a show also gets its changes.
func hostIntoDocumentsJob(host services.UserID) jobs.NewJob {
	return jobs.UserJob(jobHostIntoDocuments, host)
}

// hostsPayload is the payload of jobHostsIntoDocuments: users who have their first shows.
type hostsPayload struct {
	Hosts []services.UserID `json:"hosts"`
}

// namedUsers are the users that the job names.
func (p hostsPayload) namedUsers() []services.UserID { return p.Hosts }

// hostsPerPublish bounds how many hosts one transaction publishes on boards, because the transaction locks the log of shows until it
// ends.
const hostsPerPublish = 500

// hostsIntoDocumentsJobs returns jobs that replace the hostIntoDocumentsJobs of many hosts: each job writes hundreds of hosts into
// documents together, and publishes their shows on boards by one log entry.
func hostsIntoDocumentsJobs(hosts []services.UserID) ([]jobs.NewJob, error) {
	var chunks []hostsPayload
	for chunk := range slices.Chunk(hosts, hostsPerPublish) {
		chunks = append(chunks, hostsPayload{chunk})
	}
	return jobs.ChunkJobs(jobHostsIntoDocuments, chunks)
}

// projectSeenJob is the job that projects a user's seen position in the live board into their document.
func projectSeenJob(user services.UserID) jobs.NewJob {
	return jobs.UserJob(jobLiveSeen, user)
}

// projectSeen projects a user's seen position in the live board into their document.
func (s *Service) projectSeen(ctx context.Context, user services.UserID) error {
	return s.projector.ProjectVersionedFields(ctx, user, s.versionedFields)
}

// versionedFields reads a user's seen position in the live board, for projectSeen and the audit. Rebuilds read all positions of a user
// at once instead.
func (s *Service) versionedFields(ctx context.Context, user services.UserID) ([]rdb.VersionedField, error) {
	seen, err := positions.Of[uint64](ctx, s.db, user, positions.LiveBoardView)
	if err != nil || seen == 0 {
		return nil, err
	}
	return []rdb.VersionedField{rdb.LiveSeenVersionedField(seen)}, nil
}

// followedHosts are the hosts that a user follows and may see, as their document names them, ordered by ID.
func (s *Service) followedHosts(ctx context.Context, user services.UserID) ([]services.FollowedAuthor, error) {
	return followedHosts(ctx, s.db, user)
}

// runHostsIntoDocuments writes several hosts into the documents of their followers who are not dormant, and publishes their shows
// on boards. A host with more than one chunk of followers gets a separate job. runHostsIntoDocuments does not publish hosts that
// are published already, or whose followers are being processed in chunks.
func (s *Service) runHostsIntoDocuments(ctx context.Context, job jobs.Job, some hostsPayload) error {
	large, err := hostsWithMoreFollowers(ctx, s.db, some.Hosts, s.fanout.ChunkSize)
	if err != nil {
		return err
	}
	hosts := slices.DeleteFunc(some.Hosts, func(host services.UserID) bool { return slices.Contains(large, host) })
	// This is outside the transaction: writing documents takes long, and a second run writes the same entries.
	if err := s.writeHostsIntoDocuments(ctx, hosts); err != nil {
		return err
	}
	return s.finishUnderLogLock(ctx, job, func(tx *sql.Tx) error {
		if err := jobs.Enqueue(ctx, tx, services.Map(large, hostIntoDocumentsJob)...); err != nil {
			return err
		}
		return s.publishHosts(ctx, tx, hosts)
	})
}

// finishUnderLogLock removes a job from the queue and applies its effect in one transaction. The log is locked before any row, as in every
// change of a show, so that no two transactions deadlock. It returns jobs.ErrFinished on success.
func (s *Service) finishUnderLogLock(ctx context.Context, job jobs.Job, effect func(tx *sql.Tx) error) error {
	err := s.db.Write(ctx, func(tx *sql.Tx) error {
		if err := s.lockLog(ctx, tx); err != nil {
			return err
		}
		if err := jobs.Finish(ctx, tx, job); err != nil {
			return err
		}
		return effect(tx)
	})
	if err != nil {
		return err
	}
	s.jobs.Wake()
	return jobs.ErrFinished
}

// writeHostsIntoDocuments writes some hosts into the documents of their followers who are not dormant, by the present follows. The stamp
// is taken before the follows are read: a document that has lost a host since then refuses the entry, and NameAuthorsInDocuments reads
// that follow again.
func (s *Service) writeHostsIntoDocuments(ctx context.Context, hosts []services.UserID) error {
	stamp, err := s.redis.Client.Now(ctx)
	if err != nil {
		return err
	}
	edges, err := followersOfHosts(ctx, s.db, hosts, s.projector.DormantBefore())
	if err != nil {
		return err
	}
	for part := range slices.Chunk(edges, s.fanout.ChunkSize) {
		if err := s.fanout.NameAuthorsInDocuments(ctx, rdb.HostsField, stamp, part); err != nil {
			return err
		}
	}
	return nil
}

// publishHosts publishes all shows of hosts on boards, with one log entry. All documents already name these hosts. The
// caller has locked the log of shows.
func (s *Service) publishHosts(ctx context.Context, tx *sql.Tx, hosts []services.UserID) error {
	// named are the hosts that recordHostsInDocuments has only now recorded as named in all documents. The other hosts are published
	// already, or the last of their chunks publishes them.
	named, err := recordHostsInDocuments(ctx, tx, hosts)
	if err != nil || len(named) == 0 {
		return err
	}
	version, err := appendReload(ctx, tx)
	if err != nil {
		return err
	}
	listed, err := publishShowsOfHosts(ctx, tx, named, version)
	if err != nil {
		return err
	}
	return jobs.Enqueue(ctx, tx, services.Map(listed, fanOutReplaysJob)...)
}

// runHostIntoDocuments writes a host into the documents of their followers: at once if they are one chunk, otherwise by a job for each
// chunk. If there is no chunk to queue, it publishes the host's shows on boards. It queues nothing for a host that all documents name, or
// whose chunks have jobs that have not ended.
func (s *Service) runHostIntoDocuments(ctx context.Context, job jobs.Job) error {
	host, err := services.ParseUserIDText(job.Key)
	if err != nil {
		return err
	}
	chunks, err := s.fanout.FollowerChunks(ctx, host, s.projector.DormantBefore())
	if err != nil {
		return err
	}
	// Most hosts have one chunk of followers. It is updated here, without a job of its own.
	if len(chunks) == 1 {
		if err := s.fanout.NameAuthorInDocuments(ctx, rdb.HostsField, chunks[0]); err != nil {
			return err
		}
		chunks = nil
	}
	naming, err := jobs.ChunkJobs(jobHostIntoChunkDocuments, chunks)
	if err != nil {
		return err
	}
	return s.finishUnderLogLock(ctx, job, func(tx *sql.Tx) error {
		begun, err := beginHostChunks(ctx, tx, host, len(naming))
		if err != nil || !begun {
			return err
		}
		if len(naming) == 0 {
			return s.publishShows(ctx, tx, host)
		}
		return jobs.Enqueue(ctx, tx, naming...)
	})
}

// runHostIntoChunkDocuments writes the host into the documents of one chunk of followers. Users who follow or return meanwhile get the
// host by their follow or rebuild. The last chunk publishes the host's shows on boards.
func (s *Service) runHostIntoChunkDocuments(ctx context.Context, job jobs.Job, chunk fanout.FollowerChunk) error {
	if err := s.fanout.NameAuthorInDocuments(ctx, rdb.HostsField, chunk); err != nil {
		return err
	}
	return s.finishUnderLogLock(ctx, job, func(tx *sql.Tx) error {
		last, err := endHostChunk(ctx, tx, chunk.Author)
		if err != nil || !last {
			return err
		}
		return s.publishShows(ctx, tx, chunk.Author)
	})
}

// publishShows publishes on boards the shows that a host had before all documents named the host, each as if it had just reached
// its present status. The caller has locked the log of shows. It leaves out cancelled shows: no board ever needs them.
func (s *Service) publishShows(ctx context.Context, tx *sql.Tx, host services.UserID) error {
	shows, err := recordHostInDocuments(ctx, tx, host)
	if err != nil {
		return err
	}
	// fansOut reports that some replay belongs in lists. Then one job adds the host's newest replays, not one job for each show.
	fansOut := false
	for _, show := range shows {
		if show, _, err = s.logChange(ctx, tx, Show{}, show); err != nil {
			return err
		}
		var nowhere *formerPosition
		if show.Status == ShowReplay {
			// Without this row older sessions would show an ended show that was on no board before.
			nowhere = &formerPosition{Show: show.ID, Host: host, UntilVersion: show.Version, UntilAt: tx.Now, Status: ShowCancelled}
		}
		if err := rewriteShow(ctx, tx, show, nowhere); err != nil {
			return err
		}
		fansOut = fansOut || inReplayLists(show)
	}
	if !fansOut {
		return nil
	}
	return jobs.Enqueue(ctx, tx, fanOutReplaysJob(host))
}

// mergeHost is the fanout.HostMerge of the live board. It merges a host's newest replays into the list of a follower who may see
// them, and returns the host's entry for the document, or nothing for a followee without shows. refused reports that something
// was removed since the stamp. It runs for each new follow; a followee without shows costs one SELECT by key.
func (s *Service) mergeHost(ctx context.Context, edge services.FollowEdge, stamp redis.ClockStamp) (hosts []services.FollowedAuthor, refused bool, err error) {
	known, _, err := readHost(ctx, s.db.Runner, edge.Followee)
	if err != nil || !known {
		return nil, false, err
	}
	// This is one replay more than a rebuild puts into a list, so that the list knows that older ones exist.
	shows, err := newestReplaysOf(ctx, s.db, edge.Followee, projector.RebuiltInboxEntries+1)
	if err != nil {
		return nil, false, err
	}
	if len(shows) > 0 {
		results, err := s.redis.mergeReplays(ctx, []replayMerge{{Reader: edge.Follower, Stamp: stamp, Entries: entriesOf(shows)}})
		if err != nil || results[0].Status == redis.Retry {
			return nil, true, err
		}
	}
	return []services.FollowedAuthor{edge.AsFollowedHost()}, false, nil
}
