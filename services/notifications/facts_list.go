package notifications

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"tidings/services"
	"tidings/services/sql"
)

// listFilter selects notifications of a list. Each filter has its own statement, because each uses another index.
type listFilter int

// These are the values of listFilter.
const (
	everything listFilter = iota
	onlyUnread            // not read, whether seen or not
	onlyUnseen            // exactly those in the badge: not seen, not read, not expired
)

// listQuery asks for a page of a user's notifications, the newest first. The list, the explanation and the digest use it, so that
// they agree.
type listQuery struct {
	user             services.UserID
	categories       []services.Category
	filter           listFilter
	before           Position // only entries after this position; the zero position means from the top
	limit            int      // 0: no entry, only Page.MarkGeneration
	limitPerCategory bool     // limit applies to each category, not to all together
	withoutActors    bool     // without the actors; may contain a group whose last cause was undone meanwhile
	expiry           ExpiryDays
}

// Page is a page of a list, with the generation of marks that was read before the page.
type Page struct {
	Notifications  []Notification
	More           bool     // more groups follow
	Next           Position // the position of the last group that was read; zero if none was
	MarkGeneration uint64   // rises when notifications become unread again; marks of this page send it back
}

// listStatementText lists the groups that meet a condition, in some categories. Each category is a range of an index. The statement
// first finds where each range ends, so that it reads no more than one page of each category. If a page begins among groups of the
// same time, only the subjects below a bound are listed for that time. $1 is the user, $2 the categories, $3 the time before which
// the page begins, $4 how many of each category, and $5 how many of all.
const listStatementText = `
WITH wanted AS MATERIALIZED (
	SELECT c.category, c.rank, c.oldest, c.below, COALESCE((SELECT seen FROM notification_state s WHERE s.recipient = $1 AND s.category = c.category), 0) AS seen
	FROM {rows $2 category TEXT, rank BIGINT, oldest BIGINT, below BIGINT} AS c
), ranges AS MATERIALIZED (
	SELECT w.category, w.rank, w.oldest, w.below, w.seen, COALESCE((SELECT g.at FROM notification_groups g
		WHERE g.recipient = $1 AND g.category = w.category AND (%[2]sg.at, g.subject) < ($3, w.below) AND %[1]s
		ORDER BY %[2]sg.at DESC LIMIT 1 OFFSET $4 - 1), 0) AS bound
	FROM wanted w
)
SELECT g.category, g.subject, g.bucket, g.first, g.newest, g.at, g.read_to, g.causes, w.seen
FROM ranges w CROSS JOIN notification_groups g
WHERE g.recipient = $1 AND g.category = w.category AND (%[2]sg.at, g.subject) < ($3, w.below) AND %[2]sg.at >= w.bound AND %[1]s
ORDER BY g.at DESC, w.rank DESC, g.subject DESC LIMIT $5`

// listStatements has the statement of each filter.
var listStatements = map[listFilter]sql.Statement{
	// This is the condition of the index notification_groups_listed. newest is 0 in a group without a standing cause: such a group
	// is not shown.
	everything: sql.NewStatement("list notifications", fmt.Sprintf(listStatementText, `g.newest > 0`, "")),
	// This is the condition of the index notification_groups_listed_unread, which has the same order.
	onlyUnread: sql.NewStatement("list unread notifications", fmt.Sprintf(listStatementText, `g.newest > g.read_to`, "")),
	// The unseen groups are few and form a range of notification_groups_unread, so they are read there and sorted. The + keeps the
	// database from using the index in list order, where it would read past every group that was seen and never read.
	onlyUnseen: sql.NewStatement("list unseen notifications", fmt.Sprintf(listStatementText,
		`g.newest > g.read_to AND g.newest > w.seen AND g.bucket >= w.oldest`, "+")),
}

// inGroupFormat is the format of inGroupCondition, the condition for the standing causes of a group c, without the alias at its
// beginning.
const inGroupFormat = `.recipient = $1 AND %[1]s.category = c.category AND %[1]s.subject = c.subject AND %[1]s.bucket = c.bucket AND %[1]s.standing`

