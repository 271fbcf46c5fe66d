package resolvers

import (
	"context"
	"errors"
	"testing"
	"time"

	"tidings/dataloader"
	"tidings/graph"
	"tidings/services"
	"tidings/services/jobs"
)

// eachClockOffset runs a test for two events of now, that is, events whose time is the present: one that arrives in its own millisecond,
// and one of a host application whose clock is ahead. The test gets by how much that clock is ahead.
func eachClockOffset(t *testing.T, test func(a *testAPI, ahead time.Duration)) {
	t.Helper()
	for name, ahead := range map[string]time.Duration{"exact": 0, "ahead": 30 * time.Second} {
		t.Run(name, func(t *testing.T) {
			test(newAPI(t), ahead)
		})
	}
}

// uncommittedEventCommand makes the command of an event of now, as a request does that has read the event and has not committed it yet.
// ahead is by how much the event's time is after the server's.
func (a *testAPI) uncommittedEventCommand(as string, ahead time.Duration, do graph.IngestAction) (context.Context, *jobs.Command) {
	a.t.Helper()
	ctx := services.WithViewer(a.t.Context(), services.Viewer{Scopes: []services.Scope{services.ScopeIngest}})
	ctx = dataloader.With(withCreatingUsers(ctx), a.resolver.Readers)
	at := a.Clock.Now().Add(ahead)
	cmd, err := ingestCommand(ctx, &operationCall{r: a.resolver}, &graph.IngestEvent{As: &as, At: &at, Do: do})
	a.Must(err)
	return ctx, cmd
}

// A batch is committed some time after its events were read. An event of now still sorts before an event that happens in the time
// between.
func TestAnEventSortsByItsTimeAndNotByItsCommit(t *testing.T) {
	eachClockOffset(t, func(a *testAPI, ahead time.Duration) {
		ctx, cmd := a.uncommittedEventCommand("user:alice", ahead, graph.IngestAction{PublishPost: &graph.PublishPostInput{Body: "1"}})
		a.Clock.Advance(10 * time.Millisecond)
		a.Must(errors.Join(a.Fanout.CommitInOrder(ctx, cmd)...))
		a.mustIngestPastEvent(5*time.Millisecond, publishPostEvent("alice", "2"))
		if bodies, _ := a.feedOf("alice"); bodies != "21" {
			a.t.Errorf("the feed shows %s, newest first, want 21", bodies)
		}
	})
}

// An event of now is not late: a message is taken although the conversation went on before the commit.
func TestAnUndatedMessageIsNeverLate(t *testing.T) {
	eachClockOffset(t, func(a *testAPI, ahead time.Duration) {
		group := a.mustIngestPastEvent(time.Hour, event{"createConversation": event{"as": "user:alice", "kind": "GROUP", "memberIds": []string{"user:bob"}}})
		ctx, cmd := a.uncommittedEventCommand("user:alice", ahead, graph.IngestAction{SendMessage: &graph.SendMessageInput{ConversationID: group, Body: "1"}})
		a.Clock.Advance(10 * time.Millisecond)
		a.must("bob", `mutation($id: ID!) { sendMessage(input: {conversationId: $id, body: "2"}) { message { id } } }`, map[string]any{"id": group})
		if err := errors.Join(a.Fanout.CommitInOrder(ctx, cmd)...); err != nil {
			a.t.Errorf("a message of now, after another one: %v", err)
		}
	})
}

// An event of now marks all that there is, also what came between its reading and its commit.
func TestAnUndatedMarkCoversAllUntilItsCommit(t *testing.T) {
	eachClockOffset(t, func(a *testAPI, ahead time.Duration) {
		a.mustIngestPastEvent(time.Hour, event{"follow": event{"as": "user:bob", "userId": "user:alice"}})
		ctx, cmd := a.uncommittedEventCommand("user:bob", ahead, graph.IngestAction{MarkHomeFeedSeen: &graph.MarkHomeFeedSeenInput{}})
		a.Clock.Advance(10 * time.Millisecond)
		a.publishPost("alice")
		a.RunDueJobs(a.Fanout)
		if _, unread := a.feedOf("bob"); unread != 1.0 {
			a.t.Fatalf("%v posts are unread before the mark, want 1", unread)
		}
		a.Must(errors.Join(a.Fanout.CommitInOrder(ctx, cmd)...))
		if _, unread := a.feedOf("bob"); unread != 0.0 {
			a.t.Errorf("%v posts are unread after a mark of all", unread)
		}
	})
}
