package live

import (
	"context"
	"math"

	"tidings/services"
	"tidings/services/sql"
)

// pushedReplay selects the replays of a host that are pushed into replay lists, pulledReplay those that boards get from the node cache.
// Their columns form the index shows_replays; pull is compared with a constant because SQLite uses the index only for such a
// condition.
const (
	pushedReplay = `s.status = 2 AND s.pull = FALSE AND ` + everOnBoards
	pulledReplay = `s.status = 2 AND s.pull = TRUE AND ` + everOnBoards
)

var (
	// hostReplays reads a range of the index shows_replays from its end, without a sort.
	hostReplays = sql.NewStatement("replays of a host", selectShow+`shows s WHERE s.host = $1 AND `+pushedReplay+`
		ORDER BY s.ended_at DESC, s.id DESC LIMIT $2`)

	// For each host, the subselect finds the end of the last replay wanted, and all replays with that end or a newer one are
	// read. Ends are not unique, so there may be more than the limit: pulledReplays drops the surplus.
	pulledReplays = sql.NewStatement("pulled replays", selectShow+`{rows $1 host BIGINT} AS a CROSS JOIN shows s
WHERE s.host = a.host AND `+pulledReplay+` AND s.ended_at >= COALESCE((SELECT s.ended_at FROM shows s
	WHERE s.host = a.host AND `+pulledReplay+` ORDER BY s.ended_at DESC, s.id DESC LIMIT 1 OFFSET $2), 0)
ORDER BY s.host, s.ended_at DESC, s.id DESC`)

	// replaysOfReader merges a page of $4 replays from one range of the index shows_replays for each followed host. marks are the ends of
	// the depth-th newest replay of each host. floor is the one of them at or after which at least $4 replays ended, so that no older
	// replay can be on the page; 0 if there is none. bound is the end of one host's range. Ends are not unique, so all replays that have
	// the last one's time are read. feedPageSQL in package posts does the same for a home feed, and says more.
	// Replays of the hosts $6, and those of later versions than $5, are left out.
	replaysOfReader = sql.NewStatement("replays of followed hosts", `
WITH edges AS MATERIALIZED (`+selectFollowedHosts+` AND NOT {in f.followee $6 BIGINT}), page AS MATERIALIZED (
	SELECT CAST($4 AS BIGINT) AS size, COALESCE(1 + 2 * CAST($4 AS BIGINT) / NULLIF(count(*), 0), 1) AS depth FROM edges
), marks AS MATERIALIZED (
	SELECT (SELECT s.ended_at FROM shows s WHERE s.host = a.followee AND `+pushedReplay+` AND s.ver <= $5 AND (s.ended_at, s.id) < ($2, $3)
		ORDER BY s.ended_at DESC, s.id DESC LIMIT 1 OFFSET (SELECT depth - 1 FROM page)) AS mark
	FROM edges a
), floors AS MATERIALIZED (
	SELECT COALESCE((SELECT mark FROM marks WHERE mark IS NOT NULL ORDER BY mark DESC
		LIMIT 1 OFFSET (SELECT (size - 1) / depth FROM page)), 0) AS floor
), ranges AS MATERIALIZED (
	SELECT a.followee AS host, COALESCE((SELECT s.ended_at FROM shows s
		WHERE s.host = a.followee AND `+pushedReplay+` AND s.ver <= $5 AND (s.ended_at, s.id) < ($2, $3) AND s.ended_at >= floors.floor
		ORDER BY s.ended_at DESC, s.id DESC LIMIT 1 OFFSET (SELECT size - 1 FROM page)), floors.floor) AS bound
	FROM edges a CROSS JOIN floors
)
`+selectShow+`ranges r CROSS JOIN shows s
WHERE s.host = r.host AND `+pushedReplay+` AND s.ver <= $5 AND s.ended_at >= r.bound AND (s.ended_at, s.id) < ($2, $3)
ORDER BY s.ended_at DESC, s.id DESC LIMIT $4`)
)

// newestReplaysOf lists the replays of a host that are pushed into followers' lists, the newest end first, at most limit.
func newestReplaysOf(ctx context.Context, db *sql.DB, host services.UserID, limit int) ([]Show, error) {
	return selectShows(ctx, db.Runner, hostReplays, host, limit)
}

// pulledReplays lists the newest replays of hosts that are in no list, at most limit of each host: by host, the newest end
// first.
func (d database) pulledReplays(ctx context.Context, hosts []services.UserID, limit int) ([]Show, error) {
	found, err := selectShows(ctx, d.Runner, pulledReplays, sql.ColumnParameter(hosts), max(0, limit-1))
	// of is the number of replays of the present host so far.
	kept, of := found[:0], 0
	for i, show := range found { // several replays may have the same time as the last
		if of++; i == 0 || found[i-1].Host != show.Host {
			of = 1
		}
		if of <= limit {
			kept = append(kept, show)
		}
	}
	return kept, err
}

// replaysOfFollowedHosts lists the newest pushed replays of the followed hosts whose shows a reader may see, at most limit of them.
// before is a position of a board, after which the list begins; the zero value is the top. The cost grows with the number of
// followed hosts and with limit.
func replaysOfFollowedHosts(ctx context.Context, db *sql.DB, reader services.UserID, before ShowPosition, limit int) ([]Show, error) {
	return replaysOfFollowedHostsAt(ctx, db, reader, math.MaxInt64, nil, before, limit)
}

// replaysOfFollowedHostsAt is replaysOfFollowedHosts as of a version of the log, and without some hosts.
func replaysOfFollowedHostsAt(ctx context.Context, db *sql.DB, reader services.UserID, version uint64, without []services.FollowedAuthor, before ShowPosition, limit int) ([]Show, error) {
	if limit <= 0 {
		return nil, nil
	}
	ended, id := int64(math.MaxInt64), services.ShowID(services.MaxSortableID)
	if before.Replay {
		// Scores are milliseconds, times in SQL microseconds.
		ended, id = before.Score*1000, before.ID
	}
	hosts := services.Map(without, func(host services.FollowedAuthor) services.UserID { return host.Author })
	return selectShows(ctx, db.Runner, replaysOfReader, reader, ended, id, limit, int64(version), hosts)
}
