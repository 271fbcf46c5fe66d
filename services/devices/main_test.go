package devices

import (
	"context"
	"log/slog"
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

// testVAPIDKeys are the keys of all tests.
var testVAPIDKeys = func() VAPIDKeys {
	private, _, err := NewVAPIDKeys()
	if err != nil {
		panic(err)
	}
	made, reason := ParseVAPIDKeys(private, "mailto:ops@example.com")
	if reason != "" {
		panic(reason)
	}
	return made
}()

// deviceWorld is users whose badges a test sets, the stream of their changes and one push service.
type deviceWorld struct {
	*peopletest.TestDB
	mu           sync.Mutex                        // guards the four fields below
	unreadLikes  map[services.UserID]int           // the unread likes of each user, which are their badges
	newestLikes  map[services.UserID]services.Item // the newest like of each user
	online       map[services.UserID]bool          // who has an open socket
	inQuietHours bool                              // all users have quiet hours now

	stream      *stream.Service
	pushService *devicestest.PushService
	browsers    map[string]*devicestest.Browser // by name
}

// newDeviceWorld makes a world whose change stream is always on.
func newDeviceWorld(b *peopletest.TestDB) *deviceWorld { return newDeviceWorldWithStream(b, true) }

// newDeviceWorldWithStream makes a world whose change stream is always on, or only while somebody reads it. The laps of the stream
// find no user, so it compares only users who were marked.
func newDeviceWorldWithStream(b *peopletest.TestDB, alwaysOn bool) *deviceWorld {
	w := &deviceWorld{
		TestDB: b, unreadLikes: map[services.UserID]int{}, newestLikes: map[services.UserID]services.Item{}, online: map[services.UserID]bool{},
		pushService: devicestest.NewPushService(b.T, testVAPIDKeys.Public), browsers: map[string]*devicestest.Browser{},
	}
	w.stream = stream.New(stream.Config{
		DB: b.DB, Peek: w.peekBadges, NewestItems: w.newestItems, SharedChanges: func() uint64 { return 0 }, ActiveSince: func() time.Time { return time.Now().Add(24 * time.Hour) },
		Clock: services.SystemClock{}, Log: slog.New(slog.DiscardHandler), Settings: stream.Settings{AlwaysOn: alwaysOn, ChangeInterval: -time.Second, LapInterval: 24 * time.Hour},
	})
	w.writeStreamChanges()
	return w
}

// peekBadges gives the stream the badges of users.
func (w *deviceWorld) peekBadges(_ context.Context, users []services.UserID) (list []*services.Badges, errs []error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, user := range users {
		one := &services.Badges{Quiet: w.inQuietHours}
		*one.Notifications.Of(services.CategoryLike) = services.NewCount(w.unreadLikes[user], services.Exact, time.Time{})
		one.Notifications.Of(services.CategoryLike).InTotal = true
		one.Total = services.Sum(*one.Notifications.Of(services.CategoryLike))
		list, errs = append(list, one), append(errs, nil)
	}
	return list, errs
}

// newestItems gives the stream the newest item of a user.
func (w *deviceWorld) newestItems(_ context.Context, user services.UserID, _ *services.Badges, _ []services.Source, _ time.Time) ([]services.Explanation, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	item, some := w.newestLikes[user]
	if !some {
		return nil, nil
	}
	return []services.Explanation{{Source: services.SourceNotifications, Part: "LIKE", Items: []services.Item{item}}}, nil
}

// setLikes sets a user's likes as of now, and writes the change to the stream. A rise makes a new item, which may alert.
func (w *deviceWorld) setLikes(likes int, users ...services.UserID) {
	w.T.Helper()
	w.mu.Lock()
	for _, user := range users {
		if likes > w.unreadLikes[user] {
			w.newestLikes[user] = services.Item{ID: "notification:1", At: time.Now()}
		} else if likes == 0 {
			delete(w.newestLikes, user)
		}
		w.unreadLikes[user] = likes
	}
	w.mu.Unlock()
	sqltest.Equal(w.T, w.stream.Mark(w.Ctx, users), nil)
	w.writeStreamChanges()
}

// writeStreamChanges lets the stream write all changes of marked users.
func (w *deviceWorld) writeStreamChanges() {
	w.T.Helper()
	for more := true; more; {
		more = sqltest.Must(w.stream.RunOnce(w.Ctx))(w.T)
	}
}

// newNode makes the Web Push of one node, which may call push services on loopback.
func (w *deviceWorld) newNode(change ...func(*Config)) *Service {
	cfg := Config{
		DB: w.DB, Stream: w.stream, Node: "node", Clock: w.Clock, Log: slog.New(slog.DiscardHandler),
		Settings: Settings{VAPIDPrivateKey: testVAPIDKeys.Private, VAPIDSubject: testVAPIDKeys.Subject, Timeout: 5 * time.Second, Allow: []string{"127.0.0.0/8"}},
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
func (w *deviceWorld) register(s *Service, user services.UserID, name string) Registration {
	w.T.Helper()
	b := w.browsers[name]
	if b == nil {
		b = w.pushService.Subscribe(name)
		w.browsers[name] = b
	}
	return sqltest.Must(s.Register(w.Ctx, user, NewDevice{Endpoint: b.Endpoint, P256dh: b.P256dh, Auth: b.Auth, Silent: true}))(w.T)
}

// leaseName is the name of the row that is leased.
const leaseName = "devices"

// newTestSender makes the deviceSender of a node.
func newTestSender(s *Service) *deviceSender { return s.newDeviceSender(s.pool.Lease(leaseName)) }

// sendAllDue sends until nothing is left to do now.
func (w *deviceWorld) sendAllDue(c *deviceSender) {
	w.T.Helper()
	for range 5000 {
		wait, err := c.Step(w.Ctx)
		if err != nil {
			w.T.Fatal(err)
		}
		if wait == pollInterval {
			return
		}
		c.runningRequests.Wait()
	}
	w.T.Fatal("there is always something to send")
}

// lastTotalInBrowser is the total that a browser got last; 0 for none.
func (w *deviceWorld) lastTotalInBrowser(name string) int {
	m, _ := w.pushService.LastMessage(name)
	return m.Total
}

// deviceCounts reads how many devices there are, and how many messages were sent to them.
func (w *deviceWorld) deviceCounts(s *Service) Counts {
	w.T.Helper()
	return sqltest.Must(s.Counts(w.Ctx))(w.T)
}
