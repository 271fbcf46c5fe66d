package model

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"tidings/services/changelog"
	"tidings/services/live"
	"tidings/tests/world"
)

// boards is the slow, independent model of live boards: shows in a sorted list, and the lists that sessions froze.
type boards struct {
	nodes []*world.Node // on one SQL and one Redis; the second reads the changelog only when a step makes it
	flush func()        // nil if Redis cannot be emptied

	readers, hosts []string
	shows          []*boardModel
	shownAt        map[uint64][]boardModel  // version of the changelog -> the shows on boards
	follows        map[relation]followModel // follower and host -> the follow
	mutes          map[relation]bool
	sessions       []*sessionModel
	step           int    // the number of steps of follow so far
	startVersion   uint64 // of the changelog
}

// boardModel is a show of the model.
type boardModel struct {
	id, host, title, status string
	planned, started, ended time.Time // ended can be set while the show is upcoming: its end was reported before its start
}

// followModel is a follow: its step, and its time.
type followModel struct {
	step int
	at   time.Time
}

// sessionModel is a session: the version and the step that it froze, and its lifetime.
type sessionModel struct {
	reader, id, last string
	version          uint64       // of the changelog
	step             int          // of the last follow of a host on the board that was not recent: see lastFollows
	recent           map[int]bool // the steps of the recent follows of hosts on the board
	made, until      time.Time    // until is the end of its lease; zero without a lease
}

// rank returns the section and the score that define a show's position in the order of the board.
func (b boardModel) rank() (section int, score int64) {
	switch b.status {
	case "LIVE":
		return 0, -b.started.UnixMilli()
	case "UPCOMING":
		return 1, b.planned.UnixMilli()
	}
	return 2, -b.ended.UnixMilli()
}

func (b boardModel) line() string { return fmt.Sprintf("%s %s %s", b.title, b.status, b.times()) }

func (b boardModel) times() string {
	list := []string{b.planned.UTC().Format(time.RFC3339Nano)}
	if b.status != "UPCOMING" {
		list = append(list, b.started.UTC().Format(time.RFC3339Nano))
	}
	if b.status == "REPLAY" {
		list = append(list, b.ended.UTC().Format(time.RFC3339Nano))
	}
	return strings.Join(list, " ")
}

func newBoards(nodes []*world.Node, flush func()) *boards {
	b := &boards{nodes: nodes, flush: flush, shownAt: map[uint64][]boardModel{}, follows: map[relation]followModel{}, mutes: map[relation]bool{}}
	number := world.Worlds.Add(1)
	for i := range 3 {
		b.hosts = append(b.hosts, fmt.Sprintf("b%d-host%d", number, i))
	}
	for i := range 2 {
		b.readers = append(b.readers, fmt.Sprintf("b%d-reader%d", number, i))
	}
	nodes[0].CreateUsers(slices.Concat(b.hosts, b.readers)...)
	b.startVersion = b.recordShows()
	return b
}

func (b *boards) now() time.Time { return b.nodes[0].Clock.Now().UTC().Truncate(time.Millisecond) }

// advance advances the clock of every node.
func (b *boards) advance(d time.Duration) {
	for _, n := range b.nodes {
		n.Clock.Advance(d)
	}
}

func (b *boards) node(t *rapid.T) *world.Node { return rapid.SampledFrom(b.nodes).Draw(t, "node") }

// runDue runs every due job. Jobs planned for later stay, such as the jobs that close shows without an end.
func (b *boards) runDue() {
	for _, n := range b.nodes {
		n.RunJobs()
	}
}

// recordShows records the shows on boards at the present version of the changelog, and returns that version.
func (b *boards) recordShows() uint64 {
	n := b.nodes[0]
	head, _, err := changelog.LogHead(n.TB.Context(), n.Store, live.LogKind)
	if err != nil {
		n.TB.Fatal(err)
	}
	var stands []boardModel
	for _, show := range b.shows {
		if show.status != "CANCELLED" {
			stands = append(stands, *show)
		}
	}
	slices.SortFunc(stands, func(a, b boardModel) int {
		section, score := a.rank()
		section2, score2 := b.rank()
		return cmp.Or(cmp.Compare(section, section2), cmp.Compare(score, score2), cmp.Compare(b.id, a.id))
	})
	b.shownAt[head] = stands
	return head
}

