package redis

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tidings/services"
)

// UserKey is the key of one part of a user's data. All keys of a user share the hash tag {u<ID>}, so that one script may use
// them on a cluster. A part begins with ":" and has one or two small letters.
func UserKey(user services.UserID, part string) string {
	key := make([]byte, 0, 24)
	key = append(key, "{u"...)
	key = strconv.AppendUint(key, uint64(user), 10)
	key = append(key, '}')
	return string(append(key, part...))
}

// KeyFamily are the keys of a feature that belong to no user: ZSETs that have a marker member and expire. The cleaner drops the
// keys that would never expire.
type KeyFamily struct {
	Prefix       string                 // the beginning of every key of the family
	MarkerMember string                 // a member that every key of the family has
	MayBeOurs    func(rest string) bool // whether a key with this rest behind the prefix may be of the family: other programs may use the same Redis
}

// keyFamilies are the registered families. Package variables register them, before main, and nothing changes them afterwards.
var keyFamilies []KeyFamily

// RegisterKeys registers a family and returns it. It is for package variables, before the first Client; it panics if the prefix
// is taken.
func RegisterKeys(family KeyFamily) KeyFamily {
	if slices.ContainsFunc(keyFamilies, func(f KeyFamily) bool { return f.Prefix == family.Prefix }) {
		panic(fmt.Sprintf("redis: the keys %s are registered twice", family.Prefix))
	}
	keyFamilies = append(keyFamilies, family)
	return family
}

// FamilyOf returns the registered family with the prefix of a key. found reports whether the family's MayBeOurs accepts the rest of
// the key.
func FamilyOf(key string) (family KeyFamily, found bool) {
	for _, family := range keyFamilies {
		if rest, found := strings.CutPrefix(key, family.Prefix); found {
			return family, family.MayBeOurs(rest)
		}
	}
	return KeyFamily{}, false
}

// hintChannel is the pub/sub channel on which a node receives hints of changed documents. Plain pub/sub reaches every
// node of a cluster.
func hintChannel(node string) string { return "node:" + node }

// changelogChannel is the pub/sub channel on which every node receives hints that the changelog has grown.
const changelogChannel = "log"
