package notifications

import (
	"context"
	"slices"
	"time"

	"tidings/services"
	"tidings/services/sql"
)

// categoryState is the absolute state of one category of one user: a lower version is an older state. A group (one subject in one
// half day) is unseen while one of its counted causes is after SeenTo and unread. UnseenByDay[i] counts the unseen groups of the
// day NewestDay-i, OlderUnseen those before NewestDay-7.
//
// UnseenByDay and OlderUnseen depend on NewestDay, so they are right for one day only; Source.Render moves them to the day on which it
// is called.
type categoryState struct {
	Recipient           services.UserID
	Category            services.Category
	Version             uint64                  // rises with each visible change
	NewestShown, SeenTo services.NotificationID // the greatest position that was ever shown, and the greatest that was seen
	OlderUnseen         int
	NewestDay           int64 // days since 1970, UTC: the day of the read
	UnseenByDay         [8]int
}

// documentCounts returns the part of a state that a document shows, and whether the state is shown. The state of a category that is
// not defined is not shown. A host category in which nothing was ever shown is not shown either: absent fields mean the same.
// Documents have fields only for the host categories that they need, since there may be many.
func (s categoryState) documentCounts(hosts *services.HostCategories) (counts services.CategoryCounts, shown bool) {
	counts = services.CategoryCounts{Category: s.Category, Version: s.Version, Newest: s.NewestShown, OlderUnseen: s.OlderUnseen, NewestDay: s.NewestDay, CountByDay: s.UnseenByDay}
	if !s.Category.HasHostCategoryForm() {
		return counts, slices.Contains(services.Categories, s.Category) // a newer node wrote any other name
	}
	// The fields are named by the ID, so that a category that is removed and defined again never reads the old counts.
	host, defined := hosts.Find(s.Category)
	counts.HostCategoryID = host.ID
	return counts, defined && s.NewestShown != 0
}

// categoriesOf are the categories of some states.
func categoriesOf(states []categoryState) []services.Category {
	return services.Map(states, func(state categoryState) services.Category { return state.Category })
}

// countUnseen reads the states of some counters, each followed by its unseen groups counted by half day; a state's own row has
// bucket -1. It reads only the unseen groups, from notification_groups_unread: the cost grows with the groups, not with the
// likes in them. One statement is one snapshot, so the version belongs to exactly these counts.
const countUnseen = `, unseen AS MATERIALIZED (
	SELECT g.recipient, g.category, g.bucket FROM counters b CROSS JOIN notification_groups g
	WHERE g.recipient = b.recipient AND g.category = b.category AND g.newest > b.seen AND g.newest > g.read_to
)
SELECT recipient, category, ver, head, seen, -1 AS bucket, 0 AS groups FROM counters
UNION ALL
SELECT recipient, category, 0, 0, 0, bucket, count(*) FROM unseen GROUP BY recipient, category, bucket
ORDER BY recipient, category, bucket`

var (
	// statesByCounter reads the counters that a transaction has locked, by recipient and category.
	statesByCounter = sql.NewStatement("notification states", `
WITH counters AS MATERIALIZED (
	SELECT s.* FROM {rows $1 recipient BIGINT, category TEXT} AS c
	JOIN notification_state s ON s.recipient = c.recipient AND s.category = c.category
)`+countUnseen)

	// statesByUser reads all counters of users, including counters of removed categories, which documentCounts leaves out.
	statesByUser = sql.NewUserStatement("notification states of a user", "notification states of users", `
WITH counters AS MATERIALIZED (
	SELECT * FROM notification_state WHERE {user recipient}
)`+countUnseen)
)

// statesOfUser reads a user's states in order of the categories' names. A category that never had a notification or a mark is
// absent.
func statesOfUser(ctx context.Context, db *sql.DB, user services.UserID) ([]categoryState, error) {
	return statesOfUsers(ctx, db, []services.UserID{user})
}

// statesOfUsers reads the states of several users, in order of user ID and category name. A category without a notification or a mark
// is absent.
func statesOfUsers(ctx context.Context, db *sql.DB, users []services.UserID) ([]categoryState, error) {
	st, of := statesByUser.ForUsers(users)
	return readStates(ctx, db.Runner, st, of, db.Now())
}

// statesOf reads the states of counters that the transaction has locked. It sorts them by recipient and category.
func statesOf(ctx context.Context, tx *sql.Tx, counters []counter) ([]categoryState, error) {
	list := sql.RowsParameter(services.Map(counters, func(key counter) []any { return []any{key.recipient, key.category} }))
	return readStates(ctx, tx.Runner, statesByCounter, list, tx.Now)
}

// readStates reads states by a statement. A state's own row comes before its groups, because its bucket is the least.
func readStates(ctx context.Context, r sql.Runner, st sql.Statement, which any, now time.Time) ([]categoryState, error) {
	var states []categoryState
	today := services.DayOf(now)
	err := r.Each(ctx, st, []any{which}, func(scan func(...any) error) error {
		read := categoryState{NewestDay: today}
		var bucket int64
		var groups int
		if err := scan(&read.Recipient, &read.Category, &read.Version, &read.NewestShown, &read.SeenTo, &bucket, &groups); err != nil {
			return err
		}
		// The state of a group always comes before the group: both are of the same snapshot.
		if bucket < 0 {
			states = append(states, read)
		} else {
			states[len(states)-1].addUnseenGroups(bucket/groupsPerDay, groups)
		}
		return nil
	})
	return states, err
}

// addUnseenGroups counts groups of one day. A group that another node's clock dated tomorrow counts as of today. Groups of days
// that are too old for UnseenByDay are one number, because no category with an expiry counts them.
func (s *categoryState) addUnseenGroups(day int64, groups int) {
	if ago := max(s.NewestDay-day, 0); ago < int64(len(s.UnseenByDay)) {
		s.UnseenByDay[ago] += groups
	} else {
		s.OlderUnseen += groups
	}
}
