package fanout

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/rdb"
	"tidings/services/redis"
	"tidings/services/store"
)

// jobViewItem brings one item of a view in line with the facts. Its key is the JSON of [code, id, item].
const jobViewItem = "view.item"

// viewEntries is how many items a rebuild reads: the most that a view holds before it is cut.
const viewEntries = rdb.ViewKeep + 32

func (f *Fanout) viewKinds() []jobs.Kind {
	return []jobs.Kind{
		{Name: jobViewItem, Class: jobs.Short, Each: f.runViewItem, Changes: jobs.NoCounts()},
	}
}

// ViewItemJob brings an item of a view in line with the facts at the time when it runs.
func ViewItemJob(view services.View, item string) (jobs.NewJob, error) {
	key, err := json.Marshal([3]string{view.Code, view.ID, item})
	if err != nil {
		return jobs.NewJob{}, fmt.Errorf("job of an item of a view: %w", err)
	}
	return jobs.Keyed(jobViewItem, string(key)), nil
}

func (f *Fanout) runViewItem(ctx context.Context, job jobs.Job) error {
	var parts [3]string
	if err := json.Unmarshal([]byte(job.Key), &parts); err != nil {
		return fmt.Errorf("key of %s: %w", job.Kind, err)
	}
	view := services.View{Code: parts[0], ID: parts[1]}
	if err := f.reconcileViewItem(ctx, view, parts[2]); err != nil || job.Tries == 0 {
		return err
	}
	return f.endRefill(ctx, view)
}

// endRefill rebuilds a view that exists but is incomplete. A removal may have begun to refill it and given up, and no other
// removal reports a view that is being built as short.
func (f *Fanout) endRefill(ctx context.Context, view services.View) error {
	stamp, err := f.redis.StampOfView(ctx, view)
	if err != nil || stamp == 0 {
		return err
	}
	counts, err := f.redis.CountViews(ctx, []services.ViewAccess{{View: view}})
	if err != nil || counts[0].Ready {
		return err
	}
	return f.RebuildViews(ctx, []services.View{view})
}

// reconcileViewItem brings an item in Redis in line with the facts: it is added at its time, or removed and then read again.
// A missing view stays missing: its next reader builds it.
func (f *Fanout) reconcileViewItem(ctx context.Context, view services.View, item string) error {
	type fact struct {
		at     time.Time
		stands bool
	}
	return jobs.Merge[redis.Stamp, fact]{
		Name: func() string { return fmt.Sprintf("item %q of the view %v", item, view) },
		Mark: func(ctx context.Context) (redis.Stamp, bool, error) {
			stamp, err := f.redis.StampOfView(ctx, view)
			return stamp, stamp != 0, err
		},
		Read: func(ctx context.Context) (found fact, err error) {
			found.at, found.stands, err = f.store.ViewItem(ctx, view, item)
			return found, err
		},
		Put: func(ctx context.Context, stamp redis.Stamp, found fact) (done bool, err error) {
			if !found.stands {
				return f.removeFromView(ctx, view, item)
			}
			result, err := f.redis.AddToView(ctx, view, stamp, services.ViewItem{Item: item, At: found.at})
			return result.Status != redis.Retry, err
		},
	}.Run(ctx)
}

// removeFromView removes the item and answers whether it is still absent from the facts.
func (f *Fanout) removeFromView(ctx context.Context, view services.View, item string) (gone bool, err error) {
	result, err := f.redis.RemoveFromView(ctx, view, item)
	if err != nil {
		return false, err
	}
	if _, stands, err := f.store.ViewItem(ctx, view, item); err != nil || stands {
		return false, err
	}
	if result.Short {
		return true, f.RebuildViews(ctx, []services.View{view})
	}
	return true, nil
}

// RebuildViews makes views from the facts: those that were lost, or that lost so many items that they are too short. Views
// from which something was removed meanwhile are read once more.
func (f *Fanout) RebuildViews(ctx context.Context, views []services.View) error {
	return jobs.Merge[[]redis.Stamp, []store.NewestViewItems]{
		Name: func() string { return fmt.Sprintf("rebuild of %d views", len(views)) },
		Mark: func(ctx context.Context) ([]redis.Stamp, bool, error) {
			stamps, err := f.redis.BeginViews(ctx, views)
			return stamps, true, err
		},
		Read: func(ctx context.Context) ([]store.NewestViewItems, error) {
			return f.store.NewestViewItems(ctx, views, viewEntries)
		},
		Put: func(ctx context.Context, stamps []redis.Stamp, newest []store.NewestViewItems) (done bool, err error) {
			facts := make([]rdb.ViewFacts, len(views))
			for i, view := range views {
				facts[i] = rdb.ViewFacts{View: view, Stamp: stamps[i], Items: newest[i].Items, More: newest[i].More, Floor: newest[i].Floor}
			}
			results, err := f.redis.EndViews(ctx, facts)
			if err != nil {
				return false, err
			}
			var again []services.View
			for i, result := range results {
				if result.Status != redis.Applied {
					again = append(again, views[i])
				}
			}
			views = again
			return len(again) == 0, nil
		},
	}.Run(ctx)
}
