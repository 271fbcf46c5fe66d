package transport

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/services"
	"tidings/tests/eventually"
)

func TestFrontContext(t *testing.T) {
	type key struct{}
	var c frontContext
	c.begin(context.WithValue(t.Context(), key{}, 1), time.Hour)
	if until, ok := c.Deadline(); !ok || time.Until(until) < 59*time.Minute || c.Err() != nil || c.Value(key{}) != 1 || c.inner.Load() != nil {
		t.Errorf("before anybody waits: %v", c.Err())
	}
	derived, cancel := context.WithCancel(&c)
	defer cancel()
	if c.inner.Load() == nil || c.Value(key{}) != 1 || derived.Err() != nil {
		t.Error("somebody waits")
	}
	c.end()
	<-derived.Done()
	if c.Err() != context.Canceled || derived.Err() != context.Canceled {
		t.Errorf("after the end: %v, %v", c.Err(), derived.Err())
	}
	var late, ended frontContext
	late.begin(t.Context(), -time.Second)
	if late.Err() != context.DeadlineExceeded {
		t.Errorf("late: %v", late.Err())
	}
	<-late.Done()
	ended.begin(t.Context(), time.Hour)
	ended.end()
	if ended.Err() != context.Canceled {
		t.Errorf("ended: %v", ended.Err())
	}
	<-ended.Done()
}

func TestFrontEndsAnOperationWhoseClientIsGone(t *testing.T) {
	f := newFrontFixture(t, false, func(cfg *Config, _ *http.Server) { cfg.OperationTimeout = time.Hour })
	conn := must(net.Dial("tcp", f.frontAddress))
	if _, err := io.WriteString(conn, rawRequest(queryBody("{ slow }"))); err != nil {
		t.Fatal(err)
	}
	eventually.Holds(t, "the operation has begun", func() bool { return f.limits.operationCharges.Load() == 1 })
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	// By itself it would end after an hour.
	eventually.Holds(t, "the operation has ended", func() bool { f.front.mu.Lock(); defer f.front.mu.Unlock(); return len(f.front.conns) == 0 })
}

func TestFrontAnswersWhatComesDuringASlowOperation(t *testing.T) {
	f := newFrontFixture(t, false, func(cfg *Config, _ *http.Server) { cfg.OperationTimeout = 10 * watchClientAfter })
	slow, next := rawRequest(queryBody("{ slow }")), rawRequest(queryBody("{ who }"))
	want := slices.Concat(f.sendAndReadAnswers(f.directAddress, 1, slow), f.sendAndReadAnswers(f.directAddress, 1, next), f.sendAndReadAnswers(f.directAddress, 1, next))
	if got := f.sendAndReadAnswers(f.frontAddress, 3, slow, next, next); !slices.Equal(got, want) {
		t.Errorf("sent at once: got\n%s\nwant\n%s", got, want)
	}
	conn := must(net.Dial("tcp", f.frontAddress))
	defer conn.Close()
	begun := f.limits.operationCharges.Load()
	if _, err := io.WriteString(conn, slow); err != nil {
		t.Fatal(err)
	}
	eventually.Holds(t, "the operation has begun", func() bool { return f.limits.operationCharges.Load() > begun })
	time.AfterFunc(3*watchClientAfter, func() { _, _ = io.WriteString(conn, next) }) // while watchClient reads
	reader := bufio.NewReader(conn)
	for range 2 {
		got, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, got.Body); err != nil || got.StatusCode != http.StatusOK {
			t.Errorf("%s, %v", got.Status, err)
		}
	}
}

// A byte of a next request that watchClient has read goes to the HTTP server with the rest of that request.
func TestFrontHandsOnAByteThatWatchClientRead(t *testing.T) {
	f := newFrontFixture(t, false, func(cfg *Config, _ *http.Server) { cfg.OperationTimeout = 10 * watchClientAfter })
	conn := must(net.Dial("tcp", f.frontAddress))
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	foreign := rawRequest("", "GET /graphql?query={who} HTTP/1.1", "-Content-Type", "-Content-Length")
	if _, err := io.WriteString(conn, rawRequest(queryBody("{ slow }"))+foreign[:2]); err != nil {
		t.Fatal(err)
	}
	eventually.Holds(t, "the operation has begun", func() bool { return f.limits.operationCharges.Load() > 0 })
	time.AfterFunc(3*watchClientAfter, func() { _, _ = io.WriteString(conn, foreign[2:]) }) // while watchClient reads
	reader := bufio.NewReader(conn)
	for _, what := range []string{"the slow operation", "the request for the HTTP server"} {
		got, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if _, err := io.Copy(io.Discard, got.Body); err != nil || got.StatusCode != http.StatusOK {
			t.Errorf("%s: %s, %v", what, got.Status, err)
		}
	}
}

