package resolvers

import (
	"context"
	"encoding/base64"

	"tidings/graph"
	"tidings/services"
	"tidings/services/stream"
)

// changes returns a page of the change stream, in the order of versions. A cursor never expires, because a position is a version: if a
// newer change of the same user has replaced a change, the reader gets the newer one later. The server keeps no reader's position, so
// any number of readers can follow the stream.
func (r *Resolver) changes(ctx context.Context, first *int, after *string) (*graph.BadgeChanges, error) {
	size, err := pageSize(first)
	if err != nil {
		return nil, err
	}
	position, err := parseChangePosition(after)
	if err != nil {
		return nil, err
	}
	// An empty page would look as if nothing had changed.
	if !r.Stream.On() {
		return nil, &services.Error{Code: services.Conflict, Reason: services.ReasonFeatureOff,
			Message: "changes: the change stream is off: start every node with --changes"}
	}
	found, err := r.Stream.ChangesAfter(ctx, position.ReadTo, size+1)
	if err != nil {
		return nil, err
	}
	part := &graph.BadgeChanges{List: []graph.BadgeChange{}, HasMore: len(found) > size}
	found = found[:min(size, len(found))]
	// DrainedTo is the version up to which the reader had everything. It decides which counts of a change are new to the reader: see
	// stream.Position.
	for _, change := range found {
		part.List = append(part.List, graphBadgeChange(change, position.DrainedTo))
	}
	part.Cursor = changePositionText(position.AfterReading(found, part.HasMore))
	return part, nil
}

// changePositionText prints a position in the change stream: as one cursor if the reader has everything up to it, else as two. The
// first is how far the reader has read. The second is the version up to which the reader had everything when it began to page: a count
// that changed after that version is new to the reader, and may alert the user. Two cursors are needed only while a reader is behind.
// When it has caught up, both versions are equal, and one cursor is enough again.
func changePositionText(position stream.Position) string {
	text := changeCursor.text(0, position.ReadTo)
	if position.DrainedTo != position.ReadTo {
		text += changeCursor.text(0, position.DrainedTo)
	}
	return text
}

// parseChangePosition reads the output of changePositionText; nil is the start. The cursors belong to no user, so they are parsed
// for user 0. DrainedTo cannot be greater than ReadTo, because a reader cannot have more than it has read.
func parseChangePosition(text *string) (position stream.Position, err error) {
	if text == nil {
		return position, nil
	}
	middle := min(base64.RawURLEncoding.EncodedLen(cursorBytes), len(*text))
	if position.ReadTo, err = changeCursor.parse("after", 0, (*text)[:middle]); err != nil {
		return position, err
	}
	position.DrainedTo = position.ReadTo
	if rest := (*text)[middle:]; rest != "" {
		position.DrainedTo, err = changeCursor.parse("after", 0, rest)
	}
	if err == nil && position.DrainedTo > position.ReadTo {
		err = services.Errorf(services.Invalid, "after: %s is not a cursor of %s", services.Quote(*text), changeCursor)
	}
	return position, err
}

// graphBadgeChange is a change as the API shows it to a reader that has all changes up to the version after. A count of 0 is shown
// only if it changed after that version: then it tells the application to remove a number. The other zeros of a user would only
// make the answer long.
func graphBadgeChange(change stream.Change, after uint64) graph.BadgeChange {
	state := change.State
	shown := graph.BadgeChange{
		UserID: services.GlobalID(services.UserType, change.Key), Key: change.Key, Version: stream.VersionText(change.Seq), At: change.At,
		Total: state.Total.Value, Display: state.Total.Display, Sources: []graph.BadgeChangeSource{}, Dots: append([]string{}, state.Dots...),
		Quiet: state.Quiet, Silent: change.Silent(after),
	}
	for _, part := range state.Parts {
		changed := part.ChangedVersion > after
		if part.Value == 0 && !changed {
			continue
		}
		shown.Sources = append(shown.Sources, graph.BadgeChangeSource{
			Source: part.Source, Part: orNull(part.Name), Count: part.Value, Display: part.Display, InTotal: part.InTotal, Changed: changed,
		})
	}
	if cause := state.NewestAlert(after); cause != nil && !shown.Silent {
		shown.Cause = &graph.BadgeChangeCause{Source: cause.Source, Part: orNull(cause.Part), ItemID: cause.ID, At: cause.At}
	}
	return shown
}
