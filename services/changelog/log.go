package changelog

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"tidings/services/sql"
)

// Entry is one rare change that every node keeps in memory. Version counts the entries of its kind from 1 on. The owner
// of the kind defines Payload: JSON, or a time of AppendChange.
type Entry struct {
	Kind    string
	Version uint64
	At      time.Time // when the entry was added
	Key     string    // names what changed
	Payload []byte
}

// ChangedAt is the time of an entry's change: the time given to AppendChange, or else the time of the entry.
func (e Entry) ChangedAt() time.Time {
	us, err := strconv.ParseInt(string(e.Payload), 10, 64)
	if err != nil {
		return e.At
	}
	return time.UnixMicro(us).UTC()
}

var (
	// The row of the last sequence is the lock of its log: an entry gets its version only when the entry before it is committed
	// or rolled back.
	raiseSequence = sql.NewStatement("raise a log's last sequence", `INSERT INTO log_heads AS h (kind, head) VALUES ($1, 1)
		ON CONFLICT (kind) DO UPDATE SET head = h.head + 1 RETURNING head`)

	// A kind without entries has no row to lock. Then makeSequence makes the row.
	lockSequence = sql.NewStatement("lock a log's last sequence", `SELECT head FROM log_heads WHERE kind = $1 {for update}`)

	makeSequence = sql.NewStatement("make a log's last sequence", `INSERT INTO log_heads (kind, head) VALUES ($1, 0) ON CONFLICT (kind) DO NOTHING`)

	// In a batch a function first runs with an assumed last sequence, see sql/together.go, so another function may have taken the version.
	// That is no error of the statement: an error would abort the batch for every function after this one.
	insertLog = sql.NewStatement("append to the log", `INSERT INTO log (kind, ver, at_us, key, payload) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (kind, ver) DO NOTHING`)

	lastSequences = sql.NewStatement("read the logs' last sequences", `SELECT kind, head FROM log_heads`)

	logAfter = sql.NewStatement("read the log", `SELECT ver, at_us, key, payload FROM log WHERE kind = $1 AND ver > $2 ORDER BY ver LIMIT $3`)

	lastSequence = sql.NewStatement("read a log's last sequence", `SELECT head, COALESCE((SELECT min(ver) FROM log WHERE log.kind = log_heads.kind), 0)
		FROM log_heads WHERE kind = $1`)

	// This selects, for each kind, the last sequence and the first entry that is young enough to stay; NULL if all are old.
	logCuts = sql.NewStatement("find old log entries", `SELECT kind, head, (SELECT ver FROM log
		WHERE log.kind = log_heads.kind AND at_us >= $1 ORDER BY ver LIMIT 1) FROM log_heads`)

	blankLog = sql.NewStatement("blank log entries", `UPDATE log SET key = '', payload = $3 WHERE kind = $1 AND {in key $2 TEXT}`)

	rewriteLog = sql.NewStatement("rewrite a log entry", `UPDATE log SET payload = $3 WHERE kind = $1 AND ver = $2`)

	trimLog = sql.NewStatement("trim the log", `DELETE FROM log WHERE kind = $1 AND ver < $2`)
)

// AppendLog adds an entry and returns its version, one more than the last. Until this transaction ends, other writers of that
// kind wait, so that versions are committed in their order: a reader who reads on from its last version misses no entry.
func AppendLog(ctx context.Context, tx *sql.Tx, kind, key string, payload []byte) (uint64, error) {
	var version uint64
	if _, err := tx.One(ctx, raiseSequence, []any{kind}, &version); err != nil {
		return 0, err
	}
	if payload == nil {
		payload = []byte{}
	}
	// The commit notifies this node's follower and the other nodes.
	tx.SignalAtCommit()
	added, err := tx.Run(ctx, insertLog, kind, int64(version), tx.Now, key, payload)
	if err == nil && added == 0 {
		err = fmt.Errorf("append to the log %s: it has an entry %d", kind, version)
	}
	return version, err
}

