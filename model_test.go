package main

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"tidings/services/fanout/fanouttest"
	"tidings/services/rdb/rdbtest"
	"tidings/services/store/storetest"
)

// world is the slow, independent model: what a few people posted, followed, liked and looked at, in lists.
type world struct {
	n      *node
	people []string
	flush  func() // nil where Redis cannot be emptied

	posts   []*worldPost
	follows map[string]map[string]int // reader -> author -> posts there were at the follow
	seen    map[string]int            // reader -> posts that he has seen the places of
	liked   map[string]map[string]int // post -> liker -> when first noticed, kept when taken back
	stands  map[string]map[string]bool
	noticed map[string]int                   // recipient -> up to when he has seen his notifications
	shows   func(reader, author string) bool // whether the reader is shown what the author publishes, if he follows; nil: always
	clock   int
	moves   []func(*rapid.T)  // what else happens between two pages
	pending bool              // jobs wait: feeds may be behind
	version map[string]string // reader -> last version of his badges
}

type worldPost struct {
	id, author string
	deleted    bool
}

var worlds atomic.Int64

func newWorld(n *node, flush func()) *world {
	w := &world{
		n: n, flush: flush, follows: map[string]map[string]int{}, seen: map[string]int{}, liked: map[string]map[string]int{},
		stands: map[string]map[string]bool{}, noticed: map[string]int{}, version: map[string]string{},
	}
	w.moves = []func(*rapid.T){w.publish, w.delete, w.follow, w.unfollow, w.work}
	number := worlds.Add(1)
	for i := range 4 {
		person := fmt.Sprintf("w%d-%c", number, 'a'+i)
		w.people = append(w.people, person)
		w.follows[person] = map[string]int{}
	}
	n.people(w.people...)
	return w
}

// followed says since when a reader follows an author and is shown his posts.
func (w *world) followed(reader, author string) (since int, follows bool) {
	since, follows = w.follows[reader][author]
	return since, follows && (w.shows == nil || w.shows(reader, author))
}

// feed is what the reader's feed must list, newest first.
func (w *world) feed(reader string) []string {
	ids := []string{}
	for _, post := range slices.Backward(w.posts) {
		if _, follows := w.followed(reader, post.author); !post.deleted && (follows || post.author == reader) {
			ids = append(ids, post.id)
		}
	}
	return ids
}

// unread is what must count of it.
func (w *world) unread(reader string) (count int) {
	for i, post := range w.posts {
		since, follows := w.followed(reader, post.author)
		if follows && !post.deleted && i >= since && i >= w.seen[reader] {
			count++
		}
	}
	return count
}

// likes is how many of the person's posts have likes that he has not seen.
func (w *world) likes(person string) (count int) {
	for _, post := range w.posts {
		newest := 0
		for liker, at := range w.liked[post.id] {
			if w.stands[post.id][liker] {
				newest = max(newest, at)
			}
		}
		if post.author == person && !post.deleted && newest > w.noticed[person] {
			count++
		}
	}
	return count
}

// followers is how many groups of followers a person has not seen: one when there are any, since it is all one half day.
func (w *world) followers(person string) int {
	for reader, follows := range w.follows {
		if _, does := follows[person]; does && reader != person {
			return 1
		}
	}
	return 0
}

func (w *world) person(t *rapid.T, name string) string {
	return rapid.SampledFrom(w.people).Draw(t, name)
}

// look reads a person's badges and holds what must hold at any moment: P1, P5, rising versions.
func (w *world) look(t *rapid.T, person string) badges {
	got := w.n.badges(person)
	if got.Version < w.version[person] {
		t.Fatalf("%s: version fell from %s to %s", person, w.version[person], got.Version)
	}
	w.version[person] = got.Version
	return got
}

// compare holds everyone's badges and feed against the model, once all jobs are done.
func (w *world) compare(t *rapid.T) {
	w.n.settle()
	w.pending = false
	for _, person := range w.people {
		got := w.compareFeed(t, person)
		if got.Notifications.Like.Value != w.likes(person) {
			t.Fatalf("%s: likes %+v, want %d", person, got.Notifications.Like, w.likes(person))
		}
		if want := w.followers(person); got.Notifications.Follow.Value != want {
			t.Fatalf("%s: followers %+v, want %d", person, got.Notifications.Follow, want)
		}
	}
}

