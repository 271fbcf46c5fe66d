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
	States []State
	More   bool // the user has more conversations
	Badges *services.Badges

	unlistedSum uint64 // the sum of the last sequences of the conversations that the badges do not follow
}

// WatchList opens a channel with the conversations of a user that were active last, at most size, including muted ones: first the present
// list, then the list after each change, only the latest for a slow consumer. badges are the user's, from the hub; WatchList waits for the
// first of them. The list is read again only when one of the user's conversations may have changed: when the badges have another version
// of the list or none, or when somebody writes in a large conversation that the badges do not follow, because the user has muted it or
// has it open. The channel is closed when ctx ends and when badges is closed.
func (s *Service) WatchList(ctx context.Context, user services.UserID, size int, badges <-chan *services.Badges) <-chan ListChange {
	changes := make(chan ListChange)
	go func() {
		defer close(changes)
		w := listWatcher{s: s, user: user, size: size, unlisted: s.Sequences.watchMany()}
		// The watch ends only after Derive has returned: from then on no other goroutine uses it.
		defer w.unlisted.follow(nil)
		push.Derive(ctx, changes, badges, w.unlisted.moved, w.readIfChanged, ListChange.same)
	}()
	return changes
}

// listWatcher reads the list of one WatchList.
type listWatcher struct {
	s        *Service
	user     services.UserID
	size     int        // the most conversations in the list
	unlisted *watch     // of the conversations that the badges do not follow: see unlistedOf
	last     ListChange // the list of the last read
}

// readIfChanged reads the list if something that it shows has changed. Only the goroutine of Derive calls it.
func (w *listWatcher) readIfChanged(ctx context.Context, badges *services.Badges) (ListChange, error) {
	next := ListChange{w.last.States, w.last.More, badges, w.unlisted.sum()}
	// Badges change for many reasons. Only a change of the list is worth another read.
	if w.last.Badges != nil && next.listUnchangedSince(w.last) {
		return next, nil
	}
	ids, err := unlistedOf(ctx, w.s.Store, w.user)
	if err != nil {
		return next, err
	}
	// The watched conversations may have changed with the list: a conversation was muted, opened, or left.
	w.unlisted.follow(ids)
	w.s.Sequences.learn(ctx, places(ids))
	next.unlistedSum = w.unlisted.sum() // Read the sum before the list: a change after this is in the list, or the list is read again.
	if next.States, next.More, err = w.s.List(ctx, w.user, FirstPlace, w.size); err != nil {
		return next, err
	}
	w.last = next
	return next, nil
}

// listUnchangedSince reports whether the list that was read for an earlier change, other, is still the list at c: neither its version nor the
// sum over unlisted conversations has changed. A list without a version comes from SQL, or
// from badges that were kept while Redis was away; it may have changed at any time, so it never counts as unchanged.
func (c ListChange) listUnchangedSince(other ListChange) bool {
	return c.unlistedSum == other.unlistedSum && c.Badges.Conversations.List == other.Badges.Conversations.List &&
		c.Badges.Conversations.List != services.ListVersion{}
}

// same reports whether a watcher would see no difference. Of the badges only the conversations matter here.
func (c ListChange) same(other ListChange) bool {
	return c.More == other.More && slices.Equal(c.States, other.States) && c.Badges.Conversations == other.Badges.Conversations
}

// maxUnlisted bounds the conversations that one watcher of a list follows in addition to the conversations in the badges: this node
// reads the head of each of them every half second. Beyond it, changes of a list are seen with the next change of the badges.
const maxUnlisted = 1000

// unlistedConversations finds the conversations that unlistedOf lists. Conversations in TO_READ are included, because during a
// switch some members count on read already. The last active ones come first, in case there are more than the limit.
var unlistedConversations = sql.NewStatement("quiet conversations of a user", `SELECT cv.id
	FROM conversation_members m CROSS JOIN conversations cv
	WHERE m.user_number = $1 AND m.left_at = 0 AND (m.muted OR m.inside) AND cv.id = m.conversation AND cv.way <> 'WRITE'
	ORDER BY cv.last_at DESC, cv.id DESC LIMIT $2`)

// unlistedOf lists the conversations of a user that are counted on read and are not in the user's badges, because the user has
// muted them or has them open.
func unlistedOf(ctx context.Context, db *sql.DB, user services.UserID) (ids []services.ConversationID, err error) {
	return sql.ReadColumn[services.ConversationID](ctx, db, unlistedConversations, user, maxUnlisted)
}

// places makes places of conversations for learn. They have no positions, because learn needs none.
func places(ids []services.ConversationID) []services.ReadSidePlace {
	list := make([]services.ReadSidePlace, len(ids))
	for i, id := range ids {
		list[i].Conversation = id
	}
	return list
}
