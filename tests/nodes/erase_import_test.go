package nodes

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/feed"
	"tidings/services/importer"
	"tidings/services/live"
	"tidings/services/redis/redistest"
	"tidings/services/social"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// hookedDB is a database that calls beforeThirdWrite just before its third write.
type hookedDB struct {
	*sql.DB
	writeCount       int // writes so far
	beforeThirdWrite func()
}

// Write runs fn in a transaction of the database. Before the third write it calls beforeThirdWrite.
func (b *hookedDB) Write(ctx context.Context, fn func(tx *sql.Tx) error) error {
	if b.writeCount++; b.writeCount == 3 {
		b.beforeThirdWrite()
	}
	return b.DB.Write(ctx, fn)
}

// leaverLinesByImport has four lines for each kind of import. Each line names the leaver, the user who is erased.
var leaverLinesByImport = map[string]string{
	"follows": fmt.Sprintf("ann,%[1]s\n%[1]s,ann\nbob,%[1]s\n%[1]s,bob\n", leaverKey),
	"posts":   formatFourLines(`{"key":"p%d","author":"` + leaverKey + `","at":"2026-01-30T09:30:00Z","body":"` + leaverTextMarker + `"}`),
	"shows":   formatFourLines(`{"key":"s%d","host":"` + leaverKey + `","title":"` + leaverTextMarker + `","plannedAt":"2026-01-30T09:30:00Z","startedAt":"2026-01-30T09:30:00Z","endedAt":"2026-01-30T10:30:00Z"}`),
}

// formatFourLines makes four lines by a format, numbered from 0.
func formatFourLines(format string) (lines string) {
	for i := range 4 {
		lines += fmt.Sprintf(format, i) + "\n"
	}
	return lines
}

// importWithWriteHook imports the lines of leaverLinesByImport for one kind of import, a line in each batch, into the database of a
// running node. Before the third write it calls happens.
func importWithWriteHook(n *world.Node, what string, happens func()) error {
	db, ids := &hookedDB{DB: n.DB, beforeThirdWrite: happens}, services.NewIDClock(n.Clock, 77)
	opts := importer.Options{File: "-", Input: strings.NewReader(leaverLinesByImport[what]), BatchSize: 1, Quiet: true, Clock: n.Clock}
	var err error
	switch what {
	case "follows":
		_, err = social.ImportFile(n.TB.Context(), db, ids, opts)
	case "posts":
		_, err = feed.ImportFile(n.TB.Context(), db, ids, []services.PostKind{services.PostKindPost}, opts)
	case "shows":
		_, err = live.ImportFile(n.TB.Context(), db, ids, opts)
	}
	return err
}

// An erasure leaves nothing of the leaver, even if the leaver's data is imported at the same time. Until the erasure is done, an
// import stops at a line that names the leaver. Lines that are imported later belong to a new user, which another erasure removes.
func TestErasureBesideAnImportLeavesNothing(t *testing.T) {
	for engine, url := range map[string]func(*testing.T) string{
		"sqlite": func(t *testing.T) string { return sqltest.SQLite(t) }, "postgres": func(t *testing.T) string { return sqltest.Postgres(t) },
	} {
		for what := range leaverLinesByImport {
			t.Run(engine+"/"+what, func(t *testing.T) {
				server := redistest.NewServer(t)
				n := world.StartNode(t, world.NodeOptions{Database: url(t), Redis: server.URL(), ManualStepping: true, ChangeConfig: withChangeStream(24 * time.Hour)})
				newRandomActors(n, 1, 2)
				if err := importWithWriteHook(n, what, func() { eraseLeaver(n) }); services.CodeOf(err) != services.Conflict {
					t.Errorf("during the erasure: %v", err)
				}
				n.SettleJobsAndCaches()
				for _, found := range findLeaverData(n, server) {
					t.Errorf("left: %s", found)
				}
				var former services.UserID
				err := importWithWriteHook(n, what, func() {
					former = n.EnsureUserIDs(leaverKey)[0]
					eraseLeaver(n)
					n.SettleJobsAndCaches()
				})
				if err != nil {
					t.Errorf("after the erasure: %v", err)
				}
				n.SettleJobsAndCaches()
				if again := n.EnsureUserIDs(leaverKey)[0]; again <= former {
					t.Errorf("the new user is %d, the former one was %d", again, former)
				}
				eraseLeaver(n)
				n.SettleJobsAndCaches()
				found := findLeaverData(n, server)
				// findLeaverData looks only for the ID of the first user, so these tables have to be empty. A deleted post keeps its row,
				// without an author.
				for _, table := range []string{"follows", "posts WHERE author > 0", "shows", "hosts", "refs"} {
					rows, err := sqltest.QueryLines(t.Context(), n.DB, "SELECT * FROM "+table)
					if err != nil || len(rows) > 0 {
						found = append(found, fmt.Sprintf("%s: %q, %v", table, rows, err))
					}
				}
				for _, found := range found {
					t.Errorf("left: %s", found)
				}
			})
		}
	}
}
