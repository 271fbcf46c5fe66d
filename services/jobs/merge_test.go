package jobs_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"tidings/services/jobs"
)

// projection is a copy of a fact that refuses facts read before its last change.
type projection struct {
	fact        int // the source of truth
	shownFact   int // the copy
	changeCount int // how often setFact has changed shownFact
}

// merge makes the ProjectionMerge of a projection. Before each step it calls before with the name of the step.
func (p *projection) merge(before func(step string)) jobs.ProjectionMerge[int, int] {
	return jobs.ProjectionMerge[int, int]{
		Name: func() string { return "the copy" },
		Mark: func(context.Context) (int, bool, error) {
			before("mark")
			return p.changeCount, true, nil
		},
		Read: func(context.Context) (int, error) {
			before("read")
			return p.fact, nil
		},
		Put: func(_ context.Context, stamp, fact int) (bool, error) {
			before("put")
			if stamp != p.changeCount {
				return false, nil
			}
			p.shownFact = fact
			return true, nil
		},
	}
}

// setFact changes the fact and then the projection, as every writer does.
func (p *projection) setFact(fact int) {
	p.fact, p.shownFact = fact, fact
	p.changeCount++
}

// A merge that ends without an error leaves the present fact, whatever changed between its steps.
func TestAMergeNeverLeavesAnOlderFact(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := &projection{fact: -1}
		at := rapid.SliceOfN(rapid.IntRange(0, 20), 0, 8).Draw(rt, "changes before step")
		steps := 0
		err := p.merge(func(string) {
			if slices.Contains(at, steps) {
				p.setFact(steps)
			}
			steps++
		}).Run(t.Context())
		if err != nil || p.shownFact != p.fact {
			rt.Fatalf("shown is %d, the fact is %d, %v", p.shownFact, p.fact, err)
		}
	})
}

// Each round takes a stamp before it reads the fact. A merge ends with the first successful round, and gives up after
// MaxMergeAttempts.
func TestAMergeRepeatsAllStepsUntilItIsDone(t *testing.T) {
	round := []string{"mark", "read", "put"}
	for refusals, want := range map[int]int{0: 1, 1: 2, 5: 6, jobs.MaxMergeAttempts: jobs.MaxMergeAttempts} {
		p := &projection{fact: 7}
		var steps []string
		err := p.merge(func(step string) {
			steps = append(steps, step)
			if step == "put" && len(steps) <= 3*refusals {
				p.setFact(7)
			}
		}).Run(t.Context())
		if !slices.Equal(steps, slices.Repeat(round, want)) {
			t.Errorf("%d refusals: the steps were %v, want %d rounds", refusals, steps, want)
		}
		if gaveUp := err != nil && strings.Contains(err.Error(), "the copy: it changed during each of 20 attempts"); gaveUp != (refusals == jobs.MaxMergeAttempts) {
			t.Errorf("%d refusals: %v", refusals, err)
		}
	}
}

// An error of a step ends the merge, and so does a missing projection.
func TestAMergeEndsWithTheFirstError(t *testing.T) {
	failure := errors.New("of the test")
	for _, failing := range []string{"mark", "read", "put", ""} {
		var steps []string
		step := func(name string) error {
			steps = append(steps, name)
			if name == failing {
				return failure
			}
			return nil
		}
		err := jobs.ProjectionMerge[int, int]{
			Mark: func(context.Context) (int, bool, error) {
				err := step("mark")
				return 0, failing != "", err
			},
			Read: func(context.Context) (int, error) { return 0, step("read") },
			Put:  func(context.Context, int, int) (bool, error) { return false, step("put") },
		}.Run(t.Context())
		want := []string{"mark", "read", "put"}
		want = want[:max(1, slices.Index(want, failing)+1)]
		if !slices.Equal(steps, want) || !errors.Is(err, failure) != (failing == "") {
			t.Errorf("failing at %q: the steps were %v, %v", failing, steps, err)
		}
	}
}
