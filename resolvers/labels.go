package resolvers

import (
	"context"
	"reflect"

	"github.com/99designs/gqlgen/graphql"

	"tidings/dataloader"
	"tidings/graph"
	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/refs"
)

// addLabel lets a command also set the label of the object that it creates, or change the label of the object that it edits. The
// label is in the input. Users get FORBIDDEN, because only the host application may set labels: apps show the URLs and the data,
// and must be able to trust them. The label is written in the command's own transaction: an object is never there without its ref,
// and a ref never without its object. If an object of the same creator already has the ref, a create changes nothing: see
// refs.LabelOnCreate.
func (c *operationCall) addLabel(ctx context.Context, op *operationSpec, cmd *jobs.Command, input reflect.Value) error {
	ref, refSet := optionalText(input, op.fields.ref)
	url, urlSet := optionalText(input, op.fields.url)
	data, dataSet := optionalText(input, op.fields.data)
	if !refSet && !urlSet && !dataSet {
		return nil
	}
	// For an operation of the host application (actorHost) the scope has been checked already. An operation of a user (actorUser)
	// may come from the host application too, which acts for the user.
	bearer, err := services.ViewerFrom(ctx)
	if err == nil && op.actorKind == actorUser && !bearer.Has(services.ScopeIngest) {
		err = services.Errorf(services.Forbidden, "ref, url and data are for the host application: the token lacks the scope %s", services.ScopeIngest)
	}
	if err == nil && refSet {
		err = services.CheckRef(ref)
	}
	if err == nil {
		err = services.CheckURL("url", url)
	}
	if err == nil {
		err = services.CheckLabelData(data)
	}
	if err != nil {
		return err
	}
	// Only an input that creates an object has a field for a ref. The object keeps its ref for good.
	if op.fields.ref >= 0 {
		refs.LabelOnCreate(cmd, op.createdType, services.Label{Ref: ref, URL: url, Data: data})
		return nil
	}
	// An edit sets the label of the object that its input names.
	object, err := services.ParseObject("id", c.subjectID)
	if err != nil {
		return err
	}
	refs.LabelOnEdit(cmd, object, pointerIfSet(url, urlSet), pointerIfSet(data, dataSet))
	return nil
}

// optionalText returns the value of an optional field of an input, "" for null, and whether it is given. If the input creates an
// object, null counts as not given. gqlgen makes a pointer for a field that can be absent, and an Omittable where null means something
// else than absence.
func optionalText(input reflect.Value, position int) (value string, given bool) {
	if position < 0 {
		return "", false
	}
	switch field := input.Field(position).Interface().(type) {
	case *string:
		return orEmpty(field), field != nil
	case graphql.Omittable[*string]:
		text, given := field.ValueOK()
		return orEmpty(text), given
	default: // the field means something else in this input
		return "", false
	}
}

// pointerIfSet returns a pointer to the value if it is set, and otherwise nil, which keeps the present value. "" is a value too: it
// removes a URL or the data.
func pointerIfSet(value string, set bool) *string {
	if !set {
		return nil
	}
	return &value
}

// readLabel reads the label of an object, together with the labels of the objects of its type that the response shows. Three fields of
// an object need its label. The first field that is resolved reads the labels of all these objects.
func (r *Resolver) readLabel(ctx context.Context, id string, others []services.Object) (services.Label, error) {
	object, err := services.ParseObject("id", id)
	if err != nil {
		return services.Label{}, err
	}
	return dataloader.From(ctx).Label(ctx, object, others, r.Refs.Labels)
}

// labelOf returns one part of the label of an object; nil if it is empty. A text that was never set is null, so an object without a
// label and one with an empty label are the same to a client.
func (r *Resolver) labelOf(ctx context.Context, id string, part func(services.Label) string, others ...services.Object) (*string, error) {
	label, err := r.readLabel(ctx, id, others)
	return orNull(part(label)), err
}

// refOf, urlOf and dataOf return the parts of a label, for labelOf.
func refOf(label services.Label) string { return label.Ref }

func urlOf(label services.Label) string { return label.URL }

func dataOf(label services.Label) string { return label.Data }

// postObject returns a post as an Object, the form in which labels name objects.
func postObject(id services.PostID) services.Object {
	return services.Object{Type: services.PostType, Number: uint64(id)}
}

// showObjectOf returns a show as an Object, the form in which labels name objects.
func showObjectOf(id services.ShowID) services.Object {
	return services.Object{Type: services.ShowType, Number: uint64(id)}
}

// selectsLabels reports whether a field requests the labels of a type. Most documents request none, and then the labels are not read.
func (w selectedFields) selectsLabels(kind string) bool {
	return len(w[kind+".ref"])+len(w[kind+".url"])+len(w[kind+".data"]) > 0
}

// labelsOf reads the labels of the items of a page, for a compiled answer. Objects without a label are absent in the map.
func labelsOf[T any](ctx context.Context, r *Resolver, items []T, object func(*T) services.Object) (map[services.Object]services.Label, error) {
	objects := make([]services.Object, len(items))
	for i := range items {
		objects[i] = object(&items[i])
	}
	return r.Refs.Labels(ctx, objects)
}

// appendData writes the data of a label, which is JSON already. It was checked when it was set, and is a whole object without white
// space. So it is written into an answer as it is.
func appendData(to []byte, data string) []byte {
	if data == "" {
		return append(to, "null"...)
	}
	return append(to, data...)
}

// postObjects returns the posts that are shown together with a post, as Objects: their labels are read with the label of the post.
func postObjects(post *graph.Post) []services.Object {
	return services.Map(post.Together, func(other services.Post) services.Object { return postObject(other.ID) })
}

// showObjects returns the shows that are shown together with a show, as Objects: their labels are read with the label of the show.
func showObjects(show *graph.Show) []services.Object {
	return services.Map(show.Together, showObjectOf)
}

// idsOf returns the IDs of the items of a list.
func idsOf[T any](list []T, id func(*T) string) []string {
	ids := make([]string, len(list))
	for i := range list {
		ids[i] = id(&list[i])
	}
	return ids
}
