// Package views counts, for each user, the new items in lists to which the host application reports items.
//
// An item and the job that projects it are one transaction. A user's position in a view is a row of SQL and never goes back. New
// items are counted from the newest items of the view, which Redis keeps once for all users, so that reporting an item costs the
// same for any number of readers. A page of views is one query and one round trip, whatever their number. A view that is not in
// Redis is rebuilt by its next reader, whose counts come from SQL; when Redis does not answer, SQL counts, to the same bound.
//
// The new items in the views that a user touched last are a source of their badges: one number. When an item comes or goes, SQL
// recounts for each reader who is not dormant, and the count is projected as a versioned field. The version is a sum of numbers
// that only rise, and is read together with the count, so that late and repeated projections change nothing.
//
// The path of an item: Add writes the row, raises the view's number of changes, and leaves two jobs. view.item brings the item
// into the view's ZSET (reconcileItem); view.readers counts for the view's readers again, a page at a time and not more than
// 5,000 of them a second (runReadersJob). A touch raises the user's position and number of touches, and their own count is projected
// before the answer.
package views

import (
	"context"
	"log/slog"
	"time"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/projector"
	"tidings/services/redis"
	"tidings/services/sql"
)

// Config configures views.
type Config struct {
	DB        *sql.DB
	Redis     *redis.Client
	Jobs      *jobs.Engine         // New registers the kinds of jobs of views in it
	Projector *projector.Projector // New registers the versioned field in it
	IDs       *services.IDClock
	Clock     services.Clock
	Log       *slog.Logger
}

// Service implements views. It is safe for concurrent use.
type Service struct {
	db        *sql.DB
	redis     projection // the views in Redis
	jobs      *jobs.Engine
	projector *projector.Projector
	ids       *services.IDClock
	clock     services.Clock
	log       *slog.Logger
	throttle  jobs.Throttle[View] // delays the jobs that count again for all readers of a view
}

// New makes the service, and registers the kinds of its jobs and its versioned field.
func New(cfg Config) *Service {
	s := &Service{
		db: cfg.DB, redis: projection{cfg.Redis}, jobs: cfg.Jobs, projector: cfg.Projector, ids: cfg.IDs, clock: cfg.Clock, log: cfg.Log,
	}
	cfg.Jobs.Register(s.kinds()...)
	cfg.Projector.AddVersionedFields("views", s.versionedFields, s.audit)
	return s
}

const (
	maxCodes = 20 // how many codes one call of List can have
	// maxClockLead is how far the host application's clock may be ahead of this node's.
	maxClockLead = time.Minute
)

// Add is the command by which the host application reports an item into a view. An item that exists, or was removed, moves to
// at if that is later; otherwise nothing changes. Times are kept to the millisecond.
func (s *Service) Add(view View, item string, at time.Time) (*jobs.Command, error) {
	if err := check(view, item); err != nil {
		return nil, err
	}
	if at.Before(time.UnixMilli(0)) {
		return nil, services.Errorf(services.Invalid, "at: %s is before 1970", at.UTC().Format(time.RFC3339))
	}
	reported := Item{Name: item, At: at.UTC().Truncate(time.Millisecond)}
	return s.itemCommand("addViewItem", view, item, func(ctx context.Context, tx *sql.Tx) (bool, error) {
		// The time is refused only if it is ahead of both clocks: after this node's clock was set back, its IDs still have the later
		// time.
		if at.After(tx.Now.Add(maxClockLead)) && at.After(tx.ReadClock(s.ids.Now).Add(maxClockLead)) {
			return false, services.Errorf(services.Invalid, "at: %s is in the future", at.UTC().Format(time.RFC3339))
		}
		return addItem(ctx, tx, view, reported)
	})
}

// Remove is the command that removes an item from a view; repeated, it changes nothing. NOT_FOUND when it never was in the view.
func (s *Service) Remove(view View, item string) (*jobs.Command, error) {
	if err := check(view, item); err != nil {
		return nil, err
	}
	return s.itemCommand("removeViewItem", view, item, func(ctx context.Context, tx *sql.Tx) (bool, error) {
		return removeItem(ctx, tx, view, item)
	})
}

