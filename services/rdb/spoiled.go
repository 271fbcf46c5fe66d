package rdb

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"tidings/services"
)

// A key that other hands made one of another type is lost data: whatever reads or changes it finds that out, empties what
// it belongs to and tries once more. It meets a view that is missing then, which its next reader rebuilds, and the batch
// in which it stood goes on for everybody else. The audit alone reads without it, so that it can count what it finds.

// wrongType says that a command or a script met a key of another type.
func wrongType(err error) bool {
	return err != nil && strings.Contains(err.Error(), "wrong kind of value")
}

// readViews is pipeline for keys of our own: those of another type are emptied, and everything is read again.
func (c *Client) readViews(ctx context.Context, fill func(p redis.Pipeliner)) ([]redis.Cmder, error) {
	commands, err := c.pipeline(ctx, fill)
	var spoiled []string
	for _, command := range commands {
		if wrongType(command.Err()) {
			spoiled = append(spoiled, command.Args()[1].(string))
		}
	}
	if len(spoiled) == 0 {
		return commands, err
	}
	if err := c.empty(ctx, spoiled); err != nil {
		return nil, err
	}
	return c.pipeline(ctx, fill)
}

// changeViews is runScript for keys of our own: calls that met one of another type are made again when it is emptied.
func (c *Client) changeViews(ctx context.Context, s *script, calls []call) ([]reply, error) {
	replies, err := c.runScript(ctx, s, calls)
	if err != nil {
		return replies, err
	}
	var again []int
	var spoiled []string
	var repeated []call
	for i, reply := range replies {
		if wrongType(reply.err) {
			again, repeated, spoiled = append(again, i), append(repeated, calls[i]), append(spoiled, calls[i].keys[0])
		}
	}
	if len(again) == 0 {
		return replies, nil
	}
	if err := c.empty(ctx, spoiled); err != nil {
		return replies, err
	}
	repetitions, err := c.runScript(ctx, s, repeated)
	for i, reply := range repetitions {
		replies[again[i]] = reply
	}
	return replies, err
}

// empty empties what the keys belong to: a user's view as a whole, whichever key of it is named; else the key.
func (c *Client) empty(ctx context.Context, keys []string) error {
	c.log.Warn("keys of Redis are of another type: what they belong to is made anew", "keys", len(keys))
	var calls []call
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
		if err := c.rds().Del(ctx, key).Err(); err != nil {
			return unavailable(err)
		}
	}
	replies, err := c.runScript(ctx, viewReset, calls)
	for _, reply := range replies {
		if err == nil {
			err = unavailable(reply.err)
		}
	}
	return err
}

// viewOf is whose view a key is a part of; a copy of his profile is none, nor are his sessions, which nothing brings back.
func viewOf(key string) (user services.UserID, ok bool) {
	text, found := strings.CutPrefix(key, "{u")
	text, _, closed := strings.Cut(text, "}:")
	number, err := strconv.ParseUint(text, 10, 32)
	user = services.UserID(number)
	return user, found && closed && err == nil && key != profileKey(user) && key != sessionsKey(user)
}

var viewReset = loadScript("view_reset")

// resetLifetime is how long an emptied view stays when its rebuild fails; then it is Absent, which is as good.
const resetLifetime = time.Hour

func resetCall(user services.UserID) call {
	return call{
		keys: []string{badgeKey(user), onlineKey(user), inboxKey(user), conversationsKey(user), replaysKey(user)},
		args: []any{int64(resetLifetime / time.Second)},
	}
}

// Reset empties a user's view, whatever is wrong with it: a rebuild makes it anew. His version goes on.
func (c *Client) Reset(ctx context.Context, user services.UserID) error {
	replies, err := c.runScript(ctx, viewReset, []call{resetCall(user)})
	if err != nil {
		return err
	}
	return unavailable(replies[0].err)
}
