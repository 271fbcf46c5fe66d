package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// newTestApplication makes an application with a stub of Tidings. For each request, answer gets the keys of its events and returns
// the body of the stub's answer.
func newTestApplication(t *testing.T, answer func(keys []string) string) *Application {
	t.Helper()
	store, err := OpenStore(filepath.Join(t.TempDir(), "host.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request struct{ Variables struct{ Events []Event } }
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
			t.Error(err)
		}
		var keys []string
		for _, event := range request.Variables.Events {
			keys = append(keys, event.IdempotencyKey)
		}
		_, _ = w.Write([]byte(answer(keys)))
	}))
	t.Cleanup(server.Close)
	for _, key := range []string{"ada", "grace"} {
		if err := store.AddUser(t.Context(), key, key); err != nil {
			t.Fatal(err)
		}
	}
	return &Application{store: store, tidings: NewTidings(server.URL, "a secret of at least thirty-two bytes"), outboxChanged: make(chan struct{}, 1)}
}

// If the author of the newest article shown is erased before the mark, the feed is shown again without it.
func TestOpenFeedReadsAgainAfterAnErasure(t *testing.T) {
	const page = `{"data":{"viewer":{"badges":{"total":{"value":%d},"notifications":{"newest":null}},"homeFeed":{"nodes":[%s]}}}}`
	const gone = `{"errors":[{"message":"upTo: there is no post:2","extensions":{"code":"NOT_FOUND"}}]}`
	const one, two = `{"id":"post:1","ref":"article-1"}`, `{"id":"post:2","ref":"article-2"}`
	stays := slices.Repeat([]string{fmt.Sprintf(page, 2, two+","+one), gone}, 2*maxFeedReads)
	for _, c := range []struct {
		name    string
		answers []string // the answers of the stub, in their order
		code    string   // the code of the wanted error; "" for none
		want    Feed
		asked   int // how many requests the stub must get
	}{
		{"once", []string{stays[0], gone, fmt.Sprintf(page, 1, one), `{"data":{}}`}, "", Feed{BadgeTotal: 1, Articles: []string{"article-1"}}, 4},
		{"and nothing is left", []string{stays[0], gone, fmt.Sprintf(page, 0, "")}, "", Feed{Articles: []string{}}, 3},
		{"for ever", stays, "NOT_FOUND", Feed{BadgeTotal: 2, Articles: []string{"article-2", "article-1"}}, 2 * maxFeedReads},
		{"another trouble", []string{stays[0], strings.Replace(gone, "NOT_FOUND", "FORBIDDEN", 1)}, "FORBIDDEN", Feed{BadgeTotal: 2, Articles: []string{"article-2", "article-1"}}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked := 0
			a := newTestApplication(t, func([]string) string { asked++; return c.answers[asked-1] })
			feed, err := a.OpenFeed(t.Context(), "ada")
			code := ""
			if refused, ok := errors.AsType[*Error](err); ok {
				code = refused.Code
			}
			if code != c.code || !reflect.DeepEqual(feed, c.want) || asked != c.asked {
				t.Errorf("after %d requests: %+v, %v", asked, feed, err)
			}
		})
	}
}

// ingestAnswer returns an answer to events with these keys. errs has the error codes of some events, by key.
func ingestAnswer(keys []string, errs map[string]string) string {
	list := make([]string, len(keys))
	for i, key := range keys {
		list[i] = `{"error":null}`
		if code := errs[key]; code != "" {
			list[i] = `{"error":{"code":"` + code + `","message":"no","retryAfterMs":1}}`
		}
	}
	return `{"data":{"ingest":{"results":[` + strings.Join(list, ",") + `]}}}`
}