// drawTime draws one of a few times, so that many times are equal.
func (b *boards) drawTime(t *rapid.T, from, to int) time.Time {
	return b.now().Truncate(10 * time.Second).Add(time.Duration(rapid.IntRange(from, to).Draw(t, "tens of seconds")) * 10 * time.Second)
}

func (b *boards) schedule(t *rapid.T) {
	host, at := rapid.SampledFrom(b.hosts).Draw(t, "host"), b.drawTime(t, 2, 6)
	first := !slices.ContainsFunc(b.shows, func(s *boardModel) bool { return s.host == host })
	show := &boardModel{host: host, title: fmt.Sprint("show ", len(b.shows)), status: "UPCOMING", planned: at}
	show.id = b.node(t).Schedule(host, show.title, at)
	b.shows = append(b.shows, show)
	if first {
		b.runDue() // no board has a new host until all documents name the host
	}
	b.recordShows()
}

// do sends a mutation on a show, and fails unless its error code is want.
func (b *boards) do(t *rapid.T, show *boardModel, verb, more, want string) {
	got := b.node(t).Ask(show.host, fmt.Sprintf(`mutation{r:%s(input:{showId:%q%s}){show{id}}}`, verb, show.id, more), nil)
	if got.ErrorCode() != want {
		t.Fatalf("%s %s of %+v: code %q, want %q: %v", verb, more, show, got.ErrorCode(), want, got.Errors)
	}
}

// drawShow draws one of the shows; nil while there are none.
func (b *boards) drawShow(t *rapid.T) *boardModel {
	if len(b.shows) == 0 {
		return nil
	}
	return b.shows[rapid.IntRange(max(0, len(b.shows)-8), len(b.shows)-1).Draw(t, "show")]
}

// inputTime returns an argument that is a time.
func inputTime(name string, at time.Time) string {
	return fmt.Sprintf(",%s:%q", name, at.Format(time.RFC3339Nano))
}

// start starts a show, which may already be live, over, or reported as over.
func (b *boards) start(t *rapid.T) {
	show := b.drawShow(t)
	if show == nil {
		return
	}
	at := b.drawTime(t, 0, 2)
	want := map[bool]string{true: "CONFLICT"}[show.status == "CANCELLED"]
	b.do(t, show, "startShow", inputTime("at", at), want)
	if show.status == "UPCOMING" {
		show.status, show.started = "LIVE", at
		if !show.ended.IsZero() {
			show.status = "REPLAY"
			if show.ended.Before(at) {
				show.started = show.ended
			}
		}
	}
	b.recordShows()
}

func (b *boards) end(t *rapid.T) {
	show := b.drawShow(t)
	if show == nil {
		return
	}
	at := b.drawTime(t, 0, 3)
	want := ""
	switch {
	case show.status == "CANCELLED":
		want = "CONFLICT"
	case show.status == "LIVE" && at.Before(show.started):
		want = "INVALID"
	}
	b.do(t, show, "endShow", inputTime("at", at), want)
	switch {
	case want != "":
	case show.status == "LIVE":
		show.status, show.ended = "REPLAY", at
	case show.status == "UPCOMING" && show.ended.IsZero():
		show.ended = at
	}
	b.recordShows()
}

func (b *boards) reschedule(t *rapid.T) {
	show := b.drawShow(t)
	if show == nil {
		return
	}
	at := b.drawTime(t, 2, 6)
	same := show.status != "CANCELLED" && at.Equal(show.planned)
	allowed := same || show.status == "UPCOMING" && show.ended.IsZero()
	b.do(t, show, "rescheduleShow", inputTime("plannedAt", at), map[bool]string{false: "CONFLICT"}[allowed])
	if allowed {
		show.planned = at
	}
	b.recordShows()
}

