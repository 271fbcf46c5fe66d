package transport

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
)

// connectionAck is the message that acknowledges connection_init.
const connectionAck = `{"type":"connection_ack"}`

func TestSocketClosesWithTheCodeOfTheProtocol(t *testing.T) {
	initialise := `{"type":"connection_init"}`
	subscribe := `{"type":"subscribe","id":"1","payload":{"query":"subscription { ticks }"}}`
	for _, test := range []struct {
		name string
		send []string
		code int
	}{
		{"SecondInit", []string{initialise, initialise}, 4429},
		{"SubscribeBeforeAck", []string{subscribe}, 4401},
		{"DuplicateID", []string{initialise, subscribe, subscribe}, 4409},
		{"BadToken", []string{`{"type":"connection_init","payload":{"authorization":"Bearer nonsense"}}`}, 4403},
		{"BadUserKey", []string{`{"type":"connection_init","payload":{"authorization":"dev:a b"}}`}, 4403},
		{"TokenNoText", []string{`{"type":"connection_init","payload":{"authorization":5}}`}, 4400},
		{"BadDevice", []string{`{"type":"connection_init","payload":{"authorization":"dev:a","device":"a b"}}`}, 4400},
		{"DeviceNoText", []string{`{"type":"connection_init","payload":{"device":{}}}`}, 4400},
		{"InitPayloadNoObject", []string{`{"type":"connection_init","payload":[]}`}, 4400},
		{"NoJSON", []string{`connection_init`}, 4400},
		{"Array", []string{`[]`}, 4400},
		{"Null", []string{`null`}, 4400},
		{"Empty", []string{``}, 4400},
		{"NoType", []string{`{"id":"1"}`}, 4400},
		{"UnknownType", []string{`{"type":"start","id":"1"}`}, 4400},
		{"TypeOfTheServer", []string{`{"type":"next","id":"1"}`}, 4400},
		{"SubscribeWithoutID", []string{initialise, `{"type":"subscribe","payload":{"query":"{hello}"}}`}, 4400},
		{"SubscribeWithEmptyID", []string{initialise, `{"type":"subscribe","id":"","payload":{"query":"{hello}"}}`}, 4400},
		{"SubscribeWithLongID", []string{initialise, `{"type":"subscribe","id":"` + strings.Repeat("a", 129) + `","payload":{"query":"{hello}"}}`}, 4400},
		{"SubscribeWithoutPayload", []string{initialise, `{"type":"subscribe","id":"1"}`}, 4400},
		{"QueryNoText", []string{initialise, `{"type":"subscribe","id":"1","payload":{"query":5}}`}, 4400},
		{"VariablesNoObject", []string{initialise, `{"type":"subscribe","id":"1","payload":{"query":"{hello}","variables":[]}}`}, 4400},
		{"CompleteWithoutID", []string{initialise, `{"type":"complete"}`}, 4400},
		{"PingPayloadNoObject", []string{`{"type":"ping","payload":"x"}`}, 4400},
		{"NoUTF8", []string{"{\"type\":\"ping\",\"payload\":{\"a\":\"\xff\"}}"}, 4400},
		{"TooLong", []string{initialise, `{"type":"ping","payload":{"a":"` + strings.Repeat("a", 64<<10) + `"}}`}, 1009},
	} {
		t.Run(test.name, func(t *testing.T) {
			runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
				c := w.connect()
				for _, text := range test.send {
					c.send(text)
				}
				closing := c.expectClose(test.code)
				if test.code != 1009 && closing.Text == "" {
					t.Error("the close says no reason")
				}
			})
		})
	}
}

func TestSocketWithoutTheSubprotocolIsClosed(t *testing.T) {
	for name, protocols := range map[string][]string{"None": nil, "Legacy": {"graphql-ws"}} {
		t.Run(name, func(t *testing.T) {
			runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
				c := w.connectWith(http.Header{}, protocols...)
				c.expectClose(4406)
				if got := c.conn.Subprotocol(); got != "" {
					t.Errorf("negotiated %q", got)
				}
			})
		})
	}
}

