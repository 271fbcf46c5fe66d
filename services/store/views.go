package store

import (
	"context"
	"time"

	"tidings/services"
	"tidings/services/sql"
)

var (
	putViewItem = sql.NewStatement("add an item to a view", `
INSERT INTO view_items (view_code, view_id, item, at, standing) VALUES ($1, $2, $3, $4, TRUE)
ON CONFLICT (view_code, view_id, item) DO UPDATE SET at = excluded.at, standing = TRUE WHERE excluded.at > view_items.at`)

	lowerViewItem = sql.NewStatement("remove an item from a view", `
UPDATE view_items SET standing = FALSE WHERE view_code = $1 AND view_id = $2 AND item = $3 RETURNING at`)

	oneViewItem = sql.NewStatement("an item of a view", `
SELECT at FROM view_items WHERE view_code = $1 AND view_id = $2 AND item = $3 AND standing`)

	// bound is the at of the last item wanted; items of the same time are read too.
	newestViewItems = sql.NewStatement("newest items of views", `
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

	countViewItems = sql.NewStatement("count new items of views", `
SELECT c.n, (SELECT count(*) FROM (SELECT 1 FROM view_items i
	WHERE i.view_code = c.code AND i.view_id = c.id AND i.standing AND i.at > c.position LIMIT $2) AS counted)
FROM {rows $1 n BIGINT, code TEXT, id TEXT, position BIGINT} AS c`)

	newestViewItem = sql.NewStatement("newest item of a view", `
SELECT at FROM view_items WHERE view_code = $1 AND view_id = $2 AND standing ORDER BY at DESC LIMIT 1`)

	oneView = sql.NewStatement("a view of a user", `
SELECT position, last_access_at FROM user_access_log WHERE user_number = $1 AND view_code = $2 AND view_id = $3`)

	viewsOf = sql.NewStatement("views of a user", `
SELECT view_code, view_id, position, last_access_at FROM user_access_log
WHERE user_number = $1 AND {in view_code $2 TEXT} AND (view_code, view_id) > ($3, $4) ORDER BY view_code, view_id LIMIT $5`)
)

// AddViewItem reports an item into a view. An item that exists moves to at if that is later. A removed item returns only with a
// later at than it had, so that a late or repeated report does not bring it back. false when nothing changed.
func (tx *Tx) AddViewItem(ctx context.Context, view services.View, item services.ViewItem) (changed bool, err error) {
	n, err := tx.Run(ctx, putViewItem, view.Code, view.ID, item.Item, item.At)
	return n > 0, err
}

// RemoveViewItem removes an item from a view; repeated, it changes nothing. NOT_FOUND when it never was in the view.
func (tx *Tx) RemoveViewItem(ctx context.Context, view services.View, item string) error {
	var at int64
	found, err := tx.One(ctx, lowerViewItem, []any{view.Code, view.ID, item}, &at)
	if err == nil && !found {
		err = services.Errorf(services.NotFound, "item: there is no %s in the view %s %s", services.Quote(item), view.Code, services.Quote(view.ID))
	}
	return err
}

// TouchView records that a user looked at a view, up to a time, the zero time for the newest item in it. The newest item is
// used and not the clock, since a clock's time would hide items that are reported later with an earlier time. The position
// never goes back; the current one is returned. INVALID for a time that is both after latest, the greatest time that a clock
// can have by now, and after the newest item.
func (tx *Tx) TouchView(ctx context.Context, user services.UserID, view services.View, upTo, latest time.Time) (services.ViewAccess, error) {
	var newest int64
	if _, err := tx.One(ctx, newestViewItem, []any{view.Code, view.ID}, &newest); err != nil {
		return services.ViewAccess{}, err
	}
	if upTo.After(sql.FromMicros(max(newest, sql.Micros(tx.Now), sql.Micros(latest)))) {
		return services.ViewAccess{}, services.Errorf(services.Invalid, "upTo: %s is in the future", upTo.UTC().Format(time.RFC3339Nano))
	}
	if upTo.IsZero() {
		upTo = sql.FromMicros(newest)
	}
	var stands int64
	_, err := tx.One(ctx, raisePosition, []any{user, view.Code, view.ID, upTo, tx.Now}, &stands)
	return services.ViewAccess{View: view, UpTo: sql.FromMicros(stands), LastAccessAt: tx.Now}, err
}

// Views lists the views of some codes that a user has looked at, in order of code and id, those after one, at most limit.
func (s *Store) Views(ctx context.Context, user services.UserID, codes []string, after services.View, limit int) (list []services.ViewAccess, err error) {
	err = s.Each(ctx, viewsOf, []any{user, codes, after.Code, after.ID, limit}, func(scan func(...any) error) error {
		var access services.ViewAccess
		var upTo, last int64
		err := scan(&access.Code, &access.ID, &upTo, &last)
		access.UpTo, access.LastAccessAt = sql.FromMicros(upTo), sql.FromMicros(last)
		list = append(list, access)
		return err
	})
	return list, err
}

// View is a user's position in a view; false when they never looked.
func (s *Store) View(ctx context.Context, user services.UserID, view services.View) (access services.ViewAccess, found bool, err error) {
	var upTo, last int64
	found, err = s.One(ctx, oneView, []any{user, view.Code, view.ID}, &upTo, &last)
	return services.ViewAccess{View: view, UpTo: sql.FromMicros(upTo), LastAccessAt: sql.FromMicros(last)}, found, err
}

// ViewItem is the time of an item of a view; false when it is not in the view, or was removed.
func (s *Store) ViewItem(ctx context.Context, view services.View, item string) (at time.Time, stands bool, err error) {
	var us int64
	stands, err = s.One(ctx, oneViewItem, []any{view.Code, view.ID, item}, &us)
	return sql.FromMicros(us), stands, err
}

// NewestViewItems are the newest items of one view: at least limit if there are as many, and more only when several have the
// time of the last. With More there are older ones, the newest of them at Floor.
type NewestViewItems struct {
	Items []services.ViewItem
	More  bool
	Floor time.Time
}

// NewestViewItems reads the newest items of some views, in their order, in one query.
func (s *Store) NewestViewItems(ctx context.Context, views []services.View, limit int) ([]NewestViewItems, error) {
	list, newest := make(sql.Rows, len(views)), make([]NewestViewItems, len(views))
	for i, view := range views {
		list[i] = []any{i, view.Code, view.ID}
	}
	err := s.Each(ctx, newestViewItems, []any{list, limit - 1}, func(scan func(...any) error) error {
		var n int
		var floor, at int64
		var item services.ViewItem
		if err := scan(&n, &floor, &item.Item, &at); err != nil {
			return err
		}
		item.At = sql.FromMicros(at)
		if floor >= 0 {
			newest[n].More, newest[n].Floor = true, sql.FromMicros(floor)
		}
		newest[n].Items = append(newest[n].Items, item)
		return nil
	})
	return newest, err
}

// CountViewItems counts, for each access, the newer items of its view, up to limit, in one query.
func (s *Store) CountViewItems(ctx context.Context, accesses []services.ViewAccess, limit int) ([]int, error) {
	list, counts := make(sql.Rows, len(accesses)), make([]int, len(accesses))
	for i, access := range accesses {
		list[i] = []any{i, access.Code, access.ID, sql.Micros(access.UpTo)}
	}
	err := s.Each(ctx, countViewItems, []any{list, limit}, func(scan func(...any) error) error {
		var n, count int
		err := scan(&n, &count)
		counts[n] = count
		return err
	})
	return counts, err
}
