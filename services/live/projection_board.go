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

// sessionSlots bounds how many sessions of one user's boards are kept: beyond it, the sessions that end first are dropped.
const sessionSlots = 64

// boardQuery asks for the part of one live board page that Redis holds.
type boardQuery struct {
	Reader services.UserID
	Before ShowPlace // replays below it; the zero position, or the position of a show that is no replay: from the top
	Limit  int       // at most so many replays; 0: only the document is read, as for the badges
	Slot   string    // the slot of the page's session
}

// boardRead is the part of a live board that Redis holds.
type boardRead struct {
	rdb.HostsState               // if Ready is false, only Lease is valid
	Listed         bool          // false: the list of replays is missing or being built; below, only Lease is valid
	Replays        []replayEntry // newest first, of the newest 300
	Floor          ShowPlace     // the newest replay that the list does not have; zero: it has all
	Lease          string        // the live session of the slot; "" for none
}

// board reads a page's hosts, replays and lease in one round trip.
func (p projection) board(ctx context.Context, query boardQuery) (boardRead, error) {
	if err := p.Trusted(); err != nil {
		return boardRead{}, err
	}
	if query.Limit == 0 {
		return p.boardDocument(ctx, query.Reader)
	}
	key, top := replaysKey(query.Reader), "+"
	if query.Before.Replay {
		top = "(" + placeText(query.Before)
	}
	ctx = redis.Reading(ctx)
	commands, err := p.Read(ctx, func(pipe redis.Pipeliner) {
		pipe.HMGet(ctx, rdb.DocumentKey(query.Reader), rdb.HostsFields...)
		pipe.ZRange(ctx, key, 0, 0)
		pipe.ZRevRange(ctx, key, services.Retention, services.Retention)
		pipe.ZRevRangeByLex(ctx, key, &redis.ZRangeBy{Max: top, Min: "[0", Count: int64(query.Limit)})
		pipe.HGet(ctx, sessionsKey(query.Reader), query.Slot)
	})
	if err != nil {
		return boardRead{}, err
	}
	for _, command := range commands {
		if err := command.Err(); err != nil && err != redis.Nil {
			return boardRead{}, redis.Unavailable(err)
		}
	}
	read := boardRead{HostsState: rdb.ParseHosts(redis.Texts(nil, commands[0].(*redis.SliceCmd).Val()), p.Epoch())}
	read.Lease = p.lease(commands[4].(*redis.StringCmd).Val())
	if !read.Ready {
		return read, nil
	}
	first := commands[1].(*redis.StringSliceCmd).Val()
	if len(first) == 0 || first[0] == "" || first[0][0] != builtMark {
		return read, nil
	}
	if read.Floor, read.Listed = parseReplayPlace(first[0][1:]); !read.Listed {
		return read, nil
	}
	if over := commands[2].(*redis.StringSliceCmd).Val(); len(over) == 1 {
		if entry, ok := parseReplay(over[0]); ok {
			read.Floor = entry.Place
		}
	}
	for _, member := range commands[3].(*redis.StringSliceCmd).Val() {
		entry, ok := parseReplay(member)
		if ok && (!read.Floor.Replay || entry.Place.Before(read.Floor)) {
			read.Replays = append(read.Replays, entry)
		}
	}
	return read, nil
}

// boardDocument reads only the document's part.
func (p projection) boardDocument(ctx context.Context, reader services.UserID) (boardRead, error) {
	states, err := p.HostsOf(ctx, []services.UserID{reader})
	if err != nil {
		return boardRead{}, err
	}
	return boardRead{HostsState: states[0]}, nil
}

// lease returns the session of a slot, unless it has ended.
func (p projection) lease(text string) string {
	end, session, _ := strings.Cut(text, ";")
	ms, err := strconv.ParseInt(end, 10, 64)
	if err != nil || !time.UnixMilli(ms).After(p.Clock().Now()) {
		return ""
	}
	return session
}

// touchSession extends a session until a moment and makes it the session of its slot: an earlier session of the slot ends. held
// is false, and nothing has changed, if a later session has the slot.
func (p projection) touchSession(ctx context.Context, viewer services.UserID, slot, session string, until time.Time) (held bool, err error) {
	args := []any{slot, session, until.UnixMilli(), sessionSlots}
	replies, err := p.Change(redis.Reading(ctx), sessionTouch, []redis.Call{{Keys: []string{sessionsKey(viewer)}, Args: args}})
	if err != nil {
		return false, err
	}
	return replies[0].Value == int64(1), redis.Unavailable(replies[0].Err)
}
