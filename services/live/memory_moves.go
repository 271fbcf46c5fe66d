package live

import (
	"slices"

	"tidings/services"
)

// Move is a show whose position is not the one that it had at a version.
type Move struct {
	Was Show // as it was then; without an id: it was on no board
	Is  Show // as it is now
}

// MovedSince lists the shows of hosts that moved after a version, in no order. Shows that were put on boards since and are on
// none any more are left out.
func (m *Memory) MovedSince(hosts []services.FollowedAuthor, version uint64) (moves []Move) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, followed := range hosts {
		if known := m.state.hosts.one(followed.Author).shows; known != nil {
			moves = known.moved(moves, version)
		}
	}
	return moves
}

func (h *hostShows) moved(moves []Move, version uint64) []Move {
	first := len(moves)
	for _, one := range h.active { // a replay does not move any more
		if one.show.version > version && one.holdsAt(version) {
			moves = append(moves, Move{Was: one.frozen(), Is: one.show.whole()})
		}
	}
	there := moves[first:]
	for _, list := range [][]span{h.active, h.replays} {
		for _, one := range list {
			if one.until != 0 || one.from <= version {
				continue
			}
			if !slices.ContainsFunc(there, func(move Move) bool { return move.Is.ID == one.show.id }) {
				moves = append(moves, Move{Is: one.show.whole()})
			}
		}
	}
	return moves
}
