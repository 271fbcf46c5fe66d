package rdb

import (
	"strconv"
	"strings"

	"tidings/services"
	"tidings/services/redis"
)

// Every key that holds a projection is built here. Bounds are per key.

// badgeKey is the badge document: HASH, fixed fields of at most 64 bytes, see Document.
func badgeKey(user services.UserID) string { return redis.UserKey(user, ":b") }

// inboxKey is the home feed: ZSET, all scores 0 (the members sort), one sentinel "!"+floor and at most
// Retention + 32 members of 19 bytes, see entryText.
func inboxKey(user services.UserID) string { return redis.UserKey(user, ":i") }

// conversationsKey is the user's own states in conversations: HASH, conversation -> state of at most 64 bytes, a field
// for each conversation that he is in or has lately left. Their number stands in the badge document.
func conversationsKey(user services.UserID) string { return redis.UserKey(user, ":c") }

// mergeKey is there only while a rebuild ends: SET, the entries that come into the inbox.
func mergeKey(user services.UserID) string { return redis.UserKey(user, ":m") }

// replaysKey is the newest replays of the hosts whom the user follows: ZSET, all scores 0, one mark and at most
// Retention + 32 members of 27 bytes, see replayText. It is made when his board is read.
func replaysKey(user services.UserID) string { return redis.UserKey(user, ":r") }

// sessionsKey is the user's sessions of the live board that are turned over: HASH, slot -> "end (ms);session", at most
// sessionSlots. It ends with the last of them.
func sessionsKey(user services.UserID) string { return redis.UserKey(user, ":s") }

// onlineKey is where the user has open subscriptions: HASH, node -> end of its lease in ms, a field a node.
func onlineKey(user services.UserID) string { return redis.UserKey(user, ":on") }

// onlineSetKey is a part of all who have an open subscription anywhere: ZSET, user number -> end of his latest lease in
// ms; who is gone stays until the next one enters, and the whole for a lease.
func onlineSetKey(shard int) string { return "on:" + strconv.Itoa(shard) }

// profileKey is a cached copy of the user's profile: STRING, see PutCopies, up to 3 KB.
func profileKey(user services.UserID) string { return redis.UserKey(user, ":p") }

// postKey is a cached copy of a post: STRING, see PutCopies, up to 21 KB.
func postKey(post services.PostID) string { return "p:" + post.String() }

// viewKey is the newest items of a view: ZSET, item -> microseconds, three marks and at most ViewKeep + 32 items of 65
// bytes. A code has no "/", so that no two views share a key.
func viewKey(view services.View) string { return "v:" + view.Code + "/" + view.ID }

// spendingKey is what all nodes spent of one rate limit in one window: STRING, a number. It ends a minute after the last
// addition.
func spendingKey(window int64, bucket string) string {
	return "rl:" + strconv.FormatInt(window, 10) + ":" + bucket
}

// The parts of ownedKey. A part of a user's view that has no name here belongs to another version of this program.
const (
	documentPart = "b"
	inboxPart    = "i"
	replaysPart  = "r"
	leasePart    = "lease"
	copyPart     = "copy"
	viewPart     = "view"
)

// ownedKey is a key by its name. Of a user's view, part is what follows the colon.
type ownedKey struct {
	name, part string
	user       services.UserID // 0 when it is nobody's
}

// endsItself says that whoever writes the key says when it ends.
func (k ownedKey) endsItself() bool {
	return k.part == leasePart || k.part == copyPart || k.part == viewPart
}

// isList says that the key is one of the lists that are cut to what is listed.
func (k ownedKey) isList() bool { return k.part == inboxPart || k.part == replaysPart }

// parseKey takes a key apart; ours is false when its name is none of those above. Others' keys may stand in the same Redis.
func parseKey(name string) (key ownedKey, ours bool) {
	key.name = name
	if rest, found := strings.CutPrefix(name, "{u"); found {
		number, part, _ := strings.Cut(rest, "}:")
		user, err := strconv.ParseUint(number, 10, 32)
		key.user, key.part = services.UserID(user), part
		switch part {
		case "on", "s":
			key.part = leasePart
		case "p":
			key.part = copyPart
		}
		short := len(part) > 0 && len(part) <= 2 && strings.Trim(part, "abcdefghijklmnopqrstuvwxyz") == ""
		return key, short && err == nil && user > 0 && redis.UserKey(key.user, ":"+part) == name
	}
	if rest, found := strings.CutPrefix(name, "p:"); found {
		_, err := services.ParsePostID(rest)
		key.part = copyPart
		return key, err == nil
	}
	code, id, found := strings.Cut(strings.TrimPrefix(name, "v:"), "/")
	key.part = viewPart
	return key, found && strings.HasPrefix(name, "v:") && code != "" && id != ""
}
