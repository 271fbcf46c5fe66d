package feedhistory

import (
	"slices"

	"tidings/services"
	"tidings/services/redis"
)

// Boards adds boards of shows to a history. Package rdb lies below services/live, so services/live implements Boards and runs
// these histories.
type Boards interface {
	// Event runs one event, of a kind that is FirstBoardEvent or greater.
	Event(kind int, user, other services.UserID) error
	// Follow merges an author's shows into a follower's projection, and returns the hosts that the document must name. refused is true
	// if something was removed since the stamp. At each pause other work may run.
	Follow(pause func(), reader, author services.UserID, since services.SortableID, stamp redis.ClockStamp) (hosts []services.FollowedAuthor, refused bool, err error)
	// Hosts are the hosts that a reader follows, by the facts.
	Hosts(reader services.UserID) []services.FollowedAuthor
	// CheckBoards compares the boards that readers see with the facts after a step. CompareBoard compares the board of one reader
	// at the end.
	CheckBoards() error
	CompareBoard(user services.UserID) error
}

// AddEventKinds adds kinds of events to the deck from which the history draws. A kind may be added several times.
func (w *World) AddEventKinds(kinds ...int) { w.eventDeck = append(w.eventDeck, kinds...) }

// RareEventCopies is how often AddEventKinds must add a kind so that about one event in nine is of that kind.
func (w *World) RareEventCopies() int { return len(w.eventDeck)/8 + 1 }

// FollowedSince is when a reader followed an author.
func (w *World) FollowedSince(reader, author services.UserID) (since services.SortableID, follows bool) {
	since, follows = w.followStarts[edge{reader, author}]
	return since, follows
}

// HasQueuedWorker reports whether a job is queued whose name the function accepts.
func (w *World) HasQueuedWorker(such func(name string) bool) bool {
	return slices.ContainsFunc(w.queue, func(worker *worker) bool { return such(worker.name) })
}
