package nodes

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"tidings/services/devices"
	"tidings/services/devices/devicestest"
	"tidings/services/node"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// userBrowser is a simulated browser that a test registers over the API, as a user's device for Web Push.
type userBrowser struct {
	*devicestest.Browser
	node *world.Node
}

// registerMutation is the mutation that registers a browser.
const registerMutation = `mutation($e:URL!,$p:String!,$a:String!,$n:String){registerDevice(input:{endpoint:$e,p256dh:$p,auth:$a,name:$n}){changed device{id name endpoint silent registeredAt deliveredAt failingSince} badges{version} viewer{devices{id}}}}`

// registerVariables are the variables of registerMutation for this browser.
func (p userBrowser) registerVariables() map[string]any {
	return map[string]any{"e": p.Endpoint, "p": p.P256dh, "a": p.Auth, "n": "phone"}
}

// register registers the browser for a user, and returns the device's ID and whether anything changed. The first device switches the
// change stream on; register waits until the stream has begun, because earlier items do not alert.
func (p userBrowser) register(as string) (id string, changed bool) {
	p.node.TB.Helper()
	var done struct {
		RegisterDevice struct {
			Changed bool
			Device  struct{ ID, Name, Endpoint string }
			Viewer  struct{ Devices []struct{ ID string } }
		}
	}
	p.node.MustAsk(as, registerMutation, p.registerVariables(), &done)
	got := done.RegisterDevice
	if got.Device.Endpoint != p.Endpoint || got.Device.Name != "phone" || len(got.Viewer.Devices) == 0 || got.Viewer.Devices[0].ID != got.Device.ID {
		p.node.TB.Errorf("%+v", got)
	}
	waitChangeStreamBegun(p.node)
	return got.Device.ID, got.Changed
}

// deviceIDsOf returns the IDs of a user's devices.
func deviceIDsOf(n *world.Node, as string) (ids []string) {
	n.TB.Helper()
	var data struct {
		Viewer struct{ Devices []struct{ ID string } }
	}
	n.MustAsk(as, `{viewer{devices{id}}}`, nil, &data)
	for _, d := range data.Viewer.Devices {
		ids = append(ids, d.ID)
	}
	return ids
}

// startPushNode starts a node with VAPID keys, which it needs to send Web Push messages, and a push service that accepts messages with
// these keys. The change stream is off until a device is registered.
func startPushNode(t *testing.T, change ...func(*node.Config)) (*world.Node, *devicestest.PushService) {
	t.Helper()
	private, _, err := devices.NewVAPIDKeys()
	if err != nil {
		t.Fatal(err)
	}
	n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: "embedded", ChangeConfig: func(cfg *node.Config) {
		cfg.Devices.VAPIDPrivateKey, cfg.Devices.VAPIDSubject, cfg.Devices.Allow = private, "mailto:ops@example.com", []string{"127.0.0.1"}
		cfg.Stream.ChangeInterval = 10 * time.Millisecond
		for _, one := range change {
			one(cfg)
		}
	}})
	var data struct{ Viewer struct{ PushKey string } }
	n.MustAsk("ann", `{viewer{pushKey}}`, nil, &data)
	return n, devicestest.NewPushService(t, data.Viewer.PushKey)
}

// The number on the icon of a registered browser rises with an alert and falls in silence. When another user registers the same browser,
// it belongs to that user alone. A browser that its push service no longer knows is removed.
func TestDevicesOverTheAPI(t *testing.T) {
	n, push := startPushNode(t)
	ann := userBrowser{push.Subscribe("phone"), n}
	id, changed := ann.register("ann")
	if again, twice := ann.register("ann"); !changed || twice || again != id {
		t.Errorf("%s, %v, then %s, %v", id, changed, again, twice)
	}
	tryDeviceAsOtherUsers(t, n, push, ann, id)
	post := n.Publish("ann", "a post")
	shows := func(what string, total int, silent bool) {
		t.Helper()
		world.Eventually(t, 30*time.Second, what, func() bool {
			m, some := push.LastMessage("phone")
			return some && m.Total == total && m.Silent == silent
		})
	}
	n.MustAsk("bob", `mutation($p:ID!){likePost(input:{postId:$p}){post{id}}}`, map[string]any{"p": post}, nil)
	shows("the like is on the icon", 1, false)
	n.MustAsk("ann", `mutation{markNotificationsSeen(input:{}){badges{total{value}}}}`, nil, nil)
	shows("the icon is cleared in silence", 0, true)
	wantDeviceCounts(t, n, push)
	moved, _ := ann.register("bob")
	if moved == id || len(deviceIDsOf(n, "ann")) != 0 || len(deviceIDsOf(n, "bob")) != 1 {
		t.Errorf("the browser is %v of ann and %v of bob", deviceIDsOf(n, "ann"), deviceIDsOf(n, "bob"))
	}
	n.MustAsk("ann", `mutation($i:ID!){unregisterDevice(input:{id:$i}){changed}}`, map[string]any{"i": id}, nil)
	push.SetAnswerStatus(http.StatusGone)
	n.MustAsk("ann", `mutation{publishPost(input:{body:"@bob"}){post{id}}}`, nil, nil)
	world.Eventually(t, 30*time.Second, "the device is removed", func() bool { return len(deviceIDsOf(n, "bob")) == 0 })
}

