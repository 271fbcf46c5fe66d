package model

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidings/services/fanout"
	"tidings/services/redis/redistest"
	"tidings/services/sql/sqltest"
	"tidings/tests/histories"
	"tidings/tests/world"
)

// home is the model of the whole home feed: authors whose modes change, and people who block, mute and hide.
type home struct {
	*world.World
	mutes  map[relation]time.Time // muter and muted -> end of the mute; the zero time means never
	hides  map[relation]int       // the hiding user and the user they hide from -> number of posts at the hide
	blocks map[relation]int       // blocker and blocked -> number of posts at the block
	lose   func()                 // deletes one key from Redis; nil if that is not possible
}

// relation is two people: the one who acts, and the one whom it concerns.
type relation struct{ who, whom string }

func newHome(n *world.Node, flush, lose func()) *home {
	h := &home{World: world.NewWorld(n, flush), mutes: map[relation]time.Time{}, hides: map[relation]int{}, blocks: map[relation]int{}, lose: lose}
	for _, person := range h.People { // admins can only pin users who were named before
		n.Must(person, `mutation{setProfile(input:{name:"somebody"}){user{id}}}`, nil, nil)
	}
	h.MaySee = func(reader, author string) bool {
		_, muted := h.mutes[relation{reader, author}]
		_, hides := h.hides[relation{author, reader}]
		return !muted && !hides
	}
	h.Unshown = func(reader, author string, place int) bool {
		for _, relations := range []map[relation]int{h.hides, h.blocks} {
			if posts, there := relations[relation{author, reader}]; there && posts < place {
				return true
			}
		}
		return false
	}
	h.Moves = []func(*rapid.T){h.Publish, h.publishSeveral, h.Delete, h.follow, h.Unfollow, h.RunSomeJobs, h.pinMode, h.mute, h.unmute, h.hide, h.block, h.runCleaner, h.SetFollowMode}
	return h
}

// drawPair draws two different people.
func (h *home) drawPair(t *rapid.T) relation {
	i, j := rapid.IntRange(0, len(h.People)-1).Draw(t, "who"), rapid.IntRange(0, len(h.People)-2).Draw(t, "whom")
	if j >= i {
		j++
	}
	return relation{h.People[i], h.People[j]}
}

// act sends a mutation on another person, and fails unless it succeeds and reports the expected value of changed.
func (h *home) act(t *rapid.T, verb string, p relation, more string, changes bool) {
	got := h.N.Ask(p.who, fmt.Sprintf(`mutation{r:%s(input:{userId:"user:%s"%s}){changed badges{version}}}`, verb, p.whom, more), nil)
	if changed := got.Changed(); got.ErrorCode() != "" || changed != changes {
		t.Fatalf("%s %v: code %q, changed %t, want %t", verb, p, got.ErrorCode(), changed, changes)
	}
}

// mute mutes a person forever or for a time. The person may already be muted.
func (h *home) mute(t *rapid.T) {
	h.runDue(t)
	p, more, until := h.drawPair(t), "", time.Time{}
	if rapid.Bool().Draw(t, "for a while") {
		until = h.N.Clock.Now().Add(time.Minute)
		more = fmt.Sprintf(`,until:%q`, until.UTC().Format(time.RFC3339Nano))
	}
	had, muted := h.mutes[p]
	h.act(t, "mute", p, more, !muted || !had.Equal(until))
	h.mutes[p] = until
}

func (h *home) unmute(t *rapid.T) {
	h.runDue(t)
	p := h.drawPair(t)
	_, muted := h.mutes[p]
	h.act(t, "unmute", p, "", muted)
	delete(h.mutes, p)
}

// runDue runs the due jobs, including the jobs of expired mutes: a mute holds until its job has run.
func (h *home) runDue(*rapid.T) {
	h.N.Settle()
	h.JobsPending = false
	for p, until := range h.mutes {
		if !until.IsZero() && !until.After(h.N.Clock.Now()) {
			delete(h.mutes, p)
		}
	}
}

// hide hides a person from another, or ends the hide.
func (h *home) hide(t *rapid.T) {
	p := h.drawPair(t)
	h.JobsPending = true // the job changes the other person's feed
	if _, hides := h.hides[p]; hides {
		h.act(t, "unhideFrom", p, "", true)
		delete(h.hides, p)
		return
	}
	h.act(t, "hideFrom", p, "", true)
	h.hides[p] = h.CountPublished()
}

func (h *home) block(t *rapid.T) {
	p := h.drawPair(t)
	_, blocked := h.blocks[p]
	h.act(t, "block", p, "", !blocked)
	if !blocked {
		h.blocks[p] = h.CountPublished()
	}
	delete(h.Follows[p.who], p.whom)
	delete(h.Follows[p.whom], p.who)
	h.JobsPending = true // as in hide
}

func (h *home) unblock(t *rapid.T) {
	p := h.drawPair(t)
	_, blocked := h.blocks[p]
	h.act(t, "unblock", p, "", blocked)
	delete(h.blocks, p)
}

