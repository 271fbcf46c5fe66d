package rdb

import (
	"context"
	"strconv"
	"strings"
	"time"

	"tidings/services"
	"tidings/services/redis"
)

var sessionTouch = loadScript("session_touch")

// sessionSlots is how many sessions of one user's boards are kept at most: of more, those that end first are forgotten.
const sessionSlots = 64

// BoardQuery asks for what Redis has of one page of a live board.
type BoardQuery struct {
	Reader services.UserID
	Before services.ShowPlace // replays below it; the zero place, or one that is none of a replay: from the top
	Limit  int                // replays, at most; 0: only the document is read, as the badges read it
	Slot   string             // of the session that the page belongs to
}

// BoardRead is what Redis has of a live board.
type BoardRead struct {
	Ready    bool                      // false: the document is missing or being built, and of all that follows only Lease counts
	Hosts    []services.FollowedAuthor // in no order
	LiveSeen uint64                    // shows that went live up to this version of the log were seen
	Day      int64                     // on which the reader was last marked active, since 1970
	Listed   bool                      // false: the list of replays is missing or being built, and what follows but Lease does not count
	Replays  []ReplayEntry             // newest first, those among the newest 300
	Floor    services.ShowPlace        // the newest replay that the list does not have; the zero place: it has all
	Lease    string                    // the session that lives in the slot; "" for none
}

// Board reads a page's hosts, replays and lease in one round trip.
func (c *Projections) Board(ctx context.Context, query BoardQuery) (BoardRead, error) {
	if err := c.Trusted(); err != nil {
		return BoardRead{}, err
	}
	if query.Limit == 0 {
		return c.boardDocument(ctx, query.Reader)
	}
	key, top := replaysKey(query.Reader), "+"
	if query.Before.Replay {
		top = "(" + placeText(query.Before)
	}
	ctx = redis.Reading(ctx)
	commands, err := c.readViews(ctx, func(p redis.Pipeliner) {
		p.HMGet(ctx, badgeKey(query.Reader), boardFields...)
		p.ZRange(ctx, key, 0, 0)
		p.ZRevRange(ctx, key, services.Retention, services.Retention)
		p.ZRevRangeByLex(ctx, key, &redis.ZRangeBy{Max: top, Min: "[0", Count: int64(query.Limit)})
		p.HGet(ctx, sessionsKey(query.Reader), query.Slot)
	})
	if err != nil {
		return BoardRead{}, err
	}
	for _, command := range commands {
		if err := command.Err(); err != nil && err != redis.Nil {
			return BoardRead{}, redis.Unavailable(err)
		}
	}
	read := boardState(commands[0].(*redis.SliceCmd).Val(), c.Epoch())
	read.Lease = c.lease(commands[4].(*redis.StringCmd).Val())
	if !read.Ready {
		return read, nil
	}
	first := commands[1].(*redis.StringSliceCmd).Val()
	if len(first) == 0 || first[0] == "" || first[0][0] != sentinel {
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

// boardFields are what a document says of the board.
var boardFields = []string{"st", "e", string(Hosts), liveField, "d"}

// boardDocument reads them alone, in one command, which calls at the same time share a round trip for.
func (c *Projections) boardDocument(ctx context.Context, reader services.UserID) (BoardRead, error) {
	values, err := c.Shared().HMGet(ctx, badgeKey(reader), boardFields...).Result()
	switch {
	case err == nil:
		return boardState(values, c.Epoch()), nil
	case redis.IsWrongType(err): // it is cleared away on the longer way
		return c.Board(ctx, BoardQuery{Reader: reader, Limit: 1})
	}
	return BoardRead{}, redis.Unavailable(err)
}

// boardState reads what the document says of the board.
func boardState(fields []any, epoch string) (read BoardRead) {
	if fields[0] != "1" || fields[1] != epoch {
		return read
	}
	hosts, hasHosts := fields[2].(string)
	seen, hasSeen := fields[3].(string)
	p := &parser{failed: !hasHosts || !hasSeen, texts: []string{seen}}
	read.Hosts, read.LiveSeen = p.unpackNamed(hosts), p.liveSeen()
	if p.failed {
		return BoardRead{}
	}
	if day, ok := fields[4].(string); ok {
		read.Day, _ = strconv.ParseInt(day, 10, 64) // what is none is a day long ago, and he is taken for one who returns
	}
	read.Ready = true
	return read
}

// lease is the session of a slot, unless it has ended.
func (c *Projections) lease(text string) string {
	end, session, _ := strings.Cut(text, ";")
	ms, err := strconv.ParseInt(end, 10, 64)
	if err != nil || !time.UnixMilli(ms).After(c.Clock().Now()) {
		return ""
	}
	return session
}

// TouchSession lets a session live on until a moment, as the one of its slot: an earlier one that had it is ended. held is false, and
// nothing has changed, where a later one has it.
func (c *Projections) TouchSession(ctx context.Context, viewer services.UserID, slot, session string, until time.Time) (held bool, err error) {
	args := []any{slot, session, until.UnixMilli(), sessionSlots}
	replies, err := c.changeViews(redis.Reading(ctx), sessionTouch, []redis.Call{{Keys: []string{sessionsKey(viewer)}, Args: args}})
	if err != nil {
		return false, err
	}
	return replies[0].Value == int64(1), redis.Unavailable(replies[0].Err)
}
