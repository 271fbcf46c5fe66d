package resolvers

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"time"

	"tidings/services"
	"tidings/services/notifications"
)

// The bounds of the argument first, which is the size of a page. A page of 20 is about a screen. 100 is also the largest page for
// which the package transport computes a cost, except for the export, whose limit is in MaxPageSizes.
const (
	defaultFirst   = 20 // if the request has no first
	maxFirst       = 100
	maxExportLines = 1000 // lines of an export

	// cursorBytes is the number of bytes of a kind, a user and a position together. Some longer cursors begin with these three.
	// Cursors are opaque to clients, but no secret: they are checked and never trusted.
	cursorBytes = 1 + 4 + 8
)

// cursorKind identifies the list that a cursor belongs to, and the cursor's form. Clients keep cursors, so a number is never
// reused for another list. Cursors of other forms have the numbers 16 to 18 (conversations), 19 and 20 (posts) and 40 to 43
// (lists of a user). All kinds are different, so that a cursor of one list is never read as one of another.
type cursorKind byte

const (
	feedCursor         cursorKind = 1
	announcementCursor cursorKind = 2
	siteMessageCursor  cursorKind = 5
	viewCursor         cursorKind = 6 // of the viewer's list of general views
	muteCursor         cursorKind = 24
	blockCursor        cursorKind = 25
	hideCursor         cursorKind = 26

	conversationsCursor cursorKind = 27 // the first part of a longer cursor
	notificationCursor  cursorKind = 28 // the first part of a longer cursor
	changeCursor        cursorKind = 29 // of the change stream
	actCursor           cursorKind = 30 // of operators' acts
	exportCursor        cursorKind = 31 // the first part of a longer cursor
	followModeCursor    cursorKind = 32 // of the follows whose mode is not ALL
)

// cursorListNames are the names of the lists, for errors.
var cursorListNames = map[cursorKind]string{
	feedCursor: "a home feed", announcementCursor: "the announcements", notificationCursor: "the notifications", siteMessageCursor: "the site messages",
	viewCursor: "the views", conversationsCursor: "the conversations", changeCursor: "the change stream", actCursor: "the acts", exportCursor: "the export",
	muteCursor: "the mutes", blockCursor: "the blocks", hideCursor: "the hides", followModeCursor: "the follows with a mode",
}

// String names the list, for errors.
func (k cursorKind) String() string { return cmp.Or(cursorListNames[k], "another list") }

// pageSize returns the page size for the argument first: 1 to 100, or 20 when it is left out. A larger first is refused and not cut,
// because a client could take the shorter page for the end of the list. The resolvers of all lists, except the export, call it before
// their first read.
func pageSize(first *int) (int, error) {
	return pageSizeUpTo(first, defaultFirst, maxFirst)
}

// pageSizeUpTo returns the page size for the argument first, which can be 1 to most. If first is left out, the size is otherwise.
func pageSizeUpTo(first *int, otherwise, most int) (int, error) {
	if first == nil {
		return otherwise, nil
	}
	if *first < 1 || *first > most {
		return 0, services.Errorf(services.Invalid, "first: 1 to %d are allowed, got %d", most, *first)
	}
	return *first, nil
}

// text returns the cursor of a position in a viewer's own list: kind, viewer, position. It contains no secret. It contains the viewer,
// so that a cursor shared by a link is not taken for a position in another viewer's list.
func (k cursorKind) text(viewer services.UserID, position uint64) string {
	return string(k.append(nil, viewer, position))
}

// append appends the cursor that text returns. It needs no escapes in JSON.
func (k cursorKind) append(to []byte, viewer services.UserID, position uint64) []byte {
	// The array is on the stack, because a page has many cursors.
	var bytes [cursorBytes]byte
	bytes[0] = byte(k)
	binary.BigEndian.PutUint32(bytes[1:], uint32(viewer))
	binary.BigEndian.PutUint64(bytes[5:], position)
	return base64.RawURLEncoding.AppendEncode(to, bytes[:])
}

// parse reads the output of text. field names the argument in the error. Strict decoding allows only one text for a position. The
// kind, the viewer and the range are checked before a position from a client reaches an SQL statement. Another user's cursor has an
// error of its own, because it comes from a shared link and not from a mistake of the client.
func (k cursorKind) parse(field string, viewer services.UserID, text string) (uint64, error) {
	bytes, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(bytes) != cursorBytes || bytes[0] != byte(k) {
		return 0, services.Errorf(services.Invalid, "%s: %s is not a cursor of %s", field, services.Quote(text), k)
	}
	if services.UserID(binary.BigEndian.Uint32(bytes[1:])) != viewer {
		return 0, services.Errorf(services.Invalid, "%s: the cursor is another user's", field)
	}
	position := binary.BigEndian.Uint64(bytes[5:])
	// No position is greater than MaxSortableID, and SQL's signed integers could not hold every greater number.
	if position > uint64(services.MaxSortableID) {
		return 0, services.Errorf(services.Invalid, "%s: %s is not a cursor of %s", field, services.Quote(text), k)
	}
	return position, nil
}

