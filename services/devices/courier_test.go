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

// The number rises with an alert and falls in silence, down to 0. Each device of the user gets it, and no device of another user.
func TestNumberGoesUpAndDown(t *testing.T) {
	peopletest.EachBundle(t, func(b *peopletest.Bundle) {
		t := b.T
		w := newWorld(b)
		users := b.MakeUsers("ann", "bob")
		s := w.newNode()
		c := newCourier(s)
		w.like(1, users...)
		w.register(s, users[0], "phone")
		w.register(s, users[0], "tablet")
		w.settle(c)
		for _, a := range w.push.Take() { // items from before the registration do not alert
			if m := a.Message; m.Total != 1 || !m.Silent || m.Alert != nil || m.UserID != "user:ann" {
				t.Errorf("%+v", a)
			}
		}
		w.like(3, users[0])
		w.settle(c)
		got := w.push.Take()
		if len(got) != 2 {
			t.Fatalf("%+v", got)
		}
		for _, a := range got {
			m := a.Message
			if m.Total != 3 || m.Display != "3" || m.Silent || m.Alert == nil || *m.Alert != m.Version || m.Cause == nil || m.Cause.ItemID != "notification:1" || *m.Cause.Part != "LIKE" {
				t.Errorf("%+v", m)
			}
		}
		w.like(2, users[0])
		w.settle(c)
		m, _ := w.push.Last("phone")
		if m.Total != 2 || !m.Silent || m.Alert == nil || m.Cause == nil {
			t.Errorf("a fall is silent, and what is unread is still to be alerted of where it was not: %+v", m)
		}
		w.like(0, users[0])
		w.settle(c)
		for _, name := range []string{"phone", "tablet"} {
			if m, some := w.push.Last(name); !some || m.Total != 0 || !m.Silent || m.Alert != nil {
				t.Errorf("%s: %+v", name, m)
			}
		}
		w.push.Take()
		w.like(7, users[1])
		w.settle(c)
		sqltest.Equal(t, len(w.push.Take()), 0)
		if got := w.counts(s); got.Registered != 2 || got.Waiting != 0 || got.Delivered != 8 || got.Failed != 0 {
			t.Errorf("%+v", got)
		}
	})
}

// A device that wants no silent messages gets only messages that alert.
func TestADeviceThatIsNotSilentGetsOnlyAlerts(t *testing.T) {
	b := peopletest.NewBundle(t, sqltest.SQLite(t))
	w := newWorld(b)
	user := b.MakeUsers("ann")[0]
	s := w.newNode()
	c := newCourier(s)
	w.like(1, user)
	browser := w.push.Subscribe("loud")
	sqltest.Must(s.Register(b.Ctx, user, NewDevice{Endpoint: browser.Endpoint, P256dh: browser.P256dh, Auth: browser.Auth}))(t)
	for _, likes := range []int{1, 3, 2, 0, 4, 0} {
		w.like(likes, user)
		w.settle(c)
	}
	var totals []int
	for _, a := range w.push.Take() {
		totals = append(totals, a.Message.Total)
	}
	sqltest.Equal(t, totals, []int{3, 4})
}

// In quiet hours the number changes in silence, and items that came in quiet hours do not alert afterwards.
func TestItemsOfQuietHoursNeverAlert(t *testing.T) {
	b := peopletest.NewBundle(t, sqltest.SQLite(t))
	w := newWorld(b)
	user := b.MakeUsers("ann")[0]
	s := w.newNode()
	c := newCourier(s)
	w.register(s, user, "phone")
	hours := func(quiet bool) {
		w.mu.Lock()
		w.quiet = quiet
		w.mu.Unlock()
	}
	hours(true)
	w.like(3, user)
	w.settle(c)
	if m, _ := w.push.Last("phone"); m.Total != 3 || !m.Silent || m.Alert != nil {
		t.Errorf("in quiet hours: %+v", m)
	}
	hours(false)
	w.like(2, user)
	w.settle(c)
	if m, _ := w.push.Last("phone"); m.Total != 2 || !m.Silent || m.Alert != nil {
		t.Errorf("after quiet hours: %+v", m)
	}
	w.like(4, user)
	w.settle(c)
	if m, _ := w.push.Last("phone"); m.Total != 4 || m.Silent || m.Alert == nil {
		t.Errorf("the next day: %+v", m)
	}
}