// Whatever the server answers, events take effect in their order and none is lost. An event that the server refuses for good is
// kept.
func TestRelayTriesAgainInOrder(t *testing.T) {
	var requests [][]string
	answers := []func(keys []string) string{
		func([]string) string { return "a proxy's page" },
		func([]string) string {
			return `{"errors":[{"message":"no","extensions":{"code":"UNAVAILABLE","retryAfterMs":1}}]}`
		},
		func(keys []string) string { return ingestAnswer(keys, map[string]string{"outbox-2": "RATE_LIMITED"}) },
		func(keys []string) string { return ingestAnswer(keys, map[string]string{"outbox-3": "INVALID"}) },
	}
	a := newTestApplication(t, func(keys []string) string {
		requests = append(requests, keys)
		return answers[len(requests)-1](keys)
	})
	id, err := a.store.Publish(t.Context(), "ada", "An article")
	if err == nil {
		err = a.store.Like(t.Context(), "grace", id)
	}
	if err != nil {
		t.Fatal(err)
	}
	for i, fails := range []bool{true, true, true, false} {
		if _, err := a.relayOnce(t.Context()); (err != nil) != fails {
			t.Errorf("pass %d: %v", i, err)
		}
	}
	if more, err := a.relayOnce(t.Context()); more || err != nil {
		t.Errorf("the outbox is not empty: %v", err)
	}
	all := []string{"outbox-1", "outbox-2", "outbox-3", "outbox-4"}
	want := [][]string{all, all, all, all[1:]}
	if !slices.EqualFunc(requests, want, slices.Equal[[]string]) {
		t.Errorf("sent %q", requests)
	}
	if health, err := a.store.health(t.Context()); err != nil || health.RefusedEvents != 1 {
		t.Errorf("%+v, %v", health, err)
	}
}