// A textCache stays within its bytes, and keeps what was used lately.
func TestTextCacheIsBoundedAndKeepsRecentTexts(t *testing.T) {
	m := newTextCache[int](200)
	text := func(i int) []byte { return fmt.Appendf(nil, "text %04d", i) } // 9 bytes
	for i := range 50 {
		m.put(text(i), i, 1)
		if got, known := m.get(text(0)); !known || got != 0 {
			t.Fatalf("after %d: what is used all the time was forgotten", i)
		}
		if got, known := m.get(text(i)); !known || got != i {
			t.Fatalf("the newest: %d, %v", got, known)
		}
		if size := 10 * (len(m.young) + len(m.old)); size > 200 || m.bytes != 10*len(m.young) {
			t.Fatalf("%d bytes, %d of the young ones", size, m.bytes)
		}
	}
	if _, known := m.get(text(20)); known {
		t.Error("what was not used for long is still known")
	}
	m.put(text(60), 60, 500)
	if _, known := m.get(text(60)); known {
		t.Error("what is larger than the memory is kept")
	}
	changed := text(70)
	m.put(changed, 70, 0)
	changed[0]++
	if _, known := m.get(text(70)); !known {
		t.Error("the text was not copied")
	}
	collision := m.young[0]
	collision.text = text(81)
	for key := range m.young {
		m.young[key] = collision
	}
	if _, known := m.get(text(70)); known {
		t.Error("another text with the same hash was found")
	}
}

// Bodies with variables are remembered, but not those with a text that hardly comes again: it would push out the others.
func TestFrontRemembersOnlyRepeatableBodies(t *testing.T) {
	f := newFrontFixture(t, false, nil)
	for body, remembered := range map[string]bool{
		queryBody("{ who }"):                       true,
		echoRequestBody("String!", `{"t":"LIKE"}`): true,
		echoRequestBody("String!", `{"t":"x","u":[[{"a":5},"`+strings.Repeat("x", minLongTextBytes-1)+`"]]}`): true,
		echoRequestBody("String!", `{"t":"x","u":[[{"a":"`+strings.Repeat("x", minLongTextBytes)+`"}]]}`):     false,
		echoRequestBody("String!", `{"t":"`+strings.Repeat("x", minLongTextBytes)+`"}`):                       false,
		`{"query":"query($t: String!) { fails: echo(text: $t) hello }","variables":{"t":"x"}}`:                true,  // the executor answers it
		echoRequestBody("String!", `{"t":5}`):                                                                 false, // the executor refuses it
	} {
		f.sendAndReadAnswers(f.frontAddress, 1, rawRequest(body))
		if _, known := f.front.parsedBodies.get([]byte(body)); known != remembered {
			t.Errorf("%s: remembered %v", body, known)
		}
	}
}

// A remembered body counts with the document that it keeps. For a body that the executor answers nothing is kept, because the executor
// reads the body again.
func TestRememberedBodiesCountTheirDocuments(t *testing.T) {
	f := newFrontFixture(t, false, nil)
	sum := 0
	for query, hot := range map[string]bool{"{ who }": true, "{ a: who }": true, "{ who hello }": false} {
		body := queryBody(query)
		f.sendAndReadAnswers(f.frontAddress, 1, rawRequest(body))
		known, found := f.front.parsedBodies.get([]byte(body))
		if !found || (known.hotAnswer != nil) != hot || (known.operation != nil) != hot || (known.documentBytes > documentOverheadBytes) != hot {
			t.Fatalf("%s: %+v, remembered %v", query, known, found)
		}
		sum += len(body) + parsedBodyOverheadBytes + known.documentBytes
	}
	if f.front.parsedBodies.bytes != sum {
		t.Errorf("the remembered bodies count %d bytes, want %d", f.front.parsedBodies.bytes, sum)
	}
}

// A head with the ID of one request is not remembered, but its caller is: the token is not verified again for the next ID.
func TestCallersAreRememberedWithoutRequestIDs(t *testing.T) {
	f := newFrontFixture(t, false, nil)
	withoutID := rawRequest(queryBody("{ who }"))
	send := func(id, want string) {
		t.Helper()
		answer := f.sendAndReadAnswers(f.frontAddress, 1, rawRequest(queryBody("{ who }"), requestIDHeader+": "+id))[0]
		if !strings.Contains(answer, id) || !strings.Contains(answer, want) {
			t.Fatalf("the request %s is answered %s, want %s", id, answer, want)
		}
	}
	send("id-1", "alice@")
	rest := []byte(strings.TrimSuffix(withoutID, queryBody("{ who }")))
	known, found := f.front.requestHeads.get(rest)
	if !found || known.caller == nil || len(f.front.requestHeads.young) != 1 {
		t.Fatalf("the head without its ID is remembered: %v, of %d heads", found, len(f.front.requestHeads.young))
	}
	viewer := known.caller.viewer
	viewer.Key = "remembered"
	changed, caller := *known, *known.caller
	caller.viewer, caller.ctx = viewer, services.WithViewer(context.Background(), viewer)
	changed.caller = &caller
	f.front.requestHeads.put(rest, &changed, 0)
	send("id-2", "remembered@")
	if answer := f.sendAndReadAnswers(f.frontAddress, 1, withoutID)[0]; !strings.Contains(answer, "remembered@") || strings.Contains(answer, "id-") {
		t.Errorf("without an ID it is answered %s", answer)
	}
}
