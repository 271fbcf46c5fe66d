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

// boardsModel is the slow, independent model of live boards: the shows, and their sorted list at each version that a session may show.
// It does random actions on the nodes and on itself, and compares the boards of the nodes with its own.
type boardsModel struct {
	nodes      []*world.Node // on one SQL database and one Redis; the second node reads the changelog only in a step that makes it do so
	flushRedis func()        // nil if Redis cannot be emptied

	readers, hosts        []string               // keys of users
	shows                 []*showModel           // as they are now
	showsAtVersion        map[uint64][]showModel // version of the changelog -> the shows on boards
	followSteps           map[relation]int       // follower and host -> the step of changeFollowOrMute in which the follow began
	mutes                 map[relation]bool      // reader and host -> the reader mutes the host
	sessions              []*sessionModel        // the sessions so far, without those that were found to be over
	followStepCount       int                    // the number of steps of changeFollowOrMute so far
	startChangelogVersion uint64                 // the version before the first show
}

// showModel is a show of the model.
type showModel struct {
	id, host, title, status       string    // host is the key of the host; status is as in the schema, such as UPCOMING
	plannedAt, startedAt, endedAt time.Time // endedAt can be set while the show is upcoming: its end was reported before its start
}

// sessionModel is a session of a reader's board: which shows and follows it has, and how long it lives.
type sessionModel struct {
	reader, id, lastShownID string         // the reader's key, the session's ID, and the show that the next page begins after
	changelogVersion        uint64         // the board shows the shows as they were at this version
	followSteps             map[string]int // host on the board when the session began -> the step in which the follow began
	createdAt, leaseEndsAt  time.Time      // leaseEndsAt is zero without a lease
}

// rank returns the section and the score that define a show's position in the order of the board.
func (b showModel) rank() (section int, score int64) {
	switch b.status {
	case "LIVE":
		return 0, -b.startedAt.UnixMilli()
	case "UPCOMING":
		return 1, b.plannedAt.UnixMilli()
	}
	return 2, -b.endedAt.UnixMilli()
}

// line returns the text that stands for a show in comparisons of pages.
func (b showModel) line() string { return fmt.Sprintf("%s %s %s", b.title, b.status, b.timesText()) }

// timesText returns the times that a board shows of a show with this status.
func (b showModel) timesText() string {
	list := []string{b.plannedAt.UTC().Format(time.RFC3339Nano)}
	if b.status != "UPCOMING" {
		list = append(list, b.startedAt.UTC().Format(time.RFC3339Nano))
	}
	if b.status == "REPLAY" {
		list = append(list, b.endedAt.UTC().Format(time.RFC3339Nano))
	}
	return strings.Join(list, " ")
}

// newBoardsModel makes a model with new hosts and readers. flush empties Redis; nil if that is not possible.
func newBoardsModel(nodes []*world.Node, flush func()) *boardsModel {
	b := &boardsModel{nodes: nodes, flushRedis: flush, showsAtVersion: map[uint64][]showModel{}, followSteps: map[relation]int{}, mutes: map[relation]bool{}}
	number := world.ModelCount.Add(1)
	for i := range 3 {
		b.hosts = append(b.hosts, fmt.Sprintf("b%d-host%d", number, i))
	}
	for i := range 2 {
		b.readers = append(b.readers, fmt.Sprintf("b%d-reader%d", number, i))
	}
	nodes[0].CreateUsers(slices.Concat(b.hosts, b.readers)...)
	b.startChangelogVersion = b.recordShowsAtVersion()
	return b
}

// now returns the time of the nodes' clocks.
func (b *boardsModel) now() time.Time { return b.nodes[0].Clock.Now().UTC().Truncate(time.Millisecond) }

// advance advances the clock of every node.
func (b *boardsModel) advance(d time.Duration) {
	for _, n := range b.nodes {
		n.Clock.Advance(d)
	}
}

func (b *boardsModel) drawNode(t *rapid.T) *world.Node {
	return rapid.SampledFrom(b.nodes).Draw(t, "node")
}

// runDueJobs runs every due job. Jobs planned for later stay, such as the jobs that close shows without an end.
func (b *boardsModel) runDueJobs() {
	for _, n := range b.nodes {
		n.RunJobs()
	}
}

