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

// A rebuild is two round trips, with the read of SQL between them: the first takes the stamp, the second writes everything. The
// writes are several calls in one pipeline, so that no call blocks Redis for long, and any of them may fail or be lost alone. They
// are numbered by redis.NumberSteps: the last one declares the document complete only if no step before it is missing. If two
// rebuilds of a user overlap, one may find the other's steps in place of its own. That rebuild is refused, and begins again.

var (
	rebuildBegin = loadScript("rebuild_begin") // the script of BeginRebuild
	rebuildMerge = loadScript("rebuild_merge") // the script of the last step of EndRebuild that writes: it merges the facts of the feed
)

// RebuildMode says how a rebuild treats what Redis holds of a user.
type RebuildMode struct {
	// IsVisit says that the user is here. Without it the rebuild only restores what they have: no document is made for a user who has
	// none, and a document keeps its day and its lifetime.
	IsVisit bool
	// Refill removes the floor of the inbox, so that older posts come in. It also keeps the lists of features (RegisterList): a
	// rebuild without Refill deletes them. If the inbox is missing, they are deleted in any case.
	Refill bool
	// FirstActiveDay is a day, counted from 1970: users who were last seen before it are idle. If the document of a user who visits says
	// that they were, the floor of the inbox is removed as well: the inbox may have become short in their absence.
	FirstActiveDay int64
}

// BeginRebuild makes the missing documents and inboxes of the users and returns the stamps under which their facts are to be read.
// Documents and inboxes that are whole stay, and readers use them until the rebuild ends, unless the mode removes the floor of an
// inbox. Without a visit the stamp of a user who has no document is 0: there is nothing to rebuild.
func (c *Projections) BeginRebuild(ctx context.Context, users []services.UserID, mode RebuildMode) ([]redis.ClockStamp, error) {
	// All users share the arguments: the value at birth of a field does not depend on the user.
	args := append([]any{"0", c.Client.EpochForNewData(ctx), int64(-1)}, c.layout.Load().initialFields...)
	if mode.Refill {
		args[0] = "1"
	}
	if mode.IsVisit {
		args[2] = mode.FirstActiveDay
	}
	calls := services.Map(users, func(user services.UserID) redis.ScriptCall {
		return redis.ScriptCall{Keys: userDataKeys(user), Args: args}
	})
	return c.Client.ChangeForStamps(ctx, rebuildBegin, calls)
}

// FeedFacts are SQL's data of one reader's feed, read under a stamp of BeginRebuild.
type FeedFacts struct {
	Reader               services.UserID
	Stamp                redis.ClockStamp          // of BeginRebuild, taken before the facts were read
	SeenUpTo             services.PostID           // posts up to this one were seen
	PulledAuthors        []services.FollowedAuthor // authors whose posts are not among Entries
	Hosts                []services.FollowedAuthor // authors who have shows
	Entries              []services.FeedEntry      // the newest posts of the feed
	NewestTrimmed        services.PostID           // the newest post older than Entries, 0 if there is none
	NewestTrimmedCounted services.PostID           // the newest counting post at or below NewestTrimmed, 0 if there is none
	IsVisit              bool                      // as in the RebuildMode that BeginRebuild had
	LastActiveDay        int64                     // of the last visit, since 1970; without IsVisit only a document without a day gets it
	KeyLifetime          time.Duration             // the keys' longest lifetime without a further visit; used where LastActiveDay is
}

// RebuildResult is the result of a rebuild.
type RebuildResult struct {
	redis.Result
	Document       Document // as it is after the rebuild; not Ready if it cannot be shown
	NegativeCounts int      // how many parts met a negative count, which happens only if another program wrote to Redis
}

// EndRebuild ends a rebuild. It runs the parts: steps that write the rest of the document. Then it merges the facts of the feed, marks
// the document as good and reads it. A round trip has at most 500 steps. The result is Retry if a part is missing from the document, or
// if something was removed from the projection since the stamp: the rebuild has to begin again.
func (c *Projections) EndRebuild(ctx context.Context, facts FeedFacts, parts ...redis.SequenceStep) (rebuilt RebuildResult, err error) {
	layout := c.layout.Load()
	steps := append(rebuildSteps(facts, parts), redis.SequenceStep{ScriptCall: redis.ScriptCall{Args: layout.readCommand(facts.Reader)}})
	replies, err := c.Client.RunSequence(ctx, steps)
	if err != nil {
		return rebuilt, err
	}
	for i, reply := range replies {
		// This empties the projection, and does not leave that to a repetition by redis.Client.Change: earlier steps may have written
		// into the projection already.
		if redis.IsWrongType(reply.Err) {
			c.Client.Log().Warn("a key of a projection has the wrong type: the projection is rebuilt", "user", facts.Reader)
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
		// Among the parts, only states of conversations set RefillDue: a negative count was met. The last writing step sets
		// RefillDue for another reason: a refill is due.
		if i < len(parts) && rebuilt.RefillDue {
			rebuilt.NegativeCounts++
		}
	}
	// An answer of a Redis that is not trusted, or of another epoch, gives no document: the caller reads the document again.
	if values, ok := replies[len(steps)-1].Value.([]any); ok && rebuilt.Status == redis.Applied && c.Client.CheckTrusted() == nil {
		rebuilt.Document = layout.parse(values, c.Client.Epoch())
	}
	return rebuilt, nil
}

// rebuildSteps are the writing steps of a rebuild, in their order.
func rebuildSteps(facts FeedFacts, parts []redis.SequenceStep) []redis.SequenceStep {
	steps := slices.Clone(parts)
	// rebuild_merge gets the name of the last step: if that step was recorded, none before it is missing.
	last := redis.NumberSteps(steps)
	// The order is the same as in ARGV of rebuild_merge.lua.
	visit := "0"
	if facts.IsVisit {
		visit = "1"
	}
	args := []any{
		facts.Stamp.String(), facts.SeenUpTo.String(), facts.NewestTrimmed.String(), facts.NewestTrimmedCounted.String(),
		facts.LastActiveDay, jitteredTTLSeconds(facts.KeyLifetime), visit, packAuthors(facts.PulledAuthors...), packAuthors(facts.Hosts...), last,
	}
	for _, entry := range facts.Entries {
		args = append(args, entryText(entry))
	}
	return append(steps, redis.SequenceStep{Script: rebuildMerge, ScriptCall: redis.ScriptCall{
		Keys: slices.Concat(inboxScriptKeys(facts.Reader), []string{conversationsKey(facts.Reader), mergeKey(facts.Reader)}, listKeys(facts.Reader)), Args: args,
	}})
}

// jitteredTTLSeconds subtracts up to a sixteenth from a lifetime: keys that were made together, as after a loss, must not expire
// together, or a crowd of readers would rebuild them at once.
func jitteredTTLSeconds(lifetime time.Duration) int64 {
	seconds := int64(lifetime / time.Second)
	return seconds - rand.Int64N(seconds/16+1)
}
