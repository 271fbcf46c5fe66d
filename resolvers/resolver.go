// Package resolvers connects the schema with the services: a resolver takes the viewer, makes one service call, and returns the
// payload. It also has the table of errors.
//
// Every resolver takes the viewer from the token and from nowhere else. An error that the client can correct is shown with its
// code; any other is INTERNAL, with an ID that the log has too.
//
// A mutation is an entry of operations: it resolves refs, makes the command of a service, commits it, and reads the badges for
// the payload; ingest commits many such commands at once. A query reads by the loader of its response (package dataloader). A
// field that reads a list looks ahead (wanted.go): it reads the objects that are selected below its items, and the other pages
// of its list, so that a response takes one statement and one round trip to Redis for each kind of object, whatever its shape;
// a test counts them. The most frequent queries are compiled (hot.go). Nobody sees content that is hidden from them: posts and
// shows that are read by their IDs go through visible.go, and services leave hidden content out of lists and parents. Files
// *.resolvers.go are gqlgen's: they call the functions of the other files.
//
// The path of a like: gqlgen's LikePost calls likePost.runMutation (operations.go), which reads the viewer and takes the
// idempotency key out of the input. makeCommand replaces refs in the input by IDs (refs.go), and the function of the entry parses
// them and gets the command of services/feed. The commit runs it in one transaction with those of other requests. Then
// likePost.runMutation reads the badges, and drops the reads of the response from before the commit; the resolver reads the post
// for the payload. In ingest an event is the same entry: ingestCommand sets the actor and the time, and calls the same makeCommand.
//
// The path of a page of a list: the resolver calls sharedPage (wanted.go), which reads it once for all aliases, with the
// largest size. A read... function checks the cursor (cursor.go), asks the service for the rows, and gathers the keys of
// everything below them; the loader reads these together, and a graph... function makes the types of the schema. trimPage then gives
// each alias its part.
//
// Errors are made by services and end in clientError (errors.go). Costs, and the budgets that they are charged to, are in costs.go
// and limits.go; transport asks for both before it executes anything.
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

// Resolver holds the services that the resolvers call. Nothing of a request is in it. The fields are set once, by
// services/node, before the first request.
type Resolver struct {
	Social *social.Service // users, and follows, mutes, blocks and hides among them
	Feed   *feed.Service   // posts, likes and home feeds
	// Badge reads badges, with the display policy of their user applied.
	Badge         BadgeService
	Notifications *notifications.Service
	Announcements *announcements.Service // also dots and segments
	Chat          *chat.Service          // conversations and their messages
	Jobs          *jobs.Engine           // commits commands
	Fanout        *fanout.Fanout         // modes of authors and thresholds, for operators
	// The Projector dates the events of ingest, and carries out the settings and repairs of operators; no user's read goes through it.
	Projector *projector.Projector
	Cleaner   *projector.Cleaner // cleans Redis, also when operators ask for it
	Hub       *push.Hub          // sends badges to open subscriptions
	Queue     JobQueue           // for operators
	Clock     services.Clock
	Log       *slog.Logger
	Messages  *messages.Service // site messages
	Views     *views.Service    // general views
	Live      *live.Service     // shows and live boards
	Stream    *stream.Service   // the change stream
	Refs      *refs.Service     // refs and labels of objects
	Erasures  *erasures.Service // removes users
	Webhooks  *webhooks.Service
	Devices   *devices.Service // browsers that are registered for Web Push
	Acts      *acts.Service    // what operators did
	// Exports reads SQL alone: personal data that an operator reads must not come from a copy.
	Exports export.Reader
	Readers dataloader.Readers // what loaders read with
}

