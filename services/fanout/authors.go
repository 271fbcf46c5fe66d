package fanout

import (
	"context"
	"fmt"
	"time"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/jobs"
	"tidings/services/nodecache"
	"tidings/services/posts"
	"tidings/services/rdb"
	"tidings/services/redis"
	"tidings/services/sql"
)

// The kinds of jobs of authors' modes. The names are stored in the queue, so they stay the same across releases.
const (
	jobUpdateMode            = "author.mode"  // key: author. Recounts the followers: they may have crossed a threshold
	jobUpdateAllModes        = "author.modes" // key: "all". Recounts the followers of all authors
	jobNameAuthorInDocuments = "author.name"  // names an author in the documents of a chunk of followers; payload: FollowerChunk
)

const (
	// A mode may change some time after the number of followers: a post that is pushed to more followers than necessary costs time and
	// nothing else.
	updateModeDelay    = 5 * time.Second // from a follow to the count of the author's followers: one count serves several follows
	minRecountInterval = time.Minute     // the least time between two counts of thousands of followers
	// modeJobsPerBatch is how many authors queueModeJobs queues in one transaction: SQLite runs one writing transaction at a time,
	// and others wait.
	modeJobsPerBatch = 1000
)

// authorKinds are the kinds of jobs in this file. A mode changes how later posts reach followers, and changes no count. An author's
// pulled posts count for the users whose documents name the author, so a naming chunk that a dead node left may concern everybody's
// counts.
func (f *Fanout) authorKinds() []jobs.Kind {
	return []jobs.Kind{
		{Name: jobUpdateMode, Class: jobs.ShortClass, Each: jobs.UserWork(f.updateMode), ChangedCounts: jobs.NoCounts(), NamesUser: jobs.UserInKey},
		{Name: jobUpdateAllModes, Class: jobs.BulkClass, Each: f.queueModeJobs, ChangedCounts: jobs.NoCounts(), NamesUser: jobs.NoUser},
		{Name: jobNameAuthorInDocuments, Class: jobs.BulkClass, Each: jobs.PayloadWork(f.runNameAuthorChunk),
			ChangedCounts: jobs.CountsOf(jobs.Everyone, services.SourceHomeFeed), NamesUser: jobs.UserInPayload(FollowerChunk.NamedUsers)},
	}
}

// FollowerChunk is a chunk of an author's followers: the users with IDs above After, up to To. It names a range and not the followers, so
// its job is small, and serves the users who follow when it runs. It is the payload of jobs: the names of its fields are stored.
//
// The chunks of one split meet without a gap: After is the To of the chunk before, 0 in the first, and To is the greatest ID in the
// last.
type FollowerChunk struct {
	Author services.UserID `json:"author"`
	After  services.UserID `json:"after"` // the followers' IDs are greater than this
	To     services.UserID `json:"to"`    // the greatest ID that a follower of the chunk may have
}

// NamedUsers are the users that a job of the chunk names.
func (c FollowerChunk) NamedUsers() []services.UserID { return []services.UserID{c.Author} }

// UpdateModeJob is the job that recounts an author's followers a little later than now, because a follow or an unfollow has changed
// their number. The jobs of one author have one key, so a burst of follows is one count.
func UpdateModeJob(author services.UserID, now time.Time) jobs.NewJob {
	job := jobs.UserJob(jobUpdateMode, author)
	job.NotBefore = now.Add(updateModeDelay)
	return job
}

// updateAllModesJob is the job that recounts the followers of all authors: after an import, or when the thresholds have changed.
func updateAllModesJob() jobs.NewJob { return jobs.KeyedJob(jobUpdateAllModes, "all") }

// QueueUpdateAllModes queues a job that recounts the followers of all authors. An import needs it: its follows come into SQL without jobs
// of their own.
func QueueUpdateAllModes(ctx context.Context, db *sql.DB) error {
	return db.Write(ctx, func(tx *sql.Tx) error { return jobs.Enqueue(ctx, tx, updateAllModesJob()) })
}

// Thresholds returns the thresholds in force: the thresholds that an admin has set, else the configured thresholds. They are read
// from their row each time, so that a change holds on all nodes at once.
func (f *Fanout) Thresholds(ctx context.Context) (services.FollowerThresholds, error) {
	thresholds, set, err := posts.ReadThresholds(ctx, f.db)
	if err == nil && !set {
		thresholds = f.thresholds
	}
	return thresholds, err
}

