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

// testWorld is users whose badges a test sets.
type testWorld struct {
	*peopletest.TestDB
	mu                   sync.Mutex                        // guards the maps and lastNewestItemsSince
	likes                map[services.UserID]int           // the number of unread likes
	siteMessageVersions  map[services.UserID]uint64        // for a user in it, likes counts site messages, whose facts have this version
	newestItem           map[services.UserID]services.Item // the newest item
	newestIsAhead        map[services.UserID]bool          // the count lacks some of the newest items
	nextChangeAt         map[services.UserID]time.Time     // when time alone changes the badges
	badgeReadErrors      map[services.UserID]error         // the error of reading the badges, if any
	lastNewestItemsSince time.Time                         // the time since which readNewestItems was last asked for items
	afterBadgesRead      func()                            // runs after badges were read, before anything is written
	appliedSharedChanges uint64                            // what Config.SharedChanges returns
}

func newTestWorld(b *peopletest.TestDB) *testWorld {
	return &testWorld{
		TestDB: b, likes: map[services.UserID]int{}, siteMessageVersions: map[services.UserID]uint64{}, newestItem: map[services.UserID]services.Item{}, newestIsAhead: map[services.UserID]bool{}, nextChangeAt: map[services.UserID]time.Time{},
		badgeReadErrors: map[services.UserID]error{},
	}
}

// setLikes sets the number of a user's likes, and the newest item if its id is not "".
func (w *testWorld) setLikes(user services.UserID, likes int, item string, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.likes[user] = likes
	if item != "" {
		w.newestItem[user] = services.Item{ID: item, At: at}
	}
}

// peekBadges makes badges from what the test has set. It is the stream's Config.Peek.
func (w *testWorld) peekBadges(_ context.Context, users []services.UserID) (badges []*services.Badges, errs []error) {
	w.mu.Lock()
	defer func() {
		w.mu.Unlock()
		if w.afterBadgesRead != nil {
			w.afterBadgesRead()
		}
	}()
	for _, user := range users {
		one := &services.Badges{NextAt: w.nextChangeAt[user]}
		*one.Notifications.Of(services.CategoryLike) = services.NewCount(w.likes[user], services.Exact, time.Time{})
		if facts, some := w.siteMessageVersions[user]; some {
			*one.Notifications.Of(services.CategoryLike) = services.Count{}
			letters := services.MessageTypeCount{Type: "general", Count: services.NewCount(w.likes[user], services.Exact, time.Time{}), Version: facts}
			one.SiteMessages.Types = []services.MessageTypeCount{letters}
			one.Total = services.Sum(letters.Count)
			badges, errs = append(badges, one), append(errs, w.badgeReadErrors[user])
			continue
		}
		one.Total = services.Sum(*one.Notifications.Of(services.CategoryLike))
		badges, errs = append(badges, one), append(errs, w.badgeReadErrors[user])
	}
	return badges, errs
}

// readNewestItems returns the newest item that the test has set. It is the stream's Config.NewestItems.
func (w *testWorld) readNewestItems(_ context.Context, user services.UserID, _ *services.Badges, _ []services.Source, since time.Time) ([]services.Explanation, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lastNewestItemsSince = since
	item, some := w.newestItem[user]
	if !some {
		return nil, nil
	}
	source, part := services.SourceNotifications, "LIKE"
	if _, letters := w.siteMessageVersions[user]; letters {
		source, part = services.SourceSiteMessages, "general"
	}
	return []services.Explanation{{Source: source, Part: part, Items: []services.Item{item}, Ahead: w.newestIsAhead[user]}}, nil
}

// newService makes a stream that is on, with a lease of a tenth of a second and no lap after the first.
func (w *testWorld) newService() *Service {
	s := New(Config{
		DB: w.DB, Peek: w.peekBadges, NewestItems: w.readNewestItems, SharedChanges: func() uint64 { return w.appliedSharedChanges },
		ActiveSince: func() time.Time { return time.Time{} }, Clock: services.SystemClock{}, Log: slog.New(slog.DiscardHandler),
		Settings: Settings{AlwaysOn: true, LapInterval: 24 * time.Hour}, Lease: 100 * time.Millisecond,
	})
	s.cfg.ChangeInterval = -time.Second // marked users are due at once
	return s
}

// runUntilIdle runs the steps of a stream until no work is left.
func (w *testWorld) runUntilIdle(s *Service) {
	w.T.Helper()
	for more := true; more; {
		more = sqltest.Must(s.RunOnce(w.Ctx))(w.T)
	}
}

// totalsAfter are the users' totals in the stream after a position, and the position after them.
func (w *testWorld) totalsAfter(s *Service, after uint64) (totals map[services.UserID]int, end uint64) {
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
