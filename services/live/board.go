package live

import (
	"context"
	"slices"
	"time"

	"tidings/services"
)

// BoardRequest is a request for a page of a board.
type BoardRequest struct {
	First  int    // how many shows
	Device string // the client's name for its device; "": it has none

	// After is a cursor, nil for none. It contains a session and a position in it, so Session and LastID must be nil with it.
	After *string
	// Session is the text of a session, nil for a new one; LastID is the ID of a show in it, after which the page starts, nil for the
	// top.
	Session, LastID *string
}

// BoardItem is one line of a board: a show as it is now, and as the session froze it.
type BoardItem struct {
	// Position is the position in the session, which a cursor contains. The show may have another position now.
	Position ShowPosition
	Frozen   FrozenShow
	Show     Show // as it is now
	Host     services.User
}

// FrozenShow is the status and the times of a show as the session froze them. StartedAt and EndedAt are zero if the show had not
// started or ended by then.
type FrozenShow struct {
	Status                        ShowStatus
	PlannedAt, StartedAt, EndedAt time.Time
}

// Board is a page of a live board.
type Board struct {
	Session           Session     // the session that the page belongs to: the requested one, or a new one
	SessionReplaced   bool        // the requested session is over; Session is a new one that continues at the same position
	Items             []BoardItem // the lines of the page, from the top
	HasNext           bool
	End               services.FeedEnd // why nothing follows, if HasNext is false
	ReplaysBeingBuilt bool             // the replays come from SQL, because the viewer's list of them is still being built
}

// pageStart is where a page starts.
type pageStart struct {
	sessionArgName string          // the argument that names the session
	session        Session         // with CreationID 0: a new one
	after          ShowPosition    // the page starts below this position; the zero position: at the top
	lastID         services.ShowID // the page starts after this show's position in the session; 0: at the top
}

// parse finds where the page starts, from the arguments of the request alone: it reads no data.
func (a BoardRequest) parse(viewer services.UserID) (p pageStart, err error) {
	p.sessionArgName = "sessionId"
	switch {
	case a.After != nil && (a.Session != nil || a.LastID != nil):
		return p, services.Errorf(services.Invalid, "after: it stands for a session and a position in it, and cannot be given together with sessionId or lastId")
	case a.After != nil:
		p.sessionArgName = "after"
		p.session, p.after, err = parseCursor(viewer, *a.After)
		return p, err
	case a.LastID != nil && a.Session == nil:
		return p, services.Errorf(services.Invalid, "lastId: it is a position in a session, and cannot be given without sessionId")
	case a.Session == nil:
		return p, nil
	}
	if p.session, err = ParseSession("sessionId", viewer, *a.Session); err != nil || a.LastID == nil {
		return p, err
	}
	p.lastID, err = ParseShowID("lastId", *a.LastID)
	return p, err
}

// Board reads a page of a viewer's board. Without a session it begins a new one, of the board as it is now. With a session it shows
// the board as it was when the session began. When the session is over, a new session continues at the same position and is marked as
// replacing it.
func (s *Service) Board(ctx context.Context, viewer services.UserID, ask BoardRequest) (Board, error) {
	// The order of the steps matters: the cache reaches the session's version first, since everything below is read as of
	// that version.
	start, err := ask.parse(viewer)
	if err != nil {
		return Board{}, err
	}
	given := start.session.CreationID != 0
	if err := s.catchUpToSession(ctx, start.sessionArgName, start.session); err != nil {
		return Board{}, err
	}
	var shown Show
	if start.lastID != 0 {
		if shown, err = s.frozenShow(ctx, start.session, start.lastID); err != nil {
			return Board{}, err
		}
		start.after = shown.Position()
	}
	session := start.session
	if !given {
		session = Session{Viewer: viewer, DeviceHash: deviceHash(ask.Device)}
	}
	replays := 0 // Live and upcoming shows fill most first pages, which then need no replays.
	if given {
		replays = s.replayLimit(session, ask.First)
	}
	reader, err := s.readerData(ctx, session, start.after, replays)
	if err != nil {
		return Board{}, err
	}
	// This check needs the hosts, so it comes after the read. Without the check, the ID of any show would tell a stranger when
	// the show starts or ended.
	if start.lastID != 0 {
		if err := s.checkHostOnBoard(ctx, session, reader.boardHosts, shown); err != nil {
			return Board{}, err
		}
	}
	board := Board{SessionReplaced: given && !session.lives(s.clock.Now(), reader.lease, s.sessionIdleTime, s.maxSessionLife)}
	if !given || board.SessionReplaced {
		session, reader.boardHosts = s.newSession(session, reader.hosts), reader.hosts
	}
	// Only one session of a slot lives; SessionScope says which sessions share a slot. A new session in a slot of its own needs no write:
	// without a lease it lives for the first idle time (Session.lives). A new session that shares a slot takes the slot now, which ends
	// the earlier session. The result is ignored: if a later session has the slot, the next page of this session finds that out.
	if given && !board.SessionReplaced || session.sharesSlot(s.sessionScope) {
		s.renew(ctx, session, reader.lease)
	}
	return s.fillBoard(ctx, board, session, reader, start.after, ask.First)
}

