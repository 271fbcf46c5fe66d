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

const (
	maxEventsPerRequest = 500 // in one request: the limit of the API
	// keptObjectsPerKind is how many of the newest objects of each kind acts can refer to, besides all posts of the viewer. Acts
	// like and answer only the newest 40 posts (recentPostCount), so 400 leaves room for acts that are sent late.
	keptObjectsPerKind = 400
)

// objectName stands for an object that an event makes, before its ID is known. The script numbers the objects of each kind from 0, so
// that it can refer to objects that the server has not made yet. It is comparable, because it is a key of host.made.
type objectName struct {
	Kind   string // post, show or conversation
	Number int
}

// fromNow is a time in the input of an event, relative to the present. A negative time is in the past.
type fromNow time.Duration

// event is one entry of ingest. An objectName or a fromNow in the input is replaced by an ID or a time when the event is sent: the
// script knows no IDs and no time, so a seed always gives the same script.
type event struct {
	ActorKey string         // the key of a user, "" for the application itself
	Mutation string         // the field of IngestEvent's do, such as publishPost
	Input    map[string]any // the input of the mutation
	Creates  objectName     // the name of the object that it makes; zero if it makes none
	At       fromNow        // when it happened; 0 is now
}

// madeObject is an object that an event has made, with the key of the user who made it. The key is needed for shows alone, which
// only their host may start.
type madeObject struct{ id, by string }

// host sends the requests of the host application to the server, with development tokens. The fields above mu do not change.
type host struct {
	cfg    Config
	began  time.Time // the times of past events count back from it
	client *http.Client
	mu     sync.Mutex                // guards made
	made   map[objectName]madeObject // the objects that events have made, by the script's names for them
}

// newHost makes the host of a world that begins now. The client's connections are used by this host only, and close ends
// them. A request without an answer after 30 s has failed.
func newHost(cfg Config) *host {
	return &host{cfg: cfg, began: cfg.Clock.Now(), client: &http.Client{Transport: &http.Transport{}, Timeout: 30 * time.Second}, made: map[objectName]madeObject{}}
}

func (h *host) close() { h.client.CloseIdleConnections() }

// ingestMutation is the mutation that a production host would send too. The error of one event is in its result; the other events
// take effect.
const ingestMutation = `mutation Ingest($events: [IngestEvent!]!) { ingest(events: $events) { results { id error { code message } } } }`

