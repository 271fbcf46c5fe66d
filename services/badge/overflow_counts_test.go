package badge

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/badge/source"
	"tidings/services/fanout"
	"tidings/services/fanout/fanouttest"
	"tidings/services/jobs"
	"tidings/services/people"
	"tidings/services/redis"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// wantFeedCountEverywhere checks the count of a home feed on this node and on another one, and that its explanation and the facts agree.
// It returns the badges.
func (n node) wantFeedCountEverywhere(user services.UserID, want int, precision services.Precision) *services.Badges {
	n.TB.Helper()
	badges := n.wantFeedCount(user, want, precision)
	if items := n.explainedItems(user)["HOME_FEED"]; len(items) != want {
		n.TB.Errorf("%d items explain a number of %d", len(items), want)
	}
	facts, err := n.ReadFacts(n.TB.Context(), user)
	n.Must(err)
	if facts.HomeFeed.Value != want {
		n.TB.Errorf("the facts say %d, want %d", facts.HomeFeed.Value, want)
	}
	other := newNode(n.AnotherNode())
	other.settings.Caps = n.settings.Caps
	other.wantFeedCount(user, want, precision)
	return badges
}

// For a user who posts much, every new post of others is counted, although the user's own posts fill the inbox. The count beyond
// the inbox stays right after deletions, late arrivals, seen marks and unfollows, and each change has a newer version.
func TestOwnPostsDoNotDisplaceOthersInTheCount(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		n := newNode(w)
		author, reader := n.newLikedAuthor(0)
		other := n.MakeNeverSeenUsers(1)[0]
		n.Follow(other, reader)
		n.RunAllJobs(n.World.Fanout)
		ids := append(n.InsertPosts(author, 40), n.InsertPosts(other, 3)...)
		late := services.PostID(n.IDs.Next())
		n.InsertPosts(reader, services.FeedRetention+40)
		n.Must(n.World.Projector.RefillInbox(t.Context(), reader))
		n.RunAllJobs(n.World.Fanout)
		before := n.wantFeedCountEverywhere(reader, 43, services.Exact).Version
		for _, step := range []struct {
			what string
			do   func()
			want int
		}{
			{"a deletion beyond the list", func() { n.Delete(ids[5]) }, 42},
			{"a post that is counted, and deleted before its fan-out", func() {
				post := n.Post(author)
				n.wantFeedCount(reader, 43, services.Exact)
				n.Delete(post)
			}, 42},
			{"a new post", func() { n.Post(author) }, 43},
			{"a post that arrives late, beyond the list", func() { n.PublishPostWithID(author, late) }, 44},
			{"a mark beyond the list", func() { n.markFeedSeen(reader, ids[10]) }, 34},
			{"an unfollow", func() { n.Unfollow(other, reader) }, 31},
			{"a mark of everything", func() { n.markFeedSeen(reader, services.PostID(services.SortableIDAt(n.Clock.Now().Add(time.Hour)))) }, 0},
		} {
			t.Log(step.what)
			step.do()
			n.RunAllJobs(n.World.Fanout)
			now := n.wantFeedCountEverywhere(reader, step.want, services.Exact).Version
			if now <= before {
				t.Errorf("%s: version %s after %s", step.what, now, before)
			}
			before = now
		}
	})
}

