package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gorilla/websocket"
	"github.com/redis/go-redis/v9"
)

const (
	factVersion = "0001763697600000" // the version before the JSON of each copy in Redis
	newestID    = "01DHJFY1G0003"    // the ID of the newest post of the feed, and of the newest notification
)

// startTestServer starts the baseline on a Redis with one user, whose ID is 7, with two posts in the feed.
func startTestServer(t *testing.T) (*httptest.Server, *miniredis.Miniredis) {
	t.Helper()
	engine := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: engine.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	today := time.Now().Unix() / 86400
	engine.HSet("{u7}:b", "st", "1", "n", "1763697600000001", "d", "0", "T", zeroID, "fc", "100", "NL", fmt.Sprintf("3;9;%d;2,1,0,0,0,0,0,1", today), "HL", "3;"+newestID)
	for _, member := range []string{"!" + zeroID, newestID + "!!!!#+", "01DHJFY1G0002!!!\"!-"} {
		if _, err := engine.ZAdd("{u7}:i", 0, member); err != nil {
			t.Fatal(err)
		}
	}
	for key, value := range map[string]string{
		"p:" + newestID: factVersion + `{"a":2,"k":"POST","b":"new"}`, "p:01DHJFY1G0002": factVersion + `{"a":85,"k":"POST","b":"old"}`,
		"{u2}:p": factVersion + "2147480000" + `{"k":"bert","n":"Bert"}`, "{u85}:p": factVersion + `{"k":"cleo"}`,
	} {
		if err := engine.Set(key, value); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer(routes(client, map[string]uint32{"anna": 7, "nobody": 8}))
	t.Cleanup(server.Close)
	return server, engine
}

// ask sends a query with a token, and returns the body of the answer.
func ask(t *testing.T, server *httptest.Server, token, query string) string {
	t.Helper()
	body, err := json.Marshal(map[string]string{"query": query})
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/graphql", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestBadges(t *testing.T) {
	server, engine := startTestServer(t)
	query := `{ viewer { badges { total { value } homeFeed { value display precision } notifications { newest like { value inTotal asOf } } } } }`
	// 100 posts; likes of today and of the seven days before. The oldest of these days still counts.
	want := `{"data":{"viewer":{"badges":{"total":{"value":104},"homeFeed":{"value":100,"display":"99+","precision":"EXACT"},` +
		`"notifications":{"newest":"notificationUpTo:` + newestID + `","like":{"value":4,"inTotal":true,"asOf":null}}}}}}`
	if got := ask(t, server, "dev:anna", query); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	engine.HSet("{u7}:b", "fc", "300+", "HL", "4;"+zeroID)
	got := ask(t, server, "dev:anna", query)
	if !strings.Contains(got, `"value":300,"display":"99+","precision":"AT_LEAST"`) || !strings.Contains(got, `"newest":null`) {
		t.Errorf("got %s", got)
	}
}

func TestHomeFeed(t *testing.T) {
	server, engine := startTestServer(t)
	query := `query { viewer { homeFeed(first: %d) { edges { node { id kind author { id key name } body } } pageInfo { hasNextPage startCursor endCursor } lastId end } } }`
	want := `{"data":{"viewer":{"homeFeed":{"edges":[` +
		`{"node":{"id":"post:` + newestID + `","kind":"POST","author":{"id":"user:bert","key":"bert","name":"Bert"},"body":"new"}},` +
		`{"node":{"id":"post:01DHJFY1G0002","kind":"POST","author":{"id":"user:cleo","key":"cleo","name":null},"body":"old"}}],` +
		`"pageInfo":{"hasNextPage":false,"startCursor":"AQAAAAcAC0jzwwAAAw","endCursor":"AQAAAAcAC0jzwwAAAg"},"lastId":"post:01DHJFY1G0002","end":"END"}}}}`
	got := ask(t, server, "dev:anna", fmt.Sprintf(query, 20))
	if cursors := `"` + encodeCursor(7, mustParseID(t, newestID)) + `","endCursor":"` + encodeCursor(7, mustParseID(t, "01DHJFY1G0002")) + `"`; !strings.Contains(got, cursors) {
		t.Errorf("no %s in %s", cursors, got)
	}
	if withoutCursors(got) != withoutCursors(want) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := ask(t, server, "dev:anna", fmt.Sprintf(query, 1)); !strings.Contains(got, `"hasNextPage":true`) || !strings.Contains(got, `"end":null`) || strings.Contains(got, "cleo") {
		t.Errorf("a page of one: %s", got)
	}
	engine.Del("p:" + newestID)
	if got := ask(t, server, "dev:anna", fmt.Sprintf(query, 20)); !strings.Contains(got, "errors") {
		t.Errorf("without the post: %s", got)
	}
}

func mustParseID(t *testing.T, letters string) uint64 {
	t.Helper()
	id, err := parseID(letters)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// withoutCursors removes the two cursors of pageInfo from an answer.
func withoutCursors(text string) string {
	start, end := strings.Index(text, `"startCursor"`), strings.Index(text, `},"lastId"`)
	if start < 0 || end < start {
		return text
	}
	return text[:start] + text[end:]
}

func TestStrangersGetNothing(t *testing.T) {
	server, _ := startTestServer(t)
	for _, token := range []string{"dev:nobody", "dev:stranger", ""} {
		for _, field := range []string{"badges { version }", "homeFeed { lastId }"} {
			if got := ask(t, server, token, "{ viewer { "+field+" } }"); !strings.Contains(got, `"errors"`) {
				t.Errorf("%q got %s of %s", token, got, field)
			}
		}
	}
}

// dialSubscription opens a socket that has subscribed.
func dialSubscription(t *testing.T, server *httptest.Server, token string) *websocket.Conn {
	t.Helper()
	dialer := websocket.Dialer{Subprotocols: []string{"graphql-transport-ws"}}
	conn, _, err := dialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(server.URL, "http")+"/graphql", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	for _, message := range []string{
		`{"type":"connection_init","payload":{"authorization":"Bearer ` + token + `"}}`,
		`{"id":"1","type":"subscribe","payload":{"query":"subscription { badgesChanged { version total { value } } }"}}`,
	} {
		if err := conn.WriteMessage(websocket.TextMessage, []byte(message)); err != nil {
			t.Fatal(err)
		}
	}
	return conn
}

func readMessage(t *testing.T, conn *websocket.Conn) string {
	t.Helper()
	_, text, err := conn.ReadMessage()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestTriggerReachesEverySubscriber(t *testing.T) {
	server, _ := startTestServer(t)
	var conns []*websocket.Conn
	for range 3 {
		conn := dialSubscription(t, server, "dev:anna")
		for _, want := range []string{"connection_ack", `"type":"next"`} {
			if got := readMessage(t, conn); !strings.Contains(got, want) {
				t.Fatalf("%s instead of %s", got, want)
			}
		}
		conns = append(conns, conn)
	}
	response, err := http.Post(server.URL+"/trigger", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if given, err := io.ReadAll(response.Body); err != nil || string(given) != "3\n" {
		t.Errorf("given to %q, %v", given, err)
	}
	for _, conn := range conns {
		if got := readMessage(t, conn); !strings.Contains(got, `"total":{"value":52}`) {
			t.Errorf("the event is %s", got)
		}
	}
}

func TestSubscribersThatLeaveAreForgotten(t *testing.T) {
	e := newEventBroker()
	ctx, cancel := context.WithCancel(t.Context())
	channel := e.subscribe(ctx, 7)
	if first := <-channel; first.Total.Value != 52 {
		t.Errorf("the first event is %+v", first)
	}
	if given := e.sendToAll(); given != 1 {
		t.Errorf("given to %d", given)
	}
	if given := e.sendToAll(); given != 0 {
		t.Errorf("given to %d, who had not taken the last", given)
	}
	cancel()
	for range channel { // until it is closed
	}
	if given := e.sendToAll(); given != 0 {
		t.Errorf("given to %d after they left", given)
	}
}

func TestRunNeedsItsUsers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "users.json")
	if err := run("127.0.0.1:0", "redis://127.0.0.1:1", file); err == nil {
		t.Error("without the file")
	}
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run("127.0.0.1:0", "redis://127.0.0.1:1", file); err == nil {
		t.Error("with a broken file")
	}
	if err := run("127.0.0.1:0", "nothing", file); err == nil {
		t.Error("with a bad address of Redis")
	}
}

func TestWhatIsBrokenInRedisIsAnError(t *testing.T) {
	now := time.Now()
	for _, likes := range []string{"", "1;2;3", "1;2;x;0", "1;2;3;0,x"} {
		if badges, err := renderBadges(1, "0", likes, zeroID, now); err == nil {
			t.Errorf("likes %q: %+v", likes, badges)
		}
	}
	if badges, err := renderBadges(1, "many", "1;0;0;0", zeroID, now); err == nil {
		t.Errorf("count many: %+v", badges)
	}
	if _, err := parseID("01DHJFY1G000U"); err == nil {
		t.Error("U is no letter of an id")
	}
	if got := authorOf(newestID + `!!!"#+`); got != 87 {
		t.Errorf("author %d, want 87", got)
	}
}
