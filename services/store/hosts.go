package store

import (
	"context"
	"slices"
	"time"

	"tidings/services"
	"tidings/services/sql"
)

// hostEdges are the reader's ($1) follows of hosts whose shows the reader may see.
const hostEdges = `
	SELECT followee, since FROM follows WHERE follower = $1 AND followee <> $1 AND shown
		AND EXISTS (SELECT 1 FROM hosts WHERE hosts.host = follows.followee)`

var (
	insertHost = sql.NewStatement("insert a host", `INSERT INTO hosts (host, named, unnamed, live_ver) VALUES ($1, FALSE, 0, 0)
		ON CONFLICT (host) DO NOTHING`)

	oneHost = sql.NewStatement("a host", `SELECT named FROM hosts WHERE host = $1`)

	beginHostChunks = sql.NewStatement("begin the chunks of a host", `UPDATE hosts SET unnamed = $2
		WHERE host = $1 AND NOT named AND unnamed = 0`)

	lowerHostUnnamed = sql.NewStatement("end a chunk of a host", `UPDATE hosts SET unnamed = unnamed - 1
		WHERE host = $1 AND NOT named AND unnamed > 0 RETURNING unnamed`)

	nameHost = sql.NewStatement("name a host", `UPDATE hosts SET named = TRUE, unnamed = 0 WHERE host = $1`)

	nameHosts = sql.NewStatement("name hosts", `UPDATE hosts SET named = TRUE WHERE {in host $1 BIGINT} AND NOT named AND unnamed = 0 RETURNING host`)

	followersOfHosts = sql.NewStatement("followers of hosts", `SELECT f.followee, f.follower, f.since
		FROM follows f JOIN users u ON u.number = f.follower
		WHERE {in f.followee $1 BIGINT} AND f.shown AND u.seen_at >= $2`)

	manyFollow = sql.NewStatement("hosts with many followers", `SELECT h.host FROM {rows $1 host BIGINT} AS h
		WHERE EXISTS (SELECT 1 FROM follows f WHERE f.followee = h.host LIMIT 1 OFFSET $2)`)

	// One statement for each partial index of shows.
	publishActive = sql.NewStatement("publish active shows", `UPDATE shows SET ver = $2, live_ver = CASE WHEN status = 1 THEN CAST($2 AS BIGINT) ELSE live_ver END
		WHERE {in host $1 BIGINT} AND status < 2 AND ver = 0 RETURNING host, status`)

	publishReplays = sql.NewStatement("publish replays", `UPDATE shows SET ver = $2
		WHERE {in host $1 BIGINT} AND status = 2 AND ver = 0 RETURNING id, host, pull`)

	unpublishedShows = sql.NewStatement("shows that no board has yet", `SELECT * FROM (
	`+showColumns+`shows s WHERE s.host = $1 AND s.status < 2 AND s.ver = 0
	UNION ALL `+showColumns+`shows s WHERE s.host = $1 AND s.status = 2 AND s.ver = 0
) AS s ORDER BY id`)

	setHostVersion = sql.NewStatement("set a host's version", `UPDATE hosts SET live_ver = $2 WHERE host = $1`)

	setHostVersions = sql.NewStatement("set the versions of hosts", `UPDATE hosts SET live_ver = $2 WHERE {in host $1 BIGINT}`)

	hostVersions = sql.NewStatement("versions of hosts", `SELECT host, live_ver, EXISTS (SELECT 1 FROM shows s WHERE s.host = hosts.host AND `+pulledReplay+`)
		FROM hosts WHERE host > $1 ORDER BY host LIMIT $2`)

	hostsBy = sql.NewStatement("hosts of a reader", hostEdges+` ORDER BY followee`)

	noteUnfollow = sql.NewStatement("note the end of a follow", `INSERT INTO past_follows (follower, followee, until_at)
		SELECT CAST($1 AS BIGINT), host, CAST($3 AS BIGINT) FROM hosts WHERE host = $2
		ON CONFLICT (follower, followee) DO UPDATE SET until_at = excluded.until_at`)

	unfollowedSince = sql.NewStatement("whether a follow has ended lately", `
SELECT 1 FROM past_follows WHERE follower = $1 AND followee = $2 AND until_at >= $3
UNION ALL SELECT 1 FROM follows WHERE follower = $1 AND followee = $2 AND NOT shown LIMIT 1`)

	forgetPastFollows = sql.NewStatement("forget the ends of follows", `DELETE FROM past_follows WHERE until_at < $1`)
)

// PutHost notes that a user has a show; created is true for their first.
func (tx *Tx) PutHost(ctx context.Context, host services.UserID) (created bool, err error) {
	inserted, err := tx.Run(ctx, insertHost, host)
	return inserted > 0, err
}

// Host reports whether a user ever had a show, and whether all of their followers' documents list them.
func (tx *Tx) Host(ctx context.Context, host services.UserID) (known, named bool, err error) {
	known, err = tx.One(ctx, oneHost, []any{host}, &named)
	return known, named, err
}

// IsHost reports whether a user ever had a show, and whether all of their followers' documents list them.
func (s *Store) IsHost(ctx context.Context, host services.UserID) (known, named bool, err error) {
	known, err = s.One(ctx, oneHost, []any{host}, &named)
	return known, named, err
}

// BeginHostChunks records in how many chunks of followers the documents are to list a host. It returns false when that has
// begun before, or when all documents list the host already.
func (tx *Tx) BeginHostChunks(ctx context.Context, host services.UserID, chunks int) (begun bool, err error) {
	changed, err := tx.Run(ctx, beginHostChunks, host, chunks)
	return changed > 0, err
}

