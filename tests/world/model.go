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
func (w *ReferenceModel) userID(person string) services.UserID {
	ids, err := people.IDs(w.Node.TB.Context(), w.Node.DB, []string{person})
	if err != nil || ids[person] == 0 {
		w.Node.TB.Fatalf("the ID of %s: %v, %v", person, ids, err)
	}
	return ids[person]
}

// QueueExtraJobs queues jobs that have run before, or that no fact caused.
func (w *ReferenceModel) QueueExtraJobs(t *rapid.T) {
	var queued []jobs.NewJob
	if post := w.DrawPost(t); post != nil {
		id, err := services.ParsePostGlobalID("post", post.ID)
		if err != nil {
			t.Fatal(err)
		}
		queued = append(queued, fanout.FanOutJob(id))
		if post.Deleted {
			queued = append(queued, fanout.RemovePostJob(id))
		}
		for liker := range w.firstLikeTimes[post.ID] {
			cause := notifications.Cause{Recipient: w.userID(post.author), Category: services.CategoryLike, Subject: services.SortableID(id), Actor: w.userID(liker)}
			job, err := notifications.NotifyJob(cause)
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
	queued = append(queued, fanout.ProjectSeenJob(reader), notifications.ProjectCountsJob(author))
	queued = rapid.Permutation(queued).Draw(t, "order")
	err := w.Node.DB.Write(w.Node.TB.Context(), func(tx *sql.Tx) error { return jobs.Enqueue(w.Node.TB.Context(), tx, queued...) })
	if err != nil {
		t.Fatal(err)
	}
}

// MarkSeenBeforeFanout publishes a post. For some followers it marks the feed as seen up to the post while the fan-out still waits,
// because another device may have shown the post. Then it reports any post up to that one as seen, as a late device does.
func (w *ReferenceModel) MarkSeenBeforeFanout(t *rapid.T) {
	w.Publish(t)
	newest := w.posts[len(w.posts)-1]
	for _, reader := range w.People {
		if _, follows := w.PostCountAtFollow[reader][newest.author]; !follows || !rapid.Bool().Draw(t, "marks") {
			continue
		}
		w.ReadBadges(t, reader) // so that the person is active and has a document
		w.Node.MarkFeedSeen(reader, newest.ID)
		w.Node.MarkFeedSeen(reader, w.posts[rapid.IntRange(0, len(w.posts)-1).Draw(t, "late")].ID)
		w.seenPostCounts[reader] = len(w.posts)
	}
}

// LoseRedisData makes Redis lose one person's document, or inbox, or both.
func (w *ReferenceModel) LoseRedisData(t *rapid.T, server *redistest.Server) {
	id := w.userID(w.DrawPerson(t, "person"))
	for _, key := range rapid.SampledFrom([][]string{{"b"}, {"i"}, {"b", "i"}}).Draw(t, "keys") {
		server.Do("DEL", fmt.Sprintf("{u%d}:%s", id, key))
	}
}

// ReferenceModel does random acts of a few people on a node, keeps their posts, follows, likes and marks in lists and maps, and computes
// from these what each person must see. Tests compare that with what the node answers.
type ReferenceModel struct {
	Node       *Node
	People     []string // their keys
	FlushRedis func()   // nil if Redis cannot be emptied

	posts                 []*modelPost                     // in the order in which they were published
	PostCountAtFollow     map[string]map[string]int        // reader -> author -> number of posts at the follow
	followModes           map[string]map[string]string     // reader -> author -> mode of the follow; absent: ALL
	seenPostCounts        map[string]int                   // reader -> number of posts up to their seen position
	firstLikeTimes        map[string]map[string]int        // post -> liker -> time of the first like, kept when the like is undone
	currentlyLiked        map[string]map[string]bool       // post -> liker -> whether the like stands, which is false once it is undone
	NotificationsSeenUpTo map[string]int                   // recipient -> the NotifiedLikeCount up to which they have seen their notifications
	MaySee                func(reader, author string) bool // whether a reader who follows the author may see their posts; nil: always
	// HiddenWhenPublished reports whether the author hid from the reader, or blocked them, when the post at position was published;
	// nil: never.
	HiddenWhenPublished func(reader, author string, position int) bool
	CategoryTurnedOff   func(person, category string) bool // whether the person turned off the category of notifications; nil: nobody did
	NotifiedLikeCount   int                                // the number of likes that have notified an author, which serves as the time
	StepsBetweenPages   []func(*rapid.T)                   // steps that may happen between two pages of CheckPagedFeed
	JobsPending         bool                               // jobs may wait, so feeds may be out of date
	lastBadgeVersions   map[string]string                  // reader -> last version of their badges
}

// NewReferenceModel makes a model of four new people on a node. flush empties Redis; nil if the test never does that.
func NewReferenceModel(n *Node, flush func()) *ReferenceModel {
	w := &ReferenceModel{
		Node: n, FlushRedis: flush, PostCountAtFollow: map[string]map[string]int{}, seenPostCounts: map[string]int{}, firstLikeTimes: map[string]map[string]int{},
		followModes: map[string]map[string]string{}, currentlyLiked: map[string]map[string]bool{}, NotificationsSeenUpTo: map[string]int{}, lastBadgeVersions: map[string]string{},
	}
	w.StepsBetweenPages = []func(*rapid.T){w.Publish, w.DeletePost, w.Follow, w.Unfollow, w.RunSomeJobs}
	number := ModelCount.Add(1)
	for i := range 4 {
		person := fmt.Sprintf("w%d-%c", number, 'a'+i)
		w.People = append(w.People, person)
		w.PostCountAtFollow[person], w.followModes[person] = map[string]int{}, map[string]string{}
	}
	n.CreateUsers(w.People...)
	n.Clock.avoidEndOfHalfDay()
	return w
}

// PostCountAtVisibleFollow returns the number of posts at the time of the follow, and whether the reader follows the author and may
// see the posts.
func (w *ReferenceModel) PostCountAtVisibleFollow(reader, author string) (since int, follows bool) {
	since, follows = w.PostCountAtFollow[reader][author]
	return since, follows && (w.MaySee == nil || w.MaySee(reader, author))
}

// expectedFeed returns the IDs of the posts that the reader's feed must list, newest first.
func (w *ReferenceModel) expectedFeed(reader string) []string {
	ids := []string{}
	for _, post := range slices.Backward(w.posts) {
		if _, follows := w.PostCountAtVisibleFollow(reader, post.author); !post.Deleted && (follows || post.author == reader) {
			ids = append(ids, post.ID)
		}
	}
	return ids
}

// expectedNewPosts returns the number of posts of the feed that must count as new.
func (w *ReferenceModel) expectedNewPosts(reader string) (count int) {
	for i, post := range w.posts {
		since, follows := w.PostCountAtVisibleFollow(reader, post.author)
		if follows && !post.Deleted && i >= since && i >= w.seenPostCounts[reader] && w.FollowMode(reader, post.author) == "ALL" {
			count++
		}
	}
	return count
}

// unseenFollowerGroups returns the number of groups of new followers that a person has not seen: one at most, because all follows
// fall into one half day.
func (w *ReferenceModel) unseenFollowerGroups(person string) int {
	for reader, follows := range w.PostCountAtFollow {
		if _, does := follows[person]; does && reader != person {
			return 1
		}
	}
	return 0
}

// expectedBadgeCount returns the number that the badge of a category must show for this number of unseen notifications.
func (w *ReferenceModel) expectedBadgeCount(person, category string, unseen int) int {
	if w.CategoryTurnedOff != nil && w.CategoryTurnedOff(person, category) {
		return 0
	}
	return unseen
}

// DrawPerson draws one of the people.
func (w *ReferenceModel) DrawPerson(t *rapid.T, name string) string {
	return rapid.SampledFrom(w.People).Draw(t, name)
}

// ReadBadges reads a person's badges and tests two rules that hold at any moment: the total and the parts add up, and the version
// never falls.
func (w *ReferenceModel) ReadBadges(t *rapid.T, person string) Badges {
	got := w.Node.Badges(person)
	if got.Version < w.lastBadgeVersions[person] {
		t.Fatalf("%s: version fell from %s to %s", person, w.lastBadgeVersions[person], got.Version)
	}
	w.lastBadgeVersions[person] = got.Version
	return got
}

// CompareFeedsAndBadges compares everyone's badges and feed with the model, once all jobs are done.
func (w *ReferenceModel) CompareFeedsAndBadges(t *rapid.T) {
	w.Node.SettleJobsAndCaches()
	w.JobsPending = false
	for _, person := range w.People {
		got := w.CompareFeed(t, person)
		w.compareFollowModes(t, person)
		if want := w.expectedBadgeCount(person, "LIKE", w.unseenLikedPosts(person)); got.Notifications.Like.Value != want {
			t.Fatalf("%s: likes %+v, want %d", person, got.Notifications.Like, want)
		}
		if want := w.expectedBadgeCount(person, "FOLLOW", w.unseenFollowerGroups(person)); got.Notifications.Follow.Value != want {
			t.Fatalf("%s: followers %+v, want %d", person, got.Notifications.Follow, want)
		}
	}
}

// CompareFeed compares a person's feed, and its number of new posts, with the model.
func (w *ReferenceModel) CompareFeed(t *rapid.T, person string) Badges {
	var got Badges
	// On a busy machine Redis may miss its deadline. Then a count is STALE for a moment.
	Eventually(w.Node.TB, RedisLossRecoveryTimeout, person+"'s count is exact", func() bool {
		got = w.ReadBadges(t, person)
		if got.HomeFeed.Value != w.expectedNewPosts(person) {
			t.Fatalf("%s: home feed %+v, want %d", person, got.HomeFeed, w.expectedNewPosts(person))
		}
		return got.HomeFeed.Precision == "EXACT"
	})
	if listed := w.Node.ReadWholeFeed(person, 3); !slices.Equal(listed, w.expectedFeed(person)) {
		t.Fatalf("%s: feed %v, want %v", person, listed, w.expectedFeed(person))
	}
	return got
}

// Follow lets a drawn person follow another.
func (w *ReferenceModel) Follow(t *rapid.T) {
	w.FollowAuthor(t, w.DrawPerson(t, "reader"), w.DrawPerson(t, "author"))
}

// FollowAuthor lets one person follow another, and fails if the answer differs from the model's.
func (w *ReferenceModel) FollowAuthor(t *rapid.T, reader, author string) {
	got := w.Node.Ask(reader, `mutation($u:ID!){follow(input:{userId:$u}){changed badges{`+BadgeFields+`}}}`, map[string]any{"u": "user:" + author})
	_, already := w.PostCountAtFollow[reader][author]
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
		w.PostCountAtFollow[reader][author] = len(w.posts)
		delete(w.followModes[reader], author) // the mode ended with the former follow
	}
}

// Unfollow lets a drawn person unfollow another.
func (w *ReferenceModel) Unfollow(t *rapid.T) {
	reader, author := w.DrawPerson(t, "reader"), w.DrawPerson(t, "author")
	got := w.Node.Ask(reader, `mutation($u:ID!){unfollow(input:{userId:$u}){changed user{id}}}`, map[string]any{"u": "user:" + author})
	_, follows := w.PostCountAtFollow[reader][author]
	if got.ErrorCode() != "" || got.Changed() != follows {
		t.Fatalf("unfollow: code %q, changed %t, want %t", got.ErrorCode(), got.Changed(), follows)
	}
	delete(w.PostCountAtFollow[reader], author)
	if !w.JobsPending { // the reader sees their own unfollow at once
		if got := w.ReadBadges(t, reader).HomeFeed.Value; got != w.expectedNewPosts(reader) {
			t.Fatalf("after unfollow: %d, want %d", got, w.expectedNewPosts(reader))
		}
	}
}

// MarkFeedSeen marks the feed as seen up to a post, and then reports an older post, as a late device does: seen positions only grow.
func (w *ReferenceModel) MarkFeedSeen(t *rapid.T) {
	reader := w.DrawPerson(t, "reader")
	position, upTo := 0, ""
	if !w.JobsPending && rapid.Bool().Draw(t, "all") {
		if feed := w.expectedFeed(reader); len(feed) > 0 {
			position = slices.IndexFunc(w.posts, func(p *modelPost) bool { return p.ID == feed[0] }) + 1
		}
	} else if len(w.posts) > 0 {
		position = rapid.IntRange(1, len(w.posts)).Draw(t, "position")
		upTo = w.posts[position-1].ID
	} else {
		return
	}
	if upTo != "" && w.HiddenWhenPublished != nil && w.HiddenWhenPublished(reader, w.posts[position-1].author, position) {
		if got := w.Node.Ask(reader, fmt.Sprintf(`mutation{markHomeFeedSeen(input:{upTo:%q}){badges{version}}}`, upTo), nil); got.ErrorCode() != "NOT_FOUND" {
			t.Fatalf("mark of a post that cannot have been shown: code %q", got.ErrorCode())
		}
		return
	}
	got := w.Node.MarkFeedSeen(reader, upTo)
	w.seenPostCounts[reader] = max(w.seenPostCounts[reader], position)
	if !w.JobsPending && got.HomeFeed.Value != w.expectedNewPosts(reader) {
		t.Fatalf("mark: %d, want %d", got.HomeFeed.Value, w.expectedNewPosts(reader))
	}
}

// RunSomeJobs runs some of the waiting jobs, so that reads happen between jobs.
func (w *ReferenceModel) RunSomeJobs(t *rapid.T) {
	w.Node.RunWorkerOnce(rapid.SampledFrom(w.Node.Workers).Draw(t, "worker"))
}

// Actions returns the steps of a random history, by name.
func (w *ReferenceModel) Actions() map[string]func(*rapid.T) {
	actions := map[string]func(*rapid.T){
		"publish": w.Publish, "publish again": w.Publish, "delete": w.DeletePost, "follow": w.Follow, "follow again": w.Follow,
		"unfollow": w.Unfollow, "mode": w.SetFollowMode, "mark": w.MarkFeedSeen, "like": w.Like, "mark notifications": w.markNotificationsSeen,
		"work": w.RunSomeJobs, "compare": w.CompareFeedsAndBadges, "walk": w.CheckPagedFeed,
		"look": func(t *rapid.T) { w.ReadBadges(t, w.DrawPerson(t, "person")) },
	}
	if w.FlushRedis != nil {
		actions["flush"] = func(*rapid.T) { w.FlushRedis() }
	}
	return actions
}

// CheckPagedFeed reads a feed page by page while the world changes between the pages. It checks that no post is listed twice, and
// that no post is missing that was in the feed at the first page and has been visible since.
func (w *ReferenceModel) CheckPagedFeed(t *rapid.T) {
	w.Node.SettleJobsAndCaches()
	w.JobsPending = false
	reader := w.DrawPerson(t, "reader")
	there, byLastID := w.expectedFeed(reader), rapid.Bool().Draw(t, "by last id")
	moves := w.StepsBetweenPages
	if w.FlushRedis != nil {
		moves = append(slices.Clone(moves), func(*rapid.T) { w.FlushRedis() })
	}
	var got []string
	gone := map[string]bool{} // missing in the feed at some moment between the pages
	for after, last := "", ""; ; {
		page := w.Node.ReadFeedPage(reader, 2, after, last)
		got = append(got, page.Ids()...)
		if !page.PageInfo.HasNextPage {
			break
		}
		if after = *page.PageInfo.EndCursor; byLastID {
			after, last = "", *page.LastID
		}
		rapid.SampledFrom(moves).Draw(t, "move")(t)
		now := w.expectedFeed(reader)
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
