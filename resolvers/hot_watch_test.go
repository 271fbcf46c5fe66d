package resolvers

import (
	"context"
	"testing"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/executor"

	"tidings/services"
	"tidings/services/push"
)

// testSubscriptionRequest is a request to which the schema can give a function that writes its events.
type testSubscriptionRequest struct {
	fixedRequest
	writeEvent func(to []byte, event any) []byte // the function that the schema gave; nil before that
}

// WriteEvents keeps the function that writes the events.
func (r *testSubscriptionRequest) WriteEvents(write func(to []byte, event any) []byte) {
	r.writeEvent = write
}

// startBadgesHub gives the resolver a hub that sends each user's present badges as the first event.
func (s *executorPair) startBadgesHub(ctx context.Context) {
	s.resolver.Hub = push.New(push.Config{
		DocumentVersions: func(_ context.Context, users []services.UserID) ([]uint64, error) {
			return make([]uint64, len(users)), nil
		},
		WriteLeases:  func(context.Context, []services.UserID, time.Duration) error { return nil },
		RemoveLeases: func(context.Context, []services.UserID) error { return nil },
		Render: func(ctx context.Context, users []services.UserID) (badges []*services.Badges, errs []error) {
			for _, user := range users {
				one, err := s.resolver.Badge.Read(ctx, user)
				badges, errs = append(badges, one), append(errs, err)
			}
			return badges, errs
		},
		Settings: push.Settings{ReconcileInterval: time.Hour},
	})
	done := make(chan struct{})
	ctx, stop := context.WithCancel(ctx)
	go func() {
		defer close(done)
		_ = s.resolver.Hub.Run(ctx)
	}()
	s.t.Cleanup(func() {
		stop()
		<-done
	})
}

// firstEvent starts a subscription with an executor and returns the data of its first event.
func (s *executorPair) firstEvent(ctx context.Context, exec *executor.Executor, query string) string {
	s.t.Helper()
	ctx = graphql.StartOperationTrace(ctx)
	now := graphql.TraceTiming{Start: time.Now(), End: time.Now()}
	operation, faults := exec.CreateOperationContext(ctx, &graphql.RawParams{Query: query, ReadTime: now})
	if faults != nil {
		s.t.Fatalf("%s: %v", query, faults)
	}
	next, ctx := exec.DispatchOperation(ctx, operation)
	response := next(ctx)
	if response == nil || len(response.Errors) > 0 {
		s.t.Fatalf("%s: %+v", query, response)
	}
	return string(response.Data)
}

// For every user, the function that the schema gives to WriteEvents writes the same event as the executor. The schema gives a function
// only if the operation is compiled.
func TestWrittenEventsAreThoseOfExecution(t *testing.T) {
	s := newExecutorPair(t)
	s.createReadersAndPosts()
	s.startBadgesHub(t.Context())
	const count = "{ value display inTotal precision asOf }"
	for query, compiled := range map[string]bool{
		`subscription { badgesChanged { id version quiet total ` + count + ` homeFeed ` + count + ` dots { name lit } } }`:                      true,
		`subscription { mine: badgesChanged { __typename v: version notifications { newest total ` + count + ` categories { name older } } } }`: true,
		`subscription { badgesChanged { version total { value @skip(if: true) display } } }`:                                                    false,
	} {
		for _, reader := range []string{"reader", "named", "empty"} {
			ctx, stop := context.WithCancel(services.WithViewer(t.Context(), services.Viewer{Key: reader, Scopes: []services.Scope{services.ScopeViewer}}))
			executed, hot := &testSubscriptionRequest{}, &testSubscriptionRequest{}
			want := s.firstEvent(services.WithRequest(ctx, executed), s.uncompiled, query)
			if got := s.firstEvent(services.WithRequest(ctx, hot), s.compiled, query); got != want {
				t.Errorf("%s of %s without a transport that writes\nhot      %s\nexecuted %s", query, reader, got, want)
			}
			stop()
			if executed.writeEvent != nil || (hot.writeEvent != nil) != compiled {
				t.Fatalf("%s: given by the executor %v, by the compiled plan %v", query, executed.writeEvent != nil, hot.writeEvent != nil)
			}
			if !compiled {
				continue
			}
			badges, err := s.resolver.Badge.Read(t.Context(), s.ensureUserID(reader))
			s.Must(err)
			if got := string(hot.writeEvent([]byte("before "), badges)); got != "before "+want {
				t.Errorf("%s of %s\nwritten  %s\nexecuted %s", query, reader, got, want)
			}
		}
	}
}
