// Package refs keeps the labels that the host application attaches to the objects that it creates. A label has the host's own
// ID of the object (a ref), an address, and data.
//
// A ref belongs to one object of its type for ever, also when the object is deleted: a create that is repeated late must not
// bring the object back. The removal of a user frees the refs of their objects, and the refs of their DIRECT conversations,
// which nobody can create again. A ref is claimed in the transaction that creates its object, so that only one of two creates
// with one ref creates an object, and the other returns the same object. Labels are read from SQL; nothing of them is in
// Redis.
//
// Features make their commands without labels; the resolvers extend the commands with LabelOnCreate or LabelOnEdit. The table's two
// unique keys, by object and by ref, decide every race: after a conflict the row is read.
package refs

import (
	"context"
	"errors"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/sql"
)

// RefHolder is the object that has a ref, and the user who created it: 0 for the host application. The object may be deleted.
type RefHolder struct {
	Object services.Object
	Owner  services.UserID
}

// LabelOnCreate extends a command that creates an object of a type: it then labels the object too. If an object of the same creator
// has the ref already, the command changes nothing and returns that object's ID, even if the other input differs or the object
// was deleted since. If the object exists already and has no ref, it gets the ref. The error is CONFLICT if another user's
// object has the ref, or the object has another ref. The caller has checked the label.
//
// Two users have one DIRECT conversation, no matter which of them creates it: the conversation counts as created by both
// users, and a second create may reopen it.
func LabelOnCreate(cmd *jobs.Command, kind string, label services.Label) {
	apply := cmd.Apply
	cmd.Apply = func(ctx context.Context, tx *sql.Tx) ([]string, error) {
		holder, found, err := findHolder(ctx, tx, kind, label.Ref)
		if err != nil {
			return nil, err
		}
		// The object is there: do not run the create at all, as it may count against a limit or notify.
		if found && kind != services.ConversationType {
			return holder.answerRepeatedCreate(cmd.Actor, label.Ref)
		}
		ids, err := apply(ctx, tx)
		unchanged := errors.Is(err, jobs.ErrUnchanged)
		switch {
		// The create returned the same conversation.
		case found && (err == nil || unchanged) && ids[0] == holder.Object.GlobalID():
			return ids, err
		case found:
			return holder.answerRepeatedCreate(cmd.Actor, label.Ref)
		case err != nil && !unchanged || unchanged && label.Ref == "":
			return ids, err
		}
		object, err := services.ParseObject("id", ids[0])
		if err != nil {
			return nil, err
		}
		// With 0 rows, the ref or the object has a row already, or has got one since findHolder.
		labelled, err := tx.Run(ctx, insertLabel, kind, object.Number, label.Ref, cmd.Actor, label.URL, label.Data)
		if err == nil && labelled == 0 {
			var had []string
			if had, labelled, err = resolveConflict(ctx, tx, object, label, cmd.Actor); had != nil {
				return had, err
			}
		}
		// The caller learns that the object was there, though its label is new.
		if unchanged && labelled > 0 {
			ids = append(ids, jobs.ExistingObjectMarker)
		} else if unchanged && err == nil {
			err = jobs.ErrUnchanged // somebody else has created and labelled it meanwhile
		}
		return ids, err
	}
}

// findHolder returns the object that has a ref, in a transaction. No object has the empty ref.
func findHolder(ctx context.Context, tx *sql.Tx, kind, ref string) (holder RefHolder, found bool, err error) {
	if ref == "" {
		return holder, false, nil
	}
	holder.Object.Type = kind
	found, err = tx.One(ctx, holderOf, []any{kind, ref}, &holder.Object.Number, &holder.Owner)
	return holder, found, err
}

// answerRepeatedCreate returns the answer of a create whose ref has an object already: the object's ID, with jobs.ErrUnchanged. For
// another creator the error is CONFLICT, which does not name the object's owner.
func (h RefHolder) answerRepeatedCreate(creator services.UserID, ref string) ([]string, error) {
	if h.Owner != creator {
		return nil, services.Errorf(services.Conflict, "ref: %s is taken", services.Quote(ref))
	}
	return []string{h.Object.GlobalID()}, jobs.ErrUnchanged
}

// resolveConflict handles a label that was not inserted. If another transaction has claimed the ref meanwhile, it returns the
// object of that transaction. Otherwise the object already has a label, which gets the ref if it has none. nil ids without an error
// mean that nothing is left to do; named is 1 if the object got the ref here.
func resolveConflict(ctx context.Context, tx *sql.Tx, object services.Object, label services.Label, creator services.UserID) (ids []string, named int, err error) {
	holder, found, err := findHolder(ctx, tx, object.Type, label.Ref)
	switch {
	case err != nil || label.Ref == "":
		return nil, 0, err
	case found && holder.Object == object:
		return nil, 0, nil // the object has the ref already
	case found:
		ids, err = holder.answerRepeatedCreate(creator, label.Ref)
		return ids, 0, err
	}
	// The object's label has no ref. The statement checks that again, since another transaction may have set one.
	named, err = tx.Run(ctx, setRef, object.Type, object.Number, label.Ref, creator)
	if err == nil && named == 0 {
		err = services.Errorf(services.Conflict, "ref: %s has another ref", object.GlobalID())
	}
	return nil, named, err
}

