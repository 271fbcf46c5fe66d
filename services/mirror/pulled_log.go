package mirror

import (
	"context"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/store"
)

// LogPull is the kind of the log that says that a pulled post was published or deleted, or that an author became one whose posts
// may be pulled: see PullChange.
const LogPull = "pull"

// PullChange is an entry of the log of pulled posts; its key is the author's number.
type PullChange struct {
	Author  services.UserID `json:"author"`
	Post    services.PostID `json:"post"` // 0: no post yet, the author became one whose posts may be pulled
	Deleted bool            `json:"deleted,omitempty"`
}

// Append writes the change into the log, in the transaction of the fact, and answers its version. Whoever locks the author's
// row as well locks the log before it: see store.Tx.LockLog.
func (c PullChange) Append(ctx context.Context, tx *store.Tx) (version uint64, err error) {
	if version, err = changelog.Append(ctx, tx.Tx, LogPull, UserIDText(c.Author), c); err != nil {
		return 0, err
	}
	return version, tx.SetPulledVersion(ctx, c.Author, version)
}

// ParsePullChange reads an entry of the kind LogPull.
func ParsePullChange(entry changelog.Entry) (PullChange, error) {
	return changelog.Parse[PullChange](entry)
}
