package live

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/jobs"
	"tidings/services/sql"
)

// A command that is repeated under its idempotency key has one effect and one answer. Another input under the key is refused.
func TestIdempotencyOfShows(t *testing.T) {
	w := fanouttest.New(t, fanouttest.Options{})
	s := newShowNode(w)
	host := w.MakeUsers(1)[0]
	draft := ShowDraft{Title: "Evening", PlannedAt: w.Clock.Now().Add(time.Hour)}
	schedule := func(draft ShowDraft) (*jobs.Command, error) {
		cmd := s.Service.Schedule(host, draft)
		cmd.IdempotencyKey, cmd.Input = "k", draft
		return cmd, s.commit(cmd)
	}
	first, err := schedule(draft)
	w.Must(err)
	again, err := schedule(draft)
	if err != nil || !slices.Equal(first.IDs(), again.IDs()) {
		t.Errorf("%v then %v, %v", first.IDs(), again.IDs(), err)
	}
	draft.Title = "Another"
	if _, err := schedule(draft); services.CodeOf(err) != services.Conflict {
		t.Errorf("another show under the key: %v", err)
	}
}

// A host can have at most maxUpcomingShows upcoming shows; a show that is over makes room.
func TestTooManyUpcomingShows(t *testing.T) {
	w := fanouttest.New(t, fanouttest.Options{})
	s := newShowNode(w)
	host := w.MakeUsers(1)[0]
	id := s.schedule(host)
	w.Write(func(ctx context.Context, tx *sql.Tx) error {
		for range maxUpcomingShows - 1 {
			show := Show{ID: services.ShowID(w.IDs.Next()), Host: host, Title: "a", Status: ShowUpcoming, PlannedAt: w.Clock.Now().Add(time.Hour), UpdatedAt: tx.Now}
			if err := putShow(ctx, tx, show); err != nil {
				return err
			}
		}
		return nil
	})
	draft := ShowDraft{Title: "Evening", PlannedAt: w.Clock.Now().Add(time.Hour)}
	if err := s.commit(s.Service.Schedule(host, draft)); services.CodeOf(err) != services.Conflict || !strings.Contains(err.Error(), "1000") {
		t.Errorf("one more: %v", err)
	}
	w.Must(s.commit(s.Service.Start(host, id, time.Time{})))
	w.Must(s.commit(s.Service.Schedule(host, draft)))
}

// The replay of a huge author's show is in no list.
func TestReplaysOfHugeAuthorsArePulled(t *testing.T) {
	w := fanouttest.New(t, fanouttest.Options{})
	s := newShowNode(w)
	host := w.MakeUsers(1)[0]
	small := s.schedule(host)
	w.Must(s.commit(s.Service.Start(host, small, time.Time{})))
	w.Must(s.commit(s.Service.End(host, small, time.Time{}, "")))
	w.SetMode(host, services.AuthorHuge)
	huge := s.schedule(host)
	w.Must(s.commit(s.Service.Start(host, huge, time.Time{})))
	if s.readShow(huge).Pull {
		t.Error("it is pulled while it runs")
	}
	w.Must(s.commit(s.Service.End(host, huge, time.Time{}, "")))
	if s.readShow(small).Pull || !s.readShow(huge).Pull {
		t.Errorf("pulled: %v, %v", s.readShow(small).Pull, s.readShow(huge).Pull)
	}
}
