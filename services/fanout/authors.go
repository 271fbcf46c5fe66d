package fanout

import (
	"context"
	"fmt"
	"time"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/jobs"
	"tidings/services/mirror"
	"tidings/services/rdb"
	"tidings/services/sql"
	"tidings/services/store"
)

// The kinds of jobs of authors' modes.
const (
	jobMode  = "author.mode"  // key: author. His audience may have crossed a threshold
	jobModes = "author.modes" // key: "all". Anybody's may have, or the thresholds have moved
	jobName  = "author.name"  // a chunk of followers whose documents are to name him; payload: audience
)

const (
	modeAfter  = 5 * time.Second // several follows are counted together
	countAgain = time.Minute     // an audience of thousands is not counted again before
	modesBatch = 1000
)

func (f *Fanout) authorKinds() []jobs.Kind {
	return []jobs.Kind{
		{Name: jobMode, Class: jobs.Short, Each: ofUser(f.findMode), Changes: jobs.NoCounts()},
		{Name: jobModes, Class: jobs.Bulk, Each: f.runModes, Changes: jobs.NoCounts()},
		{Name: jobName, Class: jobs.Bulk, Each: f.runName, Changes: jobs.CountsOf(jobs.Everyone, services.SourceHomeFeed)},
	}
}

// audience is a chunk of an author's followers: numbers above After, up to To.
type audience struct {
	Author services.UserID `json:"author"`
	After  services.UserID `json:"after"`
	To     services.UserID `json:"to"`
}

// ModeJob looks at an author's audience a little after now, a follow or its end having changed it.
func ModeJob(author services.UserID, now time.Time) jobs.NewJob {
	job := userJob(jobMode, author)
	job.NotBefore = now.Add(modeAfter)
	return job
}

// modesJob looks at all audiences: after an import, or when the thresholds have moved.
func modesJob() jobs.NewJob { return jobs.Keyed(jobModes, "all") }

// Thresholds are the thresholds that hold: those that an admin has set, else the configured ones.
func (f *Fanout) Thresholds(ctx context.Context) (services.Thresholds, error) {
	thresholds, set, err := f.store.Thresholds(ctx)
	if err == nil && !set {
		thresholds = f.cfg.Thresholds
	}
	return thresholds, err
}

// findMode brings an author's mode in line with his audience, or with what an admin has pinned. Whoever is to be huge
// is first named by the documents of his followers: only then, when every reader pulls his posts, are they no longer pushed.
func (f *Fanout) findMode(ctx context.Context, author services.UserID) error {
	thresholds, err := f.Thresholds(ctx)
	if err != nil {
		return err
	}
	return jobs.Merge[services.Author, int]{
		Name: func() string { return fmt.Sprintf("mode of author %d", author) },
		Mark: func(ctx context.Context) (known services.Author, ok bool, err error) {
			known, putOff, err := f.author(ctx, author)
			return known, !putOff, err
		},
		Read: func(ctx context.Context) (followers int, err error) {
			return f.store.CountFollowers(ctx, author, thresholds.Huge)
		},
		Put: func(ctx context.Context, known services.Author, followers int) (done bool, err error) {
			counted := known
			counted.CountedAt, counted.Followers = f.clock.Now(), followers
			return f.settleMode(ctx, thresholds, known, counted)
		},
	}.Run(ctx)
}

// author reads what is known of one. A count of thousands is put off while the last one is young.
func (f *Fanout) author(ctx context.Context, author services.UserID) (known services.Author, putOff bool, err error) {
	found, err := f.store.Authors(ctx, []services.UserID{author})
	if err != nil {
		return known, false, err
	}
	known, has := found[author]
	known.Number = author
	again := known.CountedAt.Add(countAgain)
	if !has || known.Followers < countedAtOnce || !f.clock.Now().Before(again) || settled(known) != known.Mode {
		return known, false, nil
	}
	job := userJob(jobMode, author)
	job.NotBefore = again
	return known, true, f.store.Write(ctx, func(tx *store.Tx) error { return jobs.Enqueue(ctx, tx.Tx, job) })
}

// countedAtOnce is an audience that is counted whenever it changes: it costs next to nothing.
const countedAtOnce = 10_000

// settled is the mode that an author is waiting for, which no count changes.
func settled(author services.Author) services.AuthorMode {
	switch {
	case author.Pinned != nil:
		return *author.Pinned
	case author.Pull && author.Mode != services.AuthorHuge && author.Unnamed == 0:
		return services.AuthorHuge // perhaps: it takes a count
	}
	return author.Mode
}

