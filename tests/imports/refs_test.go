package imports

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/importer"
	"tidings/services/jobs"
	"tidings/services/live"
	"tidings/services/posts"
	"tidings/services/refs"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// readPosts reads posts by their keys.
func (im *testImporter) readPosts(keys ...string) map[string]services.Post {
	im.t.Helper()
	holders, err := refs.FindKeys(im.t.Context(), im.db, services.PostType, keys)
	if err != nil {
		im.t.Fatal(err)
	}
	found := map[string]services.Post{}
	for ref, holder := range holders {
		id := services.PostID(holder.Object.Number)
		list, err := posts.ByID(im.t.Context(), im.db, []services.PostID{id})
		if err != nil || list[id].Author != holder.Owner {
			im.t.Fatalf("%s is %+v of %+v: %v", ref.Text, holder, list, err)
		}
		found[ref.Text] = list[id]
	}
	return found
}

// readShows reads shows by their keys. It returns them by key, and sorted as lines of showLine.
func (im *testImporter) readShows(keys ...string) (lines []string, shows map[string]live.Show) {
	im.t.Helper()
	holders, err := refs.FindKeys(im.t.Context(), im.db, services.ShowType, keys)
	if err != nil {
		im.t.Fatal(err)
	}
	shows = map[string]live.Show{}
	for ref, holder := range holders {
		if shows[ref.Text] = im.readShow(services.ShowID(holder.Object.Number)); shows[ref.Text].Host != holder.Owner {
			im.t.Errorf("%s of %d is %+v", ref.Text, holder.Owner, shows[ref.Text])
		}
	}
	for key, show := range shows {
		lines = append(lines, showLine(key, show))
	}
	slices.Sort(lines)
	return lines, shows
}

// selectShow reads one show, for readShow.
var selectShow = sql.AdHoc("a show of the test", `SELECT host, title, cover_url, replay_url, status, planned_at, started_at, ended_at, cancelled_at, ver, live_ver, live_stamp FROM shows WHERE id = $1`)

// readShow reads a show from SQL.
func (im *testImporter) readShow(id services.ShowID) live.Show {
	im.t.Helper()
	show := live.Show{ID: id}
	var status int
	var planned int64
	var started, ended, cancelled sql.NullInt64
	found, err := im.db.One(im.t.Context(), selectShow, []any{id}, &show.Host, &show.Title, &show.CoverURL, &show.ReplayURL, &status, &planned, &started, &ended, &cancelled, &show.Version, &show.LiveVersion, &show.LiveStamp)
	if err != nil || !found {
		im.t.Fatalf("the show %s: %v, %v", id, found, err)
	}
	show.Status, show.PlannedAt = live.ShowStatuses[status], sql.FromMicros(planned)
	for at, micros := range map[*time.Time]sql.NullInt64{&show.StartedAt: started, &show.EndedAt: ended, &show.CancelledAt: cancelled} {
		if micros.Valid {
			*at = sql.FromMicros(micros.Int64)
		}
	}
	return show
}

// claimingStore gives refs to other objects after an import has found that they are free.
type claimingStore struct {
	*sql.DB
	t           *testing.T
	refsToClaim []services.Ref  // the refs that Each gives to other objects
	refOwner    services.UserID // the owner of the objects that get the refs
}

// Each runs the statement. If the statement has looked up refs for the import, Each then gives refsToClaim to other objects, once.
func (c *claimingStore) Each(ctx context.Context, st sql.Statement, args []any, scan func(into func(...any) error) error) error {
	err := c.DB.Each(ctx, st, args, scan)
	if st.Text(sql.SQLite) != sql.Statements()["the objects of refs"].Text(sql.SQLite) {
		return err
	}
	for i, ref := range c.refsToClaim {
		cmd := &jobs.Command{Actor: c.refOwner, Apply: func(context.Context, *sql.Tx) ([]string, error) {
			return []string{services.Object{Type: ref.Type, Number: uint64(1000 + i)}.GlobalID()}, nil
		}}
		refs.LabelOnCreate(cmd, ref.Type, services.Label{Ref: ref.Text})
		if err := c.Write(ctx, func(tx *sql.Tx) error { _, err := cmd.Apply(ctx, tx); return err }); err != nil {
			c.t.Error(err)
		}
	}
	c.refsToClaim = nil
	return err
}

// If ingest gives a ref to an object while an import has the ref's line in its batch, the ref belongs to that object, and the line
// is a duplicate.
func TestARefTakenDuringAnImportMakesADuplicate(t *testing.T) {
	sqltest.EachURL(t, func(t *testing.T, url string) {
		im := newImporter(t, sqltest.Open(t, sql.Config{URL: url}))
		var text strings.Builder
		for i := range 20 {
			fmt.Fprintf(&text, `{"key":"k%d","author":"ann","at":"2026-01-30T09:30:00Z","body":"%d"}`+"\n", i, i)
		}
		claim := []services.Ref{services.Ref{Type: services.PostType, Text: "k3"}, services.Ref{Type: services.ShowType, Text: "k5"}, services.Ref{Type: services.PostType, Text: "k17"}}
		got, err := im.importPosts(&claimingStore{im.db, t, claim, 1}, importer.Options{File: "-", Input: strings.NewReader(text.String())})
		if err != nil || got.NewItems != 18 || got.SkippedRows != 2 || len(im.postLinesOf("ann")) != 18 {
			t.Errorf("%+v, %v: %v", got, err, im.postLinesOf("ann"))
		}
		holders, err := refs.FindKeys(t.Context(), im.db, services.PostType, []string{"k3", "k5", "k17"})
		if err != nil || holders[services.Ref{Type: services.PostType, Text: "k3"}].Object.Number != 1000 || holders[services.Ref{Type: services.PostType, Text: "k17"}].Object.Number != 1002 || holders[services.Ref{Type: services.PostType, Text: "k5"}].Object.Number < 1000_000 {
			t.Errorf("%+v, %v", holders, err)
		}
	})
}
