package live

import (
	"context"
	"time"

	"tidings/services"
	"tidings/services/sql"
)

// importedColumns are the columns that every imported show has. The rest are times, which depend on its status.
const importedColumns = `id BIGINT, host BIGINT, title TEXT, cover_url TEXT, replay_url TEXT, status BIGINT, planned_at BIGINT,
	ver BIGINT, live_ver BIGINT, live_stamp BIGINT, pull BOOLEAN, updated_at BIGINT`

// There is one statement for each status, because a list of times cannot hold null.
var (
	importShows = map[ShowStatus]sql.Insertion{
		ShowUpcoming:  sql.NewInsertion("import upcoming shows", "shows", importedColumns, "ON CONFLICT DO NOTHING"),
		ShowLive:      sql.NewInsertion("import live shows", "shows", importedColumns+", started_at BIGINT", "ON CONFLICT DO NOTHING"),
		ShowReplay:    sql.NewInsertion("import replays", "shows", importedColumns+", started_at BIGINT, ended_at BIGINT", "ON CONFLICT DO NOTHING"),
		ShowCancelled: sql.NewInsertion("import cancelled shows", "shows", importedColumns+", cancelled_at BIGINT", "ON CONFLICT DO NOTHING"),
	}

	// importFormerPositions inserts rows of noFormerPositionRow.
	importFormerPositions = sql.NewInsertion("note that imported shows stood nowhere", "show_history",
		"show BIGINT, ver BIGINT, until_ver BIGINT, until_at BIGINT, host BIGINT, status BIGINT, score BIGINT", "ON CONFLICT DO NOTHING")

	importHosts = sql.NewInsertion("import hosts", "hosts", "host BIGINT, named BOOLEAN, unnamed BIGINT, live_ver BIGINT", "ON CONFLICT (host) DO NOTHING")

	hostsNotInDocuments = sql.NewStatement("hosts that not all documents name", `SELECT host FROM hosts WHERE {in host $1 BIGINT} AND NOT named`)
)

// insertImportedHosts records that these users have shows, and returns the hosts that are not yet listed in all of their followers'
// documents: new hosts, and hosts whose jobs have not finished.
func insertImportedHosts(ctx context.Context, tx *sql.Tx, hosts []services.UserID) (unnamed map[services.UserID]bool, err error) {
	if _, err := tx.Insert(ctx, importHosts, services.Map(hosts, func(host services.UserID) []any { return []any{host, false, int64(0), int64(0)} })); err != nil {
		return nil, err
	}
	return sql.ReadSet[services.UserID](ctx, tx, hostsNotInDocuments, hosts)
}

// insertImportedShows inserts shows and returns how many. A show whose ID is taken is omitted: then the caller rolls the others
// back. A show with a version was on no board before that version.
func insertImportedShows(ctx context.Context, tx *sql.Tx, shows []Show) (inserted int, err error) {
	byStatus := map[ShowStatus][][]any{}
	var formers [][]any
	for _, show := range shows {
		row := []any{
			show.ID, show.Host, show.Title, show.CoverURL, show.ReplayURL, statusCode(show.Status), show.PlannedAt,
			int64(show.Version), int64(show.LiveVersion), show.LiveStamp, show.Pull, show.UpdatedAt,
		}
		switch show.Status {
		case ShowLive:
			row = append(row, show.StartedAt)
		case ShowReplay:
			row = append(row, show.StartedAt, show.EndedAt)
		case ShowCancelled:
			row = append(row, show.CancelledAt)
		}
		byStatus[show.Status] = append(byStatus[show.Status], row)
		if show.Status == ShowReplay && show.Version > 0 {
			formers = append(formers, noFormerPositionRow(show.ID, show.Host, show.Version, tx.Now))
		}
	}
	for _, status := range ShowStatuses {
		more, err := tx.Insert(ctx, importShows[status], byStatus[status])
		if inserted += more; err != nil {
			return inserted, err
		}
	}
	_, err = tx.Insert(ctx, importFormerPositions, formers)
	return inserted, err
}

// noFormerPositionRow returns a row of the history for a show that no board had before a version. The row has the status of a
// cancelled show, which has no position.
func noFormerPositionRow(show services.ShowID, host services.UserID, until uint64, at time.Time) []any {
	return []any{show, int64(0), int64(until), at, host, statusCode(ShowCancelled), int64(0)}
}
