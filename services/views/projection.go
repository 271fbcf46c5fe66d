package views

import (
	"context"
	"embed"
	"strconv"
	"strings"
	"time"

	"tidings/services/redis"
)

// A view in Redis has its newest items, under the same rules as an inbox of services/rdb: it is made before its facts are read, facts
// that were read before a removal are refused, and its floor is the time above which it is complete. Older items are read from SQL.

const (
	// minKeptItems is the least number of newest items that a view keeps, if it has them: those that count.
	minKeptItems = maxCountedItems
	// trimThreshold is how many items a view holds before it is cut.
	// A cut removes several items at once, so that it is not made with each report.
	trimThreshold = minKeptItems + 32
	// viewLifetime is how long a view stays without a new item or a rebuild.
	// A view without new items soon has no readers. If one comes, they build it again.
	viewLifetime = 7 * 24 * time.Hour
	// A view is a ZSET. The members that are items begin with "=", and the three others with "!". The score of stampMember is the stamp of
	// the last removal, or that of the making of the view.
	stampMember = "!r"
	// floorMember has the floor as its score: the view has all items that are newer.
	floorMember = "!f"
	// epochMember has the epoch: a view of another epoch than this node's counts as missing.
	epochMember = "!e"
)

//go:embed lua/*.lua
var luaFiles embed.FS

var (
	scripts = redis.ScriptFiles{FS: luaFiles}

	viewBegin  = scripts.Load("view_begin")                                     // begins the rebuild of a view
	viewMerge  = scripts.Load("view_merge", redis.CappedListPart, "lib_views")  // ends the rebuild of a view
	viewAdd    = scripts.Load("view_add", redis.CappedListPart, "lib_views")    // adds an item to a view
	viewRemove = scripts.Load("view_remove", redis.CappedListPart, "lib_views") // removes an item from a view
	viewStamp  = scripts.Load("view_stamp")                                     // takes a stamp for a view

	// viewKeys are views: ZSETs, item -> microseconds, the three members above and items of up to 65 characters: trimThreshold at most, more
	// during a rebuild.
	viewKeys = redis.RegisterKeys(redis.KeyFamily{Prefix: "v:", MarkerMember: stampMember, MayBeOurs: func(rest string) bool {
		code, id, found := strings.Cut(rest, "/")
		return found && code != "" && id != ""
	}})
)

// viewKey is the key of a view. A code has no "/", so that no two views share a key.
func viewKey(view View) string { return viewKeys.Prefix + view.Code + "/" + view.ID }

// viewLifetimeSeconds is viewLifetime in seconds, the unit of Redis' EXPIRE.
func viewLifetimeSeconds() int64 { return int64(viewLifetime / time.Second) }

// projection is the views that Redis holds.
type projection struct{ *redis.Client }

// beginRebuild makes the views that are missing, and removes the floors of those that are there, so that older items can be added.
// It returns the stamps under which their facts are to be read. Until endRebuild is called, readers find that the views are being
// built.
func (p projection) beginRebuild(ctx context.Context, views []View) ([]redis.ClockStamp, error) {
	calls, epoch := make([]redis.ScriptCall, len(views)), p.EpochForNewData(ctx)
	for i, view := range views {
		calls[i] = redis.ScriptCall{Keys: []string{viewKey(view)}, Args: []any{viewLifetimeSeconds(), epoch}}
	}
	return p.ChangeForStamps(ctx, viewBegin, calls)
}

// viewFacts are SQL's items of one view, read under a stamp of beginRebuild.
type viewFacts struct {
	view  View
	stamp redis.ClockStamp
	newestItems
}

// endRebuild merges the facts into the views, which readers count from then on.
func (p projection) endRebuild(ctx context.Context, views []viewFacts) ([]redis.Result, error) {
	calls := make([]redis.ScriptCall, len(views))
	for i, facts := range views {
		// -1 tells the script that SQL has nothing older.
		args := append(make([]any, 0, 3+2*len(facts.items)), facts.stamp.String(), int64(-1), minKeptItems)
		if facts.hasOlder {
			args[1] = facts.completeAbove.UnixMicro()
		}
		for _, item := range facts.items {
			args = append(args, item.Name, item.At.UnixMicro())
		}
		calls[i] = redis.ScriptCall{Keys: []string{viewKey(facts.view)}, Args: args}
	}
	return p.ChangeForResults(ctx, viewMerge, calls)
}

