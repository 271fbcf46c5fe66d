package devices

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/devices/devicestest"
	"tidings/services/leases"
	"tidings/services/people/peopletest"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
	"tidings/services/stream"
)

// endLease ends the lease of the node that sends.
var endLease = sql.AdHoc("the lease ends", `UPDATE device_readers SET until_us = 0`)

// The number on the icon rises with an alert and falls in silence, down to 0. Each device of the user gets it, and no device of another
// user.
func TestIconRisesWithAnAlertAndFallsSilently(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		t := b.T
		w := newDeviceWorld(b)
		users := b.MakeUsers("ann", "bob")
		s := w.newNode()
		c := newTestSender(s)
		w.setLikes(1, users...)
		w.register(s, users[0], "phone")
		w.register(s, users[0], "tablet")
		w.sendAllDue(c)
		for _, a := range w.pushService.TakeArrivals() { // items from before the registration do not alert
			if m := a.Message; m.Total != 1 || !m.Silent || m.Alert != nil || m.UserID != "user:ann" {
				t.Errorf("%+v", a)
			}
		}
		w.setLikes(3, users[0])
		w.sendAllDue(c)
		got := w.pushService.TakeArrivals()
		if len(got) != 2 {
			t.Fatalf("%+v", got)
		}
		for _, a := range got {
			m := a.Message
			if m.Total != 3 || m.Display != "3" || m.Silent || m.Alert == nil || *m.Alert != m.Version || m.Cause == nil || m.Cause.ItemID != "notification:1" || *m.Cause.Part != "LIKE" {
				t.Errorf("%+v", m)
			}
		}
		w.setLikes(2, users[0])
		w.sendAllDue(c)
		m, _ := w.pushService.LastMessage("phone")
		if m.Total != 2 || !m.Silent || m.Alert == nil || m.Cause == nil {
			t.Errorf("a fall is silent, and what is unread is still to be alerted of where it was not: %+v", m)
		}
		w.setLikes(0, users[0])
		w.sendAllDue(c)
		for _, name := range []string{"phone", "tablet"} {
			if m, some := w.pushService.LastMessage(name); !some || m.Total != 0 || !m.Silent || m.Alert != nil {
				t.Errorf("%s: %+v", name, m)
			}
		}
		w.pushService.TakeArrivals()
		w.setLikes(7, users[1])
		w.sendAllDue(c)
		sqltest.Equal(t, len(w.pushService.TakeArrivals()), 0)
		if got := w.deviceCounts(s); got.Registered != 2 || got.Waiting != 0 || got.DeliveredMessages != 8 || got.FailedRequests != 0 {
			t.Errorf("%+v", got)
		}
	})
}

// A device that wants no silent messages gets only messages that alert.
func TestADeviceThatIsNotSilentGetsOnlyAlerts(t *testing.T) {
	b := peopletest.NewTestDB(t, sqltest.SQLite(t))
	w := newDeviceWorld(b)
	user := b.MakeUsers("ann")[0]
	s := w.newNode()
	c := newTestSender(s)
	w.setLikes(1, user)
	browser := w.pushService.Subscribe("loud")
	sqltest.Must(s.Register(b.Ctx, user, NewDevice{Endpoint: browser.Endpoint, P256dh: browser.P256dh, Auth: browser.Auth}))(t)
	for _, likes := range []int{1, 3, 2, 0, 4, 0} {
		w.setLikes(likes, user)
		w.sendAllDue(c)
	}
	var totals []int
	for _, a := range w.pushService.TakeArrivals() {
		totals = append(totals, a.Message.Total)
	}
	sqltest.Equal(t, totals, []int{3, 4})
}

