package projector

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/positions"
	"tidings/services/posts"
	"tidings/services/rdb"
	"tidings/services/redis"
)

// RebuiltInboxEntries is the number of a feed's entries that an inbox keeps after a rebuild. The rebuild reads one more, to know
// whether older ones exist.
const RebuiltInboxEntries = services.FeedRetention + 32

// rebuildTimeout bounds a rebuild with its wait for a slot: after it the callers answer UNAVAILABLE, and the next reader
// begins again.
const rebuildTimeout = 10 * time.Second

// Rebuild makes a user's document and inbox from the facts for their visit: after a loss, or when they return. Concurrent callers
// share one rebuild; it continues when its first caller gives up.
func (p *Projector) Rebuild(ctx context.Context, user services.UserID) error {
	_, err := p.rebuildOnce(ctx, user, forVisit)
	return err
}

// RebuildDocument makes a user's document and inbox from the facts for their visit, as Rebuild does, and returns the rebuilt document.
// The document is not Ready for callers who shared another caller's rebuild: it may have been read before they came, and lack the
// changes that they wait for.
func (p *Projector) RebuildDocument(ctx context.Context, user services.UserID) (rdb.Document, error) {
	return p.rebuildOnce(ctx, user, forVisit)
}

// RefillInbox reads an inbox from the facts again. After an unfollow, for instance, it has room for older posts. A refill is no
// visit: it makes no document, and does nothing for an idle or dormant user, because their return brings the posts.
func (p *Projector) RefillInbox(ctx context.Context, user services.UserID) error {
	_, err := p.rebuildOnce(ctx, user, forRefill)
	return err
}

// Restore makes a user's document and inbox whole again without a visit of the user, and reports whether it did. It makes no new
// document, and does nothing for an idle or dormant user.
func (p *Projector) Restore(ctx context.Context, user services.UserID) (restored bool, err error) {
	document, err := p.rebuildOnce(ctx, user, forAudit)
	return document.Ready, err
}

// rebuildReason is why a user's projection (their document and inbox) is rebuilt. Only a visit makes the user active.
type rebuildReason string

// The constants are the last parts of the keys by which concurrent callers share a run. Each reason has runs of its own: a visitor must
// not share a run that is no visit, and a caller that wants a refill must not share a run that does not put older posts into the inbox.
const (
	forVisit  rebuildReason = ""  // the user visits, and the projection is missing or the user was idle
	forRefill rebuildReason = "+" // the inbox has room for older posts
	forAudit  rebuildReason = "*" // the projection is made whole again without a visit
)

// rebuildOnce runs a rebuild or joins the one under way for the same reason.
func (p *Projector) rebuildOnce(ctx context.Context, user services.UserID, reason rebuildReason) (rdb.Document, error) {
	key := strconv.FormatUint(uint64(user), 10) + string(reason)
	var own rdb.Document // only the caller that started the run reads it, after the run
	writes := func() {}
	if reason == forRefill {
		// The caller of a refill has just taken posts out of the inbox. A run that has already read its facts may not know of
		// that, so once a run is about to write, later callers begin a run of their own. Callers of a rebuild may join until the
		// end: they only lack a whole projection, and any run makes one.
		writes = func() { p.rebuilds.Forget(key) }
	}
	err := p.RunSharedRebuild(ctx, key, "the feed", func(ctx context.Context) (err error) {
		own, err = p.rebuild(ctx, user, reason, writes)
		return err
	})
	if err != nil {
		return rdb.Document{}, err // the run goes on without this caller and may still write to own: reading it here would be a race
	}
	// A refill also marks a user whose document stayed as it was: after an import, only this tells the host application, by the change
	// stream, that the badges of an idle or dormant user have changed.
	return own, p.Mark(ctx, []services.UserID{user})
}

