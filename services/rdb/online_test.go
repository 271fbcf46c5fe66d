package rdb

import (
	"slices"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/redis"
	"tidings/services/redis/redistest"
)

// onlineUsers returns the online users of all shards.
func (v feedTest) onlineUsers() []services.UserID {
	v.Helper()
	var all []services.UserID
	for shard := range OnlineShards {
		users, err := v.projections.Presence.OnlineInShard(v.Context(), shard)
		v.must(err)
		for _, user := range users {
			if onlineShard(user) != shard {
				v.Errorf("user %d is in the shard %d", user, shard)
			}
		}
		all = append(all, users...)
	}
	slices.Sort(all)
	count, err := v.projections.Presence.CountOnline(v.Context())
	v.must(err)
	if count != len(all) {
		v.Errorf("%d are counted, %d listed", count, len(all))
	}
	return all
}

// A user who is online is listed whatever node they are on, and no longer once their lease has ended.
func TestOnlineUsersAreListedUntilTheirLeaseEnds(t *testing.T) {
	test := func(t *testing.T, url string) {
		here, there, clock := twoNodes(t, url)
		if online := here.onlineUsers(); len(online) != 0 {
			t.Errorf("%v are online before anybody has entered", online)
		}
		here.must(here.projections.Presence.WriteOnlineLeases(t.Context(), []services.UserID{1, 65, 1<<32 - 1}, time.Minute))
		there.must(there.projections.Presence.WriteOnlineLeases(t.Context(), []services.UserID{2, 65}, 3*time.Minute))
		if online := there.onlineUsers(); !slices.Equal(online, []services.UserID{1, 2, 65, 1<<32 - 1}) {
			t.Errorf("%v are online", online)
		}
		clock.Move(2 * time.Minute)
		if online := here.onlineUsers(); !slices.Equal(online, []services.UserID{2, 65}) {
			t.Errorf("%v are online after a lease has ended", online)
		}
		here.must(here.projections.Presence.WriteOnlineLeases(t.Context(), []services.UserID{129}, 10*time.Minute)) // user 129 is in the shard of users 1 and 65
		if kept, err := here.projections.Client.Commands().ZCard(t.Context(), onlineSetKey(onlineShard(129))).Result(); err != nil || kept != 2 {
			t.Errorf("users who left are kept: %d in the shard, %v", kept, err)
		}
		clock.Move(2 * time.Minute)
		if online := there.onlineUsers(); !slices.Equal(online, []services.UserID{129}) {
			t.Errorf("%v are online in the end", online)
		}
	}
	t.Run("redis", func(t *testing.T) { test(t, redistest.Redis(t)) })
	t.Run("cluster", func(t *testing.T) { test(t, redistest.Cluster(t)) })
}

func TestOnlineUsersWithoutRedisAreUnavailable(t *testing.T) {
	server := redistest.NewServer(t)
	v := feedTest{t, openProjections(t, redis.Options{URL: server.URL(), NodeID: "here"})}
	server.Kill()
	if _, err := v.projections.Presence.CountOnline(t.Context()); !services.IsUnavailable(err) {
		t.Errorf("a count without Redis: %v", err)
	}
	if _, err := v.projections.Presence.OnlineInShard(t.Context(), 0); !services.IsUnavailable(err) {
		t.Errorf("a list without Redis: %v", err)
	}
}