func (b *boards) cancel(t *rapid.T) {
	show := b.drawShow(t)
	if show == nil {
		return
	}
	allowed := show.status == "CANCELLED" || show.status == "UPCOMING" && show.ended.IsZero()
	b.do(t, show, "cancelShow", "", map[bool]string{false: "CONFLICT"}[allowed])
	if allowed {
		show.status = "CANCELLED"
	}
	b.recordShows()
}

// follow follows or unfollows a host, or mutes or unmutes them.
func (b *boards) follow(t *rapid.T) {
	p := relation{rapid.SampledFrom(b.readers).Draw(t, "reader"), rapid.SampledFrom(b.hosts).Draw(t, "host")}
	verb := rapid.SampledFrom([]string{"follow", "follow", "unfollow", "mute", "unmute"}).Draw(t, "verb")
	b.advance(time.Millisecond) // a session and a follow in the same millisecond on two nodes have no defined order
	_, follows := b.follows[p]
	nothing := verb == "follow" && follows || verb == "unfollow" && !follows || verb == "unmute" && !b.mutes[p] || verb == "mute" && b.mutes[p]
	got := b.node(t).Ask(p.who, fmt.Sprintf(`mutation{r:%s(input:{userId:"user:%s"}){changed badges{version}}}`, verb, p.whom), nil)
	if got.ErrorCode() != "" || got.Changed() == nothing {
		t.Fatalf("%s %v: code %q, changed %t, want %t", verb, p, got.ErrorCode(), got.Changed(), !nothing)
	}
	switch b.step++; {
	case nothing:
	case verb == "follow":
		b.follows[p] = followModel{b.step, b.now()}
	case verb == "unfollow":
		delete(b.follows, p)
	default:
		b.mutes[p] = verb == "mute"
	}
}

// wantedLines returns the lines that a page of a session must show, and whether more follow.
func (b *boards) wantedLines(t *rapid.T, s *sessionModel, first int) (page []string, more bool) {
	list, known := b.shownAt[s.version]
	if !known && s.version > b.startVersion { // none of these shows existed before the test
		t.Fatalf("a session of version %d, which no log had: %v", s.version, slices.Sorted(maps.Keys(b.shownAt)))
	}
	after := s.last == ""
	for _, show := range list {
		if after && b.has(s, show.host) {
			if len(page) == first {
				return page, true
			}
			page = append(page, show.line())
		}
		after = after || show.id == s.last
	}
	return page, false
}

// readPage reads a page of a session and compares it with the model. If s has no ID, the page begins a new session.
func (b *boards) readPage(t *rapid.T, s *sessionModel, from world.BoardPlace) {
	first := rapid.IntRange(1, 4).Draw(t, "first")
	n := b.node(t)
	page := n.ReadBoardPage(s.reader, first, from)
	if s.id != "" && page.SessionID != s.id || s.id == "" && page.NewSession {
		t.Fatalf("asked for session %q of %s, got %+v", s.id, s.reader, page)
	}
	if s.id == "" {
		b.addSession(t, s, page)
	} else {
		s.until = b.now().Add(30 * time.Minute)
	}
	want, more := b.wantedLines(t, s, first)
	if got := boardLines(page); !slices.Equal(got, want) || page.PageInfo.HasNextPage != more {
		t.Fatalf("%s at version %d after %q:\n got %q %t\nwant %q %t", s.reader, s.version, s.last, got, page.PageInfo.HasNextPage, want, more)
	}
	if page.LastID != nil {
		s.last = *page.LastID
	}
	wantPresent(t, n, s.reader, page)
}

