package model

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidings/services/projector"
	"tidings/services/redis/redistest"
	"tidings/services/sql/sqltest"
	"tidings/tests/histories"
	"tidings/tests/world"
)

// homeFeedModel is the ReferenceModel of home feeds, extended by authors whose modes change, and by people who block, mute and hide.
type homeFeedModel struct {
	*world.ReferenceModel
	muteEnds             map[relation]time.Time // muter and muted -> end of the mute; the zero time means never
	postCountAtHide      map[relation]int       // the hiding user and the user they hide from -> number of posts at the hide
	postCountAtBlock     map[relation]int       // blocker and blocked -> number of posts at the block
	deleteRandomRedisKey func()                 // deletes one key from Redis; nil if that is not possible
}

// relation is a pair of users by their keys: the one who acts, such as a follower or muter, and the one that the act concerns.
type relation struct{ who, whom string }

// newHomeFeedModel makes a model with new people on a node. flush empties Redis, and lose deletes a random key of Redis; they are nil if
// that is not possible.
func newHomeFeedModel(n *world.Node, flush, lose func()) *homeFeedModel {
	h := &homeFeedModel{ReferenceModel: world.NewReferenceModel(n, flush), muteEnds: map[relation]time.Time{}, postCountAtHide: map[relation]int{}, postCountAtBlock: map[relation]int{}, deleteRandomRedisKey: lose}
	for _, person := range h.People { // a mode can be pinned only for users who exist
		n.MustAsk(person, `mutation{setProfile(input:{name:"somebody"}){user{id}}}`, nil, nil)
	}
	h.MaySee = func(reader, author string) bool {
		_, muted := h.muteEnds[relation{reader, author}]
		_, hides := h.postCountAtHide[relation{author, reader}]
		return !muted && !hides
	}
	h.HiddenWhenPublished = func(reader, author string, position int) bool {
		for _, relations := range []map[relation]int{h.postCountAtHide, h.postCountAtBlock} {
			if posts, there := relations[relation{author, reader}]; there && posts < position {
				return true
			}
		}
		return false
	}
	h.StepsBetweenPages = []func(*rapid.T){h.Publish, h.publishSeveral, h.DeletePost, h.follow, h.Unfollow, h.RunSomeJobs, h.pinMode, h.mute, h.unmute, h.hide, h.block, h.runCleaner, h.SetFollowMode}
	return h
}

// drawPair draws two different people.
func (h *homeFeedModel) drawPair(t *rapid.T) relation {
	i, j := rapid.IntRange(0, len(h.People)-1).Draw(t, "who"), rapid.IntRange(0, len(h.People)-2).Draw(t, "whom")
	if j >= i {
		j++
	}
	return relation{h.People[i], h.People[j]}
}

// mutateRelation sends the mutation verb, such as mute, as p.who on p.whom, with more arguments. It fails unless the mutation succeeds
// and reports changed as expected.
func (h *homeFeedModel) mutateRelation(t *rapid.T, verb string, p relation, more string, changes bool) {
	got := h.Node.Ask(p.who, fmt.Sprintf(`mutation{r:%s(input:{userId:"user:%s"%s}){changed badges{version}}}`, verb, p.whom, more), nil)
	if changed := got.Changed(); got.ErrorCode() != "" || changed != changes {
		t.Fatalf("%s %v: code %q, changed %t, want %t", verb, p, got.ErrorCode(), changed, changes)
	}
}

// mute mutes a person forever or for a time. The person may already be muted.
func (h *homeFeedModel) mute(t *rapid.T) {
	h.runDueJobs(t)
	p, more, until := h.drawPair(t), "", time.Time{}
	if rapid.Bool().Draw(t, "for a while") {
		until = h.Node.Clock.Now().Add(time.Minute)
		more = fmt.Sprintf(`,until:%q`, until.UTC().Format(time.RFC3339Nano))
	}
	had, muted := h.muteEnds[p]
	h.mutateRelation(t, "mute", p, more, !muted || !had.Equal(until))
	h.muteEnds[p] = until
}

