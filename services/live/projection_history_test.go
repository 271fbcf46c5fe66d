package live

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"tidings/services"
	"tidings/services/rdb"
	"tidings/services/rdb/rdbtest"
	"tidings/services/rdb/rdbtest/feedhistory"
	"tidings/services/redis"
	"tidings/services/redis/clienttest"
	"tidings/services/redis/redistest"
)

// The kinds of events of boards.
const (
	endShowEvent     = feedhistory.FirstBoardEvent + iota // a show of a host ends
	loseReplaysEvent                                      // Redis loses a user's list of replays
	visitBoardEvent                                       // a user opens their board
)

// boardWorld is the facts of shows in a random history, and the jobs that they cause.
type boardWorld struct {
	*feedhistory.World
	redis                 projection
	hostsNamedInDocuments map[services.UserID]bool        // authors named in their followers' documents
	replaysByID           map[services.ShowID]replayEntry // all replays
	readsFactsEarly       bool                            // injects a bug: replays are read before their list is created
}

// Event runs one event that concerns boards.
func (w *boardWorld) Event(kind int, user, other services.UserID) error {
	switch kind {
	case loseReplaysEvent:
		w.Tracef("lost: the replays of %d", user)
		if err := w.redis.Client.Commands().Del(w.Ctx, replaysKey(user)).Err(); err != nil {
			return err
		}
		return w.World.CheckFeedsAndBoards()
	case visitBoardEvent:
		read, err := w.redis.readBoard(w.Ctx, boardQuery{Reader: user})
		if err != nil || read.ListReady && w.Random.IntN(4) > 0 {
			return err
		}
		w.Enqueue(fmt.Sprintf("rebuild of the replays of %d", user), func(pause func()) error { return w.rebuildReplays(pause, user) })
	default:
		w.endShow(other)
	}
	return nil
}

// endShow makes a host's show a replay. The first replay of a host adds the host to the documents of the followers.
func (w *boardWorld) endShow(host services.UserID) {
	if !w.hostsNamedInDocuments[host] {
		w.hostsNamedInDocuments[host] = true
		w.Tracef("%d is a host", host)
		w.QueueAddAuthorJobs(rdb.HostsField, host)
	}
	id := services.ShowID(w.NextID())
	w.replaysByID[id] = replayEntry{ShowPosition{Replay: true, Score: int64(id >> 23), ID: id}, host}
	w.Tracef("show %d of %d has ended", id, host)
	w.Enqueue(fmt.Sprintf("replay %d ", id), func(pause func()) error {
		followers := w.Followers(host, 0)
		for len(followers) > 0 {
			size := min(feedhistory.FollowersPerChunk, len(followers))
			after, to := followers[0]-1, followers[size-1]
			w.Enqueue(fmt.Sprintf("replay %d up to %d", id, to), func(pause func()) error { return w.pushReplay(pause, id, after, to) })
			followers = followers[size:]
		}
		return nil
	})
}