// recordShowsAtVersion records the shows on boards at the present version of the changelog, and returns that version.
func (b *boardsModel) recordShowsAtVersion() uint64 {
	n := b.nodes[0]
	newest, _, err := changelog.LastSequence(n.TB.Context(), n.DB, live.ChangelogKind)
	if err != nil {
		n.TB.Fatal(err)
	}
	var stands []showModel
	for _, show := range b.shows {
		if show.status != "CANCELLED" {
			stands = append(stands, *show)
		}
	}
	slices.SortFunc(stands, func(a, b showModel) int {
		section, score := a.rank()
		section2, score2 := b.rank()
		return cmp.Or(cmp.Compare(section, section2), cmp.Compare(score, score2), cmp.Compare(b.id, a.id))
	})
	b.showsAtVersion[newest] = stands
	return newest
}

// drawTime draws a time between from and to, in tens of seconds from now. There are few such times, so that many shows have equal times.
func (b *boardsModel) drawTime(t *rapid.T, from, to int) time.Time {
	return b.now().Truncate(10 * time.Second).Add(time.Duration(rapid.IntRange(from, to).Draw(t, "tens of seconds")) * 10 * time.Second)
}

func (b *boardsModel) scheduleShow(t *rapid.T) {
	host, at := rapid.SampledFrom(b.hosts).Draw(t, "host"), b.drawTime(t, 2, 6)
	first := !slices.ContainsFunc(b.shows, func(s *showModel) bool { return s.host == host })
	show := &showModel{host: host, title: fmt.Sprint("show ", len(b.shows)), status: "UPCOMING", plannedAt: at}
	show.id = b.drawNode(t).ScheduleShow(host, show.title, at)
	b.shows = append(b.shows, show)
	if first {
		b.runDueJobs() // no board has a new host until all documents name the host
	}
	b.recordShowsAtVersion()
}

// mutateShow sends a mutation (verb) on a show as its host, with more arguments, and fails unless its error code is want.
func (b *boardsModel) mutateShow(t *rapid.T, show *showModel, verb, more, want string) {
	got := b.drawNode(t).Ask(show.host, fmt.Sprintf(`mutation{r:%s(input:{showId:%q%s}){show{id}}}`, verb, show.id, more), nil)
	if got.ErrorCode() != want {
		t.Fatalf("%s %s of %+v: code %q, want %q: %v", verb, more, show, got.ErrorCode(), want, got.Errors)
	}
}

// drawShow draws one of the newest eight shows; nil while there are none.
func (b *boardsModel) drawShow(t *rapid.T) *showModel {
	if len(b.shows) == 0 {
		return nil
	}
	return b.shows[rapid.IntRange(max(0, len(b.shows)-8), len(b.shows)-1).Draw(t, "show")]
}

// timeArgument returns the text of an argument of a mutation that is a time.
func timeArgument(name string, at time.Time) string {
	return fmt.Sprintf(",%s:%q", name, at.Format(time.RFC3339Nano))
}

// startShow reports the start of a show, which may already be live, over, or reported as over.
func (b *boardsModel) startShow(t *rapid.T) {
	show := b.drawShow(t)
	if show == nil {
		return
	}
	at := b.drawTime(t, 0, 2)
	want := map[bool]string{true: "CONFLICT"}[show.status == "CANCELLED"]
	b.mutateShow(t, show, "startShow", timeArgument("at", at), want)
	if show.status == "UPCOMING" {
		show.status, show.startedAt = "LIVE", at
		if !show.endedAt.IsZero() {
			show.status = "REPLAY"
			if show.endedAt.Before(at) {
				show.startedAt = show.endedAt
			}
		}
	}
	b.recordShowsAtVersion()
}

// endShow reports the end of a show, also before its start was reported.
func (b *boardsModel) endShow(t *rapid.T) {
	show := b.drawShow(t)
	if show == nil {
		return
	}
	at := b.drawTime(t, 0, 3)
	want := ""
	switch {
	case show.status == "CANCELLED":
		want = "CONFLICT"
	case show.status == "LIVE" && at.Before(show.startedAt):
		want = "INVALID"
	}
	b.mutateShow(t, show, "endShow", timeArgument("at", at), want)
	switch {
	case want != "":
	case show.status == "LIVE":
		show.status, show.endedAt = "REPLAY", at
	case show.status == "UPCOMING" && show.endedAt.IsZero():
		show.endedAt = at
	}
	b.recordShowsAtVersion()
}

