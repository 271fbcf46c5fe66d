package chat

import (
	"context"
	"slices"

	"tidings/services"
	"tidings/services/push"
	"tidings/services/sql"
)

// ListChange is the first page of a member's conversations, with the member's badges.
type ListChange struct {
	States []MemberState
	More   bool // the user has more conversations
	Badges *services.Badges

	notInBadgesSequenceSum uint64 // the sum of the last sequences of the conversations that the badges do not follow
}

// WatchList opens a channel with the conversations of a user that were active last, at most size, including muted ones: first the
// present list, then the list after each change, only the latest for a slow consumer. badges are the user's, from the hub (push.Hub);
// WatchList waits for the first of them. The list is read again only when one of the user's conversations may have changed: when
// the badges have another version of the list or none, or when somebody writes in a large conversation that the badges do not
// follow, because the user has muted it or has it open. The channel is closed when ctx ends and when badges is closed.
func (s *Service) WatchList(ctx context.Context, user services.UserID, size int, badges <-chan *services.Badges) <-chan ListChange {
	changes := make(chan ListChange)
	go func() {
		defer close(changes)
		w := listWatcher{service: s, user: user, size: size, notInBadges: s.Sequences.newWatch()}
		// The watch ends only after SendDerivedStates has returned: from then on no other goroutine uses it.
		defer w.notInBadges.watchOnly(nil)
		push.SendDerivedStates(ctx, changes, badges, w.notInBadges.moved, w.readIfChanged, ListChange.same)
	}()
	return changes
}

// listWatcher reads the list for one call of WatchList.
type listWatcher struct {
	service     *Service
	user        services.UserID
	size        int            // the most conversations in the list
	notInBadges *sequenceWatch // watches the conversations counted on read that are not in the badges: those muted or open
	last        ListChange     // the list of the last read
}

// readIfChanged reads the list if something that it shows has changed. Only the goroutine of SendDerivedStates calls it.
func (w *listWatcher) readIfChanged(ctx context.Context, badges *services.Badges) (ListChange, error) {
	next := ListChange{w.last.States, w.last.More, badges, w.notInBadges.sequenceSum()}
	// Badges change for many reasons. Only a change of the list is worth another read.
	if w.last.Badges != nil && next.listUnchangedSince(w.last) {
		return next, nil
	}
	ids, err := readNotInBadges(ctx, w.service.DB, w.user)
	if err != nil {
		return next, err
	}
	// The watched conversations may have changed with the list: a conversation was muted, opened, or left.
	w.notInBadges.watchOnly(ids)
	w.service.Sequences.cacheMissing(ctx, countedOnReadPositions(ids))
	next.notInBadgesSequenceSum = w.notInBadges.sequenceSum() // Read the sum before the list: a change after this is in the list, or the list is read again.
	if next.States, next.More, err = w.service.List(ctx, w.user, ListStart, w.size); err != nil {
		return next, err
	}
	w.last = next
	return next, nil
}

// listUnchangedSince reports whether the list that was read for an earlier change, other, is still the list at c: neither its
// version nor notInBadgesSequenceSum has changed. A list without a version comes from SQL, or from badges that were kept while
// Redis was away; it may have changed at any time, so it never counts as unchanged.
func (c ListChange) listUnchangedSince(other ListChange) bool {
	return c.notInBadgesSequenceSum == other.notInBadgesSequenceSum && c.Badges.Conversations.List == other.Badges.Conversations.List &&
		c.Badges.Conversations.List != services.ConversationListVersion{}
}

// same reports whether a watcher would see no difference. Of the badges only the conversations matter here.
func (c ListChange) same(other ListChange) bool {
	return c.More == other.More && slices.Equal(c.States, other.States) && c.Badges.Conversations == other.Badges.Conversations
}

// maxConversationsNotInBadges bounds the conversations that one watcher of a list follows in addition to the conversations in the
// badges: this node reads the last sequence of each of them every half second. Beyond it, changes of a list are seen with the next change of
// the badges.
const maxConversationsNotInBadges = 1000

// conversationsNotInBadges finds the conversations that readNotInBadges lists. Conversations in TO_READ are included, because during a
// switch some members count on read already. The last active ones come first, in case there are more than the limit.
var conversationsNotInBadges = sql.NewStatement("quiet conversations of a user", `SELECT cv.id
	FROM conversation_members m CROSS JOIN conversations cv
	WHERE m.user_number = $1 AND m.left_at = 0 AND (m.muted OR m.inside) AND cv.id = m.conversation AND cv.way <> 'WRITE'
	ORDER BY cv.last_at DESC, cv.id DESC LIMIT $2`)

// readNotInBadges lists the conversations of a user that are counted on read and are not in the user's badges, because the user has
// muted them or has them open.
func readNotInBadges(ctx context.Context, db *sql.DB, user services.UserID) (ids []services.ConversationID, err error) {
	return sql.ReadColumn[services.ConversationID](ctx, db, conversationsNotInBadges, user, maxConversationsNotInBadges)
}

// countedOnReadPositions puts conversations into the form that cacheMissing takes. How far they are read is left out, because
// cacheMissing does not need it.
func countedOnReadPositions(ids []services.ConversationID) []services.CountedOnReadPosition {
	list := make([]services.CountedOnReadPosition, len(ids))
	for i, id := range ids {
		list[i].Conversation = id
	}
	return list
}
