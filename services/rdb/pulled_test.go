package rdb

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/redis"
	"tidings/services/redis/redistest"
)

func sortPulled(list []services.FollowedAuthor) []services.FollowedAuthor {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b services.FollowedAuthor) int { return cmp.Compare(a.Author, b.Author) })
	return list
}

func (v view) pull(stamp redis.Stamp, author services.FollowedAuthor) redis.Result {
	v.Helper()
	results, err := v.c.MergeNamed(v.Context(), PulledAuthors, stamp, []AddNamed{{reader, author}})
	v.must(err)
	return results[0]
}

// wantPulled checks a script's result, and the authors that the reader's feed pulls after it.
func (v view) wantPulled(what string, result redis.Result, status redis.Status, pulled ...services.FollowedAuthor) {
	v.Helper()
	if result.Status != status || (result.N > 0) != (status == redis.Applied) {
		v.Errorf("%s: %+v, want the status %d", what, result, status)
	}
	document := v.document()
	page, err := v.c.Inbox(v.Context(), reader, services.MaxPostID, 10)
	v.must(err)
	if !slices.Equal(sortPulled(document.Pulled), pulled) || !slices.Equal(sortPulled(page.Pulled), pulled) {
		v.Errorf("%s: the document pulls %v, the page %v, want %v", what, document.Pulled, page.Pulled, pulled)
	}
}

func TestPulledAuthorsAreNamedInDocuments(t *testing.T) {
	// The second entry's time contains the bytes of the first author's ID, so that a search for them also matches at a wrong
	// offset.
	follow, second := services.FollowedAuthor{Author: author, Since: 3}, services.FollowedAuthor{Author: other, Since: services.PostID(author)<<32 | services.PostID(author)}
	eachView(t, func(v view) {
		first := follow
		if result := v.pull(1, first); result.Status != redis.Missing {
			v.Errorf("into nothing: %+v", result)
		}
		stamp := v.begin(false)
		v.build(FeedFacts{Stamp: stamp, Entries: posts(1, 3, counted), Pulled: []services.FollowedAuthor{second}})
		v.wantPulled("born with one", v.add(v.stamp(), counted(4)), redis.Applied, second)
		v.wantPulled("another", v.pull(v.stamp(), first), redis.Applied, first, second)
		v.wantPulled("again", v.pull(v.stamp(), first), redis.Same, first, second)
		first.Since = 9
		v.wantPulled("followed anew", v.pull(v.stamp(), first), redis.Applied, first, second)
		read := v.stamp()
		v.wantPulled("a drop", v.drop(author), redis.Applied, second)
		v.wantPulled("read before the drop", v.pull(read, first), redis.Retry, second)
		v.wantPulled("dropped again", v.drop(author), redis.Same, second)
		v.want("his posts went too", v.see(1), redis.Applied, "0")
		result, err := v.c.MergeIntoInbox(v.Context(), Merge{Reader: reader, Stamp: v.stamp(), Fence: true, Pulled: []services.FollowedAuthor{first}})
		v.must(err)
		v.wantPulled("a follow", result, redis.Applied, first, second)
		v.wantPulled("read before the follow", v.pull(read, services.FollowedAuthor{Author: author}), redis.Retry, first, second)
		v.wantPulled("the other goes", v.drop(other), redis.Applied, first)
		v.wantPulled("a rebuild takes nobody out", v.build(FeedFacts{Pulled: []services.FollowedAuthor{second}}), redis.Applied, first, second)
	})
}

