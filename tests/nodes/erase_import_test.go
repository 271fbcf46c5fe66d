package nodes

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/importer"
	"tidings/services/redis/redistest"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// hookedDB is a database in which something happens before its third write.
type hookedDB struct {
	*sql.DB
	writes  int
	happens func()
}

func (b *hookedDB) Write(ctx context.Context, fn func(tx *sql.Tx) error) error {
	if b.writes++; b.writes == 3 {
		b.happens()
	}
	return b.DB.Write(ctx, fn)
}

// importedLines are four lines for each import, which name the leaver.
var importedLines = map[string]string{
	"follows": fmt.Sprintf("ann,%[1]s\n%[1]s,ann\nbob,%[1]s\n%[1]s,bob\n", leaver),
	"posts":   fourLines(`{"key":"p%d","author":"` + leaver + `","at":"2026-01-30T09:30:00Z","body":"` + secret + `"}`),
	"shows":   fourLines(`{"key":"s%d","host":"` + leaver + `","title":"` + secret + `","plannedAt":"2026-01-30T09:30:00Z","startedAt":"2026-01-30T09:30:00Z","endedAt":"2026-01-30T10:30:00Z"}`),
}

// fourLines makes four lines by a format, numbered from 0.
func fourLines(format string) (lines string) {
	for i := range 4 {
		lines += fmt.Sprintf(format, i) + "\n"
	}
	return lines
}

// importBeside imports lines beside the node, one in a batch.
func importBeside(n *world.Node, what string, happens func()) error {
	db, ids := &hookedDB{DB: n.Store, happens: happens}, services.NewIDClock(n.Clock, 77)
	opts := importer.Options{File: "-", Input: strings.NewReader(importedLines[what]), Batch: 1, Quiet: true, Clock: n.Clock}
	var err error
	switch what {
	case "follows":
		_, err = importer.Follows(n.TB.Context(), db, ids, opts)
	case "posts":
		_, err = importer.Posts(n.TB.Context(), db, ids, []services.PostKind{services.PostKindPost}, opts)
	case "shows":
		_, err = importer.Shows(n.TB.Context(), db, ids, opts)
	}
	return err
}

// An erasure leaves nothing of the leaver, even if the leaver's data is imported at the same time. Until the erasure is done, an import
// stops at a line of the leaver. Lines that are imported later belong to a new user, whom another erasure removes.
func TestErasureBesideAnImportLeavesNothing(t *testing.T) {
	for engine, url := range map[string]func(*testing.T) string{
		"sqlite": func(t *testing.T) string { return sqltest.SQLite(t) }, "postgres": func(t *testing.T) string { return sqltest.Postgres(t) },
	} {
		for what := range importedLines {
			t.Run(engine+"/"+what, func(t *testing.T) {
				server := redistest.NewServer(t)
				n := world.StartNode(t, world.NodeOptions{Database: url(t), Redis: server.URL(), Manual: true, Change: withStream(24 * time.Hour)})
				newActingPeople(n, 1, 2)
				if err := importBeside(n, what, func() { eraseLeaver(n) }); services.CodeOf(err) != services.Conflict {
					t.Errorf("during the erasure: %v", err)
				}
				n.Settle()
				for _, found := range findRemains(n, server) {
					t.Errorf("left: %s", found)
				}
				var former services.UserID
				err := importBeside(n, what, func() {
					former = n.IDsOf(leaver)[0]
					eraseLeaver(n)
					n.Settle()
				})
				if err != nil {
					t.Errorf("after the erasure: %v", err)
				}
				n.Settle()
				if again := n.IDsOf(leaver)[0]; again <= former {
					t.Errorf("the new user is %d, the former one was %d", again, former)
				}
				eraseLeaver(n)
				n.Settle()
				found := findRemains(n, server)
				// remains looks for the ID of the first user alone, so the tables have to be empty. A deleted post keeps its row, without an author.
				for _, table := range []string{"follows", "posts WHERE author > 0", "shows", "hosts", "refs"} {
					rows, err := n.Store.Lines(t.Context(), "SELECT * FROM "+table)
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