// In quiet hours the number changes in silence, and items that came in quiet hours do not alert afterwards.
func TestItemsOfQuietHoursNeverAlert(t *testing.T) {
	b := peopletest.NewTestDB(t, sqltest.SQLite(t))
	w := newDeviceWorld(b)
	user := b.MakeUsers("ann")[0]
	s := w.newNode()
	c := newTestSender(s)
	w.register(s, user, "phone")
	hours := func(quiet bool) {
		w.mu.Lock()
		w.inQuietHours = quiet
		w.mu.Unlock()
	}
	hours(true)
	w.setLikes(3, user)
	w.sendAllDue(c)
	if m, _ := w.pushService.LastMessage("phone"); m.Total != 3 || !m.Silent || m.Alert != nil {
		t.Errorf("in quiet hours: %+v", m)
	}
	hours(false)
	w.setLikes(2, user)
	w.sendAllDue(c)
	if m, _ := w.pushService.LastMessage("phone"); m.Total != 2 || !m.Silent || m.Alert != nil {
		t.Errorf("after quiet hours: %+v", m)
	}
	w.setLikes(4, user)
	w.sendAllDue(c)
	if m, _ := w.pushService.LastMessage("phone"); m.Total != 4 || m.Silent || m.Alert == nil {
		t.Errorf("the next day: %+v", m)
	}
}

// With the setting OnlyAway, the devices of a user with an open socket get nothing until the socket is closed. Then they get the
// number, and items that the socket showed do not alert again.
func TestDevicesWaitWhileASocketIsOpen(t *testing.T) {
	b := peopletest.NewTestDB(t, sqltest.SQLite(t))
	w := newDeviceWorld(b)
	users := b.MakeUsers("ann", "bob")
	s := w.newNode(func(cfg *Config) { cfg.OnlyAway = true })
	c := newTestSender(s)
	w.register(s, users[0], "ann's")
	w.register(s, users[1], "bob's")
	w.online[users[0]] = true
	w.setLikes(2, users...)
	w.sendAllDue(c)
	got := w.pushService.TakeArrivals()
	if len(got) != 1 || got[0].BrowserName != "bob's" {
		t.Fatalf("%+v", got)
	}
	b.Clock.Advance(minOnlineRecheckPause)
	w.sendAllDue(c)
	sqltest.Equal(t, len(w.pushService.TakeArrivals()), 0)
	w.mu.Lock()
	w.online[users[0]] = false
	w.mu.Unlock()
	b.Clock.Advance(maxOnlineRecheckPause)
	w.sendAllDue(c)
	got = w.pushService.TakeArrivals()
	if len(got) != 1 || got[0].Message.Total != 2 || !got[0].Message.Silent || got[0].Message.Alert != nil {
		t.Errorf("%+v", got)
	}
}

// A change that comes after the last socket was closed alerts at once, even if an earlier change that the socket showed still
// waits.
func TestOpenSocketsAlertAtOnceAfterTheClose(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		t := b.T
		w := newDeviceWorld(b)
		users := b.MakeUsers("ann", "bob")
		s := w.newNode(func(cfg *Config) { cfg.OnlyAway = true })
		c := newTestSender(s)
		w.register(s, users[0], "ann's")
		w.register(s, users[1], "bob's")
		open := func(is bool) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.online[users[0]], w.online[users[1]] = is, is
		}
		open(true)
		w.setLikes(1, users[0]) // ann's open socket shows it; bob has no change yet
		w.sendAllDue(c)
		b.Clock.Advance(maxOnlineRecheckPause) // the socket has been open for long
		w.sendAllDue(c)
		sqltest.Equal(t, len(w.pushService.TakeArrivals()), 0)
		open(false)
		b.Clock.Advance(time.Second)
		w.setLikes(2, users...)
		w.sendAllDue(c)
		got := w.pushService.TakeArrivals()
		sqltest.Equal(t, len(got), 2)
		for _, one := range got {
			if one.Message.Total != 2 || one.Message.Silent || one.Message.Cause == nil {
				t.Errorf("after the close: %+v", one)
			}
		}
		open(true)
		w.setLikes(3, users...)
		w.sendAllDue(c)
		open(false)
		b.Clock.Advance(minOnlineRecheckPause)
		w.sendAllDue(c)
		got = w.pushService.TakeArrivals()
		sqltest.Equal(t, len(got), 2)
		for _, one := range got {
			if one.Message.Total != 3 || !one.Message.Silent {
				t.Errorf("what the sockets showed: %+v", one)
			}
		}
	})
}

