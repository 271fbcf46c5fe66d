package notifications

import (
	"context"

	"tidings/services"
	"tidings/services/people"
	"tidings/services/sql"
)

// causeStatements are the statements that read the causes of a category from the facts, with the time of each. byKey reads causes
// by their full key (recipient, subject, actor, object), bySubject every cause of a subject (recipient, subject). A time is in
// microseconds, or an ID that was made then. The last column is true if the cause exists but does not count: its recipient blocks
// its actor, or may not see what the actor published.
type causeStatements struct {
	byKey, bySubject sql.Statement
	timeIsID         bool // the statements return the time as an ID and not in microseconds
}

const (
	// causeRowsWithoutCategory and subjectRows are lists of rows at the beginning of statements. The conditions of the statements
	// call the rows c.
	causeRowsWithoutCategory = `{rows $1 recipient BIGINT, subject BIGINT, actor BIGINT, object BIGINT} AS c`
	subjectRows              = `{rows $1 recipient BIGINT, subject BIGINT} AS c`

	// The subject of likes and comments is a post of the recipient that is not deleted.
	ownPost = `p.id = c.subject AND p.author = c.recipient AND p.deleted_at IS NULL`
	// mentionedAt is an ID of the time of a mention. An edit is never before its post, whatever the clocks say.
	mentionedAt = `CASE WHEN c.since > p.id THEN c.since ELSE p.id END`
	// Users are not notified of their own acts.
	othersLike = `l.liker <> c.recipient`
	// A user who is mentioned in an answer to their own post gets only the mention: one act, one notification.
	othersAnswer = `o.author <> c.recipient AND o.deleted_at IS NULL
		AND 0 = (SELECT count(*) FROM mentions m WHERE m.post = o.id AND m.mentioned = c.recipient)`
)

// blockedByRecipientSQL is an SQL expression: 1 if a cause's recipient blocks the actor, else 0. actor is the name of the actor's
// column. readSupportedCauses scans the expression into supportedCause.hidden.
func blockedByRecipientSQL(actor string) string {
	return "(SELECT count(*) FROM blocks WHERE blocker = c.recipient AND blocked = " + actor + ")"
}

// hiddenFromRecipientSQL is an SQL expression: 1 if a cause's recipient blocks the author, or the author blocks the recipient or hides
// from them; else 0. author is the name of the author's column. It is the rule of people.HiddenAuthors, with the recipient's own blocks
// and without erasures.
func hiddenFromRecipientSQL(author string) string {
	return "CASE WHEN " + blockedByRecipientSQL(author) + " + (SELECT count(*) FROM blocks WHERE blocker = " + author + ` AND blocked = c.recipient)
	+ (SELECT count(*) FROM hides WHERE author = ` + author + " AND follower = c.recipient) > 0 THEN 1 ELSE 0 END"
}

