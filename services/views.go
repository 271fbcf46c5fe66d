package services

import (
	"slices"
	"time"
)

// View is a list that users look at repeatedly and that receives new items: a community's news, a topic.
type View struct {
	Code string // the kind of the view: 1 to 64 of a-z, 0-9, '_', '.', '-'
	ID   string // the view among those of its kind: 1 to 64 characters
}

// ViewItem is one item of a view, as the facts have it.
type ViewItem struct {
	Item string    // 1 to 64 characters
	At   time.Time // to the microsecond
}

// ViewAccess is a user's last access of a view: items newer than UpTo are unread.
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

// reservedViews are codes of user_access_log with another meaning.
var reservedViews = []string{"home_page", "live_board"}

const (
	maxViewCode = 64
	maxViewID   = 64
)

// CheckViewCode reports whether a code of views is valid.
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

// Check reports whether the view's code and ID are valid.
func (v View) Check() error {
	if err := CheckViewCode(v.Code); err != nil {
		return err
	}
	return CheckText("id", v.ID, 1, maxViewID)
}

// CheckViewItem reports whether the name of an item is valid.
func CheckViewItem(item string) error { return CheckText("item", item, 1, maxViewID) }
