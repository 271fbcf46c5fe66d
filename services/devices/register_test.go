package devices

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/devices/devicestest"
	"tidings/services/people/peopletest"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// A registration can be repeated, says whether it changed anything, and is listed for its user alone.
func TestRegister(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		t := b.T
		w := newDeviceWorld(b)
		users := b.MakeUsers("ann", "bob")
		s := w.newNode()
		first := w.register(s, users[0], "phone")
		if !first.Changed || w.register(s, users[0], "phone") != (Registration{ID: first.ID}) {
			t.Errorf("%+v", first)
		}
		b.Clock.Advance(time.Second)
		if other := w.register(s, users[0], "tablet"); !other.Changed || other.ID == first.ID {
			t.Errorf("%+v", other)
		}
		list := sqltest.Must(s.List(b.Ctx, users[0]))(t)
		if len(list) != 2 || list[1].ID != first.ID || list[1].Endpoint != w.browsers["phone"].Endpoint || !list[1].Silent {
			t.Errorf("%+v", list)
		}
		sqltest.Equal(t, len(sqltest.Must(s.List(b.Ctx, users[1]))(t)), 0)
		if removed := sqltest.Must(s.Unregister(b.Ctx, users[1], first.ID, ""))(t); removed {
			t.Error("bob removes ann's device by its ID")
		}
		if removed := sqltest.Must(s.Unregister(b.Ctx, users[1], "", list[1].Endpoint))(t); removed {
			t.Error("bob removes ann's device by its endpoint")
		}
		sqltest.Equal(t, len(sqltest.Must(s.List(b.Ctx, users[0]))(t)), 2)
		for _, want := range []bool{true, false} {
			sqltest.Equal(t, sqltest.Must(s.Unregister(b.Ctx, users[0], first.ID, ""))(t), want)
		}
		for _, want := range []bool{true, false} {
			sqltest.Equal(t, sqltest.Must(s.Unregister(b.Ctx, users[0], "", w.browsers["tablet"].Endpoint))(t), want)
		}
	})
}

// A registration that is refused says why.
func TestRegisterRefuses(t *testing.T) {
	b := peopletest.NewTestDB(t, sqltest.SQLite(t))
	w := newDeviceWorld(b)
	user := b.MakeUsers("ann")[0]
	good := devicestest.NewBrowser("https://push.example/1")
	off := strings.Repeat("A", 87)
	for _, c := range []struct {
		d     NewDevice
		field string
	}{
		{NewDevice{"", good.P256dh, good.Auth, "", true}, "endpoint: is missing"},
		{NewDevice{"http://push.example/1", good.P256dh, good.Auth, "", true}, "endpoint: "},
		{NewDevice{"ftp://push.example/1", good.P256dh, good.Auth, "", true}, "endpoint: "},
		{NewDevice{"https://u:p@push.example/1", good.P256dh, good.Auth, "", true}, "endpoint: "},
		{NewDevice{"https://10.0.0.1/1", good.P256dh, good.Auth, "", true}, "endpoint: the address 10.0.0.1 is not public: --web-push-allow"},
		{NewDevice{"https://[::1]/1", good.P256dh, good.Auth, "", true}, "endpoint: the address ::1 is not public"},
		{NewDevice{"https://169.254.169.254/1", good.P256dh, good.Auth, "", true}, "endpoint: the address"},
		{NewDevice{good.Endpoint + strings.Repeat("x", 2048), good.P256dh, good.Auth, "", true}, "endpoint: "},
		{NewDevice{good.Endpoint, "", good.Auth, "", true}, "p256dh: 65 bytes are expected, got 0"},
		{NewDevice{good.Endpoint, "*", good.Auth, "", true}, "p256dh: it is not base64url"},
		{NewDevice{good.Endpoint, good.Auth, good.Auth, "", true}, "p256dh: 65 bytes are expected, got 16"},
		{NewDevice{good.Endpoint, off, good.Auth, "", true}, "p256dh: it is not a public key"},
		{NewDevice{good.Endpoint, good.P256dh, "", "", true}, "auth: 16 bytes are expected, got 0"},
		{NewDevice{good.Endpoint, good.P256dh, good.P256dh, "", true}, "auth: 16 bytes are expected, got 65"},
		{NewDevice{good.Endpoint, good.P256dh, "not base64!", "", true}, "auth: it is not base64url"},
		{NewDevice{good.Endpoint, good.P256dh, good.Auth, strings.Repeat("n", 65), true}, "name: "},
	} {
		_, err := w.newNode(func(cfg *Config) { cfg.Allow = nil }).Register(b.Ctx, user, c.d)
		if services.CodeOf(err) != services.Invalid || !strings.HasPrefix(fmt.Sprint(err), c.field) {
			t.Errorf("%+v: %v", c.d, err)
		}
	}
	_, err := w.newNode(func(cfg *Config) { cfg.VAPIDPrivateKey = "" }).Register(b.Ctx, user, NewDevice{good.Endpoint, good.P256dh, good.Auth, "", true})
	if sqltest.WantCode(t, err, services.Conflict); !strings.Contains(fmt.Sprint(err), "--vapid-private-key") {
		t.Error(err)
	}
	raw, _ := base64.RawURLEncoding.DecodeString(good.P256dh)
	sqltest.Must(w.newNode().Register(b.Ctx, user, NewDevice{good.Endpoint, base64.StdEncoding.EncodeToString(raw), good.Auth + "==", "Ann's phone", true}))(t)
	if again := sqltest.Must(w.newNode().Register(b.Ctx, user, NewDevice{good.Endpoint, good.P256dh, good.Auth, "Ann's phone", true}))(t); again.Changed {
		t.Error("the same keys in another form are other keys")
	}
}

