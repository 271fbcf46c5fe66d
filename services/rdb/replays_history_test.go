package rdb

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"tidings/services"
	"tidings/services/redis"
	"tidings/services/redis/redistest"
)

// boardEvent runs one event that concerns boards.
func (w *world) boardEvent(kind int, user, other services.UserID) error {
	switch kind {
	case loseList:
		w.say("lost: the replays of %d", user)
		if err := w.client.Commands().Del(w.ctx, replaysKey(user)).Err(); err != nil {
			return err
		}
		return w.check()
	case visitBoard:
		read, err := w.client.Board(w.ctx, BoardQuery{Reader: user})
		if err != nil || read.Listed && w.random.IntN(4) > 0 {
			return err
		}
		w.enqueue(fmt.Sprintf("rebuild of the replays of %d", user), func(pause func()) error { return w.rebuildReplays(pause, user) })
	default:
		w.endShow(other)
	}
	return nil
}

// endShow makes a host's show a replay. Their first replay adds them to their followers' documents.
func (w *world) endShow(host services.UserID) {
	if !w.hosts[host] {
		w.hosts[host] = true
		w.say("%d is a host", host)
		w.nameTo(Hosts, host)
	}
	id := w.id()
	w.ended[id] = ReplayEntry{services.ShowPlace{Replay: true, Score: int64(id >> 23), ID: id}, host}
	w.say("show %d of %d has ended", id, host)
	w.enqueue(fmt.Sprintf("replay %d ", id), func(pause func()) error {
		followers := w.followers(host, 0)
		for len(followers) > 0 {
			size := min(worldChunk, len(followers))
			after, to := followers[0]-1, followers[size-1]
			w.enqueue(fmt.Sprintf("replay %d up to %d", id, to), func(pause func()) error { return w.pushReplay(pause, id, after, to) })
			followers = followers[size:]
		}
		return nil
	})
}

