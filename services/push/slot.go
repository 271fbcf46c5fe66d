package push

import "sync"

// latestSlot is a channel that holds one value, the newest: a put replaces a value that was not taken yet. It refuses versions
// that are not newer than the last one, so that received versions rise strictly. It serves any kind of subscription whose
// state has a version.
type latestSlot[T any] struct {
	mu      sync.Mutex // guards version and closed; only its holder sends on values
	values  chan T     // has room for one value
	version string     // of the last put; before the first put, the version that the client holds
	closed  bool
}

// newLatestSlot makes an empty slot. since is the version that the client holds, or "".
func newLatestSlot[T any](since string) latestSlot[T] {
	return latestSlot[T]{values: make(chan T, 1), version: since}
}

// putFirst puts the first state of a subscription, or omits it when the client holds this version or a newer one. From then on
// the state's version counts, so a client that claims to be ahead still gets later states.
func (s *latestSlot[T]) putFirst(version string, value T) (sent bool) {
	s.mu.Lock()
	// Versions are of one length and sort as text.
	held := s.version >= version
	if held {
		s.version = version
	}
	s.mu.Unlock()
	if held {
		return false
	}
	sent, _ = s.put(version, value)
	return sent
}

// put makes value the newest, if its version is newer than the last. replaced says that the previous value was never taken.
func (s *latestSlot[T]) put(version string, value T) (sent, replaced bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// A later render has overtaken the render of this state: the state is dropped.
	if s.closed || version <= s.version {
		return false, false
	}
	select {
	case <-s.values:
		replaced = true
	default:
	}
	s.values <- value // never waits: there is room for one, and only the holder of mu sends
	s.version = version
	return true, replaced
}

// isOlderThan reports whether the slot is open and its last version is older than version: then a put would be sent.
func (s *latestSlot[T]) isOlderThan(version string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.closed && version > s.version
}

// close closes the channel, once. A value that was not taken can still be received.
func (s *latestSlot[T]) close() (closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.closed = true
	close(s.values)
	return true
}
