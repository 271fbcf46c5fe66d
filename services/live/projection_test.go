package live

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidings/services"
	"tidings/services/rdb"
	"tidings/services/rdb/rdbtest"
	"tidings/services/redis"
	"tidings/services/redis/redistest"
)

const (
	listReader = services.UserID(7) // the user whose board and list of replays are tested
	listHost   = services.UserID(8) // a host whose replays are in the list
	otherHost  = services.UserID(9) // another user, in most tests a second such host
)

// boardTest is one reader's board on one Redis, for tests that cover every branch of a script.
type boardTest struct {
	*testing.T
	projection projection
}

// eachRedis runs a test with an empty Redis of each kind.
func eachRedis(t *testing.T, run func(v boardTest)) {
	rdbtest.EachRedis(t, func(t *testing.T, c *rdb.Projections) { run(boardTest{t, projection{c}}) })
}

func (v boardTest) must(err error) {
	v.Helper()
	if err != nil {
		v.Fatal(err)
	}
}

// buildFromFacts makes the reader's document and inbox from facts.
func (v boardTest) buildFromFacts(facts rdb.FeedFacts) {
	v.Helper()
	if facts.Stamp == 0 {
		facts.Stamp = v.beginRebuild(false)
	}
	facts.Reader, facts.IsVisit, facts.LastActiveDay, facts.KeyLifetime = listReader, true, 20_000, time.Hour
	_, err := v.projection.EndRebuild(v.Context(), facts)
	v.must(err)
}

// beginRebuild begins a rebuild of the reader's document and returns its stamp. A refill keeps the list of replays.
func (v boardTest) beginRebuild(refill bool) redis.ClockStamp {
	v.Helper()
	stamps, err := v.projection.BeginRebuild(v.Context(), []services.UserID{listReader}, rdb.RebuildMode{IsVisit: true, Refill: refill})
	v.must(err)
	return stamps[0]
}

// takeStamp takes a stamp of this moment. It does not use Now: on a cluster, the stamps of Now are refused for a second after a removal.
func (v boardTest) takeStamp() redis.ClockStamp {
	v.Helper()
	stamp, err := v.projection.TakeUserStamp(v.Context(), listReader)
	v.must(err)
	return stamp
}

// dropHost removes a host from the reader's document and list, as the end of a follow does.
func (v boardTest) dropHost(host services.UserID) {
	v.Helper()
	_, err := v.projection.DropFromInbox(v.Context(), listReader, host)
	v.must(err)
}

// dropReaderIfLastVisitBy drops the reader's keys if their last visit was on the day last or earlier.
func (v boardTest) dropReaderIfLastVisitBy(last int64) {
	v.Helper()
	_, err := v.projection.DropUsers(v.Context(), []services.UserID{listReader}, last)
	v.must(err)
}

// readField reads a field of the reader's document.
func (v boardTest) readField(name string) string {
	v.Helper()
	value, err := v.projection.Client.Commands().HGet(v.Context(), rdb.DocumentKey(listReader), name).Result()
	v.must(err)
	return value
}

// writeField writes a field of the reader's document.
func (v boardTest) writeField(name string, value any) {
	v.Helper()
	v.must(v.projection.Client.Commands().HSet(v.Context(), rdb.DocumentKey(listReader), name, value).Err())
}

// deleteKeys deletes keys.
func (v boardTest) deleteKeys(keys ...string) {
	v.Helper()
	v.must(v.projection.Client.Commands().Del(v.Context(), keys...).Err())
}

// replayEndedAt is a replay of a show that ended at a millisecond.
func replayEndedAt(end int, host services.UserID) replayEntry {
	return replayEntry{ShowPosition{Replay: true, Score: int64(end), ID: services.ShowID(end % 7)}, host}
}

// replaysEndedBetween are the replays of shows that ended between two milliseconds, newest first, as on boards.
func replaysEndedBetween(from, to int, host services.UserID) (list []replayEntry) {
	for end := to; end >= from; end-- {
		list = append(list, replayEndedAt(end, host))
	}
	return list
}

// beginReplays begins a rebuild of the reader's list of replays and returns its stamp.
func (v boardTest) beginReplays() redis.ClockStamp {
	v.Helper()
	stamps, err := v.projection.beginReplays(v.Context(), []services.UserID{listReader})
	v.must(err)
	return stamps[0]
}

// mergeReplays merges replays into the reader's list.
func (v boardTest) mergeReplays(merge replayMerge) redis.ResultStatus {
	v.Helper()
	merge.Reader = listReader
	results, err := v.projection.mergeReplays(v.Context(), []replayMerge{merge})
	v.must(err)
	return results[0].Status
}

