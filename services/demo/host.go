package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"tidings/services"
)

// Only the newest posts, as many as recent says, are liked and answered, so 400 leaves room for acts that come late.
const (
	mostEvents  = 500 // of one request, as the API has it
	keptObjects = 400 // this many of the newest of each kind can still be acted on, and all posts of the viewer
)

// ref names an object that an event makes, before its ID is known. The script numbers the objects of each kind from 0, so
// that it can speak of objects that the server has yet to make. It is comparable, as a key of made.
type ref struct {
	Kind   string // post, show or conversation
	Number int
}

// fromNow is a time, as an input of an event that is sent now. Negative ones are in the past.
type fromNow time.Duration

// event is one entry of ingest. Values of the input that are a ref or a fromNow are replaced when it is sent: the script
// knows no IDs and no time, and so one seed gives one script. It says what happens and to what, and never when it is sent.
type event struct {
	As      string // the key of a user, "" for the application itself
	Do      string // the mutation
	Input   map[string]any
	Becomes ref     // the name of the object that it makes
	At      fromNow // when it happened; 0 is now
}

// made is an object that an event has made, with the key of the user who made it. The key is needed for shows alone, which
// only their host may start.
type made struct{ id, by string }

// host speaks to the server for the application, with development tokens. mu guards made, which the follower of the icon does
// not use. cfg, began and client do not change.
type host struct {
	cfg    Config
	began  time.Time // the times of past events count back from it
	client *http.Client
	mu     sync.Mutex
	made   map[ref]made
}

// newHost makes the host of a world that begins now. The client has connections of its own, which close ends. An answer that
// takes longer than 30 s counts as none.
func newHost(cfg Config) *host {
	return &host{cfg: cfg, began: cfg.Clock.Now(), client: &http.Client{Transport: &http.Transport{}, Timeout: 30 * time.Second}, made: map[ref]made{}}
}

func (h *host) close() { h.client.CloseIdleConnections() }

// The application's own batch, as a production host would send it.
// An error of one event is in its result; the others take effect.
const ingest = `mutation Ingest($events: [IngestEvent!]!) { ingest(events: $events) { results { id error { code message } } } }`

// send sends events in one request, and stores the IDs of the objects that they made. It omits events about objects that were
// not made: if an act was refused, those that follow from it are omitted. The order is that of the events. Events can name
// the objects that earlier requests made.
func (h *host) send(ctx context.Context, events []event) error {
	var entries []map[string]any
	var sent []event
	for _, e := range events {
		if entry, known := h.entry(e); known {
			entries, sent = append(entries, entry), append(sent, e)
		}
	}
	var answer struct {
		Ingest struct {
			Results []struct {
				ID    string
				Error *struct{ Code, Message string }
			}
		}
	}
	if len(entries) == 0 {
		return nil
	}
	if err := h.ask(ctx, "host:ingest", ingest, map[string]any{"events": entries}, &answer); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	// Refusals are a part of a living world: a block, a limit, a show that was ended meanwhile.
	for i, result := range answer.Ingest.Results {
		e := sent[i]
		if result.Error != nil {
			h.cfg.Log.Debug("the server refused an act of the demo", "act", e.Do, "code", result.Error.Code, "message", result.Error.Message)
			continue
		}
		// The ring of newest objects bounds the memory of a world that lives for months. The first ownPosts of each kind
		// stay, because the first posts are the viewer's.
		if e.Becomes.Kind != "" {
			h.made[e.Becomes] = made{result.ID, e.As}
			if old := e.Becomes.Number - keptObjects; old >= ownPosts {
				delete(h.made, ref{e.Becomes.Kind, old})
			}
		}
	}
	return nil
}

