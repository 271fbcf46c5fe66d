package rdb

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"tidings/services"
	"tidings/services/redis"
)

// The cleaner finds leftovers in Redis by a walk along all keys, a few at a time. It ignores keys whose names are not ours. The
// walk only picks keys: the script that drops a key checks it again, because the key may have changed since.

// Each script of the cleaner checks the finding of the walk again before it drops or cuts.
var (
	inboxTrim = loadScript("inbox_trim") // cuts an inbox down to what a feed lists
	userDrop  = loadScript("user_drop")  // drops the keys of a user who is dormant or not in SQL
	keyDrop   = loadScript("key_drop")   // drops a Leftover
)

// KeyWalkPosition is the position of a walk along all keys. The zero value is its beginning.
type KeyWalkPosition struct {
	Master string `json:"master"` // the master's address, if there are several: they are walked one after the other
	Cursor uint64 `json:"cursor"` // of SCAN on this master
}

// KeyWalkFindings are the keys that one step of a walk found and that may have to be cleaned.
type KeyWalkFindings struct {
	KeysPassed         int               // keys passed, ours or not
	UsersWithDocument  []services.UserID // users who have a document
	UsersWithLongInbox []services.UserID // users whose inbox holds more entries than a feed lists
	LongLists          []LongList        // registered lists with more entries than are ever shown
	Leftovers          []Leftover        // keys that may have to be dropped: see DropLeftovers
}

// Leftover is a key that nobody reads, or one that would never expire: see DropLeftovers.
type Leftover struct {
	kind         string   // the kind's name in key_drop.lua
	markerMember string   // the member that every key of its registered family has, see redis.KeyFamily; "" for other keys
	keys         []string // the key to drop; for an orphan, then the key of the document that it lacks
}

// WalkKeys passes keys from a position on, roughly as many as about says, and returns the position that it reached. done is true
// when it has passed all keys. A key that exists throughout the walk is found at least once.
func (c *Projections) WalkKeys(ctx context.Context, from KeyWalkPosition, about int) (found KeyWalkFindings, to KeyWalkPosition, done bool, err error) {
	// The list of masters is read anew at each step. It is sorted by address, so a position survives a change of masters.
	var mu sync.Mutex
	masters := map[string]*redis.Master{}
	err = c.Client.EachMaster(ctx, func(_ context.Context, master *redis.Master) error {
		mu.Lock()
		defer mu.Unlock()
		masters[c.Client.AddrOf(master)] = master
		return nil
	})
	if err != nil {
		return found, from, false, redis.MapError(err)
	}
	addresses := slices.Sorted(maps.Keys(masters))
	// A master that has left the cluster is skipped: its keys are now on other masters, and this walk or the next one finds
	// them.
	at, same := slices.BinarySearch(addresses, from.Master)
	if at == len(addresses) {
		return found, KeyWalkPosition{}, true, nil
	}
	cursor := from.Cursor
	if !same {
		cursor = 0
	}
	// A cursor belongs to one master: on another one the walk begins at 0.
	keys, cursor, err := masters[addresses[at]].Scan(ctx, cursor, "", int64(about)).Result()
	if err != nil {
		return found, from, false, redis.MapError(err)
	}
	if found, err = c.findCleanable(ctx, keys); err != nil {
		return found, from, false, err
	}
	switch {
	case cursor != 0:
		return found, KeyWalkPosition{addresses[at], cursor}, false, nil
	case at+1 < len(addresses):
		return found, KeyWalkPosition{Master: addresses[at+1]}, false, nil
	}
	return found, KeyWalkPosition{}, true, nil
}

// findCleanable checks our keys among the given ones, in one round trip. It asks Redis only for the facts that decide: an expiry, a
// length, and whether a document exists. The answers are in the order of the keys, one or two for each.
func (c *Projections) findCleanable(ctx context.Context, keys []string) (found KeyWalkFindings, err error) {
	// Keys that are not ours count too: the walk's pace and progress are measured in all keys of Redis.
	found.KeysPassed = len(keys)
	var owned []ownedKey
	for _, key := range keys {
		one, cleanable := parseKey(key)
		if cleanable && one.keyPart == documentKeyPart {
			found.UsersWithDocument = append(found.UsersWithDocument, one.user)
		} else if cleanable {
			owned = append(owned, one)
		}
	}
	// An empty pipeline would be a round trip for nothing.
	if len(owned) == 0 {
		return found, nil
	}
	// This is a plain pipeline and not Read, because a walk must not repair the keys that it passes.
	commands, err := c.Client.Pipeline(ctx, func(p redis.Pipeliner) {
		for _, one := range owned {
			// The user of such a key need not have a document, so only the key's expiry says whether it is a leftover.
			if one.hasOwnExpiry() {
				p.PTTL(ctx, one.name)
				continue
			}
			p.Exists(ctx, DocumentKey(one.user))
			if one.isList() {
				p.ZCard(ctx, one.name)
			}
		}
	})
	if err != nil && !redis.IsWrongType(err) { // a key of the wrong type is lost data, which its next reader repairs
		return found, err
	}
	for _, one := range owned {
		first := commands[0]
		commands = commands[1:]
		if one.hasOwnExpiry() {
			if left, err := first.(*redis.DurationCmd).Result(); err == nil && left == -1 {
				found.Leftovers = append(found.Leftovers, Leftover{kind: one.keyPart, markerMember: one.markerMember, keys: []string{one.name}})
			}
			continue
		}
		held, err := first.(*redis.IntCmd).Result()
		// Only a key without an expiry stays for ever, but an orphan of any kind is useless: no reader looks at it
		// without its document.
		if err == nil && held == 0 {
			found.Leftovers = append(found.Leftovers, Leftover{kind: "orphan", keys: []string{one.name, DocumentKey(one.user)}})
		}
		if one.isList() {
			length, err := commands[0].(*redis.IntCmd).Result()
			commands = commands[1:]
			// The length includes the first member, which is no entry: it has the floor of the inbox or list.
			if err == nil && held == 1 && length-1 > services.FeedRetention {
				if one.keyPart == inboxKeyPart {
					found.UsersWithLongInbox = append(found.UsersWithLongInbox, one.user)
				} else {
					found.LongLists = append(found.LongLists, LongList{one.user, one.keyPart})
				}
			}
		}
	}
	return found, nil
}

