package views

import (
	"context"
	"time"

	"tidings/services"
	"tidings/services/positions"
	"tidings/services/projector"
	"tidings/services/sql"
)

const (
	// maxCountedViews is how many views count in the badges of a user: the ones that they touched last. It bounds the read of one
	// count: 200 ranges of at most maxCountedItems + 1 items.
	maxCountedViews = 200
	// maxCountedItems is how many new items of one view count.
	maxCountedItems = services.DisplayCap + 1
)

var (
	// Each touch takes the next ver as its number. A view's row has the number of its last touch in touched, which orders the
	// user's views. The lock of the user's row in view_readers also lets only one touch of the user run at a time.
	countTouch = sql.NewStatement("count a touch", `INSERT INTO view_readers AS r (user_number, ver) VALUES ($1, 1)
ON CONFLICT (user_number) DO UPDATE SET ver = r.ver + 1 RETURNING ver`)

	// raiseReader adds to ver, the reader's own part of the version of their count: see stopCountingOldestView.
	raiseReader = sql.NewStatement("raise a reader's version", `UPDATE view_readers SET ver = ver + $2 WHERE user_number = $1`)

	// lastTouchOfView reads the number of the last touch; 0: the view does not count any more.
	lastTouchOfView = sql.NewStatement("the last touch of a view", `
SELECT touched FROM user_access_log WHERE user_number = $1 AND view_code = $2 AND view_id = $3`)

	// putTouch records a touch. Neither the time nor the position moves backward.
	putTouch = sql.NewStatement("touch a view", `
INSERT INTO user_access_log AS l (user_number, view_code, view_id, position, last_access_at, touched) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (user_number, view_code, view_id) DO UPDATE SET touched = excluded.touched, `+positions.KeepGreater)

	// stopCountingOldest takes the view beyond the limit out of the count: the view whose last touch is the oldest.
	stopCountingOldest = sql.NewStatement("the view that no longer counts", `UPDATE user_access_log SET touched = 0
WHERE user_number = $1 AND (view_code, view_id) = (SELECT l.view_code, l.view_id FROM user_access_log l
	WHERE l.user_number = $1 AND l.touched > 0 ORDER BY l.touched DESC LIMIT 1 OFFSET $2)
RETURNING view_code, view_id`)

	// lockChanges locks by writing the row: a lock on a missing row would not hold back the first change.
	lockChanges = sql.NewStatement("lock the changes of a view", `INSERT INTO view_changes AS c (view_code, view_id, seq) VALUES ($1, $2, 0)
ON CONFLICT (view_code, view_id) DO UPDATE SET seq = c.seq RETURNING seq`)

	// countViewChange counts a change of a view's items. The counts of changes are part of the version of each reader's count.
	countViewChange = sql.NewStatement("count a change of a view", `INSERT INTO view_changes AS c (view_code, view_id, seq) VALUES ($1, $2, 1)
ON CONFLICT (view_code, view_id) DO UPDATE SET seq = c.seq + 1`)

	// The version and the count are read from one snapshot.
	countsOf = sql.NewStatement("new items in the views of users", `
WITH views AS MATERIALIZED (
	SELECT r.user_number, r.ver, COALESCE(c.seq, 0) AS seq, (SELECT count(*) FROM (SELECT 1 FROM view_items i
		WHERE i.view_code = l.view_code AND i.view_id = l.view_id AND i.standing AND i.at > l.position LIMIT $2) AS newer) AS items
	FROM view_readers r JOIN user_access_log l ON l.user_number = r.user_number AND l.touched > 0
	LEFT JOIN view_changes c ON c.view_code = l.view_code AND c.view_id = l.view_id
	WHERE {in r.user_number $1 BIGINT}
)
SELECT user_number, CAST(max(ver) + sum(seq) AS BIGINT), CAST(sum(CASE WHEN items < $2 THEN items ELSE $2 - 1 END) AS BIGINT), max(items)
FROM views GROUP BY user_number`)

	// newInViews counts the items after a time, or, if it is negative, after the user's position in each view.
	newInViews = sql.NewStatement("new items in each view of a user", `
WITH views AS MATERIALIZED (
	SELECT l.view_code, l.view_id, CASE WHEN CAST($2 AS BIGINT) < 0 THEN l.position ELSE CAST($2 AS BIGINT) END AS bound
	FROM user_access_log l WHERE l.user_number = $1 AND l.touched > 0
)
SELECT v.view_code, v.view_id, (SELECT count(*) FROM (SELECT 1 FROM view_items i
		WHERE i.view_code = v.view_code AND i.view_id = v.view_id AND i.standing AND i.at > v.bound LIMIT $3) AS newer),
	COALESCE((SELECT i.at FROM view_items i
		WHERE i.view_code = v.view_code AND i.view_id = v.view_id AND i.standing ORDER BY i.at DESC LIMIT 1), 0)
FROM views v`)

	// auditedViews counts nothing: the audit counts the items one by one, so that it finds errors in countsOf.
	auditedViews = sql.NewStatement("audit the views of a user", `
SELECT r.ver, l.view_code, l.view_id, l.position, c.seq FROM view_readers r
CROSS JOIN user_access_log l LEFT JOIN view_changes c ON c.view_code = l.view_code AND c.view_id = l.view_id
WHERE r.user_number = $1 AND l.user_number = $1 AND l.touched > 0`)

	// $4 leaves out dormant readers, who have no document: their count is made when they return.
	readersOf = sql.NewStatement("readers of a view", `
SELECT l.user_number FROM user_access_log l JOIN users u ON u.number = l.user_number
WHERE l.view_code = $1 AND l.view_id = $2 AND l.touched > 0 AND l.user_number > $3 AND u.seen_at >= $4
ORDER BY l.user_number LIMIT $5`)
)

