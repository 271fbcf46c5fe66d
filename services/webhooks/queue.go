package webhooks

import "sync"

// roundQueue has the items of a round that need a request: letters, and changes of the stream in their order.
type roundQueue struct {
	mu                 sync.Mutex   // guards the other fields
	letters, changes   []*roundItem // the items that no worker has got yet
	maxLettersUnderway int          // letters under way at once while there are changes of the stream
	lettersUnderway    int          // letters whose requests are under way
	requestsBegun      int          // items whose requests were begun
}

// newQueue makes the queue of a round. An item whose result is known needs no request.
func newQueue(items []roundItem, maxLetters int) *roundQueue {
	q := &roundQueue{maxLettersUnderway: maxLetters}
	for i := range items {
		switch one := &items[i]; {
		case one.result != resultNotTried:
		case one.fromStream:
			q.changes = append(q.changes, one)
		default:
			q.letters = append(q.letters, one)
		}
	}
	return q
}

// next returns the item that a worker sends after the item done, which is nil for the worker's first. It returns nil if no item is left,
// or if over reports true for the number of requests that were begun. Letters come first, because they are older, and a stream that is
// always full would hold them up.
func (q *roundQueue) next(done *roundItem, over func(begun int) bool) *roundItem {
	q.mu.Lock()
	defer q.mu.Unlock()
	if done != nil && !done.fromStream {
		q.lettersUnderway--
	}
	if len(q.letters)+len(q.changes) == 0 || over(q.requestsBegun) {
		return nil
	}
	q.requestsBegun++
	if len(q.changes) > 0 && (len(q.letters) == 0 || q.lettersUnderway >= q.maxLettersUnderway) {
		one := q.changes[0]
		q.changes = q.changes[1:]
		return one
	}
	one := q.letters[0]
	q.letters = q.letters[1:]
	q.lettersUnderway++
	return one
}
