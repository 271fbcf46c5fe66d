package live

import "tidings/services"

// boardLine is one line of a board: a show at its position in the session.
type boardLine struct {
	Position ShowPosition
	Host     services.UserID
	Show     Show // as the session froze it; the zero Show until its data is read
}

// boardLineOf is the line of a show at the position that its status and times give.
func boardLineOf(show Show) boardLine {
	return boardLine{Position: show.Position(), Host: show.Host, Show: show}
}

// replayList is a part of a board's replays, in the order of the board and from one position on. A board merges two of them:
// the viewer's list, and the node cache's replays.
type replayList struct {
	Lines   []boardLine
	HasMore bool // more replays follow that were not read
	// Floor is the position of the newest replay that the list has dropped; the zero position: it has all.
	Floor ShowPosition
}

// boardPart is the part of a board after a position, from which its method page cuts a page. It has at most one active show more than
// the page.
type boardPart struct {
	Active        []Show // live and upcoming
	HasMoreActive bool   // more active shows follow that were not read

	// Replays are the sources that the replays are merged from. A replay in two of them is listed once.
	Replays []replayList
}

// linePage is a page of a board.
type linePage struct {
	Lines   []boardLine
	HasNext bool
	End     services.FeedEnd // why nothing follows, when HasNext is false
}

// fillsPage reports whether a page needs no replays: live and upcoming shows fill it, or there is no host.
func (p *boardPart) fillsPage(first int, hosts []services.FollowedAuthor) bool {
	return p.HasMoreActive || len(p.Active) > first || len(hosts) == 0
}

// page returns the first lines of a part. If one source of replays ends while another continues, the page lists nothing older than the
// newest such end, to avoid gaps. If too few lines of a source were read, the page is short and says that more follow.
func (p boardPart) page(first int) (page linePage) {
	page.Lines = make([]boardLine, len(p.Active), max(len(p.Active), first))
	for i := range p.Active {
		page.Lines[i] = boardLineOf(p.Active[i])
	}
	// Active shows come before all replays, so the replays are not looked at.
	if p.HasMoreActive || len(page.Lines) > first {
		page.Lines, page.HasNext = page.Lines[:min(first, len(page.Lines))], true
		return page
	}
	// floor is the newest floor of all sources: from it on, at least one source lacks replays.
	var floor ShowPosition
	page.End = services.EndOfFeed
	heads := make([][]boardLine, len(p.Replays))
	for i, source := range p.Replays {
		heads[i] = source.Lines
		if source.Floor.ID != 0 && (floor.ID == 0 || source.Floor.Before(floor)) {
			floor, page.End = source.Floor, services.EndOfRetention
		}
	}
	// Merge the sorted lists. last finds replays that are in two sources, because their host became huge, or stopped being huge,
	// near the end of the show.
	for last := (ShowPosition{}); ; {
		at, unread := listWithNewestLine(heads, p.Replays)
		if unread {
			page.HasNext, page.End = true, ""
		}
		// If a source has further lines that were not read, the next of them may be newer than those of the other sources: the
		// page ends here.
		if unread || at < 0 {
			return page
		}
		next := heads[at][0]
		heads[at] = heads[at][1:]
		switch {
		case next.Position == last:
			continue
		case floor.ID != 0 && !next.Position.Before(floor):
			return page
		case len(page.Lines) == first:
			page.HasNext, page.End = true, ""
			return page
		}
		last = next.Position
		page.Lines = append(page.Lines, next)
	}
}

// listWithNewestLine returns the index of the source whose next line is the newest of all, -1 if all have ended. unread reports
// that the lines read of a source have ended, and that the source has more.
func listWithNewestLine(heads [][]boardLine, sources []replayList) (at int, unread bool) {
	at = -1
	for i, lines := range heads {
		switch {
		case len(lines) == 0:
			unread = unread || sources[i].HasMore
		case at < 0 || lines[0].Position.Before(heads[at][0].Position):
			at = i
		}
	}
	return at, unread
}
