package resolvers

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/executor"

	"tidings/dataloader"
	"tidings/graph"
	"tidings/services"
)

// unreadableBadges is a BadgeService that cannot read badges. After its commit, a mutation reads the badges first. That read fails, and
// calls cancelReads, which makes every later read of the mutation fail too.
type unreadableBadges struct {
	BadgeService
	cancelReads func() // cancels the context of the mutation
}

// Read fails, and makes all later reads fail.
func (c unreadableBadges) Read(context.Context, services.UserID) (*services.Badges, error) {
	c.cancelReads()
	return nil, &services.Error{Code: services.Unavailable, Message: "nothing answers"}
}

// ReadFacts fails in the same way.
func (c unreadableBadges) ReadFacts(ctx context.Context, user services.UserID) (*services.Badges, error) {
	return c.Read(ctx, user)
}

// askWithReadsFailingAfterCommit runs a mutation of a viewer in which every read after the commit fails.
func (a *testAPI) askWithReadsFailingAfterCommit(key, query string, variables map[string]any) apiAnswer {
	a.t.Helper()
	ctx, cut := context.WithCancel(a.t.Context())
	defer cut()
	resolver := *a.resolver
	resolver.Badge = unreadableBadges{a.resolver.Badge, cut}
	exec := executor.New(WithHotOperations(graph.NewExecutableSchema(graph.Config{Resolvers: &resolver}), &resolver))
	exec.SetErrorPresenter(ErrorPresenter(a.Log))
	exec.SetRecoverFunc(Recover)
	exec.AroundResponses(func(ctx context.Context, next graphql.ResponseHandler) *graphql.Response {
		return next(dataloader.With(ctx, resolver.Readers))
	})
	ctx = services.WithViewer(ctx, services.Viewer{Key: key, Scopes: []services.Scope{services.ScopeViewer}})
	ctx = graphql.StartOperationTrace(ctx)
	operation, faults := exec.CreateOperationContext(ctx, &graphql.RawParams{Query: query, Variables: variables})
	if faults != nil {
		a.t.Fatalf("%s: %v", query, faults)
	}
	next, ctx := exec.DispatchOperation(graphql.WithOperationContext(ctx, operation), operation)
	text, err := json.Marshal(next(ctx))
	a.Must(err)
	var got apiAnswer
	a.Must(json.Unmarshal(text, &got))
	return got
}

// wholePayloadMutation returns the text of a mutation that selects every part of its payload.
func wholePayloadMutation(verb string) string {
	field := schema.Mutation.Fields.ForName(verb)
	var shown []string
	for _, part := range schema.Types[field.Type.Name()].Fields {
		switch {
		case !schema.Types[part.Type.Name()].IsCompositeType():
			shown = append(shown, part.Name)
		case part.Name == "badges":
			shown = append(shown, "badges { id version }")
		default:
			shown = append(shown, part.Name+" { __typename }")
		}
	}
	return fmt.Sprintf("mutation($i: %s!) { r: %s(input: $i) { %s } }", field.Arguments[0].Type.Name(), verb, strings.Join(shown, " "))
}

