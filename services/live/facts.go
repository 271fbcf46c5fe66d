package live

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"tidings/services"
	"tidings/services/people"
	"tidings/services/sql"
)

const (
	// showColumnList are the columns that scanShow reads, in its order, with FROM, for statements that have other columns before them.
	// selectShow has SELECT before them, for the other statements.
	showColumnList = `s.id, s.host, s.title, s.cover_url, s.replay_url, s.status, s.planned_at, s.started_at, s.ended_at, s.cancelled_at,
	s.ver, s.live_ver, s.live_stamp, s.pull, s.updated_at FROM `
	selectShow = `SELECT ` + showColumnList

	// everOnBoards selects shows that are or were on boards. A show gets a version only when all followers' documents list its host.
	everOnBoards = `s.ver > 0`
)

var (
	// ON CONFLICT: if no row is inserted, putShow returns CONFLICT. An error of the statement would end the transaction on
	// PostgreSQL, with all commands that share it.
	insertShow = sql.NewStatement("insert a show", `INSERT INTO shows (id, host, title, cover_url, replay_url, status,
		planned_at, started_at, ended_at, cancelled_at, ver, live_ver, live_stamp, pull, updated_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15) ON CONFLICT DO NOTHING`)

	// newestOfMillisecond finds the newest show ID of a millisecond, so that the ID of a dated show can come after it.
	newestOfMillisecond = sql.NewestIDOfMillisecond("shows")

	updateShow = sql.NewStatement("update a show", `UPDATE shows SET title = $2, cover_url = $3, replay_url = $4, status = $5,
		planned_at = $6, started_at = $7, ended_at = $8, cancelled_at = $9, ver = $10, live_ver = $11, live_stamp = $12, pull = $13, updated_at = $14
		WHERE id = $1`)

	// An existing row is not an error of the statement: on PostgreSQL an error would end the transaction, with all commands that share it.
	insertFormerPosition = sql.NewStatement("note where a show stood", `INSERT INTO show_history (show, ver, until_ver, until_at, host, status, score)
		VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (show, ver) DO NOTHING`)

	// Callers lock the log of shows first. So this lock waits only for commands on reminders, which lock only the row
	// (showForShare).
	showForUpdate = sql.NewStatement("lock a show to change it", selectShow+`shows s WHERE s.id = $1 {for update}`)

	// showForShare keeps a show from changing, for commands on reminders.
	showForShare = sql.NewStatement("lock a show", selectShow+`shows s WHERE s.id = $1 {for share}`)

	showsByID = sql.NewStatement("shows by id", selectShow+`shows s WHERE {in s.id $1 BIGINT}`)

	// status < 2 is the condition of the index shows_active; status = 0 selects the upcoming shows. The limit bounds the count
	// for a host with many.
	upcomingCounted = sql.NewStatement("count upcoming shows",
		`SELECT count(*) FROM (SELECT 1 FROM shows WHERE host = $1 AND status < 2 AND status = 0 LIMIT $2) AS counted`)

	// This reads the next hosts with an active show, and then all of their active shows: a page never ends within a host.
	activeShows = sql.NewStatement("active shows", `
WITH next AS MATERIALIZED (
	SELECT s.host FROM shows s WHERE s.host > $1 AND s.status < 2 AND `+everOnBoards+` GROUP BY s.host ORDER BY s.host LIMIT $2
)
`+selectShow+`shows s WHERE s.host > $1 AND s.host <= (SELECT max(host) FROM next) AND s.status < 2 AND `+everOnBoards+` ORDER BY s.host, s.id`)

	// Ordered by until_at, the rows are a range of the index show_history_by_age; showHistory sorts them by show.
	showHistory = sql.NewStatement("where shows stood", `SELECT show, host, ver, until_ver, until_at, status, score FROM show_history
		WHERE until_at >= $1 ORDER BY until_at`)

	// Shows are found by their history and then by key, because no index orders the shows of all hosts by their ends. DISTINCT
	// lists each show once.
	endedShows = sql.NewStatement("shows that ended lately", `
WITH moved AS MATERIALIZED (SELECT show FROM show_history WHERE until_at >= $1 ORDER BY until_at), once AS MATERIALIZED (SELECT DISTINCT show FROM moved)
`+selectShow+`once CROSS JOIN shows s WHERE s.id = once.show AND s.status >= 2 AND `+everOnBoards+` ORDER BY s.id`)

	forgetFormerPosition = sql.NewStatement("forget where shows stood", `DELETE FROM show_history WHERE until_at < $1`)
)

