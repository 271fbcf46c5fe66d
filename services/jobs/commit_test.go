package jobs_test

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
	"tidings/services/changelog"
	"tidings/services/jobs"
	"tidings/services/sql"
)

// command is a command that appends an entry to the changelog, and counts its runs.
type command struct {
	jobs.Command
	applyCount, afterCommitCount int // the runs of Apply and of AfterCommit
}

// newCommand makes a command whose Apply appends an entry of the kind name to the changelog.
func newCommand(actor services.UserID, name string) *command {
	o := &command{Command: jobs.Command{Name: name, Actor: actor, Input: "input"}}
	o.Apply = func(ctx context.Context, tx *sql.Tx) ([]string, error) {
		o.applyCount++
		_, err := changelog.AppendLog(ctx, tx, name, fmt.Sprint(o.applyCount), nil)
		return []string{"made:" + name}, err
	}
	o.AfterCommit = func(context.Context) error {
		o.afterCommitCount++
		return nil
	}
	return o
}

// commit commits one command, and returns its error.
func (n *node) commit(c *command) error { return n.Commit(n.tb.Context(), &c.Command)[0] }

// Requests of one user with one idempotency key have one effect and one answer within IdempotencyRetention.
func TestTheSameKeyHasOneEffectAndOneAnswer(t *testing.T) {
	eachDatabase(t, func(t *testing.T, n *node) {
		for range 3 {
			again := newCommand(1, "make")
			again.IdempotencyKey = "k"
			n.must(n.commit(again))
			if ids := again.IDs(); len(ids) != 1 || ids[0] != "made:make" {
				t.Errorf("the answer names %v", ids)
			}
			if again.afterCommitCount != 1 {
				t.Errorf("the actor's own projections were brought up to date %d times", again.afterCommitCount)
			}
		}
		if left := n.countLogEntries("make"); left != 1 {
			t.Errorf("%d effects of one key", left)
		}
		other := newCommand(2, "make")
		other.IdempotencyKey = "k"
		n.must(n.commit(other))
		if left := n.countLogEntries("make"); left != 2 {
			t.Error("another user's key is another key")
		}
		n.clock.advance(jobs.IdempotencyRetention + time.Second)
		late := newCommand(1, "make")
		late.IdempotencyKey = "k"
		n.must(n.commit(late))
		if left := n.countLogEntries("make"); left != 3 {
			t.Error("a key is good for 24 hours")
		}
	})
}

// A request with the idempotency key of another request is refused.
func TestAKeyUsedForAnotherRequestIsAConflict(t *testing.T) {
	n := sqliteNode(t, nil)
	first := newCommand(1, "make")
	first.IdempotencyKey = "k"
	n.must(n.commit(first))
	for what, change := range map[string]func(*command){
		"another input":    func(o *command) { o.Input = "else" },
		"another mutation": func(o *command) { o.Name = "delete" },
	} {
		again := newCommand(1, "make")
		again.IdempotencyKey = "k"
		change(again)
		err := n.commit(again)
		if services.CodeOf(err) != services.Conflict || !strings.Contains(err.Error(), "idempotencyKey") {
			t.Errorf("%s: %v", what, err)
		}
		if again.applyCount != 0 || again.afterCommitCount != 0 {
			t.Errorf("%s: it was applied", what)
		}
	}
}

// switchCommand makes a command that turns a switch on or off; it is refused if the switch is already in that state. The switch is
// on after an odd number of changes.
func switchCommand(name, key string, on bool) *jobs.Command {
	return &jobs.Command{
		Name: fmt.Sprint("turn ", on), Actor: 1, Input: name, IdempotencyKey: key,
		Apply: func(ctx context.Context, tx *sql.Tx) ([]string, error) {
			changes, err := changelog.AppendLog(ctx, tx, name, "", nil)
			if wasOn := changes%2 == 0; err == nil && wasOn == on {
				err = services.Errorf(services.Conflict, "nothing changes for %s", key)
			}
			return nil, err
		},
	}
}

// A late repetition of a refused request does not affect later changes, whether the requests are committed alone or in one batch.
func TestAKeyRemembersARefusal(t *testing.T) {
	eachDatabase(t, func(t *testing.T, n *node) {
		for _, together := range []bool{false, true} {
			name := fmt.Sprint("together ", together)
			cmds := []*jobs.Command{
				switchCommand(name, "k1"+name, false), switchCommand(name, "k2"+name, true), switchCommand(name, "k1"+name, false), switchCommand(name, "k2"+name, true),
				switchCommand(name, "k1"+name, true),
			}
			var errs []error
			if together {
				errs = n.Commit(t.Context(), cmds...)
			} else {
				for _, cmd := range cmds {
					errs = append(errs, n.Commit(t.Context(), cmd)...)
				}
			}
			for i, says := range []string{"nothing changes for k1", "", "nothing changes for k1", "", "was used for another mutation"} {
				if says == "" && errs[i] != nil || says != "" && (services.CodeOf(errs[i]) != services.Conflict || !strings.Contains(errs[i].Error(), says)) {
					t.Errorf("together %t, request %d: %v, want %q", together, i, errs[i], says)
				}
			}
			if changes := n.countLogEntries(name); changes != 1 {
				t.Errorf("together %t: the switch was changed %d times, want once", together, changes)
			}
		}
	})
}

