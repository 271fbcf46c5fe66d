package rdb

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"tidings/services"
	"tidings/services/redis"
)

// A rebuild is two round trips, with the read of SQL between them: the first takes the stamp, the second writes everything.
// The writes are several calls in one pipeline, so that no call blocks Redis for long, and any of them may fail or be lost
// alone. They are a redis.Chain: the last one declares the document complete only if no step before it is missing. If two
// rebuilds of a user overlap, one may find the other's steps in place of its own. That rebuild is refused, and begins again.

var (
	rebuildBegin = loadScript("rebuild_begin") // of BeginRebuild
	rebuildMerge = loadScript("rebuild_merge") // the last step of EndRebuild that writes
)

// RebuildMode says how a rebuild treats what Redis holds of a user.
type RebuildMode struct {
	// Visit says that the user is here. Without it the rebuild only restores what they have: no document is made for a user who has
	// none, and a document keeps its day and its lifetime.
	Visit bool
	// Refill removes the floor of the inbox, so that older posts come in. It also keeps the lists of features (RegisterList): a rebuild
	// without Refill deletes them. If the inbox is missing, they are deleted in any case.
	Refill bool
	// IdleDay is the first day, since 1970, that is not idle. If the document of a user who visits has an earlier day, the floor of the
	// inbox is removed as well: the inbox may have become short in their absence.
	IdleDay int64
}

// BeginRebuild makes the missing documents and inboxes of the users and returns the stamps under which their facts are to be read.
// Documents and inboxes that are whole stay, and readers use them until the rebuild ends, unless the mode removes the floor of an
// inbox. Without a visit the stamp of a user who has no document is 0: there is nothing to rebuild.
func (c *Projections) BeginRebuild(ctx context.Context, users []services.UserID, mode RebuildMode) ([]redis.Stamp, error) {
	// All users share the arguments: the value at birth of a field does not depend on the user.
	args := append([]any{"0", c.EpochToBuild(ctx), int64(-1)}, c.layout.Load().initialFields...)
	if mode.Refill {
		args[0] = "1"
	}
	if mode.Visit {
		args[2] = mode.IdleDay
	}
	calls := make([]redis.Call, len(users))
	for i, user := range users {
		calls[i] = redis.Call{Keys: viewKeys(user), Args: args}
	}
	return c.ChangeForStamps(ctx, rebuildBegin, calls)
}

// FeedFacts are SQL's data of one reader's feed, read under a stamp of BeginRebuild.
type FeedFacts struct {
	Reader         services.UserID
	Stamp          redis.Stamp
	Seen           services.PostID           // seen up to
	Pulled         []services.FollowedAuthor // authors whose posts are not among Entries
	Hosts          []services.FollowedAuthor // authors who have shows
	Entries        []services.FeedEntry      // the newest
	Floor          services.PostID           // the newest post older than Entries, 0 if there is none
	TrimmedCounted services.PostID           // the newest counting post at or below Floor, 0 if there is none
	Visit          bool                      // as in the RebuildMode of the beginning
	Day            int64                     // of the last visit, days since 1970; without Visit: used if the document has no day
	Lifetime       time.Duration             // the keys' longest lifetime without a further visit; used where Day is
}

// RebuildResult is the result of a rebuild.
type RebuildResult struct {
	redis.Result
	Document Document // as it is after the rebuild; not Ready if it cannot be shown
	Clamped  int      // parts that met a negative count, which happens only if another program wrote to Redis
}

// EndRebuild ends a rebuild. It writes the parts, whose scripts record their steps. Then it merges the facts of the feed, marks the
// document as good and reads it. A round trip has at most 500 steps. The result is Retry if a part is missing from the document, or if
// something was removed from the view since the stamp: the rebuild has to begin again.
func (c *Projections) EndRebuild(ctx context.Context, facts FeedFacts, parts ...redis.Step) (rebuilt RebuildResult, err error) {
	layout := c.layout.Load()
	steps := append(rebuildSteps(facts, parts), redis.Step{Call: redis.Call{Args: layout.command(facts.Reader)}})
	replies, err := c.RunSequence(ctx, steps)
	if err != nil {
		return rebuilt, err
	}
	for i, reply := range replies {
		// This empties the view, and does not leave that to a repetition by redis.Client.Change: earlier steps may have written into
		// the view already.
		if redis.IsWrongType(reply.Err) {
			c.Log().Warn("a key of a view has the wrong type: the view is rebuilt", "user", facts.Reader)
			return RebuildResult{Result: redis.Result{Status: redis.Retry}}, c.repairWrongType(ctx, []string{DocumentKey(facts.Reader)})
		}
		if reply.Err != nil {
			return rebuilt, fmt.Errorf("step %d of the rebuild of user %d: %w", i+1, facts.Reader, redis.MapError(reply.Err))
		}
		// The last step is the read of the document.
		if i == len(steps)-1 {
			break
		}
		if rebuilt.Result, err = redis.ParseResult(reply.Value); err != nil {
			return RebuildResult{}, fmt.Errorf("%s: %w", steps[i].Script.Name, err)
		}
		// Among the parts, only states of conversations set Short: a negative count was met. The last writing step sets Short for
		// another reason: a refill is due.
		if i < len(parts) && rebuilt.Short {
			rebuilt.Clamped++
		}
	}
	// An answer of a Redis that is not trusted, or of another epoch, gives no document: the caller reads the document again.
	if values, ok := replies[len(steps)-1].Value.([]any); ok && rebuilt.Status == redis.Applied && c.CheckTrusted() == nil {
		rebuilt.Document = layout.parse(values, c.Epoch())
	}
	return rebuilt, nil
}

// rebuildSteps are the writing steps of a rebuild, in their order.
func rebuildSteps(facts FeedFacts, parts []redis.Step) []redis.Step {
	steps := slices.Clone(parts)
	// The merge gets the last step's name: it finds a gap in the chain by asking whether that step was reached.
	last := redis.Chain(steps)
	// The order is the same as in ARGV of rebuild_merge.lua.
	visit := "0"
	if facts.Visit {
		visit = "1"
	}
	args := []any{
		facts.Stamp.String(), facts.Seen.String(), facts.Floor.String(), facts.TrimmedCounted.String(),
		facts.Day, secondsToLive(facts.Lifetime), visit, packNamed(facts.Pulled...), packNamed(facts.Hosts...), last,
	}
	for _, entry := range facts.Entries {
		args = append(args, entryText(entry))
	}
	return append(steps, redis.Step{Script: rebuildMerge, Call: redis.Call{
		Keys: slices.Concat(inboxKeys(facts.Reader), []string{conversationsKey(facts.Reader), mergeKey(facts.Reader)}, listKeys(facts.Reader)), Args: args,
	}})
}

// secondsToLive subtracts up to a sixteenth from a lifetime: keys that were made together, as after a loss, must not expire
// together, or a crowd of readers would rebuild them at once.
func secondsToLive(lifetime time.Duration) int64 {
	seconds := int64(lifetime / time.Second)
	return seconds - rand.Int64N(seconds/16+1)
}