// TrimInboxes cuts inboxes down to the listed entries. A result's Version is 0 if the visible state stays the same; cut has the
// number of entries that were removed from each inbox.
func (c *Projections) TrimInboxes(ctx context.Context, users []services.UserID) (results []redis.Result, cut []int, err error) {
	replies, err := c.Client.Change(ctx, inboxTrim, services.Map(users, func(user services.UserID) redis.ScriptCall { return redis.ScriptCall{Keys: inboxScriptKeys(user)} }))
	if err != nil {
		return nil, nil, err
	}
	results, cut = make([]redis.Result, len(users)), make([]int, len(users))
	// The third part of this script's answer is the number of entries, so the result cannot be taken as it is.
	for i, reply := range replies {
		if reply.Err != nil {
			return nil, nil, fmt.Errorf("%s: %w", inboxTrim.Name, redis.MapError(reply.Err))
		}
		if results[i], err = redis.ParseResult(reply.Value); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", inboxTrim.Name, err)
		}
		if results[i].Status == redis.Applied {
			entries, _ := reply.Value.([]any)[2].(int64)
			cut[i], results[i].RefillDue = int(entries), false
		}
	}
	return results, cut, nil
}

// AnyVisitDay makes DropUsers drop the keys of users without any check.
const AnyVisitDay = -1

// DropUsers drops the keys of users whose last visit was on the day last or earlier, and returns how many keys of each it dropped.
// It skips users who have come back since: their document has a later day or is being built, or they have an open subscription.
func (c *Projections) DropUsers(ctx context.Context, users []services.UserID, last int64) (dropped []int, err error) {
	calls := services.Map(users, func(user services.UserID) redis.ScriptCall {
		return redis.ScriptCall{Keys: userDataAndOnlineKeys(user), Args: []any{last}}
	})
	return c.runDrop(ctx, userDrop, calls)
}

// EraseUser deletes every key of a user who is removed for good. Unlike DropUsers it checks nothing: the user cannot have come back.
func (c *Projections) EraseUser(ctx context.Context, user services.UserID) error {
	// Scripts delete mergeKey themselves; it is here for a script that failed midway.
	keys := append(userDataAndOnlineKeys(user), profileKey(user), mergeKey(user))
	for _, part := range leaseKeyParts {
		keys = append(keys, redis.UserKey(user, ":"+part))
	}
	return sendWrites(ctx, c.Client, func(p redis.Pipeliner) {
		p.Del(ctx, keys...)
		p.ZRem(ctx, onlineSetKey(onlineShard(user)), services.UserIDText(user))
	})
}

// DropLeftovers drops the leftovers of a walk. It returns how many of the dropped keys were orphans, that is, parts of a document
// whose main key is missing, and how many were endless: copies, leases and keys of registered families without an expiry.
func (c *Projections) DropLeftovers(ctx context.Context, leftovers []Leftover) (orphans, endless int, err error) {
	calls := services.Map(leftovers, func(leftover Leftover) redis.ScriptCall {
		return redis.ScriptCall{Keys: leftover.keys, Args: []any{leftover.kind, leftover.markerMember}}
	})
	dropped, err := c.runDrop(ctx, keyDrop, calls)
	for i, keys := range dropped {
		if leftovers[i].kind == "orphan" {
			orphans += keys
		} else {
			endless += keys
		}
	}
	return orphans, endless, err
}

// runDrop runs a script that returns how many keys or entries it dropped. One failed call fails all: the walk repeats
// its step.
func (c *Projections) runDrop(ctx context.Context, s *redis.Script, calls []redis.ScriptCall) ([]int, error) {
	replies, err := c.Client.Run(ctx, s, calls)
	if err != nil {
		return nil, err
	}
	dropped := make([]int, len(replies))
	for i, reply := range replies {
		if reply.Err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, redis.MapError(reply.Err))
		}
		keys, _ := reply.Value.(int64)
		dropped[i] = int(keys)
	}
	return dropped, nil
}