// takeStamp takes a stamp for one view, to read an item of it from SQL. It is 0 if the view does not exist: nothing can be
// added then.
func (p projection) takeStamp(ctx context.Context, view View) (redis.ClockStamp, error) {
	return p.ChangeForStamp(ctx, viewStamp, redis.ScriptCall{Keys: []string{viewKey(view)}})
}

// add adds an item to a view, or moves it to a later time.
func (p projection) add(ctx context.Context, view View, stamp redis.ClockStamp, item Item) (redis.Result, error) {
	args := []any{stamp.String(), item.Name, item.At.UnixMicro(), minKeptItems, viewLifetimeSeconds()}
	return p.ChangeForResult(ctx, viewAdd, redis.ScriptCall{Keys: []string{viewKey(view)}, Args: args})
}

// remove removes an item from a view. Status Applied with RefillDue asks the caller to refill: the view has fewer items than are
// counted, and SQL has older ones.
func (p projection) remove(ctx context.Context, view View, item string) (redis.Result, error) {
	return p.ChangeForResult(ctx, viewRemove, redis.ScriptCall{Keys: []string{viewKey(view)}, Args: []any{item, minKeptItems}})
}

// viewCount is how many items of a view are newer than a user's last access.
type viewCount struct {
	ready   bool // false: the view is missing or being built, and the other fields are invalid
	count   int  // at most maxCountedItems
	atLeast bool // the true count is count or more
}

// count counts, for each access, the items of its view that are newer, all in one round trip.
func (p projection) count(ctx context.Context, accesses []LastAccess) ([]viewCount, error) {
	if err := p.CheckTrusted(); err != nil {
		return nil, err
	}
	ctx = redis.WithReadGuard(ctx)
	commands, err := p.Read(ctx, func(pipe redis.Pipeliner) {
		for _, access := range accesses {
			key := viewKey(access.View)
			pipe.ZScore(ctx, key, floorMember)
			pipe.ZScore(ctx, key, epochMember)
			// Three commands for each view, all in one pipeline: floor, epoch and count are of nearly one moment, and a view that changes in
			// between is counted before or after the change. The members that are not items have scores of 0 and below, so even a count from 0 on
			// does not include them.
			pipe.ZCount(ctx, key, "("+strconv.FormatInt(positionMicros(access), 10), "+inf")
		}
	})
	if err != nil {
		return nil, err
	}
	counts, epoch := make([]viewCount, len(accesses)), p.Epoch()
	for i, access := range accesses {
		mark, err := commands[3*i].(*redis.FloatCmd).Result()
		born := commands[3*i+1].(*redis.FloatCmd).Val()
		// Without a floor the view is missing or being built. A view of another epoch is from before Redis lost its data.
		if err == redis.Nil || err == nil && redis.FormatInteger(int64(-born)) != epoch {
			continue
		}
		if err != nil {
			return nil, redis.MapError(err)
		}
		newer, err := commands[3*i+2].(*redis.IntCmd).Result()
		if err != nil {
			return nil, redis.MapError(err)
		}
		// The floor is stored as -floor-1, to sort before all items; -1 is no floor.
		floor := -1 - int64(mark)
		counts[i] = viewCount{ready: true, count: min(int(newer), maxCountedItems), atLeast: newer > maxCountedItems}
		if positionMicros(access) < floor {
			// The access is older than the floor, so there are more new items than are kept. A view that has lost too many items to
			// know the count is refilled.
			counts[i].ready, counts[i].atLeast = newer >= minKeptItems, true
		}
	}
	return counts, nil
}

// positionMicros is the time up to which an access has seen a view, in microseconds; 0 for one that is before all items.
func positionMicros(access LastAccess) int64 { return max(0, access.UpTo.UnixMicro()) }
