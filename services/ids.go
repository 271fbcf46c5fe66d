package services

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// UserID is the dense number that Tidings gives a user on first mention. Redis keys and packed lists use it; the API shows
// only the key that the host application chose. 0 is no user.
type UserID uint32

// SortableID is a 63-bit ID that is also a moment: 42 bits of milliseconds since 1970, then 11 bits of sequence and 10 bits of
// node. A greater ID is newer, and IDClock makes no two that are equal. Kinds of objects have types of their own over it, such as
// PostID. As a SortableID itself, it stands for a moment ("followed since"), for a position in a view or for an object of any kind.
// A moment has no type of its own, because it is there to be compared with the IDs of posts and of shows. 0 is before every ID.
type SortableID uint64

// PostID is the ID of a post, and its position in lists: a post with a greater ID is newer. 0 is before every post.
type PostID SortableID

// NotificationID is a position in a user's notifications. Each cause of a notification has one, and the position of the first cause
// is the notification's ID. 0 is before every position.
type NotificationID SortableID

// HostNotificationID is the ID of a notification that the host application sent to many users at once. 0 is none.
type HostNotificationID SortableID

// ShowID is the ID of a show, made when it was scheduled. 0 is no show.
type ShowID SortableID

// AnnouncementID is the ID of an announcement, an ID of the moment of its publication. 0 is no announcement.
type AnnouncementID SortableID

const (
	// MaxSortableID is after every ID that can exist.
	MaxSortableID = SortableID(1<<63 - 1)
	// MaxPostID is after every post that can exist.
	MaxPostID = PostID(MaxSortableID)
	// SortableIDLetters is the length of every printed ID, so that text sorts like the number.
	SortableIDLetters = 13
	// SortableIDsPerMillisecond is the number of IDs in one millisecond.
	SortableIDsPerMillisecond = 1 << idLowBits

	idAlphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ" // Crockford's: no I, L, O, U
	// idLowBits is the number of bits below the milliseconds: 11 of the sequence and 10 of the node.
	idLowBits  = 21
	idNodeBits = 10 // the bits of the node's number

	// pastEventBit is the highest bit of the sequence. It is set in the IDs of events that are reported with their time (NextAt),
	// and not in the IDs of the present (Next). So an ID of one kind never equals an ID of the other kind, even if a node makes
	// both for the same millisecond at different times.
	pastEventBit = SortableID(1) << (idLowBits - 1)
)

// idLetterValues is the value of each letter; -1 for a byte that is not one of the letters.
var idLetterValues = func() (table [256]int8) {
	for i := range table {
		table[i] = -1
	}
	for i := range idAlphabet {
		table[idAlphabet[i]] = int8(i)
	}
	return table
}()

// String prints the id as 13 letters that sort like the number.
func (id SortableID) String() string {
	var letters [SortableIDLetters]byte
	for i := SortableIDLetters - 1; i >= 0; i-- {
		letters[i] = idAlphabet[id&31]
		id >>= 5
	}
	return string(letters[:])
}

// String prints the id as SortableID does.
func (id PostID) String() string { return SortableID(id).String() }

// String prints the id as SortableID does.
func (id NotificationID) String() string { return SortableID(id).String() }

// String prints the id as SortableID does.
func (id HostNotificationID) String() string { return SortableID(id).String() }

// String prints the id as SortableID does.
func (id ShowID) String() string { return SortableID(id).String() }

// String prints the id as SortableID does.
func (id AnnouncementID) String() string { return SortableID(id).String() }

// Int64 is the id as SQL keeps it. The method makes it an argument of statements: see sql.Number.
func (id PostID) Int64() int64 { return int64(id) }

// Int64 is the id as SQL keeps it.
func (id NotificationID) Int64() int64 { return int64(id) }

// Int64 is the id as SQL keeps it.
func (id HostNotificationID) Int64() int64 { return int64(id) }

// Int64 is the id as SQL keeps it.
func (id ShowID) Int64() int64 { return int64(id) }

// Int64 is the id as SQL keeps it.
func (id AnnouncementID) Int64() int64 { return int64(id) }

// Time is when the post was published, to the millisecond, in UTC.
func (id PostID) Time() time.Time { return SortableID(id).Time() }

// Time is when the show was scheduled, to the millisecond, in UTC.
func (id ShowID) Time() time.Time { return SortableID(id).Time() }

// Time is when the id was made, to the millisecond, in UTC.
func (id SortableID) Time() time.Time { return time.UnixMilli(int64(id >> idLowBits)).UTC() }

// OrderedTime is the millisecond in which the ID was made, plus the ID's sequence as microseconds: IDs of the present that one node made
// in one millisecond have times in their order, except those after the thousandth, and so do IDs of past events.
func (id SortableID) OrderedTime() time.Time {
	sequence := id & (pastEventBit - 1) >> idNodeBits
	return id.Time().Add(time.Duration(min(sequence, 999)) * time.Microsecond)
}

// SortableIDAt is the smallest ID of a moment: every ID made earlier is less.
func SortableIDAt(t time.Time) SortableID { return SortableID(max(t.UnixMilli(), 0)) << idLowBits }

// FirstNotificationPosition is the least position that a user's notifications can have at a moment. At one millisecond the first
// positions of two users are far apart. So a position also identifies the user's list, except in about one case in a million.
func FirstNotificationPosition(t time.Time, user UserID) NotificationID {
	const spread = 0x9E3779B1 // odd: neighbouring users differ in the low bits of their positions
	return NotificationID(SortableIDAt(t)) + NotificationID(uint32(user-1)*spread>>(32-idLowBits))
}

