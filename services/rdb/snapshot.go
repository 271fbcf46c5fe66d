package rdb

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidings/services"
	"tidings/services/redis"
)

// Wholeness is how complete a user's projection is.
type Wholeness int

// The constants are the degrees of wholeness. The next reader of a projection that is DocumentAbsent or DocumentPartial rebuilds it. A
// projection of DocumentWrongType may stay as it is: only a call that meets the key, or ResetUserData, repairs it.
const (
	DocumentAbsent    Wholeness = iota // there is no document
	DocumentPartial                    // something is missing, broken or being built
	DocumentWhole                      // readers can use it as it is
	DocumentWrongType                  // a key is of the wrong type, or holds a value that the scripts refuse
)

// UserSnapshot is everything that Redis holds of one user's projection, for comparison with the facts. Document and inbox are read one
// after the other: a change in between makes them differ in this snapshot.
type UserSnapshot struct {
	Wholeness            Wholeness
	Document             Document
	Fields               map[string]string    // all fields of the document, as stored
	Entries              []services.FeedEntry // of the inbox, newest first
	StrayMembers         int                  // members of the inbox that are no entries
	NewestTrimmed        services.PostID      // the newest entry ever trimmed from the inbox
	NewestTrimmedCounted services.PostID      // the newest counting entry ever trimmed from the inbox
	NewestUncounted      services.PostID      // at least the newest listed entry that does not count
	LastInboxRemovalAt   time.Time            // when the projection was made, or when anything was last removed from it

	Lists map[string][]string // the members of registered lists that are there, by their parts

	Conversations map[services.ConversationID]services.Membership // without User and MarkUnreadGeneration, which are not stored
}

// maxUsersPerSnapshotRead is how many users are read in one round trip. It is small: a full inbox has 6 KB, and other calls wait
// meanwhile.
const maxUsersPerSnapshotRead = 25

// ReadUserSnapshots reads the users' projections, in their order, one round trip for each 25 users. Keys of the wrong type are reported
// and not repaired.
func (c *Projections) ReadUserSnapshots(ctx context.Context, users []services.UserID) ([]UserSnapshot, error) {
	if err := c.Client.CheckTrusted(); err != nil {
		return nil, err
	}
	layout := c.layout.Load()
	snapshots, each := make([]UserSnapshot, 0, len(users)), 4+len(registeredLists)
	for part := range slices.Chunk(users, maxUsersPerSnapshotRead) {
		commands, err := c.Client.Pipeline(ctx, func(p redis.Pipeliner) {
			for _, user := range part {
				p.HGetAll(ctx, DocumentKey(user))
				p.ZRange(ctx, inboxKey(user), 0, -1)
				p.HGetAll(ctx, conversationsKey(user))
				p.HLen(ctx, onlineKey(user))
				for _, list := range registeredLists {
					p.ZRange(ctx, list.Key(user), 0, -1)
				}
			}
		})
		if err != nil && !redis.IsWrongType(err) {
			return nil, err
		}
		for i := range part {
			snapshot, err := layout.snapshot(commands[each*i:][:each], c.Client.Epoch())
			if err != nil {
				return nil, fmt.Errorf("snapshot of user %d: %w", part[i], redis.MapError(err))
			}
			snapshots = append(snapshots, snapshot)
		}
	}
	return snapshots, nil
}

// snapshot builds a UserSnapshot from the answers to ReadUserSnapshots' commands.
func (l *documentLayout) snapshot(commands []redis.Cmder, epoch string) (snapshot UserSnapshot, err error) {
	for _, command := range commands {
		err := command.Err()
		if redis.IsWrongType(err) {
			return UserSnapshot{Wholeness: DocumentWrongType}, nil
		}
		if err != nil {
			return snapshot, err
		}
	}
	snapshot.Fields = commands[0].(*redis.MapStringStringCmd).Val()
	if len(snapshot.Fields) == 0 {
		return snapshot, nil
	}
	// The parser is the one that Documents uses, so that the audit sees what readers see.
	// nil stands for a field that is not there, as in the answer to HMGET.
	values := make([]any, len(l.fields))
	for i, field := range l.fields {
		if value, ok := snapshot.Fields[field]; ok {
			values[i] = value
		}
	}
	snapshot.Document = l.parse(values, epoch)
	// A rebuild does not check every stored state, so it would not repair an unreadable one: the projection has to be emptied.
	if !snapshot.parseConversations(commands[2].(*redis.MapStringStringCmd).Val()) {
		return UserSnapshot{Wholeness: DocumentWrongType}, nil
	}
	for i, list := range registeredLists {
		if members := commands[4+i].(*redis.StringSliceCmd).Val(); len(members) > 0 {
			if snapshot.Lists == nil {
				snapshot.Lists = map[string][]string{}
			}
			snapshot.Lists[list.KeyPart] = members
		}
	}
	// The order of these conditions matters: parseInbox and parseScriptFields fill the snapshot only if the parts before them are whole.
	whole := snapshot.Document.Ready && snapshot.parseInbox(commands[1].(*redis.StringSliceCmd).Val()) && snapshot.parseScriptFields() &&
		snapshot.Fields["Ck"] == strconv.Itoa(len(snapshot.Conversations))
	snapshot.Wholeness = map[bool]Wholeness{true: DocumentWhole, false: DocumentPartial}[whole]
	return snapshot, nil
}