// tryDeviceAsOtherUsers tries, as other users and in every way that the API has, to read, remove or take over the device of the user ann.
// The answers must equal the answers for a device that does not exist.
func tryDeviceAsOtherUsers(t *testing.T, n *world.Node, push *devicestest.PushService, ann userBrowser, id string) {
	t.Helper()
	nobodys := "device:" + strings.Repeat("A", 22)
	for _, c := range []struct{ as, query string }{
		{"bob", `mutation{unregisterDevice(input:{id:"ID"}){changed viewer{devices{id}}}}`},
		{"bob", `{node(id:"ID"){id ...on Device{endpoint}}}`},
		{"bob", `{nodes(ids:["ID"]){id}}`},
		{"boss:admin", `{node(id:"ID"){id}}`},
		{"host:ingest", `{node(id:"ID"){id}}`},
		{"host:ingest", `mutation{unregisterDevice(input:{id:"ID"}){changed}}`},
		{"host:ingest", `mutation{ingest(events:[{as:"user:ann",unregisterDevice:{id:"ID"}}]){results{error{code}}}}`},
	} {
		var texts []string
		for _, one := range []string{id, nobodys} {
			got := n.Ask(c.as, strings.ReplaceAll(c.query, "ID", one), nil)
			texts = append(texts, strings.ReplaceAll(fmt.Sprintf("%s %+v", got.Data, got.Errors), one, "ID"))
		}
		if texts[0] != texts[1] || strings.Contains(texts[0], ann.Endpoint) {
			t.Errorf("%s as %s: %s, but %s for a device that is not there", c.query, c.as, texts[0], texts[1])
		}
	}
	wantNoDeviceOverSocket(t, n, id)
	var done struct{ UnregisterDevice struct{ Changed bool } }
	if n.MustAsk("bob", `mutation($e:URL!){unregisterDevice(input:{endpoint:$e}){changed}}`, map[string]any{"e": ann.Endpoint}, &done); done.UnregisterDevice.Changed {
		t.Error("bob removes ann's device by its endpoint")
	}
	thief := userBrowser{push.AddWrongKeyBrowser(ann.Browser), n}
	if taken, changed := thief.register("bob"); !changed || taken == id {
		t.Errorf("%s, %v", taken, changed)
	}
	n.MustAsk("bob", `mutation($e:URL!){unregisterDevice(input:{endpoint:$e}){changed}}`, map[string]any{"e": ann.Endpoint}, nil)
	if own := deviceIDsOf(n, "ann"); len(own) != 1 || own[0] != id || len(deviceIDsOf(n, "bob")) != 0 {
		t.Errorf("ann has %v, bob %v", own, deviceIDsOf(n, "bob"))
	}
	private := userBrowser{devicestest.NewBrowser("https://10.0.0.1/metadata"), n}
	if code := n.Ask("bob", registerMutation, private.registerVariables()).ErrorCode(); code != "INVALID" {
		t.Errorf("a private address: %s", code)
	}
	for _, as := range []string{"ann", "host:ingest"} {
		if code := n.Ask(as, `{admin{devices{registered}}}`, nil).ErrorCode(); code != "FORBIDDEN" {
			t.Errorf("%s counts the devices: %s", as, code)
		}
	}
}

// wantNoDeviceOverSocket checks that the user bob, over a socket, does not get the device of the user ann by its ID.
func wantNoDeviceOverSocket(t *testing.T, n *world.Node, id string) {
	t.Helper()
	conn := n.Dial(t)
	world.Send(t, conn, `{"type":"connection_init","payload":{"authorization":"Bearer dev:bob"}}`)
	world.Send(t, conn, `{"type":"subscribe","id":"1","payload":{"query":`+world.QuoteJSON(`{node(id:"`+id+`"){id ...on Device{endpoint}}}`)+`}}`)
	for {
		_, text, err := conn.ReadMessage()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), `"next"`) {
			if !strings.Contains(string(text), `"node":null`) {
				t.Errorf("bob's socket got %s", text)
			}
			return
		}
		if strings.Contains(string(text), `"error"`) {
			return // a refusal of the query is right too
		}
	}
}

// wantDeviceCounts checks the counts of devices and messages that operators read in the API and the metrics: one device, and no failure.
func wantDeviceCounts(t *testing.T, n *world.Node, push *devicestest.PushService) {
	t.Helper()
	world.Eventually(t, 30*time.Second, "the messages are counted", func() bool {
		var data struct {
			Admin struct {
				Devices struct {
					Registered, Waiting, Dead, Delivered, Failed, Removed int
					Node                                                  string
				}
			}
		}
		n.MustAsk("boss:admin", `{admin{devices{registered waiting dead delivered failed removed oldestUnsentAt node lastError}}}`, nil, &data)
		d := data.Admin.Devices
		return d.Registered == 1 && d.Waiting == 0 && d.Delivered == push.ArrivalCount() && d.Failed == 0 && d.Node != ""
	})
	response, err := http.Get(n.URL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, _ := io.ReadAll(response.Body)
	for _, want := range []string{"\ntidings_devices 1\n", "\ntidings_devices_sending 1\n", "\ntidings_devices_waiting 0\n", "\ntidings_devices_failed_total 0\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the metrics do not have %q", want)
		}
	}
}

// Without a push key no device can be registered, and the metrics have no devices.
func TestWithoutAKeyDevicesAreOff(t *testing.T) {
	n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: "embedded"})
	var data struct{ Viewer struct{ PushKey *string } }
	if n.MustAsk("ann", `{viewer{pushKey devices{id}}}`, nil, &data); data.Viewer.PushKey != nil {
		t.Error("there is a key")
	}
	got := n.Ask("ann", registerMutation, userBrowser{devicestest.NewBrowser("https://push.example/1"), n}.registerVariables())
	if got.ErrorCode() != "CONFLICT" || got.Errors[0].Extensions.Reason != "OFF" {
		t.Errorf("%+v", got.Errors)
	}
	response, err := http.Get(n.URL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if text, _ := io.ReadAll(response.Body); strings.Contains(string(text), "\ntidings_devices ") {
		t.Error("the devices are counted")
	}
}
