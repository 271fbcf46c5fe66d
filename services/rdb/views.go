package rdb

import (
	"context"
	"strconv"
	"time"

	"tidings/services"
	"tidings/services/redis"
)

// A view in Redis is its newest items, under the inbox's rules: it is made before its facts are read, reads from before a
// removal are refused, and its floor is the time above which it is complete. Anything below is read from SQL.

const (
	// ViewKeep is the least number of newest items that a view keeps, if it has so many: one more than is counted.
	ViewKeep = services.DisplayCap + 1
	// viewLifetime is how long a view stays without a new item.
	viewLifetime = 7 * 24 * time.Hour
	// floorMark is a member of a view that is not an item: items begin with "=".
	floorMark = "!f"
	// epochMark is another such member: a view of another epoch than this node's counts as missing.
	epochMark = "!e"
)

var (
	viewBegin  = loadScript("view_begin")
	viewMerge  = loadScript("view_merge", viewsLib)
	viewAdd    = loadScript("view_add", viewsLib)
	viewRemove = loadScript("view_remove")
	viewStamp  = loadScript("view_stamp")
)

func viewSeconds() int64 { return int64(viewLifetime / time.Second) }

// BeginViews makes the missing views, opens the others below their floors, and returns the stamps under which their facts are
// to be read. Until EndViews nobody reads the views.
func (c *Projections) BeginViews(ctx context.Context, views []services.View) ([]redis.Stamp, error) {
	calls, epoch := make([]redis.Call, len(views)), c.EpochToBuild(ctx)
	for i, view := range views {
		calls[i] = redis.Call{Keys: []string{viewKey(view)}, Args: []any{viewSeconds(), epoch}}
	}
	return c.Stamps(ctx, viewBegin, calls)
}

// ViewFacts are SQL's items of one view, read under a stamp of BeginViews.
type ViewFacts struct {
	View  services.View
	Stamp redis.Stamp
	Items []services.ViewItem // the newest
	More  bool                // there are older items
	Floor time.Time           // with More: the time of the newest of the older items
}

// EndViews merges the facts and marks the views good.
func (c *Projections) EndViews(ctx context.Context, views []ViewFacts) ([]redis.Result, error) {
	calls := make([]redis.Call, len(views))
	for i, facts := range views {
		args := append(make([]any, 0, 3+2*len(facts.Items)), facts.Stamp.String(), int64(-1), ViewKeep)
		if facts.More {
			args[1] = facts.Floor.UnixMicro()
		}
		for _, item := range facts.Items {
			args = append(args, item.Item, item.At.UnixMicro())
		}
		calls[i] = redis.Call{Keys: []string{viewKey(facts.View)}, Args: args}
	}
	return c.Results(ctx, viewMerge, calls)
}

// StampOfView takes a stamp for one view, to read an item of it from SQL. It is 0 if the view does not exist: nothing can be
// added then.
func (c *Projections) StampOfView(ctx context.Context, view services.View) (redis.Stamp, error) {
	return c.Stamp(ctx, viewStamp, redis.Call{Keys: []string{viewKey(view)}})
}

// AddToView adds an item to a view, or moves it to a later time.
func (c *Projections) AddToView(ctx context.Context, view services.View, stamp redis.Stamp, item services.ViewItem) (redis.Result, error) {
	args := []any{stamp.String(), item.Item, item.At.UnixMicro(), ViewKeep, viewSeconds()}
	return c.Result(ctx, viewAdd, redis.Call{Keys: []string{viewKey(view)}, Args: args})
}

// RemoveFromView removes an item from a view.
func (c *Projections) RemoveFromView(ctx context.Context, view services.View, item string) (redis.Result, error) {
	return c.Result(ctx, viewRemove, redis.Call{Keys: []string{viewKey(view)}, Args: []any{item, ViewKeep}})
}

// ViewCount is how many items of a view are newer than a user's last access.
type ViewCount struct {
	Ready bool // false: the view is missing or being built, and the other fields are invalid
	Count int  // at most ViewKeep
	More  bool // the true count is Count or more
}

// CountViews counts, for each access, the items of its view that are newer, all in one round trip.
func (c *Projections) CountViews(ctx context.Context, accesses []services.ViewAccess) ([]ViewCount, error) {
	if err := c.Trusted(); err != nil {
		return nil, err
	}
	ctx = redis.Reading(ctx)
	commands, err := c.Read(ctx, func(p redis.Pipeliner) {
		for _, access := range accesses {
			key := viewKey(access.View)
			p.ZScore(ctx, key, floorMark)
			p.ZScore(ctx, key, epochMark)
			p.ZCount(ctx, key, "("+strconv.FormatInt(access.UpTo.UnixMicro(), 10), "+inf")
		}
	})
	if err != nil {
		return nil, err
	}
	counts, epoch := make([]ViewCount, len(accesses)), c.Epoch()
	for i, access := range accesses {
		mark, err := commands[3*i].(*redis.FloatCmd).Result()
		born := commands[3*i+1].(*redis.FloatCmd).Val()
		if err == redis.Nil || err == nil && redis.Digits(int64(-born)) != epoch {
			continue
		}
		if err != nil {
			return nil, redis.Unavailable(err)
		}
		newer, err := commands[3*i+2].(*redis.IntCmd).Result()
		if err != nil {
			return nil, redis.Unavailable(err)
		}
		floor := -1 - int64(mark)
		counts[i] = ViewCount{Ready: true, Count: min(int(newer), ViewKeep), More: newer > ViewKeep}
		if access.UpTo.UnixMicro() < floor {
			// There are more than are kept. A view that has lost so many items that it cannot say so is refilled.
			counts[i].Ready, counts[i].More = newer >= ViewKeep, true
		}
	}
	return counts, nil
}