// parseInbox parses the members and reports whether the sentinel is there. The members come oldest first; Entries are newest
// first.
func (s *UserSnapshot) parseInbox(members []string) bool {
	text, ok := ListFloor(members)
	floor, err := services.ParseSortableID(text)
	if !ok || err != nil {
		return false
	}
	s.NewestTrimmed = services.PostID(floor)
	s.Entries, s.StrayMembers = ParseListEntries(members, parseEntry)
	return true
}

// parseConversations parses the states, and reports whether all are readable: the scripts refuse an unreadable one.
func (s *UserSnapshot) parseConversations(states map[string]string) (readable bool) {
	s.Conversations = make(map[services.ConversationID]services.Membership, len(states))
	for field, text := range states {
		id, err := strconv.ParseUint(field, 10, 32)
		if err != nil {
			return false
		}
		state, ok := parseMembership(text)
		if !ok {
			return false
		}
		state.Conversation = services.ConversationID(id)
		s.Conversations[state.Conversation] = state
	}
	return true
}

// parseMembership reads a member's state in a conversation from numbers and flags between commas, as membershipText prints it, with or
// without the two days of expiry.
func parseMembership(text string) (state services.Membership, ok bool) {
	// The audit must not accept the readable part of a broken state: every part has to be understood.
	parts := strings.Split(text, ",")
	numbers := []*int64{&state.NewestMessageNumber, &state.ReadUpTo, &state.UnreadAdjustment, &state.Version, &state.Mentions, &state.CountedOnReadVersion}
	switch len(parts) {
	case len(numbers) + 1:
	case len(numbers) + 3:
		var errs [2]error
		state.ExpiredAsOfDay, errs[0] = strconv.ParseInt(parts[len(numbers)+1], 10, 64)
		state.NextExpiryDay, errs[1] = strconv.ParseInt(parts[len(numbers)+2], 10, 64)
		if errs[0] != nil || errs[1] != nil {
			return state, false
		}
	default:
		return state, false
	}
	for i, number := range numbers {
		var err error
		if *number, err = strconv.ParseInt(parts[i], 10, 64); err != nil {
			return state, false
		}
	}
	for _, flag := range parts[len(numbers)] {
		switch flag {
		case 'l':
			state.HasLeft = true
		case 'm':
			state.Muted = true
		case 'i':
			state.IsOpen = true
		case 'r':
			state.CountedOnRead = true
		default:
			return state, false
		}
	}
	return state, true
}

// parseScriptFields parses the fields that nothing but the scripts and ReadUserSnapshots reads, and reports whether all of them are
// there and valid.
func (s *UserSnapshot) parseScriptFields() bool {
	var p documentParser
	s.NewestUncounted, s.NewestTrimmedCounted = p.postPosition(s.Fields["fq"]), p.postPosition(s.Fields["ft"])
	s.LastInboxRemovalAt = time.UnixMicro(p.parseSigned(s.Fields["rm"]))
	return !p.failed
}

// VersionedFieldNames returns the names of the versioned fields that every document has, or may lack until their first version.
// Dots are not among them.
func (c *Projections) VersionedFieldNames() (fields []string) {
	layout := c.layout.Load()
	return layout.fields[layout.unversionedFieldCount : len(layout.fields)-len(layout.dots)]
}

// These are names and values of versioned fields.
const (
	InitialValue         = initialValue      // before the first version
	AnnouncementField    = announcementField // announcements and dots
	DotPrefix            = "D"               // before the name of a dot
	CategoryCountsPrefix = "N"               // before a category: the counts of notifications, see ParseCounts
)

// ParseCounts reads the versioned field of a category's counts; the category and its newest notification are stored elsewhere.
func ParseCounts(value string) (services.CategoryCounts, error) {
	if value == initialValue {
		return services.CategoryCounts{}, nil
	}
	return parseCounts(value)
}
