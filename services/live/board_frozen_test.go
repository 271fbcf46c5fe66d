package live

import (
	"context"
	"slices"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/fanout"
	"tidings/services/fanout/fanouttest"
	"tidings/services/jobs"
	"tidings/services/people"
	"tidings/services/sql"
)

// A follow was committed before the session began, but the viewer's document did not name the host yet. The host is on the board from
// the next session on, as a host who is followed later is. The session's subscription reports the host's shows as new.
func TestAFollowThatTheDocumentLackedIsInTheNextSession(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		h := newBoardNode(w, nil)
		viewer, host, late := w.MakeUsers(1)[0], w.MakeUsers(1)[0], w.MakeUsers(1)[0]
		w.Follow(host, viewer)
		shows := []services.ShowID{planShow(w, host, time.Hour), planShow(w, host, 2*time.Hour)}
		live, planned := planShow(w, late, time.Minute), planShow(w, late, 3*time.Hour)
		h.advanceAndRefresh()
		startShows(w, live)
		h.advanceAndRefresh()
		w.Follow(late, viewer) // its job waits
		first := h.page(viewer, BoardRequest{First: 1})
		h.advanceAndRefresh()
		for _, byCursor := range []bool{true, false} {
			if got := boardShowIDs(h.page(viewer, nextRequest(first, byCursor))); !slices.Equal(got, shows[1:]) {
				t.Errorf("the second page has %v, want %v", got, shows[1:])
			}
		}
		if got := boardShowIDs(h.page(viewer, BoardRequest{Session: sessionArgument(first.Session)})); !slices.Equal(got, shows) {
			t.Errorf("the session has %v, want %v", got, shows)
		}
		if got, want := boardShowIDs(h.page(viewer, BoardRequest{})), []services.ShowID{live, shows[0], shows[1], planned}; !slices.Equal(got, want) {
			t.Errorf("the next session has %v, want %v", got, want)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		badges := make(chan *services.Badges, 1)
		badges <- &services.Badges{LiveSequence: 1 << 62}
		changes, err := h.boards.Watch(ctx, viewer, sessionArgument(first.Session), "", badges)
		w.Must(err)
		change := <-changes
		if len(change.WentLive) != 1 || change.WentLive[0].ID != live || len(change.Scheduled) != 1 || change.Scheduled[0].ID != planned || change.NewAboveCount != 1 {
			t.Errorf("the session has changed by %+v", change)
		}
	})
}

// The later of two follows reaches the viewer's document first, and the session begins before the earlier one reaches it. The host
// who was followed first is on the board from the next session on, as any host that the document lacked.
func TestFollowsThatArriveInTheOppositeOrderLeaveTheSessionAsItWas(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		h := newBoardNode(w, nil)
		users := w.MakeUsers(4)
		viewer, before, late, last := users[0], users[1], users[2], users[3]
		w.Follow(before, viewer)
		shows := []services.ShowID{planShow(w, before, time.Hour), planShow(w, last, 2*time.Hour)}
		missed := planShow(w, late, 90*time.Minute)
		w.RunAllJobs(w.Fanout)
		h.advanceAndRefresh()
		w.Follow(late, viewer) // its job waits
		w.Clock.Advance(time.Second)
		w.Follow(last, viewer)
		w.Must(w.Fanout.ReconcileFollow(t.Context(), viewer, last))
		first := h.page(viewer, BoardRequest{First: 1})
		session := sessionArgument(first.Session)
		if again := sessionArgument(h.page(viewer, BoardRequest{First: 1, Session: session}).Session); *again != *session {
			t.Errorf("the session %s became %s", *session, *again)
		}
		h.advanceAndRefresh()
		w.RunAllJobs(w.Fanout)
		for _, byCursor := range []bool{true, false} {
			if got := boardShowIDs(h.page(viewer, nextRequest(first, byCursor))); !slices.Equal(got, shows[1:]) {
				t.Errorf("the second page has %v, want %v", got, shows[1:])
			}
		}
		if got := boardShowIDs(h.page(viewer, BoardRequest{Session: session})); !slices.Equal(got, shows) {
			t.Errorf("the session has %v, want %v", got, shows)
		}
		if got, want := boardShowIDs(h.page(viewer, BoardRequest{})), []services.ShowID{shows[0], missed, shows[1]}; !slices.Equal(got, want) {
			t.Errorf("the next session has %v, want %v", got, want)
		}
	})
}

// A node whose clock is ahead may have set the time of a follow: its host is on the board all the same.
func TestAHostFollowedByAClockAheadIsInTheSession(t *testing.T) {
	w := fanouttest.New(t, fanouttest.Options{})
	h := newBoardNode(w, nil)
	viewer, host := w.MakeUsers(1)[0], w.MakeUsers(1)[0]
	shows := []services.ShowID{planShow(w, host, time.Hour), planShow(w, host, 2*time.Hour)}
	w.Write(func(ctx context.Context, tx *sql.Tx) error {
		edge := services.FollowEdge{Follower: viewer, Followee: host, PostsCountAfter: services.PostID(services.SortableIDAt(w.Clock.Now().Add(10 * time.Second)))}
		if _, err := people.InsertFollow(ctx, tx, edge); err != nil {
			return err
		}
		return jobs.Enqueue(ctx, tx, fanout.FollowJob(viewer, host))
	})
	h.advanceAndRefresh()
	first := h.page(viewer, BoardRequest{First: 1})
	if got := boardShowIDs(h.page(viewer, nextRequest(first, true))); !slices.Equal(got, shows[1:]) {
		t.Errorf("the second page has %v, want %v", got, shows[1:])
	}
}
