package changelog

import (
	"context"
	"fmt"
	"time"

	"tidings/services/sql"
)

// Entry is one rare change that every node keeps in memory. Version counts the entries of its kind from 1 on.
type Entry struct {
	Kind    string
	Version uint64
	At      time.Time
	Key     string
	Payload []byte
}

var (
	raiseHead = sql.NewStatement("raise a log's head", `INSERT INTO log_heads AS h (kind, head) VALUES ($1, 1)
		ON CONFLICT (kind) DO UPDATE SET head = h.head + 1 RETURNING head`)

	lockHead = sql.NewStatement("lock a log's head", `SELECT head FROM log_heads WHERE kind = $1 {for update}`)

	makeHead = sql.NewStatement("make a log's head", `INSERT INTO log_heads (kind, head) VALUES ($1, 0) ON CONFLICT (kind) DO NOTHING`)

	// A version that is taken is no error of the statement: where statements of a batch go out together, the version can be
	// one that another function of the batch has taken meanwhile, and an error would end the pass for all that follow.
	insertLog = sql.NewStatement("append to the log", `INSERT INTO log (kind, ver, at_us, key, payload) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (kind, ver) DO NOTHING`)

	logHeads = sql.NewStatement("read the logs' heads", `SELECT kind, head FROM log_heads`)

	logAfter = sql.NewStatement("read the log", `SELECT ver, at_us, key, payload FROM log WHERE kind = $1 AND ver > $2 ORDER BY ver LIMIT $3`)

	logHead = sql.NewStatement("read a log's head", `SELECT head, COALESCE((SELECT min(ver) FROM log WHERE log.kind = log_heads.kind), 0)
		FROM log_heads WHERE kind = $1`)

	logCuts = sql.NewStatement("find old log entries", `SELECT kind, head, (SELECT ver FROM log
		WHERE log.kind = log_heads.kind AND at_us >= $1 ORDER BY ver LIMIT 1) FROM log_heads`)

	trimLog = sql.NewStatement("trim the log", `DELETE FROM log WHERE kind = $1 AND ver < $2`)
)

// AppendLog adds an entry and answers its version, one more than the last one's. Until this transaction ends the
// others of that kind wait, so that versions appear in their order: whoever reads those after the last that he
// knows misses none.
func AppendLog(ctx context.Context, tx *sql.Tx, kind, key string, payload []byte) (uint64, error) {
	var version uint64
	if _, err := tx.One(ctx, raiseHead, []any{kind}, &version); err != nil {
		return 0, err
	}
	if payload == nil {
		payload = []byte{}
	}
	tx.Signal()
	added, err := tx.Run(ctx, insertLog, kind, int64(version), tx.Now, key, payload)
	if err == nil && added == 0 {
		err = fmt.Errorf("append to the log %s: it has an entry %d", kind, version)
	}
	return version, err
}

// LockLog lets others wait who append to a kind until this transaction ends, before it has appended anything: whoever takes
// other locks as well takes them after it. It answers the version of the newest entry.
func LockLog(ctx context.Context, tx *sql.Tx, kind string) (head uint64, err error) {
	found, err := tx.One(ctx, lockHead, []any{kind}, &head)
	if err != nil || found {
		return head, err
	}
	if _, err := tx.Run(ctx, makeHead, kind); err != nil {
		return 0, err
	}
	_, err = tx.One(ctx, lockHead, []any{kind}, &head)
	return head, err
}

// LogAfter lists the entries after a version, in their order, at most limit. What TrimLog took is not there: see
// LogHead.
func LogAfter(ctx context.Context, s *sql.DB, kind string, version uint64, limit int) ([]Entry, error) {
	var entries []Entry
	err := s.Each(ctx, logAfter, []any{kind, int64(version), limit}, func(scan func(...any) error) error {
		entry := Entry{Kind: kind}
		var at int64
		err := scan(&entry.Version, &at, &entry.Key, &entry.Payload)
		entry.At = sql.FromMicros(at)
		entries = append(entries, entry)
		return err
	})
	return entries, err
}

// LogHead is the version of the newest entry of a kind and of the oldest that is kept; 0, 0 when there never was
// one. Whoever knows less than oldest-1 has missed something and starts anew.
func LogHead(ctx context.Context, s *sql.DB, kind string) (head, oldest uint64, err error) {
	_, err = s.One(ctx, logHead, []any{kind}, &head, &oldest)
	return head, oldest, err
}

// LogHeads is the version of the newest entry of each kind. A kind that never had one is absent.
func LogHeads(ctx context.Context, s *sql.DB) (map[string]uint64, error) {
	heads := map[string]uint64{}
	err := s.Each(ctx, logHeads, nil, func(scan func(...any) error) error {
		var kind string
		var head uint64
		err := scan(&kind, &head)
		heads[kind] = head
		return err
	})
	return heads, err
}

// TrimLog deletes the entries from before a time and says how many. The newest of each kind stays, and so does
// whatever follows one that stays: what is kept has no holes.
func TrimLog(ctx context.Context, s *sql.DB, before time.Time) (trimmed int, err error) {
	err = s.Write(ctx, func(tx *sql.Tx) error {
		trimmed = 0
		cuts := make(map[string]int64)
		err := tx.Each(ctx, logCuts, []any{before}, func(scan func(...any) error) error {
			var kind string
			var head int64
			var first sql.NullInt64
			err := scan(&kind, &head, &first)
			cuts[kind] = head
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
