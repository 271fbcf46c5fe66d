package people

import (
	"context"

	"tidings/services"
	"tidings/services/sql"
)

// KeyTable serves imports: it gives each key of a file a small index, so that a row is three integers, and remembers the user IDs of the keys
// that are in the database: most lines of a file of follows name users of earlier lines, and need no look-up. indexByKey has the
// keys as the file has them, without the prefix.
//
// A server may erase a user between two batches, so the IDs are checked in the transaction of each batch. A key whose user was erased
// gets a new user there (EnsureUsers).
//
// Every key in the table becomes a user with the next commit. So rows are checked whole before their keys enter it.
type KeyTable struct {
	prefix        string            // is put before every key of the file
	indexByKey    map[string]int32  // the index of each key in keys
	keys          []string          // as the database has them, with the prefix
	ids           []services.UserID // of keys[:resolvedCount]
	resolvedCount int               // keys[:resolvedCount] have their IDs
}

// maxTableKeys bounds the memory for the keys that were met: beyond it they are forgotten and asked for again.
const maxTableKeys = 1_000_000

// NewKeyTable makes an empty table, for a file or after too many keys.
func NewKeyTable(prefix string) *KeyTable {
	return &KeyTable{prefix: prefix, indexByKey: map[string]int32{}}
}

// CheckKey reports whether a key is valid. A key of the table was checked when it came, which saves most of the work in a file
// of follows.
func (k *KeyTable) CheckKey(field []byte) error {
	if _, found := k.indexByKey[string(field)]; found {
		return nil
	}
	if len(field) == 0 {
		return services.Errorf(services.Invalid, "a key is empty")
	}
	return services.CheckUserKey(k.FullKey(field))
}

// FullKey is a key of the file as the database has it, with the prefix.
func (k *KeyTable) FullKey(field []byte) string { return k.prefix + string(field) }

// IndexOf is the index of a key that was checked, a new one if the table does not have it. An index is valid until the next
// RememberIDs.
func (k *KeyTable) IndexOf(field []byte) int32 {
	index, found := k.indexByKey[string(field)]
	if !found {
		index = int32(len(k.keys))
		k.indexByKey[string(field)] = index
		k.keys = append(k.keys, k.FullKey(field))
	}
	return index
}

// UnresolvedKeys lists the keys whose user IDs are not known yet.
func (k *KeyTable) UnresolvedKeys() []string { return k.keys[k.resolvedCount:] }

// EnsureUsers makes the users of new keys, for a batch that uses some indexes, and returns their IDs. It also returns new IDs of keys
// whose users were erased since the table learned their IDs: rows with the former IDs would be rows of nobody, which no erasure
// finds. The users cannot be erased before the transaction ends. The error is CONFLICT if one is being erased.
func (k *KeyTable) EnsureUsers(ctx context.Context, tx *sql.Tx, used []int32) (read map[string]services.UserID, err error) {
	known := make(map[services.UserID]string, min(len(used), k.resolvedCount))
	for _, index := range used {
		if int(index) < k.resolvedCount {
			known[k.ids[index]] = k.keys[index]
		}
	}
	return EnsureLocked(ctx, tx, k.UnresolvedKeys(), known)
}

// ID is the ID of a key, from the table or from read, which has the IDs that EnsureUsers has just read.
func (k *KeyTable) ID(index int32, read map[string]services.UserID) services.UserID {
	if id, fresh := read[k.keys[index]]; fresh {
		return id
	}
	return k.ids[index]
}

// RememberIDs keeps the IDs that a transaction has read. It is called after the commit, when no row of the batch needs its indexes any
// more. So it can empty a table that has become large.
func (k *KeyTable) RememberIDs(read map[string]services.UserID) {
	// The whole table is emptied: to forget only the oldest keys would need an order, and the next lines name the frequent keys
	// again anyway.
	if len(k.keys) > maxTableKeys {
		*k = *NewKeyTable(k.prefix)
		return
	}
	k.resolvedCount = len(k.keys)
	k.ids = append(k.ids, make([]services.UserID, k.resolvedCount-len(k.ids))...)
	for key, id := range read {
		k.ids[k.indexByKey[key[len(k.prefix):]]] = id
	}
}