// readBoard reads the reader's board, with all of its replays.
func (v boardTest) readBoard() redisBoard {
	v.Helper()
	read, err := v.projection.readBoard(v.Context(), boardQuery{Reader: listReader, Limit: 1000})
	v.must(err)
	return read
}

// wantReplays checks a script's result and the list of replays after it: list are its replays, nil if the list is missing or being
// built, and floor is the millisecond of its floor, 0 for none.
func (v boardTest) wantReplays(what string, got, want redis.ResultStatus, floor int, list []replayEntry) {
	v.Helper()
	read := v.readBoard()
	var position ShowPosition
	if floor > 0 {
		position = replayEndedAt(floor, 0).Position
	}
	if got != want || read.ListReady != (list != nil) || read.Floor != position || !slices.Equal(read.Replays, list) {
		v.Errorf("%s: status %d, want %d; listed %v with the floor %v, want %v;\n%v\nwant\n%v", what, got, want, read.ListReady, read.Floor, position, read.Replays, list)
	}
}

func TestReplaysSortAsBoardsDo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) replayEntry {
			score := rapid.OneOf(rapid.Int64Range(0, 40), rapid.Int64Range(1_700_000_000_000, 1_900_000_000_000), rapid.Just(int64(maxEndTime))).Draw(t, name)
			id := rapid.OneOf(rapid.Uint64Range(1, 40), rapid.Uint64Range(1, math.MaxInt64)).Draw(t, name+" id")
			return replayEntry{ShowPosition{Replay: true, Score: score, ID: services.ShowID(id)}, services.UserID(rapid.Uint32().Draw(t, name+" host"))}
		}
		a, b := draw("a"), draw("b")
		if got, ok := parseReplay(replayText(a)); !ok || got != a {
			t.Fatalf("%+v is %q and read as %+v, %v", a, replayText(a), got, ok)
		}
		if len(replayText(a)) != replayLength || a.Position != b.Position && a.Position.Before(b.Position) != (replayText(a) > replayText(b)) {
			t.Fatalf("%+v is %q, %+v is %q", a, replayText(a), b, replayText(b))
		}
	})
	good := replayText(replayEndedAt(7, 300))
	for _, text := range []string{"", "!", "!" + good[:22], good[1:], good + "0", strings.Replace(good, "7", "I", 1), good[:9] + "8" + good[10:], good[:26] + "~", good[:22] + "uuuuu"} {
		if entry, ok := parseReplay(text); ok {
			t.Errorf("%q is read as %+v", text, entry)
		}
	}
	if position, ok := parseReplayPosition(positionText(ShowPosition{})); !ok || position != (ShowPosition{}) {
		t.Errorf("no position is read as %v, %v", position, ok)
	}
}

func TestAListOfReplaysFollowsTheRebuildProtocol(t *testing.T) {
	eachRedis(t, func(v boardTest) {
		if stamp := v.beginReplays(); stamp != 0 {
			v.Errorf("without a document the stamp is %d", stamp)
		}
		if read := v.readBoard(); read.Ready || read.ListReady {
			v.Errorf("without a document: %+v", read)
		}
		v.buildFromFacts(rdb.FeedFacts{})
		one := []replayEntry{replayEndedAt(10, listHost)}
		v.wantReplays("into nothing", v.mergeReplays(replayMerge{Stamp: v.takeStamp(), Entries: one}), redis.Missing, 0, nil)
		early := v.takeStamp()
		stamp := v.beginReplays()
		v.wantReplays("begun", redis.Applied, redis.Applied, 0, nil)
		v.wantReplays("read before it was begun", v.mergeReplays(replayMerge{Stamp: early, Entries: one}), redis.Retry, 0, nil)
		v.wantReplays("into one that is being built", v.mergeReplays(replayMerge{Stamp: stamp, Entries: one}), redis.Applied, 0, nil)
		whole := replayMerge{Stamp: stamp, IsRebuild: true, Entries: []replayEntry{replayEndedAt(9, otherHost), replayEndedAt(4, listHost)}, Floor: replayEndedAt(3, listHost).Position}
		all := []replayEntry{replayEndedAt(10, listHost), replayEndedAt(9, otherHost), replayEndedAt(4, listHost)}
		v.wantReplays("ended", v.mergeReplays(whole), redis.Applied, 3, all)
		v.wantReplays("ended twice", v.mergeReplays(whole), redis.Applied, 3, all)
		v.wantReplays("the same again", v.mergeReplays(replayMerge{Stamp: stamp, Entries: one}), redis.Unchanged, 3, all)
		v.wantReplays("below the floor", v.mergeReplays(replayMerge{Stamp: stamp, Entries: replaysEndedBetween(1, 3, otherHost)}), redis.Unchanged, 3, all)
		v.beginReplays()
		v.wantReplays("begun while it is there", redis.Applied, redis.Applied, 3, all)
		late := v.takeStamp()
		v.dropHost(otherHost)
		all = []replayEntry{}
		v.wantReplays("a host goes and there is room for older ones", redis.Applied, redis.Applied, 0, nil)
		v.wantReplays("read before they left", v.mergeReplays(replayMerge{Stamp: late, IsRebuild: true, Entries: whole.Entries}), redis.Missing, 0, nil)
		stamp = v.beginReplays()
		v.wantReplays("read before they left, into a new list", v.mergeReplays(replayMerge{Stamp: late, IsRebuild: true, Entries: whole.Entries}), redis.Retry, 0, nil)
		v.wantReplays("ended with nothing", v.mergeReplays(replayMerge{Stamp: stamp, IsRebuild: true}), redis.Applied, 0, all)
		v.wantReplays("one more", v.mergeReplays(replayMerge{Stamp: v.takeStamp(), Entries: one}), redis.Applied, 0, one)
		late = v.takeStamp()
		v.dropHost(listHost)
		v.wantReplays("who has all stays listed", redis.Applied, redis.Applied, 0, []replayEntry{})
		v.wantReplays("and refuses what was read before", v.mergeReplays(replayMerge{Stamp: late, Entries: one}), redis.Retry, 0, []replayEntry{})
	})
}

