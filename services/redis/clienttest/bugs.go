package clienttest

import (
	"slices"
	"strings"
	"testing"

	"tidings/services"
	"tidings/services/redis"
	"tidings/tests/histories"
)

// minHistoriesPerRun is the least number of histories that every run of the tests includes, beside the histories that are known to
// find a bug.
const minHistoriesPerRun = 10

// ScriptReplacements are an injected bug in scripts. Each replaces a text that occurs once in its script.
type ScriptReplacements []scriptReplacement

// scriptReplacement is a text of a script and the text that takes its place.
type scriptReplacement struct {
	script   *redis.Script
	old, new string
}

// ReplaceInScript makes the injected bug that replaces one text of a script.
func ReplaceInScript(script *redis.Script, old, new string) ScriptReplacements {
	return ScriptReplacements{{script, old, new}}
}

// AndReplaceInScript returns the replacements and one more.
func (r ScriptReplacements) AndReplaceInScript(script *redis.Script, old, new string) ScriptReplacements {
	return append(slices.Clone(r), scriptReplacement{script, old, new})
}

// Bug is an injected bug that histories must find: in scripts, or in the work that calls them.
type Bug[Work any] struct {
	Scripts ScriptReplacements // what the bug changes in scripts
	Work    func(Work)         // makes the bug in the work that calls the scripts; nil: the bug is in scripts
	Known   int                // the number of a history that finds it; FindBugs looks for another if this one no longer does
}

// Inject injects the bug into the code of a history that calls the scripts, by the field Work. A bug that is in the scripts themselves
// is injected by FindBugs.
func (b Bug[Work]) Inject(work Work) {
	if b.Work != nil {
		b.Work(work)
	}
}

// Script is the registered script of a name.
func Script(name string) *redis.Script {
	scripts := redis.Scripts()
	at := slices.IndexFunc(scripts, func(s *redis.Script) bool { return s.Name == name })
	if at < 0 {
		panic("no script is called " + name)
	}
	return scripts[at]
}

// HistoryNumbers are the numbers of the histories to run: the first few, all up to full if the full set is asked for, and the
// histories that once found a bug, because these are worth repeating.
func HistoryNumbers[Work any](t *testing.T, full int, bugs map[string]Bug[Work]) map[int]bool {
	t.Helper()
	all := map[int]bool{}
	for i := range histories.ShortOrFull(t, max(minHistoriesPerRun, full/10), full) {
		all[i] = true
	}
	for _, bug := range bugs {
		all[bug.Known] = true
	}
	return all
}

// FindBugs empties the Redis and runs a test for each bug. It tries the history that is known to find the bug, and then the
// histories whose numbers are less than most. The test fails unless a history that every test run includes finds the bug.
func FindBugs[Work any](t *testing.T, c *redis.Client, bugs map[string]Bug[Work], most int, run func(number int, bug Bug[Work]) error) {
	for name, bug := range bugs {
		t.Run(name, func(t *testing.T) {
			for _, change := range bug.Scripts {
				// A script that was changed may have lost the place of the bug: the test says so and does not pass.
				if strings.Count(change.script.Source, change.old) != 1 {
					t.Fatalf("the script %s does not have %q once", change.script.Name, change.old)
				}
				defer change.script.Replace(strings.Replace(change.script.Source, change.old, change.new, 1))()
			}
			// Data that the previous bug has left must not help to find this one.
			if err := c.Commands().FlushDB(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			// The known history still finds most bugs. The search is for a bug that it no longer finds, because what that number
			// generates has changed.
			number := bug.Known
			err := run(number, bug)
			for next := 0; err == nil && next < most; next++ {
				if number = next; number != bug.Known { // the known history's people already exist
					err = run(number, bug)
				}
			}
			// A history whose Redis did not answer has found nothing.
			if err == nil || services.IsUnavailable(err) {
				t.Fatalf("not found up to %d: %v", number, err)
			}
			first, _, _ := strings.Cut(err.Error(), "\n")
			t.Logf("%s: found by %d: %s", name, number, first)
			if number != bug.Known && number >= minHistoriesPerRun {
				t.Errorf("history %d finds it and is not tried with each commit: make it known", number)
			}
		})
	}
}
