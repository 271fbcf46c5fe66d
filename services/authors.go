package services

import "time"

// AuthorMode is the way in which an author's posts reach their followers.
type AuthorMode int

// The modes. The number of an author's followers decides, unless an operator pins the mode: see FollowerThresholds.
const (
	AuthorSmall AuthorMode = iota // pushed to all followers who are not dormant
	AuthorBig                     // pushed to active followers
	AuthorHuge                    // not pushed: readers pull the posts from the node cache
)

// Author is an author as the facts have them. An author without a row has the zero value, apart from the ID.
type Author struct {
	ID                       UserID // the user ID
	Followers                int    // at the last count, which stops at FollowerThresholds.Huge
	Mode                     AuthorMode
	Pinned                   *AuthorMode // an admin's choice; nil: the mode follows from the followers
	NamedInFollowerDocuments bool        // set before the author first becomes huge: from then on followers' documents name the author
	FollowerChunksToName     int         // how many chunks of the followers have documents that do not name the author yet
	CountedAt                time.Time   // when Followers was counted
	Version                  uint64      // rises with every change; 0: there is no row
}

// FollowerThresholds are the numbers of followers from which an author is big, and huge.
type FollowerThresholds struct {
	Big, Huge int
}

// maxFollowerThreshold bounds both thresholds: it is above every audience, and still fits GraphQL's Int.
const maxFollowerThreshold = 1<<31 - 1

// Check reports whether the thresholds are valid.
func (t FollowerThresholds) Check() error {
	switch {
	case t.Big < 1 || t.Big > maxFollowerThreshold:
		return Errorf(Invalid, "bigFollowers: 1 to %d are allowed, got %d", maxFollowerThreshold, t.Big)
	case t.Huge < t.Big || t.Huge > maxFollowerThreshold:
		return Errorf(Invalid, "hugeFollowers: bigFollowers (%d) to %d are allowed, got %d", t.Big, maxFollowerThreshold, t.Huge)
	}
	return nil
}

// keepModeNumerator / keepModeDenominator is the part of a threshold below which an author's mode falls again. The gap keeps a number of
// followers around a threshold from changing the mode at each follow.
const keepModeNumerator, keepModeDenominator = 4, 5

// NextMode is the next mode of an author, given the present mode and the number of followers. It rises at a threshold, and falls
// again only below 80 % of the threshold.
func (t FollowerThresholds) NextMode(now AuthorMode, followers int) AuthorMode {
	// The comparison is in whole numbers: rounding could let two nodes decide differently at the threshold.
	reaches := func(mode AuthorMode, threshold int) bool {
		return followers >= threshold || now >= mode && followers*keepModeDenominator >= threshold*keepModeNumerator
	}
	switch {
	case reaches(AuthorHuge, t.Huge):
		return AuthorHuge
	case reaches(AuthorBig, t.Big):
		return AuthorBig
	}
	return AuthorSmall
}