// A document that has lost its pulled authors counts as missing, and its next reader rebuilds it.
func TestPulledAuthorsThatAreLost(t *testing.T) {
	eachView(t, func(v view) {
		pulled := services.FollowedAuthor{Author: author, Since: 3}
		for what, lose := range map[string]func(){
			"lost":   func() { v.must(v.c.Commands().HDel(v.Context(), DocumentKey(reader), "F").Err()) },
			"broken": func() { v.set("F", "12345678901") },
		} {
			v.build(FeedFacts{Entries: posts(1, 3, counted), Pulled: []services.FollowedAuthor{pulled}})
			lose()
			if d := v.document(); d.Ready {
				v.Errorf("%s: the document is %+v", what, d)
			}
			if page, err := v.c.Inbox(v.Context(), reader, 9, 9); err != nil || page.Ready {
				v.Errorf("%s: the page is %+v, %v", what, page, err)
			}
			if what == "lost" {
				if result := v.pull(v.stamp(), pulled); result.Status != redis.Missing {
					v.Errorf("%s: a script takes it for whole: %+v", what, result)
				}
			}
			v.wantPulled(what+", rebuilt", v.build(FeedFacts{Pulled: []services.FollowedAuthor{pulled}}), redis.Applied, pulled)
		}
	})
}

// A document with many huge authors still fits a listpack, and a user who follows none needs no memory for them.
func TestMemoryOfADocumentWithPulledAuthors(t *testing.T) {
	server := redistest.NewServer(t)
	v := view{t, connect(t, redis.Options{URL: server.URL()})}
	usage := func() int64 { return server.Do("MEMORY", "USAGE", DocumentKey(reader), "SAMPLES", 0).(int64) }
	v.build(FeedFacts{Entries: posts(1, 3, counted)})
	idle := usage()
	var pulled []services.FollowedAuthor
	for i := range 100 {
		pulled = append(pulled, services.FollowedAuthor{Author: services.UserID(1000 + i), Since: services.PostIDAt(time.Now())})
	}
	v.build(FeedFacts{Pulled: pulled})
	if with := usage(); idle > 300 || with > 5*(idle+100*namedSize)/4 { // the allocator's steps are up to a quarter
		t.Errorf("an idle document takes %d bytes, with 100 authors %d", idle, with)
	}
	if encoding := fmt.Sprint(server.Do("OBJECT", "ENCODING", DocumentKey(reader))); encoding != "listpack" && encoding != "ziplist" {
		t.Errorf("the document is a %s", encoding)
	}
	t.Logf("idle %d bytes, with 100 authors %d", idle, usage())
}

func TestPageStates(t *testing.T) {
	eachView(t, func(v view) {
		v.build(FeedFacts{Entries: posts(11, 40, counted), Floor: 10, TrimmedCounted: 9, Seen: 20})
		for _, want := range []struct {
			before services.PostID
			above  int
		}{{services.MaxPostID, 0}, {41, 0}, {40, 1}, {21, 20}, {11, 30}, {1, 30}} {
			page, err := v.c.Inbox(v.Context(), reader, want.before, 5)
			if err != nil || page.Above != want.above || page.Floor != 10 || page.Seen != 20 {
				v.Errorf("before %d: %d above, floor %d, seen %d, %v; want %d, 10 and 20", want.before, page.Above, page.Floor, page.Seen, err, want.above)
			}
		}
	})
}

// flip makes an author pulled: that is stored first, and then written into each follower's document.
func (w *world) flip(author services.UserID) {
	if w.pulls[author] {
		return
	}
	w.say("%d is pulled", author)
	if w.late {
		w.enqueue(fmt.Sprintf("write down %d", author), func(func()) error { w.pulls[author] = true; return nil })
	} else {
		w.pulls[author] = true
	}
	w.nameTo(PulledAuthors, author)
}

// nameTo queues the jobs that write the author into a field of their followers' documents.
func (w *world) nameTo(field NamedField, author services.UserID) {
	followers := w.followers(author, 0)
	for len(followers) > 0 {
		size := min(worldChunk, len(followers))
		after, to := followers[0]-1, followers[size-1]
		w.enqueue(fmt.Sprintf("name %d in %s up to %d", author, field, to), func(pause func()) error { return w.name(pause, field, author, after, to) })
		followers = followers[size:]
	}
}