// A browser belongs to the user who registered it last: the former user gets nothing there any more, and does not see it.
func TestABrowserBelongsToItsLastRegisteredUser(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		t := b.T
		w := newDeviceWorld(b)
		users := b.MakeUsers("ann", "bob")
		s := w.newNode()
		c := newTestSender(s)
		w.setLikes(5, users[0])
		w.setLikes(2, users[1])
		of := w.register(s, users[0], "phone")
		w.sendAllDue(c)
		sqltest.Equal(t, w.lastTotalInBrowser("phone"), 5)
		moved := w.register(s, users[1], "phone")
		if !moved.Changed || moved.ID == of.ID {
			t.Errorf("%+v", moved)
		}
		w.sendAllDue(c)
		if m, _ := w.pushService.LastMessage("phone"); m.Total != 2 || m.UserID != "user:bob" || !m.Silent {
			t.Errorf("%+v", m)
		}
		sqltest.Equal(t, len(sqltest.Must(s.List(b.Ctx, users[0]))(t)), 0)
		if removed := sqltest.Must(s.Unregister(b.Ctx, users[0], of.ID, ""))(t); removed {
			t.Error("the user before removes it")
		}
		w.setLikes(6, users[0])
		w.sendAllDue(c)
		sqltest.Equal(t, w.lastTotalInBrowser("phone"), 2)
		w.setLikes(3, users[1])
		w.sendAllDue(c)
		sqltest.Equal(t, w.lastTotalInBrowser("phone"), 3)
	})
}

// A stranger who knows an endpoint, without the keys that only the browser has, gets the same answers as for an endpoint that
// nobody registered, and the user of the browser keeps getting their numbers.
func TestAnEndpointWithoutKeysRevealsNothing(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		t := b.T
		w := newDeviceWorld(b)
		users := b.MakeUsers("ann", "bob")
		s := w.newNode()
		c := newTestSender(s)
		w.register(s, users[0], "phone")
		own := sqltest.Must(s.List(b.Ctx, users[0]))(t)
		for _, endpoint := range []string{w.browsers["phone"].Endpoint, "https://push.example/nobody"} {
			thief := devicestest.NewBrowser(endpoint)
			of := NewDevice{thief.Endpoint, thief.P256dh, thief.Auth, "", true}
			for _, want := range []bool{true, false} {
				if got := sqltest.Must(s.Register(b.Ctx, users[1], of))(t); got.Changed != want || got.ID == own[0].ID {
					t.Errorf("%s: %+v", endpoint, got)
				}
			}
			list := sqltest.Must(s.List(b.Ctx, users[1]))(t)
			if len(list) != 1 || list[0].Endpoint != endpoint {
				t.Errorf("%+v", list)
			}
			hashes := []string{hashOf(of.Endpoint, of.P256dh, of.Auth), hashOf(endpoint, w.browsers["phone"].P256dh, w.browsers["phone"].Auth)}
			if (deviceRow{hash: hashes[0]}).topic() == (deviceRow{hash: hashes[1]}).topic() {
				t.Error("the stranger's message replaces one that the browser did not get yet")
			}
			for _, want := range []bool{true, false} {
				sqltest.Equal(t, sqltest.Must(s.Unregister(b.Ctx, users[1], "", endpoint))(t), want)
			}
		}
		w.setLikes(3, users[0])
		w.sendAllDue(c)
		sqltest.Equal(t, w.lastTotalInBrowser("phone"), 3)
		sqltest.Equal(t, sqltest.Must(s.List(b.Ctx, users[0]))(t)[0].ID, own[0].ID)
	})
}

