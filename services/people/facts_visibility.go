package people

import (
	"context"

	"tidings/services"
	"tidings/services/sql"
)

// An author's posts and shows are hidden from a user while the author hides from that user or blocks them. For the user, hidden
// content does not exist: they get the same errors, in the same words, as for an unknown ID. The content of a user who is being
// erased is hidden from everyone.
var hiddenAuthors = sql.NewStatement("authors hidden from a viewer", `
SELECT author FROM hides WHERE {in author $2 BIGINT} AND follower = $1
UNION ALL SELECT blocker FROM blocks WHERE {in blocker $2 BIGINT} AND blocked = $1
UNION ALL SELECT user_number FROM erasures WHERE {in user_number $2 BIGINT} AND user_number > 0`)

// HidesFromCondition is the SQL condition that an author's content is hidden from a viewer: the author hides from the viewer or blocks
// them, or is being erased. author and viewer are each the name of a column or a parameter. Statements that read an author's content for
// a viewer contain the condition.
func HidesFromCondition(author, viewer string) string {
	return "(EXISTS (SELECT 1 FROM hides h WHERE h.author = " + author + " AND h.follower = " + viewer +
		") OR EXISTS (SELECT 1 FROM blocks b WHERE b.blocker = " + author + " AND b.blocked = " + viewer +
		") OR " + beingErasedCondition(author) + ")"
}

// HidWhenPublishedCondition is the SQL condition that an author hides from a viewer or blocks them, and already did when the author
// published an item, whose ID is id: the viewer was never shown the item. It also holds while the author is being erased.
func HidWhenPublishedCondition(author, viewer, id string) string {
	return "(EXISTS (SELECT 1 FROM hides h WHERE h.author = " + author + " AND h.follower = " + viewer + " AND h.made < " + id +
		") OR EXISTS (SELECT 1 FROM blocks b WHERE b.blocker = " + author + " AND b.blocked = " + viewer + " AND b.made < " + id +
		") OR " + beingErasedCondition(author) + ")"
}

// beingErasedCondition is the condition that a user is being erased. It counts rows, because with EXISTS PostgreSQL would read the
// whole index.
func beingErasedCondition(user string) string {
	return "(SELECT count(*) FROM erasures e WHERE e.user_number = " + user + " AND e.user_number > 0) > 0"
}

// hidesFrom returns a row if one author's content is hidden from a viewer. It takes 4 us on SQLite; hiddenAuthors, which has three
// lists of authors, takes 27 us.
var hidesFrom = sql.NewStatement("whether an author hides from a viewer", "SELECT 1 WHERE "+HidesFromCondition("$2", "$1"))

// HiddenOrBlockedCondition is the SQL condition under which a list of users' actions leaves a user out for a viewer: the user hides
// from the viewer or is being erased, or one of the two blocks the other.
func HiddenOrBlockedCondition(user, viewer string) string {
	return "(" + HidesFromCondition(user, viewer) + " OR " + blocksCondition(viewer, user) + ")"
}

// blocksCondition is the condition that a user blocks another.
func blocksCondition(user, other string) string {
	return "EXISTS (SELECT 1 FROM blocks o WHERE o.blocker = " + user + " AND o.blocked = " + other + ")"
}

// HiddenOrBlockedForOwnerCondition is the SQL condition under which a list of users' actions on an owner's object leaves a user out for a
// viewer. If the viewer is the owner, they were notified of the actions, and a gap in the list would reveal that a user hides from them
// or blocks them. So only the viewer's own blocks, and the erasure of a user, leave users out. For other viewers it is
// HiddenOrBlockedCondition.
func HiddenOrBlockedForOwnerCondition(user, viewer, owner string) string {
	return "(CASE WHEN " + owner + " = " + viewer + " THEN " + blocksCondition(viewer, user) + " OR " + beingErasedCondition(user) + " ELSE " + HiddenOrBlockedCondition(user, viewer) + " END)"
}

// HiddenAuthors returns the authors, among some, whose posts and shows are hidden from a viewer, in one statement; an absent author is
// shown. No user is hidden from themselves, so a viewer's own page needs no statement.
func HiddenAuthors(ctx context.Context, r sql.Reader, viewer services.UserID, authors []services.UserID) (map[services.UserID]bool, error) {
	if len(authors) == 0 || len(authors) == 1 && authors[0] == viewer {
		return map[services.UserID]bool{}, nil
	}
	return sql.ReadSet[services.UserID](ctx, r, hiddenAuthors, viewer, authors)
}

// CheckIsAuthor returns the error of a command that only the author of some content may give. err is the error of reading the content.
// argument and name are the argument and the ID by which the actor named the content, and kind is the word for the content in the
// text. The error is NOT_FOUND as in CheckVisible, and FORBIDDEN for another author's content.
func CheckIsAuthor(ctx context.Context, tx *sql.Tx, actor, author services.UserID, err error, argument, name, kind string) error {
	if err = CheckVisible(ctx, tx, actor, author, err, argument, name); err == nil && author != actor {
		err = services.Errorf(services.Forbidden, "%s: %s is not your %s", argument, name, kind)
	}
	return err
}

// CheckVisible returns the error of reading an author's content for a viewer: hidden content gets the same error as content that never
// existed. err is the error of the read; if it is NOT_FOUND, the result has the same text as for hidden content.
func CheckVisible(ctx context.Context, tx *sql.Tx, viewer, author services.UserID, err error, argument, name string) error {
	missing := services.CodeOf(err) == services.NotFound
	if err != nil && !missing {
		return err
	}
	if !missing && author != viewer {
		var one int
		if missing, err = tx.One(ctx, hidesFrom, []any{viewer, author}, &one); err != nil {
			return err
		}
	}
	if missing {
		return services.Errorf(services.NotFound, "%s: there is no %s", argument, name)
	}
	return nil
}

// BlockedEitherWaySQL selects the users among $2 who block the user $1 or are blocked by them. In both cases neither may begin
// anything with the other.
const BlockedEitherWaySQL = `
SELECT blocked FROM blocks WHERE blocker = $1 AND {in blocked $2 BIGINT}
UNION ALL SELECT blocker FROM blocks WHERE {in blocker $2 BIGINT} AND blocked = $1`

var blockedEitherWay = sql.NewStatement("blocks between a user and others", BlockedEitherWaySQL)

// ListBlockedEitherWay lists the users, among others, who block a user or are blocked by that user.
func ListBlockedEitherWay(ctx context.Context, tx *sql.Tx, user services.UserID, others []services.UserID) ([]services.UserID, error) {
	if len(others) == 0 {
		return nil, nil
	}
	return sql.ReadColumn[services.UserID](ctx, tx, blockedEitherWay, user, others)
}

// NoUserError is services.NoUserError for a user ID that the caller named and that exists. The error names the key, as if the user
// did not exist.
func NoUserError(ctx context.Context, tx *sql.Tx, argument string, user services.UserID) error {
	users, err := ByID(ctx, tx.Runner, []services.UserID{user})
	if err != nil {
		return err
	}
	return services.NoUserError(argument, users[user].Key)
}
