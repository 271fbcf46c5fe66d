package resolvers

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/99designs/gqlgen/graphql/handler"
	"github.com/99designs/gqlgen/graphql/handler/transport"

	"tidings/dataloader"
	"tidings/graph"
	"tidings/services"
	"tidings/services/acts"
	"tidings/services/announcements"
	"tidings/services/badge"
	"tidings/services/badge/source/sourcetest"
	"tidings/services/chat"
	"tidings/services/devices"
	"tidings/services/fanout/fanouttest"
	"tidings/services/feed"
	"tidings/services/live"
	"tidings/services/messages"
	"tidings/services/notifications/notificationstest"
	"tidings/services/redis"
	"tidings/services/refs"
	"tidings/services/social"
	"tidings/services/stream"
	"tidings/services/views"
)

// testAPI is the schema behind a real HTTP server. The viewer and their scopes come from headers of the request, and are not checked.
type testAPI struct {
	*fanouttest.World
	t              *testing.T
	resolver       *Resolver
	server         *httptest.Server
	log            *bytes.Buffer // what the server logs
	lastRoundTrips atomic.Int64  // round trips to Redis of the last operation
}

// newAPI makes a testAPI with limits that tests reach soon: a user can follow 3 users, and a GROUP can have 5 members.
func newAPI(t *testing.T) *testAPI {
	t.Helper()
	return newAPIOn(t, fanouttest.New(t, fanouttest.Options{}), 3, 5)
}

// newAPIOn makes a testAPI on the databases, caches and clock of w, with the limits of followed users and of members of a GROUP.
func newAPIOn(t *testing.T, w *fanouttest.World, maxFollowees, maxGroup int) *testAPI {
	t.Helper()
	w.MakeNamedUsers("alice", "bob", "carol")
	a := &testAPI{World: w, t: t, log: &bytes.Buffer{}}
	log := slog.New(slog.NewTextHandler(a.log, nil))
	conversations := chat.New(chat.Config{DB: w.DB, Redis: w.Redis, Changelog: w.Caches.Changelog, Jobs: w.Fanout.Engine, Projector: w.Projector, Clock: w.Clock, Settings: chat.Settings{MaxGroupMembers: maxGroup}})
	letters := messages.New(messages.Config{DB: w.DB, Jobs: w.Fanout.Engine, Projector: w.Projector, IDs: w.IDs})
	announced := announcements.New(announcements.Config{DB: w.DB, Redis: w.Redis, Jobs: w.Fanout.Engine, Changelog: w.Caches.Changelog, Projector: w.Projector, IDs: w.IDs, Clock: w.Clock})
	boards := live.New(live.Config{DB: w.DB, Redis: w.Redis, Reader: w.Caches.Reader, Changelog: w.Caches.Changelog, Jobs: w.Fanout.Engine, Projector: w.Projector, Fanout: w.Fanout.Fanout, IDs: w.IDs, Clock: w.Clock})
	notified := notificationstest.New(w)
	lists := views.New(views.Config{DB: w.DB, Redis: w.Redis.Client, Jobs: w.Fanout.Engine, Projector: w.Projector, IDs: w.IDs, Clock: w.Clock, Log: log})
	a.resolver = &Resolver{
		Readers: dataloader.Readers{Posts: w.Caches.Reader, Shows: boards.Memory},
		Social:  social.New(social.Config{DB: w.DB, People: w.Caches.People, Projector: w.Projector, Fanout: w.Fanout.Fanout, IDs: w.IDs, Notifications: notified, Settings: social.Settings{MaxFollowees: maxFollowees}, OnBlock: conversations.CloseDirect}),
		Feed:    feed.New(feed.Config{Jobs: w.Fanout.Engine, DB: w.DB, Redis: w.Redis, Posts: w.Caches.Posts, Reader: w.Caches.Reader, Pulled: w.Caches.Pulled, InFlight: w.Caches.InFlight, Projector: w.Projector, Fanout: w.Fanout.Fanout, IDs: w.IDs, Clock: w.Clock}),
		Badge:   badge.New(badge.Config{SQLTimeout: time.Minute, Sources: sourcetest.Complete[badge.Source](letters.Source(), announced.Source(), conversations.Source(), boards.Source(), notified.Source(), lists.Source()), DB: w.DB, Redis: w.Redis, Jobs: w.Fanout.Engine, Projector: w.Projector, Pulled: w.Caches.Pulled, Clock: w.Clock, Log: w.Log}),
		Chat:    conversations, Announcements: announced,
		Messages:      letters,
		Views:         lists,
		Devices:       newTestDevices(w),
		Refs:          refs.New(w.DB),
		Acts:          acts.New(acts.Config{DB: w.DB, IDs: w.IDs, Log: log}),
		Live:          boards,
		Notifications: notified, Jobs: w.Fanout.Engine, Fanout: w.Fanout.Fanout, Projector: w.Projector, Queue: w.Fanout, Clock: w.Clock, Log: log,
	}
	schema := handler.New(WithHotOperations(graph.NewSchema(graph.Config{Resolvers: a.resolver}), a.resolver))
	schema.AddTransport(transport.POST{})
	schema.SetErrorPresenter(ErrorPresenter(log))
	schema.SetRecoverFunc(Recover)
	UseLoader(a.resolver.Readers)(schema)
	a.server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if scopes, given := r.Header["Scope"]; given {
			viewer := services.Viewer{Key: r.Header.Get("Key")}
			for _, scope := range scopes {
				viewer.Scopes = append(viewer.Scopes, services.Scope(scope))
			}
			r = r.WithContext(services.WithViewer(r.Context(), viewer))
		}
		ctx, trips := redis.WithRoundTrips(r.Context())
		schema.ServeHTTP(rw, r.WithContext(ctx))
		a.lastRoundTrips.Store(int64(trips.Count()))
	}))
	t.Cleanup(a.server.Close)
	return a
}

