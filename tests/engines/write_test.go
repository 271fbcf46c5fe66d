package engines

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/people"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
	"tidings/tests/eventually"
)

var errDeliberate = errors.New("mine") // what the functions and jobs of these tests return in order to fail

// publishPost returns a function that publishes a post with this ID.
func publishPost(ctx context.Context, id services.PostID) func(tx *sql.Tx) error {
	return func(tx *sql.Tx) error {
		return putPost(ctx, tx, 1, id, "b")
	}
}

// publishedPosts lists the committed posts, the newest first.
func (b *testDB) publishedPosts() []services.PostID {
	b.T.Helper()
	return must(postsOfFirstAuthor(b.Ctx, b.DB))(b.T)
}

// A write is committed, and its function gets the time of the database's clock in UTC.
func TestWrite(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		b.MustWrite(func(tx *sql.Tx) error {
			if !tx.Now.Equal(b.Clock.Now()) || tx.Now.Location().String() != "UTC" {
				b.T.Errorf("the time is %s", tx.Now)
			}
			return publishPost(b.Ctx, 1)(tx)
		})
		equal(b.T, b.publishedPosts(), []services.PostID{1})
	})
}

func TestWriteErrorUndoesEverything(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		err := b.Write(b.Ctx, func(tx *sql.Tx) error {
			if err := publishPost(b.Ctx, 1)(tx); err != nil {
				return err
			}
			return fmt.Errorf("wrapped: %w", errDeliberate)
		})
		if !errors.Is(err, errDeliberate) {
			b.T.Errorf("the error is %v", err)
		}
		b.MustWrite(publishPost(b.Ctx, 2))
		equal(b.T, b.publishedPosts(), []services.PostID{2})
	})
}

func TestWritePanicUndoesEverything(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		err := b.Write(b.Ctx, func(tx *sql.Tx) error {
			if err := publishPost(b.Ctx, 1)(tx); err != nil {
				return err
			}
			panic("out of a clear sky")
		})
		wantCode(b.T, err, services.Internal)
		if !strings.Contains(err.Error(), "out of a clear sky") {
			b.T.Errorf("the cause is not for the log: %v", err)
		}
		b.MustWrite(publishPost(b.Ctx, 2))
		equal(b.T, b.publishedPosts(), []services.PostID{2})
	})
}

// If a function ignores the error of a statement, PostgreSQL has still aborted the transaction. The write must fail, and must
// not commit half of the function's work. On SQLite the error undoes only the statement, so this test is for PostgreSQL.
func TestIgnoredStatementErrorFailsTheWrite(t *testing.T) {
	url := sqltest.Postgres(t)
	b := newTestDB(t, url)
	err := b.Write(b.Ctx, func(tx *sql.Tx) error {
		_ = execute(b.Ctx, tx, "SELECT no_such_column")
		return nil
	})
	wantCode(t, err, services.Unavailable)
}

// Functions of one batch that fail are undone alone. The others are committed, each with a later time than the one before.
func TestWriteAll(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		equal(b.T, b.WriteAll(b.Ctx, nil), []error(nil))
		times := map[int]int64{}
		functions := 0
		at := func(id services.PostID, and func() error) func(*sql.Tx) error {
			index := functions
			functions++
			return func(tx *sql.Tx) error {
				times[index] = tx.Now.UnixMicro()
				if err := publishPost(b.Ctx, id)(tx); err != nil {
					return err
				}
				return and()
			}
		}
		fine := func() error { return nil }
		errs := b.WriteAll(b.Ctx, []func(*sql.Tx) error{
			at(1, fine),
			at(2, func() error { return errDeliberate }),
			at(3, func() error { panic("here") }),
			at(1, fine), // the ID is taken
			at(5, func() error { b.Clock.Advance(1000); return nil }),
			at(6, fine),
		})
		var codes []services.Code
		for _, err := range errs {
			codes = append(codes, services.CodeOf(err))
		}
		equal(b.T, codes, []services.Code{"", services.Internal, services.Internal, services.Conflict, "", ""})
		if !errors.Is(errs[1], errDeliberate) {
			b.T.Errorf("the second error is %v", errs[1])
		}
		equal(b.T, b.publishedPosts(), []services.PostID{6, 5, 1})
		for index, us := range times {
			equal(b.T, us, times[0]+int64(index))
		}
	})
}

func TestWriteWithAnEndedContextDoesNotRun(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		ctx, cancel := context.WithCancel(b.Ctx)
		cancel()
		ran := false
		err := b.Write(ctx, func(*sql.Tx) error { ran = true; return nil })
		wantCode(b.T, err, services.Unavailable)
		if !errors.Is(err, context.Canceled) || ran {
			b.T.Errorf("ran: %t, error: %v", ran, err)
		}
	})
}

