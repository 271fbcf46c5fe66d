package devices

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"tidings/services/devices/devicestest"
	"tidings/services/outbound"
	"tidings/services/outbound/outboundtest"
	"tidings/services/people/peopletest"
	"tidings/services/sql/sqltest"
	"tidings/tests/eventually"
)

// A device that its push service does not know any more is removed; nothing is sent to it again.
func TestGoneDevicesAreRemoved(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		t := b.T
		w := newDeviceWorld(b)
		users := b.MakeUsers("ann", "bob")
		s := w.newNode()
		c := newTestSender(s)
		for i, status := range []int{http.StatusNotFound, http.StatusGone} {
			w.register(s, users[i], fmt.Sprint(status))
			w.pushService.SetAnswerStatus(status)
			w.setLikes(1, users[i])
			w.sendAllDue(c)
			w.setLikes(2, users[i])
			w.sendAllDue(c)
			sqltest.Equal(t, len(w.pushService.TakeArrivals()), 1)
			sqltest.Equal(t, len(sqltest.Must(s.List(b.Ctx, users[i]))(t)), 0)
			sqltest.Equal(t, s.Stats().RemovedDevices, uint64(i+1))
		}
	})
}

// However a push service fails, the device is tried again, and then has the newest number.
func TestDevicesAreRetriedHoweverAPushServiceFails(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter, r *http.Request) // what the push service does with each message
		err    string                                       // a part of the error that the device then has
	}{
		"400":      {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(400) }, "the receiver answered 400"},
		"403":      {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(403) }, "the receiver answered 403"},
		"500":      {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, "the receiver answered 500"},
		"redirect": {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Location", "/other"); w.WriteHeader(307) }, "redirects are not followed"},
		"hang":     {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "there was no answer within 2s"},
		"garbage": {func(w http.ResponseWriter, _ *http.Request) {
			outboundtest.AnswerGarbage(w, "\x00\x01not HTTP\r\n\r\n")
		}, "malformed HTTP"},
		"hang up": {func(w http.ResponseWriter, _ *http.Request) { outboundtest.AnswerGarbage(w, "") }, "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			b := peopletest.NewTestDB(t, sqltest.SQLite(t))
			w := newDeviceWorld(b)
			user := b.MakeUsers("ann")[0]
			timeout := 30 * time.Second // longer than any answer takes on a busy machine
			if name == "hang" {
				timeout = 2 * time.Second
			}
			s := w.newNode(func(cfg *Config) { cfg.Timeout = timeout })
			co := newTestSender(s)
			w.register(s, user, "phone")
			w.pushService.SetAnswer(func(to http.ResponseWriter, r *http.Request, _ devicestest.Message) bool {
				c.answer(to, r)
				return false
			})
			w.setLikes(1, user)
			w.sendAllDue(co)
			if list := sqltest.Must(s.List(b.Ctx, user))(t); list[0].FailingSince.IsZero() || !strings.Contains(list[0].Error, c.err) {
				t.Errorf("%+v", list)
			}
			// The deviceSender may have its error before the push service has ended its handler.
			eventually.Holds(t, "the push service sees that nobody waits", func() bool { return w.pushService.RequestsUnderway() == 0 })
			w.pushService.SetAnswer(nil)
			w.setLikes(2, user)
			w.sendAllDue(co)
			sqltest.Equal(t, w.lastTotalInBrowser("phone"), 0) // the pause is not over
			b.Clock.Advance(10 * time.Second)
			w.sendAllDue(co)
			sqltest.Equal(t, w.lastTotalInBrowser("phone"), 2)
			if list := sqltest.Must(s.List(b.Ctx, user))(t); !list[0].FailingSince.IsZero() || list[0].Error != "" || list[0].DeliveredAt.IsZero() {
				t.Errorf("%+v", list)
			}
		})
	}
}

