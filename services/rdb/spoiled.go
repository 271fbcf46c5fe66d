package rdb

import (
	"context"
	"strconv"
	"strings"
	"time"

	"tidings/services"
	"tidings/services/redis"
)

// A key whose type something else has changed is lost data. Every read or write that meets one empties the view (or single key)
// that it belongs to and tries once more. The second attempt finds a missing view, which its next reader rebuilds, and the rest
// of the batch succeeds. Only the audit reads without this repair, so that it can count such keys.

// readViews is Pipeline for keys of our own: keys of the wrong type are emptied, and everything is read again.
func (c *Projections) readViews(ctx context.Context, fill func(p redis.Pipeliner)) ([]redis.Cmder, error) {
	commands, err := c.Pipeline(ctx, fill)
	var spoiled []string
	for _, command := range commands {
		if redis.IsWrongType(command.Err()) {
			spoiled = append(spoiled, command.Args()[1].(string))
		}
	}
	if len(spoiled) == 0 {
		return commands, err
	}
	if err := c.empty(ctx, spoiled); err != nil {
		return nil, err
	}
	return c.Pipeline(ctx, fill)
}

// changeViews is Run for keys of our own: calls that met a key of the wrong type are repeated after it is emptied.
func (c *Projections) changeViews(ctx context.Context, s *redis.Script, calls []redis.Call) ([]redis.Reply, error) {
	replies, err := c.Run(ctx, s, calls)
	if err != nil {
		return replies, err
	}
	var again []int
	var spoiled []string
	var repeated []redis.Call
	for i, reply := range replies {
		if redis.IsWrongType(reply.Err) {
			again, repeated, spoiled = append(again, i), append(repeated, calls[i]), append(spoiled, calls[i].Keys[0])
		}
	}
	if len(again) == 0 {
		return replies, nil
	}
	if err := c.empty(ctx, spoiled); err != nil {
		return replies, err
	}
	repetitions, err := c.Run(ctx, s, repeated)
	for i, reply := range repetitions {
		replies[again[i]] = reply
	}
	return replies, err
}

// empty empties what the keys belong to: a user's whole view if the key is a part of one, otherwise the key alone.
func (c *Projections) empty(ctx context.Context, keys []string) error {
	c.Log().Warn("keys of Redis are of another type: what they belong to is made anew", "keys", len(keys))
	var calls []redis.Call
	known := map[string]bool{}
	for _, key := range keys {
		user, ofView := viewOf(key)
		if ofView {
			key = badgeKey(user)
		}
		if known[key] {
			continue
		}
		known[key] = true
		if ofView {
			calls = append(calls, resetCall(user))
			continue
		}
		if err := c.Commands().Del(ctx, key).Err(); err != nil {
			return redis.Unavailable(err)
		}
	}
	replies, err := c.Run(ctx, viewReset, calls)
	for _, reply := range replies {
		if err == nil {
			err = redis.Unavailable(reply.Err)
		}
	}
	return err
}

// viewOf returns the user whose view a key is a part of. A copy of their profile is not part of the view, and neither are their
// sessions, which a rebuild could not restore.
func viewOf(key string) (user services.UserID, ok bool) {
	text, found := strings.CutPrefix(key, "{u")
	text, _, closed := strings.Cut(text, "}:")
	number, err := strconv.ParseUint(text, 10, 32)
	user = services.UserID(number)
	return user, found && closed && err == nil && key != profileKey(user) && key != sessionsKey(user)
}

var viewReset = loadScript("view_reset")

// resetLifetime is how long an emptied view stays if its rebuild fails; after that it is Absent, which has the same effect.
const resetLifetime = time.Hour

func resetCall(user services.UserID) redis.Call {
	return redis.Call{
		Keys: []string{badgeKey(user), onlineKey(user), inboxKey(user), conversationsKey(user), replaysKey(user)},
		Args: []any{int64(resetLifetime / time.Second)},
	}
}

// Reset empties a user's view, whatever is wrong with it: a rebuild makes it again. The user's version keeps rising.
func (c *Projections) Reset(ctx context.Context, user services.UserID) error {
	replies, err := c.Run(ctx, viewReset, []redis.Call{resetCall(user)})
	if err != nil {
		return err
	}
	return redis.Unavailable(replies[0].Err)
}
