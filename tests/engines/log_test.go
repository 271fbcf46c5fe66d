package engines

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"tidings/services/changelog"
	"tidings/services/people"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
	"tidings/tests/eventually"
)

// appendToChangelog appends an entry, with its key as its payload, and returns its version.
func (b *testDB) appendToChangelog(kind, key string) (version uint64) {
	b.T.Helper()
	b.MustWrite(func(tx *sql.Tx) (err error) {
		version, err = changelog.AppendLog(b.Ctx, tx, kind, key, []byte(key))
		return err
	})
	return version
}

// newestAndOldestInChangelog returns the versions of the newest entry of a kind and of the oldest that is kept.
func (b *testDB) newestAndOldestInChangelog(kind string) []uint64 {
	b.T.Helper()
	newest, oldest, err := changelog.LastSequence(b.Ctx, b.DB, kind)
	if err != nil {
		b.T.Fatal(err)
	}
	return []uint64{newest, oldest}
}

// The entries of each kind in the changelog have the versions 1, 2, 3 and so on. A transaction that is undone leaves no gap.
func TestLog(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		equal(b.T, b.newestAndOldestInChangelog("mode"), []uint64{0, 0})
		equal(b.T, b.appendToChangelog("mode", "a"), uint64(1))
		equal(b.T, b.appendToChangelog("mode", "b"), uint64(2))
		equal(b.T, b.appendToChangelog("post", "c"), uint64(1))
		err := b.Write(b.Ctx, func(tx *sql.Tx) error {
			_, err := changelog.AppendLog(b.Ctx, tx, "mode", "undone", nil)
			return errors.Join(err, errDeliberate)
		})
		if !errors.Is(err, errDeliberate) {
			b.T.Fatal(err)
		}
		equal(b.T, b.appendToChangelog("mode", "d"), uint64(3)) // no gap
		entry := func(version uint64, key string) changelog.Entry {
			return changelog.Entry{Kind: "mode", Version: version, At: b.Clock.Now(), Key: key, Payload: []byte(key)}
		}
		equal(b.T, must(changelog.LogAfter(b.Ctx, b.DB, "mode", 0, 10))(b.T), []changelog.Entry{entry(1, "a"), entry(2, "b"), entry(3, "d")})
		equal(b.T, must(changelog.LogAfter(b.Ctx, b.DB, "mode", 1, 1))(b.T), []changelog.Entry{entry(2, "b")})
		equal(b.T, len(must(changelog.LogAfter(b.Ctx, b.DB, "mode", 3, 10))(b.T)), 0)
		equal(b.T, b.newestAndOldestInChangelog("mode"), []uint64{3, 1})
	})
}

// Each commit that appended to the changelog signals once, after the commit; other commits do not signal.
func TestLogAppendsAreSignalled(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		notified := 0
		b.OnCommitSignal(func() {
			newest, _, err := changelog.LastSequence(b.Ctx, b.DB, "mode")
			if err != nil || newest == 0 {
				b.T.Errorf("signalled before the commit: version %d, %v", newest, err)
			}
			notified++
		})
		b.appendToChangelog("mode", "a")
		equal(b.T, notified, 1)
		appendOne := func(tx *sql.Tx) error { _, err := changelog.AppendLog(b.Ctx, tx, "mode", "b", nil); return err }
		equal(b.T, errors.Join(b.WriteAll(b.Ctx, []func(*sql.Tx) error{appendOne, func(*sql.Tx) error { return nil }, appendOne})...), nil)
		equal(b.T, notified, 2)
		b.MustWrite(func(tx *sql.Tx) error { _, err := people.Ensure(b.Ctx, tx, []string{"ann"}); return err })
		equal(b.T, notified, 2)
		equal(b.T, must(changelog.LastSequences(b.Ctx, b.DB))(b.T), map[string]uint64{"mode": 3})
		b.appendToChangelog("post", "c")
		equal(b.T, must(changelog.LastSequences(b.Ctx, b.DB))(b.T), map[string]uint64{"mode": 3, "post": 1})
	})
}

