package live

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/rdb"
	"tidings/services/redis"
)

func drawSession(t *rapid.T) Session {
	return Session{
		Version: rapid.Uint64Max(1<<63-1).Draw(t, "version"), CreationID: services.SortableID(rapid.Uint64Range(1, uint64(services.MaxSortableID)).Draw(t, "made")),
		Viewer: services.UserID(rapid.Uint32().Draw(t, "viewer")), DeviceHash: rapid.Uint64().Draw(t, "device"),
		LatestFollow: services.SortableID(rapid.Uint64Max(uint64(services.MaxSortableID)).Draw(t, "followed")), RecentFollows: drawRecentFollows(t),
		FollowsHash: rapid.Uint32().Draw(t, "follows"),
	}
}

func drawRecentFollows(t *rapid.T) recentFollows {
	hosts := make([]services.FollowedAuthor, rapid.IntRange(0, maxRecentFollows+3).Draw(t, "recent"))
	for i := range hosts {
		hosts[i] = services.FollowedAuthor{Author: services.UserID(i), ItemsCountAfter: services.SortableID(rapid.Uint64().Draw(t, "since"))}
	}
	_, recent := splitFollows(hosts, 0)
	return recent
}

func drawShowPosition(t *rapid.T) ShowPosition {
	return ShowPosition{
		Replay: rapid.Bool().Draw(t, "replay"), Score: rapid.Int64().Draw(t, "score"),
		ID: services.ShowID(rapid.Uint64Range(1, uint64(services.MaxSortableID)).Draw(t, "id")),
	}
}

func TestSessionsAndCursorsParseOnlyForTheirViewer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		session, position := drawSession(t), drawShowPosition(t)
		if rapid.Bool().Draw(t, "of an older release") {
			session.FollowsHash = 0
			if rapid.Bool().Draw(t, "of one without LatestFollow") {
				session.LatestFollow, session.RecentFollows = session.CreationID, ""
			}
		}
		if got, err := ParseSession("sessionId", session.Viewer, session.String()); got != session || err != nil {
			t.Fatalf("%+v became %+v, %v", session, got, err)
		}
		text := CursorText(session, position)
		if got, at, err := parseCursor(session.Viewer, text); got != session || at != position || err != nil {
			t.Fatalf("%+v %+v became %+v %+v, %v", session, position, got, at, err)
		}
		stranger := session.Viewer + services.UserID(rapid.Uint32Range(1, ^uint32(0)).Draw(t, "distance"))
		if _, err := ParseSession("sessionId", stranger, session.String()); services.CodeOf(err) != services.Invalid || !strings.Contains(err.Error(), "another user") {
			t.Fatalf("a stranger reads the session: %v", err)
		}
		if _, _, err := parseCursor(stranger, text); services.CodeOf(err) != services.Invalid || !strings.Contains(err.Error(), "another user") {
			t.Fatalf("a stranger reads the cursor: %v", err)
		}
	})
}

// aSession is a valid session. The tests change its text or its bytes.
var aSession = Session{Version: 7, CreationID: 99, Viewer: 3, DeviceHash: 5, LatestFollow: 98}

// Any text sent as a session is either parsed or refused with a reason. A parsed session prints as the same text.
func FuzzSession(f *testing.F) {
	good := aSession.String()
	for _, seed := range []string{"", good, good + "=", good[:len(good)-1], good + "A", "!!!", "é", strings.Repeat("A", 39), strings.Repeat("_", 39), "\x00", strings.Repeat("A", 10_000)} {
		f.Add(uint32(3), seed)
	}
	f.Fuzz(func(t *testing.T, viewer uint32, text string) {
		session, err := ParseSession("sessionId", services.UserID(viewer), text)
		switch {
		case err == nil && (session.CreationID == 0 || session.String() != text):
			t.Errorf("%q was read as %+v", text, session)
		case err != nil && (services.CodeOf(err) != services.Invalid || !strings.HasPrefix(err.Error(), "sessionId: ") || len(err.Error()) > 500):
			t.Errorf("%q: %v", text, err)
		}
	})
}

