package services

import "time"

// AuthorMode says how an author's posts reach his followers.
type AuthorMode int

// The modes, by the number of followers. See Thresholds.
const (
	AuthorSmall AuthorMode = iota // pushed to everyone who is not dormant
	AuthorBig                     // pushed to who is active
	AuthorHuge                    // pushed to nobody: pulled by the readers from their nodes' memory
)

// Author is what the facts know of one who publishes. Who has no row of his own is the zero value beside his number.
type Author struct {
	Number    UserID
	Followers int // as counted last, no further than the threshold of the huge
	Mode      AuthorMode
	Pinned    *AuthorMode // what an admin chose; nil: the mode goes by the followers
	Pull      bool        // he was to be huge once: his followers' documents name him from then on
	Unnamed   int         // chunks of followers whose documents do not name him yet
	CountedAt time.Time   // when Followers was counted
	Version   uint64      // rises with every change; 0: there is no row
}

// Thresholds are the numbers of followers from which on an author is big, and huge.
type Thresholds struct {
	Big, Huge int
}

// MaxThreshold bounds both thresholds: it is beyond every audience, and still a number that GraphQL can say.
const MaxThreshold = 1<<31 - 1

// Check says whether thresholds are fit.
func (t Thresholds) Check() error {
	switch {
	case t.Big < 1 || t.Big > MaxThreshold:
		return Errorf(Invalid, "bigFollowers: 1 to %d are allowed, got %d", MaxThreshold, t.Big)
	case t.Huge < t.Big || t.Huge > MaxThreshold:
		return Errorf(Invalid, "hugeFollowers: bigFollowers (%d) to %d are allowed, got %d", t.Big, MaxThreshold, t.Huge)
	}
	return nil
}

// Below this part of a threshold one falls back: an audience around a threshold is not to flip at each follow.
const staysNum, staysDen = 4, 5

// Mode is the mode of an author who has been in one and has so many followers now: up at a threshold, and down again
// only below 80 % of it.
func (t Thresholds) Mode(now AuthorMode, followers int) AuthorMode {
	reaches := func(mode AuthorMode, threshold int) bool {
		return followers >= threshold || now >= mode && followers*staysDen >= threshold*staysNum
	}
	switch {
	case reaches(AuthorHuge, t.Huge):
		return AuthorHuge
	case reaches(AuthorBig, t.Big):
		return AuthorBig
	}
	return AuthorSmall
}
