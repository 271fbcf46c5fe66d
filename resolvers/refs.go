package resolvers

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/99designs/gqlgen/graphql"

	"tidings/dataloader"
	"tidings/graph"
	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/messages"
	"tidings/services/refs"
)

// The host application can use its own IDs, refs, wherever an ID stands, and can label the objects that it creates. Both are done here for
// all operations: IDs by ref are replaced by IDs before the operation reads its input.

// maxRefs bounds the refs in one input.
const maxRefs = 500

// namedFields are the positions of an input's fields that contain IDs, a ref or a label.
type namedFields struct {
	ids            []int
	ref, url, data int // -1: the input has no such field
}

// omittableIDs is a list of IDs whose absence leaves what is there.
type omittableIDs = graphql.Omittable[[]string]

// namedFieldsOf finds the fields of an input. It panics if a field with IDs has a type that eachID does not know.
func namedFieldsOf(input reflect.Type) namedFields {
	fields := namedFields{ids: graph.IDFields(input), ref: -1, url: -1, data: -1}
	for i := range input.NumField() {
		switch input.Field(i).Name {
		case "Ref":
			fields.ref = i
		case "URL":
			fields.url = i
		case "Data":
			fields.data = i
		}
	}
	for _, i := range fields.ids {
		of := input.Field(i).Type
		if kind := of.Kind(); kind != reflect.String && kind != reflect.Pointer && kind != reflect.Slice && of != reflect.TypeFor[omittableIDs]() {
			panic(fmt.Sprintf("resolvers: the field %s of %s holds IDs in a %s", input.Field(i).Name, input.Name(), kind))
		}
	}
	return fields
}

// eachID replaces the IDs of an input. field is the name of the field in the schema.
func (n namedFields) eachID(input reflect.Value, replace func(field, id string) (string, error)) error {
	for _, i := range n.ids {
		name, _, _ := strings.Cut(input.Type().Field(i).Tag.Get("json"), ",")
		switch field := input.Field(i); {
		case field.Kind() == reflect.Struct:
			if ids := field.Interface().(omittableIDs).Value(); len(ids) > 0 {
				replaced, err := eachOf(ids, name, replace)
				if err != nil {
					return err
				}
				field.Set(reflect.ValueOf(graphql.OmittableOf(replaced)))
			}
		case field.Kind() == reflect.String:
			id, err := replace(name, field.String())
			if err != nil {
				return err
			}
			field.SetString(id)
		case field.IsNil():
		case field.Kind() == reflect.Pointer:
			id, err := replace(name, field.Elem().String())
			if err != nil {
				return err
			}
			field.Set(reflect.ValueOf(&id))
		default:
			ids, err := eachOf(field.Interface().([]string), name, replace)
			if err != nil {
				return err
			}
			field.Set(reflect.ValueOf(ids))
		}
	}
	return nil
}