// Any text sent as a cursor is either parsed or refused with a reason. A parsed cursor prints as the same text.
func FuzzBoardCursor(f *testing.F) {
	good := CursorText(aSession, ShowPosition{Replay: true, Score: -1, ID: 5})
	for _, seed := range []string{"", good, good + "=", good[:len(good)-1], good + "A", aSession.String(), strings.Repeat("A", 63), strings.Repeat("_", 63), "\x00", strings.Repeat("A", 10_000)} {
		f.Add(uint32(3), seed)
	}
	f.Fuzz(func(t *testing.T, viewer uint32, text string) {
		session, position, err := parseCursor(services.UserID(viewer), text)
		switch {
		case err == nil && (position.ID == 0 || CursorText(session, position) != text):
			t.Errorf("%q was read as %+v %+v", text, session, position)
		case err != nil && (services.CodeOf(err) != services.Invalid || !strings.HasPrefix(err.Error(), "after: ") || len(err.Error()) > 500):
			t.Errorf("%q: %v", text, err)
		}
	})
}

func TestDamagedSessionsAreRefused(t *testing.T) {
	bytes, err := base64.RawURLEncoding.DecodeString(aSession.String())
	if err != nil {
		t.Fatal(err)
	}
	for what, damage := range map[string]func([]byte) []byte{
		"another form":        func(b []byte) []byte { b[0]++; return b },
		"a longer one":        func(b []byte) []byte { return append(b, 0) },
		"a shorter one":       func(b []byte) []byte { return b[:len(b)-1] },
		"a version past all":  func(b []byte) []byte { b[1] |= 0x80; return b },
		"a moment past all":   func(b []byte) []byte { b[9] |= 0x80; return b },
		"no moment":           func(b []byte) []byte { return append(append(b[:9:9], make([]byte, 8)...), b[17:]...) },
		"a follow past all":   func(b []byte) []byte { b[29] |= 0x80; return b },
		"no recent follow":    func(b []byte) []byte { b[0] = recentFollowsFormByte; return b },
		"a part of one":       func(b []byte) []byte { b[0] = recentFollowsFormByte; return append(b, 1, 2, 3) },
		"a repeated one":      func(b []byte) []byte { b[0] = recentFollowsFormByte; return append(b, 0, 0, 0, 7, 0, 0, 0, 7) },
		"a wrong order":       func(b []byte) []byte { b[0] = recentFollowsFormByte; return append(b, 0, 0, 1, 0, 0, 0, 0, 7) },
		"too many":            func(b []byte) []byte { b[0] = recentFollowsFormByte; return append(b, tooManyRecentFollows()...) },
		"no hash of follows":  func(b []byte) []byte { b[0] = followsHashFormByte; return b },
		"a part of a hash":    func(b []byte) []byte { b[0] = followsHashFormByte; return append(b, 1, 2, 3) },
		"a needless hash":     func(b []byte) []byte { b[0] = followsHashFormByte; return append(b, 0, 0, 0, 0) },
		"a part after a hash": func(b []byte) []byte { b[0] = followsHashFormByte; return append(b, 0, 0, 0, 7, 1) },
		"an older form":       func(b []byte) []byte { b[0] = noFollowFormByte; return b },
		"one without a part":  func(b []byte) []byte { return b[:noFollowSessionBytes] },
		"with a needless one": func(b []byte) []byte { return append(b[:29:29], b[9:17]...) },
		"a cursor":            func(b []byte) []byte { return append([]byte{cursorFormByte, 0}, b...) },
		"nothing":             func([]byte) []byte { return nil },
		"a form of no letter": func(b []byte) []byte { return b[1:] },
	} {
		text := base64.RawURLEncoding.EncodeToString(damage(slices.Clone(bytes)))
		if _, err := ParseSession("sessionId", 3, text); services.CodeOf(err) != services.Invalid {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// tooManyRecentFollows are recent follows, one more than a session can have.
func tooManyRecentFollows() (bytes []byte) {
	for i := range maxRecentFollows + 1 {
		bytes = append(bytes, 0, 0, 0, byte(i))
	}
	return bytes
}

// A session of a release without LatestFollow has the hosts that were followed until it was made. One of a release without FollowsHash
// knows its hosts by the times of their follows alone.
func TestSessionsOfOlderReleasesGoOn(t *testing.T) {
	older := Session{Version: 7, CreationID: 99, Viewer: 3, DeviceHash: 5, LatestFollow: 98}
	recent := older
	recent.RecentFollows = "\x00\x00\x00\x01\x00\x00\x00\x02"
	oldest := older
	oldest.LatestFollow = oldest.CreationID
	for _, c := range []struct {
		want            Session
		session, cursor string
	}{
		{oldest, "AQAAAAAAAAAHAAAAAAAAAGMAAAADAAAAAAAAAAU", "QQD__________wAAAAAAAAAFAQAAAAAAAAAHAAAAAAAAAGMAAAADAAAAAAAAAAU"},
		{older, "AgAAAAAAAAAHAAAAAAAAAGMAAAADAAAAAAAAAAUAAAAAAAAAYg", "QQD__________wAAAAAAAAAFAgAAAAAAAAAHAAAAAAAAAGMAAAADAAAAAAAAAAUAAAAAAAAAYg"},
		{recent, "AwAAAAAAAAAHAAAAAAAAAGMAAAADAAAAAAAAAAUAAAAAAAAAYgAAAAEAAAAC", "QQD__________wAAAAAAAAAFAwAAAAAAAAAHAAAAAAAAAGMAAAADAAAAAAAAAAUAAAAAAAAAYgAAAAEAAAAC"},
	} {
		if got, err := ParseSession("sessionId", 3, c.session); got != c.want || err != nil {
			t.Errorf("the session is %+v, %v; want %+v", got, err, c.want)
		}
		if got, position, err := parseCursor(3, c.cursor); got != c.want || position != (ShowPosition{Score: -1, ID: 5}) || err != nil {
			t.Errorf("the cursor is of %+v at %+v, %v; want %+v", got, position, err, c.want)
		}
	}
}

func TestASessionEndsAfterItsIdleTimeAndItsMaximum(t *testing.T) {
	const idle, longest = 30 * time.Minute, 12 * time.Hour
	start := time.UnixMilli(1_700_000_000_000)
	session := Session{CreationID: services.SortableIDAt(start) + 7, Viewer: 3}
	mine := slotLease{RedisAnswered: true, Holder: session.name()}
	for _, c := range []struct {
		what  string
		at    time.Duration
		lease slotLease
		want  bool
	}{
		{"never used, in time", idle, slotLease{RedisAnswered: true}, true},
		{"never used, too late", idle + time.Millisecond, slotLease{RedisAnswered: true}, false},
		{"used", 3 * time.Hour, mine, true},
		{"its room is another's", time.Minute, slotLease{RedisAnswered: true, Holder: "other"}, false},
		{"Redis does not say", 3 * time.Hour, slotLease{}, true},
		{"longest", longest, mine, true},
		{"longer than the longest", longest + time.Millisecond, mine, false},
		{"longer, and Redis does not say", longest + time.Millisecond, slotLease{}, false},
	} {
		if got := session.lives(start.Add(c.at), c.lease, idle, longest); got != c.want {
			t.Errorf("%s: %t", c.what, got)
		}
	}
}

func TestSessionsShareASlotByTheirScope(t *testing.T) {
	phone, tablet := deviceHash("phone"), deviceHash("tablet")
	if phone == tablet || phone == 0 || deviceHash("") != 0 {
		t.Fatalf("%d %d %d", phone, tablet, deviceHash(""))
	}
	a, b := Session{CreationID: 1, Viewer: 3, DeviceHash: phone}, Session{CreationID: 2, Viewer: 3, DeviceHash: phone}
	other, nameless, again := Session{CreationID: 3, Viewer: 3, DeviceHash: tablet}, Session{CreationID: 4, Viewer: 3}, Session{CreationID: 5, Viewer: 3}
	for _, c := range []struct {
		scope SessionScope
		one   Session
		two   Session
		same  bool
	}{
		{perRequest, a, b, false}, {perRequest, nameless, again, false},
		{perDevice, a, b, true}, {perDevice, a, other, false}, {perDevice, nameless, again, false}, {perDevice, a, nameless, false},
		{perUser, a, b, true}, {perUser, a, other, true}, {perUser, nameless, again, true}, {perUser, a, nameless, true},
	} {
		if same := c.one.slotKey(c.scope) == c.two.slotKey(c.scope); same != c.same {
			t.Errorf("%s %+v %+v: %t", c.scope, c.one, c.two, same)
		}
		if c.one.sharesSlot(c.scope) != (c.scope == perUser || c.scope == perDevice && c.one.DeviceHash != 0) {
			t.Errorf("%s %+v: shared %t", c.scope, c.one, c.one.sharesSlot(c.scope))
		}
	}
}

// The hosts of a session are exactly those that the document had, whatever reaches it later: a follow of a time before the last
// one, or a host who is followed again. If there are more than maxRecentFollows recent follows, the session knows the earlier ones
// only by their times.
func TestASessionHasTheRecentFollowsOfItsDocument(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		count := rapid.SampledFrom([]int{3, maxRecentFollows, maxRecentFollows + 1, 2 * maxRecentFollows}).Draw(t, "hosts")
		had, late := make([]services.FollowedAuthor, count), make([]services.FollowedAuthor, count)
		for i := range had {
			had[i] = services.FollowedAuthor{Author: services.UserID(i), ItemsCountAfter: services.SortableID(1000 + 2*i)}
			late[i] = services.FollowedAuthor{Author: services.UserID(i), ItemsCountAfter: had[i].ItemsCountAfter + 1} // again
			if rapid.Bool().Draw(t, "another") {
				late[i].Author += 1000
			}
		}
		since := services.SortableID(rapid.IntRange(990, 1000+2*count).Draw(t, "recent from"))
		var session Session
		session.LatestFollow, session.RecentFollows = splitFollows(had, since)
		if got := session.filterHosts(had); !slices.Equal(got, had) {
			t.Fatalf("%v of %v", got, had)
		}
		named := max(0, count-maxRecentFollows)
		for i, host := range late {
			if recent := had[i].ItemsCountAfter >= since && i >= named; recent && session.hasHost(host) {
				t.Fatalf("%+v is on the board of %+v", host, session)
			}
		}
	})
}

func TestHostsFollowedSinceAreInTheNextSession(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		session := Session{CreationID: 60, LatestFollow: 50}
		var all, want []services.FollowedAuthor
		for i := range rapid.IntRange(0, 8).Draw(t, "hosts") {
			host := services.FollowedAuthor{Author: services.UserID(i), ItemsCountAfter: services.SortableID(rapid.IntRange(48, 52).Draw(t, "since"))}
			if all = append(all, host); host.ItemsCountAfter <= 50 {
				want = append(want, host)
			}
		}
		before := fmt.Sprint(all)
		if got := session.filterHosts(all); !slices.Equal(got, want) {
			t.Fatalf("%v of %v, want %v", got, all, want)
		}
		if fmt.Sprint(all) != before {
			t.Fatalf("the list became %v, was %v", all, before)
		}
	})
}

