package views

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidings/services/fanout/fanouttest"
	"tidings/services/jobs"
	"tidings/services/sql"
	"tidings/tests/histories"
)

// clockTimeAtSecond is the time n seconds after the start of the tests' clock.
func clockTimeAtSecond(n int) time.Time {
	return fanouttest.StartTime.Add(time.Duration(n) * time.Second)
}

// testedView is a view under test, on one node.
type testedView struct {
	testNode
	view View
}

// addItemAndEnqueueJob adds an item to the facts, and queues its job.
func (s testedView) addItemAndEnqueueJob(item string, at time.Time) {
	s.TB.Helper()
	s.Write(func(ctx context.Context, tx *sql.Tx) error {
		if _, err := addItem(ctx, tx, s.view, Item{Name: item, At: at}); err != nil {
			return err
		}
		return s.enqueueItemJob(ctx, tx, item)
	})
}

// removeItemAndEnqueueJob removes an item from the facts, and queues its job.
func (s testedView) removeItemAndEnqueueJob(item string) {
	s.TB.Helper()
	s.Write(func(ctx context.Context, tx *sql.Tx) error {
		if _, err := removeItem(ctx, tx, s.view, item); err != nil {
			return err
		}
		return s.enqueueItemJob(ctx, tx, item)
	})
}

// enqueueItemJob queues the job of an item.
func (s testedView) enqueueItemJob(ctx context.Context, tx *sql.Tx, item string) error {
	job, err := itemJob(s.view, item)
	if err != nil {
		return err
	}
	return jobs.Enqueue(ctx, tx, job)
}

// addItemsAndEnqueueJobs adds the items from <= n < to to the facts, each with the time clockTimeAtSecond(n), and queues their jobs.
func (s testedView) addItemsAndEnqueueJobs(from, to int) {
	s.TB.Helper()
	s.Write(func(ctx context.Context, tx *sql.Tx) error {
		for n := from; n < to; n++ {
			item := fmt.Sprint("item", n)
			if _, err := addItem(ctx, tx, s.view, Item{Name: item, At: clockTimeAtSecond(n)}); err != nil {
				return err
			}
			if err := s.enqueueItemJob(ctx, tx, item); err != nil {
				return err
			}
		}
		return nil
	})
}

// rebuild builds the view in Redis anew from the facts.
func (s testedView) rebuild() {
	s.TB.Helper()
	s.Must(s.service.rebuild(s.TB.Context(), []View{s.view}))
}

// countInRedis returns the answer of Redis to a user who last looked at the view at a time.
func (s testedView) countInRedis(upTo time.Time) viewCount {
	s.TB.Helper()
	counts, err := s.service.redis.count(s.TB.Context(), []LastAccess{{View: s.view, UpTo: upTo}})
	s.Must(err)
	return counts[0]
}

// mismatchWithFacts compares the answers of Redis with the facts, for last looks at several times; "" when they agree. A missing view
// gives no answer, and is no fault.
func (s testedView) mismatchWithFacts() string {
	s.TB.Helper()
	for n := -1; n < 400; n += 7 {
		access := LastAccess{View: s.view, UpTo: clockTimeAtSecond(n)}
		facts, err := countNewItems(s.TB.Context(), s.DB, []LastAccess{access}, 1000)
		s.Must(err)
		got := s.countInRedis(access.UpTo)
		switch {
		case !got.ready:
		case got.count != min(facts[0], maxCountedItems), !got.atLeast && facts[0] > got.count:
			return fmt.Sprintf("after second %d Redis says %+v, the facts are %d", n, got, facts[0])
		}
	}
	return ""
}

// mustMatchFacts runs the jobs, and fails the test unless Redis has the view and agrees with the facts.
func (s testedView) mustMatchFacts(t *testing.T, when string) {
	t.Helper()
	s.RunAllJobs(s.Fanout)
	if fault := s.mismatchWithFacts(); fault != "" {
		t.Errorf("%s: %s", when, fault)
	}
	for _, upTo := range []int{-1, 1000} {
		if !s.countInRedis(clockTimeAtSecond(upTo)).ready {
			t.Errorf("%s: to who looked at second %d the view says nothing", when, upTo)
		}
	}
}

