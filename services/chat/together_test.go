package chat

import (
	"testing"

	"tidings/services/jobs"
)

// One projection serves all commands of a member that are committed together. Each kind of command that changes the conversation
// still wakes its watchers: they do not wait for the next read of SQL.
func TestCommandsCommittedTogetherWakeTheWatchers(t *testing.T) {
	n := redisServerNode(t)
	users := n.MakeUsers(2)
	ada, bob := users[0], users[1]
	id := n.createConversation(Group, ada, bob)
	theirs, own := n.send(bob, id), n.send(ada, id)
	moved, forget := n.Sequences.watchConversation(id)
	defer forget()
	for _, test := range []struct {
		name     string
		together func() []*jobs.Command
	}{
		{"a message and a mark", func() []*jobs.Command {
			return []*jobs.Command{must(n.Send(ada, id, "hello", nil)), n.Service.MarkUnread(ada, theirs)}
		}},
		{"a recall and a mark", func() []*jobs.Command {
			return []*jobs.Command{n.Recall(ada, own), must(n.MarkRead(ada, id, ReadMark{UpTo: theirs})), n.Service.MarkUnread(ada, theirs)}
		}},
	} {
		n.Must(n.Sequences.refresh(t.Context()))
		select { // drop the token of an earlier change
		case <-moved:
		default:
		}
		for _, err := range n.fan.Commit(t.Context(), test.together()...) {
			n.Must(err)
		}
		select {
		case <-moved:
		default:
			t.Errorf("%s: the watchers were not woken", test.name)
		}
	}
}
