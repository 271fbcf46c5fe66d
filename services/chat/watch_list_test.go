package chat

import (
	"context"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/erase"
	"tidings/services/fanout/fanouttest"
	"tidings/services/projector"
	"tidings/services/sql"
)

// waitForListChange waits for a change of a list for which fits returns true.
func waitForListChange(t *testing.T, changes <-chan ListChange, what string, fits func(ListChange) bool) {
	t.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	for {
		select {
		case change, open := <-changes:
			if !open {
				t.Fatal(what + ": the channel was closed")
			}
			if fits(change) {
				return
			}
		case <-deadline.C:
			t.Fatal(what + ": no such change came")
		}
	}
}

// A watcher's list is read from SQL again when their badges have another version of the list or none, and not when another part of
// the badges changed.
func TestAListIsReadOnlyWhenOneOfItsConversationsChanged(t *testing.T) {
	n := newNode(fanouttest.New(t, fanouttest.Options{RedisURL: "embedded"}), nil)
	users := n.MakeUsers(2)
	group := n.createConversation(Group, users...)
	badges := make(chan *services.Badges)
	changes := n.WatchList(t.Context(), users[1], 20, badges)
	shows := func(what, version string, list uint64, total, unread int) {
		t.Helper()
		state := &services.Badges{Version: version}
		state.Conversations.List.DocumentVersion, state.Conversations.Total.Value = list, total
		badges <- state
		waitForListChange(t, changes, what, func(c ListChange) bool {
			if c.Badges.Version == version && (len(c.States) != 1 || c.States[0].Membership.Unread() != int64(unread)) {
				t.Fatalf("%s: the list is %+v, want %d unread", what, c.States, unread)
			}
			return c.Badges.Version == version
		})
	}
	shows("at once", "1", 7, 0, 0)
	n.Write(func(ctx context.Context, tx *sql.Tx) error {
		_, _, _, err := insertMessage(ctx, tx, group, users[0], "hello", nil)
		return err
	})
	shows("something else", "2", 7, 5, 0)
	shows("a conversation", "3", 8, 6, 1)
	n.Write(func(ctx context.Context, tx *sql.Tx) error {
		_, _, _, err := insertMessage(ctx, tx, group, users[0], "hello", nil)
		return err
	})
	shows("badges that do not know the list", "4", 0, 7, 2)
}

// The version of the list changes with everything that the list shows, also with messages in muted conversations, the user's own
// messages, and marks. It changes with nothing else, so that a pass that projects the same states again causes no read.
func TestTheVersionOfAListChangesWithWhatTheListShows(t *testing.T) {
	n := redisServerNode(t)
	users := n.MakeUsers(2)
	group, other := n.createConversation(Group, users...), n.createConversation(Group, users...)
	version := func() uint64 {
		t.Helper()
		n.runJobs()
		n.countsFromBadge(users[1])
		return n.Document(users[1]).Conversations.Version
	}
	var earlier, newest services.MessageID
	last := version()
	for _, step := range []struct {
		what    string
		do      func()
		changes bool
	}{
		{"a message", func() { n.send(users[0], group) }, true},
		{"the same projected again", func() { n.enqueue(n.projectJob(group)) }, false},
		{"a projection of all its states", func() { n.enqueue(projectAllAndSwitchJob(group)) }, false},
		{"the mark", func() { n.markRead(users[1], group, 0) }, true},
		{"a mute", func() { n.mustCommit(n.Mute(users[1], group, true), nil) }, true},
		{"a message in a muted conversation", func() { n.send(users[0], group) }, true},
		{"its mark", func() { n.markRead(users[1], group, 0) }, true},
		{"the user's own message", func() { n.send(users[1], group) }, true},
		{"two messages that are read", func() {
			earlier, newest = n.send(users[0], group), n.send(users[0], group)
			n.markRead(users[1], group, 0)
		}, true},
		{"the recall of a read message", func() { n.mustCommit(n.Recall(users[0], earlier), nil) }, false},
		{"the recall of the last message, which is read", func() { n.mustCommit(n.Recall(users[0], newest), nil) }, true},
		{"its second recall", func() { n.mustCommit(n.Recall(users[0], newest), nil) }, false},
		{"the user's own message after it", func() { newest = n.send(users[1], group) }, true},
		{"its recall, on another device", func() { n.mustCommit(n.Recall(users[1], newest), nil) }, true},
		{"a last message that is read and recalled", func() {
			newest = n.send(users[0], group)
			n.markRead(users[1], group, 0)
			n.mustCommit(n.Recall(users[0], newest), nil)
		}, true},
		{"the erasure of its author", func() {
			n.Write(func(ctx context.Context, tx *sql.Tx) error {
				_, err := n.eraseConversation(ctx, tx, erase.StepPosition{User: users[0]})
				return err
			})
		}, true},
		{"a second conversation opened", func() { n.mustCommit(n.Enter(users[1], other, "phone"), nil) }, true},
		{"a message in an open conversation", func() { n.send(users[0], other) }, true},
		{"quitting", func() { n.mustCommit(n.Quit(users[1], other), nil) }, true},
		{"a message after quitting", func() { n.send(users[0], other) }, false},
		{"a new conversation", func() { n.createConversation(Group, users...) }, true},
	} {
		step.do()
		now := version()
		if now != last != step.changes {
			t.Errorf("%s: the version went from %d to %d, a change should be %t", step.what, last, now, step.changes)
		}
		last = now
	}
}

