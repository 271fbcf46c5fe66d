package rdb

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/redis"
	"tidings/services/redis/redistest"
)

// twoNodes are the clients of two nodes, "here" and "there", on one Redis and one clock.
func twoNodes(t *testing.T, url string) (here, there feedTest, clock *redistest.ManualClock) {
	clock = redistest.NewManualClock(time.Now())
	here = feedTest{t, openProjections(t, redis.Options{URL: url, NodeID: "here", Clock: clock, ReadTimeout: longReadTimeout})}
	there = feedTest{t, openProjections(t, redis.Options{URL: url, NodeID: "there", Clock: clock, ReadTimeout: longReadTimeout})}
	return here, there, clock
}

func TestUsersAreNotifiedUntilTheirLeaseEnds(t *testing.T) {
	test := func(t *testing.T, url string) {
		here, there, clock := twoNodes(t, url)
		here.buildFromFacts(FeedFacts{})
		version := uint64(0)
		wantNodes := func(what string, want ...string) {
			t.Helper()
			version++
			nodes := there.putCounts(newLikeCounts(version)).OnlineNodes
			slices.Sort(nodes)
			if !slices.Equal(nodes, want) {
				t.Errorf("%s: %q are notified, want %q", what, nodes, want)
			}
		}
		users := []services.UserID{reader, otherUser}
		wantNodes("nobody has entered")
		here.must(here.projections.Presence.WriteOnlineLeases(t.Context(), users, time.Minute))
		wantNodes("one node", "here")
		there.must(there.projections.Presence.WriteOnlineLeases(t.Context(), users, 2*time.Minute))
		wantNodes("two nodes", "here", "there")
		here.must(here.projections.Presence.RemoveOnlineLeases(t.Context(), users[:1]))
		wantNodes("one has left", "there")
		here.must(here.projections.Presence.RemoveOnlineLeases(t.Context(), users[:1]))
		wantNodes("it leaves again", "there")
		// A node whose lease has ended gets no hints, even while the other node keeps the key alive.
		clock.Move(-2 * time.Minute)
		here.must(here.projections.Presence.WriteOnlineLeases(t.Context(), users, time.Minute))
		clock.Move(2 * time.Minute)
		there.must(there.projections.Presence.WriteOnlineLeases(t.Context(), users, time.Minute))
		wantNodes("one lease has ended", "there")
		here.must(here.projections.Presence.WriteOnlineLeases(t.Context(), users, time.Minute))
		wantNodes("and is renewed", "here", "there")
		there.must(there.projections.Presence.RemoveOnlineLeases(t.Context(), users))
		here.must(here.projections.Presence.RemoveOnlineLeases(t.Context(), users))
		wantNodes("all have left")
		if n, err := here.projections.Client.Commands().Exists(t.Context(), onlineKey(reader)).Result(); err != nil || n != 0 {
			t.Errorf("the presence of nobody is kept: %d, %v", n, err)
		}
	}
	// The test has no part for the embedded Redis: one client's is not shared with another client.
	t.Run("redis", func(t *testing.T) { test(t, redistest.Redis(t)) })
	t.Run("cluster", func(t *testing.T) { test(t, redistest.Cluster(t)) })
}

// watchedUsers returns which of the users have an open subscription on any node.
func (v feedTest) watchedUsers(users ...services.UserID) (watched []services.UserID) {
	v.Helper()
	of, err := v.projections.Presence.UsersWithOpenSubscription(v.Context(), users)
	v.must(err)
	for _, user := range users {
		if of[user] {
			watched = append(watched, user)
		}
	}
	return watched
}

// A user stops being watched at once when they leave the last node, or when the lease of a node that died has ended. The online users,
// which fan-out serves first, still include users whose lease has not ended since they left.
func TestUsersAreWatchedUntilTheyLeaveTheLastNode(t *testing.T) {
	test := func(t *testing.T, url string) {
		here, there, clock := twoNodes(t, url)
		both := []services.UserID{reader, otherUser}
		want := func(what string, want ...services.UserID) {
			t.Helper()
			for _, v := range []feedTest{here, there} {
				if got := v.watchedUsers(both...); !slices.Equal(got, want) {
					t.Errorf("%s: %v are watched, want %v", what, got, want)
				}
			}
		}
		want("nobody has entered")
		here.must(here.projections.Presence.WriteOnlineLeases(t.Context(), both, time.Minute))
		there.must(there.projections.Presence.WriteOnlineLeases(t.Context(), both[:1], 2*time.Minute))
		want("on two nodes and on one", both...)
		here.must(here.projections.Presence.RemoveOnlineLeases(t.Context(), both))
		want("one node was left", reader)
		here.must(here.projections.Presence.WriteOnlineLeases(t.Context(), both, time.Minute))
		want("they came back", both...)
		there.must(there.projections.Presence.RemoveOnlineLeases(t.Context(), both))
		want("the other node was left", both...)
		here.must(here.projections.Presence.RemoveOnlineLeases(t.Context(), both))
		want("all were left")
		if online := here.onlineUsers(); !slices.Equal(online, sorted(both)) {
			t.Errorf("%v are online within a lease", online)
		}
		here.must(here.projections.Presence.WriteOnlineLeases(t.Context(), both, time.Minute))
		there.must(there.projections.Presence.WriteOnlineLeases(t.Context(), both[1:], 3*time.Minute))
		clock.Move(time.Minute + time.Millisecond)
		want("one node died", otherUser)
		clock.Move(2 * time.Minute)
		want("both did")
	}
	t.Run("redis", func(t *testing.T) { test(t, redistest.Redis(t)) })
	t.Run("cluster", func(t *testing.T) { test(t, redistest.Cluster(t)) })
}

