package live

import (
	"context"
	"fmt"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/rdb"
	"tidings/services/rdb/rdbtest"
	"tidings/services/redis"
	"tidings/services/redis/clienttest"
)

func TestSlotLeasesOfBoardSessions(t *testing.T) {
	eachRedis(t, func(v boardTest) {
		now := time.Now()
		lease := func(slot string) string {
			v.Helper()
			read, err := v.projection.readBoard(v.Context(), boardQuery{Reader: listReader, Limit: 1, Slot: slot})
			v.must(err)
			if held := read.Lease; !held.RedisAnswered || held.Until.IsZero() != (held.Holder == "") {
				v.Errorf("the lease of the slot %q is %+v", slot, held)
			}
			return read.Lease.Holder
		}
		touch := func(slot, session string, until time.Time) {
			v.Helper()
			held, err := v.projection.touchSession(v.Context(), listReader, slot, session, until)
			v.must(err)
			if now := lease(slot); held != (now == session) && until.After(time.Now()) {
				v.Errorf("%q holds the slot %q: %v, and it has %q", session, slot, held, now)
			}
		}
		left := func() time.Duration {
			v.Helper()
			left, err := v.projection.Client.Commands().PTTL(v.Context(), sessionsKey(listReader)).Result()
			v.must(err)
			return left
		}
		if lease("") != "" || lease("phone") != "" {
			v.Error("there are leases before any")
		}
		touch("", "a", now.Add(time.Hour))
		touch("phone", "b;c", now.Add(30*time.Minute))
		if lease("") != "a" || lease("phone") != "b;c" || lease("desk") != "" {
			v.Errorf("leases: %q, %q, %q", lease(""), lease("phone"), lease("desk"))
		}
		if end := left(); end < 59*time.Minute || end > 61*time.Minute {
			v.Errorf("the leases end in %s, want an hour", end)
		}
		touch("phone", "d", now.Add(2*time.Hour))
		if end := left(); lease("phone") != "d" || end < 119*time.Minute {
			v.Errorf("the slot's next session is %q and ends in %s", lease("phone"), end)
		}
		touch("phone", "c", now.Add(3*time.Hour))
		if lease("phone") != "d" {
			v.Errorf("a session that was read when the next one took its slot takes it back: %q", lease("phone"))
		}
		touch("", "a", now.Add(-time.Second))
		if end := left(); lease("") != "" || end < 119*time.Minute {
			v.Errorf("a lease that has ended is %q, all end in %s", lease(""), end)
		}
		for i := range 3 * maxSessionSlots {
			touch(fmt.Sprint("request ", i), "e", now.Add(3*time.Hour+time.Duration(i)*time.Minute))
		}
		if n, err := v.projection.Client.Commands().HLen(v.Context(), sessionsKey(listReader)).Result(); err != nil || n != maxSessionSlots {
			v.Errorf("%d slots are kept, want %d: %v", n, maxSessionSlots, err)
		}
		if lease("request 0") != "" || lease(fmt.Sprint("request ", 3*maxSessionSlots-1)) != "e" {
			v.Error("it was not the leases that end first that were forgotten")
		}
		v.must(v.projection.Client.Commands().Set(v.Context(), sessionsKey(listReader), "x", 0).Err())
		v.buildFromFacts(rdb.FeedFacts{})
		n := v.documentVersion()
		touch("phone", "f", now.Add(time.Hour))
		if lease("phone") != "f" || v.documentVersion() != n {
			v.Errorf("after a key of another type the lease is %q, the version %d", lease("phone"), v.documentVersion())
		}
	})
}

// The cleaner drops sessions without an expiry, and no others.
func TestSessionsWithoutAnExpiryAreDropped(t *testing.T) {
	eachRedis(t, func(v boardTest) {
		_, err := v.projection.touchSession(v.Context(), listReader, "phone", "a", time.Now().Add(time.Hour))
		v.must(err)
		v.must(v.projection.Client.Commands().HSet(v.Context(), sessionsKey(otherHost), "phone", "1;a").Err())
		for position, done := (rdb.KeyWalkPosition{}), false; !done; {
			var found rdb.KeyWalkFindings
			found, position, done, err = v.projection.WalkKeys(v.Context(), position, 100)
			v.must(err)
			_, _, err = v.projection.DropLeftovers(v.Context(), found.Leftovers)
			v.must(err)
		}
		for user, want := range map[services.UserID]int64{listReader: 1, otherHost: 0} {
			if got, err := v.projection.Client.Commands().Exists(v.Context(), sessionsKey(user)).Result(); err != nil || got != want {
				v.Errorf("user %d has %d lists of sessions, want %d: %v", user, got, want, err)
			}
		}
	})
}

// A page after a position among the upcoming shows reads the newest replays. A board whose document is broken is not ready.
func TestBoardsOfBrokenDocumentsAreNotReady(t *testing.T) {
	eachRedis(t, func(v boardTest) {
		v.buildFromFacts(rdb.FeedFacts{Hosts: []services.FollowedAuthor{{Author: listHost, ItemsCountAfter: 3}}})
		v.mergeReplays(replayMerge{Stamp: v.beginReplays(), IsRebuild: true, Entries: replaysEndedBetween(1, 9, listHost)})
		read, err := v.projection.readBoard(v.Context(), boardQuery{Reader: listReader, Limit: 2, Before: ShowPosition{Score: -5, ID: 3}})
		v.must(err)
		if len(read.Replays) != 2 || read.Replays[0] != replayEndedAt(9, listHost) || len(read.Hosts) != 1 {
			v.Errorf("from among the upcoming: %+v", read)
		}
		for field, value := range map[string]string{"L": "12345678901", "B": "7", "st": "0", "e": "1"} {
			had := v.readField(field)
			v.writeField(field, value)
			if read := v.readBoard(); read.Ready || read.ListReady || read.Hosts != nil {
				v.Errorf("%s = %q: %+v", field, value, read)
			}
			v.writeField(field, had)
		}
		if read := v.readBoard(); !read.Ready || !read.ListReady {
			v.Errorf("mended: %+v", read)
		}
	})
}

// documentVersion is the version of the reader's document.
func (v boardTest) documentVersion() uint64 {
	v.Helper()
	versions, err := v.projection.DocumentVersions(v.Context(), []services.UserID{listReader})
	v.must(err)
	return versions[0]
}

// While Redis hangs, its guard refuses reads of boards at once, and lets only one read through after each pause.
func TestEveryReadOfABoardInAHungRedisIsGuarded(t *testing.T) {
	open := func(t *testing.T, options redis.Options) projection {
		return projection{rdbtest.Open(t, options, rdb.DocumentShape{})}
	}
	clienttest.EveryReadIsGuarded(t, open, map[string]func(ctx context.Context, c projection) error{
		"board": func(ctx context.Context, c projection) error {
			_, err := c.readBoard(ctx, boardQuery{Reader: listReader, Limit: 20})
			return err
		},
		"board's hosts": func(ctx context.Context, c projection) error {
			_, err := c.readBoard(ctx, boardQuery{Reader: listReader})
			return err
		},
		"session": func(ctx context.Context, c projection) error {
			_, err := c.touchSession(ctx, listReader, "slot", "session", time.Now().Add(time.Hour))
			return err
		},
	})
}