// Any user can name a push service. If its certificate has a name with a NUL, which PostgreSQL refuses in a text, the other
// devices still get their messages.
func TestANULInACertificateNameStopsNobodyElse(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		t := b.T
		w := newDeviceWorld(b)
		users := b.MakeUsers("ann", "bob")
		s := w.newNode()
		c := newTestSender(s)
		bad := devicestest.NewBrowser(outboundtest.StartServerWithNames(t, "a\x00b.example") + "/1")
		sqltest.Must(s.Register(b.Ctx, users[0], NewDevice{Endpoint: bad.Endpoint, P256dh: bad.P256dh, Auth: bad.Auth, Silent: true}))(t)
		w.register(s, users[1], "phone")
		w.setLikes(1, users...)
		w.sendAllDue(c)
		w.setLikes(2, users...)
		w.sendAllDue(c)
		sqltest.Equal(t, w.lastTotalInBrowser("phone"), 2)
		if list := sqltest.Must(s.List(b.Ctx, users[0]))(t); list[0].FailingSince.IsZero() || !strings.Contains(list[0].Error, "certificate is valid for a\uFFFDb.example") {
			t.Errorf("%+v", list)
		}
	})
}

// If the push service asks to wait for a device, the device gets nothing before the wait ends.
func TestRetryAfter(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		t := b.T
		w := newDeviceWorld(b)
		user := b.MakeUsers("ann")[0]
		s := w.newNode()
		c := newTestSender(s)
		w.register(s, user, "phone")
		w.pushService.SetAnswer(func(to http.ResponseWriter, _ *http.Request, _ devicestest.Message) bool {
			to.Header().Set("Retry-After", "120")
			to.WriteHeader(http.StatusTooManyRequests)
			return false
		})
		w.setLikes(1, user)
		w.sendAllDue(c)
		sqltest.Equal(t, len(w.pushService.TakeArrivals()), 1)
		w.pushService.SetAnswer(nil)
		b.Clock.Advance(119 * time.Second)
		w.setLikes(2, user)
		w.sendAllDue(c)
		sqltest.Equal(t, len(w.pushService.TakeArrivals()), 0)
		b.Clock.Advance(time.Second)
		w.sendAllDue(c)
		sqltest.Equal(t, w.lastTotalInBrowser("phone"), 2)
	})
}

// A device that fails for a day is given up, until its user's next change.
func TestADeviceIsGivenUpAfterADayOfFailures(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		t := b.T
		w := newDeviceWorld(b)
		users := b.MakeUsers("ann", "bob")
		s := w.newNode()
		c := newTestSender(s)
		w.register(s, users[0], "broken")
		w.register(s, users[1], "whole")
		w.pushService.SetAnswer(func(to http.ResponseWriter, r *http.Request, _ devicestest.Message) bool {
			if broken := strings.HasSuffix(r.URL.Path, "broken"); broken {
				to.WriteHeader(http.StatusForbidden)
				return false
			}
			to.WriteHeader(http.StatusCreated)
			return true
		})
		w.setLikes(1, users...)
		for range 26 {
			w.sendAllDue(c)
			b.Clock.Advance(time.Hour)
		}
		if got := w.deviceCounts(s); got.Dead != 1 || got.Waiting != 0 || got.Registered != 2 {
			t.Errorf("%+v", got)
		}
		sqltest.Equal(t, w.lastTotalInBrowser("whole"), 1)
		tries := len(w.pushService.TakeArrivals())
		if tries < 20 || tries > 40 {
			t.Errorf("%d requests in a day", tries)
		}
		b.Clock.Advance(48 * time.Hour)
		w.sendAllDue(c)
		sqltest.Equal(t, len(w.pushService.TakeArrivals()), 0)
		w.pushService.SetAnswer(nil)
		w.setLikes(4, users[0])
		w.sendAllDue(c)
		sqltest.Equal(t, w.lastTotalInBrowser("broken"), 4)
		sqltest.Equal(t, w.deviceCounts(s).Dead, 0)
	})
}

