package rdb

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"tidings/services"
	"tidings/services/redis"
)

// OnlineShards is the number of shards of the users who are online. One set of all these users would be one key, on one master. With
// shards, a chunk of a fan-out also reads only a part of the users. A change of the number would lose the users who are online until
// they renew their leases.
//
// Fan-out gives each of its chunks of online users some shards, so there can be no more such chunks than shards.
const OnlineShards = 64

// Presence records which users have open subscriptions, and on which nodes, as leases that end by themselves. It is safe for concurrent
// use.
type Presence struct{ client *redis.Client }

// onlineShard is the shard of a user. IDs are dense, so the shards are equally large.
func onlineShard(user services.UserID) int { return int(user) % OnlineShards }

// WriteOnlineLeases records that the users have open subscriptions on this node, until now + lease unless it is called again. It
// writes twice: by user, for hints, and by shard, for fan-out. A crash of this node does no harm: readers ignore both records after
// the end of the lease.
func (c Presence) WriteOnlineLeases(ctx context.Context, users []services.UserID, lease time.Duration) error {
	// The end is by the node's clock and not by Redis' clock, because readers compare the ends with their own clocks.
	now := c.client.Clock().Now()
	end := now.Add(lease).UnixMilli()
	until := strconv.FormatInt(end, 10)
	byShard := map[int][]redis.Z{}
	for _, user := range users {
		byShard[onlineShard(user)] = append(byShard[onlineShard(user)], redis.Z{Score: float64(end), Member: strconv.FormatUint(uint64(user), 10)})
	}
	return sendWrites(ctx, c.client, func(p redis.Pipeliner) {
		for _, user := range users {
			// The key expires with the last lease that is written. Readers ignore a field whose own lease has ended.
			p.HSet(ctx, onlineKey(user), c.client.NodeID(), until)
			p.Expire(ctx, onlineKey(user), lease)
		}
		for shard, entering := range byShard {
			// Each call removes users whose lease has ended from the shard, so that no cleaner has to.
			p.ZAdd(ctx, onlineSetKey(shard), entering...)
			p.ZRemRangeByScore(ctx, onlineSetKey(shard), "-inf", "("+strconv.FormatInt(now.UnixMilli(), 10))
			p.Expire(ctx, onlineSetKey(shard), lease)
		}
	})
}

// CountOnline counts the users who have an open subscription on any node, or whose lease has not ended since they left.
func (c Presence) CountOnline(ctx context.Context) (count int, err error) {
	now := strconv.FormatInt(c.client.Clock().Now().UnixMilli(), 10)
	commands, err := c.client.Pipeline(ctx, func(p redis.Pipeliner) {
		for shard := range OnlineShards {
			p.ZCount(ctx, onlineSetKey(shard), now, "+inf")
		}
	})
	if err != nil {
		return 0, err
	}
	for _, command := range commands {
		in, err := command.(*redis.IntCmd).Result()
		if err != nil {
			return 0, redis.MapError(err)
		}
		count += int(in)
	}
	return count, nil
}

// OnlineInShard lists the users of one of the OnlineShards shards who have an open subscription on any node, or whose lease has not
// ended since they left.
func (c Presence) OnlineInShard(ctx context.Context, shard int) ([]services.UserID, error) {
	now := strconv.FormatInt(c.client.Clock().Now().UnixMilli(), 10)
	members, err := c.client.Commands().ZRangeByScore(ctx, onlineSetKey(shard), &redis.ZRangeBy{Min: now, Max: "+inf"}).Result()
	if err != nil {
		return nil, redis.MapError(err)
	}
	users := make([]services.UserID, 0, len(members))
	for _, member := range members {
		// A member that is no ID was written by something else: fan-out must not fail because of it.
		if id, err := strconv.ParseUint(member, 10, 32); err == nil {
			users = append(users, services.UserID(id))
		}
	}
	return users, nil
}

// UsersWithOpenSubscription returns which of some users have an open subscription on any node. Unlike OnlineOf, it leaves out users
// who left. The users of a node that died are included until their lease ends. It is one round trip.
func (c Presence) UsersWithOpenSubscription(ctx context.Context, users []services.UserID) (watched map[services.UserID]bool, err error) {
	commands, err := c.client.Read(ctx, func(p redis.Pipeliner) {
		for _, user := range users {
			p.HVals(ctx, onlineKey(user))
		}
	})
	if err != nil {
		return nil, err
	}
	now := c.client.Clock().Now().UnixMilli()
	watched = map[services.UserID]bool{}
	for i, user := range users {
		ends, err := commands[i].(*redis.StringSliceCmd).Result()
		if err != nil {
			return nil, redis.MapError(err)
		}
		for _, end := range ends { // one for each node
			if at, err := strconv.ParseInt(end, 10, 64); err == nil && at >= now {
				watched[user] = true
			}
		}
	}
	return watched, nil
}

// OnlineOf returns which of some users have an open subscription on any node, or a lease that has not ended since they left. It is one
// round trip.
func (c Presence) OnlineOf(ctx context.Context, users []services.UserID) (online map[services.UserID]bool, err error) {
	byShard := map[int][]services.UserID{}
	for _, user := range users {
		byShard[onlineShard(user)] = append(byShard[onlineShard(user)], user)
	}
	// The order of a map differs at each walk, and the answers below need the order of the commands.
	shards := slices.Collect(maps.Keys(byShard))
	commands, err := c.client.Pipeline(ctx, func(p redis.Pipeliner) {
		for _, shard := range shards {
			members := services.Map(byShard[shard], func(user services.UserID) string { return strconv.FormatUint(uint64(user), 10) })
			p.ZMScore(ctx, onlineSetKey(shard), members...)
		}
	})
	if err != nil {
		return nil, err
	}
	now := float64(c.client.Clock().Now().UnixMilli())
	online = map[services.UserID]bool{}
	for i, shard := range shards {
		ends, err := commands[i].(*redis.FloatSliceCmd).Result()
		if err != nil {
			return nil, redis.MapError(err)
		}
		for k, end := range ends {
			if end >= now { // 0 stands for a user who is not in the set
				online[byShard[shard][k]] = true
			}
		}
	}
	return online, nil
}

// RemoveOnlineLeases records that the users have no open subscription on this node any more. The users stay in their shards until their
// lease ends: they may be online on another node, and fan-out only serves them earlier than it has to.
func (c Presence) RemoveOnlineLeases(ctx context.Context, users []services.UserID) error {
	return sendWrites(ctx, c.client, func(p redis.Pipeliner) {
		for _, user := range users {
			p.HDel(ctx, onlineKey(user), c.client.NodeID())
		}
	})
}

// sendWrites sends commands that write and may be repeated, so that Read may repair a key of the wrong type in between.
func sendWrites(ctx context.Context, client *redis.Client, fill func(redis.Pipeliner)) error {
	commands, err := client.Read(ctx, fill)
	if err != nil {
		return err
	}
	for _, command := range commands {
		if err := command.Err(); err != nil {
			return redis.MapError(err)
		}
	}
	return nil
}
