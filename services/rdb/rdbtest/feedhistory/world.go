// Package feedhistory runs histories of users' projections. A few people publish, follow and read, and their keys in Redis get lost.
// The work that this causes stops and repeats wherever it can. In the end the projections must equal the facts. Features add the data
// that they keep beside the inbox.
//
// A history is a sequence of events from a random deck. An event changes the facts and queues workers. One kind of event lets a
// worker continue, to its end or until it stalls at a pause: then anything else may happen. CheckFeedsAndBoards looks at every
// projection after each step, for states that no reader may ever see; compareWithFacts looks at all of them when the last worker has
// ended. A failure prints the trace. Running the history of the same number repeats the failure.
package feedhistory

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"tidings/services"
	"tidings/services/rdb"
)

// World is the facts of a few people, in maps where the program has SQL, and the work that the facts cause. The real scripts
// do the work on a real Redis, in the steps of services/fanout: between any two steps others may run, a step may be repeated,
// and a worker may die. One world is one history; a seed reproduces it.
type World struct {
	Ctx    context.Context
	Client *rdb.Projections
	Random *rand.Rand
	Users  []services.UserID // the people of this history
	Boards Boards            // nil: no user has a board

	// Values that are drawn once for a history: see drawEventDeck and newWorld.
	eventDeck           []int  // event kinds to draw from
	onePairForAllEvents bool   // every event concerns the same two people
	losableKeyRange     [2]int // which keys of a user may be lost, as the range [from, to) of the document and the inbox
	stepsPerStall       int    // one in this many steps of a worker is followed by a long pause

	// The maps below are the facts. A transaction is one write to them: between two pauses only the current step runs.
	posts          map[services.PostID]*services.Post
	followStarts   map[edge]services.SortableID        // the time of the follow
	seenUpTo       map[services.UserID]services.PostID // up to which post each user has seen the feed
	pulledAuthors  map[services.UserID]bool            // authors whose posts are pulled: their followers' documents must name them
	lastAssignedID services.SortableID                 // greatest ID that was assigned
	uncommittedIDs []services.PostID                   // IDs assigned to transactions that have not committed

	// queue has the jobs that have not ended. Their order does not matter: any of them may run next.
	queue         []*worker
	lastSnapshots map[services.UserID]feedSnapshot // the state that readers saw last, for comparison with the state after the next step
	trace         []string                         // a line for each event and step, printed with a failure

	RemovalRereadsFollow        bool // false is an injected bug: a removal does not read the follow again
	documentsNameAuthorTooEarly bool // an injected bug: followers' documents name an author before the author is stored as pulled
	followRemovesDeletedPosts   bool // false is an injected bug: a follow does not look for posts that were deleted before it
	// postsReadOnFollow is the number of an author's posts that a follow reads: one more than an inbox holds, so that the inbox is
	// trimmed and has a floor.
	postsReadOnFollow int
}

// edge is a pair of users: one, the reader, follows or followed the other.
type edge struct{ reader, author services.UserID }

const (
	maxPeople = 3 // the greatest number of users in one history
	// FollowersPerChunk is the greatest number of followers in a chunk.
	FollowersPerChunk = 2
	// MaxJobTries is how often work that was refused is tried before the history fails.
	MaxJobTries = 20
	// inboxCapacity is how many posts an inbox can hold.
	inboxCapacity = services.FeedRetention + 32
)

