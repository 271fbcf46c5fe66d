package store

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"time"

	"tidings/services"
)

// Cause names why a notification may stand: an actor did something with a subject of the recipient's. Actor 0 is
// every actor of that subject.
type Cause struct {
	Recipient services.UserNumber
	Category  services.Category
	Subject   services.PostID
	Actor     services.UserNumber
}

// groupSpan is how long causes of one subject gather in one group, counted from 1970 on. It divides a day, so that a
// group belongs to one day.
const groupSpan = 12 * time.Hour

// bucketsPerDay is how many groups of one subject a day can have.
const bucketsPerDay = int64(24 * time.Hour / groupSpan)

// A like l notifies the recipient of c while it is there and both of these hold: it is somebody else's, and its
// post p is the recipient's and not deleted. Count and list both come from them.
const (
	othersLike = `l.liker <> c.recipient`
	ownPost    = `p.id = c.subject AND p.author = c.recipient AND p.deleted_at IS NULL`
)

// lowerWrong ends an update of the causes that c names. A count is looked up for each cause; NOT EXISTS would be
// planned as a join, which may read all the likes of a post for each of its causes. And a plain "standing" would
// let both planners walk notification_causes_unseen instead of looking the causes up.
const lowerWrong = ` AND CASE WHEN notification_causes.standing THEN 1 ELSE 0 END = 1 AND 0 = (
	SELECT count(*) FROM likes l CROSS JOIN posts p
	WHERE l.post = notification_causes.subject AND l.liker = notification_causes.actor AND ` + othersLike + ` AND ` + ownPost + `)
RETURNING notification_causes.recipient, notification_causes.category`

// raiseMissing follows a table of facts and lists those without a standing cause.
const raiseMissing = ` SELECT facts.recipient, facts.category, facts.subject, facts.actor, facts.liked_at, n.place
FROM facts LEFT JOIN notification_causes n
	ON n.recipient = facts.recipient AND n.category = facts.category AND n.subject = facts.subject AND n.actor = facts.actor
WHERE n.standing IS NULL OR n.standing = FALSE`

var (
	// An upsert locks the row whether it is there or not, in the order of the rows given.
	lockStates = newStatement("lock notification states", `
INSERT INTO notification_state AS s (recipient, category, ver, head, seen)
SELECT recipient, category, 0, 0, 0 FROM {rows $1 n BIGINT, recipient BIGINT, category TEXT} AS c WHERE TRUE ORDER BY n
ON CONFLICT (recipient, category) DO UPDATE SET ver = s.ver
RETURNING recipient, category, ver, head, seen`)

	lowerCauses = newStatement("lower causes", `
UPDATE notification_causes SET standing = FALSE
FROM {rows $1 recipient BIGINT, category TEXT, subject BIGINT, actor BIGINT} AS c
WHERE notification_causes.recipient = c.recipient AND notification_causes.category = c.category
	AND notification_causes.subject = c.subject AND notification_causes.actor = c.actor`+lowerWrong)

	lowerSubjects = newStatement("lower all causes of subjects", `
UPDATE notification_causes SET standing = FALSE
FROM {rows $1 recipient BIGINT, category TEXT, subject BIGINT} AS c
WHERE notification_causes.recipient = c.recipient AND notification_causes.category = c.category
	AND notification_causes.subject = c.subject`+lowerWrong)

	// Of three tables joined at once PostgreSQL may look the likes up by their post alone.
	causesToRaise = newStatement("causes to raise", `
WITH liked AS MATERIALIZED (
	SELECT c.recipient, c.category, c.subject, c.actor, l.liked_at
	FROM {rows $1 recipient BIGINT, category TEXT, subject BIGINT, actor BIGINT} AS c CROSS JOIN likes l
	WHERE l.post = c.subject AND l.liker = c.actor AND `+othersLike+`
), facts AS MATERIALIZED (
	SELECT c.* FROM liked c CROSS JOIN posts p WHERE `+ownPost+`
)`+raiseMissing)

	subjectsToRaise = newStatement("all causes of subjects to raise", `
WITH own AS MATERIALIZED (
	SELECT c.* FROM {rows $1 recipient BIGINT, category TEXT, subject BIGINT} AS c CROSS JOIN posts p WHERE `+ownPost+`
), facts AS MATERIALIZED (
	SELECT c.recipient, c.category, c.subject, l.liker AS actor, l.liked_at
	FROM own c CROSS JOIN likes l WHERE l.post = c.subject AND `+othersLike+`
)`+raiseMissing)

	insertCauses = newInsertion("insert causes", "notification_causes",
		"recipient BIGINT, category TEXT, subject BIGINT, actor BIGINT, place BIGINT, bucket BIGINT, at BIGINT, standing BOOLEAN", "")

	restoreCauses = newStatement("restore causes", `
UPDATE notification_causes SET standing = TRUE
FROM {rows $1 recipient BIGINT, category TEXT, subject BIGINT, actor BIGINT} AS c
WHERE notification_causes.recipient = c.recipient AND notification_causes.category = c.category AND notification_causes.subject = c.subject AND notification_causes.actor = c.actor`)

	raiseVersions = newStatement("raise notification versions", `
UPDATE notification_state AS s SET ver = s.ver + 1, head = c.head, seen = c.seen
FROM {rows $1 recipient BIGINT, category TEXT, head BIGINT, seen BIGINT} AS c
WHERE s.recipient = c.recipient AND s.category = c.category`)
)

