package live

import (
	"context"

	"tidings/services"
)

// readerData is a viewer's data: the followed hosts, and their replays after a position.
type readerData struct {
	hosts           []services.FollowedAuthor // all that the viewer follows now
	boardHosts      []services.FollowedAuthor // those on the board of the session, see boardHosts; all for a session that is still to be made
	replays         replayList
	replaysComplete bool      // replays is complete; otherwise it must be read from SQL
	lease           slotLease // of the session's slot

	replaysSkipped bool // Redis was not asked for replays
	beingRebuilt   bool // Redis answers, and the viewer's data there is still being built
}

// replayLimit is how many replays are read for a page: one more than the page has, and as many as may have been added since the
// session was made. Each addition is an entry of the log, so the versions since then bound their number; a list shows no more than
// FeedRetention. If even that is too few after filtering, cutPage reads all replays.
func (s *Service) replayLimit(session Session, first int) int {
	since := uint64(0)
	if now := s.Memory.Version(); session.CreationID != 0 && now > session.Version {
		since = now - session.Version
	}
	return first + 1 + int(min(since, services.FeedRetention))
}

// hostsNotOnBoard lists the followed hosts that are not on the board of the session.
func (v readerData) hostsNotOnBoard() (others []services.FollowedAuthor) {
	onBoard := v.boardHosts // a part of hosts, in the same order
	for _, host := range v.hosts {
		if len(onBoard) > 0 && onBoard[0] == host {
			onBoard = onBoard[1:]
		} else {
			others = append(others, host)
		}
	}
	return others
}

// readerData reads a viewer's data: the hosts, and at most a number of replays, 0 for none.
func (s *Service) readerData(ctx context.Context, session Session, after ShowPosition, replays int) (readerData, error) {
	reader, err := s.readReplaysAndHosts(ctx, session, after, replays)
	if err == nil {
		reader.boardHosts, err = s.boardHosts(ctx, session, reader.hosts)
	}
	return reader, err
}

// readReplaysAndHosts reads a viewer's data, except boardHosts. The data comes from Redis in one round trip, after a rebuild of a missing
// or outdated document; or from SQL, for example if Redis lacks the viewer's last command.
func (s *Service) readReplaysAndHosts(ctx context.Context, session Session, after ShowPosition, replays int) (readerData, error) {
	query := boardQuery{Reader: session.Viewer, Limit: replays, Slot: session.slotKey(s.sessionScope)}
	if after.Replay {
		query.Before = after
	}
	// If the viewer's last command is in SQL and not in Redis yet, Redis would answer with a board from before that command.
	stale := s.jobs.ProjectionsStale(ctx, session.Viewer)
	read, err := s.redis.readBoard(ctx, query)
	answered := err == nil
	// The document is missing, or the viewer has been away for so long that nothing was pushed to it. One rebuild serves all
	// callers. This caller waits for it for at most buildWait, and then reads from SQL.
	if err == nil && !stale && (!read.Ready || s.projector.IsIdleIfSeenOn(read.LastActiveDay)) {
		read.Ready = false
		waiting, cancel := context.WithTimeout(ctx, s.buildWait)
		err = s.projector.Rebuild(waiting, session.Viewer)
		cancel()
		if err == nil {
			read, err = s.redis.readBoard(ctx, query)
		}
	}
	if err == nil && read.Ready && !stale {
		return readerDataOf(read, query.Limit), nil
	}
	// UNAVAILABLE means that Redis does not answer, or that the rebuild takes longer than the wait. In both cases the data comes
	// from SQL.
	if err != nil && !services.IsUnavailable(err) {
		return readerData{}, err
	}
	// Only the lease is used from Redis' answer: the lease is no projection of facts, so it cannot be outdated.
	known := readerData{beingRebuilt: answered}
	if answered {
		known.lease = read.Lease
	}
	known.hosts, err = s.followedHosts(ctx, session.Viewer)
	return known, err
}

// readerDataOf turns an answer of Redis into readerData. limit is the number of replays that were asked for.
func readerDataOf(read redisBoard, limit int) readerData {
	v := readerData{replaysSkipped: limit == 0, hosts: read.Hosts, replaysComplete: read.ListReady, lease: read.Lease}
	v.replays = replayList{HasMore: len(read.Replays) >= limit, Floor: read.Floor, Lines: make([]boardLine, len(read.Replays))}
	for i, entry := range read.Replays {
		v.replays.Lines[i] = boardLine{Position: entry.Position, Host: entry.Host}
	}
	return v
}

// viewerReplays returns the viewer's replays after a position: from their list in Redis, which is rebuilt when it is lost, or from
// SQL if the rebuild takes long.
func (s *Service) viewerReplays(ctx context.Context, session Session, v readerData, after ShowPosition, replays int) (list replayList, building bool, err error) {
	if v.replaysComplete {
		return v.replays, false, nil
	}
	if v.lease.RedisAnswered && !v.beingRebuilt { // Redis answers, and only the list is missing
		waiting, cancel := context.WithTimeout(ctx, s.buildWait)
		err = s.rebuildReplays(waiting, session.Viewer)
		cancel()
		if err == nil {
			// The list is read again only once. If it is missing again, or Redis fails, the page comes from SQL.
			if again, err := s.readerData(ctx, session, after, replays); err == nil && again.replaysComplete {
				return again.replays, false, nil
			}
		}
		if services.IsPanic(err) { // a list from SQL would hide the bug
			return list, false, err
		}
		v.beingRebuilt = true
	}
	list, err = s.replaysFromSQL(ctx, session, v, after)
	return list, v.beingRebuilt, err
}