// newWorld makes the world of a history: its users, with IDs from first on, and the deck of its events. Everything that differs between
// histories comes from the seed.
func newWorld(ctx context.Context, client *rdb.Projections, seed uint64, first services.UserID) *World {
	w := &World{
		Ctx: ctx, Client: client, Random: rand.New(rand.NewPCG(seed, 1)), RemovalRereadsFollow: true, followRemovesDeletedPosts: true, postsReadOnFollow: inboxCapacity + 1, lastAssignedID: 1 << 21,
		posts: map[services.PostID]*services.Post{}, followStarts: map[edge]services.SortableID{},
		seenUpTo: map[services.UserID]services.PostID{}, lastSnapshots: map[services.UserID]feedSnapshot{},
	}
	for i := range 2 + w.Random.IntN(maxPeople-1) {
		w.Users = append(w.Users, first+services.UserID(i))
	}
	// Each history has its own mix of events and stalls: a bug that needs many stalls, or none, does not show in an average
	// history.
	w.eventDeck, w.onePairForAllEvents, w.stepsPerStall = w.drawEventDeck(), w.Random.IntN(3) > 0, []int{4, 8, 16}[w.Random.IntN(3)]
	w.losableKeyRange = [][2]int{{0, 1}, {1, 2}, {0, 2}}[w.Random.IntN(3)]
	return w
}

// run runs a history to its end, lets all work finish and compares Redis with the facts. It also checks the projections after every
// step.
func (w *World) run(steps int) (err error) {
	defer func() {
		for _, worker := range w.queue {
			worker.kill()
		}
		if err != nil {
			err = fmt.Errorf("%w\n\t%s", err, strings.Join(w.trace, "\n\t"))
		}
	}()
	for range steps {
		if err := w.runRandomEvent(); err != nil {
			return err
		}
	}
	// Now that the argument trouble is false, no worker dies and no job is taken twice, so each worker ends after some turns.
	for len(w.queue) > 0 {
		if err := w.continueOneWorker(false); err != nil {
			return err
		}
	}
	return w.compareWithFacts()
}

// These are the kinds of events. Each history has its own mix, in which some kinds do not occur at all: a bug that needs several
// events of a few kinds shows far sooner than if all kinds occur all the time.
const (
	publishEvent = iota
	followEvent
	unfollowEvent
	deletePostEvent
	markSeenEvent
	loseKeysEvent // a user's document, inbox or both are deleted from Redis
	// visitEvent is a read by the user. It rebuilds the document and the inbox if one of them is missing, and now and then when
	// both are there.
	visitEvent
	continueWorkerEvent  // a worker continues; it may die, or another may take its job too
	commonEventKindCount // the number of the kinds above
)

// Only some histories have these kinds of events.
const (
	makePulledEvent = commonEventKindCount + iota // makes the posts of an author pulled
	FirstBoardEvent                               // the first kind that an implementation of Boards runs
)

// Run runs the history of a number: the same number gives the same history. Each number has people of its own, with IDs from
// first on. prepare changes the world before the history runs.
func Run(ctx context.Context, client *rdb.Projections, number int, first services.UserID, prepare func(*World)) error {
	w := newWorld(ctx, client, uint64(number), first+services.UserID(number*maxPeople))
	prepare(w)
	return w.run(30 + number%3*30)
}

// drawEventDeck draws how often each kind of event is in the deck, from the numbers that the kind allows.
func (w *World) drawEventDeck() (deck []int) {
	for kind, parts := range [commonEventKindCount][]int{
		publishEvent: {1, 2, 4}, followEvent: {2, 4, 8}, unfollowEvent: {0, 4, 8}, deletePostEvent: {0, 0, 1, 4}, markSeenEvent: {0, 0, 2},
		loseKeysEvent: {0, 0, 2, 4}, visitEvent: {1, 2, 4}, continueWorkerEvent: {6, 12, 24},
	} {
		for range parts[w.Random.IntN(len(parts))] {
			deck = append(deck, kind)
		}
	}
	return deck
}