// RunSharedRebuild rebuilds data of a user from the facts, in one of the slots of rebuilds; data is the name of the data in errors.
// Concurrent callers with the same key share one run; it continues when its first caller gives up. A panic of the run is the error
// of all of them.
func (p *Projector) RunSharedRebuild(ctx context.Context, key, data string, rebuild func(context.Context) error) error {
	p.rebuildCounts.addPending()
	// The run has a context of its own, because its first caller may give up while others wait for it.
	done := p.rebuilds.DoChan(key, func() (_ any, err error) {
		// singleflight would raise a panic again in a goroutine of its own, where nothing recovers it and the process ends.
		defer services.Recover(&err)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rebuildTimeout)
		defer cancel()
		// After Redis loses its data all users need a rebuild at once. The slots keep them from overloading SQL.
		select {
		case p.rebuildSlots <- struct{}{}:
			defer func() { <-p.rebuildSlots }()
		case <-ctx.Done():
			return nil, services.Wrapf(services.Unavailable, ctx.Err(), "%s waits for others that are being rebuilt: try again", data)
		}
		p.rebuildCounts.countBegin()
		defer p.rebuildCounts.countEnd()
		return nil, rebuild(ctx)
	})
	select {
	case <-ctx.Done():
		go func() {
			<-done
			p.rebuildCounts.removePending()
		}()
		return services.Wrapf(services.Unavailable, ctx.Err(), "%s is being rebuilt: try again", data)
	case result := <-done:
		p.rebuildCounts.removePending()
		return result.Err
	}
}

// RebuildStats are the numbers of this node's rebuilds.
type RebuildStats struct {
	Running, MostRunning int    // rebuilds that run now, and the most that ran at once
	Begun                uint64 // rebuilds that have begun since the node started
	// Pending counts the calls of RunSharedRebuild whose run has not ended: each of those who share a run, and also those whose run
	// waits for a slot or whose caller gave up.
	Pending int
}

// rebuildCounts counts the runs of RunSharedRebuild for metrics.
type rebuildCounts struct {
	mu    sync.Mutex // guards stats
	stats RebuildStats
}

// addPending counts a call of RunSharedRebuild. Its run may begin later, or have begun.
func (r *rebuildCounts) addPending() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.Pending++
}

// removePending takes back what addPending counted for a call, when the call's run has ended.
func (r *rebuildCounts) removePending() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.Pending--
}

// countBegin counts a run that has got its slot.
func (r *rebuildCounts) countBegin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.Begun++
	r.stats.Running++
	r.stats.MostRunning = max(r.stats.MostRunning, r.stats.Running)
}

// countEnd counts a run that has ended, with or without an error.
func (r *rebuildCounts) countEnd() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.Running--
}

// RebuildStats reads the numbers of the rebuilds.
func (p *Projector) RebuildStats() RebuildStats {
	p.rebuildCounts.mu.Lock()
	defer p.rebuildCounts.mu.Unlock()
	return p.rebuildCounts.stats
}

// RebuildPart reads a feature's data of a user, apart from versioned fields, and returns the calls that write it into their
// document.
type RebuildPart func(ctx context.Context, user services.UserID) ([]redis.SequenceStep, error)

// namedRebuildPart is a RebuildPart and the name under which it is registered.
type namedRebuildPart struct {
	name string
	read RebuildPart
}

// RegisterRebuildPart adds a part to each rebuild, before the first one. It panics when the name is taken.
func (p *Projector) RegisterRebuildPart(name string, read RebuildPart) {
	for _, part := range p.rebuildParts {
		if part.name == name {
			panic(fmt.Sprintf("projector: the rebuild of %q is registered twice", name))
		}
	}
	p.rebuildParts = append(p.rebuildParts, namedRebuildPart{name, read})
}

// rebuildFacts are the facts that a rebuild reads of a user.
type rebuildFacts struct {
	feed  rdb.FeedFacts        // the home feed, and the authors that the document lists
	steps []redis.SequenceStep // the calls that write the versioned fields and the registered parts
}

