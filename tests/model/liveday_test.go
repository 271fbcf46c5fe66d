package model

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/importer"
	"tidings/services/jobs"
	"tidings/services/live"
	"tidings/services/live/livetest"
	"tidings/services/redis/redistest"
	"tidings/services/social"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// A day of shows, most of which begin on the hour, is imported from files in two parts. At the second part the viewers' documents have
// the hosts already. Every viewer's live board, page by page, lists the shows of the files in order, even after Redis has lost
// everything.
func TestBoardsOfAnImportedDayListItsShows(t *testing.T) {
	const shows, part = 1500, 900
	server := redistest.NewServer(t)
	database := sqltest.SQLite(t)
	d := livetest.NewShowDay(time.Now(), livetest.ShowDaySize{Shows: shows, LiveShows: 60, Hosts: 150, Viewers: 80, MaxFollowedHosts: 140}, 5)
	folder := t.TempDir()
	importing := func(name string, write func(to *bytes.Buffer) error, take func(db *sql.DB, ids *services.IDClock, opts importer.Options) (importer.Report, error)) {
		t.Helper()
		var text bytes.Buffer
		file := filepath.Join(folder, name)
		db, err := sql.Open(t.Context(), sql.Config{URL: database})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		if err := write(&text); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, text.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		report, err := take(db, services.NewIDClock(services.SystemClock{}, 1), importer.Options{File: file, BatchSize: 400})
		if err != nil || report.BadLines > 0 || report.NewItems != report.GoodRows {
			t.Fatalf("%s: %s, %v", name, report, err)
		}
	}
	showsOf := func(from, until int) {
		t.Helper()
		importing(fmt.Sprint("shows-", from), func(to *bytes.Buffer) error { return d.WriteShows(to, from, until) },
			func(db *sql.DB, ids *services.IDClock, opts importer.Options) (importer.Report, error) {
				return live.ImportFile(t.Context(), db, ids, opts)
			})
	}
	importing("follows", func(to *bytes.Buffer) error { return d.WriteFollows(to) },
		func(db *sql.DB, ids *services.IDClock, opts importer.Options) (importer.Report, error) {
			return social.ImportFile(t.Context(), db, ids, opts)
		})
	serve := func(imported int) *world.Node {
		t.Helper()
		n := world.StartNode(t, world.NodeOptions{Database: database, Redis: server.URL(), ManualStepping: true})
		n.RunJobsAndTailChangelog()
		if waiting, dead, _, err := jobs.JobCounts(t.Context(), n.DB); err != nil || dead > 0 || waiting > d.CountActiveShows(imported) {
			t.Fatalf("%d jobs wait and %d are dead, %v: want at most one for each of the %d shows that are live or to come", waiting, dead, err, d.CountActiveShows(imported))
		}
		return n
	}
	check := func(n *world.Node, when string, imported int) {
		t.Helper()
		for viewer := range d.FollowedHosts {
			want, cut := d.ExpectedBoard(viewer, imported)
			got, end := n.ReadWholeBoard(livetest.ViewerKey(viewer), []int{100, 23, 7}[viewer%3])
			if wantEnd := map[bool]string{true: "RETENTION", false: "END"}[cut]; !slices.Equal(got, want) || end != wantEnd {
				t.Fatalf("%s: viewer %d, who follows %d: %d shows to %s, want %d to %s:\n%s\n%s",
					when, viewer, len(d.FollowedHosts[viewer]), len(got), end, len(want), wantEnd, strings.Join(got, ", "), strings.Join(want, ", "))
			}
		}
	}
	showsOf(0, part)
	n := serve(part)
	check(n, "after the first part", part)
	n.Stop()
	showsOf(part, shows)
	n = serve(shows)
	check(n, "after both", shows)
	n.RunJobsAndTailChangelog()
	check(n, "with every job done", shows)
	server.Flush()
	check(n, "after FLUSHALL", shows)
}
