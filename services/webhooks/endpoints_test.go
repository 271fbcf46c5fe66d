package webhooks

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"tidings/services"
	"tidings/services/leases"
	"tidings/services/outbound/outboundtest"
	"tidings/services/people/peopletest"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
	"tidings/services/stream"
	"tidings/tests/eventually"
)

// Whatever a receiver does, a letter of the user is kept with the error. Once the receiver works, the newest change arrives once.
func TestLettersAreKeptWhateverTheReceiverDoes(t *testing.T) {
	var redirected atomic.Int64
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { redirected.Add(1) }))
	defer target.Close()
	for name, c := range map[string]struct {
		answer func(to http.ResponseWriter, d delivery)
		err    string
	}{
		"500":      {func(to http.ResponseWriter, _ delivery) { to.WriteHeader(500) }, "the receiver answered 500"},
		"redirect": {func(to http.ResponseWriter, _ delivery) { to.Header().Set("Location", target.URL); to.WriteHeader(307) }, "the receiver answered 307: redirects are not followed"},
		"hang":     {func(_ http.ResponseWriter, d delivery) { <-d.senderGone }, "there was no answer within 2s"},
		"garbage":  {func(to http.ResponseWriter, _ delivery) { outboundtest.AnswerGarbage(to, "\x00\x01not HTTP\r\n\r\n") }, "malformed HTTP"},
		"hang up":  {func(to http.ResponseWriter, _ delivery) { outboundtest.AnswerGarbage(to, "") }, "EOF"},
		"headers":  {func(to http.ResponseWriter, _ delivery) { to.Header().Set("X", strings.Repeat("x", 1<<20)) }, "exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			b := peopletest.NewTestDB(t, sqltest.SQLite(t))
			w := newTestWorld(b)
			users := b.MakeUsers("ann")
			timeout := 30 * time.Second // longer than any answer takes on a busy machine
			if name == "hang" {
				timeout = 2 * time.Second
			}
			s := w.newNode(func(cfg *Config) { cfg.Timeout = timeout })
			w.addEndpoint(s, Filter{})
			d := delivererOf(s, "app")
			w.deliverAll(d)
			w.receiver.setAnswer(c.answer)
			w.changeLikes(1, users...)
			w.deliverAll(d)
			if e := w.endpoint(s); e.WaitingUsers != 1 || !strings.Contains(e.LastError, c.err) {
				t.Errorf("%+v", e)
			}
			w.receiver.setAnswer(nil)
			w.changeLikes(2, users...)
			w.deliverAll(d)
			b.Clock.Advance(time.Hour)
			w.deliverAll(d)
			if e := w.endpoint(s); e.WaitingUsers != 0 || e.DeliveredEvents != 1 {
				t.Errorf("%+v", e)
			}
		})
	}
	if redirected.Load() != 0 {
		t.Error("a redirect was followed")
	}
}

// An endpoint that hangs does not delay another endpoint.
func TestSlowEndpointHoldsNoOther(t *testing.T) {
	b := peopletest.NewTestDB(t, sqltest.SQLite(t))
	w := newTestWorld(b)
	users := b.MakeUsers("ann", "bob")
	s := w.newNode(func(cfg *Config) { cfg.Timeout = 10 * time.Minute }) // the slow endpoint hangs until the node stops
	w.addEndpoint(s, Filter{})
	slow := newReceiver(t)
	slow.setAnswer(func(_ http.ResponseWriter, d delivery) { <-d.senderGone })
	sqltest.Must(s.Add(b.Ctx, NewEndpoint{Name: "slow", URL: slow.server.URL}))(t)
	ctx, stop := context.WithCancel(b.Ctx)
	ended := make(chan struct{})
	go func() { _ = s.Run(ctx); close(ended) }()
	for i := range 5 {
		w.changeLikes(i+1, users...)
		eventually.Holds(t, "both users have the change", func() bool {
			w.receiver.mu.Lock()
			defer w.receiver.mu.Unlock()
			return len(w.receiver.deliveries) == 2*(i+1)
		})
	}
	eventually.Holds(t, "the slow one was asked", func() bool {
		slow.mu.Lock()
		defer slow.mu.Unlock()
		return slow.requestsUnderwayByUser["ann"]+slow.requestsUnderwayByUser["bob"] == 2
	})
	sqltest.Equal(t, s.Stats().Endpoints, 2)
	stop()
	<-ended // the stop of the node ends the requests that hang, and counts no failure
	for _, e := range sqltest.Must(s.Endpoints(t.Context(), ""))(t) {
		if e.HasDeliverer || e.FailuresInRow != 0 {
			t.Errorf("after the drain: %+v", e)
		}
	}
}