// pushSettings returns the settings with the keys for Web Push. All tests have the same keys, so that two servers of a test give the same answers.
var pushSettings = sync.OnceValue(func() devices.Settings {
	private, _, err := devices.NewVAPIDKeys()
	if err != nil {
		panic(err)
	}
	return devices.Settings{VAPIDPrivateKey: private, VAPIDSubject: "mailto:ops@example.com"}
})

// newTestDevices returns the service of devices, without a push service: nothing is sent.
func newTestDevices(w *fanouttest.World) *devices.Service {
	return devices.New(devices.Config{DB: w.DB, Stream: stream.New(stream.Config{DB: w.DB, Clock: w.Clock, Log: w.Log}), Settings: pushSettings(), Clock: w.Clock, Log: w.Log})
}

// apiAnswer is a response as a client reads it.
type apiAnswer struct {
	Data   map[string]any
	Errors []struct {
		Message    string
		Path       []any
		Extensions map[string]any
	}
}

// code returns the code of the first error; "" if there is none.
func (a apiAnswer) code() services.Code {
	if len(a.Errors) == 0 {
		return ""
	}
	code, _ := a.Errors[0].Extensions["code"].(string)
	return services.Code(code)
}

// valueAt returns the value in the data at a path of fields and indexes; nil if there is none.
func (a apiAnswer) valueAt(path ...any) any {
	var value any = a.Data
	for _, step := range path {
		switch step := step.(type) {
		case string:
			object, _ := value.(map[string]any)
			value = object[step]
		case int:
			list, _ := value.([]any)
			if step >= len(list) {
				return nil
			}
			value = list[step]
		}
	}
	return value
}

// ask sends an operation as a user with scopes; without a scope the request has no token.
func (a *testAPI) ask(key string, scopes []services.Scope, query string, variables map[string]any) apiAnswer {
	a.t.Helper()
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	a.Must(err)
	request, err := http.NewRequestWithContext(a.t.Context(), http.MethodPost, a.server.URL, bytes.NewReader(body))
	a.Must(err)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Key", key)
	for _, scope := range scopes {
		request.Header.Add("Scope", string(scope))
	}
	response, err := a.server.Client().Do(request)
	a.Must(err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	a.Must(err)
	var got apiAnswer
	if err := json.Unmarshal(text, &got); err != nil {
		a.t.Fatalf("%s: %v", text, err)
	}
	a.checkErrorArguments(query, variables, got)
	return got
}

// askAs sends an operation as a user with the scope viewer.
func (a *testAPI) askAs(key, query string, variables map[string]any) apiAnswer {
	a.t.Helper()
	return a.ask(key, []services.Scope{services.ScopeViewer}, query, variables)
}

// must sends an operation as a user with the scope viewer. The operation must succeed.
func (a *testAPI) must(key, query string, variables map[string]any) apiAnswer {
	a.t.Helper()
	got := a.askAs(key, query, variables)
	if len(got.Errors) > 0 {
		a.t.Fatalf("%s answered %+v", query, got.Errors)
	}
	return got
}

// publishPost lets a user publish a post, and returns the ID of the post.
func (a *testAPI) publishPost(key string) string {
	a.t.Helper()
	got := a.must(key, `mutation { publishPost(input: {body: "hello"}) { post { id } } }`, nil)
	id, _ := got.valueAt("publishPost", "post", "id").(string)
	return id
}

// ingest sends events as the host application and returns their results. Tests write events in a short form: the fields as, device and
// key are in the input of the action.
func (a *testAPI) ingest(events ...map[string]any) apiAnswer {
	a.t.Helper()
	long := make([]map[string]any, len(events))
	for i, event := range events {
		long[i] = expandEvent(event)
	}
	return a.ask("", []services.Scope{services.ScopeIngest}, ingestQuery, map[string]any{"events": long})
}

// expandEvent returns the full form of an event in short form: see ingest.
func expandEvent(short map[string]any) map[string]any {
	do := map[string]any{}
	event := map[string]any{"do": do}
	for name, said := range short {
		input := maps.Clone(said.(map[string]any))
		for _, of := range []string{"as", "device", "key"} {
			if value, given := input[of]; given {
				event[of] = value
				delete(input, of)
			}
		}
		if key, given := input["view"]; given { // short events have the key of a view in the field view
			input["key"] = key
			delete(input, "view")
		}
		do[name] = input
	}
	return event
}

// ingestQuery is the mutation that sends a batch of events.
const ingestQuery = `mutation($events: [IngestEvent!]!) { ingest(events: $events) { results { id changed error { code message } } } }`