func TestSocketBinaryMessageIsBad(t *testing.T) {
	runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
		c := w.connect()
		if err := c.conn.WriteMessage(websocket.BinaryMessage, []byte(`{"type":"connection_init"}`)); err != nil {
			t.Fatal(err)
		}
		c.expectClose(4400)
	})
}

func TestSocketInitTimeout(t *testing.T) {
	runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
		c := w.connect()
		passTime(3*time.Second - time.Millisecond)
		c.expectNothing()
		c.expectClose(4408)
	})
	runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
		c := w.openSocket("alice") // an initialised socket is not closed
		passTime(10 * time.Second)
		c.expectNothing()
	})
}

func TestAClientThatIgnoresTheCloseIsDisconnected(t *testing.T) {
	runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
		conn, err := w.dial(http.Header{}, webSocketSubprotocol)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.SetCloseHandler(func(int, string) error { return nil })
		if err := conn.WriteMessage(websocket.TextMessage, []byte("nonsense")); err != nil {
			t.Fatal(err)
		}
		if _, _, err := conn.ReadMessage(); !websocket.IsCloseError(err, 4400) {
			t.Fatalf("got %v", err)
		}
		if err := conn.WriteMessage(websocket.TextMessage, []byte("more nonsense")); err != nil {
			t.Fatal(err) // the server reads this message and discards it
		}
		passTime(closeAnswerTimeout - time.Millisecond)
		synctest.Wait()
		if open := w.sockets.Stats().Open; open != 1 {
			t.Errorf("%d sockets while it may still answer", open)
		}
		passTime(2 * time.Millisecond)
		synctest.Wait()
		if open := w.sockets.Stats().Open; open != 0 {
			t.Errorf("%d sockets after it did not answer", open)
		}
	})
}

// If the timer of a socket fires while the close frame is being written, handleTimer does not cut the client off, because the client
// has not read the reason yet.
func TestATimerDuringACloseCutsNoClientOff(t *testing.T) {
	runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
		w.openSocket("alice")
		for one := range w.sockets.openPeers {
			closing := one.sender.(*socket)
			mark := func(on bool) {
				closing.mu.Lock()
				closing.closing = on
				closing.mu.Unlock()
			}
			mark(true)
			closing.handleTimer()
			synctest.Wait()
			mark(false)
		}
		if open := w.sockets.Stats().Open; open != 1 {
			w.Errorf("%d sockets are open, want 1", open)
		}
	})
}

func TestCloseReasonsRepeatNoClientText(t *testing.T) {
	const secret = "s3cret"
	for _, text := range []string{
		secret, `{"type":"` + secret + `"}`, `{"type":"subscribe","id":"` + secret + `"}`,
		`{"type":"connection_init","payload":{"authorization":"` + secret + `"}}`,
		`{"type":"connection_init","payload":{"authorization":"dev:` + secret + `:root"}}`,
	} {
		runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
			c := w.connect()
			c.send(text)
			select {
			case closing := <-c.closed:
				if strings.Contains(closing.Text, secret) || closing.Code < 4400 {
					t.Errorf("%s: closed with %d %q", text, closing.Code, closing.Text)
				}
			case <-time.After(time.Minute):
				t.Errorf("%s: not closed", text)
			}
		})
	}
}

