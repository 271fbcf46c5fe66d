package contract

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"tidings/services"
	"tidings/services/live"
	"tidings/tests/world"
)

// badInput is a row of the table of bad inputs: a request that must be refused, and the error that it must get.
type badInput struct {
	name    string // what is wrong with the request
	request request
	want    wantedError
}

// request is sent in one of the ways of the public API.
type request interface {
	send(t *testing.T, w *inputWorld) world.Answer
}

// ask is an operation of a user of development mode ("alice", "host:ingest"). value is its variable v, or all its variables as vars.
type ask struct {
	as, query string
	value     any
}

type (
	vars map[string]any
	raw  = json.RawMessage // a value as JSON, for what Go's values cannot be
)

func (a ask) send(_ *testing.T, w *inputWorld) world.Answer {
	variables, ok := a.value.(vars)
	if !ok {
		variables = vars{"v": a.value}
	}
	return w.Ask(a.as, a.query, variables)
}

// event is an event of ingest.
type event map[string]any

func (e event) send(t *testing.T, w *inputWorld) world.Answer { return w.ingest(t, e)[0].answer(t) }

// post is a header and a body, which are sent unchanged. status is the HTTP status that the answer must have.
type post struct {
	header http.Header
	body   string
	status int
}

func (p post) send(t *testing.T, w *inputWorld) (got world.Answer) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.URL+"/graphql", strings.NewReader(p.body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header = p.header
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	world.DecodeJSON(t, text, &got)
	if response.StatusCode != p.status {
		t.Errorf("status %d, want %d", response.StatusCode, p.status)
	}
	return got
}

// subscribe is a subscription of alice's with the variable v. All rows share one socket, which must stay open.
type subscribe struct {
	query string
	v     any
}

func (s subscribe) send(t *testing.T, w *inputWorld) (got world.Answer) {
	t.Helper()
	w.subscriptions++
	text, err := json.Marshal(s.v)
	if err != nil {
		t.Fatal(err)
	}
	world.Send(t, w.socket, fmt.Sprintf(`{"id":"%d","type":"subscribe","payload":{"query":%q,"variables":{"v":%s}}}`, w.subscriptions, s.query, text))
	if message := w.receive(t); message.Type == "error" {
		world.DecodeJSON(t, message.Payload, &got.Errors)
	} else {
		world.DecodeJSON(t, message.Payload, &got)
		if end := w.receive(t); end.Type != "complete" {
			t.Errorf("after the error: %+v", end)
		}
	}
	return got
}

// receive reads a message of the socket.
func (w *inputWorld) receive(t *testing.T) (message struct {
	Type    string
	Payload json.RawMessage
}) {
	t.Helper()
	_, text, err := w.socket.ReadMessage()
	if err != nil {
		t.Fatal(err)
	}
	world.DecodeJSON(t, text, &message)
	return message
}

// inputWorld is the small node with whatever else the rows name. erin blocks alice, a follower, and mutes bob and hides from bob.
type inputWorld struct {
	*smallNode
	erinsPost, erinsShow, future                         string // future is the ID of a post in two hours
	past, soon, later, late                              string // times: an hour ago, in one and in two hours, in 400 days
	upcoming, live, over, cancelled, ended               string // shows of bob; the end of ended is reported before its start
	session, futureSession, futureVersion, cursor        string // of carol's board; a session that begins in an hour, and one of a version to come
	shown, hostCancelled, hostLater, strangers, carols   string // shows for carol's board; only shown is on it
	conversation, retitledShow, siteMessage, publication string // what bob or the host application can change
	socket                                               *websocket.Conn
	subscriptions                                        int
}

func newInputWorld(t *testing.T) *inputWorld {
	t.Helper()
	w := &inputWorld{smallNode: newSmallNode(t)}
	now := w.Clock.Now().UTC()
	at := func(in time.Duration) string { return now.Add(in).Format(time.RFC3339) }
	w.past, w.soon, w.later, w.late = at(-time.Hour), at(time.Hour), at(2*time.Hour), at(400*24*time.Hour)
	w.future = services.GlobalID(services.PostType, services.SortableIDAt(now.Add(2*time.Hour)).String())
	schedule := func(host string) string { return w.ScheduleShow(host, "t", now.Add(time.Hour)) }
	for _, show := range []*string{&w.upcoming, &w.live, &w.over, &w.cancelled, &w.ended, &w.retitledShow} {
		*show = schedule("bob")
	}
	w.MutateShow("bob", "startShow", w.live)
	w.MutateShow("bob", "startShow", w.over)
	w.MutateShow("bob", "endShow", w.over)
	w.MutateShow("bob", "cancelShow", w.cancelled)
	w.MutateShow("bob", "endShow", w.ended)

	w.Follow("alice", "erin")
	w.erinsPost, w.erinsShow = w.Publish("erin", "b"), schedule("erin")
	w.MustAsk("erin", mutBlock, vars{"v": "user:alice"}, nil)
	w.MustAsk("erin", mutMute, vars{"v": "user:bob"}, nil)
	w.MustAsk("erin", mutHide, vars{"v": "user:bob"}, nil)

	made := w.ingest(t, ingestEvent("createConversation", "as", "user:bob", "kind", "GROUP", "memberIds", []string{"user:alice"}),
		ingestEvent("sendSiteMessage", "to", []string{"user:bob"}, "title", "t"), ingestEvent("publishAnnouncement", "title", "t"))
	w.conversation, w.siteMessage, w.publication = *made[0].ID, *made[1].ID, *made[2].ID
	w.openBoard(t)

	w.socket = w.Dial(t)
	world.Send(t, w.socket, `{"type":"connection_init","payload":{"authorization":"dev:alice"}}`)
	if message := w.receive(t); message.Type != "connection_ack" {
		t.Fatalf("got %+v", message)
	}
	return w
}

