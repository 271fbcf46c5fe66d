package live

import (
	"context"
	"slices"
	"time"

	"tidings/services"
	"tidings/services/people"
	"tidings/services/sql"
)

const (
	// selectFollowedHosts are the reader's ($1) follows of hosts whose shows the reader may see.
	selectFollowedHosts = `
	SELECT f.followee, ` + people.FollowColumns + ` FROM follows f WHERE f.follower = $1 AND ` + followedHostCondition

	// followedHostCondition selects follows of hosts whose shows the follower may see. shown is false while the follower mutes the
	// host or the host hides from the follower. A user's follow of themselves exists only for their own posts, and is left out. A
	// row in hosts stays when all shows are over. COALESCE makes the search for the host one look-up by key for each follow, never
	// a walk through all hosts.
	followedHostCondition = `f.followee <> f.follower AND f.shown AND COALESCE((SELECT TRUE FROM hosts WHERE hosts.host = f.followee), FALSE)`
)

var (
	// insertHost inserts a row of hosts. Its column named says that the documents of all followers name the host, so that boards have the
	// host's shows; unnamed is the number of chunks of followers whose documents do not name the host yet, 0 before they are counted.
	// live_ver is the version of the log at which the set of the host's live shows last changed.
	insertHost = sql.NewStatement("insert a host", `INSERT INTO hosts (host, named, unnamed, live_ver) VALUES ($1, FALSE, 0, 0)
		ON CONFLICT (host) DO NOTHING`)

	oneHost = sql.NewStatement("a host", `SELECT named FROM hosts WHERE host = $1`)

	// A host that is not named and has unnamed = 0 has no chunks yet. Of two jobs of one host only one queues the chunks.
	setUnnamedChunkCount = sql.NewStatement("begin the chunks of a host", `UPDATE hosts SET unnamed = $2
		WHERE host = $1 AND NOT named AND unnamed = 0`)

	// Each chunk's job runs this in the transaction that ends the job, so each chunk counts once, however often its job runs.
	lowerUnnamedChunkCount = sql.NewStatement("end a chunk of a host", `UPDATE hosts SET unnamed = unnamed - 1
		WHERE host = $1 AND NOT named AND unnamed > 0 RETURNING unnamed`)

	setHostInDocuments = sql.NewStatement("name a host", `UPDATE hosts SET named = TRUE, unnamed = 0 WHERE host = $1`)

	// The conditions leave out hosts that are named already, and hosts whose followers are still being processed in chunks.
	setHostsInDocuments = sql.NewStatement("name hosts", `UPDATE hosts SET named = TRUE WHERE {in host $1 BIGINT} AND NOT named AND unnamed = 0 RETURNING host`)

	// Dormant followers have no document: they get the hosts when they return.
	hostFollowers = sql.NewStatement("followers of hosts", `SELECT f.followee, f.follower, `+people.FollowColumns+`
		FROM follows f JOIN users u ON u.number = f.follower
		WHERE {in f.followee $1 BIGINT} AND f.shown AND u.seen_at >= $2`)

	// OFFSET stops at the first follower beyond the limit. A count would read all of them.
	hostsWithManyFollowers = sql.NewStatement("hosts with many followers", `SELECT h.host FROM {rows $1 host BIGINT} AS h
		WHERE EXISTS (SELECT 1 FROM follows f WHERE f.followee = h.host LIMIT 1 OFFSET $2)`)

	// publishActive and publishReplays put the shows of hosts onto boards, from version $2 of the changelog on. There is one statement for
	// each partial index of shows.
	publishActive = sql.NewStatement("publish active shows", `UPDATE shows SET ver = $2, live_ver = CASE WHEN status = 1 THEN CAST($2 AS BIGINT) ELSE live_ver END
		WHERE {in host $1 BIGINT} AND status < 2 AND ver = 0 RETURNING host, status`)

	publishReplays = sql.NewStatement("publish replays", `UPDATE shows SET ver = $2
		WHERE {in host $1 BIGINT} AND status = 2 AND ver = 0 RETURNING id, host, pull`)

	// unpublishedShows has one SELECT for each partial index of shows too. A show with ver = 0 is on no board.
	unpublishedShows = sql.NewStatement("shows that no board has yet", `SELECT * FROM (
	`+selectShow+`shows s WHERE s.host = $1 AND s.status < 2 AND s.ver = 0
	UNION ALL `+selectShow+`shows s WHERE s.host = $1 AND s.status = 2 AND s.ver = 0
) AS s ORDER BY id`)

	setHostLiveVersion = sql.NewStatement("set a host's version", `UPDATE hosts SET live_ver = $2 WHERE host = $1`)

	setHostLiveVersions = sql.NewStatement("set the versions of hosts", `UPDATE hosts SET live_ver = $2 WHERE {in host $1 BIGINT}`)

	// The subselect is one look-up in the index shows_replays for each host.
	hostLiveVersions = sql.NewStatement("versions of hosts", `SELECT host, live_ver, EXISTS (SELECT 1 FROM shows s WHERE s.host = hosts.host AND `+pulledReplay+`)
		FROM hosts WHERE host > $1 ORDER BY host LIMIT $2`)

	hostsOfReaders = sql.NewUserStatement("hosts of a reader", "hosts of readers", `SELECT f.follower, f.followee, `+people.FollowColumns+`
		FROM follows f WHERE {user f.follower} AND `+followedHostCondition+` ORDER BY f.follower, f.followee`)

	// There is a row if the host's shows left the board: the follow has ended, or it exists and is not shown. A host who hid before
	// the session was made was not on the board, so there is no row.
	followEnded = sql.NewStatement("whether a follow has ended lately", `
SELECT 1 FROM past_follows WHERE follower = $1 AND followee = $2 AND until_at >= $3
UNION ALL SELECT 1 FROM follows f WHERE f.follower = $1 AND f.followee = $2 AND NOT f.shown
	AND NOT EXISTS (SELECT 1 FROM hides h WHERE h.author = $2 AND h.follower = $1 AND h.made < $4) LIMIT 1`)

	followGapsSince = sql.NewStatement("gaps of a user's follows", `SELECT followee, since, until_at FROM follow_gaps
		WHERE follower = $1 AND until_at >= $2 ORDER BY until_at DESC, followee`)

	// An import of many late follows makes many gaps: the limit bounds how many one turn of the janitor deletes.
	deleteFollowGaps = sql.NewStatement("forget the gaps of follows", `DELETE FROM follow_gaps WHERE (follower, until_at, followee) IN (
		SELECT follower, until_at, followee FROM follow_gaps WHERE until_at < $1 ORDER BY until_at LIMIT 10000)`)

	deletePastFollows = sql.NewStatement("forget the ends of follows", `DELETE FROM past_follows WHERE until_at < $1`)
)

