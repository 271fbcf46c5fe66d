package rdb

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"tidings/services"
	"tidings/services/redis"
	"tidings/services/redis/redistest"
)

// replay is a replay of a show that ended at a millisecond.
func replay(end int, host services.UserID) ReplayEntry {
	return ReplayEntry{services.ShowPlace{Replay: true, Score: int64(end), ID: services.PostID(end % 7)}, host}
}

// replays are those of the shows that ended between two milliseconds, newest first, as boards have them.
func replays(from, to int, host services.UserID) (list []ReplayEntry) {
	for end := to; end >= from; end-- {
		list = append(list, replay(end, host))
	}
	return list
}

func (v view) beginReplays() redis.Stamp {
	v.Helper()
	stamps, err := v.c.BeginReplays(v.Context(), []services.UserID{reader})
	v.must(err)
	return stamps[0]
}

func (v view) mergeReplays(merge MergeOfReplays) redis.Status {
	v.Helper()
	merge.Reader = reader
	results, err := v.c.MergeReplays(v.Context(), []MergeOfReplays{merge})
	v.must(err)
	return results[0].Status
}

func (v view) board() BoardRead {
	v.Helper()
	read, err := v.c.Board(v.Context(), BoardQuery{Reader: reader, Limit: 1000})
	v.must(err)
	return read
}

// wantReplays checks a script's result, and a board's list after it; nil means that there is no list.
func (v view) wantReplays(what string, got, want redis.Status, floor int, list []ReplayEntry) {
	v.Helper()
	read := v.board()
	var place services.ShowPlace
	if floor > 0 {
		place = replay(floor, 0).Place
	}
	if got != want || read.Listed != (list != nil) || read.Floor != place || !slices.Equal(read.Replays, list) {
		v.Errorf("%s: status %d, want %d; listed %v with the floor %v, want %v;\n%v\nwant\n%v", what, got, want, read.Listed, read.Floor, place, read.Replays, list)
	}
}

func TestReplaysSortAsBoardsDo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) ReplayEntry {
			score := rapid.OneOf(rapid.Int64Range(0, 40), rapid.Int64Range(1_700_000_000_000, 1_900_000_000_000), rapid.Just(int64(maxEnd))).Draw(t, name)
			id := rapid.OneOf(rapid.Uint64Range(1, 40), rapid.Uint64Range(1, math.MaxInt64)).Draw(t, name+" id")
			return ReplayEntry{services.ShowPlace{Replay: true, Score: score, ID: services.PostID(id)}, services.UserID(rapid.Uint32().Draw(t, name+" host"))}
		}
		a, b := draw("a"), draw("b")
		if got, ok := parseReplay(replayText(a)); !ok || got != a {
			t.Fatalf("%+v is %q and read as %+v, %v", a, replayText(a), got, ok)
		}
		if len(replayText(a)) != replayLength || a.Place != b.Place && a.Place.Before(b.Place) != (replayText(a) > replayText(b)) {
			t.Fatalf("%+v is %q, %+v is %q", a, replayText(a), b, replayText(b))
		}
	})
	good := replayText(replay(7, 300))
	for _, text := range []string{"", "!", "!" + good[:22], good[1:], good + "0", strings.Replace(good, "7", "I", 1), good[:9] + "8" + good[10:], good[:26] + "~", good[:22] + "uuuuu"} {
		if entry, ok := parseReplay(text); ok {
			t.Errorf("%q is read as %+v", text, entry)
		}
	}
	if place, ok := parseReplayPlace(placeText(services.ShowPlace{})); !ok || place != (services.ShowPlace{}) {
		t.Errorf("no place is read as %v, %v", place, ok)
	}
}