// EndHostChunk notes that one more chunk of a host's followers is done: their documents list the host. last is true for the
// last chunk.
func (tx *Tx) EndHostChunk(ctx context.Context, host services.UserID) (last bool, err error) {
	var left int
	found, err := tx.One(ctx, lowerHostUnnamed, []any{host}, &left)
	return found && left == 0, err
}

// PublishShows notes that all documents list a host, and returns the host's shows that are on no board yet and were not
// cancelled, in order of ID. The caller has locked the log of shows, and puts them onto boards in this transaction.
func (tx *Tx) PublishShows(ctx context.Context, host services.UserID) ([]services.Show, error) {
	if _, err := tx.Run(ctx, nameHost, host); err != nil {
		return nil, err
	}
	return shows(ctx, tx.Tx.Runner, unpublishedShows, host)
}

// NameHosts notes that all documents list some hosts, and returns those for which that is new. Hosts whose followers are being
// processed in chunks are left out.
func (tx *Tx) NameHosts(ctx context.Context, hosts []services.UserID) ([]services.UserID, error) {
	return tx.userIDs(ctx, nameHosts, hosts)
}

// PublishAll puts onto boards the hosts' shows that are on no board yet and were not cancelled, all from one version of the log
// on, which the caller has appended in this transaction. It returns the hosts that have replays to push into lists.
func (tx *Tx) PublishAll(ctx context.Context, hosts []services.UserID, version uint64) (listed []services.UserID, err error) {
	var live []services.UserID
	err = tx.Each(ctx, publishActive, []any{hosts, int64(version)}, func(scan func(...any) error) error {
		var host services.UserID
		var status int64
		err := scan(&host, &status)
		if status == numberOf(services.ShowLive) {
			live = append(live, host)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if _, err := tx.Run(ctx, setHostVersions, live, int64(version)); err != nil {
		return nil, err
	}
	var formers [][]any
	err = tx.Each(ctx, publishReplays, []any{hosts, int64(version)}, func(scan func(...any) error) error {
		var show services.PostID
		var host services.UserID
		var pull bool
		err := scan(&show, &host, &pull)
		formers = append(formers, stoodNowhere(show, host, version, tx.Now))
		if !pull {
			listed = append(listed, host)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	_, err = tx.Insert(ctx, importFormers, formers)
	slices.Sort(listed)
	return slices.Compact(listed), err
}

// ManyFollow returns those of some hosts that have more followers than a number, active or not.
func (s *Store) ManyFollow(ctx context.Context, hosts []services.UserID, followers int) ([]services.UserID, error) {
	list := make(sql.Rows, len(hosts))
	for i, host := range hosts {
		list[i] = []any{host}
	}
	return numbers(ctx, s.DB.Runner, manyFollow, list, followers)
}

// FollowersOfHosts lists all followers who see the shows of some hosts, in no order: only those last seen at activeSince or
// later.
func (s *Store) FollowersOfHosts(ctx context.Context, hosts []services.UserID, activeSince time.Time) ([]services.Edge, error) {
	var edges []services.Edge
	err := s.Each(ctx, followersOfHosts, []any{hosts, activeSince}, func(scan func(...any) error) error {
		var edge services.Edge
		err := scan(&edge.Followee, &edge.Follower, &edge.Since)
		edges = append(edges, edge)
		return err
	})
	return edges, err
}

// SetHostVersion records the version of the log at which the set of a host's live shows last changed. The caller has appended
// it in this transaction, so that versions only rise.
func (tx *Tx) SetHostVersion(ctx context.Context, host services.UserID, version uint64) error {
	_, err := tx.Run(ctx, setHostVersion, host, int64(version))
	return err
}

// HostVersions lists the versions of hosts in order of user ID, those greater than after, at most limit.
func (s *Store) HostVersions(ctx context.Context, after services.UserID, limit int) ([]HostVersion, error) {
	var list []HostVersion
	err := s.Each(ctx, hostVersions, []any{after, limit}, func(scan func(...any) error) error {
		var one HostVersion
		err := scan(&one.Host, &one.Version, &one.Pulls)
		list = append(list, one)
		return err
	})
	return list, err
}

// HostsBy lists the hosts whom a reader follows and whose shows they see, in order of user ID. Both the reader's document and
// their board list these hosts.
func (s *Store) HostsBy(ctx context.Context, reader services.UserID) ([]services.Edge, error) {
	var edges []services.Edge
	err := s.Each(ctx, hostsBy, []any{reader}, func(scan func(...any) error) error {
		edge := services.Edge{Follower: reader}
		err := scan(&edge.Followee, &edge.Since)
		edges = append(edges, edge)
		return err
	})
	return edges, err
}

// NoteUnfollow records that the follow of a host ends now, since the follower's board may have just shown that host's shows. It
// records nothing for a user who is no host.
func (tx *Tx) NoteUnfollow(ctx context.Context, follower, followee services.UserID) error {
	_, err := tx.Run(ctx, noteUnfollow, follower, followee, tx.Now)
	return err
}

// UnfollowedSince reports whether a board lost a host's shows at or after a time: the follow has ended, or it stands and the
// shows are hidden.
func (s *Store) UnfollowedSince(ctx context.Context, follower, followee services.UserID, since time.Time) (bool, error) {
	var is int
	return s.One(ctx, unfollowedSince, []any{follower, followee, since}, &is)
}

// ForgetPastFollows deletes records of follows that ended before a time and returns how many. No session is that old.
func (s *Store) ForgetPastFollows(ctx context.Context, before time.Time) (forgotten int, err error) {
	return s.forget(ctx, forgetPastFollows, before)
}