// An idempotency key remembers errors of some codes, and stays free after errors of others. A failed command has no effect.
func TestCodesThatAKeyRemembers(t *testing.T) {
	n := sqliteNode(t, nil)
	for _, code := range []services.Code{
		services.Conflict, services.NotFound, services.Forbidden,
		services.Invalid, services.Unavailable, services.RateLimited, services.Internal,
	} {
		remembered := slices.Contains([]services.Code{services.Conflict, services.NotFound, services.Forbidden}, code)
		name := "refused with " + string(code)
		failing := newCommand(1, name)
		failing.IdempotencyKey = name
		apply := failing.Apply
		failing.Apply = func(ctx context.Context, tx *sql.Tx) ([]string, error) {
			ids, err := apply(ctx, tx)
			return ids, errors.Join(err, services.Errorf(code, "of the test"))
		}
		if err := n.commit(failing); services.CodeOf(err) != code || len(failing.IDs()) != 0 {
			t.Fatalf("%s: %v, ids %v", code, err, failing.IDs())
		}
		if n := n.countLogEntries(name); n != 0 || failing.afterCommitCount != 0 {
			t.Errorf("%s left %d entries and was shown %d times", code, n, failing.afterCommitCount)
		}
		again := newCommand(1, name)
		again.IdempotencyKey = name
		err := n.commit(again)
		if remembered && (services.CodeOf(err) != code || err.Error() != "of the test" || again.applyCount+again.afterCommitCount != 0) {
			t.Errorf("%s again: %v, applied %d times", code, err, again.applyCount)
		}
		if !remembered && (err != nil || n.countLogEntries(name) != 1) {
			t.Errorf("%s again: %v, %d effects", code, err, n.countLogEntries(name))
		}
	}
}

// Concurrent requests with one idempotency key get the same answer as the first, even if a repetition would be refused.
func TestConcurrentRequestsWithOneKeyHaveOneEffect(t *testing.T) {
	eachDatabase(t, func(t *testing.T, n *node) {
		const callers, keys = 10, 20
		for key := range keys {
			var together sync.WaitGroup
			cmds, errs := make([]*command, callers), make([]error, callers)
			for i := range callers {
				o := newCommand(1, "make")
				o.IdempotencyKey = fmt.Sprint("k", key)
				apply := o.Apply
				o.Apply = func(ctx context.Context, tx *sql.Tx) ([]string, error) {
					made, err := changelog.AppendLog(ctx, tx, o.IdempotencyKey, "", nil)
					if err == nil && made > 1 {
						err = services.Errorf(services.Conflict, "made already")
					}
					if err != nil {
						return nil, err
					}
					ids, err := apply(ctx, tx)
					return append(ids, fmt.Sprint(i)), err // distinguishes this caller's answer from the answers of other callers
				}
				cmds[i] = o
				together.Go(func() { errs[i] = n.commit(o) })
			}
			together.Wait()
			for i, err := range errs {
				if err != nil || len(cmds[i].IDs()) != 2 || !slices.Equal(cmds[i].IDs(), cmds[0].IDs()) {
					t.Fatalf("of callers with one key one was answered %v, %v, another %v, %v", cmds[0].IDs(), errs[0], cmds[i].IDs(), err)
				}
			}
		}
		if left := n.countLogEntries("make"); left != keys {
			t.Errorf("%d effects of %d keys", left, keys)
		}
	})
}

// A command that fails does not affect the others of its batch, and errs[i] is the error of cmds[i].
func TestAFailedCommandDoesNotAffectOthers(t *testing.T) {
	eachDatabase(t, func(t *testing.T, n *node) {
		cmds := make([]*jobs.Command, 5)
		mine := make([]*command, 5)
		for i := range cmds {
			mine[i] = newCommand(services.UserID(i+1), fmt.Sprint("command", i))
			cmds[i] = &mine[i].Command
		}
		reason := services.Errorf(services.NotFound, "of the test")
		cmds[1].Apply = func(ctx context.Context, tx *sql.Tx) ([]string, error) {
			_, err := changelog.AppendLog(ctx, tx, "command1", "half", nil)
			return nil, errors.Join(err, reason)
		}
		cmds[3].Apply = func(context.Context, *sql.Tx) ([]string, error) { panic("of the test") }
		errs := n.Commit(t.Context(), cmds...)
		for i, err := range errs {
			want := services.Code("")
			switch i {
			case 1:
				want = services.NotFound
			case 3:
				want = services.Internal
			}
			if services.CodeOf(err) != want {
				t.Errorf("command %d: %v, want code %q", i, err, want)
			}
			left, shown := 1, 1
			if want != "" {
				left, shown = 0, 0
			}
			if n.countLogEntries(fmt.Sprint("command", i)) != left || mine[i].afterCommitCount != shown {
				t.Errorf("command %d left %d entries, and was shown %d times", i, n.countLogEntries(fmt.Sprint("command", i)), mine[i].afterCommitCount)
			}
		}
	})
}

