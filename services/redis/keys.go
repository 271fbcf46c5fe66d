package redis

import (
	"strconv"

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

// hintChannel is the pub/sub channel on which a node receives hints of changed documents.
func hintChannel(node string) string { return "node:" + node }

// logChannel is the pub/sub channel on which every node receives hints that the changelog has grown.
const logChannel = "log"