func TestAListOfReplaysIsMadeByTheOneRule(t *testing.T) {
	eachView(t, func(v view) {
		if stamp := v.beginReplays(); stamp != 0 {
			v.Errorf("without a document the stamp is %d", stamp)
		}
		if read := v.board(); read.Ready || read.Listed {
			v.Errorf("without a document: %+v", read)
		}
		v.build(FeedFacts{Entries: posts(1, 3, counted)})
		one := []ReplayEntry{replay(10, author)}
		v.wantReplays("into nothing", v.mergeReplays(MergeOfReplays{Stamp: v.stamp(), Entries: one}), redis.Missing, 0, nil)
		early := v.stamp()
		stamp := v.beginReplays()
		v.wantReplays("begun", redis.Applied, redis.Applied, 0, nil)
		v.wantReplays("read before it was begun", v.mergeReplays(MergeOfReplays{Stamp: early, Entries: one}), redis.Retry, 0, nil)
		v.wantReplays("into one that is being built", v.mergeReplays(MergeOfReplays{Stamp: stamp, Entries: one}), redis.Applied, 0, nil)
		whole := MergeOfReplays{Stamp: stamp, Whole: true, Entries: []ReplayEntry{replay(9, other), replay(4, author)}, Floor: replay(3, author).Place}
		all := []ReplayEntry{replay(10, author), replay(9, other), replay(4, author)}
		v.wantReplays("ended", v.mergeReplays(whole), redis.Applied, 3, all)
		v.wantReplays("ended twice", v.mergeReplays(whole), redis.Applied, 3, all)
		v.wantReplays("the same again", v.mergeReplays(MergeOfReplays{Stamp: stamp, Entries: one}), redis.Same, 3, all)
		v.wantReplays("below the floor", v.mergeReplays(MergeOfReplays{Stamp: stamp, Entries: replays(1, 3, other)}), redis.Same, 3, all)
		v.beginReplays()
		v.wantReplays("begun while it is there", redis.Applied, redis.Applied, 3, all)
		late := v.stamp()
		v.drop(other)
		all = []ReplayEntry{}
		v.wantReplays("a host goes and there is room for older ones", redis.Applied, redis.Applied, 0, nil)
		v.wantReplays("read before he went", v.mergeReplays(MergeOfReplays{Stamp: late, Whole: true, Entries: whole.Entries}), redis.Missing, 0, nil)
		stamp = v.beginReplays()
		v.wantReplays("read before he went, into a new list", v.mergeReplays(MergeOfReplays{Stamp: late, Whole: true, Entries: whole.Entries}), redis.Retry, 0, nil)
		v.wantReplays("ended with nothing", v.mergeReplays(MergeOfReplays{Stamp: stamp, Whole: true}), redis.Applied, 0, all)
		v.wantReplays("one more", v.mergeReplays(MergeOfReplays{Stamp: v.stamp(), Entries: one}), redis.Applied, 0, one)
		late = v.stamp()
		v.drop(author)
		v.wantReplays("who has all stays listed", redis.Applied, redis.Applied, 0, []ReplayEntry{})
		v.wantReplays("and refuses what was read before", v.mergeReplays(MergeOfReplays{Stamp: late, Entries: one}), redis.Retry, 0, []ReplayEntry{})
	})
}

func TestAListOfReplaysGoesWithWhatItWasMadeBeside(t *testing.T) {
	eachView(t, func(v view) {
		make := func() {
			v.build(FeedFacts{Entries: posts(1, 3, counted)})
			v.mergeReplays(MergeOfReplays{Stamp: v.beginReplays(), Whole: true, Entries: replays(1, 2, author)})
			v.wantReplays("made", redis.Applied, redis.Applied, 0, replays(1, 2, author))
		}
		for what, step := range map[string]struct {
			do    func()
			stays bool
		}{
			"a refill":                 {func() { v.build(FeedFacts{Stamp: v.begin(true)}) }, true},
			"a return":                 {func() { v.build(FeedFacts{Stamp: v.begin(false)}) }, false},
			"a document that was lost": {func() { v.lose(DocumentKey(reader)); v.build(FeedFacts{Stamp: v.begin(true)}) }, false},
			"an inbox that was lost":   {func() { v.lose(inboxKey(reader)); v.build(FeedFacts{Stamp: v.begin(true)}) }, false},
			"hosts that were lost": {func() {
				v.must(v.c.Commands().HDel(v.Context(), DocumentKey(reader), "L").Err())
				v.build(FeedFacts{Stamp: v.begin(true)})
			}, false},
			"a reset":                 {func() { v.must(v.c.Reset(v.Context(), reader)); v.build(FeedFacts{Stamp: v.begin(true)}) }, false},
			"the list alone":          {func() { v.lose(replaysKey(reader)) }, false},
			"the list, dropped":       {func() { v.must(v.c.DropReplays(v.Context(), []services.UserID{reader})) }, false},
			"a list without its mark": {func() { v.must(v.c.Commands().ZRemRangeByRank(v.Context(), replaysKey(reader), 0, 0).Err()) }, false},
			"a list that is a text": {func() {
				v.must(v.c.Commands().Set(v.Context(), replaysKey(reader), "x", 0).Err())
				v.board()
				v.build(FeedFacts{})
			}, false},
			"a user who is not dormant": {func() { v.dropUser(19_999) }, true},
			"a user who is dormant":     {func() { v.dropUser(20_000); v.build(FeedFacts{}) }, false},
		} {
			make()
			step.do()
			list := replays(1, 2, author)
			if !step.stays {
				list = nil
			}
			v.wantReplays(what, redis.Applied, redis.Applied, 0, list)
		}
		make()
		for _, lifetime := range []time.Duration{time.Hour, 2 * time.Hour} {
			v.must(v.c.MarkActive(v.Context(), []services.UserID{reader}, 20_000, lifetime))
			left, err := v.c.Commands().TTL(v.Context(), replaysKey(reader)).Result()
			if err != nil || left > lifetime || left < lifetime-lifetime/16-time.Minute {
				v.Errorf("the list lives for %s, of %s: %v", left, lifetime, err)
			}
		}
	})
}