// SQL counts a post as soon as it is published. If the post leaves the count before it is pushed, by its deletion or an unfollow, the
// inbox stays as it is, and the count beyond the inbox falls all the same, with a newer version.
func TestAPostThatWasNeverPushedLeavesTheCount(t *testing.T) {
	ownPosts := func(n node) (reader, author services.UserID, count int) {
		author, reader = n.newLikedAuthor(0)
		n.InsertPosts(author, 43)
		n.InsertPosts(reader, services.FeedRetention+40)
		return reader, author, 43
	}
	pulledPosts := func(n node) (reader, author services.UserID, count int) {
		reader, huge, small := n.MakeReader()
		n.InsertPosts(huge, services.FeedRetention+200)
		return reader, small, services.FeedRetention + 200
	}
	remove := func(n node, _, _ services.UserID, post services.PostID) { n.Delete(post) }
	unfollow := func(n node, reader, author services.UserID, _ services.PostID) { n.Unfollow(author, reader) }
	for name, test := range map[string]struct {
		begin func(n node) (reader, author services.UserID, count int)           // makes a reader with count new posts, and one of the authors
		leave func(n node, reader, author services.UserID, post services.PostID) // takes the post out of the count
	}{
		"a deletion beside an inbox full of own posts": {ownPosts, remove},
		"a deletion beside many pulled posts":          {pulledPosts, remove},
		"an unfollow beside many pulled posts":         {pulledPosts, unfollow},
	} {
		t.Run(name, func(t *testing.T) {
			n := redisServerNode(t)
			n.Service = n.newServiceWith(func(cfg *Config) { cfg.Caps = source.DisplayCaps{services.SourceHomeFeed: 999} })
			reader, author, count := test.begin(n)
			n.Must(n.World.Projector.RefillInbox(t.Context(), reader))
			n.RunJobsAndReadLog()
			n.wantFeedCountEverywhere(reader, count, services.Exact)
			post := n.Post(author)
			// The post's own job has not run. RaiseDocumentsAbove stands for another change, which raises the version: the count
			// now has the post.
			n.Must(n.RaiseDocumentsAbove(t.Context(), []services.UserID{reader}, []uint64{n.Document(reader).Version}))
			before := n.wantFeedCount(reader, count+1, services.Exact).Version
			test.leave(n, reader, author, post)
			n.RunJobsAndReadLog()
			if now := n.wantFeedCountEverywhere(reader, count, services.Exact).Version; now <= before {
				t.Errorf("version %s after %s", now, before)
			}
		})
	}
}

// An author hides their posts from a follower and shows them again before the job of the first change has run. When the job runs, all
// posts are still in the inbox, so it finds nothing to change. A node that counted in between, without the author, counts again.
func TestPostsOfABrieflyHiddenAuthorAreCountedAgain(t *testing.T) {
	n := redisServerNode(t)
	n.Service = n.newServiceWith(func(cfg *Config) { cfg.Caps = source.DisplayCaps{services.SourceHomeFeed: 999} })
	reader, huge, small := n.MakeReader()
	n.InsertPosts(huge, services.FeedRetention+200)
	n.Must(n.World.Projector.RefillInbox(t.Context(), reader))
	n.Post(small)
	n.RunJobsAndReadLog()
	n.wantFeedCountEverywhere(reader, services.FeedRetention+201, services.Exact)
	hide := services.Restriction{Kind: services.Hide, Owner: small, Other: reader}
	n.Write(func(ctx context.Context, tx *sql.Tx) error {
		_, err := people.Restrict(ctx, tx, hide)
		return errors.Join(err, jobs.Enqueue(ctx, tx, fanout.FollowJob(reader, small)))
	})
	// RaiseDocumentsAbove stands for another change, which raises the version.
	n.Must(n.RaiseDocumentsAbove(t.Context(), []services.UserID{reader}, []uint64{n.Document(reader).Version}))
	before := n.wantFeedCount(reader, services.FeedRetention+200, services.Exact).Version
	n.Write(func(ctx context.Context, tx *sql.Tx) error {
		_, err := people.Unrestrict(ctx, tx, hide)
		return errors.Join(err, jobs.Enqueue(ctx, tx, fanout.FollowJob(reader, small)))
	})
	n.RunJobsAndReadLog()
	if now := n.wantFeedCountEverywhere(reader, services.FeedRetention+201, services.Exact).Version; now <= before {
		t.Errorf("version %s after %s", now, before)
	}
}

