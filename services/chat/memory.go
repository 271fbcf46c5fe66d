package chat

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/sql"
)

const (
	sequencesBatch   = 1000            // conversations in one SELECT
	sequencesKeptFor = 2 * time.Minute // how long a sequence is kept without being read or watched
)

// SequenceFacts reads the last messages of conversations from SQL.
type SequenceFacts interface {
	SequencesOf(ctx context.Context, ids []services.ConversationID) ([]LastSequence, error)
}

// sequenceFacts reads the last messages of conversations from the database db.
type sequenceFacts struct{ db *sql.DB }

func (f sequenceFacts) SequencesOf(ctx context.Context, ids []services.ConversationID) ([]LastSequence, error) {
	return SequencesOf(ctx, f.db, ids)
}

// SequenceCache is this node's cache of the last sequences of conversations: of those that were counted on read lately, and of
// those that are watched on this node. Sequences are not in the changelog, because each message would need an entry; the node reads
// all cached sequences from SQL every half second. A sequence only grows. SequenceCache is safe for concurrent use.
type SequenceCache struct {
	facts SequenceFacts
	clock services.Clock
	log   *slog.Logger

	mu sync.RWMutex // guards byConversation and watchers
	// byConversation has the cached sequences. A sequence that is missing is unknown, never 0: a count that needs it is not complete
	// (onReadCount.Complete).
	byConversation map[services.ConversationID]*cachedSequence

	readers *changelog.ReaderIndex[services.ConversationID] // the watched users and the conversations in their badges
	// watchers are the channels of the open subscriptions of single conversations and of lists of conversations. readers has a lock
	// of its own, which may be taken under mu.
	watchers map[services.ConversationID][]chan struct{}
}

// cachedSequence is the last message number and the revision of one conversation, as this node last read them or as commands of
// this node left them. Both numbers only grow.
type cachedSequence struct {
	lastMessage int64 // the number of the last message
	revision    int64 // rises with each visible change other than a message; only watchers of the conversation are notified
	// lastUsed is about when a badge last used the sequence. A sequence that nobody watches is dropped when it was not used for
	// sequencesKeptFor.
	lastUsed time.Time
}

// newSequences makes an empty cache. log follows the changelog, and refreshes the cache at each of its polls.
func newSequences(log *changelog.Follower, facts SequenceFacts) *SequenceCache {
	l := &SequenceCache{
		facts: facts, clock: log.Clock(), log: log.Logger(),
		byConversation: map[services.ConversationID]*cachedSequence{},
		readers:        changelog.NewReaderIndex[services.ConversationID](log),
		watchers:       map[services.ConversationID][]chan struct{}{},
	}
	log.RegisterPollTask(changelog.PollTask{Name: "last sequences of conversations", Phase: changelog.AfterPollRead, Run: l.refresh})
	log.RegisterVersionPart(changelog.VersionPart{AddVersions: l.addSequenceSums, Unfollow: l.readers.Unfollow})
	return l
}

// follow sets the conversations in the badges of a user who is watched on this node. The user is notified when one of them gets a
// message, at most ten times a second for one conversation (changelog.ReaderIndex).
func (l *SequenceCache) follow(user services.UserID, positions []services.CountedOnReadPosition) {
	l.readers.Follow(user, len(positions), func(i int) services.ConversationID { return positions[i].Conversation })
}

// addSequenceSums adds to each user's sum the last sequences of the conversations in the user's badges. The sum is part of the version
// of the badges. The users are watched on this node.
func (l *SequenceCache) addSequenceSums(users []services.UserID, sums []uint64) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	l.readers.Each(users, func(i int, id services.ConversationID) {
		if known := l.byConversation[id]; known != nil {
			sums[i] += uint64(known.lastMessage)
		}
	})
}

// onReadCount is the count of unread messages in conversations that are counted on read.
type onReadCount struct {
	Unread      int
	SequenceSum uint64 // the sum of their last sequences: it rises with each message
	Complete    bool   // false: some conversation's last sequence is unknown, and the true count may be greater
}

