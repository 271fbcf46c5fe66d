package changelog

import (
	"context"
	"encoding/json"
	"fmt"

	"tidings/services/sql"
)

// Append adds an entry in the transaction of the fact, with the change as its payload, and returns its version. To avoid
// deadlocks, take all other locks after the lock of the log: see LockLog.
func Append(ctx context.Context, tx *sql.Tx, kind, key string, change any) (version uint64, err error) {
	payload, err := json.Marshal(change)
	if err != nil {
		return 0, err
	}
	return AppendLog(ctx, tx, kind, key, payload)
}

// Parse reads the change of an entry that Append wrote.
func Parse[T any](entry Entry) (change T, err error) {
	if err := json.Unmarshal(entry.Payload, &change); err != nil {
		return change, fmt.Errorf("entry %d of the log %s: %w", entry.Version, entry.Kind, err)
	}
	return change, nil
}
