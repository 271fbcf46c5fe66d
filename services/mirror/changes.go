package mirror

import (
	"context"
	"encoding/json"
	"fmt"

	"tidings/services"
	"tidings/services/store"
)

// PullChange is an entry of the log of pulled posts; its key is the author's number.
type PullChange struct {
	Author  services.UserNumber `json:"author"`
	Post    services.PostID     `json:"post"` // 0: no post yet, the author became one whose posts may be pulled
	Deleted bool                `json:"deleted,omitempty"`
}

// FanoutChange is an entry of the log of fan-outs in several chunks; its key is the post's id.
type FanoutChange struct {
	store.UnfinishedFanout
	Ended bool `json:"ended,omitempty"`
}

// Append writes the change into the log, in the transaction of the fact, and answers its version. Whoever locks the author's
// row as well locks the log before it: see store.Tx.LockLog.
func (c PullChange) Append(ctx context.Context, tx *store.Tx) (version uint64, err error) {
	if version, err = appendChange(ctx, tx, LogPull, UserNumberText(c.Author), c); err != nil {
		return 0, err
	}
	return version, tx.SetPulledVersion(ctx, c.Author, version)
}

// Append writes the change into the log, in the transaction of the fact.
func (c FanoutChange) Append(ctx context.Context, tx *store.Tx) error {
	_, err := appendChange(ctx, tx, LogFanout, c.Post.String(), c)
	return err
}

func appendChange(ctx context.Context, tx *store.Tx, kind, key string, change any) (version uint64, err error) {
	payload, err := json.Marshal(change)
	if err != nil {
		return 0, err
	}
	return tx.AppendLog(ctx, kind, key, payload)
}

// ParsePullChange reads an entry of the kind LogPull.
func ParsePullChange(entry store.LogEntry) (change PullChange, err error) {
	err = json.Unmarshal(entry.Payload, &change)
	return change, unread(entry, err)
}

// ParseFanoutChange reads an entry of the kind LogFanout.
func ParseFanoutChange(entry store.LogEntry) (change FanoutChange, err error) {
	err = json.Unmarshal(entry.Payload, &change)
	return change, unread(entry, err)
}

func unread(entry store.LogEntry, err error) error {
	if err != nil {
		err = fmt.Errorf("entry %d of the log %s: %w", entry.Version, entry.Kind, err)
	}
	return err
}
