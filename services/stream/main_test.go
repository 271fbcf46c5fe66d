package stream

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/people/peopletest"
	"tidings/services/sql/sqltest"
)

func TestMain(m *testing.M) { os.Exit(m.Run()) }

// world is users whose badges a test sets.
type world struct {
	*peopletest.Bundle
	mu     sync.Mutex
	likes  map[services.UserID]int
	facts  map[services.UserID]uint64        // for a user in it, likes are site messages, whose facts have this version
	items  map[services.UserID]services.Item // the newest item
	nextAt map[services.UserID]time.Time     // when time alone changes the badges
	failed map[services.UserID]error         // of reading the badges
	since  time.Time                         // of the last look for newest items
	peeked func()                            // runs after badges were read, before anything is written
	shared uint64                            // what Config.Applied returns
}

func newWorld(b *peopletest.Bundle) *world {
	return &world{
		Bundle: b, likes: map[services.UserID]int{}, facts: map[services.UserID]uint64{}, items: map[services.UserID]services.Item{}, nextAt: map[services.UserID]time.Time{},
		failed: map[services.UserID]error{},
	}
}

// set sets the number of a user's likes, and the newest item if its id is not "".
func (w *world) set(user services.UserID, likes int, item string, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.likes[user] = likes
	if item != "" {
		w.items[user] = services.Item{ID: item, At: at}
	}
}

// peek is Config.Peek.
func (w *world) peek(_ context.Context, users []services.UserID) (badges []*services.Badges, errs []error) {
	w.mu.Lock()
	defer func() {
		w.mu.Unlock()
		if w.peeked != nil {
			w.peeked()
		}
	}()
	for _, user := range users {
		one := &services.Badges{NextAt: w.nextAt[user]}
		*one.Notifications.Of(services.CategoryLike) = services.NewCount(w.likes[user], services.Exact, time.Time{})
		if facts, some := w.facts[user]; some {
			*one.Notifications.Of(services.CategoryLike) = services.Count{}
			letters := services.MessageTypeCount{Type: "general", Count: services.NewCount(w.likes[user], services.Exact, time.Time{}), Version: facts}
			one.SiteMessages.Types = []services.MessageTypeCount{letters}
			one.Total = services.Sum(letters.Count)
			badges, errs = append(badges, one), append(errs, w.failed[user])
			continue
		}
		one.Total = services.Sum(*one.Notifications.Of(services.CategoryLike))
		badges, errs = append(badges, one), append(errs, w.failed[user])
	}
	return badges, errs
}

// newest is Config.Newest.
func (w *world) newest(_ context.Context, user services.UserID, _ *services.Badges, _ []services.Source, since time.Time) ([]services.Explanation, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.since = since
	item, some := w.items[user]
	if !some {
		return nil, nil
	}
	source, part := services.SourceNotifications, "LIKE"
	if _, letters := w.facts[user]; letters {
		source, part = services.SourceSiteMessages, "general"
	}
	return []services.Explanation{{Source: source, Part: part, Items: []services.Item{item}}}, nil
}

// node makes a stream that is on, with a lease of a tenth of a second and no lap after the first.
func (w *world) node() *Service {
	s := New(Config{
		DB: w.DB, Peek: w.peek, Newest: w.newest, Applied: func() uint64 { return w.shared },
		ActiveSince: func() time.Time { return time.Time{} }, Clock: services.SystemClock{}, Log: slog.New(slog.DiscardHandler),
		Always: true, Lap: 24 * time.Hour, Lease: 100 * time.Millisecond,
	})
	s.cfg.Interval = -time.Second // marked users are due at once
	return s
}

// step runs the node's work until none is left.
func (w *world) step(s *Service) {
	w.T.Helper()
	for more := true; more; {
		more = sqltest.Must(s.RunOnce(w.Ctx))(w.T)
	}
}

// totals are the users' totals in the stream after a position, and the position after them.
func (w *world) totals(s *Service, after uint64) (totals map[services.UserID]int, end uint64) {
	w.T.Helper()
	totals, end = map[services.UserID]int{}, after
	for _, change := range sqltest.Must(s.ChangesAfter(w.Ctx, after, 1000))(w.T) {
		if change.Seq <= end {
			w.T.Fatalf("position %d after %d", change.Seq, end)
		}
		end, totals[change.User] = change.Seq, change.State.Total.Value
	}
	return totals, end
}