// inbox is one (recipient, category).
type inbox struct {
	recipient services.UserNumber
	category  services.Category
}

func (a inbox) compare(b inbox) int {
	return cmp.Or(cmp.Compare(a.recipient, b.recipient), cmp.Compare(a.category, b.category))
}

// mark is the locked row of an inbox, and whether this transaction changes it.
type mark struct {
	head, seen services.PostID
	changed    bool
}

// raised is a cause that shall stand and does not. place is its old one, if it ever stood.
type raised struct {
	Cause
	at    int64
	place sql.NullInt64
}

// ApplyCauses brings the notifications that the causes name in line with the facts as they are now, whatever
// happened before and however often it is called: a like notifies while it stands and its post does. A new cause
// gets the next place of its recipient; one that comes back gets its old place and group, so that what was seen
// stays seen. The version of an inbox rises by one if anything in it changed. It returns the state of every
// (recipient, category) named, changed or not, in their order.
func (tx *Tx) ApplyCauses(ctx context.Context, causes []Cause) ([]NotificationState, error) {
	marks, order, err := tx.lockInboxes(ctx, causes)
	if err != nil {
		return nil, err
	}
	var pairs, subjects rows
	for _, cause := range distinct(causes) {
		if cause.Actor == 0 {
			subjects = append(subjects, []any{cause.Recipient, cause.Category, cause.Subject})
		} else {
			pairs = append(pairs, []any{cause.Recipient, cause.Category, cause.Subject, cause.Actor})
		}
	}
	var missing []raised
	if len(pairs) > 0 {
		if missing, err = tx.compareCauses(ctx, lowerCauses, causesToRaise, pairs, marks); err != nil {
			return nil, err
		}
	}
	if len(subjects) > 0 {
		more, err := tx.compareCauses(ctx, lowerSubjects, subjectsToRaise, subjects, marks)
		if err != nil {
			return nil, err
		}
		missing = append(missing, more...)
	}
	if err := tx.raiseCauses(ctx, missing, marks); err != nil {
		return nil, err
	}
	if err := tx.raiseVersions(ctx, order, marks); err != nil {
		return nil, err
	}
	return tx.statesOf(ctx, order)
}

func distinct(causes []Cause) []Cause {
	causes = slices.Clone(causes)
	slices.SortFunc(causes, func(a, b Cause) int {
		return cmp.Or(cmp.Compare(a.Recipient, b.Recipient), cmp.Compare(a.Category, b.Category),
			cmp.Compare(a.Subject, b.Subject), cmp.Compare(a.Actor, b.Actor))
	})
	return slices.Compact(causes)
}