func TestAListOfReplaysKeepsTheNewest(t *testing.T) {
	eachView(t, func(v view) {
		v.build(FeedFacts{Entries: posts(1, 3, counted)})
		keep := services.Retention
		v.mergeReplays(MergeOfReplays{Stamp: v.beginReplays(), Whole: true, Entries: replays(1, keep, author)})
		v.wantReplays("as many as are listed", redis.Applied, redis.Applied, 0, replays(1, keep, author))
		v.mergeReplays(MergeOfReplays{Stamp: v.stamp(), Entries: replays(keep+1, keep+32, author)})
		v.wantReplays("no more are listed", redis.Applied, redis.Applied, 32, replays(33, keep+32, author))
		for _, page := range []struct{ before, limit, from, to int }{{0, 5, keep + 28, keep + 32}, {keep + 20, 5, keep + 15, keep + 19}, {35, 5, 33, 34}, {33, 5, 1, 0}, {20, 5, 1, 0}} {
			query := BoardQuery{Reader: reader, Limit: page.limit}
			if page.before > 0 {
				query.Before = replay(page.before, author).Place
			}
			read, err := v.c.Board(v.Context(), query)
			v.must(err)
			if want := replays(page.from, page.to, author); !slices.Equal(read.Replays, want) || read.Floor != replay(32, 0).Place {
				v.Errorf("%d before %d: %v, want %v; floor %v", page.limit, page.before, read.Replays, want, read.Floor)
			}
		}
		v.mergeReplays(MergeOfReplays{Stamp: v.stamp(), Entries: replays(keep+33, keep+33, other)})
		if held := v.snapshot(); len(held.Replays) != keep+16 || held.ReplayFloor != replay(17, 0).Place || !held.Listed || held.ReplayStrays > 0 {
			v.Errorf("after a trim the list has %d, its floor is %v", len(held.Replays), held.ReplayFloor)
		}
		cut, err := v.c.TrimReplays(v.Context(), []services.UserID{reader, other})
		if want := []int{16, 0}; err != nil || !slices.Equal(cut, want) {
			v.Errorf("cut are %v, want %v: %v", cut, want, err)
		}
		v.wantReplays("cut", redis.Applied, redis.Applied, 33, slices.Concat(replays(keep+33, keep+33, other), replays(34, keep+32, author)))
		v.drop(other)
		v.wantReplays("older ones are due", redis.Applied, redis.Applied, 0, nil)
	})
}

// A full list fits a listpack, and the document of a user who follows no host needs next to nothing for it.
func TestMemoryOfAListOfReplays(t *testing.T) {
	server := redistest.NewServer(t)
	v := view{t, connect(t, redis.Options{URL: server.URL()})}
	v.build(FeedFacts{Entries: posts(1, 3, counted)})
	usage := func(key string) int64 { return server.Do("MEMORY", "USAGE", key, "SAMPLES", 0).(int64) }
	idle := usage(DocumentKey(reader))
	v.mergeReplays(MergeOfReplays{Stamp: v.beginReplays(), Whole: true, Entries: replays(1, services.Retention+16, author)})
	full := usage(replaysKey(reader))
	if idle > 400 || full > 12<<10 {
		t.Errorf("an idle document takes %d bytes, at most 400 are allowed; a full list of replays %d, at most 12 KB", idle, full)
	}
	if encoding := fmt.Sprint(server.Do("OBJECT", "ENCODING", replaysKey(reader))); encoding != "listpack" && encoding != "ziplist" {
		t.Errorf("the list is a %s", encoding)
	}
	t.Logf("idle %d bytes, list %d", idle, full)
}