// check reports whether a view and an item have valid names, before either is looked for.
func check(view View, item string) error {
	if err := view.Check(); err != nil {
		return err
	}
	return checkItem(item)
}

// itemCommand returns the command that changes an item. It also queues two jobs: one for the item, one for the badges of the view's
// readers.
func (s *Service) itemCommand(name string, view View, item string, change func(context.Context, *sql.Tx) (changed bool, err error)) (*jobs.Command, error) {
	job, err := itemJob(view, item)
	if err != nil {
		return nil, err
	}
	return &jobs.Command{
		Name: name,
		Apply: func(ctx context.Context, tx *sql.Tx) ([]string, error) {
			changed, err := change(ctx, tx)
			if err == nil && !changed {
				err = jobs.ErrUnchanged
			}
			if err != nil {
				return nil, err
			}
			// Each item has a job of its own. The job of the readers is shared by all items of the view that change at about the same time.
			return nil, jobs.Enqueue(ctx, tx, job, s.readersJob(view))
		},
	}, nil
}

// Touch is the command by which a user looks at a view: items up to a time are no longer new for them, or without a time all items
// that are in it now. INVALID for a time that is in the future and beyond the newest item.
func (s *Service) Touch(user services.UserID, view View, upTo *time.Time) (*jobs.Command, error) {
	if err := view.Check(); err != nil {
		return nil, err
	}
	// The zero time means the newest item at the time of the commit.
	until := time.Time{}
	if upTo != nil {
		if upTo.Before(time.UnixMilli(0)) {
			return nil, services.Errorf(services.Invalid, "upTo: %s is before 1970", upTo.UTC().Format(time.RFC3339))
		}
		// The times of items are cut to milliseconds. This time need not be: a time between two items separates them as it is.
		until = upTo.UTC()
	}
	return &jobs.Command{
		Name: "touchView", Actor: user,
		Apply: func(ctx context.Context, tx *sql.Tx) ([]string, error) {
			if err := touch(ctx, tx, user, view, until, tx.ReadClock(s.ids.Now), maxCountedViews); err != nil {
				return nil, err
			}
			return nil, jobs.Enqueue(ctx, tx, countsJob(user))
		},
		AfterCommit: func(ctx context.Context) error { return s.projectCounts(ctx, user) },
		CoalesceKey: "views",
	}, nil
}

// Page is a page of the views that a user has looked at.
type Page struct {
	Views   []UnreadView
	HasNext bool
}

// List lists the views of some codes that a user has looked at, in the order of code and ID: at most size views that come
// behind the view after, each with its new items.
func (s *Service) List(ctx context.Context, user services.UserID, codes []string, after View, size int) (Page, error) {
	if n := len(codes); n == 0 || n > maxCodes {
		return Page{}, services.Errorf(services.Invalid, "codes: 1 to %d are allowed, got %d", maxCodes, n)
	}
	for _, code := range codes {
		if err := services.WithArgument("codes", checkCode(code)); err != nil {
			return Page{}, err
		}
	}
	// One more than asked for tells whether more follow.
	accesses, err := readAccesses(ctx, s.db, user, codes, after, size+1)
	if err != nil {
		return Page{}, err
	}
	page := Page{HasNext: len(accesses) > size}
	page.Views, err = s.unread(ctx, accesses[:min(size, len(accesses))])
	return page, err
}

// Read reads one view for a user; NOT_FOUND when they never looked at it.
func (s *Service) Read(ctx context.Context, user services.UserID, view View) (UnreadView, error) {
	found, err := s.ByID(ctx, user, []View{view})
	if err != nil {
		return UnreadView{}, err
	}
	one, touched := found[view]
	if !touched {
		// An unknown view gets the same error as a view that the user never touched.
		return UnreadView{}, services.Errorf(services.NotFound, "key: the view %s %s was never touched", view.Code, services.Quote(view.ID))
	}
	return one, nil
}