// inGroupCondition is the SQL condition that a row of notification_causes, under an alias, is a standing cause of the group c of the
// recipient $1.
func inGroupCondition(alias string) string { return alias + fmt.Sprintf(inGroupFormat, alias) }

var (
	// In most categories an actor has one cause in a group: the newest 8 causes are read. In comments and host categories an actor may
	// have many (c.many): there the newest 64 are read.
	sampleActors = sql.NewStatement("sample the actors of notifications", `
SELECT c.i, n.actor, n.object FROM {rows $2 i BIGINT, category TEXT, subject BIGINT, bucket BIGINT, many BIGINT} AS c CROSS JOIN notification_causes n
WHERE `+inGroupCondition("n")+` AND n.at >= COALESCE(CASE WHEN c.many = 1
	THEN (SELECT m.at FROM notification_causes m WHERE `+inGroupCondition("m")+` ORDER BY m.at DESC LIMIT 1 OFFSET 63)
	ELSE (SELECT m.at FROM notification_causes m WHERE `+inGroupCondition("m")+` ORDER BY m.at DESC LIMIT 1 OFFSET 7) END, 0)
ORDER BY c.i, n.at DESC, n.object DESC, n.actor DESC`)

	// countActors counts users and not causes: one user may have written many comments. Actor 0 is nobody.
	countActors = sql.NewStatement("count the actors of notifications", `
SELECT c.i, count(DISTINCT NULLIF(n.actor, 0)) FROM {rows $2 i BIGINT, category TEXT, subject BIGINT, bucket BIGINT} AS c CROSS JOIN notification_causes n
WHERE `+inGroupCondition("n")+` GROUP BY c.i`)

	// generationAndNewestUnread reads a user's generation of marks (Page.MarkGeneration), and the greatest position of an unread
	// group: a mark of the whole list reaches up to that position.
	generationAndNewestUnread = sql.NewStatement("the generation and the last position of notifications", `
SELECT h.gen, COALESCE((SELECT max(unread.last) FROM (
		SELECT (SELECT g.newest FROM notification_groups g WHERE g.recipient = $1 AND g.category = c.category AND g.newest > g.read_to
			ORDER BY g.newest DESC LIMIT 1) AS last
		FROM {rows $2 category TEXT} AS c) AS unread), 0)
FROM notification_heads h WHERE h.recipient = $1`)

	// listedGroupsAtPositions finds groups by any of their positions: the ID of a notification is a position, and so is an upTo.
	listedGroupsAtPositions = sql.NewStatement("notifications with their positions", `
SELECT n.place, g.category, g.subject, g.bucket, g.first, g.newest, g.at, g.read_to, g.causes,
	COALESCE((SELECT seen FROM notification_state s WHERE s.recipient = g.recipient AND s.category = g.category), 0)
FROM notification_causes n CROSS JOIN notification_groups g
WHERE n.recipient = $1 AND {in n.place $2 BIGINT} AND g.recipient = n.recipient AND g.category = n.category
	AND g.subject = n.subject AND g.bucket = n.bucket AND g.newest > 0`)
)

// listedGroup is a group as a list query returns it, before its actors are known. seenTo is the seen position of its category.
type listedGroup struct {
	group
	id, newestPosition, readTo, seenTo services.NotificationID // the group is read up to readTo, its category seen up to seenTo
	atMicros                           int64                   // when the newest of its causes happened
	causeCount                         int                     // how many standing causes
}

// scanListedGroup reads a row of a list; first receives the columns before the group.
func scanListedGroup(scan func(...any) error, first ...any) (l listedGroup, err error) {
	err = scan(append(first, &l.category, &l.subject, &l.halfDay, &l.id, &l.newestPosition, &l.atMicros, &l.readTo, &l.causeCount, &l.seenTo)...)
	l.id = cmp.Or(l.id, l.newestPosition) // the column first is 0 in a row of an earlier release that has not changed since
	return l, err
}