// compareFeed holds a person's feed, and how much of it is new, against the model.
func (w *world) compareFeed(t *rapid.T, person string) badges {
	got := w.look(t, person)
	if got.HomeFeed.Value != w.unread(person) || got.HomeFeed.Precision != "EXACT" {
		t.Fatalf("%s: home feed %+v, want %d", person, got.HomeFeed, w.unread(person))
	}
	if listed := w.n.walk(person, 3); !slices.Equal(listed, w.feed(person)) {
		t.Fatalf("%s: feed %v, want %v", person, listed, w.feed(person))
	}
	return got
}

func (w *world) publish(t *rapid.T) {
	w.publishAs(w.person(t, "author"))
}

func (w *world) publishAs(author string) {
	w.posts = append(w.posts, &worldPost{id: w.n.publish(author, "post"), author: author})
	w.pending = true
}

func (w *world) delete(t *rapid.T) {
	post := w.somePost(t)
	if post == nil {
		return
	}
	got := w.n.ask(post.author, `mutation($p:ID!){deletePost(input:{postId:$p}){postId}}`, map[string]any{"p": post.id})
	if want := map[bool]string{true: "CONFLICT"}[post.deleted]; got.code() != want {
		t.Fatalf("delete: code %q, want %q", got.code(), want)
	}
	post.deleted, w.pending = true, true
}

func (w *world) somePost(t *rapid.T) *worldPost {
	if len(w.posts) == 0 {
		return nil
	}
	return rapid.SampledFrom(w.posts).Draw(t, "post")
}

func (w *world) follow(t *rapid.T) { w.followOne(t, w.person(t, "reader"), w.person(t, "author")) }

func (w *world) followOne(t *rapid.T, reader, author string) {
	got := w.n.ask(reader, `mutation($u:ID!){follow(input:{userId:$u}){badges{`+badgeFields+`}}}`, map[string]any{"u": "user:" + author})
	_, already := w.follows[reader][author]
	want := map[bool]string{true: "CONFLICT"}[already]
	if reader == author {
		want = "INVALID"
	}
	if got.code() != want {
		t.Fatalf("follow: code %q, want %q", got.code(), want)
	}
	if want == "" {
		w.follows[reader][author] = len(w.posts)
	}
}

func (w *world) unfollow(t *rapid.T) {
	reader, author := w.person(t, "reader"), w.person(t, "author")
	got := w.n.ask(reader, `mutation($u:ID!){unfollow(input:{userId:$u}){user{id}}}`, map[string]any{"u": "user:" + author})
	_, follows := w.follows[reader][author]
	if want := map[bool]string{false: "CONFLICT"}[follows]; got.code() != want {
		t.Fatalf("unfollow: code %q, want %q", got.code(), want)
	}
	delete(w.follows[reader], author)
	if !w.pending { // the one who did it sees it at once
		if got := w.look(t, reader).HomeFeed.Value; got != w.unread(reader) {
			t.Fatalf("after unfollow: %d, want %d", got, w.unread(reader))
		}
	}
}

// markSeen looks at the feed up to a post, twice, the second time late: marks only grow.
func (w *world) markSeen(t *rapid.T) {
	reader := w.person(t, "reader")
	place, upTo := 0, ""
	if !w.pending && rapid.Bool().Draw(t, "all") {
		if feed := w.feed(reader); len(feed) > 0 {
			place = slices.IndexFunc(w.posts, func(p *worldPost) bool { return p.id == feed[0] }) + 1
		}
	} else if len(w.posts) > 0 {
		place = rapid.IntRange(1, len(w.posts)).Draw(t, "place")
		upTo = w.posts[place-1].id
	} else {
		return
	}
	got := w.n.markFeedSeen(reader, upTo)
	w.seen[reader] = max(w.seen[reader], place)
	if !w.pending && got.HomeFeed.Value != w.unread(reader) {
		t.Fatalf("mark: %d, want %d", got.HomeFeed.Value, w.unread(reader))
	}
}

// like likes a post or takes the like back; the clock of the model ticks when its author is told.
func (w *world) like(t *rapid.T) {
	post, liker := w.somePost(t), w.person(t, "liker")
	if post == nil {
		return
	}
	verb, standing := "likePost", w.stands[post.id][liker]
	if standing {
		verb = "unlikePost"
	}
	got := w.n.ask(liker, `mutation($p:ID!){r:`+verb+`(input:{postId:$p}){post{id}}}`, map[string]any{"p": post.id})
	if want := map[bool]string{true: "NOT_FOUND"}[post.deleted]; got.code() != want {
		t.Fatalf("%s: code %q, want %q", verb, got.code(), want)
	}
	w.n.settle()
	w.pending = false
	if post.deleted || liker == post.author {
		if liker == post.author && !post.deleted {
			w.stand(post.id, liker, !standing)
		}
		return
	}
	w.stand(post.id, liker, !standing)
	if _, before := w.liked[post.id][liker]; !before {
		w.clock++
		if w.liked[post.id] == nil {
			w.liked[post.id] = map[string]int{}
		}
		w.liked[post.id][liker] = w.clock
	}
}

