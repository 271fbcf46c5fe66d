package live

import (
	"context"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/sql"
)

// ChangelogKind is the kind of log entry for shows on boards; the key is the show's id. An entry with an empty key means that many
// shows changed at once and all must be reloaded. The kind is stored with each entry, so it must stay the same.
const ChangelogKind = "show"

// loggedChange is an entry of the log of shows: the whole show after the change. With the whole show a node needs no read of SQL
// to apply it, and entries of one show may be applied twice.
type loggedChange struct {
	Show Show
	Live bool `json:",omitempty"` // the set of the host's live shows has changed; see hostLiveVersion
}

// logEntry is the payload of an entry of the log of shows. An entry gets its version when it is written, so a moved show takes that
// version when the entry is read.
type logEntry struct {
	loggedChange
	Moved    bool `json:",omitempty"` // the show's Version is the entry's version
	WentLive bool `json:",omitempty"` // the show's LiveVersion is the entry's version
}

// appendMove logs a change of status or position, in the transaction of the fact. It sets and returns the show's new version, which
// is the entry's. A live show without a LiveVersion gets this version as its LiveVersion. The transaction has locked the log
// before any show (lockLog), so that no two transactions deadlock.
func (c *loggedChange) appendMove(ctx context.Context, tx *sql.Tx) (version uint64, err error) {
	wentLive := c.Show.Status == ShowLive && c.Show.LiveVersion == 0
	if version, err = c.append(ctx, tx, logEntry{loggedChange: *c, Moved: true, WentLive: wentLive}); err != nil {
		return 0, err
	}
	c.Show.Version = version
	if wentLive {
		c.Show.LiveVersion = version
	}
	return version, nil
}

// appendTexts logs a change that moves nothing on any board: a change of the title or the URLs, or an end that is kept for later.
// The show keeps its version, since sessions would otherwise show it at a position that it did not have.
func (c *loggedChange) appendTexts(ctx context.Context, tx *sql.Tx) error {
	_, err := c.append(ctx, tx, logEntry{loggedChange: *c})
	return err
}

// append writes an entry to the log, and returns its version.
func (c *loggedChange) append(ctx context.Context, tx *sql.Tx, entry logEntry) (uint64, error) {
	return changelog.Append(ctx, tx, ChangelogKind, c.Show.ID.String(), entry)
}

// appendReload logs that many shows changed at once: every node reloads all of them.
func appendReload(ctx context.Context, tx *sql.Tx) (version uint64, err error) {
	return changelog.AppendLog(ctx, tx, ChangelogKind, "", nil)
}

// parseLoggedChange parses an entry of the kind ChangelogKind with a key.
func parseLoggedChange(entry changelog.Entry) (loggedChange, error) {
	read, err := changelog.Parse[logEntry](entry)
	if err != nil {
		return loggedChange{}, err
	}
	if read.Moved {
		read.Show.Version = entry.Version
	}
	if read.WentLive {
		read.Show.LiveVersion = entry.Version
	}
	return read.loggedChange, nil
}

// lockLog locks the log of shows until the transaction ends: every transaction that changes a show locks it before any row, so
// that no two transactions deadlock.
func (s *Service) lockLog(ctx context.Context, tx *sql.Tx) error {
	_, err := changelog.LockLog(ctx, tx, ChangelogKind)
	return err
}

// lockAndRead locks the log and then a show until the transaction ends, and reads the show. The error is NOT_FOUND if the show
// does not exist.
func (s *Service) lockAndRead(ctx context.Context, tx *sql.Tx, id services.ShowID) (Show, error) {
	if err := s.lockLog(ctx, tx); err != nil {
		return Show{}, err
	}
	return lockShow(ctx, tx, id)
}