// runRandomEvent runs one random event.
func (w *World) runRandomEvent() error {
	user, other := w.randomUser(), w.randomUser()
	// Two people meet each other's events far more often than three do: most bugs need one pair alone.
	if w.onePairForAllEvents {
		user, other = w.Users[0], w.Users[1]
	}
	_, follows := w.followStarts[edge{user, other}]
	switch kind := w.eventDeck[w.Random.IntN(len(w.eventDeck))]; kind {
	case publishEvent:
		w.publish(other)
	case followEvent:
		if !follows && user != other {
			w.follow(user, other)
		}
	case unfollowEvent:
		if follows {
			delete(w.followStarts, edge{user, other})
			w.Tracef("%d unfollows %d", user, other)
			w.queueEdgeJob(user, other)
			if w.Random.IntN(3) == 0 {
				w.follow(user, other)
			}
		}
	case deletePostEvent:
		if id, ok := w.randomPost(); ok && !w.posts[id].Deleted {
			w.posts[id].Deleted = true
			w.Tracef("post %d is deleted", id)
			w.Enqueue(fmt.Sprintf("remove %d", id), func(pause func()) error { return w.fanOut(pause, id, true) })
		}
	case markSeenEvent:
		if id, ok := w.randomPost(); ok {
			w.seenUpTo[user] = max(w.seenUpTo[user], id)
			w.Tracef("%d has seen up to %d", user, id)
			w.Enqueue(fmt.Sprintf("seen %d", user), func(pause func()) error { return w.projectSeen(pause, user) })
		}
	case loseKeysEvent:
		return w.loseKeys(user)
	case visitEvent:
		return w.visit(user)
	case continueWorkerEvent:
		return w.continueOneWorker(true)
	case makePulledEvent:
		w.makePulled(other)
	default:
		return w.Boards.Event(kind, user, other)
	}
	return nil
}

// follow stores that reader follows author from now on, and queues the job that brings the follow into the reader's projection.
func (w *World) follow(reader, author services.UserID) {
	since := w.NextID()
	w.followStarts[edge{reader, author}] = since
	w.Tracef("%d follows %d since %d", reader, author, since)
	w.queueEdgeJob(reader, author)
}

// queueEdgeJob queues a job that brings a follow, or its end, into the reader's projection. If a job of this pair is queued already,
// the two may be claimed together and become one.
func (w *World) queueEdgeJob(reader, author services.UserID) {
	name := fmt.Sprintf("edge %d/%d", reader, author)
	if w.Random.IntN(2) == 0 {
		w.queue = slices.DeleteFunc(w.queue, func(other *worker) bool { return other.name == name && other.resume == nil })
	}
	w.Enqueue(name, func(pause func()) error { return w.reconcileFollow(pause, reader, author) })
}

// publish commits a post, whose ID may have been assigned long before. One call in six only assigns an ID, for a later call.
func (w *World) publish(author services.UserID) {
	id := services.PostID(w.NextID())
	if w.Random.IntN(6) == 0 {
		w.uncommittedIDs = append(w.uncommittedIDs, id)
		return
	}
	// Transactions commit in another order than they take their IDs: an older post may come after a newer one was seen.
	if len(w.uncommittedIDs) > 0 && w.Random.IntN(3) == 0 {
		id, w.uncommittedIDs = w.uncommittedIDs[0], w.uncommittedIDs[1:]
	}
	w.posts[id] = &services.Post{ID: id, Author: author}
	w.Tracef("%d posts %d", author, id)
	w.Enqueue(fmt.Sprintf("fan-out %d", id), func(pause func()) error { return w.fanOut(pause, id, false) })
}

// loseKeys deletes keys, as an eviction or a flush does. A restart from an older snapshot is another loss, which the epoch shows.
func (w *World) loseKeys(user services.UserID) error {
	// No reader may see the loss as an empty feed, so the check comes before anything is rebuilt.
	keys := []string{rdb.DocumentKey(user), inboxKey(user)}[w.losableKeyRange[0]:w.losableKeyRange[1]]
	w.Tracef("lost: %v", keys)
	if err := w.Client.Client.Commands().Del(w.Ctx, keys...).Err(); err != nil {
		return err
	}
	return w.CheckFeedsAndBoards()
}

// visit is a read by the user. It rebuilds a missing projection, and now and then a whole one.
func (w *World) visit(user services.UserID) error {
	// The projection is ready if the document and the inbox are both there: neither is missing or being built.
	ready, err := w.isFeedReady(user)
	if err != nil || ready && w.Random.IntN(2) == 0 {
		return err
	}
	refill := w.Random.IntN(4) == 0
	w.Enqueue(fmt.Sprintf("rebuild %d", user), func(pause func()) error { return w.rebuild(pause, user, refill) })
	return nil
}