func (h *homeFeedModel) unmute(t *rapid.T) {
	h.runDueJobs(t)
	p := h.drawPair(t)
	_, muted := h.muteEnds[p]
	h.mutateRelation(t, "unmute", p, "", muted)
	delete(h.muteEnds, p)
}

// runDueJobs runs the due jobs, including the jobs of expired mutes: a mute holds until its job has run.
func (h *homeFeedModel) runDueJobs(*rapid.T) {
	h.Node.SettleJobsAndCaches()
	h.JobsPending = false
	for p, until := range h.muteEnds {
		if !until.IsZero() && !until.After(h.Node.Clock.Now()) {
			delete(h.muteEnds, p)
		}
	}
}

// hide lets a person hide their posts from another, or ends the hide.
func (h *homeFeedModel) hide(t *rapid.T) {
	p := h.drawPair(t)
	h.JobsPending = true // the job changes the other person's feed
	if _, hides := h.postCountAtHide[p]; hides {
		h.mutateRelation(t, "unhideFrom", p, "", true)
		delete(h.postCountAtHide, p)
		return
	}
	h.mutateRelation(t, "hideFrom", p, "", true)
	h.postCountAtHide[p] = h.CountPublished()
}

// block lets a person block another, which also ends both follows.
func (h *homeFeedModel) block(t *rapid.T) {
	p := h.drawPair(t)
	_, blocked := h.postCountAtBlock[p]
	h.mutateRelation(t, "block", p, "", !blocked)
	if !blocked {
		h.postCountAtBlock[p] = h.CountPublished()
	}
	delete(h.PostCountAtFollow[p.who], p.whom)
	delete(h.PostCountAtFollow[p.whom], p.who)
	h.JobsPending = true // a job changes the other person's feed
}

func (h *homeFeedModel) unblock(t *rapid.T) {
	p := h.drawPair(t)
	_, blocked := h.postCountAtBlock[p]
	h.mutateRelation(t, "unblock", p, "", blocked)
	delete(h.postCountAtBlock, p)
}

// follow lets a drawn person follow another. The server must refuse the follow while either person blocks the other. If the other person
// blocks, the answer is the same as for a user who does not exist.
func (h *homeFeedModel) follow(t *rapid.T) {
	p := h.drawPair(t)
	_, blocks := h.postCountAtBlock[p]
	_, blocked := h.postCountAtBlock[relation{p.whom, p.who}]
	if !blocks && !blocked {
		h.FollowAuthor(t, p.who, p.whom)
		return
	}
	want := "NOT_FOUND" // a block by the other person is not disclosed
	if blocks {
		want = "FORBIDDEN"
	}
	if got := h.Node.Ask(p.who, fmt.Sprintf(`mutation{follow(input:{userId:"user:%s"}){badges{version}}}`, p.whom), nil); got.ErrorCode() != want {
		t.Fatalf("follow %v with a block between the two: code %q, want %s", p, got.ErrorCode(), want)
	}
}

// pinMode changes the mode of an author's future posts.
func (h *homeFeedModel) pinMode(t *rapid.T) {
	person := h.DrawPerson(t, "author")
	mode := rapid.SampledFrom([]string{"SMALL", "BIG", "HUGE", "HUGE", "null"}).Draw(t, "mode")
	h.Node.MustAsk("operator:admin", fmt.Sprintf(`mutation{pinAuthorMode(input:{userId:"user:%s",mode:%s}){author{mode}}}`, person, mode), nil, nil)
	if rapid.Bool().Draw(t, "at once") {
		h.runDueJobs(t)
	}
}

