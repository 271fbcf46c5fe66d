package jobs

import (
	"context"
	"errors"
	"slices"

	"tidings/services"
	"tidings/services/sql"
)

// Command is one mutation: facts and jobs that are committed together, and the projections that show them to the actor at once.
type Command struct {
	Name  string          // the mutation's name, for idempotency and logs
	Actor services.UserID // the user who acts, or the user that the application acts for

	// IdempotencyKey is the client's idempotency key, "" for none. It remembers the answer: the ids that were made, or the refusal
	// (CONFLICT, NOT_FOUND or FORBIDDEN; any other error leaves the key free). Input is the mutation's input without the
	// key. Input is required with an IdempotencyKey: the same key with another mutation or input is refused (inputHash).
	IdempotencyKey string
	Input          any
	// SentInput is the input as the client sent it, if Input has IDs in place of values such as refs; otherwise nil. A request with
	// the same Input or the same SentInput is a repetition: the object that a ref names may have been created or deleted since the
	// first time.
	SentInput any
	// Subject is the global ID of the object that the input names; "" for none. With SentInput, it is remembered, for a repetition
	// whose ref names nothing any more.
	Subject string
	// CreatedType is the type of the first id that Apply returns, such as services.PostType; "" if it is not a global ID.
	CreatedType string

	// HappenedAt is when the event of the command happened, as an ID of that time (services.IDClock.NextAt); 0: now. Apply sees
	// it as tx.EventMoment and in tx.NewID. With an IdempotencyKey, it is part of the input that is compared.
	HappenedAt services.SortableID
	// ArrivedAt is set for an event that came with a time of its own and counts as happening now. It is an ID of the moment at which the
	// event came. The IDs that Apply makes are of that moment, so that a later event that happens before the commit gets greater ones
	// (sql.Tx.SetMomentOfNewIDs). Otherwise it is 0.
	ArrivedAt services.SortableID

	// Apply writes the facts and the jobs and returns the IDs that it made. It may run more than once. With ErrUnchanged it
	// still returns the IDs, its writes are rolled back, and the command counts as successful.
	Apply func(ctx context.Context, tx *sql.Tx) (ids []string, err error)
	// AfterApply and then AfterCommit bring the actor's own projections up to date after the commit; nil for none. If one fails, the
	// job that Apply has queued does the same work later. If the answer comes from the key, only AfterCommit runs: so AfterCommit must
	// not read variables that Apply sets. They may then be unset, or be those of a run that was rolled back.
	AfterApply, AfterCommit func(ctx context.Context) error
	// CoalesceKey names what AfterApply and AfterCommit update. If several commands of one actor with the same CoalesceKey are
	// committed together, one of them runs its AfterApply and AfterCommit, for all: the last one that was applied or, if none was, the last
	// one. A command with "" always runs its own.
	CoalesceKey string

	applied          bool            // the last call of run has called Apply, and did not take a stored answer
	ids              []string        // the IDs that Apply made, now or the first time
	refusal          *services.Error // the answer, now or, under the same idempotency key, the first time; nil after success
	projectionsStale bool            // the update of the actor's projections failed

	unchanged bool // the state was already as requested: see ErrUnchanged
}

// RefusalCommand is the command of a request that was refused before its own command was made: it only returns the refusal. It is
// committed like any other, so that the key of the request remembers the refusal, or gives the answer that it has already. See
// IsRememberedError.
func RefusalCommand(actor services.UserID, refusal error) *Command {
	return &Command{Actor: actor, Apply: func(context.Context, *sql.Tx) ([]string, error) { return nil, refusal }}
}

// IsRememberedError reports whether a key remembers an error as the answer to its request. An error that is not about the state leaves
// the key free: the same request may succeed later.
func IsRememberedError(failed error) bool {
	switch services.CodeOf(failed) {
	case services.Conflict, services.NotFound, services.Forbidden:
		return true
	}
	return false
}

// ErrUnchanged is the error of Apply if the state is already as requested.
var ErrUnchanged = services.Errorf(services.Conflict, "the state is already as requested")

// ExistingObjectMarker is a text among the IDs that Apply returns. A command that creates an object adds it after the object's ID
// if the object existed before.
const ExistingObjectMarker = "existing"

// Created reports whether a successful create made its object, now or, under the same idempotency key, the first time.
func (c *Command) Created() bool { return c.Changed() && !slices.Contains(c.ids, ExistingObjectMarker) }

// Changed reports whether a successful command changed anything, now or, under the same idempotency key, the first time.
func (c *Command) Changed() bool { return !c.unchanged }

// ProjectionsStale says that the command succeeded and its update of the projections failed: the actor's projections do not show it yet.
func (c *Command) ProjectionsStale() bool { return c.projectionsStale }

