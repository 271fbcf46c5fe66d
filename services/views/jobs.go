package views

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"tidings/services/jobs"
	"tidings/services/redis"
)

// jobItem makes one item of a view in Redis agree with the facts. Its key is the JSON of [code, id, item].
const jobItem = "view.item"

// kinds are the jobs that New registers. jobItem changes no document: the jobs of countKinds bring the counts from SQL into the
// badges.
func (s *Service) kinds() []jobs.Kind {
	return append([]jobs.Kind{
		{Name: jobItem, Class: jobs.ShortClass, Each: s.runItemJob, ChangedCounts: jobs.NoCounts(), NamesUser: jobs.NoUser},
	}, s.countKinds()...)
}

// itemJob is the job that makes an item of a view agree with the facts at the time when the job runs.
func itemJob(view View, item string) (jobs.NewJob, error) {
	// JSON keeps the parts apart, whatever characters the application's keys have.
	key, err := json.Marshal([3]string{view.Code, view.ID, item})
	if err != nil {
		return jobs.NewJob{}, fmt.Errorf("job of an item of a view: %w", err)
	}
	return jobs.KeyedJob(jobItem, string(key)), nil
}

// runItemJob makes one item agree with the facts. On a retry it also completes a refill of the view, which the failed try may have
// left half done.
func (s *Service) runItemJob(ctx context.Context, job jobs.Job) error {
	var parts [3]string
	if err := json.Unmarshal([]byte(job.Key), &parts); err != nil {
		return fmt.Errorf("key of %s: %w", job.Kind, err)
	}
	view := View{Code: parts[0], ID: parts[1]}
	if err := s.reconcileItem(ctx, view, parts[2]); err != nil || job.Tries == 0 {
		return err
	}
	return s.completeRefill(ctx, view)
}

// completeRefill rebuilds a view that exists but is incomplete. A removal may have given up in the middle of a refill, and later
// removals do not report a view as short while it is being built.
func (s *Service) completeRefill(ctx context.Context, view View) error {
	stamp, err := s.redis.takeStamp(ctx, view)
	if err != nil || stamp == 0 {
		return err
	}
	// An access without a time is before all items: the view is ready unless it lacks items that SQL has.
	counts, err := s.redis.count(ctx, []LastAccess{{View: view}})
	if err != nil || counts[0].ready {
		return err
	}
	return s.rebuild(ctx, []View{view})
}

// reconcileItem makes one item of a view in Redis agree with the facts. It adds the item with its time, or removes it and then
// reads SQL once more, in case the item has come back. A missing view stays missing: its next reader builds it.
func (s *Service) reconcileItem(ctx context.Context, view View, item string) error {
	// at is valid only if stands is true: the item is in the view.
	type fact struct {
		at     time.Time
		stands bool
	}
	return jobs.ProjectionMerge[redis.ClockStamp, fact]{
		Name: func() string { return fmt.Sprintf("item %q of the view %v", item, view) },
		Mark: func(ctx context.Context) (redis.ClockStamp, bool, error) {
			stamp, err := s.redis.takeStamp(ctx, view)
			return stamp, stamp != 0, err
		},
		Read: func(ctx context.Context) (found fact, err error) {
			found.at, found.stands, err = readItem(ctx, s.db, view, item)
			return found, err
		},
		Put: func(ctx context.Context, stamp redis.ClockStamp, found fact) (done bool, err error) {
			if !found.stands {
				// A removal needs no stamp: the script itself refuses earlier reads from then on, and the check after it finds an
				// item that came back.
				return s.removeAndCheck(ctx, view, item)
			}
			result, err := s.redis.add(ctx, view, stamp, Item{Name: item, At: found.at})
			return result.Status != redis.Retry, err
		},
	}.Run(ctx)
}

// removeAndCheck removes the item and reports whether the facts still lack it.
func (s *Service) removeAndCheck(ctx context.Context, view View, item string) (gone bool, err error) {
	result, err := s.redis.remove(ctx, view, item)
	if err != nil {
		return false, err
	}
	// The item may have been reported again after the first read. Such a report changed nothing in Redis: it found the item still
	// there, or was refused because of the removal. So the item is not gone, and the caller's next round adds it.
	if _, stands, err := readItem(ctx, s.db, view, item); err != nil || stands {
		return false, err
	}
	if result.RefillDue {
		return true, s.rebuild(ctx, []View{view})
	}
	return true, nil
}

// rebuild makes views from the facts: lost views, and views that lost so many items that they are too short. If something was
// removed from a view meanwhile, the view is read once more.
func (s *Service) rebuild(ctx context.Context, views []View) error {
	return jobs.ProjectionMerge[[]redis.ClockStamp, []newestItems]{
		Name: func() string { return fmt.Sprintf("rebuild of %d views", len(views)) },
		Mark: func(ctx context.Context) ([]redis.ClockStamp, bool, error) {
			// From here until endRebuild, readers count these views in SQL.
			stamps, err := s.redis.beginRebuild(ctx, views)
			return stamps, true, err
		},
		Read: func(ctx context.Context) ([]newestItems, error) {
			return readNewestItems(ctx, s.db, views, trimThreshold)
		},
		Put: func(ctx context.Context, stamps []redis.ClockStamp, newest []newestItems) (done bool, err error) {
			facts := make([]viewFacts, len(views))
			for i, view := range views {
				facts[i] = viewFacts{view: view, stamp: stamps[i], newestItems: newest[i]}
			}
			results, err := s.redis.endRebuild(ctx, facts)
			if err != nil {
				return false, err
			}
			// Only the views whose facts were refused are read again.
			var again []View
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
