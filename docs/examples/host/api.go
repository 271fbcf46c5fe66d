package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"log"
	"net/http"
	"strconv"
	"time"
)

// The application's own API, for its website and apps. It has no sign-in: a real application takes the user from the session, and
// not from a key in the address.

// Handler answers all requests.
func (a *Application) Handler() http.Handler {
	mux := http.NewServeMux()
	// act serves one act, and wakes the relay, which sends at once what the act wrote into the outbox.
	act := func(pattern string, do func(ctx context.Context, r *http.Request) (any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			// When do returns, the fact and its event are on disk.
			answer, err := do(r.Context(), r)
			a.wakeRelay()
			reply(w, answer, err)
		})
	}
	act("PUT /users/{key}", func(ctx context.Context, r *http.Request) (any, error) {
		return nil, a.store.AddUser(ctx, r.PathValue("key"), r.FormValue("name"))
	})
	act("DELETE /users/{key}", func(ctx context.Context, r *http.Request) (any, error) {
		return nil, a.store.Erase(ctx, r.PathValue("key"))
	})
	act("PUT /users/{key}/follows/{author}", func(ctx context.Context, r *http.Request) (any, error) {
		return nil, a.store.Follow(ctx, r.PathValue("key"), r.PathValue("author"))
	})
	act("DELETE /users/{key}/follows/{author}", func(ctx context.Context, r *http.Request) (any, error) {
		return nil, a.store.Unfollow(ctx, r.PathValue("key"), r.PathValue("author"))
	})
	act("POST /users/{key}/articles", func(ctx context.Context, r *http.Request) (any, error) {
		return a.store.Publish(ctx, r.PathValue("key"), r.FormValue("body"))
	})
	act("DELETE /articles/{id}", func(ctx context.Context, r *http.Request) (any, error) {
		return nil, a.store.Delete(ctx, articleID(r))
	})
	act("PUT /users/{key}/likes/{id}", func(ctx context.Context, r *http.Request) (any, error) {
		return nil, a.store.Like(ctx, r.PathValue("key"), articleID(r))
	})
	act("DELETE /users/{key}/likes/{id}", func(ctx context.Context, r *http.Request) (any, error) {
		return nil, a.store.Unlike(ctx, r.PathValue("key"), articleID(r))
	})
	act("POST /users/{key}/open", func(ctx context.Context, r *http.Request) (any, error) { return a.OpenFeed(ctx, r.PathValue("key")) })
	act("GET /facts", func(ctx context.Context, _ *http.Request) (any, error) { return a.store.facts(ctx) })
	act("GET /health", func(ctx context.Context, _ *http.Request) (any, error) { return a.store.health(ctx) })
	act("GET /phones", func(ctx context.Context, _ *http.Request) (any, error) { return a.store.phones(ctx) })
	// This route does not use act, because a webhook writes nothing into the outbox.
	mux.HandleFunc("POST "+webhookPath, a.receiveWebhook)
	return mux
}

// articleID returns the ID of the article in the address of a request; 0 if there is none.
func articleID(r *http.Request) int64 {
	// Text that is not a number gives 0. No article has the ID 0, so the answer is 404.
	id, _ := strconv.ParseInt(r.PathValue("id"), 10, 64)
	return id
}

// wakeRelay wakes the relay, which sends the events of the outbox to Tidings. Otherwise the relay would find a new event only after
// pollInterval.
func (a *Application) wakeRelay() {
	select {
	case a.outboxChanged <- struct{}{}:
	default: // a wake-up is already under way
	}
}

// reply answers a request. If the user can correct the error, the answer has the reason. For errors of this application or of
// Tidings, the answer only says to try again.
func reply(w http.ResponseWriter, answer any, err error) {
	var refused *Error
	switch {
	// The act names a user or an object that does not exist. Nothing was written.
	case errors.Is(err, errNotFound):
		http.Error(w, err.Error(), http.StatusNotFound)
	case errors.As(err, &refused) && !refused.temporary():
		http.Error(w, err.Error(), http.StatusConflict)
	case err != nil:
		log.Print(err)
		http.Error(w, "try again", http.StatusServiceUnavailable)
	default:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer) // the client may be gone
	}
}

// Feed is the feed that a user sees when they open the app.
type Feed struct {
	Articles   []string `json:"articles"` // refs, newest first
	BadgeTotal int      `json:"waiting"`  // the number on the icon before the feed was opened
}

// maxFeedReads is how often OpenFeed reads a feed at most. It reads again if the newest article shown has vanished meanwhile,
// because its author was erased. One erasure removes all articles of an author, so it rarely happens again at the next read.
const maxFeedReads = 3

// OpenFeed shows a user their feed, and marks the shown articles as seen. Articles that come meanwhile are not marked.
func (a *Application) OpenFeed(ctx context.Context, key string) (feed Feed, err error) {
	for range maxFeedReads {
		feed, err = a.openFeedOnce(ctx, key)
		// NOT_FOUND: the newest shown article is gone, because its author was erased. Read the feed again.
		if refused, ok := errors.AsType[*Error](err); !ok || refused.Code != "NOT_FOUND" {
			break
		}
	}
	return feed, err
}

