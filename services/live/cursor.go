package live

import (
	"encoding/binary"

	"tidings/services"
)

const (
	cursorFormByte = 0x41 // the first byte of a cursor: no session begins with it
	// cursorPositionBytes is the length in bytes of what precedes the session in a cursor: the form, the section (1 for replays, 0 for other
	// shows), the score and the ID.
	cursorPositionBytes = 1 + 1 + 8 + 8
)

// CursorText formats a position on the board of a session for clients. The text is enough to continue from there, also when the
// show has moved since, and when the session is over.
func CursorText(session Session, position ShowPosition) string {
	return string(AppendCursor(nil, session, position))
}

// AppendCursor appends the output of CursorText, which needs no escaping in JSON.
func AppendCursor(to []byte, session Session, position ShowPosition) []byte {
	var buffer [cursorPositionBytes + sessionBytes + followHashBytes]byte
	section := byte(0)
	if position.Replay {
		section = 1
	}
	bytes := append(buffer[:0], cursorFormByte, section)
	bytes = binary.BigEndian.AppendUint64(bytes, uint64(position.Score))
	bytes = binary.BigEndian.AppendUint64(bytes, uint64(position.ID))
	return sessionEncoding.AppendEncode(to, session.append(bytes))
}

// parseCursor parses the output of CursorText. INVALID for anything else, and for another user's cursor.
func parseCursor(viewer services.UserID, text string) (session Session, position ShowPosition, err error) {
	bytes, err := sessionEncoding.DecodeString(text)
	ok := err == nil && len(bytes) > cursorPositionBytes && bytes[0] == cursorFormByte && bytes[1] <= 1
	if ok {
		position = ShowPosition{
			Replay: bytes[1] == 1, Score: int64(binary.BigEndian.Uint64(bytes[2:])), ID: services.ShowID(binary.BigEndian.Uint64(bytes[10:])),
		}
		session, ok = sessionOf(bytes[cursorPositionBytes:])
		// One position has one text: the comparison refuses spellings that decode to the same bytes.
		ok = ok && position.ID > 0 && services.SortableID(position.ID) <= services.MaxSortableID && CursorText(session, position) == text
	}
	switch {
	case !ok:
		return Session{}, ShowPosition{}, services.Errorf(services.Invalid, "after: %s is not a cursor of a live board", services.Quote(text))
	case session.Viewer != viewer:
		return Session{}, ShowPosition{}, services.Errorf(services.Invalid, "after: the cursor is another user's")
	}
	return session, position, nil
}
