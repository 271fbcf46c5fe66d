package rdb

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidings/services"
	"tidings/services/redis"
)

// repairWrongType repairs keys of the wrong type. If a key is a part of a user's projection, it empties the whole projection. It
// deletes any other key alone. redis.Client calls it when commands meet such keys: see redis.Client.SetEmptyKeysFunc.
func (c *Projections) repairWrongType(ctx context.Context, keys []string) error {
	var calls []redis.ScriptCall
	known := map[string]bool{}
	for _, key := range keys {
		user, ofProjection := userOfDataKey(key)
		if ofProjection {
			key = DocumentKey(user)
		}
		// Several keys of one projection need only one reset.
		if known[key] {
			continue
		}
		known[key] = true
		if ofProjection {
			calls = append(calls, resetUserDataCall(user))
			continue
		}
		if err := c.Client.Delete(ctx, key); err != nil {
			return err
		}
	}
	// All calls run, whatever one of them answers; the first error is returned, and the next reader tries again.
	replies, err := c.Client.Run(ctx, userDataReset, calls)
	for _, reply := range replies {
		if err == nil {
			err = redis.MapError(reply.Err)
		}
	}
	return err
}

// userOfDataKey returns the user whose projection a key is a part of. A copy of their profile is not part of the projection, and
// neither are registered leases, which a rebuild could not restore.
func userOfDataKey(key string) (user services.UserID, ok bool) {
	text, found := strings.CutPrefix(key, "{u")
	text, part, closed := strings.Cut(text, "}:")
	id, err := strconv.ParseUint(text, 10, 32)
	user = services.UserID(id)
	return user, found && closed && err == nil && key != profileKey(user) && !slices.Contains(leaseKeyParts, part)
}

// userDataReset is the script of ResetUserData and repairWrongType.
var userDataReset = loadScript("user_reset")

// resetUserDataLifetime is how long an emptied projection stays if its rebuild fails; after that there is no document, which has the
// same effect.
const resetUserDataLifetime = time.Hour

// userDataAndOnlineKeys are the keys of a user's projection and onlineKey, in the order in which the scripts that delete the projection
// take them.
func userDataAndOnlineKeys(user services.UserID) []string {
	return append([]string{DocumentKey(user), onlineKey(user), inboxKey(user), conversationsKey(user)}, listKeys(user)...)
}

// resetUserDataCall empties one user's projection. The projection's version continues from the former one, unless the document itself
// is of the wrong type.
func resetUserDataCall(user services.UserID) redis.ScriptCall {
	return redis.ScriptCall{
		Keys: userDataAndOnlineKeys(user),
		Args: []any{int64(resetUserDataLifetime / time.Second)},
	}
}

// ResetUserData empties a user's projection, whatever is wrong with it: a rebuild makes it again. The user's version keeps rising, so
// that clients accept the new projection. It is for operators and the audit.
func (c *Projections) ResetUserData(ctx context.Context, user services.UserID) error {
	replies, err := c.Client.Run(ctx, userDataReset, []redis.ScriptCall{resetUserDataCall(user)})
	if err != nil {
		return err
	}
	return redis.MapError(replies[0].Err)
}