// categoryRows are the categories of the query as rows: each with its rank among groups of one time, the oldest half day that
// counts, and the subject below which the page continues among groups that have the time of q.before. The rank is computed here,
// because the database's collation may order names otherwise.
func (q listQuery) categoryRows(today int64) sql.RowsParameter {
	wanted := make(sql.RowsParameter, len(q.categories))
	for i, category := range slices.Sorted(slices.Values(q.categories)) {
		// Groups of one time are listed by the category's rank, and then by the subject. 0 is below every subject: in a category
		// that ranks higher than q.before's, the groups of that time were listed already.
		below := services.SortableID(0)
		switch {
		case q.before.At.IsZero() || category < q.before.Category:
			below = services.MaxSortableID
		case category == q.before.Category:
			below = q.before.Subject
		}
		wanted[i] = []any{category, i, q.expiry.oldestCountedDay(category, today) * groupsPerDay, below}
	}
	return wanted
}

// readPage reads a page, ordered by the time of the events. It reads the generation first: a notification that is marked unread
// afterwards has a later generation. The same statement reads the greatest unread position: a mark that reaches up to the first
// row of the list then covers every notification that had arrived.
func readPage(ctx context.Context, db *sql.DB, q listQuery) (page Page, err error) {
	var last services.NotificationID
	if _, err := db.One(ctx, generationAndNewestUnread, []any{q.user, sql.ColumnParameter(q.categories)}, &page.MarkGeneration, &last); err != nil {
		return page, err
	}
	if len(q.categories) == 0 || q.limit <= 0 {
		return page, nil
	}
	// The first page has no position to begin after: every time is before this one, and categoryRows begins below the
	// greatest subject.
	before := int64(math.MaxInt64)
	if !q.before.At.IsZero() {
		before = sql.Micros(q.before.At)
	}
	most := q.limit
	if q.limitPerCategory {
		most *= len(q.categories)
	}
	var groups []listedGroup
	// of has the number of groups that were read in each category.
	of := map[services.Category]int{}
	// The statement reads one group more of each category than is returned, only to show that more follow.
	err = db.Each(ctx, listStatements[q.filter], []any{q.user, q.categoryRows(services.DayOf(db.Now())), before, q.limit + 1, most + len(q.categories)}, func(scan func(...any) error) error {
		l, err := scanListedGroup(scan)
		if of[l.category]++; of[l.category] > q.limit || len(groups) == most {
			page.More = true
			return err
		}
		groups = append(groups, l)
		return err
	})
	if err != nil {
		return page, err
	}
	// Next is the last group that was read, even if notificationsWithActors omits it: the next page continues after this group.
	if len(groups) > 0 {
		end := groups[len(groups)-1]
		page.Next = Position{At: sql.FromMicros(end.atMicros), Category: end.category, Subject: end.subject}
	}
	if q.withoutActors {
		page.Notifications = notificationsWithoutActors(db, groups, q.expiry)
	} else {
		page.Notifications, err = notificationsWithActors(ctx, db, q.user, groups, q.expiry)
	}
	// The list is ordered by time, and positions by arrival: a notification of an older time may have arrived last. A mark of the
	// first row reaches up to the last position that arrived.
	if q.before.At.IsZero() && len(page.Notifications) > 0 {
		for _, n := range page.Notifications {
			if !n.Read {
				last = max(last, n.NewestPosition)
			}
		}
		if first := &page.Notifications[0]; last > first.NewestPosition {
			first.MarkAllUpTo = last
		}
	}
	return page, err
}

// readNotificationsAt reads the present notifications that contain some positions, keyed by position. A position is absent if it is
// not in this user's list or if no cause of its group counts. Several positions of one notification have the same value.
func readNotificationsAt(ctx context.Context, db *sql.DB, user services.UserID, positions []services.NotificationID, hosts *services.HostCategories, expiry ExpiryDays) (map[services.NotificationID]Notification, error) {
	asked := map[services.NotificationID][]services.NotificationID{} // the positions, by the first position of their group
	var groups []listedGroup
	err := db.Each(ctx, listedGroupsAtPositions, []any{user, sql.Numbers(positions)}, func(scan func(...any) error) error {
		var position services.NotificationID
		l, err := scanListedGroup(scan, &position)
		if _, defined := hosts.Find(l.category); l.category.HasHostCategoryForm() && !defined {
			return err // it is being removed
		}
		// Two positions may be of one group, which is read once.
		if asked[l.id] == nil {
			groups = append(groups, l)
		}
		// The key is the first position of the group: notificationsWithActors returns it as ID. The positions of a group that it
		// omits stay absent.
		asked[l.id] = append(asked[l.id], position)
		return err
	})
	if err != nil {
		return nil, err
	}
	described, err := notificationsWithActors(ctx, db, user, groups, expiry.withHostCategories(hosts))
	found := make(map[services.NotificationID]Notification, len(positions))
	for _, n := range described {
		for _, position := range asked[n.ID] {
			found[position] = n
		}
	}
	return found, err
}