// LabelOnEdit extends a command that edits an object: it then changes the url and the data of the label too, each unless it is nil; ""
// removes it. The caller has checked both. A command that changes nothing else succeeds if the label changes.
func LabelOnEdit(cmd *jobs.Command, object services.Object, url, data *string) {
	apply := cmd.Apply
	cmd.Apply = func(ctx context.Context, tx *sql.Tx) ([]string, error) {
		ids, err := apply(ctx, tx)
		if err != nil && !errors.Is(err, jobs.ErrUnchanged) {
			return ids, err
		}
		changed := false
		for _, part := range []struct {
			value      *string
			set, clear sql.Statement
		}{{url, setURL, clearURL}, {data, setData, clearData}} {
			count, failed := 0, error(nil)
			switch {
			case part.value == nil:
			case *part.value == "":
				count, failed = tx.Run(ctx, part.clear, object.Type, object.Number)
			default:
				count, failed = tx.Run(ctx, part.set, object.Type, object.Number, cmd.Actor, *part.value)
			}
			if failed != nil {
				return nil, failed
			}
			changed = changed || count > 0
		}
		if changed {
			err = nil
		}
		return ids, err
	}
}

// ObjectWithRef is an object with its ref.
type ObjectWithRef struct {
	Ref services.Ref
	RefHolder
}

// insertRefs gives new objects their refs, in their order, and returns the number of refs. It omits a ref or an object that is
// taken: the caller then rolls the whole import back. The caller has checked the refs. One statement inserts all, because an
// import has thousands.
func insertRefs(ctx context.Context, tx *sql.Tx, objects []ObjectWithRef) (inserted int, err error) {
	rows := services.Map(objects, func(o ObjectWithRef) []any {
		return []any{o.Ref.Type, int64(o.Object.Number), o.Ref.Text, o.Owner, "", ""}
	})
	return tx.Insert(ctx, importRefs, rows)
}

// findHolders finds the objects of refs, deleted ones too; a ref without an object is absent. It takes one statement for each type.
func findHolders(ctx context.Context, r sql.Reader, refs []services.Ref) (map[services.Ref]RefHolder, error) {
	texts := map[string][]string{}
	for _, ref := range refs {
		texts[ref.Type] = append(texts[ref.Type], ref.Text)
	}
	found := make(map[services.Ref]RefHolder, len(refs))
	for kind, list := range texts {
		err := r.Each(ctx, holdersOf, []any{kind, list}, func(scan func(...any) error) error {
			ref, holder := services.Ref{Type: kind}, RefHolder{Object: services.Object{Type: kind}}
			err := scan(&ref.Text, &holder.Object.Number, &holder.Owner)
			found[ref] = holder
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// Labels reads the labels of objects; an object without one is absent. It takes one statement for each type.
func Labels(ctx context.Context, r sql.Reader, objects []services.Object) (map[services.Object]services.Label, error) {
	numbers := map[string][]uint64{}
	for _, object := range objects {
		numbers[object.Type] = append(numbers[object.Type], object.Number)
	}
	found := make(map[services.Object]services.Label, len(objects))
	for kind, list := range numbers {
		err := r.Each(ctx, labelStatements[kind], []any{sql.Numbers(list)}, func(scan func(...any) error) error {
			object, label := services.Object{Type: kind}, services.Label{}
			err := scan(&object.Number, &label.Ref, &label.URL, &label.Data)
			found[object] = label
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// DeleteLabels deletes the labels of objects that are gone for good: their refs are free again. Objects that are only marked as
// deleted keep their labels.
func DeleteLabels[ID ~uint64](ctx context.Context, tx *sql.Tx, kind string, objects []ID) error {
	_, err := tx.Run(ctx, deleteLabels, kind, sql.Numbers(objects))
	return err
}

// ClearLabel removes the url and the data of an object that was taken back before anybody had it. Its ref stays taken, so that a late
// repetition of the create finds the object.
func ClearLabel(ctx context.Context, tx *sql.Tx, object services.Object) error {
	cleared, err := tx.Run(ctx, clearLabel, object.Type, object.Number)
	if err == nil && cleared > 0 { // an object without a label has no row
		_, err = tx.Run(ctx, deleteEmptyLabel, object.Type, object.Number)
	}
	return err
}

// FreeRef removes the ref of an object that can no longer be created again: the ref is free, and the url and the data stay. The
// row is deleted if it has neither url nor data.
func FreeRef(ctx context.Context, tx *sql.Tx, object services.Object) error {
	freed, err := tx.Run(ctx, freeRef, object.Type, object.Number)
	if err == nil && freed > 0 { // an object without a label has no row
		_, err = tx.Run(ctx, deleteEmptyLabel, object.Type, object.Number)
	}
	return err
}

// Service reads refs and labels for the resolvers.
type Service struct{ db *sql.DB }

// New makes the service.
func New(db *sql.DB) *Service { return &Service{db} }

// Find finds the objects of refs, deleted ones too; a ref without an object is absent.
func (s *Service) Find(ctx context.Context, refs []services.Ref) (map[services.Ref]RefHolder, error) {
	return findHolders(ctx, s.db, refs)
}

// Labels calls the function Labels on the service's database.
func (s *Service) Labels(ctx context.Context, objects []services.Object) (map[services.Object]services.Label, error) {
	return Labels(ctx, s.db, objects)
}
