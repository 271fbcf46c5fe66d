package views

import (
	"context"
	"time"

	"tidings/services"
	"tidings/services/sql"
)

var (
	// putItem adds or moves an item. An item that was removed keeps its row and its time, so only a later report brings it back.
	putItem = sql.NewStatement("add an item to a view", `
INSERT INTO view_items (view_code, view_id, item, at, standing) VALUES ($1, $2, $3, $4, TRUE)
ON CONFLICT (view_code, view_id, item) DO UPDATE SET at = excluded.at, standing = TRUE WHERE excluded.at > view_items.at`)

	markItemRemoved = sql.NewStatement("remove an item from a view", `
UPDATE view_items SET standing = FALSE WHERE view_code = $1 AND view_id = $2 AND item = $3 AND standing`)

	anyItem = sql.NewStatement("an item of a view, removed or not", `
SELECT at FROM view_items WHERE view_code = $1 AND view_id = $2 AND item = $3`)

	oneItem = sql.NewStatement("an item of a view", `
SELECT at FROM view_items WHERE view_code = $1 AND view_id = $2 AND item = $3 AND standing`)

	// bound is the time of the last wanted item; items of the same time are read too. floor is the next older time.
	newestOfViews = sql.NewStatement("newest items of views", `
WITH bounds AS MATERIALIZED (
	SELECT c.n, c.code, c.id, COALESCE((SELECT i.at FROM view_items i
		WHERE i.view_code = c.code AND i.view_id = c.id AND i.standing ORDER BY i.at DESC LIMIT 1 OFFSET $2), 0) AS bound
	FROM {rows $1 n BIGINT, code TEXT, id TEXT} AS c
), floors AS MATERIALIZED (
	SELECT b.*, COALESCE((SELECT i.at FROM view_items i
		WHERE i.view_code = b.code AND i.view_id = b.id AND i.standing AND i.at < b.bound ORDER BY i.at DESC LIMIT 1), -1) AS floor
	FROM bounds b
)
SELECT b.n, b.floor, i.item, i.at FROM floors b CROSS JOIN view_items i
WHERE i.view_code = b.code AND i.view_id = b.id AND i.standing AND i.at >= b.bound`)

	// The inner LIMIT bounds the items that are read of each view.
	countNewer = sql.NewStatement("count new items of views", `
SELECT c.n, (SELECT count(*) FROM (SELECT 1 FROM view_items i
	WHERE i.view_code = c.code AND i.view_id = c.id AND i.standing AND i.at > c.position LIMIT $2) AS counted)
FROM {rows $1 n BIGINT, code TEXT, id TEXT, position BIGINT} AS c`)

	newestOfView = sql.NewStatement("newest item of a view", `
SELECT at FROM view_items WHERE view_code = $1 AND view_id = $2 AND standing ORDER BY at DESC LIMIT 1`)

	newestOfViewUntil = sql.NewStatement("newest item of a view until a time", `
SELECT at FROM view_items WHERE view_code = $1 AND view_id = $2 AND standing AND at <= $3 ORDER BY at DESC LIMIT 1`)

	someAccesses = sql.NewStatement("some views of a user", `
SELECT l.view_code, l.view_id, l.position, l.last_access_at, l.touched FROM {rows $2 code TEXT, id TEXT} AS c CROSS JOIN user_access_log l
WHERE l.user_number = $1 AND l.view_code = c.code AND l.view_id = c.id`)

	// The order is that of the key, which begins with the user: a page is a range of it for each code.
	accessesOf = sql.NewStatement("views of a user", `
SELECT view_code, view_id, position, last_access_at, touched FROM user_access_log
WHERE user_number = $1 AND {in view_code $2 TEXT} AND (view_code, view_id) > ($3, $4) ORDER BY view_code, view_id LIMIT $5`)
)

// addItem reports an item into a view. An existing item moves to at if at is later. A removed item returns only with a time later
// than its last one, so that a late or repeated report does not bring it back. It returns false when nothing changed.
func addItem(ctx context.Context, tx *sql.Tx, view View, item Item) (changed bool, err error) {
	// 0 rows: the item has this time or a later one, in the view or removed.
	n, err := tx.Run(ctx, putItem, view.Code, view.ID, item.Name, item.At)
	if err == nil && n > 0 {
		// This one row raises the version of each reader's count.
		_, err = tx.Run(ctx, countViewChange, view.Code, view.ID)
	}
	return n > 0, err
}

// removeItem removes an item from a view; repeated, it changes nothing. NOT_FOUND when it never was in the view.
func removeItem(ctx context.Context, tx *sql.Tx, view View, item string) (changed bool, err error) {
	// Only an item that stands in the view is changed, so a repeated removal raises no version.
	n, err := tx.Run(ctx, markItemRemoved, view.Code, view.ID, item)
	if n > 0 && err == nil {
		_, err = tx.Run(ctx, countViewChange, view.Code, view.ID)
	}
	if n > 0 || err != nil {
		return n > 0, err
	}
	// Nothing was changed: the item was removed before, or was never there.
	var at int64
	found, err := tx.One(ctx, anyItem, []any{view.Code, view.ID, item}, &at)
	if err == nil && !found {
		err = services.Errorf(services.NotFound, "item: there is no %s in the view %s %s", services.Quote(item), view.Code, services.Quote(view.ID))
	}
	return false, err
}

