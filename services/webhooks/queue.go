package webhooks

import "sync"

// queue has the items of a round that need a request: letters, and changes of the stream in their order.
type queue struct {
	mu              sync.Mutex
	letters, fresh  []*item
	maxLetters      int // letters under way at once while there are changes of the stream
	lettersUnderway int // letters whose requests are under way
	requestsBegun   int // items whose requests were begun
}

// newQueue makes the queue of a round. An item whose fate is known needs no request.
func newQueue(items []item, maxLetters int) *queue {
	q := &queue{maxLetters: maxLetters}
	for i := range items {
		switch one := &items[i]; {
		case one.fate != untouched:
		case one.fresh:
			q.fresh = append(q.fresh, one)
		default:
			q.letters = append(q.letters, one)
		}
	}
	return q
}

// next returns the item that a worker sends after done, which is nil at the start. It returns nil if nothing is left for the worker,
// and if over, which gets the number of requests that were begun, says so. Letters come first, because they are older, and a stream that
// is always full would hold them up.
func (q *queue) next(done *item, over func(begun int) bool) *item {
	q.mu.Lock()
	defer q.mu.Unlock()
	if done != nil && !done.fresh {
		q.lettersUnderway--
	}
	if len(q.letters)+len(q.fresh) == 0 || over(q.requestsBegun) {
		return nil
	}
	q.requestsBegun++
	if len(q.fresh) > 0 && (len(q.letters) == 0 || q.lettersUnderway >= q.maxLetters) {
		one := q.fresh[0]
		q.fresh = q.fresh[1:]
		return one
	}
	one := q.letters[0]
	q.letters = q.letters[1:]
	q.lettersUnderway++
	return one
}