// updateMode sets an author's mode: the mode for their number of followers, or the one that an admin has pinned. Before an author becomes
// huge, the documents of all followers name them among the pulled authors. Pushing stops only then, when every reader pulls the author's
// posts.
//
// A count may take long. A pin or another count that commits meanwhile wins: updateMode stores its count only if the author's row is
// still as it was before, and begins again otherwise.
func (f *Fanout) updateMode(ctx context.Context, author services.UserID) error {
	thresholds, err := f.Thresholds(ctx)
	if err != nil {
		return err
	}
	return jobs.ProjectionMerge[services.Author, int]{
		Name: func() string { return fmt.Sprintf("mode of author %d", author) },
		Mark: func(ctx context.Context) (known services.Author, ok bool, err error) {
			known, putOff, err := f.readAuthor(ctx, author)
			return known, !putOff, err
		},
		// Counting stops at the highest threshold: above it the mode cannot change any more.
		Read: func(ctx context.Context) (followers int, err error) {
			return posts.CountFollowers(ctx, f.db, author, thresholds.Huge)
		},
		Put: func(ctx context.Context, known services.Author, followers int) (done bool, err error) {
			counted := known
			counted.CountedAt, counted.Followers = f.clock.Now(), followers
			return f.storeModeAfterCount(ctx, thresholds, known, counted)
		},
	}.Run(ctx)
}

// readAuthor reads the stored state of an author; without a row it returns the zero state. A count of thousands of followers is put off
// while the last count is recent: putOff then says that a job for it is queued, and updateMode ends. An author whose mode is about to
// change is never put off.
func (f *Fanout) readAuthor(ctx context.Context, author services.UserID) (known services.Author, putOff bool, err error) {
	found, err := posts.Authors(ctx, f.db, []services.UserID{author})
	if err != nil {
		return known, false, err
	}
	known, has := found[author]
	// The zero state lacks the author's ID, by which the row is written.
	known.ID = author
	again := known.CountedAt.Add(minRecountInterval)
	if !has || known.Followers < maxFollowersAlwaysRecounted || !f.clock.Now().Before(again) || modeWithoutCount(known) != known.Mode {
		return known, false, nil
	}
	job := jobs.UserJob(jobUpdateMode, author)
	job.NotBefore = again
	return known, true, f.db.Write(ctx, func(tx *sql.Tx) error { return jobs.Enqueue(ctx, tx, job) })
}

// maxFollowersAlwaysRecounted is the number of followers up to which an author's followers are counted at each change. Counting that many
// rows of one index takes milliseconds.
const maxFollowersAlwaysRecounted = 10_000

// modeWithoutCount is the mode that an author has or is about to get without a new count: the pinned one, or huge once the documents of
// all followers name the author. Where this mode differs from the stored mode, a count must not be put off.
func modeWithoutCount(author services.Author) services.AuthorMode {
	switch {
	case author.Pinned != nil:
		return *author.Pinned
	case author.NamedInFollowerDocuments && author.Mode != services.AuthorHuge && author.FollowerChunksToName == 0:
		return services.AuthorHuge // possibly huge: only a count can say
	}
	return author.Mode
}

