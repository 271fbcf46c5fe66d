package dataloader

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"tidings/services"
	"tidings/services/live"
)

func TestShowsAreReadOnce(t *testing.T) {
	s := newCountingReader()
	l := New(s.readers())
	shows, err := l.Shows(t.Context(), []services.ShowID{1, 2, 500})
	if err != nil || len(shows) != 2 || shows[2].Host != 3 {
		t.Fatalf("got %v, %v", shows, err)
	}
	l.KeepShows([]live.Show{{ID: 3, Host: 2}})
	if _, err := l.Shows(t.Context(), []services.ShowID{1, 2, 3, 500}); err != nil || s.readCalls != 1 {
		t.Errorf("what is known is read again: %d reads, %v", s.readCalls, err)
	}
	s.err = errors.New("the engine is away")
	if _, err := l.Shows(t.Context(), []services.ShowID{4}); err != s.err {
		t.Errorf("got %v", err)
	}
}

// Many fields of one page call HasReminder at once, and one read answers all of them.
func TestRemindersOfAPageAreReadOnce(t *testing.T) {
	l := New(newCountingReader().readers())
	ids := []services.ShowID{1, 2, 3, 4, 5}
	if _, err := l.Shows(t.Context(), ids); err != nil {
		t.Fatal(err)
	}
	var asked [][]services.ShowID
	fails := errors.New("the engine is away")
	read := func(_ context.Context, shows []services.ShowID) (map[services.ShowID]bool, error) {
		asked = append(asked, slices.Sorted(slices.Values(shows)))
		if len(asked) == 1 {
			return nil, fails
		}
		return map[services.ShowID]bool{2: true, 9: true}, nil
	}
	if _, err := l.HasReminder(t.Context(), 1, nil, read); err != fails {
		t.Errorf("got %v", err)
	}
	var group sync.WaitGroup
	for _, id := range ids {
		group.Go(func() {
			reminds, err := l.HasReminder(t.Context(), id, nil, read)
			if err != nil || reminds != (id == 2) {
				t.Errorf("show %d reminds: %v, %v", id, reminds, err)
			}
		})
	}
	group.Wait()
	if len(asked) != 2 || !slices.Equal(asked[1], ids) {
		t.Errorf("it was asked for %v", asked)
	}
	if reminds, err := l.HasReminder(t.Context(), 9, nil, read); !reminds || err != nil || len(asked) != 3 || !slices.Equal(asked[2], []services.ShowID{9}) {
		t.Errorf("one more: %v, %v, %v", reminds, err, asked)
	}
	// The shows that the caller names as shown together are read together, even if the response has not read them.
	if reminds, err := l.HasReminder(t.Context(), 20, []services.ShowID{22, 1, 20, 21}, read); reminds || err != nil || !slices.Equal(asked[3], []services.ShowID{20, 21, 22}) {
		t.Errorf("of a list: %v, %v, %v", reminds, err, asked)
	}
	if _, err := l.HasReminder(t.Context(), 22, []services.ShowID{22, 1, 20, 21}, read); err != nil || len(asked) != 4 {
		t.Errorf("of a list again: %v, %v", err, asked)
	}
}
