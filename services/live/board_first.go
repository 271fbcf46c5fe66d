package live

import (
	"context"

	"tidings/services"
)

// FirstPageRequest asks for the top of a viewer's board in a new session.
type FirstPageRequest struct {
	Viewer services.UserID
	First  int    // how many shows
	Device string // the client's name for its device; "": it has none
}

// ReadFirstPages reads first pages of several viewers' boards in one round trip to Redis and without SQL, so that no viewer waits long
// for another. It calls found with each page that is complete, the same page that Board returns. It leaves out a viewer if only Board can
// make the page: the document is missing or from before a long absence, the viewer is owed an update, the session shares a slot with
// others (SessionScope), or the page needs replays or data that the node's cache lacks. The context must not come from services.Observe.
//
// The error is UNAVAILABLE, if Redis does not answer. Then found is not called.
func (s *Service) ReadFirstPages(ctx context.Context, asked []FirstPageRequest, found func(i int, board Board)) error {
	if !s.Memory.Loaded() {
		return nil
	}
	viewers, owed := make([]services.UserID, len(asked)), make([]bool, len(asked))
	for i, one := range asked {
		// OwesUpdate is called before the documents are read: if the update is written in between, the viewer is still left to Board.
		viewers[i], owed[i] = one.Viewer, s.jobs.OwesUpdate(one.Viewer)
	}
	states, err := s.redis.ReadLiveBoardStates(ctx, viewers)
	if err != nil {
		return err
	}
	for i, one := range asked {
		session := Session{Viewer: one.Viewer, DeviceHash: deviceHash(one.Device)}
		if owed[i] || session.sharesSlot(s.sessionScope) || !states[i].Ready || s.projector.IsIdleIfSeenOn(states[i].LastActiveDay) {
			continue
		}
		if board, ready := s.firstPage(session, states[i].Hosts, one.First); ready {
			found(i, board)
		}
	}
	return nil
}

// firstPage makes the top of a new session from the node's caches. ready is false if the caches lack a part of the page.
func (s *Service) firstPage(session Session, hosts []services.FollowedAuthor, first int) (board Board, ready bool) {
	session = s.newSession(session, hosts) // all hosts belong to it
	var top boardPart
	if top.Active, top.HasMoreActive = s.Memory.activeAt(hosts, session.Version, ShowPosition{}, first+1); !top.fillsPage(first, hosts) {
		return board, false
	}
	page := top.page(first)
	board = Board{Session: session, HasNext: page.HasNext, End: page.End}
	var by []services.UserID
	board.Items, by = itemsOf(page.Lines)
	return board, s.addCachedHosts(board.Items, by) && len(s.refreshCachedShows(board.Items)) == 0
}