// settleMode writes down what a count comes to. It is not done when somebody else has changed the author since he was known.
func (f *Fanout) settleMode(ctx context.Context, thresholds services.Thresholds, known, counted services.Author) (done bool, err error) {
	target := thresholds.Mode(known.Mode, counted.Followers)
	if known.Pinned != nil {
		target = *known.Pinned
	}
	if target == services.AuthorSmall && known.Version == 0 {
		return true, nil // as almost everybody
	}
	var chunks []audience
	switch {
	case target == services.AuthorHuge && !known.Pull:
		if chunks, err = f.audiences(ctx, known.Number, f.activeSince()); err != nil {
			return false, err
		}
		counted.Pull, counted.Unnamed = true, len(chunks)
		if len(chunks) == 0 {
			counted.Mode = target
		}
	case target == services.AuthorHuge && known.Unnamed > 0: // the last chunk comes back to it
	default:
		counted.Mode = target
	}
	err = f.store.Write(ctx, func(tx *store.Tx) error {
		done = false
		if counted.Pull != known.Pull {
			if _, err := changelog.LockLog(ctx, tx.Tx, mirror.LogPull); err != nil {
				return err
			}
		}
		now, err := tx.AuthorForUpdate(ctx, known.Number)
		if err != nil || now.Version != known.Version {
			return err
		}
		done = true
		if _, err := tx.PutAuthor(ctx, counted); err != nil || counted.Pull == known.Pull {
			return err
		}
		return beginNaming(ctx, tx, known.Number, chunks)
	})
	if err == nil && done {
		f.Wake()
		if counted.Mode != known.Mode {
			f.log.Info("an author's mode has changed", "mode", counted.Mode, "was", known.Mode, "followers", counted.Followers)
		}
	}
	return done, err
}

// beginNaming leaves the chunks of an author's followers whose documents are to name him, and tells the nodes of him.
func beginNaming(ctx context.Context, tx *store.Tx, author services.UserID, chunks []audience) error {
	naming, err := jobs.Chunked(jobName, chunks)
	if err != nil {
		return err
	}
	if err := jobs.Enqueue(ctx, tx.Tx, naming...); err != nil {
		return err
	}
	_, err = mirror.PullChange{Author: author}.Append(ctx, tx)
	return err
}

// runName lets the documents of one chunk of followers name the author. Who begins to follow meanwhile, or returns, is
// named by that: from the first chunk on every document that is written names him.
func (f *Fanout) runName(ctx context.Context, job jobs.Job) error {
	chunk, err := f.nameChunk(ctx, rdb.PulledAuthors, job)
	if err != nil {
		return err
	}
	return f.FinishWith(ctx, job, func(in *sql.Tx) error {
		tx := store.In(in)
		last, err := tx.EndAuthorChunk(ctx, chunk.Author)
		if err != nil || !last {
			return err
		}
		return jobs.Enqueue(ctx, tx.Tx, userJob(jobMode, chunk.Author))
	})
}

// nameChunk lets the documents of one chunk of followers name its author in a field, as the follows are now.
func (f *Fanout) nameChunk(ctx context.Context, field rdb.NamedField, job jobs.Job) (chunk audience, err error) {
	if err := jobs.ReadPayload(job, &chunk); err != nil {
		return chunk, err
	}
	return chunk, f.nameAudience(ctx, field, chunk)
}

func (f *Fanout) nameAudience(ctx context.Context, field rdb.NamedField, chunk audience) error {
	stamp, err := f.redis.Now(ctx)
	if err != nil {
		return err
	}
	return f.eachFollower(ctx, chunk.Author, chunk.After, chunk.To, f.activeSince(), func(edges []services.Edge) error {
		return f.name(ctx, field, stamp, edges)
	})
}

func (f *Fanout) name(ctx context.Context, field rdb.NamedField, stamp rdb.Stamp, edges []services.Edge) error {
	adds := make([]rdb.AddNamed, len(edges))
	for i, edge := range edges {
		adds[i] = rdb.AddNamed{Reader: edge.Follower, Author: services.FollowedAuthor{Author: edge.Followee, Since: edge.Since}}
	}
	results, err := f.redis.MergeNamed(ctx, field, stamp, adds)
	if err != nil {
		return err
	}
	f.hint(ctx, followers(edges), results)
	for i, result := range results {
		if result.Status == rdb.Retry {
			if err := f.Reconcile(ctx, edges[i].Follower, edges[i].Followee); err != nil {
				return err
			}
		}
	}
	return nil
}