// notificationsWithoutActors returns groups as notifications without their actors. A group is unseen while its newest cause is after both
// the seen position of its category and its own read position, and ExpiredUnseen if it is also too old to count. countUnseen and
// splitByExpiry have the same rules, so that list and count agree.
func notificationsWithoutActors(db *sql.DB, groups []listedGroup, expiry ExpiryDays) []Notification {
	list, today := make([]Notification, len(groups)), services.DayOf(db.Now())
	for i, g := range groups {
		unseen := g.newestPosition > g.seenTo && g.newestPosition > g.readTo
		older := unseen && g.halfDay/groupsPerDay < expiry.oldestCountedDay(g.category, today)
		list[i] = Notification{
			ID: g.id, NewestPosition: g.newestPosition, Category: g.category, Subject: g.subject, At: sql.FromMicros(g.atMicros), ActorCount: g.causeCount,
			Seen: !unseen, Read: g.newestPosition <= g.readTo, ExpiredUnseen: older,
		}
	}
	return list
}

// notificationsWithActors adds the actors of each group, and the contents of host notifications. A group whose last cause was
// undone meanwhile is omitted. It takes at most two statements for any number of groups, and one or two more if there are host
// notifications.
func notificationsWithActors(ctx context.Context, db *sql.DB, user services.UserID, groups []listedGroup, expiry ExpiryDays) ([]Notification, error) {
	if len(groups) == 0 {
		return nil, nil
	}
	var all, counted sql.RowsParameter
	list := notificationsWithoutActors(db, groups, expiry)
	for i, g := range groups {
		// In these categories an actor may have many causes, so the count of causes is not the count of actors.
		many := 0
		if g.category == services.CategoryComment || g.category.HasHostCategoryForm() {
			many = 1
			counted = append(counted, []any{i, g.category, g.subject, g.halfDay})
		}
		all = append(all, []any{i, g.category, g.subject, g.halfDay, many})
	}
	// newest has the object of each group's newest cause: in host categories, the ID of the host notification.
	newest, stands := make([]services.SortableID, len(list)), make([]bool, len(list))
	err := db.Each(ctx, sampleActors, []any{user, all}, func(scan func(...any) error) error {
		var i int
		var actor services.UserID
		var object services.SortableID
		if err := scan(&i, &actor, &object); err != nil {
			return err
		}
		if !stands[i] {
			stands[i], newest[i] = true, object
		}
		n := &list[i]
		// The sample has the newest actor first, and each user once. Actor 0 stands for nobody and is left out.
		if actor != 0 && len(n.SampleActors) < maxSampleActors && !slices.Contains(n.SampleActors, actor) {
			n.SampleActors = append(n.SampleActors, actor)
		}
		return nil
	})
	// notificationsWithoutActors has set ActorCount to the count of causes, which is the count of actors in the other categories
	// only.
	if err == nil && len(counted) > 0 {
		err = db.Each(ctx, countActors, []any{user, counted}, func(scan func(...any) error) error {
			var i, actors int
			err := scan(&i, &actors)
			list[i].ActorCount = actors
			return err
		})
	}
	if err == nil {
		err = addHostContents(ctx, db, list, newest)
	}
	// Leave out each group that lost its last cause, or its content, between the statements.
	kept := list[:0]
	for i, n := range list {
		if stands[i] && (n.Host != nil || !n.Category.HasHostCategoryForm()) {
			kept = append(kept, n)
		}
	}
	return kept, err
}
