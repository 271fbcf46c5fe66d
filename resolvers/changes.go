package resolvers

import (
	"context"

	"tidings/graph"
	"tidings/services"
	"tidings/services/stream"
)

// changes is a part of the change stream.
func (r *Resolver) changes(ctx context.Context, first *int, after *string) (*graph.BadgeChanges, error) {
	size, err := pageSize(first)
	if err != nil {
		return nil, err
	}
	from := uint64(0)
	if after != nil {
		if from, err = changeCursor.parse("after", 0, *after); err != nil {
			return nil, err
		}
	}
	if !r.Stream.On() {
		return nil, &services.Error{Code: services.Conflict, Reason: services.ReasonOff,
			Message: "changes: the change stream is off: start every node with --changes"}
	}
	found, err := r.Stream.After(ctx, from, size+1)
	if err != nil {
		return nil, err
	}
	part := &graph.BadgeChanges{List: []graph.BadgeChange{}, Cursor: changeCursor.text(0, from), HasMore: len(found) > size}
	for _, change := range found[:min(size, len(found))] {
		part.Cursor = changeCursor.text(0, change.Seq)
		part.List = append(part.List, changeShown(change, from))
	}
	return part, nil
}

// changeShown is a change, for a reader who has all changes up to a version.
func changeShown(change stream.Change, after uint64) graph.BadgeChange {
	state := change.State
	shown := graph.BadgeChange{
		UserID: services.GlobalID(services.UserType, change.Key), Key: change.Key, Version: stream.VersionText(change.Seq), At: change.At,
		Total: state.Total.Value, Display: state.Total.Display, Sources: []graph.BadgeChangeSource{}, Dots: append([]string{}, state.Dots...),
		Quiet: state.Quiet, Silent: change.Silent(after),
	}
	for _, part := range state.Parts {
		changed := part.Changed > after
		if part.Value == 0 && !changed {
			continue
		}
		shown.Sources = append(shown.Sources, graph.BadgeChangeSource{
			Source: part.Source, Part: orNone(part.Name), Count: part.Value, Display: part.Display, InTotal: part.InTotal, Changed: changed,
		})
	}
	if cause := state.Cause; cause != nil && !shown.Silent {
		shown.Cause = &graph.BadgeChangeCause{Source: cause.Source, Part: orNone(cause.Part), ItemID: cause.ID, At: cause.At}
	}
	return shown
}

// orNone is a text, nil for an empty one.
func orNone(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