// putHost records that a user has a show; created is true for their first.
func putHost(ctx context.Context, tx *sql.Tx, host services.UserID) (created bool, err error) {
	inserted, err := tx.Run(ctx, insertHost, host)
	return inserted > 0, err
}

// readHost reports whether a user ever had a show, and whether all of their followers' documents list them.
func readHost(ctx context.Context, r sql.Runner, host services.UserID) (known, named bool, err error) {
	known, err = r.One(ctx, oneHost, []any{host}, &named)
	return known, named, err
}

// beginHostChunks records the number of chunks of followers whose documents do not list a host yet. begun is false if chunks
// were begun before, or if all documents list the host already: then the caller's chunks are not needed. With 0 chunks the
// caller publishes at once.
func beginHostChunks(ctx context.Context, tx *sql.Tx, host services.UserID, chunks int) (begun bool, err error) {
	changed, err := tx.Run(ctx, setUnnamedChunkCount, host, chunks)
	return changed > 0, err
}

// endHostChunk records that one more chunk of a host's followers is done: their documents list the host. last is true for the
// last chunk, whose job publishes the host's shows in the same transaction.
func endHostChunk(ctx context.Context, tx *sql.Tx, host services.UserID) (last bool, err error) {
	var left int
	found, err := tx.One(ctx, lowerUnnamedChunkCount, []any{host}, &left)
	return found && left == 0, err
}

// recordHostInDocuments records that all documents list a host, and returns the host's shows that no board has yet and were not
// cancelled, in order of ID. The caller has locked the log of shows, and puts them onto boards in this transaction.
func recordHostInDocuments(ctx context.Context, tx *sql.Tx, host services.UserID) ([]Show, error) {
	if _, err := tx.Run(ctx, setHostInDocuments, host); err != nil {
		return nil, err
	}
	return selectShows(ctx, tx.Runner, unpublishedShows, host)
}

// recordHostsInDocuments records that all documents list these hosts, and returns the hosts of which that was not recorded before.
// It neither records nor returns hosts whose followers are being processed in chunks.
func recordHostsInDocuments(ctx context.Context, tx *sql.Tx, hosts []services.UserID) ([]services.UserID, error) {
	return sql.ReadColumn[services.UserID](ctx, tx, setHostsInDocuments, hosts)
}

