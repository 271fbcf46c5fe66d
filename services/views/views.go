// Package views is what the host application reports into and users look at: how much is new in each.
//
// An item and the job that carries it are one transaction. How far a user has looked is a row of SQL and never goes back;
// what is new is counted from the newest items of the view, which Redis keeps once for all users, so that reporting an
// item costs the same whoever looks. A page of views is one query and one round trip, whatever their number. A view that
// is not in Redis is rebuilt by its next reader, whom SQL answers; when Redis does not answer, SQL counts, to the same bound.
package views

import (
	"context"
	"log/slog"
	"time"

	"tidings/services"
	"tidings/services/fanout"
	"tidings/services/jobs"
	"tidings/services/rdb"
	"tidings/services/sql"
	"tidings/services/store"
)

// Config configures views.
type Config struct {
	Store  *store.Store
	Redis  *rdb.Projections
	Fanout *fanout.Fanout
	Log    *slog.Logger
}

// Service implements views. It is safe for concurrent use.
type Service struct {
	store  *store.Store
	redis  *rdb.Projections
	fanout *fanout.Fanout
	log    *slog.Logger
}

// New makes the service.
func New(cfg Config) *Service {
	return &Service{store: cfg.Store, redis: cfg.Redis, fanout: cfg.Fanout, log: cfg.Log}
}

const (
	maxCodes = 20
	// clocksDiffer is how far the host application's clock may be ahead of this node's.
	clocksDiffer = time.Minute
)

// Add is the command by which the host application reports an item into a view. One that is there moves to at if that is later, also one that
// was removed; else nothing changes. Times are kept to the millisecond.
func (s *Service) Add(view services.View, item string, at time.Time) (*jobs.Command, error) {
	if err := check(view, item); err != nil {
		return nil, err
	}
	if at.Before(time.UnixMilli(0)) {
		return nil, services.Errorf(services.Invalid, "at: %s is before 1970", at.UTC().Format(time.RFC3339))
	}
	reported := services.ViewItem{Item: item, At: at.UTC().Truncate(time.Millisecond)}
	return s.onItem("addViewItem", view, item, func(ctx context.Context, tx *store.Tx) error {
		if at.After(tx.Now.Add(clocksDiffer)) && at.After(tx.Moment(s.fanout.Now).Add(clocksDiffer)) {
			return services.Errorf(services.Invalid, "at: %s is in the future", at.UTC().Format(time.RFC3339))
		}
		_, err := tx.AddViewItem(ctx, view, reported)
		return err
	})
}

// Remove is the command by which an item is taken out of a view; again changes nothing. NOT_FOUND when it was never in.
func (s *Service) Remove(view services.View, item string) (*jobs.Command, error) {
	if err := check(view, item); err != nil {
		return nil, err
	}
	return s.onItem("removeViewItem", view, item, func(ctx context.Context, tx *store.Tx) error {
		return tx.RemoveViewItem(ctx, view, item)
	})
}

func check(view services.View, item string) error {
	if err := view.Check(); err != nil {
		return err
	}
	return services.CheckViewItem(item)
}

// onItem changes an item and leaves the job that brings the view in line.
func (s *Service) onItem(name string, view services.View, item string, change func(context.Context, *store.Tx) error) (*jobs.Command, error) {
	job, err := fanout.ViewItemJob(view, item)
	if err != nil {
		return nil, err
	}
	return &jobs.Command{
		Name: name,
		Apply: func(ctx context.Context, in *sql.Tx) ([]string, error) {
			tx := store.In(in)
			if err := change(ctx, tx); err != nil {
				return nil, err
			}
			return nil, jobs.Enqueue(ctx, tx.Tx, job)
		},
	}, nil
}

// Touch is the command by which a user looks at a view: what happened up to a time is no longer new for them; without a time,
// everything that is in it now. INVALID for a time that is in the future and beyond the newest item.
func (s *Service) Touch(user services.UserID, view services.View, upTo *time.Time) (*jobs.Command, error) {
	if err := view.Check(); err != nil {
		return nil, err
	}
	until := time.Time{}
	if upTo != nil {
		if upTo.Before(time.UnixMilli(0)) {
			return nil, services.Errorf(services.Invalid, "upTo: %s is before 1970", upTo.UTC().Format(time.RFC3339))
		}
		until = upTo.UTC()
	}
	return &jobs.Command{
		Name: "touchView", Actor: user,
		Apply: func(ctx context.Context, in *sql.Tx) ([]string, error) {
			tx := store.In(in)
			_, err := tx.TouchView(ctx, user, view, until, tx.Moment(s.fanout.Now))
			return nil, err
		},
	}, nil
}

