package fanout_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/fanout"
	"tidings/services/fanout/fanouttest"
	"tidings/services/jobs"
	"tidings/services/store"
)

// command is a mutation that remembers a log entry, and how often it was applied.
type op struct {
	jobs.Command
	applied, owned int
}

func newOp(actor services.UserNumber, name string) *op {
	o := &op{Command: jobs.Command{Name: name, Actor: actor, Input: "input"}}
	o.Apply = func(ctx context.Context, tx *store.Tx) ([]string, error) {
		o.applied++
		_, err := tx.AppendLog(ctx, name, fmt.Sprint(o.applied), nil)
		return []string{"made:" + name}, err
	}
	o.AfterCommit = func(context.Context) error {
		o.owned++
		return nil
	}
	return o
}

// entries is how many log entries the mutations of a name have left.
func entries(w *fanouttest.World, name string) int {
	w.TB.Helper()
	list, err := w.Store.LogAfter(w.TB.Context(), name, 0, 100)
	w.Must(err)
	return len(list)
}

func commit(w *fanouttest.World, o *op) error { return w.Fanout.Commit(w.TB.Context(), &o.Command)[0] }

func TestTheSameKeyHasOneEffectAndOneAnswer(t *testing.T) {
	fanouttest.Each(t, nil, func(t *testing.T, w *fanouttest.World) {
		for range 3 {
			again := newOp(1, "publish")
			again.Key = "k"
			w.Must(commit(w, again))
			if ids := again.IDs(); len(ids) != 1 || ids[0] != "made:publish" {
				t.Errorf("the answer names %v", ids)
			}
			if again.owned != 1 {
				t.Errorf("the actor's own views were brought up to date %d times", again.owned)
			}
		}
		if n := entries(w, "publish"); n != 1 {
			t.Errorf("%d effects of one key", n)
		}
		other := newOp(2, "publish")
		other.Key = "k"
		w.Must(commit(w, other))
		if n := entries(w, "publish"); n != 2 {
			t.Error("another user's key is another key")
		}
		w.Clock.Advance(fanout.KeepIdempotencyFor + time.Second)
		late := newOp(1, "publish")
		late.Key = "k"
		w.Must(commit(w, late))
		if n := entries(w, "publish"); n != 3 {
			t.Error("a key is good for 24 hours")
		}
	})
}

func TestTheSameKeyForSomethingElseIsAConflict(t *testing.T) {
	w := world(t, nil)
	first := newOp(1, "publish")
	first.Key = "k"
	w.Must(commit(w, first))
	for what, change := range map[string]func(*op){
		"another input":    func(o *op) { o.Input = "else" },
		"another mutation": func(o *op) { o.Name = "delete" },
	} {
		again := newOp(1, "publish")
		again.Key = "k"
		change(again)
		err := commit(w, again)
		if services.CodeOf(err) != services.Conflict || !strings.Contains(err.Error(), "idempotencyKey") {
			t.Errorf("%s: %v", what, err)
		}
		if again.applied != 0 || again.owned != 0 {
			t.Errorf("%s: it was applied", what)
		}
	}
}

// follows is the command by which a reader follows an author or ceases to; it is refused where that changes nothing.
func follows(w *fanouttest.World, reader, author services.UserNumber, key string, on bool) *jobs.Command {
	return &jobs.Command{
		Name: fmt.Sprint("follow ", on), Actor: reader, Input: fmt.Sprint(author), Key: key,
		Apply: func(ctx context.Context, tx *store.Tx) ([]string, error) {
			change := tx.DeleteFollow
			if on {
				change = func(ctx context.Context, reader, author services.UserNumber) (bool, error) {
					return tx.InsertFollow(ctx, services.Edge{Follower: reader, Followee: author, Since: w.IDs.Next()})
				}
			}
			changed, err := change(ctx, reader, author)
			if err == nil && !changed {
				err = services.Errorf(services.Conflict, "userId: nothing changes for %s", key)
			}
			return nil, err
		},
	}
}

