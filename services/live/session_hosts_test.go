package live

import (
	"context"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidings/services"
	"tidings/services/fanout"
	"tidings/services/fanout/fanouttest"
	"tidings/services/jobs"
	"tidings/services/people"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// lateBoard is the world of a viewer who follows two hosts since ten minutes, while the first page of the board is on the screen.
type lateBoard struct {
	boardNode
	viewer, host, other, late services.UserID // late is a third host, and not on the board
	shows                     []services.ShowID
	lateLive, latePlanned     services.ShowID
	first                     Board
}

// newLateBoard makes the world. hideLate keeps the late host off the board until the first page was read.
func newLateBoard(w *fanouttest.World, hideLate func(viewer, late services.UserID)) *lateBoard {
	users := w.MakeUsers(4)
	b := &lateBoard{boardNode: newBoardNode(w, nil), viewer: users[0], host: users[1], other: users[2], late: users[3]}
	b.lateLive, b.latePlanned = planShow(w, b.late, 30*time.Minute), planShow(w, b.late, 90*time.Minute)
	hideLate(b.viewer, b.late)
	w.Follow(b.host, b.viewer)
	w.Follow(b.other, b.viewer)
	b.shows = []services.ShowID{planShow(w, b.host, time.Hour), planShow(w, b.other, 2*time.Hour), planShow(w, b.host, 3*time.Hour)}
	w.RunAllJobs(w.Fanout)
	b.advanceAndRefresh()
	w.Clock.Advance(10 * time.Minute)
	startShows(w, b.lateLive)
	b.advanceAndRefresh()
	b.first = b.page(b.viewer, BoardRequest{First: 1})
	b.advanceAndRefresh()
	return b
}

// wantSession checks that every page of the session, and the page after its first one, has exactly these shows.
func (b *lateBoard) wantSession(when string, want ...services.ShowID) {
	b.TB.Helper()
	b.advanceAndRefresh()
	for _, byCursor := range []bool{true, false} {
		if got := boardShowIDs(b.page(b.viewer, nextRequest(b.first, byCursor))); !slices.Equal(got, want[1:]) {
			b.TB.Errorf("%s the second page has %v, want %v", when, got, want[1:])
		}
	}
	if got := boardShowIDs(b.page(b.viewer, BoardRequest{Session: sessionArgument(b.first.Session)})); !slices.Equal(got, want) {
		b.TB.Errorf("%s the session has %v, want %v", when, got, want)
	}
}

// wantLateHostInNextSession checks that the late host is on the board of the next session, that the subscription of the first session
// reports the host's shows as new, and that the first session refuses them as positions.
func (b *lateBoard) wantLateHostInNextSession() {
	b.TB.Helper()
	want := []services.ShowID{b.lateLive, b.shows[0], b.latePlanned, b.shows[1], b.shows[2]}
	if got := boardShowIDs(b.page(b.viewer, BoardRequest{})); !slices.Equal(got, want) {
		b.TB.Errorf("the next session has %v, want %v", got, want)
	}
	ctx, cancel := context.WithCancel(b.TB.Context())
	defer cancel()
	badges := make(chan *services.Badges, 1)
	badges <- &services.Badges{LiveSequence: 1 << 62}
	changes, err := b.boards.Watch(ctx, b.viewer, sessionArgument(b.first.Session), "", badges)
	b.Must(err)
	change := <-changes
	if len(change.WentLive) != 1 || change.WentLive[0].ID != b.lateLive || len(change.Scheduled) != 1 || change.Scheduled[0].ID != b.latePlanned || change.NewAboveCount != 1 {
		b.TB.Errorf("the session has changed by %+v", change)
	}
	position := services.GlobalID(services.ShowType, b.latePlanned.String())
	if page, err := b.boards.Board(ctx, b.viewer, BoardRequest{First: 5, Session: sessionArgument(b.first.Session), LastID: &position}); services.CodeOf(err) != services.Invalid {
		b.TB.Errorf("a page of the session after a show that it lacks: %v, %v", boardShowIDs(page), err)
	}
}

// followAt makes a viewer follow a host with a time of its own, as an event or an import with a past time does.
func followAt(w *fanouttest.World, viewer, host services.UserID, at time.Time) {
	w.TB.Helper()
	w.Write(func(ctx context.Context, tx *sql.Tx) error {
		edge := services.FollowEdge{Follower: viewer, Followee: host, PostsCountAfter: services.PostID(w.IDs.NextAt(at))}
		if _, err := people.ImportFollows(ctx, tx, []services.FollowEdge{edge}); err != nil {
			return err
		}
		return jobs.Enqueue(ctx, tx, fanout.FollowJob(viewer, host))
	})
}

// A follow is reported after the first page of a board, and its time is before that page and before the follows of the other hosts. No
// page of the session changes, whatever else the viewer does and whether Redis or SQL has the hosts.
func TestALateFollowLeavesTheSessionAsItWas(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		b := newLateBoard(w, func(_, _ services.UserID) {})
		followAt(w, b.viewer, b.late, w.Clock.Now().Add(-time.Hour))
		b.wantSession("after the follow", b.shows...)
		b.wantLateHostInNextSession()
		_, err := w.Redis.DropUsers(t.Context(), []services.UserID{b.viewer}, 1<<40)
		w.Must(err)
		b.wantSession("after a rebuild", b.shows...)
		w.Unfollow(b.other, b.viewer)
		b.wantSession("after an unfollow", b.shows[0], b.shows[2])
		w.Unfollow(b.late, b.viewer)
		followAt(w, b.viewer, b.late, w.Clock.Now().Add(-2*time.Hour))
		b.wantSession("after another follow", b.shows[0], b.shows[2])
		followAt(w, b.viewer, b.late, w.Clock.Now().Add(-time.Hour)) // it exists
		followAt(w, b.viewer, b.other, w.Clock.Now().Add(-time.Hour))
		b.wantSession("after a follow again", b.shows[0], b.shows[2])
	})
}

