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

// What is left over in Redis is found by a walk along all keys, a few at a time. What is not ours by its name is not looked
// at, and what is ours by its name alone is looked at again by the script that would drop it.

var (
	inboxTrim = loadScript("inbox_trim")
	userDrop  = loadScript("user_drop")
	keyDrop   = loadScript("key_drop")
)

// WalkPlace is how far a walk along all keys has come; the zero place is its beginning.
type WalkPlace struct {
	Master string `json:"master"` // its address, where there are several: they are walked one after the other
	Cursor uint64 `json:"cursor"`
}

// Findings are what a step of a walk has found that may have to be cleaned.
type Findings struct {
	Keys      int               // ours or not, that were passed
	Documents []services.UserID // users of whom there is a document
	Long      []services.UserID // users whose inbox holds more than is listed
	Replays   []services.UserID // users whose list of replays does
	Leftover  []Leftover
}

// Leftover is a key that nothing will ever end: see DropLeftovers.
type Leftover struct {
	kind string // as key_drop.lua calls it
	keys []string
}

// Walk passes about so many keys from a place on and says where it stands then; done says that it has passed all. A key that
// is there all the time is found at least once.
func (c *Projections) Walk(ctx context.Context, from WalkPlace, about int) (found Findings, to WalkPlace, done bool, err error) {
	var mu sync.Mutex
	masters := map[string]*redis.Master{}
	err = c.EachMaster(ctx, func(_ context.Context, master *redis.Master) error {
		mu.Lock()
		defer mu.Unlock()
		masters[c.AddrOf(master)] = master
		return nil
	})
	if err != nil {
		return found, from, false, redis.Unavailable(err)
	}
	addresses := slices.Sorted(maps.Keys(masters))
	// A master that is no more is passed: what it had is with others, and found in the next walk at the latest.
	at, same := slices.BinarySearch(addresses, from.Master)
	if at == len(addresses) {
		return found, WalkPlace{}, true, nil
	}
	cursor := from.Cursor
	if !same {
		cursor = 0
	}
	keys, cursor, err := masters[addresses[at]].Scan(ctx, cursor, "", int64(about)).Result()
	if err != nil {
		return found, from, false, redis.Unavailable(err)
	}
	if found, err = c.find(ctx, keys); err != nil {
		return found, from, false, err
	}
	switch {
	case cursor != 0:
		return found, WalkPlace{addresses[at], cursor}, false, nil
	case at+1 < len(addresses):
		return found, WalkPlace{Master: addresses[at+1]}, false, nil
	}
	return found, WalkPlace{}, true, nil
}

// find asks about those keys that are ours, in one round trip.
func (c *Projections) find(ctx context.Context, keys []string) (found Findings, err error) {
	found.Keys = len(keys)
	var owned []ownedKey
	for _, key := range keys {
		one, ours := parseKey(key)
		if ours && one.part == documentPart {
			found.Documents = append(found.Documents, one.user)
		} else if ours {
			owned = append(owned, one)
		}
	}
	if len(owned) == 0 {
		return found, nil
	}
	commands, err := c.Pipeline(ctx, func(p redis.Pipeliner) {
		for _, one := range owned {
			if one.endsItself() {
				p.PTTL(ctx, one.name)
				continue
			}
			p.Exists(ctx, badgeKey(one.user))
			if one.isList() {
				p.ZCard(ctx, one.name)
			}
		}
	})
	if err != nil && !redis.IsWrongType(err) { // such a key is lost data, which its next reader mends
		return found, err
	}
	for _, one := range owned {
		first := commands[0]
		commands = commands[1:]
		if one.endsItself() {
			if left, err := first.(*redis.DurationCmd).Result(); err == nil && left == -1 {
				found.Leftover = append(found.Leftover, Leftover{kind: one.part, keys: []string{one.name}})
			}
			continue
		}
		held, err := first.(*redis.IntCmd).Result()
		if err == nil && held == 0 {
			found.Leftover = append(found.Leftover, Leftover{kind: "orphan", keys: []string{one.name, badgeKey(one.user)}})
		}
		if one.isList() {
			length, err := commands[0].(*redis.IntCmd).Result()
			commands = commands[1:]
			if err == nil && held == 1 && length-1 > services.Retention {
				if one.part == inboxPart {
					found.Long = append(found.Long, one.user)
				} else {
					found.Replays = append(found.Replays, one.user)
				}
			}
		}
	}
	return found, nil
}

// TrimInboxes cuts inboxes to what is listed of them. A result's N is 0 when what is shown stays the same; cut says how many
// entries went.
func (c *Projections) TrimInboxes(ctx context.Context, users []services.UserID) (results []Result, cut []int, err error) {
	calls := make([]redis.Call, len(users))
	for i, user := range users {
		calls[i] = redis.Call{Keys: inboxKeys(user)}
	}
	replies, err := c.changeViews(ctx, inboxTrim, calls)
	if err != nil {
		return nil, nil, err
	}
	results, cut = make([]Result, len(users)), make([]int, len(users))
	for i, reply := range replies {
		if reply.Err != nil {
			return nil, nil, fmt.Errorf("%s: %w", inboxTrim.Name, redis.Unavailable(reply.Err))
		}
		if results[i], err = parseResult(reply.Value); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", inboxTrim.Name, err)
		}
		if results[i].Status == Applied {
			entries, _ := reply.Value.([]any)[2].(int64)
			cut[i], results[i].Short = int(entries), false
		}
	}
	return results, cut, nil
}

// AnyDay lets DropUsers drop whatever a document says of its user's last visit.
const AnyDay = -1

// DropUsers drops the keys of users whose last visit was on a day or before, and says how many keys of each went. Who has
// come back since is left alone: his document says so, or is just being made, or somebody watches for him.
func (c *Projections) DropUsers(ctx context.Context, users []services.UserID, last int64) (dropped []int, err error) {
	calls := make([]redis.Call, len(users))
	for i, user := range users {
		keys := []string{badgeKey(user), onlineKey(user), inboxKey(user), conversationsKey(user), replaysKey(user)}
		calls[i] = redis.Call{Keys: keys, Args: []any{last}}
	}
	return c.dropped(ctx, userDrop, calls)
}

// DropLeftovers drops what a walk has found, and says how many keys went and that are orphans: parts of a view without its
// document. The others are copies, views and leases that had no end.
func (c *Projections) DropLeftovers(ctx context.Context, leftovers []Leftover) (orphans, endless int, err error) {
	calls := make([]redis.Call, len(leftovers))
	for i, leftover := range leftovers {
		calls[i] = redis.Call{Keys: leftover.keys, Args: []any{leftover.kind}}
	}
	dropped, err := c.dropped(ctx, keyDrop, calls)
	for i, keys := range dropped {
		if leftovers[i].kind == "orphan" {
			orphans += keys
		} else {
			endless += keys
		}
	}
	return orphans, endless, err
}

// dropped runs a script that answers how many keys went.
func (c *Projections) dropped(ctx context.Context, s *redis.Script, calls []redis.Call) ([]int, error) {
	replies, err := c.Run(ctx, s, calls)
	if err != nil {
		return nil, err
	}
	dropped := make([]int, len(replies))
	for i, reply := range replies {
		if reply.Err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, redis.Unavailable(reply.Err))
		}
		keys, _ := reply.Value.(int64)
		dropped[i] = int(keys)
	}
	return dropped, nil
}