// A late repetition of a refused request has no effect on what happened since, one by one and within one batch.
func TestAKeyRemembersARefusal(t *testing.T) {
	fanouttest.Each(t, nil, func(t *testing.T, w *fanouttest.World) {
		for _, together := range []bool{false, true} {
			users := w.Strangers(2)
			cmds := []*jobs.Command{
				follows(w, users[0], users[1], "k1", false), follows(w, users[0], users[1], "k2", true),
				follows(w, users[0], users[1], "k1", false), follows(w, users[0], users[1], "k2", true),
				follows(w, users[0], users[1], "k1", true),
			}
			var errs []error
			if together {
				errs = w.Fanout.Commit(t.Context(), cmds...)
			} else {
				for _, cmd := range cmds {
					errs = append(errs, w.Fanout.Commit(t.Context(), cmd)...)
				}
			}
			for i, says := range []string{"nothing changes for k1", "", "nothing changes for k1", "", "was used for another mutation"} {
				if says == "" && errs[i] != nil || says != "" && (services.CodeOf(errs[i]) != services.Conflict || !strings.Contains(errs[i].Error(), says)) {
					t.Errorf("together %t, request %d: %v, want %q", together, i, errs[i], says)
				}
			}
			if _, followed, err := w.Store.Edge(t.Context(), users[0], users[1]); err != nil || !followed {
				t.Errorf("together %t: the follow is gone, %v", together, err)
			}
		}
	})
}

// Each code is remembered or leaves its key free, and what failed has no effect.
func TestWhichRefusalsAKeyRemembers(t *testing.T) {
	w := world(t, nil)
	for _, code := range []services.Code{
		services.Conflict, services.NotFound, services.Forbidden,
		services.Invalid, services.Unavailable, services.RateLimited, services.Internal,
	} {
		remembered := slices.Contains([]services.Code{services.Conflict, services.NotFound, services.Forbidden}, code)
		name := "refused with " + string(code)
		failing := newOp(1, name)
		failing.Key = name
		apply := failing.Apply
		failing.Apply = func(ctx context.Context, tx *store.Tx) ([]string, error) {
			ids, err := apply(ctx, tx)
			return ids, errors.Join(err, services.Errorf(code, "of the test"))
		}
		if err := commit(w, failing); services.CodeOf(err) != code || len(failing.IDs()) != 0 {
			t.Fatalf("%s: %v, ids %v", code, err, failing.IDs())
		}
		if n := entries(w, name); n != 0 || failing.owned != 0 {
			t.Errorf("%s left %d entries and was shown %d times", code, n, failing.owned)
		}
		again := newOp(1, name)
		again.Key = name
		err := commit(w, again)
		if remembered && (services.CodeOf(err) != code || err.Error() != "of the test" || again.applied+again.owned != 0) {
			t.Errorf("%s again: %v, applied %d times", code, err, again.applied)
		}
		if !remembered && (err != nil || entries(w, name) != 1) {
			t.Errorf("%s again: %v, %d effects", code, err, entries(w, name))
		}
	}
}

// Who comes with the same key at the same time is answered like the first, also where a repetition would be refused.
func TestOneKeyAtOnceHasOneEffectAndOneAnswer(t *testing.T) {
	fanouttest.Each(t, nil, func(t *testing.T, w *fanouttest.World) {
		const callers = 10
		users := w.Strangers(21)
		reader := users[0]
		for _, author := range users[1:] {
			var together sync.WaitGroup
			ops, errs := make([]*op, callers), make([]error, callers)
			for i := range callers {
				o := newOp(reader, "follow")
				o.Key = fmt.Sprint("k", author)
				apply := o.Apply
				o.Apply = func(ctx context.Context, tx *store.Tx) ([]string, error) {
					created, err := tx.InsertFollow(ctx, services.Edge{Follower: reader, Followee: author, Since: w.IDs.Next()})
					if err == nil && !created {
						err = services.Errorf(services.Conflict, "followed already")
					}
					if err != nil {
						return nil, err
					}
					ids, err := apply(ctx, tx)
					return append(ids, fmt.Sprint(i)), err // whose it was
				}
				ops[i] = o
				together.Go(func() { errs[i] = commit(w, o) })
			}
			together.Wait()
			for i, err := range errs {
				if err != nil || len(ops[i].IDs()) != 2 || !slices.Equal(ops[i].IDs(), ops[0].IDs()) {
					t.Fatalf("of callers with one key one was answered %v, %v, another %v, %v", ops[0].IDs(), errs[0], ops[i].IDs(), err)
				}
			}
		}
		if n := entries(w, "follow"); n != len(users)-1 {
			t.Errorf("%d effects of %d keys", n, len(users)-1)
		}
	})
}