// cacheMissing reads the last sequences that are not cached yet, one SELECT for each 1,000 conversations. refresh keeps them
// current from then on. When SQL does not answer, countOnRead reports an unknown count, and refresh tries again for watched
// users.
func (l *SequenceCache) cacheMissing(ctx context.Context, lists ...[]services.CountedOnReadPosition) {
	// missing is a set, since documents that are read together share conversations.
	missing := map[services.ConversationID]struct{}{}
	l.mu.RLock()
	for _, list := range lists {
		for _, position := range list {
			if l.byConversation[position.Conversation] == nil {
				missing[position.Conversation] = struct{}{}
			}
		}
	}
	l.mu.RUnlock()
	if len(missing) == 0 {
		return
	}
	if err := l.readLastSequences(ctx, slices.Sorted(maps.Keys(missing))); err != nil && ctx.Err() == nil {
		l.log.Warn("the last sequences of conversations could not be read", "error", err)
	}
}

// countOnRead counts the messages above a user's positions. If a last sequence is below a position, nothing counts: the user has
// read more than this node knows of.
func (l *SequenceCache) countOnRead(positions []services.CountedOnReadPosition, now time.Time) onReadCount {
	counted := onReadCount{Complete: true}
	stale := false
	l.mu.RLock()
	for _, position := range positions {
		last := l.byConversation[position.Conversation]
		if last == nil {
			counted.Complete = false
			continue
		}
		counted.Unread += int(max(0, last.lastMessage-position.ReadUpTo))
		counted.SequenceSum += uint64(last.lastMessage)
		// Counting takes only the shared lock, so lastUsed is not written here. It is written below, but only once in a while: long
		// before refresh would drop the sequence.
		stale = stale || now.Sub(last.lastUsed) > sequencesKeptFor/4
	}
	l.mu.RUnlock()
	if stale {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, position := range positions {
			if last := l.byConversation[position.Conversation]; last != nil {
				last.lastUsed = now
			}
		}
	}
	return counted
}

// Advance makes this node see at once, before the next read of SQL, the new last sequence of a conversation after a message or a recall of
// its own. For a conversation that is not cached it changes nothing.
func (l *SequenceCache) Advance(moved LastSequence) {
	l.mu.Lock()
	if l.byConversation[moved.Conversation] != nil {
		l.advance(moved)
	}
	l.mu.Unlock()
	l.readers.Notify()
}

// watchConversation returns a channel that gets a token when the last message or the revision of a conversation has moved since the
// last token was taken, and a function that ends the watch.
func (l *SequenceCache) watchConversation(id services.ConversationID) (moved <-chan struct{}, forget func()) {
	w := l.newWatch()
	w.watchOnly([]services.ConversationID{id})
	return w.moved, func() { w.watchOnly(nil) }
}

// sequenceWatch watches conversations. Its methods are not safe for concurrent use.
type sequenceWatch struct {
	sequences *SequenceCache
	ids       []services.ConversationID // the watched conversations
	moved     chan struct{}             // gets a token when a watched sequence has moved since the last token was taken
}

// newWatch begins a watch of no conversation yet.
func (l *SequenceCache) newWatch() *sequenceWatch {
	return &sequenceWatch{sequences: l, moved: make(chan struct{}, 1)}
}

// watchOnly watches these conversations and no others; with none it ends the watch.
func (w *sequenceWatch) watchOnly(ids []services.ConversationID) {
	if slices.Equal(ids, w.ids) {
		return
	}
	l := w.sequences
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range w.ids {
		rest := slices.DeleteFunc(l.watchers[id], func(other chan struct{}) bool { return other == w.moved })
		if l.watchers[id] = rest; len(rest) == 0 {
			delete(l.watchers, id)
		}
	}
	for _, id := range ids {
		l.watchers[id] = append(l.watchers[id], w.moved)
	}
	w.ids = ids
}