// publishShowsOfHosts puts onto boards the hosts' shows that are on no board yet and were not cancelled, all from the given version
// of the log on. The caller has appended the entry of that version in this transaction. It returns the hosts that have replays to push
// into lists.
func publishShowsOfHosts(ctx context.Context, tx *sql.Tx, hosts []services.UserID, version uint64) (listed []services.UserID, err error) {
	var live []services.UserID
	err = tx.Each(ctx, publishActive, []any{hosts, int64(version)}, func(scan func(...any) error) error {
		var host services.UserID
		var status int64
		err := scan(&host, &status)
		if status == statusCode(ShowLive) {
			live = append(live, host)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	// One version for all of them is enough: it is newer than any version of these hosts that a node has.
	if _, err := tx.Run(ctx, setHostLiveVersions, live, int64(version)); err != nil {
		return nil, err
	}
	var formers [][]any
	err = tx.Each(ctx, publishReplays, []any{hosts, int64(version)}, func(scan func(...any) error) error {
		var show services.ShowID
		var host services.UserID
		var pull bool
		err := scan(&show, &host, &pull)
		// Older sessions must not list a replay that no board had, although it may have ended long before they began.
		formers = append(formers, noFormerPositionRow(show, host, version, tx.Now))
		if !pull {
			listed = append(listed, host)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	_, err = tx.Insert(ctx, importFormerPositions, formers)
	slices.Sort(listed)
	return slices.Compact(listed), err
}

// hostsWithMoreFollowers returns the given hosts that have more than this number of followers, active or not. Each of them gets a
// job of its own, which works in chunks.
func hostsWithMoreFollowers(ctx context.Context, db *sql.DB, hosts []services.UserID, followers int) ([]services.UserID, error) {
	return sql.ReadColumn[services.UserID](ctx, db, hostsWithManyFollowers, sql.ColumnParameter(hosts), followers)
}

// followersOfHosts lists the followers who see the shows of some hosts and were last active at activeSince or later, in no
// order.
func followersOfHosts(ctx context.Context, db *sql.DB, hosts []services.UserID, activeSince time.Time) ([]services.FollowEdge, error) {
	return sql.ReadRows(ctx, db, hostFollowers, []any{hosts, activeSince}, func(scan sql.Scan, edge *services.FollowEdge) error {
		var held int64
		err := scan(&edge.Followee, &edge.Follower, &edge.PostsCountAfter, &held)
		*edge = people.WithDecodedMode(*edge, held)
		return err
	})
}

// recordHostLiveVersion records the version of the log at which the set of a host's live shows last changed. The caller has appended the
// entry of that version in this transaction, so that versions only rise.
func recordHostLiveVersion(ctx context.Context, tx *sql.Tx, host services.UserID, version uint64) error {
	_, err := tx.Run(ctx, setHostLiveVersion, host, int64(version))
	return err
}

// hostVersions lists the versions of the hosts with user IDs above after, at most limit, in order of user ID.
func (d database) hostVersions(ctx context.Context, after services.UserID, limit int) ([]hostLiveVersion, error) {
	return sql.ReadRows(ctx, d, hostLiveVersions, []any{after, limit}, func(scan sql.Scan, one *hostLiveVersion) error {
		return scan(&one.Host, &one.LiveVersion, &one.HasPulledReplays)
	})
}

// followedHosts lists the hosts that a reader follows and whose shows the reader sees, in order of user ID. Both the reader's
// document and their board list these hosts.
func followedHosts(ctx context.Context, db *sql.DB, reader services.UserID) ([]services.FollowedAuthor, error) {
	hosts, err := followedHostsByReader(ctx, db, []services.UserID{reader})
	return hosts[reader], err
}

// followedHostsByReader lists, for each of several readers, the hosts that they follow and whose shows they see, in order of user ID.
// Readers who follow no host are absent.
func followedHostsByReader(ctx context.Context, db *sql.DB, readers []services.UserID) (map[services.UserID][]services.FollowedAuthor, error) {
	hosts := make(map[services.UserID][]services.FollowedAuthor, len(readers))
	st, of := hostsOfReaders.ForUsers(readers)
	err := db.Each(ctx, st, []any{of}, func(scan func(...any) error) error {
		edge, held := services.FollowEdge{}, int64(0)
		err := scan(&edge.Follower, &edge.Followee, &edge.PostsCountAfter, &held)
		hosts[edge.Follower] = append(hosts[edge.Follower], people.WithDecodedMode(edge, held).AsFollowedHost())
		return err
	})
	return hosts, err
}

// unfollowedSince reports whether a host's shows have left the board of a session since it was made (made is Session.CreationID).
// Either the follow has ended, or it continues and is muted or hidden. A hide from before the board does not count, because the
// host was never on it. A mute counts whenever it began: the viewer made it, so the answer tells them nothing about others.
func unfollowedSince(ctx context.Context, db *sql.DB, follower, followee services.UserID, made services.SortableID) (bool, error) {
	var is int
	return db.One(ctx, followEnded, []any{follower, followee, made.Time(), made}, &is)
}

// forgetPastFollows deletes records of follows that ended before a time, and returns how many. No open session may be that old.
func forgetPastFollows(ctx context.Context, db *sql.DB, before time.Time) (forgotten int, err error) {
	return deleteBefore(ctx, db, deletePastFollows, before)
}
