package world

import (
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"tidings/services"
	"tidings/services/fanout"
	"tidings/services/jobs"
	"tidings/services/notifications"
	"tidings/services/people"
	"tidings/services/redis/redistest"
	"tidings/services/sql"
)

// userID returns the ID of a person who exists.
func (w *World) userID(person string) services.UserID {
	numbers, err := people.IDs(w.N.TB.Context(), w.N.Store, []string{person})
	if err != nil || numbers[person] == 0 {
		w.N.TB.Fatalf("the ID of %s: %v, %v", person, numbers, err)
	}
	return numbers[person]
}

// QueueExtraJobs queues jobs that have run before, or that no fact caused.
func (w *World) QueueExtraJobs(t *rapid.T) {
	var queued []jobs.NewJob
	if post := w.DrawPost(t); post != nil {
		id, err := services.ParsePostGlobalID("post", post.ID)
		if err != nil {
			t.Fatal(err)
		}
		queued = append(queued, fanout.FanOutJob(id))
		if post.Deleted {
			queued = append(queued, fanout.RemoveJob(id))
		}
		for liker := range w.liked[post.ID] {
			cause := notifications.Cause{Recipient: w.userID(post.author), Category: services.CategoryLike, Subject: id, Actor: w.userID(liker)}
			job, err := notifications.Job(cause)
			if err != nil {
				t.Fatal(err)
			}
			queued = append(queued, job, job)
		}
	}
	reader, author := w.userID(w.DrawPerson(t, "reader")), w.userID(w.DrawPerson(t, "author"))
	if reader != author { // no user follows themselves
		queued = append(queued, fanout.FollowJob(reader, author))
	}
	queued = append(queued, fanout.SeenJob(reader), notifications.CountsJob(author))
	queued = rapid.Permutation(queued).Draw(t, "order")
	err := w.N.Store.Write(w.N.TB.Context(), func(tx *sql.Tx) error { return jobs.Enqueue(w.N.TB.Context(), tx, queued...) })
	if err != nil {
		t.Fatal(err)
	}
}

// MarkSeenBeforeFanout publishes a post. For some followers it marks the post as seen while its fan-out still waits, because another device may
// have shown the post. Then it marks any post up to that one, as a late device does.
func (w *World) MarkSeenBeforeFanout(t *rapid.T) {
	w.Publish(t)
	newest := w.posts[len(w.posts)-1]
	for _, reader := range w.People {
		if _, follows := w.Follows[reader][newest.author]; !follows || !rapid.Bool().Draw(t, "marks") {
			continue
		}
		w.ReadBadges(t, reader) // so that the person is active and has a document
		w.N.MarkFeedSeen(reader, newest.ID)
		w.N.MarkFeedSeen(reader, w.posts[rapid.IntRange(0, len(w.posts)-1).Draw(t, "late")].ID)
		w.seen[reader] = len(w.posts)
	}
}

// LoseRedisData makes Redis lose one person's document, or inbox, or both.
func (w *World) LoseRedisData(t *rapid.T, server *redistest.Server) {
	number := w.userID(w.DrawPerson(t, "person"))
	for _, key := range rapid.SampledFrom([][]string{{"b"}, {"i"}, {"b", "i"}}).Draw(t, "keys") {
		server.Do("DEL", fmt.Sprintf("{u%d}:%s", number, key))
	}
}

// World is the slow, independent model: the posts, follows, likes and visits of a few people, in lists.
type World struct {
	N      *Node
	People []string // their keys
	Flush  func()   // nil if Redis cannot be emptied

	posts               []*worldPost                     // in the order in which they were published
	Follows             map[string]map[string]int        // reader -> author -> number of posts at the follow
	modes               map[string]map[string]string     // reader -> author -> mode of the follow; absent: ALL
	seen                map[string]int                   // reader -> number of posts up to their seen position
	liked               map[string]map[string]int        // post -> liker -> time of the first like, kept when the like is undone
	likeStands          map[string]map[string]bool       // post -> liker -> whether the like stands, which is false once it is undone
	NotificationsSeenAt map[string]int                   // recipient -> the LikesNotified up to which they have seen their notifications
	MaySee              func(reader, author string) bool // whether a reader who follows the author may see their posts; nil: always
	// Unshown reports whether the author hid from the reader, or blocked them, when the post at place was published; nil: never.
	Unshown       func(reader, author string, place int) bool
	Off           func(person, category string) bool // whether the person turned off the category of notifications; nil: nobody did
	LikesNotified int                                // the number of likes that have notified an author, which serves as the time
	Moves         []func(*rapid.T)                   // steps that may happen between two pages of CheckPagedFeed
	JobsPending   bool                               // jobs may wait, so feeds may be out of date
	version       map[string]string                  // reader -> last version of their badges
}

