package services

import (
	"math"
	"slices"
	"strings"
	"time"
)

// Notification is one entry of a user's list: what some users did with one subject within one half day.
type Notification struct {
	First    PostID // of the first cause that it ever had, and its ID: it stays, whoever joins and goes
	Place    PostID // of the cause that arrived last: a mark of what is shown reaches so far
	Reach    PostID // on the first of a list: how far a mark of the whole list reaches, if that is beyond Place; else 0
	Category Category
	Subject  PostID    // the post, or for REMINDER the show, that it is about; 0: the user
	At       time.Time // when the newest of its causes happened
	Actors   int       // number of users
	Sample   []UserID  // the newest of them, at most SampleActors
	Seen     bool      // it does not count: the panel was opened since, or it was read
	Read     bool
	Older    bool // it was never seen and no longer counts, because of its age
}

// GlobalID is the notification's global id.
func (n Notification) GlobalID() string { return GlobalID(NotificationType, n.First.String()) }

// UpTo formats how far the notification is shown. A mark up to it leaves out what arrives later.
func (n Notification) UpTo() string {
	text := UpToText(n.Place)
	if n.Reach > n.Place {
		text += n.Reach.String()
	}
	return text
}

// UpToText formats a position up to which a mark of notifications reaches.
func UpToText(place PostID) string { return GlobalID(upToType, place.String()) }

// upToType is no type of objects: what it names is a moment in a list.
const upToType = "notificationUpTo"

// IsUpTo reports whether a text claims to be the output of UpToText or Notification.UpTo.
func IsUpTo(text string) bool { return strings.HasPrefix(text, upToType+":") }

// ParseUpTo parses the output of Notification.UpTo and returns the position of the notification, and the position up to which a mark
// of the whole list reaches: the same, or a later one. field names the argument in the error.
func ParseUpTo(field, text string) (place, reach PostID, err error) {
	wrong := Errorf(Invalid, "%s: %s is not the upTo of a notification", field, Quote(text))
	key, found := strings.CutPrefix(text, upToType+":")
	if !found || len(key) != PostIDLetters && len(key) != 2*PostIDLetters {
		return 0, 0, wrong
	}
	if place, err = ParsePostID(key[:PostIDLetters]); err != nil || len(key) == PostIDLetters {
		reach = place
	} else {
		reach, err = ParsePostID(key[PostIDLetters:])
	}
	if err != nil || reach < place || reach == place && len(key) > PostIDLetters {
		return 0, 0, wrong
	}
	return place, reach, nil
}

// Position is the notification's position in its list.
func (n Notification) Position() NotificationPosition {
	return NotificationPosition{n.At, n.Category, n.Subject}
}

// NotificationPosition is the position of a notification in its list, the newest first: by the time of its newest cause, then
// by its subject. It depends on the facts alone, and not on the order in which they arrived. The zero position is before the
// first.
type NotificationPosition struct {
	At       time.Time
	Category Category
	Subject  PostID
}

// SampleActors is how many of its users a notification names.
const SampleActors = 8

// Expiry is the number of whole days after its own day for which an unseen notification of a category stays in the count: 1 to
// MaxExpiryDays, or Never.
type Expiry map[Category]int

const (
	// Never keeps a category's notifications in the count until they are seen.
	Never = 0
	// MaxExpiryDays is how many whole days are counted each by itself.
	MaxExpiryDays = 7
)

// OldestDay is the first day (since 1970, UTC) whose notifications count today. Count, list and SQL all use it. A category that
// is not listed keeps the default.
func (e Expiry) OldestDay(category Category, today int64) int64 {
	days, listed := e[category]
	switch {
	case !listed:
		return today - MaxExpiryDays
	case days == Never:
		return math.MinInt32 // a day that fits everywhere, also in half days
	default:
		return today - int64(days)
	}
}

// Unexpired splits the unseen groups of a category into those that count today and the older ones.
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

// CheckCategories checks that each is a category, and returns them sorted without duplicates; for none it returns all.
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
