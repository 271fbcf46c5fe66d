package rdb

import (
	"context"
	"strconv"
	"sync"

	"tidings/services"
	"tidings/services/redis"
)

// Document is the badge document of one user as Redis has it: the hash {u<ID>}:b.
//
//	st    0 while it is being built, 1 if good
//	e     epoch of its birth: a document of another epoch counts as missing, see redis.Client.Epoch
//	rm    stamp (us) of birth or of the last removal: an add with an older read is refused
//	n     document half of the version of the badges (us)
//	d     the day (since 1970) on which the user was last marked active
//	T     home feed: seen up to (post id)
//	fc    home feed: the count, 0 to 300, with "+" when it may be more
//	fq ft home feed: newest entry that does not count; newest counting entry ever trimmed
//	F     home feed: followed authors whose posts are pulled, and since when they are followed, packed
//	L     live board: followed authors who host shows, and since when they are followed, packed
//	Cu Cm conversations: unread and mentions of those counted when a message is written
//	R     conversations counted when read, and what to subtract from the last sequence of each, packed
//	Cv    conversations: differs after each change that their list shows, whether it is in the sums or not; never 0
//	fx    home feed, if posts leave the count by age: the newest post that has left it, so that fc is without it
//	Cx    conversations, if messages leave by age: day (since 1970) on which the next leaves the sums or positions; 0: none
//	bp    while it is being rebuilt: "build;step", the step up to which nothing of that build is missing
//	Ck    the number of states in {u<ID>}:c: if it has another number, some were lost
//
// and versioned fields, of which the newer version wins: see VersionedField.
type Document struct {
	Ready bool // false: missing or being built; the other fields are then meaningless
	// Version is the field n: the document half of the version that clients see. The shared half comes from what users share, such
	// as announcements.
	Version          uint64
	LastActiveDay    int64                       // the day (since 1970) on which the user was last marked active
	FeedSeenUpTo     services.PostID             // posts up to this one were seen
	FeedCount        int                         // at most 300
	FeedCountAtLeast bool                        // the true count is FeedCount or more
	FeedExpiredUpTo  services.PostID             // posts up to this one are too old to be in FeedCount
	FeedUnread       int                         // new posts of the whole feed, by SQL, if the other counts are lower bounds
	FeedUnreadKnown  bool                        // FeedUnread is valid
	PulledAuthors    []services.FollowedAuthor   // authors whose posts are not in FeedCount, in no order
	PulledCount      services.PulledCount        // how many posts of PulledAuthors are unseen, as the node knew at rendering
	Hosts            []services.FollowedAuthor   // authors whose shows are on the board, in no order
	LiveCount        services.LiveCount          // how many shows of Hosts are live and new, as the node knew at rendering
	Notifications    []services.CategoryCounts   // of services.Categories, and then of Categories, in that order
	Categories       *services.HostCategories    // the host application's categories at the time of the read
	Messages         []services.MessageTypeState // of the configured types, in that order
	// DismissedUpToByDot has, by the name of a dot, the time (us) up to which the user has dismissed it. If it is nil or lacks the
	// dot, the user has dismissed the dot up to Announcements.DotsDismissedUpTo.
	DismissedUpToByDot map[string]uint64
	Conversations      services.ConversationSums
	VersionedValues
}