func sorted(users []services.UserID) []services.UserID {
	users = slices.Clone(users)
	slices.Sort(users)
	return users
}

func TestOnlineLeasesUseTheNodesClockAndExpireTheirKey(t *testing.T) {
	redistest.EachRedis(t, func(t *testing.T, url string) {
		clock := redistest.NewManualClock(time.UnixMilli(1_700_000_000_123))
		v := feedTest{t, openProjections(t, redis.Options{URL: url, NodeID: "here", Clock: clock})}
		users := make([]services.UserID, 300)
		for i := range users {
			users[i] = services.UserID(i)
		}
		ctx, trips := redis.WithRoundTrips(t.Context())
		v.must(v.projections.Presence.WriteOnlineLeases(ctx, users, 90*time.Second))
		if trips.Count() != 1 {
			t.Errorf("300 users entered in %d round trips, want 1", trips.Count())
		}
		for _, user := range []services.UserID{0, 150, 299} {
			until, err := v.projections.Client.Commands().HGet(t.Context(), onlineKey(user), "here").Result()
			if want := strconv.Itoa(1_700_000_090_123); err != nil || until != want {
				t.Errorf("user %d: the lease ends at %q, %v: want %s", user, until, err, want)
			}
			if left, err := v.projections.Client.Commands().TTL(t.Context(), onlineKey(user)).Result(); err != nil || left <= 80*time.Second || left > 90*time.Second {
				t.Errorf("user %d: the key lives for %s, %v", user, left, err)
			}
		}
		ctx, trips = redis.WithRoundTrips(t.Context())
		if watched, err := v.projections.Presence.UsersWithOpenSubscription(ctx, users); err != nil || len(watched) != len(users) || trips.Count() != 1 {
			t.Errorf("%d of %d are watched, %v, %d round trips", len(watched), len(users), err, trips.Count())
		}
		ctx, trips = redis.WithRoundTrips(t.Context())
		v.must(v.projections.Presence.RemoveOnlineLeases(ctx, users))
		if n, err := v.projections.Client.Commands().Exists(t.Context(), onlineKey(150)).Result(); err != nil || n != 0 || trips.Count() != 1 {
			t.Errorf("after all have left: %d keys, %v, %d round trips", n, err, trips.Count())
		}
		v.must(v.projections.Presence.WriteOnlineLeases(t.Context(), nil, time.Minute))
		v.must(v.projections.Presence.RemoveOnlineLeases(t.Context(), nil))
	})
}

func TestCallsWithoutRedisAreUnavailable(t *testing.T) {
	server := redistest.NewServer(t)
	v := feedTest{t, openProjections(t, redis.Options{URL: server.URL(), NodeID: "here"})}
	server.Kill()
	for what, err := range map[string]error{
		"enter": v.projections.Presence.WriteOnlineLeases(t.Context(), []services.UserID{reader}, time.Minute),
		"watched": func() error {
			_, err := v.projections.Presence.UsersWithOpenSubscription(t.Context(), []services.UserID{reader})
			return err
		}(),
		"document": func() error { _, err := v.projections.Documents(t.Context(), []services.UserID{reader}); return err }(),
		"versions": func() error {
			_, err := v.projections.DocumentVersions(t.Context(), []services.UserID{reader})
			return err
		}(),
		"page":     func() error { _, err := v.projections.Inbox(t.Context(), reader, 9, 9); return err }(),
		"author":   func() error { _, err := v.projections.AuthorPostsInInbox(t.Context(), reader, author); return err }(),
		"stamp":    func() error { _, err := v.projections.Client.Now(t.Context()); return err }(),
		"stamp of": func() error { _, err := v.projections.TakeUserStamp(t.Context(), reader); return err }(),
		"push": func() error {
			_, err := v.projections.AddToInboxes(t.Context(), 1, []InboxPost{{reader, countedEntry(1)}})
			return err
		}(),
		"copies": func() error { _, _, err := v.projections.Copies(t.Context(), []services.PostID{1}, nil); return err }(),
		"put":    v.projections.PutCopies(t.Context(), []services.Post{{ID: 1}}, nil),
		"active": v.projections.MarkActive(t.Context(), []services.UserID{reader}, 1, time.Hour),
	} {
		if !services.IsUnavailable(err) {
			t.Errorf("%s without Redis: %v, want UNAVAILABLE", what, err)
		}
	}
}
