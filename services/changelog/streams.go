package changelog

import (
	"slices"

	"tidings/services"
)

// Stream is a memory of changes that many users share and that are counted on read.
type Stream struct {
	// AddLearned adds a number to each user's sum. The number rises, by one or more, with each change that the user is shown and that
	// this node has applied. It never falls.
	AddLearned func(users []services.UserID, sums []uint64)
	// Unfollow says that users are no longer watched here; nil if the stream records no users.
	Unfollow func(users []services.UserID)
}

// RegisterStream adds a stream to the streams that LearnedSums sums up.
func (f *Follower) RegisterStream(stream Stream) { f.streams = append(f.streams, stream) }

// LearnedSums returns, for each user who is watched here, the sum over all streams of the numbers that AddLearned adds. The shared
// half of a badge's version rises with it, and also as time passes. It is a sum and not a maximum, because each change must raise it, in
// whatever order a node learns of the changes.
func (f *Follower) LearnedSums(users []services.UserID) []uint64 {
	sums := make([]uint64, len(users))
	for _, stream := range f.streams {
		stream.AddLearned(users, sums)
	}
	return sums
}

// CountApplied returns the number of entries of some kinds that this node's memory contains: the sum of its versions. It rises with each entry.
func (f *Follower) CountApplied(kinds ...string) (entries uint64) {
	for _, one := range f.kinds {
		if slices.Contains(kinds, one.kind.Name) {
			entries += one.Version()
		}
	}
	return entries
}

// Unfollow says that users are no longer watched here.
func (f *Follower) Unfollow(users []services.UserID) {
	for _, stream := range f.streams {
		if stream.Unfollow != nil {
			stream.Unfollow(users)
		}
	}
}

// OnShared registers a callback for changes that concern all users. It must not block.
func (f *Follower) OnShared(call func()) { f.shared = append(f.shared, call) }

// NotifyShared says that a change concerns all users.
func (f *Follower) NotifyShared() {
	for _, call := range f.shared {
		call()
	}
}

// OnReadersNotified registers a callback that gets the watched users who see a changed key: at once, then at most ten times a second
// for each key, and the last change is never left out. It must not block.
func (f *Follower) OnReadersNotified(call func(readers []services.UserID)) {
	f.readersNotified = append(f.readersNotified, call)
}

// NotifyReaders reports a change of a key that users see.
func (f *Follower) NotifyReaders(readers []services.UserID) {
	if len(readers) == 0 {
		return
	}
	for _, call := range f.readersNotified {
		call(readers)
	}
}
