package resolvers

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/executor"
	"github.com/vektah/gqlparser/v2/ast"

	"tidings/dataloader"
	"tidings/graph"
	"tidings/services"
	"tidings/services/people"
	"tidings/services/push"
	"tidings/services/redis"
	"tidings/services/trace"
	"tidings/tests/histories"
)

// openSubscription is an open subscription of the reader. Its hub sends the badges that the test sets, and reads nothing. So all
// counted reads are those of the event itself.
type openSubscription struct {
	world         *filledWorld
	t             *testing.T
	hub           *push.Hub                       // sends nextBadges to the subscription
	reader        services.UserID                 // who subscribed
	nextBadges    atomic.Pointer[services.Badges] // what the hub sends next
	badgesVersion uint64                          // the version of nextBadges; their counts are made from it
	ctx           context.Context                 // the context of the subscription
	trips         *redis.RoundTrips               // counts the round trips to Redis
	nextResponse  graphql.ResponseHandler         // returns the next event
}

// subscribeAndCountReads opens a subscription on a node, takes its first event, and returns the reads that both took together:
// round trips to Redis, and statements by name.
func (c *filledWorld) subscribeAndCountReads(t *testing.T, query string) (s *openSubscription, trips int, asked map[string]int) {
	t.Helper()
	s = &openSubscription{world: c, t: t, badgesVersion: 9_000_000_000_000_000}
	ids, err := people.IDs(t.Context(), c.DB, []string{"reader"})
	c.Must(err)
	s.reader = ids["reader"]
	badges, err := c.resolver.Badge.Read(t.Context(), s.reader)
	c.Must(err)
	s.nextBadges.Store(badges)
	s.changeBadges()
	s.hub = push.New(push.Config{
		DocumentVersions: func(_ context.Context, users []services.UserID) ([]uint64, error) {
			return make([]uint64, len(users)), nil
		},
		WriteLeases:  func(context.Context, []services.UserID, time.Duration) error { return nil },
		RemoveLeases: func(context.Context, []services.UserID) error { return nil },
		Render: func(_ context.Context, users []services.UserID) ([]*services.Badges, []error) {
			shown := make([]*services.Badges, len(users))
			for i := range shown {
				shown[i] = s.nextBadges.Load()
			}
			return shown, make([]error, len(users))
		},
		Settings: push.Settings{MinSendInterval: time.Millisecond, ReconcileInterval: time.Hour},
	})
	c.resolver.Hub = s.hub
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func(ctx context.Context) { ended <- s.hub.Run(ctx) }(ctx)
	t.Cleanup(func() {
		cancel()
		c.Must(<-ended)
	})
	exec := executor.New(WithHotOperations(graph.NewExecutableSchema(graph.Config{Resolvers: c.resolver}), c.resolver))
	exec.SetErrorPresenter(ErrorPresenter(c.Log))
	exec.AroundResponses(func(ctx context.Context, next graphql.ResponseHandler) *graphql.Response {
		return next(dataloader.With(ctx, c.resolver.Readers))
	})
	ctx = services.WithViewer(ctx, services.Viewer{Key: "reader", Scopes: []services.Scope{services.ScopeViewer}})
	c.statements.takeCounts()
	ctx, s.trips = redis.WithRoundTrips(graphql.StartOperationTrace(ctx))
	operation, faults := exec.CreateOperationContext(ctx, &graphql.RawParams{Query: query})
	if faults != nil {
		t.Fatal(faults)
	}
	s.nextResponse, s.ctx = exec.DispatchOperation(graphql.WithOperationContext(ctx, operation), operation)
	s.waitForEvent()
	return s, s.trips.Count(), c.statements.takeCounts()
}

// changeBadges sets badges that differ from the last ones in everything that causes an event of a subscription.
func (s *openSubscription) changeBadges() {
	badges := *s.nextBadges.Load()
	s.badgesVersion++
	badges.Version = fmt.Sprintf("%016d.%016d", s.badgesVersion, 0)
	badges.HomeFeed.Value, badges.LiveBoard.Value = int(s.badgesVersion%1000), int(s.badgesVersion%1000)
	badges.Notifications.Version, badges.Conversations.List.DocumentVersion = s.badgesVersion, s.badgesVersion
	badges.LiveSequence = math.MaxUint64
	s.nextBadges.Store(&badges)
}

// waitForEvent waits for the next event and returns its data.
func (s *openSubscription) waitForEvent() map[string]any {
	s.t.Helper()
	response := s.nextResponse(s.ctx)
	if response == nil || len(response.Errors) > 0 {
		s.t.Fatalf("an event is %+v", response)
	}
	var data map[string]any
	s.world.Must(json.Unmarshal(response.Data, &data))
	return data
}

