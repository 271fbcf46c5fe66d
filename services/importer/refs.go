package importer

import (
	"context"
	"slices"

	"tidings/services"
	"tidings/services/refs"
	"tidings/services/sql"
)

// The key of an imported object is its ref: ingest, the API and other imports know the object by the same name.

// checkRefKey checks a key of an object in a line; field names it in the error.
func checkRefKey(field, key string) error {
	if err := services.CheckRef(key); err != nil {
		return services.Errorf(services.Invalid, "%s: %s", field, err)
	}
	return nil
}

// findRefs finds the objects of one type that have some keys, in one statement. It sorts keys in place. A key without an
// object is absent.
func findRefs(ctx context.Context, stored sql.Reader, kind string, keys []string) (map[services.Ref]refs.RefHolder, error) {
	slices.Sort(keys)
	keys = slices.Compact(keys)
	list := make([]services.Ref, len(keys))
	for i, key := range keys {
		list[i] = services.Ref{Type: kind, Text: key}
	}
	return refs.Find(ctx, stored, list)
}

// namedObject is a new object with the ref that a line gives it.
func namedObject(ref services.Ref, id uint64, owner services.UserID) refs.ObjectWithRef {
	return refs.ObjectWithRef{Ref: ref, RefHolder: refs.RefHolder{Object: services.Object{Type: ref.Type, Number: id}, Owner: owner}}
}

// importRefs gives new objects their refs, or returns errKeyOrIDTaken: another import or an ingest took one of the keys since the
// batch was planned, and the caller's transaction is to be rolled back.
func importRefs(ctx context.Context, tx *sql.Tx, named []refs.ObjectWithRef) error {
	// refs.Import omits a ref that is taken, without an error: then it inserts fewer refs than were given.
	inserted, err := refs.Import(ctx, tx, named)
	if err == nil && inserted < len(named) {
		err = errKeyOrIDTaken
	}
	return err
}