// However many changes there are, a device gets one message for all changes that came while none was sent.
func TestABurstIsOneMessagePerDevice(t *testing.T) {
	b := peopletest.NewTestDB(t, sqltest.SQLite(t))
	w := newDeviceWorld(b)
	var names []string
	for i := range 300 {
		names = append(names, fmt.Sprintf("u%03d", i))
	}
	users := b.MakeUsers(names...)
	s := w.newNode()
	c := newTestSender(s)
	for i, user := range users {
		w.register(s, user, names[i])
	}
	w.sendAllDue(c)
	w.pushService.TakeArrivals()
	for i := range 30 {
		w.setLikes(i+1, users...)
	}
	w.sendAllDue(c)
	sqltest.Equal(t, len(w.pushService.TakeArrivals()), len(users))
	for _, name := range names {
		sqltest.Equal(t, w.lastTotalInBrowser(name), 30)
	}
}

// After a change of the server's key, nothing is sent to a device that was registered for the former key, and its error says so, until
// the browser registers again.
func TestDevicesOfAFormerKeyGetNothing(t *testing.T) {
	b := peopletest.NewTestDB(t, sqltest.SQLite(t))
	w := newDeviceWorld(b)
	user := b.MakeUsers("ann")[0]
	w.register(w.newNode(), user, "phone")
	private, _, _ := NewVAPIDKeys()
	other, _ := ParseVAPIDKeys(private, testVAPIDKeys.Subject)
	s := w.newNode(func(cfg *Config) { cfg.VAPIDPrivateKey = other.Private })
	c := newTestSender(s)
	w.setLikes(1, user)
	w.sendAllDue(c)
	sqltest.Equal(t, w.pushService.ArrivalCount(), 0)
	if list := sqltest.Must(s.List(b.Ctx, user))(t); !strings.Contains(list[0].Error, "another key") || w.deviceCounts(s).Dead != 1 {
		t.Errorf("%+v", list)
	}
	c.Resign(b.Ctx)
	again := w.newNode()
	if w.register(again, user, "phone").Changed {
		t.Error("it was registered for this key before")
	}
	w.sendAllDue(newTestSender(again))
	sqltest.Equal(t, w.lastTotalInBrowser("phone"), 1)
}

// No request goes to an address that is not public, whatever host name leads to it.
func TestNoRequestGoesToAPrivateAddress(t *testing.T) {
	b := peopletest.NewTestDB(t, sqltest.SQLite(t))
	w := newDeviceWorld(b)
	user := b.MakeUsers("ann")[0]
	s := w.newNode(func(cfg *Config) { cfg.Allow = nil })
	browser := devicestest.NewBrowser(strings.Replace(w.pushService.Subscribe("phone").Endpoint, "http://127.0.0.1", "https://localhost", 1))
	sqltest.Must(s.Register(b.Ctx, user, NewDevice{Endpoint: browser.Endpoint, P256dh: browser.P256dh, Auth: browser.Auth, Silent: true}))(t)
	w.setLikes(1, user)
	w.sendAllDue(newTestSender(s))
	if list := sqltest.Must(s.List(b.Ctx, user))(t); !strings.Contains(list[0].Error, "is not public") {
		t.Errorf("%+v", list)
	}
	sqltest.Equal(t, w.pushService.ArrivalCount(), 0)
}

