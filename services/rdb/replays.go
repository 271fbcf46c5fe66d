package rdb

import (
	"context"
	"strings"

	"tidings/services"
	"tidings/services/redis"
)

// A member of a list of replays is 27 printable bytes: when the show ended (9 letters, milliseconds), its ID (13), so that
// members sort as boards do, and its host's ID (5).
const (
	endLength    = 9
	placeLength  = endLength + idLength
	replayLength = placeLength + authorLength

	endLetters = "0123456789ABCDEFGHJKMNPQRSTVWXYZ" // the letters of IDs
	maxEnd     = 1<<(5*endLength) - 1
)

var (
	replaysBegin = loadScript("replays_begin", replaysLib)
	replaysMerge = loadScript("replays_merge", replaysLib)
	replaysTrim  = loadScript("replays_trim", replaysLib)
)

// ReplayEntry is one entry of a list of replays.
type ReplayEntry struct {
	Place services.ShowPlace
	Host  services.UserID
}

// placeText prints the position of a replay; the zero value prints as the position before all others.
func placeText(place services.ShowPlace) string {
	var letters [endLength]byte
	end := min(max(place.Score, 0), maxEnd)
	for i := endLength - 1; i >= 0; i-- {
		letters[i] = endLetters[end&31]
		end >>= 5
	}
	return string(letters[:]) + place.ID.String()
}

func replayText(entry ReplayEntry) string { return placeText(entry.Place) + authorLetters(entry.Host) }

// parseReplayPlace reads what placeText prints.
func parseReplayPlace(text string) (place services.ShowPlace, ok bool) {
	if len(text) != placeLength {
		return place, false
	}
	for _, letter := range text[:endLength] {
		value := strings.IndexRune(endLetters, letter)
		if value < 0 {
			return place, false
		}
		place.Score = place.Score<<5 | int64(value)
	}
	id, err := services.ParsePostID(text[endLength:])
	place.ID, place.Replay = id, place.Score > 0 || id > 0
	return place, err == nil
}

// parseReplay reads a member; ok is false for the sentinel and for anything else that is not an entry.
func parseReplay(member string) (entry ReplayEntry, ok bool) {
	if len(member) != replayLength {
		return entry, false
	}
	if entry.Place, ok = parseReplayPlace(member[:placeLength]); !ok {
		return entry, false
	}
	entry.Host, ok = parseAuthor(member[placeLength:])
	return entry, ok
}

// BeginReplays makes the readers' missing lists and returns the stamps under which their facts are to be read; 0 for a reader
// without a document. Nobody reads a list until a merge ends its rebuild.
func (c *Projections) BeginReplays(ctx context.Context, readers []services.UserID) ([]redis.Stamp, error) {
	calls := make([]redis.Call, len(readers))
	for i, reader := range readers {
		calls[i] = redis.Call{Keys: []string{DocumentKey(reader), replaysKey(reader)}}
	}
	return c.Stamps(ctx, replaysBegin, calls)
}

// MergeOfReplays is the result of a SQL read for one reader, to be merged into their list.
type MergeOfReplays struct {
	Reader  services.UserID
	Stamp   redis.Stamp
	Whole   bool // Entries are the newest of all, and the merge ends a rebuild
	Entries []ReplayEntry
	Floor   services.ShowPlace // with Whole: the newest below Entries; the zero position if there is none
}

// MergeReplays merges replays into lists, one round trip for each 500. Results are in the order of merges; N is 0. If anything
// was removed from a reader since the stamp, the result is Retry: read their edges again.
func (c *Projections) MergeReplays(ctx context.Context, merges []MergeOfReplays) ([]redis.Result, error) {
	calls := make([]redis.Call, len(merges))
	for i, merge := range merges {
		args := append(make([]any, 0, 3+len(merge.Entries)), merge.Stamp.String(), "0", placeText(merge.Floor))
		if merge.Whole {
			args[1] = "1"
		}
		for _, entry := range merge.Entries {
			args = append(args, replayText(entry))
		}
		calls[i] = redis.Call{Keys: []string{DocumentKey(merge.Reader), replaysKey(merge.Reader)}, Args: args}
	}
	return c.Results(ctx, replaysMerge, calls)
}

// DropReplays drops whole lists: the next reader of a list rebuilds it.
func (c *Projections) DropReplays(ctx context.Context, readers []services.UserID) error {
	_, err := c.Pipeline(ctx, func(p redis.Pipeliner) {
		for _, reader := range readers {
			p.Del(ctx, replaysKey(reader))
		}
	})
	return err
}

// TrimReplays cuts lists down to the listed length, and returns how many entries it cut from each.
func (c *Projections) TrimReplays(ctx context.Context, readers []services.UserID) (cut []int, err error) {
	calls := make([]redis.Call, len(readers))
	for i, reader := range readers {
		calls[i] = redis.Call{Keys: []string{replaysKey(reader)}}
	}
	return c.dropped(ctx, replaysTrim, calls)
}