func TestAViewKeepsItsNewestItems(t *testing.T) {
	eachNode(t, func(t *testing.T, n testNode) {
		s := testedView{n, View{Code: "news", ID: "a/b {c}"}}
		if got := s.countInRedis(clockTimeAtSecond(0)); got.ready {
			t.Errorf("before it is built: %+v", got)
		}
		s.rebuild()
		s.mustMatchFacts(t, "empty")
		for _, to := range []int{1, 98, 99, 100, 101, 132, 133, 134, 300} {
			s.addItemsAndEnqueueJobs(0, to)
			s.mustMatchFacts(t, fmt.Sprint(to, " items"))
			s.rebuild()
			s.mustMatchFacts(t, fmt.Sprint(to, " items, rebuilt"))
		}
		if got := s.countInRedis(clockTimeAtSecond(199)); got != (viewCount{ready: true, count: 100}) {
			t.Errorf("100 unread: %+v", got)
		}
		if got := s.countInRedis(clockTimeAtSecond(198)); got != (viewCount{ready: true, count: 100, atLeast: true}) {
			t.Errorf("101 unread: %+v", got)
		}
		for n := 299; n >= 120; n -= 2 { // fewer items than it keeps: it is refilled
			s.removeItemAndEnqueueJob(fmt.Sprint("item", n))
		}
		s.mustMatchFacts(t, "half of them removed")
		s.addItemAndEnqueueJob("item250", clockTimeAtSecond(399))
		s.mustMatchFacts(t, "moved")
		if got := s.countInRedis(clockTimeAtSecond(398)); got.count != 1 {
			t.Errorf("moved: %+v", got)
		}
	})
}

// interruptingContext is a context that runs something else before the nth round trip of Redis. Each n is between another two steps
// of the work, also between its read of SQL and its write.
type interruptingContext struct {
	context.Context
	roundTripsBeforeInterrupt int    // the round trips until interrupt runs
	interrupt                 func() // runs something else
}

// Value is called for the count of round trips before each of them.
func (m *interruptingContext) Value(key any) any {
	if fmt.Sprintf("%T", key) == "redis.roundTripsKey" {
		if m.roundTripsBeforeInterrupt--; m.roundTripsBeforeInterrupt == 0 {
			m.interrupt()
		}
	}
	return m.Context.Value(key)
}