// Documents reads the badge documents of the users, in their order, by one HGETALL each in one round trip.
func (c *Projections) Documents(ctx context.Context, users []services.UserID) ([]Document, error) {
	if err := c.Client.CheckTrusted(); err != nil {
		return nil, err
	}
	layout := c.layout.Load()
	if len(users) == 1 {
		var room [48]string // most documents have no more fields
		// One user is the common case: each badge query reads one. This read shares a round trip with other queries, and allocates
		// little.
		texts, err := c.Client.ReadFields(ctx, DocumentKey(users[0]), layout.readAll, room[:0])
		if err == nil {
			return []Document{layout.parseTexts(texts, c.Client.Epoch())}, nil
		}
		// A document of the wrong type is read again below, as for many users: that read repairs it.
		if !redis.IsWrongType(err) {
			return nil, redis.MapError(err)
		}
	}
	reads := make([]redis.KeyRead, len(users))
	for i, user := range users {
		reads[i] = redis.KeyRead{Key: DocumentKey(user), Read: layout.readAll}
	}
	// The epoch is read after the answers: every connection that delivered one has then reported its server's lineage.
	documents, epoch := make([]Document, len(users)), ""
	// Readers wait less than writers, because they can read from SQL instead.
	err := c.Client.ReadEach(redis.WithReadGuard(ctx), reads, func(i int, texts []string) {
		if i == 0 {
			epoch = c.Client.Epoch()
		}
		documents[i] = layout.parseTexts(texts, epoch)
	})
	if err != nil {
		return nil, err
	}
	return documents, nil
}

// DocumentVersions reads n of each user's document in one round trip: 0 if the document is missing or being built. The
// reconciliation of each second compares n with what was pushed; it needs no more of the document.
func (c *Projections) DocumentVersions(ctx context.Context, users []services.UserID) ([]uint64, error) {
	if err := c.Client.CheckTrusted(); err != nil {
		return nil, err
	}
	used := versionReads.Get().(*[]redis.KeyRead)
	reads := (*used)[:0]
	for _, user := range users {
		reads = append(reads, redis.KeyRead{Key: DocumentKey(user), Read: versionFields})
	}
	defer func() {
		clear(reads)
		*used = reads
		versionReads.Put(used)
	}()
	versions, epoch := make([]uint64, len(users)), ""
	err := c.Client.ReadEach(ctx, reads, func(i int, texts []string) {
		if i == 0 { // after the answers, as in Documents
			epoch = c.Client.Epoch()
		}
		// While a document is being built, n is not the version that a reader would get. A version that cannot be read is 0,
		// like that of a missing document: the caller rebuilds both.
		if texts[2] == "1" && texts[1] == epoch {
			versions[i], _ = strconv.ParseUint(texts[0], 10, 64)
		}
	})
	if err != nil {
		return nil, err
	}
	return versions, nil
}

// versionFields say which version a document has. They are read each second for every user who is watched.
var versionFields = redis.NewFewFields([]string{"n", "e", "st"})

// versionReads are lists that DocumentVersions reuses.
var versionReads = sync.Pool{New: func() any { return new([]redis.KeyRead) }}

// versionRaise is the script of RaiseVersions.
var versionRaise = loadScript("version_raise")

// markDocumentsLostScript is the script of MarkDocumentsLost.
var markDocumentsLostScript = loadScript("document_lost")

// MarkDocumentsLost marks each document that is older than what its user was shown: shown[i] is the version that users[i] were
// shown from Redis. That happens if Redis restarted from an older snapshot and the epoch did not change. A marked document counts
// as lost, and is rebuilt with a newer version.
func (c *Projections) MarkDocumentsLost(ctx context.Context, users []services.UserID, shown []uint64) error {
	calls := make([]redis.ScriptCall, len(users))
	for i, user := range users {
		calls[i] = redis.ScriptCall{Keys: []string{DocumentKey(user)}, Args: []any{shown[i]}}
	}
	// Missing documents are lost anyway, so the results are ignored.
	_, err := c.Client.ChangeForResults(ctx, markDocumentsLostScript, calls)
	return err
}

// RaiseVersions raises the versions of documents above the fallback versions that were made up without Redis: passed[i] belongs
// to users[i].
func (c *Projections) RaiseVersions(ctx context.Context, users []services.UserID, passed []uint64) ([]redis.Result, error) {
	calls := make([]redis.ScriptCall, len(users))
	for i, user := range users {
		calls[i] = redis.ScriptCall{Keys: []string{DocumentKey(user), onlineKey(user)}, Args: []any{passed[i]}}
	}
	return c.Client.ChangeForResults(ctx, versionRaise, calls)
}
