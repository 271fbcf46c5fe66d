package nodecache_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tidings/services/changelog"
	"tidings/services/nodecache"
	"tidings/services/posts"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// Every node reads from the log the changes that were written.
func TestChangesOfPulledPostsAndFanoutsAreReadAsTheyWereWritten(t *testing.T) {
	sqltest.EachURL(t, func(t *testing.T, url string) {
		ctx := t.Context()
		s := sqltest.Open(t, sql.Config{URL: url})
		pulls := []nodecache.PullChange{{Author: 7}, {Author: 7, Post: 1 << 62}, {Author: 1<<32 - 1, Post: 1<<63 - 1, Deleted: true}}
		fanouts := []nodecache.FanoutChange{
			{InFlightFanout: posts.InFlightFanout{Post: 1 << 62, Author: 7}},
			{InFlightFanout: posts.InFlightFanout{Post: 1 << 62, Author: 7}, Ended: true},
		}
		if err := s.Write(ctx, func(tx *sql.Tx) error { return appendChanges(ctx, tx, pulls, fanouts) }); err != nil {
			t.Fatal(err)
		}
		var readPulls []nodecache.PullChange
		for _, entry := range readLog(t, s, nodecache.PullChangelogKind) {
			change, err := nodecache.ParsePullChange(entry)
			if err != nil {
				t.Fatal(err)
			}
			readPulls = append(readPulls, change)
		}
		var readFanouts []nodecache.FanoutChange
		for _, entry := range readLog(t, s, nodecache.FanoutChangelogKind) {
			change, err := nodecache.ParseFanoutChange(entry)
			if err != nil {
				t.Fatal(err)
			}
			readFanouts = append(readFanouts, change)
		}
		if diff := cmp.Diff(pulls, readPulls) + cmp.Diff(fanouts, readFanouts); diff != "" {
			t.Errorf("(-written +read):\n%s", diff)
		}
	})
}

// appendChanges appends the changes to the log, in their order.
func appendChanges(ctx context.Context, tx *sql.Tx, pulls []nodecache.PullChange, fanouts []nodecache.FanoutChange) error {
	for _, change := range pulls {
		if _, err := change.Append(ctx, tx); err != nil {
			return err
		}
	}
	for _, change := range fanouts {
		if err := change.Append(ctx, tx); err != nil {
			return err
		}
	}
	return nil
}

// readLog reads all entries of a kind from the log.
func readLog(t *testing.T, db *sql.DB, kind string) []changelog.Entry {
	t.Helper()
	entries, err := changelog.LogAfter(t.Context(), db, kind, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

// An entry whose payload cannot be parsed is an error.
func TestABrokenEntryIsAnError(t *testing.T) {
	broken := changelog.Entry{Kind: nodecache.PullChangelogKind, Version: 3, Payload: []byte("{")}
	if _, err := nodecache.ParsePullChange(broken); err == nil {
		t.Error("a broken change of pulled posts was read")
	}
	if _, err := nodecache.ParseFanoutChange(broken); err == nil {
		t.Error("a broken change of fan-outs was read")
	}
}
