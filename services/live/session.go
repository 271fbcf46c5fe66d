package live

import (
	"encoding/base64"
	"encoding/binary"
	"hash/fnv"
	"time"

	"tidings/services"
)

// Session names a board as it was at one moment, for one viewer. It is a version of what all nodes know and no copy of it:
// whoever holds its text has the whole of it, on every node.
type Session struct {
	Version uint64          // of the log of shows: a show stands on the board where it stood then
	Made    services.PostID // when, and unlike every other session's; hosts followed later wait for the next one
	Viewer  services.UserID
	Device  uint64 // which of the viewer's devices asked, by a hash of its name; 0: it did not name itself
}

// Scope says for how many sessions there is room at once.
type Scope string

// The scopes. Where there is room for one, a new first page ends the one before it.
const (
	PerRequest Scope = "request" // each first page has its own
	PerDevice  Scope = "device"  // one for each device of a viewer; a client that does not name its device has one a request
	PerUser    Scope = "user"    // one for each viewer
)

// Scopes lists every scope.
var Scopes = []Scope{PerRequest, PerDevice, PerUser}

const (
	sessionForm  = 1 // the first byte of a session
	sessionBytes = 1 + 8 + 8 + 4 + 8
	// maxSkew is how far ahead of this node's clock another one's may be.
	maxSkew = time.Minute
)

var sessionText = base64.RawURLEncoding.Strict()

// String prints the session as clients hold it. It holds nothing that must be kept secret.
func (s Session) String() string { return sessionText.EncodeToString(s.append(nil)) }

func (s Session) append(to []byte) []byte {
	to = append(to, sessionForm)
	to = binary.BigEndian.AppendUint64(to, s.Version)
	to = binary.BigEndian.AppendUint64(to, uint64(s.Made))
	to = binary.BigEndian.AppendUint32(to, uint32(s.Viewer))
	return binary.BigEndian.AppendUint64(to, s.Device)
}

// ParseSession reads what String prints; field names the argument in the error. INVALID for anything else, and for another
// user's.
func ParseSession(field string, viewer services.UserID, text string) (Session, error) {
	bytes, err := sessionText.DecodeString(text)
	session, ok := sessionOf(bytes)
	switch {
	case err != nil || !ok || session.String() != text:
		return Session{}, services.Errorf(services.Invalid, "%s: %s is not a session of a live board", field, services.Quote(text))
	case session.Viewer != viewer:
		return Session{}, services.Errorf(services.Invalid, "%s: the session is another user's", field)
	}
	return session, nil
}

// sessionOf reads what append wrote.
func sessionOf(bytes []byte) (Session, bool) {
	if len(bytes) != sessionBytes || bytes[0] != sessionForm {
		return Session{}, false
	}
	session := Session{
		Version: binary.BigEndian.Uint64(bytes[1:]), Made: services.PostID(binary.BigEndian.Uint64(bytes[9:])),
		Viewer: services.UserID(binary.BigEndian.Uint32(bytes[17:])), Device: binary.BigEndian.Uint64(bytes[21:]),
	}
	const mostVersion = 1<<63 - 1 // of the log, as SQL counts
	return session, session.Version <= mostVersion && session.Made > 0 && session.Made <= services.MaxPostID
}

// DeviceHash is what a session keeps of the name of a device: 0 of "".
func DeviceHash(name string) uint64 {
	if name == "" {
		return 0
	}
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(name)) // a hash takes whatever it is given
	return max(sum.Sum64(), 1)
}

// name is what tells a viewer's sessions apart.
func (s Session) name() string { return s.Made.String() }

// slot names the room that a session takes: a session that holds it is the only one there.
func (s Session) slot(scope Scope) string {
	switch {
	case scope == PerUser:
		return "u"
	case scope == PerDevice && s.Device != 0:
		return "d" + services.PostID(s.Device>>1).String()
	}
	return "r" + s.name()
}

// shared says that a new first page takes the room of the one before it.
func (s Session) shared(scope Scope) bool {
	return scope == PerUser || scope == PerDevice && s.Device != 0
}

// lease is what Redis has of the room of a session.
type lease struct {
	Known  bool   // Redis answered
	Holder string // the name of the session that has the room and lives; "" for none
}

// lives says whether a session may still be read: for idle after it was made or, by its lease, used last, and however
// often it is used no longer than longest. What Redis does not say is taken to be so.
func (s Session) lives(now time.Time, lease lease, idle, longest time.Duration) bool {
	made := s.Made.Time()
	switch {
	case now.After(made.Add(longest)):
		return false
	case !lease.Known:
		return true
	case lease.Holder == "":
		return !now.After(made.Add(idle))
	}
	return lease.Holder == s.name()
}

// has says whether a host who is followed since then is on the board of the session.
func (s Session) has(since services.PostID) bool { return since <= s.Made }

// hosts are those of a list who are on the board of the session. The list stays as it is.
func (s Session) hosts(all []services.FollowedAuthor) []services.FollowedAuthor {
	for i, host := range all {
		if s.has(host.Since) {
			continue
		}
		kept := append(make([]services.FollowedAuthor, 0, len(all)), all[:i]...)
		for _, host := range all[i+1:] {
			if s.has(host.Since) {
				kept = append(kept, host)
			}
		}
		return kept
	}
	return all
}