func (b *boardsModel) rescheduleShow(t *rapid.T) {
	show := b.drawShow(t)
	if show == nil {
		return
	}
	at := b.drawTime(t, 2, 6)
	same := show.status != "CANCELLED" && at.Equal(show.plannedAt)
	allowed := same || show.status == "UPCOMING" && show.endedAt.IsZero()
	b.mutateShow(t, show, "rescheduleShow", timeArgument("plannedAt", at), map[bool]string{false: "CONFLICT"}[allowed])
	if allowed {
		show.plannedAt = at
	}
	b.recordShowsAtVersion()
}

func (b *boardsModel) cancelShow(t *rapid.T) {
	show := b.drawShow(t)
	if show == nil {
		return
	}
	allowed := show.status == "CANCELLED" || show.status == "UPCOMING" && show.endedAt.IsZero()
	b.mutateShow(t, show, "cancelShow", "", map[bool]string{false: "CONFLICT"}[allowed])
	if allowed {
		show.status = "CANCELLED"
	}
	b.recordShowsAtVersion()
}

// changeFollowOrMute lets a reader follow, unfollow, mute or unmute a host. A follow may be reported late: its time is up to three hours ago.
func (b *boardsModel) changeFollowOrMute(t *rapid.T) {
	p := relation{rapid.SampledFrom(b.readers).Draw(t, "reader"), rapid.SampledFrom(b.hosts).Draw(t, "host")}
	verb := rapid.SampledFrom([]string{"follow", "follow", "unfollow", "mute", "unmute"}).Draw(t, "verb")
	b.advance(time.Millisecond) // a session and a follow in the same millisecond on two nodes have no defined order
	_, follows := b.followSteps[p]
	nothing := verb == "follow" && follows || verb == "unfollow" && !follows || verb == "unmute" && !b.mutes[p] || verb == "mute" && b.mutes[p]
	if age := rapid.SampledFrom([]int{0, 0, 5, 60, 180}).Draw(t, "minutes ago"); verb == "follow" && age > 0 {
		b.followLate(t, p, b.now().Add(-time.Duration(age)*time.Minute), !nothing)
	} else if got := b.drawNode(t).Ask(p.who, fmt.Sprintf(`mutation{r:%s(input:{userId:"user:%s"}){changed badges{version}}}`, verb, p.whom), nil); got.ErrorCode() != "" || got.Changed() == nothing {
		t.Fatalf("%s %v: code %q, changed %t, want %t", verb, p, got.ErrorCode(), got.Changed(), !nothing)
	}
	switch b.followStepCount++; {
	case nothing:
	case verb == "follow":
		b.followSteps[p] = b.followStepCount
	case verb == "unfollow":
		delete(b.followSteps, p)
	default:
		b.mutes[p] = verb == "mute"
	}
}

// wantedLines returns what the next page of a session must show, by the model: a line for each show, and whether more shows follow.
func (b *boardsModel) wantedLines(t *rapid.T, s *sessionModel, first int) (page []string, more bool) {
	list, known := b.showsAtVersion[s.changelogVersion]
	if !known && s.changelogVersion > b.startChangelogVersion { // none of these shows existed before the test
		t.Fatalf("a session of version %d, which no log had: %v", s.changelogVersion, slices.Sorted(maps.Keys(b.showsAtVersion)))
	}
	after := s.lastShownID == ""
	for _, show := range list {
		if after && b.hasHostOnBoard(s, show.host) {
			if len(page) == first {
				return page, true
			}
			page = append(page, show.line())
		}
		after = after || show.id == s.lastShownID
	}
	return page, false
}

// readAndComparePage reads a page of a session and compares it with the model. If s has no ID, the page begins a new session.
func (b *boardsModel) readAndComparePage(t *rapid.T, s *sessionModel, from world.BoardPageStart) {
	first := rapid.IntRange(1, 4).Draw(t, "first")
	n := b.drawNode(t)
	page := n.ReadBoardPage(s.reader, first, from)
	if s.id != "" && page.SessionID != s.id || s.id == "" && page.NewSession {
		t.Fatalf("asked for session %q of %s, got %+v", s.id, s.reader, page)
	}
	if s.id == "" {
		b.addSession(t, s, page)
	} else {
		s.leaseEndsAt = b.now().Add(30 * time.Minute)
	}
	want, more := b.wantedLines(t, s, first)
	if got := boardLines(page); !slices.Equal(got, want) || page.PageInfo.HasNextPage != more {
		t.Fatalf("%s at version %d after %q:\n got %q %t\nwant %q %t", s.reader, s.changelogVersion, s.lastShownID, got, page.PageInfo.HasNextPage, want, more)
	}
	if page.LastID != nil {
		s.lastShownID = *page.LastID
	}
	wantSameShowsByID(t, n, s.reader, page)
}