// With the setting Away, the devices of a user with an open socket get nothing until the socket is closed. Then they get the
// number, and items that the socket showed do not alert again.
func TestDevicesWaitWhileASocketIsOpen(t *testing.T) {
	b := peopletest.NewBundle(t, sqltest.SQLite(t))
	w := newWorld(b)
	users := b.MakeUsers("ann", "bob")
	s := w.newNode(func(cfg *Config) { cfg.Away = true })
	c := newCourier(s)
	w.register(s, users[0], "ann's")
	w.register(s, users[1], "bob's")
	w.online[users[0]] = true
	w.like(2, users...)
	w.settle(c)
	got := w.push.Take()
	if len(got) != 1 || got[0].Path != "bob's" {
		t.Fatalf("%+v", got)
	}
	b.Clock.Advance(firstAwayPause)
	w.settle(c)
	sqltest.Equal(t, len(w.push.Take()), 0)
	w.mu.Lock()
	w.online[users[0]] = false
	w.mu.Unlock()
	b.Clock.Advance(longestAwayPause)
	w.settle(c)
	got = w.push.Take()
	if len(got) != 1 || got[0].Message.Total != 2 || !got[0].Message.Silent || got[0].Message.Alert != nil {
		t.Errorf("%+v", got)
	}
}

// A change that comes after the last socket was closed alerts at once, even if an earlier change that the socket showed still
// waits.
func TestOpenSocketsAlertAtOnceAfterTheClose(t *testing.T) {
	peopletest.EachBundle(t, func(b *peopletest.Bundle) {
		t := b.T
		w := newWorld(b)
		users := b.MakeUsers("ann", "bob")
		s := w.newNode(func(cfg *Config) { cfg.Away = true })
		c := newCourier(s)
		w.register(s, users[0], "ann's")
		w.register(s, users[1], "bob's")
		open := func(is bool) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.online[users[0]], w.online[users[1]] = is, is
		}
		open(true)
		w.like(1, users[0]) // ann's open socket shows it; bob has no change yet
		w.settle(c)
		b.Clock.Advance(longestAwayPause) // the socket has been open for long
		w.settle(c)
		sqltest.Equal(t, len(w.push.Take()), 0)
		open(false)
		b.Clock.Advance(time.Second)
		w.like(2, users...)
		w.settle(c)
		got := w.push.Take()
		sqltest.Equal(t, len(got), 2)
		for _, one := range got {
			if one.Message.Total != 2 || one.Message.Silent || one.Message.Cause == nil {
				t.Errorf("after the close: %+v", one)
			}
		}
		open(true)
		w.like(3, users...)
		w.settle(c)
		open(false)
		b.Clock.Advance(firstAwayPause)
		w.settle(c)
		got = w.push.Take()
		sqltest.Equal(t, len(got), 2)
		for _, one := range got {
			if one.Message.Total != 3 || !one.Message.Silent {
				t.Errorf("what the sockets showed: %+v", one)
			}
		}
	})
}

// However many changes there are, a device gets one message for all changes that came while none was sent.
func TestBurstIsOneMessage(t *testing.T) {
	b := peopletest.NewBundle(t, sqltest.SQLite(t))
	w := newWorld(b)
	var names []string
	for i := range 300 {
		names = append(names, fmt.Sprintf("u%03d", i))
	}
	users := b.MakeUsers(names...)
	s := w.newNode()
	c := newCourier(s)
	for i, user := range users {
		w.register(s, user, names[i])
	}
	w.settle(c)
	w.push.Take()
	for i := range 30 {
		w.like(i+1, users...)
	}
	w.settle(c)
	sqltest.Equal(t, len(w.push.Take()), len(users))
	for _, name := range names {
		sqltest.Equal(t, w.lastOf(name), 30)
	}
}

// After a change of the server's key, nothing is sent to a device that was registered for the former key, and its error says so, until
// the browser registers again.
func TestDevicesOfAFormerKeyGetNothing(t *testing.T) {
	b := peopletest.NewBundle(t, sqltest.SQLite(t))
	w := newWorld(b)
	user := b.MakeUsers("ann")[0]
	w.register(w.newNode(), user, "phone")
	private, _, _ := NewKeys()
	other, _ := ParseKeys(private, keys.Subject)
	s := w.newNode(func(cfg *Config) { cfg.Keys = other })
	c := newCourier(s)
	w.like(1, user)
	w.settle(c)
	sqltest.Equal(t, w.push.Arrived(), 0)
	if list := sqltest.Must(s.List(b.Ctx, user))(t); !strings.Contains(list[0].Error, "another key") || w.counts(s).Dead != 1 {
		t.Errorf("%+v", list)
	}
	c.Resign(b.Ctx)
	again := w.newNode()
	if w.register(again, user, "phone").Changed {
		t.Error("it was registered for this key before")
	}
	w.settle(newCourier(again))
	sqltest.Equal(t, w.lastOf("phone"), 1)
}