// A committed mutation never becomes an error because a read failed: a part that could not be read is null, and the change stands.
func TestACommittedMutationIsNoErrorWhenAReadFails(t *testing.T) {
	a := newAPI(t)
	post, _ := a.notifyInEachCategory()
	show, mine := a.scheduleShow("bob", time.Hour), a.scheduleShow("alice", time.Hour)
	other := a.scheduleShow("alice", 2*time.Hour)
	group, room := a.createConversation("GROUP", "alice", "bob"), a.createConversation("ROOM", "bob", "carol")
	message, ownMessage := a.sendMessage("bob", group), a.sendMessage("alice", group)
	a.ingest(event{"sendSiteMessage": event{"title": "t", "to": []string{"user:alice"}}}, event{"publishAnnouncement": event{"title": "t"}}, event{"raiseDot": event{"name": "shop"}})
	notification := a.wantNotifications("alice", "before", "MENTION 1", "COMMENT 1", "FOLLOW 1", "LIKE 1")[0]
	site, _ := a.must("alice", `{ viewer { siteMessages { edges { node { id } } } } }`, nil).valueAt("viewer", "siteMessages", "edges", 0, "node", "id").(string)
	own := a.publishPost("alice")
	steps := []struct {
		verb  string
		input event
	}{
		{"publishPost", event{"body": "b"}}, {"editPost", event{"postId": own, "body": "c"}}, {"deletePost", event{"postId": own}}, {"markHomeFeedSeen", event{}},
		{"follow", event{"userId": "user:bob"}}, {"setFollowMode", event{"userId": "user:bob", "mode": "NONE"}}, {"unfollow", event{"userId": "user:bob"}}, {"mute", event{"userId": "user:bob"}}, {"unmute", event{"userId": "user:bob"}},
		{"hideFrom", event{"userId": "user:carol"}}, {"unhideFrom", event{"userId": "user:carol"}}, {"block", event{"userId": "user:carol"}}, {"unblock", event{"userId": "user:carol"}},
		{"setProfile", event{"name": "Alice"}}, {"likePost", event{"postId": post}}, {"unlikePost", event{"postId": post}},
		{"markNotificationsSeen", event{}}, {"markNotificationsRead", event{"ids": []string{notification}}}, {"markNotificationUnread", event{"id": notification}},
		{"markAllRead", event{}}, {"undoMarkAllRead", event{}},
		{"markSiteMessagesRead", event{"ids": []string{site}}}, {"markSiteMessagesUnread", event{"ids": []string{site}}},
		{"markAnnouncementsRead", event{}}, {"clearDot", event{"name": "shop"}}, {"touchView", event{"code": "news", "key": "1"}},
		{"createConversation", event{"kind": "GROUP", "memberIds": []string{"user:bob"}}}, {"joinConversation", event{"conversationId": room}},
		{"quitConversation", event{"conversationId": room}}, {"addMembers", event{"conversationId": group, "userIds": []string{"user:carol"}}},
		{"removeMembers", event{"conversationId": group, "userIds": []string{"user:carol"}}}, {"sendMessage", event{"conversationId": group, "body": "b"}},
		{"recallMessage", event{"messageId": ownMessage}}, {"enterConversation", event{"conversationId": group}}, {"leaveConversation", event{"conversationId": group}},
		{"markConversationRead", event{"conversationId": group}}, {"markConversationUnread", event{"fromMessageId": message}},
		{"muteConversation", event{"conversationId": group}}, {"unmuteConversation", event{"conversationId": group}}, {"setGroupPolicy", event{"policy": "NOBODY"}},
		{"scheduleShow", event{"title": "t", "plannedAt": timeText(a.Clock.Now().Add(time.Hour))}}, {"rescheduleShow", event{"showId": mine, "title": "u"}},
		{"startShow", event{"showId": mine}}, {"endShow", event{"showId": mine}}, {"setReplay", event{"showId": mine, "replayUrl": "https://example.com/r"}},
		{"cancelShow", event{"showId": other}}, {"remindMe", event{"showId": show}}, {"cancelReminder", event{"showId": show}},
		{"markLiveBoardSeen", event{}}, {"setDisplayPolicy", event{"quietHours": nil}},
		{"setCategoryPreference", event{"category": "LIKE", "mode": "OFF"}},
	}
	var done []string
	for _, step := range steps {
		done = append(done, step.verb)
		payload := schema.Types[schema.Mutation.Fields.ForName(step.verb).Type.Name()]
		step.input["idempotencyKey"] = step.verb
		query := wholePayloadMutation(step.verb)
		got := a.askWithReadsFailingAfterCommit("alice", query, map[string]any{"i": step.input})
		if len(got.Errors) > 0 || got.valueAt("r") == nil {
			t.Errorf("%s: %+v %+v", step.verb, got.Data, got.Errors)
			continue
		}
		if payload.Fields.ForName("badges") != nil && (got.valueAt("r", "badges") != nil || got.valueAt("r", "viewer") != nil) {
			t.Errorf("%s answers badges that could not be read: %+v", step.verb, got.Data)
		}
		// When it is repeated under its idempotency key, the mutation returns the same result, now with the parts that could not be
		// read.
		again := a.ask("alice", []services.Scope{services.ScopeViewer}, query, map[string]any{"i": step.input})
		if len(again.Errors) > 0 || again.valueAt("r", "changed") != got.valueAt("r", "changed") {
			t.Errorf("%s again: %+v %+v, and first %+v", step.verb, again.Data, again.Errors, got.Data)
		}
		if payload.Fields.ForName("badges") != nil && (again.valueAt("r", "badges", "id") != "badges:alice" || again.valueAt("r", "viewer") == nil) {
			t.Errorf("%s again has no badges: %+v", step.verb, again.Data)
		}
		a.RunAllJobs(a.Fanout)
	}
	for _, field := range schema.Mutation.Fields {
		if entry, known := operations[field.Name]; known {
			if entry.describe().actorKind == actorUser && !slices.Contains(done, field.Name) {
				t.Errorf("%s is not tried", field.Name)
			}
		}
	}
}
