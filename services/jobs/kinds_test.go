package jobs_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/jobs"
	"tidings/services/sql"
)

// A kind is registered once, and with all its parts. If a kind did not state the counts that it changes, counts that lack the jobs of
// a dead node would be shown as exact. If it did not state which users its jobs name, erasures would leave its jobs.
func TestAnIncompleteKindIsRefused(t *testing.T) {
	batch := func(context.Context, []jobs.Job) []error { return nil }
	counts := jobs.CountsOf(jobs.Everyone, "RED")
	for _, c := range []struct {
		says string // a part of the panic of Register; "": the kind is accepted
		kind jobs.Kind
	}{
		{"", jobs.Kind{Name: "paint", Class: jobs.ShortClass, Each: doNothing, ChangedCounts: counts, NamesUser: jobs.NoUser}},
		{"", jobs.Kind{Name: "dry", Class: jobs.UrgentClass, Batch: batch, ChangedCounts: jobs.NoCounts(), NamesUser: jobs.NoUser}},
		{"no name", jobs.Kind{Each: doNothing, ChangedCounts: counts, NamesUser: jobs.NoUser}},
		{"registered already", jobs.Kind{Name: "first", Each: doNothing, ChangedCounts: counts, NamesUser: jobs.NoUser}},
		{"no queue class", jobs.Kind{Name: "paint", Class: 3, Each: doNothing, ChangedCounts: counts, NamesUser: jobs.NoUser}},
		{"either Each or Batch", jobs.Kind{Name: "paint", ChangedCounts: counts, NamesUser: jobs.NoUser}},
		{"either Each or Batch", jobs.Kind{Name: "paint", Each: doNothing, Batch: batch, ChangedCounts: counts, NamesUser: jobs.NoUser}},
		{"counts that it changes", jobs.Kind{Name: "paint", Each: doNothing}},
		{"counts that it changes", jobs.Kind{Name: "paint", Each: doNothing, ChangedCounts: jobs.CountsOf(jobs.Everyone)}},
		{"counts that it changes", jobs.Kind{Name: "paint", Each: doNothing, ChangedCounts: jobs.CountsOf(nil, "RED")}},
		{"which users its jobs name", jobs.Kind{Name: "paint", Each: doNothing, ChangedCounts: counts}},
	} {
		e := jobs.New(jobs.Config{})
		e.Register(shortJobKind("first", doNothing))
		said := func() (said string) {
			defer func() {
				if r := recover(); r != nil {
					said = fmt.Sprint(r)
				}
			}()
			e.Register(c.kind)
			return ""
		}()
		if (said == "") != (c.says == "") || !strings.Contains(said, c.says) {
			t.Errorf("%+v: it was said %q, want %q", c.kind, said, c.says)
		}
		if taken := slices.Contains(e.Kinds(), c.kind.Name) && c.kind.Name != "first"; taken != (c.says == "") {
			t.Errorf("%+v: registered %t", c.kind, taken)
		}
	}
}

// Short jobs are claimed together and by their own worker; chunks one at a time, urgent ones by a separate worker.
func TestEachClassHasItsWorkers(t *testing.T) {
	var done []string
	each := func(_ context.Context, job jobs.Job) error {
		done = append(done, job.Kind)
		return nil
	}
	n := sqliteNode(t, nil,
		jobs.Kind{Name: "short", Class: jobs.ShortClass, ChangedCounts: jobs.NoCounts(), NamesUser: jobs.NoUser, Batch: func(_ context.Context, claimed []jobs.Job) []error {
			done = append(done, fmt.Sprint("short ", len(claimed)))
			return make([]error, len(claimed))
		}},
		jobs.Kind{Name: "bulk", Class: jobs.BulkClass, Each: each, ChangedCounts: jobs.NoCounts(), NamesUser: jobs.NoUser},
		jobs.Kind{Name: "urgent", Class: jobs.UrgentClass, Each: each, ChangedCounts: jobs.NoCounts(), NamesUser: jobs.NoUser},
	)
	for range 3 {
		n.enqueue(jobs.KeyedJob("short", ""), jobs.KeyedJob("bulk", ""), jobs.KeyedJob("urgent", ""))
	}
	workers := n.Workers(2)
	if len(workers) != 5 {
		t.Fatalf("%d workers, want one for short jobs, two for chunks, one for urgent ones, one for jobs that go ahead", len(workers))
	}
	for _, worker := range workers {
		_, err := worker.RunOnce(t.Context())
		n.must(err)
	}
	if want := []string{"short 3", "bulk", "bulk", "urgent"}; !slices.Equal(done, want) {
		t.Errorf("done were %v, want %v", done, want)
	}
	if waiting, _ := n.queueCounts(); waiting != 3 {
		t.Errorf("%d jobs are left, want a bulk chunk and two urgent ones", waiting)
	}
}

