package resolvers

import (
	"context"

	"tidings/dataloader"
	"tidings/graph"
	"tidings/services"
)

// readNodes reads the objects of IDs, including IDs by ref. A ref is replaced by the ID of its object, and the object is then found
// under the ref and the ID. Whether the viewer may see the object is decided as for any ID. A ref whose object the viewer may not see
// looks like a ref that does not exist. The fields that asked by a ref are also added for the ID, so that the parts of a conversation
// are read no matter which of the two names it.
func (r *Resolver) readNodes(ctx context.Context, viewer *graph.Viewer, ids *nodeIDs) (map[string]graph.Node, error) {
	list := make([]services.Ref, 0, len(ids.refFields))
	for id := range ids.refFields {
		if ref, err := services.ParseRef("id", id); err == nil { // add has parsed the IDs, so they are valid
			list = append(list, ref)
		}
	}
	named, err := r.Refs.Find(ctx, list)
	if err != nil {
		return nil, err
	}
	for ref, holder := range named {
		for _, field := range ids.refFields[ref.GlobalID()] {
			if err := ids.add([]string{holder.Object.GlobalID()}, field); err != nil {
				return nil, err
			}
		}
	}
	found, err := r.readNodesByID(ctx, viewer, ids)
	if err != nil {
		return nil, err
	}
	// The object is found under the ref too, because each field finds its object by the text that it was given.
	for ref, holder := range named {
		if node, ok := found[holder.Object.GlobalID()]; ok {
			found[ref.GlobalID()] = node
		}
	}
	// The loader gets the IDs, so that the first field that needs a label reads the labels of all.
	shown := make([]string, 0, len(found))
	for id, node := range found {
		if report, is := node.(*graph.SiteMessageReport); is { // a report has the label of its message
			id = report.SiteMessageID
		}
		shown = append(shown, id)
	}
	dataloader.From(ctx).RecordObjects(shown)
	return found, nil
}