// pushReplay merges a replay into the lists of the host's followers with IDs in (after, to]. It reads the followers when it runs. Other
// work can run at each pause.
func (w *boardWorld) pushReplay(pause func(), id services.ShowID, after, to services.UserID) error {
	stamp, err := w.redis.Client.Now(w.Ctx)
	if err != nil {
		return err
	}
	pause()
	var merges []replayMerge
	for _, reader := range w.Followers(w.replaysByID[id].Host, after) {
		if reader <= to {
			merges = append(merges, replayMerge{Reader: reader, Stamp: stamp, Entries: []replayEntry{w.replaysByID[id]}})
		}
	}
	pause()
	results, err := w.redis.mergeReplays(w.Ctx, merges)
	if err != nil {
		return err
	}
	for i, result := range results {
		if result.Status == redis.Retry {
			if err := w.addReplayAgain(pause, merges[i].Reader, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// addReplayAgain reads the follow again for a reader whose list refused a replay, and merges the replay if the follow still exists. It
// models Service.addReplaysAgain, with pauses in which other work can run.
func (w *boardWorld) addReplayAgain(pause func(), reader services.UserID, id services.ShowID) error {
	for range feedhistory.MaxJobTries {
		pause()
		stamp, err := w.redis.TakeUserStamp(w.Ctx, reader)
		if err != nil || stamp == 0 {
			return err
		}
		pause()
		if _, follows := w.FollowedSince(reader, w.replaysByID[id].Host); !follows {
			return nil
		}
		pause()
		results, err := w.redis.mergeReplays(w.Ctx, []replayMerge{{Reader: reader, Stamp: stamp, Entries: []replayEntry{w.replaysByID[id]}}})
		if err != nil || results[0].Status != redis.Retry {
			return err
		}
	}
	return fmt.Errorf("replay %d for reader %d: refused %d times", id, reader, feedhistory.MaxJobTries)
}

// Follow merges a host's replays into a follower's list, and returns the hosts that the document must name: the host, or none. refused
// is true if the facts that were read under the stamp are too old.
func (w *boardWorld) Follow(pause func(), reader, author services.UserID, since services.SortableID, stamp redis.ClockStamp) (hosts []services.FollowedAuthor, refused bool, err error) {
	if !w.hostsNamedInDocuments[author] {
		return nil, false, nil
	}
	entries := w.replaysOfHosts(func(host services.UserID) bool { return host == author })
	pause()
	results, err := w.redis.mergeReplays(w.Ctx, []replayMerge{{Reader: reader, Stamp: stamp, Entries: entries}})
	if err != nil {
		return nil, false, err
	}
	pause()
	return []services.FollowedAuthor{{Author: author, ItemsCountAfter: since}}, results[0].Status == redis.Retry, nil
}

// rebuildReplays rebuilds a user's list of replays: it marks the list as being built, reads the facts and merges them, in this order.
func (w *boardWorld) rebuildReplays(pause func(), user services.UserID) error {
	for range feedhistory.MaxJobTries {
		entries := w.replaysFor(user)
		if w.readsFactsEarly {
			pause()
		}
		stamps, err := w.redis.beginReplays(w.Ctx, []services.UserID{user})
		if err != nil || stamps[0] == 0 {
			return err
		}
		if pause(); !w.readsFactsEarly {
			entries = w.replaysFor(user)
		}
		pause()
		results, err := w.redis.mergeReplays(w.Ctx, []replayMerge{{Reader: user, Stamp: stamps[0], IsRebuild: true, Entries: entries}})
		if err != nil || results[0].Status == redis.Applied {
			return err
		}
	}
	return fmt.Errorf("replays of %d: refused %d times", user, feedhistory.MaxJobTries)
}

// Hosts lists the hosts that a reader follows, by the facts.
func (w *boardWorld) Hosts(reader services.UserID) (list []services.FollowedAuthor) {
	for host := range w.hostsNamedInDocuments {
		if since, follows := w.FollowedSince(reader, host); follows {
			list = append(list, services.FollowedAuthor{Author: host, ItemsCountAfter: since})
		}
	}
	return feedhistory.SortByAuthor(list)
}

// replaysFor lists the replays that a reader's board should have: those of the hosts that the reader follows, newest first.
func (w *boardWorld) replaysFor(reader services.UserID) []replayEntry {
	return w.replaysOfHosts(func(host services.UserID) bool {
		_, follows := w.FollowedSince(reader, host)
		return follows
	})
}

// replaysOfHosts lists the replays of the hosts that fits accepts, newest first.
func (w *boardWorld) replaysOfHosts(fits func(host services.UserID) bool) (list []replayEntry) {
	for _, entry := range w.replaysByID {
		if fits(entry.Host) {
			list = append(list, entry)
		}
	}
	slices.SortFunc(list, func(a, b replayEntry) int {
		return cmp.Or(cmp.Compare(b.Position.Score, a.Position.Score), cmp.Compare(b.Position.ID, a.Position.ID))
	})
	return list
}

// CheckBoards compares every list of replays that boards show with the facts, except for what a queued job will still apply.
func (w *boardWorld) CheckBoards() error {
	for _, user := range w.Users {
		read, err := w.redis.readBoard(w.Ctx, boardQuery{Reader: user, Limit: services.FeedRetention})
		if err != nil {
			return err
		}
		if !read.ListReady {
			continue
		}
		for _, entry := range w.replaysOfHosts(func(services.UserID) bool { return true }) {
			_, follows := w.FollowedSince(user, entry.Host)
			if has := slices.Contains(read.Replays, entry); has != follows && !w.hasQueuedChange(user, entry, follows) {
				return fmt.Errorf("user %d: replay %d of %d is listed: %v, followed: %v", user, entry.Position.ID, entry.Host, has, follows)
			}
		}
	}
	return nil
}

// hasQueuedChange reports whether a queued job will still change whether a user's list has a replay: a job for the user's follow of the
// host or, if the replay is missing, the job that adds it.
func (w *boardWorld) hasQueuedChange(user services.UserID, entry replayEntry, missing bool) bool {
	return w.HasQueuedWorker(func(name string) bool {
		return name == fmt.Sprintf("edge %d/%d", user, entry.Host) || missing && strings.HasPrefix(name, fmt.Sprintf("replay %d ", entry.Position.ID))
	})
}

// CompareBoard rebuilds a user's list if a read finds it missing, and compares the user's board with the facts.
func (w *boardWorld) CompareBoard(user services.UserID) error {
	query := boardQuery{Reader: user, Limit: services.FeedRetention}
	read, err := w.redis.readBoard(w.Ctx, query)
	if err == nil && !read.ListReady {
		if err = w.rebuildReplays(func() {}, user); err == nil {
			read, err = w.redis.readBoard(w.Ctx, query)
		}
	}
	if err != nil {
		return err
	}
	if want := w.Hosts(user); !slices.Equal(feedhistory.SortByAuthor(read.Hosts), want) {
		return fmt.Errorf("user %d: the hosts are %v, the facts say %v", user, read.Hosts, want)
	}
	if want := w.replaysFor(user); !read.ListReady || !slices.Equal(read.Replays, want) {
		return fmt.Errorf("user %d: the replays are %+v, the facts say %v", user, read, want)
	}
	return nil
}

// runBoardHistory runs the random history of a number, with hosts of shows and an injected bug; the zero Bug is none.
func runBoardHistory(ctx context.Context, client *rdb.Projections, number int, bug clienttest.Bug[*boardWorld]) error {
	return feedhistory.Run(ctx, client, number, 20_000_000, func(w *feedhistory.World) {
		all := &boardWorld{World: w, redis: projection{client}, hostsNamedInDocuments: map[services.UserID]bool{}, replaysByID: map[services.ShowID]replayEntry{}}
		w.Boards = all
		for range w.RareEventCopies() {
			w.AddEventKinds(endShowEvent, visitBoardEvent)
			if number%3 > 0 {
				w.AddEventKinds(loseReplaysEvent)
			}
		}
		bug.Inject(all)
	})
}

func TestBoardsEqualTheFactsAfterEveryHistory(t *testing.T) {
	test := func(t *testing.T, url string, full int) {
		client := rdbtest.Open(t, redis.Options{URL: url, ReadTimeout: clienttest.LongReadTimeout}, rdb.DocumentShape{})
		for i := range clienttest.HistoryNumbers(t, full, boardBugs) {
			if err := runBoardHistory(t.Context(), client, i, clienttest.Bug[*boardWorld]{}); err != nil {
				t.Fatalf("history %d: %v", i, err)
			}
		}
	}
	t.Run("redis", func(t *testing.T) { test(t, redistest.Redis(t), 200) })
	t.Run("embedded", func(t *testing.T) { test(t, "embedded", 25) })
	t.Run("cluster", func(t *testing.T) { test(t, redistest.Cluster(t), 10) })
}

// The scripts of package rdb that some boardBugs change.
var (
	inboxDrop    = clienttest.Script("inbox_drop")    // removes an author from a reader's document, inbox and lists
	inboxMerge   = clienttest.Script("inbox_merge")   // merges an author's posts, and names authors and hosts in the document
	rebuildBegin = clienttest.Script("rebuild_begin") // begins a rebuild of a document
	rebuildMerge = clienttest.Script("rebuild_merge") // merges the facts into a document and ends its rebuild
)

// keepListsOnRebuildBug makes every rebuild of a document keep the user's lists, as a rebuild with RebuildMode.Refill does. Bugs that
// need a kept list are then found sooner, because refills are rare.
var keepListsOnRebuildBug = clienttest.ReplaceInScript(rebuildBegin, "if ARGV[1] ~= '1' and KEYS[4] then redis.call('DEL', unpack(KEYS, 4)) end", "")

// boardBugs are the bugs that these histories must find. Each is injected alone, and omits one rule by which lists, documents and facts
// are kept in agreement.
var boardBugs = map[string]clienttest.Bug[*boardWorld]{
	"a list that is read while it is built":     {Scripts: clienttest.ReplaceInScript(replaysBegin, "'#' .. NOWHERE", "'!' .. NOWHERE"), Known: 2},
	"facts that are read before the list is":    {Work: func(w *boardWorld) { w.readsFactsEarly = true }},
	"a list born without a stamp":               {Scripts: clienttest.ReplaceInScript(replaysBegin, "redis.call('HSET', KEYS[1], 'rm', string.format('%.0f', rm))", ""), Known: 2735},
	"a writer who makes what is not there":      {Scripts: clienttest.ReplaceInScript(replaysMerge, "if not rm or not l then return { 0 } end", "if not rm then return { 0 } end if not l then l = { mark = '!', floor = NOWHERE } redis.call('ZADD', KEYS[2], 0, '!' .. NOWHERE) end"), Known: 1},
	"an unfollow without a fence":               {Scripts: clienttest.ReplaceInScript(inboxDrop, "fence(KEYS[1], d)\n", ""), Known: 1337},
	"a replay as old as it likes":               {Scripts: clienttest.ReplaceInScript(replaysMerge, "if tonumber(ARGV[1]) <= rm then return { 3 } end\n", ""), Known: 50},
	"an edge not read again":                    {Work: func(w *boardWorld) { w.RemovalRereadsFollow = false }, Known: 434},
	"a rebuild that replaces":                   {Scripts: clienttest.ReplaceInScript(replaysMerge, "local added = 0\n", "local added = 0 if ARGV[2] == '1' then redis.call('ZREMRANGEBYRANK', KEYS[2], 1, -1) end\n"), Known: 116},
	"a drop that leaves the replays":            {Scripts: clienttest.ReplaceInScript(inboxDrop, "for k, drop in ipairs(drops) do drop(KEYS[3 + k], ARGV[1]) end\n", ""), Known: 79},
	"a drop that leaves the host named":         {Scripts: clienttest.ReplaceInScript(inboxDrop, "if unname(KEYS[1], 'L', ARGV[2]) then removed = removed + 1 end\n", ""), Known: 35},
	"a follow that does not name the host":      {Scripts: clienttest.ReplaceInScript(inboxMerge, "if name(KEYS[1], 'L', ARGV[4]) then added = added + 1 end\n", ""), Known: 10},
	"a rebuild that names no host":              {Scripts: clienttest.ReplaceInScript(rebuildMerge, "name(KEYS[1], 'L', ARGV[9])\n", ""), Known: 1},
	"a host who is no news":                     {Scripts: clienttest.ReplaceInScript(inboxMerge, "if name(KEYS[1], 'L', ARGV[4]) then added = added + 1 end\n", "name(KEYS[1], 'L', ARGV[4])\n"), Known: 10},
	"an old list taken for good":                {Scripts: keepListsOnRebuildBug.AndReplaceInScript(rebuildBegin, "redis.call('DEL', unpack(KEYS))", "redis.call('DEL', unpack(KEYS, 1, 3))").AndReplaceInScript(rebuildBegin, "DEL', KEYS[2], unpack(KEYS, 4))", "DEL', KEYS[2])"), Known: 666},
	"a list kept beside an inbox that was lost": {Scripts: keepListsOnRebuildBug.AndReplaceInScript(rebuildBegin, "DEL', KEYS[2], unpack(KEYS, 4))", "DEL', KEYS[2])"), Known: 973},
	"hosts kept beside an inbox that was lost":  {Scripts: clienttest.ReplaceInScript(rebuildBegin, "rm), 'fq', '0', 'ft', '0', 'F', '', 'L', '')", "rm), 'fq', '0', 'ft', '0', 'F', '')"), Known: 125},
}

func TestTheHistoriesOfBoardsFindEveryInjectedBug(t *testing.T) {
	client := rdbtest.Open(t, redis.Options{URL: redistest.Redis(t), ReadTimeout: clienttest.LongReadTimeout}, rdb.DocumentShape{})
	clienttest.FindBugs(t, client.Client, boardBugs, 3000, func(number int, bug clienttest.Bug[*boardWorld]) error {
		return runBoardHistory(t.Context(), client, number, bug)
	})
}

func TestEveryScriptFileIsLoadedAfterItsParts(t *testing.T) {
	clienttest.EveryScriptIsLoaded(t, luaFiles)
}
