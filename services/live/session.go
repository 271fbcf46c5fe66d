package live

import (
	"encoding/base64"
	"encoding/binary"
	"hash/fnv"
	"time"

	"tidings/services"
)

// Session identifies a board as it was at one moment, for one viewer. It names a version of the changelog, which all nodes read,
// and copies nothing: a node needs only the session's text to serve the board.
type Session struct {
	Version    uint64              // of the changelog, as far as the node cache had read it: shows have their positions at this version
	CreationID services.SortableID // an ID of the time of creation, unique among sessions
	Viewer     services.UserID
	DeviceHash uint64 // hash of the name of the viewer's device; 0 if the client gave none
	// LatestFollow is the latest follow (FollowedAuthor.ItemsCountAfter) among the hosts that the board had when the session was
	// made and that are not in RecentFollows, 0 without such hosts. Hosts followed at later times appear in the next session. It is
	// not CreationID: a follow that was committed before CreationID may reach the viewer's document afterwards, and must not change
	// the board.
	LatestFollow services.SortableID
	// RecentFollows has the other follows of the hosts that the board had: those of the last minutes before CreationID. They are
	// named one by one, because follows may reach the document in another order than that of their times.
	RecentFollows recentFollows
	// FollowsHash is sumFollowHashes of all hosts that the board had. 0: unknown, because an older release made the session. It shows
	// that the hosts have changed since; Service.boardHosts then finds those that look as if the board had had them.
	FollowsHash uint32
}

// SessionScope defines which sessions share one slot. Only one session of a slot lives at a time.
type SessionScope string

// The scopes. If sessions share a slot, a new first page ends the earlier session.
const (
	perRequest SessionScope = "request" // each first page has its own slot
	perDevice  SessionScope = "device"  // one slot for each device of a viewer; without a device's name, one for each first page
	perUser    SessionScope = "user"    // one slot for each viewer
)

const (
	// The form is the first byte of a session. A change of the layout takes another value, so that no text of an older release is
	// misread. A session of sessionFormByte has the version, CreationID, the viewer, the device and LatestFollow, in this order.
	sessionFormByte = 2
	// recentFollowsFormByte is sessionFormByte with RecentFollows after it.
	recentFollowsFormByte = 3
	// followsHashFormByte is sessionFormByte with FollowsHash and, if there are any, RecentFollows after it. An older release made only
	// sessions of the other forms.
	followsHashFormByte = 4
	sessionBytes        = 1 + 8 + 8 + 4 + 8 + 8 // of a session of sessionFormByte
	// noFollowFormByte has no LatestFollow. It is the form of sessions whose LatestFollow is CreationID: an older release made only
	// these.
	noFollowFormByte     = 1
	noFollowSessionBytes = sessionBytes - 8 // of a session of noFollowFormByte
	// maxClockSkew is how far ahead of this node's clock another one's may be.
	maxClockSkew = time.Minute
)

// sessionEncoding is strict, so that one session has one text: a client may compare texts, and a cache may use them as keys.
var sessionEncoding = base64.RawURLEncoding.Strict()

// String formats the session for clients. It contains no secret.
func (s Session) String() string { return sessionEncoding.EncodeToString(s.append(nil)) }

// append appends the bytes of the session, which String encodes.
func (s Session) append(to []byte) []byte {
	form := byte(sessionFormByte)
	switch { // one session has one text
	case s.FollowsHash != 0:
		form = followsHashFormByte
	case s.RecentFollows != "":
		form = recentFollowsFormByte
	case s.LatestFollow == s.CreationID:
		form = noFollowFormByte
	}
	to = append(to, form)
	to = binary.BigEndian.AppendUint64(to, s.Version)
	to = binary.BigEndian.AppendUint64(to, uint64(s.CreationID))
	to = binary.BigEndian.AppendUint32(to, uint32(s.Viewer))
	to = binary.BigEndian.AppendUint64(to, s.DeviceHash)
	if form == noFollowFormByte {
		return to
	}
	to = binary.BigEndian.AppendUint64(to, uint64(s.LatestFollow))
	if form == followsHashFormByte {
		to = binary.BigEndian.AppendUint32(to, s.FollowsHash)
	}
	return append(to, s.RecentFollows...)
}

// ParseSession parses the output of String; field names the argument in the error. The error is INVALID for anything else, and
// for another user's session. The text is not signed: a user who forges one gets a page of their own board at another version,
// and catchUpToSession refuses versions that do not exist.
func ParseSession(field string, viewer services.UserID, text string) (Session, error) {
	bytes, err := sessionEncoding.DecodeString(text)
	session, ok := sessionOf(bytes)
	switch {
	case err != nil || !ok || session.String() != text:
		return Session{}, services.Errorf(services.Invalid, "%s: %s is not a session of a live board", field, services.Quote(text))
	case session.Viewer != viewer:
		return Session{}, services.Errorf(services.Invalid, "%s: the session is another user's", field)
	}
	return session, nil
}