// isFeedReady reports whether a reader would find the user's document and inbox, both complete.
func (w *World) isFeedReady(user services.UserID) (bool, error) {
	documents, err := w.Client.Documents(w.Ctx, []services.UserID{user})
	if err != nil {
		return false, err
	}
	page, err := w.Client.Inbox(w.Ctx, user, services.MaxPostID, services.FeedRetention)
	return documents[0].Ready && page.Ready, err
}

// continueOneWorker lets one worker continue, to its end or until it stalls. Stalled workers continue only now and then, when much has
// happened since their last step. With trouble a second worker may get the job as well, and a worker may die in the middle;
// then its job starts over.
func (w *World) continueOneWorker(trouble bool) error {
	if len(w.queue) == 0 {
		return nil
	}
	// Starting from a random worker, the first one whose stalled equals late continues; if there is none, the random one
	// does.
	late := w.Random.IntN(6) == 0
	at := w.Random.IntN(len(w.queue))
	for tries := 0; tries < len(w.queue) && w.queue[at].stalled != late; tries++ {
		at = (at + 1) % len(w.queue)
	}
	worker := w.queue[at]
	worker.stalled = false
	// A second worker takes the job, as if the lease of the first had ended while it still runs: both workers go on.
	if trouble && w.Random.IntN(12) == 0 {
		w.Tracef("%s: taken by another as well", worker.name)
		w.Enqueue(worker.name, worker.job)
	}
	if trouble && worker.resume != nil && w.Random.IntN(12) == 0 {
		w.Tracef("%s: died", worker.name)
		worker.kill()
		return nil
	}
	if worker.resume == nil {
		worker.start()
	}
	for {
		err, more := worker.resume()
		if !more {
			w.queue = slices.Delete(w.queue, at, at+1)
			w.Tracef("%s: done", worker.name)
			return w.CheckFeedsAndBoards()
		}
		if err == nil {
			err = w.CheckFeedsAndBoards()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", worker.name, err)
		}
		if worker.stalled = w.Random.IntN(w.stepsPerStall) == 0; worker.stalled {
			w.Tracef("%s: stalls", worker.name)
			return nil
		}
	}
}

// Tracef adds a line to the trace.
func (w *World) Tracef(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf(format, args...))
}

// randomUser is one of the people.
func (w *World) randomUser() services.UserID { return w.Users[w.Random.IntN(len(w.Users))] }

// randomPost is one of all posts, deleted ones included.
func (w *World) randomPost() (services.PostID, bool) {
	ids := w.matchingPosts(func(*services.Post) bool { return true })
	if len(ids) == 0 {
		return 0, false
	}
	return ids[w.Random.IntN(len(ids))], true
}

// NextID assigns an ID, which is greater than all before. The step leaves room for the sequence and node of real IDs.
func (w *World) NextID() services.SortableID {
	w.lastAssignedID += 1 << 21
	return w.lastAssignedID
}

// matchingPosts are the posts that fit, newest first.
func (w *World) matchingPosts(fits func(*services.Post) bool) []services.PostID {
	var ids []services.PostID
	for id, post := range w.posts {
		if fits(post) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	slices.Reverse(ids)
	return ids
}

// homeFeedFromFacts is a reader's feed by the facts, newest first.
func (w *World) homeFeedFromFacts(reader services.UserID) []services.FeedEntry {
	var entries []services.FeedEntry
	for _, id := range w.matchingPosts(func(post *services.Post) bool { return !post.Deleted }) {
		author := w.posts[id].Author
		since, follows := w.followStarts[edge{reader, author}]
		if follows || author == reader {
			entries = append(entries, services.FeedEntry{Post: id, Author: author, CountsAsNew: follows && id > services.PostID(since)})
		}
	}
	return entries
}
