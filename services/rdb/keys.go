package rdb

import (
	"slices"
	"strconv"
	"strings"

	"tidings/services"
	"tidings/services/redis"
)

// This file builds every key that holds a projection. The sizes are those of one key.

// DocumentKey is the badge document: HASH, fixed fields of at most 64 bytes, except the lists F, L and R; see Document.
func DocumentKey(user services.UserID) string { return redis.UserKey(user, ":b") }

// inboxKey is the home feed: ZSET, all scores 0 (the members sort), one sentinel "!"+floor and at most services.FeedRetention + 32
// members of 19 bytes, one for each post: see entryText.
func inboxKey(user services.UserID) string { return redis.UserKey(user, ":i") }

// conversationsKey is the user's own states in conversations: HASH, conversation -> state of at most 64 bytes, a field for
// each conversation that they are in or have lately left. The badge document has the number of these fields.
func conversationsKey(user services.UserID) string { return redis.UserKey(user, ":c") }

// mergeKey exists only while the script that ends a rebuild runs: SET, the entries that are merged into the inbox.
func mergeKey(user services.UserID) string { return redis.UserKey(user, ":m") }

// onlineKey is the nodes on which the user has open subscriptions: HASH, node -> end of its lease in ms, one field per node.
func onlineKey(user services.UserID) string { return redis.UserKey(user, ":on") }

// onlineSetKey is one shard of all users with an open subscription on any node: ZSET, user ID -> end of their latest lease in ms. A
// member whose lease has ended stays until the next user enters the shard. The key expires one lease after the last entry.
func onlineSetKey(shard int) string { return "on:" + strconv.Itoa(shard) }

// profileKey is a cached copy of the user's profile: STRING of version, epoch and JSON, up to 3 KB; see PutCopies.
func profileKey(user services.UserID) string { return redis.UserKey(user, ":p") }

// postKey is a cached copy of a post: STRING of version, epoch and JSON, up to 21 KB; see PutCopies.
func postKey(post services.PostID) string { return "p:" + post.String() }

// spendingKey is the amount of one rate limit that all nodes spent in one window: STRING, a number. It expires a minute after
// the last addition.
func spendingKey(window int64, bucket string) string {
	return "rl:" + strconv.FormatInt(window, 10) + ":" + bucket
}

// These are the parts of ownedKey that the cleaner tells apart. Every other part belongs to a user's projection, perhaps of another
// version of this program.
const (
	documentKeyPart = "b"      // the document of a user
	inboxKeyPart    = "i"      // the inbox of a user
	leaseKeyPart    = "lease"  // data of a user that expires by itself: see onlineKey and RegisterLeaseKey
	copyKeyPart     = "copy"   // a cached copy of a profile or a post
	familyKeyPart   = "family" // a key of a family that a feature registered, see redis.KeyFamily
)

// ownedKey is a key, parsed from its name. For a key of a user's projection, keyPart is the text after the colon; for other keys it is
// leaseKeyPart, copyKeyPart or familyKeyPart.
type ownedKey struct {
	name, keyPart string          // the key's whole name, and what it is: a part of a user's projection, or one of the constants above
	user          services.UserID // 0 if the key is not a user's
	markerMember  string          // the member that every key of its registered family has, see redis.KeyFamily; "" for other keys
}

// hasOwnExpiry reports whether the key has an expiry of its own. The keys of a user's projection expire together instead.
func (k ownedKey) hasOwnExpiry() bool {
	return k.keyPart == leaseKeyPart || k.keyPart == copyKeyPart || k.keyPart == familyKeyPart
}

// isList reports whether the key is one of the lists that are trimmed to the listed length.
func (k ownedKey) isList() bool {
	_, registered := listByKeyPart(k.keyPart)
	return k.keyPart == inboxKeyPart || registered
}

// parseKey parses a key's name. cleanable is false for keys that the cleaner leaves alone: the keys of other programs in the same
// Redis, and the keys of onlineSetKey and spendingKey.
func parseKey(name string) (key ownedKey, cleanable bool) {
	key.name = name
	if rest, found := strings.CutPrefix(name, "{u"); found {
		// The tag in braces decides the master of a key on a cluster, and all keys of a user share it.
		id, part, _ := strings.Cut(rest, "}:")
		user, err := strconv.ParseUint(id, 10, 32)
		key.user, key.keyPart = services.UserID(user), part
		switch {
		case part == "on" || slices.Contains(leaseKeyParts, part):
			key.keyPart = leaseKeyPart
		case part == "p":
			key.keyPart = copyKeyPart
		}
		// A part of one or two small letters belongs to a projection, known or not. The ID must be written as this program writes
		// it: {u007} is not ours.
		short := len(part) > 0 && len(part) <= 2 && strings.Trim(part, "abcdefghijklmnopqrstuvwxyz") == ""
		return key, short && err == nil && user > 0 && redis.UserKey(key.user, ":"+part) == name
	}
	if rest, found := strings.CutPrefix(name, "p:"); found {
		// Another program may well use the prefix "p:", so only a valid ID of 13 letters after it makes the key ours.
		_, err := services.ParseSortableID(rest)
		key.keyPart = copyKeyPart
		return key, err == nil
	}
	family, found := redis.FamilyOf(name)
	key.keyPart, key.markerMember = familyKeyPart, family.MarkerMember
	return key, found
}
