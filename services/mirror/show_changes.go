package mirror

import (
	"context"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/store"
)

// LogShow is the kind of the log for shows that boards have; the key is the show's id. An entry with an empty key says that
// many changed at once, and that all are to be read anew.
const LogShow = "show"

// ShowChange is an entry of the log of shows: the whole show after the change.
type ShowChange struct {
	Show services.Show
	Live bool `json:",omitempty"` // other shows of the host are live than before; see store.HostVersion
}

// showEntry is the payload. The version of an entry is not known before it is written: what has moved has the entry's own.
type showEntry struct {
	ShowChange
	Moved    bool `json:",omitempty"`
	WentLive bool `json:",omitempty"`
}

// Append writes a change of status or place into the log, in the transaction of the fact, and sets and answers the show's
// new version, which is the entry's. A show that is live and has no LiveVersion yet went live with it. The transaction has
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

// AppendTexts writes a change into the log that moves nothing on any board: of the title, the URLs, an end that is kept for
// later. The show's version stays what it was, or else sessions would show it elsewhere than it stood.
func (c *ShowChange) AppendTexts(ctx context.Context, tx *store.Tx) error {
	_, err := c.append(ctx, tx, showEntry{ShowChange: *c})
	return err
}

func (c *ShowChange) append(ctx context.Context, tx *store.Tx, entry showEntry) (uint64, error) {
	return changelog.Append(ctx, tx.Tx, LogShow, c.Show.ID.String(), entry)
}

// AppendShowsReload says in the log that many shows changed at once: every node reads all of them anew.
func AppendShowsReload(ctx context.Context, tx *store.Tx) (version uint64, err error) {
	return changelog.AppendLog(ctx, tx.Tx, LogShow, "", nil)
}

// ParseShowChange reads an entry of the kind LogShow with a key.
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