// During an overlap every secret signs; afterwards only the new one does.
func TestAllSecretsSignDuringARotation(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		t := b.T
		w := newTestWorld(b)
		users := b.MakeUsers("ann")
		s := w.newNode()
		first := w.addEndpoint(s, Filter{})
		d := delivererOf(s, "app")
		w.deliverAll(d)
		second := sqltest.Must(s.RotateSecret(b.Ctx, "app", 24*time.Hour))(t)
		w.receiver.secrets = []string{first, second}
		w.changeLikes(1, users...)
		w.deliverAll(d)
		b.Clock.Advance(time.Hour)
		third := sqltest.Must(s.RotateSecret(b.Ctx, "app", 48*time.Hour))(t)
		sqltest.Equal(t, w.endpoint(s).SigningSecrets, 3)
		w.receiver.secrets = []string{first, second, third}
		w.changeLikes(2, users...)
		w.deliverAll(d)
		b.Clock.Advance(24 * time.Hour)
		sqltest.Equal(t, w.endpoint(s).SigningSecrets, 2)
		w.receiver.secrets = []string{second, third}
		w.changeLikes(3, users...)
		w.deliverAll(d)
		fourth := sqltest.Must(s.RotateSecret(b.Ctx, "app", 0))(t) // a secret that leaked
		sqltest.Equal(t, w.endpoint(s).SigningSecrets, 1)
		w.receiver.secrets = []string{fourth}
		w.changeLikes(4, users...)
		w.deliverAll(d)
		sqltest.Equal(t, w.acceptedTotals(w.receiver.takeDeliveries()), map[string]int{"ann": 4})
		for _, old := range []string{first, second, third} {
			if old == fourth {
				t.Error("a secret came back")
			}
		}
		_, err := s.RotateSecret(b.Ctx, "app", MaxSecretOverlap+1)
		sqltest.WantCode(t, err, services.Invalid)
		for range maxSecrets - 1 {
			sqltest.Must(s.RotateSecret(b.Ctx, "app", time.Hour))(t)
		}
		_, err = s.RotateSecret(b.Ctx, "app", time.Hour)
		sqltest.WantCode(t, err, services.Conflict)
		_, err = s.RotateSecret(b.Ctx, "none", time.Hour)
		sqltest.WantCode(t, err, services.NotFound)
	})
}

// A secret whose overlap has ended does not sign.
func TestOldSecretSignsNoMore(t *testing.T) {
	now := time.Unix(1000, 0)
	old, fresh := newSecret(), newSecret()
	header := http.Header{}
	secrets := []secret{{Text: fresh}, {Text: old, Until: now}}
	text := []byte(`{}`)
	header.Set("webhook-id", "1")
	header.Set("webhook-timestamp", "1000")
	header.Set("webhook-signature", sqltest.Must(sign("1", now, text, signingSecrets(secrets, now)))(t))
	for secret, want := range map[string]bool{fresh: true, old: false} {
		if got := sqltest.Must(standardwebhooks.NewWebhook(secret))(t).VerifyIgnoringTimestamp(text, header) == nil; got != want {
			t.Errorf("accepted %v, want %v", got, want)
		}
	}
}