func (w *world) stand(post, liker string, stands bool) {
	if w.stands[post] == nil {
		w.stands[post] = map[string]bool{}
	}
	w.stands[post][liker] = stands
}

func (w *world) markNotificationsSeen(t *rapid.T) {
	person := w.person(t, "person")
	w.n.settle()
	w.pending = false
	w.n.must(person, `mutation{markNotificationsSeen(input:{categories:[LIKE]}){badges{total{value}}}}`, nil, nil)
	w.noticed[person] = w.clock
	if got := w.look(t, person).Notifications.Like.Value; got != 0 {
		t.Fatalf("after the mark: %d likes", got)
	}
}

// work does some of the waiting jobs, so that reads fall between them.
func (w *world) work(t *rapid.T) {
	w.n.work(rapid.SampledFrom(w.n.workers).Draw(t, "worker"))
}

func (w *world) actions() map[string]func(*rapid.T) {
	actions := map[string]func(*rapid.T){
		"publish": w.publish, "publish again": w.publish, "delete": w.delete, "follow": w.follow, "follow again": w.follow,
		"unfollow": w.unfollow, "mark": w.markSeen, "like": w.like, "mark notifications": w.markNotificationsSeen,
		"work": w.work, "compare": w.compare, "walk": w.walk,
		"look": func(t *rapid.T) { w.look(t, w.person(t, "person")) },
	}
	if w.flush != nil {
		actions["flush"] = func(*rapid.T) { w.flush() }
	}
	return actions
}

// walk turns pages while the world moves between them, and holds P7: nothing twice, and nothing left out that was
// there at the first page and is visible still.
func (w *world) walk(t *rapid.T) {
	w.n.settle()
	w.pending = false
	reader := w.person(t, "reader")
	there, byLastID := w.feed(reader), rapid.Bool().Draw(t, "by last id")
	moves := w.moves
	if w.flush != nil {
		moves = append(slices.Clone(moves), func(*rapid.T) { w.flush() })
	}
	var got []string
	gone := map[string]bool{} // not in the feed at some moment of the walk
	for after, last := "", ""; ; {
		page := w.n.page(reader, 2, after, last)
		got = append(got, page.ids()...)
		if !page.PageInfo.HasNextPage {
			break
		}
		if after = *page.PageInfo.EndCursor; byLastID {
			after, last = "", *page.LastID
		}
		rapid.SampledFrom(moves).Draw(t, "move")(t)
		now := w.feed(reader)
		for _, id := range there {
			gone[id] = gone[id] || !slices.Contains(now, id)
		}
	}
	sorted := slices.Clone(got)
	slices.Sort(sorted)
	if len(slices.Compact(sorted)) != len(got) {
		t.Fatalf("a post twice in %v", got)
	}
	for _, id := range there {
		if !gone[id] && !slices.Contains(got, id) {
			t.Fatalf("%s was there at the first page and is not in %v", id, got)
		}
	}
}

func checkWorlds(t *testing.T, n *node, flush func()) {
	fanouttest.Fewer(t, 5) // on three pairs of engines
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(n, flush)
		t.Repeat(w.actions())
		w.compare(t)
	})
}

// Badges and feeds equal the model after every history, on each pair of engines.
func TestBadgesAndFeedsEqualTheModel(t *testing.T) {
	t.Run("sqlite-embedded", func(t *testing.T) {
		checkWorlds(t, startNode(t, nodeOptions{database: storetest.SQLite(t), redis: "embedded", manual: true}), nil)
	})
	t.Run("sqlite-redis", func(t *testing.T) {
		server := rdbtest.NewServer(t)
		n := startNode(t, nodeOptions{database: storetest.SQLite(t), redis: server.URL(), manual: true})
		checkWorlds(t, n, func() { server.Flush() })
	})
	t.Run("postgres-cluster", func(t *testing.T) {
		url, servers := rdbtest.ClusterServers(t)
		n := startNode(t, nodeOptions{database: storetest.Postgres(t), redis: url, manual: true})
		checkWorlds(t, n, func() {
			for _, server := range servers {
				server.Flush()
			}
		})
	})
}
