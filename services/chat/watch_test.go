package chat

import (
	"context"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/sql"
)

// waitForChange waits for the next change for which fits returns true.
func waitForChange(t *testing.T, changes <-chan ConversationChange, fits func(ConversationChange) bool) ConversationChange {
	t.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	for {
		select {
		case change, open := <-changes:
			if !open {
				t.Fatal("the channel was closed")
			}
			if fits(change) {
				return change
			}
		case <-deadline.C:
			t.Fatal("no such change came")
		}
	}
}

func TestAWatcherSeesMessagesAndOwnChanges(t *testing.T) {
	n := newNode(fanouttest.New(t, fanouttest.Options{RedisURL: "embedded"}), nil)
	users := n.MakeUsers(2)
	group := n.createConversation(Group, users...)
	badges := make(chan *services.Badges, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if _, err := n.Watch(ctx, 999, group, func() (<-chan *services.Badges, error) {
		t.Error("something is opened for who is no member")
		return badges, nil
	}); services.CodeOf(err) != services.NotFound {
		t.Fatalf("a stranger watches: %v", err)
	}
	changes, err := n.Watch(ctx, users[1], group, func() (<-chan *services.Badges, error) { return badges, nil })
	n.Must(err)
	badges <- &services.Badges{Version: "1"}
	first := waitForChange(t, changes, func(ConversationChange) bool { return true })
	if first.State.ID != group || first.Badges.Version != "1" {
		t.Errorf("first: %+v", first)
	}
	n.send(users[0], group)
	waitForChange(t, changes, func(c ConversationChange) bool { return c.State.Membership.Unread() == 1 })
	for range 50 { // written as on another node: this node learns it from SQL
		n.Write(func(ctx context.Context, tx *sql.Tx) error {
			_, _, _, err := insertMessage(ctx, tx, group, users[0], "x", nil)
			return err
		})
	}
	_, err = n.World.Caches.Changelog.RunOnce(t.Context())
	n.Must(err)
	waitForChange(t, changes, func(c ConversationChange) bool { return c.State.Membership.Unread() == 51 })
	n.markRead(users[1], group, 0)
	badges <- &services.Badges{Version: "2"}
	waitForChange(t, changes, func(c ConversationChange) bool { return c.State.Membership.Unread() == 0 && c.Badges.Version == "2" })
	n.mustCommit(n.AddMembers(users[0], group, n.MakeNeverSeenUsers(1)))
	_, err = n.World.Caches.Changelog.RunOnce(t.Context())
	n.Must(err)
	waitForChange(t, changes, func(c ConversationChange) bool { return c.State.Members == 3 })
	n.mustCommit(n.Quit(users[1], group), nil)
	badges <- &services.Badges{Version: "3"}
	if change, open := <-changes; open {
		t.Errorf("who has quit is shown %+v", change)
	}
}

// A read message that is recalled changes no count, but watchers still see the recall: at once on the same node, and after
// the next read of SQL on others.
func TestAWatcherSeesTheRecallOfAReadMessage(t *testing.T) {
	n := newNode(fanouttest.New(t, fanouttest.Options{RedisURL: "embedded"}), nil)
	users := n.MakeUsers(2)
	group := n.createConversation(Group, users...)
	here, elsewhere := n.send(users[0], group), n.send(users[0], group)
	n.markRead(users[1], group, 0)
	badges := make(chan *services.Badges, 1)
	changes, err := n.Watch(t.Context(), users[1], group, func() (<-chan *services.Badges, error) { return badges, nil })
	n.Must(err)
	badges <- &services.Badges{Version: "1"}
	revision := waitForChange(t, changes, func(c ConversationChange) bool { return c.State.Membership.Unread() == 0 }).State.Revision
	n.mustCommit(n.Recall(users[0], here), nil)
	waitForChange(t, changes, func(c ConversationChange) bool {
		return c.State.Revision == revision+1 && c.State.Membership.Unread() == 0
	})
	n.Write(func(ctx context.Context, tx *sql.Tx) error {
		_, _, err := recall(ctx, tx, elsewhere, users[0])
		return err
	})
	_, err = n.World.Caches.Changelog.RunOnce(t.Context())
	n.Must(err)
	waitForChange(t, changes, func(c ConversationChange) bool { return c.State.Revision == revision+2 })
}

func TestAWatchEndsWithItsContextAndWithItsBadges(t *testing.T) {
	n := newNode(fanouttest.New(t, fanouttest.Options{RedisURL: "embedded"}), nil)
	users := n.MakeUsers(2)
	group := n.createConversation(Group, users...)
	ctx, cancel := context.WithCancel(t.Context())
	changes, err := n.Watch(ctx, users[1], group, func() (<-chan *services.Badges, error) { return make(chan *services.Badges), nil })
	n.Must(err)
	cancel()
	if _, open := <-changes; open {
		t.Error("a change after the end")
	}
	badges := make(chan *services.Badges)
	changes, err = n.Watch(t.Context(), users[1], group, func() (<-chan *services.Badges, error) { return badges, nil })
	n.Must(err)
	close(badges)
	if _, open := <-changes; open {
		t.Error("a change after the hub has closed")
	}
}
