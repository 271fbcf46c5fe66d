package chat

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/jobs"
	"tidings/services/sql"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// node is the chat service of one node, on real engines.
type node struct {
	*fanouttest.World
	*Service
	fan *fanouttest.Fanout // commits commands and runs jobs
}

// newNode makes the service of a world's node. change may change its configuration, nil does not.
func newNode(w *fanouttest.World, change func(*Config)) node {
	cfg := Config{DB: w.DB, Redis: w.Redis, Changelog: w.Caches.Changelog, Jobs: w.Fanout.Engine, Projector: w.Projector, Clock: w.Clock}
	if change != nil {
		change(&cfg)
	}
	return node{w, New(cfg), w.Fanout}
}

// redisServerNode returns a node on a redis-server, which the test may flush and kill.
func redisServerNode(t *testing.T) node {
	t.Helper()
	return newNode(fanouttest.New(t, fanouttest.Options{}), nil)
}

// commit commits a command, a millisecond later, and returns its error.
func (n node) commit(cmd *jobs.Command) error {
	n.TB.Helper()
	n.Clock.Advance(time.Millisecond)
	return n.fan.Commit(n.TB.Context(), cmd)[0]
}

// mustCommit commits a command that must succeed, and returns the IDs that it made.
func (n node) mustCommit(cmd *jobs.Command, err error) []string {
	n.TB.Helper()
	n.Must(err)
	n.Must(n.commit(cmd))
	return cmd.IDs()
}

// createConversation creates a conversation by its first member.
func (n node) createConversation(kind Kind, members ...services.UserID) services.ConversationID {
	n.TB.Helper()
	id, err := services.ParseConversationID("id", n.mustCommit(n.Create(members[0], kind, "", members[1:]))[0])
	n.Must(err)
	return id
}

// send sends a message and returns its ID. The jobs that it causes do not run yet: runJobs runs them.
func (n node) send(author services.UserID, id services.ConversationID, mentions ...services.UserID) services.MessageID {
	n.TB.Helper()
	message, err := services.ParseMessageID("id", n.mustCommit(n.Send(author, id, "hello", mentions))[0])
	n.Must(err)
	return message
}

// markRead marks a conversation read up to a message; 0 for all.
func (n node) markRead(user services.UserID, id services.ConversationID, upTo services.MessageID) {
	n.TB.Helper()
	n.mustCommit(n.MarkRead(user, id, ReadMark{UpTo: upTo}))
}

// runJobs runs all due jobs, including throttled passes.
func (n node) runJobs() {
	n.TB.Helper()
	for range 3 {
		n.RunDueJobs(n.fan)
		n.Clock.Advance(101 * time.Millisecond)
	}
	n.RunDueJobs(n.fan)
	_, err := n.World.Caches.Changelog.RunOnce(n.TB.Context())
	n.Must(err)
}

// countsFromBadge returns what a user's badge shows: unread messages and mentions. A document that is not ready is
// rebuilt, as its next reader would do.
func (n node) countsFromBadge(user services.UserID) (unread, mentions int) {
	n.TB.Helper()
	document := n.Document(user)
	if !document.Ready {
		n.Must(n.fan.Projector.Rebuild(n.TB.Context(), user))
		document = n.Document(user)
	}
	sums := document.Conversations
	n.Sequences.cacheMissing(n.TB.Context(), sums.CountedOnRead)
	counted := n.Sequences.countOnRead(sums.CountedOnRead, n.Clock.Now())
	if !document.Ready || !counted.Complete || sums.Unread < 0 || sums.Mentions < 0 {
		n.TB.Fatalf("user %d: %+v, %+v", user, document, counted)
	}
	return sums.Unread + counted.Unread, sums.Mentions
}

// countsFromList returns the sums over a user's list of conversations: unread messages and mentions.
func (n node) countsFromList(user services.UserID) (unread, mentions int) {
	n.TB.Helper()
	list, more, err := n.List(n.TB.Context(), user, ListStart, 100)
	n.Must(err)
	if more {
		n.TB.Fatal("too many conversations")
	}
	for _, state := range list {
		mentions += int(state.Membership.UnreadMentions())
		if state.Membership.Muted {
			unread += int(state.Membership.UnreadMentions())
		} else {
			unread += int(state.Membership.Unread())
		}
	}
	return unread, mentions
}

// wantCounts compares a user's badge and list with the expected counts.
func (n node) wantCounts(what string, user services.UserID, unread, mentions int) {
	n.TB.Helper()
	shownUnread, shownMentions := n.countsFromBadge(user)
	listedUnread, listedMentions := n.countsFromList(user)
	if shownUnread != unread || shownMentions != mentions || listedUnread != unread || listedMentions != mentions {
		n.TB.Errorf("%s: user %d is shown %d and %d mentions, their list makes %d and %d, want %d and %d", what, user,
			shownUnread, shownMentions, listedUnread, listedMentions, unread, mentions)
	}
}

// countingWayOf returns how a conversation is counted now.
func (n node) countingWayOf(id services.ConversationID) CountingWay {
	n.TB.Helper()
	sequences, err := SequencesOf(n.TB.Context(), n.World.DB, []services.ConversationID{id})
	n.Must(err)
	return sequences[0].Way
}

// enqueue queues jobs, and does not run them.
func (n node) enqueue(queued ...jobs.NewJob) {
	n.TB.Helper()
	n.Write(func(ctx context.Context, tx *sql.Tx) error { return jobs.Enqueue(ctx, tx, queued...) })
}