func TestAListOfReplaysIsDroppedWithItsDocument(t *testing.T) {
	eachRedis(t, func(v boardTest) {
		rebuildList := func() {
			v.buildFromFacts(rdb.FeedFacts{})
			v.mergeReplays(replayMerge{Stamp: v.beginReplays(), IsRebuild: true, Entries: replaysEndedBetween(1, 2, listHost)})
			v.wantReplays("made", redis.Applied, redis.Applied, 0, replaysEndedBetween(1, 2, listHost))
		}
		for what, step := range map[string]struct {
			do    func()
			stays bool
		}{
			"a refill": {func() { v.buildFromFacts(rdb.FeedFacts{Stamp: v.beginRebuild(true)}) }, true},
			"a return": {func() { v.buildFromFacts(rdb.FeedFacts{Stamp: v.beginRebuild(false)}) }, false},
			"a document that was lost": {func() {
				v.deleteKeys(rdb.DocumentKey(listReader))
				v.buildFromFacts(rdb.FeedFacts{Stamp: v.beginRebuild(true)})
			}, false},
			"an inbox that was lost": {func() {
				v.deleteKeys(redis.UserKey(listReader, ":i"))
				v.buildFromFacts(rdb.FeedFacts{Stamp: v.beginRebuild(true)})
			}, false},
			"hosts that were lost": {func() {
				v.must(v.projection.Client.Commands().HDel(v.Context(), rdb.DocumentKey(listReader), "L").Err())
				v.buildFromFacts(rdb.FeedFacts{Stamp: v.beginRebuild(true)})
			}, false},
			"a reset": {func() {
				v.must(v.projection.ResetUserData(v.Context(), listReader))
				v.buildFromFacts(rdb.FeedFacts{Stamp: v.beginRebuild(true)})
			}, false},
			"the list alone": {func() { v.deleteKeys(replaysKey(listReader)) }, false},
			"a list without its mark": {func() {
				v.must(v.projection.Client.Commands().ZRemRangeByRank(v.Context(), replaysKey(listReader), 0, 0).Err())
			}, false},
			"a list that is a text": {func() {
				v.must(v.projection.Client.Commands().Set(v.Context(), replaysKey(listReader), "x", 0).Err())
				v.readBoard()
				v.buildFromFacts(rdb.FeedFacts{})
			}, false},
			"a user who is not dormant": {func() { v.dropReaderIfLastVisitBy(19_999) }, true},
			"a user who is dormant":     {func() { v.dropReaderIfLastVisitBy(20_000); v.buildFromFacts(rdb.FeedFacts{}) }, false},
		} {
			rebuildList()
			step.do()
			list := replaysEndedBetween(1, 2, listHost)
			if !step.stays {
				list = nil
			}
			v.wantReplays(what, redis.Applied, redis.Applied, 0, list)
		}
		rebuildList()
		for _, lifetime := range []time.Duration{time.Hour, 2 * time.Hour} {
			v.must(v.projection.MarkActive(v.Context(), []services.UserID{listReader}, 20_000, lifetime))
			left, err := v.projection.Client.Commands().TTL(v.Context(), replaysKey(listReader)).Result()
			if err != nil || left > lifetime || left < lifetime-lifetime/16-time.Minute {
				v.Errorf("the list lives for %s, of %s: %v", left, lifetime, err)
			}
		}
	})
}