// eachOf are the IDs of a list, replaced.
func eachOf(list []string, field string, replace func(field, id string) (string, error)) (ids []string, err error) {
	ids = slices.Clone(list)
	for k := range ids {
		if ids[k], err = replace(field, ids[k]); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// refsIn are the refs in the IDs of an input. INVALID for a malformed one.
func (n namedFields) refsIn(input reflect.Value) (list []services.Ref, err error) {
	err = n.eachID(input, func(field, id string) (string, error) {
		if !services.IsRef(id) {
			return id, nil
		}
		ref, err := services.ParseRef(field, id)
		if list = append(list, ref); err == nil && len(list) > maxRefs {
			err = services.Errorf(services.Invalid, "%s: up to %d objects can be named by their refs, got more", field, maxRefs)
		}
		return id, err
	})
	return list, err
}

// resolve replaces the refs in the IDs of an input. NOT_FOUND for a ref without an object, and, in the same words, for an object that the
// actor may not see. The host application may see all. With joins, every user may see all ROOMs.
func (c *call) resolve(ctx context.Context, fields namedFields, input reflect.Value, joins bool) error {
	list, err := fields.refsIn(input)
	if err != nil || len(list) == 0 {
		return err
	}
	found := c.named
	if found == nil {
		if found, err = c.r.byRef(ctx, c.actor, list, joins); err != nil {
			return err
		}
	}
	return fields.eachID(input, func(field, id string) (string, error) {
		if !services.IsRef(id) {
			return id, nil
		}
		ref, err := services.ParseRef(field, id)
		if err != nil {
			return "", err
		}
		holder, known := found[ref]
		if !known {
			return "", noRef(field, id)
		}
		return holder.Object.GlobalID(), nil
	})
}

func noRef(field, id string) error {
	return services.Errorf(services.NotFound, "%s: there is no %s", field, id)
}

// refID is the ID that an argument names, by its ref or directly: see resolve.
func (r *Resolver) refID(ctx context.Context, viewer services.UserID, field, id string) (string, error) {
	if !services.IsRef(id) {
		return id, nil
	}
	ref, err := services.ParseRef(field, id)
	if err != nil {
		return "", err
	}
	found, err := r.byRef(ctx, viewer, []services.Ref{ref}, false)
	if err != nil {
		return "", err
	}
	holder, known := found[ref]
	if !known {
		return "", noRef(field, id)
	}
	return holder.Object.GlobalID(), nil
}

// refIDs is refID for optional arguments, which it replaces.
func (r *Resolver) refIDs(ctx context.Context, viewer services.UserID, field string, id *string) (*string, error) {
	if id == nil || !services.IsRef(*id) {
		return id, nil
	}
	named, err := r.refID(ctx, viewer, field, *id)
	return &named, err
}

// byRef finds the objects of refs that a user may see or has created, with joins also ROOMs. User 0 is the host application.
func (r *Resolver) byRef(ctx context.Context, viewer services.UserID, list []services.Ref, joins bool) (map[services.Ref]refs.Holder, error) {
	found, err := r.Refs.Find(ctx, list)
	if err != nil || viewer == 0 || len(found) == 0 {
		return found, err
	}
	numbers := map[string][]uint64{}
	for _, holder := range found {
		if holder.Owner != viewer {
			numbers[holder.Object.Type] = append(numbers[holder.Object.Type], holder.Object.Number)
		}
	}
	seen := map[services.Object]bool{}
	for kind, list := range numbers {
		if err := r.see(ctx, viewer, kind, list, seen); err != nil {
			return nil, err
		}
	}
	if joins {
		rooms, err := r.Chat.Rooms(ctx, numbersAs[services.ConversationID](numbers[services.ConversationType]))
		if err != nil {
			return nil, err
		}
		note(seen, services.ConversationType, rooms)
	}
	for ref, holder := range found {
		if holder.Owner != viewer && !seen[holder.Object] {
			delete(found, ref)
		}
	}
	return found, nil
}

// see adds the objects of one type that the viewer may see.
func (r *Resolver) see(ctx context.Context, viewer services.UserID, kind string, numbers []uint64, seen map[services.Object]bool) (err error) {
	switch kind {
	case services.PostType, services.ShowType:
		keys := visibleKeys{}
		if ids := numbersAs[services.PostID](numbers); kind == services.PostType {
			keys.posts = ids
		} else {
			keys.shows = ids
		}
		visible, err := r.visible(ctx, viewer, keys)
		if err != nil {
			return err
		}
		note(seen, kind, visible.posts)
		note(seen, kind, visible.shows)
	case services.ConversationType:
		states, err := r.Chat.ByID(ctx, viewer, numbersAs[services.ConversationID](numbers))
		note(seen, kind, states)
		return err
	case services.MessageType:
		found, err := r.Chat.ReadMessages(ctx, viewer, numbersAs[services.MessageID](numbers))
		note(seen, kind, found)
		return err
	case services.SiteMessageType:
		found, err := r.Messages.ByID(ctx, viewer, numbersAs[messages.ID](numbers))
		note(seen, kind, found)
		return err
	case services.AnnouncementType:
		found, err := r.Announcements.Visible(ctx, viewer, numbersAs[services.PostID](numbers))
		note(seen, kind, found)
		return err
	}
	return nil
}

func numbersAs[N ~uint64 | ~uint32](numbers []uint64) []N {
	list := make([]N, len(numbers))
	for i, number := range numbers {
		list[i] = N(number)
	}
	return list
}

func note[N ~uint64 | ~uint32, V any](seen map[services.Object]bool, kind string, found map[N]V) {
	for number := range found {
		seen[services.Object{Type: kind, Number: uint64(number)}] = true
	}
}

// label makes a command also set the label of the object that it creates, or change the label of the object that it edits, as the input
// says. FORBIDDEN for users.
func (o *operation[I]) label(ctx context.Context, c *call, cmd *jobs.Command, input reflect.Value) error {
	ref, refSet := optionalText(input, o.fields.ref)
	url, urlSet := optionalText(input, o.fields.url)
	data, dataSet := optionalText(input, o.fields.data)
	if !refSet && !urlSet && !dataSet {
		return nil
	}
	bearer, err := services.ViewerFrom(ctx)
	if err == nil && o.by == forUser && !bearer.Has(services.ScopeIngest) {
		err = services.Errorf(services.Forbidden, "ref, url and data are for the host application: the token lacks the scope %s", services.ScopeIngest)
	}
	if err == nil && refSet {
		err = services.CheckRef(ref)
	}
	if err == nil {
		err = services.CheckURL("url", url)
	}
	if err == nil {
		err = services.CheckData(data)
	}
	if err != nil {
		return err
	}
	if o.fields.ref >= 0 {
		refs.OnCreate(cmd, o.makes, services.Label{Ref: ref, URL: url, Data: data})
		return nil
	}
	object, err := services.ParseObject("id", c.subject)
	if err != nil {
		return err
	}
	refs.OnEdit(cmd, object, ifSet(url, urlSet), ifSet(data, dataSet))
	return nil
}

// optionalText is the value of an optional field of an input, "" for null, and whether it is given. In a create, null counts as not given.
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

func ifSet(value string, set bool) *string {
	if !set {
		return nil
	}
	return &value
}

// readLabel reads the label of an object, with those of its type that the response shows.
func (r *Resolver) readLabel(ctx context.Context, id string, others []services.Object) (services.Label, error) {
	object, err := services.ParseObject("id", id)
	if err != nil {
		return services.Label{}, err
	}
	return dataloader.From(ctx).Label(ctx, object, others, r.Refs.Labels)
}

// labelOf is one part of a label; nil if it is empty.
func (r *Resolver) labelOf(ctx context.Context, id string, part func(services.Label) string, others ...services.Object) (*string, error) {
	label, err := r.readLabel(ctx, id, others)
	return orNull(part(label)), err
}

func refOf(label services.Label) string  { return label.Ref }
func urlOf(label services.Label) string  { return label.URL }
func dataOf(label services.Label) string { return label.Data }

func postObject(id services.PostID) services.Object {
	return services.Object{Type: services.PostType, Number: uint64(id)}
}

func showObjectOf(id services.PostID) services.Object {
	return services.Object{Type: services.ShowType, Number: uint64(id)}
}

// labels reports whether a field requests the labels of a type.
func (w wanted) labels(kind string) bool {
	return len(w[kind+".ref"])+len(w[kind+".url"])+len(w[kind+".data"]) > 0
}

// labelsOf reads the labels of the items of a page.
func labelsOf[T any](ctx context.Context, r *Resolver, items []T, object func(*T) services.Object) (map[services.Object]services.Label, error) {
	objects := make([]services.Object, len(items))
	for i := range items {
		objects[i] = object(&items[i])
	}
	return r.Refs.Labels(ctx, objects)
}

// appendData writes the data of a label, which is JSON already.
func appendData(to []byte, data string) []byte {
	if data == "" {
		return append(to, "null"...)
	}
	return append(to, data...)
}

// postObjects are the posts that are shown together with one.
func postObjects(post *graph.Post) []services.Object {
	list := make([]services.Object, len(post.Together))
	for i, other := range post.Together {
		list[i] = postObject(other.ID)
	}
	return list
}

// showObjects are the shows that are shown together with one.
func showObjects(show *graph.Show) []services.Object {
	list := make([]services.Object, len(show.Together))
	for i, other := range show.Together {
		list[i] = showObjectOf(other)
	}
	return list
}

// idsOf are the IDs of a list.
func idsOf[T any](list []T, id func(*T) string) []string {
	ids := make([]string, len(list))
	for i := range list {
		ids[i] = id(&list[i])
	}
	return ids
}