// storeModeAfterCount stores the mode that a count yields. It does nothing if the author has changed since known was read, and reports
// done as false: updateMode then begins again. To make an author huge takes two calls: the first sets NamedInFollowerDocuments and queues
// the jobs that name the author in all followers' documents, and the job of the last chunk causes the second, which changes the mode.
// NamedInFollowerDocuments stays set after the author shrinks, because the newest posts that were pulled are still merged in from the
// node cache.
func (f *Fanout) storeModeAfterCount(ctx context.Context, thresholds services.FollowerThresholds, known, counted services.Author) (done bool, err error) {
	target := thresholds.NextMode(known.Mode, counted.Followers)
	if known.Pinned != nil {
		target = *known.Pinned
	}
	// Without a row an author is small: most authors never need one.
	if target == services.AuthorSmall && known.Version == 0 {
		return true, nil // the mode stays, as for almost every author
	}
	var chunks []FollowerChunk
	switch {
	// The first of the two calls. Until all documents name the author, the mode stays and posts are pushed: no reader misses one.
	case target == services.AuthorHuge && !known.NamedInFollowerDocuments:
		if chunks, err = f.FollowerChunks(ctx, known.ID, f.projector.DormantBefore()); err != nil {
			return false, err
		}
		counted.NamedInFollowerDocuments, counted.FollowerChunksToName = true, len(chunks)
		if len(chunks) == 0 {
			// All followers are dormant, or there are none: no document has to name the author first, and the mode changes now. But a user who
			// follows before the commit below still reads that the author is not pulled. So one chunk of all followers, whose end nothing waits
			// for, names the author in their documents.
			counted.Mode, chunks = target, []FollowerChunk{allFollowers(known.ID)}
		}
	case target == services.AuthorHuge && known.FollowerChunksToName > 0: // the last chunk queues this job again
	default:
		counted.Mode = target
	}
	// The function may run again, and each run decides by the row that it reads.
	err = f.db.Write(ctx, func(tx *sql.Tx) error {
		done = false
		// Every transaction that locks both the changelog and the author's row locks the changelog first. Otherwise two of them could
		// wait for each other.
		if counted.NamedInFollowerDocuments != known.NamedInFollowerDocuments {
			if _, err := changelog.LockLog(ctx, tx, nodecache.PullChangelogKind); err != nil {
				return err
			}
		}
		now, err := posts.LockAuthor(ctx, tx, known.ID)
		if err != nil || now.Version != known.Version {
			return err
		}
		done = true
		if _, err := posts.PutAuthor(ctx, tx, counted); err != nil || counted.NamedInFollowerDocuments == known.NamedInFollowerDocuments {
			return err
		}
		return queueAuthorNaming(ctx, tx, known.ID, chunks)
	})
	if err == nil && done {
		f.jobs.Wake()
		if counted.Mode != known.Mode {
			f.log.Info("an author's mode has changed", "mode", counted.Mode, "was", known.Mode, "followers", counted.Followers)
		}
	}
	return done, err
}

// queueAuthorNaming queues the jobs that name an author among the pulled authors in the documents of chunks of followers, and announces
// the author to all nodes by the changelog. The chunks and the announcement commit with the author's NamedInFollowerDocuments: documents
// that are rebuilt later name the author because of that column.
func queueAuthorNaming(ctx context.Context, tx *sql.Tx, author services.UserID, chunks []FollowerChunk) error {
	naming, err := jobs.ChunkJobs(jobNameAuthorInDocuments, chunks)
	if err != nil {
		return err
	}
	if err := jobs.Enqueue(ctx, tx, naming...); err != nil {
		return err
	}
	// An entry without a post says that the nodes must keep the author's pulled posts in memory.
	_, err = nodecache.PullChange{Author: author}.Append(ctx, tx)
	return err
}

// runNameAuthorChunk runs a job that names an author among the pulled authors in the documents of one chunk of followers. A user who
// follows or returns meanwhile needs no job: every document that is written after the commit of storeModeAfterCount names the author.
func (f *Fanout) runNameAuthorChunk(ctx context.Context, job jobs.Job, chunk FollowerChunk) error {
	if err := f.NameAuthorInDocuments(ctx, rdb.PulledAuthorsField, chunk); err != nil {
		return err
	}
	return f.jobs.FinishWith(ctx, job, func(tx *sql.Tx) error {
		// The number of open chunks falls in the transaction that ends the job, so that a repeated chunk never counts twice.
		last, err := posts.DecrementUnnamedChunks(ctx, tx, chunk.Author)
		if err != nil || !last {
			return err
		}
		return jobs.Enqueue(ctx, tx, jobs.UserJob(jobUpdateMode, chunk.Author))
	})
}

// NameAuthorInDocuments adds the author of a chunk to a list of authors (field: the pulled authors or the hosts) in documents: those of
// the users in the chunk who follow the author when it runs. Dormant followers have no document; their rebuild names the author.
func (f *Fanout) NameAuthorInDocuments(ctx context.Context, field rdb.AuthorsField, chunk FollowerChunk) error {
	// One stamp from before the first read serves all reads of the chunk. An older stamp is safe: it only makes more documents
	// refuse the name, and the follows of their users are then read again, one by one (NameAuthorsInDocuments).
	stamp, err := f.redis.Client.Now(ctx)
	if err != nil {
		return err
	}
	return f.EachFollower(ctx, chunk, f.projector.DormantBefore(), func(edges []services.FollowEdge) error {
		return f.NameAuthorsInDocuments(ctx, field, stamp, edges)
	})
}

