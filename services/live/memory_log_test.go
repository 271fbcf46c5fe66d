package live

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tidings/services/changelog"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// Nodes read changes of shows from the log as they were written. A show that moved has the version of its entry.
func TestChangesOfShowsAreReadAsTheyWereWritten(t *testing.T) {
	at := time.Date(2026, 3, 29, 1, 59, 59, 123_000_000, time.UTC)
	planned := Show{
		ID: 1<<63 - 1, Host: 1<<32 - 1, Title: "„Jazz“ <live> & more\u2028", CoverURL: "https://example.org/c?a=1&b=2",
		Status: ShowUpcoming, PlannedAt: at, UpdatedAt: at.Add(time.Microsecond),
	}
	live, again, over := planned, planned, planned
	live.Status, live.StartedAt, live.LiveStamp, live.Version = ShowLive, at, 77, 1
	again.Title, again.Version = "another", 2
	over.Status, over.EndedAt, over.ReplayURL, over.Pull, over.Version = ShowReplay, at, "https://example.org/r", true, 2
	sqltest.EachURL(t, func(t *testing.T, url string) {
		ctx := t.Context()
		s := sqltest.Open(t, sql.Config{URL: url})
		changes := []loggedChange{{Show: planned}, {Show: live, Live: true}, {Show: again}, {Show: over, Live: true}}
		var reload uint64
		err := s.Write(ctx, func(tx *sql.Tx) (err error) {
			for i := range changes {
				if i == 2 {
					err = changes[i].appendTexts(ctx, tx)
				} else {
					_, err = changes[i].appendMove(ctx, tx)
				}
				if err != nil {
					return err
				}
			}
			reload, err = appendReload(ctx, tx)
			return err
		})
		if err != nil || reload != 5 {
			t.Fatal(reload, err)
		}
		entries, err := changelog.LogAfter(ctx, s, ChangelogKind, 0, 100)
		if err != nil {
			t.Fatal(err)
		}
		if len(entries) != 5 || entries[4].Key != "" {
			t.Fatalf("logged are %v", entries)
		}
		for i, want := range []struct{ version, liveVersion uint64 }{{1, 0}, {2, 2}, {2, 0}, {4, 0}} {
			read, err := parseLoggedChange(entries[i])
			if diff := cmp.Diff(changes[i], read); diff != "" || err != nil {
				t.Errorf("entry %d: %v (-written +read):\n%s", i, err, diff)
			}
			if read.Show.Version != want.version || read.Show.LiveVersion != want.liveVersion || entries[i].Key != read.Show.ID.String() {
				t.Errorf("entry %d has the key %s and the versions %d and %d, want %+v", i, entries[i].Key, read.Show.Version, read.Show.LiveVersion, want)
			}
		}
		if _, err := parseLoggedChange(changelog.Entry{Kind: ChangelogKind, Version: 3, Payload: []byte("{")}); err == nil {
			t.Error("a broken change of a show was read")
		}
	})
}
