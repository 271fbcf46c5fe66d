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

// sessionSlots bounds how many sessions of one user's boards are kept: beyond it, the sessions that end first are dropped.
const sessionSlots = 64

// BoardQuery asks for the part of one live board page that Redis holds.
type BoardQuery struct {
	Reader services.UserID
	Before services.ShowPlace // replays below it; the zero position, or the position of a show that is no replay: from the top
	Limit  int                // at most so many replays; 0: only the document is read, as for the badges
	Slot   string             // the slot of the session that the page belongs to
}

// BoardRead is the part of a live board that Redis holds.
type BoardRead struct {
	Ready    bool                      // false: the document is missing or being built, and only Lease is valid
	Hosts    []services.FollowedAuthor // in no order
	LiveSeen uint64                    // shows that went live up to this version of the changelog were seen
	Day      int64                     // on which the reader was last marked active, since 1970
	Listed   bool                      // false: no list of replays, or it is being built; below only Lease is valid
	Replays  []ReplayEntry             // newest first, of the newest 300
	Floor    services.ShowPlace        // the newest replay that the list does not have; zero: it has all
	Lease    string                    // the live session of the slot; "" for none
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
	commands, err := c.Read(ctx, func(p redis.Pipeliner) {
		p.HMGet(ctx, DocumentKey(query.Reader), boardFields...)
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

// boardFields are the document's fields that a board needs.
var boardFields = []string{"st", "e", string(Hosts), liveField, "d"}

// boardDocument reads these fields alone in one command. Concurrent calls share a round trip.
func (c *Projections) boardDocument(ctx context.Context, reader services.UserID) (BoardRead, error) {
	values, err := c.Shared().HMGet(ctx, DocumentKey(reader), boardFields...).Result()
	switch {
	case err == nil:
		return boardState(values, c.Epoch()), nil
	case redis.IsWrongType(err): // the slower path below empties the key
		return c.Board(ctx, BoardQuery{Reader: reader, Limit: 1})
	}
	return BoardRead{}, redis.Unavailable(err)
}

// boardState reads the document's fields that a board needs.
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
		// an unreadable day becomes day 0, so that the user is treated as one who returns
		read.Day, _ = strconv.ParseInt(day, 10, 64)
	}
	read.Ready = true
	return read
}

// lease returns the session of a slot, unless it has ended.
func (c *Projections) lease(text string) string {
	end, session, _ := strings.Cut(text, ";")
	ms, err := strconv.ParseInt(end, 10, 64)
	if err != nil || !time.UnixMilli(ms).After(c.Clock().Now()) {
		return ""
	}
	return session
}

// TouchSession extends a session until a moment and makes it the session of its slot: an earlier session of the slot ends. held
// is false, and nothing has changed, if a later session has the slot.
func (c *Projections) TouchSession(ctx context.Context, viewer services.UserID, slot, session string, until time.Time) (held bool, err error) {
	args := []any{slot, session, until.UnixMilli(), sessionSlots}
	replies, err := c.Change(redis.Reading(ctx), sessionTouch, []redis.Call{{Keys: []string{sessionsKey(viewer)}, Args: args}})
	if err != nil {
		return false, err
	}
	return replies[0].Value == int64(1), redis.Unavailable(replies[0].Err)
}