// NameAuthorsInDocuments adds authors to a list of authors (field) in followers' documents, by follows that were read after the stamp. A
// document refuses the names if something was removed from it since the stamp; that follower is then reconciled with the author.
func (f *Fanout) NameAuthorsInDocuments(ctx context.Context, field rdb.AuthorsField, stamp redis.ClockStamp, edges []services.FollowEdge) error {
	adds := make([]rdb.AuthorAddition, len(edges))
	for i, edge := range edges {
		adds[i] = rdb.AuthorAddition{Reader: edge.Follower, Author: edge.AsPulledAuthor()}
		// A document stores different data of pulled authors and of hosts: for a host also whether none of their shows counts
		// (CountsNothing).
		if field == rdb.HostsField {
			adds[i].Author = edge.AsFollowedHost()
		}
	}
	results, err := f.redis.MergeAuthors(ctx, field, stamp, adds)
	if err != nil {
		return err
	}
	if err := f.projector.HintAndMark(ctx, FollowerIDs(edges), results); err != nil {
		return err
	}
	// Few documents refuse, because something must have been removed during this chunk. Each of their followers is read again
	// alone.
	for i, result := range results {
		if result.Status == redis.Retry {
			if err := f.ReconcileFollow(ctx, edges[i].Follower, edges[i].Followee); err != nil {
				return err
			}
		}
	}
	return nil
}

// queueModeJobs queues a job for every author whose number of followers may call for another mode: authors with enough followers, and
// authors that have a row already.
func (f *Fanout) queueModeJobs(ctx context.Context, _ jobs.Job) error {
	thresholds, err := f.Thresholds(ctx)
	if err != nil {
		return err
	}
	// The first pass finds authors by their followers. The second finds the authors who have a row, because they may have lost followers.
	for _, followers := range []int{thresholds.Big, 0} {
		for after := services.UserID(0); ; {
			authors, err := posts.AuthorsForModeCheck(ctx, f.db, followers, after, modeJobsPerBatch)
			if err != nil {
				return err
			}
			queued := services.Map(authors, func(author services.UserID) jobs.NewJob { return jobs.UserJob(jobUpdateMode, author) })
			if len(queued) > 0 {
				if err := f.db.Write(ctx, func(tx *sql.Tx) error { return jobs.Enqueue(ctx, tx, queued...) }); err != nil {
					return err
				}
			}
			if len(authors) < modeJobsPerBatch {
				break
			}
			after = authors[len(authors)-1]
		}
	}
	f.jobs.Wake()
	return nil
}

// SetThresholds sets the thresholds for all nodes, at once and until they are set again. Jobs then change the modes of the
// authors. It returns INVALID unless 1 <= big <= huge.
func (f *Fanout) SetThresholds(ctx context.Context, thresholds services.FollowerThresholds) error {
	if err := thresholds.Check(); err != nil {
		return err
	}
	err := f.db.Write(ctx, func(tx *sql.Tx) error {
		if err := posts.SetThresholds(ctx, tx, thresholds); err != nil {
			return err
		}
		return jobs.Enqueue(ctx, tx, updateAllModesJob())
	})
	f.jobs.Wake()
	return err
}

// PinMode pins an author's mode, whatever the number of their followers; nil lets the mode follow the number again. The new mode holds at
// once, except that an author becomes huge only when the documents of all followers name them among the pulled authors.
func (f *Fanout) PinMode(ctx context.Context, author services.UserID, mode *services.AuthorMode) error {
	err := f.db.Write(ctx, func(tx *sql.Tx) error {
		known, err := posts.LockAuthor(ctx, tx, author)
		if err != nil {
			return err
		}
		// An earlier count does not say which mode the followers call for now.
		known.Pinned, known.CountedAt = mode, time.Time{}
		if _, err := posts.PutAuthor(ctx, tx, known); err != nil {
			return err
		}
		return jobs.Enqueue(ctx, tx, jobs.UserJob(jobUpdateMode, author))
	})
	if err != nil {
		return err
	}
	// The admin waits for the answer, so try now. The job that was committed above makes up for a failure.
	if err := f.updateMode(ctx, author); err != nil {
		f.log.Debug("a pinned mode does not hold yet; its job will see to it", "error", err)
	}
	f.jobs.Wake()
	return nil
}

// Author is the state of an author for operators, with the followers counted now, up to the threshold of the huge mode.
// The stored count may be a minute old.
func (f *Fanout) Author(ctx context.Context, id services.UserID) (author services.Author, err error) {
	thresholds, err := f.Thresholds(ctx)
	if err != nil {
		return author, err
	}
	found, err := posts.Authors(ctx, f.db, []services.UserID{id})
	if err != nil {
		return author, err
	}
	author = found[id]
	author.ID = id
	author.Followers, err = posts.CountFollowers(ctx, f.db, id, thresholds.Huge)
	return author, err
}