// sequenceSum is the sum of the known sequences and revisions of the watched conversations: it rises with each message and each
// visible change.
func (w *sequenceWatch) sequenceSum() (sum uint64) {
	l := w.sequences
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, id := range w.ids {
		if known := l.byConversation[id]; known != nil {
			sum += uint64(known.lastMessage + known.revision)
		}
	}
	return sum
}

// advance moves a last sequence or a revision forward; older numbers change nothing. The caller holds mu, and the conversation is
// cached.
func (l *SequenceCache) advance(moved LastSequence) {
	known := l.byConversation[moved.Conversation]
	if moved.NewestNumber > known.lastMessage || moved.Revision > known.revision {
		// wakeWatchers runs after the number is set, so that a watcher that wakes up reads the number.
		defer l.wakeWatchers(moved.Conversation)
	}
	known.revision = max(known.revision, moved.Revision)
	if known.lastMessage >= moved.NewestNumber {
		return
	}
	known.lastMessage = moved.NewestNumber
	l.readers.RecordChange(moved.Conversation)
}

// wakeWatchers leaves a token for each watcher of a conversation. The caller holds mu.
func (l *SequenceCache) wakeWatchers(id services.ConversationID) {
	for _, watcher := range l.watchers[id] {
		services.Signal(watcher)
	}
}

// refresh reads all last sequences that are watched or were read lately, 1,000 in one SELECT. It drops the other sequences, and
// notifies the readers of sequences that moved. It runs every half second, after this node has read the changelog, even if that has
// no new entries.
func (l *SequenceCache) refresh(ctx context.Context) error {
	now := l.clock.Now()
	l.mu.Lock()
	maps.DeleteFunc(l.byConversation, func(id services.ConversationID, last *cachedSequence) bool {
		return now.Sub(last.lastUsed) > sequencesKeptFor && len(l.watchers[id]) == 0 && !l.readers.Has(id)
	})
	// All sequences are read, because nothing else tells which of them have moved.
	ids := slices.Collect(maps.Keys(l.byConversation))
	var unknown []services.ConversationID // requested while SQL did not answer
	for _, id := range slices.AppendSeq(l.readers.Keys(), maps.Keys(l.watchers)) {
		if l.byConversation[id] == nil {
			unknown = append(unknown, id)
		}
	}
	l.mu.Unlock()
	ids = append(ids, unknown...)
	slices.Sort(ids)
	// The lock is not held during the read, because badges are rendered meanwhile.
	err := l.readLastSequences(ctx, slices.Compact(ids))
	l.mu.Lock()
	// readLastSequences found these sequences for the first time, so advance did not notify anybody. Their readers are notified here: until
	// now their badges had the precision AT_LEAST.
	for _, id := range unknown {
		if l.byConversation[id] != nil {
			l.readers.RecordChange(id)
			l.wakeWatchers(id)
		}
	}
	l.mu.Unlock()
	l.readers.Notify()
	return err
}

// readLastSequences brings last sequences up to date. They only move forward, because this node may know of its own message before SQL
// answers.
func (l *SequenceCache) readLastSequences(ctx context.Context, ids []services.ConversationID) error {
	now := l.clock.Now()
	for part := range slices.Chunk(ids, sequencesBatch) {
		read, err := l.facts.SequencesOf(ctx, part)
		if err != nil {
			return err
		}
		l.mu.Lock()
		for _, one := range read {
			// The conversation is new here: no count has used it yet, so nobody is notified. refresh notifies the users who wait
			// for it.
			if l.byConversation[one.Conversation] == nil {
				l.byConversation[one.Conversation] = &cachedSequence{lastMessage: one.NewestNumber, revision: one.Revision, lastUsed: now}
				continue
			}
			l.advance(one)
		}
		l.mu.Unlock()
	}
	return nil
}
