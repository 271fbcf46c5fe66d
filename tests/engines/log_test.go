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
func (b *testStore) appendToChangelog(kind, key string) (version uint64) {
	b.t.Helper()
	b.write(func(tx *sql.Tx) (err error) {
		version, err = changelog.AppendLog(b.ctx, tx, kind, key, []byte(key))
		return err
	})
	return version
}

// newestAndOldestInChangelog returns the versions of the newest entry of a kind and of the oldest that is kept.
func (b *testStore) newestAndOldestInChangelog(kind string) []uint64 {
	b.t.Helper()
	newest, oldest, err := changelog.LastSequence(b.ctx, b.DB, kind)
	if err != nil {
		b.t.Fatal(err)
	}
	return []uint64{newest, oldest}
}

// The entries of each kind in the changelog have the versions 1, 2, 3 and so on. A transaction that is undone leaves no gap.
func TestLog(t *testing.T) {
	eachStore(t, func(b *testStore) {
		equal(b.t, b.newestAndOldestInChangelog("mode"), []uint64{0, 0})
		equal(b.t, b.appendToChangelog("mode", "a"), uint64(1))
		equal(b.t, b.appendToChangelog("mode", "b"), uint64(2))
		equal(b.t, b.appendToChangelog("post", "c"), uint64(1))
		err := b.Write(b.ctx, func(tx *sql.Tx) error {
			_, err := changelog.AppendLog(b.ctx, tx, "mode", "undone", nil)
			return errors.Join(err, errDeliberate)
		})
		if !errors.Is(err, errDeliberate) {
			b.t.Fatal(err)
		}
		equal(b.t, b.appendToChangelog("mode", "d"), uint64(3)) // no gap
		entry := func(version uint64, key string) changelog.Entry {
			return changelog.Entry{Kind: "mode", Version: version, At: b.clock.Now(), Key: key, Payload: []byte(key)}
		}
		equal(b.t, must(changelog.LogAfter(b.ctx, b.DB, "mode", 0, 10))(b.t), []changelog.Entry{entry(1, "a"), entry(2, "b"), entry(3, "d")})
		equal(b.t, must(changelog.LogAfter(b.ctx, b.DB, "mode", 1, 1))(b.t), []changelog.Entry{entry(2, "b")})
		equal(b.t, len(must(changelog.LogAfter(b.ctx, b.DB, "mode", 3, 10))(b.t)), 0)
		equal(b.t, b.newestAndOldestInChangelog("mode"), []uint64{3, 1})
	})
}

// Each commit that appended to the changelog signals once, after the commit; other commits do not signal.
func TestLogAppendsAreSignalled(t *testing.T) {
	eachStore(t, func(b *testStore) {
		notified := 0
		b.OnCommitSignal(func() {
			newest, _, err := changelog.LastSequence(b.ctx, b.DB, "mode")
			if err != nil || newest == 0 {
				b.t.Errorf("signalled before the commit: version %d, %v", newest, err)
			}
			notified++
		})
		b.appendToChangelog("mode", "a")
		equal(b.t, notified, 1)
		appendOne := func(tx *sql.Tx) error { _, err := changelog.AppendLog(b.ctx, tx, "mode", "b", nil); return err }
		equal(b.t, errors.Join(b.WriteAll(b.ctx, []func(*sql.Tx) error{appendOne, func(*sql.Tx) error { return nil }, appendOne})...), nil)
		equal(b.t, notified, 2)
		b.write(func(tx *sql.Tx) error { _, err := people.Ensure(b.ctx, tx, []string{"ann"}); return err })
		equal(b.t, notified, 2)
		equal(b.t, must(changelog.LastSequences(b.ctx, b.DB))(b.t), map[string]uint64{"mode": 3})
		b.appendToChangelog("post", "c")
		equal(b.t, must(changelog.LastSequences(b.ctx, b.DB))(b.t), map[string]uint64{"mode": 3, "post": 1})
	})
}