// A session that began after the report of a late follow has the host, whatever follows or ends later.
func TestALateFollowIsInTheNextSession(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		b := newLateBoard(w, func(viewer, late services.UserID) { followAt(w, viewer, late, w.Clock.Now().Add(-time.Hour)) })
		want := []services.ShowID{b.lateLive, b.shows[0], b.latePlanned, b.shows[1], b.shows[2]}
		b.wantSession("at first", want...)
		followAt(w, b.viewer, b.late, w.Clock.Now().Add(-time.Hour)) // reported again
		w.Unfollow(b.other, b.viewer)
		b.wantSession("after an unfollow", b.lateLive, b.shows[0], b.latePlanned, b.shows[2])
	})
}

// A host was muted, or hid from the viewer, when a board was frozen. The host is on the board from the next session on. A host who is
// muted for a while during a session comes back.
func TestTheEndOfAMuteOrAHideLeavesTheSessionAsItWas(t *testing.T) {
	for kind, restriction := range map[services.RestrictionKind]func(viewer, host services.UserID) services.Restriction{
		services.Mute: func(viewer, host services.UserID) services.Restriction {
			return services.Restriction{Kind: services.Mute, Owner: viewer, Other: host}
		},
		services.Hide: func(viewer, host services.UserID) services.Restriction {
			return services.Restriction{Kind: services.Hide, Owner: host, Other: viewer}
		},
	} {
		t.Run(string(kind), func(t *testing.T) {
			fanouttest.EachEnginePair(t, nil, func(_ *testing.T, w *fanouttest.World) {
				restrict := func(viewer, host services.UserID, on bool) {
					w.Write(func(ctx context.Context, tx *sql.Tx) (err error) {
						r := restriction(viewer, host)
						if r.MadeAt = w.IDs.Next(); on {
							_, err = people.Restrict(ctx, tx, r)
						} else {
							_, err = people.Unrestrict(ctx, tx, r)
						}
						if err != nil {
							return err
						}
						return jobs.Enqueue(ctx, tx, fanout.FollowJob(viewer, host))
					})
				}
				b := newLateBoard(w, func(viewer, late services.UserID) {
					w.Follow(late, viewer)
					restrict(viewer, late, true)
				})
				b.wantSession("at first", b.shows...)
				restrict(b.viewer, b.late, false)
				b.wantSession("after the end", b.shows...)
				b.wantLateHostInNextSession()
				restrict(b.viewer, b.other, true)
				b.wantSession("without a host", b.shows[0], b.shows[2])
				restrict(b.viewer, b.other, false)
				b.wantSession("with that host again", b.shows...)
			})
		})
	}
}

// A host who is followed while a session lives, and shows that end meanwhile, push the session's replays off the viewer's list. The
// session still has them.
func TestReplaysStayInTheSessionWhenNewerOnesFillTheList(t *testing.T) {
	w := fanouttest.New(t, fanouttest.Options{})
	h := newBoardNode(w, nil)
	users := w.MakeUsers(3)
	viewer, host, late := users[0], users[1], users[2]
	w.Follow(host, viewer)
	fill := func(host services.UserID, replays int) {
		ids := make([]services.ShowID, replays)
		for i := range ids {
			ids[i] = planShow(w, host, time.Minute)
		}
		startShows(w, ids...)
		endShows(w, ids...)
		w.RunAllJobs(w.Fanout)
		h.advanceAndRefresh()
	}
	fill(host, 12)
	fill(late, services.FeedRetention+40)
	first := h.page(viewer, BoardRequest{First: 5})
	whole, end := h.readRemainingPages(viewer, first, 5)
	if len(whole) != 12 || end != services.EndOfFeed {
		t.Fatalf("the board has %v, and ends with %q", whole, end)
	}
	for _, step := range []struct {
		what string
		do   func()
	}{
		{"after a follow", func() { w.Follow(late, viewer); h.advanceAndRefresh() }},
		{"after the ends of many shows", func() { fill(host, services.FeedRetention+40) }},
		{"without Redis", func() { w.RedisServer.Kill() }},
	} {
		step.do()
		if got, end := h.readRemainingPages(viewer, first, 5); !slices.Equal(got, whole) || end != services.EndOfFeed {
			t.Errorf("%s the session has %v, and ends with %q; want %v", step.what, got, end, whole)
		}
	}
}

