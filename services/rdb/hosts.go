package rdb

import (
	"context"
	"strconv"

	"tidings/services"
	"tidings/services/redis"
)

// HostsState is the part of a document that a live board needs.
type HostsState struct {
	Ready    bool                      // false: the document is missing or being built, and the other fields are invalid
	Hosts    []services.FollowedAuthor // in no order
	LiveSeen uint64                    // shows that went live up to this version of the changelog were seen
	Day      int64                     // on which the reader was last marked active, since 1970
}

// HostsFields are the fields of a document that make a HostsState; ParseHosts parses them. services/live reads them in its
// own round trip, beside the list of replays.
var HostsFields = redis.NewFewFields([]string{"st", "e", string(Hosts), liveField, "d"})

// HostsOf reads the parts of readers' documents that live boards need, in one round trip. The read for one reader shares its
// round trip with other reads. An error comes from Redis and is UNAVAILABLE.
func (c *Projections) HostsOf(ctx context.Context, readers []services.UserID) ([]HostsState, error) {
	if err := c.CheckTrusted(); err != nil {
		return nil, err
	}
	if len(readers) == 1 { // as in Documents
		var room [8]string
		texts, err := c.ReadFields(ctx, DocumentKey(readers[0]), HostsFields, room[:0])
		if err == nil {
			return []HostsState{ParseHosts(texts, c.Epoch())}, nil
		}
		if !redis.IsWrongType(err) {
			return nil, redis.MapError(err)
		}
	}
	reads := make([]redis.KeyRead, len(readers))
	for i, reader := range readers {
		reads[i] = redis.KeyRead{Key: DocumentKey(reader), Read: HostsFields}
	}
	states, epoch := make([]HostsState, len(readers)), ""
	err := c.ReadEach(redis.WithReading(ctx), reads, func(i int, texts []string) {
		if i == 0 { // as in Documents
			epoch = c.Epoch()
		}
		states[i] = ParseHosts(texts, epoch)
	})
	if err != nil {
		return nil, err
	}
	return states, nil
}

// ParseHosts parses the texts of HostsFields. A document of another epoch counts as missing, and so does one with a broken
// field.
func ParseHosts(texts []string, epoch string) (state HostsState) {
	// The order is the same as in HostsFields.
	if texts[0] != "1" || texts[1] != epoch {
		return state
	}
	hosts, seen := texts[2], texts[3]
	p := &parser{failed: hosts == redis.Absent || seen == redis.Absent, texts: []string{seen}}
	state.Hosts, state.LiveSeen = p.unpackNamed(Hosts, hosts), p.liveSeen()
	if p.failed {
		return HostsState{}
	}
	// A day that is absent or unreadable becomes day 0, so that the user is treated as one who returns.
	state.Day, _ = strconv.ParseInt(texts[4], 10, 64)
	state.Ready = true
	return state
}