// The guard checks the dialled address: a name that leads to this machine is refused, and no byte is sent.
func TestNameOfAPrivateAddress(t *testing.T) {
	b := peopletest.NewTestDB(t, sqltest.SQLite(t))
	w := newTestWorld(b)
	users := b.MakeUsers("ann")
	_, port, _ := net.SplitHostPort(w.receiver.server.Listener.Addr().String())
	s := w.newNode(func(cfg *Config) { cfg.Allow = nil })
	for _, scheme := range []string{"http", "https"} {
		sqltest.Must(s.Add(b.Ctx, NewEndpoint{Name: scheme, URL: scheme + "://localhost:" + port}))(t)
		w.changeLikes(1, users...)
		w.deliverAll(delivererOf(s, scheme))
		e := sqltest.Must(s.Endpoints(b.Ctx, scheme))(t)[0]
		if e.WaitingUsers != 1 || !strings.Contains(e.LastError, "is not public") {
			t.Errorf("%+v", e)
		}
		tested := sqltest.Must(s.Test(b.Ctx, scheme))(t)
		if tested.Status != 0 || !strings.Contains(tested.Error, "--webhooks-allow") {
			t.Errorf("%+v", tested)
		}
		w.changeLikes(0, users...)
	}
	sqltest.Equal(t, len(w.receiver.takeDeliveries()), 0)
}

// The error for an endpoint that Add refuses says why.
func TestAddRefusesInvalidEndpoints(t *testing.T) {
	b := peopletest.NewTestDB(t, sqltest.SQLite(t))
	w := newTestWorld(b)
	s := w.newNode()
	for _, c := range []struct {
		e    NewEndpoint
		code services.Code
	}{
		{NewEndpoint{Name: "", URL: "https://a.example"}, services.Invalid},
		{NewEndpoint{Name: "Upper", URL: "https://a.example"}, services.Invalid},
		{NewEndpoint{Name: "a"}, services.Invalid},
		{NewEndpoint{Name: "a", URL: "ftp://a.example"}, services.Invalid},
		{NewEndpoint{Name: "a", URL: "https://"}, services.Invalid},
		{NewEndpoint{Name: "a", URL: "https://:443/x"}, services.Invalid},
		{NewEndpoint{Name: "a", URL: "https://u:p@a.example"}, services.Invalid},
		{NewEndpoint{Name: "a", URL: "https://a.example/#x"}, services.Invalid},
		{NewEndpoint{Name: "a", URL: "https://10.0.0.1/"}, services.Invalid},
		{NewEndpoint{Name: "a", URL: "http://93.184.216.34/"}, services.Invalid},
		{NewEndpoint{Name: "a", URL: "https://[::1]/"}, services.Invalid},
		{NewEndpoint{Name: "a", URL: "https://a.example", Filter: Filter{Sources: []string{"LIKES"}}}, services.Invalid},
		{NewEndpoint{Name: "a", URL: "https://a.example", Filter: Filter{Sources: []string{"NOTIFICATIONS:LIKE", "SITE_MESSAGES:general", "HOME_FEED"}}}, ""},
		{NewEndpoint{Name: "a", URL: "https://a.example"}, services.Conflict},
	} {
		_, err := s.Add(b.Ctx, c.e)
		if services.CodeOf(err) != c.code {
			t.Errorf("%+v: %v", c.e, err)
		}
	}
	sqltest.Equal(t, s.Remove(b.Ctx, "a"), nil)
	sqltest.WantCode(t, s.Remove(b.Ctx, "a"), services.NotFound)
	_, err := s.Test(b.Ctx, "a")
	sqltest.WantCode(t, err, services.NotFound)
	for i := range maxEndpoints {
		sqltest.Must(s.Add(b.Ctx, NewEndpoint{Name: fmt.Sprint(i), URL: "https://a.example"}))(t)
	}
	_, err = s.Add(b.Ctx, NewEndpoint{Name: "more", URL: "https://a.example"})
	sqltest.WantCode(t, err, services.Conflict)
}

// Two additions at once do not pass the limit: one of them is refused.
func TestConcurrentAdditionsKeepTheLimit(t *testing.T) {
	b := peopletest.NewTestDB(t, sqltest.Postgres(t))
	s := newTestWorld(b).newNode()
	for i := range maxEndpoints - 1 {
		sqltest.Must(s.Add(b.Ctx, NewEndpoint{Name: fmt.Sprint(i), URL: "https://a.example"}))(t)
	}
	first, second := sqltest.RunDuringTransaction(t, b.DB,
		func(tx *sql.Tx) error {
			return add(b.Ctx, tx, NewEndpoint{Name: "last", URL: "https://a.example"}, "s", 0, 0)
		},
		func() error { _, err := s.Add(b.Ctx, NewEndpoint{Name: "more", URL: "https://a.example"}); return err })
	sqltest.WantOneErrorWithCode(t, services.Conflict, first, second)
}