func TestTrimLogKeepsTheNewestAndLeavesNoHoles(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		start := b.Clock.Now()
		for _, minutes := range []int{0, 10, 5, 20, 15, 30} { // the nodes' clocks differ
			b.Clock.Set(start.Add(time.Duration(minutes) * time.Minute))
			b.appendToChangelog("mode", fmt.Sprint(minutes))
		}
		b.Clock.Set(start)
		b.appendToChangelog("post", "old")
		b.appendToChangelog("post", "newest")
		trim := func(minutes int) int {
			return must(changelog.TrimLog(b.Ctx, b.DB, start.Add(time.Duration(minutes)*time.Minute)))(b.T)
		}
		equal(b.T, trim(0), 0)
		equal(b.T, trim(6), 2) // deletes "0" and, of the posts, "old"; "5" stays because it follows "10", which is newer
		equal(b.T, b.newestAndOldestInChangelog("mode"), []uint64{6, 2})
		equal(b.T, b.newestAndOldestInChangelog("post"), []uint64{2, 2})
		equal(b.T, trim(16), 2)
		equal(b.T, b.newestAndOldestInChangelog("mode"), []uint64{6, 4})
		equal(b.T, trim(10000), 2)
		equal(b.T, b.newestAndOldestInChangelog("mode"), []uint64{6, 6})
		equal(b.T, must(changelog.LogAfter(b.Ctx, b.DB, "mode", 5, 10))(b.T)[0].Key, "30")
		equal(b.T, b.appendToChangelog("mode", "next"), uint64(7))
	})
}

// Eight writers write concurrently, and each holds its transaction for a while after it has its version. A reader reads on from
// the last version that it has seen, as nodes do. It would miss a version that became visible after a greater one.
func TestLogIsReadWithoutGapsWhileItIsWritten(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		const writers, entries = 8, 25
		var all sync.WaitGroup
		for writer := range writers {
			all.Go(func() {
				for n := range entries {
					err := b.Write(b.Ctx, func(tx *sql.Tx) error {
						_, err := changelog.AppendLog(b.Ctx, tx, "mode", fmt.Sprint(writer, n), nil)
						for range writer { // some writers hold it longer than others
							_, _, err2 := people.CountFollowees(b.Ctx, tx, 1, 2, 1)
							err = errors.Join(err, err2)
						}
						return err
					})
					if err != nil {
						b.T.Error(err)
					}
				}
			})
		}
		last := uint64(0)
		eventually.Holds(b.T, "every entry is read", func() bool {
			for _, entry := range must(changelog.LogAfter(b.Ctx, b.DB, "mode", last, 1000))(b.T) {
				if entry.Version != last+1 {
					b.T.Fatalf("after version %d comes %d", last, entry.Version)
				}
				last = entry.Version
			}
			return last == writers*entries
		})
		all.Wait()
	})
}

// A transaction that has locked the changelog of a kind keeps others from appending to it until the transaction ends, even if that
// changelog is empty.
func TestALockedLogWaits(t *testing.T) {
	b := newTestDB(t, sqltest.Postgres(t))
	for range 2 { // the first time the changelog is empty
		locked, done := make(chan struct{}), make(chan uint64)
		var first uint64
		go func() {
			<-locked
			var version uint64
			_ = b.Write(b.Ctx, func(tx *sql.Tx) (err error) {
				version, err = changelog.AppendLog(b.Ctx, tx, "show", "second", nil)
				return err
			})
			done <- version
		}()
		b.MustWrite(func(tx *sql.Tx) error {
			newest, err := changelog.LockLog(b.Ctx, tx, "show")
			if err != nil {
				return err
			}
			close(locked)
			select {
			case <-done:
				b.T.Error("somebody appended to a log that is locked")
			case <-time.After(100 * time.Millisecond):
			}
			first, err = changelog.AppendLog(b.Ctx, tx, "show", "first", nil)
			equal(b.T, first, newest+1)
			return err
		})
		equal(b.T, <-done, first+1)
	}
}