// rebuild makes a user's document and inbox from the facts. It returns no document if there is nothing to rebuild. It calls writes
// before each try to write.
func (p *Projector) rebuild(ctx context.Context, user services.UserID, reason rebuildReason, writes func()) (document rdb.Document, err error) {
	latest, pushed, err := p.latestVisit(ctx, user, reason)
	if err != nil || !pushed {
		return document, err
	}
	mode := rdb.RebuildMode{IsVisit: reason == forVisit, Refill: reason == forRefill, FirstActiveDay: p.firstNonIdleDay()}
	err = jobs.ProjectionMerge[redis.ClockStamp, rebuildFacts]{
		Name: func() string { return fmt.Sprintf("rebuild of user %d", user) },
		Mark: func(ctx context.Context) (redis.ClockStamp, bool, error) {
			stamps, err := p.redis.BeginRebuild(ctx, []services.UserID{user}, mode)
			if err != nil {
				return 0, false, err
			}
			return stamps[0], stamps[0] != 0, nil
		},
		Read: func(ctx context.Context) (rebuildFacts, error) { return p.readRebuildFacts(ctx, user) },
		Put: func(ctx context.Context, stamp redis.ClockStamp, facts rebuildFacts) (done bool, err error) {
			facts.feed.Stamp, facts.feed.IsVisit, facts.feed.LastActiveDay, facts.feed.KeyLifetime = stamp, mode.IsVisit, latest.day, latest.keyLifetime
			writes()
			rebuilt, err := p.redis.EndRebuild(ctx, facts.feed, facts.steps...)
			// Negative counts are noted even if the rebuild begins again: each negative count is a bug.
			p.NoteNegativeCounts(rebuilt.NegativeCounts)
			if err != nil || rebuilt.Status != redis.Applied {
				return false, err
			}
			document = rebuilt.Document
			p.sendHints(ctx, []services.UserID{user}, []redis.Result{rebuilt.Result})
			return true, nil
		},
	}.Run(ctx)
	return document, err
}

// readRebuildFacts reads everything of a user's document. It reads all positions by one statement.
func (p *Projector) readRebuildFacts(ctx context.Context, user services.UserID) (facts rebuildFacts, err error) {
	seen, err := positions.OfUser(ctx, p.db, user)
	if err != nil {
		return facts, err
	}
	if facts.feed, err = p.feedFacts(ctx, user, services.PostID(seen[positions.HomeFeedView])); err != nil {
		return facts, err
	}
	fields, err := p.readVersionedFields(ctx, user, seen)
	if err != nil {
		return facts, err
	}
	facts.steps = rdb.VersionedFieldRebuildSteps(user, fields)
	// Parts come after the fields: each of their calls is a step, and the last script checks that none is missing.
	for _, of := range p.rebuildParts {
		parts, err := of.read(ctx, user)
		if err != nil {
			return facts, fmt.Errorf("rebuild of %s: %w", of.name, err)
		}
		facts.steps = append(facts.steps, parts...)
	}
	return facts, nil
}

// feedFacts reads the feed's part of a rebuild. One entry more than the inbox keeps shows where the inbox ends: that entry is the
// floor, and the newest counting post below it lets the script count without the posts that were cut off.
func (p *Projector) feedFacts(ctx context.Context, user services.UserID, seen services.PostID) (facts rdb.FeedFacts, err error) {
	facts = rdb.FeedFacts{Reader: user, SeenUpTo: seen}
	if facts.PulledAuthors, err = posts.PullAuthorsOf(ctx, p.db, user); err != nil {
		return facts, err
	}
	if p.hostsReader != nil {
		if facts.Hosts, err = p.hostsReader(ctx, user); err != nil {
			return facts, err
		}
	}
	// One statement reads the newest posts of all authors, as an inbox holds them.
	if facts.Entries, err = posts.InboxFeed(ctx, p.db, user, services.MaxPostID, RebuiltInboxEntries+1); err != nil {
		return facts, err
	}
	if len(facts.Entries) > RebuiltInboxEntries {
		facts.NewestTrimmed = facts.Entries[RebuiltInboxEntries].Post
		facts.Entries = facts.Entries[:RebuiltInboxEntries]
		facts.NewestTrimmedCounted, err = posts.NewestCountingPost(ctx, p.db, user, facts.NewestTrimmed)
	}
	return facts, err
}

// NoteNegativeCounts counts documents in which a count was negative and was set to zero.
func (p *Projector) NoteNegativeCounts(documents int) {
	if documents > 0 {
		p.negativeCounts.Add(uint64(documents))
		p.log.Error("numbers of unread messages were negative and were taken for zero", "documents", documents)
	}
}

// NegativeCounts is the number of documents that NoteNegativeCounts has counted. It stays 0 unless there is a bug.
func (p *Projector) NegativeCounts() uint64 { return p.negativeCounts.Load() }