// A page extends its session unless the page before has extended it far enough. In either case the session lives for its idle
// time after the last page.
func TestPagesExtendTheirSession(t *testing.T) {
	w := fanouttest.New(t, fanouttest.Options{})
	w.Clock.Advance(time.Since(fanouttest.StartTime)) // Redis forgets leases by its own clock
	opened, err := rdb.Open(t.Context(), redis.Options{URL: w.RedisServer.URL(), NodeID: "clocked", Clock: w.Clock, Log: w.Log, DataDir: t.TempDir()}, rdb.DocumentShape{})
	w.Must(err)
	t.Cleanup(func() { w.Must(opened.Close()) })
	h := newBoardNode(w, func(cfg *Config) { cfg.Redis = opened })
	viewer := h.newFullBoardViewer()
	first := h.page(viewer, BoardRequest{First: 2})
	// extends reports whether a page writes, beside its one read.
	extends := func(what string) bool {
		t.Helper()
		ask := nextRequest(first, true)
		ask.First = 2
		ctx, trips := redis.WithRoundTrips(t.Context())
		page, err := h.boards.Board(ctx, viewer, ask)
		if err != nil || page.SessionReplaced || len(page.Items) != 2 || page.Session != first.Session {
			t.Errorf("%s: %+v, %v", what, page, err)
		}
		return trips.Count() == 2
	}
	idle := h.boards.sessionIdleTime
	for _, step := range []struct {
		after time.Duration
		want  bool
	}{
		{0, true}, {time.Second, false}, {idle/extraIdleDivisor - 2*time.Second, false}, {2 * time.Second, true}, {0, false},
		{idle, true}, {idle/extraIdleDivisor - time.Second, false}, {idle, true},
	} {
		h.Clock.Advance(step.after)
		if got := extends("after " + step.after.String()); got != step.want {
			t.Errorf("after %s a page extends its session: %t", step.after, got)
		}
	}
	// The session never lives beyond its longest life.
	h.Clock.Advance(first.Session.CreationID.Time().Add(h.boards.maxSessionLife).Sub(h.Clock.Now()) - time.Second)
	lease := h.boards.renew(t.Context(), first.Session, slotLease{})
	read, err := h.boards.readerData(t.Context(), first.Session, ShowPosition{}, 1)
	if last := first.Session.CreationID.Time().Add(h.boards.maxSessionLife); err != nil || !lease || read.lease.Until.After(last) || read.lease.Until.Before(last.Add(-time.Millisecond)) {
		t.Errorf("the lease ends at %s, the session at %s: %v", read.lease.Until, last, err)
	}
}