// IDs are the ids that the mutation made, now or, under the same idempotency key, the first time.
func (c *Command) IDs() []string { return c.ids }

// maxIdempotencyKeyLength is in characters. It leaves room for a UUID or a hash, and bounds the table of keys.
const maxIdempotencyKeyLength = 64

// CheckIdempotencyKey reports whether an idempotency key is valid: 1 to 64 characters.
func CheckIdempotencyKey(key string) error {
	return services.CheckText("idempotencyKey", key, 1, maxIdempotencyKeyLength)
}

// run applies the command once for its key. A refusal under a key is stored in c.refusal and not returned as an error,
// because the key's memory of it must be committed.
func (c *Command) run(ctx context.Context, tx *sql.Tx) error {
	// Apply may run more than once, so nothing of an earlier run may stay.
	c.ids, c.refusal, c.unchanged, c.applied = nil, nil, false, false
	if c.ArrivedAt != 0 {
		tx.SetMomentOfNewIDs(c.ArrivedAt)
		defer tx.SetMomentOfNewIDs(0)
	}
	if c.HappenedAt != 0 {
		tx.SetEventMoment(c.HappenedAt)
		defer tx.SetEventMoment(0)
	}
	if c.IdempotencyKey == "" {
		c.applied = true
		ids, err := c.Apply(ctx, tx)
		c.ids = ids
		return err
	}
	scope := idempotencyScope(c.Actor)
	asks, err := c.requestHashes()
	if err != nil {
		return err
	}
	// Claim the key before reading the facts. Of two requests with one key, the second waits here for the end of the first and
	// then gives the same answer. If the facts were read first, the second request would see the facts of the first and be
	// refused as a repetition.
	err = rememberRequest(ctx, tx, scope, c.IdempotencyKey, asks)
	if errors.Is(err, errKeyExists) {
		return c.recallAnswer(ctx, tx, scope, asks)
	}
	if err != nil {
		return err
	}
	// A refusal undoes the writes of Apply, and keeps the claim of the key: both happen in one transaction.
	c.applied = true
	failed, err := tx.RunInSavepoint(ctx, func() (err error) {
		c.ids, err = c.Apply(ctx, tx)
		return err
	})
	if err != nil {
		return err
	}
	if errors.Is(failed, ErrUnchanged) {
		c.unchanged = true
		return rememberUnchanged(ctx, tx, scope, c.IdempotencyKey, c.ids)
	}
	if failed != nil {
		c.ids = nil
		return c.storeRefusal(ctx, tx, scope, failed)
	}
	if len(c.ids) == 0 {
		return nil
	}
	return rememberIDs(ctx, tx, scope, c.IdempotencyKey, c.ids)
}

// storeRefusal stores the refusal under the command's key, so that a late repetition gets the same answer and does not affect later
// changes. An error that a key does not remember is returned.
func (c *Command) storeRefusal(ctx context.Context, tx *sql.Tx, scope string, failed error) error {
	refusal, ok := errors.AsType[*services.Error](failed)
	if !ok || !IsRememberedError(failed) {
		return failed
	}
	c.refusal = &services.Error{Code: refusal.Code, Message: refusal.Message}
	return rememberRefusal(ctx, tx, scope, c.IdempotencyKey, c.refusal)
}

// recallAnswer makes the stored answer of the key the answer of this command.
func (c *Command) recallAnswer(ctx context.Context, tx *sql.Tx, scope string, asks rememberedRequest) error {
	had, found, err := recallRequest(ctx, tx, scope, c.IdempotencyKey)
	if err != nil {
		return err
	}
	if !found {
		return errKeyExists // the key expired between the two statements: the next request can claim it
	}
	if !had.sameRequest(asks) && !c.matchesPreviousReleaseRequest(had) {
		return services.Errorf(services.Conflict, "idempotencyKey: %s was used for another mutation within %s", services.Quote(c.IdempotencyKey), idempotencyRetention)
	}
	c.ids, c.refusal, c.unchanged = had.IDs, had.Refusal, had.Unchanged
	// The subject stays that of the first request: the ref may name another object now, or none.
	if had.Subject != "" {
		c.Subject = had.Subject
	}
	return nil
}

// projectionUpdate returns the function that brings the actor's own projections up to date after the commit; nil for nothing.
func (c *Command) projectionUpdate() func(context.Context) error {
	switch {
	case !c.applied || c.AfterApply == nil:
		return c.AfterCommit
	case c.AfterCommit == nil:
		return c.AfterApply
	}
	return func(ctx context.Context) error {
		if err := c.AfterApply(ctx); err != nil {
			return err
		}
		return c.AfterCommit(ctx)
	}
}
