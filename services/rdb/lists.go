package rdb

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"tidings/services"
	"tidings/services/redis"
)

// List is a list of items by followed authors that a feature keeps in users' views, beside the inbox: a ZSET that is made
// when it is first read. The document's scripts maintain it: it is deleted with the document, expires with it, and loses an
// author's entries when the author is unfollowed. The cleaner cuts it to the listed length.
type List struct {
	Part string        // of its key, see redis.UserKey: a small letter
	Lua  string        // Lua source that defines the function Drop; it is inserted into inbox_drop.lua
	Drop string        // the Lua function that removes an author: its arguments are the key and the author, see AuthorLetters
	Trim *redis.Script // cuts KEYS[1], and returns how many entries it cut
}

// lists are the registered lists. They are registered by package variables before main and never change afterwards, so they
// need no lock.
var lists []List

// RegisterList registers a list and returns it. Call it from package variables, before the first Projections. It panics if
// another list has the part.
func RegisterList(list List) List {
	if slices.ContainsFunc(lists, func(l List) bool { return l.Part == list.Part }) {
		panic(fmt.Sprintf("rdb: the list %s is registered twice", list.Part))
	}
	lists = append(lists, list)
	// The list's functions go into inbox_drop.lua, so that an unfollow is one script for all lists. The script was
	// registered before, so its text is replaced in place: its pointer is in the engine's list already.
	text, drops, _ := strings.Cut(inboxDrop.Source, dropsEnd)
	*inboxDrop = *redis.NewScript(inboxDrop.Name, fmt.Sprintf("%s%s\ndrops[#drops + 1] = %s\n%s%s", text, list.Lua, list.Drop, dropsEnd, drops))
	return list
}

// dropsEnd marks the place in inbox_drop.lua before which the registered lists' functions are inserted.
const dropsEnd = "-- The lists' functions end here.\n"

// Key is the key of a user's list.
func (l List) Key(user services.UserID) string { return redis.UserKey(user, ":"+l.Part) }

// listKeys are a user's registered lists.
func listKeys(user services.UserID) []string {
	keys := make([]string, len(lists))
	for i, list := range lists {
		keys[i] = list.Key(user)
	}
	return keys
}

// listOf is the registered list of a part. There are one or two lists, so no map is needed.
func listOf(part string) (list List, found bool) {
	at := slices.IndexFunc(lists, func(l List) bool { return l.Part == part })
	if at < 0 {
		return list, false
	}
	return lists[at], true
}

// LongList is a user's registered list with more entries than are ever shown.
type LongList struct {
	User services.UserID
	part string // of the key: which list it is
}

// TrimLists cuts lists down to the listed length, and returns how many entries it cut from each.
func (c *Projections) TrimLists(ctx context.Context, long []LongList) (cut []int, err error) {
	cut = make([]int, len(long))
	// Each list has a script of its own, so the calls go out list by list, and the results return to their places.
	for _, list := range lists {
		var calls []redis.Call
		var places []int
		for i, one := range long {
			if one.part == list.Part {
				calls, places = append(calls, redis.Call{Keys: []string{list.Key(one.User)}}), append(places, i)
			}
		}
		entries, err := c.runDrop(ctx, list.Trim, calls)
		if err != nil {
			return nil, err
		}
		// entries are in the order of calls, and places leads back to the order of long.
		for i, at := range places {
			cut[at] = entries[i]
		}
	}
	return cut, nil
}

// leaseParts are the registered parts of users' keys that do not belong to a view, see RegisterLease.
var leaseParts []string

// RegisterLease registers a part of users' keys that does not belong to their views: a HASH that expires by itself. The cleaner
// drops such a key if it has no expiry. A key of the wrong type is deleted alone, without the view. Call it from package variables;
// it panics if another lease has the part.
func RegisterLease(part string) string {
	if slices.Contains(leaseParts, part) {
		panic(fmt.Sprintf("rdb: the lease %s is registered twice", part))
	}
	leaseParts = append(leaseParts, part)
	return part
}