// A message that leaves the count by its age changes the unread messages that the list shows.
func TestTheVersionOfAListChangesWhenAMessageExpires(t *testing.T) {
	n := newNode(fanouttest.New(t, fanouttest.Options{Projector: func(c *projector.Config) {
		c.Expiry = services.SourceExpiry{services.SourceConversations: 1}
	}}), nil)
	users := n.MakeUsers(2)
	group := n.createConversation(Group, users...)
	n.send(users[0], group)
	n.runJobs()
	n.countsFromBadge(users[1])
	before := n.Document(users[1]).Conversations
	n.Clock.Advance(3 * 24 * time.Hour)
	n.enqueue(n.projectJob(group))
	n.runJobs()
	after := n.Document(users[1]).Conversations
	if before.Unread != 1 || after.Unread != 0 {
		t.Fatalf("%d messages are unread, and %d after three days", before.Unread, after.Unread)
	}
	if after.Version == before.Version {
		t.Error("the version of the list did not change")
	}
}

// A conversation that is counted when read is in no document while it is muted or open. Its messages still reach the watchers of a
// list.
func TestAListShowsMessagesInMutedConversationsCountedWhenRead(t *testing.T) {
	n := newNode(fanouttest.New(t, fanouttest.Options{RedisURL: "embedded"}), func(c *Config) { c.MaxMembersCountedOnWrite = 1 })
	users := n.MakeUsers(2)
	muted, open := n.createConversation(Room, users...), n.createConversation(Room, users...)
	n.runJobs()
	if n.countingWayOf(muted) != OnRead {
		t.Fatal("the conversation is counted when written")
	}
	n.mustCommit(n.Mute(users[1], muted, true), nil)
	n.mustCommit(n.Enter(users[1], open, "phone"), nil)
	badges := make(chan *services.Badges, 1)
	ctx, cancel := context.WithCancel(t.Context())
	changes := n.WatchList(ctx, users[1], 20, badges)
	state := &services.Badges{Version: "1"}
	state.Conversations.List.DocumentVersion = 7
	badges <- state
	waitForListChange(t, changes, "at once", func(ListChange) bool { return true })
	for _, id := range []services.ConversationID{muted, open} {
		n.Write(func(ctx context.Context, tx *sql.Tx) error { // by another node
			_, _, _, err := insertMessage(ctx, tx, id, users[0], "hello", nil)
			return err
		})
		_, err := n.World.Caches.Changelog.RunOnce(t.Context())
		n.Must(err)
		waitForListChange(t, changes, "a message", func(c ListChange) bool { return c.States[0].ID == id && c.States[0].NewestNumber == 1 })
		n.send(users[0], id) // by this node, which knows at once
		waitForListChange(t, changes, "a message of this node", func(c ListChange) bool { return c.States[0].ID == id && c.States[0].NewestNumber == 2 })
	}
	cancel()
	for range changes {
		continue // until the watcher has ended
	}
	n.Sequences.mu.Lock()
	defer n.Sequences.mu.Unlock()
	if len(n.Sequences.watchers) != 0 {
		t.Errorf("after the end %d conversations are watched", len(n.Sequences.watchers))
	}
}
