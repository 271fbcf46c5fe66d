package resolvers

import (
	"context"
	"encoding/base64"

	"tidings/graph"
	"tidings/services"
	"tidings/services/people"
)

// defaultExportLines is the page size if first is left out.
const defaultExportLines = 100 // lines

// export returns a page of everything that SQL holds about a user. Each page is recorded as an act of the operator who reads it,
// because a cursor can begin anywhere. The act has the user as its target, so that users can be told who has read their data.
func (r *Resolver) export(ctx context.Context, userID string, first *int, after *string) (*graph.UserExport, error) {
	details := "from the start"
	if after != nil {
		details = "further lines"
	}
	return runAsAdmin(ctx, r, "export", userIDOrEmpty(userID), details, func(ctx context.Context) (*graph.UserExport, error) {
		// The input is checked within the act, so that an attempt with a wrong input is recorded too.
		size, err := pageSizeUpTo(first, defaultExportLines, maxExportLines)
		if err != nil {
			return nil, err
		}
		key, err := services.ParseUserID("userId", userID)
		if err != nil {
			return nil, err
		}
		known, err := people.IDs(ctx, r.Exports.DB, []string{key}) // not a cache, which may still have a user who was erased
		if err != nil {
			return nil, err
		}
		user, ok := known[key]
		if !ok {
			return nil, services.NoUserError("userId", key)
		}
		return r.exportPage(ctx, user, size, after)
	})
}

// exportPage reads the lines after a position. Each page is read by itself, so it has the facts as they are at its read. A line that
// exists during the whole export is on exactly one page: see package export.
func (r *Resolver) exportPage(ctx context.Context, user services.UserID, size int, after *string) (*graph.UserExport, error) {
	position, err := parseExportPosition(user, after)
	if err != nil {
		return nil, err
	}
	// A page may end in the middle of a kind of lines. The next page then goes on with the same kind.
	lines, more, err := r.Exports.Page(ctx, user, position, size)
	// Only the package export knows the form of a position, and can tell whether it is valid.
	if after != nil && services.CodeOf(err) == services.Invalid {
		return nil, services.Errorf(services.Invalid, "after: %s is not a cursor of %s", services.Quote(*after), exportCursor)
	}
	if err != nil {
		return nil, err
	}
	page := &graph.UserExport{List: make([]graph.ExportLine, len(lines)), HasMore: more}
	for i, line := range lines {
		page.List[i] = graph.ExportLine{Type: line.Type, Text: line.Text}
	}
	if len(lines) > 0 {
		page.Cursor = new(exportPositionText(user, lines[len(lines)-1].Position))
	}
	return page, nil
}

// exportPositionText prints a position in the export of a user: a cursor with the user, and then the position. The user is in it, so
// that it cannot be used for another user by mistake.
func exportPositionText(user services.UserID, position string) string {
	return exportCursor.text(user, 0) + base64.RawURLEncoding.EncodeToString([]byte(position))
}

// parseExportPosition reads the output of exportPositionText. nil is the start. An empty position is refused: it would mean the start
// too, but no cursor is sent for the start.
func parseExportPosition(user services.UserID, text *string) (string, error) {
	if text == nil {
		return "", nil
	}
	middle := min(base64.RawURLEncoding.EncodedLen(cursorBytes), len(*text))
	if _, err := exportCursor.parse("after", user, (*text)[:middle]); err != nil {
		return "", err
	}
	position, err := base64.RawURLEncoding.Strict().DecodeString((*text)[middle:])
	if err != nil || len(position) == 0 {
		return "", services.Errorf(services.Invalid, "after: %s is not a cursor of %s", services.Quote(*text), exportCursor)
	}
	return string(position), nil
}
