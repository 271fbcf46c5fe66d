package announcements

import (
	"context"
	"math"
	"time"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/sql"
)

// neverEnds is stored as the end of an announcement that has no end.
const neverEnds = math.MaxInt64

// ChangelogKind is the kind of changelog entry for announcements and dots. Both share one kind, and so one order: a node never shows a
// later change of one without the earlier changes of the other. The key is the global id of the announcement, or the name of
// the dot.
const ChangelogKind = "notice"

// announcementColumns begins a statement whose rows scanAnnouncements reads.
const announcementColumns = `SELECT id, title, content, segments, created_at, updated_at, starts_at, ends_at, position, withdrawn FROM announcements `

// listedCondition selects the announcements that have a position in the list. It repeats the condition of the index
// announcements_listed.
const listedCondition = `position > 0 AND NOT withdrawn AND position > (SELECT value FROM counters WHERE name = 'announcement_floor')`

var (
	// raiseClock raises the announcements' clock to the time $1, or at least above its last stamp, and returns the new stamp. A stamp is
	// odd. An announcement ends at a whole millisecond, which is an even number of microseconds, so no version can mean both an end and a
	// change.
	raiseClock = sql.NewStatement("raise the announcements' clock", `UPDATE counters
		SET value = (CASE WHEN CAST($1 AS BIGINT) > value THEN CAST($1 AS BIGINT) ELSE value + 1 END) | 1 WHERE name = 'notices' RETURNING value`)

	// newestOfMillisecond finds the greatest ID of a millisecond, so that an announcement of a past time gets a free one.
	newestOfMillisecond = sql.NewestIDOfMillisecond("announcements")

	// Few announcements have positions near one moment, so this reads few rows.
	positionsFrom = sql.NewStatement("positions of announcements from a moment", `SELECT position FROM announcements
		WHERE position >= $1 AND position < $2 AND position > 0 AND NOT withdrawn ORDER BY position`)

	readClock = sql.NewStatement("read the announcements' clock", `SELECT value FROM counters WHERE name = 'notices'`)

	insertAnnouncement = sql.NewStatement("insert an announcement", `INSERT INTO announcements
		(id, title, content, segments, created_at, updated_at, starts_at, ends_at, position, withdrawn)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (id) DO NOTHING`)

	updateAnnouncement = sql.NewStatement("update an announcement", `UPDATE announcements
		SET title = $2, content = $3, segments = $4, updated_at = $5, starts_at = $6, ends_at = $7, position = $8, withdrawn = $9 WHERE id = $1`)

	lockAnnouncement = sql.NewStatement("lock an announcement", announcementColumns+`WHERE id = $1 {for update}`)

	announcementsByID = sql.NewStatement("announcements by id", announcementColumns+`WHERE {in id $1 BIGINT}`)

	// One walk along the newest announcements that are not over finds the first one after the newest $2. Its position becomes the
	// floor: announcements at or below the floor are out of the list for good, and their rows do not change.
	trimAnnouncements = sql.NewStatement("trim the list of announcements", `UPDATE counters SET value = beyond.position
		FROM (SELECT position FROM announcements WHERE `+listedCondition+` AND ends_at > $1 ORDER BY position DESC LIMIT 1 OFFSET $2) AS beyond
		WHERE name = 'announcement_floor'`)

	// One statement reads one snapshot: the stamp and the version belong to exactly the list and dots beside them.
	readShared = sql.NewStatement("announcements and dots of all users", `
SELECT 0 AS kind, '' AS name, (SELECT value FROM counters WHERE name = 'notices') AS a,
	(SELECT count(*) FROM announcements WHERE position > 0 AND ends_at <= $1) AS b,
	COALESCE((SELECT head FROM log_heads WHERE kind = '`+ChangelogKind+`'), 0) AS c, 0 AS d, 0 AS e
UNION ALL
SELECT 1, '', id, position, segments, ends_at, updated_at FROM announcements WHERE `+listedCondition+` AND ends_at > $1
UNION ALL
SELECT 2, '', 0, ends_at, 0, 0, 0 FROM announcements WHERE position > 0 AND ends_at > $1 AND ends_at < $2 AND NOT (`+listedCondition+`)
UNION ALL
SELECT 3, dot, segment, raised_at, 0, 0, 0 FROM dot_raises
ORDER BY kind, name, b DESC`)
)

// nextStamp raises the announcements' clock and returns its stamp: the present microseconds made odd, or the next odd number
// after the last stamp. Until this transaction ends, all others that change an announcement or raise a dot wait, so that stamps
// are committed in their order. Such changes are rare: a few a second at most.
func nextStamp(ctx context.Context, tx *sql.Tx) (stamp uint64, err error) {
	_, err = tx.One(ctx, raiseClock, []any{tx.Now}, &stamp)
	return stamp, err
}

// insert inserts an announcement. CONFLICT if the ID is taken.
func insert(ctx context.Context, tx *sql.Tx, a Announcement) error {
	inserted, err := tx.Run(ctx, insertAnnouncement, a.ID, a.Title, a.Content, int64(a.Segments), a.CreatedAt, a.UpdatedAt,
		a.StartsAt, endMicros(a.EndsAt), int64(a.Position), a.Withdrawn)
	if err == nil && inserted == 0 {
		err = services.Errorf(services.Conflict, "the announcement id %s is taken", a.ID)
	}
	return err
}

// update writes every field of an announcement but its id and its creation time.
func update(ctx context.Context, tx *sql.Tx, a Announcement) error {
	_, err := tx.Run(ctx, updateAnnouncement, a.ID, a.Title, a.Content, int64(a.Segments), a.UpdatedAt,
		a.StartsAt, endMicros(a.EndsAt), int64(a.Position), a.Withdrawn)
	return err
}

