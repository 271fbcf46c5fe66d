package resolvers

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"time"

	"tidings/services"
	"tidings/services/posts"
)

// The kinds of the cursors of a post's lists, beside the kinds for conversations and for the viewer's lists. A cursor belongs to
// one post: it has the kind, the post, and the position. The position is the answer, or the time of a like and then the user.
// Each list has its own number, which no cursorKind has, so that a like's cursor is refused in a list of comments.
const (
	commentCursorKind = 19
	likeCursorKind    = 20
)

// postCursorText prints a position in a list of a post. Each kind has its own number of parts, which its parser requires.
func postCursorText(kind byte, post services.PostID, position ...uint64) string {
	bytes := binary.BigEndian.AppendUint64([]byte{kind}, uint64(post))
	for _, number := range position {
		bytes = binary.BigEndian.AppendUint64(bytes, number)
	}
	return base64.RawURLEncoding.EncodeToString(bytes)
}

// parsePostCursor reads the output of postCursorText into position. A number that does not fit SQL's signed integers is
// refused. The length says how many numbers there are, so a cursor of another form is refused before a number is read.
func parsePostCursor(kind byte, post services.PostID, text string, position ...*uint64) error {
	bytes, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(bytes) != 1+8+8*len(position) || bytes[0] != kind {
		return wrongCursor(text)
	}
	if services.PostID(binary.BigEndian.Uint64(bytes[1:])) != post {
		return services.Errorf(services.Invalid, "after: the cursor is of another post")
	}
	for i, number := range position {
		if *number = binary.BigEndian.Uint64(bytes[9+8*i:]); *number > math.MaxInt64 {
			return wrongCursor(text)
		}
	}
	return nil
}

// wrongCursor is the error for a text that is no cursor of a list. It is the same for all faults, because a client would
// treat them all alike.
func wrongCursor(text string) error {
	return services.Errorf(services.Invalid, "after: %s is not a cursor of this list", services.Quote(text))
}

// commentCursorText prints the position of an answer in the list of a post's comments as a cursor.
func commentCursorText(post, answer services.PostID) string {
	return postCursorText(commentCursorKind, post, uint64(answer))
}

// parseCommentCursor reads the output of commentCursorText.
func parseCommentCursor(post services.PostID, text string) (services.PostID, error) {
	var answer uint64
	err := parsePostCursor(commentCursorKind, post, text, &answer)
	return services.PostID(answer), err
}

// likeCursorText prints the position of a like in the list of a post's likes as a cursor.
func likeCursorText(post services.PostID, position posts.LikePosition) string {
	return postCursorText(likeCursorKind, post, uint64(position.At.UnixMicro()), uint64(position.Liker))
}

// parseLikeCursor reads the output of likeCursorText. It refuses a user beyond 32 bits: cut to 32 bits, it would be another user's
// position.
func parseLikeCursor(post services.PostID, text string) (posts.LikePosition, error) {
	var at, liker uint64
	err := parsePostCursor(likeCursorKind, post, text, &at, &liker)
	// IDs of users have 32 bits.
	if err == nil && liker > math.MaxUint32 {
		err = wrongCursor(text)
	}
	return posts.LikePosition{At: time.UnixMicro(int64(at)).UTC(), Liker: services.UserID(liker)}, err
}