// send sends events in one request, and stores the IDs of the objects that they made. It omits events about objects that were
// not made: if an act was refused, the events that depend on it are omitted. The events keep their order. Events can name the
// objects that earlier requests made.
func (h *host) send(ctx context.Context, events []event) error {
	var entries []map[string]any
	var sent []event
	for _, e := range events {
		if entry, known := h.ingestEntry(e); known {
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
	if err := h.ask(ctx, "host:ingest", ingestMutation, map[string]any{"events": entries}, &answer); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	// Refusals are expected, for example because of a block, a limit, or a show that was ended meanwhile.
	for i, result := range answer.Ingest.Results {
		e := sent[i]
		if result.Error != nil {
			h.cfg.Log.Debug("the server refused an act of the demo", "act", e.Mutation, "code", result.Error.Code, "message", result.Error.Message)
			continue
		}
		// Only the newest objects are kept, which bounds the memory of a world that runs for months. The first viewerPostCount of
		// each kind stay, because the first posts are the viewer's.
		if e.Creates.Kind != "" {
			h.made[e.Creates] = madeObject{result.ID, e.ActorKey}
			if old := e.Creates.Number - keptObjectsPerKind; old >= viewerPostCount {
				delete(h.made, objectName{e.Creates.Kind, old})
			}
		}
	}
	return nil
}

// ingestEntry returns an event in the form of the API; false if the event refers to an object that was not made. It changes only
// its own copy of e, so the script's events stay unchanged.
func (h *host) ingestEntry(e event) (map[string]any, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	// The times of all events of the past count from one moment, so they do not depend on how fast the machine sends the
	// events.
	now := h.began
	if e.At == 0 {
		now = h.cfg.Clock.Now()
	}
	moment := func(at fromNow) string { return now.Add(time.Duration(at)).UTC().Format(time.RFC3339Nano) }
	input := map[string]any{}
	for name, value := range e.Input {
		switch value := value.(type) {
		case objectName:
			object, known := h.made[value]
			if !known {
				return nil, false
			}
			input[name] = object.id
			if value.Kind == "show" {
				e.ActorKey = object.by // only the host of a show may start and end it
			}
		case fromNow:
			input[name] = moment(value)
		default:
			input[name] = value
		}
	}
	entry := map[string]any{"do": map[string]any{e.Mutation: input}}
	if e.At != 0 {
		entry["at"] = moment(e.At)
	}
	if e.ActorKey != "" {
		entry["as"] = services.GlobalID(services.UserType, e.ActorKey)
	}
	return entry, true
}

// resumeQuery is the query of findExistingWorld. It is sent as the viewer, who follows everybody in cast, and so sees all shows and
// conversations that the script can act on. The lists are long enough for these, and for as many posts as the script acts on.
const resumeQuery = `query Resume { viewer { user { posts(first: 3) { nodes { id } } } announcements(first: 1) { nodes { id } }
  homeFeed(first: 50) { nodes { id author { key } } }
  conversations(first: 50) { nodes { id title } }
  liveBoard(first: 50) { nodes { id status host { key } } } } }`

// findExistingWorld reports whether the server has the people already, and finds the objects that they can act on. It gives the
// objects the names that the script has for them. It hardly matters which object gets which name: the acts are random. Without it,
// a restart on the same folder would build a second past over the first.
func (h *host) findExistingWorld(ctx context.Context, s *script) (known bool, err error) {
	// object is a post, conversation, show or announcement in the answer.
	type object struct {
		ID, Status, Title string
		Author, Host      struct{ Key string }
	}
	type list struct{ Nodes []object } // a list of the API
	var answer struct {
		Viewer struct {
			User                                              struct{ Posts list }
			HomeFeed, Conversations, LiveBoard, Announcements list
		}
	}
	if err := h.ask(ctx, viewerKey, resumeQuery, nil, &answer); err != nil || len(answer.Viewer.Announcements.Nodes) == 0 { // no announcement: the past is not there
		return false, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, post := range answer.Viewer.HomeFeed.Nodes {
		h.made[objectName{"post", s.postCount - 1 - i}] = madeObject{post.ID, post.Author.Key}
	}
	for i, post := range answer.Viewer.User.Posts.Nodes[:min(len(s.viewerPosts), len(answer.Viewer.User.Posts.Nodes))] {
		h.made[objectName{"post", s.viewerPosts[i]}] = madeObject{post.ID, viewerKey}
	}
	for _, conversation := range answer.Viewer.Conversations.Nodes {
		if number := slices.IndexFunc(plannedConversations, func(t plannedConversation) bool { return t.title == conversation.Title }); number >= 0 {
			h.made[objectName{"conversation", number}] = madeObject{id: conversation.ID}
		}
	}
	// Live and planned shows are kept apart, because a live show cannot start again.
	numbers := map[string][]int{"LIVE": slices.Clone(s.liveShows), "UPCOMING": slices.Clone(s.plannedShows)}
	for _, show := range answer.Viewer.LiveBoard.Nodes {
		if left := numbers[show.Status]; len(left) > 0 {
			h.made[objectName{"show", left[0]}] = madeObject{show.ID, show.Host.Key}
			numbers[show.Status] = left[1:]
		}
	}
	return true, nil
}

// ask sends one request with a development token. An answer with errors is an error. token names the user or the application,
// and the scopes. The caller handles an error: it ends the build of the world, and later it only drops the acts.
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
