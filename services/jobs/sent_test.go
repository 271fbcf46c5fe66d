package jobs_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/jobs"
)

// A request that named objects by refs is the same request when it is sent with their IDs or again with the same refs, whatever the
// refs name by then. A repetition has the subject of the first request.
func TestRequestsByIDsAndByRefsAreTheSame(t *testing.T) {
	eachDatabase(t, func(t *testing.T, n *node) {
		ids, byRef := func(id string) *command {
			o := newCommand(1, "make")
			o.Input, o.Subject = id, id
			return o
		}, func(ref, id string) *command {
			o := newCommand(1, "make")
			o.Input, o.SentInput, o.Subject = id, ref, id
			return o
		}
		unknown := func(ref string) *command {
			o := &command{Command: *jobs.RefusalCommand(1, services.Errorf(services.NotFound, "there is no %s", ref))}
			o.Name, o.Input = "make", ref
			return o
		}
		const done, refused, another = "", "there is no ref", "was used for another mutation"
		for i, of := range []struct {
			first, again *command
			says         string // a part of the error of again; "": it succeeds
			subject      string // the Subject of again after its commit
		}{
			{byRef("ref", "1"), byRef("ref", "1"), done, "1"},
			{byRef("ref", "1"), ids("1"), done, "1"},
			{ids("1"), byRef("ref", "1"), done, "1"},
			{byRef("ref", "1"), byRef("ref", "2"), done, "1"},
			{byRef("ref", "1"), unknown("ref"), done, "1"},
			{unknown("ref"), unknown("ref"), refused, ""},
			{unknown("ref"), byRef("ref", "1"), refused, "1"},
			{byRef("ref", "1"), byRef("other", "2"), another, ""},
			{byRef("ref", "1"), unknown("other"), another, ""},
			{byRef("ref", "1"), ids("2"), another, ""},
			{ids("1"), unknown("ref"), another, ""},
			{unknown("ref"), ids("1"), another, ""},
			{unknown("ref"), byRef("other", "1"), another, ""},
		} {
			of.first.IdempotencyKey, of.again.IdempotencyKey = fmt.Sprint("k", i), fmt.Sprint("k", i)
			first := n.commit(of.first)
			effects := n.countLogEntries("make")
			again := n.commit(of.again)
			if of.says == done && again != nil || of.says != done && (again == nil || !strings.Contains(again.Error(), of.says)) {
				t.Errorf("%d: %v, and first %v", i, again, first)
			}
			if of.says != another && of.again.Subject != of.subject {
				t.Errorf("%d: the subject is %q", i, of.again.Subject)
			}
			if left := n.countLogEntries("make"); left != effects {
				t.Errorf("%d: it has %d effects more", i, left-effects)
			}
		}
		// A key that is used again after its time keeps nothing of the first request.
		n.clock.advance(jobs.IdempotencyRetention + time.Second)
		late, gone := ids("3"), unknown("ref")
		late.IdempotencyKey, gone.IdempotencyKey = "k0", "k0"
		n.must(n.commit(late))
		if err := n.commit(gone); err == nil || !strings.Contains(err.Error(), another) {
			t.Errorf("the ref of an older request: %v", err)
		}
	})
}

// A refusal that its key does not remember leaves the key free, also if the request had no command of its own.
func TestAnUnrememberedRefusalLeavesTheKeyFree(t *testing.T) {
	n := sqliteNode(t, nil)
	for _, code := range services.Codes {
		refusal := services.Errorf(code, "of the test")
		refused := &command{Command: *jobs.RefusalCommand(1, fmt.Errorf("while looking: %w", refusal))}
		refused.Name, refused.Input, refused.IdempotencyKey = "make", "input", string(code)
		if err := n.commit(refused); services.CodeOf(err) != code {
			t.Errorf("%s: %v", code, err)
		}
		again := newCommand(1, "make")
		again.IdempotencyKey = string(code)
		err := n.commit(again)
		if remembered := jobs.IsRememberedError(refusal); remembered != (services.CodeOf(err) == code) || remembered == (again.applyCount > 0) {
			t.Errorf("%s again: %v, applied %d times", code, err, again.applyCount)
		}
	}
}