// ParseSortableID parses the output of String. Anything else is INVALID.
func ParseSortableID(text string) (SortableID, error) {
	if len(text) != SortableIDLetters {
		return 0, Errorf(Invalid, "a sortable ID has %d letters, got %d", SortableIDLetters, len(text))
	}
	var id SortableID
	for i := range SortableIDLetters {
		value := idLetterValues[text[i]]
		// 13 letters have 65 bits, an ID 63: the first letter is at most 7.
		if value < 0 || (i == 0 && value > 7) {
			return 0, Errorf(Invalid, "%q is not a sortable ID", text)
		}
		id = id<<5 | SortableID(value)
	}
	return id, nil
}

// The types that a global ID can name.
const (
	UserType         = "user"
	PostType         = "post"
	NotificationType = "notification"
	SiteMessageType  = "siteMessage"
	ConversationType = "conversation"
	MessageType      = "message"
	AnnouncementType = "announcement"
	ShowType         = "show"
	ViewerType       = "viewer"            // the user who asks, by their key
	BadgesType       = "badges"            // a user's badges, by the user's key
	ViewType         = "view"              // a general view, by its code and key: view:CODE/KEY
	ReportType       = "siteMessageReport" // a site message, as its sender sees it
	DeviceType       = "device"

	HostNotificationType = "hostNotification" // a notification that the host application sent to many users at once
)

// idTypes lists every type.
var idTypes = []string{UserType, PostType, NotificationType, SiteMessageType, ConversationType, MessageType, AnnouncementType, ShowType, ViewerType, BadgesType, ViewType, ReportType, HostNotificationType, DeviceType}

// GlobalID is an ID in the API's form: type:key. The key of a user is percent-encoded (escapeKey); other keys stand as they are.
func GlobalID(kind, key string) string {
	// A user's key may have any printable character, a colon too.
	if isKeyedByUser(kind) {
		key = escapeKey(key)
	}
	return kind + ":" + key
}

// isKeyedByUser reports whether the key in IDs of a type is the host application's key of a user.
func isKeyedByUser(kind string) bool {
	return kind == UserType || kind == ViewerType || kind == BadgesType
}

// SplitGlobalID splits a global ID: it undoes GlobalID. An ID without a known type is INVALID, and so is a user's key that is not
// escaped as GlobalID escapes it. The key is not checked further.
func SplitGlobalID(id string) (kind, key string, err error) {
	kind, key, found := strings.Cut(id, ":")
	if found && slices.Contains(idTypes, kind) {
		if isKeyedByUser(kind) {
			key, err = UnescapeKey(key)
		}
		return kind, key, err
	}
	return "", "", Errorf(Invalid, "%s is not an id: expected type:KEY with a type of %s", Quote(id), strings.Join(idTypes, ", "))
}

// ParseUserID parses "user:KEY" and returns the key. field names the argument in the error.
func ParseUserID(field, id string) (key string, err error) {
	kind, key, err := SplitGlobalID(id)
	if kind != UserType {
		return "", Errorf(Invalid, "%s: %s is not the id of a user: expected user:KEY", field, Quote(id))
	}
	if err == nil {
		err = CheckUserKey(key)
	}
	if err != nil {
		return "", Errorf(Invalid, "%s: %s", field, err)
	}
	return key, nil
}

// UserIDText formats a user ID for keys of the changelog and of jobs.
func UserIDText(user UserID) string { return strconv.FormatUint(uint64(user), 10) }

// ParseUserIDText parses the output of UserIDText.
func ParseUserIDText(text string) (UserID, error) {
	id, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0, Errorf(Invalid, "%s is not a user ID", Quote(text))
	}
	return UserID(id), nil
}

// ParsePostGlobalID reads "post:KEY". field names the argument in the error.
func ParsePostGlobalID(field, id string) (PostID, error) {
	position, err := ParseTypedID(field, id, PostType)
	return PostID(position), err
}

// ParseNotificationID parses "notification:KEY". field names the argument in the error.
func ParseNotificationID(field, id string) (NotificationID, error) {
	position, err := ParseTypedID(field, id, NotificationType)
	return NotificationID(position), err
}

// ParseHostNotificationID parses "hostNotification:KEY". field names the argument in the error.
func ParseHostNotificationID(field, id string) (HostNotificationID, error) {
	number, err := ParseTypedID(field, id, HostNotificationType)
	return HostNotificationID(number), err
}

// ParseTypedID parses a global ID of a type whose keys are sortable IDs. field names the argument in the error. The error is
// INVALID, or NOT_FOUND for the key zero, which no object has. So it returns 0 only with an error, and callers can use 0 for an
// ID that is not given.
func ParseTypedID(field, id, want string) (SortableID, error) {
	kind, key, err := SplitGlobalID(id)
	if err == nil && kind == want {
		value, err := ParseSortableID(key)
		if err == nil && value == 0 {
			err = Errorf(NotFound, "%s: there is no %s", field, id)
		}
		if CodeOf(err) != Invalid {
			return value, err
		}
	}
	return 0, Errorf(Invalid, "%s: %s is not the id of a %s: expected %s: and %d letters", field, Quote(id), want, want, SortableIDLetters)
}

// Quote prints a piece of input for an error message: quoted, and cut if it is long.
func Quote(input string) string {
	const longest = 80
	// A cut in the middle of a character leaves invalid bytes: ToValidUTF8 removes them.
	if len(input) > longest {
		input = strings.ToValidUTF8(input[:longest], "") + "..."
	}
	return fmt.Sprintf("%q", input)
}