// A name that no webhook can have is NOT_FOUND, even if the database refuses the text.
func TestImpossibleNamesAreNotFound(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		s := newTestWorld(b).newNode()
		for _, name := range []string{"\x00", "a\x00b", "Upper", ""} {
			_, rotated := s.RotateSecret(b.Ctx, name, 0)
			_, tested := s.Test(b.Ctx, name)
			_, listed := s.DeadLetters(b.Ctx, name, 10)
			_, replayed := s.ReplayDeadLetters(b.Ctx, name, "")
			for _, err := range []error{rotated, tested, listed, replayed, s.Remove(b.Ctx, name)} {
				sqltest.WantCode(b.T, err, services.NotFound)
			}
		}
	})
}

// Without the change stream there are no events: an endpoint is refused, with advice, unless a node writes the stream.
func TestAddNeedsTheStream(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		off := New(Config{DB: b.DB, Stream: stream.New(stream.Config{DB: b.DB, Clock: b.Clock, Log: slog.New(slog.DiscardHandler)}), Clock: b.Clock})
		e := NewEndpoint{Name: "a", URL: "https://a.example"}
		_, err := off.Add(b.Ctx, e)
		if services.CodeOf(err) != services.Conflict || !strings.Contains(err.Error(), "start every node with --changes") {
			b.T.Errorf("%v", err)
		}
		if names, err := off.pool.FreeRows(b.Ctx); len(names) > 0 || err != nil {
			b.T.Errorf("a node without the stream delivers %v, %v", names, err)
		}
		newTestWorld(b) // a node that writes the stream
		sqltest.Must(off.Add(b.Ctx, e))(b.T)
	})
}

// A filter chooses which changes an endpoint gets, and which counts the changes have.
func TestFilters(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		t := b.T
		w := newTestWorld(b)
		users := b.MakeUsers("ann")
		s := w.newNode()
		filters := map[string]Filter{
			"all": {}, "likes": {Sources: []string{"NOTIFICATIONS:LIKE"}}, "notifications": {Sources: []string{"NOTIFICATIONS"}},
			"rooms": {Sources: []string{"CONVERSATIONS"}}, "totals": {OnlyTotals: true},
		}
		got := map[string][]delivery{}
		deliverers := map[string]*deliverer{}
		for name, filter := range filters {
			sqltest.Must(s.Add(b.Ctx, NewEndpoint{Name: name, URL: w.receiver.server.URL, Filter: filter}))(t)
			deliverers[name] = delivererOf(s, name)
			w.deliverAll(deliverers[name])
		}
		w.changeLikes(2, users...)
		for name, d := range deliverers {
			w.deliverAll(d)
			got[name] = w.receiver.takeDeliveries()
		}
		for name, want := range map[string]int{"all": 1, "likes": 1, "notifications": 1, "rooms": 0, "totals": 1} {
			if len(got[name]) != want {
				t.Fatalf("%s: %+v", name, got[name])
			}
			for _, d := range got[name] {
				if listed := len(d.Data.Sources) == 1; listed == (name == "totals") || d.Data.Total != 2 || d.Data.Silent {
					t.Errorf("%s: %s", name, d.body)
				}
			}
		}
	})
}

// A name may be used again, and nothing is left of the endpoint before.
func TestNothingIsLeftOfARemovedEndpoint(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		w := newTestWorld(b)
		users := b.MakeUsers("ann")
		s := w.newNode()
		w.addEndpoint(s, Filter{})
		d := delivererOf(s, "app")
		w.deliverAll(d)
		w.receiver.answerWith(500)
		w.changeLikes(1, users...)
		w.deliverAll(d)
		sqltest.Equal(b.T, s.Remove(b.Ctx, "app"), nil)
		if _, err := d.Step(b.Ctx); err != leases.ErrLeaseLost {
			b.T.Errorf("a removed endpoint: %v", err)
		}
		w.addEndpoint(s, Filter{})
		if e := w.endpoint(s); e.WaitingUsers != 0 || e.FailuresInRow != 0 {
			b.T.Errorf("%+v", e)
		}
	})
}

// endAllLeases is the statement that ends the leases of all endpoints.
var endAllLeases = sql.AdHoc("the lease ends", `UPDATE webhooks SET until_us = 0`)
