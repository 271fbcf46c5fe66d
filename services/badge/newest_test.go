package badge

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidings/services"
	"tidings/services/badge/source"
	"tidings/services/fanout/fanouttest"
	"tidings/services/positions"
	"tidings/services/posts"
	"tidings/tests/histories"
)

// newestPost is the ID of the home feed's item that ExplainNewest returns, "" without one.
func (n node) newestPost(user services.UserID) (id string) {
	n.TB.Helper()
	badges, errs := n.Peek(n.TB.Context(), []services.UserID{user})
	n.Must(errs[0])
	found, err := n.ExplainNewest(n.TB.Context(), user, badges[0], []services.Source{services.SourceHomeFeed}, time.Time{})
	n.Must(err)
	if len(found) > 0 {
		return found[0].Items[0].ID
	}
	return ""
}

// newestPostInFacts is the newest post that counts, by SQL alone.
func (n node) newestPostInFacts(user services.UserID) string {
	n.TB.Helper()
	seen, err := positions.Of[services.PostID](n.TB.Context(), n.DB, user, positions.HomeFeedView)
	n.Must(err)
	entries, err := posts.UnreadFeed(n.TB.Context(), n.DB, user, seen, 1)
	n.Must(err)
	if len(entries) == 0 {
		return ""
	}
	return services.GlobalID(services.PostType, entries[0].Post.String())
}

func (n node) publishOwnPosts(user services.UserID, count int) {
	n.TB.Helper()
	for range count {
		n.Post(user)
	}
}

// Whatever happened to a feed, its newest post is the same in the projection and in the facts.
func TestTheNewestPostIsThatOfTheFacts(t *testing.T) {
	n := redisServerNode(t)
	histories.ReduceRapidChecks(t, 4)
	rapid.Check(t, func(t *rapid.T) {
		reader, huge, small := n.MakeReader()
		n.read(reader)
		follows := map[services.UserID]bool{huge: true, small: true}
		var published []services.PostID
		for range rapid.IntRange(3, 15).Draw(t, "steps") {
			author := rapid.SampledFrom([]services.UserID{huge, small}).Draw(t, "author")
			switch step := rapid.SampledFrom([]string{"post", "post", "own", "own posts", "delete", "seen", "mode", "unfollow", "follow", "flush", "later"}).Draw(t, "step"); step {
			case "post":
				published = append(published, n.Post(author))
			case "own":
				n.Post(reader)
			case "own posts":
				n.publishOwnPosts(reader, maxEntriesSearched)
			case "delete":
				if len(published) > 0 {
					i := rapid.IntRange(0, len(published)-1).Draw(t, "post")
					n.World.Delete(published[i])
					published = slices.Delete(published, i, i+1)
				}
			case "seen":
				if len(published) > 0 {
					n.markFeedSeen(reader, rapid.SampledFrom(published).Draw(t, "up to"))
				}
			case "mode":
				if follows[author] {
					n.SetFollowMode(author, reader, services.FollowMode(rapid.IntRange(0, 2).Draw(t, "mode")))
				}
			case "unfollow":
				n.Unfollow(author, reader)
				follows[author] = false
			case "follow":
				if !follows[author] {
					n.Follow(author, reader)
				}
				follows[author] = true
			case "flush":
				n.RedisServer.Do("FLUSHALL")
				if rapid.Bool().Draw(t, "and a read") {
					n.read(reader)
				}
			case "later":
				n.Clock.Advance(time.Second)
			}
			n.RunJobsAndReadLog()
			if got, want := n.newestPost(reader), n.newestPostInFacts(reader); got != want {
				t.Fatalf("the newest post is %q, and by the facts %q", got, want)
			}
		}
	})
}

// feedWithoutFacts is the home feed's source whose Explain fails: its newest item must be found without the facts.
type feedWithoutFacts struct{ homeFeed }

// errFactsRead is what Explain of feedWithoutFacts returns.
var errFactsRead = errors.New("the facts are read")

func (feedWithoutFacts) Explain(context.Context, source.ExplainRequest) ([]services.Explanation, error) {
	return nil, errFactsRead
}

// The newest post of an active user comes from the projection alone. The facts are read if the projection cannot tell.
func TestTheNewestPostCostsNoReadOfTheFacts(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		n := newNode(w)
		reader, huge, small := n.MakeReader()
		n.read(reader)
		at := slices.IndexFunc(n.sources, func(source Source) bool { return source.Key() == services.SourceHomeFeed })
		n.sources[at] = feedWithoutFacts{n.sources[at].(homeFeed)}
		badges := &services.Badges{HomeFeed: source.ExactCount(1)}
		newest := func(what string, want services.PostID) {
			t.Helper()
			n.RunJobsAndReadLog()
			found, err := n.ExplainNewest(t.Context(), reader, badges, []services.Source{services.SourceHomeFeed}, time.Time{})
			if want == 0 {
				if !errors.Is(err, errFactsRead) {
					t.Errorf("%s: the facts are not read: %+v, %v", what, found, err)
				}
				return
			}
			if err != nil || len(found) != 1 || found[0].Items[0].ID != services.GlobalID(services.PostType, want.String()) || found[0].Count != badges.HomeFeed {
				t.Errorf("%s: %+v, %v, want the post %s", what, found, err, want)
			}
		}
		newest("nothing was published", 0)
		pushed := n.Post(small)
		newest("a pushed post", pushed)
		n.publishOwnPosts(reader, maxEntriesSearched-1)
		newest("below own posts", pushed)
		pulled := n.Post(huge)
		newest("a pulled post", pulled)
		n.markFeedSeen(reader, pulled)
		newest("everything was seen", 0)
		n.Post(huge)
		pushed = n.Post(small)
		newest("a pushed post after the feed was seen", pushed)
		n.publishOwnPosts(reader, maxEntriesSearched)
		newest("far below own posts", 0)
		pushed = n.Post(small)
		n.Must(n.Redis.ResetUserData(t.Context(), reader))
		newest("without an inbox", 0)
		n.read(reader)
		newest("after a rebuild", pushed)
	})
}