func TestTrimLogKeepsTheNewestAndLeavesNoHoles(t *testing.T) {
	eachStore(t, func(b *testStore) {
		start := b.clock.Now()
		for _, minutes := range []int{0, 10, 5, 20, 15, 30} { // the nodes' clocks differ
			b.clock.Set(start.Add(time.Duration(minutes) * time.Minute))
			b.appendToChangelog("mode", fmt.Sprint(minutes))
		}
		b.clock.Set(start)
		b.appendToChangelog("post", "old")
		b.appendToChangelog("post", "newest")
		trim := func(minutes int) int {
			return must(changelog.TrimLog(b.ctx, b.DB, start.Add(time.Duration(minutes)*time.Minute)))(b.t)
		}
		equal(b.t, trim(0), 0)
		equal(b.t, trim(6), 2) // deletes "0" and, of the posts, "old"; "5" stays because it follows "10", which is newer
		equal(b.t, b.newestAndOldestInChangelog("mode"), []uint64{6, 2})
		equal(b.t, b.newestAndOldestInChangelog("post"), []uint64{2, 2})
		equal(b.t, trim(16), 2)
		equal(b.t, b.newestAndOldestInChangelog("mode"), []uint64{6, 4})
		equal(b.t, trim(10000), 2)
		equal(b.t, b.newestAndOldestInChangelog("mode"), []uint64{6, 6})
		equal(b.t, must(changelog.LogAfter(b.ctx, b.DB, "mode", 5, 10))(b.t)[0].Key, "30")
		equal(b.t, b.appendToChangelog("mode", "next"), uint64(7))
	})
}

// Eight writers write concurrently, and each holds its transaction for a while after it has its version. A reader reads on from
// the last version that it has seen, as nodes do. It would miss a version that became visible after a greater one.
func TestLogIsReadWithoutGapsWhileItIsWritten(t *testing.T) {
	eachStore(t, func(b *testStore) {
		const writers, entries = 8, 25
		var all sync.WaitGroup
		for writer := range writers {
			all.Go(func() {
				for n := range entries {
					err := b.Write(b.ctx, func(tx *sql.Tx) error {
						_, err := changelog.AppendLog(b.ctx, tx, "mode", fmt.Sprint(writer, n), nil)
						for range writer { // some writers hold it longer than others
							_, _, err2 := people.CountFollowees(b.ctx, tx, 1, 2, 1)
							err = errors.Join(err, err2)
						}
						return err
					})
					if err != nil {
						b.t.Error(err)
					}
				}
			})
		}
		last := uint64(0)
		eventually.Holds(b.t, "every entry is read", func() bool {
			for _, entry := range must(changelog.LogAfter(b.ctx, b.DB, "mode", last, 1000))(b.t) {
				if entry.Version != last+1 {
					b.t.Fatalf("after version %d comes %d", last, entry.Version)
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
	b := newTestStore(t, sqltest.Postgres(t))
	for range 2 { // the first time the changelog is empty
		locked, done := make(chan struct{}), make(chan uint64)
		var first uint64
		go func() {
			<-locked
			var version uint64
			_ = b.Write(b.ctx, func(tx *sql.Tx) (err error) {
				version, err = changelog.AppendLog(b.ctx, tx, "show", "second", nil)
				return err
			})
			done <- version
		}()
		b.write(func(tx *sql.Tx) error {
			newest, err := changelog.LockLog(b.ctx, tx, "show")
			if err != nil {
				return err
			}
			close(locked)
			select {
			case <-done:
				b.t.Error("somebody appended to a log that is locked")
			case <-time.After(100 * time.Millisecond):
			}
			first, err = changelog.AppendLog(b.ctx, tx, "show", "first", nil)
			equal(b.t, first, newest+1)
			return err
		})
		equal(b.t, <-done, first+1)
	}
}