// A browser that subscribed anew at the same endpoint is one device.
func TestNewKeysReplaceTheFormer(t *testing.T) {
	b := peopletest.NewTestDB(t, sqltest.SQLite(t))
	w := newDeviceWorld(b)
	user := b.MakeUsers("ann")[0]
	s := w.newNode()
	first := w.register(s, user, "phone")
	w.browsers["phone"] = w.pushService.Subscribe("phone")
	again := w.register(s, user, "phone")
	if list := sqltest.Must(s.List(b.Ctx, user))(t); len(list) != 1 || list[0].ID != again.ID || again.ID == first.ID {
		t.Errorf("%+v", list)
	}
	w.setLikes(2, user)
	w.sendAllDue(newTestSender(s))
	sqltest.Equal(t, w.lastTotalInBrowser("phone"), 2)
}

// Beyond the limit a new device replaces the device that registered longest ago.
func TestOldestDeviceIsReplaced(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		t := b.T
		w := newDeviceWorld(b)
		users := b.MakeUsers("ann", "bob")
		s := w.newNode()
		w.register(s, users[1], "bob's")
		for i := range MaxDevices {
			b.Clock.Advance(time.Second)
			w.register(s, users[0], fmt.Sprint(i))
		}
		b.Clock.Advance(time.Second)
		w.register(s, users[0], "0") // it is the youngest now
		b.Clock.Advance(time.Second)
		w.register(s, users[0], "more")
		list := sqltest.Must(s.List(b.Ctx, users[0]))(t)
		var names []string
		for _, d := range list {
			names = append(names, d.Endpoint[strings.LastIndex(d.Endpoint, "/")+1:])
		}
		if len(names) != MaxDevices || names[0] != "more" || names[1] != "0" || names[MaxDevices-1] != "2" {
			t.Errorf("%v", names)
		}
		sqltest.Equal(t, len(sqltest.Must(s.List(b.Ctx, users[1]))(t)), 1)
		b.MustWrite(func(tx *sql.Tx) error {
			n, err := forget(b.Ctx, tx, users[0])
			sqltest.Equal(t, n, MaxDevices)
			return err
		})
		sqltest.Equal(t, w.deviceCounts(s).Registered, 1)
	})
}

// Invalid keys and subjects are refused with the reason.
func TestParseVAPIDKeys(t *testing.T) {
	for _, wrong := range []string{"", "x", "*", strings.Repeat("A", 43), testVAPIDKeys.Public} {
		if _, reason := ParseVAPIDKeys(wrong, ""); reason == "" {
			t.Errorf("%q is a key", wrong)
		}
	}
	if again, reason := ParseVAPIDKeys(testVAPIDKeys.Private+"=", testVAPIDKeys.Subject); reason != "" || again != testVAPIDKeys {
		t.Errorf("%+v: %s", again, reason)
	}
	for subject, want := range map[string]bool{
		"mailto:ops@example.com": true, "https://example.com/contact": true, "": false, "ops@example.com": false, "mailto:ops": false,
		"http://example.com": false, "mailto:Ops <ops@example.com>": false, "https://": false,
	} {
		if got := checkVAPIDSubject(subject) == ""; got != want {
			t.Errorf("%q: %v", subject, got)
		}
	}
}

// Only a text in the form of a device's ID is accepted as one.
func TestParseID(t *testing.T) {
	id := idOf(7, hashOf("https://push.example/1", "", ""))
	for text, want := range map[string]bool{id: true, "device:": false, "device:x": false, "user:ann": false, "": false, id + "A": false, "post:" + id[7:]: false} {
		if _, err := ParseID("id", text); (err == nil) != want {
			t.Errorf("%q: %v", text, err)
		}
	}
	if idOf(7, "x") == idOf(8, "x") {
		t.Error("two users have one ID")
	}
}