// The change stream is on only while there is a device. A change between the first registration and the start of the stream is
// not lost.
func TestFirstDeviceSwitchesTheStreamOn(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		t := b.T
		w := newDeviceWorldWithStream(b, false)
		user := b.MakeUsers("ann")[0]
		without := w.newNode(func(cfg *Config) { cfg.VAPIDPrivateKey = "" })
		sqltest.Equal(t, w.stream.On(), false)
		s := w.newNode()
		sqltest.Equal(t, w.stream.On(), true) // until the first look finds no device
		sqltest.Equal(t, s.checkDevices(b.Ctx), nil)
		sqltest.Equal(t, w.stream.On() || without.On(), false)
		w.register(s, user, "phone")
		w.setLikes(3, user)
		sqltest.Equal(t, s.checkDevices(b.Ctx), nil)
		sqltest.Equal(t, w.stream.On(), true)
		w.writeStreamChanges()
		w.sendAllDue(newTestSender(s))
		sqltest.Equal(t, w.lastTotalInBrowser("phone"), 3)
		sqltest.Must(s.Unregister(b.Ctx, user, "", w.browsers["phone"].Endpoint))(t)
		sqltest.Equal(t, s.checkDevices(b.Ctx), nil)
		sqltest.Equal(t, w.stream.On(), false)
	})
}

// Only one node sends. Another node takes over when the lease ends, and the former node can no longer record anything.
func TestOneNodeSends(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		t := b.T
		w := newDeviceWorld(b)
		user := b.MakeUsers("ann")[0]
		first, second := w.newNode(), w.newNode()
		w.register(first, user, "phone")
		here, there := newTestSender(first), newTestSender(second)
		w.sendAllDue(here)
		if _, err := there.Step(b.Ctx); err != leases.ErrLeaseLost {
			t.Fatalf("two nodes send: %v", err)
		}
		w.setLikes(1, user)
		sqltest.Must(here.Step(b.Ctx))(t)
		here.runningRequests.Wait()
		b.MustWrite(func(tx *sql.Tx) error { _, err := tx.Run(b.Ctx, endLease); return err })
		sqltest.Equal(t, sqltest.Must(second.pool.FreeRows(b.Ctx))(t), []string{leaseName})
		w.sendAllDue(there)
		if _, err := here.Step(b.Ctx); err != leases.ErrLeaseLost {
			t.Errorf("the node before: %v", err)
		}
		if got := w.pushService.TakeArrivals(); len(got) != 2 || got[0].Message.Version != got[1].Message.Version {
			t.Errorf("%+v", got)
		}
		there.Resign(b.Ctx)
		sqltest.Equal(t, sqltest.Must(first.pool.FreeRows(b.Ctx))(t), []string{leaseName})
	})
}

// A usual message has the usual length, and a message to the user with the longest key the greatest.
func TestMessagesHaveOneSize(t *testing.T) {
	b := peopletest.NewTestDB(t, sqltest.SQLite(t))
	w := newDeviceWorld(b)
	users := b.MakeUsers("ann", strings.Repeat("界", 128))
	s := w.newNode()
	for i, user := range users {
		w.register(s, user, fmt.Sprint(i))
	}
	w.setLikes(1, users...)
	w.sendAllDue(newTestSender(s))
	if m, _ := w.pushService.LastMessage("1"); m.Total != 1 || m.UserID != services.GlobalID(services.UserType, strings.Repeat("界", 128)) {
		t.Errorf("%+v", m)
	}
	sqltest.Equal(t, w.pushService.BodySizes(), map[int]bool{usualPaddedBytes: true, maxPaddedBytes: true})
}

// A message that panics fails like one that the push service refuses. A service without a client stands for a bug.
func TestAPanicFailsItsMessage(t *testing.T) {
	var log strings.Builder
	c := &deviceSender{devices: &Service{cfg: Config{Log: slog.New(slog.NewTextHandler(&log, nil))}}}
	if got := c.sendChange(t.Context(), deviceRow{}, stream.Change{}); got.Err == "" || !strings.Contains(log.String(), "panicked") {
		t.Errorf("the answer is %+v, and the log is %s", got, &log)
	}
}