// openBoard begins the session of carol's board.
func (w *inputWorld) openBoard(t *testing.T) {
	t.Helper()
	now := w.Clock.Now()
	w.Follow("carol", "host")
	w.Follow("bob", "host")
	schedule := func(host string) string { return w.ScheduleShow(host, "t", now.Add(time.Hour)) }
	w.shown, w.hostCancelled, w.strangers, w.carols = schedule("host"), schedule("host"), schedule("stranger"), schedule("carol")
	w.MutateShow("host", "cancelShow", w.hostCancelled)
	w.SettleJobsAndCaches()
	page := w.ReadBoardPage("carol", 5, world.BoardPageStart{})
	if len(page.Edges) != 1 {
		t.Fatalf("the board has %d shows, want 1", len(page.Edges))
	}
	w.session, w.cursor = page.SessionID, page.Edges[0].Cursor
	w.hostLater = schedule("host")
	w.SettleJobsAndCaches()
	session, err := live.ParseSession("sessionId", w.EnsureUserIDs("carol")[0], w.session)
	if err != nil {
		t.Fatal(err)
	}
	future, version := session, session
	future.CreationID = services.SortableIDAt(now.Add(time.Hour))
	version.Version += 1000
	w.futureSession, w.futureVersion = future.String(), version.String()
}

// rows returns the whole table, by the parts of the API.
func (w *inputWorld) rows() map[string][]badInput {
	texts, _ := w.textRows()
	return map[string][]badInput{
		"bodies and headers": badBodies(), "tokens and scopes": badTokens(), "documents": badDocuments(), "coercion": badCoercions(), "nodes": badNodes(),
		"users": w.badUsers(), "restrictions": w.badRestrictions(), "posts": w.badPosts(), "home feed": w.badFeedPages(), "marks": w.badMarks(),
		"shows": w.badShows(), "live board": w.badBoardPages(), "subscriptions": badSubscriptions(), "empty texts": texts,
		"lists of events": badEventLists(), "events": w.badEvents(),
	}
}

// Bad input gets its code and a message that names the field and says what is allowed, and it has no effect.
func TestBadInputIsRefused(t *testing.T) {
	w := newInputWorld(t)
	for part, rows := range w.rows() {
		t.Run(part, func(t *testing.T) {
			for _, row := range rows {
				t.Run(row.name, func(t *testing.T) {
					w.wantNoEffect(t, func(t *testing.T) { row.want.checkAnswer(t, row.request.send(t, w)) })
				})
			}
		})
	}
	t.Run("the socket of the subscriptions stays open", func(t *testing.T) {
		world.Send(t, w.socket, `{"type":"ping"}`)
		if message := w.receive(t); message.Type != "pong" {
			t.Errorf("afterwards the socket says %+v, want a pong", message)
		}
	})
	t.Run("a board's session continues", func(t *testing.T) {
		page := w.ReadBoardPage("carol", 5, world.BoardPageStart{Session: w.session})
		if page.NewSession || len(page.Edges) != 1 || page.SessionID != w.session {
			t.Errorf("the session afterwards: %+v", page)
		}
		if end := w.ReadBoardPage("carol", 5, world.BoardPageStart{Session: w.session, Last: w.shown}); len(end.Edges) != 0 || end.PageInfo.HasNextPage {
			t.Errorf("after its only show: %+v", end)
		}
	})
}

// Requests at the limits are accepted, and so are values that the specification lets a server coerce.
func TestGoodInputIsAccepted(t *testing.T) {
	w := newInputWorld(t)
	_, good := w.textRows()
	maps.Copy(good, map[string]request{
		"a body of 64 KB":               post{jsonHeader("dev:alice"), paddedRequest(65536), 200},
		"a body of 1 MB for ingest":     post{jsonHeader("dev:host:ingest"), paddedRequest(1 << 20), 200},
		"acting as a user":              post{jsonHeader("dev:host:ingest", "Tidings-Act-As", "bob"), publishRequest, 200},
		"ingest with its scope":         post{jsonHeader("dev:host:ingest"), ingestRequest, 200},
		"an operation by its name":      post{jsonHeader("dev:alice"), twoOperations("B"), 200},
		"a whole number":                ask{"alice", queryPage, raw(`5`)},
		"null for a number":             ask{"alice", queryPage, raw(`null`)},
		"one value for a list":          ask{"alice", mutCategoriesSeen, raw(`"LIKE"`)},
		"null for a list":               ask{"alice", mutCategoriesSeen, raw(`null`)},
		"a list of one":                 ask{"alice", queryNodes, raw(`["user:a"]`)},
		"an object in an object":        ask{"alice", mutPolicy, raw(`{"quietHours":{"from":"22:00","to":"07:00","offsetMinutes":-60}}`)},
		"100 nodes":                     ask{"alice", queryNodes, strings.Fields(strings.Repeat("user:bob ", 100))},
		"an idempotency key of 64":      ask{"alice", mutPublishWithKey, strings.Repeat("é", 64)},
		"a name of 100":                 ask{"alice", mutProfileName, strings.Repeat("名", 100)},
		"an avatar of 2,048 characters": ask{"alice", mutProfileAvatar, "https://a/" + strings.Repeat("a", 2038)},
	})
	before := len(w.ReadWholeFeed("bob", 100))
	for name, request := range good {
		t.Run(name, func(t *testing.T) {
			if got := request.send(t, w); len(got.Errors) > 0 {
				t.Errorf("%+v", got.Errors)
			}
		})
	}
	if got := len(w.ReadWholeFeed("bob", 100)) - before; got != 3 { // by a token that acts as bob, by ingest, and with a text between blanks
		t.Errorf("bob has %d posts more, want 3", got)
	}
}
