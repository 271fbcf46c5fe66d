package rdb

import (
	"context"
	"strconv"

	"tidings/services"
	"tidings/services/redis"
)

// LiveBoardState is the part of a document that a live board needs.
type LiveBoardState struct {
	Ready         bool                      // false: the document is missing or being built, and the other fields are invalid
	Hosts         []services.FollowedAuthor // in no order
	LiveSeenUpTo  uint64                    // shows that went live up to this version of the changelog were seen
	LastActiveDay int64                     // on which the reader was last marked active, since 1970
}

// LiveBoardFields are the fields of a document that make a LiveBoardState; ParseLiveBoardState parses them. services/live reads
// them in its own round trip, beside the list of replays.
var LiveBoardFields = redis.NewFewFields([]string{"st", "e", string(HostsField), liveSeenField, "d"})

// ReadLiveBoardStates reads the parts of readers' documents that live boards need, in one round trip. The read for one reader
// shares its round trip with other reads. An error comes from Redis and is UNAVAILABLE.
func (c *Projections) ReadLiveBoardStates(ctx context.Context, readers []services.UserID) ([]LiveBoardState, error) {
	if err := c.Client.CheckTrusted(); err != nil {
		return nil, err
	}
	if len(readers) == 1 { // this read shares its round trip with other queries, as in Documents
		var room [8]string
		texts, err := c.Client.ReadFields(ctx, DocumentKey(readers[0]), LiveBoardFields, room[:0])
		if err == nil {
			return []LiveBoardState{ParseLiveBoardState(texts, c.Client.Epoch())}, nil
		}
		if !redis.IsWrongType(err) {
			return nil, redis.MapError(err)
		}
	}
	reads := make([]redis.KeyRead, len(readers))
	for i, reader := range readers {
		reads[i] = redis.KeyRead{Key: DocumentKey(reader), Read: LiveBoardFields}
	}
	states, epoch := make([]LiveBoardState, len(readers)), ""
	err := c.Client.ReadEach(redis.WithReadGuard(ctx), reads, func(i int, texts []string) {
		if i == 0 { // after the answers, as in Documents
			epoch = c.Client.Epoch()
		}
		states[i] = ParseLiveBoardState(texts, epoch)
	})
	if err != nil {
		return nil, err
	}
	return states, nil
}

// ParseLiveBoardState parses the texts of LiveBoardFields. A document of another epoch counts as missing, and so does one with a
// broken field.
func ParseLiveBoardState(texts []string, epoch string) (state LiveBoardState) {
	// The texts, in the order of LiveBoardFields: the state (1: good), the epoch, the hosts, the seen position and the day.
	if texts[0] != "1" || texts[1] != epoch {
		return state
	}
	hosts, seen := texts[2], texts[3]
	p := &documentParser{failed: hosts == redis.AbsentField || seen == redis.AbsentField, texts: []string{seen}}
	state.Hosts, state.LiveSeenUpTo = p.unpackAuthors(HostsField, hosts), p.liveSeen()
	if p.failed {
		return LiveBoardState{}
	}
	// A day that is absent or unreadable becomes day 0, so that the user is treated as one who returns.
	state.LastActiveDay, _ = strconv.ParseInt(texts[4], 10, 64)
	state.Ready = true
	return state
}