// A late post is older than all that the inbox holds. SQL counts it, before its push and afterwards. If a mute or a mode takes it out
// of the count, the count falls with a newer version, although the inbox does not have the post. When the mute or mode ends, the post
// counts again.
func TestALatePostBelowTheInboxLeavesTheCount(t *testing.T) {
	mode := func(mode services.FollowMode) func(node, services.UserID, services.UserID) {
		return func(n node, reader, author services.UserID) { n.SetFollowMode(author, reader, mode) }
	}
	for name, test := range map[string]struct {
		leave, back func(n node, reader, author services.UserID) // takes the author's posts out of the count, or back into it
	}{
		"a mute": {node.mute, node.unmute},
		"a mode": {mode(services.FollowNone), mode(services.FollowAll)},
	} {
		for _, pushed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, pushed %t", name, pushed), func(t *testing.T) {
				n := redisServerNode(t)
				n.Service = n.newServiceWith(func(cfg *Config) { cfg.Caps = source.DisplayCaps{services.SourceHomeFeed: 999} })
				author, reader := n.newLikedAuthor(0)
				other := n.MakeUsers(1)[0]
				n.Follow(other, reader)
				n.RunJobsAndReadLog()
				late := services.PostID(n.IDs.Next())
				// The reader's own posts are trimmed, and nothing below the inbox counts.
				const count = services.FeedRetention + 5
				n.InsertPosts(reader, 100)
				n.InsertPosts(author, count)
				n.Must(n.World.Projector.RefillInbox(t.Context(), reader))
				n.RunJobsAndReadLog()
				n.wantFeedCountEverywhere(reader, count, services.Exact)
				n.PublishPostWithID(other, late)
				if pushed {
					n.RunJobsAndReadLog()
				}
				n.Must(n.RaiseDocumentsAbove(t.Context(), []services.UserID{reader}, []uint64{n.Document(reader).Version}))
				before := n.wantFeedCount(reader, count+1, services.Exact).Version
				for _, step := range []struct {
					do   func(n node, reader, author services.UserID)
					want int
				}{{test.leave, count}, {test.back, count + 1}} {
					step.do(n, reader, other)
					n.RunJobsAndReadLog()
					now := n.wantFeedCountEverywhere(reader, step.want, services.Exact).Version
					if now <= before {
						t.Errorf("version %s after %s", now, before)
					}
					before = now
				}
			})
		}
	}
}

// changeMute runs a change of a mute, with its job.
func (n node) changeMute(reader, author services.UserID, change func(ctx context.Context, tx *sql.Tx, mute services.Restriction) error) {
	n.TB.Helper()
	n.Write(func(ctx context.Context, tx *sql.Tx) error {
		err := people.LockRestrictions(ctx, tx, reader, author)
		if err == nil {
			err = change(ctx, tx, services.Restriction{Kind: services.Mute, Owner: reader, Other: author, MadeAt: n.IDs.Next()})
		}
		if err != nil {
			return err
		}
		return jobs.Enqueue(ctx, tx, fanout.FollowJob(reader, author))
	})
}

func (n node) mute(reader, author services.UserID) {
	n.changeMute(reader, author, func(ctx context.Context, tx *sql.Tx, mute services.Restriction) error {
		_, err := people.Restrict(ctx, tx, mute)
		return err
	})
}

func (n node) unmute(reader, author services.UserID) {
	n.changeMute(reader, author, func(ctx context.Context, tx *sql.Tx, mute services.Restriction) error {
		_, err := people.Unrestrict(ctx, tx, mute)
		return err
	})
}

// For a user who follows a single author with 300 or more new posts, the explanation has as many items as the count, although
// the user's own posts are among the newest 300.
func TestTheExplanationHasAsManyItemsAsTheCount(t *testing.T) {
	n := redisServerNode(t)
	author, reader := n.newLikedAuthor(0)
	n.InsertPosts(author, 150)
	n.InsertPosts(reader, 18)
	n.InsertPosts(author, 250)
	n.Must(n.World.Projector.RefillInbox(t.Context(), reader))
	n.RunAllJobs(n.World.Fanout)
	n.wantFeedCountEverywhere(reader, services.FeedRetention, services.AtLeast)
}

// If the cap is above 300, counting goes on beyond 300.
func TestCountingGoesOnToTheCap(t *testing.T) {
	n := redisServerNode(t)
	author, reader := n.newLikedAuthor(0)
	n.InsertPosts(author, 500)
	n.Must(n.World.Projector.RefillInbox(t.Context(), reader))
	for limit, want := range map[int]struct {
		value     int
		precision services.Precision
		display   string
	}{
		99:  {300, services.AtLeast, "99+"},
		299: {300, services.AtLeast, "299+"},
		450: {451, services.AtLeast, "450+"},
		999: {500, services.Exact, "500"},
	} {
		n.Service = n.newServiceWith(func(cfg *Config) {
			cfg.Caps = source.DisplayCaps{services.SourceHomeFeed: limit}
		})
		if got := n.wantFeedCountEverywhere(reader, want.value, want.precision).HomeFeed; got.Display != want.display {
			t.Errorf("with a cap of %d %q is shown, want %q", limit, got.Display, want.display)
		}
	}
}