// ByID reads some views for a user; a view that they never looked at is absent. SQL counts here: objects of other kinds are read
// in the same request, and Redis would be one more round trip.
func (s *Service) ByID(ctx context.Context, user services.UserID, views []View) (map[View]UnreadView, error) {
	if len(views) == 0 {
		return nil, nil
	}
	accesses, err := readAccessesByView(ctx, s.db, user, views)
	if err != nil || len(accesses) == 0 {
		return nil, err
	}
	counts := make([]viewCount, len(accesses))
	if err := s.countMissingInSQL(ctx, accesses, counts); err != nil {
		return nil, err
	}
	found := make(map[View]UnreadView, len(accesses))
	for i, access := range accesses {
		found[access.View] = counts[i].unreadFor(access)
	}
	return found, nil
}

// unread counts the new items of each access of a page: in one round trip where Redis has the views. Otherwise it takes three: to
// find that some are missing, to mark them as being built before their facts are read, and to write them.
func (s *Service) unread(ctx context.Context, accesses []LastAccess) ([]UnreadView, error) {
	if len(accesses) == 0 {
		return nil, nil
	}
	counts, err := s.redis.count(ctx, accesses)
	if err != nil {
		// Redis did not answer, or its data may be old. No count is ready, so SQL counts all views.
		counts = make([]viewCount, len(accesses))
	} else {
		err = s.rebuildMissing(ctx, accesses, counts)
	}
	// The error does not change the answer: SQL counts the views that are not ready.
	if err != nil && !services.IsUnavailable(err) {
		s.log.Error("views were not rebuilt; counting in SQL", "error", err)
	}
	if err := s.countMissingInSQL(ctx, accesses, counts); err != nil {
		return nil, err
	}
	list := make([]UnreadView, len(accesses))
	for i, access := range accesses {
		list[i] = counts[i].unreadFor(access)
	}
	return list, nil
}

// unreadFor returns the unread count of the view that an access is about, as the API shows it.
func (c viewCount) unreadFor(access LastAccess) UnreadView {
	precision := services.Exact
	if c.atLeast {
		precision = services.AtLeast
	}
	count := services.NewCount(c.count, precision, time.Time{})
	count.InTotal = access.CountsInBadges
	return UnreadView{LastAccess: access, Count: count}
}

// indexesOfNotReady returns the indexes of the counts that Redis could not give, because it lacks the view or builds it now.
func indexesOfNotReady(counts []viewCount) (indexes []int) {
	for i, count := range counts {
		if !count.ready {
			indexes = append(indexes, i)
		}
	}
	return indexes
}

// rebuildMissing builds in Redis the views whose counts are not ready, for the next reader. This reader's counts come from SQL, because
// reading the views again would be one more round trip.
func (s *Service) rebuildMissing(ctx context.Context, accesses []LastAccess, counts []viewCount) error {
	indexes := indexesOfNotReady(counts)
	if len(indexes) == 0 {
		return nil
	}
	return s.rebuild(ctx, services.Map(indexes, func(i int) View { return accesses[i].View }))
}

// countMissingInSQL counts in SQL the views whose counts are not ready.
func (s *Service) countMissingInSQL(ctx context.Context, accesses []LastAccess, counts []viewCount) error {
	indexes := indexesOfNotReady(counts)
	if len(indexes) == 0 {
		return nil
	}
	facts, err := countNewItems(ctx, s.db, services.Map(indexes, func(i int) LastAccess { return accesses[i] }), maxCountedItems+1)
	if err != nil {
		return err
	}
	for k, i := range indexes {
		// SQL counted up to one item more than the count that is shown, which tells whether the true count is greater.
		counts[i] = viewCount{ready: true, count: min(facts[k], maxCountedItems), atLeast: facts[k] > maxCountedItems}
	}
	return nil
}
