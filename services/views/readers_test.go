package views

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/jobs"
	"tidings/services/people"
	"tidings/services/sql"
)

// makeReaders makes users who touched a view. They have no documents yet.
func (n testNode) makeReaders(view View, count int) []services.UserID {
	n.TB.Helper()
	users := n.MakeNeverSeenUsers(count)
	commands := make([]*jobs.Command, count)
	for i, user := range users {
		command, err := n.service.Touch(user, view, nil)
		n.Must(err)
		commands[i] = command
	}
	for _, err := range n.Fanout.Commit(n.TB.Context(), commands...) {
		n.Must(err)
	}
	return users
}

// All readers of a view get its items, however many readers there are. More than a page of readers get them by a job for each
// page, also if readers come after the pages were made.
func TestEveryReaderOfAViewIsCounted(t *testing.T) {
	n := newNode(fanouttest.New(t, fanouttest.Options{}))
	users := n.makeReaders(newsView, 2*readersPerPage+10)
	watched := []services.UserID{users[0], users[readersPerPage-1], users[readersPerPage], users[len(users)-1]}
	for _, user := range users {
		if user == watched[0] || user == watched[1] || user == watched[2] || user == watched[3] {
			n.Must(n.Projector.Rebuild(t.Context(), user))
		}
	}
	n.Write(func(ctx context.Context, tx *sql.Tx) error { return people.MarkActive(ctx, tx, users) })
	n.RunAllJobs(n.Fanout)
	n.mustCommit(n.service.Add(newsView, "a", n.Clock.Now()))
	n.RunAllJobs(n.Fanout)
	for _, user := range watched {
		if got := n.Document(user).Views; got.Unread != 1 {
			t.Errorf("user %d has %+v", user, got)
		}
	}
	// A chunk may hold more readers than a page by the time it runs.
	payload, err := json.Marshal(readersChunk{Code: newsView.Code, ID: newsView.ID, To: ^services.UserID(0)})
	n.Must(err)
	found, everyone, err := n.service.usersOfChunk(t.Context(), jobs.Job{Payload: payload})
	if err != nil || everyone || len(found) != len(users) {
		t.Errorf("the chunk of all has %d readers of %d, %v, %v", len(found), len(users), everyone, err)
	}
	if found, everyone, err := n.service.usersOfReadersJob(t.Context(), jobs.Job{Key: newReadersJob(newsView).Key}); err != nil || !everyone || len(found) != readersPerPage+1 {
		t.Errorf("a dead node's job concerns %d, everyone %v, %v", len(found), everyone, err)
	}
}

// Items that come one after the other share passes over the readers: the next pass waits, also on a node that did not take the items.
func TestPassesOverReadersAreThrottled(t *testing.T) {
	n := newNode(fanouttest.New(t, fanouttest.Options{}))
	user := n.makeReaders(newsView, 1)[0]
	n.Must(n.Projector.Rebuild(t.Context(), user))
	n.RunAllJobs(n.Fanout)
	add := func(item string) {
		t.Helper()
		command, err := n.service.Add(newsView, item, n.Clock.Now())
		n.Must(err)
		n.Must(n.Fanout.Commit(t.Context(), command)[0])
	}
	expect := func(when string, want int) {
		t.Helper()
		n.RunDueJobs(n.Fanout)
		if got := n.Document(user).Views.Unread; got != want {
			t.Errorf("%s: %d, want %d", when, got, want)
		}
	}
	n.Clock.Advance(time.Second)
	add("a")
	expect("the first item", 1)
	add("b")
	n.Write(func(ctx context.Context, tx *sql.Tx) error { return jobs.Enqueue(ctx, tx, newReadersJob(newsView)) }) // as another node does
	expect("within the gap", 1)
	n.Clock.Advance(minReadersPassGap)
	expect("after the gap", 2)
	if waiting, dead := n.CountJobs(); waiting+dead > 0 {
		t.Errorf("%d jobs wait, %d are dead", waiting, dead)
	}
}