// Two transactions take two locks in opposite orders. PostgreSQL aborts one of them, which then runs again.
func TestDeadlockIsTriedAgain(t *testing.T) {
	b := newTestDB(t, sqltest.Postgres(t))
	b.MakeUsers("alice", "bob")
	name := "name"
	var both sync.WaitGroup
	both.Add(2)
	var runs [2]int
	take := func(me int, first, second services.UserID) error {
		return b.Write(b.Ctx, func(tx *sql.Tx) error {
			runs[me]++
			if _, err := people.SetProfile(b.Ctx, tx, first, &name, nil); err != nil {
				return err
			}
			if runs[me] == 1 {
				both.Done()
				both.Wait()
			}
			_, err := people.SetProfile(b.Ctx, tx, second, &name, nil)
			return err
		})
	}
	other := make(chan error)
	go func() { other <- take(1, 2, 1) }()
	if err := errors.Join(take(0, 1, 2), <-other); err != nil {
		t.Fatal(err)
	}
	if runs[0]+runs[1] < 3 {
		t.Errorf("the transactions ran %v times: they never met", runs)
	}
}

// A process that stands still in a transaction, as on a paused machine, loses its connection. The transaction then runs again.
func TestATransactionThatWaitedTooLongIsTriedAgain(t *testing.T) {
	b := newTestDB(t, sqltest.Postgres(t))
	for name, others := range map[string][]func(*sql.Tx) error{"alone": nil, "together": {publishPost(b.Ctx, 7)}} {
		t.Run(name, func(t *testing.T) {
			id, stood := services.PostID(len(others)+1), false
			stands := func(tx *sql.Tx) error {
				if !stood {
					process := 0
					err := execute(b.Ctx, tx, `SET LOCAL idle_in_transaction_session_timeout = '1ms'`)
					// Once this statement is answered, the statement before it has been executed too.
					if _, failed := tx.One(b.Ctx, sql.AdHoc("test", `SELECT pg_backend_pid()`), nil, &process); err != nil || failed != nil {
						return errors.Join(err, failed)
					}
					eventually.Holds(t, "the server ends the connection", func() bool {
						alive, err := sqltest.QueryLines(b.Ctx, b, `SELECT pid FROM pg_stat_activity WHERE pid = `+fmt.Sprint(process))
						return err == nil && len(alive) == 0
					})
					stood = true
				}
				return publishPost(b.Ctx, id)(tx)
			}
			if err := errors.Join(b.WriteAll(b.Ctx, append(others, stands))...); err != nil {
				t.Error(err)
			}
			if !stood || !slices.Contains(b.publishedPosts(), id) {
				t.Errorf("it stood still: %t, and left %v", stood, b.publishedPosts())
			}
		})
	}
}

// If the connection is lost after COMMIT was sent, it is unknown whether the transaction was committed. Its callers get an error,
// and it is not repeated.
func TestACommitWithoutAnAnswerIsNotRepeated(t *testing.T) {
	url, trips := sqltest.CountRoundTrips(t, sqltest.Postgres(t))
	b := newTestDB(t, url)
	for name, others := range map[string][]func(*sql.Tx) error{"alone": nil, "together": {publishPost(b.Ctx, 7)}} {
		t.Run(name, func(t *testing.T) {
			id, tries := services.PostID(len(others)+1), map[time.Time]bool{}
			counted := func(tx *sql.Tx) error { tries[tx.Began] = true; return publishPost(b.Ctx, id)(tx) }
			trips.LoseNextCommit()
			for _, err := range b.WriteAll(b.Ctx, append(others, counted)) {
				if !services.IsUnavailable(err) {
					t.Errorf("its caller gets %v", err)
				}
			}
			if len(tries) != 1 {
				t.Errorf("it ran in %d transactions", len(tries))
			}
			eventually.Holds(t, "the server commits", func() bool { return slices.Contains(b.publishedPosts(), id) })
		})
	}
}

// A write that conflicts is tried six times. In a shared transaction all functions are repeated, and a function that conflicts
// until the last try fails alone.
func TestConflictsAreTriedAgainSixTimes(t *testing.T) {
	b := newTestDB(t, sqltest.Postgres(t))
	deadlock := sqltest.PostgresError("40P01", "deadlock detected")
	runs := 0
	err := b.Write(b.Ctx, func(*sql.Tx) error { runs++; return deadlock })
	if !errors.Is(err, deadlock) || runs != 6 {
		t.Errorf("it ran %d times: %v", runs, err)
	}
	tries := map[time.Time]bool{} // by the time of the transaction, in which a function may run more than once
	errs := b.WriteAll(b.Ctx, []func(*sql.Tx) error{
		publishPost(b.Ctx, 1),
		func(tx *sql.Tx) error { tries[tx.Now] = true; return errors.Join(publishPost(b.Ctx, 2)(tx), deadlock) },
		publishPost(b.Ctx, 3),
	})
	if errs[0] != nil || errs[2] != nil || !errors.Is(errs[1], deadlock) || len(tries) != 6 {
		t.Errorf("it ran %d times: %v", len(tries), errs)
	}
	equal(t, b.publishedPosts(), []services.PostID{3, 1})
}