// waitForEventWithFewReads makes up to five events, until one of them takes no more reads than a response may. It fails the test if
// none does. An event may seem to take more: opening the subscription causes a read of its own, which may run at the same time as
// an event.
func (s *openSubscription) waitForEventWithFewReads(t *testing.T, when string) (data map[string]any) {
	t.Helper()
	const events = 5
	var trips int
	var asked map[string]int
	for range events {
		before := s.trips.Count()
		s.world.statements.takeCounts()
		s.changeBadges()
		s.hub.Hint(s.reader, s.badgesVersion, trace.Cause{})
		data = s.waitForEvent()
		trips, asked = s.trips.Count()-before, s.world.statements.takeCounts()
		if trips <= maxRoundTrips && (len(asked) == 0 || slices.Max(slices.Collect(maps.Values(asked))) <= 1) {
			return data
		}
	}
	t.Errorf("%s takes %d round trips to Redis and the statements %v; %d round trips are allowed, and one of each statement", when, trips, asked, maxRoundTrips)
	return data
}

// An event about many objects takes no more reads than one about a single object, on a node with empty caches and on one with full
// ones. Once a subscription is open, an event takes no more reads than a response may.
func anEventOfASubscriptionIsReadInBatches(t *testing.T, c *filledWorld) {
	many := histories.ShortOrFull(t, 6, 25)
	for _, field := range c.selections.schema.Subscription.Fields {
		t.Run(field.Name, func(t *testing.T) {
			for _, copies := range []bool{false, true} {
				trips, asked := c.countEventReads(t, field, 1, copies)
				moreTrips, more := c.countEventReads(t, field, many, copies)
				if moreTrips > trips+maxExtraFirstEventReads {
					t.Errorf("copies in Redis: %v: the first event takes %d round trips with 1 thing and %d with %d", copies, trips, moreTrips, many)
				}
				for name, times := range more {
					if times > max(asked[name], 1)+maxExtraFirstEventReads {
						t.Errorf("copies in Redis: %v: the first event runs %q %d times with 1 thing and %d times with %d", copies, name, asked[name], times, many)
					}
				}
			}
		})
	}
}

// maxExtraFirstEventReads is the number of reads by which the first event of one subscription may exceed that of another. Opening a
// subscription causes a read of its own, which may or may not run before the event is taken.
const maxExtraFirstEventReads = 1

// countEventReads makes some objects and opens a subscription to a field on a new node. It returns the reads of the opening and of
// the first event, which is about these objects. A later event must not take more reads than a response may.
func (c *filledWorld) countEventReads(t *testing.T, field *ast.FieldDefinition, things int, copies bool) (trips int, asked map[string]int) {
	t.Helper()
	conversation := c.idsInReaderLists("Conversation")[0]
	before := c.must("reader", "{ viewer { liveBoard { sessionId } } }", nil)
	arguments := map[string]string{
		"conversationChanged": fmt.Sprintf("(conversationId: %q)", conversation),
		"liveBoardChanged":    fmt.Sprintf("(sessionId: %q)", before.valueAt("viewer", "liveBoard", "sessionId")),
	}
	c.Clock.Advance(time.Second)
	var events []event
	for i := range things {
		events = append(events,
			event{"scheduleShow": event{"as": personID(i), "title": "another", "plannedAt": c.Clock.Now().Add(2 * time.Hour)}},
			event{"publishPost": event{"as": personID(i), "body": "another"}},
			event{"sendMessage": event{"as": "user:reader", "conversationId": conversation, "body": "hello"}})
	}
	c.mustIngest(events...)
	c.RunAllJobs(c.Fanout)
	c.restart(copies)
	c.must("reader", "{ viewer { __typename } }", nil)
	s, trips, asked := c.subscribeAndCountReads(t, "subscription { "+field.Name+arguments[field.Name]+c.selections.selectAllFields(c.selections.schema.Types[field.Type.Name()], "Viewer")+" }") // without the viewer, whose lists are those of queries
	data := s.waitForEventWithFewReads(t, fmt.Sprintf("an event of %d things, copies in Redis: %v", things, copies))
	if shows, given := (apiAnswer{Data: data}).valueAt(field.Name, "scheduled").([]any); given && len(shows) != things {
		t.Errorf("the event has %d shows, want %d", len(shows), things)
	}
	return trips, asked
}