// A late follow of a host by a user who was here is recorded for as long as a session may live.
func TestGapsOfFollowsAreForgottenAfterSessions(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		b.MakeUsers("ann", "bob", "cat", "dan", "eve")
		b.addHosts(2, 3, 5)
		b.MustWrite(func(tx *sql.Tx) error { return people.MarkActive(b.Ctx, tx, []services.UserID{1}) })
		start := b.Clock.Now().UTC().Truncate(time.Millisecond)
		follow := func(followee services.UserID, age time.Duration) {
			since := services.PostID(services.SortableIDAt(b.Clock.Now().Add(-age)))
			b.MakeFollows(services.FollowEdge{Follower: 1, Followee: followee, PostsCountAfter: since},
				services.FollowEdge{Follower: 4, Followee: followee, PostsCountAfter: since}) // who was never here
		}
		follow(2, time.Hour)
		follow(3, 0)
		b.MakeFollows(services.FollowEdge{Follower: 1, Followee: 4, PostsCountAfter: services.PostID(services.SortableIDAt(start.Add(-time.Hour)))}) // not a host
		b.Clock.Advance(time.Minute)
		follow(2, 2*time.Hour) // it exists
		follow(5, time.Hour)
		gap := func(host services.UserID, since, until time.Duration) followGap {
			return followGap{Host: host, Since: start.Add(since), Until: start.Add(until)}
		}
		want := []followGap{gap(5, time.Minute-time.Hour, time.Minute), gap(2, -time.Hour, 0)}
		read := func(since time.Time) []followGap { return sqltest.Must(followGapsOf(b.Ctx, b.DB, 1, since))(b.T) }
		sqltest.Equal(b.T, read(start), want)
		sqltest.Equal(b.T, read(start.Add(time.Minute)), want[:1])
		sqltest.Equal(b.T, len(sqltest.Must(followGapsOf(b.Ctx, b.DB, 4, start))(b.T)), 0)
		sqltest.Equal(b.T, sqltest.Must(forgetFollowGaps(b.Ctx, b.DB, start))(b.T), 0)
		sqltest.Equal(b.T, sqltest.Must(forgetFollowGaps(b.Ctx, b.DB, start.Add(time.Minute)))(b.T), 1)
		sqltest.Equal(b.T, read(start), want[:1])
	})
}

// A session keeps exactly the hosts that it had: with late follows and mutes that ended, in whatever order they reached the document and
// however far the clocks are apart. If hosts have left meanwhile, the times of the gaps decide.
func TestRemoveLateHostsLeavesTheHostsOfTheSession(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		made := timeAtMillis(1_700_000_000_000)
		session := Session{CreationID: services.SortableIDAt(made) + 7}
		skewed := rapid.Bool().Draw(t, "clocks differ")
		var had, now []services.FollowedAuthor
		var gaps []followGap
		for i := range rapid.IntRange(1, 8).Draw(t, "hosts") {
			host := services.FollowedAuthor{Author: services.UserID(i + 1), ItemsCountAfter: services.SortableIDAt(made.Add(-time.Hour)) + services.SortableID(i)}
			now = append(now, host)
			gap := followGap{Host: host.Author, Since: host.ItemsCountAfter.Time()}
			switch rapid.SampledFrom([]string{"always", "before", "during", "late"}).Draw(t, "followed") {
			case "late":
				gap.Until = made.Add(time.Duration(rapid.IntRange(1, 1000).Draw(t, "after")) * time.Millisecond)
				gaps = append(gaps, gap)
				continue
			case "before":
				gap.Until = made.Add(-time.Duration(rapid.IntRange(0, 1000).Draw(t, "before")) * time.Millisecond)
				gaps = append(gaps, gap)
			case "during": // muted and shown again while the session lives
				gap.Since, gap.Until = made.Add(time.Millisecond), made.Add(2*time.Second)
				gaps = append(gaps, gap)
			}
			had = append(had, host)
		}
		session.FollowsHash = sumFollowHashes(had)
		if skewed {
			shift := time.Duration(rapid.IntRange(-2000, 2000).Draw(t, "skew")) * time.Millisecond
			for i := range gaps {
				gaps[i].Until = gaps[i].Until.Add(shift)
			}
		}
		slices.SortStableFunc(gaps, func(a, b followGap) int { return b.Until.Compare(a.Until) })
		left := slices.Clone(now)
		if !skewed && rapid.Bool().Draw(t, "a host has left") {
			at := rapid.IntRange(0, len(now)-1).Draw(t, "which")
			left = slices.Delete(left, at, at+1)
			had = slices.DeleteFunc(had, func(host services.FollowedAuthor) bool { return host == now[at] })
		}
		before := slices.Clone(left)
		got := left
		if sumFollowHashes(left) != session.FollowsHash {
			got = session.removeLateHosts(left, gaps)
		}
		if !slices.Equal(got, had) {
			t.Fatalf("%v of %v, want %v", got, left, had)
		}
		if !slices.Equal(left, before) {
			t.Fatalf("the list became %v, was %v", left, before)
		}
	})
}
