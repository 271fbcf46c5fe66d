package export

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"tidings/services"
	"tidings/services/sql"
)

// The types of the columns that order lines.
const (
	keyTypeNumber = "BIGINT"
	keyTypeText   = "TEXT"
)

// maxPageBytes is the length at which a page gets no further line, so that a page of long texts fits into an answer. The line
// that exceeds it is still on the page: every page has at least one line, and so the export comes to its end.
const maxPageBytes = 1 << 20

// Reader reads exports in pages. It keeps nothing between them: the position is the whole state, so any node can read the
// next page.
type Reader struct {
	DB    sql.Reader
	Kinds []LineKind // the kinds of lines, in their order in the export
}

// Line is one line of an export, without its line break. Position is opaque to clients, but not secret: it is the kind and the
// keys of the line as JSON, and says nothing that the line does not.
type Line struct {
	Type     string // the name of the line's LineKind
	Text     string // the line itself, a JSON object
	Position string // for Page, to go on after this line
}

// errFull is what the function emit of Page returns when the page has no room for another line.
var errFull = errors.New("the page is full")

// Page reads up to size lines of a user after a position, "" from the first line on, in the order of Write. A page of long lines is
// shorter. more reports whether there are lines after the page. The error is INVALID if after is not a position. Nothing is locked
// between pages: a line that is added or removed meanwhile may be missed, and any other line is on exactly one page.
func (r Reader) Page(ctx context.Context, user services.UserID, after string, size int) (lines []Line, more bool, err error) {
	at, keys, err := r.parsePosition(after)
	if err != nil {
		return nil, false, err
	}
	length := 0
	for i := at; i < len(r.Kinds); i++ {
		kind := r.Kinds[i]
		// One line more than the page has room for is read, to learn whether there are more.
		err := kind.eachLine(ctx, r.DB, user, keys, int64(size-len(lines)+1), func(line []byte, keys []any) error {
			if len(lines) == size || length >= maxPageBytes {
				return errFull
			}
			position, err := json.Marshal(append([]any{kind.name}, keys...))
			length += len(line)
			lines = append(lines, Line{Type: kind.name, Text: strings.TrimSuffix(string(line), "\n"), Position: string(position)})
			return err
		})
		if errors.Is(err, errFull) {
			return lines, true, nil
		}
		if err != nil {
			return nil, false, err
		}
		// The next kinds begin at their first line.
		keys = nil
	}
	return lines, false, nil
}

// parsePosition reads the position of a line: the kind with which a page begins, and the keys after which it begins; nil means the
// first line of the kind. The text comes from a client, and its keys are parameters of a statement: each must have the type of
// its column.
func (r Reader) parsePosition(text string) (kind int, after []any, err error) {
	if text == "" {
		return 0, nil, nil
	}
	invalid := services.Errorf(services.Invalid, "%s is not a position in an export", services.Quote(text))
	var parts []any
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	// Keys have up to 63 bits, more than a float holds.
	decoder.UseNumber()
	if err := decoder.Decode(&parts); err != nil || len(parts) == 0 {
		return 0, nil, invalid
	}
	if _, err := decoder.Token(); err != io.EOF {
		return 0, nil, invalid
	}
	kind = slices.IndexFunc(r.Kinds, func(k LineKind) bool { return parts[0] == any(k.name) })
	if kind < 0 || len(parts)-1 != len(r.Kinds[kind].keyTypes) {
		return 0, nil, invalid
	}
	for i, form := range r.Kinds[kind].keyTypes {
		key, fits := convertKey(form, parts[i+1])
		if !fits {
			return 0, nil, invalid
		}
		after = append(after, key)
	}
	if after == nil { // the only line of this kind was read
		kind++
	}
	return kind, after, nil
}

// convertKey converts a JSON value to a key of the type form; fits is false if it has another type. PostgreSQL refuses a text with
// a NUL.
func convertKey(form string, value any) (key any, fits bool) {
	switch value := value.(type) {
	case json.Number:
		number, err := value.Int64()
		return number, err == nil && form == keyTypeNumber
	case string:
		return value, form == keyTypeText && !strings.ContainsRune(value, 0)
	}
	return nil, false
}
