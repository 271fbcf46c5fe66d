package nodecache

import (
	"context"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/posts"
	"tidings/services/sql"
)

// PullChangelogKind is the kind of log entry for a pulled post that was published or deleted, or for an author whose posts may be
// pulled from now on: see PullChange.
const PullChangelogKind = "pull"

// PullChange is an entry of the log of pulled posts; its key is the author's ID.
type PullChange struct {
	Author  services.UserID `json:"author"`
	Post    services.PostID `json:"post"`              // 0: no post yet, the author's posts may be pulled from now on
	Deleted bool            `json:"deleted,omitempty"` // the post was deleted; false: it was published
}

// Append writes the change into the log, in the transaction of the fact, and returns its version. A transaction that also locks
// the author's row locks the log first, by changelog.LockLog, so that two of them do not deadlock.
func (c PullChange) Append(ctx context.Context, tx *sql.Tx) (version uint64, err error) {
	if version, err = changelog.Append(ctx, tx, PullChangelogKind, services.UserIDText(c.Author), c); err != nil {
		return 0, err
	}
	// The author's row gets the version of the entry: a read of the posts learns from it which entries the posts include.
	return version, posts.SetPulledVersion(ctx, tx, c.Author, version)
}

// ParsePullChange parses an entry of the kind PullChangelogKind.
func ParsePullChange(entry changelog.Entry) (PullChange, error) {
	return changelog.Parse[PullChange](entry)
}