// BadgeService are the badges of users, as badge.Service has them. Tests put another implementation in its place. The interface has
// only the methods that resolvers call. States that Read returns may be shared with other readers, so a caller that changes a
// state copies it first.
type BadgeService interface {
	// Read returns the badges of one user. It is a visit of the user.
	Read(ctx context.Context, user services.UserID) (*services.Badges, error)
	// Visit records that a user is here, so that they stay active. It reads their badges at the first call of a day, and then nothing.
	Visit(ctx context.Context, user services.UserID) error
	// ReadWithoutSQL returns the badges of several users, in their order, from Redis and the node cache alone. It is a visit of the
	// users. The badges are nil, and there is no visit, for a user who needs SQL.
	ReadWithoutSQL(ctx context.Context, users []services.UserID) ([]*services.Badges, error)
	// ReadFacts counts the badges of one user in SQL.
	ReadFacts(ctx context.Context, user services.UserID) (*services.Badges, error)
	// ReadForHost reads the badges of several users for a reader who is none of them. It is no visit.
	ReadForHost(ctx context.Context, users []services.UserID) ([]*services.Badges, []error)
	// CountsBySource yields the sum of each source's counts.
	CountsBySource(badges *services.Badges) iter.Seq2[services.Source, *services.Count]
	// Explain lists the items behind each count.
	Explain(ctx context.Context, user services.UserID) ([]services.Explanation, error)
	// Digest returns the away digest since a time; zero: since the user's last visit before the present one.
	Digest(ctx context.Context, user services.UserID, since time.Time) (*services.Digest, error)
	Policy(ctx context.Context, user services.UserID) (services.DisplayPolicy, error)
	// ShowPart returns a part of a source's count, such as the count of one conversation, as a policy shows it.
	ShowPart(policy services.DisplayPolicy, source services.Source, part services.Count) services.Count
	// SetPolicy returns the command that changes a user's display policy.
	SetPolicy(user services.UserID, change badge.PolicyChange) (*jobs.Command, error)
}

// JobQueue is the state of the job queue, for operators. oldest is the time of the oldest waiting job, zero without one; dead
// jobs have failed too often and wait for an operator.
type JobQueue interface {
	JobCounts(ctx context.Context) (waiting, dead int, oldest time.Time, err error)
}

// The keys of values that the fields of a response share: dataloader.ReadShared reads a value once for all fields that ask for its key.
// A type of its own for each keeps the keys apart: if two fields used one key for values of two types, the second read would panic.
type (
	userIDKey    string   // of the ID of a user, by the user's key
	badgesKey    struct{} // the viewer's badges
	explainedKey struct{} // the explanations of the viewer's counts
	itemsKey     struct{} // the objects behind the counts
	digestKey    int64    // the start of the digest, in microseconds
	policyKey    struct{} // the viewer's display policy
	nodesKey     struct{} // the objects that the fields `node` and `nodes` name
	usersKey     struct{} // the users, with their badges, that the fields `users` name

	groupPolicyKey struct{} // the viewer's group policy
	categoriesKey  struct{} // the viewer's preferences of categories
)

// viewer is the user of the request's token, which needs the scope viewer. A user who asks for the first time is created. A
// user who is being erased is refused here, because every field of the viewer calls this method.
func (r *Resolver) viewer(ctx context.Context) (*graph.Viewer, error) {
	viewer, err := r.bearerUser(ctx)
	if err != nil {
		return nil, err
	}
	// Nearly always the node knows the user ID; else one read serves all fields of the response.
	id, known := r.Social.FindCachedUser(viewer.Key)
	if !known {
		id, err = dataloader.ReadShared(ctx, userIDKey(viewer.Key), func(ctx context.Context) (services.UserID, error) {
			return r.Social.EnsureUser(ctx, viewer.Key)
		})
	}
	if err != nil {
		return nil, err
	}
	return graph.NewViewer(id, viewer.Key), nil
}

// bearerUser is the bearer of the request's token, who must be a user and have the scope viewer.
func (r *Resolver) bearerUser(ctx context.Context) (services.Viewer, error) {
	viewer, err := r.bearerWithScope(ctx, services.ScopeViewer)
	if err == nil && viewer.Key == "" {
		err = services.Errorf(services.Forbidden, "the token names no user: send the header Tidings-Act-As: KEY")
	}
	return viewer, err
}

// bearerWithScope returns the bearer of the request's token, if it has the scope. The scope is that of the token, even while its
// bearer acts for a user. An application with the scope ingest that acts for alice has alice's key and its own scopes.
func (r *Resolver) bearerWithScope(ctx context.Context, scope services.Scope) (services.Viewer, error) {
	viewer, err := services.ViewerFrom(ctx)
	if err != nil {
		return viewer, err
	}
	if !viewer.Has(scope) {
		return viewer, services.Errorf(services.Forbidden, "the token lacks the scope %s", scope)
	}
	return viewer, nil
}