// lockInboxes locks the states of the causes, in one order for everybody: two transactions that share some of
// them wait for each other and never around a circle. What is read after it includes all that the former holder did.
func (tx *Tx) lockInboxes(ctx context.Context, causes []Cause) (map[inbox]*mark, []inbox, error) {
	var order []inbox
	for _, cause := range causes {
		order = append(order, inbox{cause.Recipient, cause.Category})
	}
	slices.SortFunc(order, inbox.compare)
	order = slices.Compact(order)
	list := make(rows, len(order))
	for i, box := range order {
		list[i] = []any{i, box.recipient, box.category}
	}
	marks := make(map[inbox]*mark, len(order))
	if len(order) == 0 {
		return marks, nil, nil
	}
	err := tx.each(ctx, lockStates, []any{list}, func(scan func(...any) error) error {
		var box inbox
		var version uint64
		var m mark
		err := scan(&box.recipient, &box.category, &version, &m.head, &m.seen)
		marks[box] = &m
		return err
	})
	return marks, order, err
}

// compareCauses lowers what stands and should not, and lists what should stand and does not.
func (tx *Tx) compareCauses(ctx context.Context, lower, raise statement, named rows, marks map[inbox]*mark) ([]raised, error) {
	err := tx.each(ctx, lower, []any{named}, func(scan func(...any) error) error {
		var box inbox
		if err := scan(&box.recipient, &box.category); err != nil {
			return err
		}
		marks[box].changed = true
		return nil
	})
	if err != nil {
		return nil, err
	}
	var missing []raised
	err = tx.each(ctx, raise, []any{named}, func(scan func(...any) error) error {
		var r raised
		err := scan(&r.Recipient, &r.Category, &r.Subject, &r.Actor, &r.at, &r.place)
		missing = append(missing, r)
		return err
	})
	return missing, err
}

// raiseCauses makes the causes stand, in the order in which they happened.
func (tx *Tx) raiseCauses(ctx context.Context, missing []raised, marks map[inbox]*mark) error {
	slices.SortFunc(missing, func(a, b raised) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.Subject, b.Subject), cmp.Compare(a.Actor, b.Actor),
			cmp.Compare(a.Recipient, b.Recipient), cmp.Compare(a.Category, b.Category))
	})
	missing = slices.CompactFunc(missing, func(a, b raised) bool { return a.Cause == b.Cause }) // named alone and by its subject
	var back rows
	var fresh [][]any
	for _, r := range missing {
		m := marks[inbox{r.Recipient, r.Category}]
		m.changed = true
		if r.place.Valid {
			back = append(back, []any{r.Recipient, r.Category, r.Subject, r.Actor})
			continue
		}
		m.head = max(m.head+1, services.PostIDAt(tx.Now))
		fresh = append(fresh, []any{r.Recipient, r.Category, r.Subject, r.Actor, m.head, bucketOf(r.at), r.at, true})
	}
	if len(back) > 0 {
		if _, err := tx.run(ctx, restoreCauses, back); err != nil {
			return err
		}
	}
	_, err := tx.insert(ctx, insertCauses, fresh)
	return err
}

// bucketOf is the half day of a time.
func bucketOf(us int64) int64 { return us / groupSpan.Microseconds() }

func (tx *Tx) raiseVersions(ctx context.Context, order []inbox, marks map[inbox]*mark) error {
	var changed rows
	for _, box := range order {
		if m := marks[box]; m.changed {
			changed = append(changed, []any{box.recipient, box.category, m.head, m.seen})
		}
	}
	if len(changed) == 0 {
		return nil
	}
	_, err := tx.run(ctx, raiseVersions, changed)
	return err
}

// RaiseNotificationsSeen says that a user has seen a category up to a place, 0 for all there is. The mark only
// grows, and the version rises by one if it did. INVALID for a place that was not given yet: it would hide what
// is to come.
func (tx *Tx) RaiseNotificationsSeen(ctx context.Context, user services.UserNumber, category services.Category, upTo services.PostID) (NotificationState, error) {
	marks, order, err := tx.lockInboxes(ctx, []Cause{{Recipient: user, Category: category}})
	if err != nil {
		return NotificationState{}, err
	}
	m := marks[order[0]]
	if upTo > m.head {
		return NotificationState{}, services.Errorf(services.Invalid, "upTo: %s is beyond the newest notification of %s, %s", upTo, category, m.head)
	}
	if upTo == 0 {
		upTo = m.head
	}
	if upTo > m.seen {
		m.seen, m.changed = upTo, true
	}
	if err := tx.raiseVersions(ctx, order, marks); err != nil {
		return NotificationState{}, err
	}
	states, err := tx.statesOf(ctx, order)
	if err != nil {
		return NotificationState{}, err
	}
	return states[0], nil
}