// runModes leaves a job for everyone whose audience may call for another mode: whom so many follow, and who has a mode already.
func (f *Fanout) runModes(ctx context.Context, _ jobs.Job) error {
	thresholds, err := f.Thresholds(ctx)
	if err != nil {
		return err
	}
	for _, followers := range []int{thresholds.Big, 0} {
		for after := services.UserID(0); ; {
			authors, err := f.store.AuthorsToLookAt(ctx, followers, after, modesBatch)
			if err != nil {
				return err
			}
			queued := make([]jobs.NewJob, len(authors))
			for i, author := range authors {
				queued[i] = userJob(jobMode, author)
			}
			if len(queued) > 0 {
				if err := f.store.Write(ctx, func(tx *store.Tx) error { return jobs.Enqueue(ctx, tx.Tx, queued...) }); err != nil {
					return err
				}
			}
			if len(authors) < modesBatch {
				break
			}
			after = authors[len(authors)-1]
		}
	}
	f.Wake()
	return nil
}

// SetThresholds sets the thresholds for all nodes, at once and until they are set again; the modes of those whom they
// concern follow. INVALID unless 1 <= big <= huge.
func (f *Fanout) SetThresholds(ctx context.Context, thresholds services.Thresholds) error {
	if err := thresholds.Check(); err != nil {
		return err
	}
	err := f.store.Write(ctx, func(tx *store.Tx) error {
		if err := tx.SetThresholds(ctx, thresholds); err != nil {
			return err
		}
		return jobs.Enqueue(ctx, tx.Tx, modesJob())
	})
	f.Wake()
	return err
}

// PinMode pins an author's mode, whatever his audience, or with nil lets it go by that again. It holds at once, except
// that who is to be huge is so only when his followers' documents name him.
func (f *Fanout) PinMode(ctx context.Context, author services.UserID, mode *services.AuthorMode) error {
	err := f.store.Write(ctx, func(tx *store.Tx) error {
		known, err := tx.AuthorForUpdate(ctx, author)
		if err != nil {
			return err
		}
		// A count of before says nothing of what it comes to now.
		known.Pinned, known.CountedAt = mode, time.Time{}
		if _, err := tx.PutAuthor(ctx, known); err != nil {
			return err
		}
		return jobs.Enqueue(ctx, tx.Tx, userJob(jobMode, author))
	})
	if err != nil {
		return err
	}
	if err := f.findMode(ctx, author); err != nil {
		f.log.Debug("a pinned mode does not hold yet; its job will see to it", "error", err)
	}
	f.Wake()
	return nil
}

// Author is what is known of an author, his followers counted now, no further than the threshold of the huge.
func (f *Fanout) Author(ctx context.Context, number services.UserID) (author services.Author, err error) {
	thresholds, err := f.Thresholds(ctx)
	if err != nil {
		return author, err
	}
	found, err := f.store.Authors(ctx, []services.UserID{number})
	if err != nil {
		return author, err
	}
	author = found[number]
	author.Number = number
	author.Followers, err = f.store.CountFollowers(ctx, number, thresholds.Huge)
	return author, err
}

// Lag is how far fan-out is behind.
type Lag struct {
	Waiting int           // jobs that carry posts or their deletion
	Oldest  time.Duration // for how long the oldest has been on its way; 0 when none is
}

// Lag reads how far fan-out is behind, on all nodes together.
func (f *Fanout) Lag(ctx context.Context) (lag Lag, err error) {
	waiting, oldest, err := jobs.JobCountsOf(ctx, f.store.DB, []string{jobFanOut, jobOnline, jobPush, jobRemove, jobDrop})
	if err != nil {
		return lag, err
	}
	began, err := f.store.OldestFanout(ctx)
	if err != nil {
		return lag, err
	}
	if oldest.IsZero() || !began.IsZero() && began.Before(oldest) {
		oldest = began
	}
	lag.Waiting = waiting
	if !oldest.IsZero() {
		lag.Oldest = max(0, f.clock.Now().Sub(oldest))
	}
	return lag, nil
}

// Delivered is how many entries this node has put into inboxes.
func (f *Fanout) Delivered() uint64 { return f.delivered.Load() }