// replaysFromSQL reads the replays from SQL as a list in Redis had them when the session was made, without the hosts that have left. It
// reads from the top, wherever the page starts, to find the floor: the newest replay beyond those that a list shows.
func (s *Service) replaysFromSQL(ctx context.Context, session Session, v readerData, after ShowPosition) (list replayList, err error) {
	shows, err := replaysOfFollowedHostsAt(ctx, s.db, session.Viewer, session.Version, v.hostsNotOnBoard(), ShowPosition{}, services.FeedRetention+1)
	if err != nil {
		return list, err
	}
	if len(shows) > services.FeedRetention {
		list.Floor, shows = shows[services.FeedRetention].Position(), shows[:services.FeedRetention]
	}
	for _, show := range shows {
		if after.ID == 0 || after.Before(show.Position()) {
			list.Lines = append(list.Lines, boardLineOf(show))
		}
	}
	return list, nil
}

// catchUpToSession brings the cache up to the version of a session. The error INVALID names the argument field, and means that no
// node can have made the session.
func (s *Service) catchUpToSession(ctx context.Context, field string, session Session) error {
	never := services.Errorf(services.Invalid, "%s: the session is of the future", field)
	latest := s.ids.Now()
	// latest is the later of two times: that of ids, which corrects this node's clock by the database's, and the clock itself. Another
	// node, whose clock is ahead as well, may have made the session before it learned of its own correction.
	if now := s.clock.Now(); now.After(latest) {
		latest = now
	}
	// No node made such a session. Without this check a forged one would live, and hold its slot, for ever.
	if session.CreationID.Time().After(latest.Add(maxClockSkew)) {
		return never
	}
	// The session may come from a node that has read more of the log.
	err := s.Memory.catchUp(ctx, session.Version)
	if services.CodeOf(err) == services.Invalid {
		return never
	}
	return err
}

// frozenShow returns a show as the session froze it. The error is INVALID for a show that was never in the session.
func (s *Service) frozenShow(ctx context.Context, session Session, id services.ShowID) (Show, error) {
	never := services.Errorf(services.Invalid, "lastId: %s was never in the session", services.GlobalID(services.ShowType, id.String()))
	show, known, there := s.Memory.ShowAt(id, session.Version)
	// The show became a replay long ago, or is on no board. SQL has its present state, and a replay's position does not change
	// any more.
	if !known {
		shows, err := s.Memory.Shows(ctx, []services.ShowID{id})
		if err != nil {
			return show, err
		}
		show, there = shows[id]
		there = there && show.Version > 0 && (show.Version <= session.Version || s.pastMaxLife(session))
		if there && show.Status == ShowCancelled { // its position in the session may be forgotten, so use its last one
			show.Status = ShowUpcoming
		}
	}
	if !there || show.Status == ShowCancelled {
		return show, never
	}
	return show, nil
}

// pastMaxLife reports whether a session is past its longest life, so that former positions of shows are no longer kept for it.
func (s *Service) pastMaxLife(session Session) bool {
	return s.clock.Now().After(session.CreationID.Time().Add(s.maxSessionLife))
}

// checkHostOnBoard checks that a show's host was on the board of the session: the host is on the board now (boardHosts); or the viewer
// follows the host, whose shows are muted, or were hidden after the session was made; or the viewer stopped following the host after
// the session was made. A host who was hidden before was not on the board, so the host's shows are refused.
func (s *Service) checkHostOnBoard(ctx context.Context, session Session, boardHosts []services.FollowedAuthor, show Show) error {
	for _, host := range boardHosts {
		if host.Author == show.Host {
			return nil
		}
	}
	was, err := unfollowedSince(ctx, s.db, session.Viewer, show.Host, session.CreationID)
	if err == nil && !was {
		err = services.Errorf(services.Invalid, "lastId: %s was never in the session", show.GlobalID())
	}
	return err
}

// renew lets a session live for its idle time from now on. It returns false if a later session has its slot. If Redis fails, the
// session is not extended, and the result is true: a lost Redis must not end sessions.
func (s *Service) renew(ctx context.Context, session Session, held slotLease) bool {
	now, last := s.clock.Now(), session.CreationID.Time().Add(s.maxSessionLife)
	until := now.Add(s.sessionIdleTime)
	if last.Before(until) {
		until = last
	}
	// Pages follow each other within seconds, and each extension is a little longer than it has to be, so most pages write nothing.
	if held.Holder == session.name() && !held.Until.Before(until) {
		return true
	}
	if until = until.Add(s.sessionIdleTime / extraIdleDivisor); last.Before(until) {
		until = last
	}
	holds, err := s.redis.touchSession(ctx, session.Viewer, session.slotKey(s.sessionScope), session.name(), until)
	return holds || err != nil
}

// extraIdleDivisor: renew extends a session by its idle time and 1/extraIdleDivisor of it more, by 31 minutes if the idle time is 30.
// Pages within that extra minute then write nothing.
const extraIdleDivisor = 30