// recordTouch takes the number of a touch, in the touch's transaction. counts reports whether the view counts already. The caller
// writes the number into the view's row, and then calls stopCountingOldestView if the view did not count.
func recordTouch(ctx context.Context, tx *sql.Tx, user services.UserID, view View) (touch int64, counts bool, err error) {
	if _, err = tx.One(ctx, countTouch, []any{user}, &touch); err != nil {
		return 0, false, err
	}
	var last int64
	_, err = tx.One(ctx, lastTouchOfView, []any{user, view.Code, view.ID}, &last)
	// A view that counts already displaces no other view.
	return touch, last > 0, err
}

// stopCountingOldestView takes the view beyond the limit out of a user's count, if there is one. The version is a sum over the
// views that count, and must not fall. So the number of changes of the dropped view is added to the reader's own part of the
// version. The view's row of changes is locked meanwhile: a change between the addition and the commit would make the version fall.
func stopCountingOldestView(ctx context.Context, tx *sql.Tx, user services.UserID, most int) error {
	var view View
	dropped, err := tx.One(ctx, stopCountingOldest, []any{user, most}, &view.Code, &view.ID)
	// Most users have touched fewer views than the limit, so none is dropped.
	if err != nil || !dropped {
		return err
	}
	var changes int64
	// 0 changes: the sum loses nothing by leaving the view out.
	if _, err := tx.One(ctx, lockChanges, []any{view.Code, view.ID}, &changes); err != nil || changes == 0 {
		return err
	}
	_, err = tx.Run(ctx, raiseReader, user, changes)
	return err
}

// readCounts counts the new items in the views of users, in each view up to maxCountedItems. A user who never touched a view is
// absent. The version rises with every touch of the user and with every change of a view that counts.
func readCounts(ctx context.Context, db *sql.DB, users []services.UserID) (map[services.UserID]services.ViewsState, error) {
	states := make(map[services.UserID]services.ViewsState, len(users))
	err := db.Each(ctx, countsOf, []any{users, maxCountedItems + 1}, func(scan func(...any) error) error {
		var user services.UserID
		var state services.ViewsState
		var most int
		err := scan(&user, &state.Version, &state.Unread, &most)
		// One of the views has more items than are counted, so the true sum is greater.
		state.AtLeast = most > maxCountedItems
		states[user] = state
		return err
	})
	return states, err
}

