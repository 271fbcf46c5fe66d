package services

import (
	"math"
	"slices"
	"time"
)

// Notification is one line of a user's list: what some people did with one subject within one half day.
type Notification struct {
	Place    PostID // of the cause that arrived last, and its id: marks of it reach as far as that
	Reach    PostID // of the first of a list: how far a mark of all that is listed reaches, where that is beyond Place; else 0
	Category Category
	Subject  PostID    // the post that it is about, of REMINDER the show; 0: the user himself
	At       time.Time // when the newest of its causes happened
	Actors   int       // how many people
	Sample   []UserID  // the newest of them, at most SampleActors
	Seen     bool      // it is in no number: the panel was opened since, or it was read
	Read     bool
	Older    bool // it was never seen and is in no number any more, because of its age
}

// GlobalID is the notification's global id.
func (n Notification) GlobalID() string {
	key := n.Place.String()
	if n.Reach > n.Place {
		key += n.Reach.String()
	}
	return GlobalID(NotificationType, key)
}

// Position is the notification's position in its list.
func (n Notification) Position() NotificationPosition {
	return NotificationPosition{n.At, n.Category, n.Subject}
}

// NotificationPosition is the position of a notification in its list, the newest first: by the time of its newest cause, then by
// what it is about. It depends on the facts alone, and not on the order in which they arrived. The zero position is before the first.
type NotificationPosition struct {
	At       time.Time
	Category Category
	Subject  PostID
}

// SampleActors is how many of its people a notification names.
const SampleActors = 8

// Expiry says for how many whole days after its own an unseen notification of a category stays in the number: 1 to
// MaxExpiryDays, or Never.
type Expiry map[Category]int

const (
	// Never keeps a category's notifications in the number until they are seen.
	Never = 0
	// MaxExpiryDays is how many whole days are counted each by itself.
	MaxExpiryDays = 7
)

// OldestDay is the first day (since 1970, UTC) whose notifications are in the number today. Number, list and SQL all
// ask here. A category that is not listed keeps the default.
func (e Expiry) OldestDay(category Category, today int64) int64 {
	days, listed := e[category]
	switch {
	case !listed:
		return today - MaxExpiryDays
	case days == Never:
		return math.MinInt32 // a day, and also the half days of it, fit everywhere
	default:
		return today - int64(days)
	}
}

// Unexpired splits the unseen groups of a category into those that are in the number today and the older ones.
func (e Expiry) Unexpired(counts CategoryCounts, today int64) (value, older int) {
	oldest := e.OldestDay(counts.Category, today)
	value, older = 0, counts.Older
	if oldest == math.MinInt32 {
		value, older = counts.Older, 0
	}
	for i, groups := range counts.Days {
		if counts.Day-int64(i) >= oldest {
			value += groups
		} else {
			older += groups
		}
	}
	return value, older
}

// CheckCategories says whether each is a category, and answers them sorted and once each; all of them for none.
func CheckCategories(field string, categories []Category) ([]Category, error) {
	if len(categories) == 0 {
		return slices.Sorted(slices.Values(Categories)), nil
	}
	for _, category := range categories {
		if !slices.Contains(Categories, category) {
			return nil, Errorf(Invalid, "%s: %s is not a category of notifications: expected one of %v", field, Quote(string(category)), Categories)
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(categories))), nil
}