// AppendChange adds an entry for a value whose changes have times of their own: at is the time of this change. Caches that hold a later
// change ignore the entry. So the statements that change a value make its time later than that of its last change, also when the clock
// was set back.
func AppendChange(ctx context.Context, tx *sql.Tx, kind, key string, at time.Time) (uint64, error) {
	return AppendLog(ctx, tx, kind, key, strconv.AppendInt(nil, at.UnixMicro(), 10))
}

// LockLog locks the log of a kind until this transaction ends, before the transaction appends. A transaction that takes other locks
// as well takes this one first. It returns the version of the newest entry.
func LockLog(ctx context.Context, tx *sql.Tx, kind string) (newest uint64, err error) {
	found, err := tx.One(ctx, lockSequence, []any{kind}, &newest)
	if err != nil || found {
		return newest, err
	}
	// A kind without entries has no row that could be locked.
	if _, err := tx.Run(ctx, makeSequence, kind); err != nil {
		return 0, err
	}
	_, err = tx.One(ctx, lockSequence, []any{kind}, &newest)
	return newest, err
}

// LogAfter lists the entries after a version, in their order, at most limit. Entries that TrimLog deleted are missing: see
// LastSequence.
func LogAfter(ctx context.Context, s sql.Reader, kind string, version uint64, limit int) ([]Entry, error) {
	return sql.ReadRows(ctx, s, logAfter, []any{kind, int64(version), limit}, func(scan sql.Scan, entry *Entry) error {
		*entry = Entry{Kind: kind}
		var at int64
		err := scan(&entry.Version, &at, &entry.Key, &entry.Payload)
		entry.At = sql.FromMicros(at)
		return err
	})
}

// LastSequence returns the versions of the newest entry of a kind and of the oldest that is kept; 0, 0 if there never was one. A
// reader whose last version is below oldest-1 has missed entries and must load everything anew.
func LastSequence(ctx context.Context, db *sql.DB, kind string) (newest, oldest uint64, err error) {
	_, err = db.One(ctx, lastSequence, []any{kind}, &newest, &oldest)
	return newest, oldest, err
}

// LastSequences is the version of the newest entry of each kind. A kind that never had one is absent.
func LastSequences(ctx context.Context, db *sql.DB) (map[string]uint64, error) {
	return sql.ReadMap[string, uint64](ctx, db, lastSequences)
}

// BlankEntries removes the key and the payload from the entries of a kind that have one of some keys. Nodes that follow the log
// have applied these entries; a node that reads them later learns nothing from them.
func BlankEntries(ctx context.Context, tx *sql.Tx, kind string, keys []string) error {
	_, err := tx.Run(ctx, blankLog, kind, keys, []byte{})
	return err
}

// Rewrite replaces the payload of an entry, for nodes that read it later.
func Rewrite(ctx context.Context, tx *sql.Tx, entry Entry, payload []byte) error {
	_, err := tx.Run(ctx, rewriteLog, entry.Kind, int64(entry.Version), payload)
	return err
}

// TrimLog deletes the entries from before a time and returns how many. The newest entry of each kind stays, and so does every entry
// after one that stays, so that the rest has no gaps.
func TrimLog(ctx context.Context, db *sql.DB, before time.Time) (trimmed int, err error) {
	err = db.Write(ctx, func(tx *sql.Tx) error {
		trimmed = 0
		cuts := make(map[string]int64)
		err := tx.Each(ctx, logCuts, []any{before}, func(scan func(...any) error) error {
			var kind string
			var newest int64
			var first sql.NullInt64
			err := scan(&kind, &newest, &first)
			// If no entry is young, the newest entry itself stays: a node at its version has missed nothing.
			cuts[kind] = newest
			if first.Valid {
				cuts[kind] = first.Int64
			}
			return err
		})
		if err != nil {
			return err
		}
		for kind, cut := range cuts {
			n, err := tx.Run(ctx, trimLog, kind, cut)
			if err != nil {
				return err
			}
			trimmed += n
		}
		return nil
	})
	return trimmed, err
}