// follow lets a drawn person follow another. It is refused while either person blocks the other. If the other person blocks, the
// answer is the same as for a user who does not exist.
func (h *home) follow(t *rapid.T) {
	p := h.drawPair(t)
	_, blocks := h.blocks[p]
	_, blocked := h.blocks[relation{p.whom, p.who}]
	if !blocks && !blocked {
		h.FollowOne(t, p.who, p.whom)
		return
	}
	want := "NOT_FOUND" // a block by the other person is not disclosed
	if blocks {
		want = "FORBIDDEN"
	}
	if got := h.N.Ask(p.who, fmt.Sprintf(`mutation{follow(input:{userId:"user:%s"}){badges{version}}}`, p.whom), nil); got.ErrorCode() != want {
		t.Fatalf("follow %v, one of whom blocks the other: code %q, want %s", p, got.ErrorCode(), want)
	}
}

// pinMode changes the mode of an author's future posts.
func (h *home) pinMode(t *rapid.T) {
	person := h.DrawPerson(t, "author")
	mode := rapid.SampledFrom([]string{"SMALL", "BIG", "HUGE", "HUGE", "null"}).Draw(t, "mode")
	h.N.Must("operator:admin", fmt.Sprintf(`mutation{pinAuthorMode(input:{userId:"user:%s",mode:%s}){author{mode}}}`, person, mode), nil, nil)
	if rapid.Bool().Draw(t, "at once") {
		h.runDue(t)
	}
}

// runCleaner runs the cleaner over all keys, which must change nothing visible.
func (h *home) runCleaner(t *rapid.T) {
	if err := h.N.Projector.AskForCleaning(h.N.TB.Context()); err != nil {
		t.Fatal(err)
	}
	cleaner := h.N.Projector.Cleaner(time.Hour)
	for took := true; took; {
		var err error
		if took, err = cleaner.RunOnce(h.N.TB.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// leaveInFlight leaves a post in flight: some of the chunks of its followers are done and some wait. Every follower still sees the post on
// the first page, and afterwards in the count.
func (h *home) leaveInFlight(t *rapid.T) {
	h.runDue(t)
	audience := func(author string) (count int) {
		for _, person := range h.People {
			if _, follows := h.FollowedSince(person, author); follows {
				count++
			}
		}
		return count
	}
	h.PublishAs(slices.MaxFunc(h.People, func(a, b string) int { return cmp.Compare(audience(a), audience(b)) }))
	quick, bulk := h.N.Workers[0], h.N.Workers[1]
	h.N.Work(quick)
	for range rapid.IntRange(0, 2).Draw(t, "chunks") {
		h.N.Work(bulk)
	}
	h.N.TailChangelog()
	for _, person := range h.People {
		h.N.ReadFeedPage(person, 1, "", "")
		h.CompareFeed(t, person)
	}
}

// publishSeveral publishes several posts of drawn authors at once.
func (h *home) publishSeveral(t *rapid.T) {
	for range rapid.IntRange(2, 5).Draw(t, "posts") {
		h.Publish(t)
	}
}

func (h *home) compareAll(t *rapid.T) {
	h.runDue(t)
	for _, person := range h.People {
		h.CompareFeed(t, person)
	}
}

func (h *home) actions() map[string]func(*rapid.T) {
	actions := map[string]func(*rapid.T){"compare": h.compareAll}
	for name, action := range map[string]func(*rapid.T){
		"publish": h.Publish, "publish several": h.publishSeveral, "delete": h.Delete, "follow": h.follow, "follow again": h.follow, "follow once more": h.follow,
		"unfollow": h.Unfollow, "mode": h.SetFollowMode, "mark": h.MarkSeen, "mute": h.mute, "unmute": h.unmute, "hide": h.hide, "block": h.block, "unblock": h.unblock,
		"flip": h.pinMode, "work": h.RunSomeJobs, "clean": h.runCleaner, "half": h.leaveInFlight,
		"walk": func(t *rapid.T) { h.runDue(t); h.CheckPagedFeed(t) },
		"look": func(t *rapid.T) { h.ReadBadges(t, h.DrawPerson(t, "person")) },
	} {
		actions[name] = action
	}
	if h.Flush != nil {
		actions["flush"] = func(*rapid.T) { h.Flush() }
	}
	if h.lose != nil {
		actions["lose a key"] = func(*rapid.T) { h.lose() }
	}
	return actions
}

// setSmallChunks makes the fan-out of a post one job for each follower.
func setSmallChunks(cfg *fanout.Config) { cfg.ChunkSize = 1 }

// Feeds, and their counts of new posts, equal the model after every history of people who follow, mute, block and hide, while
// authors become small, big and huge.
func TestHomeFeedsEqualTheModel(t *testing.T) {
	check := func(t *testing.T, n *world.Node, flush, lose func()) {
		histories.Reduce(t, 3)
		rapid.Check(t, func(t *rapid.T) {
			h := newHome(n, flush, lose)
			t.Repeat(h.actions())
			h.compareAll(t)
		})
	}
	t.Run("sqlite-redis", func(t *testing.T) {
		server := redistest.NewServer(t)
		n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: server.URL(), Manual: true, Fanout: setSmallChunks})
		check(t, n, func() { server.Flush() }, func() {
			if key, found := server.Do("RANDOMKEY").(string); found {
				server.Do("DEL", key)
			}
		})
	})
	t.Run("postgres-embedded", func(t *testing.T) {
		check(t, world.StartNode(t, world.NodeOptions{Database: sqltest.Postgres(t), Redis: "embedded", Manual: true, Fanout: setSmallChunks}), nil, nil)
	})
}
