package resolvers

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/99designs/gqlgen/graphql"

	"tidings/graph"
	"tidings/services"
	"tidings/services/messages"
	"tidings/services/refs"
)

// The host application can use refs, its own IDs, wherever an ID stands, and can label the objects that it creates. For all
// operations, IDs by ref are replaced by IDs before the operation reads its input.

// maxInputRefs bounds the refs in one input: they are found with one statement.
const maxInputRefs = 500

// fieldIndexes are the positions of an input's fields that contain IDs, a ref or a label. They are found by reflection once for
// each type. They are indexes and not names, because every request reads its input by them.
type fieldIndexes struct {
	ids            []int // the fields that hold IDs
	ref, url, data int   // -1: the input has no such field
}

// omittableIDs is a list of IDs that keeps the present list if it is absent.
type omittableIDs = graphql.Omittable[[]string]

// findFieldIndexes finds the fields of an input. It panics if a field with IDs has a type that replaceIDs does not know, so that the
// program does not start. Otherwise refs would reach a command unresolved.
func findFieldIndexes(input reflect.Type) fieldIndexes {
	// The schema tells which fields hold IDs; ref, url and data have fixed names in all inputs.
	fields := fieldIndexes{ids: graph.IDFieldPositions(input), ref: -1, url: -1, data: -1}
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

// replaceIDs replaces the IDs of an input, and ends at the first error. field is the name of the field in the schema. Lists and
// pointers are replaced and not changed, because the executor may keep them. Every kind of field that findFieldIndexes lets pass
// has its case here.
func (n fieldIndexes) replaceIDs(input reflect.Value, replace func(field, id string) (string, error)) error {
	for _, i := range n.ids {
		name, _, _ := strings.Cut(input.Type().Field(i).Tag.Get("json"), ",")
		switch field := input.Field(i); {
		// A list that an edit may leave out: absent and null stay as they are.
		case field.Kind() == reflect.Struct:
			if ids := field.Interface().(omittableIDs).Value(); len(ids) > 0 {
				replaced, err := replaceEach(ids, name, replace)
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
		// An optional ID or a list that was not given. A command may tell it from an empty list, so it stays nil.
		case field.IsNil():
		case field.Kind() == reflect.Pointer:
			id, err := replace(name, field.Elem().String())
			if err != nil {
				return err
			}
			field.Set(reflect.ValueOf(&id))
		default:
			ids, err := replaceEach(field.Interface().([]string), name, replace)
			if err != nil {
				return err
			}
			field.Set(reflect.ValueOf(ids))
		}
	}
	return nil
}

// replaceEach returns a copy of a list of IDs in which each is replaced. The copy becomes part of the input.
func replaceEach(list []string, field string, replace func(field, id string) (string, error)) (ids []string, err error) {
	ids = slices.Clone(list)
	for k := range ids {
		if ids[k], err = replace(field, ids[k]); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// refsIn returns the refs among the IDs of an input. It goes through the IDs by replaceIDs, and replaces none. The error is INVALID for a
// malformed ref, and for more than maxInputRefs. A batch calls refsIn to find the refs of many events with one statement, before any of
// them is resolved.
func (n fieldIndexes) refsIn(input reflect.Value) (list []services.Ref, err error) {
	err = n.replaceIDs(input, func(field, id string) (string, error) {
		if !services.IsRef(id) {
			return id, nil
		}
		ref, err := services.ParseRef(field, id)
		if list = append(list, ref); err == nil && len(list) > maxInputRefs {
			err = services.Errorf(services.Invalid, "%s: up to %d objects can be named by their refs, got more", field, maxInputRefs)
		}
		return id, err
	})
	return list, err
}

// resolveRefs replaces the refs in the IDs of an input. The error is NOT_FOUND for a ref without an object, and, in the same words,
// for an object that the actor may not see. The host application may see all. With joins, every user may see all ROOMs.
// Afterwards the input is as if its sender had known the IDs, so its hash under an idempotency key is the same by ref and by ID.
// byRef reports whether there was a ref. After an error some refs may have been replaced.
func (c *operationCall) resolveRefs(ctx context.Context, fields fieldIndexes, input reflect.Value, joins bool) (byRef bool, err error) {
	// Most inputs have no refs, and need only one pass over their IDs.
	list, err := fields.refsIn(input)
	if err != nil || len(list) == 0 {
		return false, err
	}
	// For a batch, the refs were found together. The rights are those of the host application, which sends the batch, and not the
	// actor's.
	found := c.refHolders
	if found == nil {
		if found, err = c.r.findByRefs(ctx, c.actor, list, joins); err != nil {
			return true, err
		}
	}
	return true, fields.replaceIDs(input, func(field, id string) (string, error) {
		if !services.IsRef(id) {
			return id, nil
		}
		ref, err := services.ParseRef(field, id)
		if err != nil {
			return "", err
		}
		holder, known := found[ref]
		if !known {
			return "", refNotFound(field, id)
		}
		return holder.Object.GlobalID(), nil
	})
}

// refNotFound is the error for a ref that names nothing that the caller may know of. A user who guesses refs, such as order numbers,
// gets the same words for another user's order and for one that never existed.
func refNotFound(field, id string) error {
	return services.Errorf(services.NotFound, "%s: there is no %s", field, id)
}

// resolveID returns the ID that an argument of a query names: the argument itself, or the ID of the object that has the ref. The error is
// NOT_FOUND for a ref without an object that the viewer may see or has created. Inputs of mutations go through resolveRefs.
func (r *Resolver) resolveID(ctx context.Context, viewer services.UserID, field, id string) (string, error) {
	if !services.IsRef(id) {
		return id, nil
	}
	ref, err := services.ParseRef(field, id)
	if err != nil {
		return "", err
	}
	found, err := r.findByRefs(ctx, viewer, []services.Ref{ref}, false)
	if err != nil {
		return "", err
	}
	holder, known := found[ref]
	if !known {
		return "", refNotFound(field, id)
	}
	return holder.Object.GlobalID(), nil
}

// resolveOptionalID is resolveID for an optional argument; nil stays nil.
func (r *Resolver) resolveOptionalID(ctx context.Context, viewer services.UserID, field string, id *string) (*string, error) {
	if id == nil || !services.IsRef(*id) {
		return id, nil
	}
	named, err := r.resolveID(ctx, viewer, field, *id)
	return &named, err
}

// findByRefs finds the objects of refs that a user may see or has created. With joins it also finds every ROOM, because anybody may
// join one. User 0 is the host application. Refs are texts that people can guess, such as order numbers, so an object that a viewer
// may not see must look as if it did not exist. An object that the user created is found in any state: the ref of a deleted post
// still names the user's own post, and the command then says that it is gone.
func (r *Resolver) findByRefs(ctx context.Context, viewer services.UserID, list []services.Ref, joins bool) (map[services.Ref]refs.RefHolder, error) {
	// The host application may see everything, and needs no check.
	found, err := r.Refs.Find(ctx, list)
	if err != nil || viewer == 0 || len(found) == 0 {
		return found, err
	}
	// Objects that the viewer created need no check. The others are checked type by type, with one read for each type.
	numbers := map[string][]uint64{}
	for _, holder := range found {
		if holder.Owner != viewer {
			numbers[holder.Object.Type] = append(numbers[holder.Object.Type], holder.Object.Number)
		}
	}
	seen := map[services.Object]bool{}
	for kind, list := range numbers {
		if err := r.addVisibleObjects(ctx, viewer, kind, list, seen); err != nil {
			return nil, err
		}
	}
	// A ROOM is open to everybody, so its ref is no secret for somebody who wants to join it.
	if joins {
		rooms, err := r.Chat.Rooms(ctx, numbersAs[services.ConversationID](numbers[services.ConversationType]))
		if err != nil {
			return nil, err
		}
		addFoundObjects(seen, services.ConversationType, rooms)
	}
	// A ref that is left out here looks like one that does not exist.
	for ref, holder := range found {
		if holder.Owner != viewer && !seen[holder.Object] {
			delete(found, ref)
		}
	}
	return found, nil
}

// addVisibleObjects adds the objects of one type that the viewer may see. Each type is checked as its own reads check it; nobody
// sees a type without a case. A new type with refs needs a case, and until then its refs are for its creator and the host
// application.
func (r *Resolver) addVisibleObjects(ctx context.Context, viewer services.UserID, kind string, numbers []uint64, seen map[services.Object]bool) (err error) {
	switch kind {
	case services.PostType, services.ShowType:
		keys := shownObjectIDs{}
		if kind == services.PostType {
			keys.posts = numbersAs[services.PostID](numbers)
		} else {
			keys.shows = numbersAs[services.ShowID](numbers)
		}
		visible, err := r.readVisibleObjects(ctx, viewer, keys)
		if err != nil {
			return err
		}
		addFoundObjects(seen, kind, visible.posts)
		addFoundObjects(seen, kind, visible.shows)
	// ByID returns only conversations that the viewer is in.
	case services.ConversationType:
		states, err := r.Chat.ByID(ctx, viewer, numbersAs[services.ConversationID](numbers))
		addFoundObjects(seen, kind, states)
		return err
	case services.MessageType:
		found, err := r.Chat.ReadMessages(ctx, viewer, numbersAs[services.MessageID](numbers))
		addFoundObjects(seen, kind, found)
		return err
	case services.SiteMessageType:
		found, err := r.Messages.ByID(ctx, viewer, numbersAs[messages.ID](numbers))
		addFoundObjects(seen, kind, found)
		return err
	case services.AnnouncementType:
		found, err := r.Announcements.Visible(ctx, viewer, numbersAs[services.AnnouncementID](numbers))
		addFoundObjects(seen, kind, found)
		return err
	}
	return nil
}

// numbersAs returns numbers of objects as IDs of the type N. The numbers come from the table of refs, which has one column for
// all types.
func numbersAs[N ~uint64 | ~uint32](numbers []uint64) []N {
	return services.Map(numbers, func(number uint64) N { return N(number) })
}

// addFoundObjects adds the objects of one type that were found. Only the keys of found matter.
func addFoundObjects[N ~uint64 | ~uint32, V any](seen map[services.Object]bool, kind string, found map[N]V) {
	for number := range found {
		seen[services.Object{Type: kind, Number: uint64(number)}] = true
	}
}