// The viewer of a socket comes from connection_init, or else from the headers of the upgrade.
func TestSocketIdentity(t *testing.T) {
	who := func(c *socketClient, want string) {
		c.Helper()
		c.expectMessage(connectionAck)
		c.subscribe("1", "{ who }")
		c.expectMessage(`{"type":"next","id":"1","payload":{"data":{"who":"` + want + `"}}}`)
		c.expectMessage(`{"type":"complete","id":"1"}`)
	}
	header := func(pairs ...string) http.Header {
		header := http.Header{}
		for i := 0; i < len(pairs); i += 2 {
			header.Set(pairs[i], pairs[i+1])
		}
		return header
	}
	for _, test := range []struct {
		name    string
		upgrade http.Header
		payload string
		want    string
	}{
		{"Bearer", nil, `{"authorization":"Bearer dev:alice","device":"phone"}`, "alice@phone"},
		{"Bare", nil, `{"authorization":"dev:alice"}`, "alice@"},
		{"CapitalKey", nil, `{"Authorization":"bearer dev:alice"}`, "alice@"},
		{"UpgradeHeader", header("Authorization", "Bearer dev:alice", "Tidings-Device", "tv"), `{}`, "alice@tv"},
		{"PayloadBeforeHeader", header("Authorization", "Bearer dev:alice"), `{"authorization":"dev:bob"}`, "bob@"},
		{"ActAs", header("Tidings-Act-As", "carol"), `{"authorization":"dev:host:ingest"}`, "carol@"},
		{"NoPayload", header("Authorization", "Bearer dev:alice"), `null`, "alice@"},
	} {
		t.Run(test.name, func(t *testing.T) {
			runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
				c := w.connectWith(test.upgrade, webSocketSubprotocol)
				c.send(`{"type":"connection_init","payload":` + test.payload + `}`)
				who(c, test.want)
			})
		})
	}
	t.Run("NoTokenGoesOnWithoutViewer", func(t *testing.T) {
		runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
			c := w.openSocket("")
			c.subscribe("1", "{ who }")
			if got := c.nextMessage(); !strings.Contains(got, "a token is needed") {
				t.Errorf("got %s", got)
			}
		})
	})
	t.Run("ActAsWithoutIngest", func(t *testing.T) {
		runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
			c := w.connectWith(header("Tidings-Act-As", "carol"), webSocketSubprotocol)
			c.send(`{"type":"connection_init","payload":{"authorization":"dev:alice"}}`)
			c.expectClose(4403)
		})
	})
	t.Run("BadHeader", func(t *testing.T) {
		runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
			c := w.connectWith(header("Authorization", "Basic YTpi"), webSocketSubprotocol)
			c.send(`{"type":"connection_init"}`)
			c.expectClose(4403)
		})
	})
}

func TestSocketTokenExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		identity, err := NewIdentity(t.Context(), IdentityConfig{TokenSettings: TokenSettings{HMACSecret: testHMACSecret}})
		if err != nil {
			t.Fatal(err)
		}
		w := newSocketFixture(t, func(cfg *SocketConfig) { cfg.Identity = identity })
		defer w.shutDownAndCheckLeaks()
		start := time.Now()
		c := w.connect()
		c.send(`{"type":"connection_init","payload":{"authorization":"` + signHMAC(t, testHMACSecret, claimsOf("alice", start.Add(time.Minute))) + `"}}`)
		c.expectMessage(connectionAck)
		c.subscribe("1", "subscription { ticks }")
		passTime(80 * time.Second) // pings were answered, and the leeway is not over
		w.schema.hub.publish(1)
		c.expectMessage(`{"type":"next","id":"1","payload":{"data":{"ticks":1}}}`)
		closing := c.expectClose(4403)
		if !strings.Contains(closing.Text, "expired") {
			t.Errorf("reason %q", closing.Text)
		}
		if lived := time.Since(start); lived != time.Minute+tokenLeeway {
			t.Errorf("closed after %v, want the end of the token and the leeway", lived)
		}
		again := w.connect()
		again.send(`{"type":"connection_init","payload":{"authorization":"` + signHMAC(t, testHMACSecret, claimsOf("alice", start.Add(time.Minute))) + `"}}`)
		again.expectClose(4403)
	})
}

