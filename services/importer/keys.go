package importer

import (
	"tidings/services"
)

// keyTable gives each key of the file a small index, so that a row is three integers, and remembers the user IDs of the keys that are in
// the database. Keys are stored as the file has them, without the prefix.
type keyTable struct {
	prefix string
	places map[string]int32
	keys   []string // as the database has them, with the prefix
	ids    []services.UserID
	known  int // keys[:known] have their IDs
}

func newKeyTable(prefix string) *keyTable {
	return &keyTable{prefix: prefix, places: map[string]int32{}}
}

func (k *keyTable) check(field []byte) error {
	if _, found := k.places[string(field)]; found {
		return nil
	}
	if len(field) == 0 {
		return services.Errorf(services.Invalid, "a key is empty")
	}
	return services.CheckUserKey(k.prefix + string(field))
}

func (k *keyTable) place(field []byte) int32 {
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

// id is the ID of a key, from the table or from those that the transaction has just read.
func (k *keyTable) id(index int32, read map[string]services.UserID) services.UserID {
	if int(index) < k.known {
		return k.ids[index]
	}
	return read[k.keys[index]]
}

// learn keeps the IDs that a transaction has read. It is called after its commit. A table that has become large is emptied.
func (k *keyTable) learn(read map[string]services.UserID) {
	if len(k.keys) > mostKeys {
		*k = *newKeyTable(k.prefix)
		return
	}
	for _, key := range k.keys[k.known:] {
		k.ids = append(k.ids, read[key])
	}
	k.known = len(k.keys)
}
