package importer

import (
	"context"

	"tidings/services"
	"tidings/services/people"
	"tidings/services/sql"
)

// keyTable gives each key of the file a small index, so that a row is three integers, and remembers the user IDs of the keys
// that are in the database: most lines of a file of follows name users of earlier lines, and need no look-up. places has the
// keys as the file has them, without the prefix.
//
// A server may erase a user between two batches, so the IDs are checked in the transaction of each batch: see ensure.
//
// Every key in the table becomes a user with the next commit. So rows are checked whole before their keys are placed.
type keyTable struct {
	prefix string
	places map[string]int32  // the index of each key
	keys   []string          // as the database has them, with the prefix
	ids    []services.UserID // of keys[:known]
	known  int               // keys[:known] have their IDs
}

// newKeyTable makes an empty table, for a file or after too many keys.
func newKeyTable(prefix string) *keyTable {
	return &keyTable{prefix: prefix, places: map[string]int32{}}
}

// check reports whether a key is valid. A key of the table was checked when it came, which saves most of the work in a file
// of follows.
func (k *keyTable) check(field []byte) error {
	if _, found := k.places[string(field)]; found {
		return nil
	}
	if len(field) == 0 {
		return services.Errorf(services.Invalid, "a key is empty")
	}
	return services.CheckUserKey(k.prefix + string(field))
}

// indexOf is the index of a key that was checked, a new one if the table does not have it. An index is valid until the next
// learn.
func (k *keyTable) indexOf(field []byte) int32 {
	place, found := k.places[string(field)]
	if !found {
		place = int32(len(k.keys))
		k.places[string(field)] = place
		k.keys = append(k.keys, k.prefix+string(field))
	}
	return place
}

// fresh lists the keys whose user IDs are not known yet.
func (k *keyTable) fresh() []string { return k.keys[k.known:] }

// ensure makes the users of new keys, for a batch that uses some indexes, and returns their IDs. It also returns new IDs of keys
// whose users were erased since the table learned their IDs: rows with the former IDs would be rows of nobody, which no erasure
// finds. The users cannot be erased before the transaction ends. The error is CONFLICT if one is being erased.
func (k *keyTable) ensure(ctx context.Context, tx *sql.Tx, used []int32) (read map[string]services.UserID, err error) {
	known := make(map[services.UserID]string, min(len(used), k.known))
	for _, index := range used {
		if int(index) < k.known {
			known[k.ids[index]] = k.keys[index]
		}
	}
	return people.EnsureHeld(ctx, tx, k.fresh(), known)
}

// id is the ID of a key, from the table or from read, which has the IDs that ensure has just read.
func (k *keyTable) id(index int32, read map[string]services.UserID) services.UserID {
	if id, fresh := read[k.keys[index]]; fresh {
		return id
	}
	return k.ids[index]
}

// learn keeps the IDs that a transaction has read. It is called after the commit, when no row of the batch needs its indexes any
// more. So it can empty a table that has become large.
func (k *keyTable) learn(read map[string]services.UserID) {
	// The whole table is emptied: to forget only the oldest keys would need an order, and the next lines name the frequent keys
	// again anyway.
	if len(k.keys) > mostKeys {
		*k = *newKeyTable(k.prefix)
		return
	}
	k.known = len(k.keys)
	k.ids = append(k.ids, make([]services.UserID, k.known-len(k.ids))...)
	for key, id := range read {
		k.ids[k.places[key[len(k.prefix):]]] = id
	}
}