// A push service that is down gets one request at a time. Everybody has the newest number after it is back, and no device was given up
// meanwhile.
func TestPushServiceIsDown(t *testing.T) {
	b := peopletest.NewTestDB(t, sqltest.SQLite(t))
	w := newDeviceWorld(b)
	var names []string
	for i := range 60 {
		names = append(names, fmt.Sprint("u", i))
	}
	users := b.MakeUsers(names...)
	s := w.newNode(func(cfg *Config) { cfg.RequestsPerService = 4 })
	c := newTestSender(s)
	for i, user := range users {
		w.register(s, user, names[i])
	}
	w.setLikes(1, users[0])
	w.sendAllDue(c) // from now on the push service is one that has accepted a message
	w.pushService.TakeArrivals()
	w.pushService.SetAnswerStatus(http.StatusServiceUnavailable)
	w.setLikes(1, users...)
	w.sendAllDue(c)
	if got := len(w.pushService.TakeArrivals()); got < outbound.FailuresUntilDown || got > outbound.FailuresUntilDown+4 {
		t.Errorf("%d requests until it was known to be down", got)
	}
	for range 12 {
		b.Clock.Advance(outbound.LongestDownPause)
		w.sendAllDue(c)
	}
	sqltest.Equal(t, len(w.pushService.TakeArrivals()), 12)
	w.pushService.SetAnswer(nil)
	w.setLikes(2, users...)
	b.Clock.Advance(30 * time.Hour)
	w.sendAllDue(c)
	for i := range users {
		sqltest.Equal(t, w.lastTotalInBrowser(names[i]), 2)
	}
	if got := w.deviceCounts(s); got.Dead != 0 || got.Waiting != 0 {
		t.Errorf("%+v", got)
	}
}

// A push service that hangs does not hold up another one. Nor do many that hang and have accepted nothing yet.
func TestSlowPushServiceHoldsNoOther(t *testing.T) {
	b := peopletest.NewTestDB(t, sqltest.SQLite(t))
	w := newDeviceWorld(b)
	var names []string
	for i := range 40 {
		names = append(names, fmt.Sprint("u", i))
	}
	users := b.MakeUsers(names...)
	s := w.newNode(func(cfg *Config) { cfg.Timeout = 30 * time.Second })
	s.maxPerStep = 10
	c := newTestSender(s)
	w.register(s, users[0], "phone")
	w.setLikes(1, users[0])
	w.sendAllDue(c)
	sqltest.Equal(t, w.lastTotalInBrowser("phone"), 1)
	var slow []*devicestest.PushService
	for i := range 12 {
		one := devicestest.NewPushService(t, testVAPIDKeys.Public)
		one.SetAnswer(func(_ http.ResponseWriter, r *http.Request, _ devicestest.Message) bool {
			<-r.Context().Done()
			return false
		})
		slow = append(slow, one)
		for _, user := range users[:1+i] {
			browser := one.Subscribe(fmt.Sprint(user))
			sqltest.Must(s.Register(b.Ctx, user, NewDevice{Endpoint: browser.Endpoint, P256dh: browser.P256dh, Auth: browser.Auth, Silent: true}))(t)
		}
	}
	w.setLikes(2, users...)
	for i := range 5 {
		w.setLikes(i+3, users...)
		eventually.HoldsWithin(t, 20*time.Second, "the phone has the number", func() bool {
			sqltest.Must(c.Step(b.Ctx))(t)
			return w.lastTotalInBrowser("phone") == i+3
		})
	}
	under := 0
	for _, one := range slow {
		under += one.RequestsUnderway()
	}
	if under == 0 || under > maxRequestsToUnprovenServices {
		t.Errorf("%d requests hang", under)
	}
	for _, one := range slow {
		one.Close()
	}
	c.runningRequests.Wait()
}
