package live

import (
	"context"
	"embed"
	"strings"

	"tidings/services"
	"tidings/services/rdb"
	"tidings/services/redis"
)

// A member of a list of replays is 27 printable bytes: when the show ended (9 letters, milliseconds), its ID (13) and its
// host's ID (5). So members sort in the reverse order of boards.
const (
	endTimeLength  = 9                                          // letters of the time at which the show ended
	positionLength = endTimeLength + services.SortableIDLetters // letters of that time and the show's ID, as positionText prints them
	replayLength   = positionLength + 5                         // letters of a whole member

	endTimeAlphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ" // the letters of IDs
	maxEndTime      = 1<<(5*endTimeLength) - 1           // the latest end that endTimeLength letters can hold
)

//go:embed lua/*.lua
var luaFiles embed.FS

var (
	scripts = redis.ScriptFiles{FS: luaFiles}

	replaysBegin = scripts.Load("replays_begin", redis.CappedListPart, replaysLib) // begins a rebuild of a list of replays
	replaysMerge = scripts.Load("replays_merge", redis.CappedListPart, replaysLib) // merges replays into a list
	replaysTrim  = scripts.Load("replays_trim", redis.CappedListPart, replaysLib)  // trims a list to FeedRetention entries
	sessionTouch = scripts.Load("session_touch")                                   // extends a session and gives it its slot

	// replaysList is the newest replays of the hosts that the user follows: ZSET, all scores 0, with one mark and at most
	// FeedRetention + 32 members of 27 bytes, each the position and the host of a replay (replayText). A read of the user's board makes
	// the list.
	replaysList = rdb.RegisterList(rdb.FeatureList{KeyPart: "r", Lua: scripts.FileText(replaysLib), DropFunction: "dropHost", Trim: replaysTrim})

	// sessionsPart is the part of the key of a user's live board sessions that are being paged through: HASH, slot (see
	// Session.slotKey) -> "end (ms);session", at most maxSessionSlots. The key expires with the last session.
	sessionsPart = rdb.RegisterLeaseKey("s")
)

// replaysLib is the common part of the scripts that change lists of replays.
const replaysLib = "lib_replays"

func replaysKey(user services.UserID) string { return replaysList.Key(user) }

func sessionsKey(user services.UserID) string { return redis.UserKey(user, ":"+sessionsPart) }

// projection reads and changes the data of boards in Redis: lists of replays and sessions, beside users' documents.
type projection struct{ *rdb.Projections }

// replayEntry is one entry of a list of replays.
type replayEntry struct {
	Position ShowPosition
	Host     services.UserID
}

// positionText prints the position of a replay; the zero value prints as the position before all others.
func positionText(position ShowPosition) string {
	var letters [endTimeLength]byte
	end := min(max(position.Score, 0), maxEndTime)
	for i := endTimeLength - 1; i >= 0; i-- {
		letters[i] = endTimeAlphabet[end&31]
		end >>= 5
	}
	return string(letters[:]) + position.ID.String()
}

// replayText prints an entry as a member of a list of replays.
func replayText(entry replayEntry) string {
	return positionText(entry.Position) + rdb.AuthorLetters(entry.Host)
}

// parseReplayPosition reads what positionText prints.
func parseReplayPosition(text string) (position ShowPosition, ok bool) {
	if len(text) != positionLength {
		return position, false
	}
	for _, letter := range text[:endTimeLength] {
		value := strings.IndexRune(endTimeAlphabet, letter)
		if value < 0 {
			return position, false
		}
		position.Score = position.Score<<5 | int64(value)
	}
	id, err := services.ParseSortableID(text[endTimeLength:])
	position.ID, position.Replay = services.ShowID(id), position.Score > 0 || id > 0
	return position, err == nil
}

// parseListFloor reads the floor of a list from its members, of which it looks at the first; ok is false if the list is missing or is
// being built.
func parseListFloor(members []string) (floor ShowPosition, ok bool) {
	text, ok := rdb.ListFloor(members)
	if !ok {
		return floor, false
	}
	return parseReplayPosition(text)
}

// parseReplay reads a member; ok is false for the mark and for anything else that is not an entry.
func parseReplay(member string) (entry replayEntry, ok bool) {
	if len(member) != replayLength {
		return entry, false
	}
	if entry.Position, ok = parseReplayPosition(member[:positionLength]); !ok {
		return entry, false
	}
	entry.Host, ok = rdb.ParseAuthor(member[positionLength:])
	return entry, ok
}

// beginReplays makes the readers' missing lists of replays, and returns the stamps under which their facts are to be read; 0 for a
// reader without a document. No board shows a new list until a merge has ended its rebuild.
func (p projection) beginReplays(ctx context.Context, readers []services.UserID) ([]redis.ClockStamp, error) {
	calls := services.Map(readers, func(reader services.UserID) redis.ScriptCall {
		return redis.ScriptCall{Keys: []string{rdb.DocumentKey(reader), replaysKey(reader)}}
	})
	return p.Client.ChangeForStamps(ctx, replaysBegin, calls)
}

// replayMerge is the result of a SQL read for one reader, to be merged into their list.
type replayMerge struct {
	Reader    services.UserID
	Stamp     redis.ClockStamp // taken before the SQL read
	IsRebuild bool             // Entries are the reader's newest replays, and the merge ends a rebuild
	Entries   []replayEntry
	Floor     ShowPosition // with IsRebuild: the newest replay below Entries; the zero position if there is none
}

// mergeReplays merges replays into lists, at most 500 lists in a round trip. Results are in the order of merges, and their Version is
// 0. If anything was removed from a reader's feed or lists since the stamp, the result is Retry: the caller reads the reader's follows
// again.
func (p projection) mergeReplays(ctx context.Context, merges []replayMerge) ([]redis.Result, error) {
	calls := make([]redis.ScriptCall, len(merges))
	for i, merge := range merges {
		args := append(make([]any, 0, 3+len(merge.Entries)), merge.Stamp.String(), "0", positionText(merge.Floor))
		if merge.IsRebuild {
			args[1] = "1"
		}
		for _, entry := range merge.Entries {
			args = append(args, replayText(entry))
		}
		calls[i] = redis.ScriptCall{Keys: []string{rdb.DocumentKey(merge.Reader), replaysKey(merge.Reader)}, Args: args}
	}
	return p.Client.ChangeForResults(ctx, replaysMerge, calls)
}

// redisReplays are the members of a list of replays.
type redisReplays struct {
	listReady      bool          // the list exists and is not being built
	entries        []replayEntry // newest first
	invalidMembers int           // members that are not entries
	floor          ShowPosition  // the newest replay that the list has lost or never had
}

// parseReplays parses all members of a list; without its mark there is no list.
func parseReplays(members []string) (held redisReplays) {
	if held.floor, held.listReady = parseListFloor(members); !held.listReady {
		return held
	}
	held.entries, held.invalidMembers = rdb.ParseListEntries(members, parseReplay)
	return held
}
