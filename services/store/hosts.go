package store

import (
	"context"
	"slices"
	"time"

	"tidings/services"
	"tidings/services/sql"
)

// hostEdges are the follows of hosts by the reader $1, who is shown them.
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

	// A statement for each partial index of shows.
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

// PutHost notes that somebody has a show; created says that it is his first.
func (tx *Tx) PutHost(ctx context.Context, host services.UserID) (created bool, err error) {
	inserted, err := tx.Run(ctx, insertHost, host)
	return inserted > 0, err
}

// Host says whether somebody ever had a show, and whether all documents of their followers name them.
func (tx *Tx) Host(ctx context.Context, host services.UserID) (known, named bool, err error) {
	known, err = tx.One(ctx, oneHost, []any{host}, &named)
	return known, named, err
}

// IsHost says whether somebody ever had a show, and whether all documents of his followers name him.
func (s *Store) IsHost(ctx context.Context, host services.UserID) (known, named bool, err error) {
	known, err = s.One(ctx, oneHost, []any{host}, &named)
	return known, named, err
}

// BeginHostChunks notes in how many chunks of followers documents are to name a host. It is begun once: false when it was, or
// when they name him.
func (tx *Tx) BeginHostChunks(ctx context.Context, host services.UserID, chunks int) (begun bool, err error) {
	changed, err := tx.Run(ctx, beginHostChunks, host, chunks)
	return changed > 0, err
}

// EndHostChunk notes that the documents of one more chunk of a host's followers name him, and answers whether it was the last.
func (tx *Tx) EndHostChunk(ctx context.Context, host services.UserID) (last bool, err error) {
	var left int
	found, err := tx.One(ctx, lowerHostUnnamed, []any{host}, &left)
	return found && left == 0, err
}

// PublishShows notes that all documents name a host, and lists his shows that no board has yet and that were not cancelled, by
// their ids. The caller has locked the log of shows, and puts them onto boards in this transaction.
func (tx *Tx) PublishShows(ctx context.Context, host services.UserID) ([]services.Show, error) {
	if _, err := tx.Run(ctx, nameHost, host); err != nil {
		return nil, err
	}
	return shows(ctx, tx.Tx.Runner, unpublishedShows, host)
}

// NameHosts notes that all documents name some hosts and answers those whom not all did, but for those whose followers are
// being served in chunks.
func (tx *Tx) NameHosts(ctx context.Context, hosts []services.UserID) ([]services.UserID, error) {
	return tx.numbers(ctx, nameHosts, hosts)
}

// PublishAll puts the shows of hosts onto boards that no board has yet and that were not cancelled, all from one version of the
// log on, which the caller has appended in this transaction. It answers the hosts of whom some replays belong into lists.
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

// ManyFollow says which of some hosts more users follow than a number, whether they were seen lately or not.
func (s *Store) ManyFollow(ctx context.Context, hosts []services.UserID, followers int) ([]services.UserID, error) {
	list := make(sql.Rows, len(hosts))
	for i, host := range hosts {
		list[i] = []any{host}
	}
	return numbers(ctx, s.DB.Runner, manyFollow, list, followers)
}

// FollowersOfHosts lists all followers of some hosts who are shown their shows, in no order: only who was seen at activeSince or
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

// SetHostVersion notes the version of the log of shows at which other shows of a host are live than before. The caller has
// appended it in this transaction, so that versions only rise.
func (tx *Tx) SetHostVersion(ctx context.Context, host services.UserID, version uint64) error {
	_, err := tx.Run(ctx, setHostVersion, host, int64(version))
	return err
}

// HostVersions lists the versions of hosts by their numbers, those greater than after, at most limit.
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

// HostsBy lists the hosts whom a reader follows and is shown, by their numbers: what his document names, and whose shows his
// board has.
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

// NoteUnfollow notes that the follow of a host ends now: what the follower's board showed last may be his. Of whoever is no
// host nothing is noted.
func (tx *Tx) NoteUnfollow(ctx context.Context, follower, followee services.UserID) error {
	_, err := tx.Run(ctx, noteUnfollow, follower, followee, tx.Now)
	return err
}

// UnfollowedSince says whether a board had a host's shows until some moment since a time, and has them no longer: the follow
// has ended, or it stands and is not shown any more.
func (s *Store) UnfollowedSince(ctx context.Context, follower, followee services.UserID, since time.Time) (bool, error) {
	var is int
	return s.One(ctx, unfollowedSince, []any{follower, followee, since}, &is)
}

// ForgetPastFollows drops the ends of follows from before a time and says how many: no session is that old.
func (s *Store) ForgetPastFollows(ctx context.Context, before time.Time) (forgotten int, err error) {
	return s.forget(ctx, forgetPastFollows, before)
}