// No request goes to an address that is not public, whatever host name leads to it.
func TestNoRequestGoesToAPrivateAddress(t *testing.T) {
	b := peopletest.NewBundle(t, sqltest.SQLite(t))
	w := newWorld(b)
	user := b.MakeUsers("ann")[0]
	s := w.newNode(func(cfg *Config) { cfg.Allow = nil })
	browser := devicestest.NewBrowser(strings.Replace(w.push.Subscribe("phone").Endpoint, "http://127.0.0.1", "https://localhost", 1))
	sqltest.Must(s.Register(b.Ctx, user, NewDevice{Endpoint: browser.Endpoint, P256dh: browser.P256dh, Auth: browser.Auth, Silent: true}))(t)
	w.like(1, user)
	w.settle(newCourier(s))
	if list := sqltest.Must(s.List(b.Ctx, user))(t); !strings.Contains(list[0].Error, "is not public") {
		t.Errorf("%+v", list)
	}
	sqltest.Equal(t, w.push.Arrived(), 0)
}

// The change stream is on only while there is a device. A change between the first registration and the start of the stream is
// not lost.
func TestFirstDeviceSwitchesTheStreamOn(t *testing.T) {
	peopletest.EachBundle(t, func(b *peopletest.Bundle) {
		t := b.T
		w := newWorldWith(b, false)
		user := b.MakeUsers("ann")[0]
		without := w.newNode(func(cfg *Config) { cfg.Keys = Keys{} })
		sqltest.Equal(t, w.stream.On(), false)
		s := w.newNode()
		sqltest.Equal(t, w.stream.On(), true) // until the first look finds no device
		sqltest.Equal(t, s.look(b.Ctx), nil)
		sqltest.Equal(t, w.stream.On() || without.On(), false)
		w.register(s, user, "phone")
		w.like(3, user)
		sqltest.Equal(t, s.look(b.Ctx), nil)
		sqltest.Equal(t, w.stream.On(), true)
		w.write()
		w.settle(newCourier(s))
		sqltest.Equal(t, w.lastOf("phone"), 3)
		sqltest.Must(s.Unregister(b.Ctx, user, "", w.browsers["phone"].Endpoint))(t)
		sqltest.Equal(t, s.look(b.Ctx), nil)
		sqltest.Equal(t, w.stream.On(), false)
	})
}

// Only one node sends. Another node takes over when the lease ends, and the former node can no longer record anything.
func TestOneNodeSends(t *testing.T) {
	peopletest.EachBundle(t, func(b *peopletest.Bundle) {
		t := b.T
		w := newWorld(b)
		user := b.MakeUsers("ann")[0]
		first, second := w.newNode(), w.newNode()
		w.register(first, user, "phone")
		here, there := newCourier(first), newCourier(second)
		w.settle(here)
		if _, err := there.Step(b.Ctx); err != leases.ErrLeaseLost {
			t.Fatalf("two nodes send: %v", err)
		}
		w.like(1, user)
		sqltest.Must(here.Step(b.Ctx))(t)
		here.sending.Wait()
		b.MustWrite(func(tx *sql.Tx) error { _, err := tx.Run(b.Ctx, endLease); return err })
		sqltest.Equal(t, sqltest.Must(second.pool.Free(b.Ctx))(t), []string{leaseName})
		w.settle(there)
		if _, err := here.Step(b.Ctx); err != leases.ErrLeaseLost {
			t.Errorf("the node before: %v", err)
		}
		if got := w.push.Take(); len(got) != 2 || got[0].Message.Version != got[1].Message.Version {
			t.Errorf("%+v", got)
		}
		there.Resign(b.Ctx)
		sqltest.Equal(t, sqltest.Must(first.pool.Free(b.Ctx))(t), []string{leaseName})
	})
}

// A usual message has the usual length, and a message to the user with the longest key the greatest.
func TestMessagesHaveOneSize(t *testing.T) {
	b := peopletest.NewBundle(t, sqltest.SQLite(t))
	w := newWorld(b)
	users := b.MakeUsers("ann", strings.Repeat("界", 128))
	s := w.newNode()
	for i, user := range users {
		w.register(s, user, fmt.Sprint(i))
	}
	w.like(1, users...)
	w.settle(newCourier(s))
	if m, _ := w.push.Last("1"); m.Total != 1 || m.UserID != services.GlobalID(services.UserType, strings.Repeat("界", 128)) {
		t.Errorf("%+v", m)
	}
	sqltest.Equal(t, w.push.Sizes(), map[int]bool{usualSize: true, greatestSize: true})
}

// A message that panics fails like one that the push service refuses. A service without a client stands for a bug.
func TestAPanicFailsItsMessage(t *testing.T) {
	var log strings.Builder
	c := &courier{s: &Service{cfg: Config{Log: slog.New(slog.NewTextHandler(&log, nil))}}}
	if got := c.sendChange(t.Context(), row{}, stream.Change{}); got.Err == "" || !strings.Contains(log.String(), "panicked") {
		t.Errorf("the answer is %+v, and the log is %s", got, &log)
	}
}