// name writes an author into the documents of the followers with IDs above after, up to to, as they are when it runs.
func (w *world) name(pause func(), field NamedField, author, after, to services.UserID) error {
	stamp, err := w.client.Now(w.ctx)
	if err != nil {
		return err
	}
	pause()
	var adds []AddNamed
	for _, reader := range w.followers(author, after) {
		if reader <= to {
			adds = append(adds, AddNamed{reader, services.FollowedAuthor{Author: author, Since: w.edges[edge{reader, author}]}})
		}
	}
	pause()
	results, err := w.client.MergeNamed(w.ctx, field, stamp, adds)
	if err != nil {
		return err
	}
	for i, result := range results {
		if result.Status == redis.Retry {
			pause()
			if err := w.reconcile(pause, adds[i].Reader, author); err != nil {
				return err
			}
		}
	}
	return nil
}

// pulledBy lists the pulled authors that a reader follows, by the facts.
func (w *world) pulledBy(reader services.UserID) (list []services.FollowedAuthor) {
	for edge, since := range w.edges {
		if edge.reader == reader && w.pulls[edge.author] {
			list = append(list, services.FollowedAuthor{Author: edge.author, Since: since})
		}
	}
	return sortPulled(list)
}

// pulledHistory is a history in which authors become pulled.
func pulledHistory(ctx context.Context, client *Projections, number int, plant func(*world)) error {
	const firstUser = 10_000_000
	w := newWorld(ctx, client, uint64(number), services.UserID(firstUser+number*people))
	w.pulls = map[services.UserID]bool{}
	for range len(w.deck)/8 + 1 {
		w.deck = append(w.deck, flip)
	}
	if plant != nil {
		plant(w)
	}
	return w.run(30 + number%3*30)
}

func TestPulledAuthorsEqualTheFactsAfterEveryHistory(t *testing.T) {
	test := func(t *testing.T, url string, full int) {
		client := connect(t, redis.Options{URL: url, ReadTimeout: patience})
		for i := range chosen(t, full, pulledBugs) {
			if err := pulledHistory(t.Context(), client, i, nil); err != nil {
				t.Fatalf("history %d: %v", i, err)
			}
		}
	}
	t.Run("redis", func(t *testing.T) { test(t, redistest.Redis(t), 300) })
	t.Run("embedded", func(t *testing.T) { test(t, "embedded", 40) })
	t.Run("cluster", func(t *testing.T) { test(t, redistest.Cluster(t), 10) })
}

// pulledBugs are the injected bugs that these histories must find, each by itself.
var pulledBugs = map[string]injectedBug{
	"an author named from as old a read as it likes": {scripts: []replacement{{&namedMerge, stampCheck, ""}}, known: 48},
	"a drop that leaves him named":                   {scripts: []replacement{{&inboxDrop, "unname(KEYS[1], 'F', ARGV[2]) and 1 or 0", "0"}}, known: 23},
	"a follow that does not name him":                {scripts: []replacement{{&inboxMerge, "name(KEYS[1], 'F', ARGV[3]) and 1 or 0", "0"}}, known: 9},
	"a rebuild that names nobody":                    {scripts: []replacement{{&rebuildMerge, "name(KEYS[1], 'F', ARGV[7])\n", ""}}, known: 1},
	"a rebuild that forgets who was named":           {scripts: []replacement{{&rebuildMerge, "name(KEYS[1], 'F', ARGV[7])\n", "redis.call('HSET', KEYS[1], 'F', '') name(KEYS[1], 'F', ARGV[7])\n"}}, known: 2292},
	"an inbox lost without them":                     {scripts: []replacement{{&rebuildBegin, "rm), 'fq', '0', 'ft', '0', 'F', '', 'L', '')", "rm), 'fq', '0', 'ft', '0', 'L', '')"}}, known: 140},
	"a change without a version":                     {scripts: []replacement{{&namedMerge, "d.n = math.max(now(), d.n + 1)", ""}}, known: 14},
	"followers named before it is written down":      {world: func(w *world) { w.late = true }, known: 1038},
}

func TestTheHistoriesOfPulledAuthorsFindEveryInjectedBug(t *testing.T) {
	plant(t, pulledBugs, 3000, func(client *Projections, number int, bug injectedBug) error {
		return pulledHistory(t.Context(), client, number, bug.world)
	})
}