// wantPresent compares the shows of a page with the same shows fetched by their IDs: a client must get the same state of a show
// from both, whatever the session froze.
func wantPresent(t *rapid.T, n *world.Node, reader string, page world.BoardPage) {
	if len(page.Edges) == 0 {
		return
	}
	var data struct{ Nodes []world.BoardShow }
	n.Must(reader, `query($ids:[ID!]!){nodes(ids:$ids){...on Show{`+world.ShowFields+`}}}`, map[string]any{"ids": page.Ids()}, &data)
	for i, edge := range page.Edges {
		if !reflect.DeepEqual(edge.Node, data.Nodes[i]) {
			t.Fatalf("on the board stands %+v, by its id it is %+v", edge.Node, data.Nodes[i])
		}
	}
}

func boardLines(page world.BoardPage) []string {
	lines := make([]string, len(page.Edges))
	for i, edge := range page.Edges {
		lines[i] = edge.Node.Title + " " + edge.Status
		for _, at := range []*time.Time{edge.PlannedAt, edge.StartedAt, edge.EndedAt} {
			if at != nil {
				lines[i] += " " + at.UTC().Format(time.RFC3339Nano)
			}
		}
	}
	return lines
}

// addSession adds a new session to the model, with what it froze.
func (b *boards) addSession(t *rapid.T, s *sessionModel, page world.BoardPage) {
	session, err := live.ParseSession("sessionId", b.nodes[0].IDsOf(s.reader)[0], page.SessionID)
	if err != nil {
		t.Fatal(err)
	}
	s.id, s.version, s.made, s.until = page.SessionID, session.Version, session.Made.Time(), time.Time{}
	s.step, s.recent = b.lastFollows(s.reader, s.made.Add(-5*time.Minute))
	b.sessions = append(b.sessions, s)
}

// openSession begins a new session.
func (b *boards) openSession(t *rapid.T) {
	b.readPage(t, &sessionModel{reader: rapid.SampledFrom(b.readers).Draw(t, "reader")}, world.BoardPlace{})
}

// lives reports whether a session can still be read.
func (b *boards) lives(s *sessionModel) bool {
	until := s.made.Add(30 * time.Minute)
	if !s.until.IsZero() {
		until = s.until
	}
	return !b.now().After(until) && !b.now().After(s.made.Add(12*time.Hour))
}

// continueSession reads a page of a session: its next page, its first page again, or, if the session is over, a page of a new session.
func (b *boards) continueSession(t *rapid.T) {
	if len(b.sessions) == 0 {
		return
	}
	s := rapid.SampledFrom(b.sessions).Draw(t, "session")
	if ended := b.now().Sub(s.until); ended > 0 && ended <= time.Minute {
		b.advance(time.Minute) // a renewal may extend a session by a minute more, so it may or may not be over
	}
	from := world.BoardPlace{Session: s.id, Last: s.last}
	if rapid.IntRange(0, 4).Draw(t, "from the top") == 0 {
		from.Last, s.last = "", ""
	}
	if b.lives(s) {
		b.readPage(t, s, from)
		return
	}
	page := b.node(t).ReadBoardPage(s.reader, 2, from)
	if !page.NewSession || page.SessionID == s.id {
		t.Fatalf("a session of %s that is over goes on: %+v", s.reader, page)
	}
	b.addSession(t, &sessionModel{reader: s.reader, last: ""}, page)
	b.sessions = slices.DeleteFunc(b.sessions, func(one *sessionModel) bool { return one == s })
}

// letTimePass lets some minutes pass, in which sessions that nobody reads can end.
func (b *boards) letTimePass(t *rapid.T) {
	// A follow is recent for five minutes. The seven seconds keep a session from beginning exactly five minutes after a follow.
	b.advance(time.Duration(rapid.IntRange(1, 25).Draw(t, "minutes"))*time.Minute + 7*time.Second)
}

// emptyRedis empties Redis: leases are lost, and sessions end as if no further page had been read.
func (b *boards) emptyRedis(*rapid.T) {
	b.flush()
	for _, s := range b.sessions {
		s.until = time.Time{}
	}
}