// newItemCount says how many items of a view are new to a user.
type newItemCount struct {
	View
	items  int       // up to maxCountedItems
	more   bool      // there are more
	newest time.Time // the time of the newest item
}

// readNewItems reads, for each view that counts, how many items are newer than the user's position, or, with a time, how many came
// since.
func readNewItems(ctx context.Context, db *sql.DB, user services.UserID, since time.Time) (list []newItemCount, err error) {
	after := int64(-1)
	if !since.IsZero() {
		// The statement compares with "later than", the away digest wants "since".
		after = max(0, sql.Micros(since)-1)
	}
	err = db.Each(ctx, newInViews, []any{user, after, maxCountedItems + 1}, func(scan func(...any) error) error {
		var of newItemCount
		var newest int64
		err := scan(&of.Code, &of.ID, &of.items, &newest)
		of.items, of.more, of.newest = min(of.items, maxCountedItems), of.items > maxCountedItems, sql.FromMicros(newest)
		if of.items > 0 {
			list = append(list, of)
		}
		return err
	})
	return list, err
}

// readReaders lists readers of a view: users whose badges count it, with IDs above after, who were last seen at since or later. It
// lists at most limit of them, in the order of their IDs.
func readReaders(ctx context.Context, db *sql.DB, view View, after services.UserID, since time.Time, limit int) ([]services.UserID, error) {
	return sql.ReadColumn[services.UserID](ctx, db, readersOf, view.Code, view.ID, after, since, limit)
}

// auditCounts counts the new items in one user's views from the items themselves. It shares no statement with readCounts. found is false
// for a reader who has no view that counts: there is no count to compare.
func auditCounts(ctx context.Context, db *sql.DB, user services.UserID) (state services.ViewsState, found bool, err error) {
	found, err = projector.CountUnchanged(func() (countedViews, error) { return auditViews(ctx, db, user) }, func(counted countedViews) (bool, error) {
		if len(counted.accesses) == 0 {
			return false, nil
		}
		state = services.ViewsState{Version: counted.version}
		views := make([]View, len(counted.accesses))
		for i, access := range counted.accesses {
			views[i] = access.View
		}
		newest, err := readNewestItems(ctx, db, views, maxCountedItems+1)
		if err != nil {
			return false, err
		}
		for i, access := range counted.accesses {
			items := 0
			for _, item := range newest[i].items {
				if item.At.After(access.UpTo) {
					items++
				}
			}
			state.Unread += min(items, maxCountedItems)
			state.AtLeast = state.AtLeast || items > maxCountedItems
		}
		return true, nil
	}, func(before, after countedViews) bool { return before.version == after.version })
	return state, found, err
}

// countedViews are the views that count in a user's badges, with the version of the count.
type countedViews struct {
	accesses []LastAccess
	version  uint64
}

// auditViews reads the views that count in a user's badges, and the version of the count.
func auditViews(ctx context.Context, db *sql.DB, user services.UserID) (counted countedViews, err error) {
	var own, changes uint64
	err = db.Each(ctx, auditedViews, []any{user}, func(scan func(...any) error) error {
		var access LastAccess
		var position int64
		var changed sql.NullInt64
		err := scan(&own, &access.Code, &access.ID, &position, &changed)
		access.UpTo = sql.FromMicros(position)
		// changed is NULL for a view that never changed, which counts as 0.
		changes += uint64(changed.Int64)
		counted.accesses = append(counted.accesses, access)
		return err
	})
	counted.version = own + changes
	return counted, err
}