// Other work runs as a whole between any two steps of adding, removing or rebuilding: in the end Redis has the facts.
func TestChangesBetweenTwoStepsOfAView(t *testing.T) {
	n, number := newNode(fanouttest.New(t, fanouttest.Options{})), 0
	// before prepares the view. work is a rebuild, or, if nil, the due jobs. between runs between two steps of work.
	for name, history := range map[string]struct{ before, work, between func(testedView) }{
		"added while it is removed": {
			func(s testedView) {
				s.addItemAndEnqueueJob("x", clockTimeAtSecond(5))
				s.RunAllJobs(s.Fanout)
				s.removeItemAndEnqueueJob("x")
			}, nil,
			func(s testedView) { s.addItemAndEnqueueJob("x", clockTimeAtSecond(50)) },
		},
		"removed while it is added": {func(s testedView) { s.addItemAndEnqueueJob("x", clockTimeAtSecond(5)) }, nil, func(s testedView) { s.removeItemAndEnqueueJob("x") }},
		"moved while it is added":   {func(s testedView) { s.addItemAndEnqueueJob("x", clockTimeAtSecond(5)) }, nil, func(s testedView) { s.addItemAndEnqueueJob("x", clockTimeAtSecond(50)) }},
		"lost while it is added":    {func(s testedView) { s.addItemAndEnqueueJob("x", clockTimeAtSecond(5)) }, nil, func(s testedView) { s.RedisServer.Flush(); s.rebuild() }},
		"rebuilt while it is removed": {func(s testedView) {
			s.addItemAndEnqueueJob("x", clockTimeAtSecond(5))
			s.RunAllJobs(s.Fanout)
			s.removeItemAndEnqueueJob("x")
		}, nil, testedView.rebuild},
		"added while it is rebuilt":   {nil, testedView.rebuild, func(s testedView) { s.addItemAndEnqueueJob("x", clockTimeAtSecond(50)) }},
		"removed while it is rebuilt": {func(s testedView) { s.addItemAndEnqueueJob("x", clockTimeAtSecond(5)); s.RunAllJobs(s.Fanout) }, testedView.rebuild, func(s testedView) { s.removeItemAndEnqueueJob("x") }},
		"moved while it is rebuilt":   {func(s testedView) { s.addItemAndEnqueueJob("x", clockTimeAtSecond(5)) }, testedView.rebuild, func(s testedView) { s.addItemAndEnqueueJob("x", clockTimeAtSecond(50)) }},
		"lost while it is rebuilt":    {nil, testedView.rebuild, func(s testedView) { s.RedisServer.Flush() }},
		"grows while it is rebuilt":   {func(s testedView) { s.addItemsAndEnqueueJobs(0, 130) }, testedView.rebuild, func(s testedView) { s.addItemsAndEnqueueJobs(130, 140) }},
		"removed from what is too long": {func(s testedView) {
			s.addItemsAndEnqueueJobs(0, 140)
			s.RunAllJobs(s.Fanout)
			s.removeItemAndEnqueueJob("item139")
		}, nil, func(s testedView) { s.removeItemAndEnqueueJob("item138") }},
	} {
		t.Run(name, func(t *testing.T) {
			for trip := 1; ; trip++ {
				number++
				s := testedView{n, View{Code: "run", ID: fmt.Sprint(number)}}
				s.rebuild()
				if history.before != nil {
					history.before(s)
				}
				ctx := &interruptingContext{Context: t.Context(), roundTripsBeforeInterrupt: trip, interrupt: func() { history.between(s); s.RunDueJobs(s.Fanout) }}
				if history.work != nil {
					s.Must(s.service.rebuild(ctx, []View{s.view}))
				} else {
					for _, job := range n.ClaimDueJobs() {
						s.Must(s.Fanout.RunJobs(ctx, []jobs.Job{job}))
					}
				}
				s.RunAllJobs(s.Fanout)
				if fault := s.mismatchWithFacts(); fault != "" {
					t.Fatalf("before round trip %d: %s", trip, fault)
				}
				if ctx.roundTripsBeforeInterrupt > 0 { // the work ended before
					if trip < 3 {
						t.Fatalf("there were only %d steps", trip-1)
					}
					break
				}
			}
		})
	}
}

// alwaysInterruptingContext is a context that runs something else before every round trip of Redis.
type alwaysInterruptingContext struct {
	context.Context
	interrupt func()
}

// Value is called for the count of round trips before each of them, and runs interrupt then.
func (p alwaysInterruptingContext) Value(key any) any {
	if fmt.Sprintf("%T", key) == "redis.roundTripsKey" {
		p.interrupt()
	}
	return p.Context.Value(key)
}