// formerPosition is a show's position on boards between two versions of the log.
type formerPosition struct {
	Show         services.ShowID
	Host         services.UserID
	FromVersion  uint64     // from this version on
	UntilVersion uint64     // before this one
	UntilAt      time.Time  // the time of UntilVersion
	Status       ShowStatus // the show's status in that position
	Score        int64      // the sort key of that position: see ShowPosition
}

// hostLiveVersion is when the set of a host's live shows last changed.
type hostLiveVersion struct {
	Host             services.UserID
	LiveVersion      uint64 // the version of the log of that change; 0: it never changed
	HasPulledReplays bool   // some of the host's replays are in no list
}

// statusCode is the code of a status in SQL.
func statusCode(status ShowStatus) int64 {
	return int64(slices.Index(ShowStatuses, status))
}

// putShow inserts a show. CONFLICT if its ID is taken. Status and times are written unchecked: the caller took them from scheduleShow or
// from a transition, such as Show.start, which checks them.
func putShow(ctx context.Context, tx *sql.Tx, show Show) error {
	inserted, err := tx.Run(ctx, insertShow, show.ID, show.Host, show.Title, show.CoverURL, show.ReplayURL, statusCode(show.Status),
		show.PlannedAt, nullTime(show.StartedAt), nullTime(show.EndedAt), nullTime(show.CancelledAt),
		int64(show.Version), int64(show.LiveVersion), show.LiveStamp, show.Pull, show.UpdatedAt)
	if err == nil && inserted == 0 {
		err = services.Errorf(services.Conflict, "the show id %s is taken", show.ID)
	}
	return err
}

// rewriteShow writes every field of a show but its id and its host. former is the show's position until now, which ends at the
// show's new version; nil if the show did not move on any board.
func rewriteShow(ctx context.Context, tx *sql.Tx, show Show, former *formerPosition) error {
	_, err := tx.Run(ctx, updateShow, show.ID, show.Title, show.CoverURL, show.ReplayURL, statusCode(show.Status),
		show.PlannedAt, nullTime(show.StartedAt), nullTime(show.EndedAt), nullTime(show.CancelledAt),
		int64(show.Version), int64(show.LiveVersion), show.LiveStamp, show.Pull, show.UpdatedAt)
	if err != nil || former == nil {
		return err
	}
	added, err := tx.Run(ctx, insertFormerPosition, former.Show, int64(former.FromVersion), int64(former.UntilVersion), former.UntilAt, former.Host,
		statusCode(former.Status), former.Score)
	// The history already has a position that begins at this version: the log was not locked, or the caller's former show
	// differs from the row. The transaction is rolled back.
	if err == nil && added == 0 {
		err = fmt.Errorf("note where show %s stood: version %d is noted already", former.Show, former.FromVersion)
	}
	return err
}

// nullTime is the value of a nullable time column: null for the zero time.
func nullTime(t time.Time) sql.NullInt64 {
	return sql.NullInt64{Int64: sql.Micros(t), Valid: !t.IsZero()}
}

// lockShow reads a show and locks it until this transaction ends. Lock the log of shows first (lockLog), as every transaction that
// changes a show does, so that no two of them deadlock. NOT_FOUND if the show does not exist.
func lockShow(ctx context.Context, tx *sql.Tx, id services.ShowID) (Show, error) {
	return lockedShow(ctx, tx, showForUpdate, id)
}

// lockShowShared reads a show and keeps others from changing it until this transaction ends. NOT_FOUND if it does not exist.
func lockShowShared(ctx context.Context, tx *sql.Tx, id services.ShowID) (Show, error) {
	return lockedShow(ctx, tx, showForShare, id)
}

// lockedShow reads one show by a statement that locks its row. NOT_FOUND, with a text for the client, if it does not exist.
func lockedShow(ctx context.Context, tx *sql.Tx, st sql.Statement, id services.ShowID) (Show, error) {
	found, err := selectShows(ctx, tx.Runner, st, id)
	if err == nil && len(found) == 0 {
		err = services.Errorf(services.NotFound, "there is no %s", services.GlobalID(services.ShowType, id.String()))
	}
	if err != nil {
		return Show{}, err
	}
	return found[0], nil
}