// NewWorld makes the model of people on a node. flush empties Redis; nil if the history never does that.
func NewWorld(n *Node, flush func()) *World {
	w := &World{
		N: n, Flush: flush, Follows: map[string]map[string]int{}, seen: map[string]int{}, liked: map[string]map[string]int{},
		modes: map[string]map[string]string{}, likeStands: map[string]map[string]bool{}, NotificationsSeenAt: map[string]int{}, version: map[string]string{},
	}
	w.Moves = []func(*rapid.T){w.Publish, w.Delete, w.Follow, w.Unfollow, w.RunSomeJobs}
	number := Worlds.Add(1)
	for i := range 4 {
		person := fmt.Sprintf("w%d-%c", number, 'a'+i)
		w.People = append(w.People, person)
		w.Follows[person], w.modes[person] = map[string]int{}, map[string]string{}
	}
	n.CreateUsers(w.People...)
	n.Clock.keepHalfDay()
	return w
}

// FollowedSince returns the number of posts at the time of the follow, and whether the reader follows the author and may see the posts.
func (w *World) FollowedSince(reader, author string) (since int, follows bool) {
	since, follows = w.Follows[reader][author]
	return since, follows && (w.MaySee == nil || w.MaySee(reader, author))
}

// feed returns the IDs of the posts that the reader's feed must list, newest first.
func (w *World) feed(reader string) []string {
	ids := []string{}
	for _, post := range slices.Backward(w.posts) {
		if _, follows := w.FollowedSince(reader, post.author); !post.Deleted && (follows || post.author == reader) {
			ids = append(ids, post.ID)
		}
	}
	return ids
}

// unread returns the number of posts of the feed that must count as new.
func (w *World) unread(reader string) (count int) {
	for i, post := range w.posts {
		since, follows := w.FollowedSince(reader, post.author)
		if follows && !post.Deleted && i >= since && i >= w.seen[reader] && w.FollowMode(reader, post.author) == "ALL" {
			count++
		}
	}
	return count
}

// unseenFollowers returns the number of groups of new followers that a person has not seen: one at most, because all follows fall into
// one half day.
func (w *World) unseenFollowers(person string) int {
	for reader, follows := range w.Follows {
		if _, does := follows[person]; does && reader != person {
			return 1
		}
	}
	return 0
}

// wantBadgeCount returns the number that the badge of a category must show for this number of unseen notifications.
func (w *World) wantBadgeCount(person, category string, unseen int) int {
	if w.Off != nil && w.Off(person, category) {
		return 0
	}
	return unseen
}

// DrawPerson draws one of the people.
func (w *World) DrawPerson(t *rapid.T, name string) string {
	return rapid.SampledFrom(w.People).Draw(t, name)
}

// ReadBadges reads a person's badges and tests two rules that hold at any moment: the total and the parts add up, and the version never
// falls.
func (w *World) ReadBadges(t *rapid.T, person string) Badges {
	got := w.N.Badges(person)
	if got.Version < w.version[person] {
		t.Fatalf("%s: version fell from %s to %s", person, w.version[person], got.Version)
	}
	w.version[person] = got.Version
	return got
}

// CompareEveryone compares everyone's badges and feed with the model, once all jobs are done.
func (w *World) CompareEveryone(t *rapid.T) {
	w.N.Settle()
	w.JobsPending = false
	for _, person := range w.People {
		got := w.CompareFeed(t, person)
		w.compareModes(t, person)
		if want := w.wantBadgeCount(person, "LIKE", w.unseenLikes(person)); got.Notifications.Like.Value != want {
			t.Fatalf("%s: likes %+v, want %d", person, got.Notifications.Like, want)
		}
		if want := w.wantBadgeCount(person, "FOLLOW", w.unseenFollowers(person)); got.Notifications.Follow.Value != want {
			t.Fatalf("%s: followers %+v, want %d", person, got.Notifications.Follow, want)
		}
	}
}

// CompareFeed compares a person's feed, and its number of new posts, with the model.
func (w *World) CompareFeed(t *rapid.T, person string) Badges {
	var got Badges
	// On a busy machine Redis may miss its deadline. Then a count is STALE for a moment.
	Eventually(w.N.TB, ConvergenceTimeout, person+"'s count is exact", func() bool {
		got = w.ReadBadges(t, person)
		if got.HomeFeed.Value != w.unread(person) {
			t.Fatalf("%s: home feed %+v, want %d", person, got.HomeFeed, w.unread(person))
		}
		return got.HomeFeed.Precision == "EXACT"
	})
	if listed := w.N.ReadWholeFeed(person, 3); !slices.Equal(listed, w.feed(person)) {
		t.Fatalf("%s: feed %v, want %v", person, listed, w.feed(person))
	}
	return got
}

// Follow lets a drawn person follow another.
func (w *World) Follow(t *rapid.T) {
	w.FollowOne(t, w.DrawPerson(t, "reader"), w.DrawPerson(t, "author"))
}

