package views

import (
	"slices"
	"strings"
	"time"

	"tidings/services"
	"tidings/services/positions"
)

// View is a list that users look at repeatedly and that receives new items: a community's news, a topic.
type View struct {
	Code string // the kind of the view: 1 to 64 of a-z, 0-9, '_', '.', '-'
	ID   string // the host application's key of the view among those of its kind: 1 to 64 characters
}

// GlobalID is the view's ID in the API. A code has no "/", so that no two views share an ID.
func (v View) GlobalID() string { return services.GlobalID(services.ViewType, v.Code+"/"+v.ID) }

// ParseID reads the output of GlobalID. field names the argument in the error.
func ParseID(field, id string) (View, error) {
	kind, rest, err := services.SplitGlobalID(id)
	code, key, found := strings.Cut(rest, "/")
	view := View{Code: code, ID: key}
	if err != nil || kind != services.ViewType || !found || view.Check() != nil {
		return View{}, services.Errorf(services.Invalid, "%s: %s is not the id of a view: expected view:CODE/KEY", field, services.Quote(id))
	}
	return view, nil
}

// Item is one item of a view.
type Item struct {
	Name string    // the host application's key of the item: 1 to 64 characters
	At   time.Time // Redis and SQL keep it to the microsecond; Service.Add cuts it to the millisecond
}

// LastAccess is a user's last access of a view: items newer than UpTo are unread. It is a row of user_access_log, as the positions of
// the home feed and the live board are.
type LastAccess struct {
	View
	UpTo           time.Time // the time up to which the user has seen the view
	LastAccessAt   time.Time // when the user last touched the view
	CountsInBadges bool      // in the user's badges: it is among the views that they touched last
}

// UnreadView is the number of unread items of a view, up to one more than services.DisplayCap. Count.InTotal reports whether they are
// part of the badges' count of views.
type UnreadView struct {
	LastAccess
	Count services.Count
}

// reservedCodes are the codes in user_access_log of the home feed and the live board, which a view cannot have.
var reservedCodes = []string{positions.HomeFeedView, positions.LiveBoardView}

const (
	maxCodeLength = 64 // characters of a code
	maxIDLength   = 64 // characters of a view's ID, and of an item's name
)

// checkCode reports whether a code of views is valid.
func checkCode(code string) error {
	if len(code) == 0 || len(code) > maxCodeLength {
		return services.Errorf(services.Invalid, "code: 1 to %d characters are allowed, got %d", maxCodeLength, len(code))
	}
	// Byte by byte: the allowed characters are ASCII.
	for i := range len(code) {
		c := code[i]
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '.' || c == '-' {
			continue
		}
		return services.Errorf(services.Invalid, "code: %s: only a-z, 0-9, '_', '.' and '-' are allowed", services.Quote(code))
	}
	if slices.Contains(reservedCodes, code) {
		return services.Errorf(services.Invalid, "code: %s is reserved", services.Quote(code))
	}
	return nil
}

// Check reports whether the view's code and key are valid.
func (v View) Check() error {
	if err := checkCode(v.Code); err != nil {
		return err
	}
	return services.CheckText("key", v.ID, 1, maxIDLength)
}

// checkItem reports whether the name of an item is valid.
func checkItem(item string) error { return services.CheckText("item", item, 1, maxIDLength) }