func TestManyWritersAtOnce(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		const writers, posts = 32, 10
		var all sync.WaitGroup
		for writer := range writers {
			all.Go(func() {
				for n := range posts {
					id := services.PostID(1 + writer*posts + n)
					err := b.Write(b.Ctx, func(tx *sql.Tx) error {
						if err := publishPost(b.Ctx, id)(tx); err != nil {
							return err
						}
						switch id % 10 {
						case 3:
							return errDeliberate
						case 7:
							panic("seven")
						}
						return nil
					})
					if want := id%10 != 3 && id%10 != 7; (err == nil) != want {
						b.T.Errorf("post %d: %v", id, err)
					}
				}
			})
		}
		all.Wait()
		var want []services.PostID
		for id := services.PostID(writers * posts); id > 0; id-- {
			if id%10 != 3 && id%10 != 7 {
				want = append(want, id)
			}
		}
		equal(b.T, b.publishedPosts(), want)
	})
}

func TestCodesOfErrors(t *testing.T) {
	for _, c := range []struct {
		err  error
		code services.Code
	}{
		{nil, ""},
		{errDeliberate, services.Internal},
		{services.Errorf(services.NotFound, "no"), services.NotFound},
		{context.Canceled, services.Unavailable},
		{fmt.Errorf("late: %w", context.DeadlineExceeded), services.Unavailable},
		{sqltest.PostgresError("53300", ""), services.Unavailable}, // too many connections
		{sqltest.PostgresError("53100", ""), services.Unavailable}, // the disk is full
		{sqltest.PostgresError("57P01", ""), services.Unavailable}, // an administrator shuts the server down
		{sqltest.PostgresError("57P03", ""), services.Unavailable}, // the server is starting
		{sqltest.PostgresError("08006", ""), services.Unavailable}, // the connection broke
		{sqltest.PostgresError("25006", ""), services.Unavailable}, // read only
		{sqltest.PostgresError("40001", ""), services.Unavailable}, // a conflict that remains after the retries
		{sqltest.PostgresError("57014", ""), services.Unavailable}, // cancelled
		{sqltest.PostgresError("23505", ""), services.Internal},    // a key is taken: a bug of the program
		{sqltest.PostgresError("42601", ""), services.Internal},    // a syntax error: a bug of the program
		{sqltest.PostgresError("", ""), services.Internal},
	} {
		err := sql.MapError("test", c.err)
		wantCode(t, err, c.code)
		if c.err != nil && !errors.Is(err, c.err) {
			t.Errorf("%v has lost its cause", err)
		}
	}
}

// A function that ends its goroutine must not stop SQLite's writer, the one goroutine that runs all writes.
func TestFunctionThatEndsItsGoroutine(t *testing.T) {
	b := newTestDB(t, sqltest.SQLite(t))
	err := b.Write(b.Ctx, func(tx *sql.Tx) error {
		if err := publishPost(b.Ctx, 1)(tx); err != nil {
			return err
		}
		runtime.Goexit()
		return nil
	})
	wantCode(t, err, services.Internal)
	b.MustWrite(publishPost(b.Ctx, 2))
	equal(t, b.publishedPosts(), []services.PostID{2})
}

// Each function of a batch has a later time than the function before, and a later batch has later times even if the clock
// stands still. If the clock is set back by an hour, the next batch uses the new time.
func TestTimesOfABatchRise(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		var times []time.Time
		batch := func(functions int) {
			fns := make([]func(*sql.Tx) error, functions)
			for i := range fns {
				fns[i] = func(tx *sql.Tx) error {
					if i == 0 {
						times = times[:0]
					}
					times = append(times, tx.Now)
					return nil
				}
			}
			equal(b.T, errors.Join(b.WriteAll(b.Ctx, fns)...), nil)
		}
		batch(1)
		last := times[0]
		equal(b.T, last, b.Clock.Now())
		for _, functions := range []int{3, 500, 1} {
			batch(functions)
			for _, now := range times {
				if !now.After(last) {
					b.T.Fatalf("after %s comes %s", last, now)
				}
				last = now
			}
		}
		b.Clock.Advance(-time.Hour)
		batch(2)
		equal(b.T, times, []time.Time{b.Clock.Now(), b.Clock.Now().Add(time.Microsecond)})
	})
}

// The jobs of a batch are due at once, although the times of its functions are ahead of a clock that stands still.
func TestTheJobsOfABatchAreDueAtOnce(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		fns := make([]func(*sql.Tx) error, 5)
		for i := range fns {
			fns[i] = func(tx *sql.Tx) error { return jobs.Enqueue(b.Ctx, tx, jobs.NewJob{Kind: "k"}) }
		}
		equal(b.T, errors.Join(b.WriteAll(b.Ctx, fns)...), nil)
		equal(b.T, len(must(jobs.Claim(b.Ctx, b.DB, []string{"k"}, 10, time.Second, 0))(b.T)), len(fns))
	})
}
