package services

import (
	"strconv"
	"strings"
)

// AnyMarkGeneration is above every generation, a number that rises when a user makes items unread again. It is the generation of a
// mark as read without a list's token: such a mark applies to every item.
const AnyMarkGeneration = uint64(1<<63 - 1)

// FormatReadToken prints the generation at which a list was read. A mark as read with this token skips items that were marked
// unread since.
func FormatReadToken(generation uint64) string { return "g" + strconv.FormatUint(generation, 10) }

// ParseReadToken parses the output of FormatReadToken; "" is AnyMarkGeneration.
func ParseReadToken(text string) (generation uint64, err error) {
	if text == "" {
		return AnyMarkGeneration, nil
	}
	// With 62 bits the generation is below AnyMarkGeneration, so that no token stands for every item.
	generation, err = strconv.ParseUint(text[1:], 10, 62)
	// One generation has one text: no leading zeros or signs.
	if err != nil || FormatReadToken(generation) != text {
		return 0, Errorf(Invalid, "readToken: %s is not the readToken of a list", Quote(text))
	}
	return generation, nil
}

// FormatNotificationUpTo is the upTo of a notification at a position: the argument of a mark of all notifications up to it.
func FormatNotificationUpTo(position NotificationID) string {
	return GlobalID(notificationUpToType, position.String())
}

// notificationUpToType is the type in the upTo of a notification. No object has it: it stands for a position in a list.
const notificationUpToType = "notificationUpTo"

// IsNotificationUpTo reports whether a text claims to be the upTo of a notification.
func IsNotificationUpTo(text string) bool { return strings.HasPrefix(text, notificationUpToType+":") }

// ParseNotificationUpTo parses the upTo of a notification: the output of FormatNotificationUpTo. The upTo of a list's first
// notification has a second, later position at its end. position is the position of the notification; reach is the position up to
// which a mark of the whole list reaches: position, or the second position. field names the argument in the error.
func ParseNotificationUpTo(field, text string) (position, reach NotificationID, err error) {
	wrong := Errorf(Invalid, "%s: %s is not the upTo of a notification", field, Quote(text))
	key, found := strings.CutPrefix(text, notificationUpToType+":")
	if !found || len(key) != SortableIDLetters && len(key) != 2*SortableIDLetters {
		return 0, 0, wrong
	}
	first, err := ParseSortableID(key[:SortableIDLetters])
	last := first
	if err == nil && len(key) > SortableIDLetters {
		last, err = ParseSortableID(key[SortableIDLetters:])
	}
	if err != nil || last < first || last == first && len(key) > SortableIDLetters {
		return 0, 0, wrong
	}
	return NotificationID(first), NotificationID(last), nil
}
