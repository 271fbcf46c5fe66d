package refs

import (
	"context"
	"slices"

	"tidings/services"
	"tidings/services/importer"
	"tidings/services/sql"
)

// The key of an imported object is its ref: ingest, the API and other imports know the object by the same name.

// CheckKey checks a key of an object in a line; field names it in the error.
func CheckKey(field, key string) error {
	if err := services.CheckRef(key); err != nil {
		return services.Errorf(services.Invalid, "%s: %s", field, err)
	}
	return nil
}

// FindKeys finds the objects of one type that have some keys, in one statement. It sorts keys in place. A key without an
// object is absent.
func FindKeys(ctx context.Context, stored sql.Reader, kind string, keys []string) (map[services.Ref]RefHolder, error) {
	slices.Sort(keys)
	keys = slices.Compact(keys)
	return findHolders(ctx, stored, services.Map(keys, func(key string) services.Ref { return services.Ref{Type: kind, Text: key} }))
}

// NewObject is a new object with the ref that a line gives it.
func NewObject(ref services.Ref, id uint64, owner services.UserID) ObjectWithRef {
	return ObjectWithRef{Ref: ref, RefHolder: RefHolder{Object: services.Object{Type: ref.Type, Number: id}, Owner: owner}}
}

// ImportAll gives new objects their refs, or returns importer.ErrTaken: another import or an ingest took one of the keys since the
// batch was planned, and the caller's transaction is to be rolled back.
func ImportAll(ctx context.Context, tx *sql.Tx, named []ObjectWithRef) error {
	// insertRefs omits a ref that is taken, without an error: then it inserts fewer refs than were given.
	inserted, err := insertRefs(ctx, tx, named)
	if err == nil && inserted < len(named) {
		err = importer.ErrTaken
	}
	return err
}