// factsByCategory has the statements of each of Tidings' own categories; a new category adds its two statements here. The lists
// are MATERIALIZED, because with three tables joined at once PostgreSQL may look the likes up by their post alone, which reads
// every like of the post.
var factsByCategory = map[services.Category]causeStatements{
	// A like has no ID, so its time is a column. Only a block by the recipient hides it: a like publishes nothing that its actor
	// could hide.
	services.CategoryLike: {
		byKey: sql.NewStatement("likes that notify", `
WITH liked AS MATERIALIZED (
	SELECT c.recipient, c.subject, c.actor, l.liked_at FROM `+causeRowsWithoutCategory+` CROSS JOIN likes l
	WHERE l.post = c.subject AND l.liker = c.actor AND c.object = 0 AND `+othersLike+`
)
SELECT c.recipient, c.subject, c.actor, 0, c.liked_at, `+blockedByRecipientSQL("c.actor")+` FROM liked c CROSS JOIN posts p WHERE `+ownPost),
		bySubject: sql.NewStatement("all likes of posts that notify", `
WITH own AS MATERIALIZED (
	SELECT c.recipient, c.subject FROM `+subjectRows+` CROSS JOIN posts p WHERE `+ownPost+`
)
SELECT c.recipient, c.subject, l.liker, 0, l.liked_at, `+blockedByRecipientSQL("l.liker")+` FROM own c CROSS JOIN likes l WHERE l.post = c.subject AND `+othersLike),
	},
	// The object is the answer and the subject is its parent: several answers of one actor to one post are several causes.
	services.CategoryComment: {
		timeIsID: true,
		byKey: sql.NewStatement("comments that notify", `
WITH answers AS MATERIALIZED (
	SELECT c.recipient, c.subject, c.actor, c.object FROM `+causeRowsWithoutCategory+` CROSS JOIN posts o
	WHERE o.id = c.object AND o.parent = c.subject AND o.author = c.actor AND `+othersAnswer+`
)
SELECT c.recipient, c.subject, c.actor, c.object, c.object, `+hiddenFromRecipientSQL("c.actor")+` FROM answers c CROSS JOIN posts p WHERE `+ownPost),
		bySubject: sql.NewStatement("all comments on posts that notify", `
WITH own AS MATERIALIZED (
	SELECT c.recipient, c.subject FROM `+subjectRows+` CROSS JOIN posts p WHERE `+ownPost+`
)
SELECT c.recipient, c.subject, o.author, o.id, o.id, `+hiddenFromRecipientSQL("o.author")+` FROM own c CROSS JOIN posts o WHERE o.parent = c.subject AND `+othersAnswer),
	},
	// The subject is the mentioning post, which is the author's and not the recipient's, so ownPost does not hold here. The time is
	// that of the post, or of the edit by which it mentions the recipient.
	services.CategoryMention: {
		timeIsID: true,
		byKey: sql.NewStatement("mentions that notify", `
WITH mentioned AS MATERIALIZED (
	SELECT c.recipient, c.actor, m.post, m.since FROM `+causeRowsWithoutCategory+` CROSS JOIN mentions m
	WHERE m.post = c.subject AND m.mentioned = c.recipient AND c.object = 0
)
SELECT c.recipient, p.id, p.author, 0, `+mentionedAt+`, `+hiddenFromRecipientSQL("p.author")+` FROM mentioned c CROSS JOIN posts p WHERE p.id = c.post AND p.author = c.actor
	AND p.author <> c.recipient AND p.deleted_at IS NULL`),
		bySubject: sql.NewStatement("mentions in posts that notify", `
WITH mentioned AS MATERIALIZED (
	SELECT c.recipient, m.post, m.since FROM `+subjectRows+` CROSS JOIN mentions m WHERE m.post = c.subject AND m.mentioned = c.recipient
)
SELECT c.recipient, p.id, p.author, 0, `+mentionedAt+`, `+hiddenFromRecipientSQL("p.author")+` FROM mentioned c CROSS JOIN posts p WHERE p.id = c.post
	AND p.author <> c.recipient AND p.deleted_at IS NULL`),
	},
	// All follows of a half day are one group, so the subject is 0. The time is the ID of the follow.
	services.CategoryFollow: {
		timeIsID: true,
		byKey: sql.NewStatement("follows that notify", `
SELECT c.recipient, c.subject, f.follower, 0, `+people.FollowedAt+`, `+blockedByRecipientSQL("f.follower")+` FROM `+causeRowsWithoutCategory+` CROSS JOIN follows f
WHERE f.follower = c.actor AND f.followee = c.recipient AND c.subject = 0 AND c.object = 0 AND f.follower <> f.followee`),
		bySubject: sql.NewStatement("all follows that notify", `
SELECT c.recipient, c.subject, f.follower, 0, `+people.FollowedAt+`, `+blockedByRecipientSQL("f.follower")+` FROM `+subjectRows+` CROSS JOIN follows f
WHERE f.followee = c.recipient AND c.subject = 0 AND f.follower <> f.followee`),
	},
	// The cause is the start of a show, for users with a reminder of it. Before the show starts, a reminder supports nothing.
	services.CategoryReminder: {
		byKey: sql.NewStatement("reminders that notify", `
WITH wanted AS MATERIALIZED (
	SELECT c.recipient, c.subject, c.actor FROM `+causeRowsWithoutCategory+` CROSS JOIN reminders m
	WHERE m.show = c.subject AND m.user_number = c.recipient AND c.object = 0
)
SELECT c.recipient, c.subject, s.host, 0, s.started_at, `+hiddenFromRecipientSQL("s.host")+` FROM wanted c CROSS JOIN shows s
WHERE s.id = c.subject AND s.host = c.actor AND s.started_at IS NOT NULL`),
		bySubject: sql.NewStatement("reminders of shows that notify", `
WITH wanted AS MATERIALIZED (
	SELECT c.recipient, c.subject FROM `+subjectRows+` CROSS JOIN reminders m WHERE m.show = c.subject AND m.user_number = c.recipient
)
SELECT c.recipient, c.subject, s.host, 0, s.started_at, `+hiddenFromRecipientSQL("s.host")+` FROM wanted c CROSS JOIN shows s
WHERE s.id = c.subject AND s.started_at IS NOT NULL`),
	},
}

// selectStoredCauses is the end of a statement that begins with rows c, each with some or all columns of a cause's key. It selects the
// stored causes that match the rows.
const selectStoredCauses = `
SELECT n.recipient, n.category, n.subject, n.actor, n.object, n.place, n.bucket, n.standing FROM c CROSS JOIN notification_causes n
WHERE n.recipient = c.recipient AND n.category = c.category AND n.subject = c.subject`