// A job that fails by itself is dead after five tries. A try without an answer from an engine does not count. Neither job delays the
// others of its claim.
func TestOnlyAJobsOwnFailuresAreTries(t *testing.T) {
	outcome := map[string]error{"bad": fmt.Errorf("of the test"), "away": services.Errorf(services.Unavailable, "of the test")}
	n := sqliteNode(t, nil, shortJobKind("good", doNothing), shortJobKind("paint", func(_ context.Context, job jobs.Job) error { return outcome[job.Key] }))
	n.enqueue(jobs.KeyedJob("paint", "bad"), jobs.KeyedJob("paint", "away"), jobs.KeyedJob("good", ""))
	for try := 1; try <= 2*jobs.MaxTries; try++ {
		_, err := n.Workers(1)[0].RunOnce(t.Context())
		if !services.IsUnavailable(err) {
			t.Fatalf("try %d: %v, want that an engine is away", try, err)
		}
		want := [2]int{2, 0}
		if try >= jobs.MaxTries {
			want = [2]int{1, 1}
		}
		if waiting, dead := n.queueCounts(); [2]int{waiting, dead} != want {
			t.Fatalf("after try %d %d jobs wait and %d are dead, want %v", try, waiting, dead, want)
		}
		n.clock.advance(24 * time.Hour)
	}
	outcome["away"] = nil
	_, err := n.Workers(1)[0].RunOnce(t.Context())
	n.must(err)
	if waiting, dead := n.queueCounts(); waiting != 0 || dead != 1 {
		t.Errorf("%d jobs wait and %d are dead when the engine answers again, want 0 and 1", waiting, dead)
	}
}

// A job's effect and its end are one transaction: a worker that has lost its lease has no effect.
func TestAWorkerThatLostItsLeaseHasNoEffect(t *testing.T) {
	eachDatabase(t, func(t *testing.T, n *node) {
		n.Register(shortJobKind("paint", func(ctx context.Context, job jobs.Job) error {
			return n.FinishWith(ctx, job, func(tx *sql.Tx) error {
				_, err := changelog.AppendLog(ctx, tx, "painted", "", nil)
				return err
			})
		}), shortJobKind("split", func(ctx context.Context, job jobs.Job) error {
			chunks, err := jobs.ChunkJobs("dry", []int{1, 2, 3})
			if err != nil {
				return err
			}
			return n.Replace(ctx, job, chunks)
		}), jobs.Kind{Name: "dry", Class: jobs.BulkClass, Each: doNothing, ChangedCounts: jobs.NoCounts(), NamesUser: jobs.NoUser})
		for _, kind := range []string{"paint", "split"} {
			n.enqueue(jobs.KeyedJob(kind, ""))
			late := n.claim()
			n.clock.advance(24 * time.Hour)
			n.must(n.RunJobs(t.Context(), n.claim()))
			if err := n.RunJobs(t.Context(), late); !services.IsUnavailable(err) {
				t.Errorf("%s: the late worker got %v", kind, err)
			}
		}
		waiting, dead := n.queueCounts()
		if painted := n.countLogEntries("painted"); painted != 1 || waiting != 3 || dead != 0 {
			t.Errorf("painted %d times, %d chunks wait, %d jobs are dead; want 1, 3, 0", painted, waiting, dead)
		}
	})
}
