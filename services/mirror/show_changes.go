package mirror

import (
	"context"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/store"
)

// LogShow is the kind of log entry for shows on boards; the key is the show's id. An entry with an empty key means that many
// changed at once, and that all must be read anew.
const LogShow = "show"

// ShowChange is an entry of the log of shows: the whole show after the change.
type ShowChange struct {
	Show services.Show
	Live bool `json:",omitempty"` // the set of the host's live shows has changed; see store.HostVersion
}

// showEntry is the payload. The version of an entry is not known before it is written, so a moved show gets the entry's version
// when it is read.
type showEntry struct {
	ShowChange
	Moved    bool `json:",omitempty"`
	WentLive bool `json:",omitempty"`
}

// Append logs a change of status or position, in the transaction of the fact. It sets and returns the show's new version, which
// is the entry's. A live show without a LiveVersion gets this version as the one at which it went live. The transaction has
// locked the log's head before any show: see store.Tx.LockLog.
func (c *ShowChange) Append(ctx context.Context, tx *store.Tx) (version uint64, err error) {
	wentLive := c.Show.Status == services.ShowLive && c.Show.LiveVersion == 0
	if version, err = c.append(ctx, tx, showEntry{ShowChange: *c, Moved: true, WentLive: wentLive}); err != nil {
		return 0, err
	}
	c.Show.Version = version
	if wentLive {
		c.Show.LiveVersion = version
	}
	return version, nil
}

// AppendTexts logs a change that moves nothing on any board: of the title, the URLs, or an end that is kept for later. The show
// keeps its version, since sessions would otherwise show it at a position that it did not have.
func (c *ShowChange) AppendTexts(ctx context.Context, tx *store.Tx) error {
	_, err := c.append(ctx, tx, showEntry{ShowChange: *c})
	return err
}

func (c *ShowChange) append(ctx context.Context, tx *store.Tx, entry showEntry) (uint64, error) {
	return changelog.Append(ctx, tx.Tx, LogShow, c.Show.ID.String(), entry)
}

// AppendShowsReload logs that many shows changed at once: every node reads all of them anew.
func AppendShowsReload(ctx context.Context, tx *store.Tx) (version uint64, err error) {
	return changelog.AppendLog(ctx, tx.Tx, LogShow, "", nil)
}

// ParseShowChange parses an entry of the kind LogShow with a key.
func ParseShowChange(entry changelog.Entry) (ShowChange, error) {
	read, err := changelog.Parse[showEntry](entry)
	if err != nil {
		return ShowChange{}, err
	}
	if read.Moved {
		read.Show.Version = entry.Version
	}
	if read.WentLive {
		read.Show.LiveVersion = entry.Version
	}
	return read.ShowChange, nil
}