var (
	// storedCausesByKey reads stored causes by their whole key, storedCausesBySubject all stored causes of a subject.
	storedCausesByKey = sql.NewStatement("causes known", `
WITH c AS MATERIALIZED (SELECT * FROM {rows $1 recipient BIGINT, category TEXT, subject BIGINT, actor BIGINT, object BIGINT} AS named)`+
		selectStoredCauses+` AND n.actor = c.actor AND n.object = c.object`)

	storedCausesBySubject = sql.NewStatement("all causes known of subjects", `
WITH c AS MATERIALIZED (SELECT * FROM {rows $1 recipient BIGINT, category TEXT, subject BIGINT} AS named)`+selectStoredCauses)
)

// storedCause is the row of a cause in notification_causes. Its position and half day never change, so that a seen cause stays seen.
type storedCause struct {
	position services.NotificationID // of the cause among all causes of its recipient
	halfDay  int64                   // of its group: the number of the half day since 1970
	counts   bool                    // it counts: the column standing
}

// supportedCause is a cause that exists according to the facts: its time in microseconds, and whether it does not count, because its
// recipient blocks its actor or may not see what the actor published.
type supportedCause struct {
	atMicros int64
	hidden   bool
}

// readSupportedCauses returns the causes that the facts support now. It runs one statement for each category and form (one actor or
// every actor) among the causes, and one statement for all host categories.
func readSupportedCauses(ctx context.Context, tx *sql.Tx, causes []Cause) (map[Cause]supportedCause, error) {
	named, subjects := map[services.Category]sql.RowsParameter{}, map[services.Category]sql.RowsParameter{}
	var hosts sql.RowsParameter
	for _, c := range causes {
		if c.Category.HasHostCategoryForm() {
			// All categories of the host application have one statement.
			hosts = append(hosts, []any{c.Recipient, c.Category, c.Subject, c.Actor, c.Object})
		} else if c.standsForAllActors() {
			subjects[c.Category] = append(subjects[c.Category], []any{c.Recipient, c.Subject})
		} else {
			named[c.Category] = append(named[c.Category], []any{c.Recipient, c.Subject, c.Actor, c.Object})
		}
	}
	supported := make(map[Cause]supportedCause, len(causes))
	// The columns of each statement are the key, then the time, then hidden.
	read := func(category services.Category, facts causeStatements, st sql.Statement, list sql.RowsParameter) error {
		if len(list) == 0 {
			return nil
		}
		return tx.Each(ctx, st, []any{list}, func(scan func(...any) error) error {
			c := Cause{Category: category}
			var is supportedCause
			err := scan(&c.Recipient, &c.Subject, &c.Actor, &c.Object, &is.atMicros, &is.hidden)
			// SortableID.OrderedTime gives IDs of one millisecond different times, in the order of the IDs.
			if facts.timeIsID {
				is.atMicros = sql.Micros(services.SortableID(is.atMicros).OrderedTime())
			}
			supported[c] = is
			return err
		})
	}
	for category, facts := range factsByCategory {
		if err := read(category, facts, facts.byKey, named[category]); err != nil {
			return nil, err
		}
		if err := read(category, facts, facts.bySubject, subjects[category]); err != nil {
			return nil, err
		}
	}
	return supported, readSupportedHostCauses(ctx, tx, hosts, supported)
}

// readStoredCauses returns the stored rows of the causes, standing or not. For a cause of every actor it returns all rows of the
// subject, also those whose fact no longer exists.
func readStoredCauses(ctx context.Context, tx *sql.Tx, causes []Cause) (map[Cause]storedCause, error) {
	var named, subjects sql.RowsParameter
	for _, c := range causes {
		if c.standsForAllActors() {
			subjects = append(subjects, []any{c.Recipient, c.Category, c.Subject})
		} else {
			named = append(named, []any{c.Recipient, c.Category, c.Subject, c.Actor, c.Object})
		}
	}
	// A key has the same fields set here as in the map of supported causes, because applyFacts looks up the keys of each map in the
	// other.
	known := make(map[Cause]storedCause, len(causes))
	// A statement with an empty list would cost a round trip and find nothing.
	read := func(st sql.Statement, list sql.RowsParameter) error {
		if len(list) == 0 {
			return nil
		}
		return tx.Each(ctx, st, []any{list}, func(scan func(...any) error) error {
			var c Cause
			var h storedCause
			err := scan(&c.Recipient, &c.Category, &c.Subject, &c.Actor, &c.Object, &h.position, &h.halfDay, &h.counts)
			known[c] = h
			return err
		})
	}
	if err := read(storedCausesByKey, named); err != nil {
		return nil, err
	}
	return known, read(storedCausesBySubject, subjects)
}