// hostCategoryCursorOffset is added to the ID of a category of the host application to make its number in cursors. The numbers
// below it are Tidings' own categories, by their index in services.Categories. 2^16 leaves room for more of them than there will
// ever be.
const hostCategoryCursorOffset = 1 << 16

// notificationPositionText prints a position in a viewer's notifications: the time as one cursor, and then the category and the
// subject as another. All three parts are needed, because groups of one moment differ by category and subject. The category is
// a number and not a name, so that the cursor has a fixed length and does not reveal names.
func (r *Resolver) notificationPositionText(viewer services.UserID, position notifications.Position) string {
	category := slices.Index(services.Categories, position.Category)
	if host, defined := r.Notifications.Memory.Current().Find(position.Category); defined {
		category = hostCategoryCursorOffset + host.ID
	}
	return notificationCursor.text(viewer, uint64(position.At.UnixMicro())) + notificationCursor.text(services.UserID(category), uint64(position.Subject))
}

// parseNotificationPosition reads the output of notificationPositionText. If the host application has removed the category, the cursor
// is INVALID, because the position no longer exists. The first half is checked against the viewer; the second half has the category in
// the place of the viewer.
func (r *Resolver) parseNotificationPosition(viewer services.UserID, text string) (position notifications.Position, err error) {
	middle := min(base64.RawURLEncoding.EncodedLen(cursorBytes), len(text))
	at, err := notificationCursor.parse("after", viewer, text[:middle])
	if err != nil {
		return position, err
	}
	position.At = time.UnixMicro(int64(at)).UTC()
	// parse can only compare the number in the place of the viewer, which is the category here. So each category is tried. Both lists
	// are short.
	for i, category := range services.Categories {
		if subject, err := notificationCursor.parse("after", services.UserID(i), text[middle:]); err == nil {
			position.Category, position.Subject = category, services.SortableID(subject)
			return position, nil
		}
	}
	for _, host := range r.Notifications.Memory.Current().All() {
		if subject, err := notificationCursor.parse("after", services.UserID(hostCategoryCursorOffset+host.ID), text[middle:]); err == nil {
			position.Category, position.Subject = host.Name, services.SortableID(subject)
			return position, nil
		}
	}
	return position, services.Errorf(services.Invalid, "after: %s is not a cursor of %s", services.Quote(text), notificationCursor)
}

// feedCursorText prints a position in a viewer's own feed.
func feedCursorText(viewer services.UserID, position services.PostID) string {
	return feedCursor.text(viewer, uint64(position))
}

// parseFeedCursor reads the output of feedCursorText for this viewer.
func parseFeedCursor(viewer services.UserID, text string) (services.PostID, error) {
	position, err := feedCursor.parse("after", viewer, text)
	return services.PostID(position), err
}

// newerThanPosition returns the position of the argument newerThan, which cannot be combined with after and lastID. given is false
// if newerThan is left out. The post itself need not exist. A client sends the newest post that it has, and the author may have
// deleted that post since: a missing post must not make the client reload its whole list.
func newerThanPosition(after, lastID, newerThan *string) (position services.PostID, given bool, err error) {
	switch {
	case newerThan == nil:
		return 0, false, nil
	case after != nil || lastID != nil:
		return 0, true, services.Errorf(services.Invalid, "newerThan: it cannot be given together with after or lastId")
	}
	if position, err = services.ParsePostGlobalID("newerThan", *newerThan); services.CodeOf(err) == services.NotFound {
		err = nil // only the position is needed, and a position before every post is valid here
	}
	return position, true, err
}

// startPosition returns the position below which a page starts. This is the position of after or of lastID, which exclude each
// other. Without both it is the greatest position. lastID is for clients that keep posts and no cursors.
func startPosition(viewer services.UserID, after, lastID *string) (services.PostID, error) {
	switch {
	case after != nil && lastID != nil:
		return 0, services.Errorf(services.Invalid, "after and lastId: only one of them can be given")
	case after != nil:
		return parseFeedCursor(viewer, *after)
	case lastID != nil:
		return services.ParsePostGlobalID("lastId", *lastID)
	}
	return services.MaxPostID, nil
}