// sessionOf parses the output of append. It also accepts a session in a longer form than append would write it in: the callers compare
// the texts, and refuse it.
func sessionOf(bytes []byte) (Session, bool) {
	if len(bytes) < noFollowSessionBytes {
		return Session{}, false
	}
	form, rest, followsHash := bytes[0], bytes[min(sessionBytes, len(bytes)):], uint32(0)
	if form == followsHashFormByte && len(rest) >= followHashBytes {
		followsHash, rest = binary.BigEndian.Uint32(rest), rest[followHashBytes:]
	}
	recent := recentFollows(rest)
	var whole bool
	switch form {
	case noFollowFormByte:
		whole = len(bytes) == noFollowSessionBytes
	case sessionFormByte:
		whole = len(bytes) == sessionBytes
	case recentFollowsFormByte:
		whole = recent != "" && recent.valid()
	case followsHashFormByte:
		whole = followsHash != 0 && recent.valid()
	}
	if !whole {
		return Session{}, false
	}
	session := Session{
		Version: binary.BigEndian.Uint64(bytes[1:]), CreationID: services.SortableID(binary.BigEndian.Uint64(bytes[9:])), FollowsHash: followsHash,
		Viewer: services.UserID(binary.BigEndian.Uint32(bytes[17:])), DeviceHash: binary.BigEndian.Uint64(bytes[21:]), RecentFollows: recent,
	}
	if session.LatestFollow = session.CreationID; form != noFollowFormByte {
		session.LatestFollow = services.SortableID(binary.BigEndian.Uint64(bytes[noFollowSessionBytes:]))
	}
	const mostVersion = 1<<63 - 1 // of the log, as SQL counts
	return session, session.Version <= mostVersion && session.CreationID > 0 && max(session.CreationID, session.LatestFollow) <= services.MaxSortableID
}

// deviceHash is the hash of a device's name in a session: 0 for "".
func deviceHash(name string) uint64 {
	if name == "" {
		return 0
	}
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(name)) // a hash never fails
	// 0 says that the client named no device.
	return max(sum.Sum64(), 1)
}

// name is unique among a viewer's sessions, and sorts by the time of creation: session_touch.lua lets the later session keep a
// slot.
func (s Session) name() string { return s.CreationID.String() }

// slotKey names the session's slot among the viewer's slots in Redis. Sessions with the same slotKey share the slot, and only the
// session that holds it lives.
func (s Session) slotKey(scope SessionScope) string {
	switch {
	case scope == perUser:
		return "u"
	case scope == perDevice && s.DeviceHash != 0:
		// A SortableID has 63 bits, so the hash loses one: the rest tells a viewer's devices apart.
		return "d" + services.SortableID(s.DeviceHash>>1).String()
	}
	// The session has its own slot: no other session can take it, and the lease only records when the session ends.
	return "r" + s.name()
}

// sharesSlot reports whether a new first page takes over the slot of the earlier session.
func (s Session) sharesSlot(scope SessionScope) bool {
	return scope == perUser || scope == perDevice && s.DeviceHash != 0
}

// slotLease is the state of a session's slot in Redis.
type slotLease struct {
	RedisAnswered bool      // Redis answered
	Holder        string    // the name of the live session that holds the slot; "" for none
	Until         time.Time // the end of that session, if nothing extends it
}

// lives reports whether a session may still be read. It may be read for the time idle after it was created or, by its lease, last
// used, but never for more than the time longest. If Redis does not answer, the session is assumed to hold its slot.
func (s Session) lives(now time.Time, lease slotLease, idle, longest time.Duration) bool {
	made := s.CreationID.Time()
	switch {
	case now.After(made.Add(longest)):
		return false
	case !lease.RedisAnswered:
		// Redis does not answer. Positions that are older than promised are better than a board that moves under a
		// scrolling user.
		return true
	case lease.Holder == "":
		// The session was never renewed, or its lease is over or lost with Redis' data: only the first idle time is certain.
		return !now.After(made.Add(idle))
	}
	return lease.Holder == s.name()
}

// hasHost reports whether a followed host belongs to the board of the session, by the time of the follow. Service.boardHosts also finds
// hosts that the board lacked in spite of that time.
func (s Session) hasHost(host services.FollowedAuthor) bool {
	return host.ItemsCountAfter <= s.LatestFollow || s.RecentFollows.has(host)
}

// filterHosts filters a list to the hosts on the board of the session. The list itself is not modified.
func (s Session) filterHosts(all []services.FollowedAuthor) []services.FollowedAuthor {
	// Nearly always all hosts belong to the board: the list is copied only when a host is found that does not.
	for i, host := range all {
		if s.hasHost(host) {
			continue
		}
		kept := append(make([]services.FollowedAuthor, 0, len(all)), all[:i]...)
		for _, host := range all[i+1:] {
			if s.hasHost(host) {
				kept = append(kept, host)
			}
		}
		return kept
	}
	return all
}