// selectShows runs a statement that selects showColumnList.
func selectShows(ctx context.Context, r sql.Runner, st sql.Statement, args ...any) ([]Show, error) {
	return sql.ReadRows(ctx, r, st, args, func(scan sql.Scan, show *Show) (err error) {
		*show, err = scanShow(scan)
		return err
	})
}

// scanShow reads a row of showColumnList, after the columns that come before them.
func scanShow(scan func(...any) error, first ...any) (show Show, err error) {
	var status, planned, updated int64
	var started, ended, cancelled sql.NullInt64
	err = scan(append(first, &show.ID, &show.Host, &show.Title, &show.CoverURL, &show.ReplayURL, &status, &planned, &started, &ended, &cancelled,
		&show.Version, &show.LiveVersion, &show.LiveStamp, &show.Pull, &updated)...)
	if err != nil {
		return show, err
	}
	show.Status, show.PlannedAt, show.UpdatedAt = ShowStatuses[status], sql.FromMicros(planned), sql.FromMicros(updated)
	show.StartedAt, show.EndedAt, show.CancelledAt = sql.FromMicrosOrZero(started.Int64), sql.FromMicrosOrZero(ended.Int64), sql.FromMicrosOrZero(cancelled.Int64)
	return show, nil
}

// readShows reads shows by ID, in any status. An unknown ID is absent.
func readShows(ctx context.Context, r sql.Runner, ids []services.ShowID) (map[services.ShowID]Show, error) {
	list, err := selectShows(ctx, r, showsByID, sql.Numbers(ids))
	return services.KeyBy(list, func(show Show) services.ShowID { return show.ID }), err
}

// countUpcoming counts the upcoming shows of a host, up to limit, which also bounds the cost.
func countUpcoming(ctx context.Context, tx *sql.Tx, host services.UserID, limit int) (count int, err error) {
	_, err = tx.One(ctx, upcomingCounted, []any{host, limit}, &count)
	return count, err
}

// activeShows lists the upcoming and live shows that are on boards, of the next hosts with IDs above after, at most limit hosts,
// in order of host. The shows of one host are together, in order of ID. An empty result means that there are no more.
func (d database) activeShows(ctx context.Context, after services.UserID, limit int) ([]Show, error) {
	return selectShows(ctx, d.Runner, activeShows, after, limit)
}

// showHistory lists the former positions of shows that have moved since a time, in order of show and version.
func (d database) showHistory(ctx context.Context, since time.Time) ([]formerPosition, error) {
	list, err := sql.ReadRows(ctx, d, showHistory, []any{since}, func(scan sql.Scan, former *formerPosition) error {
		var until, status int64
		if err := scan(&former.Show, &former.Host, &former.FromVersion, &former.UntilVersion, &until, &status, &former.Score); err != nil {
			return err
		}
		former.UntilAt, former.Status = sql.FromMicros(until), ShowStatuses[status]
		return nil
	})
	slices.SortFunc(list, func(a, b formerPosition) int {
		return cmp.Or(cmp.Compare(a.Show, b.Show), cmp.Compare(a.FromVersion, b.FromVersion))
	})
	return list, err
}

// endedShows lists the shows in showHistory that are now replays or cancelled, in order of ID.
func (d database) endedShows(ctx context.Context, since time.Time) ([]Show, error) {
	return selectShows(ctx, d.Runner, endedShows, since)
}

// forgetFormerPositions deletes positions that ended before a time, and returns the number of rows. No open session may be that old.
func forgetFormerPositions(ctx context.Context, db *sql.DB, before time.Time) (forgotten int, err error) {
	return deleteBefore(ctx, db, forgetFormerPosition, before)
}

// deleteBefore runs a statement that deletes rows from before a time. The janitor of package projector calls it at each of its
// turns, so that each run deletes few rows.
func deleteBefore(ctx context.Context, db *sql.DB, st sql.Statement, before time.Time) (forgotten int, err error) {
	err = db.Write(ctx, func(tx *sql.Tx) error {
		forgotten, err = tx.Run(ctx, st, before)
		return err
	})
	return forgotten, err
}

// visibleShow reads a show for a viewer's command, and keeps others from changing it until this transaction ends. NOT_FOUND
// if it does not exist or is hidden from the viewer.
func visibleShow(ctx context.Context, tx *sql.Tx, viewer services.UserID, argument string, id services.ShowID) (Show, error) {
	show, err := lockShowShared(ctx, tx, id)
	return show, people.CheckVisible(ctx, tx, viewer, show.Host, err, argument, services.GlobalID(services.ShowType, id.String()))
}