// Of several commands each fails by itself, and errs[i] is of commands[i].
func TestOneFailureLeavesTheOthers(t *testing.T) {
	fanouttest.Each(t, nil, func(t *testing.T, w *fanouttest.World) {
		cmds := make([]*jobs.Command, 5)
		mine := make([]*op, 5)
		for i := range cmds {
			mine[i] = newOp(services.UserNumber(i+1), fmt.Sprint("op", i))
			cmds[i] = &mine[i].Command
		}
		reason := services.Errorf(services.NotFound, "of the test")
		cmds[1].Apply = func(ctx context.Context, tx *store.Tx) ([]string, error) {
			_, err := tx.AppendLog(ctx, "op1", "half", nil)
			return nil, errors.Join(err, reason)
		}
		cmds[3].Apply = func(context.Context, *store.Tx) ([]string, error) { panic("of the test") }
		errs := w.Fanout.Commit(t.Context(), cmds...)
		for i, err := range errs {
			want := services.Code("")
			switch i {
			case 1:
				want = services.NotFound
			case 3:
				want = services.Internal
			}
			if services.CodeOf(err) != want {
				t.Errorf("op %d: %v, want code %q", i, err, want)
			}
			left, shown := 1, 1
			if want != "" {
				left, shown = 0, 0
			}
			if entries(w, fmt.Sprint("op", i)) != left || mine[i].owned != shown {
				t.Errorf("op %d left %d entries, and was shown %d times", i, entries(w, fmt.Sprint("op", i)), mine[i].owned)
			}
		}
	})
}

// The fact is safe whatever becomes of the view: the answer says that the view is behind.
func TestAViewThatFailsIsBehind(t *testing.T) {
	w := world(t, func(cfg *fanout.Config) { cfg.AfterCommit = 10 * time.Millisecond })
	good, bad, slow := newOp(1, "good"), newOp(2, "bad"), newOp(3, "slow")
	bad.AfterCommit = func(context.Context) error { return errors.New("of the test") }
	slow.AfterCommit = func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	for _, err := range w.Fanout.Commit(t.Context(), &good.Command, &bad.Command, &slow.Command) {
		w.Must(err)
	}
	if good.ViewsStale() || !bad.ViewsStale() || !slow.ViewsStale() {
		t.Errorf("behind: good %t, failing %t, slow %t", good.ViewsStale(), bad.ViewsStale(), slow.ViewsStale())
	}
	for _, name := range []string{"good", "bad", "slow"} {
		if entries(w, name) != 1 {
			t.Errorf("%s has no fact", name)
		}
	}
}

// A client that goes away once the fact is there still gets its view.
func TestTheViewFollowsThoughTheClientLeft(t *testing.T) {
	w := world(t, nil)
	ctx, leave := context.WithCancel(t.Context())
	o := newOp(1, "publish")
	apply := o.Apply
	o.Apply = func(ctx context.Context, tx *store.Tx) ([]string, error) {
		defer leave()
		return apply(ctx, tx)
	}
	var seen error
	o.AfterCommit = func(ctx context.Context) error {
		seen = ctx.Err()
		o.owned++
		return nil
	}
	if err := w.Fanout.Commit(ctx, &o.Command)[0]; err != nil {
		t.Fatalf("SQLite commits what has begun: %v", err)
	}
	if o.owned != 1 || seen != nil || o.ViewsStale() {
		t.Errorf("owned %d times under %v, behind %t", o.owned, seen, o.ViewsStale())
	}
}

// The views of one actor are brought up to date in the order of his commands.
func TestOneActorsViewsAreInOrder(t *testing.T) {
	w := world(t, nil)
	var order []int
	cmds := make([]*jobs.Command, 20)
	for i := range cmds {
		o := newOp(7, fmt.Sprint("op", i))
		o.AfterCommit = func(context.Context) error {
			order = append(order, i)
			return nil
		}
		cmds[i] = &o.Command
	}
	for _, err := range w.Fanout.Commit(t.Context(), cmds...) {
		w.Must(err)
	}
	for i, was := range order {
		if was != i {
			t.Fatalf("the order was %v", order)
		}
	}
	if len(order) != len(cmds) {
		t.Errorf("%d of %d views", len(order), len(cmds))
	}
}

func TestKeysOfOneTo64Characters(t *testing.T) {
	for key, fits := range map[string]bool{
		"": false, "a": true, strings.Repeat("é", 64): true, strings.Repeat("é", 65): false, "a\x00": false, "\xff": false,
	} {
		err := jobs.CheckKey(key)
		if (err == nil) != fits || err != nil && (services.CodeOf(err) != services.Invalid || !strings.Contains(err.Error(), "idempotencyKey")) {
			t.Errorf("%q: %v", key, err)
		}
	}
}