// newSession makes a session of the board as it is now. It copies nothing: cutPage reads the shows as they were at the session's
// version. All hosts in the list belong to the session.
func (s *Service) newSession(former Session, hosts []services.FollowedAuthor) Session {
	// The session has the viewer and the device of the former session.
	session := former
	session.Version, session.CreationID = s.Memory.Version(), s.ids.Next()
	session.LatestFollow, session.RecentFollows = splitFollows(hosts, services.SortableIDAt(session.CreationID.Time().Add(-recentFollowAge)))
	session.FollowsHash = sumFollowHashes(hosts)
	return session
}

// fillBoard completes a page: it reads the data of the shows on it.
func (s *Service) fillBoard(ctx context.Context, board Board, session Session, reader readerData, after ShowPosition, first int) (Board, error) {
	page, building, err := s.cutPage(ctx, session, reader, after, first)
	if err != nil {
		return Board{}, err
	}
	board.Session, board.HasNext, board.End, board.ReplaysBeingBuilt = session, page.HasNext, page.End, building
	var hosts []services.UserID
	board.Items, hosts = itemsOf(page.Lines)
	if err := s.addHosts(ctx, board.Items, hosts); err != nil {
		return Board{}, err
	}
	return board, s.refreshShows(ctx, board.Items)
}

// itemsOf returns the items of a page without their hosts, and the ID of the host of each item. Each item has its show as the
// session froze it; refreshShows replaces it by the show as it is now.
func itemsOf(lines []boardLine) (items []BoardItem, hosts []services.UserID) {
	items, hosts = make([]BoardItem, len(lines)), make([]services.UserID, len(lines))
	for i := range lines {
		line, item := &lines[i], &items[i]
		hosts[i] = line.Show.Host
		item.Frozen = FrozenShow{Status: line.Show.Status, PlannedAt: line.Show.PlannedAt, StartedAt: line.Show.StartedAt, EndedAt: line.Show.EndedAt}
		item.Position, item.Show = line.Position, line.Show
	}
	return items, hosts
}

// addHosts adds the hosts of the shows.
func (s *Service) addHosts(ctx context.Context, items []BoardItem, hosts []services.UserID) error {
	if s.addCachedHosts(items, hosts) {
		return nil
	}
	users, err := s.reader.ReadHosts(ctx, hosts)
	for i, host := range hosts {
		items[i].Host = users[host]
	}
	return err
}

// addCachedHosts adds the hosts that are cached (nearly all are), and reports whether none is missing.
func (s *Service) addCachedHosts(items []BoardItem, hosts []services.UserID) (all bool) {
	return s.reader.EachCached(nil, nil, hosts, func(i int, host services.User) { items[i].Host = host })
}

// refreshShows brings the shows of a page up to date.
func (s *Service) refreshShows(ctx context.Context, items []BoardItem) error {
	missing := s.refreshCachedShows(items)
	if len(missing) == 0 {
		return nil
	}
	shows, err := s.Memory.Shows(ctx, missing)
	for i := range items {
		// A show that was erased meanwhile is absent: its line stays, as the session has it.
		if show, ok := shows[items[i].Show.ID]; ok {
			items[i].Show = show
		}
	}
	return err
}

// refreshCachedShows brings the cached shows of a page up to date, and returns the IDs of the others. It skips shows that were replays
// in the session: their status and times no longer change, and their texts are the present ones already. The other shows stay in
// the cache while a session that has them lives.
func (s *Service) refreshCachedShows(items []BoardItem) (missing []services.ShowID) {
	s.Memory.withShowLookup(func(now func(services.ShowID) (Show, bool)) {
		for i := range items {
			if items[i].Frozen.Status == ShowReplay {
				continue
			}
			if show, cached := now(items[i].Show.ID); cached {
				items[i].Show = show
			} else {
				missing = append(missing, items[i].Show.ID)
			}
		}
	})
	return missing
}