// The server answers the message ping of graphql-transport-ws by the message pong.
func TestSocketPingOfTheProtocol(t *testing.T) {
	runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
		c := w.connect()
		c.send(`{"type":"ping"}`) // allowed before connection_init
		c.expectMessage(`{"type":"pong"}`)
		c.send(`{"type":"ping","payload":{"n":12345678901234567890}}`)
		c.expectMessage(`{"type":"pong","payload":{"n":12345678901234567890}}`)
		c.send(`{"type":"pong","payload":null}`)
		c.expectNothing()
	})
}

func TestSocketPingsDetectDeadClients(t *testing.T) {
	t.Run("Answered", func(t *testing.T) {
		runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
			var pings []time.Time
			c := w.connect()
			answer := c.conn.PingHandler()
			c.conn.SetPingHandler(func(payload string) error {
				pings = append(pings, time.Now())
				return answer(payload)
			})
			c.send(`{"type":"connection_init"}`)
			c.expectMessage(connectionAck)
			passTime(5 * time.Minute)
			c.expectNothing()
			if len(pings) < 10 || len(pings) > 14 {
				t.Fatalf("%d pings in 5 minutes, want about 12", len(pings))
			}
			steady := true
			for i := 1; i < len(pings); i++ {
				gap := pings[i].Sub(pings[i-1])
				if gap < 22*time.Second || gap > 28*time.Second {
					t.Errorf("%v between two pings, want 25 s give or take a tenth", gap)
				}
				steady = steady && gap == pings[1].Sub(pings[0])
			}
			if steady {
				t.Error("the pings have no jitter")
			}
		})
	})
	t.Run("NotAnswered", func(t *testing.T) {
		runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
			c := w.connect()
			c.conn.SetPingHandler(func(string) error { return nil })
			c.send(`{"type":"connection_init"}`)
			c.expectMessage(connectionAck)
			start := time.Now()
			c.expectClose(websocket.CloseAbnormalClosure)
			if waited := time.Since(start); waited != 53*time.Second {
				t.Errorf("cut off after %v, want two intervals and the wait for connection_init", waited)
			}
		})
	})
}

func TestSocketPingFrameIsAnswered(t *testing.T) {
	runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
		c := w.connect()
		pongs := make(chan string, 1)
		c.conn.SetPongHandler(func(payload string) error {
			pongs <- payload
			return nil
		})
		if err := c.conn.WriteControl(websocket.PingMessage, []byte("hi"), time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		if got := <-pongs; got != "hi" {
			t.Errorf("pong %q", got)
		}
	})
}

func TestSocketMessageRate(t *testing.T) {
	for name, ping := range map[string]func(c *socketClient){
		"Messages": func(c *socketClient) { c.send(`{"type":"pong"}`) },
		"Frames": func(c *socketClient) {
			if err := c.conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(time.Second)); err != nil {
				c.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
				c := w.openSocket("alice")
				for range 39 { // 20 operations and 20 messages at once; connection_init was the first message
					ping(c)
				}
				c.expectNothing()
				passTime(time.Second)
				for range 20 {
					ping(c)
				}
				c.expectNothing()
				ping(c)
				c.expectClose(4429)
			})
		})
	}
}

func TestSocketLimitOfOperations(t *testing.T) {
	runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
		c := w.openSocket("alice")
		for i := range 20 {
			c.subscribe(string(rune('a'+i)), "subscription { ticks }")
		}
		synctest.Wait()
		if n := w.sockets.Stats().Operations; n != 20 {
			t.Fatalf("%d operations", n)
		}
		c.subscribe("more", "subscription { ticks }")
		got := c.nextMessage()
		if !strings.HasPrefix(got, `{"type":"error","id":"more","payload":[`) || !strings.Contains(got, `"CONFLICT"`) {
			t.Errorf("got %s", got)
		}
		c.send(`{"type":"complete","id":"a"}`)
		c.subscribe("more", "{ hello }")
		c.expectMessage(`{"type":"next","id":"more","payload":{"data":{"hello":"world"}}}`)
	})
}