// entry is an event as the API takes it; false if it is about something that was not made. Its own copy of e is changed, so
// the script's events stay as they are.
func (h *host) entry(e event) (map[string]any, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	// The times of all events of the past count from one moment: the world does not show how fast a machine sent them.
	now := h.began
	if e.At == 0 {
		now = h.cfg.Clock.Now()
	}
	moment := func(at fromNow) string { return now.Add(time.Duration(at)).UTC().Format(time.RFC3339Nano) }
	input := map[string]any{}
	for name, value := range e.Input {
		switch value := value.(type) {
		case ref:
			object, known := h.made[value]
			if !known {
				return nil, false
			}
			input[name] = object.id
			if value.Kind == "show" {
				e.As = object.by // only its host starts and ends a show
			}
		case fromNow:
			input[name] = moment(value)
		default:
			input[name] = value
		}
	}
	entry := map[string]any{"do": map[string]any{e.Do: input}}
	if e.At != 0 {
		entry["at"] = moment(e.At)
	}
	if e.As != "" {
		entry["as"] = services.GlobalID(services.UserType, e.As)
	}
	return entry, true
}

// The query of resume. It is sent as the viewer, who follows all of the cast, and so sees all objects that the script can act
// on. The lists are long enough for all that the script can name.
const found = `query Resume { viewer { user { posts(first: 3) { nodes { id } } } announcements(first: 1) { nodes { id } }
  homeFeed(first: 50) { nodes { id author { key } } }
  conversations(first: 50) { nodes { id title } }
  liveBoard(first: 50) { nodes { id status host { key } } } } }`

// resume reports whether the server has the people already, and finds the objects that they can act on. It gives these the
// names that the script has for them. Which object gets which name hardly matters: the acts are random. Without this a
// restart on the same folder would build a second past over the first.
func (h *host) resume(ctx context.Context, s *script) (known bool, err error) {
	type object struct {
		ID, Status, Title string
		Author, Host      struct{ Key string }
	}
	type list struct{ Nodes []object }
	var answer struct {
		Viewer struct {
			User                                              struct{ Posts list }
			HomeFeed, Conversations, LiveBoard, Announcements list
		}
	}
	if err := h.ask(ctx, Viewer, found, nil, &answer); err != nil || len(answer.Viewer.Announcements.Nodes) == 0 { // the announcement is in the last request of the past
		return false, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, post := range answer.Viewer.HomeFeed.Nodes {
		h.made[ref{"post", s.published - 1 - i}] = made{post.ID, post.Author.Key}
	}
	for i, post := range answer.Viewer.User.Posts.Nodes[:min(len(s.own), len(answer.Viewer.User.Posts.Nodes))] {
		h.made[ref{"post", s.own[i]}] = made{post.ID, Viewer}
	}
	for _, conversation := range answer.Viewer.Conversations.Nodes {
		if number := slices.IndexFunc(talks, func(t talk) bool { return t.title == conversation.Title }); number >= 0 {
			h.made[ref{"conversation", number}] = made{id: conversation.ID}
		}
	}
	// Live and planned shows keep apart, because a show that is live cannot start.
	numbers := map[string][]int{"LIVE": slices.Clone(s.live), "UPCOMING": slices.Clone(s.planned)}
	for _, show := range answer.Viewer.LiveBoard.Nodes {
		if left := numbers[show.Status]; len(left) > 0 {
			h.made[ref{"show", left[0]}] = made{show.ID, show.Host.Key}
			numbers[show.Status] = left[1:]
		}
	}
	return true, nil
}

// ask sends one request with a development token and wants an answer without errors. token says as which user or application
// it is sent, and with which scopes. The caller handles an error: while the world is built it ends the build, and later the
// act is dropped.
func (h *host) ask(ctx context.Context, token, query string, variables map[string]any, into any) error {
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, h.cfg.URL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer dev:"+token)
	response, err := h.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	var answer struct {
		Data   json.RawMessage
		Errors []struct{ Message string }
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return fmt.Errorf("status %d and no GraphQL answer: %s", response.StatusCode, services.Quote(string(text)))
	}
	if len(answer.Errors) > 0 {
		return errors.New(answer.Errors[0].Message)
	}
	return json.Unmarshal(answer.Data, into)
}