// pushReplay updates the followers with IDs above after, up to to, as they are when it runs.
func (w *world) pushReplay(pause func(), id services.PostID, after, to services.UserID) error {
	stamp, err := w.client.Now(w.ctx)
	if err != nil {
		return err
	}
	pause()
	var merges []MergeOfReplays
	for _, reader := range w.followers(w.ended[id].Host, after) {
		if reader <= to {
			merges = append(merges, MergeOfReplays{Reader: reader, Stamp: stamp, Entries: []ReplayEntry{w.ended[id]}})
		}
	}
	pause()
	results, err := w.client.MergeReplays(w.ctx, merges)
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

func (w *world) addReplayAgain(pause func(), reader services.UserID, id services.PostID) error {
	for range worldRound {
		pause()
		stamp, err := w.client.StampOf(w.ctx, reader)
		if err != nil || stamp == 0 {
			return err
		}
		pause()
		if _, follows := w.edges[edge{reader, w.ended[id].Host}]; !follows {
			return nil
		}
		pause()
		results, err := w.client.MergeReplays(w.ctx, []MergeOfReplays{{Reader: reader, Stamp: stamp, Entries: []ReplayEntry{w.ended[id]}}})
		if err != nil || results[0].Status != redis.Retry {
			return err
		}
	}
	return fmt.Errorf("replay %d for reader %d: refused %d times", id, reader, worldRound)
}

// mergeHost merges a host's replays into a follower's list, and returns the hosts that the document must name.
func (w *world) mergeHost(pause func(), reader, author services.UserID, since services.PostID, stamp redis.Stamp) (hosts []services.FollowedAuthor, refused bool, err error) {
	if !w.hosts[author] {
		return nil, false, nil
	}
	entries := w.replaysOf(func(host services.UserID) bool { return host == author })
	pause()
	results, err := w.client.MergeReplays(w.ctx, []MergeOfReplays{{Reader: reader, Stamp: stamp, Entries: entries}})
	if err != nil {
		return nil, false, err
	}
	pause()
	return []services.FollowedAuthor{{Author: author, Since: since}}, results[0].Status == redis.Retry, nil
}

// rebuildReplays marks, reads and merges, in this order.
func (w *world) rebuildReplays(pause func(), user services.UserID) error {
	for range worldRound {
		entries := w.replaysBy(user)
		if w.early {
			pause()
		}
		stamps, err := w.client.BeginReplays(w.ctx, []services.UserID{user})
		if err != nil || stamps[0] == 0 {
			return err
		}
		if pause(); !w.early {
			entries = w.replaysBy(user)
		}
		pause()
		results, err := w.client.MergeReplays(w.ctx, []MergeOfReplays{{Reader: user, Stamp: stamps[0], Whole: true, Entries: entries}})
		if err != nil || results[0].Status == redis.Applied {
			return err
		}
	}
	return fmt.Errorf("replays of %d: refused %d times", user, worldRound)
}

// hostsBy lists the hosts that a reader follows, by the facts.
func (w *world) hostsBy(reader services.UserID) (list []services.FollowedAuthor) {
	for edge, since := range w.edges {
		if edge.reader == reader && w.hosts[edge.author] {
			list = append(list, services.FollowedAuthor{Author: edge.author, Since: since})
		}
	}
	return sortPulled(list)
}

// replaysBy lists a reader's replays by the facts, newest first.
func (w *world) replaysBy(reader services.UserID) []ReplayEntry {
	return w.replaysOf(func(host services.UserID) bool {
		_, follows := w.edges[edge{reader, host}]
		return follows
	})
}

func (w *world) replaysOf(fits func(host services.UserID) bool) (list []ReplayEntry) {
	for _, entry := range w.ended {
		if fits(entry.Host) {
			list = append(list, entry)
		}
	}
	slices.SortFunc(list, func(a, b ReplayEntry) int {
		return cmp.Or(cmp.Compare(b.Place.Score, a.Place.Score), cmp.Compare(b.Place.ID, a.Place.ID))
	})
	return list
}

// checkBoards compares every visible list with the facts, except for what a queued job will still apply.
func (w *world) checkBoards() error {
	if w.hosts == nil {
		return nil
	}
	for _, user := range w.users {
		read, err := w.client.Board(w.ctx, BoardQuery{Reader: user, Limit: services.Retention})
		if err != nil {
			return err
		}
		if !read.Listed {
			continue
		}
		for _, entry := range w.replaysOf(func(services.UserID) bool { return true }) {
			_, follows := w.edges[edge{user, entry.Host}]
			if has := slices.Contains(read.Replays, entry); has != follows && !w.owes(user, entry, follows) {
				return fmt.Errorf("user %d: replay %d of %d is listed: %v, followed: %v", user, entry.Place.ID, entry.Host, has, follows)
			}
		}
	}
	return nil
}

// owes reports whether a queued job will still bring an edge, or a missing replay, to a user.
func (w *world) owes(user services.UserID, entry ReplayEntry, missing bool) bool {
	return slices.ContainsFunc(w.queue, func(worker *worker) bool {
		return worker.name == fmt.Sprintf("edge %d/%d", user, entry.Host) || missing && strings.HasPrefix(worker.name, fmt.Sprintf("replay %d ", entry.Place.ID))
	})
}

// compareBoard rebuilds a user's list if a read finds it missing, and compares the user's board with the facts.
func (w *world) compareBoard(user services.UserID) error {
	if w.hosts == nil {
		return nil
	}
	query := BoardQuery{Reader: user, Limit: services.Retention}
	read, err := w.client.Board(w.ctx, query)
	if err == nil && !read.Listed {
		if err = w.rebuildReplays(func() {}, user); err == nil {
			read, err = w.client.Board(w.ctx, query)
		}
	}
	if err != nil {
		return err
	}
	if want := w.hostsBy(user); !slices.Equal(sortPulled(read.Hosts), want) {
		return fmt.Errorf("user %d: the hosts are %v, the facts say %v", user, read.Hosts, want)
	}
	if want := w.replaysBy(user); !read.Listed || !slices.Equal(read.Replays, want) {
		return fmt.Errorf("user %d: the replays are %+v, the facts say %v", user, read, want)
	}
	return nil
}

// boardHistory is a history of people who host shows.
func boardHistory(ctx context.Context, client *Projections, number int, plant func(*world)) error {
	const firstUser = 20_000_000
	w := newWorld(ctx, client, uint64(number), services.UserID(firstUser+number*people))
	w.hosts, w.ended = map[services.UserID]bool{}, map[services.PostID]ReplayEntry{}
	for range len(w.deck)/8 + 1 {
		w.deck = append(w.deck, endShow, visitBoard)
		if number%3 > 0 {
			w.deck = append(w.deck, loseList)
		}
	}
	if plant != nil {
		plant(w)
	}
	return w.run(30 + number%3*30)
}

func TestBoardsEqualTheFactsAfterEveryHistory(t *testing.T) {
	test := func(t *testing.T, url string, full int) {
		client := connect(t, redis.Options{URL: url, ReadTimeout: patience})
		for i := range chosen(t, full, boardBugs) {
			if err := boardHistory(t.Context(), client, i, nil); err != nil {
				t.Fatalf("history %d: %v", i, err)
			}
		}
	}
	t.Run("redis", func(t *testing.T) { test(t, redistest.Redis(t), 200) })
	t.Run("embedded", func(t *testing.T) { test(t, "embedded", 25) })
	t.Run("cluster", func(t *testing.T) { test(t, redistest.Cluster(t), 10) })
}

// keepsList makes every rebuild behave as a refill. Only a refill keeps the list, and refills are rare.
var keepsList = replacement{&rebuildBegin, "if ARGV[1] ~= '1' then redis.call('DEL', KEYS[4]) end", ""}

// boardBugs are the injected bugs that these histories must find, each by itself: the rules of MODEL, one left out at a time.
var boardBugs = map[string]injectedBug{
	"a list that is read while it is built":     {scripts: []replacement{{&replaysBegin, "'#' .. NOWHERE", "'!' .. NOWHERE"}}, known: 2},
	"facts that are read before the list is":    {world: func(w *world) { w.early = true }},
	"a list born without a stamp":               {scripts: []replacement{{&replaysBegin, "redis.call('HSET', KEYS[1], 'rm', string.format('%.0f', rm))", ""}}, known: 2735},
	"a writer who makes what is not there":      {scripts: []replacement{{&replaysMerge, "if not rm or not l then return { 0 } end", "if not rm then return { 0 } end if not l then l = { mark = '!', floor = NOWHERE } redis.call('ZADD', KEYS[2], 0, '!' .. NOWHERE) end"}}, known: 1},
	"an unfollow without a fence":               {scripts: []replacement{{&inboxDrop, "fence(KEYS[1], d)\n", ""}}, known: 1337},
	"a replay as old as it likes":               {scripts: []replacement{{&replaysMerge, "if tonumber(ARGV[1]) <= rm then return { 3 } end\n", ""}}, known: 50},
	"an edge not read again":                    {world: func(w *world) { w.rereads = false }, known: 434},
	"a rebuild that replaces":                   {scripts: []replacement{{&replaysMerge, "local added = 0\n", "local added = 0 if ARGV[2] == '1' then redis.call('ZREMRANGEBYRANK', KEYS[2], 1, -1) end\n"}}, known: 116},
	"a drop that leaves the replays":            {scripts: []replacement{{&inboxDrop, "dropHost(KEYS[4], ARGV[1])\n", ""}}, known: 79},
	"a drop that leaves the host named":         {scripts: []replacement{{&inboxDrop, "if unname(KEYS[1], 'L', ARGV[2]) then removed = removed + 1 end\n", ""}}, known: 35},
	"a follow that does not name the host":      {scripts: []replacement{{&inboxMerge, "if name(KEYS[1], 'L', ARGV[4]) then added = added + 1 end\n", ""}}, known: 10},
	"a rebuild that names no host":              {scripts: []replacement{{&rebuildMerge, "name(KEYS[1], 'L', ARGV[8])\n", ""}}, known: 1},
	"a host who is no news":                     {scripts: []replacement{{&inboxMerge, "if name(KEYS[1], 'L', ARGV[4]) then added = added + 1 end\n", "name(KEYS[1], 'L', ARGV[4])\n"}}, known: 10},
	"an old list taken for good":                {scripts: []replacement{keepsList, {&rebuildBegin, "DEL', KEYS[1], KEYS[2], KEYS[3], KEYS[4])", "DEL', KEYS[1], KEYS[2], KEYS[3])"}, {&rebuildBegin, "DEL', KEYS[2], KEYS[4])", "DEL', KEYS[2])"}}, known: 666},
	"a list kept beside an inbox that was lost": {scripts: []replacement{keepsList, {&rebuildBegin, "DEL', KEYS[2], KEYS[4])", "DEL', KEYS[2])"}}, known: 973},
	"hosts kept beside an inbox that was lost":  {scripts: []replacement{{&rebuildBegin, "rm), 'fq', '0', 'ft', '0', 'F', '', 'L', '')", "rm), 'fq', '0', 'ft', '0', 'F', '')"}}, known: 125},
}

func TestTheHistoriesOfBoardsFindEveryInjectedBug(t *testing.T) {
	plant(t, boardBugs, 3000, func(client *Projections, number int, bug injectedBug) error {
		return boardHistory(t.Context(), client, number, bug.world)
	})
}
