package changelog

import "tidings/services"

// Stream is what a memory has of changes that many users share and that are counted when one of them reads.
type Stream struct {
	// Learned adds to each user's sum how far this node has learned of what they are shown: a number that never falls.
	Learned func(users []services.UserID, sums []uint64)
	// Unfollow says that users are watched here no longer; nil where none are named.
	Unfollow func(users []services.UserID)
}

// RegisterStream adds a stream to those that Learned sums up.
func (f *Follower) RegisterStream(stream Stream) { f.streams = append(f.streams, stream) }

// Learned is, for each user who is watched here, how far this node has learned what they share with others: the sum over all
// streams.
func (f *Follower) Learned(users []services.UserID) []uint64 {
	sums := make([]uint64, len(users))
	for _, stream := range f.streams {
		stream.Learned(users, sums)
	}
	return sums
}

// Unfollow says that users are watched here no longer.
func (f *Follower) Unfollow(users []services.UserID) {
	for _, stream := range f.streams {
		if stream.Unfollow != nil {
			stream.Unfollow(users)
		}
	}
}

// OnShared registers what is called after a change that concerns all users. What it calls must not block.
func (f *Follower) OnShared(call func()) { f.shared = append(f.shared, call) }

// NotifyShared says that something changed that concerns all users.
func (f *Follower) NotifyShared() {
	for _, call := range f.shared {
		call()
	}
}

// OnMoved registers what is called with the users who are watched here and are shown something that moved: at once, then at
// most ten times a second for each thing, and the last move is never left out. What it calls must not block.
func (f *Follower) OnMoved(call func(readers []services.UserID)) { f.moved = append(f.moved, call) }

// NotifyMoved says that something moved that users are shown.
func (f *Follower) NotifyMoved(readers []services.UserID) {
	if len(readers) == 0 {
		return
	}
	for _, call := range f.moved {
		call(readers)
	}
}
