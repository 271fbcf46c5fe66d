package webhooks

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"tidings/services"
	"tidings/services/people/peopletest"
	"tidings/services/sql/sqltest"
	"tidings/services/stream"
)

func TestMain(m *testing.M) { os.Exit(m.Run()) }

// testWorld is users whose badges a test sets, the stream of their changes and one receiver.
type testWorld struct {
	*peopletest.TestDB
	mu         sync.Mutex                        // guards the maps and newestNotification
	likes      map[services.UserID]int           // the count of the category LIKE, by user
	online     map[services.UserID]bool          // the users with an open socket
	newestLike map[services.UserID]services.Item // the newest item of LIKE, by user
	// comments is the count of the category COMMENT, by user. It is a second part of the same source.
	comments           map[services.UserID]int
	newestComment      map[services.UserID]services.Item // the newest item of COMMENT, by user
	newestNotification services.NotificationID           // the position of everybody's newest notification

	stream   *stream.Service
	receiver *receiver
}

// receiver plays the host application, to which the webhooks go. Each test sets its answers.
type receiver struct {
	t                      *testing.T
	server                 *httptest.Server
	mu                     sync.Mutex                              // guards the fields below
	deliveries             []delivery                              // the requests since the last takeDeliveries
	secrets                []string                                // each request must be signed by all of them
	answer                 func(w http.ResponseWriter, d delivery) // nil: 204
	requestsUnderwayByUser map[string]int                          // how many requests are not answered yet, by the user's key
	requestsOverlapped     bool                                    // two requests for a user were under way at once
}

// delivery is one request that arrived.
type delivery struct {
	ID         string          // the header webhook-id
	Type       string          // the type of the event
	Data       badges          // the data of a changedEvent
	Accepted   bool            // the answer was a success, and the sender waited for it
	body       string          // the event as it was sent
	senderGone <-chan struct{} // closed when the sender gives up, or the test ends
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{t: t, requestsUnderwayByUser: map[string]int{}}
	r.server = httptest.NewServer(r)
	t.Cleanup(r.server.Close)
	return r
}

// statusRecorder is a response writer that keeps the status that was written.
type statusRecorder struct {
	http.ResponseWriter
	status int
}

