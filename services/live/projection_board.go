package live

import (
	"context"
	"strconv"
	"strings"
	"time"

	"tidings/services"
	"tidings/services/rdb"
	"tidings/services/redis"
)

// maxSessionSlots bounds how many sessions of one user's boards are kept: beyond it, the sessions that end first are dropped.
const maxSessionSlots = 64

// boardQuery asks for the part of one live board page that Redis holds.
type boardQuery struct {
	Reader services.UserID
	Before ShowPosition // only replays below this position are read; a position that is no replay's means from the top
	Limit  int          // the most replays to read; 0: only the document is read, as for the badges
	Slot   string       // the slot of the page's session: see Session.slotKey
}

// redisBoard is the part of a live board that Redis holds.
type redisBoard struct {
	rdb.LiveBoardState               // if Ready is false, only Lease is valid
	ListReady          bool          // false: the list of replays is missing or being built; of the fields below, only Lease is valid
	Replays            []replayEntry // newest first, among the newest FeedRetention of the list
	Floor              ShowPosition  // the newest replay that the list does not have; zero: it has all
	Lease              slotLease     // of the slot in the query
}

// readBoard reads, in one round trip, the hosts and the replays of a page, and the lease of its session.
func (p projection) readBoard(ctx context.Context, query boardQuery) (redisBoard, error) {
	if err := p.Client.CheckTrusted(); err != nil {
		return redisBoard{}, err
	}
	if query.Limit == 0 {
		return p.readBoardDocument(ctx, query.Reader)
	}
	key, top := replaysKey(query.Reader), "+"
	if query.Before.Replay {
		top = "(" + positionText(query.Before)
	}
	reads := [...]redis.KeyRead{
		{Key: rdb.DocumentKey(query.Reader), Read: rdb.LiveBoardFields},
		{Key: sessionsKey(query.Reader), Read: redis.NewOneField(query.Slot)},
		{Key: key, Read: replaysMarkRange},
		{Key: key, Read: firstBeyondRetention},
		{Key: key, Read: redis.NewTextRange(top, "[0", query.Limit)},
	}
	var read redisBoard
	err := p.Client.ReadEach(redis.WithReadGuard(ctx), reads[:], func(i int, texts []string) {
		switch i {
		case 0:
			read.LiveBoardState = rdb.ParseLiveBoardState(texts, p.Client.Epoch())
		case 1:
			read.Lease = p.parseLease(texts[0])
		case 2:
			if read.Ready {
				read.Floor, read.ListReady = parseListFloor(texts)
			}
		case 3:
			if read.ListReady && len(texts) == 1 {
				if entry, ok := parseReplay(texts[0]); ok {
					read.Floor = entry.Position
				}
			}
		case 4:
			if read.ListReady {
				read.Replays = replaysAbove(read.Floor, texts)
			}
		}
	})
	if err != nil {
		return redisBoard{}, err
	}
	return read, nil
}

var (
	// replaysMarkRange reads the first member of a list of replays, which is its mark and its floor.
	replaysMarkRange = redis.NewRange(0, 0, false)
	// firstBeyondRetention reads the newest replay of a list beyond the newest FeedRetention.
	firstBeyondRetention = redis.NewRange(services.FeedRetention, services.FeedRetention, true)
)

// replaysAbove parses members of a list of replays, and leaves out what is not above the list's floor.
func replaysAbove(floor ShowPosition, members []string) (replays []replayEntry) {
	for _, member := range members {
		entry, ok := parseReplay(member)
		if ok && (!floor.Replay || entry.Position.Before(floor)) {
			replays = append(replays, entry)
		}
	}
	return replays
}

// readBoardDocument reads only the document. It does not read the lease, and returns the slot as free.
func (p projection) readBoardDocument(ctx context.Context, reader services.UserID) (redisBoard, error) {
	states, err := p.ReadLiveBoardStates(ctx, []services.UserID{reader})
	if err != nil {
		return redisBoard{}, err
	}
	return redisBoard{LiveBoardState: states[0], Lease: slotLease{RedisAnswered: true}}, nil
}

// parseLease reads the state of a slot. A session that has ended does not hold the slot.
func (p projection) parseLease(text string) slotLease {
	end, session, _ := strings.Cut(text, ";")
	ms, err := strconv.ParseInt(end, 10, 64)
	if until := time.UnixMilli(ms); err == nil && until.After(p.Client.Clock().Now()) {
		return slotLease{RedisAnswered: true, Holder: session, Until: until}
	}
	return slotLease{RedisAnswered: true}
}

// touchSession extends a session until a moment and makes it the session of its slot: an earlier session of the slot ends. held
// is false, and nothing has changed, if a later session has the slot.
func (p projection) touchSession(ctx context.Context, viewer services.UserID, slot, session string, until time.Time) (held bool, err error) {
	args := []any{slot, session, until.UnixMilli(), maxSessionSlots}
	replies, err := p.Client.Change(redis.WithReadGuard(ctx), sessionTouch, []redis.ScriptCall{{Keys: []string{sessionsKey(viewer)}, Args: args}})
	if err != nil {
		return false, err
	}
	return replies[0].Value == int64(1), redis.MapError(replies[0].Err)
}