// New posts beyond the inbox are counted in SQL once for each version of the document. Another read is one round trip and no statement.
func TestTheCountBeyondTheListIsCached(t *testing.T) {
	var statements atomic.Int64
	n := newNode(fanouttest.New(t, fanouttest.Options{SQLURL: sqltest.SQLite(t), Trace: func(string) { statements.Add(1) }}))
	author, reader := n.newLikedAuthor(0)
	n.InsertPosts(author, 43)
	n.InsertPosts(reader, services.FeedRetention+40)
	n.Must(n.World.Projector.RefillInbox(t.Context(), reader))
	n.RunAllJobs(n.World.Fanout)
	n.wantFeedCount(reader, 43, services.Exact)
	before := statements.Load()
	ctx, trips := redis.WithRoundTrips(t.Context())
	badges, err := n.Read(ctx, reader)
	if err != nil || badges.HomeFeed.Value != 43 || trips.Count() != 1 || statements.Load() != before {
		t.Errorf("%+v, %v, after %d round trips and %d statements", badges.HomeFeed, err, trips.Count(), statements.Load()-before)
	}
	n.Must(n.DB.Close())
	n.wantFeedCount(reader, 43, services.Exact)
	if got := n.restarted().read(reader).HomeFeed; got.Precision != services.AtLeast || got.Value > 43 {
		t.Errorf("without SQL, on a node that has not counted: %+v", got)
	}
}

// The user's own posts do not displace others' posts from the digest either.
func TestOwnPostsDoNotDisplaceOthersInTheDigest(t *testing.T) {
	n := redisServerNode(t)
	author, reader := n.newLikedAuthor(0)
	since := n.Clock.Now().Add(-time.Second)
	n.InsertPosts(author, 43)
	n.InsertPosts(reader, services.FeedRetention+40)
	n.markFeedSeen(reader, services.PostID(services.SortableIDAt(n.Clock.Now().Add(time.Hour))))
	digest, err := n.Digest(t.Context(), reader, since)
	n.Must(err)
	for _, part := range digest.Parts {
		if part.Source == services.SourceHomeFeed && (part.Count.Value != 43 || len(digest.Authors) != 1) {
			t.Errorf("the digest has %+v of %v", part.Count, digest.Authors)
		}
	}
	if len(digest.Parts) == 0 || !strings.HasPrefix(string(digest.Parts[0].Source), "HOME") {
		t.Errorf("the digest has %+v", digest.Parts)
	}
}

// The new posts beyond several readers' inboxes are counted by one statement, and each reader has their own count.
func TestPostsBeyondInboxesAreCountedInOneStatement(t *testing.T) {
	statements := &statementCounter{runsByName: map[string]int{}}
	n := newNode(fanouttest.New(t, fanouttest.Options{SQLURL: sqltest.SQLite(t), Trace: statements.countRun}))
	author, readers := n.MakeUsers(1)[0], n.MakeUsers(3)
	for _, reader := range readers {
		n.Follow(author, reader) // posts count from the follow on
		n.RunJobsAndReadLog()
		n.InsertPosts(author, 10)
	}
	for _, reader := range readers {
		n.InsertPosts(reader, services.FeedRetention+40)
		n.Must(n.World.Projector.RefillInbox(t.Context(), reader))
	}
	n.RunJobsAndReadLog()
	statements.takeCounts()
	badges, errs := n.ReadAndFollow(t.Context(), readers)
	for i, want := range []int{30, 20, 10} {
		n.Must(errs[i])
		if got := badges[i].HomeFeed; got.Value != want || got.Precision != services.Exact {
			t.Errorf("reader %d: %+v, want %d", i, got, want)
		}
	}
	if ran := statements.takeCounts(); len(ran) != 1 || ran["count new posts"] != 1 {
		t.Errorf("for three readers ran %v", ran)
	}
}