// touch records that a user looked at a view, up to a time, or with the zero time up to the newest item in it. That item's time
// is used and not the clock's, because the clock's would hide items that are reported later with an earlier time. The position
// never goes back. The view counts in the user's badges from now on, as one of the most views that they touched last. latest is the
// time of this node's next ID. INVALID for a time that is after latest, the transaction's time and the newest item.
func touch(ctx context.Context, tx *sql.Tx, user services.UserID, view View, upTo, latest time.Time, most int) error {
	var newest int64
	if _, err := tx.One(ctx, newestOfView, []any{view.Code, view.ID}, &newest); err != nil {
		return err
	}
	// Items may be ahead of this node's clock: a user who has seen such an item may mark up to it.
	if upTo.After(sql.FromMicros(max(newest, sql.Micros(tx.Now), sql.Micros(latest)))) {
		return services.Errorf(services.Invalid, "upTo: %s is in the future", upTo.UTC().Format(time.RFC3339Nano))
	}
	if upTo.IsZero() {
		upTo = sql.FromMicros(newest)
		// A touch of a past time marks only the items up to that time.
		if at := tx.EventTime(); tx.EventMoment() != 0 && upTo.After(at) {
			newest = 0
			if _, err := tx.One(ctx, newestOfViewUntil, []any{view.Code, view.ID, at}, &newest); err != nil {
				return err
			}
			upTo = sql.FromMicros(newest)
		}
	}
	// From here on the user's other touches wait: the number of the touch and the views that count change together.
	number, counts, err := recordTouch(ctx, tx, user, view)
	if err != nil {
		return err
	}
	_, err = tx.Run(ctx, putTouch, user, view.Code, view.ID, sql.Micros(upTo), tx.EventTime(), number)
	if err == nil && !counts {
		err = stopCountingOldestView(ctx, tx, user, most)
	}
	return err
}

// readAccesses lists the views of some codes that a user has looked at, in the order of code and ID: at most limit of those
// that follow the view after.
func readAccesses(ctx context.Context, db *sql.DB, user services.UserID, codes []string, after View, limit int) (list []LastAccess, err error) {
	err = db.Each(ctx, accessesOf, []any{user, codes, after.Code, after.ID, limit}, appendAccessTo(&list))
	return list, err
}

// appendAccessTo appends each row of a statement to a list.
func appendAccessTo(list *[]LastAccess) func(scan func(...any) error) error {
	return func(scan func(...any) error) error {
		var access LastAccess
		var upTo, last, touched int64
		err := scan(&access.Code, &access.ID, &upTo, &last, &touched)
		access.UpTo, access.LastAccessAt, access.CountsInBadges = sql.FromMicros(upTo), sql.FromMicros(last), touched > 0
		*list = append(*list, access)
		return err
	}
}

// readAccessesByView reads a user's positions in some views, in no order; a view that they never looked at is absent.
func readAccessesByView(ctx context.Context, db *sql.DB, user services.UserID, views []View) (list []LastAccess, err error) {
	asked := sql.RowsParameter(services.Map(views, func(view View) []any { return []any{view.Code, view.ID} }))
	err = db.Each(ctx, someAccesses, []any{user, asked}, appendAccessTo(&list))
	return list, err
}

// readItem reads the time of an item of a view; false when it is not in the view, or was removed.
func readItem(ctx context.Context, db *sql.DB, view View, item string) (at time.Time, stands bool, err error) {
	var us int64
	stands, err = db.One(ctx, oneItem, []any{view.Code, view.ID, item}, &us)
	return sql.FromMicros(us), stands, err
}

// newestItems are the newest items of one view: at least limit if the view has them, and more than limit only if several share
// the time of the last one. hasOlder reports that older items exist; completeAbove is the time of the newest of these.
type newestItems struct {
	items         []Item
	hasOlder      bool
	completeAbove time.Time // all items newer than this are in items
}

// readNewestItems reads the newest items of some views, in their order, in one query.
func readNewestItems(ctx context.Context, db *sql.DB, views []View, limit int) ([]newestItems, error) {
	list, newest := make(sql.RowsParameter, len(views)), make([]newestItems, len(views))
	for i, view := range views {
		list[i] = []any{i, view.Code, view.ID}
	}
	err := db.Each(ctx, newestOfViews, []any{list, limit - 1}, func(scan func(...any) error) error {
		var n int
		var floor, at int64
		var item Item
		// floor is the same in each row of a view; -1 says that nothing is older.
		if err := scan(&n, &floor, &item.Name, &at); err != nil {
			return err
		}
		item.At = sql.FromMicros(at)
		if floor >= 0 {
			newest[n].hasOlder, newest[n].completeAbove = true, sql.FromMicros(floor)
		}
		newest[n].items = append(newest[n].items, item)
		return nil
	})
	return newest, err
}

// countNewItems counts, for each access, the newer items of its view, up to limit, in one query.
func countNewItems(ctx context.Context, db *sql.DB, accesses []LastAccess, limit int) ([]int, error) {
	// Rows come in no order; the first column is the index of the access.
	list, counts := make(sql.RowsParameter, len(accesses)), make([]int, len(accesses))
	for i, access := range accesses {
		list[i] = []any{i, access.Code, access.ID, sql.Micros(access.UpTo)}
	}
	err := db.Each(ctx, countNewer, []any{list, limit}, func(scan func(...any) error) error {
		var n, count int
		err := scan(&n, &count)
		counts[n] = count
		return err
	})
	return counts, err
}