// cutPage makes a page from the node cache and the viewer's replays. after is a position in the session. building reports that
// replays came from SQL because the list in Redis is not ready.
func (s *Service) cutPage(ctx context.Context, session Session, reader readerData, after ShowPosition, first int) (page linePage, building bool, err error) {
	hosts := reader.boardHosts
	var p boardPart
	if !after.Replay {
		// One more show than the page has is read, to learn whether there are more.
		p.Active, p.HasMoreActive = s.Memory.activeAt(hosts, session.Version, after, first+1)
		after = ShowPosition{}
	}
	// The list of replays is neither read nor built for users who never scroll that far.
	if p.fillsPage(first, hosts) {
		return p.page(first), false, nil
	}
	// Board has not read the list of replays so far, because active shows fill most pages.
	if reader.replaysSkipped {
		if reader, err = s.readerData(ctx, session, after, s.replayLimit(session, first)); err != nil {
			return linePage{}, false, err
		}
	}
	listed, building, err := s.viewerReplays(ctx, session, reader, after, s.replayLimit(session, first))
	if err != nil {
		return linePage{}, false, err
	}
	if listed, err = s.replaysAtSession(ctx, listed, session, hosts); err != nil {
		return linePage{}, false, err
	}
	if listed.HasMore && len(listed.Lines) <= first { // newer replays pushed older ones out of the range that was read
		if reader, err = s.readerData(ctx, session, after, allReplaysLimit); err != nil {
			return linePage{}, false, err
		}
		if listed, building, err = s.viewerReplays(ctx, session, reader, after, allReplaysLimit); err != nil {
			return linePage{}, false, err
		}
		if listed, err = s.replaysAtSession(ctx, listed, session, hosts); err != nil {
			return linePage{}, false, err
		}
	}
	p.Replays = []replayList{listed, s.cachedReplays(session, hosts, after, first)}
	if page = p.page(first); page.End != services.EndOfRetention || building {
		return page, building, nil
	}
	// The list has lost older replays. They may be of the session: shows that ended since, and the replays of hosts who were followed
	// since, push older ones off the list. SQL has those of the session.
	if listed, err = s.replaysFromSQL(ctx, session, reader, after); err != nil {
		return linePage{}, false, err
	}
	if p.Replays[0], err = s.replaysAtSession(ctx, listed, session, hosts); err != nil {
		return linePage{}, false, err
	}
	return p.page(first), false, nil
}

// allReplaysLimit is a limit that no list reaches: a list shows up to FeedRetention replays, and keeps a few more
// (lib_replays.lua).
const allReplaysLimit = 2 * services.FeedRetention

// cachedReplays returns the node cache's replays after a position. They end after the newest FeedRetention replays, as a list of
// replays does.
func (s *Service) cachedReplays(session Session, hosts []services.FollowedAuthor, after ShowPosition, first int) (known replayList) {
	if after.ID != 0 {
		// The floor, the newest replay that the page must not list, is counted from the top of the board and not from the position of the page,
		// so that all pages end at the same replay.
		all, _ := s.Memory.replaysAt(hosts, session.Version, ShowPosition{}, services.FeedRetention+1)
		if len(all) > services.FeedRetention {
			known.Floor = all[services.FeedRetention].Position()
		}
	}
	shows, more := s.Memory.replaysAt(hosts, session.Version, after, first+1)
	known.HasMore, known.Lines = more, make([]boardLine, len(shows))
	for i, show := range shows {
		known.Lines[i] = boardLineOf(show)
	}
	return known
}

// replaysAtSession keeps the shows of a list that were replays of the session's hosts at the session's version, and reads their data.
// The cache has the recent replays. A show that the cache lacks became a replay long ago, or after the last log entry that this
// node has read.
func (s *Service) replaysAtSession(ctx context.Context, list replayList, session Session, hosts []services.FollowedAuthor) (replayList, error) {
	// Only hosts with a line are in the map: a viewer may follow thousands.
	on := make(map[services.UserID]bool, len(list.Lines))
	for _, line := range list.Lines {
		on[line.Host] = false
	}
	for _, host := range hosts {
		if _, listed := on[host.Author]; listed {
			on[host.Author] = true
		}
	}
	var lines []boardLine
	var unknown []services.ShowID
	for _, one := range list.Lines {
		show, known, there := s.Memory.ShowAt(one.Position.ID, session.Version)
		switch {
		// These shows are left out: shows of a host who is no longer followed, or was followed only after the session was made;
		// and shows that no board had at the session's version.
		case !on[one.Host] || known && !there:
			continue
		case known:
			one.Show = show
		case one.Show.ID == 0:
			unknown = append(unknown, one.Position.ID)
		}
		lines = append(lines, one)
	}
	shows, err := s.Memory.Shows(ctx, unknown)
	if err != nil {
		return list, err
	}
	for i, one := range lines {
		if one.Show.ID == 0 {
			lines[i].Show = shows[one.Position.ID]
		}
	}
	// Shows that were not replays yet at the session's version are left out: the status of shows from SQL is known only now. An
	// erased show is the zero Show, and is left out too.
	list.Lines = slices.DeleteFunc(lines, func(one boardLine) bool {
		return one.Show.Status != ShowReplay || one.Show.Version > session.Version
	})
	return list, nil
}