// If Tidings refuses a whole request because of one row, only this row counts as refused in the end. The others are sent.
func TestRelayRefusesOnlyTheInvalidRow(t *testing.T) {
	a := newTestApplication(t, func(keys []string) string {
		if slices.Contains(keys, "outbox-2") {
			return `{"errors":[{"message":"no such field","extensions":{"code":"INVALID"}}]}`
		}
		return ingestAnswer(keys, nil)
	})
	for range 600 {
		if _, err := a.store.Publish(t.Context(), "ada", strings.Repeat("a", 1000)); err != nil {
			t.Fatal(err)
		}
	}
	for more := true; more; {
		var err error
		if more, err = a.relayOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if health, err := a.store.health(t.Context()); err != nil || health.RefusedEvents != 1 || health.OutboxRows != 0 {
		t.Errorf("%+v, %v", health, err)
	}
}

// A request has no more bytes than Tidings takes, and at least half as many if the outbox is full enough.
func TestBatchesAreBounded(t *testing.T) {
	a := newTestApplication(t, func([]string) string { return "" })
	for range maxRequestEvents {
		if _, err := a.store.Publish(t.Context(), "ada", strings.Repeat("a", 4000)); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := a.store.nextOutboxBatch(t.Context())
	size := 0
	for _, row := range rows {
		size += len(row.action)
	}
	if err != nil || size > maxRequestBytes || size < maxRequestBytes/2 {
		t.Errorf("%d rows of %d bytes: %v", len(rows), size, err)
	}
}

// The request for an erasure is sent after the events that other users still have in the outbox, and the erasure drops the erased
// user's events that were not sent yet.
func TestErasureIsSentAfterOtherEvents(t *testing.T) {
	a := newTestApplication(t, func([]string) string { return `{"data":{"eraseUser":{"erasure":{"name":"e1"}}}}` })
	id, err := a.store.Publish(t.Context(), "ada", "An article")
	for _, act := range []func() error{
		func() error { return a.store.Like(t.Context(), "grace", id) },
		func() error { return a.store.Follow(t.Context(), "grace", "ada") },
		func() error { return a.store.Erase(t.Context(), "ada") },
	} {
		err = errors.Join(err, act())
	}
	rows, fault := a.store.nextOutboxBatch(t.Context())
	if err = errors.Join(err, fault); err != nil || len(rows) != 1 || rows[0].actor != "grace" {
		t.Fatalf("the outbox has %+v, %v", rows, err)
	}
	if err := a.store.removeAnswered(t.Context(), rows, []Result{{}}); err != nil {
		t.Fatal(err)
	}
	if rows, err = a.store.nextOutboxBatch(t.Context()); err != nil || len(rows) != 1 || !rows[0].isErasure() {
		t.Fatalf("then it has %+v, %v", rows, err)
	}
	if _, err := a.relayOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if health, err := a.store.health(t.Context()); err != nil || health.UnfinishedErasures != 1 || health.OutboxRows != 0 {
		t.Errorf("%+v, %v", health, err)
	}
	if err := a.store.Follow(t.Context(), "grace", "ada"); !errors.Is(err, errNotFound) {
		t.Errorf("following somebody who is gone: %v", err)
	}
}

// Only signed events set an icon, and only if they are newer than the event that set it last. An event that comes twice alerts once.
func TestIconsShowTheNewestVersion(t *testing.T) {
	a := newTestApplication(t, func([]string) string { return "" })
	webhook, err := standardwebhooks.NewWebhook("whsec_c2VjcmV0LXNlY3JldC1zZWNyZXQ=")
	if err != nil {
		t.Fatal(err)
	}
	post := func(signed bool, data string) int {
		body := `{"type":"badges.changed","data":` + data + `}`
		r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, webhookPath, strings.NewReader(body))
		at := time.Now()
		signature, _ := webhook.Sign("m1", at, []byte(body))
		if !signed {
			signature = "v1,AAAA"
		}
		r.Header.Set("webhook-id", "m1")
		r.Header.Set("webhook-timestamp", strconv.FormatInt(at.Unix(), 10))
		r.Header.Set("webhook-signature", signature)
		w := httptest.NewRecorder()
		a.Handler().ServeHTTP(w, r)
		return w.Code
	}
	const third = `{"key":"ada","version":"0000000000000003","total":3,"silent":false,"cause":{"source":"NOTIFICATIONS","part":"LIKE"}}`
	if got := post(true, third); got != http.StatusServiceUnavailable {
		t.Errorf("without a secret: %d", got)
	}
	if _, err := a.store.Exec(`INSERT INTO settings (name, value) VALUES (?, ?)`, secretSetting, "whsec_c2VjcmV0LXNlY3JldC1zZWNyZXQ="); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		signed bool
		data   string // the data of the event
		want   int    // the wanted status
	}{
		{false, third, http.StatusUnauthorized},
		{true, third, http.StatusNoContent},
		{true, third, http.StatusNoContent},
		{true, strings.NewReplacer("0003", "0002", `"total":3`, `"total":9`).Replace(third), http.StatusNoContent},
		{true, strings.Replace(third, "ada", "nobody", 1), http.StatusNoContent},
		{true, `{`, http.StatusBadRequest},
	} {
		if got := post(c.signed, c.data); got != c.want {
			t.Errorf("%t %s: %d", c.signed, c.data, got)
		}
	}
	phones, err := a.store.phones(t.Context())
	if err != nil || len(phones) != 1 || phones["ada"] != (Phone{3, 1, "Somebody likes your article"}) {
		t.Errorf("%+v, %v", phones, err)
	}
	for _, silent := range []struct {
		data string // the data of the event
		icon int    // the number on the icon afterwards
	}{
		{`{"key":"ada","version":"0000000000000004","total":1,"silent":true,"cause":{"source":"HOME_FEED","part":null}}`, 1},
		{`{"key":"ada","version":"0000000000000005","total":1,"quiet":true,"silent":true,"cause":null}`, 0},
		{`{"key":"ada","version":"0000000000000006","total":2,"silent":true,"cause":null}`, 2},
		{`{"key":"ada","version":"0000000000000007","total":0,"silent":true,"cause":null}`, 0},
	} {
		if got := post(true, silent.data); got != http.StatusNoContent {
			t.Errorf("%s: %d", silent.data, got)
		}
		if phones, err = a.store.phones(t.Context()); err != nil || phones["ada"] != (Phone{silent.icon, 1, "Somebody likes your article"}) {
			t.Errorf("after %s: %+v, %v", silent.data, phones, err)
		}
	}
}