func (r *statusRecorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

// Unwrap gives http.ResponseController the writer below.
func (r *statusRecorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// ServeHTTP checks and keeps a request, and answers it as the test wants.
func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	text, err := io.ReadAll(request.Body)
	if err != nil {
		return // the sender went away
	}
	d := delivery{ID: request.Header.Get("webhook-id"), body: string(text), senderGone: request.Context().Done()}
	var e struct {
		Type string
		Data json.RawMessage
	}
	if err := json.Unmarshal(text, &e); err != nil {
		r.t.Errorf("a body that is not JSON: %s", text)
	}
	d.Type = e.Type
	if e.Type == changedEvent {
		if err := json.Unmarshal(e.Data, &d.Data); err != nil {
			r.t.Errorf("%s: %v", text, err)
		}
	}
	r.mu.Lock()
	secrets, answer := r.secrets, r.answer
	if r.requestsUnderwayByUser[d.Data.Key]++; r.requestsUnderwayByUser[d.Data.Key] > 1 {
		r.requestsOverlapped = true
	}
	r.mu.Unlock()
	for _, secret := range secrets {
		by, err := standardwebhooks.NewWebhook(secret)
		if err == nil {
			err = by.VerifyIgnoringTimestamp(text, request.Header) // the clock of a test stands still
		}
		if err != nil {
			r.t.Errorf("%s: %v", d.ID, err)
		}
	}
	to := &statusRecorder{ResponseWriter: w, status: http.StatusOK}
	if answer != nil {
		answer(to, d)
	} else {
		to.WriteHeader(http.StatusNoContent)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requestsUnderwayByUser[d.Data.Key]--
	d.Accepted = to.status < 300 && request.Context().Err() == nil
	r.deliveries = append(r.deliveries, d)
}

// setAnswer sets the function that answers requests from now on.
func (r *receiver) setAnswer(answer func(w http.ResponseWriter, d delivery)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

// answerWith lets every request be answered with one status.
func (r *receiver) answerWith(status int) {
	r.setAnswer(func(w http.ResponseWriter, _ delivery) { w.WriteHeader(status) })
}

// takeDeliveries returns the deliveries so far, and forgets them.
func (r *receiver) takeDeliveries() []delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	got := r.deliveries
	r.deliveries = nil
	return got
}

func newTestWorld(b *peopletest.TestDB) *testWorld {
	w := &testWorld{
		TestDB: b, likes: map[services.UserID]int{}, online: map[services.UserID]bool{},
		newestLike: map[services.UserID]services.Item{}, receiver: newReceiver(b.T),
		comments: map[services.UserID]int{}, newestComment: map[services.UserID]services.Item{},
	}
	w.stream = stream.New(stream.Config{
		DB: b.DB, Peek: w.peekBadges, NewestItems: w.readNewestItems, SharedChanges: func() uint64 { return 0 }, ActiveSince: func() time.Time { return time.Time{} },
		Clock: services.SystemClock{}, Log: slog.New(slog.DiscardHandler), Settings: stream.Settings{AlwaysOn: true, ChangeInterval: -time.Second, LapInterval: 24 * time.Hour},
	})
	w.writeStream()
	return w
}

// peekBadges returns the badges of users, as the stream's Config.Peek does.
func (w *testWorld) peekBadges(_ context.Context, users []services.UserID) (list []*services.Badges, errs []error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, user := range users {
		one := &services.Badges{}
		one.Notifications.Newest = w.newestNotification
		*one.Notifications.Of(services.CategoryLike) = services.NewCount(w.likes[user], services.Exact, time.Time{})
		one.Notifications.Of(services.CategoryLike).InTotal = true
		if comments, some := w.comments[user]; some {
			*one.Notifications.Of(services.CategoryComment) = services.NewCount(comments, services.Exact, time.Time{})
		}
		one.Total = services.Sum(*one.Notifications.Of(services.CategoryLike), *one.Notifications.Of(services.CategoryComment))
		list, errs = append(list, one), append(errs, nil)
	}
	return list, errs
}

// readNewestItems returns the newest like and comment of a user, as the stream's Config.NewestItems does.
func (w *testWorld) readNewestItems(_ context.Context, user services.UserID, _ *services.Badges, _ []services.Source, _ time.Time) (newest []services.Explanation, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if item, some := w.newestLike[user]; some {
		newest = append(newest, services.Explanation{Source: services.SourceNotifications, Part: "LIKE", Items: []services.Item{item}})
	}
	if item, some := w.newestComment[user]; some {
		newest = append(newest, services.Explanation{Source: services.SourceNotifications, Part: "COMMENT", Items: []services.Item{item}})
	}
	return newest, nil
}

// changeComments sets a user's comments, with the newest at a time, and writes the change to the stream.
func (w *testWorld) changeComments(comments int, at time.Time, user services.UserID) {
	w.T.Helper()
	w.mu.Lock()
	w.comments[user], w.newestComment[user] = comments, services.Item{ID: "notification:2", At: at}
	w.mu.Unlock()
	sqltest.Equal(w.T, w.stream.Mark(w.Ctx, []services.UserID{user}), nil)
	w.writeStream()
}

// changeLikes sets a user's likes, and writes the change to the stream.
func (w *testWorld) changeLikes(likes int, users ...services.UserID) {
	w.T.Helper()
	w.setLikesAndMark(likes, users...)
	w.writeStream()
}

// setLikesAndMark sets the likes of users, without a change in the stream yet.
func (w *testWorld) setLikesAndMark(likes int, users ...services.UserID) {
	w.T.Helper()
	w.mu.Lock()
	for _, user := range users {
		// A smaller number means that some likes were read and no new one came.
		if likes >= w.likes[user] {
			w.newestLike[user] = services.Item{ID: "notification:1", At: time.Now()}
		}
		w.likes[user] = likes
	}
	w.mu.Unlock()
	sqltest.Equal(w.T, w.stream.Mark(w.Ctx, users), nil)
}

// writeStream writes the changes of all marked users to the stream.
func (w *testWorld) writeStream() {
	w.T.Helper()
	for more := true; more; {
		more = sqltest.Must(w.stream.RunOnce(w.Ctx))(w.T)
	}
}

// setOnline sets whether a user has an open socket.
func (w *testWorld) setOnline(user services.UserID, online bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.online[user] = online
}

// newNode makes the webhooks of one node. It may call the receivers of the test, which are on loopback.
func (w *testWorld) newNode(change ...func(*Config)) *Service {
	cfg := Config{
		DB: w.DB, Stream: w.stream, Node: "node", Clock: w.Clock, Log: slog.New(slog.DiscardHandler),
		Settings: Settings{Timeout: 5 * time.Second, Allow: []string{"127.0.0.0/8"}}, SiteMessageTypes: []string{"general"},
		Online: func(_ context.Context, users []services.UserID) (map[services.UserID]bool, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			online := map[services.UserID]bool{}
			for _, user := range users {
				online[user] = w.online[user]
			}
			return online, nil
		},
	}
	for _, one := range change {
		one(&cfg)
	}
	s := New(cfg)
	w.T.Cleanup(s.sender.client.CloseIdle)
	return s
}

// delivererOf makes the deliverer of an endpoint on a node.
func delivererOf(s *Service, name string) *deliverer { return s.newDeliverer(s.pool.Lease(name)) }

// addEndpoint adds the endpoint app, which gets later changes only, and returns its secret.
func (w *testWorld) addEndpoint(s *Service, filter Filter) (secret string) {
	w.T.Helper()
	secret = sqltest.Must(s.Add(w.Ctx, NewEndpoint{Name: "app", URL: w.receiver.server.URL, Filter: filter}))(w.T)
	w.receiver.secrets = []string{secret}
	return secret
}

// deliverAll delivers until nothing is left to do now.
func (w *testWorld) deliverAll(d *deliverer) {
	w.T.Helper()
	for range 5000 {
		wait, err := d.Step(w.Ctx)
		if err != nil {
			w.T.Fatal(err)
		}
		if wait > 0 {
			return
		}
	}
	w.T.Fatal("there is always something to deliver")
}

// endpoint returns the endpoint app, as operators see it.
func (w *testWorld) endpoint(s *Service) Endpoint {
	w.T.Helper()
	list := sqltest.Must(s.Endpoints(w.Ctx, "app"))(w.T)
	if len(list) != 1 {
		w.T.Fatalf("endpoints: %+v", list)
	}
	return list[0]
}

// acceptedTotals returns, by the user's key, the total in the last delivery that was accepted. It fails the test if the versions of a
// user fall.
func (w *testWorld) acceptedTotals(got []delivery) map[string]int {
	w.T.Helper()
	totals, last := map[string]int{}, map[string]string{}
	for _, d := range got {
		if d.Data.Version < last[d.Data.Key] {
			w.T.Errorf("%s: the version %s after %s", d.Data.Key, d.Data.Version, last[d.Data.Key])
		}
		last[d.Data.Key] = d.Data.Version
		if d.Accepted {
			totals[d.Data.Key] = d.Data.Total
		}
	}
	return totals
}
