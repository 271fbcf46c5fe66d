package rdb

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"tidings/services"
	"tidings/services/redis"
)

// FeatureList is a list of items by followed authors that a feature keeps in users' projections, beside the inbox: a ZSET that is made
// when it is first read. The document's scripts maintain it: it is deleted with the document, expires with it, and loses an
// author's entries when the author is unfollowed. The cleaner cuts it to the listed length.
type FeatureList struct {
	KeyPart      string        // the part of its key after the user, see redis.UserKey: a small letter
	Lua          string        // Lua source that defines DropFunction; it is inserted into inbox_drop.lua, after redis.CappedListPart
	DropFunction string        // the Lua function that removes an author: its arguments are the key and the author, see AuthorLetters
	Trim         *redis.Script // cuts KEYS[1], and returns how many entries it cut
}

// registeredLists are the registered lists. They are registered by package variables before main and never change afterwards, so they
// need no lock.
var registeredLists []FeatureList

// RegisterList registers a list and returns it. Call it from package variables, before the first Projections. It panics if
// another list has the part.
func RegisterList(list FeatureList) FeatureList {
	if slices.ContainsFunc(registeredLists, func(l FeatureList) bool { return l.KeyPart == list.KeyPart }) {
		panic(fmt.Sprintf("rdb: the list %s is registered twice", list.KeyPart))
	}
	registeredLists = append(registeredLists, list)
	// The list's functions go into inbox_drop.lua, so that an unfollow is one script for all lists. The script was
	// registered before, so its text is replaced in place: its pointer is in the engine's list already.
	text, drops, _ := strings.Cut(dropFromInboxScript.Source, dropsEndMarker)
	*dropFromInboxScript = *redis.NewScript(dropFromInboxScript.Name, fmt.Sprintf("%s%s\ndrops[#drops + 1] = %s\n%s%s", text, list.Lua, list.DropFunction, dropsEndMarker, drops))
	return list
}

// floorMark stands before the floor in the first member of an inbox or of a registered list. It sorts before every entry.
const floorMark = '!'

// ListFloor returns the floor of an inbox or of a registered list, as the first of its members has it: the position of the newest entry
// that the list has lost or never had. ok is false if the first member is something else: the list is missing, broken or being built.
func ListFloor(members []string) (floor string, ok bool) {
	if len(members) == 0 || members[0] == "" || members[0][0] != floorMark {
		return "", false
	}
	return members[0][1:], true
}

// ParseListEntries parses the members after the first, and returns them newest first. strays is how many of them are no entries.
func ParseListEntries[E any](members []string, parse func(member string) (entry E, ok bool)) (entries []E, strays int) {
	for _, member := range slices.Backward(members[1:]) {
		if entry, ok := parse(member); ok {
			entries = append(entries, entry)
		} else {
			strays++
		}
	}
	return entries, strays
}

// dropsEndMarker marks the place in inbox_drop.lua before which the registered lists' functions are inserted.
const dropsEndMarker = "-- The lists' functions end here.\n"

// Key is the key of a user's list.
func (l FeatureList) Key(user services.UserID) string { return redis.UserKey(user, ":"+l.KeyPart) }

// listKeys are the keys of a user's registered lists.
func listKeys(user services.UserID) []string {
	return services.Map(registeredLists, func(list FeatureList) string { return list.Key(user) })
}

// listByKeyPart returns the registered list whose keys have the part. There are one or two lists, so no map is needed.
func listByKeyPart(part string) (list FeatureList, found bool) {
	at := slices.IndexFunc(registeredLists, func(l FeatureList) bool { return l.KeyPart == part })
	if at < 0 {
		return list, false
	}
	return registeredLists[at], true
}

// LongList is a user's registered list with more entries than are ever shown.
type LongList struct {
	User    services.UserID
	keyPart string // of the key: which list it is
}

// TrimLists cuts lists down to the listed length, and returns how many entries it cut from each.
func (c *Projections) TrimLists(ctx context.Context, long []LongList) (cut []int, err error) {
	cut = make([]int, len(long))
	// Each list has a script of its own, so the calls go out list by list, and the results return to their indexes.
	for _, list := range registeredLists {
		var calls []redis.ScriptCall
		var indexes []int
		for i, one := range long {
			if one.keyPart == list.KeyPart {
				calls, indexes = append(calls, redis.ScriptCall{Keys: []string{list.Key(one.User)}}), append(indexes, i)
			}
		}
		entries, err := c.runDrop(ctx, list.Trim, calls)
		if err != nil {
			return nil, err
		}
		// entries are in the order of calls, and indexes leads back to the order of long.
		for i, at := range indexes {
			cut[at] = entries[i]
		}
	}
	return cut, nil
}

// leaseKeyParts are the parts of users' keys that do not belong to a projection, because they hold leases, which expire by themselves.
// RegisterLeaseKey adds them.
var leaseKeyParts []string

// RegisterLeaseKey registers a part of users' keys that does not belong to their projections: a HASH that expires by itself. The
// cleaner drops such a key if it has no expiry. A key of the wrong type is deleted alone, without the projection. Call it from package
// variables; it panics if another lease has the part.
func RegisterLeaseKey(part string) string {
	if slices.Contains(leaseKeyParts, part) {
		panic(fmt.Sprintf("rdb: the lease %s is registered twice", part))
	}
	leaseKeyParts = append(leaseKeyParts, part)
	return part
}