// FollowOne lets one person follow another, and fails if the answer differs from the model's.
func (w *World) FollowOne(t *rapid.T, reader, author string) {
	got := w.N.Ask(reader, `mutation($u:ID!){follow(input:{userId:$u}){changed badges{`+BadgeFields+`}}}`, map[string]any{"u": "user:" + author})
	_, already := w.Follows[reader][author]
	want := ""
	if reader == author {
		want = "INVALID"
	}
	if got.ErrorCode() != want {
		t.Fatalf("follow: code %q, want %q", got.ErrorCode(), want)
	}
	if changed := got.Changed(); changed != (want == "" && !already) {
		t.Fatalf("follow: changed %t, followed before %t", changed, already)
	}
	if want == "" && !already {
		w.Follows[reader][author] = len(w.posts)
		delete(w.modes[reader], author) // the mode ended with the former follow
	}
}

// Unfollow lets a drawn person unfollow another.
func (w *World) Unfollow(t *rapid.T) {
	reader, author := w.DrawPerson(t, "reader"), w.DrawPerson(t, "author")
	got := w.N.Ask(reader, `mutation($u:ID!){unfollow(input:{userId:$u}){changed user{id}}}`, map[string]any{"u": "user:" + author})
	_, follows := w.Follows[reader][author]
	if got.ErrorCode() != "" || got.Changed() != follows {
		t.Fatalf("unfollow: code %q, changed %t, want %t", got.ErrorCode(), got.Changed(), follows)
	}
	delete(w.Follows[reader], author)
	if !w.JobsPending { // the actor sees it at once
		if got := w.ReadBadges(t, reader).HomeFeed.Value; got != w.unread(reader) {
			t.Fatalf("after unfollow: %d, want %d", got, w.unread(reader))
		}
	}
}

// MarkSeen marks the feed as seen up to a post, and then reports an older post, as a late device does: seen positions only grow.
func (w *World) MarkSeen(t *rapid.T) {
	reader := w.DrawPerson(t, "reader")
	place, upTo := 0, ""
	if !w.JobsPending && rapid.Bool().Draw(t, "all") {
		if feed := w.feed(reader); len(feed) > 0 {
			place = slices.IndexFunc(w.posts, func(p *worldPost) bool { return p.ID == feed[0] }) + 1
		}
	} else if len(w.posts) > 0 {
		place = rapid.IntRange(1, len(w.posts)).Draw(t, "place")
		upTo = w.posts[place-1].ID
	} else {
		return
	}
	if upTo != "" && w.Unshown != nil && w.Unshown(reader, w.posts[place-1].author, place) {
		if got := w.N.Ask(reader, fmt.Sprintf(`mutation{markHomeFeedSeen(input:{upTo:%q}){badges{version}}}`, upTo), nil); got.ErrorCode() != "NOT_FOUND" {
			t.Fatalf("mark of a post that cannot have been shown: code %q", got.ErrorCode())
		}
		return
	}
	got := w.N.MarkFeedSeen(reader, upTo)
	w.seen[reader] = max(w.seen[reader], place)
	if !w.JobsPending && got.HomeFeed.Value != w.unread(reader) {
		t.Fatalf("mark: %d, want %d", got.HomeFeed.Value, w.unread(reader))
	}
}

// RunSomeJobs runs some of the waiting jobs, so that reads happen between jobs.
func (w *World) RunSomeJobs(t *rapid.T) {
	w.N.Work(rapid.SampledFrom(w.N.Workers).Draw(t, "worker"))
}

// Actions returns the steps of a random history, by name.
func (w *World) Actions() map[string]func(*rapid.T) {
	actions := map[string]func(*rapid.T){
		"publish": w.Publish, "publish again": w.Publish, "delete": w.Delete, "follow": w.Follow, "follow again": w.Follow,
		"unfollow": w.Unfollow, "mode": w.SetFollowMode, "mark": w.MarkSeen, "like": w.Like, "mark notifications": w.markNotificationsSeen,
		"work": w.RunSomeJobs, "compare": w.CompareEveryone, "walk": w.CheckPagedFeed,
		"look": func(t *rapid.T) { w.ReadBadges(t, w.DrawPerson(t, "person")) },
	}
	if w.Flush != nil {
		actions["flush"] = func(*rapid.T) { w.Flush() }
	}
	return actions
}

// CheckPagedFeed reads a feed page by page while the world changes between the pages. It checks that no post is listed twice, and that no
// post is missing that was in the feed at the first page and has been visible since.
func (w *World) CheckPagedFeed(t *rapid.T) {
	w.N.Settle()
	w.JobsPending = false
	reader := w.DrawPerson(t, "reader")
	there, byLastID := w.feed(reader), rapid.Bool().Draw(t, "by last id")
	moves := w.Moves
	if w.Flush != nil {
		moves = append(slices.Clone(moves), func(*rapid.T) { w.Flush() })
	}
	var got []string
	gone := map[string]bool{} // missing in the feed at some moment between the pages
	for after, last := "", ""; ; {
		page := w.N.ReadFeedPage(reader, 2, after, last)
		got = append(got, page.Ids()...)
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