func TestHostsAreNamedInDocuments(t *testing.T) {
	eachView(t, func(v view) {
		first, second := services.FollowedAuthor{Author: author, Since: 3}, services.FollowedAuthor{Author: other, Since: services.PostID(author)<<32 | services.PostID(author)}
		name := func(stamp redis.Stamp, host services.FollowedAuthor) redis.Result {
			results, err := v.c.MergeNamed(v.Context(), Hosts, stamp, []AddNamed{{reader, host}})
			v.must(err)
			return results[0]
		}
		want := func(what string, result redis.Result, status redis.Status, hosts ...services.FollowedAuthor) {
			v.Helper()
			document, read := v.document(), v.board()
			if result.Status != status || (result.N > 0) != (status == redis.Applied) || status == redis.Applied && document.N != result.N {
				v.Errorf("%s: %+v, want the status %d", what, result, status)
			}
			if !slices.Equal(sortPulled(document.Hosts), hosts) || !slices.Equal(sortPulled(read.Hosts), hosts) || len(document.Pulled) > 0 {
				v.Errorf("%s: the document has the hosts %v, the board %v, want %v", what, document.Hosts, read.Hosts, hosts)
			}
		}
		if result := name(1, first); result.Status != redis.Missing {
			v.Errorf("into nothing: %+v", result)
		}
		want("born with one", v.build(FeedFacts{Hosts: []services.FollowedAuthor{second}}), redis.Applied, second)
		want("another", name(v.stamp(), first), redis.Applied, first, second)
		want("again", name(v.stamp(), first), redis.Same, first, second)
		first.Since = 9
		want("followed anew", name(v.stamp(), first), redis.Applied, first, second)
		read := v.stamp()
		want("a drop", v.drop(author), redis.Applied, second)
		want("read before the drop", name(read, first), redis.Retry, second)
		want("dropped again", v.drop(author), redis.Same, second)
		result, err := v.c.MergeIntoInbox(v.Context(), Merge{Reader: reader, Stamp: v.stamp(), Fence: true, Hosts: []services.FollowedAuthor{first}})
		v.must(err)
		want("a follow", result, redis.Applied, first, second)
		want("read before the follow", name(read, services.FollowedAuthor{Author: author}), redis.Retry, first, second)
		want("a rebuild takes nobody out", v.build(FeedFacts{Hosts: []services.FollowedAuthor{second}}), redis.Applied, first, second)
		v.must(v.c.Commands().HDel(v.Context(), DocumentKey(reader), "L").Err())
		if result := name(v.stamp(), first); result.Status != redis.Missing || v.document().Ready || v.board().Ready {
			v.Errorf("hosts that are lost are %+v after one was named: %+v", v.document(), result)
		}
		want("rebuilt", v.build(FeedFacts{Hosts: []services.FollowedAuthor{second}}), redis.Applied, second)
		results, err := v.c.PutRegisters(v.Context(), []Registers{{reader, []Register{LiveSeenRegister(7)}}})
		v.must(err)
		want("seen", results[0], redis.Applied, second)
		if d, read := v.document(), v.board(); d.LiveSeen != 7 || read.LiveSeen != 7 || read.Day != 20_000 {
			v.Errorf("seen up to %d and %d, on day %d", d.LiveSeen, read.LiveSeen, read.Day)
		}
	})
}

// However many hosts a user follows: an entry that was written is found, and the others stay.
func TestManyHosts(t *testing.T) {
	eachView(t, func(v view) {
		var hosts []services.FollowedAuthor
		for i := range 2000 {
			hosts = append(hosts, services.FollowedAuthor{Author: services.UserID(i + 1), Since: services.PostID(1+i%256) << 32})
		}
		v.build(FeedFacts{Hosts: hosts})
		for i := 1; i < len(hosts); i += 333 {
			hosts[i].Since++
			results, err := v.c.MergeNamed(v.Context(), Hosts, v.stamp(), []AddNamed{{reader, hosts[i]}})
			v.must(err)
			if results[0].Status != redis.Applied {
				v.Errorf("host %d: %+v", hosts[i].Author, results[0])
			}
		}
		for i := 0; i < len(hosts); i += 250 {
			v.drop(hosts[i].Author)
			hosts = slices.Delete(hosts, i, i+1)
		}
		v.build(FeedFacts{Hosts: hosts[100:1000]})
		if difference := cmp.Diff(hosts, sortPulled(v.document().Hosts)); difference != "" {
			v.Error(difference)
		}
	})
}