// trimList removes the announcements beyond the newest keep from the list for good. Those that are over or withdrawn do not count
// among the newest. The caller holds the announcements' clock.
func trimList(ctx context.Context, tx *sql.Tx, keep int) error {
	_, err := tx.Run(ctx, trimAnnouncements, tx.Now, keep)
	return err
}

// lock reads an announcement and locks it until this transaction ends. NOT_FOUND if there is none.
func lock(ctx context.Context, tx *sql.Tx, id services.AnnouncementID) (Announcement, error) {
	found, err := scanAnnouncements(ctx, tx.Runner, lockAnnouncement, id)
	if err != nil {
		return Announcement{}, err
	}
	a, ok := found[id]
	if !ok {
		return a, services.Errorf(services.NotFound, "announcementId: there is no %s", globalID(id))
	}
	return a, nil
}

// lastStamp is the last stamp of the announcements' clock.
func lastStamp(ctx context.Context, tx *sql.Tx) (stamp uint64, err error) {
	_, err = tx.One(ctx, readClock, nil, &stamp)
	return stamp, err
}

// Read reads announcements by ID, in any state. An unknown ID is absent.
func Read(ctx context.Context, r sql.Runner, ids []services.AnnouncementID) (map[services.AnnouncementID]Announcement, error) {
	return scanAnnouncements(ctx, r, announcementsByID, sql.Numbers(ids))
}

// logChange logs a change of state that all users share, for the nodes. It is the last step of its transaction, whose first step
// took a stamp of the announcements' clock. key names the changed announcement or dot. The entry has no payload: nodes read the
// whole list, which is one statement and at most 1,000 announcements.
func logChange(ctx context.Context, tx *sql.Tx, key string) error {
	_, err := changelog.AppendLog(ctx, tx, ChangelogKind, key, nil)
	return err
}

// scanAnnouncements runs a statement that selects announcementColumns.
func scanAnnouncements(ctx context.Context, r sql.Runner, st sql.Statement, which any) (map[services.AnnouncementID]Announcement, error) {
	return sql.ReadByKey(ctx, r, st, []any{which}, func(scan sql.Scan, id *services.AnnouncementID, a *Announcement) error {
		var segments, created, updated, starts, ends int64
		err := scan(&a.ID, &a.Title, &a.Content, &segments, &created, &updated, &starts, &ends, &a.Position, &a.Withdrawn)
		a.Segments, a.CreatedAt, a.UpdatedAt = Segments(segments), sql.FromMicros(created), sql.FromMicros(updated)
		*id, a.StartsAt, a.EndsAt = a.ID, sql.FromMicros(starts), endTime(ends)
		return err
	})
}

// Facts are the facts that all users share: the list of announcements and the dots.
type Facts struct {
	ReadAt          time.Time // when the facts were read
	LastChangeStamp uint64    // the announcements' clock at the last change
	LogVersion      uint64    // the version of the changelog at the last change
	EndedCount      uint64    // how many announcements that were ever in the list have ended; one change lowers it by one at most
	// Announcements are the entries of the list that are not over, the newest first, without their texts and their times of creation
	// and start.
	Announcements []Announcement
	// UnlistedEnds are the future ends of announcements that have left the list: EndedCount counts these too when their time comes.
	UnlistedEnds []time.Time
	Dots         []Dot // in the order of their names
}

// readFacts reads the facts that all users share in one snapshot, without announcements that are over.
func readFacts(ctx context.Context, db *sql.DB) (Facts, error) {
	// The time is taken before the statement runs: an announcement that ends in between is in the list, and Memory.makeState omits it.
	facts := Facts{ReadAt: db.Now()}
	err := db.Each(ctx, readShared, []any{facts.ReadAt, int64(neverEnds)}, func(row func(...any) error) error {
		var kind, a, b, c, d, e int64
		var name string
		if err := row(&kind, &name, &a, &b, &c, &d, &e); err != nil {
			return err
		}
		switch kind {
		// The kinds are the parts of readShared. Each has its own meaning of the columns.
		case 0:
			facts.LastChangeStamp, facts.EndedCount, facts.LogVersion = uint64(a), uint64(b), uint64(c)
		case 1:
			facts.Announcements = append(facts.Announcements, Announcement{
				ID: services.AnnouncementID(a), Position: uint64(b), Segments: Segments(c), EndsAt: endTime(d), UpdatedAt: sql.FromMicros(e),
			})
		case 2:
			facts.UnlistedEnds = append(facts.UnlistedEnds, sql.FromMicros(b))
		// Rows of one dot are together, since the statement orders by name.
		default:
			if len(facts.Dots) == 0 || facts.Dots[len(facts.Dots)-1].Name != name {
				facts.Dots = append(facts.Dots, Dot{Name: name})
			}
			dot := &facts.Dots[len(facts.Dots)-1]
			dot.Raises = append(dot.Raises, DotRaise{Target: targetOf(a), Stamp: uint64(b)})
		}
		return nil
	})
	return facts, err
}

// endMicros is an end as stored in SQL. neverEnds sorts after every end, so "not over" is one comparison, in the index's order.
func endMicros(end time.Time) int64 {
	if end.IsZero() {
		return neverEnds
	}
	return sql.Micros(end)
}

// endTime is the reverse of endMicros.
func endTime(us int64) time.Time {
	if us == neverEnds {
		return time.Time{}
	}
	return sql.FromMicros(us)
}