// The fact is committed even if the update of the projection fails; the answer says that the projections are stale.
func TestAFailedUpdateLeavesTheProjectionStale(t *testing.T) {
	n := sqliteNode(t, func(cfg *jobs.Config) { cfg.AfterCommitTimeout = 10 * time.Millisecond })
	good, bad, slow := newCommand(1, "good"), newCommand(2, "bad"), newCommand(3, "slow")
	bad.AfterCommit = func(context.Context) error { return errors.New("of the test") }
	slow.AfterCommit = func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	for _, err := range n.Commit(t.Context(), &good.Command, &bad.Command, &slow.Command) {
		n.must(err)
	}
	if good.ProjectionsStale() || !bad.ProjectionsStale() || !slow.ProjectionsStale() {
		t.Errorf("behind: good %t, failing %t, slow %t", good.ProjectionsStale(), bad.ProjectionsStale(), slow.ProjectionsStale())
	}
	for _, name := range []string{"good", "bad", "slow"} {
		if n.countLogEntries(name) != 1 {
			t.Errorf("%s has no fact", name)
		}
	}
}

// The projection is still updated if the client disconnects after the commit.
func TestTheProjectionIsUpdatedAfterTheClientLeft(t *testing.T) {
	n := sqliteNode(t, nil)
	ctx, leave := context.WithCancel(t.Context())
	o := newCommand(1, "make")
	apply := o.Apply
	o.Apply = func(ctx context.Context, tx *sql.Tx) ([]string, error) {
		defer leave()
		return apply(ctx, tx)
	}
	var seen error
	o.AfterCommit = func(ctx context.Context) error {
		seen = ctx.Err()
		o.afterCommitCount++
		return nil
	}
	if err := n.Commit(ctx, &o.Command)[0]; err != nil {
		t.Fatalf("SQLite commits what has begun: %v", err)
	}
	if o.afterCommitCount != 1 || seen != nil || o.ProjectionsStale() {
		t.Errorf("updated %d times under %v, behind %t", o.afterCommitCount, seen, o.ProjectionsStale())
	}
}

// The projections of one actor are updated in the order of the actor's commands.
func TestProjectionsOfAnActorAreUpdatedInOrder(t *testing.T) {
	n := sqliteNode(t, nil)
	var order []int
	cmds := make([]*jobs.Command, 20)
	for i := range cmds {
		o := newCommand(7, fmt.Sprint("command", i))
		o.AfterCommit = func(context.Context) error {
			order = append(order, i)
			return nil
		}
		cmds[i] = &o.Command
	}
	for _, err := range n.Commit(t.Context(), cmds...) {
		n.must(err)
	}
	for i, was := range order {
		if was != i {
			t.Fatalf("the order was %v", order)
		}
	}
	if len(order) != len(cmds) {
		t.Errorf("%d of %d projections", len(order), len(cmds))
	}
}

// An idempotency key has 1 to 64 characters.
func TestKeysOfOneTo64Characters(t *testing.T) {
	for key, fits := range map[string]bool{
		"": false, "a": true, strings.Repeat("é", 64): true, strings.Repeat("é", 65): false, "a\x00": false, "\xff": false,
	} {
		err := jobs.CheckIdempotencyKey(key)
		if (err == nil) != fits || err != nil && (services.CodeOf(err) != services.Invalid || !strings.Contains(err.Error(), "idempotencyKey")) {
			t.Errorf("%q: %v", key, err)
		}
	}
}

// Of one actor's commands with one CoalesceKey only the last one runs its AfterCommit, for all of them. Commands of other actors and
// commands without a CoalesceKey all run their own.
func TestTheLastOfCoalescedCommandsUpdatesTheProjection(t *testing.T) {
	n := sqliteNode(t, nil)
	var mu sync.Mutex
	var ran []int
	cmds := make([]*jobs.Command, 6)
	for i, c := range []struct {
		actor services.UserID
		key   string
	}{{1, "list"}, {1, "list"}, {2, "list"}, {1, ""}, {1, ""}, {1, "list"}} {
		o := newCommand(c.actor, fmt.Sprint("command", i))
		o.CoalesceKey = c.key
		o.AfterCommit = func(context.Context) error {
			mu.Lock()
			defer mu.Unlock()
			ran = append(ran, i)
			return nil
		}
		cmds[i] = &o.Command
	}
	for _, err := range n.Commit(t.Context(), cmds...) {
		n.must(err)
	}
	slices.Sort(ran)
	if want := []int{2, 3, 4, 5}; !slices.Equal(ran, want) {
		t.Errorf("AfterCommit ran for %v, want %v", ran, want)
	}
}
