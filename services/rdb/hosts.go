package rdb

import (
	"strconv"

	"tidings/services"
)

// HostsState is the part of a document that a live board needs.
type HostsState struct {
	Ready    bool                      // false: the document is missing or being built, and the other fields are invalid
	Hosts    []services.FollowedAuthor // in no order
	LiveSeen uint64                    // shows that went live up to this version of the changelog were seen
	Day      int64                     // on which the reader was last marked active, since 1970
}

// HostsFields are the document's fields of a HostsState. services/live reads them in its own pipeline, beside the list
// of replays.
var HostsFields = []string{"st", "e", string(Hosts), liveField, "d"}

// ParseHosts parses the values of HostsFields. A document of another epoch is missing, and so is one with a broken
// field.
func ParseHosts(values []any, epoch string) (state HostsState) {
	// The order is that of HostsFields.
	if values[0] != "1" || values[1] != epoch {
		return state
	}
	hosts, hasHosts := values[2].(string)
	seen, hasSeen := values[3].(string)
	p := &parser{failed: !hasHosts || !hasSeen, texts: []string{seen}}
	state.Hosts, state.LiveSeen = p.unpackNamed(Hosts, hosts), p.liveSeen()
	if p.failed {
		return HostsState{}
	}
	if day, ok := values[4].(string); ok {
		// an unreadable day becomes day 0, so that the user is treated as one who returns
		state.Day, _ = strconv.ParseInt(day, 10, 64)
	}
	state.Ready = true
	return state
}
