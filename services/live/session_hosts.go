package live

import (
	"context"
	"slices"
	"time"

	"tidings/services"
	"tidings/services/sql"
)

// followGap is a time in which a follower's boards lacked a host, although the follow's own time says that they had the host: the host
// application reported the follow late, or the follow was muted or hidden. Package people writes the rows.
type followGap struct {
	Host         services.UserID
	Since, Until time.Time // to the millisecond, as the time of a session
}

// boardHosts filters the hosts that a viewer follows now to those on the board of a session: those that the board had when the session
// was made. Only if the hosts are others than then, are gaps read from SQL: a follow, an unfollow or a mute is rare while a user scrolls.
// The list itself is not modified. For a session that is still to be made it is the result.
func (s *Service) boardHosts(ctx context.Context, session Session, all []services.FollowedAuthor) ([]services.FollowedAuthor, error) {
	if session.CreationID == 0 {
		return all, nil
	}
	hosts := session.filterHosts(all)
	if session.FollowsHash == 0 || sumFollowHashes(hosts) == session.FollowsHash {
		return hosts, nil
	}
	// What was committed shortly before the session may have reached the document after it.
	gaps, err := followGapsOf(ctx, s.db, session.Viewer, session.CreationID.Time().Add(-recentFollowAge))
	if err != nil {
		return nil, err
	}
	return session.removeLateHosts(hosts, gaps), nil
}

// removeLateHosts removes from a list, which is not what the session had, the hosts that were in a gap when the session was made. gaps are
// in the order of their ends, the latest first. The list itself is not modified.
//
// A gap that ended at about that time may have ended in the document before or after it, and clocks differ. So hosts are removed from the
// latest gap on, and as soon as the rest is what the session had, it is the result. It never is if hosts have also left since: then the
// times decide.
func (s Session) removeLateHosts(hosts []services.FollowedAuthor, gaps []followGap) []services.FollowedAuthor {
	made, sum := s.CreationID.Time(), sumFollowHashes(hosts)
	left := services.KeyBy(hosts, func(host services.FollowedAuthor) services.UserID { return host.Author })
	var late []services.UserID
	lateCount := 0 // how many of late are removed
	for _, gap := range gaps {
		host, is := left[gap.Host]
		if !is || gap.Since.After(made) { // the board had the host, who has left it and come back since
			continue
		}
		delete(left, gap.Host)
		late, sum = append(late, gap.Host), sum-fastFollowHash(host)
		if gap.Until.After(made) || sum == s.FollowsHash {
			lateCount = len(late)
		}
		if sum == s.FollowsHash {
			break
		}
	}
	if lateCount == 0 {
		return hosts
	}
	removed := make(map[services.UserID]bool, lateCount)
	for _, host := range late[:lateCount] {
		removed[host] = true
	}
	return slices.DeleteFunc(slices.Clone(hosts), func(host services.FollowedAuthor) bool { return removed[host.Author] })
}

// followGapsOf lists the gaps of a user's follows that ended at since or later, the latest end first.
func followGapsOf(ctx context.Context, db *sql.DB, follower services.UserID, since time.Time) ([]followGap, error) {
	return sql.ReadRows(ctx, db, followGapsSince, []any{follower, since}, func(scan sql.Scan, gap *followGap) error {
		var since services.SortableID
		var until int64
		err := scan(&gap.Host, &since, &until)
		gap.Since, gap.Until = since.Time(), sql.FromMicros(until).Truncate(time.Millisecond)
		return err
	})
}

// forgetFollowGaps deletes gaps that ended before a time, and returns how many. No open session may be that old.
func forgetFollowGaps(ctx context.Context, db *sql.DB, before time.Time) (forgotten int, err error) {
	return deleteBefore(ctx, db, deleteFollowGaps, before)
}
