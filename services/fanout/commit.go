package fanout

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"tidings/services"
	"tidings/services/store"
)

// Op is one mutation: facts and jobs that are committed together, and what the actor shall see of it at once.
type Op struct {
	Name  string // the mutation's name, for idempotency and logs
	Actor services.UserNumber

	// Key is the client's idempotency key, "" for none. It remembers the answer: what was made, or the refusal (CONFLICT,
	// NOT_FOUND or FORBIDDEN; after any other error it is free). Input prints the mutation's input, so that the same key with
	// another input is told apart.
	Key   string
	Input string

	// Apply writes the facts and the jobs and answers the ids that it made. It may run more than once.
	Apply func(ctx context.Context, tx *store.Tx) (ids []string, err error)
	// Own brings the actor's own views up to date after the commit; nil for none. It may fail: the job remains.
	Own func(ctx context.Context) error
	// View names what Own brings up to date, "" for nothing else's: of one actor's ops that are committed together and
	// have the same, the last one's Own does it for all.
	View string

	ids     []string
	refusal *services.Error // the answer, now or, under the same idempotency key, the first time; nil when it happened
	behind  bool
}

// Behind says that the op happened and its Own failed: the views do not show it yet.
func (op *Op) Behind() bool { return op.behind }

// IDs are the ids that the mutation made, now or, under the same idempotency key, the first time.
func (op *Op) IDs() []string { return op.ids }

const maxIdempotencyKey = 64

// CheckKey says whether an idempotency key is fit: 1 to 64 characters.
func CheckKey(key string) error {
	return services.CheckText("idempotencyKey", key, 1, maxIdempotencyKey)
}

// Commit is the one way in which mutations happen: one transaction with fact and job for each op, grouped; then the
// actor's own views, for at most 300 ms; then the answer. One op that fails leaves the others alone; errs[i] is of ops[i].
func (f *Fanout) Commit(ctx context.Context, ops ...*Op) (errs []error) {
	writes := make([]func(*store.Tx) error, len(ops))
	for i, op := range ops {
		writes[i] = func(tx *store.Tx) error { return op.run(ctx, tx) }
	}
	if len(ops) == 1 {
		errs = []error{f.store.Write(ctx, writes[0])}
	} else {
		errs = f.store.WriteAll(ctx, writes)
	}
	for i, op := range ops {
		if errs[i] == nil && op.refusal != nil {
			errs[i] = op.refusal
		}
	}
	f.Wake()
	f.runOwn(ctx, ops, errs)
	return errs
}

// Of more ops than ownAtMost the actors' own views are brought up to date by the jobs, but for what needs no SQL and the
// first few reads: one by one they would cost PostgreSQL several round trips each.
const (
	ownAtMost = 20
	ownReads  = 3
)

// runOwn does the actors' own views, in order for one actor and side by side for several.
func (f *Fanout) runOwn(ctx context.Context, ops []*Op, errs []error) {
	byActor := map[services.UserNumber][]*Op{}
	for i, op := range ops {
		if errs[i] == nil && op.Own != nil {
			byActor[op.Actor] = append(byActor[op.Actor], op)
		}
	}
	// The fact is safe: a client that goes away must not leave its own view behind.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), f.cfg.Own)
	defer cancel()
	if len(ops) > ownAtMost {
		ctx = store.LimitReads(ctx, ownReads)
	}
	var group errgroup.Group
	group.SetLimit(8)
	for _, list := range byActor {
		group.Go(func() error {
			last := map[string]*Op{}
			for _, op := range list {
				last[op.View] = op
			}
			for _, op := range list {
				if op.View != "" && last[op.View] != op {
					continue
				}
				if err := op.Own(ctx); err != nil {
					op.behind = true
					f.stale.note(op)
					f.log.Debug("own view not updated in time; the job will", "mutation", op.Name, "error", err)
				}
			}
			return nil
		})
	}
	_ = group.Wait() // failures are logged above and mended by the jobs
}

// run applies the op once for its key. A refusal that the key remembers is left in op.refusal: it is a fact to commit.
func (op *Op) run(ctx context.Context, tx *store.Tx) error {
	op.ids, op.refusal = nil, nil
	if op.Key == "" {
		ids, err := op.Apply(ctx, tx)
		op.ids = ids
		return err
	}
	scope := fmt.Sprintf("u%d", op.Actor)
	hash := sha256.Sum256([]byte(op.Name + "\x00" + op.Input))
	// The key comes before the facts. Of two requests with one key the second waits here for the end of the first and then
	// answers as it did; if it came as far as the facts it would meet the first one's and be refused as a repetition.
	err := tx.Remember(ctx, scope, op.Key, hash[:], nil)
	if errors.Is(err, store.ErrRemembered) {
		return op.recall(ctx, tx, scope, hash[:])
	}
	if err != nil {
		return err
	}
	failed, err := tx.Attempt(ctx, func() (err error) {
		op.ids, err = op.Apply(ctx, tx)
		return err
	})
	if err != nil {
		return err
	}
	if failed != nil {
		op.ids = nil
		return op.refuse(ctx, tx, scope, failed)
	}
	if len(op.ids) == 0 {
		return nil
	}
	return tx.RememberMade(ctx, scope, op.Key, op.ids)
}

// refuse notes the refusal under the op's key, so that a late repetition is answered alike and has no effect on what
// happened since. An error that is not about the state leaves the key free: the same request may succeed later.
func (op *Op) refuse(ctx context.Context, tx *store.Tx, scope string, failed error) error {
	refusal, ok := errors.AsType[*services.Error](failed)
	if !ok {
		return failed
	}
	switch refusal.Code {
	case services.Conflict, services.NotFound, services.Forbidden:
		op.refusal = &services.Error{Code: refusal.Code, Message: refusal.Message}
		return tx.RememberRefused(ctx, scope, op.Key, op.refusal)
	}
	return failed
}

// recall answers as the key was answered the first time.
func (op *Op) recall(ctx context.Context, tx *store.Tx, scope string, hash []byte) error {
	had, found, err := tx.Recall(ctx, scope, op.Key)
	if err != nil {
		return err
	}
	if !found {
		return store.ErrRemembered // forgotten between the two statements: the next request takes it
	}
	if !bytes.Equal(had.BodyHash, hash) {
		return services.Errorf(services.Conflict, "idempotencyKey: %s was used for another mutation within %s", services.Quote(op.Key), 24*time.Hour)
	}
	op.ids, op.refusal = had.IDs, had.Refusal
	return nil
}