// Page is a page of the views that a user has looked at.
type Page struct {
	Views   []services.ViewUnread
	HasNext bool
}

// List lists the views of some codes that a user has looked at, in the order of code and id, those after one, at most
// size, each with what is new in it.
func (s *Service) List(ctx context.Context, user services.UserID, codes []string, after services.View, size int) (Page, error) {
	if n := len(codes); n == 0 || n > maxCodes {
		return Page{}, services.Errorf(services.Invalid, "codes: 1 to %d are allowed, got %d", maxCodes, n)
	}
	for _, code := range codes {
		if err := services.CheckViewCode(code); err != nil {
			return Page{}, err
		}
	}
	accesses, err := s.store.Views(ctx, user, codes, after, size+1)
	if err != nil {
		return Page{}, err
	}
	page := Page{HasNext: len(accesses) > size}
	page.Views, err = s.unread(ctx, accesses[:min(size, len(accesses))])
	return page, err
}

// Read is one view as a user has it; NOT_FOUND when they never looked at it.
func (s *Service) Read(ctx context.Context, user services.UserID, view services.View) (services.ViewUnread, error) {
	access, found, err := s.store.View(ctx, user, view)
	if err == nil && !found {
		err = services.Errorf(services.NotFound, "id: the view %s %s was never looked at", view.Code, services.Quote(view.ID))
	}
	if err != nil {
		return services.ViewUnread{}, err
	}
	list, err := s.unread(ctx, []services.ViewAccess{access})
	if err != nil {
		return services.ViewUnread{}, err
	}
	return list[0], nil
}

// unread counts what is new for each access: in one round trip where Redis has the views. Otherwise it takes three: to find
// that some are missing, to mark them as being built before their facts are read, and to write them.
func (s *Service) unread(ctx context.Context, accesses []services.ViewAccess) ([]services.ViewUnread, error) {
	if len(accesses) == 0 {
		return nil, nil
	}
	counts, err := s.redis.CountViews(ctx, accesses)
	if err != nil {
		counts = make([]rdb.ViewCount, len(accesses))
	} else {
		err = s.rebuild(ctx, accesses, counts)
	}
	if err != nil && !services.IsUnavailable(err) {
		s.log.Error("views were not rebuilt; counting in SQL", "error", err)
	}
	if err := s.countFacts(ctx, accesses, counts); err != nil {
		return nil, err
	}
	list := make([]services.ViewUnread, len(accesses))
	for i, access := range accesses {
		precision := services.Exact
		if counts[i].More {
			precision = services.AtLeast
		}
		count := services.NewCount(counts[i].Count, precision, time.Time{})
		count.InTotal = false
		list[i] = services.ViewUnread{ViewAccess: access, Count: count}
	}
	return list, nil
}

// missing are the places of the counts that are not ready.
func missing(counts []rdb.ViewCount) (places []int) {
	for i, count := range counts {
		if !count.Ready {
			places = append(places, i)
		}
	}
	return places
}

// rebuild builds the missing views for the next reader. It does not read them again, which would be one round trip more: SQL
// counts them for this reader.
func (s *Service) rebuild(ctx context.Context, accesses []services.ViewAccess, counts []rdb.ViewCount) error {
	places := missing(counts)
	if len(places) == 0 {
		return nil
	}
	views := make([]services.View, len(places))
	for k, i := range places {
		views[k] = accesses[i].View
	}
	return s.fanout.RebuildViews(ctx, views)
}

// countFacts counts in SQL what is not ready.
func (s *Service) countFacts(ctx context.Context, accesses []services.ViewAccess, counts []rdb.ViewCount) error {
	places := missing(counts)
	if len(places) == 0 {
		return nil
	}
	asked := make([]services.ViewAccess, len(places))
	for k, i := range places {
		asked[k] = accesses[i]
	}
	facts, err := s.store.CountViewItems(ctx, asked, rdb.ViewKeep+1)
	if err != nil {
		return err
	}
	for k, i := range places {
		counts[i] = rdb.ViewCount{Ready: true, Count: min(facts[k], rdb.ViewKeep), More: facts[k] > rdb.ViewKeep}
	}
	return nil
}
