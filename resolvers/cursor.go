package resolvers

import (
	"encoding/base64"
	"encoding/binary"

	"tidings/services"
)

const (
	defaultFirst = 20
	maxFirst     = 100

	feedCursor   = 1 // the kind and form of a cursor of the home feed
	cursorLength = 1 + 4 + 8
)

// pageSize checks first: 1 to 100, 20 when left out.
func pageSize(first *int) (int, error) {
	if first == nil {
		return defaultFirst, nil
	}
	if *first < 1 || *first > maxFirst {
		return 0, services.Errorf(services.Invalid, "first: 1 to %d are allowed, got %d", maxFirst, *first)
	}
	return *first, nil
}

// cursorText prints a place in a viewer's own feed: kind, viewer, place. It holds nothing that must be kept secret.
func cursorText(viewer services.UserNumber, place services.PostID) string {
	var bytes [cursorLength]byte
	bytes[0] = feedCursor
	binary.BigEndian.PutUint32(bytes[1:], uint32(viewer))
	binary.BigEndian.PutUint64(bytes[5:], uint64(place))
	return base64.RawURLEncoding.EncodeToString(bytes[:])
}

func parseCursor(viewer services.UserNumber, text string) (services.PostID, error) {
	bytes, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(bytes) != cursorLength || bytes[0] != feedCursor {
		return 0, services.Errorf(services.Invalid, "after: %s is not a cursor of a home feed", services.Quote(text))
	}
	if services.UserNumber(binary.BigEndian.Uint32(bytes[1:])) != viewer {
		return 0, services.Errorf(services.Invalid, "after: the cursor is of another user's feed")
	}
	place := services.PostID(binary.BigEndian.Uint64(bytes[5:]))
	if place > services.MaxPostID {
		return 0, services.Errorf(services.Invalid, "after: %s is not a cursor of a home feed", services.Quote(text))
	}
	return place, nil
}

// startOf is the place before which a page starts: the newest without after and lastId, which exclude each other.
func startOf(viewer services.UserNumber, after, lastID *string) (services.PostID, error) {
	switch {
	case after != nil && lastID != nil:
		return 0, services.Errorf(services.Invalid, "after and lastId: only one of them can be given")
	case after != nil:
		return parseCursor(viewer, *after)
	case lastID != nil:
		return services.ParsePostGlobalID("lastId", *lastID)
	}
	return services.MaxPostID, nil
}
