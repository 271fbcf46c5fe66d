package devices

import (
	"context"
	"log/slog"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/devices/devicestest"
	"tidings/services/people/peopletest"
	"tidings/services/sql/sqltest"
	"tidings/services/stream"
)

func TestMain(m *testing.M) { os.Exit(m.Run()) }

// keys are the keys of all tests.
var keys = func() Keys {
	private, _, err := NewKeys()
	if err != nil {
		panic(err)
	}
	made, reason := ParseKeys(private, "mailto:ops@example.com")
	if reason != "" {
		panic(reason)
	}
	return made
}()

// world is users whose badges a test sets, the stream of their changes and one push service.
type world struct {
	*peopletest.Bundle
	mu     sync.Mutex
	likes  map[services.UserID]int           // the unread likes of each user, which are their badges
	items  map[services.UserID]services.Item // the newest like of each user
	online map[services.UserID]bool          // who has an open socket
	quiet  bool                              // all users have quiet hours now

	stream   *stream.Service
	push     *devicestest.Service
	browsers map[string]*devicestest.Browser // by name
}

func newWorld(b *peopletest.Bundle) *world { return newWorldWith(b, true) }

// newWorldWith makes a world whose change stream is always on, or only while somebody reads it. The laps of the stream find no
// user, so it compares only users who were marked.
func newWorldWith(b *peopletest.Bundle, always bool) *world {
	w := &world{
		Bundle: b, likes: map[services.UserID]int{}, items: map[services.UserID]services.Item{}, online: map[services.UserID]bool{},
		push: devicestest.NewService(b.T, keys.Public), browsers: map[string]*devicestest.Browser{},
	}
	w.stream = stream.New(stream.Config{
		DB: b.DB, Peek: w.peek, Newest: w.newest, Applied: func() uint64 { return 0 }, ActiveSince: func() time.Time { return time.Now().Add(24 * time.Hour) },
		Clock: services.SystemClock{}, Log: slog.New(slog.DiscardHandler), Always: always, Interval: -time.Second, Lap: 24 * time.Hour,
	})
	w.write()
	return w
}

// peek gives the stream the badges of users.
func (w *world) peek(_ context.Context, users []services.UserID) (list []*services.Badges, errs []error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, user := range users {
		one := &services.Badges{Quiet: w.quiet}
		*one.Notifications.Of(services.CategoryLike) = services.NewCount(w.likes[user], services.Exact, time.Time{})
		one.Notifications.Of(services.CategoryLike).InTotal = true
		one.Total = services.Sum(*one.Notifications.Of(services.CategoryLike))
		list, errs = append(list, one), append(errs, nil)
	}
	return list, errs
}

// newest gives the stream the newest item of a user.
func (w *world) newest(_ context.Context, user services.UserID, _ *services.Badges, _ []services.Source, _ time.Time) ([]services.Explanation, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	item, some := w.items[user]
	if !some {
		return nil, nil
	}
	return []services.Explanation{{Source: services.SourceNotifications, Part: "LIKE", Items: []services.Item{item}}}, nil
}

// like sets a user's likes as of now, and writes the change to the stream. A rise makes a new item, which may alert.
func (w *world) like(likes int, users ...services.UserID) {
	w.T.Helper()
	w.mu.Lock()
	for _, user := range users {
		if likes > w.likes[user] {
			w.items[user] = services.Item{ID: "notification:1", At: time.Now()}
		} else if likes == 0 {
			delete(w.items, user)
		}
		w.likes[user] = likes
	}
	w.mu.Unlock()
	sqltest.Equal(w.T, w.stream.Mark(w.Ctx, users), nil)
	w.write()
}

// write lets the stream write all changes of marked users.
func (w *world) write() {
	w.T.Helper()
	for more := true; more; {
		more = sqltest.Must(w.stream.RunOnce(w.Ctx))(w.T)
	}
}

// newNode makes the Web Push of one node, which may call push services on loopback.
func (w *world) newNode(change ...func(*Config)) *Service {
	cfg := Config{
		DB: w.DB, Stream: w.stream, Node: "node", Keys: keys, Clock: w.Clock, Log: slog.New(slog.DiscardHandler), Timeout: 5 * time.Second,
		Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		Online: func(_ context.Context, users []services.UserID) (map[services.UserID]bool, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			online := map[services.UserID]bool{}
			for _, user := range users {
				online[user] = w.online[user]
			}
			return online, nil
		},
	}
	for _, one := range change {
		one(&cfg)
	}
	s := New(cfg)
	s.hasDevices.Store(true)
	w.T.Cleanup(s.client.CloseIdle)
	return s
}

// register registers the browser of a name for a user.
func (w *world) register(s *Service, user services.UserID, name string) Registered {
	w.T.Helper()
	b := w.browsers[name]
	if b == nil {
		b = w.push.Subscribe(name)
		w.browsers[name] = b
	}
	return sqltest.Must(s.Register(w.Ctx, user, NewDevice{Endpoint: b.Endpoint, P256dh: b.P256dh, Auth: b.Auth, Silent: true}))(w.T)
}

// newCourier makes the courier of a node.
func newCourier(s *Service) *courier { return s.newCourier(s.pool.Lease(leaseName)) }

// settle sends until nothing is left to do now.
func (w *world) settle(c *courier) {
	w.T.Helper()
	for range 5000 {
		wait, err := c.Step(w.Ctx)
		if err != nil {
			w.T.Fatal(err)
		}
		if wait == poll {
			return
		}
		c.sending.Wait()
	}
	w.T.Fatal("there is always something to send")
}

// lastOf is the total that a browser got last; 0 for none.
func (w *world) lastOf(name string) int {
	m, _ := w.push.Last(name)
	return m.Total
}

// counts are the numbers of all devices.
func (w *world) counts(s *Service) Counts {
	w.T.Helper()
	return sqltest.Must(s.Counts(w.Ctx))(w.T)
}
