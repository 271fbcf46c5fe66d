package live

import (
	"slices"

	"tidings/services"
)

// Move is a show that has moved since a version.
type Move struct {
	Before Show // as it was at that version; without an ID: no board had it
	Now    Show // as it is now
}

// movesSince lists the shows of hosts that moved after a version, in no order. Shows that have come onto boards since and have
// left them again are omitted. movesSince does not read the log: it compares the positions that shows had at the version with their
// present ones.
func (m *Memory) movesSince(hosts []services.FollowedAuthor, version uint64) (moves []Move) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, followed := range hosts {
		if known := m.state.hosts.get(followed.Author).shows; known != nil {
			moves = known.appendMoves(moves, version)
		}
	}
	return moves
}

// appendMoves adds the moves of one host's shows. First come shows that boards had at the version, then shows that came onto boards
// since, for which Before is empty.
func (h *hostShows) appendMoves(moves []Move, version uint64) []Move {
	first := len(moves)
	for _, one := range h.active { // replays no longer move
		if one.show.version > version && one.holdsAt(version) {
			moves = append(moves, Move{Before: one.frozen(), Now: one.show.toShow()})
		}
	}
	// One host has few moves, so a search is faster than a set.
	there := moves[first:]
	for _, list := range [][]versionedPosition{h.active, h.replays} {
		for _, one := range list {
			// Skip former positions, and shows that have not moved.
			if one.untilVersion != 0 || one.fromVersion <= version {
				continue
			}
			if !slices.ContainsFunc(there, func(move Move) bool { return move.Now.ID == one.show.id }) {
				moves = append(moves, Move{Now: one.show.toShow()})
			}
		}
	}
	return moves
}
