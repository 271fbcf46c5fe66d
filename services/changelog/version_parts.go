package changelog

import (
	"slices"

	"tidings/services"
)

// VersionPart is a node's memory of data that many users share and that is counted on read. It adds to the sums of VersionSums.
type VersionPart struct {
	// AddVersions adds a number to each user's sum. The number rises, by one or more, with each change that the user is shown and that
	// this node has applied. It never falls.
	AddVersions func(users []services.UserID, sums []uint64)
	// Unfollow says that users are no longer watched here; nil if the part records no users.
	Unfollow func(users []services.UserID)
}

// RegisterVersionPart adds a part to those that VersionSums sums up.
func (f *Follower) RegisterVersionPart(part VersionPart) {
	f.versionParts = append(f.versionParts, part)
}

// VersionSums returns, for each user who is watched here, the sum over all parts of the numbers that AddVersions adds. The shared
// half of a badge's version rises with it, and also as time passes. It is a sum and not a maximum, because each change must raise
// it, in whatever order a node learns of the changes.
func (f *Follower) VersionSums(users []services.UserID) []uint64 {
	sums := make([]uint64, len(users))
	for _, part := range f.versionParts {
		part.AddVersions(users, sums)
	}
	return sums
}

// CountApplied returns the number of entries of some kinds that this node's memory contains: the sum of its versions. It rises with
// each entry.
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
	for _, part := range f.versionParts {
		if part.Unfollow != nil {
			part.Unfollow(users)
		}
	}
}

// OnSharedChange registers a callback for changes that concern all users. It must not block.
func (f *Follower) OnSharedChange(call func()) { f.onSharedChange = append(f.onSharedChange, call) }

// NotifySharedChange calls the functions of OnSharedChange, after a change that concerns all users.
func (f *Follower) NotifySharedChange() {
	for _, call := range f.onSharedChange {
		call()
	}
}

// OnReadersNotified registers a callback that gets the watched users who see a changed key: at once, then at most ten times a second
// for each key, and the last change is never left out. It must not block.
func (f *Follower) OnReadersNotified(call func(readers []services.UserID)) {
	f.onReadersNotified = append(f.onReadersNotified, call)
}

// NotifyReaders calls the functions of OnReadersNotified with the watched users who see a key that has changed.
func (f *Follower) NotifyReaders(readers []services.UserID) {
	if len(readers) == 0 {
		return
	}
	for _, call := range f.onReadersNotified {
		call(readers)
	}
}