func TestAListOfReplaysKeepsTheNewest(t *testing.T) {
	eachRedis(t, func(v boardTest) {
		v.buildFromFacts(rdb.FeedFacts{})
		keep := services.FeedRetention
		v.mergeReplays(replayMerge{Stamp: v.beginReplays(), IsRebuild: true, Entries: replaysEndedBetween(1, keep, listHost)})
		v.wantReplays("as many as are listed", redis.Applied, redis.Applied, 0, replaysEndedBetween(1, keep, listHost))
		v.mergeReplays(replayMerge{Stamp: v.takeStamp(), Entries: replaysEndedBetween(keep+1, keep+32, listHost)})
		v.wantReplays("no more are listed", redis.Applied, redis.Applied, 32, replaysEndedBetween(33, keep+32, listHost))
		for _, page := range []struct{ before, limit, from, to int }{{0, 5, keep + 28, keep + 32}, {keep + 20, 5, keep + 15, keep + 19}, {35, 5, 33, 34}, {33, 5, 1, 0}, {20, 5, 1, 0}} {
			query := boardQuery{Reader: listReader, Limit: page.limit}
			if page.before > 0 {
				query.Before = replayEndedAt(page.before, listHost).Position
			}
			read, err := v.projection.readBoard(v.Context(), query)
			v.must(err)
			if want := replaysEndedBetween(page.from, page.to, listHost); !slices.Equal(read.Replays, want) || read.Floor != replayEndedAt(32, 0).Position {
				v.Errorf("%d before %d: %v, want %v; floor %v", page.limit, page.before, read.Replays, want, read.Floor)
			}
		}
		v.mergeReplays(replayMerge{Stamp: v.takeStamp(), Entries: replaysEndedBetween(keep+33, keep+33, otherHost)})
		held := parseReplays(rdbtest.Snapshot(v.T, v.projection.Projections, listReader).Lists[replaysList.KeyPart])
		if len(held.entries) != keep+16 || held.floor != replayEndedAt(17, 0).Position || !held.listReady || held.invalidMembers > 0 {
			v.Errorf("after a trim the list has %d, its floor is %v", len(held.entries), held.floor)
		}
		var long []rdb.LongList
		for position, done := (rdb.KeyWalkPosition{}), false; !done; {
			var found rdb.KeyWalkFindings
			var err error
			found, position, done, err = v.projection.WalkKeys(v.Context(), position, 100)
			v.must(err)
			long = append(long, found.LongLists...)
		}
		for _, want := range []int{16, 0} {
			if cut, err := v.projection.TrimLists(v.Context(), long); err != nil || !slices.Equal(cut, []int{want}) {
				v.Errorf("cut are %v, want %d: %v", cut, want, err)
			}
		}
		v.wantReplays("cut", redis.Applied, redis.Applied, 33, slices.Concat(replaysEndedBetween(keep+33, keep+33, otherHost), replaysEndedBetween(34, keep+32, listHost)))
		v.dropHost(otherHost)
		v.wantReplays("older ones are due", redis.Applied, redis.Applied, 0, nil)
	})
}

// A full list keeps the compact form of Redis (listpack), and the document of a user who follows no host takes at most 400 bytes.
func TestMemoryOfAListOfReplays(t *testing.T) {
	server := redistest.NewServer(t)
	v := boardTest{t, projection{rdbtest.Open(t, redis.Options{URL: server.URL()}, rdb.DocumentShape{})}}
	v.buildFromFacts(rdb.FeedFacts{})
	usage := func(key string) int64 { return server.Do("MEMORY", "USAGE", key, "SAMPLES", 0).(int64) }
	idle := usage(rdb.DocumentKey(listReader))
	v.mergeReplays(replayMerge{Stamp: v.beginReplays(), IsRebuild: true, Entries: replaysEndedBetween(1, services.FeedRetention+16, listHost)})
	full := usage(replaysKey(listReader))
	if idle > 400 || full > 12<<10 {
		t.Errorf("an idle document takes %d bytes, at most 400 are allowed; a full list of replays %d, at most 12 KB", idle, full)
	}
	if encoding := fmt.Sprint(server.Do("OBJECT", "ENCODING", replaysKey(listReader))); encoding != "listpack" && encoding != "ziplist" {
		t.Errorf("the list is a %s", encoding)
	}
	t.Logf("idle %d bytes, list %d", idle, full)
}
