package services

import (
	"slices"
	"time"
)

// View is something that users look at again and again and in which new items appear: a community's news, a topic.
type View struct {
	Code string // what kind of view it is: 1 to 64 of a-z, 0-9, '_', '.', '-'
	ID   string // which one of them: 1 to 64 characters
}

// ViewItem is one thing in a view, as the facts have it.
type ViewItem struct {
	Item string    // 1 to 64 characters
	At   time.Time // to the microsecond
}

// ViewAccess is a view that a user has looked at: what is newer than UpTo is unread.
type ViewAccess struct {
	View
	UpTo         time.Time
	LastAccessAt time.Time
}

// ViewUnread is how many items of a view are unread, counted to DisplayCap + 1.
type ViewUnread struct {
	ViewAccess
	Count Count // not in the total
}

// reservedViews are codes of user_access_log that mean something else.
var reservedViews = []string{"home_page", "live_board"}

const (
	maxViewCode = 64
	maxViewID   = 64
)

// CheckViewCode says whether a code of views is acceptable.
func CheckViewCode(code string) error {
	if len(code) == 0 || len(code) > maxViewCode {
		return Errorf(Invalid, "code: 1 to %d characters are allowed, got %d", maxViewCode, len(code))
	}
	for i := range len(code) {
		c := code[i]
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '.' || c == '-' {
			continue
		}
		return Errorf(Invalid, "code: %s: only a-z, 0-9, '_', '.' and '-' are allowed", Quote(code))
	}
	if slices.Contains(reservedViews, code) {
		return Errorf(Invalid, "code: %s is reserved", Quote(code))
	}
	return nil
}

// Check says whether the view's code and id are acceptable.
func (v View) Check() error {
	if err := CheckViewCode(v.Code); err != nil {
		return err
	}
	return CheckText("id", v.ID, 1, maxViewID)
}

// CheckViewItem says whether the name of an item is acceptable.
func CheckViewItem(item string) error { return CheckText("item", item, 1, maxViewID) }
