package nodecache

import (
	"context"
	"testing"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/posts"
)

func (e *fakeStores) LastSequences(context.Context) (map[string]uint64, error) {
	e.lastSequencesReads.Add(1)
	sequences := map[string]uint64{}
	for _, entry := range e.logEntries {
		sequences[entry.Kind] = max(sequences[entry.Kind], entry.Version)
	}
	return sequences, e.sqlErr
}

// Tail runs after a hint that the changelog has grown. It costs one SELECT if no kind of entry has grown. Otherwise it reads only the
// kinds that have grown.
func TestTailReadsOnlyTheKindsThatHaveGrown(t *testing.T) {
	e := newFakeStores()
	e.posts[1] = postChangedAt(1, 1)
	m := newCaches(e)
	m.Changelog.Register(changelog.Kind{Name: "shared", Load: func(context.Context) error { return nil }, ConcernsAllUsers: true})
	reports := 0
	m.Changelog.OnSharedChange(func() { reports++ })
	if _, err := m.Changelog.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	readPosts(t, m, 1)
	tail := func(what string, changes int, sequences int64, logs, notified int) {
		t.Helper()
		e.lastSequencesReads.Store(0)
		e.logReads, reports = 0, 0
		got, err := m.Changelog.Tail(t.Context())
		if err != nil || got != changes || e.lastSequencesReads.Load() != sequences || e.logReads != logs || reports != notified {
			t.Errorf("%s: %d changes, %d SELECTs of last sequences and %d of logs, notified %d times, %v", what, got, e.lastSequencesReads.Load(), e.logReads, reports, err)
		}
	}
	tail("nothing new", 0, 1, 0, 0)
	e.posts[1] = postChangedAt(1, 5)
	e.logEntries = append(e.logEntries, changelog.Entry{Kind: posts.ChangelogKind, Version: 1, At: timeAtSecond(5), Key: services.PostID(1).String()})
	tail("a changed post", 1, 1, 1, 0)
	if got := readPosts(t, m, 1)[1]; !got.UpdatedAt.Equal(timeAtSecond(5)) {
		t.Errorf("the post is the one of %s", got.UpdatedAt)
	}
	e.logEntries = append(e.logEntries, changelog.Entry{Kind: "shared", Version: 1, At: timeAtSecond(6)})
	tail("a change that all users share, which is loaded", 0, 1, 2, 1)
	tail("nothing new again", 0, 1, 0, 0)
	e.sqlErr = services.Errorf(services.Unavailable, "no SQL")
	if _, err := m.Changelog.Tail(t.Context()); !services.IsUnavailable(err) {
		t.Errorf("without SQL: %v", err)
	}
}