// openFeedOnce reads the feed and marks it as seen for the user, with the header Tidings-Act-As. An app that talks to Tidings itself
// does the same with its user's own token.
func (a *Application) openFeedOnce(ctx context.Context, key string) (Feed, error) {
	var shown struct {
		Viewer struct {
			Badges struct {
				Total         struct{ Value int }
				Notifications struct{ Newest *string }
			}
			HomeFeed struct{ Nodes []struct{ ID, Ref string } }
		}
	}
	// Read the total before the marks below, which change it.
	user := bearer{scope: "ingest", actAs: key}
	// One request reads both, so that the feed and the total are of the same moment.
	err := a.tidings.ask(ctx, user, `{ viewer {
		badges { total { value } notifications { newest } }
		homeFeed(first: 100) { nodes { id ref } }
	} }`, nil, &shown)
	if err != nil {
		return Feed{}, err
	}
	viewer, feed := shown.Viewer, Feed{Articles: []string{}, BadgeTotal: shown.Viewer.Badges.Total.Value}
	for _, post := range viewer.HomeFeed.Nodes {
		feed.Articles = append(feed.Articles, post.Ref)
	}
	// Mark up to the newest shown article. An article that came later still counts.
	if len(viewer.HomeFeed.Nodes) > 0 {
		err = a.tidings.ask(ctx, user, `mutation Seen($upTo: ID!) { markHomeFeedSeen(input: {upTo: $upTo}) { badges { version } } }`,
			map[string]any{"upTo": viewer.HomeFeed.Nodes[0].ID}, &struct{}{})
	}
	// Opening this app shows the notifications too. An app with a separate page for notifications marks them there.
	if newest := viewer.Badges.Notifications.Newest; err == nil && newest != nil {
		err = a.tidings.ask(ctx, user, `mutation Seen($upTo: ID!) { markNotificationsSeen(input: {upTo: $upTo}) { badges { version } } }`,
			map[string]any{"upTo": *newest}, &struct{}{})
	}
	return feed, err
}

// Facts are all facts of the application.
type Facts struct {
	Users    []string            `json:"users"`   // their keys
	Follows  map[string][]string `json:"follows"` // the authors that each reader follows
	Articles []Article           `json:"articles"`
}

// Article is an article as readers see it.
type Article struct {
	ID     int64  `json:"id"`
	Ref    string `json:"ref"`    // the application's own ID of the article, as Tidings gets it
	Author string `json:"author"` // the author's key
	Likes  int    `json:"likes"`
}

// facts reads everything, for tests and for people who try the example.
func (s *Store) facts(ctx context.Context) (facts Facts, err error) {
	facts.Follows = map[string][]string{}
	facts.Users, err = list(ctx, s, func(row *sql.Rows, into *string) error { return row.Scan(into) }, `SELECT key FROM users ORDER BY key`)
	if err != nil {
		return facts, err
	}
	pairs, err := list(ctx, s, func(row *sql.Rows, into *[2]string) error { return row.Scan(&into[0], &into[1]) }, `SELECT reader, author FROM follows`)
	if err != nil {
		return facts, err
	}
	for _, pair := range pairs {
		facts.Follows[pair[0]] = append(facts.Follows[pair[0]], pair[1])
	}
	facts.Articles, err = list(ctx, s, func(row *sql.Rows, into *Article) error {
		err := row.Scan(&into.ID, &into.Author, &into.Likes)
		into.Ref = ref(into.ID)
		return err
	}, `SELECT id, author, (SELECT count(*) FROM likes WHERE article = id) FROM articles ORDER BY at DESC, id DESC`)
	return facts, err
}

// Health has the numbers to alert on. Changes reach users with a delay of at least OldestRowSeconds.
type Health struct {
	OutboxRows         int `json:"waiting"`       // rows of the outbox: what Tidings has not answered yet
	OldestRowSeconds   int `json:"oldestSeconds"` // the age of the oldest of these rows
	RefusedEvents      int `json:"refused"`       // events that Tidings refused for good
	UnfinishedErasures int `json:"erasing"`       // users who may still have data in Tidings
}

// health reads the Health of the application. If a row waits for long, Tidings is down or refuses this application.
func (s *Store) health(ctx context.Context) (health Health, err error) {
	var oldest sql.NullString
	err = s.QueryRowContext(ctx, `SELECT count(*), min(at), (SELECT count(*) FROM refused), (SELECT count(*) FROM erasures WHERE done_at = '') FROM outbox`).
		Scan(&health.OutboxRows, &oldest, &health.RefusedEvents, &health.UnfinishedErasures)
	if at, fault := time.Parse(time.RFC3339, oldest.String); fault == nil {
		health.OldestRowSeconds = int(time.Since(at).Seconds())
	}
	return health, err
}

// Phone is a phone as its owner sees it while the app is closed.
type Phone struct {
	IconNumber int    `json:"icon"`   // the number on the icon
	AlertCount int    `json:"alerts"` // how many alerts it showed
	LastAlert  string `json:"alert"`  // the text of the last alert
}

// phones reads all phones, by the keys of their users.
func (s *Store) phones(ctx context.Context) (map[string]Phone, error) {
	// owned is a phone with the key of its user.
	type owned struct {
		key string
		Phone
	}
	all, err := list(ctx, s, func(row *sql.Rows, into *owned) error {
		return row.Scan(&into.key, &into.IconNumber, &into.AlertCount, &into.LastAlert)
	}, `SELECT key, icon, alerts, alert FROM phones`)
	phones := map[string]Phone{}
	for _, one := range all {
		phones[one.key] = one.Phone
	}
	return phones, err
}
