// Package resolvers is viewer in, one service call, payload out; and the table of errors.
//
// Every resolver takes the viewer from the token and from nowhere else. An error that the client can correct is shown with its
// code; any other is INTERNAL, with an ID that the log has too.
//
// A mutation is an entry of operations: it resolves refs, makes the command of a service, commits it, and reads the badges for
// the payload; ingest commits many such commands at once. A query reads by the loader of its response (package dataloader). A
// field that reads a list looks ahead (wanted.go): it reads what is selected below its items, and the other pages of its list,
// so that a response takes one statement and one round trip to Redis for each kind of object, whatever its shape; a test
// counts them. The most frequent queries are compiled (hot.go). Posts and shows are shown through visible.go alone, so that
// nobody sees what is hidden from them. Files *.resolvers.go are gqlgen's: they call what is here.
package resolvers

import (
	"context"
	"iter"
	"log/slog"
	"time"

	"tidings/dataloader"
	"tidings/graph"
	"tidings/services"
	"tidings/services/acts"
	"tidings/services/announcements"
	"tidings/services/badge"
	"tidings/services/chat"
	"tidings/services/devices"
	"tidings/services/erasures"
	"tidings/services/export"
	"tidings/services/fanout"
	"tidings/services/feed"
	"tidings/services/jobs"
	"tidings/services/live"
	"tidings/services/messages"
	"tidings/services/notifications"
	"tidings/services/projector"
	"tidings/services/push"
	"tidings/services/refs"
	"tidings/services/social"
	"tidings/services/stream"
	"tidings/services/views"
	"tidings/services/webhooks"
)

// Resolver holds the services that the resolvers call. Nothing of a request is in it.
type Resolver struct {
	Social        *social.Service
	Feed          *feed.Service
	Badge         Badges
	Notifications *notifications.Service
	Announcements *announcements.Service
	Chat          *chat.Service
	Fanout        *fanout.Fanout
	Projector     *projector.Projector
	Hub           *push.Hub
	Queue         JobQueue
	Clock         services.Clock
	Log           *slog.Logger
	Messages      *messages.Service
	Views         *views.Service
	Live          *live.Service
	Stream        *stream.Service
	Refs          *refs.Service
	Erasures      *erasures.Service
	Webhooks      *webhooks.Service
	Devices       *devices.Service
	Acts          *acts.Service
	Exports       export.Reader
	Sources       dataloader.Sources
}

// Badges are the badges of users, as badge.Service has them. Tests put their own in its place.
type Badges interface {
	Read(ctx context.Context, user services.UserID) (*services.Badges, error)
	ReadFacts(ctx context.Context, user services.UserID) (*services.Badges, error)
	ReadForHost(ctx context.Context, users []services.UserID) ([]*services.Badges, []error)
	BySource(badges *services.Badges) iter.Seq2[services.Source, *services.Count]
	Explain(ctx context.Context, user services.UserID) ([]services.Explanation, error)
	Digest(ctx context.Context, user services.UserID, since time.Time) (*services.Digest, error)
	Policy(ctx context.Context, user services.UserID) (services.DisplayPolicy, error)
	ShowPart(policy services.DisplayPolicy, source services.Source, part services.Count) services.Count
	SetPolicy(user services.UserID, change badge.PolicyChange) (*jobs.Command, error)
}

// JobQueue is the state of the job queue, for operators.
type JobQueue interface {
	JobCounts(ctx context.Context) (waiting, dead int, oldest time.Time, err error)
}

// The keys of values that the fields of a response share: see dataloader.Shared.
type (
	numberKey    string // of the ID of a user, by the user's key
	badgesKey    struct{}
	explainedKey struct{}
	itemsKey     struct{} // the objects behind the counts
	digestKey    int64    // the start of the digest, in microseconds
	policyKey    struct{}
	nodesKey     struct{}
	usersKey     struct{}

	groupPolicyKey struct{}
	categoriesKey  struct{} // the viewer's preferences of categories
)

// viewer is the user of the request's token, which needs the scope viewer. A user who asks for the first time is created. An
// erased user is refused here, so every field of the viewer's passes it.
func (r *Resolver) viewer(ctx context.Context) (*graph.Viewer, error) {
	viewer, err := r.scoped(ctx, services.ScopeViewer)
	if err != nil {
		return nil, err
	}
	if viewer.Key == "" {
		return nil, services.Errorf(services.Forbidden, "the token names no user: send the header Tidings-Act-As: KEY")
	}
	// Nearly always the node knows the number; else one read serves all fields of the response.
	number, known := r.Social.Remembered(viewer.Key)
	if !known {
		number, err = dataloader.Shared(ctx, numberKey(viewer.Key), func(ctx context.Context) (services.UserID, error) {
			return r.Social.Number(ctx, viewer.Key)
		})
	}
	if err != nil {
		return nil, err
	}
	return graph.NewViewer(number, viewer.Key), nil
}

// scoped is the bearer of the request's token, if it has the scope. The scope is that of the token also where it acts for a user.
func (r *Resolver) scoped(ctx context.Context, scope services.Scope) (services.Viewer, error) {
	viewer, err := services.ViewerFrom(ctx)
	if err != nil {
		return viewer, err
	}
	if !viewer.Has(scope) {
		return viewer, services.Errorf(services.Forbidden, "the token lacks the scope %s", scope)
	}
	return viewer, nil
}