// runCleaner runs the cleaner over all keys, which must change nothing visible.
func (h *homeFeedModel) runCleaner(t *rapid.T) {
	cleaner := projector.NewCleaner(h.Node.Projector, time.Hour)
	if err := cleaner.AskForRun(h.Node.TB.Context()); err != nil {
		t.Fatal(err)
	}
	for took := true; took; {
		var err error
		if took, err = cleaner.RunOnce(h.Node.TB.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// leaveFanOutInFlight publishes a post and leaves its fan-out in flight: some of the chunks of the author's followers are done and
// some wait. Every follower must still see the post on the first page, and afterwards in the count.
func (h *homeFeedModel) leaveFanOutInFlight(t *rapid.T) {
	h.runDueJobs(t)
	countFollowers := func(author string) (count int) {
		for _, person := range h.People {
			if _, follows := h.PostCountAtVisibleFollow(person, author); follows {
				count++
			}
		}
		return count
	}
	h.PublishAs(slices.MaxFunc(h.People, func(a, b string) int { return cmp.Compare(countFollowers(a), countFollowers(b)) }))
	quick, bulk := h.Node.Workers[0], h.Node.Workers[1]
	h.Node.RunWorkerOnce(quick)
	for range rapid.IntRange(0, 2).Draw(t, "chunks") {
		h.Node.RunWorkerOnce(bulk)
	}
	h.Node.TailChangelog()
	for _, person := range h.People {
		h.Node.ReadFeedPage(person, 1, "", "")
		h.CompareFeed(t, person)
	}
}

// publishSeveral publishes several posts of drawn authors at once.
func (h *homeFeedModel) publishSeveral(t *rapid.T) {
	for range rapid.IntRange(2, 5).Draw(t, "posts") {
		h.Publish(t)
	}
}

// compareAll runs the due jobs and compares everybody's feed with the model.
func (h *homeFeedModel) compareAll(t *rapid.T) {
	h.runDueJobs(t)
	for _, person := range h.People {
		h.CompareFeed(t, person)
	}
}

// actions returns the random actions of a history, by name. "again" only makes an action more frequent.
func (h *homeFeedModel) actions() map[string]func(*rapid.T) {
	actions := map[string]func(*rapid.T){"compare": h.compareAll}
	for name, action := range map[string]func(*rapid.T){
		"publish": h.Publish, "publish several": h.publishSeveral, "delete": h.DeletePost, "follow": h.follow, "follow again": h.follow, "follow once more": h.follow,
		"unfollow": h.Unfollow, "mode": h.SetFollowMode, "mark": h.MarkFeedSeen, "mute": h.mute, "unmute": h.unmute, "hide": h.hide, "block": h.block, "unblock": h.unblock,
		"flip": h.pinMode, "work": h.RunSomeJobs, "clean": h.runCleaner, "half": h.leaveFanOutInFlight,
		"walk": func(t *rapid.T) { h.runDueJobs(t); h.CheckPagedFeed(t) },
		"look": func(t *rapid.T) { h.ReadBadges(t, h.DrawPerson(t, "person")) },
	} {
		actions[name] = action
	}
	if h.FlushRedis != nil {
		actions["flush"] = func(*rapid.T) { h.FlushRedis() }
	}
	if h.deleteRandomRedisKey != nil {
		actions["lose a key"] = func(*rapid.T) { h.deleteRandomRedisKey() }
	}
	return actions
}

// Home feeds, and their counts of new posts, equal the model after random histories of people who follow, mute, block and hide, while
// authors become small, big and huge.
func TestHomeFeedsEqualTheModel(t *testing.T) {
	check := func(t *testing.T, n *world.Node, flush, lose func()) {
		histories.ReduceRapidChecks(t, 3)
		n.Fanout.ChunkSize = 1 // the fan-out of a post is one job for each follower
		rapid.Check(t, func(t *rapid.T) {
			h := newHomeFeedModel(n, flush, lose)
			t.Repeat(h.actions())
			h.compareAll(t)
		})
	}
	t.Run("sqlite-redis", func(t *testing.T) {
		server := redistest.NewServer(t)
		n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: server.URL(), ManualStepping: true})
		check(t, n, func() { server.Flush() }, func() {
			if key, found := server.Do("RANDOMKEY").(string); found {
				server.Do("DEL", key)
			}
		})
	})
	t.Run("postgres-embedded", func(t *testing.T) {
		check(t, world.StartNode(t, world.NodeOptions{Database: sqltest.Postgres(t), Redis: "embedded", ManualStepping: true}), nil, nil)
	})
}
