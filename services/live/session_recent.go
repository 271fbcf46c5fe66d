package live

import (
	"cmp"
	"encoding/binary"
	"hash/fnv"
	"slices"
	"time"

	"tidings/services"
)

const (
	// recentFollowAge is the age up to which a session names its follows one by one. Older follows it knows by their time alone: those up
	// to Session.LatestFollow are of its board, see Session.hasHost, unless there is a followGap. A follow reaches the viewer's document
	// before the answer to its request, or by its job some seconds later, so a host that is followed later stays out of the board. One
	// kind of later follows enters it, if their time is not after LatestFollow: a follow that took longer to arrive, because Redis did not
	// answer.
	recentFollowAge = 5 * time.Minute
	// maxRecentFollows bounds the text of a session: if there are more recent follows, only the latest are named.
	maxRecentFollows = 32
	// followHashBytes is the size of a follow in a session.
	followHashBytes = 4
)

// recentFollows are the recent follows of a session. Each is a hash of its host and its time, so that a host who was left and followed
// again is another follow. The hashes are ascending numbers of four bytes, in a string, so that sessions can be compared.
type recentFollows string

// splitFollows splits the follows of hosts for a session: recent has the latest follows that are not before since, at most
// maxRecentFollows, and followed is the time of the latest of all other follows.
func splitFollows(hosts []services.FollowedAuthor, since services.SortableID) (followed services.SortableID, recent recentFollows) {
	var latest []services.FollowedAuthor // stays nil for most viewers
	for _, host := range hosts {
		if host.ItemsCountAfter >= since {
			latest = append(latest, host)
		} else {
			followed = max(followed, host.ItemsCountAfter)
		}
	}
	if len(latest) == 0 {
		return followed, ""
	}
	if len(latest) > maxRecentFollows {
		slices.SortFunc(latest, func(a, b services.FollowedAuthor) int { return cmp.Compare(b.ItemsCountAfter, a.ItemsCountAfter) })
		followed, latest = latest[maxRecentFollows].ItemsCountAfter, latest[:maxRecentFollows]
	}
	hashes := services.Map(latest, followHash)
	slices.Sort(hashes)
	var bytes []byte
	for _, hash := range slices.Compact(hashes) {
		bytes = binary.BigEndian.AppendUint32(bytes, hash)
	}
	return followed, recentFollows(bytes)
}

// followHash is the hash of a follow, the same on every node.
func followHash(host services.FollowedAuthor) uint32 {
	var follow [16]byte
	binary.BigEndian.PutUint64(follow[:8], uint64(host.Author))
	binary.BigEndian.PutUint64(follow[8:], uint64(host.ItemsCountAfter))
	hash := fnv.New32a()
	_, _ = hash.Write(follow[:]) // a hash never fails
	return hash.Sum32()
}

// sumFollowHashes is the sum of the fast hashes of follows, the same on every node and in any order.
func sumFollowHashes(hosts []services.FollowedAuthor) (sum uint32) {
	for _, host := range hosts {
		sum += fastFollowHash(host)
	}
	return sum
}

// fastFollowHash is a number of the generator SplitMix64: its seed is the time of the follow, and the host counts the numbers. Each page
// of a board hashes all hosts, who may be thousands: followHash would take a fifth of the time of such a page, and this takes a hundredth.
func fastFollowHash(host services.FollowedAuthor) uint32 {
	mixed := uint64(host.ItemsCountAfter) + uint64(host.Author)*0x9E3779B97F4A7C15
	mixed = (mixed ^ mixed>>30) * 0xBF58476D1CE4E5B9
	mixed = (mixed ^ mixed>>27) * 0x94D049BB133111EB
	return uint32(mixed ^ mixed>>31)
}

// at returns the hash at an index.
func (r recentFollows) at(i int) (hash uint32) {
	for _, one := range []byte(r[i*followHashBytes : (i+1)*followHashBytes]) {
		hash = hash<<8 | uint32(one)
	}
	return hash
}

// valid reports whether splitFollows can have made the text.
func (r recentFollows) valid() bool {
	if len(r)%followHashBytes != 0 || len(r) > maxRecentFollows*followHashBytes {
		return false
	}
	for i := 1; i < len(r)/followHashBytes; i++ {
		if r.at(i-1) >= r.at(i) {
			return false
		}
	}
	return true
}

// has reports whether the follow of a host is among the recent ones.
func (r recentFollows) has(host services.FollowedAuthor) bool {
	if r == "" {
		return false
	}
	hash := followHash(host)
	for i := range len(r) / followHashBytes {
		if r.at(i) == hash {
			return true
		}
	}
	return false
}