// wantSameShowsByID compares the shows of a page with the same shows fetched by their IDs: a client must get the same state of a show
// from both, whatever the session froze.
func wantSameShowsByID(t *rapid.T, n *world.Node, reader string, page world.BoardPage) {
	if len(page.Edges) == 0 {
		return
	}
	var data struct{ Nodes []world.BoardShow }
	n.MustAsk(reader, `query($ids:[ID!]!){nodes(ids:$ids){...on Show{`+world.ShowFields+`}}}`, map[string]any{"ids": page.Ids()}, &data)
	for i, edge := range page.Edges {
		if !reflect.DeepEqual(edge.Node, data.Nodes[i]) {
			t.Fatalf("on the board stands %+v, by its id it is %+v", edge.Node, data.Nodes[i])
		}
	}
}

// addSession adds the session that a page has begun to the model, with the version and the follows of its beginning.
func (b *boardsModel) addSession(t *rapid.T, s *sessionModel, page world.BoardPage) {
	session, err := live.ParseSession("sessionId", b.nodes[0].EnsureUserIDs(s.reader)[0], page.SessionID)
	if err != nil {
		t.Fatal(err)
	}
	s.id, s.changelogVersion, s.createdAt, s.leaseEndsAt = page.SessionID, session.Version, session.CreationID.Time(), time.Time{}
	s.followSteps = map[string]int{}
	for p, step := range b.followSteps {
		if p.who == s.reader && !b.mutes[p] {
			s.followSteps[p.whom] = step
		}
	}
	b.sessions = append(b.sessions, s)
}

// openSession begins a new session.
func (b *boardsModel) openSession(t *rapid.T) {
	b.readAndComparePage(t, &sessionModel{reader: rapid.SampledFrom(b.readers).Draw(t, "reader")}, world.BoardPageStart{})
}

// isReadable reports whether a session can still be read.
func (b *boardsModel) isReadable(s *sessionModel) bool {
	until := s.createdAt.Add(30 * time.Minute)
	if !s.leaseEndsAt.IsZero() {
		until = s.leaseEndsAt
	}
	return !b.now().After(until) && !b.now().After(s.createdAt.Add(12*time.Hour))
}

// continueSession reads a page of a session: its next page, its first page again, or, if the session is over, a page of a new session.
func (b *boardsModel) continueSession(t *rapid.T) {
	if len(b.sessions) == 0 {
		return
	}
	s := rapid.SampledFrom(b.sessions).Draw(t, "session")
	if ended := b.now().Sub(s.leaseEndsAt); ended > 0 && ended <= time.Minute {
		b.advance(time.Minute) // a renewal may extend a session by a minute more, so it may or may not be over
	}
	from := world.BoardPageStart{Session: s.id, Last: s.lastShownID}
	if rapid.IntRange(0, 4).Draw(t, "from the top") == 0 {
		from.Last, s.lastShownID = "", ""
	}
	if b.isReadable(s) {
		b.readAndComparePage(t, s, from)
		return
	}
	page := b.drawNode(t).ReadBoardPage(s.reader, 2, from)
	if !page.NewSession || page.SessionID == s.id {
		t.Fatalf("a session of %s that is over goes on: %+v", s.reader, page)
	}
	b.addSession(t, &sessionModel{reader: s.reader, lastShownID: ""}, page)
	b.sessions = slices.DeleteFunc(b.sessions, func(one *sessionModel) bool { return one == s })
}

// letTimePass lets some minutes pass, in which sessions that nobody reads can end.
func (b *boardsModel) letTimePass(t *rapid.T) {
	// With the seven seconds, no end of a lease and no limit of the age of a follow is exactly now.
	b.advance(time.Duration(rapid.IntRange(1, 25).Draw(t, "minutes"))*time.Minute + 7*time.Second)
}

// emptyRedis empties Redis: leases are lost, and sessions end as if no further page had been read.
func (b *boardsModel) emptyRedis(*rapid.T) {
	b.flushRedis()
	for _, s := range b.sessions {
		s.leaseEndsAt = time.Time{}
	}
}