// A view was being refilled when its job gave up, because items were removed all the time. It is refilled when the job is
// tried again.
func TestAViewIsRefilledAfterItsJobGaveUp(t *testing.T) {
	eachNode(t, func(t *testing.T, n testNode) {
		s := testedView{n, View{Code: "news", ID: "busy"}}
		s.rebuild()
		s.addItemsAndEnqueueJobs(0, 150)
		s.RunAllJobs(s.Fanout)
		left := 149 // the newest that stands
		gaveUp := false
		for ; !gaveUp && left > 0; left-- {
			s.removeItemAndEnqueueJob(fmt.Sprint("item", left))
			ctx := alwaysInterruptingContext{t.Context(), func() {
				_, err := s.service.redis.remove(t.Context(), s.view, "nobody")
				s.Must(err)
			}}
			for _, job := range n.ClaimDueJobs() {
				s.Must(s.Fanout.RunJobs(ctx, []jobs.Job{job}))
			}
			waiting, _ := n.CountJobs()
			gaveUp = waiting > 0
		}
		if !gaveUp || s.countInRedis(clockTimeAtSecond(0)).ready {
			t.Fatalf("no job gave up: %d items are left, %+v", left, s.countInRedis(clockTimeAtSecond(0)))
		}
		s.mustMatchFacts(t, "tried again")
	})
}

// After any history of a view Redis agrees with the facts, although its steps in Redis lag behind SQL, run twice, or run out of
// order.
func TestViewsAgreeWithTheFacts(t *testing.T) {
	histories.ReduceRapidChecks(t, 10)
	n, number := newNode(fanouttest.New(t, fanouttest.Options{})), 0
	rapid.Check(t, func(t *rapid.T) {
		number++
		s := testedView{n, View{Code: "history", ID: fmt.Sprint(number)}}
		var held []jobs.Job                  // jobs that a slow worker claimed
		var adds []func() error              // late writes to Redis, of items that were read from SQL earlier
		stands, next := map[string]bool{}, 0 // the reported items
		settle := func() {
			for _, late := range adds {
				s.Must(late())
			}
			for _, job := range held {
				s.Must(s.Fanout.RunJobs(s.TB.Context(), []jobs.Job{job}))
			}
			held, adds = nil, nil
			s.RunAllJobs(s.Fanout)
			if fault := s.mismatchWithFacts(); fault != "" {
				t.Fatal(fault)
			}
		}
		item := func() string { return fmt.Sprint("i", rapid.IntRange(0, 5).Draw(t, "item")) }
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				name := item()
				s.addItemAndEnqueueJob(name, clockTimeAtSecond(rapid.IntRange(0, 390).Draw(t, "at")))
				stands[name] = true
			},
			"fill": func(*rapid.T) { s.addItemsAndEnqueueJobs(next, next+40); next += 40 },
			"remove": func(t *rapid.T) {
				if name := item(); stands[name] {
					s.removeItemAndEnqueueJob(name)
				}
			},
			"remove many": func(t *rapid.T) {
				for n := rapid.IntRange(0, 3).Draw(t, "first"); n < next; n += 4 {
					s.removeItemAndEnqueueJob(fmt.Sprint("item", n))
				}
			},
			"read": func(t *rapid.T) { // under a stamp that will be old at the write
				name, ctx := item(), n.TB.Context()
				stamp, err := s.service.redis.takeStamp(ctx, s.view)
				s.Must(err)
				at, there, err := readItem(ctx, s.DB, s.view, name)
				s.Must(err)
				if stamp > 0 && there {
					adds = append(adds, func() error {
						_, err := s.service.redis.add(ctx, s.view, stamp, Item{Name: name, At: at})
						return err // the job of the removal repairs a refused add
					})
				}
			},
			"write": func(t *rapid.T) {
				if len(adds) > 0 {
					i := rapid.IntRange(0, len(adds)-1).Draw(t, "late")
					s.Must(adds[i]())
				}
			},
			"work": func(t *rapid.T) {
				if held = append(held, n.ClaimDueJobs()...); len(held) == 0 {
					return
				}
				i := rapid.IntRange(0, len(held)-1).Draw(t, "job")
				s.Must(s.Fanout.RunJobs(s.TB.Context(), held[i:i+1]))
				if rapid.Bool().Draw(t, "once") {
					held = slices.Delete(held, i, i+1)
				}
			},
			"lose":    func(*rapid.T) { s.RedisServer.Flush() },
			"rebuild": func(*rapid.T) { s.rebuild() },
			"rest":    func(*rapid.T) { settle() },
		})
		settle()
	})
}
